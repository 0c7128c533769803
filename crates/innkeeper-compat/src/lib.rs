//! Every published AHP client against the real host.
//!
//! [`version`] lists the versions and their words, [`sdk`] drives the published client and reducers of one version
//! with JSON commands, [`mirror`] drives its reducers alone, and [`client`] is a client of any version for scenarios. The scenarios are in `tests/it`.
//!
//! Nothing here uses the host, and of its translation only the list of versions: the published crates are the judges.

pub mod client;
pub mod comparison;
pub mod program;
#[macro_use]
pub mod sdk;
#[macro_use]
pub mod mirror;
pub mod version;
pub mod wire;
pub mod words;

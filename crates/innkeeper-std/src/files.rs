//! Files of users, reached through opened directories (`cap_std::fs::Dir`).

pub(crate) mod confined;
pub(crate) mod create;
pub(crate) mod follow;
pub(crate) mod open;
pub(crate) mod remove;
pub(crate) mod resolve;
pub(crate) mod temp_entry;
#[cfg(feature = "walk")]
pub(crate) mod walk;

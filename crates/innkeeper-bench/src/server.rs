//! Servers under test: starting them, and what they cost.

pub(crate) mod process;
pub(crate) mod usage;

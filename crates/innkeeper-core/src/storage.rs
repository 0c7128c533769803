//! Storage: the records a journal persists, and how sessions leave memory and come back.

pub(crate) mod evict;
mod import;
pub(crate) mod listing;
pub(crate) mod load;
pub(crate) mod mode;
pub(crate) mod open;
pub(crate) mod persist;
pub mod records;
mod recover;

//! The services that an agent gets from its client: text files and terminals.

pub(crate) mod files;
pub(crate) mod terminals;

//! The protocol as types: the action table, requests, messages, snapshots and errors.

pub mod action_table;
pub(crate) mod answer_numbers;
pub mod decode;
pub(crate) mod dialect;
pub mod error;
pub mod frame;
pub(crate) mod method_scopes;
pub mod request;
pub mod snapshot;
pub mod uri;

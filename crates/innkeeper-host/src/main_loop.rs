//! The main loop: the one task that owns the core.
//!
//! `task.rs` is the loop, `message.rs` its inputs, `perform.rs` the interpreter of the core's effects,
//! `durability.rs` the gate that holds effects back until they are persisted, and `recovery.rs` the restart of the
//! core after a failure of the journal.

mod agent_tools;
pub(crate) mod connections;
pub(crate) mod durability;
pub(crate) mod message;
mod perform;
pub(crate) mod recovery;
pub(crate) mod requests;
pub(crate) mod task;

pub(crate) use message::Message;

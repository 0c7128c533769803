//! The main loop: the one task that owns the core.
//!
//! `task.rs` is the loop and `message.rs` has its inputs. Messages about connections, sessions and terminals are handled
//! by `clients.rs`, `sessions.rs` and the service of terminals. `perform.rs` interprets the core's effects. The other
//! parts have state of their own: `connections.rs`, `agents.rs`, `requests.rs` (tickets of requests in flight) and
//! `durability.rs`, the gate that holds effects back until they are persisted. `recovery.rs` replaces the core after a
//! failure. `handles.rs` is how the parts reach the loop.

pub(crate) mod agents;
mod clients;
pub(crate) mod connections;
pub(crate) mod durability;
pub(crate) mod handles;
pub(crate) mod message;
mod perform;
mod recovery;
pub(crate) mod requests;
mod sessions;
pub(crate) mod task;

pub(crate) use message::Message;

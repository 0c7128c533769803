//! Connections, messages and delivery: raw sockets and the published client against the real program.

mod access;
mod bad_input;
mod bad_messages;
mod delivery;
mod dispatch;
mod lessons;
mod limits;
mod local_transports;
mod mixed_versions;
mod notifications;
mod reconnect;
mod reconnect_edges;
pub(crate) mod scopes;
mod shutdown;
mod versions;
mod websocket;

//! Connections: who may connect, the transports, and the queue in front of each connection.
//!
//! A transport ([`http`] with WebSockets, [`stdio`]) accepts a byte stream, and [`connection::serve`] runs it: one
//! task reads requests and hands them to the main loop, and one task writes from the connection's [`outbox`].

pub mod access;
pub(crate) mod close;
pub mod connection;
pub mod dialect;
pub mod http;
pub mod outbox;
pub mod reverse_requests;
pub mod stdio;
pub mod transport;
pub mod web;
mod working_directories;

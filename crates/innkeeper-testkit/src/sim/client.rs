//! Simulated clients: their connections, their mirrors, and what they expect of the host.

pub(super) mod connection;
pub(super) mod decoding;
pub(super) mod fitting;
pub(super) mod history;
pub(super) mod mirror;
pub(super) mod optimism;
pub(super) mod queue;
pub(super) mod requests;
pub(super) mod session_list;
mod settled;
pub(super) mod transports;

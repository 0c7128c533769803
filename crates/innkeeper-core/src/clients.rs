//! Clients: their connections, what they subscribe to, what they may do, and how they sign in.

pub mod access;
pub(crate) mod agent_tokens;
mod authenticate;
pub(crate) mod channels;
pub(crate) mod client;
pub(crate) mod credentials;
pub(crate) mod handshake;
pub(crate) mod permissions;
mod subscriptions;

//! Scenarios about clients: handshake, subscriptions, dispatch, sign-in.

pub(crate) mod active_clients;
mod dispatch;
mod handshake;
mod older_versions;
mod reconnect;
mod signing_in;
mod subscriptions;

//! The core seen from outside, one scenario at a time. Ids in names and comments are those of the
//! host's list of protocol requirements; `docs/` says where to find it.

mod dispatch;
mod handshake;
mod harness;
mod reconnect;
mod sessions;
mod subscriptions;
mod summaries;
mod turns;

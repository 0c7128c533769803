//! The core seen from outside, one scenario at a time. Ids in names and comments, such as NEG-02 or
//! E-06, name the protocol requirement or trap that a scenario is about.

mod dispatch;
mod handshake;
mod harness;
mod reconnect;
mod sessions;
mod subscriptions;
mod summaries;
mod turns;

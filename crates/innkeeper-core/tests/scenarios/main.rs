//! The core seen from outside, one scenario at a time. Ids in names and comments, such as NEG-02 or
//! E-06, name the protocol requirement or trap that a scenario is about.

mod active_clients;
mod approvals;
mod chats;
mod clocks;
mod configuration;
mod corners;
mod customizations;
mod directories;
mod dispatch;
mod disposal;
mod grants;
mod handshake;
mod harness;
mod history;
mod host_settings;
mod mcp;
mod moves;
mod pending;
mod prompts;
mod questions;
mod reconnect;
mod sessions;
mod signing_in;
mod subscriptions;
mod summaries;
mod telemetry;
mod told;
mod tools;
mod turns;
mod upkeep;
mod watchdog;
mod watches;
mod windows;
mod workers;
mod working;

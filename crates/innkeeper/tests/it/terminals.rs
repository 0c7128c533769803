//! Terminals with real shells, seen through the published client.

mod agents;
mod claims;
mod command_detection;
mod command_line;
mod endings;
mod faults;
mod flood;
mod lifecycle;
mod screens;
pub(crate) mod support;

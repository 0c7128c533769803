//! The core seen from outside, one scenario at a time. Ids in names and comments, such as NEG-02 or
//! E-06, name the protocol requirement or trap that a scenario is about.

mod chat;
mod clients;
mod clocks;
mod corners;
mod cost_of_a_delta;
mod customizations;
mod harness;
mod mcp;
mod resources;
mod session;
mod telemetry;
mod terminals;
mod windowed_histories;

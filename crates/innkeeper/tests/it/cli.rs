//! The command line of the program: output, files and exit codes.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test with a line number")]

mod approvals;
mod client_commands;
mod doctor;
mod mcp;
mod pending;
mod prompts;
mod sessions;
mod startup;
mod stopping;
mod support;
mod turns;

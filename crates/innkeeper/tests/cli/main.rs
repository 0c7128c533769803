//! Drives the built program from outside: its output, its files, its exit codes.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test with a line number")]

mod approvals;
mod clients;
mod doctor;
mod mcp;
#[path = "../../../innkeeper-mcp/tests/it/odd.rs"]
mod odd;
mod pending;
mod sessions;
mod startup;
mod stopping;
mod support;

/// Not a scenario: the odd MCP server itself, when this program is started as one.
#[test]
fn odd_server() {
    if let Ok(kind) = std::env::var(odd::KIND) {
        odd::serve(&kind);
    }
}

//! Customizations end to end: the real program, real files, and the published client whose mirror must equal what a
//! fresh subscriber gets.
//!
//! `dNN` names an edge case of the loading profile, other names requirements.

mod client_servers;
mod clients;
mod command;
mod files;
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test with a line number")]
#[path = "../../../innkeeper-mcp/tests/it/odd.rs"]
mod odd;
mod places;
mod reading;
mod saving;
mod support;
mod switches;

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::{HostOptions, HostProcess};

/// Not a scenario: the odd MCP server itself, when this program is started as one.
#[test]
fn odd_server() {
    if let Ok(kind) = std::env::var(odd::KIND) {
        odd::serve(&kind);
    }
}

fn options() -> HostOptions {
    HostOptions::new(env!("CARGO_BIN_EXE_innkeeper"))
}

/// A host and one published client.
async fn start_with_client() -> (HostProcess, OfficialClient) {
    let host = HostProcess::start(options()).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    (host, client)
}

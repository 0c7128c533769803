//! The real program, driven from outside: over real sockets with the published client and its state mirror, over raw
//! sockets for messages that client would never send, and through its command line.
//!
//! Requirements are named by their ids, and `lesson_NN` names a failure that other hosts were reported for. All
//! scenarios are in one executable, so that they are linked once; a filter such as `durable::` selects a part.

mod agents;
mod cli;
mod customizations;
mod durable;
mod editor;
mod keys;
mod mcp;
mod mcp_servers;
mod model;
mod resources;
mod sessions;
mod terminals;
mod transport;
mod turns;
mod web;

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::{HostOptions, HostProcess};

/// Not a scenario: the misbehaving MCP server itself, when this program is started as one.
#[test]
fn odd_server() {
    innkeeper_testkit::misbehaving_server::serve_if_asked();
}

/// Not a scenario: the scripted ACP agent itself, when this program is started as one.
#[test]
fn acp_agent() {
    innkeeper_testkit::scripted_acp_agent::serve_if_asked();
}

fn options() -> HostOptions {
    HostOptions::new(env!("CARGO_BIN_EXE_innkeeper"))
}

async fn start() -> HostProcess {
    HostProcess::start(options()).await
}

/// A host and one published client.
async fn start_with_client() -> (HostProcess, OfficialClient) {
    let host = start().await;
    let client = OfficialClient::connect(host.address(), "first").await;
    (host, client)
}

//! Drives the real program over real sockets with clients that are not ours: the published client and its state
//! mirror, and raw sockets for everything that client would never send.
//!
//! Requirements are named by their ids, and `lesson_NN` names a failure that other hosts were reported for.

mod absent_owners;
mod access;
mod aggregation;
mod approvals;
mod attachments;
mod bad_input;
mod bad_messages;
mod browsing;
mod cancel_and_errors;
mod chat_upkeep;
mod chats;
mod client_tools;
mod completions;
mod configuration;
mod contents;
mod delivery;
mod dispatching;
mod history;
mod lessons;
mod limits;
mod local_transports;
mod moves;
mod notifications;
mod pending_messages;
mod questions;
mod reconnect;
mod reconnect_edges;
mod remembered_approvals;
mod repositories;
mod resource_grants;
mod resources;
mod scopes;
mod session_lifecycle;
mod shutdown;
mod streaming;
mod tool_calls;
mod transform;
mod transform_failures;
mod turn_details;
mod versions;
mod watches;
mod websocket;
mod workers;

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::{HostOptions, HostProcess};

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

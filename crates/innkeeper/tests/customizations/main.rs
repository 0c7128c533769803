//! Customizations end to end: the real program, real files, and the published client whose mirror must equal what a
//! fresh subscriber gets.
//!
//! `dNN` names an edge case of the loading profile, other names requirements.

mod clients;
mod command;
mod files;
mod places;
mod saving;
mod support;
mod switches;

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::{HostOptions, HostProcess};

fn options() -> HostOptions {
    HostOptions::new(env!("CARGO_BIN_EXE_innkeeper"))
}

/// A host and one published client.
async fn start_with_client() -> (HostProcess, OfficialClient) {
    let host = HostProcess::start(options()).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    (host, client)
}

//! MCP servers as people have them, through the real program and the published client: servers from the npm registry,
//! servers that misbehave, servers that sessions share, and those of the host's configuration.

mod app_sampling;
mod apps;
mod everything;
mod files;
mod host_config;
mod misbehaving;
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test with a line number")]
#[path = "../../../innkeeper-mcp/tests/it/npm.rs"]
mod npm;
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test with a line number")]
#[path = "../../../innkeeper-mcp/tests/it/odd.rs"]
mod odd;
mod offers;
mod policy;
mod sharing;
mod side_channel;
mod support;
mod trust;
mod trust_in_session;
mod waiting;

/// Not a scenario: the odd server itself, when this program is started as one.
#[test]
fn odd_server() {
    if let Ok(kind) = std::env::var(odd::KIND) {
        odd::serve(&kind);
    }
}

//! `innkeeper mcp`: the MCP servers of sessions, seen and changed from the shell like any client does it.

mod auth;
mod call;
mod change;
mod list;
mod oauth;
mod server;
mod session;
mod turn;
mod wanted;
mod whole;

use ahp_types::state::SessionState;

use crate::cli::{McpArgs, McpCommand};
use crate::failure::Failure;

/// Does what the command says; without one, lists the servers.
pub(super) async fn run(args: McpArgs) -> Result<(), Failure> {
    match args.command.unwrap_or(McpCommand::List(args.list)) {
        McpCommand::List(args) => list::run(args).await,
        McpCommand::Start(args) => change::start(args).await,
        McpCommand::Stop(args) => change::stop(args).await,
        McpCommand::Call(args) => call::run(args).await,
        McpCommand::Auth(args) => auth::run(args).await,
    }
}

/// What people call the server with this id.
pub(super) fn name_of(state: &SessionState, id: &str) -> Option<String> {
    let servers = server::listed(state);
    let found = servers.iter().find(|listed| listed.server.id == id);
    found.map(|listed| listed.server.name.clone())
}

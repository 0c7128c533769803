//! `innkeeper mcp`: lists and changes the MCP servers of sessions, as any client can.

mod auth;
mod call;

mod full_result;
mod list;
mod oauth;
mod server;
mod session;
mod sign_in_request;
mod start_stop;
mod turn;

use ahp_types::state::SessionState;

use crate::args::{McpArgs, McpCommand};
use crate::discovery::DataDir;
use crate::failure::Failure;

/// Runs the subcommand; without one, lists the servers.
pub(super) async fn run(dir: &DataDir, args: McpArgs) -> Result<(), Failure> {
    match args.command.unwrap_or(McpCommand::List(args.list)) {
        McpCommand::List(args) => list::run(dir, args).await,
        McpCommand::Start(args) => start_stop::start(dir, args).await,
        McpCommand::Stop(args) => start_stop::stop(dir, args).await,
        McpCommand::Call(args) => call::run(dir, args).await,
        McpCommand::Auth(args) => auth::run(dir, args).await,
    }
}

/// Returns the name of the server with this id.
pub(super) fn name_of(state: &SessionState, id: &str) -> Option<String> {
    let servers = server::listed(state);
    let found = servers.iter().find(|listed| listed.server.id == id);
    found.map(|listed| listed.server.name.clone())
}

//! Flags of `innkeeper mcp`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::ConnectArgs;
use crate::failure::exit_code_table;

/// Flags of `innkeeper mcp`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct McpArgs {
    #[command(subcommand)]
    pub command: Option<McpCommand>,
    #[command(flatten)]
    pub list: McpListArgs,
}

impl McpArgs {
    /// Returns the flags that name the host.
    pub(crate) fn connect(&self) -> &ConnectArgs {
        let session = match &self.command {
            None => &self.list.session,
            Some(McpCommand::List(args)) => &args.session,
            Some(McpCommand::Start(args) | McpCommand::Stop(args)) => &args.session,
            Some(McpCommand::Call(args)) => &args.session,
            Some(McpCommand::Auth(args)) => &args.session,
        };
        &session.connect
    }
}

/// The subcommands of `innkeeper mcp`.
#[derive(Clone, Debug, Subcommand)]
pub enum McpCommand {
    /// List the servers of a session with their status; this is the default.
    ///
    /// If no session works in the directory, the command opens a temporary one.
    #[command(after_long_help = exit_code_table())]
    List(McpListArgs),
    /// Start or restart a server of a session, and wait for its status.
    #[command(after_long_help = exit_code_table())]
    Start(McpServerArgs),
    /// Stop a server of a session; other sessions that share its process keep it.
    #[command(after_long_help = exit_code_table())]
    Stop(McpServerArgs),
    /// Call a tool of a server and print the result.
    ///
    /// The call runs in a temporary session and needs an approval like any other.
    #[command(after_long_help = exit_code_table())]
    Call(McpCallArgs),
    /// Sign in to a server, for all sessions of the host.
    ///
    /// Prints the sign-in address and opens it in a browser if there is one. The host gets the token and refreshes it.
    /// Calls that wait for the sign-in continue.
    #[command(after_long_help = exit_code_table())]
    Auth(McpAuthArgs),
}

/// The flags that select a session.
#[derive(Args, Clone, Debug, Default)]
pub struct McpSessionArgs {
    /// The session: its URI, the beginning of its URI, or a directory of the host for its latest session [default: the
    /// current directory, unless --url names a host on another machine].
    #[arg(long, value_name = "SESSION|DIR")]
    pub session: Option<String>,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `innkeeper mcp list`.
#[derive(Args, Clone, Debug)]
pub struct McpListArgs {
    /// List the servers of every session.
    #[arg(long, conflicts_with = "session")]
    pub all: bool,
    /// Print `{"session":…,"container":…,"enabled":…,"server":…}` as JSON, one per line, instead of text.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub session: McpSessionArgs,
}

/// Flags of `innkeeper mcp start` and `innkeeper mcp stop`.
#[derive(Args, Clone, Debug)]
pub struct McpServerArgs {
    /// The server: its name, plugin:name, or its id.
    #[arg(value_name = "NAME")]
    pub name: String,
    #[command(flatten)]
    pub session: McpSessionArgs,
}

/// Flags of `innkeeper mcp call`.
#[derive(Args, Clone, Debug)]
pub struct McpCallArgs {
    /// The server: its name, plugin:name, or its id.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The tool, as the server names it [default: list the tools].
    #[arg(value_name = "TOOL")]
    pub tool: Option<String>,
    /// The arguments, a JSON object; `-` reads them from standard input.
    #[arg(value_name = "JSON", default_value = "{}")]
    pub arguments: String,
    /// Approve this one call without asking.
    #[arg(long)]
    pub yes: bool,
    /// Print the whole result as JSON, in the format of AHP, instead of its text.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub session: McpSessionArgs,
}

/// Flags of `innkeeper mcp auth`.
#[derive(Args, Clone, Debug)]
pub struct McpAuthArgs {
    /// The server: its name, plugin:name, or its id [default: the only one that needs a sign-in].
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Only print the sign-in address.
    #[arg(long)]
    pub no_browser: bool,
    /// Paste the final address of the browser, or the code, if the browser is on another machine.
    #[arg(long, conflicts_with_all = ["token_stdin", "revoke"])]
    pub paste: bool,
    /// Read a token from standard input instead of signing in.
    #[arg(long, conflicts_with = "revoke")]
    pub token_stdin: bool,
    /// Sign out: the host deletes the token, and revokes it if the server supports that.
    #[arg(long)]
    pub revoke: bool,
    /// The resource to sign out of, if the server does not name one.
    #[arg(long, value_name = "URL", requires = "revoke")]
    pub resource: Option<String>,
    /// An OAuth client that you registered with the authorization server.
    #[arg(long, value_name = "ID")]
    pub client_id: Option<String>,
    /// The port of the redirect address; register http://127.0.0.1:PORT/callback with the client [default: any free
    /// port].
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), conflicts_with_all = ["token_stdin", "revoke"])]
    pub redirect_port: Option<u16>,
    /// File with the secret of that client, if it has one.
    #[arg(long, value_name = "FILE")]
    pub client_secret_file: Option<PathBuf>,
    #[command(flatten)]
    pub session: McpSessionArgs,
}

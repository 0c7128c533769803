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
    /// List the servers of a session, what each does and why; this is what `innkeeper mcp` alone does.
    ///
    /// Where no session works in the directory, one is opened for the purpose and is gone afterwards.
    #[command(after_long_help = exit_code_table())]
    List(McpListArgs),
    /// Start a server of a session, anew if it runs, and wait for what becomes of it.
    #[command(after_long_help = exit_code_table())]
    Start(McpServerArgs),
    /// Stop a server of a session; others that share its process keep it.
    #[command(after_long_help = exit_code_table())]
    Stop(McpServerArgs),
    /// Call a tool of a server and print what it answers.
    ///
    /// The call takes place in a session of its own, which is gone afterwards, and is approved there like any other.
    #[command(after_long_help = exit_code_table())]
    Call(McpCallArgs),
    /// Sign in to a server that wants it, for all sessions of the host.
    ///
    /// The address to sign in at is printed, and opened in a browser where there is one; the host gets the token, and
    /// keeps and renews it. Calls that wait for somebody to sign in go on by themselves.
    #[command(after_long_help = exit_code_table())]
    Auth(McpAuthArgs),
}

/// Which session is meant.
#[derive(Args, Clone, Debug, Default)]
pub struct McpSessionArgs {
    /// The session: its URI, the beginning of it, or a directory of the host, whose latest session is meant [default: the
    /// current directory, unless --url names a host on another machine].
    #[arg(long, value_name = "SESSION|DIR")]
    pub session: Option<String>,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `innkeeper mcp list`.
#[derive(Args, Clone, Debug)]
pub struct McpListArgs {
    /// List the servers of every session that the host has.
    #[arg(long, conflicts_with = "session")]
    pub all: bool,
    /// Print `{"session":…,"container":…,"enabled":…,"server":…}` as JSON, one per line, instead of words.
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
    /// The tool, as the server names it [default: print the tools there are].
    #[arg(value_name = "TOOL")]
    pub tool: Option<String>,
    /// The arguments, a JSON object; `-` reads them from standard input.
    #[arg(value_name = "JSON", default_value = "{}")]
    pub arguments: String,
    /// Approve this one call without asking.
    #[arg(long)]
    pub yes: bool,
    /// Print the whole result as JSON, as AHP has it, instead of its text.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub session: McpSessionArgs,
}

/// Flags of `innkeeper mcp auth`.
#[derive(Args, Clone, Debug)]
pub struct McpAuthArgs {
    /// The server: its name, plugin:name, or its id [default: the one that wants somebody to sign in].
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Only print the address to sign in at.
    #[arg(long)]
    pub no_browser: bool,
    /// Paste the address that the browser ends at, or the code, for browsers on another machine.
    #[arg(long, conflicts_with_all = ["token_stdin", "revoke"])]
    pub paste: bool,
    /// Read a token from standard input instead of asking for one.
    #[arg(long, conflicts_with = "revoke")]
    pub token_stdin: bool,
    /// Sign out: the host forgets the token, and has it declared void where it can.
    #[arg(long)]
    pub revoke: bool,
    /// What to sign out of, where the server does not ask to sign in: the address that it is for.
    #[arg(long, value_name = "URL", requires = "revoke")]
    pub resource: Option<String>,
    /// An OAuth client that you registered with the authorization server.
    #[arg(long, value_name = "ID")]
    pub client_id: Option<String>,
    /// The port of this machine that the browser comes back to; register http://127.0.0.1:PORT/callback with the client
    /// [default: any that is free].
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), conflicts_with_all = ["token_stdin", "revoke"])]
    pub redirect_port: Option<u16>,
    /// A file with the secret of that client, if it has one.
    #[arg(long, value_name = "FILE")]
    pub client_secret_file: Option<PathBuf>,
    #[command(flatten)]
    pub session: McpSessionArgs,
}

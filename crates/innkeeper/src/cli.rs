//! The command line.

mod approvals;
mod customizations;
mod grants;
mod mcp;
mod trust;
mod upkeep;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::address::ListenAddress;
use crate::failure::exit_code_table;
use crate::origin::Origin;

pub(crate) use approvals::{
    AllowApprovalArgs, ApprovalPlaceArgs, ApprovalsArgs, ApprovalsCommand, ListApprovalsArgs, RevokeApprovalArgs,
};
pub(crate) use customizations::CustomizationsArgs;
pub(crate) use grants::{AllowArgs, GrantsArgs, GrantsCommand, ListGrantsArgs, RevokeArgs};
pub(crate) use mcp::{McpArgs, McpAuthArgs, McpCallArgs, McpCommand, McpListArgs, McpServerArgs, McpSessionArgs};
pub(crate) use trust::{PlaceArgs, TrustArgs, TrustCommand, TrustListArgs};
pub(crate) use upkeep::{
    DeleteArgs, DoctorArgs, ExportArgs, ImportArgs, ListArgs, PruneArgs, RestoreArgs, SessionsArgs, SessionsCommand,
    ShowArgs,
};

/// The standalone host for the Agent Host Protocol.
///
/// Without a subcommand, innkeeper serves: it listens on 127.0.0.1:4747, creates a token on its first start, and
/// tells on standard error how to connect.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true, after_long_help = exit_code_table())]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the host until Ctrl-C; this is what `innkeeper` alone does.
    #[command(after_long_help = exit_code_table())]
    Serve(ServeArgs),
    /// Send a message to a session and stream the answer to standard output.
    #[command(after_long_help = exit_code_table())]
    Send(SendArgs),
    /// Print a channel's state, then its actions as they come, until Ctrl-C.
    #[command(after_long_help = exit_code_table())]
    Watch(WatchArgs),
    /// List, show, export, import, delete, restore or prune sessions; alone it lists them.
    ///
    /// With a host on the data directory, the host is asked; without one, the kept sessions themselves are read.
    #[command(after_long_help = exit_code_table())]
    Sessions(SessionsArgs),
    /// Check configuration, data directory, kept sessions and ports, and say what to do.
    #[command(after_long_help = exit_code_table())]
    Doctor(DoctorArgs),
    /// Print the plugins, skills, agents, rules, hooks and MCP servers that a session in a directory would get.
    ///
    /// Needs no host. Nothing that is found is run.
    #[command(after_long_help = exit_code_table())]
    Customizations(CustomizationsArgs),
    /// List what people said about hooks and MCP servers of workspaces and plugins, allow them or take it back; alone it
    /// lists.
    ///
    /// Needs no host. A running one notices within about a second: servers that waited start, and those that are not
    /// allowed any longer end.
    #[command(after_long_help = exit_code_table())]
    Trust(TrustArgs),
    /// List the MCP servers of a session, start and stop them, or call a tool of one; alone it lists.
    #[command(after_long_help = exit_code_table())]
    Mcp(McpArgs),
    /// List what the sessions of a running host wait for: approvals, questions, sign-ins.
    #[command(after_long_help = exit_code_table())]
    Pending(PendingArgs),
    /// Let a tool run that waits for an approval, or its result through.
    #[command(after_long_help = exit_code_table())]
    Approve(ApproveArgs),
    /// Keep a tool that waits for an approval from running, or its result back.
    #[command(after_long_help = exit_code_table())]
    Deny(DenyArgs),
    /// Answer the questions of an agent.
    #[command(after_long_help = exit_code_table())]
    Answer(AnswerArgs),
    /// List, give and take back what clients may reach besides the files of their sessions; alone it lists them.
    #[command(after_long_help = exit_code_table())]
    Grants(GrantsArgs),
    /// List, give and take back what runs without asking, in a session, in a workspace or everywhere; alone it lists
    /// them.
    #[command(after_long_help = exit_code_table())]
    Approvals(ApprovalsArgs),
}

/// Flags that every command understands.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct CommonArgs {
    /// Directory for the host's token and state [default: the platform's data directory].
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Configuration file [default: innkeeper.toml in the platform's configuration directory, if there is one].
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// What to log on standard error, for instance `debug` or `warn,innkeeper_host=trace`.
    #[arg(long, value_name = "FILTER")]
    pub(crate) log: Option<String>,
}

/// Flags of `innkeeper serve`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ServeArgs {
    /// Address to listen on; port 0 picks a free one, and `:PORT` means 127.0.0.1 [default: 127.0.0.1:4747].
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<ListenAddress>,
    /// Listen on this Unix socket as well; only this user may connect.
    #[arg(long, value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,
    /// Speak newline-delimited JSON-RPC on standard input and output, and end when the input ends.
    ///
    /// No TCP port is opened unless --listen is given.
    #[arg(long)]
    pub(crate) stdio: bool,
    /// File with the token that clients must show; created with a fresh token if it does not exist [default: the file
    /// `token` in the data directory].
    #[arg(long, value_name = "FILE", conflicts_with = "no_auth")]
    pub(crate) token_file: Option<PathBuf>,
    /// Let every process on this machine connect without a token; refused for addresses beyond loopback.
    #[arg(long)]
    pub(crate) no_auth: bool,
    /// Only show what is kept, beside the host that owns the data directory or without one; every change is refused.
    ///
    /// The owner's files stay as they are: clients find this host by the address it prints, not by the data directory.
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Print one line of JSON on standard output once the host listens.
    #[arg(long, conflicts_with = "stdio")]
    pub(crate) json: bool,
    /// Accept browser connections from this exact origin, for instance https://example.com; may be repeated.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<Origin>,
    /// Accept connections that name the host like this, for instance inn.example.com or 192.168.1.2:4747; may be repeated.
    ///
    /// The loopback names and the address of --listen are always accepted. Others are refused, so that web pages
    /// cannot reach the host by a name of their own.
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// How a client command finds its host.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ConnectArgs {
    /// Address of the host, ws:// or wss:// [default: the host that runs on the data directory].
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// File with the token to show [default: the one the running host names; none for any other --url].
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// Flags of `innkeeper send`.
#[derive(Args, Clone, Debug)]
pub(crate) struct SendArgs {
    /// Session to continue [default: create one].
    #[arg(long, value_name = "URI", conflicts_with = "provider")]
    pub(crate) session: Option<String>,
    /// Where the new session works [default: the current directory, unless --url names a host on another machine].
    #[arg(long, value_name = "DIR", conflicts_with = "session")]
    pub(crate) directory: Option<PathBuf>,
    /// Model for this message [default: the agent's choice].
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Custom agent of the session for this message, by its name, as plugin:name, or by its URI.
    #[arg(long = "as", value_name = "AGENT")]
    pub(crate) custom_agent: Option<String>,
    /// Agent for the new session [default: the host's choice].
    #[arg(long, value_name = "PROVIDER")]
    pub(crate) provider: Option<String>,
    /// Print the action envelopes of the session and its chat as JSON, one per line, instead of the text.
    #[arg(long)]
    pub(crate) json: bool,
    /// The message; several words are joined by spaces, and `-` reads it from standard input.
    #[arg(required = true, value_name = "TEXT")]
    pub(crate) text: Vec<String>,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// Flags of `innkeeper watch`.
#[derive(Args, Clone, Debug)]
pub(crate) struct WatchArgs {
    /// Print JSON, one value per line: first the snapshot (unless the channel has no state), then each action envelope;
    /// other notifications as `{"method":…,"params":…}`.
    #[arg(long)]
    pub(crate) json: bool,
    /// The channel, for instance ahp-root:// or a session's or a chat's URI.
    #[arg(value_name = "URI")]
    pub(crate) uri: String,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// Flags of `innkeeper pending`.
#[derive(Args, Clone, Debug)]
pub(crate) struct PendingArgs {
    /// Print `{"session":…,"request":…}` as JSON, one per line, instead of words.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// Flags of `innkeeper approve`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ApproveArgs {
    /// What to approve: an id that `innkeeper pending` shows, or a part of one [default: the only approval there is].
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    /// The choice to make, for instance allow-session [default: none, which approves this once].
    #[arg(long, value_name = "OPTION")]
    pub(crate) option: Option<String>,
    /// The rule to remember in place of the one that the option stands for, such as `run_command(cargo test *)`.
    #[arg(long, value_name = "RULE", requires = "option", conflicts_with = "input")]
    pub(crate) rule: Option<String>,
    /// Run the tool with this input instead, where it may be edited.
    #[arg(long, value_name = "TEXT")]
    pub(crate) input: Option<String>,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// Flags of `innkeeper deny`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DenyArgs {
    /// What to deny: an id that `innkeeper pending` shows, or a part of one [default: the only approval there is].
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Why, for the agent to read.
    #[arg(long, value_name = "TEXT")]
    pub(crate) because: Option<String>,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// Flags of `innkeeper answer`.
#[derive(Args, Clone, Debug)]
pub(crate) struct AnswerArgs {
    /// The answers, as `question=answer`; questions may stay without one.
    #[arg(value_name = "QUESTION=ANSWER")]
    pub(crate) values: Vec<String>,
    /// What to answer: an id that `innkeeper pending` shows, or a part of one [default: the only question there is].
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Decline to answer.
    #[arg(long, conflicts_with = "values")]
    pub(crate) decline: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn command_line_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_subcommand_means_serve() {
        let cli = Cli::try_parse_from(["innkeeper", "--listen", ":0", "--no-auth"]).unwrap();
        assert!(cli.command.is_none());
        assert!(cli.serve.no_auth);
        assert_eq!(cli.serve.listen.unwrap().socket_addr().to_string(), "127.0.0.1:0");
    }

    #[test]
    fn json_and_stdio_exclude_each_other() {
        assert!(Cli::try_parse_from(["innkeeper", "serve", "--stdio", "--json"]).is_err());
    }
}

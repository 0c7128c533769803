//! The command line.

mod agents;
mod customizations;
mod devices;
mod doctor;
pub(crate) mod global_flags;
mod trust;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use innkeeper_cli::ClientCommand;
use innkeeper_cli::args::{CommonArgs, SessionsArgs};
use innkeeper_cli::failure::exit_code_table;
use innkeeper_editor::args::AcpArgs;
use innkeeper_tui::args::ChatArgs;

use crate::address::ListenAddress;
use crate::origin::Origin;

pub(crate) use agents::{AgentsAddArgs, AgentsArgs, AgentsCheckArgs, AgentsCommand, AgentsListArgs, BridgeArgs};
pub(crate) use customizations::CustomizationsArgs;
pub(crate) use devices::{DevicesArgs, DevicesCommand, DevicesListArgs, OpenArgs, PairArgs, RevokeArgs};
pub(crate) use doctor::DoctorArgs;
pub(crate) use trust::{TrustArgs, TrustCommand, TrustListArgs, TrustTargetArgs};

/// The standalone host for the Agent Host Protocol.
///
/// Without a subcommand, innkeeper serves: it listens on 127.0.0.1:4747, creates a token on its first start, and prints
/// on standard error how to connect.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true, after_long_help = exit_code_table())]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the host until Ctrl-C; this is the default.
    #[command(after_long_help = exit_code_table())]
    Serve(ServeArgs),
    /// Talk to agents in a full-screen client; starts a host if none runs.
    ///
    /// Quitting leaves the host and all turns running, and `innkeeper chat` comes back to them. F1 shows all keys.
    #[command(after_long_help = exit_code_table())]
    Chat(ChatArgs),
    /// Serve an editor that speaks the Agent Client Protocol (ACP), on standard input and output; starts a host if none
    /// runs.
    ///
    /// The editor starts this command itself. docs/editors.md has the configuration of each.
    #[command(after_long_help = exit_code_table())]
    Acp(AcpArgs),
    /// List, show, export, import, delete, restore or prune sessions; lists by default.
    ///
    /// Uses the host that runs on the data directory; without one, the persisted sessions themselves.
    #[command(after_long_help = exit_code_table())]
    Sessions(SessionsArgs),
    /// Check configuration, data directory, persisted sessions and ports, and say what to do.
    #[command(after_long_help = exit_code_table())]
    Doctor(DoctorArgs),
    /// Print the plugins, skills, agents, rules, hooks and MCP servers that a session in a directory would get.
    ///
    /// Needs no host. Nothing of them is run.
    #[command(after_long_help = exit_code_table())]
    Customizations(CustomizationsArgs),
    /// List, check or add the agents that are programs of their own; lists by default.
    ///
    /// Needs no host. Only `check` starts an agent.
    #[command(after_long_help = exit_code_table())]
    Agents(AgentsArgs),
    /// Pass the messages of an agent on to the tools of its session; agents run this.
    #[command(hide = true)]
    McpBridge(BridgeArgs),
    /// List, allow or revoke the trust in hooks and MCP servers of workspaces and plugins; lists by default.
    ///
    /// Needs no host. A running host notices within about a second: trusted servers start, and others end.
    #[command(after_long_help = exit_code_table())]
    Trust(TrustArgs),
    /// Open the web app in a browser of this machine.
    #[command(after_long_help = exit_code_table())]
    Open(OpenArgs),
    /// Print a link and a QR code that sign another device in to the web app.
    #[command(after_long_help = exit_code_table())]
    Pair(PairArgs),
    /// List or revoke the browsers that are signed in to the web app; lists by default.
    #[command(after_long_help = exit_code_table())]
    Devices(DevicesArgs),
    /// The commands that talk to a running host.
    #[command(flatten)]
    Client(ClientCommand),
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
    /// File with the token that clients must send; created with a fresh token if it does not exist [default: the file
    /// `token` in the data directory].
    #[arg(long, value_name = "FILE", conflicts_with = "no_auth")]
    pub(crate) token_file: Option<PathBuf>,
    /// Let every process on this machine connect without a token; only for loopback addresses.
    #[arg(long)]
    pub(crate) no_auth: bool,
    /// Serve persisted sessions read-only, beside the host that owns the data directory or without one; every change is
    /// rejected.
    ///
    /// The owner's files stay unchanged: clients find this host by the address it prints, not by the data directory.
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Print one line of JSON on standard output once the host listens.
    #[arg(long, conflicts_with = "stdio")]
    pub(crate) json: bool,
    /// Accept browser connections from this exact origin, for instance https://example.com; may be repeated.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<Origin>,
    /// Accept connections that name the host like this, for instance inn.example.com or 192.168.1.2:4747; may be
    /// repeated.
    ///
    /// The loopback names and the address of --listen are always accepted. Others are rejected, so that web pages
    /// cannot reach the host by their own names.
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
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

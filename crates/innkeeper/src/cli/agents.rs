//! Flags of `innkeeper agents`.

use clap::{Args, Subcommand};
use innkeeper_cli::args::CommonArgs;
use innkeeper_cli::failure::exit_code_table;

/// Flags of `innkeeper agents`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct AgentsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<AgentsCommand>,
    #[command(flatten)]
    pub(crate) list: AgentsListArgs,
}

/// The subcommands of `innkeeper agents`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum AgentsCommand {
    /// List the agents that are offered, and how to install the well-known ones that are missing; this is the default.
    #[command(after_long_help = exit_code_table())]
    List(AgentsListArgs),
    /// Start an agent once, and print its version, its abilities, its models and modes, or the reason why it fails.
    #[command(after_long_help = exit_code_table())]
    Check(AgentsCheckArgs),
    /// Add an agent to the configuration file.
    #[command(after_long_help = exit_code_table())]
    Add(AgentsAddArgs),
}

/// Flags of `innkeeper agents list`.
#[derive(Args, Clone, Debug)]
pub(crate) struct AgentsListArgs {
    /// Print one agent as JSON per line.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// Flags of `innkeeper agents check`.
#[derive(Args, Clone, Debug)]
pub(crate) struct AgentsCheckArgs {
    /// The agent, as `innkeeper agents` lists it.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// Flags of `innkeeper agents add`.
#[derive(Args, Clone, Debug)]
pub(crate) struct AgentsAddArgs {
    /// A name for the agent, of a-z, 0-9, - and _.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The program and its arguments; a well-known agent needs none.
    #[arg(value_name = "COMMAND", last = true)]
    pub(crate) command: Vec<String>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// Arguments of `innkeeper mcp-bridge`.
#[derive(Args, Clone, Debug)]
pub(crate) struct BridgeArgs {
    /// Address of the session's endpoint.
    #[arg(value_name = "URL")]
    pub(crate) url: String,
}

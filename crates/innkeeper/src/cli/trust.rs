//! Flags of `innkeeper trust`.

use clap::{Args, Subcommand};
use innkeeper_cli::args::CommonArgs;
use innkeeper_cli::failure::exit_code_table;

/// Flags of `innkeeper trust`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct TrustArgs {
    #[command(subcommand)]
    pub(crate) command: Option<TrustCommand>,
    #[command(flatten)]
    pub(crate) list: TrustListArgs,
}

/// The subcommands of `innkeeper trust`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum TrustCommand {
    /// List requests and decisions; this is the default.
    #[command(after_long_help = exit_code_table())]
    List(TrustListArgs),
    /// Trust the hooks and servers that a workspace or a plugin last asked for, exactly as they were then.
    #[command(after_long_help = exit_code_table())]
    Allow(TrustTargetArgs),
    /// Forget the decision about a workspace or a plugin: nothing of it runs until the user is asked again.
    #[command(after_long_help = exit_code_table())]
    Revoke(TrustTargetArgs),
}

/// Flags of `innkeeper trust list`.
#[derive(Args, Clone, Debug)]
pub(crate) struct TrustListArgs {
    /// Print one decision as JSON per line.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// Flags of `innkeeper trust allow` and `innkeeper trust revoke`.
#[derive(Args, Clone, Debug)]
pub(crate) struct TrustTargetArgs {
    /// The directory of the workspace, or CLIENT@URI of a client's plugin, as `innkeeper trust` lists it.
    #[arg(value_name = "PLACE")]
    pub(crate) place: String,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

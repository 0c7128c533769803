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

/// What can be done with decisions.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum TrustCommand {
    /// List what was asked and decided; this is what `innkeeper trust` alone does.
    #[command(after_long_help = exit_code_table())]
    List(TrustListArgs),
    /// Let what a workspace or a plugin was last asked about run, exactly as it was then.
    #[command(after_long_help = exit_code_table())]
    Allow(PlaceArgs),
    /// Forget what was decided about a workspace or a plugin: nothing of it runs until people are asked again.
    #[command(after_long_help = exit_code_table())]
    Revoke(PlaceArgs),
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
pub(crate) struct PlaceArgs {
    /// The directory of the workspace, or CLIENT@URI of a client's plugin, as `innkeeper trust` lists it.
    #[arg(value_name = "PLACE")]
    pub(crate) place: String,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

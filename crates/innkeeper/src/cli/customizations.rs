//! Flags of `innkeeper customizations`.

use std::path::PathBuf;

use clap::Args;
use innkeeper_cli::args::CommonArgs;

/// Flags of `innkeeper customizations`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CustomizationsArgs {
    /// The workspace [default: the current directory].
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
    /// Print the customizations of a session as JSON, in the format of the protocol.
    #[arg(long, conflicts_with = "explain")]
    pub(crate) json: bool,
    /// Explain why each of them is on, off, degraded or not used.
    ///
    /// A running host knows the decisions of its sessions; without one, those for the workspace and for everywhere
    /// apply.
    #[arg(long)]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

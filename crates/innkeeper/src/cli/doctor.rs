//! Flags of `innkeeper doctor`.

use clap::Args;
use innkeeper_cli::args::CommonArgs;

/// Flags of `innkeeper doctor`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DoctorArgs {
    /// Print one `{"level":…,"subject":…,"finding":…,"advice":…}` per line instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Move a damaged or foreign sessions.db aside, to a name with the date; nothing is deleted.
    #[arg(long)]
    pub(crate) move_aside: bool,
    /// Do not ask before moving.
    #[arg(long, requires = "move_aside")]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

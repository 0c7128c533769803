//! The flags of what looks after kept sessions: `innkeeper sessions` and `innkeeper doctor`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{CommonArgs, ConnectArgs};
use crate::failure::exit_code_table;

/// Flags of `innkeeper sessions`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct SessionsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<SessionsCommand>,
    #[command(flatten)]
    pub(crate) list: ListArgs,
}

/// What can be done with sessions.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List the sessions, the latest first; this is what `innkeeper sessions` alone does.
    #[command(after_long_help = exit_code_table())]
    List(ListArgs),
    /// Show a session: what it is, its chats and their latest turns.
    #[command(after_long_help = exit_code_table())]
    Show(ShowArgs),
    /// Write sessions as lines of JSON that `import` reads, beside a running host too.
    #[command(after_long_help = exit_code_table())]
    Export(ExportArgs),
    /// Read sessions that `export` wrote; one that is there already is never overwritten.
    #[command(after_long_help = exit_code_table())]
    Import(ImportArgs),
    /// Delete sessions; `restore` undoes it for as long as `deleted_days` in `[retention]` says.
    #[command(after_long_help = exit_code_table())]
    Delete(DeleteArgs),
    /// Undo the deletion of sessions; without any, list those that can be restored.
    #[command(after_long_help = exit_code_table())]
    Restore(RestoreArgs),
    /// Delete the sessions that the `[retention]` settings let go, now.
    #[command(after_long_help = exit_code_table())]
    Prune(PruneArgs),
}

/// Flags of `innkeeper sessions list`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ListArgs {
    /// Print one session summary as JSON per line instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
    /// List at most so many.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// List only those that were put away.
    #[arg(long)]
    pub(crate) archived: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// Flags of `innkeeper sessions show`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ShowArgs {
    /// The session: its URI, the beginning of it, or the beginning of its last part.
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// How many of the latest turns of each chat to show.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) turns: u32,
    /// Print one object of JSON instead: `{"session":…,"state":…,"chats":[…]}`.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// Flags of `innkeeper sessions export`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ExportArgs {
    /// The sessions: their URIs, or beginnings of them.
    #[arg(value_name = "SESSION", required_unless_present = "all", conflicts_with = "all")]
    pub(crate) sessions: Vec<String>,
    /// Export all sessions.
    #[arg(long)]
    pub(crate) all: bool,
    /// File to write; it is there when it is complete [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// Flags of `innkeeper sessions import`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ImportArgs {
    /// File that `export` wrote; `-` reads standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Import the file's only session under this URI; its chats get new URIs too.
    #[arg(long = "as", value_name = "URI")]
    pub(crate) rename: Option<String>,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// Flags of `innkeeper sessions delete`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DeleteArgs {
    /// The sessions: their URIs, or beginnings of them; with --yes, whole URIs or whole last parts of them.
    #[arg(value_name = "SESSION", required = true)]
    pub(crate) sessions: Vec<String>,
    /// Do not ask.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Remove the sessions at once, so that nobody can restore them; also ones that were deleted before.
    #[arg(long)]
    pub(crate) for_good: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// Flags of `innkeeper sessions restore`.
#[derive(Args, Clone, Debug)]
pub(crate) struct RestoreArgs {
    /// The deleted sessions: their URIs, or beginnings of them [default: list those that can be restored].
    #[arg(value_name = "SESSION")]
    pub(crate) sessions: Vec<String>,
    /// Print the list as JSON, one `{"session","deletedAt","removedAfter","summary"}` per line.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// Flags of `innkeeper sessions prune`.
#[derive(Args, Clone, Debug)]
pub(crate) struct PruneArgs {
    /// Only say what would go.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Print one `{"session":…,"modified":…,"bytes":…,"reason":…}` per line instead of words.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// Flags of `innkeeper doctor`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DoctorArgs {
    /// Print one `{"level":…,"subject":…,"finding":…,"advice":…}` per line instead of words.
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

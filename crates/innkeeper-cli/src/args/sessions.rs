//! Flags of `innkeeper sessions`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{CommonArgs, ConnectArgs};
use crate::failure::exit_code_table;

/// Flags of `innkeeper sessions`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SessionsArgs {
    #[command(subcommand)]
    pub command: Option<SessionsCommand>,
    #[command(flatten)]
    pub list: ListArgs,
}

/// The subcommands of `innkeeper sessions`.
#[derive(Clone, Debug, Subcommand)]
pub enum SessionsCommand {
    /// List the sessions, the latest first; this is the default.
    #[command(after_long_help = exit_code_table())]
    List(ListArgs),
    /// Show a session with its chats and their latest turns.
    #[command(after_long_help = exit_code_table())]
    Show(ShowArgs),
    /// Write sessions as lines of JSON for `import`, also while a host runs.
    #[command(after_long_help = exit_code_table())]
    Export(ExportArgs),
    /// Read sessions that `export` wrote; existing sessions are never overwritten.
    #[command(after_long_help = exit_code_table())]
    Import(ImportArgs),
    /// Delete sessions; `restore` undoes it within the `deleted_days` of `[retention]`.
    #[command(after_long_help = exit_code_table())]
    Delete(DeleteArgs),
    /// Give a session another title.
    #[command(after_long_help = exit_code_table())]
    Rename(RenameArgs),
    /// Archive sessions, or take them back with `--undo`.
    #[command(after_long_help = exit_code_table())]
    Archive(ArchiveArgs),
    /// Restore deleted sessions; without arguments, list them.
    #[command(after_long_help = exit_code_table())]
    Restore(RestoreArgs),
    /// Delete the sessions that exceed the limits of `[retention]`, now.
    #[command(after_long_help = exit_code_table())]
    Prune(PruneArgs),
}

/// Flags of `innkeeper sessions list`.
#[derive(Args, Clone, Debug)]
pub struct ListArgs {
    /// Print one session summary as JSON per line instead of a table.
    #[arg(long)]
    pub json: bool,
    /// List at most this many.
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// List only archived sessions.
    #[arg(long)]
    pub archived: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `innkeeper sessions show`.
#[derive(Args, Clone, Debug)]
pub struct ShowArgs {
    /// The session: its URI, the beginning of its URI, or the beginning of the last part of it.
    #[arg(value_name = "SESSION")]
    pub session: String,
    /// Number of latest turns of each chat.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub turns: u32,
    /// Print one object of JSON instead: `{"session":…,"state":…,"chats":[…]}`.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `innkeeper sessions export`.
#[derive(Args, Clone, Debug)]
pub struct ExportArgs {
    /// The sessions: their URIs, or beginnings of them.
    #[arg(value_name = "SESSION", required_unless_present = "all", conflicts_with = "all")]
    pub sessions: Vec<String>,
    /// Export all sessions.
    #[arg(long)]
    pub all: bool,
    /// File to write; it appears when it is complete [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Flags of `innkeeper sessions import`.
#[derive(Args, Clone, Debug)]
pub struct ImportArgs {
    /// File that `export` wrote; `-` reads standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Import the file's only session under this URI; its chats get new URIs too.
    #[arg(long = "as", value_name = "URI")]
    pub rename: Option<String>,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `innkeeper sessions delete`.
#[derive(Args, Clone, Debug)]
pub struct DeleteArgs {
    /// The sessions: their URIs, or beginnings of them; with --yes, whole URIs or whole last parts of them.
    #[arg(value_name = "SESSION", required = true)]
    pub sessions: Vec<String>,
    /// Do not ask.
    #[arg(long)]
    pub yes: bool,
    /// Remove the sessions at once, so that they cannot be restored; also ones that were deleted before.
    #[arg(long)]
    pub for_good: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `innkeeper sessions rename`.
#[derive(Args, Clone, Debug)]
pub struct RenameArgs {
    /// The session: its URI, or the beginning of it or of its last part.
    #[arg(value_name = "SESSION")]
    pub session: String,
    /// The title; several words are joined by spaces.
    #[arg(value_name = "TITLE", required = true)]
    pub title: Vec<String>,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `innkeeper sessions archive`.
#[derive(Args, Clone, Debug)]
pub struct ArchiveArgs {
    /// The sessions: their URIs, or beginnings of them.
    #[arg(value_name = "SESSION", required = true)]
    pub sessions: Vec<String>,
    /// Take them back from the archive.
    #[arg(long)]
    pub undo: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `innkeeper sessions restore`.
#[derive(Args, Clone, Debug)]
pub struct RestoreArgs {
    /// The deleted sessions: their URIs, or beginnings of them [default: list those that can be restored].
    #[arg(value_name = "SESSION")]
    pub sessions: Vec<String>,
    /// Print the list as JSON, one `{"session","deletedAt","removedAfter","summary"}` per line.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `innkeeper sessions prune`.
#[derive(Args, Clone, Debug)]
pub struct PruneArgs {
    /// Only list the sessions.
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask.
    #[arg(long)]
    pub yes: bool,
    /// Print one `{"session":…,"modified":…,"bytes":…,"reason":…}` per line instead of text.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub common: CommonArgs,
}

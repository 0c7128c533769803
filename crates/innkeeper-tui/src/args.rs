//! The command line of `innkeeper chat`.

use std::path::PathBuf;

use clap::Args;
use innkeeper_cli::args::ConnectArgs;

/// Flags of `innkeeper chat`.
#[derive(Args, Clone, Debug)]
pub struct ChatArgs {
    /// Session to open: its URI, or the beginning of it or of its last part [default: a new session].
    #[arg(value_name = "SESSION")]
    pub session: Option<String>,
    /// Open the latest session.
    #[arg(long, conflicts_with = "session")]
    pub last: bool,
    /// Working directory of new sessions [default: the current directory, unless --url names a host on another machine].
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Do not start a host if none runs on the data directory.
    #[arg(long)]
    pub no_start: bool,
    /// Take the mouse: the wheel scrolls and clicks open sessions, but the terminal no longer selects text.
    #[arg(long)]
    pub mouse: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

//! The clients that stay, and start a host if none runs: `innkeeper chat` and `innkeeper acp`.

mod detached_host;

use innkeeper_cli::failure::Failure;
use innkeeper_editor::args::AcpArgs;
use innkeeper_tui::args::ChatArgs;

use crate::data_dir;
use detached_host::start_host;

/// Runs the full-screen client.
pub(crate) fn chat(args: ChatArgs) -> Result<(), Failure> {
    let dir = data_dir(&args.connect.common)?;
    let start_host = start_host(&dir, &args.connect.common);
    innkeeper_cli::block_on(innkeeper_tui::run(dir, args, start_host))
}

/// Serves editors.
pub(crate) fn acp(args: AcpArgs) -> Result<(), Failure> {
    let dir = data_dir(&args.connect.common)?;
    let start_host = start_host(&dir, &args.connect.common);
    innkeeper_cli::block_on(innkeeper_editor::run(dir, args, start_host))
}

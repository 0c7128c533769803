//! Moves an unusable store aside. Nothing is deleted.

use std::fs;
use std::io;
use std::path::PathBuf;

use innkeeper_store::FILE_NAME;

use innkeeper_cli::discovery::{DataDir, unusable};
use innkeeper_cli::failure::Failure;
use innkeeper_cli::terminal::confirm;
use innkeeper_cli::terminal::note;

use super::store::is_beyond_use;

/// Moves a damaged or foreign store aside, with its log, and returns its new name.
pub(super) fn move_aside(dir: &DataDir, yes: bool) -> Result<Option<PathBuf>, Failure> {
    if !dir.path().is_dir() || !is_beyond_use(dir) {
        note("Nothing has to be moved aside: there is no damaged or foreign sessions.db.");
        return Ok(None);
    }
    // A process that has it open would continue to write to it under its new name.
    let _lock = dir.lock()?;
    let file = dir.file(FILE_NAME);
    confirm(
        &format!(
            "Move {} aside? The host then starts without its sessions.",
            file.display()
        ),
        yes,
    )?;
    let moment = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    let aside = dir.file(&format!("{FILE_NAME}.aside-{moment}"));
    if aside.exists() {
        return Err(unusable(&aside, &io::ErrorKind::AlreadyExists.into()));
    }
    // Move the log first: left behind alone, it would be read as the log of a new store.
    for tail in ["-wal", "-shm", "-journal", ""] {
        let from = dir.file(&format!("{FILE_NAME}{tail}"));
        let to = dir.file(&format!("{FILE_NAME}.aside-{moment}{tail}"));
        match fs::rename(&from, &to) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unusable(&from, &error)),
        }
    }
    Ok(Some(aside))
}

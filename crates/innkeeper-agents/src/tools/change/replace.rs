//! Replaces a file in one step: a reader finds the old one or the new one, complete.
//!
//! The new file is written beside the old one and takes its name. Its permissions are kept; other
//! names of the same file (hard links) keep the old content. A new file gets the permissions of
//! the user's files, not of the host's own. Nothing is left behind after a failure.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use cap_std::fs::{Dir, OpenOptions};
use innkeeper_std::{Opened, TempEntry, create_directories, do_not_wait, open_regular, read_whole};

use super::PlannedChange;
use crate::tools::ToolLimits;
use crate::tools::blocking::CancelFlag;
use crate::tools::paths::ToolPath;

/// Returns whether the operating system lets the host write a file. Replacing the file by its name needs no such right,
/// but a user who removed the right did so on purpose.
pub(super) fn may_write(place: &ToolPath) -> bool {
    let mut options = OpenOptions::new();
    options.write(true);
    do_not_wait(&mut options);
    place.root_dir().open_with(place.within(), &options).is_ok()
}

pub(super) fn changed_since_question(place: &ToolPath) -> String {
    format!(
        "{} changed while the user was asked, so it was not written: read it again and decide anew",
        place.quoted()
    )
}

/// Writes a change, if the file is still the one that the user saw.
pub(super) fn write(
    change: &PlannedChange,
    limits: &ToolLimits,
    umask: Option<u32>,
    cancel: &CancelFlag,
) -> Result<(), String> {
    let place = &change.place;
    let problem = |error: io::Error| match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            format!("{} was not written: there is no space left", place.quoted())
        }
        _ => format!("{} was not written: {error}", place.quoted()),
    };
    let (Some(parent), Some(name)) = (
        place.confined().relative().parent(),
        place.confined().relative().file_name(),
    ) else {
        return Err(format!("{} is a directory, not a file", place.quoted()));
    };
    let name = Path::new(name);
    let dir = if parent.as_os_str().is_empty() {
        place.root_dir().try_clone()
    } else {
        create_directories(place.root_dir(), parent, umask).and_then(|()| place.root_dir().open_dir(parent))
    };
    let dir = dir.map_err(problem)?;
    let old = existing(&dir, name).map_err(problem)?;
    let new = TempEntry::file(&dir, &change.after, old.as_ref(), umask).map_err(problem)?;
    // As late as possible, and by its name: no process can lock a file against all others, and what
    // was opened above may have another successor by now.
    let is_same = match (&change.before, existing(&dir, name).map_err(problem)?) {
        (None, None) => true,
        (Some(before), Some(file)) => {
            let now = read_whole(file, limits.change_bytes).map_err(problem)?;
            now.as_ref() == Some(before)
        }
        _ => false,
    };
    if !is_same {
        return Err(changed_since_question(place));
    }
    if cancel.should_stop() {
        return Err(format!("{} was not written: the turn was cancelled", place.quoted()));
    }
    let taken = new.take_name(name, change.before.is_none());
    taken.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => changed_since_question(place),
        _ => problem(error),
    })
}

/// The file that has the name now.
fn existing(dir: &Dir, name: &Path) -> io::Result<Option<fs::File>> {
    match open_regular(dir, name) {
        Ok(Opened::File(file)) => Ok(Some(file)),
        Ok(Opened::Directory | Opened::Special) => Err(io::Error::other("something else has taken its name")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

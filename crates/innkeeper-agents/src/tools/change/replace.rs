//! Replaces a file in one step: whoever reads it finds the old one or the new one, whole.
//!
//! The new file is written beside the old one and takes its name. Its permissions are kept; other
//! names of the same file (hard links) keep the old content. What is new gets the permissions that
//! people's files have, whatever the host's own have. Nothing is left behind when it fails.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use cap_std::fs::{Dir, OpenOptions};

use super::Change;
use crate::tools::ToolLimits;
use crate::tools::blocking::Stop;
use crate::tools::place::{Opened, Place, open_regular, read_whole};

/// Whether the operating system lets the host write a file. Taking its name needs no such right,
/// but people who took it away meant it.
pub(super) fn may_write(place: &Place) -> bool {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    {
        use cap_std::fs::OpenOptionsExt as _;
        use rustix::fs::OFlags;
        options.custom_flags((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed());
    }
    place.root.dir.open_with(place.within(), &options).is_ok()
}

pub(super) fn changed_meanwhile(place: &Place) -> String {
    format!(
        "{} changed while the person was asked, so it was not written: read it again and decide anew",
        place.quoted()
    )
}

/// Writes a change, if the file still is what people saw.
pub(super) fn write(change: &Change, limits: &ToolLimits, umask: Option<u32>, stop: &Stop) -> Result<(), String> {
    let place = &change.place;
    let problem = |error: io::Error| match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            format!("{} was not written: there is no space left", place.quoted())
        }
        _ => format!("{} was not written: {error}", place.quoted()),
    };
    let (Some(parent), Some(name)) = (place.relative.parent(), place.relative.file_name()) else {
        return Err(format!("{} is a directory, not a file", place.quoted()));
    };
    let name = Path::new(name);
    let dir = if parent.as_os_str().is_empty() {
        place.root.dir.try_clone()
    } else {
        create_dirs(&place.root.dir, parent, umask).and_then(|()| place.root.dir.open_dir(parent))
    };
    let dir = dir.map_err(problem)?;
    let old = existing(&dir, name).map_err(problem)?;
    let mut new = Unfinished::create(&dir, old.is_some()).map_err(problem)?;
    new.fill(&change.after, old.as_ref(), umask).map_err(problem)?;
    // As late as possible, and by its name: nobody can lock a file against all others, and what
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
        return Err(changed_meanwhile(place));
    }
    if stop.is_set() {
        return Err(format!("{} was not written: the turn was cancelled", place.quoted()));
    }
    let taken = new.take_name(name, change.before.is_none());
    taken.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => changed_meanwhile(place),
        _ => problem(error),
    })
}

/// Creates the directories that are missing, and only those get other permissions.
fn create_dirs(root: &Dir, path: &Path, umask: Option<u32>) -> io::Result<()> {
    let mut made = PathBuf::new();
    for name in path {
        made.push(name);
        match root.create_dir(&made) {
            Ok(()) => {
                if let Some(permissions) = permissions(0o777, umask) {
                    root.set_permissions(&made, cap_std::fs::Permissions::from_std(permissions))?;
                }
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// What is left of permissions, where the process's own way with them is not meant.
#[cfg(unix)]
fn permissions(all: u32, umask: Option<u32>) -> Option<fs::Permissions> {
    use std::os::unix::fs::PermissionsExt as _;
    umask.map(|umask| fs::Permissions::from_mode(all & !umask))
}

#[cfg(not(unix))]
fn permissions(_: u32, _: Option<u32>) -> Option<fs::Permissions> {
    None
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

/// A new file without its name. Dropped before it has one, it is removed.
struct Unfinished<'a> {
    dir: &'a Dir,
    name: PathBuf,
    file: fs::File,
    is_named: bool,
}

impl<'a> Unfinished<'a> {
    fn create(dir: &'a Dir, is_replacement: bool) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if is_replacement {
            use cap_std::fs::OpenOptionsExt as _;
            // Nobody else reads it before it has the permissions of the old one.
            options.mode(0o600);
        }
        let mut tries = 0;
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = PathBuf::from(format!(".innkeeper-{}-{number}.tmp", std::process::id()));
            match dir.open_with(&name, &options) {
                Ok(file) => {
                    return Ok(Self {
                        dir,
                        name,
                        file: file.into_std(),
                        is_named: false,
                    });
                }
                // Left behind by a host that was killed at the worst moment.
                Err(error) if error.kind() == ErrorKind::AlreadyExists && tries < 100 => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }

    fn fill(&mut self, bytes: &[u8], old: Option<&fs::File>, umask: Option<u32>) -> io::Result<()> {
        self.file.write_all(bytes)?;
        if let Some(old) = old {
            self.file.set_permissions(old.metadata()?.permissions())?;
        } else if let Some(permissions) = permissions(0o666, umask) {
            self.file.set_permissions(permissions)?;
        }
        self.file.sync_all()
    }

    fn take_name(mut self, name: &Path, is_new: bool) -> io::Result<()> {
        if is_new {
            // A link never takes the name of something that has come into being meanwhile.
            match self.dir.hard_link(&self.name, self.dir, name) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(error),
                // Not every file system has links.
                Err(_) if self.dir.symlink_metadata(name).is_ok() => return Err(ErrorKind::AlreadyExists.into()),
                Err(_) => {}
            }
        }
        self.dir.rename(&self.name, self.dir, name)?;
        self.is_named = true;
        Ok(())
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.is_named {
            // If even this fails, the directory is gone or read-only, and so is the file.
            let _ = self.dir.remove_file(&self.name);
        }
    }
}

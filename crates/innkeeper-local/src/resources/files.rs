//! Reading and writing one file.

use std::fs;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use cap_std::fs::{Dir, OpenOptions};
use innkeeper_host::resource::{Write, WriteMode};
use innkeeper_host::{Content, ResourceError};
use sha2::{Digest as _, Sha256};

use super::place::{Place, Spot, problem};

/// What a name turned out to be.
#[derive(Debug)]
pub(crate) enum Opened {
    File(fs::File),
    Directory,
    /// A pipe, a socket or a device.
    Special,
}

/// Opens a file to read it, without following its name and without waiting for anybody.
pub(crate) fn open_regular(dir: &Dir, name: &Path) -> io::Result<Opened> {
    let mut options = OpenOptions::new();
    options.read(true);
    do_not_wait(&mut options);
    let file = match dir.open_with(name, &options) {
        Ok(file) => file.into_std(),
        // A socket, or a device without a driver: it cannot be opened at all.
        Err(error) => {
            let data = dir.symlink_metadata(name);
            let is_special = data.is_ok_and(|data| !data.is_file() && !data.is_dir() && !data.is_symlink());
            return if is_special { Ok(Opened::Special) } else { Err(error) };
        }
    };
    let data = file.metadata()?;
    Ok(if data.is_file() {
        Opened::File(file)
    } else if data.is_dir() {
        Opened::Directory
    } else {
        Opened::Special
    })
}

fn do_not_wait(options: &mut OpenOptions) {
    #[cfg(unix)]
    {
        use cap_std::fs::OpenOptionsExt as _;
        use rustix::fs::OFlags;
        let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
        options.custom_flags(flags.bits().cast_signed());
    }
    #[cfg(not(unix))]
    let _ = options;
}

/// The regular file under a name, or what to say instead.
pub(crate) fn regular(uri: &str, spot: &Spot) -> Result<fs::File, ResourceError> {
    match open_regular(&spot.dir, &spot.name).map_err(|error| problem(uri, &error))? {
        Opened::File(file) => Ok(file),
        Opened::Directory => Err(invalid("uri", format!("{uri:.300} is a directory, not a file"))),
        Opened::Special => Err(ResourceError::Refused(format!(
            "{uri:.300} is a pipe, a socket or a device, which is never opened"
        ))),
    }
}

pub(crate) fn invalid(field: &'static str, problem: String) -> ResourceError {
    ResourceError::Invalid { field, problem }
}

/// Reads a file of at most `most` bytes.
pub(crate) fn read(place: &Place, spot: &Spot, most: usize) -> Result<Content, ResourceError> {
    let file = regular(&place.uri, spot)?;
    let bytes = read_whole(&place.uri, file, most)?;
    let content_type = content_type(&place.canonical(), &bytes);
    Ok(Content { bytes, content_type })
}

/// What a file grows to while it is read does not matter: no more than that is taken.
fn read_whole(uri: &str, file: fs::File, most: usize) -> Result<Vec<u8>, ResourceError> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX);
    let read = file.take(limit.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| problem(uri, &error))?;
    if bytes.len() > most {
        let problem = format!("{uri:.300} is longer than {most} bytes, the most that is read or written in one piece");
        return Err(invalid("uri", problem));
    }
    Ok(bytes)
}

/// The version of a file: of its content if it is not too long to look at, otherwise of its marks.
pub(crate) fn etag(file: &fs::File, most: usize) -> io::Result<String> {
    let data = file.metadata()?;
    let mut hash = Sha256::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX);
    if data.len() <= limit {
        let mut bytes = Vec::new();
        file.try_clone()?.take(limit).read_to_end(&mut bytes)?;
        hash.update(bytes);
    } else {
        hash.update(marks(&data).as_bytes());
    }
    Ok(hash
        .finalize()
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

#[cfg(unix)]
fn marks(data: &fs::Metadata) -> String {
    use std::os::unix::fs::MetadataExt as _;
    let changed = (data.ctime(), data.ctime_nsec(), data.mtime(), data.mtime_nsec());
    format!("{} {} {changed:?}", data.ino(), data.len())
}

#[cfg(not(unix))]
fn marks(data: &fs::Metadata) -> String {
    format!("{} {:?}", data.len(), data.modified().ok())
}

/// Writes a file. The caller holds the lock of its name, so that what is checked is what is written
/// (RES-08).
pub(crate) fn write(place: &Place, spot: &Spot, write: &Write, most: usize) -> Result<(), ResourceError> {
    let uri = &place.uri;
    let old = match regular(uri, spot) {
        Ok(file) => Some(file),
        Err(ResourceError::NotFound(_)) => None,
        Err(error) => return Err(error),
    };
    if old.is_some() && write.create_only {
        return Err(ResourceError::Exists(format!("{uri:.300} exists already")));
    }
    if let Some(wanted) = &write.if_match {
        let now = match &old {
            Some(file) => Some(etag(file, most).map_err(|error| problem(uri, &error))?),
            None => None,
        };
        if now.as_ref() != Some(wanted) {
            let problem = "changed since you looked, so nothing was written: resolve and read it again";
            return Err(ResourceError::Conflict(format!("{uri:.300} {problem}")));
        }
    }
    if let Some(old) = &old {
        check_writable(uri, spot)?;
        let is_plain_append = write.mode == WriteMode::Append && write.position == 0;
        if is_plain_append && has_one_name(old) {
            // The operating system finds the end, also while others append (RES-06).
            return append(uri, spot, &write.data);
        }
    }
    let before = match &old {
        // Nothing of it is left, so it need not be read.
        Some(_) if write.mode == WriteMode::Truncate && write.position == 0 => Vec::new(),
        Some(file) => {
            let file = file.try_clone().and_then(|mut file| {
                io::Seek::rewind(&mut file)?;
                Ok(file)
            });
            read_whole(uri, file.map_err(|error| problem(uri, &error))?, most)?
        }
        None => Vec::new(),
    };
    let after = combine(before, write)?;
    replace(spot, &after, old.as_ref()).map_err(|error| problem(uri, &error))
}

/// Puts the new bytes where they belong among the old ones (RES-05).
fn combine(mut old: Vec<u8>, write: &Write) -> Result<Vec<u8>, ResourceError> {
    let length = old.len();
    let position = usize::try_from(write.position).ok().filter(|at| *at <= length);
    let position = position.ok_or_else(|| {
        let problem = format!("is {}, and the file has {length} bytes", write.position);
        invalid("position", problem)
    })?;
    match write.mode {
        WriteMode::Truncate => {
            old.truncate(position);
            old.extend_from_slice(&write.data);
        }
        WriteMode::Insert => drop(old.splice(position..position, write.data.iter().copied())),
        WriteMode::Append => {
            let at = length - position;
            drop(old.splice(at..at, write.data.iter().copied()));
        }
    }
    Ok(old)
}

/// Taking a file's name needs no right to write it, but people who took that right away meant it.
fn check_writable(uri: &str, spot: &Spot) -> Result<(), ResourceError> {
    let mut options = OpenOptions::new();
    options.write(true);
    do_not_wait(&mut options);
    let opened = spot.dir.open_with(&spot.name, &options);
    opened.map(|_| ()).map_err(|error| problem(uri, &error))
}

#[cfg(unix)]
fn has_one_name(file: &fs::File) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    file.metadata().is_ok_and(|data| data.nlink() == 1)
}

#[cfg(not(unix))]
fn has_one_name(_: &fs::File) -> bool {
    true
}

fn append(uri: &str, spot: &Spot, data: &[u8]) -> Result<(), ResourceError> {
    let mut options = OpenOptions::new();
    options.append(true);
    do_not_wait(&mut options);
    let opened = spot
        .dir
        .open_with(&spot.name, &options)
        .map(cap_std::fs::File::into_std);
    let written = opened.and_then(|mut file| {
        if !file.metadata()?.is_file() {
            return Err(ErrorKind::PermissionDenied.into());
        }
        file.write_all(data)?;
        file.sync_data()
    });
    written.map_err(|error| problem(uri, &error))
}

/// Writes the new file beside the old one, and gives it its name: whoever reads finds one of them,
/// whole, also after a crash (F20). Other names of the old file keep what they had.
pub(crate) fn replace(spot: &Spot, bytes: &[u8], old: Option<&fs::File>) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if old.is_some() {
        use cap_std::fs::OpenOptionsExt as _;
        // Nobody else reads it before it has the permissions of the old one.
        options.mode(0o600);
    }
    let mut new = Unnamed::create(&spot.dir, |name| {
        spot.dir.open_with(name, &options).map(cap_std::fs::File::into_std)
    })?;
    new.made.write_all(bytes)?;
    if let Some(old) = old {
        new.made.set_permissions(old.metadata()?.permissions())?;
    }
    new.made.sync_all()?;
    new.take_name(&spot.name, old.is_none())
}

/// Something new that has no name of its own yet. Dropped before it has one, it is removed.
pub(crate) struct Unnamed<'a, T> {
    dir: &'a Dir,
    pub(crate) name: PathBuf,
    pub(crate) made: T,
    is_named: bool,
}

impl<'a, T> Unnamed<'a, T> {
    pub(crate) fn create(dir: &'a Dir, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let mut tries = 0;
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = PathBuf::from(format!("{UNNAMED}r{}-{number}.tmp", std::process::id()));
            match make(&name) {
                Ok(made) => {
                    return Ok(Self {
                        dir,
                        name,
                        made,
                        is_named: false,
                    });
                }
                // Left behind by a host that was killed at the worst moment.
                Err(error) if error.kind() == ErrorKind::AlreadyExists && tries < 100 => tries += 1,
                Err(error) => {
                    // Half of a copy may be there.
                    let _ = dir.remove_file(&name);
                    return Err(error);
                }
            }
        }
    }

    /// Gives it its name; `is_new` means that nothing else may have it.
    pub(crate) fn take_name(mut self, name: &Path, is_new: bool) -> io::Result<()> {
        if is_new {
            rename_to_free(self.dir, &self.name, self.dir, name)?;
        } else {
            self.dir.rename(&self.name, self.dir, name)?;
        }
        self.is_named = true;
        Ok(())
    }
}

impl<T> Drop for Unnamed<'_, T> {
    fn drop(&mut self) {
        if !self.is_named {
            // If even this fails, the directory is gone or read-only.
            let gone = self.dir.remove_file(&self.name);
            if gone.is_err() {
                let _ = self.dir.remove_dir_all(&self.name);
            }
        }
    }
}

/// How the names of what is not finished start.
pub(crate) const UNNAMED: &str = ".innkeeper-";

/// Renames, unless the new name is taken.
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub(crate) fn rename_to_free(from: &Dir, old: &Path, to: &Dir, new: &Path) -> io::Result<()> {
    use rustix::fs::{RenameFlags, renameat_with};
    match renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        // Not every file system can do it in one step.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {
            rename_if_free(from, old, to, new)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub(crate) fn rename_to_free(from: &Dir, old: &Path, to: &Dir, new: &Path) -> io::Result<()> {
    rename_if_free(from, old, to, new)
}

fn rename_if_free(from: &Dir, old: &Path, to: &Dir, new: &Path) -> io::Result<()> {
    if to.symlink_metadata(new).is_ok() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    from.rename(old, to, new)
}

/// What a file is, told by its first bytes and then by its name.
pub(crate) fn content_type(path: &Path, bytes: &[u8]) -> Option<String> {
    let magic: [(&[u8], &str); 6] = [
        (b"\x89PNG\r\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"%PDF-", "application/pdf"),
        (b"PK\x03\x04", "application/zip"),
        (b"\x1f\x8b", "application/gzip"),
    ];
    if let Some((_, kind)) = magic.iter().find(|(start, _)| bytes.starts_with(start)) {
        return Some((*kind).to_owned());
    }
    let extension = path.extension().and_then(|name| name.to_str()).unwrap_or_default();
    let named = match extension.to_ascii_lowercase().as_str() {
        "md" | "markdown" => "text/markdown",
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "csv" => "text/csv",
        "js" | "mjs" => "text/javascript",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "xml" => "application/xml",
        _ if std::str::from_utf8(bytes).is_ok() => "text/plain",
        _ => return None,
    };
    Some(named.to_owned())
}

//! Reading and writing one file.

use std::fs;
use std::io::{self, ErrorKind, Read as _, Write as _};

use cap_std::fs::OpenOptions;
use innkeeper_host::resources::{Content, ResourceError, content_type};
use innkeeper_host::resources::{Write, WriteMode};
use innkeeper_std::{Opened, TempEntry, do_not_wait, open_regular, read_whole};
use sha2::{Digest as _, Sha256};

use super::paths::{DirEntryRef, ResourcePath, problem};

/// The regular file under a name, or what to say instead.
pub(crate) fn regular(uri: &str, entry: &DirEntryRef) -> Result<fs::File, ResourceError> {
    match open_regular(&entry.dir, &entry.name).map_err(|error| problem(uri, &error))? {
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
pub(crate) fn read(resource: &ResourcePath, entry: &DirEntryRef, most: usize) -> Result<Content, ResourceError> {
    let file = regular(&resource.uri, entry)?;
    let bytes = read_at_most(&resource.uri, file, most)?;
    let content_type = content_type(&resource.canonical(), &bytes);
    Ok(Content { bytes, content_type })
}

fn read_at_most(uri: &str, file: fs::File, most: usize) -> Result<Vec<u8>, ResourceError> {
    let limit = u64::try_from(most).unwrap_or(u64::MAX);
    let bytes = read_whole(file, limit).map_err(|error| problem(uri, &error))?;
    bytes.ok_or_else(|| {
        let problem = format!("{uri:.300} is longer than {most} bytes, the most that is read or written in one piece");
        invalid("uri", problem)
    })
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
pub(crate) fn write(
    resource: &ResourcePath,
    entry: &DirEntryRef,
    write: &Write,
    most: usize,
) -> Result<(), ResourceError> {
    let uri = &resource.uri;
    let old = match regular(uri, entry) {
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
        check_writable(uri, entry)?;
        let is_plain_append = write.mode == WriteMode::Append && write.position == 0;
        if is_plain_append && has_one_name(old) {
            // The operating system finds the end, also while others append (RES-06).
            return append(uri, entry, &write.data);
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
            read_at_most(uri, file.map_err(|error| problem(uri, &error))?, most)?
        }
        None => Vec::new(),
    };
    let after = combine(before, write)?;
    replace(entry, &after, old.as_ref(), resource.root.umask).map_err(|error| problem(uri, &error))
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

/// Replacing a file by its name needs no right to write it, but a user who removed that right did so on purpose.
fn check_writable(uri: &str, entry: &DirEntryRef) -> Result<(), ResourceError> {
    let mut options = OpenOptions::new();
    options.write(true);
    do_not_wait(&mut options);
    let opened = entry.dir.open_with(&entry.name, &options);
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

fn append(uri: &str, entry: &DirEntryRef, data: &[u8]) -> Result<(), ResourceError> {
    let mut options = OpenOptions::new();
    options.append(true);
    do_not_wait(&mut options);
    let opened = entry
        .dir
        .open_with(&entry.name, &options)
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

/// Writes the new file beside the old one, and renames it: a reader finds one of them, whole, also after a crash (F20).
/// Hard links to the old file keep its content.
pub(crate) fn replace(entry: &DirEntryRef, bytes: &[u8], old: Option<&fs::File>, umask: Option<u32>) -> io::Result<()> {
    let new = TempEntry::file(&entry.dir, bytes, old, umask)?;
    new.take_name(&entry.name, old.is_none())
}

//! The files behind what is kept.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::SystemTime;

use innkeeper_host::resources::Content;
use sha2::{Digest as _, Sha256};

use super::BlobEntry;

/// How files that are being written end.
const UNFINISHED: &str = ".new";
/// Longest first line of a file.
const MAX_TYPE_BYTES: usize = 256;

pub(super) fn fine_if_gone(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}

/// A name for a session that is fit for a directory, whatever its URI is.
pub(super) fn key_of(session: &str) -> String {
    let hash = Sha256::digest(session.as_bytes());
    hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Lists the blobs, and removes unfinished files of processes that ended.
pub(super) fn scan(directory: &Path) -> io::Result<Vec<BlobEntry>> {
    let mut entries = Vec::new();
    let sessions = match fs::read_dir(directory) {
        Ok(sessions) => sessions,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(entries),
        Err(error) => return Err(error),
    };
    for session in sessions.flatten() {
        let key = session.file_name().to_string_lossy().into_owned();
        scan_session(&session.path(), &key, &mut entries);
    }
    entries.sort_by_key(|entry| entry.at);
    Ok(entries)
}

fn scan_session(place: &Path, session: &str, entries: &mut Vec<BlobEntry>) {
    let Ok(files) = fs::read_dir(place) else {
        return;
    };
    for file in files.flatten() {
        let (Ok(name), Ok(about)) = (file.file_name().into_string(), file.metadata()) else {
            continue;
        };
        if !is_name(&name) {
            if name.ends_with(UNFINISHED) {
                // It fails only if another program writes into this directory.
                let _ = fs::remove_file(file.path());
            }
            continue;
        }
        entries.push(BlobEntry {
            at: about.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            session: session.to_owned(),
            name,
            bytes: about.len(),
        });
    }
}

/// Writes a file as if it had been written at some time: what is older goes earlier.
pub(super) fn write(place: &Path, name: &str, content: &Content, at: SystemTime) -> io::Result<u64> {
    let unfinished = place.join(format!("{name}{UNFINISHED}"));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&unfinished)?;
    let content_type = content.content_type.as_deref().unwrap_or_default();
    let is_plain = content_type.len() < MAX_TYPE_BYTES && !content_type.contains(char::is_control);
    let first_line = format!("{}\n", if is_plain { content_type } else { "" });
    let written = file
        .write_all(first_line.as_bytes())
        .and_then(|()| file.write_all(&content.bytes))
        .and_then(|()| file.set_modified(at))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&unfinished, place.join(name)))
        .and_then(|()| sync(place));
    if let Err(error) = written {
        let _ = fs::remove_file(&unfinished);
        return Err(error);
    }
    Ok(u64::try_from(first_line.len() + content.bytes.len()).unwrap_or(u64::MAX))
}

/// Makes the names in a directory as safe as what they name, and its own name too.
pub(super) fn sync(place: &Path) -> io::Result<()> {
    File::open(place)?.sync_all()?;
    place.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

pub(super) fn read(path: &Path) -> io::Result<Option<Content>> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(mut file) => file.read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(end) = bytes.iter().take(MAX_TYPE_BYTES).position(|byte| *byte == b'\n') else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is damaged"));
    };
    let rest = bytes.split_off(end + 1);
    bytes.pop();
    let content_type = String::from_utf8(bytes).ok().filter(|text| !text.is_empty());
    Ok(Some(Content {
        bytes: rest,
        content_type,
    }))
}

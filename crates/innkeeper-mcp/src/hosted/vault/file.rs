//! The two files of the vault: readable by their owner only, and replaced as a whole.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::VaultTrouble;
use super::seal::random;

/// The prefix of temporary files.
const UNFINISHED: &str = ".mcp-tokens-";
const KEY_BYTES: usize = 32;
/// A longer file is no key.
const MAX_KEY_FILE: usize = 1024;

/// The key. `Debug` does not show it.
pub(super) struct Key([u8; KEY_BYTES]);

impl Key {
    pub(super) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// Reads the key from a file, if the file exists.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, VaultTrouble> {
        let text = read(path, MAX_KEY_FILE).map_err(|error| VaultTrouble::Io(path.to_owned(), error))?;
        let Some(text) = text else {
            return Ok(None);
        };
        let decoded = STANDARD_NO_PAD.decode(text.trim_ascii()).ok();
        let key = decoded.and_then(|bytes| <[u8; KEY_BYTES]>::try_from(bytes).ok());
        let key = key.ok_or_else(|| VaultTrouble::BadKey(path.to_owned()))?;
        Ok(Some(Self(key)))
    }

    /// Reads the key, or creates one.
    pub(super) fn read_or_create(path: &Path) -> io::Result<Self> {
        // Several hosts may share one key and start at once: the first one creates it.
        for _ in 0..2 {
            if let Some(key) = Self::read(path).map_err(io::Error::other)? {
                return Ok(key);
            }
            let mut key = [0; KEY_BYTES];
            random(&mut key)?;
            let mut text = STANDARD_NO_PAD.encode(key);
            text.push('\n');
            make_directory(directory_of(path))?;
            match temporary(path, text.as_bytes())?.persist_noclobber(path) {
                Ok(_) => {
                    sync_directory(path)?;
                    return Ok(Self(key));
                }
                Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error.error),
            }
        }
        Err(io::Error::other(format!("{} comes and goes", path.display())))
    }
}

/// Reads a file, if it exists and is not larger than anything that the vault writes.
pub(super) fn read(path: &Path, most: usize) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    file.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large"));
    }
    Ok(Some(bytes))
}

/// Replaces a file. Readers see the old or the new content, also after a crash.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    temporary(path, content)?.persist(path).map_err(|error| error.error)?;
    sync_directory(path)
}

/// Removes a file, if it exists.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync_directory(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes old temporary files of a killed host. A file that cannot be removed stays: it is useless without the key.
pub(super) fn sweep(path: &Path, age: Duration) {
    let entries = fs::read_dir(directory_of(path)).into_iter().flatten().flatten();
    for entry in entries {
        let is_unfinished = entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes());
        if !is_unfinished {
            continue;
        }
        let modified = entry.metadata().and_then(|about| about.modified()).ok();
        let is_old = age.is_zero() || modified.and_then(|at| at.elapsed().ok()).is_some_and(|old| old >= age);
        if is_old {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Creates a file beside another, readable by its owner only.
fn temporary(path: &Path, content: &[u8]) -> io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .tempfile_in(directory_of(path))?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    Ok(file)
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(directory) if directory != Path::new("") => directory,
        _ => Path::new("."),
    }
}

fn make_directory(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(directory_of(path))?.sync_all()?;
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

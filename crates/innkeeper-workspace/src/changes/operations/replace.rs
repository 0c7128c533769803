//! Replaces files all at once, and undoes it.
//!
//! The files as they are now are stored first, durably. Then each file is written aside and renamed into place. If one
//! of them fails, those before it are brought back.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use innkeeper_host::changes::{OperationError, OperationOutcome};
use serde_json::{Value, json};

use super::discarded_file;
use crate::changes::snapshot::MAX_FILE_BYTES;
use crate::uri;

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileContent {
    /// There is no file.
    Absent,
    /// A file with these bytes.
    File { bytes: Vec<u8>, is_executable: bool },
    /// A symlink to this target.
    Symlink(Vec<u8>),
}

impl FileContent {
    /// Reads a file as it is now.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let about = match fs::symlink_metadata(path) {
            Err(error) if is_absent(&error) => return Ok(Self::Absent),
            about => about?,
        };
        if about.is_symlink() {
            return Ok(Self::Symlink(fs::read_link(path)?.into_os_string().into_vec()));
        }
        if !about.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        if about.len() > MAX_FILE_BYTES {
            return Err(io::Error::other(format!(
                "it has {} bytes, which is too large to store a copy",
                about.len()
            )));
        }
        Ok(Self::File {
            bytes: fs::read(path)?,
            is_executable: about.permissions().mode() & 0o100 != 0,
        })
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        if let (Some(parent), false) = (path.parent(), *self == Self::Absent) {
            fs::create_dir_all(parent)?;
        }
        let aside = path.with_file_name(format!(
            ".{}.innkeeper-new",
            path.file_name().unwrap_or_default().to_string_lossy()
        ));
        match self {
            Self::Absent => match fs::remove_file(path) {
                Err(error) if !is_absent(&error) => Err(error),
                _ => {
                    // A directory that only had this file goes with it, as Git does it.
                    let _ = path.parent().map(fs::remove_dir);
                    Ok(())
                }
            },
            Self::File { bytes, is_executable } => {
                let _ = fs::remove_file(&aside);
                // The mode of the file that is replaced stays, but for the bit that Git knows.
                let known = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file);
                let mode = known.map_or(0o644, |about| about.permissions().mode() & 0o777);
                let mode = match is_executable {
                    true => mode | ((mode & 0o444) >> 2),
                    false => mode & !0o111,
                };
                let mut file = OpenOptions::new()
                    .create_new(true)
                    .write(true)
                    .mode(0o600)
                    .open(&aside)?;
                file.write_all(bytes)?;
                file.set_permissions(Permissions::from_mode(mode))?;
                file.sync_data()?;
                fs::rename(&aside, path)
            }
            Self::Symlink(target) => {
                let _ = fs::remove_file(&aside);
                symlink(std::ffi::OsStr::from_bytes(target), &aside)?;
                fs::rename(&aside, path)
            }
        }
    }
}

/// A path, or something above it, that does not exist.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// A file and its next content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Replacement {
    pub(super) path: PathBuf,
    /// The content that the next one was computed from: if the file has another one by then, nothing is replaced.
    pub(super) expected: FileContent,
    pub(super) next: FileContent,
}

/// Replaces files.
pub(super) async fn replace(
    session_directory: &Path,
    replacements: Vec<Replacement>,
) -> Result<OperationOutcome, OperationError> {
    let directory = session_directory.to_owned();
    let replacing = tokio::task::spawn_blocking(move || replace_now(&directory, &replacements));
    match replacing.await {
        Ok(outcome) => outcome,
        Err(_) => Err(OperationError::Failed("the files could not be replaced".to_owned())),
    }
}

fn replace_now(session_directory: &Path, replacements: &[Replacement]) -> Result<OperationOutcome, OperationError> {
    if replacements.is_empty() {
        return Err(OperationError::Conflict("there is nothing to set back".to_owned()));
    }
    let mut former = Vec::new();
    for replacement in replacements {
        let path = &replacement.path;
        let now = FileContent::read(path)
            .map_err(|error| OperationError::Conflict(format!("{} cannot be set back: {error}", path.display())))?;
        if now != replacement.expected {
            return Err(OperationError::Conflict(format!(
                "{} changed in the meantime; look at it and try again",
                path.display()
            )));
        }
        former.push((path.as_path(), now));
    }
    store(session_directory, &former).map_err(|error| {
        OperationError::Failed(format!(
            "the files could not be stored first, so nothing changed ({error})"
        ))
    })?;
    for (index, replacement) in replacements.iter().enumerate() {
        if let Err(error) = replacement.next.write(&replacement.path) {
            for (path, content) in former.iter().take(index + 1) {
                let _ = content.write(path);
            }
            let problem = format!(
                "{} cannot be written ({error}); nothing changed",
                replacement.path.display()
            );
            return Err(OperationError::Failed(problem));
        }
    }
    let count = replacements.len();
    let files = if count == 1 { "file was" } else { "files were" };
    Ok(OperationOutcome {
        message: format!("{count} {files} set back; “Undo” brings back what was there."),
    })
}

/// Stores the present contents of files.
fn store(session_directory: &Path, files: &[(&Path, FileContent)]) -> io::Result<()> {
    let directory = session_directory.join("discarded.new");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory)?;
    let mut entries = Vec::new();
    for (index, (path, content)) in files.iter().enumerate() {
        let (kind, bytes) = match content {
            FileContent::Absent => ("absent", None),
            FileContent::File {
                bytes,
                is_executable: true,
            } => ("executable", Some(bytes)),
            FileContent::File { bytes, .. } => ("file", Some(bytes)),
            FileContent::Symlink(target) => ("symlink", Some(target)),
        };
        if let Some(bytes) = bytes {
            let mut file = File::create(directory.join(index.to_string()))?;
            file.write_all(bytes)?;
            file.sync_data()?;
        }
        entries.push(json!({ "path": uri::from_path(path), "kind": kind }));
    }
    let mut manifest = File::create(directory.join("manifest"))?;
    manifest.write_all(Value::Array(entries).to_string().as_bytes())?;
    manifest.sync_all()?;
    // The files of the last operation stay until the new ones are complete.
    let current = session_directory.join("discarded");
    let _ = fs::remove_dir_all(session_directory.join("discarded.old"));
    let _ = fs::rename(&current, session_directory.join("discarded.old"));
    fs::rename(&directory, &current)?;
    File::open(session_directory)?.sync_all()
}

/// Brings back the files of the last replacement.
pub(super) async fn undo(session_directory: &Path) -> Result<OperationOutcome, OperationError> {
    let directory = session_directory.to_owned();
    let undoing = tokio::task::spawn_blocking(move || undo_now(&directory));
    match undoing.await {
        Ok(outcome) => outcome,
        Err(_) => Err(OperationError::Failed("the files could not be brought back".to_owned())),
    }
}

fn undo_now(session_directory: &Path) -> Result<OperationOutcome, OperationError> {
    let failed = |error: io::Error| OperationError::Failed(format!("the stored files cannot be read ({error})"));
    let manifest = fs::read(discarded_file(session_directory))
        .map_err(|_| OperationError::Conflict("there is nothing to bring back".to_owned()))?;
    let manifest: Vec<Value> = serde_json::from_slice(&manifest)
        .map_err(|_| OperationError::Failed("the list of stored files is damaged".to_owned()))?;
    let mut files = Vec::new();
    for (index, entry) in manifest.iter().enumerate() {
        let Some(path) = entry["path"].as_str().and_then(uri::to_path) else {
            continue;
        };
        let bytes = || fs::read(session_directory.join("discarded").join(index.to_string())).map_err(failed);
        let content = match entry["kind"].as_str() {
            Some("absent") => FileContent::Absent,
            Some("symlink") => FileContent::Symlink(bytes()?),
            kind => FileContent::File {
                bytes: bytes()?,
                is_executable: kind == Some("executable"),
            },
        };
        let expected = FileContent::read(&path)
            .map_err(|error| OperationError::Conflict(format!("{} cannot be replaced: {error}", path.display())))?;
        files.push(Replacement {
            path,
            expected,
            next: content,
        });
    }
    // The present files are stored in turn, so that an undo can be undone.
    let mut outcome = replace_now(session_directory, &files)?;
    outcome.message = format!("{} files were brought back; “Undo” reverses that.", files.len());
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> FileContent {
        FileContent::File {
            bytes: text.as_bytes().to_vec(),
            is_executable: false,
        }
    }

    #[test]
    fn chg11_a_replacement_is_complete_or_absent_and_can_be_undone() {
        let directory = tempfile::tempdir().expect("a directory");
        let (session, work) = (directory.path().join("s"), directory.path().join("w"));
        fs::create_dir_all(&work).expect("a directory");
        fs::create_dir_all(&session).expect("a directory");
        let path = |name: &str| work.join(name);
        fs::write(path("a"), "one").expect("a file");
        fs::write(path("b"), "two").expect("a file");
        let replacement = |name: &str, expected: &FileContent, next: FileContent| Replacement {
            path: path(name),
            expected: expected.clone(),
            next,
        };
        // Something changed since: refused before anything is touched.
        let stale = [replacement("a", &file("other"), FileContent::Absent)];
        assert!(matches!(
            replace_now(&session, &stale),
            Err(OperationError::Conflict(_))
        ));
        assert!(!discarded_file(&session).exists());
        // The second one cannot be written, because its parent is a file.
        let failing = [
            replacement("a", &file("one"), file("ONE")),
            replacement("b/c", &FileContent::Absent, file("x")),
        ];
        let error = replace_now(&session, &failing).expect_err("not possible");
        assert!(error.message().contains("nothing changed"), "{error:?}");
        assert_eq!(fs::read_to_string(path("a")).expect("a file"), "one");
        // One that works: changed, removed, new.
        let working = [
            replacement("a", &file("one"), file("ONE")),
            replacement("b", &file("two"), FileContent::Absent),
            replacement("d/e", &FileContent::Absent, FileContent::Symlink(b"../a".to_vec())),
        ];
        replace_now(&session, &working).expect("it works");
        let state = || {
            (
                fs::read_to_string(path("a")).ok(),
                path("b").exists(),
                fs::read_link(path("d/e")).ok(),
            )
        };
        let after = (Some("ONE".to_owned()), false, Some(PathBuf::from("../a")));
        assert_eq!(state(), after);
        undo_now(&session).expect("undone");
        assert_eq!(state(), (Some("one".to_owned()), true, None));
        undo_now(&session).expect("undone again");
        assert_eq!(state(), after);
    }
}

//! The files that operations replaced, so that they can be brought back.
//!
//! Each operation stores one generation: a directory with a list and the contents. There are two stacks of them, as in
//! an editor: those that `undo-discard` brings back, latest first, and those that it replaced itself. Writing a
//! generation aside and renaming it makes it complete or absent.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use innkeeper_host::changes::OperationError;
use serde_json::{Value, json};

use super::file::{FileContent, FilePath};
use crate::uri;

/// Most generations of a stack.
const MAX_GENERATIONS: usize = 10;
/// Most bytes of the generations of a stack besides the latest.
const MAX_BYTES: u64 = 256 << 20;

/// The replaced files of a session.
#[derive(Debug, Clone)]
pub(crate) struct StoredFiles {
    directory: PathBuf,
}

/// The operation that brings files back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Before an operation.
    Undo,
    /// Before an undo.
    Redo,
}

impl Direction {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Undo => Self::Redo,
            Self::Redo => Self::Undo,
        }
    }
}

/// The stored files of one operation.
#[derive(Debug)]
pub(super) struct Generation {
    directory: PathBuf,
    pub(super) files: Vec<(FilePath, FileContent)>,
}

impl StoredFiles {
    pub(crate) fn new(session_directory: &Path) -> Self {
        Self {
            directory: session_directory.join("discarded"),
        }
    }

    /// Whether there is a generation.
    pub(crate) fn has(&self, direction: Direction) -> bool {
        !self.numbers(direction).is_empty()
    }

    fn stack(&self, direction: Direction) -> PathBuf {
        self.directory.join(match direction {
            Direction::Undo => "undo",
            Direction::Redo => "redo",
        })
    }

    /// The numbers of the generations, oldest first.
    fn numbers(&self, direction: Direction) -> Vec<u64> {
        let entries = fs::read_dir(self.stack(direction)).into_iter().flatten().flatten();
        let mut numbers: Vec<u64> = entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        numbers.sort_unstable();
        numbers
    }

    /// Stores the present contents of files, durably.
    pub(super) fn store(&self, direction: Direction, files: &[(&FilePath, FileContent)]) -> io::Result<PathBuf> {
        let new = self.directory.join("new");
        let _ = fs::remove_dir_all(&new);
        fs::create_dir_all(&new)?;
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
                let mut file = File::create(new.join(index.to_string()))?;
                file.write_all(bytes)?;
                file.sync_data()?;
            }
            entries.push(json!({
                "root": uri::from_path(path.root()),
                "path": uri::from_path(path.path()),
                "kind": kind,
            }));
        }
        let mut manifest = File::create(new.join("manifest"))?;
        manifest.write_all(Value::Array(entries).to_string().as_bytes())?;
        manifest.sync_all()?;
        let stack = self.stack(direction);
        fs::create_dir_all(&stack)?;
        let number = self.numbers(direction).last().map_or(1, |last| last + 1);
        let directory = stack.join(number.to_string());
        fs::rename(&new, &directory)?;
        File::open(&stack)?.sync_all()?;
        self.prune(direction);
        Ok(directory)
    }

    /// Reads the latest generation.
    pub(super) fn latest(&self, direction: Direction) -> Result<Generation, OperationError> {
        let number = self.numbers(direction).pop();
        let number = number.ok_or_else(|| OperationError::Conflict("there is nothing to bring back".to_owned()))?;
        let directory = self.stack(direction).join(number.to_string());
        let failed = |error: io::Error| OperationError::Failed(format!("the stored files cannot be read ({error})"));
        let manifest = fs::read(directory.join("manifest")).map_err(failed)?;
        let manifest: Vec<Value> = serde_json::from_slice(&manifest)
            .map_err(|_| OperationError::Failed("the list of stored files is damaged".to_owned()))?;
        let mut files = Vec::new();
        for (index, entry) in manifest.iter().enumerate() {
            let path = |name: &str| entry[name].as_str().and_then(uri::to_path);
            let Some((root, path)) = path("root").zip(path("path")) else {
                continue;
            };
            let bytes = || fs::read(directory.join(index.to_string())).map_err(failed);
            let content = match entry["kind"].as_str() {
                Some("absent") => FileContent::Absent,
                Some("symlink") => FileContent::Symlink(bytes()?),
                kind => FileContent::File {
                    bytes: bytes()?,
                    is_executable: kind == Some("executable"),
                },
            };
            files.push((FilePath::new(path, [root.as_path()].into_iter()), content));
        }
        Ok(Generation { directory, files })
    }

    /// Removes all generations of a stack.
    pub(super) fn clear(&self, direction: Direction) {
        let _ = fs::remove_dir_all(self.stack(direction));
    }

    /// Removes the oldest generations beyond the limits.
    fn prune(&self, direction: Direction) {
        let mut bytes = 0;
        for (age, number) in self.numbers(direction).into_iter().rev().enumerate() {
            let directory = self.stack(direction).join(number.to_string());
            let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
            let size: u64 = entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum();
            bytes += if age == 0 { 0 } else { size };
            if age >= MAX_GENERATIONS || bytes > MAX_BYTES {
                let _ = fs::remove_dir_all(directory);
            }
        }
    }
}

impl Generation {
    /// Removes it, after its files were brought back.
    pub(super) fn remove(self) {
        let _ = fs::remove_dir_all(self.directory);
    }
}

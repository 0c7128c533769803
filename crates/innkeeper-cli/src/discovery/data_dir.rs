//! The data directory: its path, its permissions, and the lock of its owner.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use etcetera::BaseStrategy as _;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Kind};

/// Returns the platform's data directory for this program.
pub fn default_data_dir() -> Result<PathBuf, Failure> {
    let base = etcetera::choose_base_strategy().map_err(|error| {
        Failure::new(
            Kind::DataDirectory,
            format!("the platform's data directory is unknown ({error})"),
        )
        .hint("name one with --data DIR")
    })?;
    Ok(base.data_dir().join("innkeeper"))
}

/// A data directory. If it was prepared, it exists and no other user can write to it.
#[derive(Clone, Debug)]
pub struct DataDir {
    path: PathBuf,
}

impl DataDir {
    /// Opens the directory, and creates it for this user alone if it is missing.
    pub fn prepare(path: &Path) -> Result<Self, Failure> {
        let path = std::path::absolute(path).map_err(|error| unusable(path, &error))?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(|error| unusable(&path, &error))?;
        let found = fs::metadata(&path).map_err(|error| unusable(&path, &error))?;
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(Failure::new(
                Kind::DataDirectory,
                format!("the data directory {} belongs to another user", path.display()),
            )
            .hint("choose a directory of your own with --data DIR"));
        }
        if found.mode() & 0o022 != 0 {
            return Err(Failure::new(
                Kind::DataDirectory,
                format!("other users can write to the data directory {}", path.display()),
            )
            .hint(format!(
                "run `chmod 700 {}` or choose another directory with --data DIR",
                path.display()
            )));
        }
        if found.mode() & 0o055 != 0 {
            tracing::warn!(
                path = %path.display(),
                "other users can read the data directory; run chmod 700 on it"
            );
        }
        // Listing needs its own permission; checking it now gives a better message than a failure later.
        fs::read_dir(&path).map_err(|error| unusable(&path, &error))?;
        Ok(Self { path })
    }

    /// Names a directory without touching it, for clients that only read.
    pub fn existing(path: PathBuf) -> Self {
        Self { path }
    }

    /// Returns the directory's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the file `name` in the directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Makes this process the directory's owner for as long as the returned lock lives.
    pub fn lock(&self) -> Result<DataDirLock, Failure> {
        let path = self.file(LOCK_FILE);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|error| unusable(&path, &error))?;
        let mut attempts = 0;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                // A client that checks for a host holds a shared lock for an instant.
                Err(TryLockError::WouldBlock) if attempts < 5 => {
                    attempts += 1;
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(TryLockError::WouldBlock) => return Err(self.held_by_another(&mut file)),
                Err(TryLockError::Error(error)) => return Err(unusable(&path, &error)),
            }
        }
        let holder = Holder {
            pid: std::process::id(),
            started_at: jiff::Timestamp::now().to_string(),
        };
        write_holder(&mut file, &holder).map_err(|error| unusable(&path, &error))?;
        Ok(DataDirLock { _file: file })
    }

    /// Returns whether a running process owns the directory.
    pub fn is_owned(&self) -> bool {
        let Ok(file) = File::open(self.file(LOCK_FILE)) else {
            return false;
        };
        matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
    }

    /// Returns a description of the owner, if a running process owns the directory.
    pub fn owner(&self) -> Option<String> {
        let mut file = File::open(self.file(LOCK_FILE)).ok()?;
        self.is_owned().then(|| holder_in_words(&mut file))
    }

    fn held_by_another(&self, file: &mut File) -> Failure {
        let who = holder_in_words(file);
        Failure::new(
            Kind::InUse,
            format!("the data directory {} is in use by {who}", self.path.display()),
        )
        .hint("stop that host, or give this one its own directory with --data DIR")
    }
}

/// The lock of the owner; the operating system releases it when the process ends.
#[derive(Debug)]
pub struct DataDirLock {
    _file: File,
}

const LOCK_FILE: &str = "lock";

/// The content of the lock file, for display only: the lock itself decides.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Holder {
    pid: u32,
    started_at: String,
}

fn holder_in_words(file: &mut File) -> String {
    let mut text = String::new();
    let holder = file
        .read_to_string(&mut text)
        .ok()
        .and_then(|_| serde_json::from_str::<Holder>(&text).ok());
    match holder {
        Some(holder) => format!("process {} (since {})", holder.pid, holder.started_at),
        None => "another process".to_owned(),
    }
}

fn write_holder(file: &mut File, holder: &Holder) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(serde_json::to_string(holder)?.as_bytes())?;
    file.write_all(b"\n")
}

/// Writes a file for this user alone so that readers see either the old or the new content.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = write_temporary(path, content)?;
    fs::rename(&temporary, path).inspect_err(|_| {
        // Report the first failure.
        let _ = fs::remove_file(&temporary);
    })
}

/// Creates a file for this user alone with all of its content at once; fails if it exists.
pub fn create_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = write_temporary(path, content)?;
    // A hard link, unlike a rename, does not replace an existing file.
    let linked = fs::hard_link(&temporary, path);
    let removed = fs::remove_file(&temporary);
    linked.and(removed)
}

fn write_temporary(path: &Path, content: &[u8]) -> io::Result<PathBuf> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", uuid::Uuid::new_v4().simple()));
    let temporary = path.with_file_name(name);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(content)
        .and_then(|()| file.sync_all())
        .inspect_err(|_| {
            let _ = fs::remove_file(&temporary);
        })?;
    Ok(temporary)
}

/// Describes a path in the data directory that cannot be used.
pub fn unusable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(
        Kind::DataDirectory,
        format!("{} cannot be used ({error})", path.display()),
    )
    .hint("correct its permissions, or choose another data directory with --data DIR")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn creates_a_private_directory() {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::prepare(&root.path().join("a/b")).unwrap();
        assert_eq!(fs::metadata(dir.path()).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn refuses_a_directory_others_can_write_to() {
        let root = tempfile::tempdir().unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let failure = DataDir::prepare(root.path()).unwrap_err();
        assert_eq!(failure.kind(), Kind::DataDirectory);
        assert!(failure.to_string().contains("chmod 700"), "{failure}");
    }

    #[test]
    fn rejects_a_file_instead_of_the_directory() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        fs::write(&path, "").unwrap();
        assert_eq!(DataDir::prepare(&path).unwrap_err().kind(), Kind::DataDirectory);
    }

    #[test]
    fn one_owner_at_a_time_and_the_second_gets_its_process_id() {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::prepare(root.path()).unwrap();
        assert!(!dir.is_owned());
        let lock = dir.lock().unwrap();
        assert!(dir.is_owned());
        let failure = dir.lock().unwrap_err();
        assert_eq!(failure.kind(), Kind::InUse);
        let own = format!("process {}", std::process::id());
        assert!(failure.to_string().contains(&own), "{failure}");
        drop(lock);
        assert!(!dir.is_owned());
        dir.lock().unwrap();
    }

    #[test]
    fn atomic_files_are_private_and_leave_nothing_behind() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        create_atomically(&path, b"one").unwrap();
        assert!(create_atomically(&path, b"two").is_err());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        write_atomically(&path, b"three").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }
}

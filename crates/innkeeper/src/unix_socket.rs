//! Binds a Unix socket that no other user can reach or replace.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use innkeeper_cli::failure::{Failure, Kind};

/// A listening socket's file. Dropping it removes the file and releases the path.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    _lock: File,
}

impl SocketFile {
    /// Returns the socket's absolute path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // The lock is still held here, so the file is ours. The lock file stays: removing it would race with others.
        let _ = fs::remove_file(&self.path);
    }
}

/// Binds `path` for this user alone. A stale socket is replaced, one in use is not.
pub(crate) fn bind(path: &Path) -> Result<(UnixListener, SocketFile), Failure> {
    let path = std::path::absolute(path).map_err(|error| cannot_bind(path, &error))?;
    let directory = path.parent().unwrap_or_else(|| Path::new("/"));
    check_directory(directory)?;
    let lock = lock(&path)?;
    remove_leftover(&path)?;
    let listener = UnixListener::bind(&path).map_err(|error| cannot_bind(&path, &error))?;
    let file = SocketFile { path, _lock: lock };
    fs::set_permissions(&file.path, fs::Permissions::from_mode(0o600))
        .map_err(|error| cannot_bind(&file.path, &error))?;
    Ok((listener, file))
}

/// A user who may write to the directory may replace the socket, so only this user may.
fn check_directory(directory: &Path) -> Result<(), Failure> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|error| cannot_bind(directory, &error))?;
    let found = fs::symlink_metadata(directory).map_err(|error| cannot_bind(directory, &error))?;
    let problem = if found.is_symlink() {
        "is a symbolic link"
    } else if found.uid() != rustix::process::geteuid().as_raw() {
        "belongs to another user"
    } else if found.mode() & 0o022 != 0 {
        "can be written to by other users"
    } else {
        return Ok(());
    };
    Err(Failure::new(
        Kind::CannotListen,
        format!("the socket's directory {} {problem}", directory.display()),
    )
    .hint("put the socket into a directory of your own with mode 700"))
}

fn lock(path: &Path) -> Result<File, Failure> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    let lock_path = path.with_file_name(name);
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&lock_path)
        .map_err(|error| cannot_bind(&lock_path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(in_use(path)),
        Err(TryLockError::Error(error)) => Err(cannot_bind(&lock_path, &error)),
    }
}

fn remove_leftover(path: &Path) -> Result<(), Failure> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(cannot_bind(path, &error)),
    };
    if !found.file_type().is_socket() {
        return Err(Failure::new(
            Kind::CannotListen,
            format!("{} exists and is not a socket", path.display()),
        )
        .hint("choose another path with --unix PATH"));
    }
    // The lock is ours, but a program that does not use the lock may still listen here.
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(in_use(path));
    }
    fs::remove_file(path).map_err(|error| cannot_bind(path, &error))
}

fn in_use(path: &Path) -> Failure {
    Failure::new(Kind::InUse, format!("another process listens on {}", path.display()))
        .hint("stop it, or choose another path with --unix PATH")
}

fn cannot_bind(path: &Path, error: &io::Error) -> Failure {
    Failure::new(
        Kind::CannotListen,
        format!("the socket {} cannot be opened ({error})", path.display()),
    )
    .hint("choose another path with --unix PATH")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_is_private_and_removed_at_the_end() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("new/s");
        let (_listener, file) = bind(&path).unwrap();
        assert_eq!(fs::metadata(file.path()).unwrap().mode() & 0o777, 0o600);
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn socket_in_use_stays_and_a_stale_one_is_replaced() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("s");
        let (listener, file) = bind(&path).unwrap();
        assert_eq!(bind(&path).unwrap_err().kind(), Kind::InUse);
        // Keep the file on disk as a killed process would.
        drop(listener);
        fs::rename(&path, root.path().join("kept")).unwrap();
        drop(file);
        fs::rename(root.path().join("kept"), &path).unwrap();
        bind(&path).unwrap();
    }

    #[test]
    fn socket_of_a_stranger_without_lock_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("s");
        let _stranger = UnixListener::bind(&path).unwrap();
        assert_eq!(bind(&path).unwrap_err().kind(), Kind::InUse);
        assert!(path.exists());
    }

    #[test]
    fn other_files_and_unsafe_directories_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, "keep").unwrap();
        assert_eq!(bind(&file).unwrap_err().kind(), Kind::CannotListen);
        assert_eq!(fs::read(&file).unwrap(), b"keep");

        let open = root.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(bind(&open.join("s")).unwrap_err().kind(), Kind::CannotListen);

        let link = root.path().join("link");
        std::os::unix::fs::symlink(root.path(), &link).unwrap();
        assert_eq!(bind(&link.join("s")).unwrap_err().kind(), Kind::CannotListen);
    }
}

//! Paths without links, within an opened directory.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;

/// How Linux names a file that was opened and has lost its name since.
const DELETED: &[u8] = b" (deleted)";
/// How often a path is resolved again because its file is replaced all the time.
const MAX_TRIES: usize = 100;

/// A path without links, from the same directory.
///
/// A file that an editor replaces in the middle of it has no name for a moment, and is then called
/// `name (deleted)`: what is written there would be lost, and what is read there may be another file
/// that really is called so (RES-08).
///
/// # Errors
///
/// When there is nothing, when the path leads out of the directory ([`leads_outside`]), and when its
/// file is replaced all the time.
///
/// ```
/// # #[cfg(unix)] {
/// use std::path::Path;
/// use cap_std::{ambient_authority, fs::Dir};
/// # let temp = tempfile::tempdir().unwrap();
/// # std::fs::create_dir(temp.path().join("src")).unwrap();
/// # std::fs::write(temp.path().join("src/main.rs"), "").unwrap();
/// # std::os::unix::fs::symlink("src", temp.path().join("link")).unwrap();
/// # std::os::unix::fs::symlink("/etc", temp.path().join("out")).unwrap();
///
/// // `link` leads to `src`, `out` to `/etc`.
/// let dir = Dir::open_ambient_dir(temp.path(), ambient_authority()).unwrap();
/// let found = innkeeper_std::without_links(&dir, Path::new("link/main.rs")).unwrap();
/// assert_eq!(found, Path::new("src/main.rs"));
/// let refused = innkeeper_std::without_links(&dir, Path::new("out/passwd")).unwrap_err();
/// assert!(innkeeper_std::leads_outside(&refused));
/// # }
/// ```
pub fn without_links(dir: &Dir, path: &Path) -> io::Result<PathBuf> {
    for _ in 0..MAX_TRIES {
        let resolved = dir.canonicalize(path)?;
        let name = resolved.file_name().unwrap_or_default();
        // A file may really have that name.
        if !name.as_encoded_bytes().ends_with(DELETED) || is_same(dir, path, &resolved) {
            return Ok(resolved);
        }
    }
    Err(ErrorKind::ResourceBusy.into())
}

#[cfg(unix)]
fn is_same(dir: &Dir, path: &Path, resolved: &Path) -> bool {
    use cap_std::fs::MetadataExt as _;
    let identity = |data: cap_std::fs::Metadata| (data.dev(), data.ino());
    let (one, other) = (dir.metadata(path), dir.symlink_metadata(resolved));
    matches!((one.map(identity), other.map(identity)), (Ok(one), Ok(other)) if one == other)
}

#[cfg(not(unix))]
fn is_same(_: &Dir, _: &Path, _: &Path) -> bool {
    true
}

/// Whether an error means that a path leads out of its directory. Errors of the operating system have
/// a number, those of the handle do not.
pub fn leads_outside(error: &io::Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied && error.raw_os_error().is_none()
}

/// The path for a handle: nothing is the directory itself, which handles know as `.`.
pub fn or_dot(path: &Path) -> &Path {
    if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};

    use cap_std::ambient_authority;

    use super::*;

    fn opened(files: &[&str]) -> (tempfile::TempDir, Dir) {
        let temp = tempfile::tempdir().expect("a directory");
        for name in files {
            fs::write(temp.path().join(name), name).expect("a file");
        }
        let dir = Dir::open_ambient_dir(temp.path(), ambient_authority()).expect("opened");
        (temp, dir)
    }

    #[test]
    fn a_file_may_really_be_called_deleted() {
        let (temp, dir) = opened(&["busy", "busy (deleted)"]);
        symlink("busy (deleted)", temp.path().join("link")).expect("a link");
        let named = Path::new("busy (deleted)");
        assert_eq!(without_links(&dir, named).expect("there"), named);
        assert_eq!(without_links(&dir, Path::new("link")).expect("there"), named);
        assert!(!is_same(&dir, Path::new("busy"), named), "it is another file");
    }

    /// However it comes out, no other file is taken for it.
    #[test]
    fn res08_a_replaced_file_is_never_mistaken_for_a_deleted_one() {
        let (temp, dir) = opened(&["busy", "busy (deleted)"]);
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (new, busy) = (temp.path().join("new"), temp.path().join("busy"));
                while !is_done.load(Ordering::Relaxed) {
                    fs::write(&new, "new").expect("written");
                    fs::rename(&new, &busy).expect("renamed");
                }
            });
            let resolved: Vec<_> = (0..3000).map(|_| without_links(&dir, Path::new("busy"))).collect();
            is_done.store(true, Ordering::Relaxed);
            for resolved in resolved {
                match resolved {
                    Ok(resolved) => assert_eq!(resolved, Path::new("busy")),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::ResourceBusy),
                }
            }
        });
    }

    #[test]
    fn paths_outside_are_told_from_denied_ones() {
        let (temp, dir) = opened(&["file"]);
        symlink("/", temp.path().join("root")).expect("a link");
        for path in ["root", "root/etc", "..", "../x"] {
            let refused = without_links(&dir, Path::new(path)).expect_err(path);
            assert!(leads_outside(&refused), "{path}: {refused:?}");
        }
        let missing = without_links(&dir, Path::new("missing")).expect_err("not there");
        assert!(!leads_outside(&missing));
        let denied = io::Error::from_raw_os_error(rustix::io::Errno::ACCESS.raw_os_error());
        assert_eq!(denied.kind(), ErrorKind::PermissionDenied);
        assert!(!leads_outside(&denied));
        fs::set_permissions(temp.path().join("file"), fs::Permissions::from_mode(0o000)).expect("closed");
        assert_eq!(
            without_links(&dir, Path::new("file")).expect("there"),
            Path::new("file")
        );
    }
}

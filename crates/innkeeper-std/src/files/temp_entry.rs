//! Files and directories under a temporary name until they are complete.
//!
//! The temporary file is made beside its destination, under a name with [`TEMP_PREFIX`], and is renamed in one step: a
//! reader finds the old or the new file, whole, also after a crash (F20).

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use cap_std::fs::{Dir, OpenOptions};

use super::create::permissions;
use super::remove::remove_all;

/// How the names of what is not finished start.
pub const TEMP_PREFIX: &str = ".innkeeper-";
/// How many names are tried that hosts left behind which were killed at the worst moment.
const MAX_TRIES: usize = 100;

/// A file or directory under a temporary name. It is removed when dropped before it takes its final name.
///
/// ```
/// # #[cfg(unix)] {
/// use std::path::Path;
/// use cap_std::{ambient_authority, fs::Dir};
/// use innkeeper_std::TempEntry;
/// # let temp = tempfile::tempdir().unwrap();
///
/// let dir = Dir::open_ambient_dir(temp.path(), ambient_authority()).unwrap();
/// let new = TempEntry::file(&dir, b"Hello", None, Some(0o022)).unwrap();
/// assert!(!temp.path().join("hello.txt").exists());
/// new.take_name(Path::new("hello.txt"), true).unwrap();
/// assert_eq!(std::fs::read(temp.path().join("hello.txt")).unwrap(), b"Hello");
/// # }
/// ```
#[derive(Debug)]
pub struct TempEntry<'a, T> {
    dir: &'a Dir,
    name: PathBuf,
    made: T,
    is_named: bool,
}

impl<'a, T> TempEntry<'a, T> {
    /// Creates an entry under a temporary name.
    ///
    /// # Errors
    ///
    /// When `make` fails. Nothing is left behind then.
    pub fn create(dir: &'a Dir, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let mut tries = 0;
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = PathBuf::from(format!("{TEMP_PREFIX}{}-{number}.tmp", std::process::id()));
            match make(&name) {
                Ok(made) => {
                    return Ok(Self {
                        dir,
                        name,
                        made,
                        is_named: false,
                    });
                }
                // Another process made it, so it stays.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    tries += 1;
                    if tries > MAX_TRIES {
                        return Err(error);
                    }
                }
                Err(error) => {
                    // Half of a copy may be there.
                    remove(dir, &name);
                    return Err(error);
                }
            }
        }
    }

    /// Returns the temporary name.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Returns the value that `make` returned.
    pub fn made(&self) -> &T {
        &self.made
    }

    /// Gives it its name; `is_new` means that nothing else may have it.
    ///
    /// # Errors
    ///
    /// When it cannot have it: of the kind `AlreadyExists` if something else does. It is removed then.
    pub fn take_name(mut self, name: &Path, is_new: bool) -> io::Result<()> {
        if is_new {
            rename_to_free(self.dir, &self.name, self.dir, name)?;
        } else {
            self.dir.rename(&self.name, self.dir, name)?;
        }
        self.is_named = true;
        Ok(())
    }
}

impl<'a> TempEntry<'a, fs::File> {
    /// A file with this content, safe on the disk. In place of an old one it has the permissions of that;
    /// other names of the old file (hard links) keep what they had. A new one has what the umask leaves,
    /// or without one what the process's own leaves.
    ///
    /// # Errors
    ///
    /// When it cannot be written. Nothing of it is left then.
    pub fn file(dir: &'a Dir, bytes: &[u8], old: Option<&fs::File>, umask: Option<u32>) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if old.is_some() {
            use cap_std::fs::OpenOptionsExt as _;
            // No other user reads it before it has the permissions of the old one.
            options.mode(0o600);
        }
        let mut new = Self::create(dir, |name| {
            dir.open_with(name, &options).map(cap_std::fs::File::into_std)
        })?;
        new.made.write_all(bytes)?;
        if let Some(old) = old {
            new.made.set_permissions(old.metadata()?.permissions())?;
        } else if let Some(permissions) = permissions(0o666, umask) {
            new.made.set_permissions(permissions)?;
        }
        new.made.sync_all()?;
        Ok(new)
    }
}

impl<T> Drop for TempEntry<'_, T> {
    fn drop(&mut self) {
        if !self.is_named {
            remove(self.dir, &self.name);
        }
    }
}

/// Removes a file or a directory with all that is in it. If even this fails, the directory around it is gone
/// or read-only.
fn remove(dir: &Dir, name: &Path) {
    let _ = remove_all(dir, name, &|| false);
}

/// Renames, unless the new name is taken.
///
/// # Errors
///
/// Fails with `AlreadyExists` if it is taken.
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub fn rename_to_free(from: &Dir, old: &Path, to: &Dir, new: &Path) -> io::Result<()> {
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

/// Renames, unless the new name is taken.
///
/// # Errors
///
/// Fails with `AlreadyExists` if it is taken.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub fn rename_to_free(from: &Dir, old: &Path, to: &Dir, new: &Path) -> io::Result<()> {
    rename_if_free(from, old, to, new)
}

fn rename_if_free(from: &Dir, old: &Path, to: &Dir, new: &Path) -> io::Result<()> {
    // A link never takes the name of something that has come into being meanwhile.
    match from.hard_link(old, to, new) {
        Ok(()) => return from.remove_file(old),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(error),
        // Directories have none, and not every file system does: there it is as good as looking first.
        Err(_) => {}
    }
    if to.symlink_metadata(new).is_ok() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    from.rename(old, to, new)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use cap_std::ambient_authority;

    use super::*;

    fn opened() -> (tempfile::TempDir, Dir) {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = Dir::open_ambient_dir(temp.path(), ambient_authority()).expect("opened");
        (temp, dir)
    }

    fn names(dir: &Dir) -> Vec<String> {
        let entries = dir.entries().expect("listed");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("read").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn f20_a_temporary_entry_without_a_final_name_is_removed() {
        let (_temp, dir) = opened();
        drop(TempEntry::file(&dir, b"half", None, None).expect("made"));
        drop(TempEntry::create(&dir, |name| dir.create_dir(name).map(|()| name.to_owned())).expect("made"));
        let failed = TempEntry::create(&dir, |name| {
            dir.write(name, "half of a copy")?;
            Err::<(), _>(io::Error::other("no space"))
        });
        assert!(failed.is_err());
        let failed = TempEntry::create(&dir, |name| {
            dir.create_dir(name)?;
            dir.write(name.join("file"), "half of a copy")?;
            Err::<(), _>(io::Error::other("no space"))
        });
        assert!(failed.is_err());
        assert_eq!(names(&dir), [""; 0]);
    }

    #[test]
    fn temporary_entries_of_others_are_kept() {
        let (_temp, dir) = opened();
        let all_taken = TempEntry::create(&dir, |name| {
            dir.write(name, "another's")?;
            Err::<(), _>(ErrorKind::AlreadyExists.into())
        });
        assert_eq!(all_taken.expect_err("taken").kind(), ErrorKind::AlreadyExists);
        assert_eq!(names(&dir).len(), MAX_TRIES + 1);
    }

    #[test]
    fn a_new_file_has_the_old_permissions_or_those_of_the_umask() {
        let (temp, dir) = opened();
        let mode = |name: &str| {
            let data = fs::metadata(temp.path().join(name)).expect("there");
            data.permissions().mode() & 0o777
        };
        let new = TempEntry::file(&dir, b"1", None, Some(0o027)).expect("made");
        new.take_name(Path::new("new"), true).expect("free");
        assert_eq!(mode("new"), 0o640);
        fs::set_permissions(temp.path().join("new"), fs::Permissions::from_mode(0o755)).expect("set");
        let old = fs::File::open(temp.path().join("new")).expect("there");
        let new = TempEntry::file(&dir, b"2", Some(&old), Some(0o027)).expect("made");
        new.take_name(Path::new("new"), false).expect("replaced");
        assert_eq!(mode("new"), 0o755);
        assert_eq!(names(&dir), ["new"]);
    }

    /// Both ways: in one step, and where the file system cannot do that.
    #[test]
    fn rename_to_free_does_not_replace_an_existing_entry() {
        for rename in [rename_to_free, rename_if_free] {
            let (temp, dir) = opened();
            for (kind, target) in [("file", "a"), ("directory", "b"), ("link", "c")] {
                let old = Path::new(kind);
                match kind {
                    "file" => dir.write(old, "text").expect("a file"),
                    "directory" => dir.create_dir(old).expect("a directory"),
                    _ => symlink("nowhere", temp.path().join(old)).expect("a link"),
                }
                let taken = Path::new("taken");
                dir.write(taken, "mine").expect("a file");
                let refused = rename(&dir, old, &dir, taken).expect_err("taken");
                assert_eq!(refused.kind(), ErrorKind::AlreadyExists, "{kind}");
                assert_eq!(dir.read_to_string(taken).expect("there"), "mine");
                rename(&dir, old, &dir, Path::new(target)).expect(kind);
            }
            assert_eq!(names(&dir), ["a", "b", "c", "taken"]);
            assert!(dir.symlink_metadata("c").expect("there").is_symlink());
        }
    }
}

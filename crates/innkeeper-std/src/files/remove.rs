//! Removes a directory with everything in it, however deep it is.
//!
//! A recursive function would overflow the stack of the process in directories that are deep enough, and one that keeps
//! each of them open runs out of descriptors. Here one is open at a time, and the way back up is checked: a directory
//! that was moved away meanwhile is not followed.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::Path;

use cap_std::fs::Dir;

use super::open::open_child;

/// A directory on the way down.
struct Level {
    /// Its name in the one above.
    name: OsString,
    /// How to get back there.
    above: WayUp,
    /// The names in the directory above that are still to be removed.
    left: Vec<OsString>,
}

/// Removes something with all that is in it; a link goes, and not what it leads to. A missing entry
/// is no error. It stops at the next name once `is_over` says so, and what was removed until then is gone.
///
/// # Errors
///
/// When something cannot be removed; of the kind `Interrupted` when it was over before it was done.
///
/// ```
/// # #[cfg(unix)] {
/// use std::path::Path;
/// use cap_std::{ambient_authority, fs::Dir};
/// # let temp = tempfile::tempdir().unwrap();
/// # std::fs::create_dir_all(temp.path().join("a/b/c")).unwrap();
///
/// let dir = Dir::open_ambient_dir(temp.path(), ambient_authority()).unwrap();
/// innkeeper_std::remove_all(&dir, Path::new("a"), &|| false).unwrap();
/// assert!(!temp.path().join("a").exists());
/// # }
/// ```
pub fn remove_all(dir: &Dir, name: &Path, is_over: &dyn Fn() -> bool) -> io::Result<()> {
    let mut here = dir.try_clone()?;
    let mut left = vec![name.as_os_str().to_owned()];
    let mut levels: Vec<Level> = Vec::new();
    loop {
        if is_over() {
            return Err(ErrorKind::Interrupted.into());
        }
        if let Some(name) = left.pop() {
            if is_removed_at_once(&here, Path::new(&name))? {
                continue;
            }
            let below = match open_child(&here, Path::new(&name)) {
                Ok(below) => below,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let inside = names(&below)?;
            levels.push(Level {
                name,
                above: WayUp::to(here)?,
                left,
            });
            (here, left) = (below, inside);
            continue;
        }
        let Some(level) = levels.pop() else {
            return Ok(());
        };
        here = level.above.climb(&here)?;
        left = level.left;
        here.remove_dir(&level.name).or_else(fine_if_gone)?;
    }
}

/// Removes what is no directory, and directories in which nothing is. Says whether that was all.
fn is_removed_at_once(dir: &Dir, name: &Path) -> io::Result<bool> {
    match dir.symlink_metadata(name) {
        Ok(data) if data.is_dir() => Ok(dir.remove_dir(name).is_ok()),
        Ok(_) => dir.remove_file(name).or_else(fine_if_gone).map(|()| true),
        Err(error) => fine_if_gone(error).map(|()| true),
    }
}

fn names(dir: &Dir) -> io::Result<Vec<OsString>> {
    dir.entries()?.map(|entry| Ok(entry?.file_name())).collect()
}

fn fine_if_gone(error: io::Error) -> io::Result<()> {
    match error.kind() {
        ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}

/// The directory above, by what it is and not by a handle: those could be more than may be open.
#[cfg(unix)]
struct WayUp((u64, u64));

#[cfg(unix)]
impl WayUp {
    fn to(dir: Dir) -> io::Result<Self> {
        identity(&dir).map(Self)
    }

    fn climb(self, below: &Dir) -> io::Result<Dir> {
        let above = open_child(below, Path::new(".."))?;
        if identity(&above)? != self.0 {
            return Err(io::Error::other(
                "a directory was moved away while it was being removed",
            ));
        }
        Ok(above)
    }
}

#[cfg(unix)]
fn identity(dir: &Dir) -> io::Result<(u64, u64)> {
    use cap_std::fs::MetadataExt as _;
    dir.dir_metadata().map(|data| (data.dev(), data.ino()))
}

/// The directory above.
#[cfg(not(unix))]
struct WayUp(Dir);

#[cfg(not(unix))]
impl WayUp {
    #[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
    fn to(dir: Dir) -> io::Result<Self> {
        Ok(Self(dir))
    }

    #[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
    fn climb(self, _: &Dir) -> io::Result<Dir> {
        Ok(self.0)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::cell::Cell;
    use std::fs;
    use std::os::unix::fs::symlink;

    use cap_std::ambient_authority;

    use super::*;

    /// Directories in directories, deeper than any path can say.
    fn deep(dir: &Dir, levels: usize) {
        let mut here = dir.try_clone().expect("cloned");
        for _ in 0..levels {
            here.create_dir("a").expect("a directory");
            here.write("file", "x").expect("a file");
            here = open_child(&here, Path::new("a")).expect("opened");
        }
    }

    #[test]
    fn sec04_no_depth_is_too_deep_for_a_small_stack() {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = Dir::open_ambient_dir(temp.path(), ambient_authority()).expect("opened");
        dir.create_dir("top").expect("a directory");
        deep(&open_child(&dir, Path::new("top")).expect("opened"), 1500);
        let small = std::thread::Builder::new().stack_size(128 << 10);
        let removing = small.spawn(move || remove_all(&dir, Path::new("top"), &|| false));
        removing.expect("started").join().expect("ended").expect("removed");
        assert_eq!(fs::read_dir(temp.path()).expect("there").count(), 0);
    }

    #[test]
    fn res11_deleting_a_symlink_keeps_its_target() {
        let temp = tempfile::tempdir().expect("a directory");
        let path = |name: &str| temp.path().join(name);
        fs::create_dir_all(path("top/a/b")).expect("directories");
        fs::create_dir_all(path("kept/inner")).expect("directories");
        fs::write(path("kept/inner/file"), "x").expect("a file");
        for link in ["top/link", "top/a/b/link"] {
            symlink(path("kept"), path(link)).expect("a link");
        }
        symlink("nowhere", path("top/dangling")).expect("a link");
        let dir = Dir::open_ambient_dir(temp.path(), ambient_authority()).expect("opened");
        remove_all(&dir, Path::new("top"), &|| false).expect("removed");
        assert!(!path("top").exists() && path("kept/inner/file").exists());
        remove_all(&dir, Path::new("top"), &|| false).expect("it is gone already");
    }

    #[test]
    fn a_directory_that_is_moved_away_meanwhile_leads_nowhere() {
        let temp = tempfile::tempdir().expect("a directory");
        let path = |name: &str| temp.path().join(name);
        fs::create_dir_all(path("top/a")).expect("directories");
        fs::create_dir_all(path("other/a")).expect("directories");
        fs::write(path("top/a/file"), "x").expect("a file");
        let dir = Dir::open_ambient_dir(temp.path(), ambient_authority()).expect("opened");
        let asked = Cell::new(0);
        let moved = remove_all(&dir, Path::new("top"), &|| {
            asked.set(asked.get() + 1);
            // It is in top/a by now.
            if asked.get() == 3 {
                fs::rename(path("top/a"), path("other/b")).expect("moved");
            }
            false
        });
        assert!(moved.is_err());
        assert!(path("other/a").exists(), "nothing beside it goes");
    }

    #[test]
    fn a_finished_removal_stops() {
        let temp = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(temp.path().join("top/a")).expect("directories");
        let dir = Dir::open_ambient_dir(temp.path(), ambient_authority()).expect("opened");
        let stopped = remove_all(&dir, Path::new("top"), &|| true).expect_err("it is over");
        assert_eq!(stopped.kind(), ErrorKind::Interrupted);
        assert!(temp.path().join("top/a").exists());
    }
}

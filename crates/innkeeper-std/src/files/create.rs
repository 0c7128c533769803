//! New files and directories with the permissions that the user's own files have.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;

/// Applies a umask to permissions. `None` without a umask and on systems without permissions: the umask of the process
/// applies then.
#[cfg(unix)]
pub(crate) fn permissions(all: u32, umask: Option<u32>) -> Option<fs::Permissions> {
    use std::os::unix::fs::PermissionsExt as _;
    umask.map(|umask| fs::Permissions::from_mode(all & !umask))
}

/// Applies a umask to permissions. `None` without a umask and on systems without permissions: the umask of the process
/// applies then.
#[cfg(not(unix))]
pub(crate) fn permissions(_: u32, _: Option<u32>) -> Option<fs::Permissions> {
    None
}

/// Creates a directory with the permissions that a umask leaves; without one it gets what the process's
/// own leaves.
///
/// # Errors
///
/// When it cannot be created: of the kind `AlreadyExists` if something has that name.
pub fn create_directory(dir: &Dir, path: &Path, umask: Option<u32>) -> io::Result<()> {
    dir.create_dir(path)?;
    match umask {
        Some(umask) => leave_permissions(dir, path, umask),
        None => Ok(()),
    }
}

/// Gives a new directory the permissions that a umask leaves. It keeps bits that it inherited, such as the
/// group that shares a workspace, it keeps.
#[cfg(unix)]
fn leave_permissions(dir: &Dir, path: &Path, umask: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    use cap_std::fs::{MetadataExt as _, Permissions};
    let inherited = dir.symlink_metadata(path)?.mode() & 0o7000;
    let permissions = fs::Permissions::from_mode(inherited | (0o777 & !umask));
    match dir.set_permissions(path, Permissions::from_std(permissions)) {
        // Some file systems have one mode for everything.
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported) => Ok(()),
        set => set,
    }
}

#[cfg(not(unix))]
fn leave_permissions(_: &Dir, _: &Path, _: u32) -> io::Result<()> {
    Ok(())
}

/// Creates the directories of a path that are missing, and only those get the permissions that a umask
/// leaves; without one they get what the process's own leaves.
///
/// # Errors
///
/// When one cannot be created. Something else in its place shows when it is opened.
pub fn create_directories(dir: &Dir, path: &Path, umask: Option<u32>) -> io::Result<()> {
    let mut made = PathBuf::new();
    for name in path {
        made.push(name);
        match create_directory(dir, &made, umask) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use cap_std::ambient_authority;

    use super::*;

    #[test]
    fn only_new_directories_get_the_umask() {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = Dir::open_ambient_dir(temp.path(), ambient_authority()).expect("opened");
        let mode = |name: &str| {
            let data = fs::metadata(temp.path().join(name)).expect("there");
            data.permissions().mode() & 0o777
        };
        fs::create_dir(temp.path().join("a")).expect("a directory");
        fs::set_permissions(temp.path().join("a"), fs::Permissions::from_mode(0o711)).expect("set");
        for _ in 0..2 {
            create_directories(&dir, Path::new("a/b/c"), Some(0o007)).expect("made");
            assert_eq!((mode("a"), mode("a/b"), mode("a/b/c")), (0o711, 0o770, 0o770));
        }
        create_directories(&dir, Path::new("a/b/d"), None).expect("made");
        assert!(temp.path().join("a/b/d").is_dir());
    }

    /// Only where the file system hands the group on; Linux's do.
    #[cfg(target_os = "linux")]
    #[test]
    fn new_directories_inherit_the_group() {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = Dir::open_ambient_dir(temp.path(), ambient_authority()).expect("opened");
        fs::create_dir(temp.path().join("shared")).expect("a directory");
        fs::set_permissions(temp.path().join("shared"), fs::Permissions::from_mode(0o2770)).expect("set");
        create_directories(&dir, Path::new("shared/a/b"), Some(0o007)).expect("made");
        for name in ["shared/a", "shared/a/b"] {
            let data = fs::metadata(temp.path().join(name)).expect("there");
            assert_eq!(data.permissions().mode() & 0o7777, 0o2770, "{name}");
        }
    }
}

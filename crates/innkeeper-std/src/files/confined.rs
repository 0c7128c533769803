//! A directory that is opened once, and paths that cannot leave it.
//!
//! Everything below a [`ConfinedRoot`] is reached through its handle (`cap_std::fs::Dir`). No `..`, no symlink and no
//! swap of one for the other in the middle of a call leads outside, because the operating system is never asked to
//! start anywhere else. Comparing paths only chooses the root.
//!
//! A [`ConfinedPath`] is resolved once, symlinks inside the root included. From then on its last name is never
//! followed. A hard link is the file itself: reading one reads the file wherever its other names are.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::follow::follow;
use super::open::{Opened, open_child, open_regular};
use super::resolve::{leads_outside, or_dot, without_links};

/// An opened directory that nothing reached through it can leave.
///
/// ```
/// # #[cfg(unix)] {
/// use std::path::Path;
/// use std::sync::Arc;
/// use innkeeper_std::{ConfinedRoot, leads_outside};
/// # let temp = tempfile::tempdir().unwrap();
/// # std::fs::create_dir(temp.path().join("src")).unwrap();
/// # std::os::unix::fs::symlink("src", temp.path().join("link")).unwrap();
/// # std::os::unix::fs::symlink("/etc", temp.path().join("out")).unwrap();
///
/// // `link` leads to `src`, `out` to `/etc`.
/// let root = Arc::new(ConfinedRoot::open(temp.path()).unwrap());
/// assert_eq!(root.existing(Path::new("link")).unwrap().relative(), Path::new("src"));
/// assert!(leads_outside(&root.existing(Path::new("out")).unwrap_err()));
/// assert!(leads_outside(&root.existing(Path::new("src/../..")).unwrap_err()));
/// # }
/// ```
#[derive(Debug)]
pub struct ConfinedRoot {
    dir: Dir,
    path: PathBuf,
    canonical: PathBuf,
}

/// Why [`ConfinedRoot::open_exact`] opened nothing.
#[derive(Debug)]
pub enum ExactError {
    /// One of the names on the way is a symlink.
    Symlink,
    /// The operating system refused.
    Io(io::Error),
}

/// Why a path for something new was not resolved.
#[derive(Debug)]
pub enum TargetError {
    /// A symlink leads nowhere.
    Dangling {
        /// The path of the symlink, from the root.
        link: PathBuf,
        /// Whether the symlink is the last name of the path.
        is_last: bool,
    },
    /// There are dots among the names that do not exist, which could mean anything.
    Dots,
    /// The operating system or the handle refused.
    Io(io::Error),
}

impl ConfinedRoot {
    /// Opens a directory. Symlinks on the way to it are followed: the caller trusts the path.
    ///
    /// # Errors
    ///
    /// When there is no such directory and when it cannot be opened.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let dir = Dir::open_ambient_dir(&path, ambient_authority())?;
        Self::from_dir(dir, path)
    }

    /// Opens a directory without following any symlink on the way to it. If the last name is a file, or nothing yet,
    /// the directory around it is opened, and the name is returned.
    ///
    /// # Errors
    ///
    /// [`ExactError::Symlink`] if there is a symlink on the way.
    pub fn open_exact(path: &Path) -> Result<(Self, Option<OsString>), ExactError> {
        let (dir, name) = open_without_symlinks(path)?;
        let opened = match (&name, path.parent()) {
            (Some(_), Some(parent)) => parent,
            _ => path,
        };
        let root = Self::from_dir(dir, opened.to_owned()).map_err(ExactError::Io)?;
        Ok((root, name))
    }

    /// Confines to a directory that is open already. The path is the name by which users know it.
    ///
    /// # Errors
    ///
    /// When the operating system does not tell the real path of the handle.
    pub fn from_dir(dir: Dir, path: PathBuf) -> io::Result<Self> {
        let canonical = match real_path(&dir) {
            Some(canonical) => canonical,
            None => fs::canonicalize(&path)?,
        };
        Ok(Self { dir, path, canonical })
    }

    /// The handle.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// The path that the root was named by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the handle, without symlinks. Only for messages, URIs and comparisons.
    pub fn canonical(&self) -> &Path {
        &self.canonical
    }

    /// The rest of an absolute path below the root, by either of its paths. `None` for paths elsewhere.
    pub fn strip<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        let rest = path
            .strip_prefix(&self.path)
            .or_else(|_| path.strip_prefix(&self.canonical));
        rest.ok()
    }

    /// Resolves the path of something that exists.
    ///
    /// # Errors
    ///
    /// When nothing is there, and when it leads outside ([`leads_outside`]).
    pub fn existing(self: &Arc<Self>, relative: &Path) -> io::Result<ConfinedPath> {
        let resolved = without_links(&self.dir, or_dot(relative))?;
        Ok(self.path_of(&resolved))
    }

    /// Resolves the path of a directory entry that exists: if its last name is a symlink, the symlink itself.
    ///
    /// # Errors
    ///
    /// When the directory around it does not exist, and when that leads outside.
    pub fn entry(self: &Arc<Self>, relative: &Path) -> io::Result<ConfinedPath> {
        match split(relative) {
            Some((parent, name)) => Ok(self.existing(parent)?.join(Path::new(name))),
            None => Ok(self.path_of(Path::new(""))),
        }
    }

    /// Resolves the path of something that may not exist yet, nor the directories it is in.
    ///
    /// # Errors
    ///
    /// When the part that exists leads outside or nowhere.
    pub fn target(self: &Arc<Self>, relative: &Path) -> Result<ConfinedPath, TargetError> {
        let mut missing: Vec<&OsStr> = Vec::new();
        let mut present = relative.components();
        loop {
            let base = or_dot(present.as_path());
            match without_links(&self.dir, base) {
                Ok(mut resolved) => {
                    resolved.extend(missing.iter().rev());
                    return Ok(self.path_of(&resolved));
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    if self.dir.symlink_metadata(base).is_ok() {
                        return Err(TargetError::Dangling {
                            link: base.to_owned(),
                            is_last: missing.is_empty(),
                        });
                    }
                    match present.next_back() {
                        Some(Component::Normal(name)) => missing.push(name),
                        Some(_) | None => return Err(TargetError::Dots),
                    }
                }
                Err(error) => return Err(TargetError::Io(error)),
            }
        }
    }

    /// Resolves a name that something is to take. If a symlink has the name now, it is the symlink's own name: a rename
    /// replaces the symlink, and not the file that it leads to.
    ///
    /// # Errors
    ///
    /// As [`Self::target`] for the directory around it.
    pub fn target_entry(self: &Arc<Self>, relative: &Path) -> Result<ConfinedPath, TargetError> {
        match split(relative) {
            Some((parent, name)) => Ok(self.target(parent)?.join(Path::new(name))),
            None => Ok(self.path_of(Path::new(""))),
        }
    }

    /// Acts on a path, also through absolute symlinks that lead back inside: the handle refuses all absolute ones.
    ///
    /// # Errors
    ///
    /// Those of the action, and [`leads_outside`] for paths that do.
    pub fn act<T>(&self, relative: &Path, act: impl Fn(&Dir, &Path) -> io::Result<T>) -> io::Result<T> {
        let path = or_dot(relative);
        let refused = match act(&self.dir, path) {
            Err(error) if leads_outside(&error) => error,
            other => return other,
        };
        let full = self.path.join(path);
        let real = match fs::canonicalize(&full) {
            // A missing target is outside all the same: another program decides what will be there.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let is_inside = follow(&full).end.starts_with(&self.canonical);
                return Err(if is_inside { error } else { refused });
            }
            real => real?,
        };
        match real.strip_prefix(&self.canonical) {
            Ok(inside) => act(&self.dir, or_dot(inside)),
            Err(_) => Err(refused),
        }
    }

    /// Keeps the names of a resolved path.
    fn path_of(self: &Arc<Self>, resolved: &Path) -> ConfinedPath {
        let names = resolved.components();
        let names = names.filter(|part| matches!(part, Component::Normal(_)));
        ConfinedPath {
            root: Arc::clone(self),
            relative: names.collect(),
        }
    }
}

/// A path below a [`ConfinedRoot`] without symlinks and dots.
#[derive(Debug, Clone)]
pub struct ConfinedPath {
    root: Arc<ConfinedRoot>,
    /// Empty for the root itself.
    relative: PathBuf,
}

impl ConfinedPath {
    /// The root.
    pub fn root(&self) -> &ConfinedRoot {
        &self.root
    }

    /// The path from the root; empty for the root itself.
    pub fn relative(&self) -> &Path {
        &self.relative
    }

    /// The path for the handle of the root.
    pub fn within(&self) -> &Path {
        or_dot(&self.relative)
    }

    /// Whether it is the root itself.
    pub fn is_root(&self) -> bool {
        self.relative.as_os_str().is_empty()
    }

    /// The full path by the name of the root. Only for messages, URIs and commands: files are opened through the handle.
    pub fn path(&self) -> PathBuf {
        self.root.path.join(&self.relative)
    }

    /// The full path without symlinks. Only for messages, URIs and comparisons.
    pub fn canonical(&self) -> PathBuf {
        self.root.canonical.join(&self.relative)
    }

    /// A path below this directory, by names that a listing or a walk returned.
    #[must_use]
    pub fn join(&self, relative: &Path) -> Self {
        Self {
            root: Arc::clone(&self.root),
            relative: self.relative.join(relative),
        }
    }

    /// Opens the directory without following any symlink.
    ///
    /// # Errors
    ///
    /// When it is gone, is not a directory, or a symlink took the place of one of its names.
    pub fn open_dir(&self) -> io::Result<Dir> {
        open_descendant(&self.root.dir, &self.relative)
    }

    /// Opens the directory around it, and returns its name there. `None` for the root itself.
    ///
    /// # Errors
    ///
    /// As [`Self::open_dir`].
    pub fn open_parent(&self) -> io::Result<Option<(Dir, PathBuf)>> {
        match (self.relative.parent(), self.relative.file_name()) {
            (Some(parent), Some(name)) => {
                let dir = open_descendant(&self.root.dir, parent)?;
                Ok(Some((dir, PathBuf::from(name))))
            }
            _ => Ok(None),
        }
    }

    /// Opens it to read it, if it is a regular file.
    ///
    /// # Errors
    ///
    /// As [`open_regular`].
    pub fn open_file(&self) -> io::Result<Opened> {
        open_regular(&self.root.dir, self.within())
    }
}

/// Opens a directory below another one, name by name, without following symlinks.
///
/// # Errors
///
/// When one of the names is gone, is a symlink, or is no directory.
pub fn open_descendant(dir: &Dir, path: &Path) -> io::Result<Dir> {
    let mut dir = dir.try_clone()?;
    for part in path.components() {
        dir = open_child(&dir, Path::new(part.as_os_str()))?;
    }
    Ok(dir)
}

/// The directory and the last name of a path. `None` for the root itself, and for paths that end in dots.
fn split(relative: &Path) -> Option<(&Path, &OsStr)> {
    match (relative.parent(), relative.components().next_back()) {
        (Some(parent), Some(Component::Normal(name))) => Some((parent, name)),
        _ => None,
    }
}

fn open_without_symlinks(path: &Path) -> Result<(Dir, Option<OsString>), ExactError> {
    let mut parts: Vec<Component<'_>> = path.components().collect();
    let last = match parts.pop() {
        Some(Component::Normal(name)) => Some(name.to_owned()),
        Some(part) => {
            parts.push(part);
            None
        }
        None => return Err(ExactError::Io(ErrorKind::NotFound.into())),
    };
    let (start, below): (Vec<_>, Vec<_>) = parts
        .into_iter()
        .partition(|part| matches!(part, Component::RootDir | Component::Prefix(_)));
    let start: PathBuf = start.into_iter().collect();
    let mut dir = Dir::open_ambient_dir(start, ambient_authority()).map_err(ExactError::Io)?;
    let is_link = |dir: &Dir, name: &Path| dir.symlink_metadata(name).is_ok_and(|data| data.is_symlink());
    for part in below {
        let name = Path::new(part.as_os_str());
        dir = match open_child(&dir, name) {
            Ok(inner) => inner,
            Err(_) if is_link(&dir, name) => return Err(ExactError::Symlink),
            Err(error) => return Err(ExactError::Io(error)),
        };
    }
    let Some(name) = last else {
        return Ok((dir, None));
    };
    match open_child(&dir, Path::new(&name)) {
        Ok(inner) => Ok((inner, None)),
        Err(_) if is_link(&dir, Path::new(&name)) => Err(ExactError::Symlink),
        // A file, or one that is to be created.
        Err(error) if matches!(error.kind(), ErrorKind::NotADirectory | ErrorKind::NotFound) => Ok((dir, Some(name))),
        Err(error) => Err(ExactError::Io(error)),
    }
}

/// The path of a handle, as the operating system sees it.
#[cfg(target_os = "linux")]
pub fn real_path(dir: &Dir) -> Option<PathBuf> {
    use std::os::fd::AsRawFd as _;
    fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd())).ok()
}

/// The path of a handle, as the operating system sees it. Not every system tells it.
#[cfg(not(target_os = "linux"))]
pub fn real_path(_: &Dir) -> Option<PathBuf> {
    None
}

#[cfg(all(test, unix))]
mod tests;

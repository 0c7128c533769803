//! Files of one container, reached through an opened directory.
//!
//! [`ConfinedRoot`] confines every path to the boundary of the container. This module adds the budget of a scan, the
//! footprint, and the policy for symlinks in the user's own directories. Only files and directories are opened, so a
//! pipe cannot block a scan.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};
use innkeeper_std::{ConfinedRoot, leads_outside, or_dot};

use crate::limits::{MAX_BYTES, MAX_DIRECTORIES, MAX_ENTRIES};
use crate::note::Code;

/// The policy for symlinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Links {
    /// Symlinks stay within the boundary. For files of untrusted authors.
    #[default]
    Confined,
    /// Symlinks lead anywhere. For directories of the user.
    Followed,
}

/// The root of a container, opened.
#[derive(Debug)]
pub(crate) struct ScanRoot {
    boundary: ConfinedRoot,
    /// From the boundary to the root.
    prefix: PathBuf,
    links: Links,
    spent: ScanBudget,
    /// The directories that the result depends on, by their full paths.
    touched: RefCell<BTreeSet<PathBuf>>,
}

#[derive(Debug, Default)]
struct ScanBudget {
    directories: Cell<usize>,
    entries: Cell<usize>,
    bytes: Cell<u64>,
    is_exhausted: Cell<bool>,
}

/// The kind of a path, symlinks followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathKind {
    Missing,
    File,
    Directory,
    /// A pipe, a socket or a device.
    Special,
    /// A symlink that leads out of the boundary.
    Outside,
    Unreadable,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DirEntry {
    pub(crate) name: OsString,
    pub(crate) is_link: bool,
    pub(crate) may_be_directory: bool,
}

/// The beginning of a file, or all of it.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) bytes: Vec<u8>,
    /// The size of the whole file.
    pub(crate) size: u64,
}

impl Contents {
    pub(crate) fn is_cut_off(&self) -> bool {
        (self.bytes.len() as u64) < self.size
    }
}

/// Why something was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReadError {
    Missing,
    Outside,
    NotAFile,
    NotADirectory,
    Special,
    Unreadable(String),
    /// The budget of the scan is used up.
    Exhausted,
}

impl ReadError {
    /// The code of the note about it.
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::Outside => Code::PathEscape,
            Self::NotAFile | Self::NotADirectory | Self::Special => Code::WrongKind,
            Self::Missing | Self::Unreadable(_) => Code::Unreadable,
            Self::Exhausted => Code::Limit,
        }
    }

    /// The problem and the remedy, for users.
    pub(crate) fn explain(&self) -> String {
        match self {
            Self::Missing => "does not exist: create it or remove its mention".to_owned(),
            Self::Outside => {
                "leads out of its directory, so it is not read: put the file itself in its place".to_owned()
            }
            Self::NotAFile => "is a directory where a file belongs: rename it".to_owned(),
            Self::NotADirectory => "is a file where a directory belongs: rename it".to_owned(),
            Self::Special => "is a pipe, a socket or a device, which is never opened: remove it".to_owned(),
            Self::Unreadable(why) => format!("cannot be read ({why}): check its permissions"),
            Self::Exhausted => "was not read because there is too much here: split the plugin up".to_owned(),
        }
    }
}

impl ScanRoot {
    /// Opens a root that is its own boundary.
    pub(crate) fn open(path: &Path, links: Links) -> io::Result<Self> {
        Self::open_within(path, Path::new(""), links)
    }

    /// Opens a root that is its own boundary; the path to it must stay in the base.
    pub(crate) fn open_below(base: &Path, path: &Path, links: Links) -> io::Result<Self> {
        let outer = Self::open(base, links)?;
        let dir = outer.with(path, |dir, path| dir.open_dir(path))?;
        Ok(Self {
            boundary: ConfinedRoot::from_dir(dir, base.join(path))?,
            ..outer
        })
    }

    /// Opens a root inside a boundary. The root need not exist.
    pub(crate) fn open_within(boundary: &Path, prefix: &Path, links: Links) -> io::Result<Self> {
        Ok(Self {
            boundary: ConfinedRoot::open(boundary)?,
            prefix: prefix.to_owned(),
            links,
            spent: ScanBudget::default(),
            touched: RefCell::default(),
        })
    }

    /// The directories that were listed or opened, whether they exist or not.
    pub(crate) fn into_touched(self) -> BTreeSet<PathBuf> {
        self.touched.into_inner()
    }

    fn touch(&self, directory: &Path) {
        let mut touched = self.touched.borrow_mut();
        if !touched.contains(directory) {
            touched.insert(directory.to_owned());
        }
    }

    pub(crate) fn look(&self, relative: &Path) -> PathKind {
        let path = self.boundary.path().join(self.inside(relative));
        if let Some(directory) = path.parent() {
            self.touch(directory);
        }
        let data = self.with(relative, |dir, path| dir.metadata(path));
        // The target of a symlink, even a missing one, may change at its real path.
        self.touch_link(&path);
        match data {
            Ok(data) if data.is_file() => PathKind::File,
            Ok(data) if data.is_dir() => PathKind::Directory,
            Ok(_) => PathKind::Special,
            Err(error) => match read_error(&error) {
                ReadError::Missing | ReadError::NotADirectory => PathKind::Missing,
                ReadError::Outside => PathKind::Outside,
                _ => PathKind::Unreadable,
            },
        }
    }

    /// The entries of a directory in the order of the bytes of their names, hidden ones included.
    pub(crate) fn list(&self, relative: &Path) -> Result<Vec<DirEntry>, ReadError> {
        if self.spent.directories.get() >= MAX_DIRECTORIES {
            self.spent.is_exhausted.set(true);
            return Err(ReadError::Exhausted);
        }
        self.spent.directories.set(self.spent.directories.get() + 1);
        self.touch(&self.boundary.path().join(self.inside(relative)));
        let listing = self
            .with(relative, |dir, path| dir.read_dir(path))
            .map_err(|error| read_error(&error))?;
        let mut entries = Vec::new();
        for entry in listing {
            let Ok(entry) = entry else { continue };
            if self.spent.entries.get() >= MAX_ENTRIES {
                self.spent.is_exhausted.set(true);
                break;
            }
            self.spent.entries.set(self.spent.entries.get() + 1);
            let kind = entry.file_type().ok();
            let is_link = kind.is_some_and(|kind| kind.is_symlink());
            entries.push(DirEntry {
                name: entry.file_name(),
                is_link,
                may_be_directory: is_link || kind.is_none_or(|kind| kind.is_dir()),
            });
        }
        entries.sort_by(|a, b| a.name.as_encoded_bytes().cmp(b.name.as_encoded_bytes()));
        Ok(entries)
    }

    /// Reads a file, at most so much of it.
    pub(crate) fn read(&self, relative: &Path, most: usize) -> Result<Contents, ReadError> {
        if self.spent.bytes.get() >= MAX_BYTES {
            self.spent.is_exhausted.set(true);
            return Err(ReadError::Exhausted);
        }
        // Checked first, because opening a pipe or a device can already have an effect.
        match self.look(relative) {
            PathKind::Directory => return Err(ReadError::NotAFile),
            PathKind::Special => return Err(ReadError::Special),
            PathKind::Missing => return Err(ReadError::Missing),
            PathKind::File | PathKind::Outside | PathKind::Unreadable => {}
        }
        let file = self
            .with(relative, |dir, path| dir.open_with(path, &without_waiting()))
            .map_err(|error| read_error(&error))?
            .into_std();
        let data = file.metadata().map_err(|error| read_error(&error))?;
        if !data.is_file() {
            return Err(ReadError::Special);
        }
        let expected = usize::try_from(data.len()).unwrap_or(most).min(most);
        let mut bytes = Vec::with_capacity(expected + 1);
        file.take(most as u64)
            .read_to_end(&mut bytes)
            .map_err(|error| read_error(&error))?;
        self.spent.bytes.set(self.spent.bytes.get() + bytes.len() as u64);
        let size = data.len().max(bytes.len() as u64);
        // A file that shrank during the read counts as what was read.
        let size = if bytes.len() < most { bytes.len() as u64 } else { size };
        Ok(Contents { bytes, size })
    }

    fn touch_link(&self, path: &Path) {
        if is_link(path) {
            self.touch(path);
        }
    }

    /// The path without symlinks, which identifies a file.
    pub(crate) fn real(&self, relative: &Path) -> PathBuf {
        let path = self.inside(relative);
        match self.boundary.dir().canonicalize(&path) {
            Ok(real) => real.components().filter(|part| *part != Component::CurDir).collect(),
            Err(_) => fs::canonicalize(self.boundary.path().join(&path)).unwrap_or(path),
        }
    }

    /// The real path of a symlink.
    pub(crate) fn through_link(&self, relative: &Path) -> Option<PathBuf> {
        let full = self.boundary.path().join(self.inside(relative));
        is_link(&full).then(|| self.real(relative))
    }

    /// A path that [`Self::real`] returned, from the root of the file system.
    pub(crate) fn full(&self, real: &Path) -> PathBuf {
        self.boundary.canonical().join(real)
    }

    /// Whether a bound was reached, so that something may be missing.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.spent.is_exhausted.get()
    }

    /// Whether the root could be written to, as far as its permissions tell. A root that does not
    /// exist yet is writable when the nearest directory that does is.
    pub(crate) fn is_writable(&self) -> bool {
        let full = self.boundary.path().join(&self.prefix);
        if self.leads_nowhere() {
            return false;
        }
        let nearest = full
            .ancestors()
            .find_map(|path| fs::metadata(path).ok().map(|data| (path, data)));
        let Some((path, data)) = nearest else { return false };
        if !data.is_dir() || data.permissions().readonly() {
            return false;
        }
        #[cfg(unix)]
        {
            rustix::fs::access(path, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok()
        }
        #[cfg(not(unix))]
        {
            let _ = path;
            true
        }
    }

    /// Whether there is a broken symlink between the boundary and the root: no directory can be created there.
    pub(crate) fn leads_nowhere(&self) -> bool {
        let full = self.boundary.path().join(&self.prefix);
        let mut way = full.ancestors().take(self.prefix.components().count());
        way.any(|path| is_link(path) && fs::metadata(path).is_err())
    }

    fn inside(&self, relative: &Path) -> PathBuf {
        // Part by part: joining with nothing would leave a slash at the end, which only directories bear.
        let path: PathBuf = self.prefix.components().chain(relative.components()).collect();
        or_dot(&path).to_owned()
    }

    fn with<T>(&self, relative: &Path, act: impl Fn(&Dir, &Path) -> io::Result<T>) -> io::Result<T> {
        let path = self.inside(relative);
        let refused = match self.boundary.act(&path, &act) {
            Err(error) if self.links == Links::Followed && leads_outside(&error) => error,
            other => return other,
        };
        let real = fs::canonicalize(self.boundary.path().join(&path))?;
        match (real.parent(), real.file_name()) {
            (Some(parent), Some(name)) => {
                let parent = Dir::open_ambient_dir(parent, ambient_authority())?;
                act(&parent, Path::new(name))
            }
            _ => Err(refused),
        }
    }
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|data| data.is_symlink())
}

/// A path for users and for sorting: its parts joined by slashes.
pub(crate) fn label(relative: &Path) -> String {
    let mut label = String::new();
    for part in relative.components() {
        if !label.is_empty() {
            label.push('/');
        }
        label.push_str(&part.as_os_str().to_string_lossy());
    }
    label
}

fn without_waiting() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use cap_std::fs::OpenOptionsExt as _;
        use rustix::fs::OFlags;
        options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed());
    }
    options
}

fn read_error(error: &io::Error) -> ReadError {
    if leads_outside(error) {
        return ReadError::Outside;
    }
    // A symlink to itself counts as broken.
    #[cfg(unix)]
    if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
        return ReadError::Missing;
    }
    match error.kind() {
        ErrorKind::NotFound => ReadError::Missing,
        ErrorKind::NotADirectory => ReadError::NotADirectory,
        ErrorKind::IsADirectory => ReadError::NotAFile,
        kind => ReadError::Unreadable(kind.to_string()),
    }
}

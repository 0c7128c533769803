//! A file of an operation: reads and writes it below a directory that nothing done to it leaves.
//!
//! Every name on the way is opened without following symlinks, as Git looks at a work tree: a file "below" a symlink
//! does not exist, and nothing is written there.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use innkeeper_std::{ConfinedRoot, Opened, TempEntry, open_child, open_descendant, open_regular, read_whole};

use crate::changes::snapshot::MAX_FILE_BYTES;

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

/// The path of a file, and the directory above it that stays whatever happens to the file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FilePath {
    root: PathBuf,
    path: PathBuf,
}

impl FilePath {
    /// The innermost of some directories that the file is in, or the innermost one that exists, is its root.
    pub(super) fn new<'a>(path: PathBuf, roots: impl Iterator<Item = &'a Path>) -> Self {
        let around = roots.filter(|root| path.starts_with(root) && path != *root);
        let root = match around.max_by_key(|root| root.as_os_str().len()) {
            Some(root) => root.to_owned(),
            None => {
                let mut above = path.ancestors().skip(1);
                above.find(|above| above.is_dir()).unwrap_or(&path).to_owned()
            }
        };
        Self { root, path }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Reads the file as it is now. A directory counts as no file.
    pub(super) fn read(&self) -> io::Result<FileContent> {
        let (dir, name) = match self.open_parent() {
            Err(error) if is_absent(&error) => return Ok(FileContent::Absent),
            opened => opened?,
        };
        let about = match dir.symlink_metadata(name) {
            Err(error) if is_absent(&error) => return Ok(FileContent::Absent),
            about => about?,
        };
        if about.is_dir() {
            return Ok(FileContent::Absent);
        }
        if about.is_symlink() {
            let target = dir.read_link_contents(name)?;
            return Ok(FileContent::Symlink(target.into_os_string().into_vec()));
        }
        let too_large =
            |size: u64| io::Error::other(format!("it has {size} bytes, which is too large to store a copy"));
        if about.len() > MAX_FILE_BYTES {
            return Err(too_large(about.len()));
        }
        let Opened::File(file) = open_regular(&dir, name)? else {
            return Err(io::Error::other("it is neither a file nor a symlink"));
        };
        let is_executable = file.metadata()?.permissions().mode() & 0o100 != 0;
        let bytes = read_whole(file, MAX_FILE_BYTES)?.ok_or_else(|| too_large(MAX_FILE_BYTES + 1))?;
        Ok(FileContent::File { bytes, is_executable })
    }

    /// Gives the file a content. Directories above it are created when they are missing, and removed when they are
    /// empty afterwards, as Git does it.
    pub(super) fn write(&self, content: &FileContent) -> io::Result<()> {
        match content {
            FileContent::Absent => self.remove(),
            FileContent::File { bytes, is_executable } => {
                let (dir, name) = self.create_parent()?;
                remove_empty(&dir, name)?;
                // The mode of the file that is replaced stays, but for the bit that Git knows.
                let known = dir.symlink_metadata(name).ok().filter(|about| about.is_file());
                let mode = known.map_or(0o644, |about| {
                    use cap_std::fs::PermissionsExt as _;
                    about.permissions().mode() & 0o777
                });
                let mode = match is_executable {
                    true => mode | ((mode & 0o444) >> 2),
                    false => mode & !0o111,
                };
                let mut options = OpenOptions::new();
                options.create_new(true).write(true).mode(0o600);
                let new = TempEntry::create(&dir, |name| {
                    dir.open_with(name, &options).map(cap_std::fs::File::into_std)
                })?;
                let mut file = new.made();
                file.write_all(bytes)?;
                file.set_permissions(Permissions::from_mode(mode))?;
                file.sync_data()?;
                new.take_name(name, false)
            }
            FileContent::Symlink(target) => {
                let (dir, name) = self.create_parent()?;
                remove_empty(&dir, name)?;
                let target = OsStr::from_bytes(target);
                TempEntry::create(&dir, |name| dir.symlink_contents(target, name))?.take_name(name, false)
            }
        }
    }

    /// Says why the file cannot have a content, if something is in its way that stays when the files in `removed` are
    /// gone: a file or symlink where a directory has to be, or a directory with files in its own place.
    pub(super) fn obstacle(&self, removed: &HashSet<&Path>) -> Option<String> {
        let mut above = self.root.clone();
        let names: Vec<Component<'_>> = self.relative().components().collect();
        for name in names.iter().take(names.len().saturating_sub(1)) {
            above.push(name);
            let about = std::fs::symlink_metadata(&above).ok()?;
            if about.is_dir() {
                continue;
            }
            let kind = if about.is_symlink() { "a symlink" } else { "a file" };
            return match removed.contains(above.as_path()) {
                true => None,
                false => Some(format!("{} is {kind} now", above.display())),
            };
        }
        let is_directory = std::fs::symlink_metadata(&self.path).is_ok_and(|about| about.is_dir());
        let inside = is_directory.then(|| first_file(&self.path, removed)).flatten()?;
        let inside = inside.strip_prefix(&self.path).unwrap_or(&inside);
        Some(format!("it is a directory now, with {} in it", inside.display()))
    }

    fn relative(&self) -> &Path {
        self.path.strip_prefix(&self.root).unwrap_or_else(|_| Path::new(""))
    }

    /// The directory around the file, and the file's name in it.
    fn open_parent(&self) -> io::Result<(Dir, &Path)> {
        let (parent, name) = self.split()?;
        let root = ConfinedRoot::open(&self.root)?;
        Ok((open_descendant(root.dir(), parent)?, name))
    }

    fn create_parent(&self) -> io::Result<(Dir, &Path)> {
        let (parent, name) = self.split()?;
        let mut dir = ConfinedRoot::open(&self.root)?.dir().try_clone()?;
        for part in parent.components() {
            let part = Path::new(part.as_os_str());
            match dir.create_dir(part) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                _ => dir = open_child(&dir, part)?,
            }
        }
        Ok((dir, name))
    }

    fn split(&self) -> io::Result<(&Path, &Path)> {
        let relative = self.relative();
        match (relative.parent(), relative.file_name()) {
            (Some(parent), Some(name)) => Ok((parent, Path::new(name))),
            _ => Err(io::Error::other("it is no path of a file")),
        }
    }

    fn remove(&self) -> io::Result<()> {
        let (dir, name) = match self.open_parent() {
            Err(error) if is_absent(&error) => return Ok(()),
            opened => opened?,
        };
        match dir.remove_file(name) {
            Err(error) if !is_absent(&error) => return Err(error),
            _ => {}
        }
        let root = ConfinedRoot::open(&self.root)?;
        let mut directory = self.relative().parent();
        while let Some((around, name)) = directory.and_then(|path| Some((path.parent()?, path.file_name()?))) {
            let around_dir = open_descendant(root.dir(), around)?;
            // It fails for a directory with anything in it.
            if around_dir.remove_dir(name).is_err() {
                break;
            }
            directory = Some(around);
        }
        Ok(())
    }
}

/// A path, or something above it, that does not exist, or a file or symlink above it.
fn is_absent(error: &io::Error) -> bool {
    let is_symlink = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    is_symlink || matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Removes a directory that has nothing but directories in it; something else stays.
fn remove_empty(dir: &Dir, name: &Path) -> io::Result<()> {
    if !dir.symlink_metadata(name).is_ok_and(|about| about.is_dir()) {
        return Ok(());
    }
    let inner = open_child(dir, name)?;
    let names: Vec<OsString> = inner
        .entries()?
        .map(|entry| Ok(entry?.file_name()))
        .collect::<io::Result<_>>()?;
    for name in names {
        remove_empty(&inner, Path::new(&name))?;
    }
    dir.remove_dir(name)
}

/// The first file below a directory that is not among some.
fn first_file(directory: &Path, but: &HashSet<&Path>) -> Option<PathBuf> {
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        // A directory that cannot be read cannot be removed either.
        let Ok(entries) = std::fs::read_dir(&directory) else {
            return Some(directory);
        };
        for entry in entries.flatten() {
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => waiting.push(entry.path()),
                false if !but.contains(entry.path().as_path()) => return Some(entry.path()),
                false => {}
            }
        }
    }
    None
}

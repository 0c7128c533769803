//! The roots that a client may reach, and paths below them.
//!
//! Confinement is that of [`ConfinedRoot`]; here are the grants: which root a path belongs to, and which paths are
//! refused although they are inside.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use innkeeper_host::resources::AllowedRoot;
use innkeeper_host::resources::ResourceError;
use innkeeper_std::text::prefix;
use innkeeper_std::{
    ConfinedPath, ConfinedRoot, ExactError, TargetError, create_directories, leads_outside, real_path,
};

use super::forbidden::Forbidden;
use crate::uri;

/// The roots that one client may reach.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grants<'a> {
    pub(crate) reaches: &'a [AllowedRoot],
    pub(crate) forbidden: &'a Forbidden,
    /// Directories that are created by the first write into them.
    pub(crate) made: &'a [PathBuf],
    /// The permissions that what is made goes without; `None` leaves it to the process.
    pub(crate) umask: Option<u32>,
}

/// A root that was granted, opened.
#[derive(Debug)]
pub(crate) struct GrantedRoot {
    confined: Arc<ConfinedRoot>,
    /// The path that was granted.
    path: PathBuf,
    /// The one name that may be reached, if the grant is for a file.
    only: Option<OsString>,
    /// The umask of new files and directories; `None` for that of the process.
    pub(crate) umask: Option<u32>,
    /// The URI of the grant.
    pub(crate) uri: String,
}

/// A path below a granted root.
#[derive(Debug, Clone)]
pub(crate) struct ResourcePath {
    pub(crate) root: Arc<GrantedRoot>,
    path: ConfinedPath,
    /// The URI that the client used.
    pub(crate) uri: String,
}

/// An opened directory and the name of one of its entries.
#[derive(Debug)]
pub(crate) struct DirEntryRef {
    pub(crate) dir: Dir,
    pub(crate) name: PathBuf,
}

impl Grants<'_> {
    /// Something that exists, where links lead.
    pub(crate) fn existing(&self, field: &'static str, uri: &str, write: bool) -> Result<ResourcePath, ResourceError> {
        let (root, relative) = self.locate(field, uri, write)?;
        match root.confined.existing(&relative) {
            Ok(path) => self.admit(root, path, uri, write),
            Err(error) => {
                let (root, relative) = self.resolve_from_top(field, uri, write, &error)?;
                let path = root
                    .confined
                    .existing(&relative)
                    .map_err(|error| problem(uri, &error))?;
                self.admit(root, path, uri, write)
            }
        }
    }

    /// Something that exists, by its own name: if that is a link, the link.
    pub(crate) fn entry(&self, field: &'static str, uri: &str, write: bool) -> Result<ResourcePath, ResourceError> {
        let (root, relative) = self.locate(field, uri, write)?;
        match root.confined.entry(&relative) {
            Ok(path) => self.admit(root, path, uri, write),
            Err(error) => {
                let path = uri::to_exact_path(field, uri)?;
                let parent = path.parent().and_then(uri::from_path);
                let (Some(parent), Some(name)) = (parent, path.file_name()) else {
                    return Err(problem(uri, &error));
                };
                let (root, relative) = self.resolve_from_top(field, &parent, write, &error)?;
                let path = root.confined.entry(&relative.join(name));
                self.admit(root, path.map_err(|error| problem(uri, &error))?, uri, write)
            }
        }
    }

    /// Resolves what leads out of the place it was found in, for a client that may reach the whole file system. Its
    /// handle refuses links that name a whole path, as `/home` often is, although they cannot lead out of it.
    fn resolve_from_top(
        &self,
        field: &'static str,
        uri: &str,
        write: bool,
        error: &io::Error,
    ) -> Result<(Arc<GrantedRoot>, PathBuf), ResourceError> {
        let top = self.reaches.iter().find(|reach| {
            let is_top = || uri::to_path(&reach.uri).is_some_and(|path| path.parent().is_none());
            (reach.write || !write) && !reach.exact && is_top()
        });
        let Some(top) = top.filter(|_| leads_outside(error)) else {
            return Err(problem(uri, error));
        };
        let real = fs::canonicalize(uri::to_exact_path(field, uri)?).map_err(|error| problem(uri, &error))?;
        let start = real.ancestors().last().unwrap_or(&real);
        let entered = self.enter(top, start, &real);
        entered.map_err(|_| problem(uri, error))
    }

    /// Something that may not exist yet, nor the directories it is in.
    pub(crate) fn target(&self, field: &'static str, uri: &str) -> Result<ResourcePath, ResourceError> {
        let (root, relative) = self.locate_or_make(field, uri)?;
        let path = root.confined.target(&relative);
        let path = path.map_err(|error| refuse_target(error, uri, ResourceError::NotFound))?;
        self.admit(root, path, uri, true)
    }

    /// The same if it is to be new: a link that leads nowhere is something that exists.
    pub(crate) fn new_target(&self, field: &'static str, uri: &str) -> Result<ResourcePath, ResourceError> {
        let (root, relative) = self.locate_or_make(field, uri)?;
        let path = root.confined.target(&relative);
        let path = path.map_err(|error| refuse_target(error, uri, ResourceError::Exists))?;
        self.admit(root, path, uri, true)
    }

    /// A name that something is to have. If a link has it now, that is the link's own name and not what it
    /// leads to: whatever takes a name by being renamed takes it from the link.
    pub(crate) fn name_to_take(&self, field: &'static str, uri: &str) -> Result<ResourcePath, ResourceError> {
        let (root, relative) = self.locate_or_make(field, uri)?;
        let path = root.confined.target_entry(&relative);
        let path = path.map_err(|error| refuse_target(error, uri, ResourceError::NotFound))?;
        self.admit(root, path, uri, true)
    }

    fn locate_or_make(&self, field: &'static str, uri: &str) -> Result<(Arc<GrantedRoot>, PathBuf), ResourceError> {
        self.make_place_of(&uri::to_exact_path(field, uri)?);
        self.locate(field, uri, true)
    }

    /// Makes the place that a path is in, if that is one of those that need not exist and the client
    /// may write there. That it cannot be made shows when it is opened.
    fn make_place_of(&self, path: &Path) {
        let is_writable = |resource: &Path| {
            let mut writable = self.reaches.iter().filter(|reach| reach.write && !reach.exact);
            writable.any(|reach| uri::to_path(&reach.uri).as_deref() == Some(resource))
        };
        let mut places = self.made.iter().filter(|resource| path.starts_with(resource));
        if let Some(resource) = places.find(|resource| is_writable(resource)) {
            let base = resource.ancestors().find(|base| base.is_dir());
            let base = base.and_then(|base| Some((base, Dir::open_ambient_dir(base, ambient_authority()).ok()?)));
            if let Some((base, dir)) = base
                && let Ok(rest) = resource.strip_prefix(base)
            {
                let _ = create_directories(&dir, rest, self.umask);
            }
        }
    }

    /// Chooses and opens the place that a path is in, and what is left of the path.
    fn locate(
        &self,
        field: &'static str,
        uri: &str,
        write: bool,
    ) -> Result<(Arc<GrantedRoot>, PathBuf), ResourceError> {
        let path = uri::to_exact_path(field, uri)?;
        let reaches = self.reaches.iter().filter(|reach| reach.write || !write);
        let named: Vec<(&AllowedRoot, PathBuf)> = reaches
            .filter_map(|reach| Some((reach, uri::to_path(&reach.uri)?)))
            .collect();
        // The longest first: it is the nearest, and opening it follows the fewest names.
        let mut likely: Vec<&(&AllowedRoot, PathBuf)> =
            named.iter().filter(|(_, root)| path.starts_with(root)).collect();
        likely.sort_by_key(|(_, root)| std::cmp::Reverse(root.as_os_str().len()));
        let mut unopened = None;
        for (reach, root) in likely {
            match self.enter(reach, root, &path) {
                Ok(entered) => return Ok(entered),
                Err(why) => drop(unopened.get_or_insert((root, why))),
            }
        }
        // Perhaps it was told by `resourceResolve` where the place really is.
        for (reach, root) in &named {
            let is_there = |canonical: PathBuf| path.starts_with(canonical);
            if !reach.exact
                && fs::canonicalize(root).is_ok_and(is_there)
                && let Ok(entered) = self.enter(reach, root, &path)
            {
                return Ok(entered);
            }
        }
        let Some((root, why)) = unopened else {
            let uri = uri.to_owned();
            return Err(ResourceError::Outside { uri, write });
        };
        // It is theirs already: asking for it once more would change nothing.
        Err(match why {
            ExactError::Io(error) if error.kind() == ErrorKind::NotFound => ResourceError::NotFound(format!(
                "there is no {uri:.300}: {} is granted, but it or one of its parent directories does not exist",
                root.display()
            )),
            ExactError::Io(error) => problem(uri, &error),
            ExactError::Symlink => match fs::canonicalize(root) {
                Ok(real) => {
                    let real = behind(&real, root, &path);
                    // No link is followed for a grant, but where it leads can be granted as well.
                    let mut others = named.iter().filter(|(_, root)| real.starts_with(root));
                    if let Some(entered) = others.find_map(|(reach, root)| self.enter(reach, root, &real).ok()) {
                        return Ok(entered);
                    }
                    ResourceError::Outside {
                        uri: uri::from_path(&real).unwrap_or_else(|| uri.to_owned()),
                        write,
                    }
                }
                Err(error) => problem(uri, &error),
            },
        })
    }

    /// Opens a place, and says what is left of a path that is in it.
    fn enter(&self, reach: &AllowedRoot, root: &Path, path: &Path) -> Result<(Arc<GrantedRoot>, PathBuf), ExactError> {
        let root = GrantedRoot::open(reach, root, self.umask)?;
        match root.rest_of(path) {
            Some(relative) => Ok((Arc::new(root), relative)),
            // The place is a file, and nothing is in it.
            None => Err(ExactError::Io(ErrorKind::NotADirectory.into())),
        }
    }

    fn admit(
        &self,
        root: Arc<GrantedRoot>,
        path: ConfinedPath,
        uri: &str,
        write: bool,
    ) -> Result<ResourcePath, ResourceError> {
        if root
            .only
            .as_ref()
            .is_some_and(|only| path.relative() != Path::new(only))
        {
            let uri = uri.to_owned();
            return Err(ResourceError::Outside { uri, write });
        }
        self.forbidden.check(root.confined.canonical(), &path.canonical())?;
        Ok(ResourcePath {
            root,
            path,
            uri: uri.to_owned(),
        })
    }
}

/// The error for a path that cannot be created. `dangling` is for a symlink at its end that leads nowhere.
fn refuse_target(error: TargetError, uri: &str, dangling: fn(String) -> ResourceError) -> ResourceError {
    match error {
        TargetError::Dangling { is_last, .. } => {
            let problem = format!("{uri:.300} is a broken symlink: name its target instead");
            match is_last {
                true => dangling(problem),
                false => ResourceError::NotFound(problem),
            }
        }
        TargetError::Dots => problem(uri, &ErrorKind::NotFound.into()),
        TargetError::Io(error) => problem(uri, &error),
    }
}

/// A path in a place, by where that place really is.
fn behind(real: &Path, root: &Path, path: &Path) -> PathBuf {
    let rest = path.strip_prefix(root).unwrap_or_else(|_| Path::new(""));
    real.components().chain(rest.components()).collect()
}

impl GrantedRoot {
    fn open(reach: &AllowedRoot, path: &Path, umask: Option<u32>) -> Result<Self, ExactError> {
        let (confined, only) = if reach.exact {
            ConfinedRoot::open_exact(path)?
        } else {
            (ConfinedRoot::open(path).map_err(ExactError::Io)?, None)
        };
        Ok(Self {
            confined: Arc::new(confined),
            path: path.to_owned(),
            only,
            umask,
            uri: reach.uri.clone(),
        })
    }

    /// The rest of a path from here on.
    fn rest_of(&self, path: &Path) -> Option<PathBuf> {
        match &self.only {
            Some(only) => (path == self.path).then(|| PathBuf::from(only)),
            None => self.confined.strip(path).map(Path::to_owned),
        }
    }
}

impl ResourcePath {
    /// Whether it is the root itself, which was granted to the client and may not be removed.
    pub(crate) fn is_root(&self) -> bool {
        self.path.is_root()
    }

    /// The full path without symlinks. Only for messages, URIs and comparisons: files are opened through the handle.
    pub(crate) fn canonical(&self) -> PathBuf {
        self.path.canonical()
    }

    /// The URI of [`Self::canonical`].
    pub(crate) fn canonical_uri(&self) -> String {
        uri::from_path(&self.canonical()).unwrap_or_else(|| self.uri.clone())
    }

    /// Opens the directory around it.
    pub(crate) fn entry(&self, forbidden: &Forbidden) -> Result<DirEntryRef, ResourceError> {
        let opened = self.path.open_parent().map_err(|error| problem(&self.uri, &error))?;
        let Some((dir, name)) = opened else {
            let problem = "it is a place that was opened to you as a whole: name something in it".to_owned();
            return Err(ResourceError::Refused(problem));
        };
        self.check_opened(&dir, forbidden)?;
        Ok(DirEntryRef { dir, name })
    }

    /// Opens the directory that it is.
    pub(crate) fn open_dir(&self, forbidden: &Forbidden) -> Result<Dir, ResourceError> {
        let dir = self.path.open_dir().map_err(|error| problem(&self.uri, &error))?;
        self.check_opened(&dir, forbidden)?;
        Ok(dir)
    }

    /// Checks the real path of a handle: a directory on the way may have been moved since the path was resolved.
    fn check_opened(&self, dir: &Dir, forbidden: &Forbidden) -> Result<(), ResourceError> {
        match real_path(dir) {
            Some(real) => forbidden.check(self.root.confined.canonical(), &real),
            None => Ok(()),
        }
    }

    /// Whether an entry of this directory leads to a directory below the same root. Only for listings: a directory is
    /// opened without following anything.
    pub(crate) fn leads_to_directory(&self, name: &OsStr) -> bool {
        let root = &self.root.confined;
        let within = self.path.relative().join(name);
        match root.dir().metadata(&within) {
            Ok(data) => data.is_dir(),
            // Nothing leads out of the whole file system, but its handle refuses absolute symlinks.
            Err(error) if leads_outside(&error) && root.canonical().parent().is_none() => {
                fs::metadata(root.canonical().join(within)).is_ok_and(|data| data.is_dir())
            }
            Err(_) => false,
        }
    }

    /// Creates the directories on the way to it.
    pub(crate) fn make_parents(&self) -> Result<(), ResourceError> {
        match self.path.relative().parent() {
            Some(parent) if !parent.as_os_str().is_empty() => {
                let made = create_directories(self.root.confined.dir(), parent, self.root.umask);
                made.map_err(|error| problem(&self.uri, &error))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// An error of the operating system, or of a handle that something led away from.
pub(crate) fn problem(uri: &str, error: &io::Error) -> ResourceError {
    let shown = prefix(uri, 300);
    if leads_outside(error) {
        let problem = format!("{shown} leads out of the place it is in, through a link or dots");
        return ResourceError::Refused(problem);
    }
    match error.kind() {
        ErrorKind::NotFound => ResourceError::NotFound(format!("there is no {shown}")),
        ErrorKind::NotADirectory => ResourceError::NotFound(format!(
            "there is no {shown}: it, or something on the way to it, is not a directory"
        )),
        ErrorKind::AlreadyExists => ResourceError::Exists(format!("{shown} exists already")),
        ErrorKind::DirectoryNotEmpty => ResourceError::Failed(format!(
            "{shown} is not empty: delete it with `recursive` if all that is in it may go"
        )),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            ResourceError::Refused(format!("the host itself may not do that to {shown}: {error}"))
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            ResourceError::Failed(format!("{shown} was not written: there is no space left"))
        }
        // Too many links: one of them leads to itself, or came into being just now.
        _ if is_loop(error) => ResourceError::Refused(format!("{shown} goes through a link that leads in a circle")),
        _ => ResourceError::Failed(format!("{shown}: {error}")),
    }
}

#[cfg(unix)]
fn is_loop(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

#[cfg(not(unix))]
fn is_loop(_: &io::Error) -> bool {
    false
}

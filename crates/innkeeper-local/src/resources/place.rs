//! Places that a client may reach, and paths within them.
//!
//! A place is opened, and everything below it is reached through that handle: no `..`, no link and
//! no swap of one for the other in the middle of a call leads outside, because the operating system
//! is never asked to start anywhere else. Comparing paths only chooses the handle.
//!
//! A path is resolved once, links inside the place included; then it is walked again without
//! following any link at all, and what is done, is done to the one name at its end.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use innkeeper_host::resources::Reach;
use innkeeper_host::resources::ResourceError;
use innkeeper_std::{create_directories, leads_outside, open_child, or_dot, without_links};

use super::forbidden::Forbidden;
use crate::uri;

/// What one client may reach.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reaches<'a> {
    pub(crate) reaches: &'a [Reach],
    pub(crate) forbidden: &'a Forbidden,
    /// Places that are made when somebody first writes into them.
    pub(crate) made: &'a [PathBuf],
    /// The permissions that what is made goes without; `None` leaves it to the process.
    pub(crate) umask: Option<u32>,
}

/// An opened place.
#[derive(Debug)]
pub(crate) struct Root {
    dir: Dir,
    /// The path it was named by.
    path: PathBuf,
    /// Where its handle is.
    canonical: PathBuf,
    /// The one name in it that may be reached, if the place is a file.
    only: Option<OsString>,
    /// The permissions that what is made in it goes without; `None` leaves it to the process.
    pub(crate) umask: Option<u32>,
    /// The URI of the place.
    pub(crate) reach: String,
}

/// Why a place could not be opened.
#[derive(Debug)]
pub(crate) enum Unopened {
    /// There is a link on the way to what was granted.
    Link,
    /// The operating system did not open it.
    Failed(io::Error),
}

/// Something within an opened place.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) root: Arc<Root>,
    /// Its path from there, without links and dots; empty for the place itself.
    relative: PathBuf,
    /// As the client called it.
    pub(crate) uri: String,
}

/// A directory, and one name in it.
#[derive(Debug)]
pub(crate) struct Spot {
    pub(crate) dir: Dir,
    pub(crate) name: PathBuf,
}

impl Reaches<'_> {
    /// Something that exists, where links lead.
    pub(crate) fn existing(&self, field: &'static str, uri: &str, write: bool) -> Result<Place, ResourceError> {
        let (root, relative) = self.locate(field, uri, write)?;
        match without_links(&root.dir, &relative) {
            Ok(resolved) => self.admit(root, resolved, uri, write),
            Err(error) => {
                let (root, resolved) = self.resolve_from_top(field, uri, write, &error)?;
                self.admit(root, resolved, uri, write)
            }
        }
    }

    /// Something that exists, by its own name: if that is a link, the link.
    pub(crate) fn entry(&self, field: &'static str, uri: &str, write: bool) -> Result<Place, ResourceError> {
        let (root, relative) = self.locate(field, uri, write)?;
        let (parent, name) = match (relative.parent(), relative.components().next_back()) {
            (Some(parent), Some(Component::Normal(name))) => (or_dot(parent), name),
            _ => return self.admit(root, PathBuf::new(), uri, write),
        };
        match without_links(&root.dir, parent) {
            Ok(parent) => self.admit(root, parent.join(name), uri, write),
            Err(error) => {
                let parent = uri::to_exact_path(field, uri)?;
                let parent = parent.parent().and_then(uri::from_path);
                let parent = parent.ok_or_else(|| problem(uri, &error))?;
                let (root, resolved) = self.resolve_from_top(field, &parent, write, &error)?;
                self.admit(root, resolved.join(name), uri, write)
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
    ) -> Result<(Arc<Root>, PathBuf), ResourceError> {
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
    pub(crate) fn target(&self, field: &'static str, uri: &str) -> Result<Place, ResourceError> {
        let (root, relative) = self.locate_or_make(field, uri)?;
        let resolved = resolve_known(&root, &relative, uri, ResourceError::NotFound)?;
        self.admit(root, resolved, uri, true)
    }

    /// The same if it is to be new: a link that leads nowhere is something that exists.
    pub(crate) fn new_target(&self, field: &'static str, uri: &str) -> Result<Place, ResourceError> {
        let (root, relative) = self.locate_or_make(field, uri)?;
        let resolved = resolve_known(&root, &relative, uri, ResourceError::Exists)?;
        self.admit(root, resolved, uri, true)
    }

    /// A name that something is to have. If a link has it now, that is the link's own name and not what it
    /// leads to: whatever takes a name by being renamed takes it from the link.
    pub(crate) fn name_to_take(&self, field: &'static str, uri: &str) -> Result<Place, ResourceError> {
        let (root, relative) = self.locate_or_make(field, uri)?;
        let (parent, name) = match (relative.parent(), relative.components().next_back()) {
            (Some(parent), Some(Component::Normal(name))) => (or_dot(parent), name),
            _ => return self.admit(root, PathBuf::new(), uri, true),
        };
        let parent = resolve_known(&root, parent, uri, ResourceError::NotFound)?;
        self.admit(root, parent.join(name), uri, true)
    }

    fn locate_or_make(&self, field: &'static str, uri: &str) -> Result<(Arc<Root>, PathBuf), ResourceError> {
        self.make_place_of(&uri::to_exact_path(field, uri)?);
        self.locate(field, uri, true)
    }

    /// Makes the place that a path is in, if that is one of those that need not exist and the client
    /// may write there. That it cannot be made shows when it is opened.
    fn make_place_of(&self, path: &Path) {
        let is_writable = |place: &Path| {
            let mut writable = self.reaches.iter().filter(|reach| reach.write && !reach.exact);
            writable.any(|reach| uri::to_path(&reach.uri).as_deref() == Some(place))
        };
        let mut places = self.made.iter().filter(|place| path.starts_with(place));
        if let Some(place) = places.find(|place| is_writable(place)) {
            let base = place.ancestors().find(|base| base.is_dir());
            let base = base.and_then(|base| Some((base, Dir::open_ambient_dir(base, ambient_authority()).ok()?)));
            if let Some((base, dir)) = base
                && let Ok(rest) = place.strip_prefix(base)
            {
                let _ = create_directories(&dir, rest, self.umask);
            }
        }
    }

    /// Chooses and opens the place that a path is in, and what is left of the path.
    fn locate(&self, field: &'static str, uri: &str, write: bool) -> Result<(Arc<Root>, PathBuf), ResourceError> {
        let path = uri::to_exact_path(field, uri)?;
        let reaches = self.reaches.iter().filter(|reach| reach.write || !write);
        let named: Vec<(&Reach, PathBuf)> = reaches
            .filter_map(|reach| Some((reach, uri::to_path(&reach.uri)?)))
            .collect();
        // The longest first: it is the nearest, and opening it follows the fewest names.
        let mut likely: Vec<&(&Reach, PathBuf)> = named.iter().filter(|(_, root)| path.starts_with(root)).collect();
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
            Unopened::Failed(error) if error.kind() == ErrorKind::NotFound => ResourceError::NotFound(format!(
                "there is no {uri:.300}: {} was opened to you, and it or a directory on the way to it does not exist",
                root.display()
            )),
            Unopened::Failed(error) => problem(uri, &error),
            Unopened::Link => match fs::canonicalize(root) {
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
    fn enter(&self, reach: &Reach, root: &Path, path: &Path) -> Result<(Arc<Root>, PathBuf), Unopened> {
        let root = Root::open(reach, root, self.umask)?;
        match root.rest_of(path) {
            Some(relative) => Ok((Arc::new(root), relative)),
            // The place is a file, and nothing is in it.
            None => Err(Unopened::Failed(ErrorKind::NotADirectory.into())),
        }
    }

    fn admit(&self, root: Arc<Root>, resolved: PathBuf, uri: &str, write: bool) -> Result<Place, ResourceError> {
        let normal = |part: &Component<'_>| matches!(part, Component::Normal(_));
        let relative: PathBuf = resolved.components().filter(normal).collect();
        if root.only.as_ref().is_some_and(|only| relative != Path::new(only)) {
            let uri = uri.to_owned();
            return Err(ResourceError::Outside { uri, write });
        }
        let place = Place {
            root,
            relative,
            uri: uri.to_owned(),
        };
        self.forbidden.check(&place.root.canonical, &place.canonical())?;
        Ok(place)
    }
}

/// A path without links as far as it exists. What `dangling` says is about a link at its end that leads
/// nowhere.
fn resolve_known(
    root: &Root,
    relative: &Path,
    uri: &str,
    dangling: fn(String) -> ResourceError,
) -> Result<PathBuf, ResourceError> {
    let mut missing: Vec<&OsStr> = Vec::new();
    let mut present = relative.components();
    loop {
        let base = or_dot(present.as_path());
        match without_links(&root.dir, base) {
            Ok(mut resolved) => {
                resolved.extend(missing.iter().rev());
                return Ok(resolved);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if root.dir.symlink_metadata(base).is_ok() {
                    let problem = format!("{uri:.300} is a link that leads nowhere: name what it should lead to");
                    return Err(match missing.is_empty() {
                        true => dangling(problem),
                        false => ResourceError::NotFound(problem),
                    });
                }
                match present.next_back() {
                    Some(Component::Normal(name)) => missing.push(name),
                    Some(_) | None => return Err(problem(uri, &error)),
                }
            }
            Err(error) => return Err(problem(uri, &error)),
        }
    }
}

/// A path in a place, by where that place really is.
fn behind(real: &Path, root: &Path, path: &Path) -> PathBuf {
    let rest = path.strip_prefix(root).unwrap_or_else(|_| Path::new(""));
    real.components().chain(rest.components()).collect()
}

impl Root {
    fn open(reach: &Reach, path: &Path, umask: Option<u32>) -> Result<Self, Unopened> {
        let (dir, only) = if reach.exact {
            open_exact(path)?
        } else {
            let dir = Dir::open_ambient_dir(path, ambient_authority());
            (dir.map_err(Unopened::Failed)?, None)
        };
        let named = match (&only, path.parent()) {
            (Some(_), Some(parent)) => parent,
            _ => path,
        };
        let canonical = match real_path(&dir) {
            Some(canonical) => canonical,
            None => fs::canonicalize(named).map_err(Unopened::Failed)?,
        };
        Ok(Self {
            dir,
            path: path.to_owned(),
            canonical,
            only,
            umask,
            reach: reach.uri.clone(),
        })
    }

    /// What is left of a path from here on.
    fn rest_of(&self, path: &Path) -> Option<PathBuf> {
        if let Some(only) = &self.only {
            return (path == self.path).then(|| PathBuf::from(only));
        }
        let rest = path
            .strip_prefix(&self.path)
            .or_else(|_| path.strip_prefix(&self.canonical));
        rest.ok().map(|rest| or_dot(rest).to_owned())
    }
}

impl Place {
    /// Whether it is the place itself, which the client was given and may not take away.
    pub(crate) fn is_root(&self) -> bool {
        self.relative.as_os_str().is_empty()
    }

    /// Where it really is. Only for people, URIs and comparisons: files are opened through the handle.
    pub(crate) fn canonical(&self) -> PathBuf {
        self.root.canonical.join(&self.relative)
    }

    /// The URI of where it really is.
    pub(crate) fn canonical_uri(&self) -> String {
        uri::from_path(&self.canonical()).unwrap_or_else(|| self.uri.clone())
    }

    /// Opens the directory it is in.
    pub(crate) fn spot(&self, forbidden: &Forbidden) -> Result<Spot, ResourceError> {
        let (Some(parent), Some(name)) = (self.relative.parent(), self.relative.file_name()) else {
            let problem = "it is a place that was opened to you as a whole: name something in it".to_owned();
            return Err(ResourceError::Refused(problem));
        };
        Ok(Spot {
            dir: self.walk(parent, forbidden)?,
            name: PathBuf::from(name),
        })
    }

    /// Opens the directory that it is.
    pub(crate) fn open_dir(&self, forbidden: &Forbidden) -> Result<Dir, ResourceError> {
        self.walk(&self.relative, forbidden)
    }

    /// Whether a name in the directory that it is leads to a directory in the same place. Only for people:
    /// a directory is opened without following anything.
    pub(crate) fn leads_to_directory(&self, name: &OsStr) -> bool {
        let within = self.relative.join(name);
        match self.root.dir.metadata(&within) {
            Ok(data) => data.is_dir(),
            // Nothing leads out of the whole file system, whatever its handle says.
            Err(error) if leads_outside(&error) && self.root.canonical.parent().is_none() => {
                fs::metadata(self.root.canonical.join(within)).is_ok_and(|data| data.is_dir())
            }
            Err(_) => false,
        }
    }

    /// Makes the directories on the way to it.
    pub(crate) fn make_parents(&self) -> Result<(), ResourceError> {
        match self.relative.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => {
                let made = create_directories(&self.root.dir, parent, self.root.umask);
                made.map_err(|error| problem(&self.uri, &error))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Goes down, without following a link: none was left when the path was resolved.
    fn walk(&self, path: &Path, forbidden: &Forbidden) -> Result<Dir, ResourceError> {
        let failed = |error: io::Error| problem(&self.uri, &error);
        let mut dir = self.root.dir.try_clone().map_err(failed)?;
        for part in path.components() {
            dir = open_child(&dir, Path::new(part.as_os_str())).map_err(failed)?;
        }
        if let Some(real) = real_path(&dir) {
            forbidden.check(&self.root.canonical, &real)?;
        }
        Ok(dir)
    }
}

/// Opens what was granted: a directory, or the directory of a file and its name. There is no link on
/// the way.
pub(crate) fn open_exact(path: &Path) -> Result<(Dir, Option<OsString>), Unopened> {
    let mut parts: Vec<Component<'_>> = path.components().collect();
    let last = match parts.pop() {
        Some(Component::Normal(name)) => Some(name.to_owned()),
        Some(part) => {
            parts.push(part);
            None
        }
        None => return Err(Unopened::Failed(ErrorKind::NotFound.into())),
    };
    let (start, below): (Vec<_>, Vec<_>) = parts
        .into_iter()
        .partition(|part| matches!(part, Component::RootDir | Component::Prefix(_)));
    let start: PathBuf = start.into_iter().collect();
    let mut dir = Dir::open_ambient_dir(start, ambient_authority()).map_err(Unopened::Failed)?;
    let is_link = |dir: &Dir, name: &Path| dir.symlink_metadata(name).is_ok_and(|data| data.is_symlink());
    for part in below {
        let name = Path::new(part.as_os_str());
        dir = match open_child(&dir, name) {
            Ok(inner) => inner,
            Err(_) if is_link(&dir, name) => return Err(Unopened::Link),
            Err(error) => return Err(Unopened::Failed(error)),
        };
    }
    let Some(name) = last else {
        return Ok((dir, None));
    };
    match open_child(&dir, Path::new(&name)) {
        Ok(inner) => Ok((inner, None)),
        Err(_) if is_link(&dir, Path::new(&name)) => Err(Unopened::Link),
        // A file, or one that is to be.
        Err(error) if matches!(error.kind(), ErrorKind::NotADirectory | ErrorKind::NotFound) => Ok((dir, Some(name))),
        Err(error) => Err(Unopened::Failed(error)),
    }
}

/// Where a handle is, as the operating system sees it.
#[cfg(target_os = "linux")]
pub(crate) fn real_path(dir: &Dir) -> Option<PathBuf> {
    use std::os::fd::AsRawFd as _;
    fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd())).ok()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn real_path(_: &Dir) -> Option<PathBuf> {
    None
}

/// An error of the operating system, or of a handle that something led away from.
pub(crate) fn problem(uri: &str, error: &io::Error) -> ResourceError {
    let shown: String = uri.chars().take(300).collect();
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

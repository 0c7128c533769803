//! Watches directories, all of them with one watcher of the operating system.
//!
//! Events are only a reason to look: they get lost, come late, and come for nothing. So an event names paths where
//! something may have changed, and never says what.
//!
//! The operating system watches a directory and not its path. The watch ends with the directory, or goes with it when
//! it is moved away. So a directory is remembered with its [`DirectoryId`], and a caller that finds another one at the
//! same path watches that anew.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;
use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

/// A change somewhere in the watched directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirectoryEvent {
    /// Something may have changed at these paths.
    Changed {
        /// Entries of watched directories, or the directories themselves.
        paths: Vec<PathBuf>,
        /// Whether a directory among them may have been removed or moved, and all watches below it with it.
        may_be_moved: bool,
    },
    /// Events got lost: anything may have changed.
    Lost,
}

/// Tells a directory from another one that takes its path later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryId(Option<(u64, u64)>);

/// Whether a directory was watched before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// It is watched from now on.
    New,
    /// It took the path of another directory that was watched: changes in between were missed.
    Replaced,
    /// It was watched already.
    Known,
}

/// Why a directory is not watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchError {
    /// There are no more watches, here or in the operating system.
    Limit,
    /// The directory is gone, or may not be read.
    Unwatchable,
}

/// A set of watched directories. None of them is watched recursively.
pub struct DirectoryWatcher {
    on_event: Arc<dyn Fn(DirectoryEvent) + Send + Sync>,
    /// `None` before the first use, and while the system has no more watchers.
    watcher: Option<RecommendedWatcher>,
    directories: BTreeMap<PathBuf, DirectoryId>,
    max_directories: usize,
}

impl DirectoryWatcher {
    /// Creates a watcher for at most `max_directories` directories. `on_event` is called by a thread that has to go on
    /// taking events from the operating system, so it must not block.
    pub fn new(max_directories: usize, on_event: impl Fn(DirectoryEvent) + Send + Sync + 'static) -> Self {
        Self {
            on_event: Arc::new(on_event),
            watcher: None,
            directories: BTreeMap::new(),
            max_directories,
        }
    }

    /// Asks the operating system for a watcher, unless there is one already.
    ///
    /// # Errors
    ///
    /// When it has no more of them: most Linux systems have 128 for each user.
    pub fn open(&mut self) -> io::Result<()> {
        if self.watcher.is_none() {
            let on_event = Arc::clone(&self.on_event);
            let watcher = notify::recommended_watcher(move |event| {
                if let Some(event) = translate(event) {
                    on_event(event);
                }
            });
            self.watcher = Some(watcher.map_err(io::Error::other)?);
        }
        Ok(())
    }

    /// Gives the watcher back, and all watches with it.
    pub fn close(&mut self) {
        self.watcher = None;
        self.directories.clear();
    }

    /// Whether there is a watcher.
    pub fn is_open(&self) -> bool {
        self.watcher.is_some()
    }

    /// The watched directories.
    pub fn directories(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.directories.keys().map(PathBuf::as_path)
    }

    /// The watched directories at a path and below it.
    pub fn directories_below(&self, path: &Path) -> impl Iterator<Item = &Path> {
        let from = self
            .directories
            .range::<Path, _>((Bound::Included(path), Bound::Unbounded));
        let path = path.to_owned();
        from.map(|(watched, _)| watched.as_path())
            .take_while(move |watched| watched.starts_with(&path))
    }

    /// Watches a directory, unless this very one is watched already.
    ///
    /// # Errors
    ///
    /// When it cannot be watched. It is not watched then, even if it was.
    pub fn watch(&mut self, path: &Path, id: DirectoryId) -> Result<Watched, WatchError> {
        match self.directories.get(path) {
            Some(known) if *known == id => Ok(Watched::Known),
            _ => self.watch_anew(path, id),
        }
    }

    /// Watches a directory, and asks the operating system also if it seems to be watched: a new directory may have the id
    /// of a removed one.
    ///
    /// # Errors
    ///
    /// As [`Self::watch`].
    pub fn watch_anew(&mut self, path: &Path, id: DirectoryId) -> Result<Watched, WatchError> {
        let known = self.directories.get(path).copied();
        let outcome = match known {
            None if self.directories.len() >= self.max_directories => return Err(WatchError::Limit),
            None => Watched::New,
            Some(known) if known == id => Watched::Known,
            Some(_) => {
                self.unwatch(path);
                Watched::Replaced
            }
        };
        let Some(watcher) = &mut self.watcher else {
            return Err(WatchError::Limit);
        };
        // Only Linux forgets a directory silently; elsewhere watching it again costs a restart of the watcher.
        if outcome == Watched::Known && !cfg!(target_os = "linux") {
            return Ok(outcome);
        }
        match watcher.watch(path, RecursiveMode::NonRecursive) {
            Ok(()) => {
                self.directories.insert(path.to_owned(), id);
                Ok(outcome)
            }
            Err(error) => {
                self.directories.remove(path);
                Err(classify(&error, path))
            }
        }
    }

    /// Watches every directory once more after events were lost. Directories that were replaced are given up, so that
    /// the next [`Self::watch`] finds them new.
    pub fn rewatch(&mut self) {
        let known: Vec<_> = self.directories.iter().map(|(path, id)| (path.clone(), *id)).collect();
        for (path, id) in known {
            if DirectoryId::of_path(&path) == id {
                // A failure shows at the next `watch`, because the directory is no longer known.
                let _ = self.watch_anew(&path, id);
            } else {
                self.unwatch(&path);
            }
        }
    }

    /// Gives up the watch of a directory.
    pub fn unwatch(&mut self, path: &Path) {
        if self.directories.remove(path).is_some()
            && let Some(watcher) = &mut self.watcher
        {
            let _ = watcher.unwatch(path);
        }
    }

    /// Gives up the watches at a path and below it. The watch of a directory that lives on elsewhere would stay.
    pub fn unwatch_below(&mut self, path: &Path) {
        let below: Vec<PathBuf> = self.directories_below(path).map(Path::to_owned).collect();
        for lost in below {
            self.unwatch(&lost);
        }
    }
}

impl fmt::Debug for DirectoryWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectoryWatcher")
            .field("is_open", &self.is_open())
            .field("directories", &self.directories.len())
            .finish_non_exhaustive()
    }
}

impl DirectoryId {
    /// The id of the directory that has a path now.
    pub fn of_path(path: &Path) -> Self {
        let data = std::fs::metadata(path).ok();
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            Self(data.map(|data| (data.dev(), data.ino())))
        }
        #[cfg(not(unix))]
        {
            Self(data.map(|_| (0, 0)))
        }
    }

    /// The id of an opened directory.
    pub fn of_dir(dir: &Dir) -> Self {
        let data = dir.dir_metadata().ok();
        #[cfg(unix)]
        {
            use cap_std::fs::MetadataExt as _;
            Self(data.map(|data| (data.dev(), data.ino())))
        }
        #[cfg(not(unix))]
        {
            Self(data.map(|_| (0, 0)))
        }
    }
}

fn translate(event: notify::Result<Event>) -> Option<DirectoryEvent> {
    match event {
        // Reading is no change, and those who watch read.
        Ok(event) if is_reading(event.kind) => None,
        Ok(event) if !event.need_rescan() => Some(DirectoryEvent::Changed {
            may_be_moved: matches!(
                event.kind,
                EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)) | EventKind::Any
            ),
            paths: event.paths,
        }),
        Ok(_) | Err(_) => Some(DirectoryEvent::Lost),
    }
}

fn is_reading(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
        EventKind::Access(_) => true,
        _ => false,
    }
}

/// A directory that vanished is noticed from above, and one that may not be listed is no reason to try again and again.
fn classify(error: &notify::Error, path: &Path) -> WatchError {
    let is_limit = match &error.kind {
        notify::ErrorKind::PathNotFound => false,
        notify::ErrorKind::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => false,
        _ => path.is_dir(),
    };
    match is_limit {
        true => WatchError::Limit,
        false => WatchError::Unwatchable,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn d62_a_directory_that_may_not_be_read_is_no_limit_of_the_system() {
        let temp = tempfile::tempdir().expect("a directory");
        let denied = notify::Error::io(io::ErrorKind::PermissionDenied.into());
        assert_eq!(classify(&denied, temp.path()), WatchError::Unwatchable);
        let full = notify::Error::new(notify::ErrorKind::MaxFilesWatch);
        assert_eq!(classify(&full, temp.path()), WatchError::Limit);
        assert_eq!(
            classify(&full, &temp.path().join("gone")),
            WatchError::Unwatchable,
            "it is noticed from above"
        );
    }

    #[test]
    fn a_directory_that_took_the_path_of_another_is_watched_anew() {
        let temp = tempfile::tempdir().expect("a directory");
        let root = fs::canonicalize(temp.path()).expect("there");
        let (sender, events) = channel();
        let mut watcher = DirectoryWatcher::new(2, move |event| sender.send(event).unwrap_or_default());
        let (one, other) = (root.join("one"), root.join("other"));
        fs::create_dir(&one).expect("a directory");
        assert_eq!(watcher.watch(&one, DirectoryId::of_path(&one)), Err(WatchError::Limit));
        watcher.open().expect("a watcher");
        let id = DirectoryId::of_path(&one);
        assert_eq!(watcher.watch(&one, id), Ok(Watched::New));
        assert_eq!(watcher.watch(&one, id), Ok(Watched::Known));
        fs::rename(&one, &other).expect("renamed");
        fs::create_dir(&one).expect("a directory");
        assert_eq!(watcher.watch(&one, DirectoryId::of_path(&one)), Ok(Watched::Replaced));
        fs::write(one.join("file"), "text").expect("a file");
        loop {
            let event = events.recv().expect("an event");
            let is_it = |paths: &[PathBuf]| paths.iter().any(|path| path.ends_with("file"));
            if matches!(event, DirectoryEvent::Changed { paths, .. } if is_it(&paths)) {
                break;
            }
        }
        assert_eq!(watcher.watch(&other, DirectoryId::of_path(&other)), Ok(Watched::New));
        let full = watcher.watch(&root, DirectoryId::of_path(&root));
        assert_eq!(full, Err(WatchError::Limit));
        watcher.unwatch_below(&root);
        assert_eq!(watcher.directories().len(), 0);
    }
}

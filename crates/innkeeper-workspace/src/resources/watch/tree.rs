//! The last known state of a watched directory, and the differences to now.
//!
//! The operating system only says where to look; what changed is found by looking, through handles
//! that follow no link. So nothing outside is ever reported, whatever is swapped for a link, and an
//! event that was lost costs a look and not the truth.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cap_std::fs::{Dir, Metadata};
use innkeeper_host::resources::ChangeKind;
use innkeeper_host::resources::ResourceError;
use innkeeper_std::watch::{DirectoryId, WatchError};
use innkeeper_std::{ConfinedRoot, TEMP_PREFIX, open_child, open_descendant};

use super::super::ResourceLimits;
use super::super::forbidden::Forbidden;
use super::patterns::Patterns;
use super::router::Subscription;

/// How deep directories lie in each other that are watched.
const MAX_DEPTH: usize = 200;

/// The path and the options that watches share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Subject {
    /// The directory, without links on the way.
    pub(super) base: PathBuf,
    /// The one name in it, if a file is watched.
    pub(super) only: Option<OsString>,
    pub(super) recursive: bool,
    pub(super) excludes: Vec<String>,
}

/// Where to look.
#[derive(Debug, Default)]
pub(super) struct Hints {
    /// Directories, by full path.
    pub(super) directories: HashSet<PathBuf>,
    /// Those of them that may have been away: with them the system forgot to watch all that is in them.
    pub(super) away: HashSet<PathBuf>,
    /// Everywhere.
    pub(super) all: bool,
}

/// Changes, by path from the base; the empty path is the base itself.
pub(super) type Changes = BTreeMap<PathBuf, ChangeKind>;

/// The marks of something by which a change is seen.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    is_dir: bool,
    len: u64,
    modified: Option<cap_std::time::SystemTime>,
    created: Option<cap_std::time::SystemTime>,
    number: u64,
}

impl Stamp {
    fn of(data: &Metadata) -> Self {
        let is_dir = data.is_dir();
        Self {
            is_dir,
            // Those of a directory change with what is in it, which is looked at by itself.
            len: if is_dir { 0 } else { data.len() },
            modified: data.modified().ok().filter(|_| !is_dir),
            created: data.created().ok(),
            number: number(data),
        }
    }
}

#[cfg(unix)]
fn number(data: &Metadata) -> u64 {
    use cap_std::fs::MetadataExt as _;
    data.ino()
}

#[cfg(not(unix))]
fn number(_: &Metadata) -> u64 {
    0
}

/// How many files and directories are remembered, by one and by all together. Dropped, its own are not.
#[derive(Debug)]
pub(super) struct EntryBudget {
    most: usize,
    all: Arc<AtomicUsize>,
    own: usize,
}

impl EntryBudget {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            all: Arc::default(),
            own: 0,
        }
    }

    /// EntryBudget in the same bounds, of which nothing is taken yet.
    pub(super) fn another(&self) -> Self {
        Self {
            most: self.most,
            all: Arc::clone(&self.all),
            own: 0,
        }
    }

    fn set(&mut self, own: usize) {
        self.all.fetch_add(own, Ordering::Relaxed);
        self.all
            .fetch_sub(std::mem::replace(&mut self.own, own), Ordering::Relaxed);
    }

    /// Whether so many of its own are all that there is budget for.
    fn is_full_with(&self, own: usize) -> bool {
        let others = self.all.load(Ordering::Relaxed).saturating_sub(self.own);
        others.saturating_add(own) >= self.most
    }
}

impl Drop for EntryBudget {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[derive(Debug)]
pub(super) struct Tree {
    subject: Subject,
    excludes: Patterns,
    limits: ResourceLimits,
    forbidden: Arc<Forbidden>,
    subscription: Subscription,
    budget: EntryBudget,
    /// The base, if it is there.
    root: Option<Stamp>,
    /// The entries of each directory, by path from the base.
    directories: BTreeMap<PathBuf, BTreeMap<OsString, Stamp>>,
    is_full: bool,
}

impl Tree {
    /// Looks at everything for the first time. Too large trees are refused.
    pub(super) fn open(
        subject: Subject,
        excludes: Patterns,
        limits: ResourceLimits,
        forbidden: Arc<Forbidden>,
        subscription: Subscription,
        budget: EntryBudget,
    ) -> Result<Self, ResourceError> {
        let mut tree = Self {
            subject,
            excludes,
            limits,
            forbidden,
            subscription,
            budget,
            root: None,
            directories: BTreeMap::new(),
            is_full: false,
        };
        tree.look(&Hints::default());
        if tree.root.is_none() {
            let problem = "there is nothing to watch: it is gone, or cannot be opened";
            return Err(ResourceError::NotFound(problem.to_owned()));
        }
        if tree.is_full {
            let ResourceLimits {
                watched_directories,
                watched_entries,
                ..
            } = limits;
            return Err(ResourceError::Invalid {
                field: "uri",
                problem: format!(
                    "has more than {watched_directories} directories or {watched_entries} files, directories more than \
                     {MAX_DEPTH} deep, or with all other watches more than this host and the operating system watch: \
                     watch a smaller part of it, or exclude what need not be watched"
                ),
            });
        }
        Ok(tree)
    }

    /// Returns true if the watched root is missing. No event reports its return.
    pub(super) fn is_missing(&self) -> bool {
        self.root.is_none()
    }

    /// Looks where something may have changed, and says what did.
    pub(super) fn look(&mut self, hints: &Hints) -> Changes {
        let mut changes = Changes::new();
        let base = ConfinedRoot::open_exact(&self.subject.base).ok();
        let base = base.filter(|(_, file)| file.is_none()).map(|(root, _)| root);
        let stamp = base.as_ref().and_then(|root| root.dir().dir_metadata().ok());
        let stamp = stamp.as_ref().map(Stamp::of);
        let is_another = stamp != self.root;
        if is_another {
            // Another directory of the same name is watched from the start.
            for directory in self.directories.keys() {
                self.subscription.unwatch(&self.subject.base.join(directory));
            }
        }
        let was_there = std::mem::replace(&mut self.root, stamp.clone()).is_some();
        let (Some(root), Some(_)) = (base, stamp) else {
            self.forget(Path::new(""), &mut changes);
            if was_there {
                changes.insert(PathBuf::new(), ChangeKind::Deleted);
            }
            return changes;
        };
        if !was_there {
            changes.insert(PathBuf::new(), ChangeKind::Added);
        }
        if is_another || hints.all {
            self.look_into(root.dir(), Path::new(""), true, true, &mut changes);
            return changes;
        }
        let known = hints.directories.iter();
        let dirty: BTreeSet<PathBuf> = known
            .filter_map(|path| path.strip_prefix(&self.subject.base).ok())
            .filter(|path| self.directories.contains_key(*path))
            .map(Path::to_owned)
            .collect();
        for directory in dirty {
            // It may be gone by now; then its parent is looked at, too.
            if self.directories.contains_key(&directory)
                && let Ok(dir) = open_descendant(root.dir(), &directory)
            {
                let was_away = hints.away.contains(&self.subject.base.join(&directory));
                self.look_into(&dir, &directory, true, was_away, &mut changes);
            }
        }
        changes
    }

    /// Compares a directory with its last scan. `anew` re-registers the watch; `deep` recurses into known
    /// subdirectories.
    fn look_into(&mut self, dir: &Dir, path: &Path, anew: bool, deep: bool, changes: &mut Changes) {
        // The function is recursive, so the depth is bounded to bound the stack.
        if path.components().count() > MAX_DEPTH {
            return self.overflow();
        }
        if (anew || !self.directories.contains_key(path)) && !self.watch(dir, path) {
            return;
        }
        let Ok(now) = self.read(dir, path) else {
            return;
        };
        let before = self
            .directories
            .insert(path.to_owned(), now.clone())
            .unwrap_or_default();
        self.budget
            .set((self.budget.own + now.len()).saturating_sub(before.len()));
        for name in before.keys().filter(|name| !now.contains_key(*name)) {
            let child = path.join(name);
            self.forget(&child, changes);
            note(changes, child, ChangeKind::Deleted);
        }
        for (name, stamp) in &now {
            let child = path.join(name);
            let old = before.get(name);
            match old {
                None => note(changes, child.clone(), ChangeKind::Added),
                Some(old) if old.is_dir != stamp.is_dir => {
                    self.forget(&child, changes);
                    note(changes, child.clone(), ChangeKind::Updated);
                }
                Some(old) if old != stamp && !stamp.is_dir => note(changes, child.clone(), ChangeKind::Updated),
                Some(_) => {}
            }
            let is_another = old.is_none_or(|old| old != stamp);
            if stamp.is_dir
                && self.subject.recursive
                && (deep || is_another)
                && !self.excludes.has_all_of(&child)
                && let Ok(inner) = open_child(dir, Path::new(name))
            {
                self.look_into(
                    &inner,
                    &child,
                    is_another || (anew && deep),
                    deep || is_another,
                    changes,
                );
            }
        }
    }

    fn read(&mut self, dir: &Dir, path: &Path) -> io::Result<BTreeMap<OsString, Stamp>> {
        let known = self.directories.get(path).map_or(0, BTreeMap::len);
        let others = self.budget.own.saturating_sub(known);
        let mut found = BTreeMap::new();
        for entry in dir.entries()? {
            let Ok(entry) = entry else { continue };
            let name = entry.file_name();
            let child = path.join(&name);
            let is_other = self.subject.only.as_ref().is_some_and(|only| *only != name);
            if is_other || self.excludes.has(&child) || name.to_string_lossy().starts_with(TEMP_PREFIX) {
                continue;
            }
            if self.forbidden.has(&self.subject.base, &self.subject.base.join(&child)) {
                continue;
            }
            let own = others + found.len();
            if own >= self.limits.watched_entries || self.budget.is_full_with(own) {
                // Half of a directory would look as if the rest was deleted.
                self.overflow();
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            // An entry that is gone again is not reported.
            if let Ok(data) = dir.symlink_metadata(&name) {
                found.insert(name, Stamp::of(&data));
            }
        }
        Ok(found)
    }

    /// Asks the operating system to say when something changes there: before it is looked at, so that
    /// nothing happens in between.
    fn watch(&mut self, dir: &Dir, path: &Path) -> bool {
        let is_new = !self.directories.contains_key(path);
        if is_new && self.directories.len() >= self.limits.watched_directories {
            self.overflow();
            return false;
        }
        let full = self.subject.base.join(path);
        match self.subscription.watch(&full, DirectoryId::of_dir(dir)) {
            Ok(()) => true,
            Err(WatchError::Limit) => {
                self.overflow();
                false
            }
            Err(WatchError::Unwatchable) => false,
        }
    }

    fn overflow(&mut self) {
        if !self.is_full {
            self.is_full = true;
            tracing::warn!(path = %self.subject.base.display(), "too many directories to watch; not all changes are reported");
        }
    }

    /// Forgets a directory and all that was in it.
    fn forget(&mut self, path: &Path, changes: &mut Changes) {
        let inside = |directory: &PathBuf| directory.starts_with(path);
        let gone: Vec<PathBuf> = self.directories.keys().filter(|key| inside(key)).cloned().collect();
        for directory in gone {
            self.subscription.unwatch(&self.subject.base.join(&directory));
            let names = self.directories.remove(&directory).unwrap_or_default();
            self.budget.set(self.budget.own.saturating_sub(names.len()));
            for name in names.into_keys() {
                note(changes, directory.join(name), ChangeKind::Deleted);
            }
        }
    }
}

/// Notes a change. A path that was deleted and added again is an update.
fn note(changes: &mut Changes, path: PathBuf, kind: ChangeKind) {
    let kind = match (changes.get(&path), kind) {
        (Some(ChangeKind::Deleted), ChangeKind::Added) => ChangeKind::Updated,
        (_, kind) => kind,
    };
    changes.insert(path, kind);
}

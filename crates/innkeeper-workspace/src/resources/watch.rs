//! Watches: one scan of each directory for all clients that watch it.
//!
//! Watches of the same path share the state in `watch/tree.rs`, which is dropped with the last of them. One watcher of the
//! operating system serves them all (`watch/router.rs`). Changes are gathered for a moment, so that a burst becomes a few
//! messages.

mod patterns;
mod router;
mod tree;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use innkeeper_host::resources::{ChangeSink, ResourceError};
use innkeeper_host::resources::{ResourceChange, WatchSpec};
use innkeeper_std::sync::Mutex;
use tokio::task::AbortHandle;

use super::ResourceLimits;
use super::forbidden::Forbidden;
use super::paths::{ResourcePath, problem};
use crate::uri;
use patterns::Patterns;
use router::{HintQueue, WatchRouter};
use tree::{Changes, EntryBudget, Subject, Tree};

/// How long changes are gathered.
const GATHER: Duration = Duration::from_millis(50);
/// The interval of checks for a watched path that is missing.
const MISSING: Duration = Duration::from_millis(500);
/// The interval of checks that the watched directory is still the same: no event reports that a directory around it was
/// moved away.
const STILL_THERE: Duration = Duration::from_secs(5);
/// Most changes that are told at once.
const MAX_CHANGES: usize = 1000;
/// How many of the largest watches all of them together may be.
const LARGEST: usize = 4;

/// All that is watched.
#[derive(Debug, Clone)]
pub(super) struct WatchPool {
    limits: ResourceLimits,
    forbidden: Arc<Forbidden>,
    router: WatchRouter,
    /// Files and directories of all watches.
    budget: Arc<EntryBudget>,
    shared: Arc<Mutex<HashMap<Subject, Weak<SharedWatch>>>>,
}

/// Something that is watched, for all who watch it.
#[derive(Debug)]
struct SharedWatch {
    listeners: Mutex<Listeners>,
    task: AbortHandle,
}

impl Drop for SharedWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Debug, Default)]
struct Listeners {
    next: u64,
    all: Vec<Arc<Listener>>,
}

/// A registered watch.
#[derive(Debug)]
struct Listener {
    id: u64,
    sink: ChangeSink,
    /// The watched path, as this client named it.
    path: PathBuf,
    uri: String,
    /// Whether that is one file.
    is_file: bool,
    includes: Option<Patterns>,
}

/// Keeps one listener.
#[derive(Debug)]
struct ListenerGuard {
    shared: Arc<SharedWatch>,
    id: u64,
}

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        let mut listeners = self.shared.listeners.lock();
        listeners.all.retain(|listener| listener.id != self.id);
    }
}

impl WatchPool {
    pub(super) fn new(limits: ResourceLimits, forbidden: Arc<Forbidden>) -> Self {
        Self {
            limits,
            forbidden,
            router: WatchRouter::new(limits.watched_directories.saturating_mul(LARGEST)),
            budget: Arc::new(EntryBudget::new(limits.watched_entries.saturating_mul(LARGEST))),
            shared: Arc::default(),
        }
    }

    /// Watches until what it returns is dropped. It blocks: patterns are built, and everything is looked at.
    pub(super) fn watch(
        &self,
        resource: &ResourcePath,
        spec: &WatchSpec,
        sink: ChangeSink,
    ) -> Result<impl Send + Sync + use<>, ResourceError> {
        let includes = match &spec.includes {
            Some(list) => Some(Patterns::new("includes", list)?),
            None => None,
        };
        let mut excluded = spec.excludes.clone().unwrap_or_default();
        excluded.sort();
        excluded.dedup();
        let excludes = Patterns::new("excludes", &excluded)?;
        let path = uri::to_exact_path("uri", &spec.uri)?;
        // Never more than one look at the same thing: a second one finds the first.
        let (shared, is_file) = self.find_or_open(resource, spec.recursive, excluded, excludes)?;
        let mut listeners = shared.listeners.lock();
        let id = listeners.next;
        listeners.next += 1;
        listeners.all.push(Arc::new(Listener {
            id,
            sink,
            path,
            uri: spec.uri.clone(),
            is_file,
            includes,
        }));
        drop(listeners);
        Ok(ListenerGuard { shared, id })
    }

    fn find_or_open(
        &self,
        resource: &ResourcePath,
        recursive: bool,
        excluded: Vec<String>,
        excludes: Patterns,
    ) -> Result<(Arc<SharedWatch>, bool), ResourceError> {
        let full = resource.canonical();
        let is_file = !resource.is_root() && {
            let entry = resource.entry(&self.forbidden)?;
            let data = entry.dir.symlink_metadata(&entry.name);
            !data.map_err(|error| problem(&resource.uri, &error))?.is_dir()
        };
        let (base, only) = match (is_file, full.parent(), full.file_name()) {
            (true, Some(parent), Some(name)) => (parent.to_owned(), Some(name.to_owned())),
            _ => (full, None),
        };
        let subject = Subject {
            base,
            only,
            recursive: recursive && !is_file,
            excludes: excluded,
        };
        if let Some(shared) = self.shared.lock().get(&subject).and_then(Weak::upgrade) {
            return Ok((shared, is_file));
        }
        let queue = Arc::new(HintQueue::default());
        let subscription = self.router.subscribe(Arc::clone(&queue)).map_err(|error| {
            ResourceError::Failed(format!("the operating system refuses to watch files now: {error}"))
        })?;
        let forbidden = Arc::clone(&self.forbidden);
        let budget = self.budget.another();
        let tree = Tree::open(subject.clone(), excludes, self.limits, forbidden, subscription, budget)?;
        let mut all = self.shared.lock();
        all.retain(|_, shared| shared.strong_count() > 0);
        // Another caller may have been faster.
        if let Some(shared) = all.get(&subject).and_then(Weak::upgrade) {
            return Ok((shared, is_file));
        }
        let shared = Arc::new_cyclic(|shared| {
            let following = follow(tree, queue, Weak::clone(shared));
            SharedWatch {
                listeners: Mutex::default(),
                task: tokio::runtime::Handle::current().spawn(following).abort_handle(),
            }
        });
        all.insert(subject, Arc::downgrade(&shared));
        Ok((shared, is_file))
    }

    /// How many things are watched.
    #[cfg(all(test, unix))]
    pub(super) fn watched(&self) -> usize {
        self.shared
            .lock()
            .values()
            .filter(|shared| shared.strong_count() > 0)
            .count()
    }

    /// How many directories the operating system watches for them.
    #[cfg(all(test, unix))]
    pub(super) fn watched_directories(&self) -> usize {
        self.router.directories()
    }
}

/// Rescans in a loop until the receiver is dropped.
async fn follow(mut tree: Tree, queue: Arc<HintQueue>, shared: Weak<SharedWatch>) {
    loop {
        let idle = if tree.is_missing() { MISSING } else { STILL_THERE };
        if tokio::time::timeout(idle, queue.bell.notified()).await.is_ok() {
            tokio::time::sleep(GATHER).await;
        }
        let hints = queue.take();
        let looked = tokio::task::spawn_blocking(move || {
            let changes = tree.look(&hints);
            (tree, changes)
        });
        let changes;
        (tree, changes) = match looked.await {
            Ok(looked) => looked,
            Err(error) => {
                tracing::error!(%error, "watching files failed; changes there are no longer reported");
                return;
            }
        };
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let listeners = shared.listeners.lock().all.clone();
        // Not held while it is told: the last who leaves ends this.
        drop(shared);
        for listener in listeners {
            tell(&listener, &changes).await;
        }
    }
}

async fn tell(listener: &Listener, changes: &Changes) {
    let mut told = Vec::new();
    for (path, kind) in changes {
        if listener.wants(path)
            && let Some(uri) = listener.uri_of(path)
        {
            told.push(ResourceChange { uri, kind: *kind });
        }
    }
    for some in told.chunks(MAX_CHANGES) {
        if !listener.sink.send(some.to_vec()).await {
            return;
        }
    }
}

impl Listener {
    fn wants(&self, path: &Path) -> bool {
        if self.is_file {
            // Its directory is not what is watched.
            return !path.as_os_str().is_empty();
        }
        let is_base = path.as_os_str().is_empty();
        is_base || self.includes.as_ref().is_none_or(|includes| includes.has(path))
    }

    fn uri_of(&self, path: &Path) -> Option<String> {
        if self.is_file || path.as_os_str().is_empty() {
            return Some(self.uri.clone());
        }
        uri::from_path(&self.path.join(path))
    }
}

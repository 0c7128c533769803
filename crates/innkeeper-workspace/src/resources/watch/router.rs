//! One watcher of the operating system for all watches.
//!
//! A user has few watchers, 128 on most Linux systems, and editors and agents need theirs. So there is one while there are
//! watches. A watch subscribes to its directories, and a directory with several subscribers is watched once.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use innkeeper_std::sync::Mutex;
use innkeeper_std::watch::{DirectoryEvent, DirectoryId, DirectoryWatcher, WatchError, Watched};
use tokio::sync::Notify;

use super::tree::Hints;

/// Directories that are looked at one by one; when more may have changed, all are.
const MAX_HINTS: usize = 4096;

/// Directories that may have changed, for one watch.
#[derive(Debug, Default)]
pub(super) struct HintQueue {
    hints: Mutex<Hints>,
    pub(super) bell: Notify,
}

impl HintQueue {
    /// Takes the hints since the last call.
    pub(super) fn take(&self) -> Hints {
        std::mem::take(&mut *self.hints.lock())
    }

    fn hint(&self, path: &Path, may_be_away: bool) {
        let mut hints = self.hints.lock();
        if let Some(parent) = path.parent() {
            hints.directories.insert(parent.to_owned());
        }
        hints.directories.insert(path.to_owned());
        if may_be_away {
            hints.away.insert(path.to_owned());
        }
        if hints.directories.len() > MAX_HINTS {
            hints.directories.clear();
            hints.away.clear();
            hints.all = true;
        }
        drop(hints);
        self.bell.notify_one();
    }

    fn hint_at_everything(&self) {
        self.hints.lock().all = true;
        self.bell.notify_one();
    }
}

/// The watcher, and the subscribers of each directory.
#[derive(Debug, Clone)]
pub(super) struct WatchRouter {
    /// Locked by the thread of the watcher, so never while that is waited for.
    routes: Arc<Mutex<Routes>>,
    watched: Arc<Mutex<Subscriptions>>,
}

/// The subscribers of each directory.
type Routes = HashMap<PathBuf, Vec<(u64, Arc<HintQueue>)>>;

#[derive(Debug)]
struct Subscriptions {
    watcher: DirectoryWatcher,
    count: usize,
    next: u64,
}

impl WatchRouter {
    pub(super) fn new(most: usize) -> Self {
        let routes: Arc<Mutex<Routes>> = Arc::default();
        let of_watcher = Arc::clone(&routes);
        Self {
            routes,
            watched: Arc::new(Mutex::new(Subscriptions {
                watcher: DirectoryWatcher::new(most, move |event| pass_on(&of_watcher, event)),
                count: 0,
                next: 0,
            })),
        }
    }

    /// Adds a subscriber.
    pub(super) fn subscribe(&self, queue: Arc<HintQueue>) -> io::Result<Subscription> {
        let mut watched = self.watched.lock();
        watched.watcher.open()?;
        watched.count += 1;
        watched.next += 1;
        Ok(Subscription {
            router: self.clone(),
            id: watched.next,
            queue,
            paths: HashSet::new(),
        })
    }

    fn leave(&self, id: u64, path: &Path) {
        let mut watched = self.watched.lock();
        let mut routes = self.routes.lock();
        let Some(hearing) = routes.get_mut(path) else {
            return;
        };
        hearing.retain(|(known, _)| *known != id);
        if !hearing.is_empty() {
            return;
        }
        routes.remove(path);
        drop(routes);
        watched.watcher.unwatch(path);
    }

    fn leave_all(&self, id: u64, paths: HashSet<PathBuf>) {
        let mut watched = self.watched.lock();
        watched.count = watched.count.saturating_sub(1);
        if watched.count == 0 {
            self.routes.lock().clear();
            watched.watcher.close();
            return;
        }
        drop(watched);
        for path in paths {
            self.leave(id, &path);
        }
    }

    /// How many directories are watched.
    #[cfg(all(test, unix))]
    pub(super) fn directories(&self) -> usize {
        self.watched.lock().watcher.directories().len()
    }
}

/// The directories of one watch. Dropped, they are unsubscribed.
#[derive(Debug)]
pub(super) struct Subscription {
    router: WatchRouter,
    id: u64,
    queue: Arc<HintQueue>,
    paths: HashSet<PathBuf>,
}

impl Subscription {
    /// Subscribes to a directory, also if another one has its path by now.
    pub(super) fn watch(&mut self, path: &Path, id: DirectoryId) -> Result<(), WatchError> {
        // Routes come first, so that nothing is missed.
        let mut routes = self.router.routes.lock();
        let hearing = routes.entry(path.to_owned()).or_default();
        if hearing.iter().all(|(id, _)| *id != self.id) {
            hearing.push((self.id, Arc::clone(&self.queue)));
        }
        drop(routes);
        self.paths.insert(path.to_owned());
        let outcome = self.router.watched.lock().watcher.watch_anew(path, id);
        match outcome {
            // The other subscribers missed the changes in between.
            Ok(Watched::Replaced) => {
                let routes = self.router.routes.lock();
                let others = routes.get(path).into_iter().flatten();
                others
                    .filter(|(id, _)| *id != self.id)
                    .for_each(|(_, queue)| queue.hint(path, true));
            }
            Ok(Watched::New | Watched::Known) => {}
            Err(_) => self.unwatch(path),
        }
        outcome.map(drop)
    }

    /// Unsubscribes from a directory.
    pub(super) fn unwatch(&mut self, path: &Path) {
        if self.paths.remove(path) {
            self.router.leave(self.id, path);
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let (router, id, paths) = (self.router.clone(), self.id, std::mem::take(&mut self.paths));
        let leave = move || router.leave_all(id, paths);
        // Each directory takes a word with the watcher's thread, so not in the middle of everything else.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(leave)),
            Err(_) => leave(),
        }
    }
}

fn pass_on(routes: &Mutex<Routes>, event: DirectoryEvent) {
    let routes = routes.lock();
    match event {
        DirectoryEvent::Changed { paths, may_be_moved } => {
            for path in &paths {
                let around = path.parent().and_then(|parent| routes.get(parent));
                let hearing = routes.get(path).into_iter().chain(around).flatten();
                hearing.for_each(|(_, queue)| queue.hint(path, may_be_moved));
            }
        }
        DirectoryEvent::Lost => {
            let hearing = routes.values().flatten();
            hearing.for_each(|(_, queue)| queue.hint_at_everything());
        }
    }
}

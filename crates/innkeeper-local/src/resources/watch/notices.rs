//! The operating system's word that something may have changed, from one watcher for everybody.
//!
//! A user has few watchers, 128 on most Linux systems, and editors and agents need theirs. So there is
//! one, as long as somebody watches; who wants to hear of a directory enrols for it, and a directory
//! that several want to hear of is watched once.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use innkeeper_std::sync::Mutex;
use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

use super::tree::Hints;

/// Directories that are looked at one by one; when more may have changed, all are.
const MAX_HINTS: usize = 4096;

/// Where changes may be, for one who looks.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    hints: Mutex<Hints>,
    pub(super) bell: Notify,
}

impl Mailbox {
    /// What has come since the last time.
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

/// What tells one directory from another that has its name later.
pub(super) type Identity = (u64, u64);

/// The watcher, and who hears of what.
#[derive(Debug, Clone)]
pub(super) struct Notices {
    /// Most directories that are watched.
    most: usize,
    /// Locked by the thread of the watcher, so never while that is waited for.
    routes: Arc<Mutex<Routes>>,
    watched: Arc<Mutex<Watched>>,
}

/// Who enrolled for each directory.
type Routes = HashMap<PathBuf, Vec<(u64, Arc<Mailbox>)>>;

#[derive(Debug, Default)]
struct Watched {
    watcher: Option<RecommendedWatcher>,
    directories: HashMap<PathBuf, Identity>,
    enrolled: usize,
    next: u64,
}

impl Notices {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            routes: Arc::default(),
            watched: Arc::default(),
        }
    }

    /// Makes room for somebody who will hear of directories.
    pub(super) fn enrol(&self, mailbox: Arc<Mailbox>) -> notify::Result<Enrolment> {
        let mut watched = self.watched.lock();
        if watched.watcher.is_none() {
            let routes = Arc::clone(&self.routes);
            watched.watcher = Some(notify::recommended_watcher(move |event| pass_on(&routes, event))?);
        }
        watched.enrolled += 1;
        watched.next += 1;
        Ok(Enrolment {
            notices: self.clone(),
            id: watched.next,
            mailbox,
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
        watched.forget(path);
    }

    fn leave_all(&self, id: u64, paths: HashSet<PathBuf>) {
        let mut watched = self.watched.lock();
        watched.enrolled = watched.enrolled.saturating_sub(1);
        if watched.enrolled == 0 {
            // The watcher forgets everything by itself.
            self.routes.lock().clear();
            watched.directories.clear();
            watched.watcher = None;
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
        self.watched.lock().directories.len()
    }
}

impl Watched {
    fn forget(&mut self, path: &Path) {
        if self.directories.remove(path).is_some()
            && let Some(watcher) = &mut self.watcher
        {
            let _ = watcher.unwatch(path);
        }
    }
}

/// Somebody who hears of directories. Dropped, it hears no more.
#[derive(Debug)]
pub(super) struct Enrolment {
    notices: Notices,
    id: u64,
    mailbox: Arc<Mailbox>,
    paths: HashSet<PathBuf>,
}

impl Enrolment {
    /// Hears of a directory from now on, also when it is another one of the same name by now.
    pub(super) fn watch(&mut self, path: &Path, identity: Identity) -> notify::Result<()> {
        let mut watched = self.notices.watched.lock();
        let known = watched.directories.get(path).copied();
        if known.is_none() && watched.directories.len() >= self.notices.most {
            return Err(notify::Error::new(notify::ErrorKind::MaxFilesWatch));
        }
        // First, so that nothing is missed.
        let mut routes = self.notices.routes.lock();
        let hearing = routes.entry(path.to_owned()).or_default();
        if hearing.iter().all(|(id, _)| *id != self.id) {
            hearing.push((self.id, Arc::clone(&self.mailbox)));
        }
        drop(routes);
        self.paths.insert(path.to_owned());
        let is_another = known.is_some_and(|known| known != identity);
        if is_another {
            watched.forget(path);
        }
        // Where watching again is for nothing, it is still there; a number that is used again is not told from
        // the one before.
        let is_kept = known.is_some() && !is_another && !cfg!(target_os = "linux");
        let outcome = match &mut watched.watcher {
            Some(watcher) if !is_kept => watcher.watch(path, RecursiveMode::NonRecursive),
            Some(_) | None => Ok(()),
        };
        if outcome.is_ok() {
            watched.directories.insert(path.to_owned(), identity);
        }
        drop(watched);
        match &outcome {
            // The others heard nothing in between.
            Ok(()) if is_another => {
                let routes = self.notices.routes.lock();
                let others = routes.get(path).into_iter().flatten();
                others
                    .filter(|(id, _)| *id != self.id)
                    .for_each(|(_, mailbox)| mailbox.hint(path, true));
            }
            Ok(()) => {}
            Err(_) => self.unwatch(path),
        }
        outcome
    }

    /// Hears no more of a directory.
    pub(super) fn unwatch(&mut self, path: &Path) {
        if self.paths.remove(path) {
            self.notices.leave(self.id, path);
        }
    }
}

impl Drop for Enrolment {
    fn drop(&mut self) {
        let (notices, id, paths) = (self.notices.clone(), self.id, std::mem::take(&mut self.paths));
        let leave = move || notices.leave_all(id, paths);
        // Each directory takes a word with the watcher's thread, so not in the middle of everything else.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(leave)),
            Err(_) => leave(),
        }
    }
}

fn pass_on(routes: &Mutex<Routes>, event: notify::Result<Event>) {
    // Looking at a directory is no change of it.
    if event.as_ref().is_ok_and(|event| is_access(event.kind)) {
        return;
    }
    let routes = routes.lock();
    match event {
        Ok(event) if !event.need_rescan() => {
            let may_be_away = matches!(
                event.kind,
                EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)) | EventKind::Any
            );
            for path in &event.paths {
                let around = path.parent().and_then(|parent| routes.get(parent));
                let hearing = routes.get(path).into_iter().chain(around).flatten();
                hearing.for_each(|(_, mailbox)| mailbox.hint(path, may_be_away));
            }
        }
        // What it was about, it does not say.
        Ok(_) | Err(_) => {
            let hearing = routes.values().flatten();
            hearing.for_each(|(_, mailbox)| mailbox.hint_at_everything());
        }
    }
}

fn is_access(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
        EventKind::Access(_) => true,
        _ => false,
    }
}

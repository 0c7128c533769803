//! Watches what a scan depended on, and scans again when something happened there.
//!
//! Events are only a reason to look: they get lost, come late, and come for nothing. After each
//! burst everything is read again and compared, and only a tree that differs is handed on. New
//! directories are watched before the scan that counts, so nothing falls in between.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use crate::changes::changes;
use crate::footprint::Footprint;
use crate::scan::{Sources, scan_traced};
use crate::tree::Tree;

/// How long nothing must happen before a burst is over.
const QUIET: Duration = Duration::from_millis(150);
/// How long a burst is waited for at most.
const LONGEST_BURST: Duration = Duration::from_secs(1);
/// How often everything is read again without a reason, for events that got lost.
const SAFETY_SCAN: Duration = Duration::from_secs(60);
/// The same when not everything can be watched, because the system has no more watches.
const POLLING_SCAN: Duration = Duration::from_secs(2);
/// How often in a row new directories are watched and everything is read again. A tree that grows
/// faster than that is caught up with by its own next events.
const MAX_ROUNDS: usize = 5;
/// How many events wait while everything is read. More are not kept, but remembered as lost.
const MAX_WAITING: usize = 1_024;
/// How many directories are watched at most.
const MAX_WATCHES: usize = 16_384;

/// Watches sources until it is dropped. One is enough for a workspace, however many sessions it has.
#[derive(Debug)]
pub struct TreeWatcher {
    messages: SyncSender<Message>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Message {
    Happened(Vec<PathBuf>),
    /// Events got lost, or something is wrong with watching.
    Lost,
    Stop,
}

impl TreeWatcher {
    /// Reads the sources and hands on the first tree, and from then on every one that differs from
    /// the one before it. The call comes from a thread of the watcher.
    pub fn start(sources: Sources, mut on_tree: impl FnMut(Tree) + Send + 'static) -> std::io::Result<Self> {
        let (messages, inbox) = sync_channel(MAX_WAITING);
        let events = messages.clone();
        let thread = std::thread::Builder::new()
            .name("customizations".to_owned())
            .spawn(move || Task::new(sources, events).run(&inbox, &mut on_tree))?;
        Ok(Self {
            messages,
            thread: Some(thread),
        })
    }

    /// Reads everything again now, for whoever knows that something happened.
    pub fn rescan(&self) {
        // A watcher that has ended has nothing to read any more.
        let _ = self.messages.send(Message::Lost);
    }
}

impl Drop for TreeWatcher {
    fn drop(&mut self) {
        let _ = self.messages.send(Message::Stop);
        // Whoever drops it when told of a tree is on the thread itself and must not wait for it.
        let thread = self.thread.take();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

struct Task {
    sources: Sources,
    watcher: Option<RecommendedWatcher>,
    /// What is watched, and which directory that was.
    watched: BTreeMap<PathBuf, Identity>,
    footprint: Footprint,
    is_complete: bool,
    /// Whether events were thrown away because too many waited.
    has_overflowed: Arc<AtomicBool>,
}

/// What tells a directory from another one that took its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity(Option<(u64, u64)>);

enum Burst {
    Over,
    Stopped,
}

impl Task {
    fn new(sources: Sources, events: SyncSender<Message>) -> Self {
        let has_overflowed = Arc::new(AtomicBool::new(false));
        let overflow = Arc::clone(&has_overflowed);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let message = match event {
                // Reading is what scans do themselves.
                Ok(event) if matches!(event.kind, EventKind::Access(_)) => return,
                Ok(event) if event.need_rescan() => Message::Lost,
                Ok(event) => Message::Happened(event.paths),
                Err(_) => Message::Lost,
            };
            // Never waits: the thread that calls this must go on taking events from the system.
            if events.try_send(message).is_err() {
                overflow.store(true, Ordering::Release);
            }
        });
        Self {
            sources,
            watcher: watcher.ok(),
            watched: BTreeMap::new(),
            footprint: Footprint::default(),
            is_complete: true,
            has_overflowed,
        }
    }

    fn run(mut self, inbox: &Receiver<Message>, on_tree: &mut impl FnMut(Tree)) {
        let mut tree = self.settle();
        on_tree(tree.clone());
        while let Burst::Over = self.wait(inbox) {
            let new = self.settle();
            if !changes(&tree, &new).is_empty() {
                on_tree(new.clone());
            }
            tree = new;
        }
    }

    /// Scans until everything the scan depended on was watched before it began.
    fn settle(&mut self) -> Tree {
        let (mut tree, mut footprint) = scan_traced(&self.sources);
        for _ in 0..MAX_ROUNDS {
            if !self.watch(&footprint) {
                break;
            }
            (tree, footprint) = scan_traced(&self.sources);
        }
        self.footprint = footprint;
        tree
    }

    /// Watches what is not watched yet, and drops the rest. True if anything is new.
    fn watch(&mut self, footprint: &Footprint) -> bool {
        let Some(watcher) = &mut self.watcher else {
            self.is_complete = false;
            return false;
        };
        let mut wanted = footprint.watch_points();
        self.is_complete = wanted.len() <= MAX_WATCHES;
        if let Some(last) = wanted.iter().nth(MAX_WATCHES).cloned() {
            wanted.split_off(&last);
        }
        let gone: Vec<PathBuf> = self
            .watched
            .keys()
            .filter(|path| !wanted.contains(*path))
            .cloned()
            .collect();
        for path in gone {
            let _ = watcher.unwatch(&path);
            self.watched.remove(&path);
        }
        let mut has_new = false;
        for path in wanted {
            let identity = Identity::of(&path);
            match self.watched.get(&path) {
                Some(known) if *known == identity => continue,
                // Something else took its place; the old watch is of no use.
                Some(_) => {
                    let _ = watcher.unwatch(&path);
                }
                None => {}
            }
            match watcher.watch(&path, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.watched.insert(path, identity);
                    has_new = true;
                }
                Err(_) => {
                    self.watched.remove(&path);
                    // One that vanished meanwhile is noticed from above. Anything else is a limit.
                    self.is_complete &= !path.is_dir();
                }
            }
        }
        has_new
    }

    /// Whether an event is a reason to look. When events were lost, every event is.
    fn concerns(&self, paths: &[PathBuf]) -> bool {
        let has_lost = self.has_overflowed.swap(false, Ordering::AcqRel);
        has_lost || paths.iter().any(|path| self.footprint.concerns(path))
    }

    /// Waits for a burst of events to begin and to end.
    fn wait(&self, inbox: &Receiver<Message>) -> Burst {
        let pause = if self.is_complete { SAFETY_SCAN } else { POLLING_SCAN };
        let deadline = Instant::now() + pause;
        loop {
            match inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Message::Happened(paths)) if !self.concerns(&paths) => {}
                Ok(Message::Happened(_) | Message::Lost) => break,
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return Burst::Stopped,
                Err(RecvTimeoutError::Timeout) => return Burst::Over,
            }
        }
        let end = Instant::now() + LONGEST_BURST;
        loop {
            let rest = end.saturating_duration_since(Instant::now()).min(QUIET);
            match inbox.recv_timeout(rest) {
                Ok(Message::Happened(_) | Message::Lost) if rest.is_zero() => return Burst::Over,
                Ok(Message::Happened(_) | Message::Lost) => {}
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return Burst::Stopped,
                Err(RecvTimeoutError::Timeout) => return Burst::Over,
            }
        }
    }
}

impl Identity {
    fn of(path: &Path) -> Self {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            Self(fs::metadata(path).ok().map(|data| (data.dev(), data.ino())))
        }
        #[cfg(not(unix))]
        {
            Self(fs::metadata(path).ok().map(|_| (0, 0)))
        }
    }
}

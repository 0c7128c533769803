//! Watches the footprint of a scan, and scans again after changes.
//!
//! Events are only a reason to scan: they get lost, come late, and come for nothing. After each burst the affected
//! parts are read again and compared, and only a tree that differs is reported. New directories are watched before the
//! scan that counts, so no change is missed. After lost events, and once a minute, everything is read again.
//!
//! A watched directory that was itself changed is watched anew: it may be another one, or may have been moved away and back,
//! and the watch of the operating system does not follow.

mod burst;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use innkeeper_std::canonical_prefix;
use innkeeper_std::watch::{DirectoryEvent, DirectoryId, DirectoryWatcher, WatchError, Watched};

use crate::scan::Sources;
use crate::scan::footprint::Footprint;
use crate::scan::parts::Parts;
use crate::tree::Tree;
use burst::{Burst, ChangedPaths};

/// How often everything is read again without an event, because events get lost.
const SAFETY_SCAN: Duration = Duration::from_secs(60);
/// The interval if not everything can be watched, because the system has no more watches: at least this long, and
/// longer if a scan takes long.
const POLLING_SCAN: Duration = Duration::from_secs(2);
/// How many times as long as the last scan took nothing is read then. It may go on for ever, so most
/// of the time has to belong to others.
const POLLING_REST: u32 = 20;
/// How often in a row new directories are watched and everything is read again. A tree that grows
/// faster than that is caught up with by its own next events.
const MAX_ROUNDS: usize = 5;
/// Most events that wait during a scan. More count as lost.
const MAX_WAITING: usize = 1_024;
/// How many directories are watched at most.
const MAX_WATCHES: usize = 16_384;

/// Watches sources until it is dropped. One is enough for a workspace, however many sessions it has.
#[derive(Debug)]
pub struct TreeWatcher {
    messages: SyncSender<Message>,
    is_dropped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Message {
    Changed(Vec<PathBuf>),
    /// Events got lost, or something is wrong with watching.
    Lost,
    /// A path is known to have changed, and a caller waits for the scan.
    ReadNow(PathBuf, Done),
    Stop,
}

/// A callback for a change that was read.
struct Done(Box<dyn FnOnce() + Send>);

impl fmt::Debug for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Done")
    }
}

impl TreeWatcher {
    /// Reads the sources and hands on the first tree, and from then on every one that differs from
    /// the one before it. The call comes from a thread of the watcher.
    pub fn start(sources: Sources, on_tree: impl FnMut(Tree) + Send + 'static) -> std::io::Result<Self> {
        Self::start_with(sources, MAX_WATCHES, on_tree)
    }

    /// The same with fewer watches, as on a system that has no more of them.
    fn start_with(
        sources: Sources,
        max_watches: usize,
        mut on_tree: impl FnMut(Tree) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (messages, inbox) = sync_channel(MAX_WAITING);
        let is_dropped = Arc::new(AtomicBool::new(false));
        let task = Task {
            is_dropped: Arc::clone(&is_dropped),
            max_watches,
            ..Task::new(sources, messages.clone())
        };
        let thread = std::thread::Builder::new()
            .name("customizations".to_owned())
            .spawn(move || task.run(&inbox, &mut on_tree))?;
        Ok(Self {
            messages,
            is_dropped,
            thread: Some(thread),
        })
    }

    /// Reads everything again now.
    pub fn rescan(&self) {
        // A watcher that has ended has nothing to read any more.
        let _ = self.messages.send(Message::Lost);
    }

    /// Reads the parts again that depend on a changed path, and calls `done` after a tree that differs was reported.
    /// Faster than waiting for events. If the queue is full, `done` is dropped.
    pub fn changed(&self, path: PathBuf, done: impl FnOnce() + Send + 'static) {
        let _ = self.messages.try_send(Message::ReadNow(path, Done(Box::new(done))));
    }
}

impl Drop for TreeWatcher {
    fn drop(&mut self) {
        self.is_dropped.store(true, Ordering::Release);
        let _ = self.messages.send(Message::Stop);
        // A callback that drops the watcher is on the thread itself and must not wait for it.
        let thread = self.thread.take();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

struct Task {
    sources: Sources,
    parts: Parts,
    watcher: DirectoryWatcher,
    max_watches: usize,
    footprint: Footprint,
    is_complete: bool,
    /// The time of the last complete scan.
    last_full_at: Instant,
    /// How long that took.
    last_full: Duration,
    /// Whether events were dropped because the queue was full.
    has_overflowed: Arc<AtomicBool>,
    is_dropped: Arc<AtomicBool>,
    /// Callbacks for the end of the next scan.
    awaiting: Vec<Done>,
}

impl Task {
    fn new(sources: Sources, events: SyncSender<Message>) -> Self {
        let has_overflowed = Arc::new(AtomicBool::new(false));
        Self {
            sources,
            parts: Parts::default(),
            watcher: watcher(events, &has_overflowed),
            max_watches: MAX_WATCHES,
            footprint: Footprint::default(),
            is_complete: true,
            last_full_at: Instant::now(),
            last_full: Duration::ZERO,
            has_overflowed,
            is_dropped: Arc::default(),
            awaiting: Vec::new(),
        }
    }

    fn run(mut self, inbox: &Receiver<Message>, on_tree: &mut impl FnMut(Tree)) {
        let mut tree = self.settle_all();
        self.tell(&tree, on_tree);
        while let Some(happened) = self.wait(inbox) {
            let new = match happened {
                ChangedPaths::Unknown => self.settle_all(),
                ChangedPaths::Known(paths) => {
                    // Directories there and below may not be watched any more.
                    for path in &paths {
                        self.watcher.unwatch_below(path);
                    }
                    self.parts.forget(&paths);
                    self.settle()
                }
            };
            if !new.has_entries_of(&tree) {
                self.tell(&new, on_tree);
            }
            tree = new;
            for Done(done) in self.awaiting.drain(..) {
                done();
            }
        }
    }

    /// Reports a tree, unless the watcher is stopping (D67).
    fn tell(&self, tree: &Tree, on_tree: &mut impl FnMut(Tree)) {
        if !self.is_dropped.load(Ordering::Acquire) {
            on_tree(tree.clone());
        }
    }

    /// Reads everything, and takes the time.
    fn settle_all(&mut self) -> Tree {
        let begun = Instant::now();
        self.watcher.rewatch();
        self.parts.forget_all();
        let tree = self.settle();
        self.last_full = begun.elapsed();
        self.last_full_at = Instant::now();
        tree
    }

    /// Scans until everything the scan depended on was watched before it began.
    fn settle(&mut self) -> Tree {
        let mut tree = self.parts.scan(&self.sources);
        for _ in 0..MAX_ROUNDS {
            let new = self.watch();
            if new.is_empty() {
                break;
            }
            self.parts.forget_watched_late(&new);
            tree = self.parts.scan(&self.sources);
        }
        self.footprint = self.parts.footprint();
        tree
    }

    /// Filters changed paths that matter: the parents of the footprint are watched too, and most changes there do not
    /// matter.
    fn of_interest(&self, mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
        paths.retain(|path| self.footprint.concerns(path) || self.watcher.directories_below(path).next().is_some());
        paths
    }

    /// Accepts a change that a caller waits for. Returns `None` if nothing depends on it.
    fn take_change(&mut self, path: &Path, done: Done) -> Option<ChangedPaths> {
        let real = canonical_prefix(path);
        let spellings = [path, &real];
        let itself = spellings.into_iter().find(|path| self.footprint.concerns(path));
        // Directories above it may be new as well: the first of them is inside one that was read.
        let mut above = spellings.into_iter().flat_map(Path::ancestors);
        let nearest = itself.or_else(|| above.find(|path| self.footprint.is_inside(path)));
        match nearest.map(Path::to_owned) {
            Some(nearest) => {
                self.awaiting.push(done);
                Some(ChangedPaths::at(vec![nearest]))
            }
            None => {
                (done.0)();
                None
            }
        }
    }

    /// Watches new directories, and stops watching others. Returns the new ones.
    fn watch(&mut self) -> BTreeSet<PathBuf> {
        let mut new = BTreeSet::new();
        // Without a watcher the next scan asks again: another program may have given one back.
        if self.watcher.open().is_err() {
            self.is_complete = false;
            return new;
        }
        let mut wanted = self.parts.watch_points();
        self.is_complete = wanted.len() <= self.max_watches;
        if let Some(last) = wanted.iter().nth(self.max_watches).cloned() {
            wanted.split_off(&last);
        }
        let watched = self.watcher.directories().filter(|path| !wanted.contains(*path));
        let gone: Vec<PathBuf> = watched.map(Path::to_owned).collect();
        for path in gone {
            self.watcher.unwatch(&path);
        }
        for path in wanted {
            match self.watcher.watch(&path, DirectoryId::of_path(&path)) {
                Ok(Watched::Known) => {}
                Ok(Watched::New | Watched::Replaced) => drop(new.insert(path)),
                Err(WatchError::Limit) => self.is_complete = false,
                Err(WatchError::Unwatchable) => {}
            }
        }
        new
    }

    /// Waits for the beginning and end of a burst of events. Returns `None` at shutdown.
    fn wait(&mut self, inbox: &Receiver<Message>) -> Option<ChangedPaths> {
        // However much happens meanwhile: something that never stops must not put it off for ever.
        let deadline = self.last_full_at + pause(self.is_complete, self.last_full);
        let mut burst = loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            if rest.is_zero() && !self.is_dropped.load(Ordering::Acquire) {
                return Some(ChangedPaths::Unknown);
            }
            match inbox.recv_timeout(rest) {
                Ok(Message::Changed(paths)) => {
                    let paths = self.of_interest(paths);
                    if !paths.is_empty() {
                        break Burst::begin(Instant::now(), ChangedPaths::at(paths));
                    }
                }
                Ok(Message::Lost) => break Burst::begin(Instant::now(), ChangedPaths::Unknown),
                Ok(Message::ReadNow(path, done)) => {
                    if let Some(happened) = self.take_change(&path, done) {
                        return Some(happened);
                    }
                }
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => return Some(ChangedPaths::Unknown),
            }
            if self.has_overflowed.swap(false, Ordering::AcqRel) {
                break Burst::begin(Instant::now(), ChangedPaths::Unknown);
            }
        };
        loop {
            let rest = burst.ends_at().saturating_duration_since(Instant::now());
            let more = match inbox.recv_timeout(rest) {
                Ok(Message::Changed(paths)) => match self.of_interest(paths) {
                    paths if paths.is_empty() && !rest.is_zero() => continue,
                    paths => ChangedPaths::at(paths),
                },
                Ok(Message::Lost) => ChangedPaths::Unknown,
                Ok(Message::ReadNow(path, done)) => match self.take_change(&path, done) {
                    Some(happened) => {
                        burst.go_on(Instant::now(), happened);
                        break;
                    }
                    None => continue,
                },
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => break,
            };
            burst.go_on(Instant::now(), more);
            if rest.is_zero() {
                break;
            }
        }
        if self.has_overflowed.swap(false, Ordering::AcqRel) {
            burst.lose();
        }
        Some(burst.over())
    }
}

/// How long nothing is read without a reason.
fn pause(is_complete: bool, last_full: Duration) -> Duration {
    match is_complete {
        true => SAFETY_SCAN,
        false => last_full.saturating_mul(POLLING_REST).clamp(POLLING_SCAN, SAFETY_SCAN),
    }
}

/// Turns events into messages. It never waits: the thread that calls it takes events from the operating system.
fn watcher(events: SyncSender<Message>, has_overflowed: &Arc<AtomicBool>) -> DirectoryWatcher {
    let overflow = Arc::clone(has_overflowed);
    // The caller limits the number of watches.
    DirectoryWatcher::new(usize::MAX, move |event| {
        let message = match event {
            DirectoryEvent::Changed { paths, .. } => Message::Changed(paths),
            DirectoryEvent::Lost => Message::Lost,
        };
        if events.try_send(message).is_err() {
            overflow.store(true, Ordering::Release);
        }
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc::channel;

    use super::*;

    /// A system has so many watches and no more (`ENOSPC`). Without any, everything is read every now
    /// and then: later, but right.
    #[test]
    fn d62_without_watches_everything_is_still_noticed() {
        let temp = tempfile::tempdir().unwrap();
        let sources = Sources {
            workspaces: vec![temp.path().to_owned()],
            ..Sources::default()
        };
        for max_watches in [0, 1] {
            let (sender, trees) = channel();
            let watcher = TreeWatcher::start_with(sources.clone(), max_watches, move |tree: Tree| {
                let _ = sender.send(tree);
            });
            let first = trees.recv().unwrap();
            let skill = temp.path().join(format!(".claude/skills/s{max_watches}"));
            fs::create_dir_all(&skill).unwrap();
            fs::write(skill.join("SKILL.md"), "---\ndescription: d\n---\n").unwrap();
            let count = |tree: &Tree| tree.entries.iter().map(|entry| entry.children().len()).sum::<usize>();
            while count(&trees.recv().unwrap()) != count(&first) + 1 {}
            drop(watcher);
        }
    }

    /// Beyond the limit of the system it may go on for ever, so it must not take all the time there is.
    #[test]
    fn d62_polling_pauses_grow_with_the_time_of_a_scan() {
        let millis = Duration::from_millis;
        for (took, rests) in [(1, 2_000), (100, 2_000), (500, 10_000), (60_000, 60_000)] {
            assert_eq!(pause(false, millis(took)), millis(rests), "{took}");
        }
        assert_eq!(pause(true, millis(1)), SAFETY_SCAN);
    }

    /// A log file that grows all the time causes one burst after another, and none of them may delay the scan
    /// at everything.
    #[test]
    fn d62_everything_is_rescanned_in_time_despite_other_events() {
        let temp = tempfile::tempdir().unwrap();
        let sources = Sources {
            workspaces: vec![temp.path().to_owned()],
            ..Sources::default()
        };
        let (messages, inbox) = sync_channel(MAX_WAITING);
        let mut task = Task::new(sources, messages.clone());
        task.settle_all();
        let log = fs::canonicalize(temp.path()).unwrap().join("log");
        messages.send(Message::Changed(vec![log.clone()])).unwrap();
        assert_eq!(task.wait(&inbox), Some(ChangedPaths::at(vec![log.clone()])));
        messages.send(Message::Changed(vec![log])).unwrap();
        task.last_full_at = task.last_full_at.checked_sub(SAFETY_SCAN).unwrap();
        assert_eq!(task.wait(&inbox), Some(ChangedPaths::Unknown));
    }

    #[test]
    fn case_69_an_awaited_change_is_read_before_done_is_called() {
        let temp = tempfile::tempdir().unwrap();
        let sources = Sources {
            workspaces: vec![temp.path().to_owned()],
            ..Sources::default()
        };
        let (sender, trees) = channel();
        let watcher = TreeWatcher::start(sources, move |tree: Tree| sender.send(tree).unwrap_or_default()).unwrap();
        let count = |tree: &Tree| tree.entries.iter().map(|entry| entry.children().len()).sum::<usize>();
        assert_eq!(count(&trees.recv().unwrap()), 0);
        for number in 1..5 {
            let skill = temp.path().join(format!(".claude/skills/s{number}/SKILL.md"));
            fs::create_dir_all(skill.parent().unwrap()).unwrap();
            fs::write(&skill, "---\ndescription: d\n---\n").unwrap();
            let (done, is_done) = channel();
            watcher.changed(skill, move || done.send(()).unwrap_or_default());
            is_done.recv().unwrap();
            let latest = trees.try_iter().last().expect("a tree was handed on before");
            assert_eq!(count(&latest), number);
        }
        let (done, is_done) = channel();
        watcher.changed(PathBuf::from("/nowhere/at/all"), move || {
            done.send(()).unwrap_or_default()
        });
        is_done
            .recv()
            .expect("nothing depends on it, and no caller waits forever");
    }

    #[test]
    fn d62_a_watcher_that_was_not_to_be_had_is_asked_for_again() {
        let temp = tempfile::tempdir().unwrap();
        let sources = Sources {
            workspaces: vec![temp.path().to_owned()],
            ..Sources::default()
        };
        let (messages, _inbox) = sync_channel(MAX_WAITING);
        let mut task = Task::new(sources, messages);
        task.watcher.close();
        task.settle_all();
        assert!(task.watcher.is_open() && task.watcher.directories().len() > 0);
        assert!(task.is_complete);
    }
}

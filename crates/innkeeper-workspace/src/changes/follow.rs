//! Computes a view while it is looked at: once, and again when its files change.
//!
//! Directories are watched once for all views of a work tree. Events are gathered for a moment, and a view that takes
//! long to compute is computed less often. Where not everything can be watched, views are also computed on a timer.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use innkeeper_host::changes::{ChangesSink, ChangesetView};
use innkeeper_std::sync::Mutex;
use innkeeper_std::watch::{DirectoryEvent, DirectoryId, DirectoryWatcher, Watched};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::root::Root;
use super::{Inner, collect_grown, compute};
use crate::git::Git;

/// How long events are gathered.
const TOGETHER: Duration = Duration::from_millis(100);
/// Shortest time between two computations.
const MIN_REST: Duration = Duration::from_millis(100);
/// Longest time between them that a slow computation leads to.
const MAX_REST: Duration = Duration::from_secs(30);
/// A view rests this many times as long as its computation took.
const REST: u32 = 3;
/// A computation that takes longer is announced.
const ANNOUNCED: Duration = Duration::from_millis(400);
/// How often a view is computed that cannot be watched, or that failed.
const POLL: Duration = Duration::from_secs(5);
/// Maximum directories of a work tree that are watched.
const MAX_WATCHED: usize = 8192;

/// Computes a view until the host is gone.
pub(crate) async fn follow(inner: Arc<Inner>, view: ChangesetView, again: Arc<Notify>, sink: ChangesSink) {
    let mut is_first = true;
    loop {
        let watched = watches(&inner, &view).await;
        let mut generations: Vec<watch::Receiver<u64>> =
            watched.iter().map(|watch| watch.changed.subscribe()).collect();
        let nested_before = nested(&inner, &watched);
        let begun = Instant::now();
        let computing = inner.compute(&view);
        tokio::pin!(computing);
        let outcome = tokio::select! {
            outcome = &mut computing => outcome,
            () = tokio::time::sleep(ANNOUNCED), if !is_first => {
                if !sink.computing().await {
                    return;
                }
                computing.await
            }
        };
        is_first = false;
        let has_failed = outcome.is_err();
        let rest = begun.elapsed().saturating_mul(REST).clamp(MIN_REST, MAX_REST);
        if !sink.computed(outcome).await {
            return;
        }
        collect_grown(&inner);
        let mut is_wider = nested(&inner, &watched) != nested_before;
        for watch in &watched {
            is_wider |= watch.cover(&inner.git).await;
        }
        let is_watched = !watched.is_empty() && watched.iter().all(|watch| watch.is_complete());
        tokio::time::sleep(rest).await;
        if is_wider {
            // Changes in directories that were not watched yet may have been missed.
            continue;
        }
        tokio::select! {
            () = again.notified() => {}
            () = any_changed(&mut generations) => {}
            () = tokio::time::sleep(POLL.max(rest)), if has_failed || !is_watched => {}
        }
        tokio::time::sleep(TOGETHER).await;
    }
}

async fn any_changed(generations: &mut [watch::Receiver<u64>]) {
    if generations.is_empty() {
        return std::future::pending().await;
    }
    let changes = generations.iter_mut().map(|generation| Box::pin(generation.changed()));
    // A watch that ended counts as a change: the view is computed again with a new one.
    let _ = futures_util::future::select_all(changes).await;
}

/// The watches on the work trees of a view.
async fn watches(inner: &Arc<Inner>, view: &ChangesetView) -> Vec<Arc<WorkTreeWatch>> {
    let Ok(directories) = compute::directories(view) else {
        return Vec::new();
    };
    let mut roots = Root::all(&inner.git, &directories).await.unwrap_or_default();
    let mut watches = Vec::new();
    while let Some(root) = roots.get(watches.len()).cloned() {
        let work_tree = inner.work_tree(&Arc::new(root));
        let nested = work_tree.nested();
        inner.add_nested(&mut roots, &directories, &nested).await;
        watches.push(work_tree.watch());
    }
    watches
}

/// The repositories in watched work trees that the last snapshots found.
fn nested(inner: &Inner, watched: &[Arc<WorkTreeWatch>]) -> Vec<PathBuf> {
    let work_trees = watched
        .iter()
        .filter_map(|watch| inner.known_work_tree(&watch.root.path));
    work_trees.flat_map(|work_tree| work_tree.nested()).collect()
}

/// Watches the directories of one work tree.
pub(crate) struct WorkTreeWatch {
    root: Root,
    watcher: Mutex<DirectoryWatcher>,
    /// Counts changes.
    changed: watch::Sender<u64>,
    /// Whether directories may have come or gone since they were listed.
    is_outdated: Arc<AtomicBool>,
    is_complete: AtomicBool,
}

impl std::fmt::Debug for WorkTreeWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkTreeWatch")
            .field("root", &self.root.path)
            .finish_non_exhaustive()
    }
}

impl WorkTreeWatch {
    pub(crate) fn new(root: Root) -> Arc<Self> {
        let (changed, _) = watch::channel(0);
        let counter = changed.clone();
        let is_outdated = Arc::new(AtomicBool::new(true));
        let outdated = Arc::clone(&is_outdated);
        let git_directory = root.git_directory.clone();
        let watcher = DirectoryWatcher::new(MAX_WATCHED, move |event| {
            let tells = match event {
                DirectoryEvent::Changed { paths, .. } => {
                    let is_directory = |path: &PathBuf| !path.starts_with(&git_directory) && path.is_dir();
                    if paths.iter().any(is_directory) {
                        outdated.store(true, Ordering::Relaxed);
                    }
                    paths.iter().any(|path| is_telling(&git_directory, path))
                }
                DirectoryEvent::Lost => {
                    outdated.store(true, Ordering::Relaxed);
                    true
                }
            };
            if tells {
                counter.send_modify(|count| *count += 1);
            }
        });
        Arc::new(Self {
            root,
            watcher: Mutex::new(watcher),
            changed,
            is_outdated,
            is_complete: AtomicBool::new(false),
        })
    }

    /// Whether every directory is watched.
    fn is_complete(&self) -> bool {
        self.is_complete.load(Ordering::Relaxed)
    }

    /// Watches directories that have come since the last call. Returns true if there are any.
    async fn cover(&self, git: &Git) -> bool {
        if !self.is_outdated.swap(false, Ordering::Relaxed) {
            return false;
        }
        let Some(directories) = directories_of(git, &self.root).await else {
            self.is_complete.store(false, Ordering::Relaxed);
            return false;
        };
        let mut watcher = self.watcher.lock();
        let mut is_complete = watcher.open().is_ok();
        let mut is_wider = false;
        if is_complete {
            for directory in &directories {
                match watcher.watch(directory, DirectoryId::of_path(directory)) {
                    Ok(watched) => is_wider |= watched != Watched::Known,
                    Err(_) => is_complete = false,
                }
            }
        }
        self.is_complete.store(is_complete, Ordering::Relaxed);
        is_wider
    }
}

/// Git writes its directory all the time; these files tell of commits, branches and staged files.
fn is_telling(git_directory: &Path, path: &Path) -> bool {
    if !path.starts_with(git_directory) {
        return true;
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    ["HEAD", "index", "packed-refs", "MERGE_HEAD", "ORIG_HEAD"].contains(&name)
}

/// The directories with files that Git does not ignore, and the directory of Git; `None` if there are too many.
async fn directories_of(git: &Git, root: &Root) -> Option<BTreeSet<PathBuf>> {
    use std::os::unix::ffi::OsStrExt as _;
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let mut call = crate::git::GitCall::new(&root.path, &root.settings);
    call.max_output = 64 << 20;
    let files = git.run(call, &arguments).await.ok()?;
    let mut directories = BTreeSet::from([root.path.clone(), root.git_directory.clone()]);
    let mut last: &[u8] = b"";
    for file in files.split(|byte| *byte == 0) {
        let end = file.iter().rposition(|byte| *byte == b'/').unwrap_or_default();
        let directory = file.get(..end).unwrap_or_default();
        // Files of one directory follow each other.
        if directory == last {
            continue;
        }
        last = directory;
        let mut path = root.path.join(std::ffi::OsStr::from_bytes(directory));
        while path.starts_with(&root.path) && directories.insert(path.clone()) {
            if directories.len() > MAX_WATCHED || !path.pop() {
                break;
            }
        }
        if directories.len() > MAX_WATCHED {
            return None;
        }
    }
    Some(directories)
}

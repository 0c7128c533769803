//! The changes of sessions: views of what differs, records of the files around turns, and operations.
//!
//! `root.rs` finds repositories, `snapshot.rs` turns the files on disk into a tree of Git, `diff.rs` compares trees,
//! `points.rs` stores the trees around turns, `count.rs` counts changes for summaries, and `edits.rs` has the files outside of repositories. `compute.rs` puts
//! them together, `follow.rs` decides when, and `operations.rs` changes files. `worktree.rs` makes work trees for
//! sessions, and `collect.rs` removes stored objects.

mod collect;
mod compute;
mod count;
mod diff;
mod edits;
mod follow;
mod operations;
mod points;
mod root;
mod snapshot;
#[cfg(test)]
mod tests;
mod worktree;

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Instant;

use async_trait::async_trait;
use innkeeper_host::changes::{
    Changes, ChangesSink, ChangesetView, ComputedChangeset, CountedChanges, OperationError, OperationOutcome,
    OperationRequest, TurnMoment, TurnPhase,
};
use innkeeper_host::contents::Contents;
use innkeeper_host::customizations::Following;
use innkeeper_host::resources::Content;
use innkeeper_std::sync::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;

use self::diff::LineCounts;
use self::follow::WorkTreeWatch;
use self::operations::StoredFiles;
use self::points::{Point, Points};
use self::root::Root;
use self::snapshot::{Snapshot, SnapshotStore};
use crate::git::{Git, GitError};
use crate::uri;

/// How many snapshots and comparisons run at the same time.
const MAX_AT_ONCE: usize = 2;
/// Most contents of a session that clients may read.
const MAX_PUBLISHED: usize = 200_000;

/// Computes the changes of sessions on this machine.
#[derive(Debug, Clone)]
pub struct LocalChanges {
    inner: Arc<Inner>,
}

/// The state that all views share.
pub(crate) struct Inner {
    git: Git,
    /// Where snapshots and checkpoints are stored.
    directory: PathBuf,
    contents: Arc<dyn Contents>,
    work_trees: Mutex<HashMap<PathBuf, Arc<WorkTree>>>,
    sessions: Mutex<HashMap<String, SessionRecords>>,
    at_once: Semaphore,
    /// Read while stored objects are in use that nothing refers to yet.
    in_use: Arc<tokio::sync::RwLock<()>>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

/// The records of one session.
#[derive(Debug)]
struct SessionRecords {
    points: Points,
    /// The objects that its views refer to, and the work trees that have them.
    published: HashMap<String, PublishedObject>,
    /// One operation at a time.
    operating: Arc<tokio::sync::Mutex<()>>,
}

/// An object that clients may read.
#[derive(Debug)]
struct PublishedObject {
    /// The work tree that has it.
    work_tree: PathBuf,
    /// When a view last referred to it.
    time: Instant,
}

/// One work tree, shared by all sessions in it.
#[derive(Debug)]
pub(crate) struct WorkTree {
    root: Arc<Root>,
    /// One snapshot at a time: the next caller finds an index that is up to date.
    state: tokio::sync::Mutex<WorkTreeState>,
    /// One operation at a time.
    operating: tokio::sync::Mutex<()>,
    watch: Mutex<Weak<WorkTreeWatch>>,
    /// The repositories in it that the last snapshot found.
    nested: Mutex<Vec<PathBuf>>,
}

#[derive(Debug)]
pub(crate) struct WorkTreeState {
    store: SnapshotStore,
    counts: LineCounts,
}

impl WorkTreeState {
    pub(crate) fn parts(&mut self) -> (&SnapshotStore, &mut LineCounts) {
        (&self.store, &mut self.counts)
    }

    pub(crate) fn store(&self) -> &SnapshotStore {
        &self.store
    }
}

/// A tree of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tree {
    /// The files as they are now.
    Now,
    /// A recorded tree.
    Stored(String),
}

impl WorkTree {
    pub(crate) fn nested(&self) -> Vec<PathBuf> {
        self.nested.lock().clone()
    }

    /// The watch on its directories, which ends with its last user.
    pub(crate) fn watch(&self) -> Arc<WorkTreeWatch> {
        let mut watch = self.watch.lock();
        match watch.upgrade() {
            Some(watch) => watch,
            None => {
                let new = WorkTreeWatch::new((*self.root).clone());
                *watch = Arc::downgrade(&new);
                new
            }
        }
    }
}

impl LocalChanges {
    /// Stores snapshots in a directory that only the host uses, and finds the contents that tools stored. Runs `git`
    /// with this environment, in which it has to be found.
    pub fn new(directory: PathBuf, contents: Arc<dyn Contents>, environment: Vec<(OsString, OsString)>) -> Self {
        Self {
            inner: Arc::new(Inner {
                git: Git::new(environment),
                directory,
                contents,
                work_trees: Mutex::default(),
                sessions: Mutex::default(),
                at_once: Semaphore::new(MAX_AT_ONCE),
                in_use: Arc::default(),
            }),
        }
    }

    /// The same, with what programs need of this process's environment, and no secret.
    pub fn with_own_environment(directory: PathBuf, contents: Arc<dyn Contents>) -> Self {
        let seen = innkeeper_std::needed_variables(std::env::vars_os());
        let environment = seen.map(|(name, value)| (name.into(), value)).collect();
        Self::new(directory, contents, environment)
    }

    /// Computes a view once.
    ///
    /// # Errors
    ///
    /// Fails with the reason, as a sentence for users.
    pub async fn compute(&self, view: &ChangesetView) -> Result<ComputedChangeset, String> {
        self.inner.compute(view).await
    }

    /// Removes the records of a session, without a host.
    ///
    /// # Errors
    ///
    /// When something is left.
    pub fn remove(directory: &Path, session: &str) -> std::io::Result<()> {
        match fs::remove_dir_all(session_directory(directory, session)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the records of sessions that are gone: a process that ends in the middle of a disposal leaves them
    /// behind. Then removes the stored contents that no session refers to. `sessions` says which there are, and is asked after the records are listed; `None` means that they are
    /// not known.
    pub async fn sweep(&self, sessions: impl FnOnce() -> Option<Vec<String>> + Send + 'static) {
        let inner = Arc::clone(&self.inner);
        let sweeping = tokio::task::spawn_blocking(move || inner.sweep(sessions));
        if sweeping.await.is_err() {
            tracing::warn!("the directory of snapshots could not be swept");
        }
        self.inner.collect_all().await;
    }
}

#[async_trait]
impl Changes for LocalChanges {
    fn follow(&self, view: ChangesetView, again: Arc<Notify>, sink: ChangesSink) -> Following {
        let task = tokio::spawn(follow::follow(Arc::clone(&self.inner), view, again, sink));
        Following::new(EndsWithGuard(task.abort_handle()))
    }

    async fn record(&self, moment: TurnMoment) -> Option<CountedChanges> {
        let counted = self.inner.record(moment).await;
        collect_grown(&self.inner);
        counted
    }

    async fn count(&self, session: &str, directories: &[String]) -> Option<CountedChanges> {
        self.inner.count(session, directories).await
    }

    async fn invoke(&self, view: ChangesetView, request: OperationRequest) -> Result<OperationOutcome, OperationError> {
        operations::invoke(&self.inner, view, request).await
    }

    async fn describe(&self, view: &ChangesetView, max_bytes: usize) -> Option<String> {
        self.inner.describe(view, max_bytes).await
    }

    async fn read(&self, session: &str, name: &str, max_bytes: usize) -> Result<Option<Content>, String> {
        self.inner.read(session, name, max_bytes).await
    }

    async fn isolate(&self, session: &str, directory: &str) -> Result<String, String> {
        worktree::isolate(&self.inner.git, session, directory).await
    }

    async fn forget(&self, session: &str) {
        let work_trees = self.inner.points(session, |points| points.work_trees());
        self.inner.sessions.lock().remove(session);
        let (inner, session) = (Arc::clone(&self.inner), session.to_owned());
        let removed = tokio::task::spawn_blocking(move || Self::remove(&inner.directory, &session)).await;
        if let Ok(Err(error)) = removed {
            tracing::warn!(%error, "the records of a disposed session could not be removed");
        }
        for work_tree in work_trees {
            self.inner.collect(&work_tree).await;
        }
    }
}

/// Collects the objects of stores that have grown much. Nothing waits for it.
pub(crate) fn collect_grown(inner: &Arc<Inner>) {
    let grown = inner.grown();
    if !grown.is_empty() {
        let inner = Arc::clone(inner);
        tokio::spawn(async move {
            for work_tree in grown {
                inner.collect(&work_tree).await;
            }
        });
    }
}

/// Ends a task when it is dropped.
struct EndsWithGuard(AbortHandle);

impl Drop for EndsWithGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Inner {
    fn session_directory(&self, session: &str) -> PathBuf {
        session_directory(&self.directory, session)
    }

    /// The shared state of a work tree.
    pub(crate) fn work_tree(&self, root: &Arc<Root>) -> Arc<WorkTree> {
        let mut work_trees = self.work_trees.lock();
        if let Some(known) = work_trees.get(&root.path)
            && known.root.git_directory == root.git_directory
        {
            return Arc::clone(known);
        }
        let key = collect::store_key(&root.path);
        let new = Arc::new(WorkTree {
            root: Arc::clone(root),
            state: tokio::sync::Mutex::new(WorkTreeState {
                store: SnapshotStore::new(self.directory.join("trees").join(key)),
                counts: LineCounts::default(),
            }),
            operating: tokio::sync::Mutex::new(()),
            watch: Mutex::default(),
            nested: Mutex::default(),
        });
        work_trees.insert(root.path.clone(), Arc::clone(&new));
        new
    }

    /// Takes a snapshot of a work tree.
    pub(crate) async fn snapshot(&self, root: &Arc<Root>) -> Result<Snapshot, String> {
        let work_tree = self.work_tree(root);
        let mut state = work_tree.state.lock().await;
        let Ok(_permit) = self.at_once.acquire().await else {
            return Err("the host is going down".to_owned());
        };
        let snapshot = state.store.take(&self.git, root).await?;
        *work_tree.nested.lock() = snapshot.nested.clone();
        Ok(snapshot)
    }

    /// The shared state of a work tree that was used before.
    pub(crate) fn known_work_tree(&self, path: &Path) -> Option<Arc<WorkTree>> {
        self.work_trees.lock().get(path).cloned()
    }

    /// Looks at the checkpoints of a session.
    pub(crate) fn points<T>(&self, session: &str, look: impl FnOnce(&mut Points) -> T) -> T {
        let mut sessions = self.sessions.lock();
        look(&mut self.records(&mut sessions, session).points)
    }

    fn records<'a>(&self, sessions: &'a mut HashMap<String, SessionRecords>, session: &str) -> &'a mut SessionRecords {
        sessions.entry(session.to_owned()).or_insert_with(|| SessionRecords {
            points: Points::read(self.session_directory(session).join("points")),
            published: HashMap::new(),
            operating: Arc::default(),
        })
    }

    /// Lets clients of a session read an object.
    pub(crate) fn publish(&self, session: &str, object: &str, root: &Root) {
        let mut sessions = self.sessions.lock();
        let records = self.records(&mut sessions, session);
        if records.published.len() >= MAX_PUBLISHED {
            records.published.clear();
        }
        let object_published = PublishedObject {
            work_tree: root.path.clone(),
            time: Instant::now(),
        };
        records.published.insert(object.to_owned(), object_published);
    }

    /// Records the files of a session around a turn.
    async fn record(&self, moment: TurnMoment) -> Option<CountedChanges> {
        let _in_use = self.in_use.read().await;
        let paths = moment
            .directories
            .iter()
            .filter_map(|directory| uri::to_path(directory));
        let paths: Vec<PathBuf> = paths.filter_map(|path| fs::canonicalize(path).ok()).collect();
        let mut roots = match Root::all(&self.git, &paths).await {
            Ok(roots) if !roots.is_empty() => roots,
            Ok(_) => return None,
            Err(problem) => {
                tracing::debug!(problem, "the files of a turn are not recorded");
                return None;
            }
        };
        let (mut trees, mut taken) = (HashMap::new(), Vec::new());
        let mut next = 0;
        // Snapshots find further repositories.
        while let Some(root) = roots.get(next).cloned() {
            next += 1;
            let root = Arc::new(root);
            match self.snapshot(&root).await {
                Ok(snapshot) => {
                    self.add_nested(&mut roots, &paths, &snapshot.nested).await;
                    trees.insert(root.path.clone(), snapshot.tree.clone());
                    taken.push((root, snapshot));
                }
                Err(problem) => tracing::warn!(problem, "the files of a turn are not recorded"),
            }
        }
        let point = Point {
            turn: moment.turn,
            phase: moment.phase,
            trees,
        };
        let stored = self.points(&moment.session, |points| points.add(point));
        if let Err(error) = stored {
            tracing::warn!(%error, "the files of a turn could not be recorded");
        }
        match moment.phase {
            TurnPhase::Before => None,
            TurnPhase::After => self.count_between(&moment.session, &paths, taken).await,
        }
    }

    /// Reads one side of a changed file.
    async fn read(&self, session: &str, name: &str, max_bytes: usize) -> Result<Option<Content>, String> {
        let known = {
            let sessions = self.sessions.lock();
            sessions
                .get(session)
                .and_then(|records| Some(records.published.get(name)?.work_tree.clone()))
        };
        let Some(work_tree) = known.and_then(|path| self.known_work_tree(&path)) else {
            return Ok(None);
        };
        let bytes = self.read_object(&work_tree, name, max_bytes).await?;
        let content_type = match std::str::from_utf8(&bytes) {
            Ok(_) => "text/plain",
            Err(_) => "application/octet-stream",
        };
        let content_type = Some(content_type.to_owned());
        Ok(Some(Content { bytes, content_type }))
    }

    /// Reads an object of a snapshot or of the repository.
    pub(crate) async fn read_object(
        &self,
        work_tree: &WorkTree,
        name: &str,
        max_bytes: usize,
    ) -> Result<Vec<u8>, String> {
        let objects = work_tree.state.lock().await.store.objects();
        let mut call = crate::git::GitCall::new(&work_tree.root.path, &work_tree.root.settings);
        call.max_output = max_bytes;
        let call = call.with("GIT_OBJECT_DIRECTORY", objects);
        match self.git.run(call, &["cat-file", "blob", name]).await {
            Ok(bytes) => Ok(bytes),
            Err(GitError::TooMuch) => Err(format!("it has more than {max_bytes} bytes")),
            Err(error) => Err(format!("git cannot read the content: {error}")),
        }
    }

    /// The files that operations of a session replaced.
    pub(crate) fn stored_files(&self, session: &str) -> StoredFiles {
        StoredFiles::new(&self.session_directory(session))
    }

    /// The lock that the operations of a session take.
    pub(crate) fn operating(&self, session: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut sessions = self.sessions.lock();
        Arc::clone(&self.records(&mut sessions, session).operating)
    }

    fn sweep(&self, sessions: impl FnOnce() -> Option<Vec<String>>) {
        // Listed first: a session that is created meanwhile is not among these.
        let listed = fs::read_dir(self.directory.join("sessions"));
        let listed: Vec<PathBuf> = listed
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        let Some(sessions) = sessions() else {
            return;
        };
        let keys: HashSet<String> = sessions.iter().map(|session| key_of(session.as_bytes())).collect();
        let is_known = |path: &Path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| keys.contains(name))
        };
        for path in listed.iter().filter(|path| !is_known(path)) {
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// Returns the directory of the records of a session.
fn session_directory(directory: &Path, session: &str) -> PathBuf {
    directory.join("sessions").join(key_of(session.as_bytes()))
}

/// A name for something that may have any name.
fn key_of(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

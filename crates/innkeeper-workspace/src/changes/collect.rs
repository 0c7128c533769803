//! Removes stored objects that nothing refers to any more.
//!
//! Snapshots only add objects. An object stays while a checkpoint of a session, the index of its store, or a view that
//! was computed lately refers to it. Objects are collected when the host starts, after a session is gone, and when a
//! store has grown much, and never while a snapshot is taken or compared.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedRwLockWriteGuard;

use super::points::Points;
use super::root::Root;
use super::{Inner, key_of};

/// How long clients can read the contents of a view that is not computed again.
const PUBLISHED_TIME: Duration = Duration::from_secs(3600);
/// How often and how many times the collection looks whether views and operations pause. After that they wait for it.
const PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSES: usize = 600;

/// As long as it is held, no view is computed and no operation runs.
pub(crate) type Pause = OwnedRwLockWriteGuard<()>;

impl Inner {
    /// Collects the objects of all stores.
    pub(crate) async fn collect_all(&self) {
        let listed = fs::read_dir(self.directory.join("trees"));
        for store in listed.into_iter().flatten().flatten() {
            let (name, path) = (store.file_name(), store.path());
            let is_meant = |work_tree: &&PathBuf| name == *store_key(work_tree);
            let open = self.work_trees.lock().keys().find(is_meant).cloned();
            let work_tree = match open {
                Some(open) => Some(open),
                None => self.recorded_trees().await.keys().find(is_meant).cloned(),
            };
            match work_tree {
                Some(work_tree) => self.collect(&work_tree).await,
                // Only an index, which is made again when it is needed.
                None => {
                    let _pause = self.pause().await;
                    let is_used = self.work_trees.lock().keys().any(|known| is_meant(&known));
                    if !is_used && let Err(error) = fs::remove_dir_all(path) {
                        tracing::warn!(%error, "a store of snapshots that is not used could not be removed");
                    }
                }
            }
        }
    }

    /// The work trees whose stores have grown much.
    pub(crate) fn grown(&self) -> Vec<PathBuf> {
        let work_trees = self.work_trees.lock();
        let grown = work_trees.iter().filter(|(_, work_tree)| {
            let state = work_tree.state.try_lock();
            state.is_ok_and(|state| state.store.has_grown())
        });
        grown.map(|(path, _)| path.clone()).collect()
    }

    /// Collects the objects of one work tree. If it is not there, its store stays as it is.
    pub(crate) async fn collect(&self, path: &Path) {
        let root = match Root::find(&self.git, path).await {
            Ok(Some(root)) if root.path == path => Arc::new(root),
            _ => return,
        };
        let pause = self.pause().await;
        let trees = self.recorded_trees().await.remove(path).unwrap_or_default();
        let published: HashSet<String> = {
            let sessions = self.sessions.lock();
            let published = sessions.values().flat_map(|records| &records.published);
            let published = published.filter(|(_, it)| it.work_tree == path && it.time.elapsed() < PUBLISHED_TIME);
            published.map(|(object, _)| object.clone()).collect()
        };
        let work_tree = self.work_tree(&root);
        let mut state = work_tree.state.lock().await;
        match state.store.collect(&self.git, &root, trees, published, pause).await {
            Ok(removed) => tracing::debug!(removed, "removed stored objects that nothing refers to"),
            Err(problem) => tracing::warn!(problem, "stored objects could not be collected"),
        }
    }

    /// Waits until no view is computed and no operation runs, and keeps them from starting.
    async fn pause(&self) -> Pause {
        for _ in 0..MAX_PAUSES {
            if let Ok(pause) = Arc::clone(&self.in_use).try_write_owned() {
                return pause;
            }
            tokio::time::sleep(PAUSE).await;
        }
        Arc::clone(&self.in_use).write_owned().await
    }

    /// The trees that the checkpoints of all sessions refer to, by work tree.
    async fn recorded_trees(&self) -> HashMap<PathBuf, HashSet<String>> {
        let sessions = self.directory.join("sessions");
        let reading = tokio::task::spawn_blocking(move || {
            let mut trees: HashMap<PathBuf, HashSet<String>> = HashMap::new();
            for session in fs::read_dir(sessions).into_iter().flatten().flatten() {
                for (work_tree, tree) in Points::read(session.path().join("points")).into_trees() {
                    trees.entry(work_tree).or_default().insert(tree);
                }
            }
            trees
        });
        reading.await.unwrap_or_default()
    }
}

/// The name of the directory of a work tree's store.
pub(crate) fn store_key(work_tree: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    key_of(work_tree.as_os_str().as_bytes())
}

/// Removes the objects of an object directory but for some, and returns how many were removed.
pub(crate) fn remove_objects(objects: &Path, but: &HashSet<String>) -> u64 {
    let mut removed = 0;
    for directory in fs::read_dir(objects).into_iter().flatten().flatten() {
        let prefix = directory.file_name().to_string_lossy().into_owned();
        if prefix.len() != 2 {
            continue;
        }
        for object in fs::read_dir(directory.path()).into_iter().flatten().flatten() {
            let name = format!("{prefix}{}", object.file_name().to_string_lossy());
            // Others are files that a command of Git did not finish.
            if !but.contains(&name) && fs::remove_file(object.path()).is_ok() {
                removed += 1;
            }
        }
    }
    removed
}

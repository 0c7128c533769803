//! The Git repositories that sessions work in: branch, changes and remotes, for the rows of clients.
//!
//! [`git`](crate::git) runs Git so that nothing of the repository is executed, `scan.rs` queries it, `parsed.rs` reads
//! its answers without IO, and this file decides when. A scan costs a few short processes, so it runs when
//! a session is opened, after a turn, and when Git itself changed something; never on a timer.

pub(crate) mod parsed;
mod scan;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use innkeeper_host::customizations::Following;
use innkeeper_host::repositories::{Repositories, RepositorySink};
use innkeeper_std::watch::{DirectoryEvent, DirectoryId, DirectoryWatcher};
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::git::Git;
use crate::uri;

/// How many repositories are looked at at the same time.
const MAX_LOOKS: usize = 2;
/// How long events are collected before another scan: a commit changes several files.
const TOGETHER: Duration = Duration::from_millis(150);
/// Minimum time between two scans of one directory.
const MIN_REST: Duration = Duration::from_millis(500);
/// Maximum time between them after a slow scan.
const MAX_REST: Duration = Duration::from_secs(120);
/// The pause between two scans, as a multiple of the last scan's duration: a large repository must not keep the machine busy.
const REST: u32 = 10;

/// The files of Git whose change causes a scan.
const TELLING: &[&str] = &["HEAD", "index", "FETCH_HEAD", "config", "packed-refs", "MERGE_HEAD"];

/// Looks at the Git repositories of this machine.
#[derive(Debug)]
pub struct LocalRepositories {
    git: Arc<Git>,
    looks: Arc<Semaphore>,
}

impl LocalRepositories {
    /// Runs `git` with this environment, in which it has to be found.
    pub fn new(environment: Vec<(OsString, OsString)>) -> Self {
        Self {
            git: Arc::new(Git::new(environment)),
            looks: Arc::new(Semaphore::new(MAX_LOOKS)),
        }
    }
}

impl Default for LocalRepositories {
    /// Runs `git` with what programs need of this process's environment, and no secret (T15).
    fn default() -> Self {
        let seen = innkeeper_std::needed_variables(std::env::vars_os());
        Self::new(seen.map(|(name, value)| (name.into(), value)).collect())
    }
}

impl Repositories for LocalRepositories {
    fn follow(&self, directory: &str, again: Arc<Notify>, sink: RepositorySink) -> Following {
        let Some(directory) = uri::to_path(directory) else {
            return Following::new(());
        };
        let (git, looks) = (Arc::clone(&self.git), Arc::clone(&self.looks));
        let task = tokio::spawn(follow(git, looks, directory, again, sink));
        Following::new(EndsWithGuard(task.abort_handle()))
    }
}

/// Ends a task when it is dropped.
struct EndsWithGuard(AbortHandle);

impl Drop for EndsWithGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Scans, reports, and waits for the next reason to scan, until the host is gone.
async fn follow(git: Arc<Git>, looks: Arc<Semaphore>, directory: PathBuf, again: Arc<Notify>, sink: RepositorySink) {
    let mut watched: Option<WatchedGitDirectory> = None;
    loop {
        let begun = Instant::now();
        let seen = {
            let Ok(_permit) = looks.acquire().await else {
                return;
            };
            scan::scan(&git, &directory).await
        };
        let git_directory = seen.as_ref().map(|seen| seen.git_directory.as_path());
        if watched.as_ref().map(|watched| watched.path.as_path()) != git_directory {
            watched = git_directory.and_then(|path| WatchedGitDirectory::start(path, Arc::clone(&again)));
        }
        let rest = begun.elapsed().saturating_mul(REST).clamp(MIN_REST, MAX_REST);
        if !sink.seen(seen.map(|seen| seen.state)).await {
            return;
        }
        tokio::time::sleep(rest).await;
        again.notified().await;
        tokio::time::sleep(TOGETHER).await;
    }
}

/// A directory of Git that says when something in it changed.
struct WatchedGitDirectory {
    path: PathBuf,
    _watcher: DirectoryWatcher,
}

impl WatchedGitDirectory {
    fn start(path: &Path, again: Arc<Notify>) -> Option<Self> {
        let mut watcher = DirectoryWatcher::new(1, move |event| {
            let is_telling = |path: &PathBuf| {
                let name = path.file_name().and_then(|name| name.to_str());
                name.is_some_and(|name| TELLING.contains(&name))
            };
            if let DirectoryEvent::Changed { paths, .. } = event
                && paths.iter().any(is_telling)
            {
                again.notify_one();
            }
        });
        watcher.open().ok()?;
        if let Err(error) = watcher.watch(path, DirectoryId::of_path(path)) {
            // Turns and new sessions still cause a scan.
            tracing::debug!(?error, "a repository cannot be watched");
            return None;
        }
        Some(Self {
            path: path.to_owned(),
            _watcher: watcher,
        })
    }
}

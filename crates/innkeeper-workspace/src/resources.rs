//! The files of this machine, as clients reach them.
//!
//! `paths.rs` confines paths to the roots that a client may reach. `forbidden.rs` lists the
//! protected paths. `files.rs` reads and writes a file, `entries.rs` creates, moves and deletes entries,
//! `watch.rs` reports changes, and `way.rs` resolves symlinks where paths are compared.

mod entries;
mod files;
mod forbidden;
mod paths;
#[cfg(all(test, unix))]
mod tests;
mod watch;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use innkeeper_std::sync::Mutex;

use async_trait::async_trait;
use innkeeper_host::resources::{AllowedRoot, Transfer, WatchSpec, Write};
use innkeeper_host::resources::{ChangeSink, Content, ResourceEntry, ResourceError, ResourceInfo, Resources, Watching};
use tokio::sync::Semaphore;

use entries::IsOver;
use files::invalid;
use forbidden::Forbidden;
use paths::{Grants, ResourcePath};
use watch::WatchPool;

/// How many do something with files at the same time; the others wait for their turn.
const MAX_AT_ONCE: usize = 8;
/// Locks that names are spread over, for writes that look first.
const LOCKS: usize = 64;

/// Bounds on what is done with files.
#[derive(Debug, Clone, Copy)]
pub struct ResourceLimits {
    /// Longest file that is read or written in one piece.
    pub bytes: usize,
    /// Maximum entries of a directory that is listed.
    pub entries: usize,
    /// Maximum directories of one watch.
    pub watched_directories: usize,
    /// Maximum files and directories in them.
    pub watched_entries: usize,
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self {
            bytes: 8 << 20,
            entries: 10_000,
            watched_directories: 8192,
            watched_entries: 200_000,
        }
    }
}

/// Serves `file:` URIs.
#[derive(Debug, Clone)]
pub struct LocalResources {
    limits: ResourceLimits,
    forbidden: Arc<Forbidden>,
    made: Arc<[PathBuf]>,
    umask: Option<u32>,
    at_once: Arc<Semaphore>,
    locks: Arc<Vec<Mutex<()>>>,
    watches: WatchPool,
}

impl LocalResources {
    /// Serves what clients may reach, but never what is in `own`, which is where the host keeps its
    /// tokens and sessions.
    pub fn new(limits: ResourceLimits, own: &[PathBuf]) -> Self {
        let forbidden = Arc::new(Forbidden::new(own));
        Self {
            limits,
            watches: WatchPool::new(limits, Arc::clone(&forbidden)),
            forbidden,
            made: Arc::default(),
            umask: None,
            at_once: Arc::new(Semaphore::new(MAX_AT_ONCE)),
            locks: Arc::new((0..LOCKS).map(|_| Mutex::default()).collect()),
        }
    }

    /// Creates these directories when a client that may write there first does so, such as a directory of skills that
    /// has none yet (CUS-23). All others have to exist.
    #[must_use]
    pub fn making(mut self, places: Vec<PathBuf>) -> Self {
        self.made = places.into();
        self
    }

    /// Gives files that clients create the permissions that this umask leaves; the default is the umask of this
    /// process. A host that hides its own files from other users would hide the clients' files as well from others who
    /// share the workspace. Does nothing on Windows.
    #[must_use]
    pub fn with_umask(mut self, umask: u32) -> Self {
        self.umask = Some(umask);
        self
    }

    /// Does something that may block, elsewhere.
    async fn run<T: Send + 'static>(
        &self,
        reaches: &[AllowedRoot],
        work: impl FnOnce(&Self, Grants<'_>) -> Result<T, ResourceError> + Send + 'static,
    ) -> Result<T, ResourceError> {
        self.run_while_waited(reaches, |this, grants, _| work(this, grants))
            .await
    }

    /// Does something that may take long, elsewhere; when the caller stopped waiting, it may stop.
    async fn run_while_waited<T: Send + 'static>(
        &self,
        reaches: &[AllowedRoot],
        work: impl FnOnce(&Self, Grants<'_>, IsOver<'_>) -> Result<T, ResourceError> + Send + 'static,
    ) -> Result<T, ResourceError> {
        let stopped = |_| ResourceError::Failed("the host is stopping".to_owned());
        let permit = Arc::clone(&self.at_once).acquire_owned().await.map_err(stopped)?;
        let (this, reaches) = (self.clone(), reaches.to_vec());
        let waiting = CancelOnDrop::default();
        let is_over = Arc::clone(&waiting.is_over);
        let work = tokio::task::spawn_blocking(move || {
            // Kept until the work is over, also when the caller stopped waiting.
            let _permit = permit;
            let is_over = || is_over.load(Ordering::Relaxed);
            let grants = Grants {
                reaches: &reaches,
                forbidden: &this.forbidden,
                made: &this.made,
                umask: this.umask,
            };
            work(&this, grants, &is_over)
        });
        work.await.unwrap_or_else(|error| {
            tracing::error!(%error, "serving a file failed");
            Err(ResourceError::Failed("it failed; the host's log says more".to_owned()))
        })
    }

    /// Changes a file under an exclusive lock within this host.
    fn locked<T>(&self, resource: &ResourcePath, work: impl FnOnce() -> T) -> T {
        let mut hasher = DefaultHasher::new();
        resource.canonical().hash(&mut hasher);
        let index = usize::try_from(hasher.finish() % LOCKS as u64).unwrap_or_default();
        let _guard = self.locks.get(index).map(|lock| lock.lock());
        work()
    }
}

/// A caller that waits for its work. Dropping it cancels the work.
#[derive(Debug, Default)]
struct CancelOnDrop {
    is_over: Arc<AtomicBool>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

#[async_trait]
impl Resources for LocalResources {
    async fn read(&self, reaches: &[AllowedRoot], uri: &str, most: usize) -> Result<Content, ResourceError> {
        let uri = uri.to_owned();
        self.run(reaches, move |this, grants| {
            let resource = grants.existing("uri", &uri, false)?;
            if resource.is_root() {
                return Err(invalid("uri", format!("{uri:.300} is a directory, not a file")));
            }
            files::read(
                &resource,
                &resource.entry(&this.forbidden)?,
                most.min(this.limits.bytes),
            )
        })
        .await
    }

    async fn write(&self, reaches: &[AllowedRoot], write: Write) -> Result<(), ResourceError> {
        self.run(reaches, move |this, grants| {
            if write.data.len() > this.limits.bytes {
                let problem = format!(
                    "has more than {} bytes, the most that is written at once",
                    this.limits.bytes
                );
                return Err(invalid("data", problem));
            }
            let resource = match write.create_only {
                true => grants.new_target("uri", &write.uri)?,
                false => grants.target("uri", &write.uri)?,
            };
            if resource.is_root() {
                return Err(invalid("uri", format!("{:.300} is a directory, not a file", write.uri)));
            }
            resource.make_parents()?;
            let entry = resource.entry(&this.forbidden)?;
            this.locked(&resource, || files::write(&resource, &entry, &write, this.limits.bytes))
        })
        .await
    }

    async fn list(&self, reaches: &[AllowedRoot], uri: &str) -> Result<Vec<ResourceEntry>, ResourceError> {
        let uri = uri.to_owned();
        self.run(reaches, move |this, grants| {
            let resource = grants.existing("uri", &uri, false)?;
            entries::list(&resource, &this.forbidden, this.limits.entries)
        })
        .await
    }

    async fn copy(&self, reaches: &[AllowedRoot], transfer: Transfer) -> Result<(), ResourceError> {
        self.run_while_waited(reaches, move |this, grants, is_over| {
            let source = grants.existing("source", &transfer.source, false)?;
            let is_new = transfer.fail_if_exists;
            let destination = match is_new {
                true => grants.new_target("destination", &transfer.destination)?,
                false => grants.target("destination", &transfer.destination)?,
            };
            this.locked(&destination, || {
                entries::copy(&source, &destination, &this.forbidden, is_new, is_over)
            })
        })
        .await
    }

    async fn rename(&self, reaches: &[AllowedRoot], transfer: Transfer) -> Result<(), ResourceError> {
        self.run_while_waited(reaches, move |this, grants, is_over| {
            let source = grants.entry("source", &transfer.source, true)?;
            let destination = grants.name_to_take("destination", &transfer.destination)?;
            let is_new = transfer.fail_if_exists;
            this.locked(&destination, || {
                entries::rename(&source, &destination, &this.forbidden, is_new, is_over)
            })
        })
        .await
    }

    async fn delete(&self, reaches: &[AllowedRoot], uri: &str, recursive: bool) -> Result<(), ResourceError> {
        let uri = uri.to_owned();
        self.run_while_waited(reaches, move |this, grants, is_over| {
            let resource = grants.entry("uri", &uri, true)?;
            this.locked(&resource, || {
                entries::delete(&resource, &this.forbidden, recursive, is_over)
            })
        })
        .await
    }

    async fn resolve(&self, reaches: &[AllowedRoot], uri: &str, follow: bool) -> Result<ResourceInfo, ResourceError> {
        let uri = uri.to_owned();
        self.run(reaches, move |this, grants| {
            let resource = match follow {
                true => grants.existing("uri", &uri, false)?,
                false => grants.entry("uri", &uri, false)?,
            };
            entries::resolve(&resource, &this.forbidden, follow, this.limits.bytes)
        })
        .await
    }

    async fn make_directory(&self, reaches: &[AllowedRoot], uri: &str) -> Result<(), ResourceError> {
        let uri = uri.to_owned();
        self.run(reaches, move |this, grants| {
            let resource = grants.new_target("uri", &uri)?;
            entries::make_directory(&resource, &this.forbidden)
        })
        .await
    }

    async fn watch(
        &self,
        reaches: &[AllowedRoot],
        spec: &WatchSpec,
        changes: ChangeSink,
    ) -> Result<Watching, ResourceError> {
        let spec = spec.clone();
        self.run(reaches, move |this, grants| {
            let resource = grants.existing("uri", &spec.uri, false)?;
            let guard = this.watches.watch(&resource, &spec, changes)?;
            Ok(Watching::new(&resource.root.uri, guard))
        })
        .await
    }
}

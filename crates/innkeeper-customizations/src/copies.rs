//! Copies plugins that clients publish, so that they are read like any other (P20, CUS-22).
//!
//! Only the client can read them, and it may disconnect at any time, so everything is copied before it is read. A copy
//! is made once for each (client, URI, nonce), however many sessions use it. A cache retains revisions, because nonces
//! recur. Unfinished copies are deleted.

mod cache;
mod fetch;
mod names;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use innkeeper_host::ClientId;
use innkeeper_host::customizations::{ClientFiles, ClientPlugin};
use innkeeper_plugins::{Container, LoadState, Plugin, PluginSource, Reader, load_plugin};
use innkeeper_std::sync::Mutex;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::AbortHandle;

pub(crate) use cache::Cache;
use cache::CachedCopy;

use crate::discovered::{DiscoveredContainer, Origin};

/// Maximum number of plugins of one client that are copied at once.
const AT_ONCE: usize = 2;

/// First wait before a disconnected client is asked again. It doubles each time.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest wait. A client may be away for days, and may return without a message.
const MAX_PAUSE: Duration = Duration::from_secs(16);

/// Copies the plugins of clients.
#[derive(Debug)]
pub(crate) struct Copies {
    cache: Arc<Cache>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    jobs: HashMap<Key, Weak<Job>>,
    /// The newest copy of each plugin, shown while a newer one is copied.
    latest: HashMap<(ClientId, String), Weak<Revision>>,
    turns: HashMap<ClientId, Weak<Semaphore>>,
}

/// Identifies a copy, so that it is made only once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    client: ClientId,
    uri: String,
    nonce: String,
}

/// The state of a copy.
#[derive(Debug, Clone)]
pub(crate) enum Copied {
    /// It is being copied. The previous revision is shown meanwhile.
    Copying(Option<Arc<Revision>>),
    /// It is complete.
    Here(Arc<Revision>),
    /// It cannot be copied, with the reason. The previous revision stays in use.
    Failed { why: String, before: Option<Arc<Revision>> },
}

impl Copied {
    /// The revision that is in use until the copy is complete.
    fn before(&self) -> Option<&Arc<Revision>> {
        match self {
            Self::Copying(before) | Self::Failed { before, .. } => before.as_ref(),
            Self::Here(_) => None,
        }
    }
}

/// A copy that was read. It stays on disk while it is in use.
#[derive(Debug)]
pub(crate) struct Revision {
    plugin: Plugin,
    kept: CachedCopy,
}

/// A copy in progress, which is cancelled when it is dropped.
#[derive(Debug)]
pub(crate) struct Job {
    plugin: ClientPlugin,
    state: watch::Receiver<Copied>,
    /// Ends a pause: a client that publishes the plugin again is connected.
    wanted_again: Arc<Notify>,
    task: AbortHandle,
}

impl Drop for Job {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Copies {
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            cache: Arc::new(Cache::new(directory)),
            known: Mutex::default(),
        }
    }

    /// Deletes unfinished copies of earlier runs of the host. Blocks.
    pub(crate) fn sweep(&self) {
        self.cache.sweep();
    }

    /// Copies a plugin, unless it is copied or being copied.
    pub(crate) fn copy(self: &Arc<Self>, plugin: &ClientPlugin, files: &ClientFiles) -> Arc<Job> {
        let key = plugin.nonce.as_ref().map(|nonce| Key {
            client: plugin.client.clone(),
            uri: plugin.uri.clone(),
            nonce: nonce.clone(),
        });
        let mut known = self.known.lock();
        known.tidy();
        let job = key.as_ref().and_then(|key| known.jobs.get(key)?.upgrade());
        // A copy that failed for good is tried again when the plugin is published again.
        if let Some(job) = job.filter(|job| !job.has_failed()) {
            job.wanted_again.notify_waiters();
            return job;
        }
        let before = known.latest.get(&(plugin.client.clone(), plugin.uri.clone()));
        let (sender, state) = watch::channel(Copied::Copying(before.and_then(Weak::upgrade)));
        let turn = known.turn(&plugin.client);
        let wanted_again = Arc::new(Notify::new());
        let reporter = CopyReporter::new(plugin, sender, Arc::clone(&wanted_again));
        let work = work(Arc::clone(self), plugin.clone(), files.clone(), turn, reporter);
        let job = Arc::new(Job {
            plugin: plugin.clone(),
            state,
            wanted_again,
            task: tokio::spawn(work).abort_handle(),
        });
        if let Some(key) = key {
            known.jobs.insert(key, Arc::downgrade(&job));
        }
        job
    }

    fn remember(&self, plugin: &ClientPlugin, revision: &Arc<Revision>) {
        let mut known = self.known.lock();
        let key = (plugin.client.clone(), plugin.uri.clone());
        known.latest.insert(key, Arc::downgrade(revision));
    }
}

impl Known {
    fn tidy(&mut self) {
        self.jobs.retain(|_, job| job.strong_count() > 0);
        self.latest.retain(|_, revision| revision.strong_count() > 0);
        self.turns.retain(|_, turn| turn.strong_count() > 0);
    }

    /// Limits the copies of one client, so that it does not delay others and is not asked for everything at once.
    fn turn(&mut self, client: &ClientId) -> Arc<Semaphore> {
        if let Some(turn) = self.turns.get(client).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::new(Semaphore::new(AT_ONCE));
        self.turns.insert(client.clone(), Arc::downgrade(&turn));
        turn
    }
}

/// Copies a plugin, and tries again while the client is only disconnected.
async fn work(
    copies: Arc<Copies>,
    plugin: ClientPlugin,
    files: ClientFiles,
    turn: Arc<Semaphore>,
    mut reporter: CopyReporter,
) {
    loop {
        let copied = {
            let _turn = turn.acquire().await;
            copies.cache.get_or_fetch(&plugin, &files).await
        };
        let (failed, is_away) = match copied {
            Ok(kept) => match read(plugin.clone(), kept).await {
                Ok(revision) => {
                    copies.remember(&plugin, &revision);
                    reporter.state.send_replace(Copied::Here(revision));
                    return;
                }
                Err(why) => (why, false),
            },
            Err(failure) => (failure.why, failure.is_away),
        };
        reporter.failed(failed);
        if !is_away {
            return;
        }
        reporter.pause().await;
    }
}

/// Reports the state of a copy, and a disconnected client only once.
struct CopyReporter {
    uri: String,
    state: watch::Sender<Copied>,
    wanted_again: Arc<Notify>,
    pause: Duration,
}

impl CopyReporter {
    fn new(plugin: &ClientPlugin, state: watch::Sender<Copied>, wanted_again: Arc<Notify>) -> Self {
        Self {
            uri: plugin.uri.clone(),
            state,
            wanted_again,
            pause: PAUSE,
        }
    }

    /// Reports a state only if it differs: every session that uses the plugin is built again after a report.
    fn failed(&self, why: String) {
        self.state.send_if_modified(|state| {
            if matches!(state, Copied::Failed { why: known, .. } if *known == why) {
                return false;
            }
            tracing::info!(uri = self.uri, problem = why, "a client's plugin could not be copied");
            let before = state.before().cloned();
            *state = Copied::Failed { why, before };
            true
        });
    }

    async fn pause(&mut self) {
        let wanted_again = self.wanted_again.notified();
        self.pause = match tokio::time::timeout(self.pause, wanted_again).await {
            Ok(()) => PAUSE,
            Err(_) => self.pause.saturating_mul(2).min(MAX_PAUSE),
        };
    }
}

async fn read(published: ClientPlugin, kept: CachedCopy) -> Result<Arc<Revision>, String> {
    let reading = move || {
        let source = source(&published, kept.path());
        let mut plugin = load_plugin(&source);
        // Without a manifest, the client's name is better than one from the URI.
        if plugin.manifest.is_none() && !published.name.is_empty() {
            plugin.name = published.name;
        }
        Arc::new(Revision { plugin, kept })
    };
    tokio::task::spawn_blocking(reading)
        .await
        .map_err(|_| "its copy cannot be read".to_owned())
}

fn source(published: &ClientPlugin, copy: &Path) -> PluginSource {
    PluginSource::new(copy).published_by(published.client.as_str(), published.uri.as_str())
}

impl Job {
    /// Returns a receiver of the state.
    pub(crate) fn state(&self) -> watch::Receiver<Copied> {
        self.state.clone()
    }

    fn has_failed(&self) -> bool {
        matches!(*self.state.borrow(), Copied::Failed { .. }) && self.task.is_finished()
    }

    /// Returns its name while no revision of it can be used and one may still come.
    pub(crate) fn awaited(&self) -> Option<String> {
        let is_awaited = matches!(*self.state.borrow(), Copied::Copying(None));
        is_awaited.then(|| self.announced().name)
    }

    /// Returns the container to show now.
    pub(crate) fn part(&self) -> DiscoveredContainer {
        let origin = Origin::Client {
            client: self.plugin.client.clone(),
            uri: self.plugin.uri.clone(),
        };
        let (plugin, copy) = match &*self.state.borrow() {
            Copied::Here(revision) => (revision.plugin.clone(), Some(Arc::clone(revision))),
            Copied::Copying(Some(before)) => {
                let mut shown = before.plugin.clone();
                // Without a nonce it is read again after every publication of its client, and a client may publish
                // after every change that it sees. So only a real difference is shown.
                if self.plugin.nonce.is_some() {
                    shown.load = LoadState::Loading;
                }
                (shown, Some(Arc::clone(before)))
            }
            Copied::Copying(None) => (self.announced(), None),
            Copied::Failed {
                why,
                before: Some(before),
            } => {
                let kept = Plugin {
                    load: LoadState::Degraded {
                        message: format!(
                            "its newest revision cannot be read from its client, so the one before it is used: {why}"
                        ),
                    },
                    ..before.plugin.clone()
                };
                (kept, Some(Arc::clone(before)))
            }
            Copied::Failed { why, before: None } => {
                let failed = Plugin {
                    load: LoadState::Error {
                        message: format!("the plugin cannot be read from its client: {why}"),
                    },
                    children: Some(Vec::new()),
                    ..self.announced()
                };
                (failed, None)
            }
        };
        let path = copy.as_ref().map(|copy| copy.kept.path().to_owned());
        let reader = Reader::of_plugin(path.unwrap_or_else(|| PathBuf::from("/nonexistent")));
        DiscoveredContainer::new(Arc::new(Container::Plugin(plugin)), origin, reader, copy)
    }

    fn announced(&self) -> Plugin {
        let mut plugin = source(&self.plugin, Path::new("")).announce();
        if !self.plugin.name.is_empty() {
            plugin.name.clone_from(&self.plugin.name);
        }
        plugin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reporter() -> (CopyReporter, watch::Receiver<Copied>, Arc<Notify>) {
        let plugin = ClientPlugin {
            client: ClientId::new("c"),
            uri: "virtual://c/p".to_owned(),
            name: "p".to_owned(),
            nonce: None,
            publication: 0,
        };
        let (sender, state) = watch::channel(Copied::Copying(None));
        let wanted_again = Arc::new(Notify::new());
        (
            CopyReporter::new(&plugin, sender, Arc::clone(&wanted_again)),
            state,
            wanted_again,
        )
    }

    #[test]
    fn p20_a_client_that_stays_away_is_told_of_once() {
        let (reporter, mut state, _) = reporter();
        reporter.failed("it is away".to_owned());
        assert!(state.has_changed().unwrap());
        state.mark_unchanged();
        reporter.failed("it is away".to_owned());
        assert!(!state.has_changed().unwrap(), "there is nothing new about it");
        reporter.failed("it says no".to_owned());
        assert!(state.has_changed().unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn p20_an_absent_client_is_asked_less_often_until_it_publishes_again() {
        let (mut reporter, _state, wanted_again) = reporter();
        let mut pauses = Vec::new();
        for _ in 0..7 {
            let begun = tokio::time::Instant::now();
            reporter.pause().await;
            pauses.push(begun.elapsed().as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 16, 16]);
        let begun = tokio::time::Instant::now();
        let ((), ()) = tokio::join!(reporter.pause(), async { wanted_again.notify_waiters() });
        assert_eq!((begun.elapsed(), reporter.pause), (Duration::ZERO, PAUSE));
    }
}

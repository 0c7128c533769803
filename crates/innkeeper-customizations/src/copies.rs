//! Plugins that clients publish, copied to where they can be read like any other (P20, CUS-22).
//!
//! Only the client can read them, and it may leave at any time; so everything is copied first and read
//! then. A copy is made once for each (client, URI, nonce), however many sessions want it, and kept in
//! a cache of revisions, because nonces come back. A copy that was not finished is thrown away.

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

/// How many plugins of one client are copied at once.
const AT_ONCE: usize = 2;

/// How long it is waited before a client that was away is asked again; twice as long each time.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest it is waited. A client may stay away for days, and may come back without a word.
const MAX_PAUSE: Duration = Duration::from_secs(16);

/// Copies what clients publish.
#[derive(Debug)]
pub(crate) struct Copies {
    cache: Arc<Cache>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    jobs: HashMap<Key, Weak<Job>>,
    /// The newest copy of each plugin, shown while a newer one is on its way.
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
    /// It is on its way. The previous revision is shown meanwhile.
    Copying(Option<Arc<Revision>>),
    /// It is here.
    Here(Arc<Revision>),
    /// It cannot be copied, and why. The previous revision stays in use.
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

/// A copy that was read. While somebody has it, it stays on disk.
#[derive(Debug)]
pub(crate) struct Revision {
    plugin: Plugin,
    kept: CachedCopy,
}

/// A copy in the making; it is given up when nobody wants it any more.
#[derive(Debug)]
pub(crate) struct Job {
    plugin: ClientPlugin,
    state: watch::Receiver<Copied>,
    /// Ends a pause: whoever publishes it again is back.
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

    /// Throws away what earlier runs of the host left unfinished. Blocks.
    pub(crate) fn sweep(&self) {
        self.cache.sweep();
    }

    /// Copies a plugin, unless that is done or under way.
    pub(crate) fn copy(self: &Arc<Self>, plugin: &ClientPlugin, files: &ClientFiles) -> Arc<Job> {
        let key = plugin.nonce.as_ref().map(|nonce| Key {
            client: plugin.client.clone(),
            uri: plugin.uri.clone(),
            nonce: nonce.clone(),
        });
        let mut known = self.known.lock();
        known.tidy();
        let job = key.as_ref().and_then(|key| known.jobs.get(key)?.upgrade());
        // One that failed for good is tried again by whoever publishes it again.
        if let Some(job) = job.filter(|job| !job.has_failed()) {
            job.wanted_again.notify_waiters();
            return job;
        }
        let before = known.latest.get(&(plugin.client.clone(), plugin.uri.clone()));
        let (sender, state) = watch::channel(Copied::Copying(before.and_then(Weak::upgrade)));
        let turn = known.turn(&plugin.client);
        let wanted_again = Arc::new(Notify::new());
        let telling = Telling::new(plugin, sender, Arc::clone(&wanted_again));
        let work = work(Arc::clone(self), plugin.clone(), files.clone(), turn, telling);
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

    /// One client cannot keep others waiting, and is not asked for everything at once.
    fn turn(&mut self, client: &ClientId) -> Arc<Semaphore> {
        if let Some(turn) = self.turns.get(client).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::new(Semaphore::new(AT_ONCE));
        self.turns.insert(client.clone(), Arc::downgrade(&turn));
        turn
    }
}

/// Copies a plugin, and tries again for as long as the client is only away.
async fn work(
    copies: Arc<Copies>,
    plugin: ClientPlugin,
    files: ClientFiles,
    turn: Arc<Semaphore>,
    mut telling: Telling,
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
                    telling.state.send_replace(Copied::Here(revision));
                    return;
                }
                Err(why) => (why, false),
            },
            Err(failure) => (failure.why, failure.is_away),
        };
        telling.failed(failed);
        if !is_away {
            return;
        }
        telling.pause().await;
    }
}

/// Tells what becomes of a copy, and of a client that stays away only once.
struct Telling {
    uri: String,
    state: watch::Sender<Copied>,
    wanted_again: Arc<Notify>,
    pause: Duration,
}

impl Telling {
    fn new(plugin: &ClientPlugin, state: watch::Sender<Copied>, wanted_again: Arc<Notify>) -> Self {
        Self {
            uri: plugin.uri.clone(),
            state,
            wanted_again,
            pause: PAUSE,
        }
    }

    /// Every session that wants it is put together again when it changes; so it does only when it does.
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
        // Without a manifest the client knows better than its URI.
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
    /// Tells whenever something becomes of it.
    pub(crate) fn state(&self) -> watch::Receiver<Copied> {
        self.state.clone()
    }

    fn has_failed(&self) -> bool {
        matches!(*self.state.borrow(), Copied::Failed { .. }) && self.task.is_finished()
    }

    /// Its name, while nothing of it is here that could be used and that may still come.
    pub(crate) fn awaited(&self) -> Option<String> {
        let is_awaited = matches!(*self.state.borrow(), Copied::Copying(None));
        is_awaited.then(|| self.announced().name)
    }

    /// The revision to show now.
    pub(crate) fn part(&self) -> DiscoveredContainer {
        let origin = Origin::Client {
            client: self.plugin.client.clone(),
            uri: self.plugin.uri.clone(),
        };
        let (plugin, copy) = match &*self.state.borrow() {
            Copied::Here(revision) => (revision.plugin.clone(), Some(Arc::clone(revision))),
            Copied::Copying(Some(before)) => {
                let mut shown = before.plugin.clone();
                // Without a nonce it is read each time that its client says anything about itself, and a client may
                // do so whenever it is told of a change: only one that is really different is told.
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

    fn telling() -> (Telling, watch::Receiver<Copied>, Arc<Notify>) {
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
            Telling::new(&plugin, sender, Arc::clone(&wanted_again)),
            state,
            wanted_again,
        )
    }

    #[test]
    fn p20_a_client_that_stays_away_is_told_of_once() {
        let (telling, mut state, _) = telling();
        telling.failed("it is away".to_owned());
        assert!(state.has_changed().unwrap());
        state.mark_unchanged();
        telling.failed("it is away".to_owned());
        assert!(!state.has_changed().unwrap(), "there is nothing new about it");
        telling.failed("it says no".to_owned());
        assert!(state.has_changed().unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn p20_a_client_that_stays_away_is_asked_less_and_less_until_it_publishes_again() {
        let (mut telling, _state, wanted_again) = telling();
        let mut pauses = Vec::new();
        for _ in 0..7 {
            let begun = tokio::time::Instant::now();
            telling.pause().await;
            pauses.push(begun.elapsed().as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 16, 16]);
        let begun = tokio::time::Instant::now();
        let ((), ()) = tokio::join!(telling.pause(), async { wanted_again.notify_waiters() });
        assert_eq!((begun.elapsed(), telling.pause), (Duration::ZERO, PAUSE));
    }
}

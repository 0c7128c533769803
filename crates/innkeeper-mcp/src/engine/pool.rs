//! Servers that are shared by everybody who wants the same one.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use innkeeper_std::sync::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::engine::config::ServerConfig;
use crate::engine::error::ConfigError;
use crate::engine::server::{Server, Surroundings};

/// Whom a server is shared with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sharing {
    /// On whose behalf it acts: tokens of one identity are never used for another (T16).
    pub identity: String,
    /// What it is kept apart by besides: a workspace, or one session.
    pub isolation: String,
}

/// The servers that run, each once.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    known: Arc<Mutex<Known>>,
    /// Those that nobody uses any more, until they are gone.
    ending: TaskTracker,
}

#[derive(Debug, Default)]
struct Known {
    entries: HashMap<Key, Entry>,
    /// Those that are not gone yet: the next one of the name waits for them, because two of one server side
    /// by side would fight about a port, a lock or a file.
    ending: HashMap<Place, Vec<CancellationToken>>,
}

/// Where only one server at a time stands, however its configuration changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    name: String,
    sharing: Sharing,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    config: ServerConfig,
    sharing: Sharing,
}

impl Key {
    fn place(&self) -> Place {
        Place {
            name: self.config.name.clone(),
            sharing: self.sharing.clone(),
        }
    }
}

#[derive(Debug)]
struct Entry {
    server: Server,
    users: usize,
}

impl Pool {
    /// The server of this configuration, for these users: the one that is there, or a new one that
    /// is not started yet. The surroundings count for a new one only, which does not start before the last
    /// one of its name has ended.
    pub fn lease(
        &self,
        config: &ServerConfig,
        sharing: &Sharing,
        surroundings: impl FnOnce() -> Surroundings,
    ) -> Result<Lease, ConfigError> {
        let key = Key {
            config: config.clone(),
            sharing: sharing.clone(),
        };
        let mut known = self.lock();
        let server = match known.entries.get_mut(&key) {
            Some(entry) => {
                entry.users += 1;
                entry.server.clone()
            }
            None => {
                let mut surroundings = surroundings();
                let ending = known.ending.get(&key.place());
                surroundings.after.extend(ending.into_iter().flatten().cloned());
                let server = Server::new(config.clone(), surroundings)?;
                let entry = Entry {
                    server: server.clone(),
                    users: 1,
                };
                known.entries.insert(key.clone(), entry);
                server
            }
        };
        drop(known);
        Ok(Lease {
            server,
            key: Mutex::new(key),
            pool: self.clone(),
        })
    }

    /// How many servers there are.
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lock().entries.is_empty()
    }

    /// Stops all of them, for a host that ends, and waits until those are gone that nobody uses any more.
    pub async fn stop_all(&self) {
        let servers: Vec<Server> = self.lock().entries.values().map(|entry| entry.server.clone()).collect();
        let stopping: Vec<_> = servers
            .into_iter()
            .map(|server| tokio::spawn(async move { server.stop().await }))
            .collect();
        for stopped in stopping {
            let _ = stopped.await;
        }
        self.ending.close();
        self.ending.wait().await;
    }

    fn give_back(&self, key: &Key) {
        let mut known = self.lock();
        let Some(entry) = known.entries.get_mut(key) else {
            return;
        };
        entry.users -= 1;
        if entry.users > 0 {
            return;
        }
        // With its last handle the server would end by itself; like this it can be waited for.
        if let (Some(entry), Ok(runtime)) = (known.entries.remove(key), tokio::runtime::Handle::try_current()) {
            let ended = CancellationToken::new();
            let place = key.place();
            known.ending.entry(place.clone()).or_default().push(ended.clone());
            let pool = self.clone();
            let ending = async move {
                let guard = ended.drop_guard();
                entry.server.stop().await;
                drop(guard);
                pool.forget_ended(&place);
            };
            self.ending.spawn_on(ending, &runtime);
        }
    }

    fn forget_ended(&self, place: &Place) {
        let mut known = self.lock();
        if let Some(ending) = known.ending.get_mut(place) {
            ending.retain(|ended| !ended.is_cancelled());
            if ending.is_empty() {
                known.ending.remove(place);
            }
        }
    }

    /// Moves a server to others, if it has one user, and there is none where it would go.
    fn move_to(&self, key: &mut Key, sharing: &Sharing) -> bool {
        let mut known = self.lock();
        if known.entries.get(key).is_none_or(|entry| entry.users != 1) {
            return false;
        }
        let new = Key {
            config: key.config.clone(),
            sharing: sharing.clone(),
        };
        if new == *key {
            return true;
        }
        if known.entries.contains_key(&new) {
            return false;
        }
        if let Some(entry) = known.entries.remove(key) {
            known.entries.insert(new.clone(), entry);
        }
        *key = new;
        true
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }
}

/// One user of a server. The server is stopped with its last one; clones of the [`Server`] itself
/// must not outlive their lease.
#[derive(Debug)]
pub struct Lease {
    server: Server,
    key: Mutex<Key>,
    pool: Pool,
}

impl Lease {
    /// From now on it is shared with these instead, and `true` says so. A server that has other users stays
    /// theirs, and where there is one already, that one is to be leased.
    pub fn share_with(&self, sharing: &Sharing) -> bool {
        let mut key = self.key.lock();
        self.pool.move_to(&mut key, sharing)
    }
}

impl Deref for Lease {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let key = self.key.get_mut();
        self.pool.give_back(key);
    }
}

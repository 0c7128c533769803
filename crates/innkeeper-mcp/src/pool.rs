//! Servers that are shared by everybody who wants the same one.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::task::TaskTracker;

use crate::config::ServerConfig;
use crate::error::ConfigError;
use crate::server::{Server, Surroundings};

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
    entries: Arc<Mutex<HashMap<Key, Entry>>>,
    /// Those that nobody uses any more, until they are gone.
    ending: TaskTracker,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    config: ServerConfig,
    sharing: Sharing,
}

#[derive(Debug)]
struct Entry {
    server: Server,
    users: usize,
}

impl Pool {
    /// The server of this configuration, for these users: the one that is there, or a new one that
    /// is not started yet. The surroundings count for a new one only.
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
        let mut entries = self.lock();
        let server = match entries.get_mut(&key) {
            Some(entry) => {
                entry.users += 1;
                entry.server.clone()
            }
            None => {
                let server = Server::new(config.clone(), surroundings())?;
                let entry = Entry {
                    server: server.clone(),
                    users: 1,
                };
                entries.insert(key.clone(), entry);
                server
            }
        };
        drop(entries);
        Ok(Lease {
            server,
            key,
            pool: self.clone(),
        })
    }

    /// How many servers there are.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Stops all of them, for a host that ends, and waits until those are gone that nobody uses any more.
    pub async fn stop_all(&self) {
        let servers: Vec<Server> = self.lock().values().map(|entry| entry.server.clone()).collect();
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
        let mut entries = self.lock();
        if let Some(entry) = entries.get_mut(key) {
            entry.users -= 1;
            if entry.users == 0 {
                let unused = entries.remove(key);
                drop(entries);
                // With its last handle the server would end by itself; like this it can be waited for.
                if let (Some(entry), Ok(runtime)) = (unused, tokio::runtime::Handle::try_current()) {
                    self.ending.spawn_on(async move { entry.server.stop().await }, &runtime);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One user of a server. The server is stopped with its last one; clones of the [`Server`] itself
/// must not outlive their lease.
#[derive(Debug)]
pub struct Lease {
    server: Server,
    key: Key,
    pool: Pool,
}

impl Deref for Lease {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.give_back(&self.key);
    }
}

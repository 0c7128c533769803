//! Shares servers between users that want the same one.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use innkeeper_std::sync::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::engine::config::ServerConfig;
use crate::engine::error::ConfigError;
use crate::engine::server::{Server, ServerEnv};

/// The users that share a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sharing {
    /// The identity that it acts for: tokens of one identity are never used for another (T16).
    pub identity: String,
    /// A further separation: a workspace, or one session.
    pub isolation: String,
}

/// The servers that run, each once.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    state: Arc<Mutex<PoolState>>,
    /// Servers without users, until they have ended.
    ending: TaskTracker,
}

#[derive(Debug, Default)]
struct PoolState {
    entries: HashMap<PoolKey, PoolEntry>,
    /// Servers that have not ended yet. The next one in the same slot waits for them: two processes of one server would fight
    /// over a port, a lock or a file.
    ending: HashMap<PoolSlot, Vec<CancellationToken>>,
}

/// Identifies a server across changes of its configuration. There is one process per slot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PoolSlot {
    name: String,
    sharing: Sharing,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PoolKey {
    config: ServerConfig,
    sharing: Sharing,
}

impl PoolKey {
    fn slot(&self) -> PoolSlot {
        PoolSlot {
            name: self.config.name.clone(),
            sharing: self.sharing.clone(),
        }
    }
}

#[derive(Debug)]
struct PoolEntry {
    server: Server,
    users: usize,
}

impl Pool {
    /// Returns the server of this configuration for these users: the present one, or a new one that is not started yet. A new
    /// one gets the environment, and does not start before the last one in its slot has ended.
    pub fn lease(
        &self,
        config: &ServerConfig,
        sharing: &Sharing,
        server_env: impl FnOnce() -> ServerEnv,
    ) -> Result<Lease, ConfigError> {
        let key = PoolKey {
            config: config.clone(),
            sharing: sharing.clone(),
        };
        let mut state = self.lock();
        let server = match state.entries.get_mut(&key) {
            Some(entry) => {
                entry.users += 1;
                entry.server.clone()
            }
            None => {
                let mut server_env = server_env();
                let ending = state.ending.get(&key.slot());
                server_env.after.extend(ending.into_iter().flatten().cloned());
                let server = Server::new(config.clone(), server_env)?;
                let entry = PoolEntry {
                    server: server.clone(),
                    users: 1,
                };
                state.entries.insert(key.clone(), entry);
                server
            }
        };
        drop(state);
        Ok(Lease {
            server,
            key: Mutex::new(key),
            pool: self.clone(),
        })
    }

    /// Returns the number of servers.
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Returns true if the pool has no servers.
    pub fn is_empty(&self) -> bool {
        self.lock().entries.is_empty()
    }

    /// Stops all servers when the host ends, and waits until servers without users have ended too.
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

    fn give_back(&self, key: &PoolKey) {
        let mut state = self.lock();
        let Some(entry) = state.entries.get_mut(key) else {
            // Every lease has an entry while it lives, so this is no lease of the pool.
            return;
        };
        entry.users -= 1;
        if entry.users > 0 {
            return;
        }
        // Dropping the last handle would end the server as well; this way it can be waited for.
        if let (Some(entry), Ok(runtime)) = (state.entries.remove(key), tokio::runtime::Handle::try_current()) {
            let ended = CancellationToken::new();
            let slot = key.slot();
            state.ending.entry(slot.clone()).or_default().push(ended.clone());
            let pool = self.clone();
            let ending = async move {
                let guard = ended.drop_guard();
                entry.server.stop().await;
                drop(guard);
                pool.forget_ended(&slot);
            };
            self.ending.spawn_on(ending, &runtime);
        }
    }

    fn forget_ended(&self, slot: &PoolSlot) {
        let mut state = self.lock();
        if let Some(ending) = state.ending.get_mut(slot) {
            ending.retain(|ended| !ended.is_cancelled());
            if ending.is_empty() {
                state.ending.remove(slot);
            }
        }
    }

    /// Moves a server to other users, if it has one user and they have none.
    fn move_to(&self, key: &mut PoolKey, sharing: &Sharing) -> bool {
        let mut state = self.lock();
        if state.entries.get(key).is_none_or(|entry| entry.users != 1) {
            return false;
        }
        let new = PoolKey {
            config: key.config.clone(),
            sharing: sharing.clone(),
        };
        if new == *key {
            return true;
        }
        if state.entries.contains_key(&new) {
            return false;
        }
        if let Some(entry) = state.entries.remove(key) {
            state.entries.insert(new.clone(), entry);
        }
        *key = new;
        true
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock()
    }
}

/// One user of a server. The server is stopped with the last one; clones of the [`Server`] must not outlive their lease.
#[derive(Debug)]
pub struct Lease {
    server: Server,
    key: Mutex<PoolKey>,
    pool: Pool,
}

impl Lease {
    /// Shares the server with others instead, and returns true if that is possible. A server with other users stays theirs,
    /// and if the others have one already, that one has to be leased.
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

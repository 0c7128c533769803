//! A cache for the prompts and resources of a server.
//!
//! A list is fetched when it is first wanted, by a task of its own: callers that stop waiting do not end the fetch, and
//! further callers do not begin another one. A server that never answers costs one request at a time, however often a user
//! types a `/`.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::engine::error::Error;
use crate::engine::resources::{Prompt, Resource};
use crate::engine::server::{Connection, Server, ServerShared};
use crate::engine::state::List;

/// The time that a list that could not be fetched counts as empty.
const REST_AFTER_FAILURE: Duration = Duration::from_secs(30);

/// The time that a list is valid if the server does not report changes.
const GOOD_FOR: Duration = Duration::from_secs(60);

/// The prompts and resources of a server.
#[derive(Debug, Default)]
pub(crate) struct OfferedLists {
    prompts: CachedList<Prompt>,
    resources: CachedList<Resource>,
}

impl OfferedLists {
    /// Marks a list as changed.
    pub(crate) fn changed(&self, list: List) {
        match list {
            List::Prompts => self.prompts.changed(),
            List::Resources => self.resources.changed(),
            List::Tools => {}
        }
    }
}

impl Server {
    /// Returns the cached prompts; none while the server does not run. Waits only while they are fetched for the first time, or
    /// because they changed.
    pub async fn known_prompts(&self) -> Arc<[Prompt]> {
        self.shared_arc().known_prompts().await
    }

    /// Returns the cached resources, likewise.
    pub async fn known_resources(&self) -> Arc<[Resource]> {
        self.shared_arc().known_resources().await
    }
}

impl ServerShared {
    async fn known_prompts(self: &Arc<Self>) -> Arc<[Prompt]> {
        let fetch = |shared: Arc<Self>| async move { shared.list_prompts().await };
        self.known("prompts", |shared| &shared.offered.prompts, fetch).await
    }

    async fn known_resources(self: &Arc<Self>) -> Arc<[Resource]> {
        let fetch = |shared: Arc<Self>| async move { shared.list_resources().await };
        self.known("resources", |shared| &shared.offered.resources, fetch).await
    }

    async fn known<T, Fetching>(
        self: &Arc<Self>,
        what: &'static str,
        list: fn(&Self) -> &CachedList<T>,
        fetch: fn(Arc<Self>) -> Fetching,
    ) -> Arc<[T]>
    where
        T: Send + Sync + 'static,
        Fetching: Future<Output = Result<Vec<T>, Error>> + Send + 'static,
    {
        let Some(connection) = self.connection() else {
            return Arc::default();
        };
        if !connection.info.can(what) {
            return Arc::default();
        }
        let mut states = list(self).0.subscribe();
        if list(self).begin(&connection, Instant::now()) {
            let shared = Arc::clone(self);
            let connection = Arc::clone(&connection);
            tokio::spawn(async move {
                let fetched = tokio::select! {
                    fetched = fetch(Arc::clone(&shared)) => fetched,
                    () = connection.closed.cancelled() => Ok(Vec::new()),
                };
                if let Err(error) = &fetched {
                    tracing::debug!(server = %connection.server, what, %error, "a list of an MCP server could not be fetched");
                }
                let again_at = again_at(fetched.is_ok(), connection.info.tells_changes(what), Instant::now());
                list(&shared).end(&connection, fetched.ok(), again_at);
            });
        }
        // The server itself holds the sender.
        let known = states.wait_for(|state| !state.is_fetching).await;
        known.map(|state| Arc::clone(&state.entries)).unwrap_or_default()
    }
}

/// A cached list.
struct CachedList<T>(watch::Sender<CacheState<T>>);

struct CacheState<T> {
    /// The connection that it came from. Another connection is asked again.
    of: Weak<Connection>,
    entries: Arc<[T]>,
    is_fetching: bool,
    /// The list changed since it was fetched.
    is_stale: bool,
    /// When to refetch even without a `list_changed` notification.
    again_at: Option<Instant>,
}

impl<T> Default for CachedList<T> {
    fn default() -> Self {
        Self(watch::Sender::new(CacheState {
            of: Weak::new(),
            entries: Arc::default(),
            is_fetching: false,
            is_stale: true,
            again_at: None,
        }))
    }
}

impl<T> fmt::Debug for CachedList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CachedList")
            .field(&self.0.borrow().entries.len())
            .finish()
    }
}

impl<T> CachedList<T> {
    fn changed(&self) {
        self.0.send_modify(|state| state.is_stale = true);
    }

    /// Returns true if the caller has to fetch the list now.
    fn begin(&self, connection: &Arc<Connection>, now: Instant) -> bool {
        self.0.send_if_modified(|state| {
            let is_of_another = !std::ptr::eq(state.of.as_ptr(), Arc::as_ptr(connection));
            if is_of_another {
                state.of = Arc::downgrade(connection);
                state.entries = Arc::default();
            }
            let is_due = state.is_stale || state.again_at.is_some_and(|at| at <= now);
            let begins = is_of_another || (is_due && !state.is_fetching);
            if begins {
                state.is_fetching = true;
                state.is_stale = false;
                state.again_at = None;
            }
            begins
        })
    }

    /// Stores the result of a fetch. After a failure the old entries stay.
    fn end(&self, connection: &Arc<Connection>, fetched: Option<Vec<T>>, again_at: Option<Instant>) {
        self.0.send_if_modified(|state| {
            // Another connection is asked by now.
            if !std::ptr::eq(state.of.as_ptr(), Arc::as_ptr(connection)) {
                return false;
            }
            state.is_fetching = false;
            state.again_at = again_at;
            if let Some(entries) = fetched {
                state.entries = entries.into();
            }
            true
        });
    }
}

/// Returns when to refetch a list even without a `list_changed` notification.
fn again_at(was_fetched: bool, tells_changes: bool, now: Instant) -> Option<Instant> {
    match (was_fetched, tells_changes) {
        (false, _) => Some(now + REST_AFTER_FAILURE),
        (true, false) => Some(now + GOOD_FOR),
        (true, true) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_without_change_notifications_expires() {
        let now = Instant::now();
        assert_eq!(again_at(true, true, now), None);
        assert_eq!(again_at(true, false, now), Some(now + GOOD_FOR));
        assert_eq!(again_at(false, true, now), Some(now + REST_AFTER_FAILURE));
    }
}

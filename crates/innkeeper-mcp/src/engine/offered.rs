//! The prompts and the resources of a server, kept for whoever looks at them often.
//!
//! A list is fetched once somebody wants it, beside whoever waits for it: who gives up waiting does not
//! end the fetch, and who asks again does not begin another one. A server that never answers so costs
//! one request at a time, however often somebody types a `/`.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::engine::error::Error;
use crate::engine::resources::{Prompt, Resource};
use crate::engine::server::{Connection, Server, Shared};
use crate::engine::state::List;

/// How long a list that could not be fetched is taken for empty.
const REST_AFTER_FAILURE: Duration = Duration::from_secs(30);

/// How long a list of a server that does not tell changes is good.
const GOOD_FOR: Duration = Duration::from_secs(60);

/// What a server offers besides tools.
#[derive(Debug, Default)]
pub(crate) struct Offered {
    prompts: Kept<Prompt>,
    resources: Kept<Resource>,
}

impl Offered {
    /// A list is different from before.
    pub(crate) fn changed(&self, list: List) {
        match list {
            List::Prompts => self.prompts.changed(),
            List::Resources => self.resources.changed(),
            List::Tools => {}
        }
    }
}

impl Server {
    /// The prompts that it has ready, as they were last told; none while it does not run. Waits only
    /// while they are fetched for the first time, or because they changed.
    pub async fn known_prompts(&self) -> Arc<[Prompt]> {
        self.shared_arc().known_prompts().await
    }

    /// What it lets read, likewise.
    pub async fn known_resources(&self) -> Arc<[Resource]> {
        self.shared_arc().known_resources().await
    }
}

impl Shared {
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
        kept: fn(&Self) -> &Kept<T>,
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
        let mut states = kept(self).0.subscribe();
        if kept(self).begin(&connection, Instant::now()) {
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
                kept(&shared).end(&connection, fetched.ok(), again_at);
            });
        }
        // The server itself holds the sender.
        let known = states.wait_for(|state| !state.is_fetching).await;
        known.map(|state| Arc::clone(&state.entries)).unwrap_or_default()
    }
}

/// A list as it was last told.
struct Kept<T>(watch::Sender<State<T>>);

struct State<T> {
    /// Who told it; another connection is asked anew.
    of: Weak<Connection>,
    entries: Arc<[T]>,
    is_fetching: bool,
    /// It is worth asking again.
    is_stale: bool,
    /// When it is, although nobody said that it changed.
    again_at: Option<Instant>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(watch::Sender::new(State {
            of: Weak::new(),
            entries: Arc::default(),
            is_fetching: false,
            is_stale: true,
            again_at: None,
        }))
    }
}

impl<T> fmt::Debug for Kept<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kept").field(&self.0.borrow().entries.len()).finish()
    }
}

impl<T> Kept<T> {
    fn changed(&self) {
        self.0.send_modify(|state| state.is_stale = true);
    }

    /// Whether it is to be fetched now, by whoever asks.
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

    /// What came of it. What was there before stays when nothing did.
    fn end(&self, connection: &Arc<Connection>, fetched: Option<Vec<T>>, again_at: Option<Instant>) {
        self.0.send_if_modified(|state| {
            // A newer connection is asked by now.
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

/// When a list is to be fetched again although nobody says that it changed.
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
    fn a_list_whose_changes_nobody_tells_is_fetched_again_after_a_while() {
        let now = Instant::now();
        assert_eq!(again_at(true, true, now), None);
        assert_eq!(again_at(true, false, now), Some(now + GOOD_FOR));
        assert_eq!(again_at(false, true, now), Some(now + REST_AFTER_FAILURE));
    }
}

//! The session that a server with state gave the client (2025-03-26 to 2025-11-25).

use std::sync::Arc;

use innkeeper_std::sync::{Mutex, MutexGuard};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use crate::engine::wire::message::Outgoing;

/// One session; also the absence of one.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) id: Option<Arc<str>>,
    /// The protocol revision, if it is another one than that of the first session.
    pub(super) version: Option<Arc<str>>,
    pub(super) number: u64,
    /// Cancelled when another session takes its place, and with the connection.
    pub(super) ended: CancellationToken,
}

/// The present session, and how another one is begun.
#[derive(Debug)]
pub(super) struct Sessions {
    state: Mutex<State>,
    closed: CancellationToken,
    /// One request at a time begins another session.
    turn: Semaphore,
}

#[derive(Debug)]
struct State {
    current: Session,
    /// The request that began the session, to begin another one with.
    initialize: Option<Outgoing>,
}

impl Sessions {
    pub(super) fn new(closed: &CancellationToken) -> Self {
        let current = Session {
            id: None,
            version: None,
            number: 0,
            ended: closed.child_token(),
        };
        Self {
            state: Mutex::new(State {
                current,
                initialize: None,
            }),
            closed: closed.clone(),
            turn: Semaphore::new(1),
        }
    }

    pub(super) fn current(&self) -> Session {
        self.lock().current.clone()
    }

    pub(super) fn initialize(&self) -> Option<Outgoing> {
        self.lock().initialize.clone()
    }

    /// Waits until no other request begins a session.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.turn.acquire().await.ok()
    }

    /// Replaces the present session with the one that `initialize` began.
    pub(super) fn begun(&self, initialize: &Outgoing, id: Option<Arc<str>>, version: Option<Arc<str>>) -> Session {
        let mut state = self.lock();
        state.current.ended.cancel();
        state.initialize = Some(initialize.clone());
        state.current = Session {
            id,
            version,
            number: state.current.number + 1,
            ended: self.closed.child_token(),
        };
        state.current.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

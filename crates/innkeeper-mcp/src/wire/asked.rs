//! What a server asks, until its answer is on its way, with a bound on it.
//!
//! Rmcp takes every request at once, and keeps every answer until the server takes it: a server that asks and does not
//! listen would fill the memory. So no more is read of a server whose requests have no room (P7).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use innkeeper_std::sync::{Mutex, MutexGuard};
use rmcp::model::{RequestId, ServerJsonRpcMessage};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Bytes of requests that may be open at once.
const ROOM: usize = 32 << 20;
/// How many requests may be: each takes at least its part of the room.
const MOST_OPEN: usize = 64;
/// The longest id. It is kept in several places, and sent back.
const MOST_ID_BYTES: usize = 1 << 10;

/// The requests of a server that are not answered yet.
#[derive(Debug)]
pub(crate) struct Asked {
    room: Arc<Semaphore>,
    open: Mutex<HashMap<RequestId, Open>>,
    /// Before it has introduced itself, rmcp takes one message after the other, and answers hardly any.
    is_introduced: AtomicBool,
}

/// A request that is open, until this is dropped; or several with one id, of which rmcp sends one answer.
#[derive(Debug)]
pub(super) struct Open {
    /// The server does not want to know any more.
    cancelled: CancellationToken,
    room: OwnedSemaphorePermit,
}

impl Open {
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            room: Arc::new(Semaphore::new(ROOM)),
            open: Mutex::default(),
            is_introduced: AtomicBool::new(false),
        }
    }
}

impl Asked {
    /// The server has introduced itself: from now on its requests are counted.
    pub(crate) fn begin(&self) {
        self.is_introduced.store(true, Ordering::Relaxed);
    }

    /// Waits for room for a message, if it takes any. `false` says that it is not to be answered: its id is too long.
    pub(super) async fn admit(&self, message: &ServerJsonRpcMessage, bytes: usize) -> bool {
        match message {
            ServerJsonRpcMessage::Request(request) => self.admit_request(&request.id, bytes).await,
            _ => true,
        }
    }

    pub(super) async fn admit_request(&self, id: &RequestId, bytes: usize) -> bool {
        if matches!(id, RequestId::String(id) if id.len() > MOST_ID_BYTES) {
            return false;
        }
        if !self.is_introduced.load(Ordering::Relaxed) {
            return true;
        }
        let bytes = bytes.clamp(ROOM / MOST_OPEN, ROOM);
        let room = u32::try_from(bytes).unwrap_or(u32::MAX);
        // It is never closed.
        let Ok(room) = Arc::clone(&self.room).acquire_many_owned(room).await else {
            return false;
        };
        match self.lock().entry(id.clone()) {
            Entry::Occupied(mut open) => {
                let open = open.get_mut();
                if open.is_cancelled() {
                    open.cancelled = CancellationToken::new();
                }
                open.room.merge(room);
            }
            Entry::Vacant(free) => {
                free.insert(Open {
                    cancelled: CancellationToken::new(),
                    room,
                });
            }
        }
        true
    }

    /// The server does not want to know the answer any more; `false` if it has not asked.
    pub(super) fn cancel(&self, id: &RequestId) -> bool {
        let open = self.lock();
        let found = open.get(id);
        found.inspect(|open| open.cancelled.cancel()).is_some()
    }

    /// Cancelled when the server does not want to know any more.
    pub(crate) fn cancelled(&self, id: &RequestId) -> CancellationToken {
        let open = self.lock();
        open.get(id).map(|open| open.cancelled.clone()).unwrap_or_default()
    }

    /// The request that an answer is for; its room is taken until the answer has gone.
    pub(super) fn answered(&self, id: &RequestId) -> Option<Open> {
        self.lock().remove(id)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, Open>> {
        self.open.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn has_room(asked: &Asked, id: i64, bytes: usize) -> bool {
        let id = RequestId::Number(id);
        let admitted = asked.admit_request(&id, bytes);
        tokio::time::timeout(Duration::ZERO, admitted).await.is_ok()
    }

    #[tokio::test]
    async fn p7_so_many_requests_have_room_and_so_many_bytes() {
        let asked = Asked::default();
        for id in 0..200 {
            assert!(has_room(&asked, id, ROOM).await, "nothing is counted yet");
        }
        asked.begin();
        for id in 0..64 {
            assert!(has_room(&asked, id, 40).await, "{id}");
        }
        assert!(!has_room(&asked, 64, 40).await);
        let answered = asked.answered(&RequestId::Number(3)).unwrap();
        assert!(!has_room(&asked, 64, 40).await, "its answer has not gone yet");
        drop(answered);
        assert!(has_room(&asked, 64, 40).await);
        (0..=64).for_each(|id| drop(asked.answered(&RequestId::Number(id))));
        // Two that are as large as messages can be.
        assert!(has_room(&asked, 1, 16 << 20).await && has_room(&asked, 2, 16 << 20).await);
        assert!(!has_room(&asked, 3, 40).await);
    }

    #[tokio::test]
    async fn requests_with_one_id_are_counted_and_answered_together() {
        let asked = Asked::default();
        asked.begin();
        for _ in 0..64 {
            assert!(has_room(&asked, 1, 40).await);
        }
        assert!(!has_room(&asked, 1, 40).await && !has_room(&asked, 2, 40).await);
        drop(asked.answered(&RequestId::Number(1)));
        assert!(asked.answered(&RequestId::Number(1)).is_none());
        assert!(has_room(&asked, 2, 40).await);
    }

    #[tokio::test]
    async fn what_is_cancelled_is_not_answered_and_no_id_is_too_long() {
        let asked = Asked::default();
        asked.begin();
        let (one, long) = (RequestId::Number(1), RequestId::String("x".repeat(2000).into()));
        assert!(asked.admit_request(&one, 40).await);
        assert!(!asked.admit_request(&long, 40).await);
        assert!(!asked.cancel(&long) && asked.cancel(&one));
        assert!(asked.cancelled(&one).is_cancelled());
        assert!(asked.admit_request(&one, 40).await);
        assert!(!asked.cancelled(&one).is_cancelled(), "it was asked again");
        assert!(asked.cancel(&one) && asked.answered(&one).unwrap().is_cancelled());
    }
}

//! The open requests of a server, with a bound on their number and size.
//!
//! A request stays open until its answer has been sent. A server that sends requests and does not read the answers would
//! fill the memory, so nothing more is read from it while its requests exceed the bound (P7).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use innkeeper_std::sync::{Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::message::RequestId;

/// The total size of the requests that may be open at once.
const ROOM: usize = 32 << 20;
/// The number of requests that may be open at once: each takes at least its part of the room.
const MAX_OPEN: usize = 64;
/// The longest id. It is kept in several places, and sent back.
const MAX_ID_BYTES: usize = 1 << 10;

/// The requests of a server that are not answered yet.
#[derive(Debug)]
pub(crate) struct InboundRequests {
    room: Arc<Semaphore>,
    open: Mutex<HashMap<RequestId, OpenRequest>>,
}

/// An open request, until this is dropped; or several with one id, which get one answer.
#[derive(Debug)]
pub(crate) struct OpenRequest {
    /// Cancelled when the server cancels the request.
    cancelled: CancellationToken,
    room: OwnedSemaphorePermit,
}

impl OpenRequest {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }
}

impl Default for InboundRequests {
    fn default() -> Self {
        Self {
            room: Arc::new(Semaphore::new(ROOM)),
            open: Mutex::default(),
        }
    }
}

impl InboundRequests {
    /// Waits for room for a request. Returns false if the request is not to be answered, because its id is too long.
    pub(super) async fn admit(&self, id: &RequestId, bytes: usize) -> bool {
        if matches!(id, RequestId::Text(id) if id.len() > MAX_ID_BYTES) {
            return false;
        }
        let bytes = bytes.clamp(ROOM / MAX_OPEN, ROOM);
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
                free.insert(OpenRequest {
                    cancelled: CancellationToken::new(),
                    room,
                });
            }
        }
        true
    }

    /// Cancels a request. Returns false if no such request is open.
    pub(crate) fn cancel(&self, id: &RequestId) -> bool {
        let open = self.lock();
        let found = open.get(id);
        found.inspect(|open| open.cancelled.cancel()).is_some()
    }

    /// Returns a token that is cancelled when the server cancels the request.
    pub(crate) fn cancelled(&self, id: &RequestId) -> CancellationToken {
        let open = self.lock();
        open.get(id).map(|open| open.cancelled.clone()).unwrap_or_default()
    }

    /// Takes the request that an answer is for. It occupies its room until it is dropped, after the answer was sent.
    pub(crate) fn answered(&self, id: &RequestId) -> Option<OpenRequest> {
        self.lock().remove(id)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, OpenRequest>> {
        self.open.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn has_room(requests: &InboundRequests, id: i64, bytes: usize) -> bool {
        let id = RequestId::Number(id);
        let admitted = requests.admit(&id, bytes);
        tokio::time::timeout(Duration::ZERO, admitted).await.is_ok()
    }

    #[tokio::test]
    async fn p7_open_requests_are_bounded_in_number_and_size() {
        let requests = InboundRequests::default();
        for id in 0..64 {
            assert!(has_room(&requests, id, 40).await, "{id}");
        }
        assert!(!has_room(&requests, 64, 40).await);
        let answered = requests.answered(&RequestId::Number(3)).unwrap();
        assert!(!has_room(&requests, 64, 40).await, "its answer has not gone yet");
        drop(answered);
        assert!(has_room(&requests, 64, 40).await);
        (0..=64).for_each(|id| drop(requests.answered(&RequestId::Number(id))));
        // Two that are as large as messages can be.
        assert!(has_room(&requests, 1, 16 << 20).await && has_room(&requests, 2, 16 << 20).await);
        assert!(!has_room(&requests, 3, 40).await);
    }

    #[tokio::test]
    async fn requests_with_one_id_are_counted_and_answered_together() {
        let requests = InboundRequests::default();
        for _ in 0..64 {
            assert!(has_room(&requests, 1, 40).await);
        }
        assert!(!has_room(&requests, 1, 40).await && !has_room(&requests, 2, 40).await);
        drop(requests.answered(&RequestId::Number(1)));
        assert!(requests.answered(&RequestId::Number(1)).is_none());
        assert!(has_room(&requests, 2, 40).await);
    }

    #[tokio::test]
    async fn cancelled_requests_and_requests_with_long_ids_are_not_answered() {
        let requests = InboundRequests::default();
        let (one, long) = (RequestId::Number(1), RequestId::Text("x".repeat(2000).into()));
        assert!(requests.admit(&one, 40).await);
        assert!(!requests.admit(&long, 40).await);
        assert!(!requests.cancel(&long) && requests.cancel(&one));
        assert!(requests.cancelled(&one).is_cancelled());
        assert!(requests.admit(&one, 40).await);
        assert!(!requests.cancelled(&one).is_cancelled(), "it was sent again");
        assert!(requests.cancel(&one) && requests.answered(&one).unwrap().is_cancelled());
    }
}

//! Messages of apps in clients to a server, in order and bounded.
//!
//! A server may stop reading while clients go on writing. Messages wait here; without room, a notification is dropped and a
//! request is refused (T26).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use innkeeper_host::mcp::McpError;
use innkeeper_std::sync::Mutex;
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::convert;
use super::session_server::SessionServer;

/// The number of notifications that wait.
const MAX_NOTICES: usize = 64;
/// The largest notification. Log lines are far smaller.
const MAX_NOTICE_BYTES: usize = 64 << 10;
/// The total size of the notifications that wait.
const MAX_NOTICES_BYTES: usize = 1 << 20;
/// The total size of the requests that are under way. A single request may be larger.
const MAX_REQUESTS_BYTES: usize = 16 << 20;

/// The messages of apps to one server of one session.
pub(super) struct Apps {
    notices: mpsc::Sender<Notice>,
    waiting: Mutex<Option<mpsc::Receiver<Notice>>>,
    /// In bytes.
    notice_room: Arc<Semaphore>,
    request_room: Arc<Semaphore>,
    /// True if the log already says that notifications are dropped.
    is_told: AtomicBool,
}

/// A notification that waits.
struct Notice {
    method: String,
    params: Map<String, Value>,
    _room: OwnedSemaphorePermit,
}

impl Apps {
    pub(super) fn new() -> Self {
        let (notices, waiting) = mpsc::channel(MAX_NOTICES);
        Self {
            notices,
            waiting: Mutex::new(Some(waiting)),
            notice_room: Arc::new(Semaphore::new(MAX_NOTICES_BYTES)),
            request_room: Arc::new(Semaphore::new(MAX_REQUESTS_BYTES)),
            is_told: AtomicBool::new(false),
        }
    }

    /// Queues a notification. Without room it is dropped, and the log says so once.
    pub(super) fn tell(&self, server: &str, method: &str, params: Map<String, Value>) {
        if self.is_taken(method, params) || self.is_told.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(
            server,
            "a notification of an app was dropped, and so are others from now on: the MCP server does not take them as \
             fast as they come, or they are larger than {MAX_NOTICE_BYTES} bytes"
        );
    }

    fn is_taken(&self, method: &str, params: Map<String, Value>) -> bool {
        let size = size(&params);
        let Some(room) = take(&self.notice_room, size).filter(|_| size <= MAX_NOTICE_BYTES) else {
            return false;
        };
        let notice = Notice {
            method: method.to_owned(),
            params,
            _room: room,
        };
        self.notices.try_send(notice).is_ok()
    }

    /// Reserves room for a request until the permit is dropped.
    pub(super) fn room_for(&self, server: &str, params: &Map<String, Value>) -> Result<OwnedSemaphorePermit, McpError> {
        let size = size(params).min(MAX_REQUESTS_BYTES);
        take(&self.request_room, size).ok_or_else(|| {
            McpError::new(format!(
                "the MCP server {server:?} has not answered what apps asked it before, and more has no room; wait for \
                 its answers first"
            ))
        })
    }

    /// Takes the queue of notifications.
    fn notices(&self) -> Option<mpsc::Receiver<Notice>> {
        self.waiting.lock().take()
    }
}

/// Passes notifications on, one after the other, for as long as the session wants the server.
pub(super) async fn pass_on(server: &SessionServer) {
    let Some(mut notices) = server.apps.notices() else {
        // Another task of this server has them already.
        return;
    };
    while let Some(notice) = notices.recv().await {
        let Some(lease) = server.lease() else { continue };
        let allowed = convert::allowed(convert::apps(&lease));
        let passed = lease.pass_notification(allowed, &notice.method, Some(notice.params));
        tokio::select! {
            () = lease.gone.cancelled() => {}
            passed = passed => if let Err(error) = passed {
                tracing::debug!(server = server.name(), %error, "a notification of an app was not passed on");
            },
        }
    }
}

fn take(room: &Arc<Semaphore>, size: usize) -> Option<OwnedSemaphorePermit> {
    let size = u32::try_from(size).ok()?;
    Arc::clone(room).try_acquire_many_owned(size).ok()
}

/// Returns the size of parameters as JSON.
fn size(params: &Map<String, Value>) -> usize {
    serde_json::to_string(params).map_or(usize::MAX, |text| text.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(number: usize, bytes: usize) -> Map<String, Value> {
        let fields = json!({ "number": number, "data": "x".repeat(bytes) });
        fields.as_object().cloned().expect("an object")
    }

    #[tokio::test]
    async fn t26_waiting_notifications_of_apps_are_ordered_and_bounded() {
        for (bytes, fit) in [(10, MAX_NOTICES), (60 << 10, MAX_NOTICES_BYTES / (61 << 10))] {
            let apps = Apps::new();
            for number in 0..200 {
                apps.tell("inn", "notifications/message", line(number, bytes));
            }
            let mut waiting = apps.notices().expect("not taken yet");
            let mut numbers = Vec::new();
            while let Ok(notice) = waiting.try_recv() {
                numbers.push(notice.params["number"].as_u64().expect("a number"));
            }
            let in_order: Vec<u64> = (0..numbers.len() as u64).collect();
            assert_eq!(numbers, in_order);
            assert!(numbers.len() >= fit && numbers.len() <= fit + 1, "{}", numbers.len());
            assert_eq!(
                apps.notice_room.available_permits(),
                MAX_NOTICES_BYTES,
                "there is room again"
            );
        }
        let apps = Apps::new();
        assert!(
            !apps.is_taken("notifications/message", line(0, 4 << 20)),
            "one is too large by itself"
        );
        assert!(apps.is_taken("notifications/message", line(0, 4 << 10)));
    }

    #[test]
    fn t26_open_requests_of_apps_are_bounded() {
        let apps = Apps::new();
        let large = line(0, 5 << 20);
        let first = apps.room_for("inn", &large).expect("room");
        let others: Vec<_> = (0..2).map(|_| apps.room_for("inn", &large).expect("room")).collect();
        let refused = apps.room_for("inn", &large).expect_err("no room");
        assert!(refused.message.contains("wait for its answers"), "{refused}");
        drop((first, others));
        let alone = apps.room_for("inn", &line(0, 20 << 20));
        assert!(alone.is_ok(), "whatever it has");
    }
}

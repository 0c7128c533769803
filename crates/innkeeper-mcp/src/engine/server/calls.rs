//! Requests that are under way: the owners of progress reports and questions.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use innkeeper_std::sync::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::engine::ask::AskSink;
use crate::engine::state::CallId;

/// A progress report of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The progress.
    pub progress: f64,
    /// The total, if the server knows it.
    pub total: Option<f64>,
    /// The present step.
    pub message: Option<String>,
}

/// Takes progress reports. It must not block.
#[derive(Clone)]
pub struct ProgressSink(Arc<dyn Fn(Progress) + Send + Sync>);

impl ProgressSink {
    /// Wraps a function that takes reports.
    pub fn new(take: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }
}

impl fmt::Debug for ProgressSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressSink")
    }
}

/// The part of a call that its requests need.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallContext {
    pub(crate) id: CallId,
    pub(crate) asks: Option<AskSink>,
    pub(crate) session: Option<Arc<str>>,
    pub(crate) progress: Option<ProgressSink>,
}

/// The requests of one connection that belong to calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(Arc<Mutex<Vec<CallEntry>>>);

#[derive(Debug)]
struct CallEntry {
    /// The id of the request, and the token of its progress reports.
    request: i64,
    call: CallContext,
    alive: Arc<Notify>,
    /// The number of its open questions.
    open: Arc<AtomicUsize>,
}

impl Calls {
    /// Registers a request until the guard is dropped.
    pub(crate) fn add(&self, request: i64, call: &CallContext) -> CallGuard {
        let (alive, open) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        self.lock().push(CallEntry {
            request,
            call: call.clone(),
            alive: alive.clone(),
            open: open.clone(),
        });
        CallGuard {
            calls: self.clone(),
            request,
            alive,
            open,
        }
    }

    /// Passes a progress report on, and restarts the timeout of the call.
    pub(crate) fn progress(&self, token: i64, progress: Progress) {
        let sink = {
            let entries = self.lock();
            let Some(entry) = entries.iter().find(|entry| entry.request == token) else {
                // The call has ended.
                return;
            };
            entry.alive.notify_one();
            entry.call.progress.clone()
        };
        if let Some(ProgressSink(take)) = sink {
            take(progress);
        }
    }

    /// Returns the call that a question belongs to. Over HTTP the stream tells. Over pipes the latest call that can be asked
    /// owns it, which is right whenever there is one such call at a time; requests of Apps cannot be asked. While calls of
    /// several sessions are under way no user is asked: it could be a question for another session (T16).
    pub(crate) fn owner(&self, request: Option<i64>) -> Result<Option<Owner>, AmbiguousCaller> {
        let entries = self.lock();
        let entry = match request {
            Some(request) => entries.iter().find(|entry| entry.request == request),
            None => {
                let last = entries.last();
                let session = last.map(|entry| &entry.call.session);
                if entries.iter().any(|entry| Some(&entry.call.session) != session) {
                    return Err(AmbiguousCaller);
                }
                let mut latest_first = entries.iter().rev();
                latest_first.find(|entry| entry.call.asks.is_some()).or(last)
            }
        };
        let owner = entry.map(|entry| {
            entry.open.fetch_add(1, Ordering::Relaxed);
            Owner {
                call: entry.call.id,
                asks: entry.call.asks.clone(),
                open: entry.open.clone(),
                alive: entry.alive.clone(),
            }
        });
        Ok(owner)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<CallEntry>> {
        self.0.lock()
    }
}

/// A question could belong to calls of several sessions.
#[derive(Debug)]
pub(crate) struct AmbiguousCaller;

/// The call that a question belongs to. While this lives, the timeout of the call is paused: a user may take longer than a
/// server.
pub(crate) struct Owner {
    pub(crate) call: CallId,
    pub(crate) asks: Option<AskSink>,
    open: Arc<AtomicUsize>,
    alive: Arc<Notify>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.alive.notify_one();
    }
}

/// Removes a request when it is dropped.
pub(crate) struct CallGuard {
    calls: Calls,
    request: i64,
    open: Arc<AtomicUsize>,
    /// Notified when the server reports progress.
    pub(crate) alive: Arc<Notify>,
}

impl CallGuard {
    /// Returns true if the server waits for an answer of ours.
    pub(crate) fn is_asked(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        self.calls.lock().retain(|entry| entry.request != self.request);
    }
}

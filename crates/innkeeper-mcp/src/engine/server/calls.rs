//! Requests that are under way: whom reports of progress and questions belong to.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use innkeeper_std::sync::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::engine::ask::AskSink;
use crate::engine::state::CallId;

/// How far a call has come, as the server says.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// How far.
    pub progress: f64,
    /// Of how much, if it knows.
    pub total: Option<f64>,
    /// What it does just now.
    pub message: Option<String>,
}

/// Takes reports of progress. It must not wait.
#[derive(Clone)]
pub struct ProgressSink(Arc<dyn Fn(Progress) + Send + Sync>);

impl ProgressSink {
    /// Hands reports to a function.
    pub fn new(take: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }
}

impl fmt::Debug for ProgressSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressSink")
    }
}

/// A call, as far as its requests need it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallContext {
    pub(crate) id: CallId,
    pub(crate) asks: Option<AskSink>,
    pub(crate) session: Option<Arc<str>>,
    pub(crate) progress: Option<ProgressSink>,
}

/// The requests of one connection that belong to calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(Arc<Mutex<Vec<Entry>>>);

#[derive(Debug)]
struct Entry {
    /// The id of the request, and the token of its progress reports.
    request: i64,
    call: CallContext,
    alive: Arc<Notify>,
    /// How many of its questions are open.
    open: Arc<AtomicUsize>,
}

impl Calls {
    /// Remembers a request until the guard is dropped.
    pub(crate) fn add(&self, request: i64, call: &CallContext) -> CallGuard {
        let (alive, open) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        self.lock().push(Entry {
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

    /// A report of progress: it is handed on, and begins the time of the call anew.
    pub(crate) fn progress(&self, token: i64, progress: Progress) {
        let sink = {
            let entries = self.lock();
            let Some(entry) = entries.iter().find(|entry| entry.request == token) else {
                return;
            };
            entry.alive.notify_one();
            entry.call.progress.clone()
        };
        if let Some(ProgressSink(take)) = sink {
            take(progress);
        }
    }

    /// Whose question it is. HTTP tells by the stream that it came on; a pipe does not, so that it is
    /// taken for the latest call's that can be asked, which is right whenever there is one such call at a
    /// time: requests of Apps cannot. While calls of several sessions are under way, nobody is asked: it
    /// could be somebody else's question (T16).
    pub(crate) fn owner(&self, request: Option<i64>) -> Result<Option<Owner>, OfSeveral> {
        let entries = self.lock();
        let entry = match request {
            Some(request) => entries.iter().find(|entry| entry.request == request),
            None => {
                let last = entries.last();
                let session = last.map(|entry| &entry.call.session);
                if entries.iter().any(|entry| Some(&entry.call.session) != session) {
                    return Err(OfSeveral);
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

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock()
    }
}

/// A question could belong to calls of several sessions.
#[derive(Debug)]
pub(crate) struct OfSeveral;

/// The call that a question belongs to. As long as this lives, the time of the call stands still: a
/// person may take longer than a server.
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

/// Forgets a request when it is dropped.
pub(crate) struct CallGuard {
    calls: Calls,
    request: i64,
    open: Arc<AtomicUsize>,
    /// Told when the server gave a sign of life.
    pub(crate) alive: Arc<Notify>,
}

impl CallGuard {
    /// Whether the server waits for an answer of ours.
    pub(crate) fn is_asked(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        self.calls.lock().retain(|entry| entry.request != self.request);
    }
}

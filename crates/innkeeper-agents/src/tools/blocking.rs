//! Blocking file work that stops when the waiting future is dropped.

use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use innkeeper_host::AgentError;

/// Tells blocking work when to stop.
#[derive(Debug, Clone, Default)]
pub(super) struct CancelFlag {
    flag: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl CancelFlag {
    /// Returns true if the waiting future was dropped.
    pub(super) fn is_cancelled(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// Returns true if the deadline has passed.
    pub(super) fn is_past_deadline(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Returns true if the work should stop for either reason.
    pub(super) fn should_stop(&self) -> bool {
        self.is_cancelled() || self.is_past_deadline()
    }

    /// Adds a deadline.
    pub(super) fn with_timeout(&self, time: Duration) -> Self {
        Self {
            flag: Arc::clone(&self.flag),
            deadline: Instant::now().checked_add(time),
        }
    }
}

/// A reader that fails with `TimedOut` once the work should stop, so that a huge file does not block.
#[derive(Debug)]
pub(super) struct CancellableReader<'a, R> {
    pub(super) inner: R,
    pub(super) cancel: &'a CancelFlag,
}

impl<R: Read> Read for CancellableReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.should_stop() {
            return Err(io::Error::new(ErrorKind::TimedOut, "reading took too long"));
        }
        self.inner.read(buffer)
    }
}

/// Sets the flag when the waiting future is dropped.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs work on a blocking thread. An error means that the turn was cancelled; failures of the work are part of the
/// result.
pub(super) async fn run<T: Send + 'static>(
    cancelled: impl Future<Output = ()>,
    work: impl FnOnce(&CancelFlag) -> Result<T, String> + Send + 'static,
) -> Result<Result<T, String>, AgentError> {
    let flag = Arc::new(AtomicBool::new(false));
    let _cancel_on_drop = CancelOnDrop(Arc::clone(&flag));
    let cancel = CancelFlag { flag, deadline: None };
    let working = tokio::task::spawn_blocking(move || work(&cancel));
    tokio::select! {
        biased;
        () = cancelled => Err(AgentError::Cancelled),
        outcome = working => Ok(outcome.unwrap_or_else(|_| {
            Err("the host made a mistake in this tool; the call did not finish. Try another way".to_owned())
        })),
    }
}

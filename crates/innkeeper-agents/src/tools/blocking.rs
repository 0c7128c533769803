//! Work on files, beside the tasks of the host, that stops when nobody waits for it any more.

use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use innkeeper_host::AgentError;

/// Says when work is to stop.
#[derive(Debug, Clone, Default)]
pub(super) struct CancelFlag {
    flag: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl CancelFlag {
    /// Whether nobody waits any more.
    pub(super) fn is_cancelled(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// Whether the time is over.
    pub(super) fn is_past_deadline(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Whether there is any reason to stop.
    pub(super) fn should_stop(&self) -> bool {
        self.is_cancelled() || self.is_past_deadline()
    }

    /// The same with a time after which it stops by itself.
    pub(super) fn with_timeout(&self, time: Duration) -> Self {
        Self {
            flag: Arc::clone(&self.flag),
            deadline: Instant::now().checked_add(time),
        }
    }
}

/// Reads a file until it is time to stop, which is an error of the kind `TimedOut`: however large
/// the file is, nobody waits for its end.
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

/// Raises the flag when the future that waits is dropped.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Has work done on a thread for such work. An error means that the turn was cancelled; what goes
/// wrong with the work itself is part of its result.
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

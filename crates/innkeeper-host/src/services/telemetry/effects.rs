//! The log sink of a host, and the task that empties it.

use innkeeper_core::{LogLevel, LogRecord};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::main_loop::Message;
use crate::services::telemetry::{LogSink, bring};

/// A sink, and the task that empties it for as long as the main loop runs.
pub(crate) struct Logs {
    sink: LogSink,
    _bringing: DropGuard,
}

impl Logs {
    pub(crate) fn start(sink: LogSink, inbox: mpsc::WeakSender<Message>, tasks: &TaskTracker) -> Self {
        let ended = CancellationToken::new();
        tasks.spawn(bring(sink.clone(), inbox, ended.clone()));
        Self {
            sink,
            _bringing: ended.drop_guard(),
        }
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.sink.set_wanted(None);
    }
}

impl Logs {
    /// Tells the sink which records clients want. Subscribers are answered after this, so that they receive every
    /// record from then on.
    pub(crate) fn set_wanted(&self, wanted: Option<LogLevel>) {
        self.sink.set_wanted(wanted);
    }

    /// Takes a batch of records.
    pub(crate) fn take(&self) -> Option<Vec<LogRecord>> {
        self.sink.take()
    }

    /// Drops a batch, and counts its records as left out.
    pub(crate) fn leave_out(&self, records: &[LogRecord]) {
        self.sink.leave_out(records.len());
    }
}

//! The log on its way through the main loop: from the sink into the core, and from there to whoever listens.

use bytes::Bytes;
use innkeeper_core::{ConnId, Effect, Input, Now, Outgoing};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::main_loop::message::Message;
use crate::main_loop::task::HostTask;
use crate::services::telemetry::{LogSink, bring};

/// Most batches that are told at the end of a host.
const MOST_LAST_BATCHES: usize = 32;

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

impl HostTask {
    /// Lets the sink know what anybody listens to. Before subscribers are answered: whatever is logged once they
    /// know that they listen, they get.
    pub(crate) fn follow_wanted_logs(&self) {
        if let Some(logs) = &self.logs {
            logs.sink.set_wanted(self.core.wanted_logs());
        }
    }

    /// Takes a batch of what was logged, unless too much of it waits for the journal.
    pub(crate) fn take_logs(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let Some(logs) = &self.logs else { return };
        match logs.sink.take() {
            Some(records) if self.pending.is_full_of_logs() => logs.sink.leave_out(records.len()),
            Some(records) => self.handle_input(now, Input::Logs(records), effects),
            None => {}
        }
    }

    /// Takes everything that was logged so far: the last words of a host are worth hearing.
    pub(crate) fn take_last_logs(&mut self, now: Now, effects: &mut Vec<Effect>) {
        // No more than fits into the sink: somebody may still write.
        for _ in 0..MOST_LAST_BATCHES {
            match self.logs.as_ref().and_then(|logs| logs.sink.take()) {
                Some(records) => self.handle_input(now, Input::Logs(records), effects),
                None => return,
            }
        }
    }

    /// Sends part of the log to those who keep up.
    pub(crate) fn export_logs(&mut self, to: &[ConnId], message: &Bytes) {
        for conn in to {
            if let Some(outbox) = self.outbox(*conn) {
                outbox.push_if_room(Outgoing::Text(message.clone()));
            }
        }
    }
}

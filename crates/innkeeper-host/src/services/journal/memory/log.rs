//! The log of one channel.

use std::sync::Arc;

use bytes::Bytes;
use innkeeper_core::records::StoredFrame;
use innkeeper_core::{ActionFrame, Seq};

/// How much of a log is kept for replay alone, in bytes.
const REPLAY_BYTES: usize = 1 << 20;
/// How many frames are gathered before they are folded into one.
const RUN: usize = 64;

/// The accepted actions of a channel, as far as they may still be needed.
#[derive(Debug, Clone, Default)]
pub(super) struct Log {
    /// The last action that is part of the channel's document.
    folded: Seq,
    entries: Vec<LogEntry>,
}

/// An action, or a run of appends to the same text.
#[derive(Debug, Clone)]
struct LogEntry {
    first: Seq,
    at_ms: i64,
    run: Vec<Arc<ActionFrame>>,
}

impl Log {
    pub(super) fn push(&mut self, frame: Arc<ActionFrame>, at_ms: i64) {
        if let Some(open) = self.entries.last_mut().filter(|last| last.takes(&frame, self.folded)) {
            open.run.push(frame);
            if open.run.len() >= RUN {
                open.fold();
            }
        } else {
            self.entries.push(LogEntry {
                first: frame.seq,
                at_ms,
                run: vec![frame],
            });
        }
    }

    /// A document holds everything up to `seq`: older entries are left for replay, the latest of
    /// them, without a hole.
    pub(super) fn fold(&mut self, seq: Seq) {
        self.folded = seq;
        let mut bytes = 0;
        let mut keep = self.entries.len();
        for entry in self.entries.iter_mut().rev() {
            if entry.seq() <= seq {
                entry.fold();
                bytes += entry.bytes();
                if bytes > REPLAY_BYTES {
                    break;
                }
            }
            keep -= 1;
        }
        self.entries.drain(..keep);
    }

    pub(super) fn frames(&self, channel: &Arc<str>) -> impl Iterator<Item = StoredFrame> {
        self.entries.iter().map(|entry| entry.stored(channel))
    }
}

impl LogEntry {
    fn seq(&self) -> Seq {
        self.run.last().map_or(self.first, |frame| frame.seq)
    }

    fn bytes(&self) -> usize {
        self.run.iter().map(|frame| frame.bytes.len()).sum()
    }

    /// Returns whether the frame appends to the same text. Actions that are part of a document stay separate from later
    /// ones, or their text would come back twice.
    fn takes(&self, frame: &ActionFrame, folded: Seq) -> bool {
        self.first > folded && self.run.last().is_some_and(|last| last.merges_with(frame))
    }

    fn fold(&mut self) {
        if self.run.len() > 1 {
            self.run = vec![Arc::new(ActionFrame::merged(&self.run))];
        }
    }

    fn stored(&self, channel: &Arc<str>) -> StoredFrame {
        let whole = ActionFrame::merged(&self.run);
        StoredFrame {
            channel: Arc::clone(channel),
            first: self.first,
            seq: whole.seq,
            at_ms: self.at_ms,
            bytes: Bytes::from(whole.bytes),
        }
    }
}

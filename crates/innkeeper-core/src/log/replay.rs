//! The window of recent actions that `reconnect` replays from.
//!
//! Indexed by channel, so a busy chat cannot push a quiet one out: each channel has its own
//! window, bounded in bytes and age, and when all of them together grow too large the largest
//! gives way.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::core::never;
use crate::ids::{ChannelId, IdMap, Seq};
use crate::protocol::frame::ActionFrame;
use crate::storage::records::StoredFrame;
use crate::time::Now;

/// Bounds of the window.
#[derive(Debug, Clone, Copy)]
pub struct ReplayLimits {
    /// Bytes stored per channel.
    pub channel_bytes: usize,
    /// Bytes stored over all channels.
    pub total_bytes: usize,
    /// Maximum age of an action.
    pub max_age_ms: u64,
    /// Most actions in one `reconnect` answer; beyond it snapshots are cheaper for host and client.
    pub answer_actions: usize,
    /// Maximum bytes in one `reconnect` answer.
    pub answer_bytes: usize,
}

impl Default for ReplayLimits {
    fn default() -> Self {
        Self {
            // One busy chat does not push the others out.
            channel_bytes: 8 << 20,
            // The memory that the host may spend on clients that come back.
            total_bytes: 64 << 20,
            // A client that was away for longer reads a snapshot faster.
            max_age_ms: 60 * 60 * 1000,
            // A snapshot is cheaper than more actions.
            answer_actions: 10_000,
            // The size of an outbox: a longer answer would close the connection.
            answer_bytes: 8 << 20,
        }
    }
}

/// Position of one action in its chunk.
#[derive(Debug)]
struct ReplayEntry {
    seq: Seq,
    /// The number of the first action in it. Only streamed output, which is written behind, is merged.
    first: Seq,
    at_ms: u64,
    /// End of its bytes; they start where the entry before it ends.
    end: usize,
}

/// Actions one after the other. The window copies what it keeps: frames are then freed as soon as
/// they are written, and their memory is used again while it is still in the cache, instead of
/// being scattered over everything that was allocated meanwhile.
#[derive(Debug)]
struct Chunk {
    bytes: Vec<u8>,
    /// Start of the oldest entry.
    start: usize,
    entries: VecDeque<ReplayEntry>,
}

/// Bytes of a full chunk, unless a single action is larger.
const CHUNK_BYTES: usize = 64 << 10;

#[derive(Debug)]
struct Window {
    chunks: VecDeque<Chunk>,
    bytes: usize,
    /// The newest action that is no longer here. Replay is possible from this point on, and at
    /// this very point too (REC-10, E-06).
    forgotten: Seq,
}

/// All windows.
#[derive(Debug)]
pub struct Replay {
    limits: ReplayLimits,
    windows: IdMap<ChannelId, Window>,
    bytes: usize,
}

/// Overhead of one entry in bytes.
const ENTRY_OVERHEAD: usize = size_of::<ReplayEntry>();

impl Replay {
    /// An empty window.
    pub fn new(limits: ReplayLimits) -> Self {
        Self {
            limits,
            windows: IdMap::default(),
            bytes: 0,
        }
    }

    /// Starts the window of a new channel: nothing before `created` can be replayed.
    pub fn open(&mut self, channel: ChannelId, created: Seq) {
        self.windows.insert(
            channel,
            Window {
                chunks: VecDeque::new(),
                bytes: 0,
                forgotten: created,
            },
        );
    }

    /// Starts the window of a channel that is restored: everything after `forgotten` is in its log.
    pub fn restore(&mut self, channel: ChannelId, forgotten: Seq, now: Now, log: &[&StoredFrame]) {
        self.open(channel, forgotten);
        let Some(window) = self.windows.get_mut(&channel) else {
            return never!("the window was just opened");
        };
        for frame in log {
            // Its age follows from the wall clock, which may have jumped; it then counts as new.
            let age = now.wall.as_millisecond().saturating_sub(frame.at_ms);
            let at_ms = now.mono_ms.saturating_sub(u64::try_from(age).unwrap_or_default());
            window.add(at_ms, frame.first, frame.seq, &frame.bytes);
        }
        while window.bytes > self.limits.channel_bytes {
            window.forget_oldest();
        }
        self.bytes += window.bytes;
        if self.bytes > self.limits.total_bytes {
            self.shrink_largest();
        }
    }

    /// Drops the window of a channel that is gone.
    pub fn close(&mut self, channel: ChannelId) {
        if let Some(window) = self.windows.remove(&channel) {
            self.bytes -= window.bytes;
        }
    }

    /// Keeps an action.
    pub fn push(&mut self, channel: ChannelId, now_ms: u64, frame: &ActionFrame) {
        let Some(window) = self.windows.get_mut(&channel) else {
            return never!("a channel has a window from its creation to its removal");
        };
        window.add(now_ms, frame.seq, frame.seq, &frame.bytes);
        self.bytes += frame.bytes.len() + ENTRY_OVERHEAD;
        let oldest_kept = now_ms.saturating_sub(self.limits.max_age_ms);
        while window.bytes > self.limits.channel_bytes || window.oldest().is_some_and(|entry| entry.at_ms < oldest_kept)
        {
            self.bytes -= window.forget_oldest();
        }
        if self.bytes > self.limits.total_bytes {
            self.shrink_largest();
        }
    }

    /// Every action after `last_seen` on these channels, ascending; `None` when the window no
    /// longer covers one of them or the answer would be larger than a snapshot is worth.
    pub fn since(&self, channels: &[ChannelId], last_seen: Seq) -> Option<Vec<Arc<ActionFrame>>> {
        let mut actions = Vec::new();
        let mut bytes = 0;
        for channel in channels {
            let window = self.windows.get(channel)?;
            if last_seen < window.forgotten {
                return None;
            }
            for chunk in &window.chunks {
                if chunk.entries.back().is_none_or(|entry| entry.seq <= last_seen) {
                    continue;
                }
                let mut start = chunk.start;
                for entry in &chunk.entries {
                    if entry.seq > last_seen {
                        if entry.first <= last_seen {
                            return None; // The client has seen part of a merged entry.
                        }
                        let kept = &chunk.bytes[start..entry.end];
                        bytes += kept.len();
                        actions.push(Arc::new(ActionFrame::replayed(entry.seq, kept.to_vec())));
                    }
                    start = entry.end;
                }
            }
            if actions.len() > self.limits.answer_actions || bytes > self.limits.answer_bytes {
                return None;
            }
        }
        actions.sort_unstable_by_key(|frame| frame.seq);
        Some(actions)
    }

    /// Bytes held over all channels.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops entries that are too old, also on channels without new actions. Returns whether any are left.
    pub fn sweep(&mut self, now_ms: u64) -> bool {
        let oldest_kept = now_ms.saturating_sub(self.limits.max_age_ms);
        for window in self.windows.values_mut() {
            while window.oldest().is_some_and(|entry| entry.at_ms < oldest_kept) {
                self.bytes -= window.forget_oldest();
            }
        }
        self.bytes > 0
    }

    /// Forgets everything, so that every reconnect gets snapshots.
    pub fn clear(&mut self, now: Seq) {
        for window in self.windows.values_mut() {
            *window = Window {
                chunks: VecDeque::new(),
                bytes: 0,
                forgotten: now,
            };
        }
        self.bytes = 0;
    }

    /// Cuts the largest windows down to one size at which all of them fit with a tenth to spare,
    /// so that the next cut is far away however many windows there are.
    fn shrink_largest(&mut self) {
        let budget = self.limits.total_bytes / 10 * 9;
        let mut sizes: Vec<usize> = self.windows.values().map(|window| window.bytes).collect();
        sizes.sort_unstable();
        let mut left = budget;
        let mut cap = budget;
        for (index, size) in sizes.iter().enumerate() {
            cap = left / (sizes.len() - index);
            if *size > cap {
                break;
            }
            left -= size;
        }
        for window in self.windows.values_mut() {
            while window.bytes > cap {
                self.bytes -= window.forget_oldest();
            }
        }
    }
}

impl Window {
    fn oldest(&self) -> Option<&ReplayEntry> {
        self.chunks.front()?.entries.front()
    }

    fn add(&mut self, at_ms: u64, first: Seq, seq: Seq, bytes: &[u8]) {
        let len = bytes.len();
        let has_room = self
            .chunks
            .back()
            .is_some_and(|chunk| chunk.bytes.len() + len <= CHUNK_BYTES);
        if !has_room {
            // A quiet channel starts small; one that filled a chunk will fill the next.
            let capacity = if self.chunks.is_empty() {
                len
            } else {
                len.max(CHUNK_BYTES)
            };
            self.chunks.push_back(Chunk {
                bytes: Vec::with_capacity(capacity),
                start: 0,
                entries: VecDeque::new(),
            });
        }
        if let Some(chunk) = self.chunks.back_mut() {
            chunk.bytes.extend_from_slice(bytes);
            let end = chunk.bytes.len();
            chunk.entries.push_back(ReplayEntry { seq, first, at_ms, end });
        }
        self.bytes += len + ENTRY_OVERHEAD;
    }

    /// Drops the oldest entry and returns its size.
    fn forget_oldest(&mut self) -> usize {
        let Some(chunk) = self.chunks.front_mut() else {
            return 0;
        };
        let Some(entry) = chunk.entries.pop_front() else {
            self.chunks.pop_front();
            return 0;
        };
        let cost = entry.end - chunk.start + ENTRY_OVERHEAD;
        chunk.start = entry.end;
        if chunk.entries.is_empty() {
            self.chunks.pop_front();
        }
        self.bytes -= cost;
        self.forgotten = entry.seq;
        cost
    }
}

#[cfg(test)]
mod tests {
    use ahp_types::actions::{SessionTitleChangedAction, StateAction};

    use super::*;
    use crate::protocol::dialect::extension::ExtensionFields;
    use crate::protocol::frame::encode_action;

    fn frame(seq: u64) -> Arc<ActionFrame> {
        let action = StateAction::SessionTitleChanged(SessionTitleChangedAction { title: "x".repeat(100) });
        Arc::new(encode_action(
            "\"a:/b\"",
            &action,
            ExtensionFields::Nothing,
            Seq(seq),
            None,
        ))
    }

    fn cost() -> usize {
        frame(1).bytes.len() + ENTRY_OVERHEAD
    }

    #[test]
    fn a_replay_over_many_chunks_returns_the_recorded_actions() {
        let mut replay = Replay::new(ReplayLimits {
            channel_bytes: 4 * CHUNK_BYTES,
            ..ReplayLimits::default()
        });
        replay.open(A, Seq(0));
        let frames: Vec<_> = (1..=5000).map(frame).collect();
        for frame in &frames {
            replay.push(A, 0, frame);
        }
        assert!(replay.bytes() <= 4 * CHUNK_BYTES);
        let oldest = (1..)
            .find(|seq| replay.since(&[A], Seq(*seq)).is_some())
            .expect("something is kept");
        let kept = replay.since(&[A], Seq(oldest)).expect("replayable");
        assert_eq!(kept.len() as u64, 5000 - oldest);
        for (kept, sent) in kept.iter().zip(&frames[usize::try_from(oldest).expect("small")..]) {
            assert_eq!((kept.seq, &kept.bytes), (sent.seq, &sent.bytes));
        }
    }

    const A: ChannelId = ChannelId(1);
    const B: ChannelId = ChannelId(2);

    fn seqs(replay: &Replay, channels: &[ChannelId], last_seen: u64) -> Option<Vec<u64>> {
        replay
            .since(channels, Seq(last_seen))
            .map(|frames| frames.iter().map(|frame| frame.seq.0).collect())
    }

    #[test]
    fn e06_last_seen_at_the_very_edge_replays_and_one_before_does_not() {
        let limits = ReplayLimits {
            channel_bytes: 3 * cost(),
            ..ReplayLimits::default()
        };
        let mut replay = Replay::new(limits);
        replay.open(A, Seq(0));
        for seq in 1..=5 {
            replay.push(A, 0, &frame(seq));
        }
        assert_eq!(
            seqs(&replay, &[A], 2),
            Some(vec![3, 4, 5]),
            "gap exactly as large as the window"
        );
        assert_eq!(seqs(&replay, &[A], 1), None);
        assert_eq!(seqs(&replay, &[A], 5), Some(vec![]));
    }

    #[test]
    fn a_busy_channel_does_not_push_a_quiet_one_out() {
        let limits = ReplayLimits {
            total_bytes: 10 * cost(),
            ..ReplayLimits::default()
        };
        let mut replay = Replay::new(limits);
        replay.open(A, Seq(0));
        replay.open(B, Seq(0));
        replay.push(A, 0, &frame(1));
        for seq in 2..100 {
            replay.push(B, 0, &frame(seq));
        }
        assert_eq!(seqs(&replay, &[A], 0), Some(vec![1]));
        assert_eq!(seqs(&replay, &[B], 1), None);
        assert!(replay.bytes() <= 10 * cost());
    }

    #[test]
    fn old_actions_are_forgotten_and_answers_are_bounded() {
        let limits = ReplayLimits {
            max_age_ms: 1000,
            answer_actions: 2,
            ..ReplayLimits::default()
        };
        let mut replay = Replay::new(limits);
        replay.open(A, Seq(0));
        replay.push(A, 0, &frame(1));
        replay.push(A, 5000, &frame(2));
        assert_eq!(seqs(&replay, &[A], 0), None);
        assert_eq!(seqs(&replay, &[A], 1), Some(vec![2]));
        replay.push(A, 5000, &frame(3));
        replay.push(A, 5000, &frame(4));
        assert_eq!(
            seqs(&replay, &[A], 1),
            None,
            "three actions are more than the answer may hold"
        );
        replay.close(A);
        assert_eq!(replay.bytes(), 0);
    }

    #[test]
    fn a_channel_at_rest_forgets_too() {
        let limits = ReplayLimits {
            max_age_ms: 1000,
            ..ReplayLimits::default()
        };
        let mut replay = Replay::new(limits);
        replay.open(A, Seq(0));
        replay.push(A, 0, &frame(1));
        assert!(replay.sweep(1000));
        assert!(!replay.sweep(1001));
        assert_eq!(seqs(&replay, &[A], 0), None);
        assert_eq!(seqs(&replay, &[A], 1), Some(vec![]));
    }

    #[test]
    fn many_windows_are_cut_to_fit_at_once() {
        let limits = ReplayLimits {
            total_bytes: 100 * cost(),
            ..ReplayLimits::default()
        };
        let mut replay = Replay::new(limits);
        for channel in 0..50 {
            replay.open(ChannelId(channel), Seq(0));
        }
        for seq in 1..=101 {
            replay.push(ChannelId(seq % 50), 0, &frame(seq));
        }
        assert!(
            replay.bytes() <= 90 * cost(),
            "one cut makes room for more than one action"
        );
    }

    #[test]
    fn replays_of_several_channels_are_in_one_ascending_order() {
        let mut replay = Replay::new(ReplayLimits::default());
        replay.open(A, Seq(0));
        replay.open(B, Seq(0));
        for (seq, channel) in [(1, A), (2, B), (3, A), (4, B)] {
            replay.push(channel, 0, &frame(seq));
        }
        assert_eq!(seqs(&replay, &[B, A], 1), Some(vec![2, 3, 4]));
    }
}

//! The log of actions: the one way state changes, the numbers it gives out, and the replay window.
//!
//! Only this folder gives out sequence numbers and encodes actions.

pub(crate) mod commit;
mod derive;
pub(crate) mod gaps;
pub(crate) mod replay;
mod touched;

use std::sync::Arc;

use gaps::Gaps;
use replay::{Replay, ReplayLimits};
pub(crate) use touched::Touched;

use crate::ids::{ChannelId, Seq};
use crate::protocol::frame::ActionFrame;
use crate::storage::records::StoredFrame;
use crate::time::Now;

/// The numbers of actions and the window that `reconnect` replays from.
///
/// Invariants: numbers only grow, and no number at or below the start is ever given out.
#[derive(Debug)]
pub(crate) struct Log {
    /// The last sequence number given out.
    last: Seq,
    /// The last sequence number that may be given out, if the store cannot reserve more (P5).
    limit: Option<Seq>,
    /// Every action up to this number is durable.
    durable: Seq,
    /// Numbers before this run of the host that no surviving action has.
    gaps: Gaps,
    replay: Replay,
    /// Whether a sweep of the replay window is scheduled.
    is_sweep_scheduled: bool,
}

impl Log {
    /// A log that continues after `last`, the highest number that any earlier run of this host may have given out
    /// (E-05).
    pub(crate) fn new(limits: ReplayLimits, last: Seq) -> Self {
        let mut gaps = Gaps::default();
        gaps.add(Seq(0), last);
        Self {
            // NEG-24: the published client only reconnects once it has seen a number above zero.
            last: last.max(Seq(1)),
            limit: None,
            durable: Seq(0),
            gaps,
            replay: Replay::new(limits),
            is_sweep_scheduled: false,
        }
    }

    /// The last sequence number given out.
    pub(crate) fn seq(&self) -> Seq {
        self.last
    }

    /// Takes a number that no action gets.
    pub(crate) fn skip_number(&mut self) -> Seq {
        self.next_seq()
    }

    /// Continues after `seq`, because something with numbers up to it was imported.
    pub(crate) fn continue_after(&mut self, seq: Seq) {
        self.last = self.last.max(seq);
    }

    /// Gives out no number above this one.
    pub(crate) fn set_limit(&mut self, limit: Option<Seq>) {
        self.limit = limit;
    }

    /// Notes that every action up to this number is durable.
    pub(crate) fn set_durable(&mut self, seq: Seq) {
        self.durable = self.durable.max(seq);
    }

    /// Every action up to this number is durable.
    pub(crate) fn durable(&self) -> Seq {
        self.durable
    }

    /// Numbers that no surviving action has, for the store.
    pub(crate) fn gaps(&self) -> &Gaps {
        &self.gaps
    }

    /// Takes over the gaps that an earlier run stored.
    pub(crate) fn restore_gaps(&mut self, gaps: Gaps) {
        self.gaps = gaps;
    }

    /// Notes that this run starts after `last`, and that nothing is missing up to `stored`.
    pub(crate) fn add_gap(&mut self, stored: Seq, last: Seq) {
        self.gaps.add(stored, last);
    }

    /// Whether a client that has seen everything up to this number can be helped with a replay: the number was given
    /// out and belongs to nothing that was lost (REC-11, P5).
    pub(crate) fn can_continue_from(&self, last_seen: Seq) -> bool {
        self.gaps.are_clear_of(last_seen) && last_seen <= self.last
    }

    /// Starts the replay window of a channel whose history starts now.
    pub(crate) fn open_channel(&mut self, channel: ChannelId) {
        self.open_channel_at(channel, self.last);
    }

    /// Starts the replay window of a channel whose history started after this number.
    pub(crate) fn open_channel_at(&mut self, channel: ChannelId, created: Seq) {
        self.replay.open(channel, created);
    }

    /// Restores the replay window of a channel; actions up to `forgotten` are not in it.
    pub(crate) fn restore_channel(&mut self, channel: ChannelId, forgotten: Seq, now: Now, log: &[&StoredFrame]) {
        self.replay.restore(channel, forgotten, now, log);
    }

    /// Drops the replay window of a channel.
    pub(crate) fn close_channel(&mut self, channel: ChannelId) {
        self.replay.close(channel);
    }

    /// The actions of these channels after `last_seen`, unless some of them are forgotten.
    pub(crate) fn replay_since(&self, channels: &[ChannelId], last_seen: Seq) -> Option<Vec<Arc<ActionFrame>>> {
        self.replay.since(channels, last_seen)
    }

    /// Forgets everything: every client that reconnects gets snapshots.
    pub(crate) fn forget_replay(&mut self) {
        self.replay.clear(self.last);
    }

    /// Bytes in the replay window.
    pub(crate) fn replay_bytes(&self) -> usize {
        self.replay.bytes()
    }

    /// Notes that the replay window has to be swept. Returns whether a timer has to be set.
    pub(crate) fn needs_sweep_timer(&mut self) -> bool {
        !std::mem::replace(&mut self.is_sweep_scheduled, true)
    }

    /// Forgets actions that are too old. Returns whether some are left, so that a sweep is due again.
    pub(crate) fn sweep(&mut self, now_ms: u64) -> bool {
        self.is_sweep_scheduled = false;
        self.replay.sweep(now_ms)
    }

    /// Returns true if every reserved number was given out (P5).
    fn is_exhausted(&self) -> bool {
        self.limit.is_some_and(|limit| self.last >= limit)
    }

    fn next_seq(&mut self) -> Seq {
        self.last = self.last.next();
        debug_assert!(self.last <= Seq::MAX, "a sequence number every client can read");
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(last: u64) -> Log {
        Log::new(ReplayLimits::default(), Seq(last))
    }

    #[test]
    fn neg24_e05_numbers_start_above_one_and_above_every_earlier_run() {
        assert_eq!(log(0).next_seq(), Seq(2));
        assert_eq!(log(40).next_seq(), Seq(41));
    }

    #[test]
    fn an_import_moves_numbers_forward_and_never_back() {
        let mut log = log(40);
        log.continue_after(Seq(50));
        log.continue_after(Seq(7));
        assert_eq!(log.next_seq(), Seq(51));
    }

    #[test]
    fn p5_a_limit_is_reached_with_its_last_number() {
        let mut log = log(40);
        assert!(!log.is_exhausted());
        log.set_limit(Some(Seq(41)));
        assert!(!log.is_exhausted());
        log.next_seq();
        assert!(log.is_exhausted());
    }

    #[test]
    fn rec11_a_number_of_the_future_or_of_an_earlier_run_cannot_be_continued() {
        let mut log = log(40);
        log.next_seq();
        assert!(log.can_continue_from(Seq(41)));
        assert!(!log.can_continue_from(Seq(42)));
        assert!(!log.can_continue_from(Seq(39)));
    }

    #[test]
    fn one_sweep_is_scheduled_at_a_time() {
        let mut log = log(40);
        assert!(log.needs_sweep_timer());
        assert!(!log.needs_sweep_timer());
        assert!(!log.sweep(0), "nothing is left");
        assert!(log.needs_sweep_timer());
    }
}

//! Deadlines of the core, in the order in which they are due.

use std::collections::BTreeSet;

use crate::ids::{ChannelId, ClientId};

/// The purpose of a deadline.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A client's grace period ends.
    EndGrace(ClientId),
    /// A draft is deleted unless it has subscribers.
    ExpireDraft(ChannelId),
    /// The changes of a session's summary are announced.
    AnnounceSummary(ChannelId),
    /// The watchdog checks whether a chat's agent is alive.
    CheckWatchdog(ChannelId),
    /// The replay window forgets actions that are too old.
    SweepReplay,
    /// Clients that changed are persisted.
    PersistClients,
    /// Idle sessions leave memory.
    EvictIdle,
    /// Sessions that were deleted long ago are removed for good.
    PurgeDeleted,
    /// A token of a client expires.
    ExpireTokens(ClientId),
    /// A deadline of a channel whose part knows the reason.
    Channel(ChannelId),
    /// Turns of a session stop waiting for MCP servers.
    StopWaitingForServers(ChannelId),
    /// A token of MCP servers expires.
    ExpireServerToken(String),
    /// The agent of a session is asked which tools it offers.
    ListTools(ChannelId),
}

/// All deadlines, in milliseconds of the monotonic clock.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: BTreeSet<(u64, Timer)>,
}

impl Timers {
    /// Sets a timer. The same timer may be set for several moments.
    pub(crate) fn set(&mut self, at_ms: u64, timer: Timer) {
        self.due.insert((at_ms, timer));
    }

    /// Removes a timer that was set for this moment.
    pub(crate) fn cancel(&mut self, at_ms: u64, timer: Timer) {
        self.due.remove(&(at_ms, timer));
    }

    /// Removes the timers of all watchdogs.
    pub(crate) fn cancel_watchdogs(&mut self) {
        self.due.retain(|(_, timer)| !matches!(timer, Timer::CheckWatchdog(_)));
    }

    /// The next deadline.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.due.first().map(|(at_ms, _)| *at_ms)
    }

    /// Removes and returns the next timer that is due.
    pub(crate) fn pop_due(&mut self, now_ms: u64) -> Option<Timer> {
        let (at_ms, _) = self.due.first()?;
        if *at_ms > now_ms {
            return None;
        }
        self.due.pop_first().map(|(_, timer)| timer)
    }

    /// Whether the grace period of a client still runs.
    pub(crate) fn awaits(&self, client: &ClientId) -> bool {
        let mut timers = self.due.iter();
        timers.any(|(_, timer)| matches!(timer, Timer::EndGrace(awaited) if awaited == client))
    }

    /// The sessions whose summary changes are to be announced, in the order of their ids.
    pub(crate) fn scheduled_summaries(&self) -> Vec<ChannelId> {
        let timers = self.due.iter().map(|(_, timer)| timer);
        let sessions = timers.filter_map(|timer| match timer {
            Timer::AnnounceSummary(session) => Some(*session),
            _ => None,
        });
        let mut sessions: Vec<ChannelId> = sessions.collect();
        sessions.sort_unstable();
        sessions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_in_order_and_only_when_they_are_due() {
        let mut timers = Timers::default();
        timers.set(20, Timer::SweepReplay);
        timers.set(10, Timer::EvictIdle);
        timers.set(30, Timer::PurgeDeleted);
        timers.cancel(30, Timer::PurgeDeleted);
        assert_eq!(timers.next_deadline(), Some(10));
        assert_eq!(timers.pop_due(9), None);
        assert_eq!(timers.pop_due(25), Some(Timer::EvictIdle));
        assert_eq!(timers.pop_due(25), Some(Timer::SweepReplay));
        assert_eq!(timers.pop_due(u64::MAX), None);
    }

    #[test]
    fn timers_are_looked_up_by_purpose() {
        let mut timers = Timers::default();
        timers.set(1, Timer::AnnounceSummary(ChannelId(9)));
        timers.set(2, Timer::AnnounceSummary(ChannelId(3)));
        timers.set(3, Timer::CheckWatchdog(ChannelId(3)));
        timers.set(4, Timer::EndGrace(ClientId::new("c")));
        assert_eq!(timers.scheduled_summaries(), [ChannelId(3), ChannelId(9)]);
        assert!(timers.awaits(&ClientId::new("c")));
        assert!(!timers.awaits(&ClientId::new("d")));
        timers.cancel_watchdogs();
        assert_eq!(timers.pop_due(9), Some(Timer::AnnounceSummary(ChannelId(9))));
        assert_eq!(timers.pop_due(9), Some(Timer::AnnounceSummary(ChannelId(3))));
        assert_eq!(timers.pop_due(9), Some(Timer::EndGrace(ClientId::new("c"))));
    }
}

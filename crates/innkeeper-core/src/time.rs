//! Time as an input: the core never reads a clock.

use jiff::{SignedDuration, Timestamp};

/// The moment an input is handled, as seen by the shell's two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds of a monotonic clock; decides timeouts and durations.
    pub mono_ms: u64,
    /// Wall clock; only shown to users, never used for order.
    pub wall: Timestamp,
}

impl Now {
    /// The wall clock at another moment of the monotonic one, if it is not set between.
    pub(crate) fn wall_at(&self, mono_ms: u64) -> Timestamp {
        let passed =
            SignedDuration::from_millis(i64::try_from(mono_ms.saturating_sub(self.mono_ms)).unwrap_or(i64::MAX));
        self.wall.saturating_add(passed).unwrap_or(self.wall)
    }

    /// Formats the wall clock the way the reducers format it: RFC 3339, milliseconds, `Z`.
    pub fn rfc3339(&self) -> String {
        rfc3339(self.wall)
    }
}

/// Formats a timestamp as RFC 3339 with millisecond precision (TURN-10).
pub fn rfc3339(at: Timestamp) -> String {
    format!("{at:.3}")
}

//! Options of a journal.

use std::time::Duration;

/// Options of a journal. The defaults suit a host on a personal machine.
#[derive(Debug, Clone)]
pub struct Options {
    /// Retention of actions for replay. Actions that are needed to restore sessions are always retained.
    pub replay: ReplayLimits,
    /// Maximum bytes of unwritten batches before the host has to wait (P1).
    pub queue_bytes: usize,
    /// How long streamed output is collected before it is written, unless a durable batch waits.
    pub gather: Duration,
    /// Maximum bytes of streamed output that are collected before they are written.
    pub gather_bytes: usize,
    /// Maximum time until written output is synced (P1).
    pub sync_within: Duration,
    /// Maximum number of recent turns that are loaded with a chat.
    pub recent_turns: usize,
    /// Maximum bytes of them. The last turn is always loaded.
    pub recent_bytes: usize,
    /// Maximum number of persisted clients.
    pub clients: usize,
    /// SQLite VFS. Tests use one that fails.
    #[doc(hidden)]
    pub vfs: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            replay: ReplayLimits::default(),
            queue_bytes: 32 << 20,
            gather: Duration::from_millis(10),
            gather_bytes: 256 << 10,
            sync_within: Duration::from_millis(250),
            recent_turns: 20,
            recent_bytes: 256 << 10,
            clients: 1000,
            vfs: None,
        }
    }
}

/// Retention of actions for reconnecting clients. Actions that are needed to restore a session do not count and are
/// never dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayLimits {
    /// Maximum age.
    pub age: Duration,
    /// Maximum bytes per channel.
    pub channel_bytes: u64,
    /// Maximum bytes of all channels.
    pub total_bytes: u64,
}

impl Default for ReplayLimits {
    fn default() -> Self {
        Self {
            age: Duration::from_secs(3600),
            channel_bytes: 8 << 20,
            total_bytes: 64 << 20,
        }
    }
}

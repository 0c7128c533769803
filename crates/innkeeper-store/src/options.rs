//! How much is kept, gathered and remembered.

use std::time::Duration;

/// How a journal works. The defaults suit a host on a person's machine.
#[derive(Debug, Clone)]
pub struct Options {
    /// What is kept for replay beyond what is needed to bring sessions back.
    pub replay: ReplayLimits,
    /// How many bytes may wait to be written behind before the host has to wait (P1).
    pub queue_bytes: usize,
    /// How long streamed output is gathered before it is written, unless something durable waits.
    pub gather: Duration,
    /// How many bytes of streamed output are gathered before they are written.
    pub gather_bytes: usize,
    /// How long after it was written streamed output survives a power cut at the latest (P1).
    pub sync_within: Duration,
    /// How many turns of the end of a chat are loaded with it.
    pub recent_turns: usize,
    /// How many bytes of them; the last turn is loaded whatever its size.
    pub recent_bytes: usize,
    /// How many clients are remembered.
    pub clients: usize,
    /// The SQLite VFS to use: tests run a journal on a disk that fails.
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

/// What is kept of logs for clients that reconnect. What a session is brought back from does not
/// count, and is never dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayLimits {
    /// For how long.
    pub age: Duration,
    /// How many bytes of one channel.
    pub channel_bytes: u64,
    /// How many bytes of all channels together.
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

//! What servers write for people, in the host's log: `notifications/message` at the level they say, their standard
//! error at `debug`. Once per server, however many sessions share it; so many lines as people can read; and as JSON
//! or quoted text, so that no line of a server passes for one of the host's (T15).

use std::sync::Arc;
use std::time::Duration;

use innkeeper_std::sync::Mutex;
use innkeeper_std::text::prefix;
use tokio::time::Instant;

use super::levels::LEVELS;
use crate::engine::auth::Credentials;
use crate::engine::secret::Scrubber;
use crate::engine::state::LogMessage;

/// Most lines of one server within [`PERIOD`].
const MAX_LINES: usize = 20;
const PERIOD: Duration = Duration::from_secs(1);
/// Longest line.
const MAX_LINE_BYTES: usize = 4 << 10;
/// How much of a line without an end is gathered; what is cut off is looked through for secrets first.
const MAX_GATHERED: usize = 16 << 10;

/// The host's log, for one server.
#[derive(Clone, Debug)]
pub(crate) struct HostLog {
    server: String,
    scrubber: Arc<Scrubber>,
    /// Whose token is no more to be seen than what is configured (AUTH-12).
    credentials: Option<Arc<Credentials>>,
    rate: Arc<Mutex<Rate>>,
}

impl HostLog {
    pub(crate) fn new(server: String, scrubber: Arc<Scrubber>, credentials: Option<Arc<Credentials>>) -> Self {
        Self {
            server,
            scrubber,
            credentials,
            rate: Arc::default(),
        }
    }

    /// Text of the server without secrets.
    pub(crate) fn scrub(&self, text: &str) -> String {
        match &self.credentials {
            Some(credentials) => credentials.scrub(&self.scrubber, text),
            None => self.scrubber.scrub(text),
        }
    }

    /// Writes a line that the server wrote for its log, which has no secrets any more.
    pub(crate) fn message(&self, message: &LogMessage) {
        let Some(left_out) = self.admit() else { return };
        let server = &self.server;
        let logger = cut(message.logger.as_deref().unwrap_or_default());
        // JSON has no line breaks, and no control characters.
        let says = message.data.to_string();
        let says = cut(&says);
        // The log has fewer levels than MCP, and telemetry more (OTL-04): the word itself goes along.
        let mcp_level = level(&message.level);
        match mcp_level {
            "debug" => tracing::debug!(server, mcp_level, logger, left_out, says, "an MCP server wrote"),
            "warning" => tracing::warn!(server, mcp_level, logger, left_out, says, "an MCP server wrote"),
            "error" | "critical" | "alert" | "emergency" => {
                tracing::error!(server, mcp_level, logger, left_out, says, "an MCP server wrote");
            }
            _ => tracing::info!(server, mcp_level, logger, left_out, says, "an MCP server wrote"),
        }
    }

    /// Writes that the server wanted something that it does not get. What it wanted is as it says, and may be anything.
    pub(crate) fn refused(&self, method: &str, why: &str) {
        let Some(left_out) = self.admit() else { return };
        let server = &self.server;
        let (method, why) = (self.scrub(method), self.scrub(why));
        let (method, why) = (cut(&method), cut(&why));
        tracing::info!(server, left_out, method, why, "an MCP server was refused what it asked");
    }

    fn standard_error(&self, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        if line.trim().is_empty() {
            return;
        }
        if let Some(left_out) = self.admit() {
            let (server, says) = (&self.server, self.scrub(line.trim_end()));
            let says = cut(&says);
            tracing::debug!(server, left_out, says, "an MCP server wrote to its standard error");
        }
    }

    /// Whether another line may be written, and how many were left out before it.
    fn admit(&self) -> Option<usize> {
        let mut rate = self.rate.lock();
        rate.admit(Instant::now())
    }
}

/// A level of MCP; a word that is none of them counts as `info`.
fn level(word: &str) -> &'static str {
    LEVELS.into_iter().find(|level| *level == word).unwrap_or("info")
}

fn cut(text: &str) -> &str {
    prefix(text, MAX_LINE_BYTES)
}

#[derive(Debug)]
struct Rate {
    since: Instant,
    written: usize,
    left_out: usize,
}

impl Default for Rate {
    fn default() -> Self {
        Self {
            since: Instant::now(),
            written: 0,
            left_out: 0,
        }
    }
}

impl Rate {
    fn admit(&mut self, now: Instant) -> Option<usize> {
        if now.duration_since(self.since) >= PERIOD {
            self.since = now;
            self.written = 0;
        }
        if self.written >= MAX_LINES {
            self.left_out += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Standard error as it comes, cut into lines.
#[derive(Debug)]
pub(crate) struct StandardError {
    log: HostLog,
    line: Vec<u8>,
    /// The rest of this line is left out.
    skips: bool,
}

impl StandardError {
    pub(crate) fn new(log: HostLog) -> Self {
        Self {
            log,
            line: Vec::new(),
            skips: false,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if !self.skips {
                self.line.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                self.skips = false;
            } else if self.line.len() < MAX_GATHERED {
                continue;
            } else {
                self.skips = true;
            }
            let line = std::mem::take(&mut self.line);
            self.log.standard_error(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn f17_a_server_fills_no_log() {
        let mut rate = Rate::default();
        let now = rate.since;
        let admitted = (0..100).filter_map(|_| rate.admit(now)).count();
        assert_eq!(admitted, MAX_LINES);
        assert_eq!(rate.admit(now + PERIOD), Some(80), "and it is said how much is missing");
        assert_eq!(rate.admit(now + PERIOD), Some(0));
    }
}

//! Output of servers in the host's log: `notifications/message` at its own level, standard error at `debug`. Each line is
//! logged once, however many sessions share the server. The rate is bounded. Lines are JSON or quoted text, so that no server
//! can forge a line of the host (T15).

use std::sync::Arc;
use std::time::Duration;

use innkeeper_std::sync::Mutex;
use innkeeper_std::text::prefix;
use tokio::time::Instant;

use super::levels::LEVELS;
use crate::engine::auth::Credentials;
use crate::engine::secret::Scrubber;
use crate::engine::state::LogMessage;

/// The number of lines of one server within [`PERIOD`].
const MAX_LINES: usize = 20;
const PERIOD: Duration = Duration::from_secs(1);
/// The longest line.
const MAX_LINE_BYTES: usize = 4 << 10;
/// The longest line that is collected. Secrets are removed before it is cut.
const MAX_GATHERED: usize = 16 << 10;

/// The host's log, for one server.
#[derive(Clone, Debug)]
pub(crate) struct HostLog {
    server: String,
    scrubber: Arc<Scrubber>,
    /// The credentials whose token is hidden (AUTH-12).
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

    /// Removes secrets from text of the server.
    pub(crate) fn scrub(&self, text: &str) -> String {
        match &self.credentials {
            Some(credentials) => credentials.scrub(&self.scrubber, text),
            None => self.scrubber.scrub(text),
        }
    }

    /// Logs a message of the server, from which secrets were removed.
    pub(crate) fn message(&self, message: &LogMessage) {
        let Some(left_out) = self.admit() else { return };
        let server = &self.server;
        let logger = cut(message.logger.as_deref().unwrap_or_default());
        // JSON has no line breaks, and no control characters.
        let says = message.data.to_string();
        let says = cut(&says);
        // The log has fewer levels than MCP, and telemetry more (OTL-04): the MCP level is logged too.
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

    /// Logs a refused request of the server. Its method can be any text.
    pub(crate) fn refused(&self, method: &str, why: &str) {
        let Some(left_out) = self.admit() else { return };
        let server = &self.server;
        let (method, why) = (self.scrub(method), self.scrub(why));
        let (method, why) = (cut(&method), cut(&why));
        tracing::info!(server, left_out, method, why, "a request of an MCP server was refused");
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

    /// Returns the number of dropped lines if another line may be written.
    fn admit(&self) -> Option<usize> {
        let mut rate = self.rate.lock();
        rate.admit(Instant::now())
    }
}

/// Returns a level of MCP; other words count as `info`.
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

/// Standard error, split into lines.
#[derive(Debug)]
pub(crate) struct StandardError {
    log: HostLog,
    line: Vec<u8>,
    /// The rest of this line is dropped.
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
    async fn f17_the_log_rate_of_a_server_is_bounded() {
        let mut rate = Rate::default();
        let now = rate.since;
        let admitted = (0..100).filter_map(|_| rate.admit(now)).count();
        assert_eq!(admitted, MAX_LINES);
        assert_eq!(rate.admit(now + PERIOD), Some(80), "and it is said how much is missing");
        assert_eq!(rate.admit(now + PERIOD), Some(0));
    }
}

//! How much of what a server says is passed on (F17).

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use innkeeper_std::text::truncate_counted;
use serde_json::Value;
use tokio::time::Instant;

use super::{ServerReport, ServerStatus};

/// Longest message of an error.
const MAX_MESSAGE_BYTES: usize = 16 << 10;
/// Most that an error has besides, as JSON.
const MAX_DATA_BYTES: usize = 64 << 10;
/// Longest line of a log, as JSON.
const MAX_LINE_BYTES: usize = 8 << 10;
/// Longest name of a part of a server, or of how important something is.
const MAX_NAME_BYTES: usize = 256;
/// Maximum lines of one server within [`PERIOD`].
const MAX_LINES: usize = 100;
const PERIOD: Duration = Duration::from_secs(1);

/// Truncates the message of an error for users and models.
pub(crate) fn message(text: String) -> String {
    cut(text, MAX_MESSAGE_BYTES)
}

/// Returns the data of an error, unless it is too large.
pub(crate) fn data(data: Value) -> Option<Value> {
    (data.to_string().len() <= MAX_DATA_BYTES).then_some(data)
}

/// Shortens a text and says how many bytes are missing, without a copy if it is short.
pub(super) fn cut(text: String, most: usize) -> String {
    match truncate_counted(&text, most) {
        Cow::Borrowed(_) => text,
        Cow::Owned(shortened) => shortened,
    }
}

/// How much the servers of a session have written lately.
#[derive(Debug, Default)]
pub(super) struct Written(HashMap<String, Lines>);

#[derive(Debug)]
struct Lines {
    since: Instant,
    count: usize,
    dropped: usize,
}

impl Written {
    /// Returns the reports of a server to pass on, in order.
    pub(super) fn pass(&mut self, server: &str, report: ServerReport, now: Instant) -> Vec<ServerReport> {
        let (level, logger, data) = match report {
            ServerReport::Log { level, logger, data } => (level, logger, data),
            ServerReport::Status(ServerStatus::Failed(mut failure)) => {
                failure.message = message(failure.message);
                return vec![ServerReport::Status(ServerStatus::Failed(failure))];
            }
            other => return vec![other],
        };
        let lines = self.0.entry(server.to_owned()).or_insert(Lines {
            since: now,
            count: 0,
            dropped: 0,
        });
        if now.duration_since(lines.since) >= PERIOD {
            lines.since = now;
            lines.count = 0;
        }
        if lines.count >= MAX_LINES {
            lines.dropped += 1;
            return Vec::new();
        }
        lines.count += 1;
        let mut passed = Vec::new();
        let dropped = std::mem::take(&mut lines.dropped);
        if dropped > 0 {
            passed.push(ServerReport::Log {
                level: "warning".to_owned(),
                logger: None,
                data: format!("{dropped} lines before this one were left out: the server wrote too many at once")
                    .into(),
            });
        }
        passed.push(ServerReport::Log {
            level: cut(level, MAX_NAME_BYTES),
            logger: logger.map(|logger| cut(logger, MAX_NAME_BYTES)),
            data: line(data),
        });
        passed
    }
}

fn line(data: Value) -> Value {
    match data {
        Value::String(text) => Value::String(cut(text, MAX_LINE_BYTES)),
        data => match data.to_string() {
            text if text.len() > MAX_LINE_BYTES => Value::String(cut(text, MAX_LINE_BYTES)),
            _ => data,
        },
    }
}

#[cfg(test)]
mod tests {
    use innkeeper_core::Failure;
    use serde_json::json;

    use super::*;

    fn log(data: Value) -> ServerReport {
        ServerReport::Log {
            level: "info".to_owned(),
            logger: None,
            data,
        }
    }

    #[test]
    fn f17_a_server_that_writes_without_end_is_not_passed_on_without_end() {
        let mut written = Written::default();
        let now = Instant::now();
        let passed = |written: &mut Written, server: &str, now| written.pass(server, log(json!("hello")), now);
        for n in 0..250 {
            assert_eq!(passed(&mut written, "loud", now).len(), usize::from(n < MAX_LINES));
        }
        assert_eq!(passed(&mut written, "quiet", now).len(), 1, "each server has its own");
        let later = passed(&mut written, "loud", now + PERIOD);
        let [ServerReport::Log { data, .. }, next] = later.as_slice() else {
            panic!("{later:?}");
        };
        assert!(
            data.as_str().is_some_and(|text| text.starts_with("150 lines")),
            "{data}"
        );
        assert_eq!(*next, log(json!("hello")));
    }

    #[test]
    fn f17_long_lines_and_failures_are_cut() {
        let mut written = Written::default();
        let now = Instant::now();
        for data in [json!("ä".repeat(1 << 20)), json!(["x".repeat(1 << 20)])] {
            let passed = written.pass("s", log(data), now);
            let [ServerReport::Log { data, .. }] = passed.as_slice() else {
                panic!("{passed:?}");
            };
            assert!(data.to_string().len() < MAX_LINE_BYTES + 64);
        }
        let failed = ServerStatus::Failed(Failure::new("crashed", "x".repeat(1 << 20)));
        let passed = written.pass("s", ServerReport::Status(failed), now);
        assert!(format!("{passed:?}").len() < MAX_MESSAGE_BYTES + 256);
    }
}

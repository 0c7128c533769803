//! What the tour agent performs on command.

use std::time::Duration;

/// Most deltas of one `/stream`.
const MAX_COUNT: u64 = 100_000_000;
/// Longest delta of `/stream`.
const MAX_BYTES: usize = 64 << 10;
/// Longest `/slow`.
const MAX_SECONDS: u64 = 3600;

/// A parsed slash command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    /// `/help`.
    Help,
    /// `/stream <count> [<delay-ms>] [<bytes-per-delta>]`.
    Stream { count: u64, delay: Duration, bytes: usize },
    /// `/reason <text>`.
    Reason(String),
    /// `/error [resumable]`.
    Error { resumable: bool },
    /// `/usage`.
    Usage,
    /// `/slow <seconds>`.
    Slow(u64),
}

impl Command {
    /// Reads a message: a command, plain words (`None`), or a command used wrongly, with what to
    /// say about it.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, String> {
        let Some(line) = text.trim().strip_prefix('/') else {
            return Ok(None);
        };
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let arguments: Vec<&str> = rest.split_whitespace().collect();
        let command = match (name, arguments.as_slice()) {
            ("help", _) => Self::Help,
            ("stream", [count, more @ ..]) if more.len() <= 2 => {
                let count = number(count, MAX_COUNT).ok_or_else(|| usage("stream"))?;
                let delay = more
                    .first()
                    .map_or(Some(0), |delay| number(delay, 60_000))
                    .ok_or_else(|| usage("stream"))?;
                let bytes = more
                    .get(1)
                    .map_or(Some(16), |bytes| number(bytes, MAX_BYTES as u64))
                    .ok_or_else(|| usage("stream"))?;
                Self::Stream {
                    count,
                    delay: Duration::from_millis(delay),
                    bytes: usize::try_from(bytes).unwrap_or(MAX_BYTES),
                }
            }
            ("reason", [_, ..]) => Self::Reason(rest.to_owned()),
            ("error", []) => Self::Error { resumable: false },
            ("error", ["resumable"]) => Self::Error { resumable: true },
            ("usage", []) => Self::Usage,
            ("slow", [seconds]) => Self::Slow(number(seconds, MAX_SECONDS).ok_or_else(|| usage("slow"))?),
            ("stream" | "reason" | "error" | "usage" | "slow", _) => return Err(usage(name)),
            _ => {
                return Err(format!(
                    "I do not know the command /{name}. /help lists the ones I know."
                ));
            }
        };
        Ok(Some(command))
    }
}

/// The commands and what they do, as `/help` shows them.
pub(super) const COMMANDS: &[(&str, &str)] = &[
    (
        "/stream <count> [<delay-ms>] [<bytes-per-delta>]",
        "streams exactly that many deltas into one part",
    ),
    ("/reason <text>", "thinks aloud before it answers"),
    (
        "/error [resumable]",
        "fails, for good or so that the turn can be resumed",
    ),
    ("/usage", "reports token counts"),
    ("/slow <seconds>", "takes its time and shows what it is doing"),
    ("/help", "lists these commands"),
];

fn usage(name: &str) -> String {
    let form = COMMANDS
        .iter()
        .map(|(form, _)| *form)
        .find(|form| form.trim_start_matches('/').starts_with(name))
        .unwrap_or("/help");
    format!("That is not how /{name} is used. It goes like this: `{form}`")
}

fn number(text: &str, most: u64) -> Option<u64> {
    text.parse().ok().filter(|number| *number <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_and_mistakes_are_explained() {
        let stream = |count, delay, bytes| {
            Ok(Some(Command::Stream {
                count,
                delay: Duration::from_millis(delay),
                bytes,
            }))
        };
        assert_eq!(Command::parse("hello /stream"), Ok(None));
        assert_eq!(Command::parse("/stream 5"), stream(5, 0, 16));
        assert_eq!(Command::parse("  /stream 5 10 40\n"), stream(5, 10, 40));
        assert_eq!(
            Command::parse("/error resumable"),
            Ok(Some(Command::Error { resumable: true }))
        );
        assert_eq!(Command::parse("/reason a  b"), Ok(Some(Command::Reason("a  b".into()))));
        for wrong in [
            "/stream",
            "/stream x",
            "/stream 1 2 3 4",
            "/stream -1",
            "/slow",
            "/slow 99999",
            "/reason",
            "/error maybe",
        ] {
            assert!(
                Command::parse(wrong).unwrap_err().contains("It goes like this"),
                "{wrong}"
            );
        }
        assert!(Command::parse("/dance").unwrap_err().contains("/help"));
    }
}

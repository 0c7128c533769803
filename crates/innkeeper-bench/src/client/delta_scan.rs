//! Finds the content of `chat/delta` messages without parsing each of them.
//!
//! All deltas of a turn are equal up to their content. The first one is parsed as JSON; each later
//! one that starts with the same bytes is measured by looking for the end of its content.

use std::borrow::Cow;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The meaning of a message for a benchmark of deltas.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message<'payload> {
    /// One delta, or several adjacent ones merged, with the content.
    Delta(Cow<'payload, [u8]>),
    /// The turn with this id ended as planned.
    TurnComplete(String),
    /// The turn failed or was refused; the message says how.
    TurnFailed(String),
    /// Something that has no part in the measurement.
    Other,
}

/// The bytes around the content of a delta message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeltaFrame {
    /// Everything up to and with the quote that opens the content.
    pub(crate) prefix: String,
    /// Everything from the quote that closes the content.
    pub(crate) suffix: String,
}

/// Reads messages of one turn.
#[derive(Default)]
pub(crate) struct DeltaScanner {
    known_prefix: Vec<u8>,
}

impl DeltaScanner {
    /// Reads one message.
    pub(crate) fn scan<'payload>(&mut self, payload: &'payload [u8]) -> Result<Message<'payload>> {
        if let Some(content) = self.content_after_known_prefix(payload) {
            return Ok(Message::Delta(Cow::Borrowed(content)));
        }
        self.parse(payload)
            .with_context(|| format!("cannot read the server's message {}", String::from_utf8_lossy(payload)))
    }

    /// Splits a delta message with this content at the content.
    pub(crate) fn split(&self, payload: &[u8], content: &[u8]) -> Option<DeltaFrame> {
        let prefix_length = self.known_prefix.len();
        if prefix_length == 0 || !payload.starts_with(&self.known_prefix) {
            return None;
        }
        let suffix = payload.get(prefix_length + content.len()..)?;
        Some(DeltaFrame {
            prefix: String::from_utf8(self.known_prefix.clone()).ok()?,
            suffix: String::from_utf8(suffix.to_vec()).ok()?,
        })
    }

    fn content_after_known_prefix<'payload>(&self, payload: &'payload [u8]) -> Option<&'payload [u8]> {
        if self.known_prefix.is_empty() {
            return None;
        }
        let rest = payload.strip_prefix(self.known_prefix.as_slice())?;
        let end = rest.iter().position(|&byte| byte == b'"' || byte == b'\\')?;
        // An escape makes the content shorter than its bytes: that is left to the JSON parser.
        (rest[end] == b'"').then(|| &rest[..end])
    }

    fn parse<'payload>(&mut self, payload: &'payload [u8]) -> Result<Message<'payload>> {
        let envelope: Envelope<'_> = serde_json::from_slice(payload)?;
        if let Some(error) = envelope.error {
            return Ok(Message::TurnFailed(error.get().to_owned()));
        }
        let Some(params) = envelope.params else {
            return Ok(Message::Other);
        };
        if let Some(reason) = params.rejection_reason {
            return Ok(Message::TurnFailed(reason.into_owned()));
        }
        let Some(action) = params.action else {
            return Ok(Message::Other);
        };
        Ok(match action.kind.as_ref() {
            // Up to 0.3 the session is the chat.
            "chat/delta" | "session/delta" => {
                let content = action.content.context("a delta without content")?;
                self.learn_prefix(payload, content);
                let text: String = serde_json::from_str(content.get())?;
                Message::Delta(Cow::Owned(text.into_bytes()))
            }
            "chat/turnComplete" | "session/turnComplete" => {
                Message::TurnComplete(action.turn_id.unwrap_or_default().into_owned())
            }
            failed @ ("chat/error" | "chat/turnCancelled" | "session/error" | "session/turnCancelled") => {
                Message::TurnFailed(failed.to_owned())
            }
            _ => Message::Other,
        })
    }

    /// Remembers how deltas start, if that start alone tells a delta from other actions.
    fn learn_prefix(&mut self, payload: &[u8], content: &RawValue) {
        let opening_quote = content.get().as_ptr().addr() - payload.as_ptr().addr();
        let prefix = &payload[..=opening_quote];
        let is_kind = |kind: &[u8]| prefix.windows(kind.len()).any(|window| window == kind);
        if is_kind(b"\"chat/delta\"") || is_kind(b"\"session/delta\"") {
            self.known_prefix = prefix.to_vec();
        }
    }
}

#[derive(Deserialize)]
struct Envelope<'payload> {
    #[serde(borrow)]
    params: Option<Params<'payload>>,
    #[serde(borrow)]
    error: Option<&'payload RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'payload> {
    #[serde(borrow)]
    action: Option<Action<'payload>>,
    #[serde(borrow)]
    rejection_reason: Option<Cow<'payload, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Action<'payload> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'payload, str>,
    #[serde(borrow)]
    turn_id: Option<Cow<'payload, str>>,
    #[serde(borrow)]
    content: Option<&'payload RawValue>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(content: &str, server_seq: u64) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","method":"action","params":{{"channel":"ahp-chat:/c","action":{{"type":"chat/delta","turnId":"t","partId":"p","content":"{content}"}},"serverSeq":{server_seq}}}}}"#
        )
    }

    fn content(scanner: &mut DeltaScanner, payload: &str) -> String {
        match scanner.scan(payload.as_bytes()).unwrap() {
            Message::Delta(content) => String::from_utf8(content.into_owned()).unwrap(),
            other => panic!("not a delta: {other:?}"),
        }
    }

    #[test]
    fn the_first_delta_teaches_and_later_ones_are_only_scanned() {
        let mut scanner = DeltaScanner::default();
        assert_eq!(content(&mut scanner, &delta("first", 1)), "first");
        let second = delta("second, longer", 2);
        assert!(matches!(
            scanner.scan(second.as_bytes()),
            Ok(Message::Delta(Cow::Borrowed(b"second, longer")))
        ));
    }

    #[test]
    fn escapes_count_as_their_characters() {
        let mut scanner = DeltaScanner::default();
        assert_eq!(content(&mut scanner, &delta(r"a\nb", 1)), "a\nb");
        assert_eq!(content(&mut scanner, &delta(r#"c\"d"#, 2)), "c\"d");
        assert_eq!(content(&mut scanner, &delta("", 3)), "");
    }

    #[test]
    fn a_type_behind_the_content_is_still_read() {
        let payload = r#"{"params":{"serverSeq":1,"action":{"content":"abc","type":"chat/delta"}}}"#;
        let mut scanner = DeltaScanner::default();
        assert_eq!(content(&mut scanner, payload), "abc");
        assert!(scanner.known_prefix.is_empty());
        let other = r#"{"params":{"serverSeq":1,"action":{"content":["abc"],"type":"chat/x"}}}"#;
        assert_eq!(scanner.scan(other.as_bytes()).unwrap(), Message::Other);
    }

    #[test]
    fn a_split_delta_can_be_put_together_again() {
        let mut scanner = DeltaScanner::default();
        let payload = delta("abc", 7);
        assert_eq!(scanner.split(payload.as_bytes(), b"abc"), None);
        content(&mut scanner, &payload);
        let frame = scanner.split(payload.as_bytes(), b"abc").unwrap();
        assert_eq!(format!("{}abc{}", frame.prefix, frame.suffix), payload);
    }

    #[test]
    fn ends_and_failures_of_turns_are_distinguished() {
        let mut scanner = DeltaScanner::default();
        let complete = r#"{"params":{"action":{"type":"chat/turnComplete","turnId":"t9"}}}"#;
        assert_eq!(
            scanner.scan(complete.as_bytes()).unwrap(),
            Message::TurnComplete("t9".to_owned())
        );
        for failed in [
            r#"{"params":{"action":{"type":"chat/error","turnId":"t9"}}}"#,
            r#"{"params":{"action":{"type":"chat/turnStarted"},"rejectionReason":"busy"}}"#,
            r#"{"error":{"code":-32601,"message":"no"}}"#,
        ] {
            assert!(matches!(
                scanner.scan(failed.as_bytes()).unwrap(),
                Message::TurnFailed(_)
            ));
        }
        let started = r#"{"params":{"action":{"type":"chat/turnStarted","turnId":"t9"}}}"#;
        assert_eq!(scanner.scan(started.as_bytes()).unwrap(), Message::Other);
        assert!(scanner.scan(b"{").is_err());
    }
}

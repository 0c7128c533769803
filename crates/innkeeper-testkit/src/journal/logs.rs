//! Comparing what came back with what was said.

use std::fmt::Write;
use std::sync::Arc;

use innkeeper_core::records::{StoredFrame, StoredSession};
use innkeeper_core::{ActionFrame, Seq};
use serde_json::Value;

/// The content of a frame: an append is split into its target and its text, any other action is a whole.
#[derive(Debug, Clone, PartialEq)]
struct FrameContent {
    what: Value,
    text: Option<String>,
}

impl FrameContent {
    fn decode(bytes: &[u8], seq: Seq) -> Self {
        let message: Value = serde_json::from_slice(bytes).expect("a kept frame is JSON");
        let mut params = message["params"].clone();
        assert_eq!(params["serverSeq"], seq.0, "a kept frame carries its own number");
        params["serverSeq"] = Value::Null;
        let is_append = ["chat/delta", "chat/reasoning"]
            .iter()
            .any(|kind| params["action"]["type"] == **kind);
        let text = is_append
            .then(|| params["action"]["content"].take())
            .and_then(|text| text.as_str().map(str::to_owned));
        Self { what: params, text }
    }
}

/// Checks what came back of a channel's log against the actions that were said in it, where
/// everything up to `folded` is part of a document.
///
/// # Panics
///
/// If anything is missing that is needed, or changed, or merged where it must not be.
pub fn check_log(channel: &str, said: &[Arc<ActionFrame>], folded: Seq, log: &[StoredFrame]) {
    let kept: Vec<_> = log.iter().filter(|frame| &*frame.channel == channel).collect();
    let start = kept.first().map_or(Seq(u64::MAX), |frame| frame.first);
    let mut rest = said.iter().skip_while(|frame| frame.seq < start).peekable();
    if let Some(lost) = said.iter().find(|frame| frame.seq > folded && frame.seq < start) {
        panic!(
            "{channel}: action {} is not part of the document and not in the log",
            lost.seq
        );
    }
    for frame in kept {
        let (first, last) = (frame.first, frame.seq);
        assert!(first <= last, "{channel}: a frame from {first} to {last}");
        assert!(
            last <= folded || first > folded,
            "{channel}: the frame from {first} to {last} is in part in the document, which ends at {folded}"
        );
        let next = rest.peek().map(|frame| frame.seq);
        assert_eq!(Some(first), next, "{channel}: the log goes on where it stopped");
        let mut whole: Option<FrameContent> = None;
        let mut end = None;
        while let Some(part) = rest.next_if(|part| part.seq <= last) {
            let part_said = FrameContent::decode(&part.bytes, part.seq);
            end = Some(part);
            whole = Some(match whole {
                None => part_said,
                Some(before) => joined(before, part_said),
            });
        }
        assert_eq!(
            end.map(|part| part.seq),
            Some(last),
            "{channel}: a frame ends with an action"
        );
        assert_eq!(
            whole,
            Some(FrameContent::decode(&frame.bytes, last)),
            "{channel}: action {last}"
        );
        if first == last {
            assert!(
                end.is_some_and(|part| part.bytes[..] == frame.bytes[..]),
                "{channel}: action {last} comes back as other bytes"
            );
        }
        assert!(frame.at_ms > 0, "{channel}: {last} has no time of acceptance");
    }
    assert_eq!(
        rest.next().map(|frame| frame.seq),
        None,
        "{channel}: the end of the log is missing"
    );
}

/// Two actions as one, which only appends to the same text can be.
fn joined(before: FrameContent, next: FrameContent) -> FrameContent {
    assert_eq!(before.what, next.what, "different actions were merged");
    match (before.text, next.text) {
        (Some(text), Some(more)) => FrameContent {
            what: before.what,
            text: Some(text + &more),
        },
        (None, _) | (_, None) => panic!("actions that append nothing were merged: {}", before.what),
    }
}

/// Checks that a log is in the order of its numbers.
///
/// # Panics
///
/// If it is not.
pub(super) fn check_order(log: &[StoredFrame]) {
    let numbers: Vec<_> = log.iter().map(|frame| frame.seq).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "a log out of order: {numbers:?}");
}

/// Everything that is known of a session but its log, in one form, to compare two of them.
pub fn describe(session: &StoredSession) -> String {
    let mut out = format!(
        "{} at {}: {}\n",
        session.uri,
        session.seq,
        String::from_utf8_lossy(&session.document)
    );
    let mut chats: Vec<_> = session.chats.iter().collect();
    chats.sort_by(|a, b| a.uri.cmp(&b.uri));
    for chat in chats {
        let document = String::from_utf8_lossy(&chat.document);
        writeln!(out, "  {} at {}: {document}", chat.uri, chat.seq).expect("text grows");
        for turn in &chat.turns {
            writeln!(out, "    {} ({} bytes)", turn.id, turn.bytes).expect("text grows");
        }
    }
    out
}

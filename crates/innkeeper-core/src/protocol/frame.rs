//! Outgoing messages. An action is encoded once; the journal, the replay window and every subscriber share the same
//! bytes.

use std::io;
use std::sync::Arc;

use ahp_types::actions::StateAction;
use bytes::Bytes;
use serde::Serialize;

use crate::effect::Subscriber;
use crate::ids::Seq;
use crate::protocol::action_table::{self, Durability};
use crate::protocol::answer_numbers;
use crate::protocol::dialect::Version;
use crate::protocol::dialect::extension::ExtensionFields;
use crate::protocol::error::RpcError;
use crate::protocol::request::RequestId;
use crate::protocol::snapshot::{Before, RpcAnswer};

pub(crate) const ACTION_HEAD: &[u8] = br#"{"jsonrpc":"2.0","method":"action","params":"#;

/// Origin of a client-dispatched action (DSP-03).
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// The dispatcher, as the connection authenticated it; never taken from a payload (DSP-09).
    pub client_id: &'a str,
    /// The dispatcher's own counter.
    pub client_seq: i64,
}

/// One encoded `action` notification.
#[derive(Debug)]
pub struct ActionFrame {
    /// Its position in the total order.
    pub seq: Seq,
    /// The whole JSON-RPC message.
    pub bytes: Vec<u8>,
    /// The oldest version in which these bytes mean the same. For older ones the action is translated.
    pub same: Version,
    /// Its durability class.
    pub durability: Durability,
    /// Position of appended text, for frames that may be merged with their neighbours.
    splice: Option<Splice>,
    /// The same for clients without MCP Apps, if it differs (E-58).
    plain: Option<Arc<Self>>,
    /// The state of the channel before the action, if a subscriber's translation needs it.
    before: Option<Arc<Before>>,
}

/// The text of a streamed append inside its frame, still JSON-escaped.
#[derive(Debug, Clone, Copy)]
struct Splice {
    start: usize,
    end: usize,
}

impl ActionFrame {
    /// The frame of an action that no client dispatched, as the core encodes it; for journals'
    /// tests, which need frames without a core.
    pub fn from_action(channel: &str, action: &StateAction, seq: Seq) -> Self {
        let mut channel_json = Vec::with_capacity(channel.len() + 2);
        write_json(&mut channel_json, channel);
        encode_action(
            &String::from_utf8_lossy(&channel_json),
            action,
            ExtensionFields::Nothing,
            seq,
            None,
        )
    }

    /// The envelope alone, as `reconnect` replays it.
    pub fn envelope(&self) -> &[u8] {
        &self.bytes[ACTION_HEAD.len()..self.bytes.len() - 1]
    }

    /// The frame that a subscriber gets, which depends on its dialect (MCP-14).
    pub fn shown_to(self: &Arc<Self>, subscriber: &Subscriber) -> &Arc<Self> {
        subscriber.dialect.frame(self)
    }

    /// Whether some subscribers get another frame.
    pub fn is_shown_differently(&self) -> bool {
        self.plain.is_some()
    }

    /// The form for clients that do not show MCP Apps, if it is another one.
    pub(crate) fn without_mcp_apps(&self) -> Option<&Arc<Self>> {
        self.plain.as_ref()
    }

    /// Notes the form for clients that do not show MCP Apps.
    pub(crate) fn set_plain(&mut self, plain: Self) {
        self.plain = Some(Arc::new(plain));
    }

    /// Whether `next`, sent right after this frame on the same connection, may be folded into it
    /// (SUB-11): both append to the same part of the same turn and neither has an origin.
    /// The bytes before the text hold channel, type, turn and part, so equal heads decide it.
    pub fn merges_with(&self, next: &Self) -> bool {
        match (self.splice, next.splice) {
            (Some(mine), Some(theirs)) => self.bytes[..mine.start] == next.bytes[..theirs.start],
            (None, _) | (_, None) => false,
        }
    }

    /// A frame from the replay window, in the form of its reader.
    pub(crate) fn replayed(seq: Seq, bytes: Vec<u8>) -> Self {
        Self::encoded(seq, bytes, Version::NEWEST, Durability::Durable, None)
    }

    fn encoded(seq: Seq, bytes: Vec<u8>, same: Version, durability: Durability, splice: Option<Splice>) -> Self {
        Self {
            seq,
            bytes,
            same,
            durability,
            splice,
            plain: None,
            before: None,
        }
    }

    /// Notes the state of the channel before the action.
    pub(crate) fn set_before(&mut self, before: Option<Before>) {
        self.before = before.map(Arc::new);
    }

    /// The state of the channel before the action, in JSON of 1.0, if a subscriber's translation needs it.
    pub fn before(&self) -> Option<&serde_json::Value> {
        self.before.as_deref().map(Before::value)
    }

    /// The rejection of an action that was accepted and could not be persisted, for its author alone, under a number
    /// of its own.
    pub fn rejected(&self, seq: Seq, reason: &str) -> Bytes {
        let mut out = self.bytes.clone();
        // The braces that close the envelope and the message.
        out.truncate(out.len().saturating_sub(2));
        // Only the origin comes after the number, and contains nothing that looks like it.
        let number = format!(r#","serverSeq":{}"#, self.seq.0);
        if let Some(at) = out
            .windows(number.len())
            .rposition(|window| window == number.as_bytes())
        {
            let fresh = format!(r#","serverSeq":{}"#, seq.0);
            out.splice(at..at + number.len(), fresh.into_bytes());
        }
        out.extend_from_slice(br#","rejectionReason":"#);
        write_json(&mut out, reason);
        out.extend_from_slice(b"}}");
        out.into()
    }

    /// Whether the frame is streamed output that may be folded into a neighbour.
    pub fn is_mergeable(&self) -> bool {
        self.splice.is_some()
    }

    /// The bytes that it adds to its channel: the text of streamed output, whose envelope is lost when it is merged,
    /// and otherwise all of it. A short delta is mostly envelope.
    pub(crate) fn added_bytes(&self) -> usize {
        self.splice
            .map_or(self.bytes.len(), |splice| splice.end.saturating_sub(splice.start))
    }

    /// Folds a run of frames, each of which [merges with](Self::merges_with) the next, into one
    /// that carries the last sequence number.
    ///
    /// Only frames adjacent in one connection's queue may be folded: with the single
    /// `lastSeenServerSeq` of 1.0, merging across another channel's frame loses that frame on a
    /// reconnect in between.
    ///
    /// # Panics
    ///
    /// On an empty run.
    pub fn merged(run: &[Arc<Self>]) -> Self {
        let (first, last) = (&run[0], &run[run.len() - 1]);
        let (bytes, splice) = match (first.splice, last.splice) {
            (Some(head), Some(tail)) => {
                let text: usize = run
                    .iter()
                    .filter_map(|frame| frame.splice)
                    .map(|splice| splice.end - splice.start)
                    .sum();
                let mut out = Vec::with_capacity(head.start + text + (last.bytes.len() - tail.end));
                out.extend_from_slice(&first.bytes[..head.start]);
                for frame in run {
                    if let Some(splice) = frame.splice {
                        out.extend_from_slice(&frame.bytes[splice.start..splice.end]);
                    }
                }
                let splice = Splice {
                    start: head.start,
                    end: out.len(),
                };
                out.extend_from_slice(&last.bytes[tail.end..]);
                (out, Some(splice))
            }
            (None, _) | (_, None) => (last.bytes.clone(), last.splice),
        };
        Self {
            plain: last.plain.clone(),
            before: last.before.clone(),
            ..Self::encoded(last.seq, bytes, last.same, last.durability, splice)
        }
    }
}

/// Encodes an accepted action.
pub(crate) fn encode_action(
    channel_json: &str,
    action: &StateAction,
    beside: ExtensionFields<'_>,
    seq: Seq,
    origin: Option<Origin<'_>>,
) -> ActionFrame {
    let mut out = Vec::with_capacity(ACTION_HEAD.len() + channel_json.len() + 256);
    begin_envelope(&mut out, channel_json);
    let splice = match (action, origin) {
        (StateAction::ChatDelta(delta), None) if delta.meta.is_none() => Some(write_append(
            &mut out,
            "chat/delta",
            &delta.turn_id,
            &delta.part_id,
            &delta.content,
        )),
        (StateAction::ChatReasoning(delta), None) if delta.meta.is_none() => Some(write_append(
            &mut out,
            "chat/reasoning",
            &delta.turn_id,
            &delta.part_id,
            &delta.content,
        )),
        (StateAction::TerminalData(output), None) => {
            out.extend_from_slice(br#"{"type":"terminal/data","data":"#);
            Some(write_append_text(&mut out, &output.data))
        }
        _ => {
            beside.write(&mut out, action);
            None
        }
    };
    end_envelope(&mut out, seq, origin, None);
    let rule = action_table::rule(action);
    let durability = match (rule.map_or(Durability::Durable, |rule| rule.durability), origin) {
        // Every action of a user survives a crash (P1), unless its channel is not in the journal.
        (Durability::Durable | Durability::Stream, Some(_)) => Durability::Durable,
        (durability, _) => durability,
    };
    let same = rule.map_or(Version::NEWEST, |rule| rule.same);
    ActionFrame::encoded(seq, out, same, durability, splice)
}

/// The part of an append's frame before its text: channel, type, turn and part never change while
/// an agent streams into one part, so they are encoded once.
#[derive(Debug)]
pub(crate) struct AppendHead {
    bytes: Vec<u8>,
}

impl AppendHead {
    pub(crate) fn new(channel_json: &str, name: &str, turn_id: &str, part_id: &str) -> Self {
        let mut bytes = Vec::with_capacity(ACTION_HEAD.len() + channel_json.len() + 128);
        begin_envelope(&mut bytes, channel_json);
        write_append_head(&mut bytes, name, turn_id, part_id);
        Self { bytes }
    }

    /// Encodes one append; the same bytes as [`encode_action`] writes.
    pub(crate) fn encode(&self, content: &str, seq: Seq) -> ActionFrame {
        // Escapes are rare, so this is enough for most texts and grows for the others.
        let mut out = Vec::with_capacity(self.bytes.len() + content.len() + 48);
        out.extend_from_slice(&self.bytes);
        let splice = write_append_text(&mut out, content);
        end_envelope(&mut out, seq, None, None);
        ActionFrame::encoded(seq, out, APPENDS_SAME, Durability::Stream, Some(splice))
    }
}

/// The oldest version in which streamed output means the same, as the table of actions says: since there are chats.
const APPENDS_SAME: Version = Version::V0_4;

/// The name of the action in an encoded message.
pub(crate) fn action_name(message: &[u8]) -> Option<&str> {
    const TYPE: &[u8] = br#""type":""#;
    // Quotes within a string are escaped, so this is the type of the action and no part of its channel.
    let body = message.get(ACTION_HEAD.len()..)?;
    let at = body.windows(TYPE.len()).position(|window| window == TYPE)?;
    let name = body.get(at + TYPE.len()..)?;
    let end = name.iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(&name[..end]).ok()
}

/// Encodes a refusal: the client's own JSON, verbatim, with the reason (DSP-04, DSP-08).
pub(crate) fn encode_rejection(
    channel_json: &str,
    action_json: &str,
    seq: Seq,
    origin: Origin<'_>,
    reason: &str,
) -> Bytes {
    let mut out = Vec::with_capacity(ACTION_HEAD.len() + channel_json.len() + action_json.len() + reason.len() + 128);
    begin_envelope(&mut out, channel_json);
    out.extend_from_slice(action_json.as_bytes());
    end_envelope(&mut out, seq, Some(origin), Some(reason));
    out.into()
}

/// Encodes a notification that is not an action.
pub(crate) fn encode_notification(method: &str, params: &impl Serialize) -> Bytes {
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"#);
    write_json(&mut out, method);
    out.extend_from_slice(br#","params":"#);
    write_json(&mut out, params);
    out.push(b'}');
    out.into()
}

/// Encodes a successful response.
pub fn encode_result(id: &RequestId, result: &impl Serialize) -> Bytes {
    let mut out = begin_result(id);
    write_json(&mut out, result);
    out.push(b'}');
    out.into()
}

/// Encodes an error response. An unreadable request is answered with `id: null`, which the
/// published types cannot express.
pub fn encode_error(id: Option<&RequestId>, error: &RpcError) -> Bytes {
    #[derive(Serialize)]
    struct Body<'a> {
        code: i32,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<&'a serde_json::Value>,
    }
    let mut out = Vec::with_capacity(128 + error.message.len());
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.map_or("null", RequestId::as_json).as_bytes());
    out.extend_from_slice(br#","error":"#);
    write_json(
        &mut out,
        &Body {
            code: error.code,
            message: &error.message,
            data: error.data.as_ref(),
        },
    );
    out.push(b'}');
    out.into()
}

/// One message for one connection.
#[derive(Debug, Clone)]
pub enum Outgoing {
    /// An action, shared with all other connections that get it.
    Action(Arc<ActionFrame>),
    /// A finished message.
    Text(Bytes),
    /// A response whose large parts are encoded by the connection's own writer.
    Answer(Arc<RpcAnswer>),
}

impl Outgoing {
    /// Bytes that the message counts for in a bounded queue.
    pub fn weight(&self) -> usize {
        match self {
            Self::Action(frame) => frame.bytes.len(),
            Self::Text(bytes) => bytes.len(),
            Self::Answer(answer) => answer.weight(),
        }
    }

    /// The request that the message answers with a result, if it does.
    pub fn answered_request(&self) -> Option<RequestId> {
        #[derive(serde::Deserialize)]
        struct Response<'a> {
            #[serde(borrow)]
            id: Option<&'a serde_json::value::RawValue>,
            #[serde(borrow)]
            error: Option<&'a serde_json::value::RawValue>,
        }
        match self {
            Self::Action(_) => None,
            Self::Answer(answer) => Some(answer.id.clone()),
            Self::Text(text) => {
                let response: Response<'_> = serde_json::from_slice(text).ok()?;
                let id = response.id.filter(|_| response.error.is_none())?;
                Some(RequestId::from_raw(id.to_owned()))
            }
        }
    }

    /// The message for the wire; this is where a snapshot is encoded.
    pub fn into_wire(self) -> Wire {
        match self {
            Self::Action(frame) => Wire::Action(frame),
            Self::Text(bytes) => Wire::Text(bytes),
            Self::Answer(answer) => match answer.is_small().then(|| answer.encode()) {
                Some(Ok(bytes)) => Wire::Answer(bytes, answer),
                Some(Err(_)) | None => Wire::Stream(answer),
            },
        }
    }
}

/// One message on its way out, still shared where it can be.
#[derive(Debug, Clone)]
pub enum Wire {
    /// An action that others get too.
    Action(Arc<ActionFrame>),
    /// An action that others get too, with another head.
    Reheaded(ReheadedFrame),
    /// Anything else that is encoded.
    Text(Bytes),
    /// A response with snapshots that is encoded, in the words of its reader.
    Answer(Bytes, Arc<RpcAnswer>),
    /// A response that is encoded while it is written, because it is large or because part of it
    /// has to be read first: [`RpcAnswer::write_to`].
    Stream(Arc<RpcAnswer>),
}

/// An action whose first bytes are replaced while it is written, so that everything behind them stays shared.
#[derive(Debug, Clone)]
pub struct ReheadedFrame {
    head: Arc<[u8]>,
    frame: Arc<ActionFrame>,
    /// The length of the head in the frame.
    replaced: usize,
}

impl ReheadedFrame {
    /// A frame with `head` instead of its first `replaced` bytes.
    pub fn new(head: Arc<[u8]>, frame: Arc<ActionFrame>, replaced: usize) -> Self {
        Self { head, frame, replaced }
    }

    /// The message in two parts.
    pub fn parts(&self) -> [&[u8]; 2] {
        [&self.head, self.frame.bytes.get(self.replaced..).unwrap_or_default()]
    }

    fn len(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }
}

impl Wire {
    /// The length of the message, if it is encoded already.
    pub fn encoded_len(&self) -> Option<usize> {
        match self {
            Self::Action(frame) => Some(frame.bytes.len()),
            Self::Reheaded(frame) => Some(frame.len()),
            Self::Text(bytes) | Self::Answer(bytes, _) => Some(bytes.len()),
            Self::Stream(_) => None,
        }
    }

    /// The whole message in memory, however large.
    pub fn to_bytes(&self) -> io::Result<Bytes> {
        match self {
            Self::Action(frame) => Ok(Bytes::copy_from_slice(&frame.bytes)),
            Self::Reheaded(frame) => Ok(frame.parts().concat().into()),
            Self::Text(bytes) | Self::Answer(bytes, _) => Ok(bytes.clone()),
            Self::Stream(answer) => answer.encode(),
        }
    }
}

pub(crate) fn begin_result(id: &RequestId) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.as_json().as_bytes());
    out.extend_from_slice(br#","result":"#);
    out
}

/// Writes JSON into memory, which cannot fail for our types: no map has a non-string key.
pub(crate) fn write_json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let written = answer_numbers::to_writer(&mut *out, value);
    debug_assert!(written.is_ok(), "protocol types always serialise");
}

fn begin_envelope(out: &mut Vec<u8>, channel_json: &str) {
    out.extend_from_slice(ACTION_HEAD);
    out.extend_from_slice(br#"{"channel":"#);
    out.extend_from_slice(channel_json.as_bytes());
    out.extend_from_slice(br#","action":"#);
}

fn end_envelope(out: &mut Vec<u8>, seq: Seq, origin: Option<Origin<'_>>, rejection: Option<&str>) {
    out.extend_from_slice(br#","serverSeq":"#);
    write_json(out, &seq.0);
    if let Some(origin) = origin {
        out.extend_from_slice(br#","origin":{"clientId":"#);
        write_json(out, origin.client_id);
        out.extend_from_slice(br#","clientSeq":"#);
        write_json(out, &origin.client_seq);
        out.push(b'}');
    }
    if let Some(reason) = rejection {
        out.extend_from_slice(br#","rejectionReason":"#);
        write_json(out, reason);
    }
    out.extend_from_slice(b"}}");
}

/// Writes a streamed append by hand: it is the hot path, and knowing where the text sits lets
/// frames be merged without decoding them again.
fn write_append(out: &mut Vec<u8>, name: &str, turn_id: &str, part_id: &str, content: &str) -> Splice {
    write_append_head(out, name, turn_id, part_id);
    write_append_text(out, content)
}

fn write_append_head(out: &mut Vec<u8>, name: &str, turn_id: &str, part_id: &str) {
    out.extend_from_slice(br#"{"type":""#);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(br#"","turnId":"#);
    write_json(out, turn_id);
    out.extend_from_slice(br#","partId":"#);
    write_json(out, part_id);
    out.extend_from_slice(br#","content":"#);
}

fn write_append_text(out: &mut Vec<u8>, content: &str) -> Splice {
    let quote = out.len();
    write_json(out, content);
    let splice = Splice {
        start: quote + 1,
        end: out.len() - 1,
    };
    out.push(b'}');
    splice
}

#[cfg(test)]
mod tests {
    use ahp_types::actions::{ActionEnvelope, ChatDeltaAction};

    use super::*;

    fn delta(part: &str, content: &str, seq: u64) -> Arc<ActionFrame> {
        let action = StateAction::ChatDelta(ChatDeltaAction {
            turn_id: "t\"1".into(),
            part_id: part.into(),
            content: content.into(),
            meta: None,
        });
        Arc::new(encode_action(
            "\"ahp-chat:/a\"",
            &action,
            ExtensionFields::Nothing,
            Seq(seq),
            None,
        ))
    }

    #[test]
    fn the_hand_written_delta_decodes_like_the_published_one() {
        let frame = delta("p", "a \"quoted\"\nline \u{1F600}\u{0}", 7);
        let envelope: ActionEnvelope = serde_json::from_slice(frame.envelope()).expect("decodes");
        assert_eq!(envelope.channel, "ahp-chat:/a");
        assert_eq!(envelope.server_seq, 7);
        let StateAction::ChatDelta(delta) = envelope.action else {
            panic!("not a delta")
        };
        assert_eq!(
            (delta.turn_id.as_str(), delta.content.as_str()),
            ("t\"1", "a \"quoted\"\nline \u{1F600}\u{0}")
        );
    }

    #[test]
    fn a_prepared_append_is_the_same_frame() {
        for (name, reasoning) in [("chat/delta", false), ("chat/reasoning", true)] {
            let (turn_id, part_id, content) = ("t\"1".to_owned(), "p".to_owned(), "x\ny".to_owned());
            let action = if reasoning {
                StateAction::ChatReasoning(ahp_types::actions::ChatReasoningAction {
                    turn_id,
                    part_id,
                    content,
                    meta: None,
                })
            } else {
                StateAction::ChatDelta(ChatDeltaAction {
                    turn_id,
                    part_id,
                    content,
                    meta: None,
                })
            };
            let general = encode_action("\"ahp-chat:/a\"", &action, ExtensionFields::Nothing, Seq(5), None);
            let prepared = AppendHead::new("\"ahp-chat:/a\"", name, "t\"1", "p").encode("x\ny", Seq(5));
            assert_eq!(general.bytes, prepared.bytes);
            assert_eq!((general.same, general.durability), (prepared.same, prepared.durability));
            assert!(prepared.merges_with(&general));
        }
    }

    #[test]
    fn sub11_a_merged_run_appends_the_same_text_and_keeps_the_last_seq() {
        let run = [delta("p", "a\"", 7), delta("p", "", 8), delta("p", "\\b\u{1F600}", 9)];
        assert!(run[0].merges_with(&run[1]) && run[1].merges_with(&run[2]));
        let merged = ActionFrame::merged(&run);
        let message: serde_json::Value = serde_json::from_slice(&merged.bytes).expect("decodes");
        assert_eq!(message["params"]["action"]["content"], "a\"\\b\u{1F600}");
        assert_eq!(message["params"]["serverSeq"], 9);
        let again = ActionFrame::merged(&[Arc::new(merged), delta("p", "!", 10)]);
        let message: serde_json::Value = serde_json::from_slice(&again.bytes).expect("decodes");
        assert_eq!(message["params"]["action"]["content"], "a\"\\b\u{1F600}!");
    }

    #[test]
    fn another_head_takes_the_place_of_the_first_bytes() {
        let frame = delta("p", "a", 7);
        let rest = frame.bytes[3..].to_vec();
        let reheaded = ReheadedFrame::new(b"<new head>"[..].into(), frame, 3);
        assert_eq!(reheaded.parts(), [&b"<new head>"[..], &rest]);
        assert_eq!(Wire::Reheaded(reheaded).encoded_len(), Some(10 + rest.len()));
    }

    #[test]
    fn the_name_of_an_action_is_read_from_its_message() {
        assert_eq!(action_name(&delta("p", "x", 1).bytes), Some("chat/delta"));
        assert_eq!(action_name(b"{}"), None);
    }

    #[test]
    fn sub11_other_parts_and_own_echoes_do_not_merge() {
        assert!(!delta("p", "a", 1).merges_with(&delta("q", "b", 2)));
        let action = StateAction::ChatDelta(ChatDeltaAction {
            turn_id: "t\"1".into(),
            part_id: "p".into(),
            content: "x".into(),
            meta: None,
        });
        let with_origin = encode_action(
            "\"ahp-chat:/a\"",
            &action,
            ExtensionFields::Nothing,
            Seq(3),
            Some(Origin {
                client_id: "c",
                client_seq: 1,
            }),
        );
        assert!(!delta("p", "a", 1).merges_with(&with_origin));
        assert!(!with_origin.merges_with(&delta("p", "a", 4)));
    }
}

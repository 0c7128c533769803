//! Snapshots, captured in the core in constant time and encoded by whoever writes them.

use std::sync::Arc;

use ahp_types::state::{ChatState, RootState, SessionState, Turn};
use bytes::Bytes;
use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};

use crate::frame::{ActionFrame, begin_result, write_json};
use crate::ids::Seq;
use crate::request::RequestId;

/// The completed turns of a chat, oldest first. Shared with snapshots in flight.
pub type History = Arc<Vec<Arc<Turn>>>;

/// A channel's state at one moment (SUB-02). Later actions copy what they change, so a snapshot
/// waiting in a queue never moves.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The channel's URI.
    pub resource: Arc<str>,
    /// The last action that is part of the state.
    pub from_seq: Seq,
    /// The state itself.
    pub state: State,
}

/// The state of one channel.
#[derive(Debug, Clone)]
pub enum State {
    /// The root channel.
    Root(Arc<RootState>),
    /// A session.
    Session(Arc<SessionState>),
    /// A chat: everything but the completed turns, and those.
    Chat(Arc<ChatState>, History),
}

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Snapshot", 3)?;
        out.serialize_field("resource", &*self.resource)?;
        out.serialize_field("state", &self.state)?;
        out.serialize_field("fromSeq", &self.from_seq.0)?;
        out.end()
    }
}

impl Serialize for State {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Root(state) => state.serialize(serializer),
            Self::Session(state) => state.serialize(serializer),
            Self::Chat(head, history) => serialize_chat(head, history, serializer),
        }
    }
}

/// Writes a chat as the published type would. The destructuring is exhaustive, so a field added
/// upstream does not compile until it is written here.
fn serialize_chat<S: Serializer>(head: &ChatState, history: &History, serializer: S) -> Result<S::Ok, S::Error> {
    let ChatState {
        resource,
        title,
        status,
        activity,
        modified_at,
        changes,
        origin,
        movable,
        interactivity,
        working_directories,
        changesets,
        background_work,
        canvases,
        turns: _,
        turns_next_cursor,
        active_turn,
        steering_message,
        queued_messages,
        draft,
        meta,
    } = head;
    let mut out = serializer.serialize_map(None)?;
    out.serialize_entry("resource", resource)?;
    out.serialize_entry("title", title)?;
    out.serialize_entry("status", status)?;
    optional(&mut out, "activity", activity)?;
    out.serialize_entry("modifiedAt", modified_at)?;
    optional(&mut out, "changes", changes)?;
    optional(&mut out, "origin", origin)?;
    optional(&mut out, "movable", movable)?;
    optional(&mut out, "interactivity", interactivity)?;
    optional(&mut out, "workingDirectories", working_directories)?;
    optional(&mut out, "changesets", changesets)?;
    optional(&mut out, "backgroundWork", background_work)?;
    optional(&mut out, "canvases", canvases)?;
    out.serialize_entry("turns", &Turns(history))?;
    optional(&mut out, "turnsNextCursor", turns_next_cursor)?;
    optional(&mut out, "activeTurn", active_turn)?;
    optional(&mut out, "steeringMessage", steering_message)?;
    optional(&mut out, "queuedMessages", queued_messages)?;
    optional(&mut out, "draft", draft)?;
    optional(&mut out, "_meta", meta)?;
    out.end()
}

/// Optional fields are omitted, never `null` (TRN-16).
fn optional<M: SerializeMap, T: Serialize>(out: &mut M, key: &str, value: &Option<T>) -> Result<(), M::Error> {
    match value {
        Some(value) => out.serialize_entry(key, value),
        None => Ok(()),
    }
}

struct Turns<'a>(&'a [Arc<Turn>]);

impl Serialize for Turns<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|turn| &**turn))
    }
}

/// A response that carries state. It takes its place in the connection's queue together with the
/// actions that follow it, so nothing can overtake it (SUB-03, E-04).
#[derive(Debug)]
pub struct Answer {
    /// The request it answers.
    pub id: RequestId,
    /// What it carries.
    pub body: AnswerBody,
    /// Roughly how many bytes it will be, for the queue's bound.
    pub estimated_bytes: usize,
}

/// The large results.
#[derive(Debug)]
pub enum AnswerBody {
    /// `subscribe`.
    Subscribed(Snapshot),
    /// `initialize`: the result without its snapshots, as JSON object text, and they.
    Initialized {
        /// The object's fields before `snapshots`, encoded, without the closing brace.
        head: Vec<u8>,
        /// One per live initial subscription (NEG-10).
        snapshots: Vec<Snapshot>,
    },
    /// `reconnect` when the window still covers the gap (REC-03).
    Replayed {
        /// Every missed action on the resumed channels, ascending.
        actions: Vec<Arc<ActionFrame>>,
        /// Requested channels that are gone (REC-02).
        missing: Vec<String>,
    },
    /// `reconnect` otherwise (REC-05).
    Resynced {
        /// One per resumed channel; what is absent is missing (REC-06).
        snapshots: Vec<Snapshot>,
    },
}

impl Answer {
    pub(crate) fn weight(&self) -> usize {
        self.estimated_bytes
    }

    /// Encodes the whole response.
    pub fn encode(&self) -> Bytes {
        let mut out = begin_result(&self.id);
        match &self.body {
            AnswerBody::Subscribed(snapshot) => {
                out.extend_from_slice(br#"{"snapshot":"#);
                write_json(&mut out, snapshot);
            }
            AnswerBody::Initialized { head, snapshots } => {
                out.extend_from_slice(head);
                out.extend_from_slice(br#","snapshots":"#);
                write_json(&mut out, snapshots);
            }
            AnswerBody::Replayed { actions, missing } => {
                out.extend_from_slice(br#"{"type":"replay","actions":["#);
                for (index, action) in actions.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    out.extend_from_slice(action.envelope());
                }
                out.extend_from_slice(br#"],"missing":"#);
                write_json(&mut out, missing);
            }
            AnswerBody::Resynced { snapshots } => {
                out.extend_from_slice(br#"{"type":"snapshot","snapshots":"#);
                write_json(&mut out, snapshots);
            }
        }
        out.extend_from_slice(b"}}");
        out.into()
    }
}

//! The mirror of a client: every channel as the published reducers fold it.

use std::collections::BTreeMap;
use std::sync::Arc;

use ahp::reducers::{
    ReduceOutcome, apply_action_to_annotations, apply_action_to_changeset, apply_action_to_chat, apply_action_to_root,
    apply_action_to_session, apply_action_to_terminal,
};
use ahp_types::actions::StateAction;
use ahp_types::state::{
    AnnotationsState, ChangesetState, ChangesetStatus, ChatState, ResponsePart, RootState, SessionState, SnapshotState,
    TerminalState, ToolCallState,
};
use innkeeper_core::PartState;
use innkeeper_core::snapshot::{Snapshot, State};
use serde_json::Value;

use crate::comparable::{ACTIVITY_BITS, without_extensions, without_unannounced_fields};

use crate::sim::Violation;
use crate::sim::client::decoding::says_unknown;
use crate::sim::client::history::is_end_of;
use crate::sim::terminals::{is_same, text_of};

/// Everything one connection has learned, and what it would reconnect with.
#[derive(Debug, Clone, Default)]
pub struct Mirror {
    /// The channels whose snapshot was read, by URI.
    pub channels: BTreeMap<String, Mirrored>,
    /// The highest `serverSeq` read, over all channels, responses and refusals included.
    pub last_seen: u64,
    /// The same as the published client counts it: the snapshot of a subscription is not seen.
    pub counted: u64,
    /// The session list, once it was fetched and while the root is subscribed to.
    pub catalogue: Option<BTreeMap<String, Value>>,
}

/// One channel's state.
#[derive(Debug, Clone)]
pub enum Mirrored {
    /// The root channel.
    Root(Box<RootState>),
    /// A session.
    Session(Box<SessionState>),
    /// A chat.
    Chat(Box<ChatState>),
    /// A terminal.
    Terminal(Box<TerminalState>),
    /// A view of changes.
    Changeset(Box<ChangesetState>),
    /// The annotations of a session.
    Annotations(Box<AnnotationsState>),
}

impl Mirrored {
    /// Takes a decoded snapshot.
    pub fn from_snapshot(state: SnapshotState) -> Result<Self, Violation> {
        match state {
            SnapshotState::Root(state) => Ok(Self::Root(state)),
            SnapshotState::Session(state) => Ok(Self::Session(state)),
            SnapshotState::Changeset(state) => Ok(Self::Changeset(state)),
            SnapshotState::Annotations(state) => Ok(Self::Annotations(state)),
            SnapshotState::Chat(mut state) => {
                read_auth_required(&mut state);
                match says_unknown(&state) {
                    true => Err(Violation::new(format!(
                        "a chat decodes to something unknown: {state:?}"
                    ))),
                    false => Ok(Self::Chat(state)),
                }
            }
            SnapshotState::Terminal(state) => Ok(Self::Terminal(state)),
            other => Err(Violation::new(format!(
                "a snapshot decodes to the wrong kind of channel: {other:?}"
            ))),
        }
    }

    /// Reduces an action as a published client does.
    pub fn apply(&mut self, action: &StateAction) -> ReduceOutcome {
        match self {
            Self::Root(state) => apply_action_to_root(state, action),
            Self::Session(state) => apply_action_to_session(state, action),
            Self::Chat(state) => apply_action_to_chat(state, action),
            Self::Terminal(state) => apply_action_to_terminal(state, action),
            Self::Changeset(state) => apply_action_to_changeset(state, action),
            Self::Annotations(state) => apply_action_to_annotations(state, action),
        }
    }

    /// The running turn of a chat.
    pub fn active_turn(&self) -> Option<&str> {
        match self {
            Self::Chat(state) => state.active_turn.as_ref().map(|turn| turn.id.as_str()),
            Self::Root(_) | Self::Session(_) | Self::Changeset(_) | Self::Annotations(_) | Self::Terminal(_) => None,
        }
    }

    /// Whether this is the host's state but for the fields that no action carries. Comparing JSON
    /// says the same and takes ten times as long.
    pub fn equals(&mut self, host: &State) -> bool {
        match (self, host) {
            (Self::Root(mine), State::Root(host)) => **mine == **host,
            (Self::Session(mine), State::Session(host)) => {
                let differs = (mine.status ^ host.status) & !ACTIVITY_BITS;
                let status = std::mem::replace(&mut mine.status, host.status);
                let counts = std::mem::replace(&mut mine.annotations, host.annotations.clone());
                let equal = differs == 0 && **mine == **host;
                (mine.status, mine.annotations) = (status, counts);
                equal
            }
            (Self::Chat(mine), State::Chat(head, history, _)) => {
                let title = std::mem::replace(&mut mine.title, head.title.clone());
                let changes = std::mem::replace(&mut mine.changes, head.changes.clone());
                let turns: Vec<_> = history.in_memory().cloned().collect();
                let same_turns = is_end_of(mine, &turns);
                let turns = std::mem::take(&mut mine.turns);
                let cursor = mine.turns_next_cursor.take();
                let equal = same_turns && **mine == **head;
                (mine.title, mine.turns, mine.turns_next_cursor) = (title, turns, cursor);
                mine.changes = changes;
                equal
            }
            (Self::Terminal(mine), State::Part(PartState::Terminal(host))) => is_same(mine, host),
            (Self::Changeset(mine), State::Part(PartState::Changeset(host))) => **mine == **host,
            (Self::Annotations(mine), State::Part(PartState::Annotations(host))) => **mine == **host,
            _ => false,
        }
    }

    /// The state as JSON without the fields that no action carries.
    pub fn comparable(&self) -> Value {
        let value = match self {
            Self::Root(state) => serde_json::to_value(state),
            Self::Session(state) => serde_json::to_value(state),
            Self::Chat(state) => serde_json::to_value(state),
            Self::Terminal(state) => return comparable_terminal(state),
            Self::Changeset(state) => serde_json::to_value(state),
            Self::Annotations(state) => serde_json::to_value(state),
        };
        without_unannounced_fields(value.unwrap_or_default())
    }
}

/// The published types cannot read a call that waits for a sign-in (E-41), though they have a type for it. This client
/// reads it.
fn read_auth_required(chat: &mut ChatState) {
    let parts = chat.active_turn.iter_mut().flat_map(|turn| &mut turn.response_parts);
    for part in parts {
        if let ResponsePart::ToolCall(part) = part
            && let ToolCallState::Unknown(raw) = &part.tool_call
            && raw["status"] == "auth-required"
            && let Ok(call) = serde_json::from_value(raw.clone())
        {
            part.tool_call = ToolCallState::AuthRequired(Box::new(call));
        }
    }
}

/// A snapshot and a mirror without everything of a chat that no snapshot of 0.9 shows: the flags of its status, and the
/// members that are new in 1.0. A client of 0.9 ignores the actions that change them; this mirror folds them.
pub fn as_0_9(mut snapshot: Snapshot, mirrored: &mut Mirrored) -> Snapshot {
    if let State::Part(PartState::Changeset(changeset)) = &mut snapshot.state
        && changeset.status == ChangesetStatus::Recomputing
    {
        // CHG-05.
        Arc::make_mut(changeset).status = ChangesetStatus::Computing;
    }
    if let (State::Chat(head, ..), Mirrored::Chat(mine)) = (&mut snapshot.state, mirrored) {
        for chat in [Arc::make_mut(head), &mut **mine] {
            chat.status &= ACTIVITY_BITS;
            chat.movable = None;
            chat.background_work = None;
            chat.changes = None;
            chat.changesets = None;
            chat.canvases = None;
        }
    }
    snapshot
}

/// The host's own state in the same form.
pub fn comparable(snapshot: &Snapshot) -> Value {
    if let State::Part(PartState::Terminal(state)) = &snapshot.state {
        return comparable_terminal(state);
    }
    let state = serde_json::to_value(&snapshot.state).unwrap_or_default();
    without_unannounced_fields(without_extensions(state))
}

/// A terminal with its output in one piece: the host tells fewer commands apart than a client that followed.
fn comparable_terminal(state: &TerminalState) -> Value {
    let mut value = serde_json::to_value(state).unwrap_or_default();
    value["content"] = Value::from(text_of(state));
    value
}

/// A session summary in the form lists are compared in: an empty activity is no activity (ROOT-14).
pub fn comparable_summary(mut summary: Value) -> Value {
    if let Some(fields) = summary.as_object_mut()
        && fields.get("activity").and_then(Value::as_str) == Some("")
    {
        fields.remove("activity");
    }
    summary
}

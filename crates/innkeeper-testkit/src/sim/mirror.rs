//! What a client believes: every channel as the published reducers keep it.

use std::collections::BTreeMap;

use ahp::reducers::{ReduceOutcome, apply_action_to_chat, apply_action_to_root, apply_action_to_session};
use ahp_types::actions::StateAction;
use ahp_types::state::{ChatState, RootState, SessionState, SnapshotState};
use innkeeper_core::snapshot::Snapshot;
use serde_json::Value;

use crate::comparable::without_unannounced_fields;

use super::Violation;

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
}

impl Mirrored {
    /// Takes a decoded snapshot.
    pub fn from_snapshot(state: SnapshotState) -> Result<Self, Violation> {
        match state {
            SnapshotState::Root(state) => Ok(Self::Root(state)),
            SnapshotState::Session(state) => Ok(Self::Session(state)),
            SnapshotState::Chat(state) => Ok(Self::Chat(state)),
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
        }
    }

    /// The running turn of a chat.
    pub fn active_turn(&self) -> Option<&str> {
        match self {
            Self::Chat(state) => state.active_turn.as_ref().map(|turn| turn.id.as_str()),
            Self::Root(_) | Self::Session(_) => None,
        }
    }

    /// The state as JSON without the fields that no action carries.
    pub fn comparable(&self) -> Value {
        let value = match self {
            Self::Root(state) => serde_json::to_value(state),
            Self::Session(state) => serde_json::to_value(state),
            Self::Chat(state) => serde_json::to_value(state),
        };
        without_unannounced_fields(value.unwrap_or_default())
    }
}

/// The host's own state in the same form.
pub fn comparable(snapshot: &Snapshot) -> Value {
    without_unannounced_fields(serde_json::to_value(&snapshot.state).unwrap_or_default())
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

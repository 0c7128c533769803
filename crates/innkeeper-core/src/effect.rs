//! Everything the core wants done. The shell performs effects in order.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::action::Since;
use crate::frame::{ActionFrame, Outgoing};
use crate::ids::{ChannelId, ConnId, TurnKey};

/// One consequence of an input.
#[derive(Debug)]
pub enum Effect {
    /// Keep an accepted action, then put it into the queue of every subscriber.
    Publish {
        /// The channel the action belongs to.
        channel: ChannelId,
        /// Its URI.
        uri: Arc<str>,
        /// The subscribers, if any, already filtered by what their version knows.
        to: Arc<[Subscriber]>,
        /// The action.
        frame: Arc<ActionFrame>,
    },
    /// Put a notification that is not an action into the queue of every subscriber.
    Notify {
        /// The subscribers.
        to: Arc<[Subscriber]>,
        /// The whole message.
        message: Bytes,
    },
    /// Put a message into one connection's queue.
    Send {
        /// The connection.
        to: ConnId,
        /// The message.
        message: Outgoing,
    },
    /// Close a connection once its queue is written.
    Close {
        /// The connection.
        conn: ConnId,
        /// Why.
        reason: CloseReason,
    },
    /// Bring up the back end of a new session; answer with `Input::SessionOpened`.
    OpenSession(Box<OpenSession>),
    /// Let the agent run a turn. Its action is already in everybody's queue (E-10).
    StartTurn {
        /// The chat.
        chat: ChannelId,
        /// The run.
        turn: TurnKey,
        /// What to do.
        start: Box<TurnStart>,
    },
    /// Stop a run whose end is already published.
    CancelTurn {
        /// The chat.
        chat: ChannelId,
        /// The run.
        turn: TurnKey,
    },
    /// Release the back end of a chat that is gone.
    CloseChat {
        /// The chat.
        chat: ChannelId,
    },
}

/// One subscription, as the fan-out sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subscriber {
    /// Where to deliver.
    pub conn: ConnId,
    /// How long streamed output may be held back for merging (SUB-10).
    pub max_latency_ms: u32,
    /// What the connection's version knows.
    pub knows: Since,
}

/// What an agent is asked to bring up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenSession {
    /// The session.
    pub session: ChannelId,
    /// Its default chat.
    pub chat: ChannelId,
    /// The agent to use.
    pub provider: String,
    /// The session's URI.
    pub session_uri: Arc<str>,
    /// The chat's URI.
    pub chat_uri: Arc<str>,
    /// Where it works.
    pub working_directories: Vec<String>,
}

/// One turn to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnStart {
    /// The turn's id.
    pub turn_id: String,
    /// What the person wrote.
    pub text: String,
    /// The model chosen for this message (TURN-15).
    pub model: Option<String>,
    /// Whether an interrupted turn goes on (TURN-12).
    pub resume: bool,
    /// How many turns this chat completed before.
    pub turns_before: usize,
    /// The session's URI.
    pub session_uri: Arc<str>,
    /// The session's title.
    pub session_title: String,
}

/// Why the host closes a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// No common protocol version (NEG-06).
    UnsupportedVersion,
    /// The host is going down.
    ShuttingDown,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnsupportedVersion => "no common protocol version",
            Self::ShuttingDown => "the host is shutting down; reconnect when it is back",
        })
    }
}

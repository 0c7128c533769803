//! Everything that can happen to the core.

use ahp_types::actions::StateAction;
use ahp_types::state::AgentInfo;
use serde_json::value::RawValue;

use crate::access::Principal;
use crate::decode::DecodeError;
use crate::ids::{ChannelId, ConnId, TurnKey};
use crate::request::{Command, RequestId};

/// One event. Inputs of one connection are handled in the order they arrived (DSP-14).
#[derive(Debug)]
pub enum Input {
    /// A transport was accepted and its peer authenticated.
    Connected {
        /// The new connection.
        conn: ConnId,
        /// Who is on the other end.
        principal: Principal,
    },
    /// A transport ended, for whatever reason.
    Disconnected {
        /// The connection that is gone.
        conn: ConnId,
    },
    /// A request to answer.
    Request {
        /// Who asks.
        conn: ConnId,
        /// The id to answer under.
        id: RequestId,
        /// What is asked.
        command: Command,
    },
    /// `dispatchAction`: never answered, only echoed or refused (DSP-01).
    Dispatch {
        /// Who dispatches.
        conn: ConnId,
        /// The action.
        dispatch: Box<Dispatch>,
    },
    /// `unsubscribe`.
    Unsubscribe {
        /// Who unsubscribes.
        conn: ConnId,
        /// From which URI.
        channel: String,
    },
    /// The back end of a session is up, or is not.
    SessionOpened {
        /// The session.
        session: ChannelId,
        /// Whether it worked.
        outcome: Result<(), Failure>,
    },
    /// An agent produced something.
    Agent {
        /// The chat it works in.
        chat: ChannelId,
        /// The run it belongs to; events of another run are dropped.
        turn: TurnKey,
        /// What it produced.
        event: AgentEvent,
    },
    /// An agent finished its run.
    TurnEnded {
        /// The chat.
        chat: ChannelId,
        /// The run.
        turn: TurnKey,
        /// How it ended.
        end: TurnEnd,
    },
    /// The catalogue of agents changed.
    AgentsChanged(Vec<AgentInfo>),
    /// The moment named by [`crate::HostCore::next_deadline`] has come.
    Tick,
    /// The host is going down: running turns are cancelled, new work is refused.
    ShutDown,
}

/// A dispatched action, decoded where it was read so that the core only judges it.
#[derive(Debug)]
pub struct Dispatch {
    /// The target URI.
    pub channel: String,
    /// The client's counter.
    pub client_seq: i64,
    /// The action as it arrived, for a verbatim refusal (DSP-08).
    pub raw: Box<RawValue>,
    /// The action, or why it could not be read.
    pub action: Result<StateAction, DecodeError>,
}

/// What an agent can produce during a turn. Agents do not see AHP's types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentEvent {
    /// Markdown for the reader, appended to the open markdown part or starting one.
    Text(String),
    /// The model's thinking, likewise.
    Reasoning(String),
    /// Closes the open part, so that the next text starts a new one.
    EndPart,
    /// What the turn has cost so far.
    Usage(Box<Usage>),
    /// What the agent is doing, for a status line; `None` clears it.
    Activity(Option<String>),
    /// A remark of the system in the transcript (TURN-20).
    Notice(String),
    /// A better title for the session, unless a person chose one.
    Title(String),
}

/// Token counts of a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: Option<u32>,
    /// Tokens written.
    pub output_tokens: Option<u32>,
    /// Tokens read from a cache.
    pub cache_read_tokens: Option<u32>,
    /// The model that was used.
    pub model: Option<String>,
}

/// How a turn ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEnd {
    /// The agent is done.
    Complete,
    /// The agent noticed the cancellation.
    Cancelled,
    /// The agent could not go on.
    Failed {
        /// What happened.
        failure: Failure,
        /// Whether the agent can really continue this very turn (TURN-13).
        resumable: bool,
    },
}

/// A failure to show to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// A short name for programs, such as `agentDied`.
    pub kind: String,
    /// A sentence for people.
    pub message: String,
}

impl Failure {
    /// Names a failure.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            message: message.into(),
        }
    }
}

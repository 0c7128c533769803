//! Everything that can happen to a host.

use std::sync::Arc;

use innkeeper_core::repository::RepositoryState;
use innkeeper_core::terminal::{PtyId, TerminalEvent};
use innkeeper_core::{
    AgentProfile, ChannelId, ClientId, Command, ConnId, Input, Principal, PromptPlan, RequestId, RpcError, TurnKey,
    Version,
};
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use crate::agent::runtime::event_queue::EventQueue;
use crate::main_loop::requests::RequestTicket;
use crate::net::dialect::Edge;
use crate::net::outbox::Outbox;
use crate::net::reverse_requests::{ClientRequestError, ReverseMethod};
use crate::services::customizations::CustomizationSet;

use crate::services::resources::effects::WatchOpened;
use crate::services::terminals::effects::TerminalOpened;
use crate::services::terminals::{AgentTerminal, TerminalCommandLine};

/// Everything that can happen to a host.
#[derive(Debug)]
pub(crate) enum Message {
    /// Something for the core.
    Core(Input),
    /// Enough was logged to take it, or long enough ago.
    Logs { taken: oneshot::Sender<()> },
    /// An agent produced something.
    Events(Arc<EventQueue>),
    /// A request for the core.
    Request {
        conn: ConnId,
        id: RequestId,
        command: Command,
        ticket: RequestTicket,
    },
    /// Something about a connection or its client.
    Connection(ConnectionMessage),
    /// Something about a session.
    Session(SessionMessage),
    /// Something about a terminal.
    Terminal(TerminalMessage),
    /// An agent puts a system prompt together.
    Render {
        chat: ChannelId,
        turn: Option<TurnKey>,
        sections: Vec<String>,
        reply: oneshot::Sender<PromptPlan>,
    },
    /// A watch was set up, or could not be.
    WatchOpened(Box<WatchOpened>),
    /// Agents describe themselves differently.
    AgentsChanged {
        profiles: Vec<AgentProfile>,
        done: oneshot::Sender<()>,
    },
    /// The journal took a session in, or did not, for a core that may have been replaced since.
    Imported { generation: u64, input: Input },
    /// These deleted sessions were removed for good.
    Purged(Vec<String>),
    /// Stop in order.
    ShutDown { done: oneshot::Sender<()> },
}

/// Everything that can happen to a connection or its client.
#[derive(Debug)]
pub(crate) enum ConnectionMessage {
    /// A transport was accepted.
    Attach {
        principal: Principal,
        reply: oneshot::Sender<(ConnId, Arc<Outbox>, Arc<Edge>)>,
    },
    /// A client reconnects, and its connection has to know which version it speaks.
    VersionOf {
        client: ClientId,
        reply: oneshot::Sender<Option<Version>>,
    },
    /// A connection's tasks are done with its slot.
    Detached { conn: ConnId },
    /// The host wants something of a client.
    RequestClient {
        client: ClientId,
        method: ReverseMethod,
        params: Map<String, Value>,
        reply: oneshot::Sender<Result<Value, ClientRequestError>>,
    },
    /// A connected client rewrites sections of the system prompt.
    Transform {
        conn: ConnId,
        /// As JSON.
        params: String,
        reply: oneshot::Sender<Result<Value, ClientRequestError>>,
    },
    /// A client answered.
    ClientAnswered {
        conn: ConnId,
        id: u64,
        outcome: Result<Value, ClientRequestError>,
    },
    /// The answer to a request that a service served.
    Respond {
        conn: ConnId,
        id: RequestId,
        outcome: Result<Value, RpcError>,
    },
    /// Something was read for a client: a JSON object without its closing brace.
    Found {
        conn: ConnId,
        id: RequestId,
        object: Vec<u8>,
    },
}

/// Everything that services and agents find out about a session.
#[derive(Debug)]
pub(crate) enum SessionMessage {
    /// The agent of a session is to say which tools it offers there.
    ListTools { session: ChannelId, provider: String },
    /// A discovery of a session's customizations has finished.
    CustomizationsReported {
        session: ChannelId,
        number: u64,
        set: Arc<CustomizationSet>,
    },
    /// The repository around a directory was looked at.
    RepositorySeen {
        directory: Arc<str>,
        number: u64,
        state: Option<Box<RepositoryState>>,
    },
}

/// Everything that can happen to a terminal.
#[derive(Debug)]
pub(crate) enum TerminalMessage {
    /// A program was started, or could not be.
    Opened(Box<TerminalOpened>),
    /// A terminal reports events, and waits until they are published.
    Reported {
        pty: PtyId,
        events: Vec<TerminalEvent>,
        published: oneshot::Sender<()>,
    },
    /// An agent runs a command for a tool call.
    AgentCommand {
        chat: ChannelId,
        call: String,
        command: Box<TerminalCommandLine>,
        reply: oneshot::Sender<Result<AgentTerminal, String>>,
    },
    /// An agent ends its command.
    Kill { pty: PtyId },
}

impl From<ConnectionMessage> for Message {
    fn from(message: ConnectionMessage) -> Self {
        Self::Connection(message)
    }
}

impl From<SessionMessage> for Message {
    fn from(message: SessionMessage) -> Self {
        Self::Session(message)
    }
}

impl From<TerminalMessage> for Message {
    fn from(message: TerminalMessage) -> Self {
        Self::Terminal(message)
    }
}

impl Message {
    /// The answer to a request that was looked into outside the core: an object without its closing brace,
    /// or why there is none.
    pub(crate) fn found(conn: ConnId, id: RequestId, outcome: Result<Vec<u8>, RpcError>) -> Self {
        match outcome {
            Ok(object) => ConnectionMessage::Found { conn, id, object }.into(),
            Err(error) => ConnectionMessage::Respond {
                conn,
                id,
                outcome: Err(error),
            }
            .into(),
        }
    }
}

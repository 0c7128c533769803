//! Inputs: everything that can happen to the core.

use std::sync::Arc;

use ahp_types::actions::StateAction;
use ahp_types::state::{Customization, Turn};
use serde_json::value::RawValue;

use crate::agent::{AgentEvent, AgentProfile, BackgroundChange, Failure, ToolInfo, TurnEnd};
use crate::clients::access::Principal;
use crate::core::PartInput;
use crate::customization::Shadows;
use crate::ids::{ChannelId, ClientId, ConnId, TurnKey};
use crate::mcp::{McpRequest, ServerReport};
use crate::protocol::decode::DecodeError;
use crate::protocol::request::{Command, RequestId};
use crate::session::choice::SessionChoice;
use crate::session::repository::RepositoryState;
use crate::storage::records::{ImportedSession, ListPage, RestoredSession, StoredSummary, Unreadable};
use crate::telemetry::LogRecord;

/// A message of a client on one connection, or the end of the connection. It waits until everything it names is in
/// memory.
#[derive(Debug)]
pub(crate) enum ClientInput {
    /// The connection ended.
    Disconnected,
    /// A request to answer.
    Request { id: RequestId, command: Command },
    /// `dispatchAction`.
    Dispatch(Box<Dispatch>),
    /// `unsubscribe`.
    Unsubscribe { channel: String },
    /// A notification for an MCP server.
    McpNotification(Box<McpRequest>),
}

/// One event. Inputs of one connection are handled in the order they arrived (DSP-14).
#[derive(Debug)]
pub enum Input {
    /// A transport was accepted and its peer authenticated.
    Connected {
        /// The new connection.
        conn: ConnId,
        /// The authenticated peer.
        principal: Principal,
    },
    /// A connection ended, for any reason.
    Disconnected {
        /// The connection that ended.
        conn: ConnId,
    },
    /// A request to answer.
    Request {
        /// The connection that asks.
        conn: ConnId,
        /// The id to answer under.
        id: RequestId,
        /// The request.
        command: Command,
    },
    /// `dispatchAction`: never answered, only echoed or refused (DSP-01).
    Dispatch {
        /// The connection that dispatches.
        conn: ConnId,
        /// The action.
        dispatch: Box<Dispatch>,
    },
    /// `unsubscribe`.
    Unsubscribe {
        /// The connection that unsubscribes.
        conn: ConnId,
        /// From which URI.
        channel: String,
    },
    /// The back end of a chat is up, or is not. A session is ready when its default chat is.
    ChatOpened {
        /// The chat.
        chat: ChannelId,
        /// Whether it worked.
        outcome: Result<(), Failure>,
    },
    /// An agent produced something.
    Agent {
        /// The chat it works in.
        chat: ChannelId,
        /// The run it belongs to; events of another run are dropped.
        turn: TurnKey,
        /// Output.
        event: AgentEvent,
    },
    /// An agent finished its run.
    TurnEnded {
        /// The chat.
        chat: ChannelId,
        /// The run.
        turn: TurnKey,
        /// Its outcome.
        end: TurnEnd,
    },
    /// The back end of a chat died, and has to be opened again with the turns since.
    ChatLost {
        /// The chat.
        chat: ChannelId,
    },
    /// Bringing up a session takes a while, and this much is done (ROOT-17).
    Progress {
        /// The session's default chat.
        chat: ChannelId,
        /// Amount of work done.
        done: u64,
        /// Out of how much, if that is known.
        total: Option<u64>,
        /// Description of the current work.
        message: Option<String>,
    },
    /// Background work started or ended.
    Background {
        /// The chat it belongs to.
        chat: ChannelId,
        /// The changes.
        change: BackgroundChange,
    },
    /// An agent puts a system prompt together, and wants to know who rewrites it; answered with
    /// [`crate::effect::AgentCommand::TransformPrompt`] (SMT-05).
    RenderPrompt {
        /// The chat.
        chat: ChannelId,
        /// The run the prompt is for; none while the chat opens.
        turn: Option<TurnKey>,
        /// Which render it is.
        id: u64,
        /// The ids of the sections there are.
        sections: Vec<String>,
    },
    /// Turns that [`crate::effect::JournalCommand::LoadTurns`] asked for were read, or could not be.
    TurnsLoaded {
        /// The chat.
        chat: ChannelId,
        /// The position of the first of them.
        first: usize,
        /// The turns, or why they cannot be read.
        outcome: Result<Vec<Turn>, String>,
    },
    /// An input that belongs to one channel kind.
    Part(PartInput),
    /// The tools that a session's agent offers its model right now.
    ToolsListed {
        /// The session.
        session: ChannelId,
        /// The agent that was asked.
        provider: String,
        /// The tools.
        tools: Vec<ToolInfo>,
    },
    /// All customizations of a session, in order and without enablement (CUS-19).
    CustomizationsFound {
        /// The session.
        session: ChannelId,
        /// The discovered entries.
        entries: Vec<Customization>,
        /// Which of it stands back behind something else of its name, while that is on.
        shadows: Shadows,
    },
    /// The same while some of it is still read: what there is to show until then. It decides nothing,
    /// and counts only in a session that would show nothing otherwise (CUS-05).
    CustomizationsAnnounced {
        /// The session.
        session: ChannelId,
        /// The entries known so far.
        entries: Vec<Customization>,
    },
    /// The state of the Git repository around a session's primary directory.
    RepositorySeen {
        /// The session.
        session: ChannelId,
        /// The directory, as [`crate::effect::RepositoryCommand::Follow`] named it.
        directory: String,
        /// The repository's state; `None` if there is no repository.
        state: Option<Box<RepositoryState>>,
    },
    /// Something became of an MCP server that [`crate::effect::McpCommand::SetDesiredServers`] asked for.
    McpServer {
        /// The session.
        session: ChannelId,
        /// The id of the server's customization.
        id: String,
        /// Which of its starts it is about.
        attempt: u64,
        /// The report.
        report: ServerReport,
    },
    /// These MCP servers are started in another way than before.
    McpRedeclared {
        /// The session.
        session: ChannelId,
        /// The ids of their customizations, and which start of each was in the old way.
        servers: Vec<(String, u64)>,
    },
    /// A token that could be refreshed is lost: its authorization server gave no other one.
    McpTokenLost {
        /// The resource that the token was for.
        resource: String,
        /// Which it was ([`ServerToken::number`](crate::mcp::ServerToken::number)).
        number: u64,
    },
    /// An app asks the model to write something, and users are to be asked in a turn.
    AppTurn {
        /// The session.
        session: ChannelId,
        /// The id of the customization of the app's server.
        server: String,
        /// Identifies the request.
        request: String,
        /// The client that shows the app.
        asked_by: Option<ClientId>,
    },
    /// A client sends a notification to an MCP server on behalf of an app.
    McpNotification {
        /// The connection of the client.
        conn: ConnId,
        /// The notification.
        request: Box<McpRequest>,
    },
    /// The catalogue of agents changed.
    AgentsChanged(Vec<AgentProfile>),
    /// The store found a session, or not.
    Loaded {
        /// The request.
        uri: Arc<str>,
        /// The session, nothing, or why it cannot be read.
        outcome: Result<Option<Box<RestoredSession>>, Unreadable>,
    },
    /// The store listed sessions for a request.
    Listed {
        /// The connection that asked.
        conn: ConnId,
        /// The request to answer.
        id: RequestId,
        /// The request.
        page: ListPage,
        /// The sessions, or why they cannot be read.
        outcome: Result<Vec<StoredSummary>, String>,
    },
    /// The store imported a session for a request.
    Imported {
        /// The connection that asked.
        conn: ConnId,
        /// The request to answer.
        id: RequestId,
        /// The session, or why it was not taken in.
        outcome: Result<ImportedSession, String>,
    },
    /// Stored sessions to recover, because something was running in them when the host ended.
    Recover(Vec<String>),
    /// The host logged something. It changes no state and goes to the subscribers of the log (OTL-02).
    Logs(Vec<LogRecord>),
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
    /// The choice for the session that an older client dispatched, which no action of the newest version has.
    pub choice: Option<SessionChoice>,
}

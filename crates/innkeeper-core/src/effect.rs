//! Effects: everything the core wants done. The shell performs them in order.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use ahp_types::state::{ChatState, Turn};
use bytes::Bytes;
use serde_json::{Map, Value};

use crate::agent::{Attachment, ClientTool, CommandInfo, Credential, PastTurn, PastTurns, Reply, Subagent, UnreadChat};
use crate::customization::Wanted;
use crate::ids::{ChannelId, ClientId, ConnId, TurnKey};
use crate::mcp::{AppTurn, ToServer, TokenChange, WantedServers};
use crate::protocol::dialect::Dialect;
use crate::protocol::frame::{ActionFrame, Outgoing};
use crate::protocol::request::RequestId;
use crate::resources::{Reach, ResourceOp, VisibleSessions, WatchSpec};
use crate::storage::records::{ListPage, Record};

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
        /// The connection that dispatched it, which hears of it if it cannot be kept.
        author: Option<ConnId>,
    },
    /// Keep something that is not an action.
    Keep(Box<Record>),
    /// Find a session in the store, by its URI or that of one of its chats; answer with
    /// `Input::Loaded`.
    Load {
        /// The URI.
        uri: Arc<str>,
    },
    /// Read turns of a chat that are not in memory; answer with `Input::TurnsLoaded`.
    LoadTurns {
        /// The chat.
        chat: ChannelId,
        /// Its URI.
        uri: Arc<str>,
        /// Their positions.
        range: Range<usize>,
    },
    /// Put a notification that is not an action into the queue of every subscriber.
    Notify {
        /// The subscribers.
        to: Arc<[Subscriber]>,
        /// The whole message.
        message: Bytes,
    },
    /// Put log records into the queues of these connections, of those that keep up: nobody loses a connection
    /// for the log.
    ExportLogs {
        /// The connections.
        to: Arc<[ConnId]>,
        /// The whole notification.
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
    /// Bring up the back end of a chat; answer with `Input::ChatOpened`. A chat that already has
    /// one gets a new one, because its history changed.
    OpenChat(Box<OpenChat>),
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
    /// Tell a running agent something it waits for.
    Reply {
        /// The chat.
        chat: ChannelId,
        /// The run.
        turn: TurnKey,
        /// What it waits for.
        reply: Box<Reply>,
    },
    /// A tool call's subagent has a chat and a run; its parent drives it.
    StartSubagent(Box<Subagent>),
    /// Say who rewrites a system prompt.
    RenderPrompt {
        /// The render that asked.
        id: u64,
        /// Who, if anybody, and what nobody may.
        plan: Box<PromptPlan>,
    },
    /// List stored sessions for somebody; answer with `Input::Listed` (ROOT-10).
    List {
        /// The connection that asked.
        conn: ConnId,
        /// The request to answer.
        id: RequestId,
        /// Which ones.
        page: ListPage,
    },
    /// Keep a session that was exported elsewhere; answer with `Input::Imported`.
    Import {
        /// The connection that asked.
        conn: ConnId,
        /// The request to answer.
        id: RequestId,
        /// The export.
        text: String,
    },
    /// Answer a request with the sessions whose deletion can be undone.
    ListDeleted {
        /// The connection that asked.
        conn: ConnId,
        /// The request to answer.
        id: RequestId,
    },
    /// Undo the deletion of a session; answer with `Input::Imported`.
    UndoDeletion {
        /// The connection that asked.
        conn: ConnId,
        /// The request to answer.
        id: RequestId,
        /// The session's URI.
        uri: String,
    },
    /// Remove the sessions for good that were deleted before a moment, and everything that was kept beside them.
    PurgeDeleted {
        /// The moment, in milliseconds since 1970.
        before_ms: i64,
    },
    /// Look something up outside the core and answer a request with it.
    LookUp {
        /// The connection that asked.
        conn: ConnId,
        /// The request to answer.
        id: RequestId,
        /// What to look up.
        what: Box<LookUp>,
    },
    /// Do something with resources, within these places, and answer a request with the outcome.
    Resource {
        /// The connection that asked.
        conn: ConnId,
        /// The request to answer.
        id: RequestId,
        /// What to do.
        op: Box<ResourceOp>,
        /// What the client may reach.
        reaches: Vec<Reach>,
        /// What it sees besides.
        sight: VisibleSessions,
    },
    /// Read something that an MCP server lets read, and answer a request with it.
    McpResource {
        /// The connection that asked.
        conn: ConnId,
        /// The request to answer.
        id: RequestId,
        /// What to do: to read it, or to say what it is.
        op: Box<ResourceOp>,
        /// The sessions that the client has to do with; it is a resource of one of them, or of none.
        sessions: Vec<ChannelId>,
    },
    /// Watch something within these places; answer with `Input::WatchOpened`.
    OpenWatch {
        /// The connection that asked.
        conn: ConnId,
        /// The request to answer.
        id: RequestId,
        /// The watch's number.
        watch: u64,
        /// What to watch.
        spec: Box<WatchSpec>,
        /// What the client may reach.
        reaches: Vec<Reach>,
    },
    /// Release a watch.
    CloseWatch {
        /// Its number.
        watch: u64,
    },
    /// Find what a session brings along, and say so whenever that changes, with
    /// `Input::CustomizationsFound`. Sent again when the session wants something else.
    FollowCustomizations {
        /// The session.
        session: ChannelId,
        /// What it wants.
        wanted: Box<Wanted>,
    },
    /// Nobody uses the session any more.
    ForgetCustomizations {
        /// The session.
        session: ChannelId,
        /// The ids of the customizations that are switched off, for hooks that hear of the end.
        switched_off: Arc<BTreeSet<String>>,
    },
    /// Look at the Git repository around a session's primary directory, and again whenever it changes; answer with
    /// `Input::RepositorySeen`. Sent again when the session works elsewhere.
    FollowRepository {
        /// The session.
        session: ChannelId,
        /// The directory, as a URI.
        directory: String,
    },
    /// Look at it again: a turn is over, and may have changed files.
    LookAtRepositoryAgain {
        /// The session.
        session: ChannelId,
    },
    /// The session's repository is of no interest any more.
    ForgetRepository {
        /// The session.
        session: ChannelId,
    },
    /// Run these MCP servers of a session and no others, and say what becomes of them with
    /// `Input::McpServer`. Sent again when the session wants something else.
    WantMcpServers {
        /// The session.
        session: ChannelId,
        /// What it wants.
        wanted: Box<WantedServers>,
    },
    /// Ask a session's agent which tools its model may call there, those of MCP servers included, and answer with
    /// `Input::ToolsListed`. Sent again when that may have changed.
    ListTools {
        /// The session.
        session: ChannelId,
        /// Its agent.
        provider: String,
    },
    /// A session is gone for good, and so is everything that was kept beside it.
    SessionGone {
        /// Its URI.
        uri: Arc<str>,
    },
    /// Chats went from one session to another, and what they refer to of what is kept beside sessions goes along.
    ChatsMoved(Box<ChatsMoved>),
    /// Nobody uses the session any more.
    ForgetMcpServers {
        /// The session.
        session: ChannelId,
    },
    /// Give the MCP servers of a resource another token, or take it away.
    McpToken {
        /// The resource.
        resource: String,
        /// What becomes of its token.
        change: TokenChange,
        /// The request that is answered with an empty object once this is kept: what somebody was told about
        /// a token must hold after a crash.
        answer: Option<(ConnId, RequestId)>,
    },
    /// Ask an MCP server something for a client, and answer a request with what it says.
    AskMcpServer {
        /// The connection that asked.
        conn: ConnId,
        /// The request to answer.
        id: RequestId,
        /// The session.
        session: ChannelId,
        /// What to ask.
        what: Box<ToServer>,
    },
    /// A request of an app that needs a turn has one that runs already, or has none.
    AppTurn {
        /// The request.
        request: String,
        /// What becomes of it.
        outcome: AppTurn,
    },
    /// Tell an MCP server something for a client.
    TellMcpServer {
        /// The session.
        session: ChannelId,
        /// What.
        what: Box<ToServer>,
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
    /// The connection's dialect.
    pub dialect: Dialect,
}

/// What happens to a system prompt before its model gets it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptPlan {
    /// The sections that nobody may rewrite.
    pub restricted: Vec<String>,
    /// Who rewrites others, if anybody does.
    pub transformer: Option<Transformer>,
}

/// The client that rewrites sections of one system prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transformer {
    /// The client.
    pub client: ClientId,
    /// The connection that it is asked through.
    pub conn: ConnId,
    /// The session's URI.
    pub session_uri: Arc<str>,
    /// The sections that it gets, in the order of the prompt; at least one.
    pub sections: Vec<String>,
}

/// Chats that belong to another session now.
#[derive(Debug)]
pub struct ChatsMoved {
    /// The URI of the session that they left.
    pub from: Arc<str>,
    /// The URI of the one that has them now.
    pub to: Arc<str>,
    /// The chats.
    pub chats: Vec<MovedChat>,
}

/// All that was said in a chat that moved.
#[derive(Debug)]
pub struct MovedChat {
    /// The chat's URI.
    pub uri: Arc<str>,
    /// Everything but its completed turns.
    pub head: Arc<ChatState>,
    /// How many of the oldest turns are in the store alone.
    pub stored: usize,
    /// Those that follow them.
    pub recent: Vec<Arc<Turn>>,
}

/// What an agent is asked to bring up.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenChat {
    /// The chat.
    pub chat: ChannelId,
    /// The agent to use.
    pub provider: String,
    /// The session's URI.
    pub session_uri: Arc<str>,
    /// The chat's URI.
    pub chat_uri: Arc<str>,
    /// Where it works.
    pub working_directories: Vec<String>,
    /// The turns the chat already has.
    pub history: PastTurns,
    /// What a side chat is about: context for the model that its own history does not show
    /// (CHT-06).
    pub context: Vec<PastTurn>,
    /// The words a side chat was opened on.
    pub selection: Option<String>,
    /// What the session was set up with.
    pub settings: Map<String, Value>,
    /// What the agent asked to be told again.
    pub memory: Option<Arc<Value>>,
    /// What it may sign in with.
    pub credentials: Vec<Credential>,
    /// Whether somebody wants to know how far it is.
    pub wants_progress: bool,
    /// The session.
    pub session: ChannelId,
    /// The ids of the customizations that are switched off.
    pub switched_off: Arc<BTreeSet<String>>,
}

/// One turn to run.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnStart {
    /// The turn's id.
    pub turn_id: String,
    /// The user's text.
    pub text: String,
    /// What came with it.
    pub attachments: Vec<Attachment>,
    /// The chats among it whose turns have to be read first.
    pub unread_chats: Vec<UnreadChat>,
    /// Who asked, if it was a client: what only it can read, it is asked for.
    pub asked_by: Option<ClientId>,
    /// The model chosen for this message (TURN-15).
    pub model: Option<String>,
    /// What the model is set up with.
    pub model_settings: Map<String, Value>,
    /// The custom agent chosen for this message, by URI.
    pub agent: Option<String>,
    /// Whether an interrupted turn goes on (TURN-12).
    pub resume: bool,
    /// What there is of a turn that goes on, for an agent that was not there: the host may have
    /// been restarted in between.
    pub so_far: Option<PastTurn>,
    /// The ids of the calls it made before, which are taken (TOOL-21).
    pub calls_before: Vec<String>,
    /// How many turns this chat completed before.
    pub turns_before: usize,
    /// The session's URI.
    pub session_uri: Arc<str>,
    /// The session's title.
    pub session_title: String,
    /// Where the chat works now.
    pub working_directories: Vec<String>,
    /// What the session is set up with now.
    pub settings: Map<String, Value>,
    /// The tools that clients of the session offer (ACT-04, ACT-05).
    pub client_tools: Vec<ClientTool>,
    /// What its agent may sign in with in this turn.
    pub credentials: Vec<Credential>,
    /// The session.
    pub session: ChannelId,
    /// The ids of the customizations that are switched off.
    pub switched_off: Arc<BTreeSet<String>>,
    /// The request of an app that it is for. Its agent does not run it.
    pub app_request: Option<String>,
}

/// Something that is found outside the core.
#[derive(Debug, Clone, PartialEq)]
pub enum LookUp {
    /// What fits at a place in a message (CMP-01).
    Completions {
        /// The chat's agent.
        provider: String,
        /// The chat's URI.
        chat_uri: Arc<str>,
        /// Where the chat works.
        working_directories: Vec<String>,
        /// The message so far.
        text: String,
        /// The place, in UTF-16 code units.
        offset: usize,
        /// The agent's slash commands.
        commands: Vec<CommandInfo>,
        /// The session.
        session: ChannelId,
        /// The ids of the customizations that are switched off.
        switched_off: Arc<BTreeSet<String>>,
    },
    /// Values of a setting (CMP-06).
    SettingValues {
        /// The agent.
        provider: String,
        /// The setting.
        property: String,
        /// What was typed; empty at first.
        query: String,
        /// Working directories of the session.
        working_directory: Option<String>,
        /// Values chosen so far.
        values: Map<String, Value>,
    },
}

/// Why the host closes a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// Too much of what it sent waits to be handled.
    TooMuchWaits,
    /// The host cannot write, and has refused so much that it has no numbers left for refusals.
    NoNumbers,
    /// No common protocol version (NEG-06).
    UnsupportedVersion,
    /// The host is going down.
    ShuttingDown,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoNumbers => "the host cannot write, and can refuse nothing more; try again when it can",
            Self::TooMuchWaits => "too much waits to be handled; send less at a time",
            Self::UnsupportedVersion => "no common protocol version",
            Self::ShuttingDown => "the host is shutting down; reconnect when it is back",
        })
    }
}

//! Requests as the core sees them: parsed, typed, with the id exactly as it arrived.

use ahp_types::commands::ChatSource;
use ahp_types::state::{Message, SessionActiveClient};
pub use innkeeper_dialects::Offer;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::agent::Secret;
use crate::chat::approval::ApprovalCommand;
use crate::core::PartCommand;
use crate::ids::ClientId;
use crate::mcp::{McpRequest, TokenRefresh};
use crate::protocol::dialect::extension::OptIn;
use crate::resources::{GrantCommand, ResourceOp};
use crate::session::choice::SessionChoice;

/// A request id, echoed byte for byte (TRN-10). The framing layer lets only integers and
/// strings through (TRN-12).
#[derive(Debug, Clone)]
pub struct RequestId(Box<RawValue>);

impl RequestId {
    /// Keeps the raw JSON of an id.
    pub fn from_raw(raw: Box<RawValue>) -> Self {
        Self(raw)
    }

    /// A numeric id, as tests and host-initiated requests use.
    pub fn number(id: u64) -> Self {
        Self(RawValue::from_string(id.to_string()).expect("invariant: digits are JSON"))
    }

    /// The id as JSON text.
    pub fn as_json(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for RequestId {
    fn eq(&self, other: &Self) -> bool {
        self.as_json() == other.as_json()
    }
}

/// Every request the core answers.
#[derive(Debug, Clone)]
pub enum Command {
    /// `initialize`.
    Initialize(Box<Initialize>),
    /// `reconnect`.
    Reconnect(Box<Reconnect>),
    /// `ping`.
    Ping,
    /// `subscribe`.
    Subscribe(Box<Subscribe>),
    /// `createSession`.
    CreateSession(Box<CreateSession>),
    /// `disposeSession`.
    DisposeSession {
        /// The session's URI.
        channel: String,
        /// The condition for the disposal; absent if a user asked for it.
        only_if: Option<OnlyIf>,
        /// Whether the deletion cannot be undone, even if the host's settings allow it.
        for_good: bool,
    },
    /// `innkeeper/listDeletedSessions`, which is this host's own: the sessions whose deletion can be undone.
    ListDeletedSessions,
    /// `innkeeper/restoreSession`, which is this host's own: undoes the deletion of a session.
    RestoreSession {
        /// The session's URI.
        uri: String,
    },
    /// `innkeeper/importSession`, which is this host's own: takes in a session that was exported.
    ImportSession {
        /// The export, one line for each part.
        text: String,
    },
    /// `listSessions`.
    ListSessions(Box<ListSessions>),
    /// `createChat`.
    CreateChat(Box<CreateChat>),
    /// `disposeChat`.
    DisposeChat {
        /// The chat's URI.
        channel: String,
    },
    /// `moveChat`.
    MoveChat(Box<MoveChat>),
    /// `fetchTurns`.
    FetchTurns {
        /// The chat's URI.
        channel: String,
        /// Which page.
        page: TurnsPage,
    },
    /// `completions`.
    Completions(Box<Completions>),
    /// `resolveSessionConfig`.
    ResolveSessionConfig(Box<SessionSetup>),
    /// `sessionConfigCompletions`.
    SessionConfigCompletions(Box<SettingQuery>),
    /// `authenticate`.
    Authenticate(Box<Authenticate>),
    /// A request of MCP, for a server.
    Mcp(Box<McpRequest>),
    /// `resourceRead` and its like.
    Resource(Box<ResourceOp>),
    /// `resourceRequest`.
    RequestResource {
        /// The URI.
        uri: String,
        /// Whether to write there, too.
        write: bool,
    },
    /// A request that belongs to one channel kind.
    Part(PartCommand),
    /// Administration of grants; this host's own.
    Grants(Box<GrantCommand>),
    /// `innkeeper/listApprovals` and its like, which are this host's own.
    Approvals(Box<ApprovalCommand>),
}

/// Which turns of a chat a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnsPage {
    /// The page at a cursor, where the last page ended; absent means the next older page. The turns arrive in an action.
    At(Option<String>),
    /// The latest turns before a turn, or at all. The turns are in the answer (0.5.0 and older).
    Before {
        /// The id of the turn.
        turn: Option<String>,
        /// How many at most.
        limit: Option<usize>,
    },
}

/// The condition for a clean-up to dispose of a session: it is unused and unchanged since it was chosen. Choosing
/// takes a while, a user may confirm in between, and a session that was used meanwhile must not be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OnlyIf {
    /// The time of its last change when it was chosen, in milliseconds since 1970, if known.
    pub modified_ms: Option<i64>,
    /// Whether it was chosen because a user had archived it.
    pub is_archived: bool,
}

impl OnlyIf {
    /// Why a session with this state is not disposed of, if it is not.
    pub fn refuses(&self, modified_ms: i64, is_archived: bool) -> Option<&'static str> {
        // Any other moment will do: the wall clock may have been set back.
        if self.modified_ms.is_some_and(|seen| seen != modified_ms) {
            return Some("has changed since it was chosen");
        }
        (self.is_archived && !is_archived).then_some("is no longer archived")
    }
}

/// Parameters of `initialize` that the host acts on.
#[derive(Debug, Clone)]
pub struct Initialize {
    /// The versions the client offers, in any order (NEG-02).
    pub offer: Offer,
    /// The client's chosen identity.
    pub client_id: ClientId,
    /// Channels to subscribe to at once; unknown ones are skipped (NEG-11).
    pub initial_subscriptions: Vec<String>,
    /// The name of the client program. Nothing depends on it (NEG-15).
    pub client_name: Option<String>,
    /// Whether the client declared `capabilities.mcpApps` (NEG-12).
    pub mcp_apps: bool,
    /// The client's locale, for labels (NEG-14).
    pub locale: Option<String>,
}

/// Parameters of `reconnect`.
#[derive(Debug, Clone)]
pub struct Reconnect {
    /// The identity used in the earlier `initialize`.
    pub client_id: ClientId,
    /// The last `serverSeq` the client processed, over all channels.
    pub last_seen: u64,
    /// The channels it wants back.
    pub subscriptions: Vec<String>,
}

/// Parameters of `subscribe`.
#[derive(Debug, Clone, Default)]
pub struct Subscribe {
    /// The channel's URI.
    pub channel: String,
    /// `delivery.maxLatencyMs`; absent means the host's default (SUB-10).
    pub max_latency_ms: Option<u32>,
    /// `view.turns`: how many of the latest completed turns; absent means all (SUB-12).
    pub turns: Option<usize>,
}

/// Parameters of `createSession`.
#[derive(Debug, Clone, Default)]
pub struct CreateSession {
    /// The URI the client chose.
    pub channel: String,
    /// The agent to use; absent means the host's default (SES-04).
    pub provider: Option<String>,
    /// Directories the session works in; only the first is used without the capability (SES-06).
    pub working_directories: Vec<String>,
    /// Joins the session as an active client right after creation (SES-07).
    pub active_client: Option<SessionActiveClient>,
    /// The sections that this client wants to rewrite (SMT-19).
    pub opt_in: Option<OptIn>,
    /// The session's settings (CMP-09).
    pub config: Map<String, Value>,
    /// Token for progress reports (ROOT-17).
    pub progress_token: Option<String>,
    /// The session to start from, as clients of 0.8 and older ask for.
    pub fork: Option<SessionFork>,
    /// The session's model and agent, as clients of 0.4 and older choose them.
    pub choices: Vec<SessionChoice>,
}

/// The session that a new one is a fork of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFork {
    /// Its URI.
    pub session: String,
    /// The last turn to take over.
    pub turn_id: String,
}

/// Parameters of `createChat`.
#[derive(Debug, Clone)]
pub struct CreateChat {
    /// The session's URI.
    pub channel: String,
    /// The URI the client chose for the chat.
    pub chat: String,
    /// Starts the first turn (CHT-10).
    pub initial_message: Option<Message>,
    /// Its source.
    pub source: Option<ChatSource>,
    /// A subset of the session's directories; absent means all (CHT-09).
    pub working_directories: Option<Vec<String>>,
    /// The model and the agent of the chat, which clients of 0.4 choose when they create it.
    pub choices: Vec<SessionChoice>,
}

/// Parameters of `moveChat`.
#[derive(Debug, Clone)]
pub struct MoveChat {
    /// The chat's URI.
    pub channel: String,
    /// The destination.
    pub destination: MoveDestination,
}

/// Destination of a chat that moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MoveDestination {
    /// A position in a session.
    Session {
        /// The session's URI.
        session: String,
        /// The chat it comes after; absent means first.
        after: Option<String>,
    },
    /// A session of its own.
    NewSession,
}

/// Parameters of `completions`.
#[derive(Debug, Clone)]
pub struct Completions {
    /// The chat's URI, or the session's, as the reference client sends it.
    pub channel: String,
    /// Kind of completion; unknown kinds find nothing.
    pub kind: String,
    /// The text so far.
    pub text: String,
    /// The position in it, in UTF-16 code units.
    pub offset: i64,
}

/// Parameters of `resolveSessionConfig`.
#[derive(Debug, Clone, Default)]
pub struct SessionSetup {
    /// The agent; absent means the host's default.
    pub provider: Option<String>,
    /// Working directories of the session.
    pub working_directory: Option<String>,
    /// Values chosen so far.
    pub config: Map<String, Value>,
}

/// Parameters of `sessionConfigCompletions`.
#[derive(Debug, Clone, Default)]
pub struct SettingQuery {
    /// The session to be.
    pub setup: SessionSetup,
    /// The setting.
    pub property: String,
    /// The typed text.
    pub query: String,
}

/// Parameters of `authenticate`.
#[derive(Debug, Clone)]
pub struct Authenticate {
    /// The protected resource.
    pub resource: String,
    /// A token for it; empty takes an earlier one back (AUTH-05).
    pub token: Secret,
    /// Lifetime in seconds.
    pub expires_in: Option<u64>,
    /// Scopes of the token, if the client knows them (AUTH-11).
    pub scopes: Option<Vec<String>>,
    /// Parameters for refreshing the token, for resources of MCP servers.
    pub refresh: Option<Box<TokenRefresh>>,
}

/// Parameters of `listSessions`.
#[derive(Debug, Clone, Default)]
pub struct ListSessions {
    /// The page size; absent means everything (ROOT-11).
    pub limit: Option<u32>,
    /// Cursor where the previous page ended.
    pub cursor: Option<String>,
}

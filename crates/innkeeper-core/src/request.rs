//! Requests as the core sees them: parsed, typed, with the id kept exactly as it arrived.

use ahp_types::state::SessionActiveClient;
use serde_json::value::RawValue;

use crate::ids::ClientId;

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
    },
    /// `listSessions`.
    ListSessions(Box<ListSessions>),
}

/// What `initialize` carries that the host acts on.
#[derive(Debug, Clone)]
pub struct Initialize {
    /// The versions the client offers, in any order (NEG-02).
    pub protocol_versions: Vec<String>,
    /// The client's chosen identity.
    pub client_id: ClientId,
    /// Channels to subscribe to at once; unknown ones are skipped (NEG-11).
    pub initial_subscriptions: Vec<String>,
    /// A name for logs only (NEG-15).
    pub client_name: Option<String>,
    /// Whether the client declared `capabilities.mcpApps` (NEG-12).
    pub mcp_apps: bool,
    /// The client's locale, for labels (NEG-14).
    pub locale: Option<String>,
}

/// What `reconnect` carries.
#[derive(Debug, Clone)]
pub struct Reconnect {
    /// The identity used in the earlier `initialize`.
    pub client_id: ClientId,
    /// The last `serverSeq` the client processed, over all channels.
    pub last_seen: u64,
    /// The channels it wants back.
    pub subscriptions: Vec<String>,
}

/// What `subscribe` carries. `view.turns` is read by the framing layer and may be ignored
/// (SUB-12): the snapshot then holds all retained turns.
#[derive(Debug, Clone)]
pub struct Subscribe {
    /// The channel's URI.
    pub channel: String,
    /// `delivery.maxLatencyMs`; absent means the host's default (SUB-10).
    pub max_latency_ms: Option<u32>,
}

/// What `createSession` carries.
#[derive(Debug, Clone)]
pub struct CreateSession {
    /// The URI the client chose.
    pub channel: String,
    /// The agent to use; absent means the host's default (SES-04).
    pub provider: Option<String>,
    /// Directories the session works in; only the first is used without the capability (SES-06).
    pub working_directories: Vec<String>,
    /// Joins the session as an active client right after creation (SES-07).
    pub active_client: Option<SessionActiveClient>,
}

/// What `listSessions` carries.
#[derive(Debug, Clone, Default)]
pub struct ListSessions {
    /// The page size; absent means everything (ROOT-11).
    pub limit: Option<u32>,
    /// Where the previous page ended.
    pub cursor: Option<String>,
}

//! MCP servers of sessions (MCP): which of them are to run, what clients see of them, and what they may
//! say to them.
//!
//! The core never talks to a server. It says which ones a session wants
//! ([`Effect::WantMcpServers`](crate::Effect::WantMcpServers)), is told what became of each
//! ([`Input::McpServer`](crate::Input::McpServer)), and publishes that:
//! - [`servers`] compares what is wanted with what runs, after every input that may have changed it;
//! - [`report`] publishes what servers do;
//! - [`demands`] is what people ask of one server: start, stop, do not wait for it;
//! - [`holding`] keeps turns back while servers start that they are to wait for;
//! - [`tokens`] hands tokens on to the servers that they are for;
//! - [`side_channel`] lets clients that show MCP Apps speak to a server;
//! - [`wire`] is how all of it looks in AHP.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::agent::{AuthRequirement, Failure, Secret};
use crate::ids::ChannelId;

mod demands;
mod holding;
mod report;
mod servers;
mod side_channel;
mod tokens;
mod wire;

pub use holding::Held;
pub use servers::SessionServers;
pub use side_channel::{APP_METHODS, AppMethod, McpRequest};
pub(crate) use tokens::ServerDemand;
pub(crate) use wire::at_rest;

/// What the core knows of servers over all sessions.
#[derive(Debug, Default)]
pub(crate) struct Mcp {
    /// The sessions that may want other servers than before.
    noted: BTreeSet<ChannelId>,
    /// The number of the latest start of any server.
    next_attempt: u64,
    pub(crate) tokens: tokens::McpTokens,
}

impl Mcp {
    /// Of a host whose earlier lives gave out no number above this one.
    pub(crate) fn new(last_attempt: u64) -> Self {
        Self {
            next_attempt: last_attempt,
            ..Self::default()
        }
    }
}

/// Everything that a session wants of MCP servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedServers {
    /// The session's URI.
    pub session_uri: Arc<str>,
    /// Where it works, as URIs: what servers are told when they ask for roots.
    pub roots: Vec<String>,
    /// The servers that are to run, in the order of the session's customizations.
    pub servers: Vec<WantedServer>,
}

/// A server that is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedServer {
    /// The id of its customization.
    pub id: String,
    /// Which of its starts it is. Another number than before means that it is to start anew, whatever
    /// it does now; reports carry it, so that those about an earlier start are recognised.
    pub attempt: u64,
}

/// What became of a server.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerReport {
    /// It does something else now.
    Status(ServerStatus),
    /// A list of its is different from before (MCP-17).
    ListChanged(ServerList),
    /// It wrote something for its log.
    Log {
        /// How important, in the words of MCP: from `debug` to `emergency`.
        level: String,
        /// Which part of it.
        logger: Option<String>,
        /// What it says.
        data: Value,
    },
}

/// What a server does (MCP-01).
#[derive(Debug, Clone, PartialEq)]
pub enum ServerStatus {
    /// It is coming up.
    Starting,
    /// It runs, and its tools are known.
    Ready {
        /// What clients may say to it on behalf of its apps, if it has any (MCP-15).
        apps: Option<AppCapabilities>,
    },
    /// Somebody has to sign in first (MCP-07).
    AuthRequired(Box<AuthRequirement>),
    /// It does not run, and nobody wanted that.
    Failed(Failure),
    /// It does not run.
    Stopped,
}

/// What clients may say to a server on behalf of its apps. Whoever reports it, serves it (MCP-15).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AppCapabilities {
    /// `tools/list` and `tools/call`, and whether changes of the list are told.
    pub tools: Option<bool>,
    /// `resources/list`, `resources/templates/list` and `resources/read`, likewise.
    pub resources: Option<bool>,
    /// `logging/setLevel`, and log messages in both directions.
    pub logging: bool,
    /// `sampling/createMessage`, and whether with tools.
    pub sampling: Option<bool>,
}

/// A list that a server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerList {
    /// Its tools.
    Tools,
    /// Its resources and their templates.
    Resources,
    /// Its prompts.
    Prompts,
}

/// A token for the servers of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerToken {
    /// The token. Never shown, kept or logged (AUTH-12).
    pub secret: Secret,
    /// What it grants, if whoever gave it knows (AUTH-11).
    pub scopes: Option<Vec<String>>,
    /// How many seconds it is good for, if that is known.
    pub expires_in: Option<u64>,
}

/// Something that a client says to a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ToServer {
    /// The id of the server's customization.
    pub server: String,
    /// Which of its starts the client means.
    pub attempt: u64,
    /// The method, as MCP names it.
    pub method: &'static str,
    /// Its parameters, without the channel (MCP-18).
    pub params: Map<String, Value>,
}

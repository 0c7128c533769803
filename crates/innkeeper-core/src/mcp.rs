//! MCP servers of sessions (MCP): which of them should run, what clients see of them, and what clients may send them.
//!
//! The core never talks to a server. It says which servers a session wants
//! ([`McpCommand::SetDesiredServers`](crate::effect::McpCommand::SetDesiredServers)), gets a report about each
//! ([`Input::McpServer`](crate::Input::McpServer)), and publishes it:
//! - `desired` compares the servers that should run with those that do, after every input that may have changed it;
//! - `status` publishes the reports of servers;
//! - `requests` handles the actions by which users start or stop a server, or stop waiting for it;
//! - `turn_gate` holds turns back while servers start that they wait for;
//! - `tokens` hands tokens on to servers, and `token_endpoints` checks where tokens are refreshed;
//! - `app_channel` lets clients with MCP Apps talk to a server;
//! - `app_turns` runs a turn in which a model writes for an app;
//! - `wire` converts to AHP's types.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::agent::{AuthRequirement, Failure, Secret};
use crate::ids::ClientId;

mod app_channel;
mod app_turns;
mod desired;
mod requests;
mod status;
mod token_endpoints;
mod tokens;
mod turn_gate;
mod wire;

pub use app_channel::{APP_METHODS, AppMethod, McpRequest};
pub use app_turns::AppTurn;
pub(crate) use app_turns::app_request;
pub use desired::SessionServers;
pub(crate) use desired::may_change_servers;
pub(crate) use token_endpoints::check_endpoints;
pub(crate) use tokens::{ServerDemand, is_signed_out};
pub use turn_gate::TurnWait;
pub(crate) use wire::{at_rest, take_over_facts};

/// The state of MCP servers over all sessions.
#[derive(Debug, Default)]
pub(crate) struct Mcp {
    /// The number of the latest start of any server.
    next_attempt: u64,
    tokens: tokens::McpTokens,
}

impl Mcp {
    /// Starts after the highest number that an earlier run of the host may have given out.
    pub(crate) fn new(last_attempt: u64) -> Self {
        Self {
            next_attempt: last_attempt,
            ..Self::default()
        }
    }

    /// Returns a number that no start of a server had before, in this run of the host or an earlier one.
    fn next_attempt(&mut self) -> u64 {
        self.next_attempt += 1;
        self.next_attempt
    }

    /// Whether a client gave a token for a resource.
    pub(crate) fn has_token(&self, resource: &str) -> bool {
        self.tokens.has(resource)
    }

    /// The scopes among those required that the token for a resource does not have.
    pub(crate) fn missing_scopes(&self, resource: &str, required: Vec<String>) -> Vec<String> {
        self.tokens.missing(resource, required)
    }
}

/// Everything that a session wants of MCP servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServersToRun {
    /// The session's URI.
    pub session_uri: Arc<str>,
    /// The working directories of the session, as URIs: the answer to a server that asks for roots.
    pub roots: Vec<String>,
    /// The servers that are to run, in the order of the session's customizations.
    pub servers: Vec<ServerToRun>,
}

/// A server that is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerToRun {
    /// The id of its customization.
    pub id: String,
    /// The number of this start. A new number means that the server has to start again, whatever its status is;
    /// reports carry it, so that those about an earlier start are recognised.
    pub attempt: u64,
}

/// A report about a server.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerReport {
    /// It does something else now.
    Status(ServerStatus),
    /// Details of it while it runs.
    Facts(ServerFacts),
    /// A list of its is different from before (MCP-17).
    ListChanged(ServerList),
    /// It wrote something for its log.
    Log {
        /// The severity, as MCP names it: from `debug` to `emergency`.
        level: String,
        /// Which part of it.
        logger: Option<String>,
        /// Message text.
        data: Value,
    },
}

/// The status of a server (MCP-01).
#[derive(Debug, Clone, PartialEq)]
pub enum ServerStatus {
    /// It is coming up.
    Starting,
    /// It runs, and its tools are known.
    Ready {
        /// The requests that clients may send to it on behalf of its apps, if it has any (MCP-15).
        apps: Option<AppCapabilities>,
    },
    /// A user has to sign in first (MCP-07).
    AuthRequired(Box<AuthRequirement>),
    /// It does not run because of a failure.
    Failed(Failure),
    /// It does not run.
    Stopped,
}

/// Details of a server that its status does not show. None of them is a secret (AUTH-12).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerFacts {
    /// The resource of its token, while it has one: a client that signs out has to name it (AUTH-05).
    pub resource: Option<String>,
    /// How many tools it has that models may call.
    pub tools: u64,
    /// Tools that cannot be called, because they need tasks of MCP. The reporter bounds the list.
    pub task_tools: Vec<String>,
    /// The icons of the server. The reporter bounds the list.
    pub icons: Vec<ServerIcon>,
}

/// An icon of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerIcon {
    /// Where it is, or what it is: an `https:` or a `data:` address.
    pub src: String,
    /// Its media type, if the server says it.
    pub content_type: Option<String>,
    /// The sizes that it is for, such as `48x48`; none if it does not matter.
    pub sizes: Vec<String>,
    /// Whether it is for a `light` or a `dark` background.
    pub theme: Option<String>,
}

/// The requests that clients may send to a server on behalf of its apps. The reporter serves all of them (MCP-15).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AppCapabilities {
    /// `tools/list` and `tools/call`; `true` if changes of the list are notified.
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
    /// The token. Never shown, logged or stored unencrypted (AUTH-12).
    pub secret: Secret,
    /// Scopes of the token, if its giver knows them (AUTH-11).
    pub scopes: Option<Vec<String>>,
    /// How many seconds it is good for, if that is known.
    pub expires_in: Option<u64>,
    /// The number of this token among all that were given in this run of the host, so that the loss of one is not
    /// taken for the loss of the next. Tokens of earlier runs have 0.
    pub number: u64,
    /// The client that gave it.
    pub given_by: String,
    /// The authorization servers of the resource that its MCP servers named.
    pub authorization_servers: Vec<String>,
    /// How to get the next one. With it, the MCP service replaces the token before it expires, and drops it when
    /// there is no other.
    pub refresh: Option<Box<TokenRefresh>>,
}

/// A change of the token of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenChange {
    /// A new token replaces an earlier one.
    Given(Box<ServerToken>),
    /// Its client revoked it, or left: servers are signed out.
    TakenBack,
    /// It expired. It is deleted, and servers show that it expired (AUTH-06).
    Expired,
}

/// How to get the next token without asking a user (RFC 6749, 6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRefresh {
    /// The refresh token, as secret as the token. Without it there is no next token, and the other fields say where
    /// this one is revoked.
    pub refresh_token: Option<Secret>,
    /// Where: an address of the authorization server.
    pub token_endpoint: String,
    /// The endpoint where tokens are revoked, if the authorization server has one (RFC 7009).
    pub revocation_endpoint: Option<String>,
    /// The OAuth client that the tokens were given to.
    pub client_id: String,
    /// Its password, if it has one.
    pub client_secret: Option<Secret>,
    /// How it shows who it is.
    pub client_auth: ClientAuth,
}

impl ServerToken {
    /// Whether the MCP service refreshes it by itself.
    pub fn is_renewed(&self) -> bool {
        let refresh = self.refresh.as_ref();
        refresh.is_some_and(|refresh| refresh.refresh_token.is_some())
    }
}

/// How an OAuth client shows who it is (RFC 6749, 2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAuth {
    /// By its name alone.
    None,
    /// With its password in the `Authorization` header.
    Basic,
    /// With its password in the form.
    Post,
}

impl ClientAuth {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::Basic, Self::Post];

    /// The name that OAuth has for it (RFC 7591, 2).
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
        }
    }
}

/// A token that was stored in an earlier run of the host, without the secret, which the MCP service has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTokenInfo {
    /// The resource that it is for.
    pub resource: String,
    /// The client that gave it.
    pub given_by: String,
    /// Its remaining lifetime in seconds, if that is known and it is not refreshed before.
    pub expires_in: Option<u64>,
    /// The authorization servers of the resource.
    pub authorization_servers: Vec<String>,
    /// The scopes of the token, if they are known.
    pub scopes: Option<Vec<String>>,
}

/// Something that a client says to a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ToServer {
    /// The id of the server's customization.
    pub server: String,
    /// Which of its starts the client means.
    pub attempt: u64,
    /// The client.
    pub client: Option<ClientId>,
    /// The method, as MCP names it.
    pub method: &'static str,
    /// Its parameters, without the channel (MCP-18).
    pub params: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_starts_follow_those_of_earlier_runs() {
        let mut mcp = Mcp::new(41);
        assert_eq!([mcp.next_attempt(), mcp.next_attempt()], [42, 43]);
    }

    #[test]
    fn without_a_token_every_required_scope_is_missing() {
        let mcp = Mcp::default();
        let required = vec!["read".to_owned(), "write".to_owned()];
        assert!(!mcp.has_token("https://notes.test/"));
        assert_eq!(mcp.missing_scopes("https://notes.test/", required.clone()), required);
    }
}

//! How a server introduces itself: servers since 2026-07-28 are discovered, older ones initialized.
//!
//! Which kind it is, is found out once. Discovery is sent first. A server that refuses it, or says nothing for a while, is
//! initialized on the same connection; if discovery is answered after all, that answer counts, and nothing has to be
//! started again.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::timeout;

use crate::engine::icons;
use crate::engine::paging::text;
use crate::engine::state::ServerInfo;
use crate::engine::wire::{HttpFailure, Peer, RequestFailure, STATELESS_REVISION};

/// The newest revision with the `initialize` handshake.
const NEWEST_WITH_HANDSHAKE: &str = "2025-11-25";
/// The error of a server that does not speak the revision of a request.
const UNSUPPORTED_VERSION: i64 = -32022;
const NOT_MCP: &str = "the server did not introduce itself as MCP says";

/// How a server is asked to introduce itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handshake {
    /// Discovery, and the older handshake unless the server answers in time.
    Either(DiscoveryTimeouts),
    /// `initialize` alone.
    Older,
    /// `server/discover` alone.
    Newer,
}

/// How long discovery is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiscoveryTimeouts {
    /// Before the older handshake is tried.
    pub(super) first: Duration,
    /// After the server refused the older handshake as well.
    pub(super) late: Duration,
}

/// Why a server did not introduce itself.
#[derive(Debug)]
pub(super) enum HandshakeFailure {
    /// It refused. `was_late` says that discovery has not been answered: the server may be a newer one that is slow.
    Refused { message: String, was_late: bool },
    /// The request could not be sent, or the connection ended.
    Failed(RequestFailure),
}

/// The description of the client.
#[derive(Clone, Debug)]
pub(super) struct ClientInfo {
    pub(super) capabilities: Value,
}

impl ClientInfo {
    fn implementation() -> Value {
        json!({ "name": "innkeeper", "title": "Innkeeper", "version": env!("CARGO_PKG_VERSION") })
    }

    /// The members of `_meta` that newer revisions want in every request.
    fn context(&self) -> Map<String, Value> {
        let members = [
            ("protocolVersion", json!(STATELESS_REVISION)),
            ("clientInfo", Self::implementation()),
            ("clientCapabilities", self.capabilities.clone()),
        ];
        let members = members.map(|(name, value)| (format!("io.modelcontextprotocol/{name}"), value));
        members.into_iter().collect()
    }
}

/// Has a server introduce itself, and tells the peer which revision it speaks.
pub(super) async fn introduce(
    peer: &Arc<Peer>,
    client: &ClientInfo,
    handshake: Handshake,
) -> Result<ServerInfo, HandshakeFailure> {
    match handshake {
        Handshake::Older => initialize(peer, client).await,
        Handshake::Newer => match discover(peer, client).await {
            Ok(info) => Ok(info),
            Err(Undiscovered::Older(message)) => Err(HandshakeFailure::refused(message)),
            Err(Undiscovered::Failed(failure)) => Err(HandshakeFailure::Failed(failure)),
        },
        Handshake::Either(timeouts) => discover_or_initialize(peer, client, timeouts).await,
    }
}

async fn discover_or_initialize(
    peer: &Arc<Peer>,
    client: &ClientInfo,
    timeouts: DiscoveryTimeouts,
) -> Result<ServerInfo, HandshakeFailure> {
    let discovering = discover(peer, client);
    tokio::pin!(discovering);
    match timeout(timeouts.first, &mut discovering).await {
        Ok(Ok(info)) => return Ok(info),
        Ok(Err(Undiscovered::Older(_))) => return initialize(peer, client).await,
        Ok(Err(Undiscovered::Failed(failure))) => return Err(HandshakeFailure::Failed(failure)),
        Err(_) => {}
    }
    let initializing = initialize(peer, client);
    tokio::pin!(initializing);
    let refused = tokio::select! {
        biased;
        discovered = &mut discovering => match discovered {
            Ok(info) => return Ok(info),
            // It cannot be discovered: then its word about the older handshake counts.
            Err(_) => return initializing.await,
        },
        initialized = &mut initializing => match initialized {
            Err(HandshakeFailure::Refused { message, .. }) => message,
            initialized => return initialized,
        },
    };
    match timeout(timeouts.late, discovering).await {
        Ok(Ok(info)) => Ok(info),
        Ok(Err(_)) => Err(HandshakeFailure::refused(refused)),
        Err(_) => Err(HandshakeFailure::Refused {
            message: refused,
            was_late: true,
        }),
    }
}

/// Why a server was not discovered.
enum Undiscovered {
    /// It is older than discovery, as it says in one of many ways.
    Older(String),
    Failed(RequestFailure),
}

async fn discover(peer: &Arc<Peer>, client: &ClientInfo) -> Result<ServerInfo, Undiscovered> {
    let context = client.context();
    let params = Map::from_iter([("_meta".to_owned(), Value::Object(context.clone()))]);
    let mut discovering = peer.handshake_request("server/discover", params, Some(STATELESS_REVISION));
    let answer = match discovering.answer().await {
        Ok(answer) => answer,
        Err(RequestFailure::Refused(error)) => {
            let supported = error.data.as_ref().and_then(|data| data.get("supported"));
            return Err(Undiscovered::Older(match error.code {
                UNSUPPORTED_VERSION => unknown_versions(supported),
                _ => refusal(&error.message),
            }));
        }
        // Servers from before 2026-07-28 refuse to be discovered in many ways.
        Err(RequestFailure::Http(failure @ HttpFailure::Status { status: 400..=499, .. })) => {
            return Err(match failure {
                HttpFailure::Status { status: 401 | 403, .. } => Undiscovered::Failed(RequestFailure::Http(failure)),
                _ => Undiscovered::Older(failure.to_string()),
            });
        }
        Err(failure) => return Err(Undiscovered::Failed(failure)),
    };
    let result: Value = serde_json::from_str(&answer).unwrap_or_default();
    let supported = result.get("supportedVersions");
    let versions = supported.and_then(Value::as_array).into_iter().flatten();
    if !versions.into_iter().any(|version| version == STATELESS_REVISION) {
        return Err(Undiscovered::Older(match supported {
            Some(supported) => unknown_versions(Some(supported)),
            // Older servers do not always say that they are: some answer whatever they do not know.
            None => NOT_MCP.to_owned(),
        }));
    }
    peer.introduced(STATELESS_REVISION, Some(context));
    let named = result
        .get("_meta")
        .and_then(|meta| meta.get("io.modelcontextprotocol/serverInfo"));
    let named = named.or_else(|| result.get("serverInfo"));
    Ok(info(&result, named, STATELESS_REVISION))
}

async fn initialize(peer: &Arc<Peer>, client: &ClientInfo) -> Result<ServerInfo, HandshakeFailure> {
    let params = Map::from_iter([
        ("protocolVersion".to_owned(), json!(NEWEST_WITH_HANDSHAKE)),
        ("capabilities".to_owned(), client.capabilities.clone()),
        ("clientInfo".to_owned(), ClientInfo::implementation()),
    ]);
    let answer = peer.handshake_request("initialize", params, None).answer().await;
    let answer = answer.map_err(|failure| match failure {
        RequestFailure::Refused(error) => HandshakeFailure::refused(refusal(&error.message)),
        failure => HandshakeFailure::Failed(failure),
    })?;
    let result: Value = serde_json::from_str(&answer).unwrap_or_default();
    let Some(version) = text(&result, "protocolVersion") else {
        return Err(HandshakeFailure::refused(NOT_MCP.to_owned()));
    };
    let has_handshake = version.as_str() < STATELESS_REVISION;
    peer.introduced(&version, (!has_handshake).then(|| client.context()));
    let told = peer.notify("notifications/initialized", None).await;
    told.map_err(HandshakeFailure::Failed)?;
    peer.listen();
    Ok(info(&result, result.get("serverInfo"), &version))
}

fn info(result: &Value, named: Option<&Value>, version: &str) -> ServerInfo {
    let field = |field: &str| named.and_then(|named| text(named, field));
    ServerInfo {
        name: field("name"),
        title: field("title"),
        version: field("version"),
        instructions: text(result, "instructions"),
        protocol_version: version.to_owned(),
        capabilities: result.get("capabilities").cloned().unwrap_or_default(),
        icons: icons::read(named.and_then(|named| named.get("icons"))),
    }
}

fn refusal(message: &str) -> String {
    format!("the server refused to start: {message}")
}

fn unknown_versions(supported: Option<&Value>) -> String {
    let versions = supported.and_then(Value::as_array).into_iter().flatten();
    let versions: Vec<&str> = versions.filter_map(Value::as_str).take(10).collect();
    let versions = versions.join(", ");
    format!("the server speaks only versions of MCP that are not known here: {versions}")
}

impl HandshakeFailure {
    fn refused(message: String) -> Self {
        Self::Refused {
            message,
            was_late: false,
        }
    }
}

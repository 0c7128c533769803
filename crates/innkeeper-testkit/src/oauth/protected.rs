//! MCP servers over streamable HTTP that require a sign-in (RFC 9728, RFC 6750).
//!
//! Every path is a server and a resource of its own, unless all of them say that they are parts of one
//! ([`MetadataLocation::Around`]). Their tools: `read`, for those whose token grants `read`, as everything else is, and `admin`,
//! for those whose token grants `admin`, which has a view. The refusal names the missing scope.

use std::collections::HashSet;
use std::sync::Arc;

use innkeeper_std::sync::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::http::{HttpListener, HttpRequest, OAuthResponse};
use super::registry::TokenCheck;
use super::{AuthorizationServer, ServerState};

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
/// Where the metadata is that only a header tells of.
const ELSEWHERE: &str = "/about";
/// The servers that pretend to be a part of something, and what they say about it.
const EVIL: &str = "/evil";
const EVIL_DOCUMENT: &str = "/evil/document";

/// How clients find the authorization server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataLocation {
    /// The refusal says where the metadata is, and it is nowhere else.
    Header,
    /// The refusal says nothing, and the metadata is where the RFC says.
    WellKnown,
    /// The resource is the whole origin. Servers say so where the RFC wants it said; one below `/evil` says so too,
    /// in a document of its own.
    Around,
    /// There is no metadata at all: servers of MCP 2025-03-26 give out tokens themselves, where that revision says.
    Nowhere,
}

/// A request that one of the servers got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The server, by its path.
    pub path: String,
    /// The method of MCP, if it is a message.
    pub method: String,
    /// The token that came with it.
    pub token: Option<String>,
}

/// Servers that run until this is dropped.
#[derive(Debug)]
pub struct ProtectedServers {
    listening: HttpListener,
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    trusted: Arc<ServerState>,
    metadata_location: MetadataLocation,
    sessions: Mutex<HashSet<String>>,
    received: watch::Sender<Vec<Received>>,
}

impl ProtectedServers {
    /// Starts servers that trust this authorization server. There is one for every requested path.
    pub async fn start(trusted: &AuthorizationServer, metadata_location: MetadataLocation) -> Self {
        let inner = Arc::new(Inner {
            trusted: Arc::clone(&trusted.shared),
            metadata_location,
            sessions: Mutex::default(),
            received: watch::Sender::default(),
        });
        let answering = Arc::clone(&inner);
        let listening = HttpListener::start(move |asked| {
            let inner = Arc::clone(&answering);
            async move { inner.answer(&asked) }
        })
        .await;
        Self { listening, inner }
    }

    /// The address of the server with this path, which is also its resource.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.listening.address())
    }

    /// Returns the requests to the server with this path.
    pub fn received(&self, path: &str) -> Vec<Received> {
        let received = self.inner.received.borrow();
        received.iter().filter(|one| one.path == path).cloned().collect()
    }

    /// Waits until something was received.
    pub async fn until_received(&self, comes: impl Fn(&Received) -> bool) {
        let mut received = self.inner.received.subscribe();
        let waiting = received.wait_for(|all| all.iter().any(&comes));
        let waited = tokio::time::timeout(crate::process::TIMEOUT, waiting).await;
        waited.expect("it never came").expect("the server holds the sender");
    }
}

impl Inner {
    fn answer(&self, asked: &HttpRequest) -> OAuthResponse {
        let host = asked.header("host").unwrap_or_default();
        let about = match self.metadata_location {
            MetadataLocation::Header => asked.path.strip_prefix(ELSEWHERE),
            MetadataLocation::WellKnown => asked.path.strip_prefix(WELL_KNOWN),
            MetadataLocation::Nowhere => None,
            MetadataLocation::Around => [WELL_KNOWN, EVIL_DOCUMENT]
                .contains(&asked.path.as_str())
                .then_some("/"),
        };
        if let Some(path) = about {
            return OAuthResponse::json(200, &self.metadata(&format!("http://{host}{path}")));
        }
        if asked.path.starts_with("/.well-known") {
            return OAuthResponse::empty(404);
        }
        let is_of_login = ["/authorize", "/token", "/register"].contains(&asked.path.as_str());
        if self.metadata_location == MetadataLocation::Nowhere && is_of_login {
            return super::answer(&self.trusted, "", asked);
        }
        let message = asked.json();
        let token = asked
            .header("authorization")
            .and_then(|header| header.strip_prefix("Bearer "));
        let received = Received {
            path: asked.path.clone(),
            method: message["method"].as_str().unwrap_or_default().to_owned(),
            token: token.map(str::to_owned),
        };
        let is_part = self.metadata_location == MetadataLocation::Around && !asked.path.starts_with(EVIL);
        let resource = match is_part {
            true => format!("http://{host}/"),
            false => format!("http://{host}{}", asked.path),
        };
        let metadata = match self.metadata_location {
            MetadataLocation::Header => Some(format!("http://{host}{ELSEWHERE}{}", asked.path)),
            MetadataLocation::Around if is_part => Some(format!("http://{host}{WELL_KNOWN}")),
            MetadataLocation::Around => Some(format!("http://{host}{EVIL_DOCUMENT}")),
            MetadataLocation::WellKnown | MetadataLocation::Nowhere => None,
        };
        let refusal = self.refuse(token, &resource, &message, metadata.as_deref());
        self.received.send_modify(|all| all.push(received));
        if let Some(refusal) = refusal {
            return refusal;
        }
        match asked.method.as_str() {
            "POST" => self.post(asked, &message),
            "DELETE" => OAuthResponse::empty(200),
            _ => OAuthResponse::empty(405),
        }
    }

    fn metadata(&self, resource: &str) -> Value {
        json!({
            "resource": resource, "authorization_servers": [self.trusted.issuer()],
            "scopes_supported": ["read", "admin"], "bearer_methods_supported": ["header"],
            "resource_name": "The register of the inn",
        })
    }

    /// The challenge of RFC 6750.
    fn refuse(
        &self,
        token: Option<&str>,
        resource: &str,
        message: &Value,
        metadata: Option<&str>,
    ) -> Option<OAuthResponse> {
        let wants_admin = message["method"] == "tools/call" && message["params"]["name"] == "admin";
        let needed = if wants_admin { "admin" } else { "read" };
        let presented = token.map(|token| self.trusted.registry().look_at(token, resource));
        let (status, mut challenge) = match presented {
            Some(TokenCheck::Good(scopes)) => {
                if scopes.iter().any(|granted| granted == needed) {
                    return None;
                }
                (403, format!("Bearer error=\"insufficient_scope\", scope=\"{needed}\""))
            }
            None => (401, "Bearer scope=\"read\"".to_owned()),
            Some(bad) => {
                let why = match bad {
                    TokenCheck::Expired => "the token expired",
                    TokenCheck::ForAnother => "the token is for another resource",
                    TokenCheck::Unknown | TokenCheck::Good(_) => "the token is not known",
                };
                let challenge = format!("Bearer error=\"invalid_token\", error_description=\"{why}\", scope=\"read\"");
                (401, challenge)
            }
        };
        if let Some(metadata) = metadata {
            challenge.push_str(&format!(", resource_metadata=\"{metadata}\""));
        }
        Some(OAuthResponse::empty(status).header("www-authenticate", &challenge))
    }

    fn post(&self, asked: &HttpRequest, message: &Value) -> OAuthResponse {
        let reply = |result: Value| {
            let reply = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
            OAuthResponse::json(200, &reply)
        };
        let method = message["method"].as_str().unwrap_or_default();
        if method == "initialize" {
            let mut sessions = self.sessions();
            let session = format!("session-{}", sessions.len());
            sessions.insert(session.clone());
            let version = message["params"]["protocolVersion"].as_str().unwrap_or("2025-06-18");
            return reply(json!({
                "protocolVersion": version, "capabilities": { "tools": {} },
                "serverInfo": { "name": "register", "version": "1" },
            }))
            .header("mcp-session-id", &session);
        }
        let session = asked.header("mcp-session-id").unwrap_or_default();
        if !self.sessions().contains(session) {
            // A request without a session must begin one, also for discovery.
            return OAuthResponse::empty(if session.is_empty() { 400 } else { 404 });
        }
        if message["id"].is_null() {
            return OAuthResponse::empty(202);
        }
        let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
        let mut admin = tool("admin");
        admin["_meta"] = json!({ "ui": { "resourceUri": "ui://register/desk" } });
        match method {
            "ping" => reply(json!({})),
            "tools/list" => reply(json!({ "tools": [tool("read"), admin] })),
            "tools/call" => {
                let name = message["params"]["name"].as_str().unwrap_or_default();
                reply(json!({ "content": [{ "type": "text", "text": format!("{name} done") }] }))
            }
            _ => {
                let error = json!({ "code": -32601, "message": "unknown" });
                OAuthResponse::json(200, &json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }))
            }
        }
    }

    fn sessions(&self) -> MutexGuard<'_, HashSet<String>> {
        self.sessions.lock()
    }
}

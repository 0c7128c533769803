//! Sign-in on loopback: an OAuth 2.1 authorization server, MCP servers that it protects, and a user who signs in
//! through a client.
//!
//! [`AuthorizationServer`] enforces the rules of real servers: PKCE with S256, codes that work once, registered redirect
//! addresses, tokens that are bound to one resource, expire and can be revoked. Its errors are those of the RFCs.
//! [`ProtectedServers`] check the tokens and report a missing one in the three ways of MCP. [`User`] signs in with
//! nothing but the information that the client got.

mod authorize;
mod http;
mod metadata;
mod protected;
mod registry;
#[cfg(test)]
mod tests;
mod token;
mod user;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use innkeeper_std::sync::{Mutex, MutexGuard};

use serde_json::{Value, json};

use self::http::{HttpListener, HttpRequest, OAuthResponse};
pub use self::protected::{MetadataLocation, ProtectedServers, Received};
use self::registry::Registry;
pub use self::registry::{Client, TokenCheck};
pub use self::user::{BrowserPage, SignInResult, User, visit};

/// How an authorization server behaves. Scenarios change it while it runs.
#[derive(Debug, Clone)]
pub struct OAuthBehaviour {
    /// How long tokens are good for.
    pub lifetime: Duration,
    /// Whether tokens come with one that gets the next.
    pub refreshes: bool,
    /// Whether clients can register by themselves (RFC 7591).
    pub registers: bool,
    /// Whether redirect addresses are compared with their port, as not every server knows what programs need (RFC
    /// 8252, 7.3).
    pub compares_ports: bool,
    /// Whether the user agrees.
    pub consents: bool,
    /// Grants these at most, whatever was asked for.
    pub grants_at_most: Option<Vec<String>>,
    /// Has its metadata only where OpenID has it.
    pub is_openid: bool,
    /// Says this where it should say who it is, in its metadata.
    pub claims_to_be: Option<String>,
    /// The issuer that it claims to be when it redirects a user back (RFC 9207), instead of its own.
    pub answers_as: Option<String>,
    /// Sends this back in place of the state that came.
    pub echoes: Option<String>,
}

impl Default for OAuthBehaviour {
    fn default() -> Self {
        Self {
            lifetime: Duration::from_secs(3600),
            refreshes: true,
            registers: true,
            compares_ports: false,
            consents: true,
            grants_at_most: None,
            is_openid: false,
            claims_to_be: None,
            answers_as: None,
            echoes: None,
        }
    }
}

/// An authorization server at work. Dropping it ends it.
#[derive(Debug)]
pub struct AuthorizationServer {
    listening: HttpListener,
    shared: Arc<ServerState>,
}

/// State that the server, its connections and the servers that trust it share.
#[derive(Debug, Default)]
pub(crate) struct ServerState {
    issuer: std::sync::OnceLock<String>,
    behaviour: Mutex<OAuthBehaviour>,
    registry: Mutex<Registry>,
}

impl AuthorizationServer {
    /// Starts one whose address is its whole name.
    pub async fn start() -> Self {
        Self::start_below("").await
    }

    /// Starts one whose name has a path, such as `/inn`.
    pub async fn start_below(path: &str) -> Self {
        let shared = Arc::new(ServerState::default());
        let answering = Arc::clone(&shared);
        let prefix = path.to_owned();
        let listening = HttpListener::start(move |asked| {
            let shared = Arc::clone(&answering);
            let prefix = prefix.clone();
            async move { answer(&shared, &prefix, &asked) }
        })
        .await;
        let issuer = format!("http://{}{path}", listening.address());
        shared.issuer.set(issuer).expect("it starts once");
        Self { listening, shared }
    }

    /// Its name, which is an address (RFC 8414).
    pub fn issuer(&self) -> String {
        self.shared.issuer().to_owned()
    }

    /// Where it listens.
    pub fn address(&self) -> std::net::SocketAddr {
        self.listening.address()
    }

    /// Makes it behave differently.
    pub fn set(&self, change: impl FnOnce(&mut OAuthBehaviour)) {
        change(&mut self.shared.behaviour());
    }

    /// Registers a client beforehand, with a secret or without. It may be sent back to these addresses; on loopback
    /// the port does not matter (RFC 8252, 7.3).
    pub fn register(&self, id: &str, secret: Option<&str>, redirects: &[&str]) {
        let client = Client {
            secret: secret.map(str::to_owned),
            redirects: redirects.iter().map(|&address| address.to_owned()).collect(),
        };
        self.shared.registry().add_client(id, client);
    }

    /// Lets time pass: tokens and codes that are not good for longer are not good any more.
    pub fn pass(&self, time: Duration) {
        self.shared.registry().pass(time);
    }

    /// Validates a token for a resource.
    pub fn look_at(&self, token: &str, resource: &str) -> TokenCheck {
        self.shared.registry().look_at(token, resource)
    }

    /// Issues a token without a sign-in.
    pub fn give_out(&self, resource: &str, scopes: &[&str]) -> String {
        let scopes = scopes.iter().map(|&scope| scope.to_owned()).collect();
        let lifetime = self.shared.behaviour().lifetime;
        self.shared.registry().give_out(resource, scopes, lifetime)
    }

    /// Everything secret that it ever gave out or was told: tokens, codes and secrets of clients.
    pub fn secrets(&self) -> Vec<String> {
        self.shared.registry().secrets().to_vec()
    }

    /// How many clients have registered by themselves.
    pub fn registrations(&self) -> usize {
        self.shared.registry().registrations()
    }

    /// The parameters of every request for a token or for its revocation, without what is secret in them.
    pub fn requests(&self) -> Vec<HashMap<String, String>> {
        self.shared.registry().requests().to_vec()
    }
}

impl ServerState {
    pub(crate) fn issuer(&self) -> &str {
        self.issuer.get().map_or("", String::as_str)
    }

    pub(crate) fn behaviour(&self) -> MutexGuard<'_, OAuthBehaviour> {
        self.behaviour.lock()
    }

    pub(crate) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock()
    }
}

fn answer(shared: &ServerState, prefix: &str, asked: &HttpRequest) -> OAuthResponse {
    if let Some(metadata) = metadata::answer(shared, prefix, asked) {
        return metadata;
    }
    let path = asked.path.strip_prefix(prefix).unwrap_or_default();
    match (asked.method.as_str(), path) {
        ("POST", "/register") => register(shared, &asked.json()),
        ("GET", "/authorize") => authorize::answer(shared, &asked.query),
        ("POST", "/token") => token::answer(shared, asked),
        ("POST", "/revoke") => token::revoke(shared, asked),
        _ => OAuthResponse::empty(404),
    }
}

/// RFC 7591.
fn register(shared: &ServerState, wanted: &Value) -> OAuthResponse {
    if !shared.behaviour().registers {
        return OAuthResponse::empty(404);
    }
    let redirects = wanted["redirect_uris"].as_array().into_iter().flatten();
    let redirects: Vec<String> = redirects.filter_map(Value::as_str).map(str::to_owned).collect();
    let is_fine = |address: &String| address.starts_with("https://") || authorize::is_loopback(address);
    if redirects.is_empty() || !redirects.iter().all(is_fine) {
        let problem = json!({ "error": "invalid_redirect_uri" });
        return OAuthResponse::json(400, &problem);
    }
    let method = wanted["token_endpoint_auth_method"]
        .as_str()
        .unwrap_or("client_secret_basic");
    let id = shared.registry().register(redirects.clone(), method != "none");
    let mut registered = json!({
        "client_id": id.0, "redirect_uris": redirects, "token_endpoint_auth_method": method,
        "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
    });
    if let Some(secret) = id.1 {
        registered["client_secret"] = json!(secret);
        registered["client_secret_expires_at"] = json!(0);
    }
    OAuthResponse::json(201, &registered)
}

//! Access over HTTP: tokens, and the checks that keep web pages out.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
pub use innkeeper_core::{Principal, Scope};
use innkeeper_std::sync::Mutex;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::net::web::WebApp;

/// A connection token. Only its hash is kept, and nothing prints it.
#[derive(Clone)]
pub struct Token {
    hash: [u8; 32],
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
    }
}

/// A text that cannot be a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a token has at least 16 characters out of A-Z a-z 0-9 - . _ ~")]
pub struct BadToken;

/// Shortest token that is accepted.
const MIN_TOKEN_CHARS: usize = 16;

impl Token {
    /// Draws a new 256-bit token and returns it with its text, which is the only copy.
    pub fn generate() -> Result<(Self, String), getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        let text = URL_SAFE_NO_PAD.encode(bytes);
        Ok((Self { hash: hash(&text) }, text))
    }

    /// Reads a token, for instance from a file; white space around it does not count.
    pub fn parse(text: &str) -> Result<Self, BadToken> {
        let text = text.trim();
        let well_formed = text.chars().all(|c| c.is_ascii_alphanumeric() || "-._~".contains(c));
        if text.len() < MIN_TOKEN_CHARS || !well_formed {
            return Err(BadToken);
        }
        Ok(Self { hash: hash(text) })
    }

    fn matches(&self, offered: &[u8; 32]) -> bool {
        self.hash.ct_eq(offered).into()
    }
}

fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// The rules for HTTP peers of one listener.
#[derive(Debug, Clone)]
pub struct Access {
    tokens: Vec<(Token, Principal)>,
    origins: Vec<String>,
    hosts: Vec<String>,
    failures: Arc<Mutex<HashMap<IpAddr, Failures>>>,
    web: Option<WebApp>,
}

/// The origin of a request that is not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestOrigin {
    /// No `Origin`: not a web page, or a page that only reads.
    None,
    /// The web app of this host.
    Own,
    /// A listed origin.
    Listed,
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    since: Instant,
    count: u32,
}

impl Failures {
    fn none() -> Self {
        Self {
            since: Instant::now(),
            count: 0,
        }
    }
}

/// A refusal, before any AHP byte. Deliberately without detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    /// 400: no `Host`.
    NoHost,
    /// 421: a `Host` that is not ours: DNS rebinding.
    WrongHost,
    /// 403: a web page that is not ours.
    Origin,
    /// 401: no token, or a wrong one.
    Token,
    /// 429: too many wrong ones.
    TooMany,
}

/// The origin of the windows of VS Code on the desktop. No web page can have it: browsers know no such scheme and send
/// `null` in its place. So it says which program asks, and the token still says whether it may.
const VSCODE_DESKTOP: &str = "vscode-file://vscode-app";

/// How long failures are counted.
const FAILURE_WINDOW: Duration = Duration::from_secs(60);
/// Peers whose failures are counted at most; beyond it the table starts over.
const FAILURE_PEERS: usize = 10_000;

impl Access {
    /// Returns the rules for a listener on this address: its own names are accepted as `Host`, the desktop windows of
    /// VS Code as `Origin` and no web page. Without a token, every client that reaches the port has all rights.
    pub fn new(bound: SocketAddr) -> Self {
        let port = bound.port();
        let mut hosts = vec![
            format!("localhost:{port}"),
            format!("127.0.0.1:{port}"),
            format!("[::1]:{port}"),
        ];
        // A wildcard address is where we listen, never what a client may call us (T3).
        if !bound.ip().is_unspecified() {
            hosts.push(bound.to_string());
        }
        if port == 80 {
            hosts.extend(["localhost", "127.0.0.1", "[::1]"].map(str::to_owned));
        }
        Self {
            tokens: Vec::new(),
            origins: vec![VSCODE_DESKTOP.to_owned()],
            hosts,
            failures: Arc::default(),
            web: None,
        }
    }

    /// Rules for a Unix socket, where the peer's user id is the credential and `Host` says nothing.
    pub fn unix() -> Self {
        Self {
            tokens: Vec::new(),
            origins: vec![VSCODE_DESKTOP.to_owned()],
            hosts: Vec::new(),
            failures: Arc::default(),
            web: None,
        }
    }

    /// Requires a token, or one more.
    #[must_use]
    pub fn allow_token(mut self, token: Token, label: &str, scope: Scope) -> Self {
        self.tokens
            .push((token, Principal::new(&format!("token:{label}"), scope)));
        self
    }

    /// Lets one web origin in, compared exactly. `null` never is.
    #[must_use]
    pub fn allow_origin(mut self, origin: &str) -> Self {
        self.origins.push(origin.to_owned());
        self
    }

    /// Accepts one more name as `Host`, with its port.
    #[must_use]
    pub fn allow_host(mut self, host: &str) -> Self {
        self.hosts.push(host.to_ascii_lowercase());
        self
    }

    /// Serves the web app, whose pages may connect once a browser has signed in.
    #[must_use]
    pub fn serve_web_app(mut self, web: WebApp) -> Self {
        self.web = Some(web);
        self
    }

    /// The web app, if there is one.
    pub(crate) fn web(&self) -> Option<&WebApp> {
        self.web.as_ref()
    }

    /// Whether a token is needed.
    pub fn needs_token(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Checks `Host` against DNS rebinding. Applies to every route.
    pub(crate) fn check_host(&self, host: Option<&str>) -> Result<(), Denied> {
        match host {
            _ if self.hosts.is_empty() => Ok(()),
            None => Err(Denied::NoHost),
            Some(host) if self.hosts.contains(&host.to_ascii_lowercase()) => Ok(()),
            Some(_) => Err(Denied::WrongHost),
        }
    }

    /// Checks `Origin`: any request of a web page is refused unless its origin is listed, or is this host's own and the
    /// host has a web app. The own origin is the name by which the browser reached the host, which was checked before.
    pub(crate) fn check_origin(&self, origin: Option<&str>, host: Option<&str>) -> Result<RequestOrigin, Denied> {
        let Some(origin) = origin else {
            return Ok(RequestOrigin::None);
        };
        let authority = origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"));
        let is_own = match (authority, host) {
            (Some(authority), Some(host)) => authority.eq_ignore_ascii_case(host),
            _ => false,
        };
        if is_own && self.web.is_some() && !self.hosts.is_empty() {
            return Ok(RequestOrigin::Own);
        }
        match origin != "null" && self.origins.iter().any(|allowed| allowed == origin) {
            true => Ok(RequestOrigin::Listed),
            false => Err(Denied::Origin),
        }
    }

    /// Finds out who a peer is from its `Authorization` header or the query of its request.
    pub(crate) fn authenticate(
        &self,
        peer: Option<IpAddr>,
        authorization: Option<&str>,
        query: Option<&str>,
        most: u32,
    ) -> Result<Principal, Denied> {
        if self.tokens.is_empty() {
            return Ok(Principal::new("anyone", Scope::Admin));
        }
        let offered = authorization
            .and_then(bearer)
            .or_else(|| query.and_then(token_in_query));
        // Every token is compared, so that the time tells nothing about which one matched.
        let offered_hash = hash(&offered.unwrap_or_default());
        let mut principal = None;
        for (token, owner) in &self.tokens {
            if token.matches(&offered_hash) {
                principal = Some(owner.clone());
            }
        }
        // A right token is let in whatever others at the same address have tried: it cannot be
        // guessed, and one stale client must not lock the others out.
        principal.ok_or_else(|| self.failed(peer, most))
    }

    /// Counts a wrong credential, and returns the refusal.
    pub(crate) fn failed(&self, peer: Option<IpAddr>, most: u32) -> Denied {
        if self.failures(peer) >= most {
            return Denied::TooMany;
        }
        self.count_failure(peer);
        Denied::Token
    }

    fn failures(&self, peer: Option<IpAddr>) -> u32 {
        let Some(peer) = peer else {
            return 0;
        };
        let failures = self.failures.lock();
        failures
            .get(&peer)
            .filter(|entry| entry.since.elapsed() < FAILURE_WINDOW)
            .map_or(0, |entry| entry.count)
    }

    fn count_failure(&self, peer: Option<IpAddr>) {
        let Some(peer) = peer else {
            // A Unix socket has no address to count by; its permissions protect it.
            return;
        };
        let mut failures = self.failures.lock();
        if failures.len() >= FAILURE_PEERS {
            failures.retain(|_, entry| entry.since.elapsed() < FAILURE_WINDOW);
        }
        if failures.len() >= FAILURE_PEERS {
            failures.clear();
        }
        let entry = failures.entry(peer).or_insert_with(Failures::none);
        if entry.since.elapsed() >= FAILURE_WINDOW {
            *entry = Failures::none();
        }
        entry.count += 1;
    }
}

fn bearer(header: &str) -> Option<String> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

/// `?tkn=` as the reference client sends it, or `?token=`.
fn token_in_query(query: &str) -> Option<String> {
    query.split('&').find_map(|pair| match pair.split_once('=')? {
        ("tkn" | "token", value) => Some(value.to_owned()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> (Access, String) {
        let (token, text) = Token::generate().expect("randomness");
        (
            Access::new(SocketAddr::from(([127, 0, 0, 1], 4747))).allow_token(token, "default", Scope::Admin),
            text,
        )
    }

    #[test]
    fn a_token_is_accepted_in_the_header_and_in_the_query() {
        let (access, text) = access();
        assert_eq!(text.len(), 43, "256 bits");
        let header = format!("Bearer {text}");
        for (header, query) in [
            (Some(header.as_str()), None),
            (None, Some(format!("tkn={text}"))),
            (None, Some(format!("a=b&token={text}"))),
        ] {
            assert!(access.authenticate(None, header, query.as_deref(), 10).is_ok());
        }
        for header in [None, Some("Bearer"), Some("Bearer wrong"), Some("Basic abc")] {
            assert_eq!(access.authenticate(None, header, None, 10), Err(Denied::Token));
        }
    }

    #[test]
    fn guessing_is_slowed_down_per_peer_alone() {
        let (access, text) = access();
        let peer = Some(IpAddr::from([127, 0, 0, 9]));
        let wrong = |access: &Access| access.authenticate(peer, Some("Bearer wrong"), None, 3);
        for _ in 0..3 {
            assert_eq!(wrong(&access), Err(Denied::Token));
        }
        assert_eq!(wrong(&access), Err(Denied::TooMany));
        let header = format!("Bearer {text}");
        assert!(access.authenticate(peer, Some(&header), None, 3).is_ok());
    }

    #[test]
    fn t3_foreign_host_names_are_refused() {
        let (access, _) = access();
        for host in ["127.0.0.1:4747", "localhost:4747", "LOCALHOST:4747", "[::1]:4747"] {
            assert_eq!(access.check_host(Some(host)), Ok(()), "{host}");
        }
        for host in [
            "evil.test:4747",
            "127.0.0.1",
            "127.0.0.1:80",
            "0.0.0.0:4747",
            "localhost.evil.test:4747",
        ] {
            assert_eq!(access.check_host(Some(host)), Err(Denied::WrongHost), "{host}");
        }
        assert_eq!(access.check_host(None), Err(Denied::NoHost));
    }

    #[test]
    fn t2_web_pages_are_refused_unless_listed_exactly() {
        let (access, _) = access();
        let access = access.allow_origin("https://ui.test");
        let check = |origin| access.check_origin(origin, Some("127.0.0.1:4747"));
        assert_eq!(check(None), Ok(RequestOrigin::None));
        assert_eq!(check(Some("https://ui.test")), Ok(RequestOrigin::Listed));
        assert_eq!(check(Some(VSCODE_DESKTOP)), Ok(RequestOrigin::Listed));
        for origin in [
            "null",
            "",
            "https://ui.test.evil",
            "http://ui.test",
            "https://ui.test:444",
            "http://127.0.0.1:4747",
            "vscode-file://vscode-app.evil.test",
            "vscode-file://vscode-app/",
            "vscode-webview://vscode-app",
        ] {
            assert_eq!(check(Some(origin)), Err(Denied::Origin), "{origin}");
        }
    }

    #[test]
    fn nothing_prints_a_token() {
        let (access, text) = access();
        assert!(!format!("{access:?}").contains(&text));
        assert!(Token::parse("short").is_err());
        assert!(Token::parse("has spaces in the middle").is_err());
    }
}

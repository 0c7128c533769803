//! Signing in to a server: the sign-in that it demands, and the token that it got.
//!
//! Clients of the host get tokens. The engine describes the sign-in ([`SignIn`]), takes a [`Token`], and sends it to the one
//! server whose resource it is for (T16). When a server does not accept its token any more, the host may have a newer one
//! ([`Renew`]), and users are asked only if it has none.

mod challenge;
mod metadata;
mod renew;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::sync::watch;

pub(crate) use self::challenge::Challenge;
pub(crate) use self::metadata::{Metadata, bounded_scopes, bounded_text, canonical_resource, is_itself};
pub use self::renew::Renew;
use crate::engine::secret::{Scrubber, Token};

/// A sign-in that a server demands (MCP-07, MCP-08).
#[derive(Clone, Debug, PartialEq)]
pub struct SignIn {
    /// The reason.
    pub reason: SignInReason,
    /// The resource, and its authorization servers.
    pub resource: ResourceMetadata,
    /// The scopes that the server asked for.
    pub required_scopes: Option<Vec<String>>,
    /// The OAuth client that users have registered for it.
    pub oauth_client_id: Option<String>,
    /// The description of the server.
    pub description: Option<String>,
}

/// Why a sign-in is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignInReason {
    /// There was no token.
    Required,
    /// The token is not accepted any more.
    Expired,
    /// The server has never accepted the token.
    Refused,
    /// The token does not grant this.
    InsufficientScope,
}

/// A protected resource (RFC 9728).
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceMetadata {
    /// The canonical address of the server (RFC 8707), which tokens are bound to.
    pub resource: String,
    /// The authorization servers.
    pub authorization_servers: Vec<String>,
    /// The metadata document. Its `resource` and `authorization_servers` are those above.
    pub document: serde_json::Value,
}

/// The number of earlier tokens that are hidden as well: one may have been sent before another came.
const REMEMBERED: usize = 4;

/// The token of one server.
#[derive(Debug)]
pub(crate) struct Credentials {
    current: watch::Sender<Current>,
    /// The newest generation that the server has accepted. Kept apart from the token, so that it does not wake tasks that
    /// wait for another token.
    accepted: AtomicU64,
    /// The generation that is withheld because the server did not start with it; 0 if there is none.
    withheld: AtomicU64,
}

#[derive(Clone, Default)]
struct Current {
    /// The resource that tokens are bound to. Stored with the token, so that no token is ever used for another resource
    /// (T16).
    resource: String,
    token: Option<Token>,
    good_until: Option<Instant>,
    /// The number of tokens that were set.
    generation: u64,
    /// The last tokens that were set, the newest last, to be hidden.
    sent: VecDeque<String>,
    /// True if there ever was one: otherwise a refusal means "required" and not "expired".
    had_one: bool,
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current")
            .field("token", &self.token)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

/// A token at one moment, to be sent.
pub(crate) struct Bearer {
    pub(crate) value: Option<String>,
    pub(crate) generation: u64,
    pub(crate) history: TokenHistory,
}

/// The history of the token of a request. It decides why the request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenHistory {
    /// There was no token.
    None,
    /// No server has accepted it yet.
    Untried,
    /// It was accepted before, or it has expired.
    Used,
}

impl Credentials {
    pub(crate) fn new(resource: String) -> Self {
        Self {
            current: watch::Sender::new(Current {
                resource,
                ..Current::default()
            }),
            accepted: AtomicU64::new(0),
            withheld: AtomicU64::new(0),
        }
    }

    /// Withholds a token that no server has accepted, until another one is set. Returns true if there is such a token.
    pub(crate) fn withhold_untried(&self) -> bool {
        let bearer = self.bearer();
        let is_untried = bearer.value.is_some() && bearer.history == TokenHistory::Untried;
        if is_untried {
            self.withheld.store(bearer.generation, Ordering::Relaxed);
        }
        is_untried
    }

    /// Returns true if the token is withheld.
    pub(crate) fn is_withheld(&self) -> bool {
        let generation = self.generation();
        generation > 0 && self.withheld.load(Ordering::Relaxed) == generation
    }

    /// Sends a withheld token again.
    pub(crate) fn withhold_nothing(&self) {
        self.withheld.store(0, Ordering::Relaxed);
    }

    /// Records that the server has accepted a token.
    pub(crate) fn was_accepted(&self, bearer: &Bearer) {
        if bearer.value.is_some() {
            self.accepted.fetch_max(bearer.generation, Ordering::Relaxed);
        }
    }

    /// Returns the resource that tokens are bound to.
    pub(crate) fn resource(&self) -> String {
        self.current.borrow().resource.clone()
    }

    /// Sets the resource that the server named, and removes a token for another one (T16). Returns true if it is another one.
    pub(crate) fn set_resource(&self, resource: &str) -> bool {
        self.current.send_if_modified(|current| {
            let is_another = current.resource != resource;
            if is_another {
                resource.clone_into(&mut current.resource);
                current.set(None);
            }
            is_another
        })
    }

    /// Sets the token for a resource; an empty token or none removes it (AUTH-05). If tokens are bound to another resource,
    /// nothing changes and that resource is returned.
    pub(crate) fn set(&self, resource: &str, token: Option<Token>) -> Result<(), String> {
        let token = token.filter(|token| !token.expose().is_empty());
        let mut expected = None;
        self.current.send_if_modified(|current| {
            if current.resource == resource {
                current.set(token);
                return true;
            }
            expected = Some(current.resource.clone());
            false
        });
        expected.map_or(Ok(()), Err)
    }

    /// Returns the token to send now. An expired token is not sent (AUTH-06).
    pub(crate) fn bearer(&self) -> Bearer {
        let current = self.current.borrow();
        let is_good = current.good_until.is_none_or(|until| Instant::now() < until);
        let was_accepted = self.accepted.load(Ordering::Relaxed) == current.generation
            || current.token.as_ref().is_some_and(|token| token.has_worked);
        let is_withheld = current.generation > 0 && self.withheld.load(Ordering::Relaxed) == current.generation;
        let history = match (current.had_one, is_good && !was_accepted) {
            (false, _) => TokenHistory::None,
            (true, true) => TokenHistory::Untried,
            (true, false) => TokenHistory::Used,
        };
        Bearer {
            value: current
                .token
                .as_ref()
                .filter(|_| is_good && !is_withheld)
                .map(|token| token.expose().to_owned()),
            generation: current.generation,
            history,
        }
    }

    /// Returns the token that was set last, valid or not.
    pub(crate) fn token(&self) -> Option<Token> {
        self.current.borrow().token.clone()
    }

    /// Returns the number of tokens that were set.
    pub(crate) fn generation(&self) -> u64 {
        self.current.borrow().generation
    }

    /// Waits for a token that is newer than `generation`.
    pub(crate) async fn newer_than(&self, generation: u64) {
        let mut changes = self.current.subscribe();
        let is_newer = |current: &Current| current.generation > generation && current.token.is_some();
        // The sender lives as long as this does.
        let _ = changes.wait_for(is_newer).await;
    }

    /// Returns the scopes that the token is known to grant.
    pub(crate) fn scopes(&self) -> Vec<String> {
        let current = self.current.borrow();
        let scopes = current.token.as_ref().and_then(|token| token.scopes.clone());
        scopes.unwrap_or_default()
    }

    /// Hides the token in a message of the server, which is almost always unchanged.
    pub(crate) fn hide<'a>(&self, message: &'a str) -> Cow<'a, str> {
        let is_said = {
            let current = self.current.borrow();
            let mut sent = current.sent.iter();
            // JSON does not change a token, unless it contains quotes.
            sent.any(|token| message.contains(token.as_str()) || token.contains(['"', '\\']))
        };
        match is_said {
            true => Cow::Owned(self.scrub(&Scrubber::default(), message)),
            false => Cow::Borrowed(message),
        }
    }

    /// Hides the token in text, also one that was sent and has been replaced or removed since (AUTH-12).
    pub(crate) fn scrub(&self, scrubber: &Scrubber, text: &str) -> String {
        let current = self.current.borrow();
        if current.sent.is_empty() {
            return scrubber.scrub(text);
        }
        let mut scrubber = scrubber.clone();
        for token in &current.sent {
            scrubber.add(token);
        }
        scrubber.scrub(text)
    }
}

impl Current {
    fn set(&mut self, token: Option<Token>) {
        self.good_until = token
            .as_ref()
            .and_then(|token| token.expires_in)
            .and_then(|time| Instant::now().checked_add(time));
        // Removing a token signs out: the next sign-in is the first again.
        self.had_one = token.is_some();
        if let Some(token) = &token {
            self.sent.retain(|sent| sent != token.expose());
            self.sent.push_back(token.expose().to_owned());
            let too_many = self.sent.len().saturating_sub(REMEMBERED);
            self.sent.drain(..too_many);
        }
        self.token = token;
        self.generation += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const RESOURCE: &str = "https://a.test";

    fn give(credentials: &Credentials, token: Option<Token>) {
        credentials.set(RESOURCE, token).unwrap();
    }

    #[test]
    fn auth06_an_expired_token_is_not_sent() {
        let credentials = Credentials::new(RESOURCE.into());
        assert_eq!(credentials.bearer().history, TokenHistory::None);
        let mut token = Token::new("t");
        token.expires_in = Some(Duration::ZERO);
        give(&credentials, Some(token));
        let bearer = credentials.bearer();
        assert_eq!((bearer.value, bearer.history), (None, TokenHistory::Used));
        give(&credentials, Some(Token::new("t")));
        assert_eq!(credentials.bearer().value.as_deref(), Some("t"));
    }

    #[test]
    fn auth05_an_empty_token_signs_out() {
        let credentials = Credentials::new(RESOURCE.into());
        give(&credentials, Some(Token::new("t")));
        give(&credentials, Some(Token::new("")));
        let bearer = credentials.bearer();
        let expected = (None, TokenHistory::None, 2);
        assert_eq!((bearer.value, bearer.history, bearer.generation), expected);
    }

    #[test]
    fn auth06_a_token_that_was_never_accepted_is_withheld_until_the_next_one() {
        let credentials = Credentials::new(RESOURCE.into());
        assert!(!credentials.withhold_untried());
        give(&credentials, Some(Token::new("first")));
        assert!(credentials.withhold_untried());
        let bearer = credentials.bearer();
        assert_eq!((bearer.value, bearer.history), (None, TokenHistory::Untried));
        credentials.withhold_nothing();
        assert!(credentials.bearer().value.is_some() && credentials.withhold_untried());
        give(&credentials, Some(Token::new("second")));
        assert!(credentials.bearer().value.is_some());
        credentials.was_accepted(&credentials.bearer());
        assert!(!credentials.withhold_untried());
    }

    #[test]
    fn auth06_a_token_has_a_history_once_a_server_accepted_it() {
        let credentials = Credentials::new(RESOURCE.into());
        let history = || credentials.bearer().history;
        give(&credentials, Some(Token::new("first")));
        assert_eq!(history(), TokenHistory::Untried);
        credentials.was_accepted(&credentials.bearer());
        assert_eq!(history(), TokenHistory::Used);
        give(&credentials, Some(Token::new("second")));
        assert_eq!(history(), TokenHistory::Untried, "that was another one");
        let mut known = Token::new("third");
        known.has_worked = true;
        give(&credentials, Some(known));
        assert_eq!(history(), TokenHistory::Used, "elsewhere");
    }

    #[test]
    fn auth12_replaced_and_removed_tokens_stay_hidden() {
        let credentials = Credentials::new(RESOURCE.into());
        give(&credentials, Some(Token::new("first-token")));
        give(&credentials, Some(Token::new("second-token")));
        let said = "not first-token, not second-token";
        let hidden = "not [hidden], not [hidden]";
        assert_eq!(credentials.scrub(&Scrubber::default(), said), hidden);
        give(&credentials, None);
        assert_eq!(credentials.scrub(&Scrubber::default(), said), hidden);
        assert!(!format!("{credentials:?}").contains("first-token"));
    }

    #[tokio::test]
    async fn waiting_for_a_token_ends_with_the_next_one() {
        let credentials = std::sync::Arc::new(Credentials::new(RESOURCE.into()));
        give(&credentials, Some(Token::new("old")));
        let waiting = tokio::spawn({
            let credentials = credentials.clone();
            async move { credentials.newer_than(1).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        give(&credentials, None);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "signing out is no sign-in");
        give(&credentials, Some(Token::new("new")));
        waiting.await.unwrap();
    }

    #[test]
    fn t16_a_token_is_never_used_for_another_resource() {
        let credentials = Credentials::new(RESOURCE.into());
        give(&credentials, Some(Token::new("first-token")));
        assert!(!credentials.set_resource(RESOURCE) && credentials.bearer().value.is_some());
        let mut seen = credentials.current.subscribe();
        seen.mark_unchanged();
        assert!(credentials.set_resource("https://a.test/around"));
        assert!(credentials.bearer().value.is_none());
        assert_eq!(seen.borrow_and_update().resource, "https://a.test/around");
        assert_eq!(
            credentials.set(RESOURCE, Some(Token::new("late"))),
            Err("https://a.test/around".to_owned())
        );
        assert!(credentials.bearer().value.is_none());
    }
}

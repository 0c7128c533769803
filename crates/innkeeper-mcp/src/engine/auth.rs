//! Signing in to a server: what it demands, and the token it was given.
//!
//! The host's clients get tokens. This crate says what is needed ([`SignIn`]), is given a [`Token`], and
//! sends it to the one server whose resource it is for (T16). When a server does not accept its token any
//! more, somebody may have a newer one before people are asked ([`Renew`]); with what it takes to get one,
//! that is `exchange.rs`.

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

/// What somebody has to sign in for (MCP-07, MCP-08).
#[derive(Clone, Debug, PartialEq)]
pub struct SignIn {
    /// Why.
    pub reason: SignInReason,
    /// What the token is for, and who gives it out.
    pub resource: ResourceMetadata,
    /// The scopes that the server asked for.
    pub required_scopes: Option<Vec<String>>,
    /// The client that people have registered for it.
    pub oauth_client_id: Option<String>,
    /// What the server says about it.
    pub description: Option<String>,
}

/// Why somebody has to sign in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignInReason {
    /// No token was given.
    Required,
    /// The token is not accepted any more.
    Expired,
    /// The server has never accepted the token.
    Refused,
    /// The token does not allow this.
    InsufficientScope,
}

/// A protected resource (RFC 9728).
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceMetadata {
    /// The canonical address of the server (RFC 8707); tokens are bound to it.
    pub resource: String,
    /// Who gives out tokens.
    pub authorization_servers: Vec<String>,
    /// The document, with the names of the RFC. Its `resource` and `authorization_servers` are those
    /// above.
    pub document: serde_json::Value,
}

/// So many earlier tokens are hidden as well: one may have been sent before another came.
const REMEMBERED: usize = 4;

/// The token of one server.
#[derive(Debug)]
pub(crate) struct Credentials {
    current: watch::Sender<Current>,
    /// The newest generation that the server has accepted. Apart from the token, so that nobody who waits for another
    /// one is woken by it.
    accepted: AtomicU64,
    /// The generation that is not sent, because the server did not start with it; 0 if there is none.
    withheld: AtomicU64,
}

#[derive(Clone, Default)]
struct Current {
    /// What tokens are bound to. It stands beside the token, so that none counts for another resource even for a
    /// moment (T16).
    resource: String,
    token: Option<Token>,
    good_until: Option<Instant>,
    /// Counts the tokens that were set.
    generation: u64,
    /// Those that were set last, the newest at the end, to be hidden.
    sent: VecDeque<String>,
    /// Whether there ever was one: without, a refusal means "required" and not "expired".
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

/// A token as it was at one moment, to be sent.
pub(crate) struct Bearer {
    pub(crate) value: Option<String>,
    pub(crate) generation: u64,
    pub(crate) history: TokenHistory,
}

/// The history of the token of a request, which decides why it was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenHistory {
    /// There was none.
    None,
    /// No server has accepted it yet.
    Untried,
    /// It was accepted before, or its time is over.
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

    /// Sends a token that no server has accepted no more, until another one is set. Says whether there is such a token.
    pub(crate) fn withhold_untried(&self) -> bool {
        let bearer = self.bearer();
        let is_untried = bearer.value.is_some() && bearer.history == TokenHistory::Untried;
        if is_untried {
            self.withheld.store(bearer.generation, Ordering::Relaxed);
        }
        is_untried
    }

    /// Whether the token is not sent.
    pub(crate) fn is_withheld(&self) -> bool {
        let generation = self.generation();
        generation > 0 && self.withheld.load(Ordering::Relaxed) == generation
    }

    /// Sends the token again that was withheld.
    pub(crate) fn withhold_nothing(&self) {
        self.withheld.store(0, Ordering::Relaxed);
    }

    /// The server has accepted a token.
    pub(crate) fn was_accepted(&self, bearer: &Bearer) {
        if bearer.value.is_some() {
            self.accepted.fetch_max(bearer.generation, Ordering::Relaxed);
        }
    }

    /// What tokens are bound to.
    pub(crate) fn resource(&self) -> String {
        self.current.borrow().resource.clone()
    }

    /// The server has told its resource. A token that was for another one goes (T16). Says whether it is another.
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

    /// Sets the token for a resource; an empty one or none takes it away (AUTH-05). Where tokens are bound to
    /// another one nothing changes, and that one is told.
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

    /// What to send now. A token whose time is over is not sent (AUTH-06).
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

    /// The token that was set last, whether it is good or not.
    pub(crate) fn token(&self) -> Option<Token> {
        self.current.borrow().token.clone()
    }

    /// How many tokens have been set.
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

    /// The scopes that the token is known to grant.
    pub(crate) fn scopes(&self) -> Vec<String> {
        let current = self.current.borrow();
        let scopes = current.token.as_ref().and_then(|token| token.scopes.clone());
        scopes.unwrap_or_default()
    }

    /// Hides the token in a message of the server, which is almost always as it was.
    pub(crate) fn hide<'a>(&self, message: &'a str) -> Cow<'a, str> {
        let is_said = {
            let current = self.current.borrow();
            let mut sent = current.sent.iter();
            // A token is written in JSON as it is, unless somebody gave one with quotes in it.
            sent.any(|token| message.contains(token.as_str()) || token.contains(['"', '\\']))
        };
        match is_said {
            true => Cow::Owned(self.scrub(&Scrubber::default(), message)),
            false => Cow::Borrowed(message),
        }
    }

    /// Hides the token in text, also one that was sent and has been replaced or taken away since (AUTH-12).
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
        // Whoever takes a token away signs out: the next sign-in is the first again.
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
    fn auth06_a_token_is_not_sent_after_its_time() {
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
    fn auth06_only_a_token_that_was_never_accepted_is_withheld_and_only_until_another_one_comes() {
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
    fn auth12_a_token_that_was_sent_is_hidden_though_another_came_or_none() {
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
    fn t16_a_token_counts_for_no_other_resource_not_even_for_a_moment() {
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

//! The tokens of a host's servers: which there are, and that they are kept.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use innkeeper_host::mcp::{KeptToken, ServerToken};
use innkeeper_std::sync::Mutex;
use tokio::task::AbortHandle;

use crate::engine::secret::Token;
use crate::hosted::token_exchange::Granted;
use crate::hosted::vault::{SavedRefresh, SavedToken, TokenKeeper};

/// Most servers that are remembered to be meant with one token.
const MOST_SERVERS: usize = 64;
/// Most resources of which it is remembered that their token is over.
const MOST_LAPSED: usize = 1024;

/// All tokens, by the resource that they are for.
pub(super) struct Tokens {
    held: Mutex<Holdings>,
    keeper: Option<Arc<dyn TokenKeeper>>,
    /// One writes at a time, so that what is written last is what there is.
    writing: Mutex<Written>,
}

#[derive(Default)]
struct Holdings {
    by_resource: HashMap<String, Held>,
    /// Resources whose token is over and was not taken back: whoever signs in does so again (AUTH-06).
    lapsed: BTreeSet<String>,
    /// Counts changes.
    version: u64,
    /// The change that last took something away.
    removed: u64,
}

#[derive(Default)]
struct Written {
    version: u64,
}

impl Holdings {
    fn take(&mut self, resource: &str) -> Option<Held> {
        let mut taken = self.by_resource.remove(resource)?;
        taken.leave();
        self.version += 1;
        self.removed = self.version;
        Some(taken)
    }

    fn lapse(&mut self, resource: &str) {
        if self.lapsed.len() < MOST_LAPSED {
            self.lapsed.insert(resource.to_owned());
        }
    }
}

/// A token, and who is getting the next one.
#[derive(Clone)]
pub(super) struct Held {
    pub(super) saved: SavedToken,
    /// Which the host takes it for; the next one that it is traded for has the same.
    pub(super) number: u64,
    /// Which of all tokens that ever were it is.
    pub(super) version: u64,
    /// Held by whoever gets the next one: of those who want it, one asks.
    pub(super) renewing: Arc<tokio::sync::Mutex<()>>,
    /// Whether it came in the place of one that people gave.
    pub(super) is_refreshed: bool,
    /// Whether a server has accepted it, in this life of the host or in an earlier one.
    has_worked: bool,
    /// Who waits for the moment at which it is to be replaced.
    seen_to: Option<AbortHandle>,
}

impl Held {
    fn new(saved: SavedToken, number: u64, version: u64) -> Self {
        Self {
            saved,
            number,
            version,
            renewing: Arc::default(),
            is_refreshed: false,
            has_worked: false,
            seen_to: None,
        }
    }

    /// The same with another refresh token.
    pub(super) fn refreshed_with(mut self, refresh_token: String) -> Self {
        if let Some(refresh) = &mut self.saved.refresh {
            refresh.refresh_token = Some(refresh_token);
        }
        self
    }

    /// Nobody waits any more for the moment at which it is to be replaced. Whoever is at it already sees
    /// it through.
    fn leave(&mut self) {
        if let Some(seen_to) = self.seen_to.take() {
            seen_to.abort();
        }
    }

    /// Whether there is something to trade for the next one.
    pub(super) fn is_renewed(&self) -> bool {
        let refresh = self.saved.refresh.as_ref();
        refresh.is_some_and(|refresh| refresh.refresh_token.is_some())
    }

    /// Whether it has to be declared void once another one is in its place. Tokens of one client are often one grant,
    /// and with the old one the new one would be void too.
    fn outlives(&self, next: &SavedToken) -> bool {
        let client = |token: &SavedToken| token.refresh.as_ref().map(|refresh| refresh.client_id.clone());
        let (old, new) = (client(&self.saved), client(next));
        self.saved.token != next.token && old.is_some() && new.is_some() && old != new
    }

    /// How long it is still good, if that is known.
    pub(super) fn lasts(&self) -> Option<Duration> {
        let until = Duration::from_secs(self.saved.expires_at?);
        Some(until.saturating_sub(since_1970()))
    }

    /// As servers are given it.
    pub(super) fn token(&self) -> Token {
        let mut token = Token::new(self.saved.token.as_str());
        token.expires_in = self.lasts();
        token.scopes.clone_from(&self.saved.scopes);
        token.has_worked = self.has_worked;
        token
    }
}

impl Tokens {
    /// Goes on with what was kept, as far as it is of any use.
    pub(super) fn load(keeper: Option<Arc<dyn TokenKeeper>>) -> Self {
        let mut held = Holdings::default();
        let mut written = Written::default();
        for saved in keeper.iter().flat_map(|keeper| keeper.load()) {
            held.version += 1;
            let mut entry = Held::new(saved, 0, held.version);
            // Nothing says otherwise, and people signed in a while ago.
            entry.has_worked = true;
            if entry.is_renewed() || entry.lasts() != Some(Duration::ZERO) {
                held.by_resource.insert(entry.saved.resource.clone(), entry);
            } else {
                held.removed = held.version;
                held.lapse(&entry.saved.resource);
            }
        }
        if held.removed == 0 {
            written.version = held.version;
        }
        let tokens = Self {
            held: Mutex::new(held),
            keeper,
            writing: Mutex::new(written),
        };
        tokens.save();
        tokens
    }

    pub(super) fn keeps(&self) -> bool {
        self.keeper.is_some()
    }

    /// What the host has to know of them.
    pub(super) fn known(&self) -> Vec<KeptToken> {
        let held = self.held.lock();
        let known = held.by_resource.values().map(|held| KeptToken {
            resource: held.saved.resource.clone(),
            given_by: held.saved.given_by.clone(),
            // What can be refreshed is seen to here.
            expires_in: held
                .lasts()
                .filter(|_| !held.is_renewed())
                .map(|lasts| lasts.as_secs().max(1)),
            authorization_servers: held.saved.authorization_servers.clone(),
            scopes: held.saved.scopes.clone(),
        });
        known.collect()
    }

    pub(super) fn get(&self, resource: &str) -> Option<Held> {
        self.held.lock().by_resource.get(resource).cloned()
    }

    /// A server that was given the token of a resource is ready with it.
    pub(super) fn note_accepted(&self, resource: &str) {
        if let Some(held) = self.held.lock().by_resource.get_mut(resource) {
            held.has_worked = true;
        }
    }

    /// Takes a token in, in place of an earlier one. Returns that if it has to be declared void.
    pub(super) fn set(&self, resource: &str, given: ServerToken) -> Option<Held> {
        let number = given.number;
        let saved = SavedToken {
            resource: resource.to_owned(),
            token: given.secret.reveal().to_owned(),
            scopes: given.scopes,
            expires_at: given.expires_in.map(at_in),
            servers: Vec::new(),
            given_by: given.given_by,
            authorization_servers: given.authorization_servers,
            refresh: given.refresh.map(|refresh| SavedRefresh {
                refresh_token: refresh.refresh_token.map(|token| token.reveal().to_owned()),
                token_endpoint: refresh.token_endpoint,
                revocation_endpoint: refresh.revocation_endpoint,
                client_id: refresh.client_id,
                client_secret: refresh.client_secret.map(|secret| secret.reveal().to_owned()),
                client_auth: refresh.client_auth.name().to_owned(),
            }),
        };
        let mut held = self.held.lock();
        held.version += 1;
        held.lapsed.remove(resource);
        let mut entry = Held::new(saved, number, held.version);
        if let Some(before) = held.by_resource.get_mut(resource) {
            before.leave();
            // Whom people signed in to, they signed in to; others decide for themselves (T16).
            if before.saved.given_by == entry.saved.given_by {
                entry.saved.servers = std::mem::take(&mut before.saved.servers);
            }
        }
        let is_void = |before: &Held| before.outlives(&entry.saved);
        let void = held.by_resource.get(resource).filter(|before| is_void(before)).cloned();
        held.by_resource.insert(resource.to_owned(), entry);
        void
    }

    /// People signed in to the server at this address with the token of a resource.
    pub(super) fn mean(&self, resource: &str, server: &str) {
        let mut held = self.held.lock();
        let next = held.version + 1;
        let Some(entry) = held.by_resource.get_mut(resource) else {
            return;
        };
        let servers = &mut entry.saved.servers;
        if servers.len() < MOST_SERVERS && !servers.iter().any(|known| known == server) {
            servers.push(server.to_owned());
            held.version = next;
        }
    }

    /// Whether they did.
    pub(super) fn is_meant(&self, resource: &str, server: &str) -> bool {
        let held = self.held.lock();
        let entry = held.by_resource.get(resource);
        entry.is_some_and(|held| held.saved.servers.iter().any(|known| known == server))
    }

    /// Whether there was a token that is over.
    pub(super) fn has_lapsed(&self, resource: &str) -> bool {
        self.held.lock().lapsed.contains(resource)
    }

    /// Takes one away that somebody took back, and says what it was.
    pub(super) fn take(&self, resource: &str) -> Option<Held> {
        let mut held = self.held.lock();
        held.lapsed.remove(resource);
        held.take(resource)
    }

    /// Takes one away that is over.
    pub(super) fn expire(&self, resource: &str) {
        let mut held = self.held.lock();
        if held.take(resource).is_some() {
            held.lapse(resource);
        }
    }

    /// The same, if it is still this one.
    pub(super) fn drop_version(&self, resource: &str, version: u64) -> bool {
        let mut held = self.held.lock();
        let known = held.by_resource.get(resource);
        let is_it = known.is_some_and(|held| held.version == version);
        if is_it && held.take(resource).is_some() {
            held.lapse(resource);
        }
        is_it
    }

    /// Puts what was granted in the place of the token that it was granted for, if that is still there.
    pub(super) fn renew(&self, resource: &str, version: u64, granted: Granted) -> bool {
        self.change(resource, version, |held| {
            held.is_refreshed = true;
            held.has_worked = false;
            let saved = &mut held.saved;
            saved.token = granted.token;
            saved.expires_at = granted.expires_in.map(at_in);
            if let Some(scopes) = granted.scopes {
                saved.scopes = Some(scopes);
            }
            if let (Some(refresh), Some(next)) = (&mut saved.refresh, granted.refresh_token) {
                refresh.refresh_token = Some(next);
            }
        })
    }

    /// Nobody gives another one for it.
    pub(super) fn forget_refresh(&self, resource: &str, version: u64) -> bool {
        self.change(resource, version, |held| {
            if let Some(refresh) = &mut held.saved.refresh {
                // Where it is declared void is still good to know.
                refresh.refresh_token = None;
            }
        })
    }

    fn change(&self, resource: &str, version: u64, change: impl FnOnce(&mut Held)) -> bool {
        let mut held = self.held.lock();
        let next = held.version + 1;
        let Some(entry) = held
            .by_resource
            .get_mut(resource)
            .filter(|held| held.version == version)
        else {
            return false;
        };
        change(entry);
        entry.version = next;
        entry.leave();
        held.version = next;
        true
    }

    /// Has somebody see to a token from now on, unless somebody does; or `instead` of them.
    pub(super) fn see_to(&self, resource: &str, version: u64, instead: bool, begin: impl FnOnce() -> AbortHandle) {
        let mut held = self.held.lock();
        let entry = held.by_resource.get_mut(resource);
        let Some(entry) = entry.filter(|held| held.version == version) else {
            return;
        };
        let is_seen_to = entry.seen_to.as_ref().is_some_and(|seen_to| !seen_to.is_finished());
        if instead || !is_seen_to {
            entry.leave();
            entry.seen_to = Some(begin());
        }
    }

    /// Keeps what there is now. Blocks.
    pub(super) fn save(&self) {
        let Some(keeper) = &self.keeper else {
            return;
        };
        let mut written = self.writing.lock();
        let (version, removed, mut tokens) = {
            let held = self.held.lock();
            let tokens: Vec<SavedToken> = held.by_resource.values().map(|held| held.saved.clone()).collect();
            (held.version, held.removed, tokens)
        };
        if version == written.version {
            return;
        }
        tokens.sort_by(|a, b| a.resource.cmp(&b.resource));
        let mut outcome = keeper.save(&tokens);
        if let Err(error) = &outcome {
            tracing::warn!(
                "the tokens of MCP servers cannot be kept ({error}); they are used until the host ends, and people \
                 sign in again after that"
            );
            // What was taken away must not come back with the next start (AUTH-05).
            if removed > written.version {
                outcome = forget(&**keeper);
            }
        }
        if outcome.is_ok() {
            written.version = version;
        }
    }
}

fn forget(keeper: &dyn TokenKeeper) -> io::Result<()> {
    keeper.clear().inspect_err(|error| {
        tracing::error!("tokens of MCP servers that were taken back may still be kept ({error})");
    })
}

/// The moment in so many seconds.
fn at_in(seconds: u64) -> u64 {
    since_1970().as_secs().saturating_add(seconds)
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use innkeeper_host::Secret;

    use super::*;

    /// Keeps what it is given, until it cannot any more.
    #[derive(Default)]
    struct Drawer {
        kept: Mutex<Vec<SavedToken>>,
        is_full: Mutex<bool>,
    }

    impl TokenKeeper for Drawer {
        fn load(&self) -> Vec<SavedToken> {
            self.kept.lock().clone()
        }

        fn save(&self, tokens: &[SavedToken]) -> io::Result<()> {
            if *self.is_full.lock() {
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            *self.kept.lock() = tokens.to_vec();
            Ok(())
        }

        fn clear(&self) -> io::Result<()> {
            self.kept.lock().clear();
            Ok(())
        }
    }

    fn given(expires_in: Option<u64>) -> ServerToken {
        ServerToken {
            secret: Secret::new("t"),
            scopes: None,
            expires_in,
            number: 1,
            given_by: "ann".to_owned(),
            authorization_servers: Vec::new(),
            refresh: None,
        }
    }

    #[test]
    fn auth05_what_was_taken_back_does_not_come_back_though_nothing_can_be_written() {
        let keeper = Arc::new(Drawer::default());
        let tokens = Tokens::load(Some(keeper.clone()));
        tokens.set("a", given(None));
        tokens.set("b", given(None));
        tokens.save();
        assert_eq!(keeper.kept.lock().len(), 2);
        *keeper.is_full.lock() = true;
        tokens.set("c", given(None));
        tokens.save();
        assert_eq!(keeper.kept.lock().len(), 2, "one more that is not kept harms no other");
        assert!(tokens.take("a").is_some());
        tokens.save();
        assert_eq!(keeper.kept.lock().len(), 0);
        assert!(tokens.get("b").is_some(), "it is used all the same");
    }

    #[tokio::test]
    async fn of_those_who_see_to_a_token_there_is_one() {
        let tokens = Tokens::load(None);
        tokens.set("a", given(None));
        let version = tokens.get("a").unwrap().version;
        let mut started = Vec::new();
        for instead in [false, false, true] {
            tokens.see_to("a", version, instead, || {
                let waiting = tokio::spawn(std::future::pending::<()>());
                let handle = waiting.abort_handle();
                started.push(waiting);
                handle
            });
        }
        assert_eq!(
            started.len(),
            2,
            "who is there is enough, unless another is to take their place"
        );
        let last = started.pop().unwrap();
        let first = started.pop().unwrap();
        assert!(first.await.unwrap_err().is_cancelled());
        assert!(!last.is_finished());
        tokens.take("a").unwrap();
        assert!(last.await.unwrap_err().is_cancelled(), "nobody sees to what is gone");
    }

    #[test]
    fn t16_whom_somebody_signed_in_to_is_not_meant_by_the_token_of_somebody_else() {
        let tokens = Tokens::load(None);
        tokens.set("a", given(None));
        tokens.mean("a", "https://a.test/mcp");
        tokens.set("a", given(None));
        assert!(tokens.is_meant("a", "https://a.test/mcp"));
        let given_by = "bob".to_owned();
        tokens.set(
            "a",
            ServerToken {
                given_by,
                ..given(None)
            },
        );
        assert!(!tokens.is_meant("a", "https://a.test/mcp"));
    }

    #[test]
    fn auth05_of_two_tokens_of_one_client_the_old_one_is_not_declared_void() {
        let of = |token: &str, client: Option<&str>| ServerToken {
            secret: Secret::new(token),
            refresh: client.map(|client| {
                Box::new(innkeeper_host::mcp::TokenRefresh {
                    refresh_token: None,
                    token_endpoint: "https://as.test/token".to_owned(),
                    revocation_endpoint: Some("https://as.test/revoke".to_owned()),
                    client_id: client.to_owned(),
                    client_secret: None,
                    client_auth: innkeeper_host::mcp::ClientAuth::None,
                })
            }),
            ..given(None)
        };
        let tokens = Tokens::load(None);
        let void = |token: &str, client| tokens.set("a", of(token, client)).map(|held| held.saved.token);
        assert_eq!(void("first", Some("x")), None);
        assert_eq!(void("second", Some("x")), None, "they may be one grant");
        assert_eq!(void("third", Some("y")).as_deref(), Some("second"));
        assert_eq!(void("third", Some("z")), None, "it is the same");
        assert_eq!(void("fourth", None), None, "whose it is nobody knows");
    }

    #[test]
    fn a_token_that_was_replaced_meanwhile_is_not_dropped() {
        let tokens = Tokens::load(None);
        tokens.set("a", given(None));
        let old = tokens.get("a").unwrap().version;
        tokens.set("a", given(None));
        assert!(!tokens.drop_version("a", old) && !tokens.has_lapsed("a"));
        let new = tokens.get("a").unwrap().version;
        assert!(tokens.drop_version("a", new) && tokens.has_lapsed("a"));
        assert!(tokens.get("a").is_none());
    }

    #[test]
    fn auth06_what_expired_while_no_host_ran_is_forgotten() {
        let keeper = Arc::new(Drawer::default());
        let tokens = Tokens::load(Some(keeper.clone()));
        tokens.set("over", given(Some(0)));
        tokens.set("good", given(Some(100)));
        tokens.save();
        let later = Tokens::load(Some(keeper.clone()));
        assert!(later.get("over").is_none());
        assert_eq!(keeper.kept.lock().len(), 1, "there either");
        let known = later.known();
        assert_eq!(
            (known[0].resource.as_str(), known[0].given_by.as_str()),
            ("good", "ann")
        );
        assert!(known[0].expires_in.is_some_and(|left| (1..=100).contains(&left)));
    }
}

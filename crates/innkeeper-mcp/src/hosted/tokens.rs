//! The tokens of a host's servers, in memory and persisted.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use innkeeper_host::mcp::{ServerToken, StoredTokenInfo};
use innkeeper_std::sync::Mutex;
use tokio::task::AbortHandle;

use crate::engine::secret::Token;
use crate::hosted::token_exchange::Granted;
use crate::hosted::vault::{SavedRefresh, SavedToken, TokenKeeper};

/// The number of server addresses that are remembered for one token.
const MAX_SERVERS: usize = 64;
/// The number of resources whose token is remembered to have expired.
const MAX_LAPSED: usize = 1024;

/// All tokens, by resource.
pub(super) struct Tokens {
    held: Mutex<TokenTable>,
    keeper: Option<Arc<dyn TokenKeeper>>,
    /// One thread writes at a time, so that the last write has the newest tokens.
    writing: Mutex<Written>,
}

#[derive(Default)]
struct TokenTable {
    by_resource: HashMap<String, StoredToken>,
    /// Resources whose token expired and was not revoked: clients are told that it expired (AUTH-06).
    lapsed: BTreeSet<String>,
    /// Incremented by every change.
    version: u64,
    /// The version of the last removal.
    removed: u64,
}

#[derive(Default)]
struct Written {
    version: u64,
}

impl TokenTable {
    fn take(&mut self, resource: &str) -> Option<StoredToken> {
        let mut taken = self.by_resource.remove(resource)?;
        taken.stop_renewal_task();
        self.version += 1;
        self.removed = self.version;
        Some(taken)
    }

    fn lapse(&mut self, resource: &str) {
        if self.lapsed.len() < MAX_LAPSED {
            self.lapsed.insert(resource.to_owned());
        }
    }
}

/// A token, and the state of its renewal.
#[derive(Clone)]
pub(super) struct StoredToken {
    pub(super) saved: SavedToken,
    /// The number that the host knows it by. A renewed token keeps it.
    pub(super) number: u64,
    /// The version of the table when this token was stored.
    pub(super) version: u64,
    /// Locked during a renewal, so that several requests for a renewal become one.
    pub(super) renewing: Arc<tokio::sync::Mutex<()>>,
    /// True if the token is the result of a renewal.
    pub(super) is_refreshed: bool,
    /// True if a server has accepted it, also before the last restart of the host.
    has_worked: bool,
    /// The task that renews it before it expires.
    renewal_task: Option<AbortHandle>,
}

impl StoredToken {
    fn new(saved: SavedToken, number: u64, version: u64) -> Self {
        Self {
            saved,
            number,
            version,
            renewing: Arc::default(),
            is_refreshed: false,
            has_worked: false,
            renewal_task: None,
        }
    }

    /// Returns the same token with another refresh token.
    pub(super) fn refreshed_with(mut self, refresh_token: String) -> Self {
        if let Some(refresh) = &mut self.saved.refresh {
            refresh.refresh_token = Some(refresh_token);
        }
        self
    }

    /// Ends the task that waits for the time of renewal. A renewal that is under way goes on.
    fn stop_renewal_task(&mut self) {
        if let Some(renewal_task) = self.renewal_task.take() {
            renewal_task.abort();
        }
    }

    /// Returns true if there is a refresh token.
    pub(super) fn is_renewed(&self) -> bool {
        let refresh = self.saved.refresh.as_ref();
        refresh.is_some_and(|refresh| refresh.refresh_token.is_some())
    }

    /// Returns true if this token must be revoked after `next` has replaced it. Tokens of one client are often one grant, and
    /// revoking the old one would revoke the new one.
    fn must_be_revoked_for(&self, next: &SavedToken) -> bool {
        let client = |token: &SavedToken| token.refresh.as_ref().map(|refresh| refresh.client_id.clone());
        let (old, new) = (client(&self.saved), client(next));
        self.saved.token != next.token && old.is_some() && new.is_some() && old != new
    }

    /// Returns the remaining lifetime, if it is known.
    pub(super) fn lasts(&self) -> Option<Duration> {
        let until = Duration::from_secs(self.saved.expires_at?);
        Some(until.saturating_sub(since_1970()))
    }

    /// Returns the token in the form that servers get.
    pub(super) fn token(&self) -> Token {
        let mut token = Token::new(self.saved.token.as_str());
        token.expires_in = self.lasts();
        token.scopes.clone_from(&self.saved.scopes);
        token.has_worked = self.has_worked;
        token
    }
}

impl Tokens {
    /// Loads the persisted tokens that are still valid or can be renewed.
    pub(super) fn load(keeper: Option<Arc<dyn TokenKeeper>>) -> Self {
        let mut held = TokenTable::default();
        let mut written = Written::default();
        for saved in keeper.iter().flat_map(|keeper| keeper.load()) {
            held.version += 1;
            let mut entry = StoredToken::new(saved, 0, held.version);
            // Nothing says otherwise, and the sign-in was a while ago.
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

    /// Returns what the host has to know about the tokens.
    pub(super) fn known(&self) -> Vec<StoredTokenInfo> {
        let held = self.held.lock();
        let known = held.by_resource.values().map(|held| StoredTokenInfo {
            resource: held.saved.resource.clone(),
            given_by: held.saved.given_by.clone(),
            // This module renews tokens that can be renewed.
            expires_in: held
                .lasts()
                .filter(|_| !held.is_renewed())
                .map(|lasts| lasts.as_secs().max(1)),
            authorization_servers: held.saved.authorization_servers.clone(),
            scopes: held.saved.scopes.clone(),
        });
        known.collect()
    }

    pub(super) fn get(&self, resource: &str) -> Option<StoredToken> {
        self.held.lock().by_resource.get(resource).cloned()
    }

    /// Records that a server is ready with the token of a resource.
    pub(super) fn note_accepted(&self, resource: &str) {
        if let Some(held) = self.held.lock().by_resource.get_mut(resource) {
            held.has_worked = true;
        }
    }

    /// Stores a token. Returns the token that it replaces if that one must be revoked.
    pub(super) fn set(&self, resource: &str, given: ServerToken) -> Option<StoredToken> {
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
        let mut entry = StoredToken::new(saved, number, held.version);
        if let Some(before) = held.by_resource.get_mut(resource) {
            before.stop_renewal_task();
            // A token of another user does not inherit the servers that a user signed in to (T16).
            if before.saved.given_by == entry.saved.given_by {
                entry.saved.servers = std::mem::take(&mut before.saved.servers);
            }
        }
        let is_void = |before: &StoredToken| before.must_be_revoked_for(&entry.saved);
        let void = held.by_resource.get(resource).filter(|before| is_void(before)).cloned();
        held.by_resource.insert(resource.to_owned(), entry);
        void
    }

    /// Records that users signed in to the server at this address with the token of a resource.
    pub(super) fn note_server(&self, resource: &str, server: &str) {
        let mut held = self.held.lock();
        let next = held.version + 1;
        let Some(entry) = held.by_resource.get_mut(resource) else {
            // The token was revoked meanwhile.
            return;
        };
        let servers = &mut entry.saved.servers;
        if servers.len() < MAX_SERVERS && !servers.iter().any(|known| known == server) {
            servers.push(server.to_owned());
            held.version = next;
        }
    }

    /// Returns true if users signed in to the server at this address with the token of a resource.
    pub(super) fn is_for_server(&self, resource: &str, server: &str) -> bool {
        let held = self.held.lock();
        let entry = held.by_resource.get(resource);
        entry.is_some_and(|held| held.saved.servers.iter().any(|known| known == server))
    }

    /// Returns true if there was a token that expired.
    pub(super) fn has_lapsed(&self, resource: &str) -> bool {
        self.held.lock().lapsed.contains(resource)
    }

    /// Removes a token that was revoked, and returns it.
    pub(super) fn take(&self, resource: &str) -> Option<StoredToken> {
        let mut held = self.held.lock();
        held.lapsed.remove(resource);
        held.take(resource)
    }

    /// Removes a token that expired.
    pub(super) fn expire(&self, resource: &str) {
        let mut held = self.held.lock();
        if held.take(resource).is_some() {
            held.lapse(resource);
        }
    }

    /// Removes a token that expired, if it is still this one.
    pub(super) fn drop_version(&self, resource: &str, version: u64) -> bool {
        let mut held = self.held.lock();
        let known = held.by_resource.get(resource);
        let is_it = known.is_some_and(|held| held.version == version);
        if is_it && held.take(resource).is_some() {
            held.lapse(resource);
        }
        is_it
    }

    /// Replaces a token with the one that was granted for it, if it is still there.
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

    /// Forgets the refresh token, which was refused.
    pub(super) fn forget_refresh(&self, resource: &str, version: u64) -> bool {
        self.change(resource, version, |held| {
            if let Some(refresh) = &mut held.saved.refresh {
                // The address for revocation is still needed.
                refresh.refresh_token = None;
            }
        })
    }

    fn change(&self, resource: &str, version: u64, change: impl FnOnce(&mut StoredToken)) -> bool {
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
        entry.stop_renewal_task();
        held.version = next;
        true
    }

    /// Starts a renewal task for a token. A task that runs already is kept, unless `instead` is set.
    pub(super) fn schedule_renewal(
        &self,
        resource: &str,
        version: u64,
        instead: bool,
        begin: impl FnOnce() -> AbortHandle,
    ) {
        let mut held = self.held.lock();
        let entry = held.by_resource.get_mut(resource);
        let Some(entry) = entry.filter(|held| held.version == version) else {
            // The token was replaced or revoked meanwhile.
            return;
        };
        let is_seen_to = entry
            .renewal_task
            .as_ref()
            .is_some_and(|renewal_task| !renewal_task.is_finished());
        if instead || !is_seen_to {
            entry.stop_renewal_task();
            entry.renewal_task = Some(begin());
        }
    }

    /// Persists the tokens. Blocks.
    pub(super) fn save(&self) {
        let Some(keeper) = &self.keeper else {
            // Tokens are not persisted.
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
                "the tokens of MCP servers cannot be persisted ({error}); they are used until the host ends, and users \
                 sign in again after that"
            );
            // A revoked token must not come back with the next start (AUTH-05).
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
        tracing::error!("revoked tokens of MCP servers may still be persisted ({error})");
    })
}

/// Returns the time in so many seconds.
fn at_in(seconds: u64) -> u64 {
    since_1970().as_secs().saturating_add(seconds)
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use innkeeper_host::agent::Secret;

    use super::*;

    /// Persists tokens until it is full.
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
    fn auth05_revoked_tokens_stay_revoked_when_the_file_cannot_be_written() {
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
    async fn a_token_has_one_renewal_task() {
        let tokens = Tokens::load(None);
        tokens.set("a", given(None));
        let version = tokens.get("a").unwrap().version;
        let mut started = Vec::new();
        for instead in [false, false, true] {
            tokens.schedule_renewal("a", version, instead, || {
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
        assert!(last.await.unwrap_err().is_cancelled(), "no task serves a dropped set");
    }

    #[test]
    fn t16_a_token_of_another_user_does_not_inherit_the_servers() {
        let tokens = Tokens::load(None);
        tokens.set("a", given(None));
        tokens.note_server("a", "https://a.test/mcp");
        tokens.set("a", given(None));
        assert!(tokens.is_for_server("a", "https://a.test/mcp"));
        let given_by = "bob".to_owned();
        tokens.set(
            "a",
            ServerToken {
                given_by,
                ..given(None)
            },
        );
        assert!(!tokens.is_for_server("a", "https://a.test/mcp"));
    }

    #[test]
    fn auth05_a_replaced_token_of_the_same_client_is_not_revoked() {
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
        assert_eq!(void("fourth", None), None, "its owner is unknown");
    }

    #[test]
    fn a_token_that_was_replaced_meanwhile_is_not_removed() {
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
    fn auth06_tokens_that_expired_while_no_host_ran_are_removed() {
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

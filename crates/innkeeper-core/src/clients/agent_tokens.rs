//! The tokens that clients gave the host for the resources of its agents.
//!
//! They are in memory and nowhere else: not in state, not in the store, not in logs (AUTH-12). Each
//! belongs to the client that gave it, for as long as that client is here or in its grace (AUTH-07).

use std::collections::{BTreeMap, HashMap};

use crate::agent::{Credential, Secret};
use crate::ids::ClientId;

/// The tokens of every client, by resource.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    of: HashMap<ClientId, BTreeMap<String, Token>>,
}

#[derive(Debug)]
enum Token {
    Valid(AgentToken),
    /// It expired or was revoked: the next request for a token says so (AUTH-09).
    Lapsed,
}

/// A token that is good until it expires.
#[derive(Debug)]
pub(crate) struct AgentToken {
    pub(crate) token: Secret,
    pub(crate) scopes: Option<Vec<String>>,
    /// On the monotonic clock.
    pub(crate) expires_ms: Option<u64>,
}

impl AgentToken {
    fn is_good(&self, now_ms: u64) -> bool {
        self.expires_ms.is_none_or(|at| at > now_ms)
    }
}

impl Tokens {
    /// Stores a token and replaces an earlier one.
    pub(crate) fn grant(&mut self, client: &ClientId, resource: &str, held: AgentToken) {
        let of_client = self.of.entry(client.clone()).or_default();
        of_client.insert(resource.to_owned(), Token::Valid(held));
    }

    /// Takes a token back (AUTH-05).
    pub(crate) fn revoke(&mut self, client: &ClientId, resource: &str) {
        if let Some(token) = self.of.get_mut(client).and_then(|of| of.get_mut(resource)) {
            *token = Token::Lapsed;
        }
    }

    /// Removes expired tokens and returns their resources.
    pub(crate) fn expire(&mut self, client: &ClientId, now_ms: u64) -> Vec<String> {
        let mut expired = Vec::new();
        for (resource, token) in self.of.get_mut(client).into_iter().flatten() {
            if matches!(token, Token::Valid(held) if !held.is_good(now_ms)) {
                *token = Token::Lapsed;
                expired.push(resource.clone());
            }
        }
        expired
    }

    /// Forgets a client.
    pub(crate) fn forget(&mut self, client: &ClientId) {
        self.of.remove(client);
    }

    /// Forgets everything that is not for one of these resources.
    pub(crate) fn retain(&mut self, is_wanted: impl Fn(&str) -> bool) {
        for tokens in self.of.values_mut() {
            tokens.retain(|resource, _| is_wanted(resource));
        }
        self.of.retain(|_, tokens| !tokens.is_empty());
    }

    /// The credential that an agent gets from a client's valid token.
    pub(crate) fn credential(&self, client: &ClientId, resource: &str, now_ms: u64) -> Option<Credential> {
        match self.of.get(client)?.get(resource)? {
            Token::Valid(held) if held.is_good(now_ms) => Some(Credential {
                resource: resource.to_owned(),
                token: held.token.clone(),
                scopes: held.scopes.clone(),
            }),
            Token::Valid(_) | Token::Lapsed => None,
        }
    }

    /// Whether a client has a good token for a resource.
    pub(crate) fn has(&self, client: &ClientId, resource: &str, now_ms: u64) -> bool {
        let token = self.of.get(client).and_then(|tokens| tokens.get(resource));
        matches!(token, Some(Token::Valid(held)) if held.is_good(now_ms))
    }

    /// Whether a client has this very token for a resource.
    pub(crate) fn holds(&self, client: &ClientId, resource: &str, token: &Secret) -> bool {
        let known = self.of.get(client).and_then(|tokens| tokens.get(resource));
        matches!(known, Some(Token::Valid(held)) if held.token == *token)
    }

    /// Whether a client has had a token for a resource.
    pub(crate) fn had(&self, client: &ClientId, resource: &str) -> bool {
        self.of.get(client).is_some_and(|tokens| tokens.contains_key(resource))
    }

    /// When tokens of a client expire.
    pub(crate) fn deadlines(&self, client: &ClientId) -> Vec<u64> {
        let tokens = self.of.get(client).into_iter().flat_map(BTreeMap::values);
        let deadlines = tokens.filter_map(|token| match token {
            Token::Valid(held) => held.expires_ms,
            Token::Lapsed => None,
        });
        deadlines.collect()
    }

    /// The clients that signed in to anything.
    pub(crate) fn clients(&self) -> Vec<ClientId> {
        self.of.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESOURCE: &str = "https://model.example";

    fn token(secret: &str, expires_ms: Option<u64>) -> AgentToken {
        AgentToken {
            token: Secret::new(secret),
            scopes: None,
            expires_ms,
        }
    }

    #[test]
    fn auth06_an_expired_token_is_no_credential_and_stays_known_as_lapsed() {
        let (mut tokens, client) = (Tokens::default(), ClientId::new("c"));
        tokens.grant(&client, RESOURCE, token("t", Some(100)));
        assert!(tokens.has(&client, RESOURCE, 99));
        assert_eq!(tokens.credential(&client, RESOURCE, 100), None);
        assert_eq!(tokens.expire(&client, 100), [RESOURCE]);
        assert_eq!(tokens.expire(&client, 100), [""; 0], "reported once");
        assert!(tokens.had(&client, RESOURCE) && tokens.deadlines(&client).is_empty());
    }

    #[test]
    fn auth05_a_new_token_replaces_the_revoked_one() {
        let (mut tokens, client) = (Tokens::default(), ClientId::new("c"));
        tokens.revoke(&client, RESOURCE);
        assert!(!tokens.had(&client, RESOURCE), "nothing was revoked");
        tokens.grant(&client, RESOURCE, token("old", None));
        tokens.revoke(&client, RESOURCE);
        assert!(!tokens.holds(&client, RESOURCE, &Secret::new("old")));
        tokens.grant(&client, RESOURCE, token("new", None));
        assert!(tokens.holds(&client, RESOURCE, &Secret::new("new")));
    }

    #[test]
    fn auth07_a_token_is_of_one_client_and_one_resource() {
        let mut tokens = Tokens::default();
        let [a, b] = ["a", "b"].map(ClientId::new);
        tokens.grant(&a, RESOURCE, token("t", None));
        assert!(!tokens.has(&b, RESOURCE, 0) && !tokens.has(&a, "https://other.example", 0));
        tokens.retain(|resource| resource != RESOURCE);
        assert_eq!(tokens.clients(), [], "a client without tokens is forgotten");
    }
}

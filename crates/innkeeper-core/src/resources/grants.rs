//! Grants: access that clients requested beyond their sessions, and that users allowed (RES-14, RES-15).
//!
//! A grant belongs to one client id of one principal and names one root, with reading and writing separately. It is
//! persisted with the host's own state, expires after a while, and is listed and revoked with this host's own
//! methods.

use std::collections::BTreeMap;

use ahp_types::commands::ResourceRequestParams;
use ahp_types::errors::PermissionDeniedErrorData;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::AllowedRoot;
use super::containment::{check_root, is_within};
use crate::clients::access::Scope;
use crate::clients::client::Phase;
use crate::core::{Cx, Host, ROOT};
use crate::ids::{ClientId, ConnId};
use crate::protocol::error::{RpcError, code};
use crate::protocol::uri;
use crate::time::rfc3339;

/// Maximum grants of one principal that are remembered; beyond it one of its own is forgotten.
const MAX_GRANTS: usize = 1024;
/// Maximum requests of one principal that wait for an admin; beyond it one of its own is forgotten.
const MAX_WAITING: usize = 64;

/// How `resourceRequest` is decided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RequestPolicy {
    /// Every request is denied.
    Deny,
    /// An admin decides: its own requests are granted, those of others wait for it.
    #[default]
    Admin,
    /// Every request is granted within the scope of its client.
    Allow,
}

/// An admin's command about grants; this host's own methods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantCommand {
    /// `innkeeper/listResourceGrants`.
    List,
    /// `innkeeper/allowResource`.
    Allow(Allow),
    /// `innkeeper/revokeResource`: takes back what was granted to a client, there or everywhere.
    Revoke {
        /// The client.
        client: ClientId,
        /// The root; absent means all of them.
        uri: Option<String>,
    },
}

/// A grant that an admin gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allow {
    /// The client.
    pub client: ClientId,
    /// The root.
    pub uri: String,
    /// Whether it may also write there.
    pub write: bool,
}

/// One grant, or one request for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Grant {
    pub(crate) principal: String,
    pub(crate) client: String,
    pub(crate) uri: String,
    pub(crate) write: bool,
    /// When it ends, in milliseconds since 1970; of a request, when it was made.
    pub(crate) at_ms: i64,
}

/// All of them, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Grants {
    granted: Vec<Grant>,
    #[serde(skip)]
    waiting: Vec<Grant>,
    /// Whether the grants differ from the persisted ones.
    #[serde(skip)]
    changed: bool,
}

impl Grants {
    /// The valid grants of a client.
    pub(crate) fn of<'a>(
        &'a self,
        client: &'a ClientId,
        principal: &'a str,
        now_ms: i64,
    ) -> impl Iterator<Item = &'a Grant> {
        self.granted
            .iter()
            .filter(move |grant| grant.is_of(client.as_str(), principal) && grant.at_ms > now_ms)
    }

    /// Whether a client is about to get an answer that depends on a change that is not persisted yet; resets the
    /// mark.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    fn add(&mut self, grant: Grant, now_ms: i64) {
        self.changed = true;
        self.granted
            .retain(|known| !known.is_about(&grant) && known.at_ms > now_ms);
        self.waiting.retain(|asked| !asked.is_about(&grant));
        let principal = grant.principal.clone();
        self.granted.push(grant);
        bound(&mut self.granted, &principal, MAX_GRANTS);
    }

    /// Takes back the grants of a client below a root, or all of them, and forgets its requests for them.
    fn revoke(&mut self, client: &ClientId, uri: Option<&str>) {
        let stays = |grant: &Grant| grant.client != client.as_str() || uri.is_some_and(|uri| uri != grant.uri);
        self.changed = true;
        self.granted.retain(stays);
        self.waiting.retain(stays);
    }

    /// Returns the valid grants of all clients, as clients see them.
    fn granted(&self, now_ms: i64) -> Vec<Value> {
        let granted = self.granted.iter().filter(|grant| grant.at_ms > now_ms);
        granted.map(|grant| grant.shown("expiresAt")).collect()
    }

    /// Returns the requests of all clients, as clients see them.
    fn requested(&self) -> Vec<Value> {
        self.waiting.iter().map(|grant| grant.shown("requestedAt")).collect()
    }

    fn ask(&mut self, asked: Grant) {
        self.waiting.retain(|known| !known.is_about(&asked));
        let principal = asked.principal.clone();
        self.waiting.push(asked);
        bound(&mut self.waiting, &principal, MAX_WAITING);
    }
}

/// Forgets the oldest entry of the client that has the most, so that no client displaces the entries of others:
/// neither those of another principal nor those of clients with the same credential that ask for little.
fn bound(all: &mut Vec<Grant>, principal: &str, most: usize) {
    let own = || all.iter().filter(|grant| grant.principal == principal);
    if own().count() <= most {
        return;
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for grant in own() {
        *counts.entry(&grant.client).or_default() += 1;
    }
    let most = counts.values().copied().max().unwrap_or_default();
    let oldest = all
        .iter()
        .position(|grant| grant.principal == principal && counts.get(grant.client.as_str()) == Some(&most));
    if let Some(oldest) = oldest {
        all.remove(oldest);
    }
}

impl Grant {
    fn is_of(&self, client: &str, principal: &str) -> bool {
        self.client == client && self.principal == principal
    }

    fn is_about(&self, other: &Self) -> bool {
        self.is_of(&other.client, &other.principal) && self.uri == other.uri
    }

    fn shown(&self, moment: &str) -> Value {
        let at = jiff::Timestamp::from_millisecond(self.at_ms).map_or_else(|_| String::new(), rfc3339);
        json!({ "clientId": self.client, "uri": self.uri, "read": true, "write": self.write, moment: at })
    }
}

impl Host {
    /// `resourceRequest`: what the client has is granted already, and about the rest the policy decides.
    pub(crate) fn request_resource(
        &mut self,
        cx: &mut Cx<'_>,
        conn: ConnId,
        uri: &str,
        write: bool,
    ) -> Result<Value, RpcError> {
        if !self.config.serves_resources {
            return Err(RpcError::method_not_found("resourceRequest"));
        }
        check_root(uri).map_err(|problem| RpcError::invalid_params("uri", problem))?;
        let Some((client, principal, scope)) = self.identity(conn) else {
            return Err(RpcError::invalid_request("send initialize first"));
        };
        if write && scope < Scope::Drive {
            return Err(RpcError::needs_scope("writing", Scope::Drive, scope));
        }
        let has = self.allowed_roots(cx, conn);
        let has_it = |reach: &AllowedRoot| is_within(uri, &reach.uri) && (reach.write || !write);
        if has.iter().any(has_it) {
            return Ok(json!({}));
        }
        let now_ms = cx.now.wall.as_millisecond();
        let mut grant = Grant {
            principal,
            client: client.as_str().to_owned(),
            uri: uri.to_owned(),
            write,
            at_ms: now_ms,
        };
        let is_granted = match self.config.resource_requests {
            RequestPolicy::Deny => false,
            RequestPolicy::Admin => scope >= Scope::Admin,
            RequestPolicy::Allow => true,
        };
        if is_granted {
            grant.at_ms = self.grant_ends(now_ms);
            self.grants.add(grant, now_ms);
            self.mark_dirty(ROOT);
            return Ok(json!({}));
        }
        let message = match self.config.resource_requests {
            RequestPolicy::Deny => {
                format!("{uri} is not granted: this host grants nothing beyond its configured roots")
            }
            RequestPolicy::Admin | RequestPolicy::Allow => {
                self.grants.ask(grant);
                format!(
                    "{uri} is not granted yet: a client with the admin scope has to allow it with \
                     `innkeeper/allowResource`; then try again"
                )
            }
        };
        Err(permission_denied(message, Some((uri, write))))
    }

    /// Lists, gives and takes back grants.
    pub(crate) fn grant_command(&mut self, cx: &mut Cx<'_>, command: GrantCommand) -> Result<Value, RpcError> {
        if !self.config.serves_resources {
            return Err(RpcError::method_not_found("innkeeper/listResourceGrants"));
        }
        let now_ms = cx.now.wall.as_millisecond();
        match command {
            GrantCommand::List => {
                Ok(json!({ "granted": self.grants.granted(now_ms), "requested": self.grants.requested() }))
            }
            GrantCommand::Allow(allow) => {
                check_root(&allow.uri).map_err(|problem| RpcError::invalid_params("uri", problem))?;
                let Some(client) = self.clients.get(&allow.client) else {
                    let problem = "no such client is connected or remembered";
                    return Err(RpcError::invalid_params("clientId", problem));
                };
                let grant = Grant {
                    principal: client.principal().to_string(),
                    client: allow.client.as_str().to_owned(),
                    uri: allow.uri,
                    write: allow.write,
                    at_ms: self.grant_ends(now_ms),
                };
                self.grants.add(grant, now_ms);
                self.mark_dirty(ROOT);
                Ok(json!({}))
            }
            GrantCommand::Revoke { client, uri } => {
                self.grants.revoke(&client, uri.as_deref());
                self.mark_dirty(ROOT);
                self.parts.watches.recheck();
                Ok(json!({}))
            }
        }
    }

    fn grant_ends(&self, now_ms: i64) -> i64 {
        now_ms.saturating_add(i64::try_from(self.config.resource_grant_ms).unwrap_or(i64::MAX))
    }

    pub(super) fn identity(&self, conn: ConnId) -> Option<(ClientId, String, Scope)> {
        let connection = self.conns.get(&conn)?;
        match &connection.phase {
            Phase::Ready { client, .. } => {
                let principal = &connection.principal;
                Some((client.clone(), principal.name.to_string(), principal.scope))
            }
            Phase::Fresh => None,
        }
    }
}

/// `-32009`, with the request that would help, if one would (ERR-03, RES-14).
pub fn permission_denied(message: String, unlocked_by: Option<(&str, bool)>) -> RpcError {
    let request = unlocked_by.map(|(uri, write)| ResourceRequestParams {
        channel: uri::ROOT.to_owned(),
        meta: None,
        uri: uri.to_owned(),
        read: Some(true),
        write: write.then_some(true),
    });
    RpcError {
        code: code::PERMISSION_DENIED,
        message,
        data: serde_json::to_value(PermissionDeniedErrorData { request }).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(client: &str, uri: &str, at_ms: i64) -> Grant {
        Grant {
            principal: "p".to_owned(),
            client: client.to_owned(),
            uri: uri.to_owned(),
            write: false,
            at_ms,
        }
    }

    fn uris(grants: &Grants, client: &str, now_ms: i64) -> Vec<String> {
        let client = ClientId::new(client);
        grants.of(&client, "p", now_ms).map(|grant| grant.uri.clone()).collect()
    }

    #[test]
    fn a_grant_is_of_one_client_and_principal_and_expires() {
        let mut grants = Grants::default();
        grants.add(grant("a", "file:///x", 100), 0);
        assert_eq!(uris(&grants, "a", 99), ["file:///x"]);
        assert_eq!(uris(&grants, "a", 100), [""; 0]);
        assert_eq!(uris(&grants, "b", 0), [""; 0]);
        assert_eq!(grants.of(&ClientId::new("a"), "other", 0).count(), 0);
    }

    #[test]
    fn a_new_grant_replaces_the_earlier_one_and_its_request() {
        let mut grants = Grants::default();
        grants.ask(grant("a", "file:///x", 1));
        assert!(!grants.take_changed(), "a request is not persisted");
        grants.add(grant("a", "file:///x", 100), 0);
        grants.add(grant("a", "file:///x", 200), 0);
        assert!(grants.take_changed() && !grants.take_changed());
        assert_eq!((grants.granted.len(), grants.waiting.len()), (1, 0));
    }

    #[test]
    fn a_revocation_takes_back_one_root_or_all_of_a_client() {
        let mut grants = Grants::default();
        for (client, uri) in [("a", "file:///x"), ("a", "file:///y"), ("b", "file:///x")] {
            grants.add(grant(client, uri, 100), 0);
            grants.ask(grant(client, "file:///asked", 1));
        }
        grants.take_changed();
        grants.revoke(&ClientId::new("a"), Some("file:///x"));
        assert_eq!(uris(&grants, "a", 0), ["file:///y"]);
        assert_eq!((grants.requested().len(), grants.take_changed()), (2, true));
        grants.revoke(&ClientId::new("a"), None);
        assert_eq!(uris(&grants, "a", 0), [""; 0]);
        assert_eq!(uris(&grants, "b", 0), ["file:///x"]);
        assert_eq!((grants.granted(0).len(), grants.requested().len()), (1, 1));
    }

    #[test]
    fn beyond_the_limit_the_client_with_the_most_entries_loses_its_oldest() {
        let mut grants = Grants::default();
        grants.ask(grant("modest", "file:///first", 0));
        for n in 0..MAX_WAITING {
            grants.ask(grant("greedy", &format!("file:///{n}"), 1));
        }
        assert_eq!(grants.waiting.len(), MAX_WAITING);
        let is_waiting = |uri: &str| grants.waiting.iter().any(|asked| asked.uri == uri);
        assert!(is_waiting("file:///first") && !is_waiting("file:///0") && is_waiting("file:///1"));
    }
}

//! Grants: access that clients requested beyond their sessions, and that users allowed (RES-14, RES-15).
//!
//! A grant belongs to one client id of one principal and names one place, reading and writing
//! separately. It is kept with the host's own state, ends by itself after a while, and is listed and
//! taken back with this host's own methods.

use std::collections::BTreeMap;

use ahp_types::commands::ResourceRequestParams;
use ahp_types::errors::PermissionDeniedErrorData;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Reach;
use super::containment::{check_place, is_within};
use crate::clients::access::Scope;
use crate::clients::client::Phase;
use crate::core::{Cx, Host, ROOT};
use crate::ids::{ClientId, ConnId};
use crate::protocol::error::{RpcError, code};
use crate::protocol::uri;
use crate::time::rfc3339;

/// Most grants of one principal that are remembered; beyond it one of its own is forgotten.
const MAX_GRANTS: usize = 1024;
/// Most requests of one principal that wait for somebody to allow them; beyond it one of its own is forgotten.
const MAX_WAITING: usize = 64;

/// Who decides about `resourceRequest`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RequestPolicy {
    /// Nobody is granted anything.
    Deny,
    /// Whoever has the admin scope: its own requests are granted, those of others wait for it.
    #[default]
    Admin,
    /// Everybody is granted what their scope allows.
    Allow,
}

/// What an admin does about grants; this host's own methods.
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
        /// The place; absent means all of them.
        uri: Option<String>,
    },
}

/// What is allowed to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allow {
    /// The client.
    pub client: ClientId,
    /// The place.
    pub uri: String,
    /// Whether it may write there, besides reading.
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
    /// Whether what is granted is different from what was kept last.
    #[serde(skip)]
    changed: bool,
}

impl Grants {
    /// What a client was granted and still has.
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

    /// Whether somebody is about to be told of something that was not kept yet.
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

    fn ask(&mut self, asked: Grant) {
        self.waiting.retain(|known| !known.is_about(&asked));
        let principal = asked.principal.clone();
        self.waiting.push(asked);
        bound(&mut self.waiting, &principal, MAX_WAITING);
    }
}

/// Forgets the oldest of the client that has the most, so that nobody pushes out what others have: neither those
/// of another principal nor those who share its credential and ask for little.
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
        check_place(uri).map_err(|problem| RpcError::invalid_params("uri", problem))?;
        let Some((client, principal, scope)) = self.who(conn) else {
            return Err(RpcError::invalid_request("send initialize first"));
        };
        if write && scope < Scope::Drive {
            return Err(RpcError::needs_scope("writing", Scope::Drive, scope));
        }
        let has = self.reaches(cx, conn);
        let has_it = |reach: &Reach| is_within(uri, &reach.uri) && (reach.write || !write);
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
                format!("{uri} is not granted: this host grants nothing beyond what it is set up with")
            }
            RequestPolicy::Admin | RequestPolicy::Allow => {
                self.grants.ask(grant);
                format!(
                    "{uri} is not granted yet: somebody with the admin scope has to allow it, as `innkeeper/allowResource` \
                     does; try again then"
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
                let granted = self.grants.granted.iter().filter(|grant| grant.at_ms > now_ms);
                let granted: Vec<Value> = granted.map(|grant| grant.shown("expiresAt")).collect();
                let asked = self.grants.waiting.iter();
                let asked: Vec<Value> = asked.map(|grant| grant.shown("requestedAt")).collect();
                Ok(json!({ "granted": granted, "requested": asked }))
            }
            GrantCommand::Allow(allow) => {
                check_place(&allow.uri).map_err(|problem| RpcError::invalid_params("uri", problem))?;
                let Some(client) = self.clients.get(&allow.client) else {
                    let problem = "no such client is connected or remembered";
                    return Err(RpcError::invalid_params("clientId", problem));
                };
                let grant = Grant {
                    principal: client.principal.to_string(),
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
                let is_meant =
                    |grant: &Grant| grant.client == client.as_str() && uri.as_ref().is_none_or(|uri| *uri == grant.uri);
                self.grants.changed = true;
                self.grants.granted.retain(|grant| !is_meant(grant));
                self.grants.waiting.retain(|grant| !is_meant(grant));
                self.mark_dirty(ROOT);
                self.parts.watches.recheck();
                Ok(json!({}))
            }
        }
    }

    fn grant_ends(&self, now_ms: i64) -> i64 {
        now_ms.saturating_add(i64::try_from(self.config.resource_grant_ms).unwrap_or(i64::MAX))
    }

    pub(super) fn who(&self, conn: ConnId) -> Option<(ClientId, String, Scope)> {
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

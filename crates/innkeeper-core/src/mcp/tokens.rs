//! Tokens for servers (MCP-11, AUTH-10).
//!
//! A token is for a resource, and every MCP server of this host that asks for that resource gets it, now and later:
//! the clients of a session share its servers, and one sign-in must suffice for all of them. The MCP service has the
//! tokens. The core knows for which resources there are any, which client gave them and when they expire, so that
//! they can be revoked.
//!
//! A token belongs to the client that gave it. While that client is connected or in its grace period, only it or an
//! admin replaces or revokes the token; otherwise the actions of one user would be done in the name of another. A
//! token that a server no longer accepts belongs to no client, and every client that may sign in can replace it
//! (MCP-11); the same holds while a call waits because the token lacks scopes. Where tokens are persisted
//! ([`CoreConfig::persists_mcp_tokens`](crate::CoreConfig::persists_mcp_tokens)), they outlive their client and the host,
//! and once the client has left, every client that may sign in can replace or revoke them. Otherwise a token is
//! deleted when the grace period of its client ends (AUTH-07).
//!
//! A token that can be refreshed has no deadline here: the MCP service refreshes it in time.

use std::collections::BTreeMap;

use ahp_types::state::{McpAuthRequiredReason, McpServerState, ProtectedResourceMetadata};

use super::wire;
use super::{Mcp, ServerToken, StoredTokenInfo, TokenChange};
use crate::clients::access::Scope;
use crate::clients::client::Presence;
use crate::core::{Cx, Host, Timer, never};
use crate::effect::McpCommand;
use crate::ids::{ChannelId, ClientId, ConnId};
use crate::protocol::error::{RpcError, code};
use crate::protocol::request::RequestId;
use crate::protocol::uri;
use crate::time::Now;

/// Maximum resources with a token.
const MAX_RESOURCES: usize = 1024;

/// For which resources servers have tokens.
#[derive(Debug, Default)]
pub(crate) struct McpTokens {
    given: BTreeMap<String, Given>,
    /// The number of the latest token.
    count: u64,
}

/// A token, without its secret.
#[derive(Debug)]
struct Given {
    /// Its number, unique in this core.
    number: u64,
    /// The client that gave it.
    by: ClientId,
    /// Its expiry, on the monotonic clock.
    until_ms: Option<u64>,
    /// The authorization servers of the resource that its MCP servers named when it was given.
    authorization_servers: Vec<String>,
    /// The scopes of the token, if they are known.
    scopes: Vec<String>,
}

impl McpTokens {
    /// Whether servers have a token for a resource.
    pub(crate) fn has(&self, resource: &str) -> bool {
        self.given.contains_key(resource)
    }

    /// The scopes that are missing where the token does not suffice. Clients are shown all required scopes, so that a
    /// new token does not lose those of the old one (MCP, step-up authorization); the authorization server decides
    /// whether it grants them.
    pub(crate) fn missing(&self, resource: &str, mut required: Vec<String>) -> Vec<String> {
        let granted = self
            .given
            .get(resource)
            .map(|given| &given.scopes[..])
            .unwrap_or_default();
        if required.iter().any(|scope| !granted.contains(scope)) {
            required.retain(|scope| !granted.contains(scope));
        }
        required
    }
}

/// A server that needs a token.
pub(crate) struct ServerDemand {
    pub(crate) resource: ProtectedResourceMetadata,
    /// The scopes that the token must have.
    pub(crate) scopes: Vec<String>,
    /// Whether the server has no token that it accepts at all.
    pub(crate) is_signed_out: bool,
}

/// Whether a demand with this reason says that there is no token that is accepted.
pub(crate) fn is_signed_out(reason: &McpAuthRequiredReason) -> bool {
    matches!(reason, McpAuthRequiredReason::Required | McpAuthRequiredReason::Expired)
}

impl Host {
    /// The servers that need a token of this resource, of all sessions in memory.
    pub(crate) fn server_demands(&self, resource: &str) -> Vec<ServerDemand> {
        let mut demands = Vec::new();
        for session in self.sessions.values().filter(|_| self.config.serves_mcp) {
            for (_, server) in wire::servers(&session.state) {
                if let McpServerState::AuthRequired(auth) = &server.state
                    && auth.resource.resource == resource
                {
                    let scopes = auth.required_scopes.clone().unwrap_or_default();
                    let is_signed_out = is_signed_out(&auth.reason);
                    demands.push(ServerDemand {
                        resource: auth.resource.clone(),
                        scopes: match is_signed_out {
                            true => scopes,
                            false => self.mcp.tokens.missing(resource, scopes),
                        },
                        is_signed_out,
                    });
                }
            }
        }
        demands.sort_unstable_by(|a, b| a.scopes.cmp(&b.scopes));
        demands
    }

    /// Whether a client may set or revoke the token for the servers of a resource. With `is_void`, the present token
    /// is of no use, so every client may replace it (MCP-11).
    pub(crate) fn may_give_server_token(
        &self,
        conn: ConnId,
        client: &ClientId,
        resource: &str,
        is_void: bool,
    ) -> Result<(), RpcError> {
        let scope = self.conns.get(&conn).map(|conn| conn.principal.scope);
        let is_anybodys = is_void || scope >= Some(Scope::Admin);
        match self.mcp.tokens.given.get(resource) {
            Some(given) if given.by != *client && !is_anybodys && self.is_here(&given.by) => Err(RpcError::new(
                code::PERMISSION_DENIED,
                "another client has signed in to this resource for the MCP servers of this host; while it is \
                 connected, only it or a connection with the scope admin can replace or revoke its token",
            )),
            None if self.config.serves_mcp && self.mcp.tokens.given.len() >= MAX_RESOURCES => Err(RpcError::new(
                code::CONFLICT,
                format!(
                    "MCP servers of this host have tokens for {MAX_RESOURCES} resources, which is the limit; revoke \
                     one with an empty token first"
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether a client is connected or in its grace period.
    fn is_here(&self, client: &ClientId) -> bool {
        let presence = self.clients.get(client).map(|client| &client.presence);
        presence.is_some_and(|presence| !matches!(presence, Presence::Absent(_)))
    }

    /// The authorization servers of a resource: those that the servers that need a token name, and otherwise those of
    /// the latest token.
    pub(crate) fn authorization_servers<'a>(
        &self,
        resource: &str,
        named: impl Iterator<Item = &'a ProtectedResourceMetadata>,
    ) -> Vec<String> {
        let named = named.flat_map(|resource| resource.authorization_servers.iter().flatten());
        let mut servers: Vec<String> = named.cloned().collect();
        servers.sort_unstable();
        servers.dedup();
        if let Some(given) = self.mcp.tokens.given.get(resource).filter(|_| servers.is_empty()) {
            servers.clone_from(&given.authorization_servers);
        }
        servers
    }

    /// Gives a token to the servers of a resource, in place of an earlier one. Returns true if the request is
    /// answered when the token is stored.
    pub(crate) fn give_server_token(
        &mut self,
        cx: &mut Cx<'_>,
        client: &ClientId,
        resource: &str,
        mut token: ServerToken,
        answer: (ConnId, &RequestId),
    ) -> bool {
        if !self.config.serves_mcp {
            return false;
        }
        self.forget_server_token(resource);
        // The MCP service refreshes a token that can be refreshed, or drops it.
        let expires_in = token.expires_in.filter(|_| !token.is_renewed());
        self.mcp.tokens.count += 1;
        token.number = self.mcp.tokens.count;
        let given = Given {
            number: token.number,
            by: client.clone(),
            until_ms: expires_in.map(|seconds| deadline(cx.now, seconds)),
            authorization_servers: token.authorization_servers.clone(),
            scopes: token.scopes.clone().unwrap_or_default(),
        };
        self.remember_server_token(resource, given);
        cx.emit(McpCommand::SetToken {
            resource: resource.to_owned(),
            change: TokenChange::Given(Box::new(token)),
            answer: Some((answer.0, answer.1.clone())),
        });
        true
    }

    /// Removes the token of a resource from its servers, because its client revoked it (AUTH-05). The servers
    /// themselves report that they need another one; there is no other signal (MCP-07). Returns true if `answer` is
    /// answered when the removal is stored.
    pub(crate) fn take_server_token(
        &mut self,
        cx: &mut Cx<'_>,
        resource: &str,
        answer: Option<(ConnId, &RequestId)>,
    ) -> bool {
        let is_taken = self.forget_server_token(resource).is_some();
        if is_taken {
            self.hide_token(cx, resource);
            cx.emit(McpCommand::SetToken {
                resource: resource.to_owned(),
                change: TokenChange::TakenBack,
                answer: answer.map(|(conn, id)| (conn, id.clone())),
            });
        }
        is_taken && answer.is_some()
    }

    /// A token expired (AUTH-06), or a new core found that its client is unknown. As after a revocation, its servers
    /// themselves report that they need another one.
    pub(crate) fn expire_server_token(&mut self, cx: &mut Cx<'_>, resource: &str) {
        // The timer outlives a token that was revoked meanwhile.
        let Some(given) = self.forget_server_token(resource) else {
            return;
        };
        self.hide_token(cx, resource);
        let has_no_owner = !self.config.persists_mcp_tokens && !self.clients.contains_key(&given.by);
        cx.emit(McpCommand::SetToken {
            resource: resource.to_owned(),
            change: match has_no_owner {
                true => TokenChange::TakenBack,
                false => TokenChange::Expired,
            },
            answer: None,
        });
    }

    /// The MCP service could not refresh a token and dropped it. Its servers themselves report that it expired. A
    /// client may have signed in since: the number tells the new token from the lost one.
    pub(crate) fn lose_server_token(&mut self, cx: &mut Cx<'_>, resource: &str, number: u64) {
        let given = self.mcp.tokens.given.get(resource);
        if given.is_some_and(|given| given.number == number) {
            self.forget_server_token(resource);
            self.hide_token(cx, resource);
        }
    }

    /// Servers of a resource do not say any more that there is a token for them.
    fn hide_token(&mut self, cx: &mut Cx<'_>, resource: &str) {
        let mut said = Vec::new();
        for (session_id, session) in self.sessions.iter() {
            let servers = wire::servers(&session.state).map(|(_, server)| server);
            let have_it = servers.filter(|server| wire::shown_token_resource(server) == Some(resource));
            said.extend(have_it.map(|server| (*session_id, server.id.clone())));
        }
        self.hide_tokens(cx, said);
    }

    /// The same for a session that was not in memory while tokens went.
    pub(super) fn hide_lost_tokens(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        let servers = wire::servers(&session.state).map(|(_, server)| server);
        let lost =
            servers.filter(|server| wire::shown_token_resource(server).is_some_and(|said| !self.mcp.tokens.has(said)));
        let lost = lost.map(|server| (session_id, server.id.clone())).collect();
        self.hide_tokens(cx, lost);
    }

    fn hide_tokens(&mut self, cx: &mut Cx<'_>, said: Vec<(ChannelId, String)>) {
        for (session_id, id) in said {
            let session = self.sessions.get(&session_id);
            let entry = session.and_then(|session| wire::with(&session.state, &id, wire::hide_token));
            if let Some(entry) = entry {
                self.commit_entry(cx, session_id, entry);
            }
        }
    }

    /// Removes the tokens of a client whose grace period is over, unless tokens are persisted.
    pub(crate) fn take_server_tokens_of(&mut self, cx: &mut Cx<'_>, client: &ClientId) {
        if self.config.persists_mcp_tokens {
            return;
        }
        let given = self.mcp.tokens.given.iter().filter(|(_, given)| given.by == *client);
        let resources: Vec<String> = given.map(|(resource, _)| resource.clone()).collect();
        for resource in resources {
            self.take_server_token(cx, &resource, None);
        }
    }

    /// Adds the tokens that were stored in an earlier run of the host, so that they can be replaced and revoked
    /// (AUTH-04).
    pub(crate) fn restore_server_tokens(&mut self, now: Now, kept: Vec<StoredTokenInfo>) {
        for kept in kept {
            let is_new = !self.mcp.tokens.has(&kept.resource) && self.mcp.tokens.given.len() < MAX_RESOURCES;
            if !is_new || uri::check_client_id(&kept.given_by).is_err() {
                continue;
            }
            let given = Given {
                number: 0,
                by: ClientId::new(&kept.given_by),
                until_ms: kept.expires_in.map(|seconds| deadline(now, seconds)),
                authorization_servers: kept.authorization_servers,
                scopes: kept.scopes.unwrap_or_default(),
            };
            self.remember_server_token(&kept.resource, given);
        }
    }

    /// Takes over the token state of the previous core.
    pub(crate) fn take_over_server_tokens(&mut self, before: Mcp) {
        let mut before = before.tokens;
        let keeps = self.config.persists_mcp_tokens;
        for (resource, given) in &mut before.given {
            if !keeps && !self.clients.contains_key(&given.by) {
                // Its client is unknown to this core: it expires at once.
                given.until_ms = Some(0);
            }
            self.schedule_server_expiry(resource, given.until_ms);
        }
        self.mcp.tokens = before;
    }

    fn remember_server_token(&mut self, resource: &str, given: Given) {
        self.schedule_server_expiry(resource, given.until_ms);
        self.mcp.tokens.given.insert(resource.to_owned(), given);
    }

    fn forget_server_token(&mut self, resource: &str) -> Option<Given> {
        let given = self.mcp.tokens.given.remove(resource)?;
        if let Some(at) = given.until_ms {
            self.timers.cancel(at, Timer::ExpireServerToken(resource.to_owned()));
        }
        Some(given)
    }

    fn schedule_server_expiry(&mut self, resource: &str, until_ms: Option<u64>) {
        if let Some(at) = until_ms {
            self.timers.set(at, Timer::ExpireServerToken(resource.to_owned()));
        }
    }
}

fn deadline(now: Now, seconds: u64) -> u64 {
    now.mono_ms.saturating_add(seconds.saturating_mul(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESOURCE: &str = "https://mcp.example";

    fn with_scopes(scopes: &[&str]) -> McpTokens {
        let given = Given {
            number: 1,
            by: ClientId::new("c"),
            until_ms: None,
            authorization_servers: Vec::new(),
            scopes: scopes.iter().map(ToString::to_string).collect(),
        };
        McpTokens {
            given: BTreeMap::from([(RESOURCE.to_owned(), given)]),
            count: 1,
        }
    }

    fn missing(tokens: &McpTokens, required: &[&str]) -> Vec<String> {
        tokens.missing(RESOURCE, required.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn only_scopes_that_the_token_lacks_are_missing() {
        let tokens = with_scopes(&["read"]);
        assert_eq!(missing(&tokens, &["read", "write"]), ["write"]);
        assert_eq!(missing(&McpTokens::default(), &["read"]), ["read"]);
    }

    #[test]
    fn a_token_with_all_scopes_that_was_refused_misses_all_of_them() {
        assert_eq!(missing(&with_scopes(&["read"]), &["read"]), ["read"]);
    }
}

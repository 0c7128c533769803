//! Tokens for servers (MCP-11, AUTH-10).
//!
//! A token is for a resource, and every server of this host that asks for that resource gets it, now
//! and later: servers are shared by everybody who uses their session, and nobody wants to sign in again
//! for each. Whoever runs the servers has the tokens. The core knows for which resources there are any,
//! who gave them and when they expire, so that they can be taken back.
//!
//! A token stays whose it is: nobody else replaces it or takes it back, unless they run the host, or what
//! people do in their own name would be done in somebody else's. Whoever gave it takes it along: it is
//! gone when their grace is over (AUTH-07).

use std::collections::BTreeMap;

use ahp_types::state::{McpServerState, ProtectedResourceMetadata};

use super::ServerToken;
use super::wire;
use crate::access::Scope;
use crate::core::{Cx, HostCore, Timer};
use crate::effect::Effect;
use crate::error::{RpcError, code};
use crate::ids::{ClientId, ConnId};

/// Most resources that are remembered to have a token.
const MAX_RESOURCES: usize = 1024;

/// For which resources servers have tokens.
#[derive(Debug, Default)]
pub(crate) struct McpTokens {
    given: BTreeMap<String, Given>,
}

/// What is known of a token.
#[derive(Debug)]
struct Given {
    /// Whose it is.
    by: ClientId,
    /// Until when it is good, on the monotonic clock.
    until_ms: Option<u64>,
}

impl McpTokens {
    /// Whether servers have a token for a resource.
    pub(crate) fn has(&self, resource: &str) -> bool {
        self.given.contains_key(resource)
    }
}

/// What a server wants a token for.
pub(crate) struct ServerDemand {
    pub(crate) resource: ProtectedResourceMetadata,
    /// What the token has to grant.
    pub(crate) scopes: Vec<String>,
}

impl HostCore {
    /// What servers want a token of this resource for, of all sessions that are in memory.
    pub(crate) fn server_demands(&self, resource: &str) -> Vec<ServerDemand> {
        let mut demands = Vec::new();
        for session in self.sessions.values().filter(|_| self.config.serves_mcp) {
            for (_, server) in wire::servers(&session.state) {
                if let McpServerState::AuthRequired(auth) = &server.state
                    && auth.resource.resource == resource
                {
                    demands.push(ServerDemand {
                        resource: auth.resource.clone(),
                        scopes: auth.required_scopes.clone().unwrap_or_default(),
                    });
                }
            }
        }
        demands.sort_unstable_by(|a, b| a.scopes.cmp(&b.scopes));
        demands
    }

    /// Whether a client may give the servers of a resource a token, or take it back from them.
    pub(crate) fn may_give_server_token(
        &self,
        conn: ConnId,
        client: &ClientId,
        resource: &str,
    ) -> Result<(), RpcError> {
        let scope = self.conns.get(&conn).map(|conn| conn.principal.scope);
        match self.mcp.tokens.given.get(resource) {
            // Its grace is not over, or the token would be gone.
            Some(given) if given.by != *client && scope < Some(Scope::Admin) => Err(RpcError::new(
                code::PERMISSION_DENIED,
                "another client has signed in to this resource for the MCP servers of this host; while it is here, \
                 only it or a connection with the scope admin can replace or take back its token",
            )),
            None if self.config.serves_mcp && self.mcp.tokens.given.len() >= MAX_RESOURCES => Err(RpcError::new(
                code::CONFLICT,
                format!(
                    "MCP servers of this host have tokens for {MAX_RESOURCES} resources, and more are not kept; take \
                     one back with an empty token first"
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Hands a token of a client that may give it to the servers of a resource, in place of an earlier one.
    pub(crate) fn give_server_token(&mut self, cx: &mut Cx<'_>, client: &ClientId, resource: &str, token: ServerToken) {
        if !self.config.serves_mcp {
            return;
        }
        self.forget_server_token(resource);
        let lasts_ms = token.expires_in.map(|seconds| seconds.saturating_mul(1000));
        let until_ms = lasts_ms.map(|lasts_ms| cx.now.mono_ms.saturating_add(lasts_ms));
        let by = client.clone();
        self.mcp
            .tokens
            .given
            .insert(resource.to_owned(), Given { by, until_ms });
        self.schedule_server_expiry(resource, until_ms);
        cx.effects.push(Effect::McpToken {
            resource: resource.to_owned(),
            token: Some(token),
        });
    }

    /// Takes the token of a resource away from its servers: somebody took it back (AUTH-05), or it is no
    /// longer good (AUTH-06). They say themselves that they need another one; there is no other signal
    /// (MCP-07).
    pub(crate) fn take_server_token(&mut self, cx: &mut Cx<'_>, resource: &str) {
        if self.forget_server_token(resource) {
            cx.effects.push(Effect::McpToken {
                resource: resource.to_owned(),
                token: None,
            });
        }
    }

    /// Takes away what a client gave: its grace is over.
    pub(crate) fn take_server_tokens_of(&mut self, cx: &mut Cx<'_>, client: &ClientId) {
        let given = self.mcp.tokens.given.iter().filter(|(_, given)| given.by == *client);
        let resources: Vec<String> = given.map(|(resource, _)| resource.clone()).collect();
        for resource in resources {
            self.take_server_token(cx, &resource);
        }
    }

    /// Goes on with what is known of tokens by the core before this one.
    pub(crate) fn take_over_server_tokens(&mut self, mut before: McpTokens) {
        for (resource, given) in &mut before.given {
            if !self.clients.contains_key(&given.by) {
                // Nobody's: it is taken away at once.
                given.until_ms = Some(0);
            }
            self.schedule_server_expiry(resource, given.until_ms);
        }
        self.mcp.tokens = before;
    }

    fn forget_server_token(&mut self, resource: &str) -> bool {
        let Some(given) = self.mcp.tokens.given.remove(resource) else {
            return false;
        };
        if let Some(at) = given.until_ms {
            self.timers.remove(&(at, Timer::McpToken(resource.to_owned())));
        }
        true
    }

    fn schedule_server_expiry(&mut self, resource: &str, until_ms: Option<u64>) {
        if let Some(at) = until_ms {
            self.timers.insert((at, Timer::McpToken(resource.to_owned())));
        }
    }
}

//! `authenticate`: a token goes to the agents of the client that gave it and to calls that wait for it, and nowhere
//! else (AUTH-12).

use ahp_types::notifications::AuthRequiredReason;
use ahp_types::state::{ProtectedResourceMetadata, ToolCallContributor, ToolCallState};
use serde_json::{Value, json};

use crate::agent::ToolReply;
use crate::clients::agent_tokens::AgentToken;
use crate::core::{Cx, Host, Timer};
use crate::ids::{ChannelId, ClientId, ConnId, TurnKey};
use crate::mcp::{ServerDemand, ServerToken, check_endpoints, is_signed_out};
use crate::protocol::error::{RpcError, code};
use crate::protocol::request::{Authenticate, RequestId};

/// The longest accepted lifetime of a token, ten years, so that every deadline can be represented.
const MAX_LIFETIME_S: u64 = 10 * 365 * 24 * 60 * 60;

/// A tool call that waits for a token.
struct WaitingCall {
    chat: ChannelId,
    /// The session of the chat.
    session: ChannelId,
    turn: TurnKey,
    call: String,
    /// The resource that needs a token.
    resource: ProtectedResourceMetadata,
    /// The scopes that the token must have.
    scopes: Vec<String>,
    /// Whether an MCP server carries it out, which gets the token then.
    is_of_server: bool,
    /// Whether there is no token that is accepted at all.
    is_signed_out: bool,
}

impl Host {
    /// `authenticate`: accepts exactly the resources that an agent or a call wants a token for (AUTH-04). The answer
    /// to a token that the MCP service stores first is sent when that is done.
    pub(crate) fn authenticate(
        &mut self,
        cx: &mut Cx<'_>,
        conn: ConnId,
        id: &RequestId,
        authenticate: Authenticate,
    ) -> Result<Option<Value>, RpcError> {
        let Authenticate {
            resource,
            token,
            expires_in,
            scopes,
            refresh,
        } = authenticate;
        let waiting = self.waiting_for(&resource);
        let demands = self.server_demands(&resource);
        let is_servers = !demands.is_empty() || self.mcp.has_token(&resource);
        let is_agents = self.advertised(&resource).is_some();
        if waiting.is_empty() && !is_agents && !is_servers {
            return Err(RpcError::invalid_params(
                "resource",
                "nothing on this host asks to sign in to this resource; AgentInfo.protectedResources, MCP servers and \
                 calls that wait for a token name those that something does",
            ));
        }
        let Some(client) = self.conns.client(conn).cloned() else {
            return Ok(Some(json!({})));
        };
        let is_taken_back = token.reveal().is_empty();
        // A user who sees a call wait may sign in for it (MCP-11). The token that was refused does not serve its
        // purpose, so its owner does not matter, as with an expired one.
        let is_void = demands.iter().any(|demand| demand.is_signed_out)
            || waiting.iter().any(|call| {
                let is_seen = || self.sees(conn, call) && call.accepts(scopes.as_deref());
                call.is_of_server && (call.is_signed_out || is_seen())
            });
        let allowed = self.may_give_server_token(conn, &client, &resource, is_void && !is_taken_back);
        if is_taken_back {
            // AUTH-05: an empty token revokes an earlier one; waiting calls continue to wait.
            self.revoke_token(&client, &resource);
            let is_answered = match allowed {
                Ok(()) => self.take_server_token(cx, &resource, Some((conn, id))),
                // The client revoked its own token.
                Err(_) if is_agents => false,
                Err(refused) => return Err(refused),
            };
            return Ok((!is_answered).then(|| json!({})));
        }
        let is_served =
            |call: &&WaitingCall| call.accepts(scopes.as_deref()) && (allowed.is_ok() || !call.is_of_server);
        let served: Vec<&WaitingCall> = waiting.iter().filter(is_served).collect();
        // A server that has a token, or none that grants enough, takes one that grants enough.
        let accepted = |demand: &ServerDemand| accepts(&demand.scopes, scopes.as_deref());
        let serves_servers = allowed.is_ok() && is_servers && (demands.is_empty() || demands.iter().any(accepted));
        if !is_agents && !serves_servers && served.is_empty() {
            return Err(match allowed {
                Ok(()) => too_narrow(&waiting, &demands),
                Err(refused) => refused,
            });
        }
        let mut is_answered = false;
        // First, so that a resumed call finds it there.
        if allowed.is_ok() && (serves_servers || !served.is_empty()) {
            let named = waiting.iter().map(|call| &call.resource);
            let named = named.chain(demands.iter().map(|demand| &demand.resource));
            let authorization_servers = self.authorization_servers(&resource, named);
            if let Some(refresh) = &refresh {
                check_endpoints(refresh, &authorization_servers)?;
            }
            let token = ServerToken {
                secret: token.clone(),
                scopes: scopes.clone(),
                expires_in: expires_in.map(|seconds| seconds.min(MAX_LIFETIME_S)),
                number: 0,
                given_by: client.to_string(),
                authorization_servers,
                refresh,
            };
            is_answered = self.give_server_token(cx, &client, &resource, token, (conn, id));
        }
        for call in served {
            let reply = ToolReply::Authenticated { token: token.clone() };
            self.tool_reply(cx, call.chat, call.turn, call.call.clone(), reply);
        }
        if is_agents {
            let lasts_ms = expires_in.map(|seconds| seconds.min(MAX_LIFETIME_S).saturating_mul(1000));
            let held = AgentToken {
                token,
                scopes,
                expires_ms: lasts_ms.map(|lasts_ms| cx.now.mono_ms.saturating_add(lasts_ms)),
            };
            self.unschedule_expiry(&client);
            self.tokens.grant(&client, &resource, held);
            self.schedule_expiry(&client);
        }
        Ok((!is_answered).then(|| json!({})))
    }

    /// Drops the expired tokens of a client, and notifies it (AUTH-06).
    pub(crate) fn expire_tokens(&mut self, cx: &mut Cx<'_>, client: &ClientId) {
        for resource in self.tokens.expire(client, cx.now.mono_ms) {
            if let Some(resource) = self.advertised(&resource) {
                self.notify_client_of_auth(cx, client, resource, &AuthRequiredReason::Expired);
            }
        }
    }

    /// Forgets what a client signed in with: its grace is over (AUTH-07).
    pub(crate) fn forget_tokens(&mut self, cx: &mut Cx<'_>, client: &ClientId) {
        self.unschedule_expiry(client);
        self.tokens.forget(client);
        self.take_server_tokens_of(cx, client);
    }

    /// Forgets tokens for what no agent asks for any more.
    pub(crate) fn forget_unadvertised(&mut self) {
        let mut tokens = std::mem::take(&mut self.tokens);
        tokens.retain(|resource| self.advertised(resource).is_some());
        self.tokens = tokens;
    }

    /// Goes on with the tokens of the core before this one in the same process: its clients did not
    /// leave, they were sent away for a moment.
    pub(crate) fn take_over_tokens(&mut self, before: Self) {
        self.tokens = before.tokens;
        self.take_over_server_tokens(before.mcp);
        for client in self.tokens.clients() {
            match self.clients.contains_key(&client) {
                true => self.schedule_expiry(&client),
                false => self.tokens.forget(&client),
            }
        }
    }

    /// Takes a token back.
    pub(crate) fn revoke_token(&mut self, client: &ClientId, resource: &str) {
        self.unschedule_expiry(client);
        self.tokens.revoke(client, resource);
        self.schedule_expiry(client);
    }

    fn schedule_expiry(&mut self, client: &ClientId) {
        for at in self.tokens.deadlines(client) {
            self.timers.set(at, Timer::ExpireTokens(client.clone()));
        }
    }

    fn unschedule_expiry(&mut self, client: &ClientId) {
        for at in self.tokens.deadlines(client) {
            self.timers.cancel(at, Timer::ExpireTokens(client.clone()));
        }
    }

    /// The calls that wait for a token of a resource.
    fn waiting_for(&self, resource: &str) -> Vec<WaitingCall> {
        let mut waiting = Vec::new();
        for (chat_id, chat) in self.chats.iter() {
            let Some(run) = &chat.run else {
                continue;
            };
            for call in chat.model.open_calls() {
                if let ToolCallState::AuthRequired(call) = call
                    && call.auth.resource.resource == resource
                {
                    let is_of_server = matches!(call.contributor, Some(ToolCallContributor::Mcp(_)));
                    let scopes = call.auth.required_scopes.clone().unwrap_or_default();
                    let is_signed_out = is_signed_out(&call.auth.reason);
                    let steps_up = is_of_server && !is_signed_out;
                    waiting.push(WaitingCall {
                        chat: *chat_id,
                        session: chat.session,
                        turn: run.key,
                        call: call.tool_call_id.clone(),
                        resource: call.auth.resource.clone(),
                        scopes: match steps_up {
                            true => self.mcp.missing_scopes(resource, scopes),
                            false => scopes,
                        },
                        is_signed_out,
                        is_of_server,
                    });
                }
            }
        }
        waiting.sort_unstable_by(|a, b| (a.chat, a.turn, &a.call).cmp(&(b.chat, b.turn, &b.call)));
        waiting
    }

    /// Whether a client is shown that a call waits.
    fn sees(&self, conn: ConnId, call: &WaitingCall) -> bool {
        let subscriptions = self.conns.get(&conn).map(|conn| &conn.subscriptions);
        subscriptions.is_some_and(|channels| channels.contains(&call.session) || channels.contains(&call.chat))
    }
}

impl WaitingCall {
    /// Whether a token with these scopes suffices. One with unknown scopes may (AUTH-11).
    fn accepts(&self, granted: Option<&[String]>) -> bool {
        accepts(&self.scopes, granted)
    }
}

fn accepts(wanted: &[String], granted: Option<&[String]>) -> bool {
    granted.is_none_or(|granted| wanted.iter().all(|scope| granted.contains(scope)))
}

/// The error for a client whose token suffices for nothing that waits.
fn too_narrow(waiting: &[WaitingCall], demands: &[ServerDemand]) -> RpcError {
    let of_calls = waiting.iter().map(|call| (&call.resource, &call.scopes));
    let of_servers = demands.iter().map(|demand| (&demand.resource, &demand.scopes));
    let wanted: Vec<(&ProtectedResourceMetadata, &Vec<String>)> = of_calls.chain(of_servers).collect();
    let mut scopes: Vec<&str> = wanted
        .iter()
        .flat_map(|(_, scopes)| scopes.iter().map(String::as_str))
        .collect();
    scopes.sort_unstable();
    scopes.dedup();
    let message = format!(
        "the token does not grant what is asked for; get one with the scopes {}",
        scopes.join(", ")
    );
    let resources: Vec<&ProtectedResourceMetadata> = wanted.iter().take(1).map(|(resource, _)| *resource).collect();
    RpcError {
        data: Some(json!({ "resources": resources })),
        ..RpcError::new(code::AUTH_REQUIRED, message)
    }
}

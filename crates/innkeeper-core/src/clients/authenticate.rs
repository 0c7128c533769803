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

/// Everything that wants a token of one resource.
struct TokenTargets {
    /// The calls that wait for one.
    calls: Vec<WaitingCall>,
    /// The MCP servers that ask for one.
    demands: Vec<ServerDemand>,
    /// An MCP server asks for one, or has one.
    servers: bool,
    /// An agent asks for one.
    agents: bool,
}

/// Everything that a token is good for.
struct ServedTargets<'a> {
    calls: Vec<&'a WaitingCall>,
    servers: bool,
    agents: bool,
}

impl TokenTargets {
    fn is_empty(&self) -> bool {
        self.calls.is_empty() && !self.servers && !self.agents
    }

    /// Returns everything that a token with these scopes is good for. MCP servers and their calls get it only from a
    /// client that may give them one.
    fn served_by(&self, scopes: Option<&[String]>, may_serve_servers: bool) -> ServedTargets<'_> {
        let calls = self.calls.iter();
        let calls = calls.filter(|call| call.accepts(scopes) && (may_serve_servers || !call.is_of_server));
        // A server that has a token, or none that grants enough, takes one that grants enough.
        let accepted = |demand: &ServerDemand| accepts(&demand.scopes, scopes);
        let takes_one = self.demands.is_empty() || self.demands.iter().any(accepted);
        ServedTargets {
            calls: calls.collect(),
            servers: may_serve_servers && self.servers && takes_one,
            agents: self.agents,
        }
    }
}

impl ServedTargets<'_> {
    fn is_empty(&self) -> bool {
        self.calls.is_empty() && !self.servers && !self.agents
    }
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
        let resource = &authenticate.resource;
        let wanted = self.token_targets(resource);
        if wanted.is_empty() {
            return Err(RpcError::invalid_params(
                "resource",
                "nothing on this host asks to sign in to this resource; AgentInfo.protectedResources, MCP servers and \
                 calls that wait for a token name those that something does",
            ));
        }
        let Some(client) = self.conns.client(conn).cloned() else {
            return Ok(Some(json!({})));
        };
        if authenticate.token.reveal().is_empty() {
            return self.sign_out(cx, conn, id, &client, resource, &wanted);
        }
        let scopes = authenticate.scopes.as_deref();
        let replaces_void = self.is_token_void(conn, &wanted, scopes);
        let allowed = self.may_give_server_token(conn, &client, resource, replaces_void);
        let served = wanted.served_by(scopes, allowed.is_ok());
        if served.is_empty() {
            return Err(match allowed {
                Ok(()) => too_narrow(&wanted.calls, &wanted.demands),
                Err(refused) => refused,
            });
        }
        let mut is_answered = false;
        // First, so that a resumed call finds it there.
        if allowed.is_ok() && (served.servers || !served.calls.is_empty()) {
            let token = self.server_token(&client, &authenticate, &wanted)?;
            is_answered = self.give_server_token(cx, &client, resource, token, (conn, id));
        }
        for call in &served.calls {
            let token = authenticate.token.clone();
            let reply = ToolReply::Authenticated { token };
            self.tool_reply(cx, call.chat, call.turn, call.call.clone(), reply);
        }
        if served.agents {
            self.grant_to_agents(cx, &client, authenticate);
        }
        Ok((!is_answered).then(|| json!({})))
    }

    /// Revokes an earlier token with an empty one (AUTH-05). Waiting calls continue to wait.
    fn sign_out(
        &mut self,
        cx: &mut Cx<'_>,
        conn: ConnId,
        id: &RequestId,
        client: &ClientId,
        resource: &str,
        wanted: &TokenTargets,
    ) -> Result<Option<Value>, RpcError> {
        let allowed = self.may_give_server_token(conn, client, resource, false);
        self.revoke_token(client, resource);
        let is_answered = match allowed {
            Ok(()) => self.take_server_token(cx, resource, Some((conn, id))),
            // The client revoked its own token.
            Err(_) if wanted.agents => false,
            Err(refused) => return Err(refused),
        };
        Ok((!is_answered).then(|| json!({})))
    }

    /// Returns true if the token that the servers of a resource have serves no purpose, so that its owner does not
    /// matter, as with an expired one. A user who sees a call wait may sign in for it (MCP-11).
    fn is_token_void(&self, conn: ConnId, wanted: &TokenTargets, scopes: Option<&[String]>) -> bool {
        let is_refused = |call: &WaitingCall| {
            let is_seen = || self.sees(conn, call) && call.accepts(scopes);
            call.is_of_server && (call.is_signed_out || is_seen())
        };
        wanted.demands.iter().any(|demand| demand.is_signed_out) || wanted.calls.iter().any(is_refused)
    }

    /// Returns a token for MCP servers, if its endpoints belong to the resource.
    fn server_token(
        &self,
        client: &ClientId,
        authenticate: &Authenticate,
        wanted: &TokenTargets,
    ) -> Result<ServerToken, RpcError> {
        let named = wanted.calls.iter().map(|call| &call.resource);
        let named = named.chain(wanted.demands.iter().map(|demand| &demand.resource));
        let authorization_servers = self.authorization_servers(&authenticate.resource, named);
        if let Some(refresh) = &authenticate.refresh {
            check_endpoints(refresh, &authorization_servers)?;
        }
        Ok(ServerToken {
            secret: authenticate.token.clone(),
            scopes: authenticate.scopes.clone(),
            expires_in: authenticate.expires_in.map(|seconds| seconds.min(MAX_LIFETIME_S)),
            number: 0,
            given_by: client.to_string(),
            authorization_servers,
            refresh: authenticate.refresh.clone(),
        })
    }

    /// Keeps a token for the turns of a client.
    fn grant_to_agents(&mut self, cx: &Cx<'_>, client: &ClientId, authenticate: Authenticate) {
        let lasts_ms = authenticate.expires_in;
        let lasts_ms = lasts_ms.map(|seconds| seconds.min(MAX_LIFETIME_S).saturating_mul(1000));
        let token = AgentToken {
            token: authenticate.token,
            scopes: authenticate.scopes,
            expires_ms: lasts_ms.map(|lasts_ms| cx.now.mono_ms.saturating_add(lasts_ms)),
        };
        self.unschedule_expiry(client);
        self.tokens.grant(client, &authenticate.resource, token);
        self.schedule_expiry(client);
    }

    /// Returns everything that wants a token of a resource.
    fn token_targets(&self, resource: &str) -> TokenTargets {
        let demands = self.server_demands(resource);
        TokenTargets {
            calls: self.waiting_for(resource),
            servers: !demands.is_empty() || self.mcp.has_token(resource),
            demands,
            agents: self.advertised(resource).is_some(),
        }
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
            let Some(run) = chat.run() else {
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
                        turn: run.key(),
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

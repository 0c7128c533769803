//! Chooses the tokens that an agent gets for a turn.
//!
//! A turn uses the token of its author, if that client signed in. Otherwise it uses the token of the client that
//! created the session, and otherwise that of an active client of the session: they let others into their session,
//! and a phone without an API key must be able to continue a session of a laptop. It never uses the token of any
//! other client: a token does not belong to the host.

use ahp_types::notifications::{AuthRequiredParams, AuthRequiredReason};
use ahp_types::state::ProtectedResourceMetadata;

use crate::agent::{AgentProfile, Credential, Failure, Secret};
use crate::clients::client::Presence;
use crate::core::{Cx, Host, ROOT, never};
use crate::effect::Delivery;
use crate::ids::{ChannelId, ClientId};
use crate::protocol::frame::{Outgoing, encode_notification};
use crate::protocol::uri;
use crate::session::Session;
use crate::time::Now;

/// The clients whose tokens may be used in a session, in the order they are asked.
pub(crate) fn payers(session: &Session, author: Option<&ClientId>) -> Vec<ClientId> {
    let active = session.state.active_clients.iter();
    let active = active.map(|client| ClientId::new(&client.client_id));
    let first = [author, session.creator()].into_iter().flatten().cloned();
    first.chain(active).collect()
}

impl Host {
    /// The credentials that the agent of a session gets for an author.
    pub(crate) fn credentials_for(&self, now: Now, session: &Session, author: Option<&ClientId>) -> Vec<Credential> {
        let wanted = self.agent_of(session).map(resources_of).unwrap_or_default();
        if wanted.is_empty() {
            return Vec::new();
        }
        let payers = payers(session, author);
        let credential = |wanted: &ProtectedResourceMetadata| {
            let mut held = payers.iter();
            held.find_map(|client| self.tokens.credential(client, &wanted.resource, now.mono_ms))
        };
        wanted.iter().filter_map(credential).collect()
    }

    /// Whether the agent of a new chat cannot work because no client has signed in for it. The client that created
    /// the chat is notified (AUTH-09): it may have a token that it has not sent yet.
    pub(crate) fn asks_to_sign_in(&self, cx: &mut Cx<'_>, chat_id: ChannelId, creator: Option<&ClientId>) -> bool {
        let Some(session) = self.session_of(chat_id) else {
            return false;
        };
        let Some(agent) = self.agent_of(session) else {
            return false;
        };
        let missing = self.missing_tokens(cx.now, agent, &payers(session, creator));
        if let Some(creator) = creator {
            for resource in &missing {
                self.notify_client_of_auth(cx, creator, resource, &AuthRequiredReason::Required);
            }
        }
        !missing.is_empty()
    }

    /// The failure of a turn that lacks a token; notifies the clients that can send one (AUTH-09).
    pub(crate) fn ask_to_sign_in(
        &mut self,
        cx: &mut Cx<'_>,
        chat_id: ChannelId,
        author: Option<&ClientId>,
    ) -> Option<Failure> {
        let session_id = self.chats.get(&chat_id)?.session;
        let session = self.sessions.get(&session_id)?;
        let agent = self.agent_of(session)?;
        let payers = payers(session, author);
        let missing = self.missing_tokens(cx.now, agent, &payers);
        if missing.is_empty() {
            return None;
        }
        let who = &agent.info.display_name;
        let what = names(&missing);
        let message = match &agent.sign_in_hint {
            Some(hint) => {
                format!("{who} needs a token for {what}: {hint}; then resume this turn or send the message again")
            }
            None => format!(
                "{who} needs a token for {what}, and no client of this session has signed in to it; sign in, then resume this turn or send the message again"
            ),
        };
        for resource in missing {
            let had = payers.iter().any(|client| self.tokens.had(client, &resource.resource));
            let reason = match had {
                true => AuthRequiredReason::Expired,
                false => AuthRequiredReason::Required,
            };
            self.notify_session_of_auth(cx, session_id, author, &resource, &reason);
        }
        Some(Failure::new("authRequired", message))
    }

    /// A token that an agent was given was not accepted: it counts as expired.
    pub(crate) fn token_refused(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, resource: &str, token: &Secret) {
        let Some(chat) = self.chats.get(&chat_id) else {
            return never!("the chat is in memory");
        };
        let (session_id, author) = (chat.session, chat.run().and_then(|run| run.author.clone()));
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        let mut payers = payers(session, author.as_ref());
        payers.retain(|client| self.tokens.holds(client, resource, token));
        // The agent may refuse a token that was replaced meanwhile, and may have stopped advertising the resource.
        let Some(metadata) = self.advertised(resource).filter(|_| !payers.is_empty()).cloned() else {
            return;
        };
        for client in payers {
            self.revoke_token(&client, resource);
        }
        self.notify_session_of_auth(cx, session_id, author.as_ref(), &metadata, &AuthRequiredReason::Expired);
    }

    /// Whether a chat's agent has to open it before it can run a turn: it never did, or it has missed a turn and
    /// could now get it with the history.
    pub(crate) fn needs_opening(&self, chat_id: ChannelId) -> bool {
        let Some(chat) = self.chats.get(&chat_id) else {
            return false;
        };
        let restores = || {
            let session = self.sessions.get(&chat.session);
            let agent = session.and_then(|session| self.agent_of(session));
            agent.is_some_and(|agent| agent.restores_history)
        };
        !chat.is_open || (chat.undelivered && restores())
    }

    /// The metadata of a resource that an agent wants tokens for (AUTH-04).
    pub(crate) fn advertised(&self, resource: &str) -> Option<&ProtectedResourceMetadata> {
        let mut resources = self.agents.profiles().iter().flat_map(resources_of);
        resources.find(|wanted| wanted.resource == resource)
    }

    fn missing_tokens(&self, now: Now, agent: &AgentProfile, payers: &[ClientId]) -> Vec<ProtectedResourceMetadata> {
        // AUTH-02: absent means required.
        let required = resources_of(agent)
            .iter()
            .filter(|wanted| wanted.required != Some(false));
        let has = |client: &ClientId, wanted: &ProtectedResourceMetadata| {
            self.tokens.has(client, &wanted.resource, now.mono_ms)
        };
        let missing = required.filter(|wanted| !payers.iter().any(|client| has(client, wanted)));
        missing.cloned().collect()
    }

    /// Notifies the subscribers of a session that a token is missing, and the author of the turn on the root channel
    /// if it does not subscribe to the session.
    fn notify_session_of_auth(
        &mut self,
        cx: &mut Cx<'_>,
        session_id: ChannelId,
        author: Option<&ClientId>,
        resource: &ProtectedResourceMetadata,
        reason: &AuthRequiredReason,
    ) {
        let Some(session) = self.channels.get_mut(session_id) else {
            return never!("the channel exists");
        };
        let message = auth_required(&session.uri, resource, reason);
        let to = session.audience();
        if !to.is_empty() {
            cx.emit(Delivery::Notify { to, message });
        }
        if let Some(author) = author.filter(|author| !self.client_listens(author, session_id)) {
            self.notify_client_of_auth(cx, author, resource, reason);
        }
    }

    /// Tells a client on the root channel, where it listens to it, that a token is missing (ROOT-20).
    pub(crate) fn notify_client_of_auth(
        &self,
        cx: &mut Cx<'_>,
        client: &ClientId,
        resource: &ProtectedResourceMetadata,
        reason: &AuthRequiredReason,
    ) {
        // A client without a connection cannot be notified.
        let Some(Presence::Active(transports)) = self.clients.get(client).map(|client| &client.presence) else {
            return;
        };
        let message = auth_required(uri::ROOT, resource, reason);
        for to in transports.iter() {
            let listens = self
                .conns
                .get(&to)
                .is_some_and(|conn| conn.subscriptions.contains(&ROOT));
            if listens {
                cx.send(to, Outgoing::Text(message.clone()));
            }
        }
    }
}

/// The resources that an agent needs tokens for.
fn resources_of(agent: &AgentProfile) -> &[ProtectedResourceMetadata] {
    agent.info.protected_resources.as_deref().unwrap_or_default()
}

/// Lists resources for a message.
pub(crate) fn names(resources: &[ProtectedResourceMetadata]) -> String {
    let names = resources.iter().map(|resource| match &resource.resource_name {
        Some(name) => format!("{name} ({})", resource.resource),
        None => resource.resource.clone(),
    });
    names.collect::<Vec<_>>().join(" and ")
}

fn auth_required(channel: &str, resource: &ProtectedResourceMetadata, reason: &AuthRequiredReason) -> bytes::Bytes {
    let params = AuthRequiredParams {
        channel: channel.to_owned(),
        resource: resource.clone(),
        reason: Some(reason.clone()),
    };
    encode_notification("auth/required", &params)
}

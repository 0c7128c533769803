//! Sessions go, with everything that is kept of them.
//!
//! What a client disposes of is deleted, and the deletion is durable before it is answered. What is
//! to be kept is archived, or exported before. Only programs that are known to dispose of what
//! people still use are not believed (LESSON-30).

use std::collections::HashSet;
use std::sync::Arc;

use ahp_types::notifications::SessionRemovedParams;
use serde_json::Value;

use crate::action::Since;
use crate::channel::Channel;
use crate::client::Phase;
use crate::core::{Cx, HostCore, ROOT};
use crate::effect::Effect;
use crate::error::{RpcError, code};
use crate::frame::encode_notification;
use crate::ids::{ChannelId, ClientId, ConnId};
use crate::loading::unreadable;
use crate::request::{Command, OnlyIf, RequestId};
use crate::uri;

impl HostCore {
    /// Looks whether a session may go at all, and on the conditions that were asked for. Whoever is
    /// not refused disposes of it in the same step.
    pub(crate) fn check_dispose(&self, conn: ConnId, uri: &str, only_if: Option<OnlyIf>) -> Result<(), RpcError> {
        self.check_only_if(uri, only_if)?;
        let client = self.client_of(conn).and_then(|id| self.clients.get(id));
        if client.is_some_and(|client| client.negotiated.is_careless) && self.holds_turns(uri) {
            let message = format!(
                "the session {uri:?} was kept: it holds turns, and this program is known to dispose of sessions that \
                 people still use. Archive it instead, or delete it with `innkeeper sessions delete`"
            );
            return Err(RpcError::new(code::CONFLICT, message));
        }
        Ok(())
    }

    /// Whether anything was said in a session, or waits to be.
    fn holds_turns(&self, uri: &str) -> bool {
        let session = self.channels.find(uri).and_then(|id| self.sessions.get(&id));
        let chats = session.into_iter().flat_map(|session| &session.chats);
        chats.filter_map(|id| self.chats.get(id)).any(|chat| {
            let head = chat.model.head();
            let has_queue = head.queued_messages.as_ref().is_some_and(|queued| !queued.is_empty());
            chat.model.turn_count() > 0 || head.active_turn.is_some() || has_queue
        })
    }

    /// Refuses to dispose of a session that is used, or no longer what it was when it was chosen,
    /// where that was asked for.
    fn check_only_if(&self, uri: &str, only_if: Option<OnlyIf>) -> Result<(), RpcError> {
        let session_id = self.channels.find(uri);
        let (Some(only_if), Some(session_id)) = (only_if, session_id) else {
            return Ok(());
        };
        let Some(session) = self.sessions.get(&session_id) else {
            return Ok(());
        };
        if self.is_used(session_id) {
            let message =
                format!("the session {uri:?} is in use; try again when nobody looks at it and nothing runs in it");
            return Err(RpcError::new(code::CONFLICT, message));
        }
        // Who asked the store has seen where lists have it, who read a list what is written there.
        let moments = [session.order_ms, session.modified_ms];
        let modified_ms = moments.into_iter().find(|at| Some(*at) == only_if.modified_ms);
        match only_if.refuses(modified_ms.unwrap_or(session.order_ms), session.is_archived()) {
            Some(why) => Err(RpcError::new(
                code::CONFLICT,
                format!("the session {uri:?} {why}; choose again if it is to go as it is now"),
            )),
            None => Ok(()),
        }
    }

    pub(crate) fn dispose_session(&mut self, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, uri: &str) {
        let session_id = self
            .channels
            .find(uri)
            .filter(|channel| self.sessions.contains_key(channel));
        let Some(session_id) = session_id else {
            return cx.answer(conn, id, Err(RpcError::session_not_found(uri)));
        };
        // Of a draft only those know that listen to it.
        let listeners = self.drafts.contains(&session_id).then(|| self.listeners_of(session_id));
        self.remove_session(cx, session_id);
        cx.answer(conn, id, Ok(Value::Null));
        self.announce_removed(cx, uri, listeners.as_ref());
    }

    /// Takes a session out of memory and of the store.
    pub(crate) fn remove_session(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        self.finish_progress(cx, session_id);
        let Some(session) = self.sessions.remove(&session_id) else {
            return;
        };
        let uri = Arc::clone(&session.uri);
        Self::forget_servers(cx, session_id, &session);
        Self::forget_customizations(cx, session_id, &session);
        Self::forget_repository(cx, session_id, &session);
        for chat_id in session.chats.iter().copied() {
            self.drop_chat(cx, chat_id);
        }
        if !self.drafts.remove(&session_id) {
            self.session_count = self.session_count.saturating_sub(1);
        }
        self.keep_removal(cx, session_id);
        self.listing.removed(&uri);
        self.forget_for_good(&uri);
        self.remove_channel(session_id);
        for member in &session.state.active_clients {
            if let Some(client) = self.clients.get_mut(&ClientId::new(&member.client_id)) {
                client.memberships.remove(&session_id);
            }
        }
        self.watches.doubt();
        cx.effects.push(Effect::SessionGone { uri });
    }

    /// The connections that listen to a session or to one of its chats.
    fn listeners_of(&self, session_id: ChannelId) -> HashSet<ConnId> {
        let chats = self
            .sessions
            .get(&session_id)
            .into_iter()
            .flat_map(|session| &session.chats);
        let channels = chats.chain([&session_id]).filter_map(|id| self.channels.get(*id));
        channels.flat_map(Channel::listeners).collect()
    }

    /// Disposes of a session that cannot be brought into memory: its rows go, whatever is in them.
    pub(crate) fn dispose_damaged(
        &mut self,
        cx: &mut Cx<'_>,
        conn: ConnId,
        id: &RequestId,
        command: &Command,
        problem: &str,
    ) {
        let (Some(connection), Command::DisposeSession { channel, .. }) = (self.conns.get(&conn), command) else {
            return;
        };
        let is_ready = matches!(connection.phase, Phase::Ready { .. });
        let scope = connection.principal.scope;
        let client = self.client_of(conn).and_then(|id| self.clients.get(id));
        // Whether it holds turns, nobody can tell.
        let is_careless = client.is_some_and(|client| client.negotiated.is_careless);
        if !is_ready || is_careless || uri::is_chat(channel) {
            return cx.answer(conn, id, Err(unreadable(&problem)));
        }
        if let Err(error) = self.check_allowed(scope, command) {
            return cx.answer(conn, id, Err(error));
        }
        let uri: Arc<str> = channel.as_str().into();
        self.session_count = self.session_count.saturating_sub(1);
        self.keep_removal_of(cx, &uri);
        self.listing.removed(&uri);
        self.forget_for_good(&uri);
        self.forget_for_good(&uri::default_chat(&uri).into());
        cx.effects.push(Effect::SessionGone { uri: Arc::clone(&uri) });
        cx.answer(conn, id, Ok(Value::Null));
        self.announce_removed(cx, &uri, None);
    }

    /// Tells root subscribers that a session is gone: all of them, or of a draft only these.
    fn announce_removed(&mut self, cx: &mut Cx<'_>, uri: &str, only: Option<&HashSet<ConnId>>) {
        let params = SessionRemovedParams {
            channel: uri::ROOT.to_owned(),
            session: uri.to_owned(),
        };
        let message = encode_notification("root/sessionRemoved", &params);
        if let Some(root) = self.channels.get_mut(ROOT) {
            let mut to = root.audience(Since::V0_9);
            if let Some(only) = only {
                to = to
                    .iter()
                    .filter(|subscriber| only.contains(&subscriber.conn))
                    .copied()
                    .collect();
            }
            if !to.is_empty() {
                cx.effects.push(Effect::Notify { to, message });
            }
        }
        if only.is_none() {
            self.publish_active_sessions(cx);
        }
    }
}

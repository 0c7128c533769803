//! Disposes of sessions. A disposed session is gone for all clients, and the deletion is durable before it is
//! answered. For a while it can be undone: the rows of the session stay, its URI and those of its chats are taken,
//! and nothing of it is shown or can be opened. Drafts, sessions that a clean-up policy chose, and sessions that
//! cannot be read are removed at once.

use std::collections::HashSet;
use std::sync::Arc;

use ahp_types::notifications::SessionRemovedParams;
use serde_json::Value;

use crate::clients::channels::Channel;
use crate::clients::client::Phase;
use crate::core::{Cx, Host, ROOT, SessionRemoval, Timer, never};
use crate::effect::{Delivery, JournalCommand, SessionErasure};
use crate::ids::{ChannelId, ClientId, ConnId};
use crate::protocol::error::{RpcError, code};
use crate::protocol::frame::encode_notification;
use crate::protocol::request::{Command, OnlyIf, RequestId};
use crate::protocol::uri;
use crate::storage::load::unreadable;

/// How often sessions that were deleted long ago are purged.
const PURGE_INTERVAL_MS: u64 = 60 * 60 * 1000;

impl Host {
    /// Refuses to dispose of a session that is used, or no longer what it was when it was chosen,
    /// where that was asked for.
    pub(crate) fn check_only_if(&self, uri: &str, only_if: Option<OnlyIf>) -> Result<(), RpcError> {
        let session_id = self.channels.find(uri);
        let (Some(only_if), Some(session_id)) = (only_if, session_id) else {
            return Ok(());
        };
        let Some(session) = self.sessions.get(&session_id) else {
            return Ok(());
        };
        if self.is_in_use(session_id) {
            let message =
                format!("the session {uri:?} is in use; try again when it has no subscribers and nothing runs in it");
            return Err(RpcError::new(code::CONFLICT, message));
        }
        // A client may have read the time from the store's order or from the summary.
        let moments = [session.order_ms, session.modified_ms];
        let modified_ms = moments.into_iter().find(|at| Some(*at) == only_if.modified_ms);
        match only_if.refuses(modified_ms.unwrap_or(session.order_ms), session.is_archived()) {
            Some(why) => Err(RpcError::new(
                code::CONFLICT,
                format!("the session {uri:?} {why}; choose it again to dispose of it"),
            )),
            None => Ok(()),
        }
    }

    pub(crate) fn dispose_session(&mut self, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, uri: &str, for_good: bool) {
        let session_id = self
            .channels
            .find(uri)
            .filter(|channel| self.sessions.contains_key(channel));
        let Some(session_id) = session_id else {
            return cx.answer(conn, id, Err(RpcError::session_not_found(uri)));
        };
        // Only the subscribers of a draft know of it (SES-36).
        let listeners = self
            .sessions
            .is_draft(&session_id)
            .then(|| self.listeners_of(session_id));
        let can_be_undone =
            !for_good && listeners.is_none() && self.storage.mode().persists() && self.config.undo_delete_ms > 0;
        match can_be_undone {
            true => self.delete_session(cx, session_id),
            false => self.remove_session(cx, session_id),
        }
        cx.answer(conn, id, Ok(Value::Null));
        self.announce_removed(cx, uri, listeners.as_ref());
    }

    /// Takes a session out of memory, in a way that can be undone.
    fn delete_session(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        let chats = self.sessions.get(&session_id).map(|session| session.chats.clone());
        let chats = chats.unwrap_or_default();
        for chat in &chats {
            self.cancel_run(cx, *chat);
        }
        // As it is now, so that it comes back like this.
        for channel in chats.iter().copied().chain([session_id]) {
            self.mark_dirty(channel);
        }
        self.persist_dirty(cx);
        for chat_id in chats {
            self.close_chat(cx, chat_id);
        }
        self.persist_deletion(cx, session_id);
        self.forget_session(cx, session_id);
    }

    /// Takes a session out of memory and of the store.
    pub(crate) fn remove_session(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        let uri = Arc::clone(&session.uri);
        for chat_id in session.chats.clone() {
            self.drop_chat(cx, chat_id);
        }
        self.persist_removal(cx, session_id);
        self.forget_session(cx, session_id);
        cx.emit(SessionErasure { uri });
    }

    /// Removes a session from memory after its chats.
    fn forget_session(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        self.finish_progress(cx, session_id);
        let Some(session) = self.sessions.remove(&session_id) else {
            return never!("the session is in memory");
        };
        Self::forget_servers(cx, session_id, &session);
        Self::forget_customizations(cx, session_id, &session);
        Self::forget_repository(cx, session_id, &session);
        self.storage.note_removed(&session.uri);
        self.forget_for_good(&session.uri);
        self.remove_channel(session_id);
        for member in &session.state.active_clients {
            if let Some(client) = self.clients.get_mut(&ClientId::new(&member.client_id)) {
                client.memberships.remove(&session_id);
            }
        }
        self.session_removed(cx, session_id, SessionRemoval::Deleted);
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

    /// Disposes of a session that cannot be loaded: its rows are removed unread.
    pub(crate) fn dispose_damaged(
        &mut self,
        cx: &mut Cx<'_>,
        conn: ConnId,
        id: &RequestId,
        command: &Command,
        problem: &str,
    ) {
        let (Some(connection), Command::DisposeSession { channel, .. }) = (self.conns.get(&conn), command) else {
            return never!("the connection is open, and disposes of a session");
        };
        let is_ready = matches!(connection.phase, Phase::Ready { .. });
        let scope = connection.principal.scope;
        if !is_ready || uri::is_chat(channel) {
            return cx.answer(conn, id, Err(unreadable(&problem)));
        }
        if let Err(error) = self.check_allowed(scope, command) {
            return cx.answer(conn, id, Err(error));
        }
        let uri: Arc<str> = channel.as_str().into();
        self.sessions.remove_listed();
        self.persist_removal_of(cx, &uri);
        self.storage.note_removed(&uri);
        self.forget_for_good(&uri);
        self.forget_for_good(&uri::default_chat(&uri).into());
        cx.emit(SessionErasure { uri: Arc::clone(&uri) });
        cx.answer(conn, id, Ok(Value::Null));
        self.announce_removed(cx, &uri, None);
    }

    /// Removes a session for good that was deleted before.
    pub(crate) fn remove_deleted(&mut self, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, command: &Command) {
        let (Some(connection), Command::DisposeSession { channel, .. }) = (self.conns.get(&conn), command) else {
            return never!("the connection is open, and disposes of a session");
        };
        let is_ready = matches!(connection.phase, Phase::Ready { .. });
        if !is_ready || uri::is_chat(channel) {
            return cx.answer(conn, id, Err(RpcError::session_not_found(channel)));
        }
        if let Err(error) = self.check_allowed(connection.principal.scope, command) {
            return cx.answer(conn, id, Err(error));
        }
        let uri: Arc<str> = channel.as_str().into();
        self.persist_removal_of(cx, &uri);
        self.invalidate(std::slice::from_ref(&uri));
        cx.emit(SessionErasure { uri });
        cx.answer(conn, id, Ok(Value::Null));
    }

    /// Has the store undo a deletion. The session joins the others like one that was imported.
    pub(crate) fn undo_deletion(&mut self, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, uri: String) {
        let problem = if !self.storage.mode().has_store() {
            Some("this host does not store sessions, so it cannot restore any".to_owned())
        } else if self.is_full() {
            let most = self.config.max_sessions;
            Some(format!("this host stores at most {most} sessions; dispose of some"))
        } else {
            None
        };
        match problem {
            Some(problem) => cx.answer(conn, id, Err(RpcError::new(code::CONFLICT, problem))),
            None => cx.emit(JournalCommand::UndoDeletion {
                conn,
                id: id.clone(),
                uri,
            }),
        }
    }

    /// Looks soon for sessions that were deleted long ago.
    pub(crate) fn schedule_purge(&mut self, at_ms: u64) {
        if self.storage.mode().persists() {
            self.timers.set(at_ms, Timer::PurgeDeleted);
        }
    }

    /// Removes the sessions whose deletion can no longer be undone, and schedules the next purge in an hour. The journal
    /// knows which they are, so the host erases what its services stored for them.
    pub(crate) fn purge_deleted(&mut self, cx: &mut Cx<'_>) {
        let undo_ms = i64::try_from(self.config.undo_delete_ms).unwrap_or(i64::MAX);
        let before_ms = cx.now.wall.as_millisecond().saturating_sub(undo_ms);
        cx.emit(JournalCommand::PurgeDeleted { before_ms });
        self.schedule_purge(cx.now.mono_ms.saturating_add(PURGE_INTERVAL_MS));
    }

    /// Announces to root subscribers that a session was removed: to all of them, or for a draft only to these.
    fn announce_removed(&mut self, cx: &mut Cx<'_>, uri: &str, only: Option<&HashSet<ConnId>>) {
        let params = SessionRemovedParams {
            channel: uri::ROOT.to_owned(),
            session: uri.to_owned(),
        };
        let message = encode_notification("root/sessionRemoved", &params);
        if let Some(root) = self.channels.get_mut(ROOT) {
            let mut to = root.audience();
            if let Some(only) = only {
                to = to
                    .iter()
                    .filter(|subscriber| only.contains(&subscriber.conn))
                    .copied()
                    .collect();
            }
            if !to.is_empty() {
                cx.emit(Delivery::Notify { to, message });
            }
        }
        if only.is_none() {
            self.publish_active_sessions(cx);
        }
    }
}

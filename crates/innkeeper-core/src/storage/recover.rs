//! Takes a session back into memory, and closes what ended with the process that had it last.

use std::collections::HashMap;
use std::sync::Arc;

use ahp_types::actions::{ChatBackgroundWorkRemovedAction, ChatErrorAction, SessionCreationFailedAction, StateAction};
use ahp_types::state::{BackgroundWork, ErrorResponsePart, SessionLifecycle, ToolCallContributor, ToolCallState};

use crate::agent::Failure;
use crate::chat::chats::Chat;
use crate::chat::tool_call::wire;
use crate::clients::client::Presence;
use crate::core::{Cx, Host, never};
use crate::ids::{ChannelId, ClientId, Seq};
use crate::protocol::action_table::ChannelKind;
use crate::session::create::error_info;
use crate::session::{Session, millis};
use crate::storage::records::{RestoredChat, RestoredSession, StoredFrame};
use crate::time::Now;

/// Longest duration of a turn that is taken from the wall clock, in milliseconds: thirty days.
const MAX_DURATION_MS: i64 = 30 * 24 * 60 * 60 * 1000;

impl Host {
    /// Takes a session into memory, unless it is there, and closes what no longer runs.
    pub(crate) fn install(&mut self, cx: &mut Cx<'_>, restored: RestoredSession) {
        if self.channels.find(&restored.uri).is_some() {
            return;
        }
        let RestoredSession {
            uri,
            persisted_seq,
            mut document,
            chats,
            log,
            is_converted,
        } = restored;
        self.storage.installing = chats.iter().map(|chat| chat.uri.as_str().into()).collect();
        self.storage.installing.push(uri.as_str().into());
        // Clients that reconnect need a snapshot of changes that no action carries, so the channel counts as new.
        let created = match is_converted {
            true => self.log.seq(),
            false => Seq(document.created_seq),
        };
        let session_id = self.restore_channel(cx.now, &uri, ChannelKind::Session, created, persisted_seq, &log);
        let catalogue: Vec<String> = document.state.chats.iter().map(|chat| chat.resource.clone()).collect();
        if is_converted {
            self.mark_dirty(session_id);
        }
        if let Some(annotations) = document.annotations.take() {
            self.parts.annotations.restore(session_id, annotations);
        }
        let mut session = Session::restored(&uri, document, cx.now);
        let ids = self.install_chats(cx.now, session_id, chats, &log);
        session.chats = catalogue.iter().filter_map(|uri| ids.get(uri).copied()).collect();
        // A session of an earlier version may lack the action that carries it.
        if let Some(shown) = session.refresh_aggregate() {
            Arc::make_mut(&mut session.state).activity = shown.activity;
        }
        // Until something changes, lists show the same as before.
        session.set_announced();
        // An agent that cannot resume from the history alone is not the one that failed any more.
        let resumes = self.agent_of(&session).is_some_and(|agent| agent.resumes_turns);
        for chat in &session.chats {
            if let Some(chat) = self.chats.get_mut(chat) {
                chat.can_resume &= resumes;
            }
        }
        self.sessions.insert(session_id, session);
        self.recover(cx, session_id);
        self.storage.installing.clear();
    }

    /// Members that are here without listening have left while the session was not in memory
    /// (ACT-14, REC-14).
    pub(crate) fn remove_unsubscribed_members(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        let members = self.sessions.get(&session_id).map(|session| {
            let members = session.state.active_clients.iter();
            members
                .map(|member| ClientId::new(&member.client_id))
                .collect::<Vec<_>>()
        });
        for client in members.unwrap_or_default() {
            let is_here = self.clients.is_connected(&client);
            // A client that started anew has the rest of its grace period to come back to the session.
            let is_awaited = self.timers.awaits(&client);
            if is_here && !is_awaited && !self.client_listens(&client, session_id) {
                self.leave(cx, &client, session_id);
            }
        }
    }

    fn install_chats(
        &mut self,
        now: Now,
        session_id: ChannelId,
        restored: Vec<RestoredChat>,
        log: &[StoredFrame],
    ) -> HashMap<String, ChannelId> {
        let mut ids = HashMap::new();
        let mut parents = Vec::new();
        for chat in restored {
            let id = self.restore_channel(now, &chat.uri, ChannelKind::Chat, chat.created, chat.persisted_seq, log);
            parents.extend(chat.parent.map(|parent| (id, parent)));
            ids.insert(chat.uri, id);
            let rows = (Seq(0), chat.model.turn_count());
            let mut entry = Chat::new(session_id, chat.model);
            entry.side_context = chat.side_context;
            entry.writers = chat.writers;
            entry.titled_by = chat.titled_by;
            entry.can_resume = chat.can_resume;
            entry.memory = chat.memory;
            entry.rows = rows;
            self.chats.insert(id, entry);
        }
        for (id, parent) in parents {
            let parent = ids.get(&parent).copied();
            if let Some(chat) = self.chats.get_mut(&id) {
                chat.parent = parent;
            }
        }
        ids
    }

    /// Makes a channel that continues where it was, with what is left of its log.
    pub(crate) fn restore_channel(
        &mut self,
        now: Now,
        uri: &str,
        kind: ChannelKind,
        created: Seq,
        persisted_seq: Seq,
        log: &[StoredFrame],
    ) -> ChannelId {
        let id = self.channels.create(uri, kind, created);
        self.restore_log(
            now,
            id,
            persisted_seq,
            log.iter().filter(|frame| *frame.channel == *uri),
        );
        id
    }

    pub(crate) fn restore_log<'a>(
        &mut self,
        now: Now,
        id: ChannelId,
        persisted_seq: Seq,
        log: impl Iterator<Item = &'a StoredFrame>,
    ) {
        let log: Vec<&StoredFrame> = log.collect();
        // Older actions than these are forgotten. Without any, the document has all of them.
        let forgotten = log
            .first()
            .map_or(persisted_seq, |oldest| Seq(oldest.first.0.saturating_sub(1)));
        let last = log.last().map_or(persisted_seq, |newest| newest.seq.max(persisted_seq));
        let tail = log
            .iter()
            .filter(|frame| frame.seq > persisted_seq)
            .map(|frame| frame.bytes.len());
        if let Some(entry) = self.channels.get_mut(id) {
            entry.last = last;
            entry.tail = tail.sum();
        }
        self.log.restore_channel(id, forgotten, now, &log);
    }

    /// Closes what ended with the process that had the session last. None of it happens to a session
    /// that left memory at rest.
    fn recover(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        if self.storage.mode().is_observer() {
            return; // It continues in another process.
        }
        let chats = self.sessions.get(&session_id).map(|session| session.chats.clone());
        for chat in chats.iter().flatten() {
            self.close_interrupted(cx, *chat);
        }
        for chat in chats.iter().flatten() {
            self.clear_activity(cx, *chat);
            self.end_background(cx, *chat);
        }
        self.recover_servers(cx, session_id);
        self.readmit_members(cx, session_id);
        self.drop_bare_approvals(cx, session_id);
        self.workspace_changed(cx, session_id);
        self.refresh_server_tools(cx, session_id);
        self.recover_customizations(cx, session_id);
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        if session.state.lifecycle == SessionLifecycle::Creating && !self.storage.mode().is_read_only() {
            // The client that created it waits for it to become ready.
            if self.agent_of(session).is_none() {
                let provider = &session.state.provider;
                let message = format!("the agent {provider:?} is no longer on this host; create a new session");
                let error = error_info(Failure::new("agentMissing", message));
                let failed = StateAction::SessionCreationFailed(SessionCreationFailedAction { error });
                self.commit(cx, session_id, failed, None);
                return;
            }
            let default = session.state.default_chat.as_ref();
            if let Some(chat) = default.and_then(|uri| self.channels.find(uri)) {
                self.open_chat(cx, chat, None);
            }
        }
    }

    /// An interrupted turn has failed, and keeps everything it had produced (P4).
    fn close_interrupted(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId) {
        let Some(chat) = self.chats.get(&chat_id) else {
            return never!("the chat is in memory");
        };
        // Only an active turn without a run was interrupted.
        let (None, Some(turn)) = (chat.run(), &chat.model.head().active_turn) else {
            return;
        };
        // A call that waited for a user did not start; a client's tool ran elsewhere, and its client knows.
        let ran: Vec<String> = chat
            .model
            .open_calls()
            .filter(|call| {
                matches!(call, ToolCallState::Running(call) if !matches!(call.contributor, Some(ToolCallContributor::Client(_))))
            })
            .map(|call| format!("{:?}", wire::tool_name(call)))
            .collect();
        let resumes = self
            .sessions
            .get(&chat.session)
            .and_then(|session| self.agent_of(session))
            .is_some_and(|agent| agent.resumes_turns);
        let resumable = resumes && ran.is_empty() && chat.parent.is_none();
        let mut message = "the host stopped while this turn was running; its output so far is preserved".to_owned();
        if !ran.is_empty() {
            message.push_str(&format!(
                ". It was using {}, which may have done all or part of its work: check before you try again",
                ran.join(", ")
            ));
        } else if resumable {
            message.push_str(", and the turn can be resumed");
        } else {
            message.push_str("; send the message again");
        }
        let lasted = cx.now.wall.as_millisecond() - millis(&turn.started_at);
        let action = ChatErrorAction {
            turn_id: turn.id.clone(),
            duration: lasted.clamp(0, MAX_DURATION_MS),
            part: ErrorResponsePart {
                error: error_info(Failure::new("hostRestarted", message)),
                resumable: resumable.then_some(true),
            },
            meta: None,
        };
        if let Some(chat) = self.chats.get_mut(&chat_id) {
            chat.can_resume = resumable;
        }
        self.commit(cx, chat_id, StateAction::ChatError(action), None);
    }

    /// Background work ended with its agent.
    fn end_background(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId) {
        let Some(chat) = self.chats.get(&chat_id) else {
            return never!("the chat is in memory");
        };
        let work = chat.model.head().background_work.as_deref().unwrap_or_default();
        let ids: Vec<String> = work
            .iter()
            .filter_map(|work| match work {
                BackgroundWork::Shell(work) => Some(work.id.clone()),
                BackgroundWork::Subagent(work) => Some(work.id.clone()),
                BackgroundWork::Unknown(_) => None,
            })
            .collect();
        for id in ids {
            let action = ChatBackgroundWorkRemovedAction { id };
            self.commit(cx, chat_id, StateAction::ChatBackgroundWorkRemoved(action), None);
        }
    }

    /// Active clients that may come back within their grace period keep their slots; the others are removed (ACT-10).
    fn readmit_members(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        let members = self.sessions.get(&session_id).map(|session| {
            let members = session.state.active_clients.iter();
            members.map(|member| member.client_id.clone()).collect::<Vec<_>>()
        });
        for client_id in members.unwrap_or_default() {
            match self.clients.get_mut(&ClientId::new(&client_id)) {
                Some(client) if !matches!(client.presence, Presence::Absent(_)) => {
                    client.memberships.insert(session_id);
                }
                Some(_) | None => {
                    self.remove_active_client(cx, session_id, client_id, None);
                }
            }
        }
    }
}

//! `moveChat`: check everything, move the chat, then notify all subscribers (CHT-16 to CHT-19).

use std::sync::Arc;

use ahp_types::actions::{
    ChatMovableChangedAction, SessionChatAddedAction, SessionChatRemovedAction, SessionChatsReorderedAction,
    StateAction,
};
use ahp_types::state::{SessionLifecycle, SessionState, SessionStatus};
use serde_json::{Value, json};

use super::UNTITLED_CHAT;
use crate::core::{Cx, Host, never};
use crate::customization::{CustomizationState, without_clients};
use crate::effect::{BlobCommand, ChatsMoved, MovedChat};
use crate::ids::ChannelId;
use crate::mcp::at_rest;
use crate::protocol::action_table::ChannelKind;
use crate::protocol::error::{RpcError, code};
use crate::protocol::request::{MoveChat, MoveDestination};
use crate::protocol::uri;
use crate::session::create::directories_of;
use crate::session::{Session, TitleSource, UNTITLED, summary_of};

impl Host {
    pub(crate) fn move_chat(&mut self, cx: &mut Cx<'_>, request: &MoveChat) -> Result<Value, RpcError> {
        let channel = self.channels.find(&request.channel);
        let Some((chat_id, chat)) = channel.and_then(|id| Some((id, self.chats.get(&id)?))) else {
            return Err(RpcError::session_not_found(&request.channel));
        };
        let source = chat.session;
        if chat.model.head().movable != Some(true) {
            return Err(conflict(
                "this chat cannot be moved: it is the default chat of its session, or a subagent, which moves with its parent",
            ));
        }
        let session = match &request.destination {
            MoveDestination::Session { session: uri, after } => {
                let found = self.channels.find(uri);
                let Some((target, session)) = found.and_then(|id| Some((id, self.sessions.get(&id)?))) else {
                    return Err(RpcError::session_not_found(uri));
                };
                let after = after.as_deref();
                check_anchor(session, &request.channel, after)?;
                if target == source {
                    self.place(cx, target, &[chat_id], after);
                } else {
                    let subtree = self.check_rest(chat_id)?;
                    let reopens = self.check_target(source, target, &subtree)?;
                    self.hand_over(cx, source, target, &subtree);
                    self.place(cx, target, &subtree, after);
                    if reopens {
                        self.open_chat(cx, chat_id, None);
                    }
                }
                uri.clone()
            }
            MoveDestination::NewSession => {
                let subtree = self.check_rest(chat_id)?;
                if self.is_full() {
                    let most = self.config.max_sessions;
                    return Err(conflict(format!(
                        "this host stores at most {most} sessions; dispose of some"
                    )));
                }
                self.move_out(cx, source, chat_id, &subtree)?
            }
        };
        Ok(json!({ "session": session }))
    }

    /// The chats that move to another session, if nothing runs in them (CHT-20).
    fn check_rest(&self, chat_id: ChannelId) -> Result<Vec<ChannelId>, RpcError> {
        if self.shutting_down {
            return Err(conflict("the host is shutting down; try again when it is back"));
        }
        let subtree = self.subtree(chat_id);
        let is_busy = |id: &ChannelId| {
            self.chats
                .get(id)
                .is_some_and(|chat| chat.model.head().active_turn.is_some())
        };
        if subtree.iter().any(is_busy) {
            let message = "a turn is running in this chat or in one of its subagents; wait for its end, or cancel it";
            return Err(RpcError::new(code::TURN_IN_PROGRESS, message));
        }
        Ok(subtree)
    }

    /// Checks that a session can take a chat and its subagents. Returns whether the chat has other directories there,
    /// so that its agent must be opened again.
    fn check_target(&self, source: ChannelId, target: ChannelId, subtree: &[ChannelId]) -> Result<bool, RpcError> {
        let (Some(from), Some(to)) = (self.sessions.get(&source), self.sessions.get(&target)) else {
            return Err(conflict("the session is gone"));
        };
        // A message that waits for its session to be ready would never be started in another session.
        if let Some(reason) = from.not_ready().or_else(|| to.not_ready()) {
            return Err(conflict(format!(
                "the chat cannot be moved to that session now: {reason}"
            )));
        }
        if from.state.provider != to.state.provider {
            return Err(conflict(format!(
                "a chat stays with its agent: it belongs to {:?}, and that session to {:?}",
                from.state.provider, to.state.provider
            )));
        }
        let most = self.config.max_chats;
        if to.chats.len() + subtree.len() > most {
            return Err(conflict(format!(
                "a session has at most {most} chats, subagents included; dispose of some there"
            )));
        }
        let known = to.state.working_directories.as_deref().unwrap_or_default();
        let chats = || subtree.iter().filter_map(|id| self.chats.get(id));
        for directory in chats().flat_map(|chat| chat.model.head().working_directories.iter().flatten()) {
            if !known.contains(directory) {
                return Err(conflict(format!(
                    "the chat works in {directory:?}, which is not a directory of that session; add it there first"
                )));
            }
        }
        let Some(chat) = chats().next() else {
            return Err(conflict("the chat is gone"));
        };
        let reopens = directories_of(from, chat) != directories_of(to, chat);
        let agent = self.agent_of(from);
        if reopens && chat.model.turn_count() > 0 && agent.is_none_or(|agent| !agent.restores_history) {
            return Err(conflict(
                "that session has other working directories, and this agent cannot reopen a conversation in them",
            ));
        }
        Ok(reopens)
    }

    /// Makes a session of a chat (CHT-19).
    fn move_out(
        &mut self,
        cx: &mut Cx<'_>,
        source: ChannelId,
        chat_id: ChannelId,
        subtree: &[ChannelId],
    ) -> Result<String, RpcError> {
        let (Some(from), Some(chat)) = (self.sessions.get(&source), self.chats.get(&chat_id)) else {
            return Err(conflict("the session is gone"));
        };
        if let Some(reason) = from.not_ready() {
            return Err(conflict(format!("the chat cannot move now: {reason}")));
        }
        let head = chat.model.head();
        let titled = head.title != UNTITLED_CHAT;
        let named = if titled { chat.titled_by } else { TitleSource::None };
        // Approvals of one session do not hold in another.
        let mut config = from.state.config.clone();
        if let Some(config) = &mut config {
            self.forget_approvals(config);
        }
        let state = SessionState {
            config,
            title: if titled { &head.title } else { UNTITLED }.to_owned(),
            status: SessionStatus::Idle.bits() | SessionStatus::IsRead.bits(),
            activity: None,
            origin: None,
            annotations: None,
            lifecycle: SessionLifecycle::Ready,
            creation_error: None,
            active_clients: Vec::new(),
            chats: Vec::new(),
            default_chat: Some(head.resource.clone()),
            changesets: None,
            input_needed: None,
            // No server runs there yet, and the channels are those of this session.
            customizations: without_clients(&from.state.customizations).map(at_rest),
            meta: None,
            ..SessionState::clone(&from.state)
        };
        let settings = Arc::clone(&from.settings);
        // Customizations that were disabled stay disabled after the move.
        let decisions = Arc::clone(&from.customization.decisions);
        // Numbers only grow and clients cannot choose such names, so no session ever had this one.
        let uri = (self.log.seq().0..)
            .map(|n| format!("{}{n}", uri::MOVED_SESSIONS))
            .find(|uri| self.channels.find(uri).is_none())
            .unwrap_or_default();
        let session_id = self.add_channel(&uri, ChannelKind::Session);
        let mut session = Session::new(&uri, state, settings, cx.now);
        session.titled_by = named;
        session.customization = CustomizationState::with(decisions);
        let creator = self.sessions.get(&source).and_then(|source| source.creator().cloned());
        session.set_creator(creator);
        self.sessions.insert(session_id, session);
        self.sessions.add_listed();
        self.share_workspace_approvals(session_id);
        self.persist_new(cx, session_id);
        self.own(session_id, subtree);
        // SES-11: it is a default chat now.
        let fixed = StateAction::ChatMovableChanged(ChatMovableChangedAction { movable: false });
        self.commit(cx, chat_id, fixed, None);
        self.hand_over(cx, source, session_id, subtree);
        self.announce_added(cx, session_id);
        self.publish_active_sessions(cx);
        self.follow_customizations(cx, session_id);
        Ok(uri)
    }

    /// Makes chats a session's own.
    fn own(&mut self, target: ChannelId, subtree: &[ChannelId]) {
        for id in subtree {
            if let Some(chat) = self.chats.get_mut(id) {
                chat.session = target;
            }
            // Only the document of a chat names its session.
            self.mark_dirty(*id);
        }
    }

    /// Moves chats to another session and publishes the move (CHT-18). Their channels and all subscriptions to them
    /// stay (CHT-17).
    fn hand_over(&mut self, cx: &mut Cx<'_>, source: ChannelId, target: ChannelId, subtree: &[ChannelId]) {
        self.own(target, subtree);
        if let Some(session) = self.sessions.get_mut(&source) {
            session.chats.retain(|chat| !subtree.contains(chat));
        }
        if let Some(session) = self.sessions.get_mut(&target) {
            session.chats.extend(subtree);
        }
        for id in subtree.iter().rev() {
            if let Some(chat) = self.chat_uri(*id).map(str::to_owned) {
                let removed = StateAction::SessionChatRemoved(SessionChatRemovedAction { chat });
                self.commit(cx, source, removed, None);
                self.changesets_leave(cx, source, *id);
            }
        }
        for id in subtree {
            if let Some(summary) = self.chats.get(id).map(|chat| summary_of(chat.model.head())) {
                let added = StateAction::SessionChatAdded(SessionChatAddedAction { summary });
                self.commit(cx, target, added, None);
                self.advertise_changesets_of_new_chat(cx, target);
            }
        }
        self.announce_moved(cx, source, target, subtree);
    }

    /// Requests copies of the blobs that the moved chats refer to, because the blobs of the old session are deleted
    /// with it.
    fn announce_moved(&self, cx: &mut Cx<'_>, source: ChannelId, target: ChannelId, subtree: &[ChannelId]) {
        let uri = |id: ChannelId| self.channels.get(id).map(|channel| Arc::clone(&channel.uri));
        let (Some(from), Some(to)) = (uri(source), uri(target)) else {
            return never!("both sessions have channels");
        };
        let moved = |id: &ChannelId| {
            let model = &self.chats.get(id)?.model;
            let stored = model.history().resident_from();
            Some(MovedChat {
                uri: uri(*id)?,
                head: Arc::clone(model.shared_head()),
                stored,
                recent: (stored..model.turn_count())
                    .filter_map(|index| model.loaded(index).cloned())
                    .collect(),
            })
        };
        let chats = subtree.iter().filter_map(moved).collect();
        cx.emit(BlobCommand::CopyForMovedChats(Box::new(ChatsMoved { from, to, chats })));
    }

    /// Orders chats of a session in its catalogue: after another chat, or first. The order is computed from the state
    /// and names every chat (E-38).
    fn place(&mut self, cx: &mut Cx<'_>, session_id: ChannelId, chats: &[ChannelId], after: Option<&str>) {
        let moved: Vec<String> = chats
            .iter()
            .filter_map(|id| self.chat_uri(*id))
            .map(str::to_owned)
            .collect();
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        let catalogue = session.state.chats.iter().map(|chat| &chat.resource);
        let mut order: Vec<String> = catalogue.filter(|uri| !moved.contains(uri)).cloned().collect();
        let anchor = after.and_then(|after| order.iter().position(|uri| uri == after));
        let place = anchor.map_or(0, |anchor| anchor + 1);
        order.splice(place..place, moved);
        let mut ids: Vec<ChannelId> = order.iter().filter_map(|uri| self.channels.find(uri)).collect();
        if let Some(session) = self.sessions.get_mut(&session_id) {
            std::mem::swap(&mut session.chats, &mut ids);
        }
        let reordered = StateAction::SessionChatsReordered(SessionChatsReorderedAction { chats: order });
        self.commit(cx, session_id, reordered, None);
    }
}

fn conflict(message: impl Into<String>) -> RpcError {
    RpcError::new(code::CONFLICT, message)
}

/// Checks that the chat named by `after` is in the destination session (CHT-16).
fn check_anchor(session: &Session, chat: &str, after: Option<&str>) -> Result<(), RpcError> {
    let Some(after) = after else {
        return Ok(());
    };
    if after == chat {
        let problem = "a chat cannot come after itself";
        return Err(RpcError::invalid_params("destination.after", problem));
    }
    if !session.state.chats.iter().any(|known| known.resource == after) {
        let problem = format!("that session has no chat {after:?}");
        return Err(RpcError::invalid_params("destination.after", problem));
    }
    Ok(())
}

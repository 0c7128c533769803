//! Chats beyond the first: created, forked, spawned by tools, moved, disposed of.

pub(crate) mod approval;
pub(crate) mod approval_mode;
mod background;
pub(crate) mod chats;
mod create;
mod dispose;
pub(crate) mod history;
pub mod model;
mod move_chat;
pub(crate) mod question;
mod subagent;
pub(crate) mod title;
pub(crate) mod tool_call;
pub(crate) mod turn;
mod watchdog;

use ahp_types::actions::{SessionChatAddedAction, StateAction};
pub(crate) use create::side_chat_range;

use crate::chat::chats::Chat;
use crate::core::{Cx, Host};
use crate::ids::ChannelId;
use crate::session::summary_of;

/// The title of a chat without a name.
pub(crate) const UNTITLED_CHAT: &str = "New chat";

impl Host {
    /// Gives a chat a channel and lists it in its session.
    fn join_session(&mut self, cx: &mut Cx<'_>, chat: Chat) -> ChannelId {
        let session_id = chat.session;
        let summary = summary_of(chat.model.head());
        let chat_id = self.insert_chat(cx, chat);
        if let Some(session) = self.sessions.get_mut(&session_id) {
            session.chats.push(chat_id);
        }
        let added = StateAction::SessionChatAdded(SessionChatAddedAction { summary });
        self.commit(cx, session_id, added, None);
        self.advertise_changesets_of_new_chat(cx, session_id);
        chat_id
    }

    /// A chat and the subagents that its tool calls started, transitively; each after its parent.
    fn subtree(&self, chat_id: ChannelId) -> Vec<ChannelId> {
        let siblings = self.session_of(chat_id).map(|session| session.chats.as_slice());
        let siblings = siblings.unwrap_or_default();
        let mut found = vec![chat_id];
        let mut next = 0;
        while let Some(parent) = found.get(next).copied() {
            let is_child = |id: &&ChannelId| self.chats.get(id).is_some_and(|chat| chat.parent == Some(parent));
            found.extend(siblings.iter().filter(is_child));
            next += 1;
        }
        found
    }

    /// The URI of a chat.
    pub(crate) fn chat_uri(&self, chat_id: ChannelId) -> Option<&str> {
        let chat = self.chats.get(&chat_id)?;
        Some(&chat.model.head().resource)
    }
}

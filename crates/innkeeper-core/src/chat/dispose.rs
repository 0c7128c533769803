//! `disposeChat` (CHT-21).

use ahp_types::actions::{SessionChatRemovedAction, StateAction};
use serde_json::Value;

use crate::core::{Cx, Host, never};
use crate::ids::ChannelId;
use crate::protocol::error::{RpcError, code};

impl Host {
    pub(crate) fn dispose_chat(&mut self, cx: &mut Cx<'_>, uri: &str) -> Result<Value, RpcError> {
        let channel = self.channels.find(uri);
        let Some((chat_id, session_id)) = channel.and_then(|id| Some((id, self.chats.get(&id)?.session))) else {
            return Err(RpcError::session_not_found(uri));
        };
        let is_needed = self
            .sessions
            .get(&session_id)
            .is_some_and(|session| session.is_default(uri) || session.chats.len() == 1);
        if is_needed {
            let message = "this is the session's own chat, which lasts as long as the session; \
                           dispose of the session instead";
            return Err(RpcError::new(code::CONFLICT, message));
        }
        let subtree = self.subtree(chat_id);
        // From the top, so that an agent does not see its subagents vanish under it.
        for chat in &subtree {
            self.cancel_run(cx, *chat);
        }
        for chat in subtree.into_iter().rev() {
            self.remove_chat(cx, session_id, chat);
        }
        Ok(Value::Null)
    }

    /// Takes a chat at rest out of its session and forgets it.
    fn remove_chat(&mut self, cx: &mut Cx<'_>, session_id: ChannelId, chat_id: ChannelId) {
        let Some(uri) = self.chat_uri(chat_id).map(str::to_owned) else {
            return never!("the chat is in memory");
        };
        self.hide_input_needed(cx, session_id, &uri);
        if let Some(session) = self.sessions.get_mut(&session_id) {
            session.chats.retain(|chat| *chat != chat_id);
        }
        let removed = StateAction::SessionChatRemoved(SessionChatRemovedAction { chat: uri });
        self.commit(cx, session_id, removed, None);
        self.changesets_leave(cx, session_id, chat_id);
        self.drop_chat(cx, chat_id);
    }
}

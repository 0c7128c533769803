//! Titles of chats and sessions: chosen by a user, by the agent, or taken from the first message.

use ahp_types::actions::{SessionTitleChangedAction, StateAction};

use crate::core::{Cx, Host, never};
use crate::ids::ChannelId;
use crate::session::TitleSource;

/// Longest title taken from a message, in characters.
const TITLE_CHARS: usize = 60;

impl Host {
    /// Names a session after its first message, and a further chat after its own, unless they have
    /// a name.
    pub(crate) fn title_from(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, text: &str) {
        self.retitle(cx, chat_id, &title_in(text), TitleSource::Message);
    }

    /// Gives a chat a title, and its session if it is the default chat. A user's choice wins, and the first message
    /// names only a chat or session without a name.
    pub(super) fn retitle(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, title: &str, namer: TitleSource) {
        if title.is_empty() {
            return;
        }
        let Some(chat) = self.chats.get_mut(&chat_id) else {
            return never!("the chat is in memory");
        };
        let session_id = chat.session;
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return never!("the session is in memory");
        };
        let yields = |to: TitleSource| to < namer || (to == TitleSource::Agent && namer == TitleSource::Agent);
        let is_default = session.is_default(&chat.model.head().resource);
        let names_session = yields(session.titled_by) && (is_default || session.titled_by == TitleSource::None);
        let names_chat = yields(chat.titled_by);
        if names_chat {
            chat.titled_by = namer;
            chat.model.edit(|state| title.clone_into(&mut state.title));
        }
        if names_session {
            session.titled_by = namer;
            let action = SessionTitleChangedAction {
                title: title.to_owned(),
            };
            self.commit(cx, session_id, StateAction::SessionTitleChanged(action), None);
        }
        if names_session {
            self.mark_dirty(session_id);
        }
        if names_chat {
            self.mark_dirty(chat_id);
            self.sync_catalogue_entry(cx, chat_id);
        }
    }
}

/// The first words of a text, as a title.
pub(super) fn title_in(text: &str) -> String {
    let lines = text.lines().map(str::trim);
    let line = lines.into_iter().find(|line| !line.is_empty()).unwrap_or_default();
    let mut title: String = line.chars().take(TITLE_CHARS).collect();
    if title.len() < line.len() {
        title.push('…');
    }
    title
}

//! Clients rename a session or a chat.

use ahp_types::actions::{SessionTitleChangedAction, StateAction};

use super::{Dispatched, Verdict};
use crate::chat::chats::Chat;
use crate::core::{Cx, Host, never};
use crate::ids::ChannelId;
use crate::session::{Session, TitleSource};

impl Host {
    pub(super) fn check_session_title(
        &self,
        _by: &Dispatched,
        _session: &Session,
        changed: SessionTitleChangedAction,
    ) -> Verdict {
        let check = self.check_title(&changed.title);
        Verdict::from_check(StateAction::SessionTitleChanged(changed), check)
    }

    pub(super) fn apply_session_title(&mut self, cx: &mut Cx<'_>, by: &Dispatched, changed: SessionTitleChangedAction) {
        if let Some(session) = self.sessions.get_mut(&by.channel) {
            session.titled_by = TitleSource::User;
        }
        self.mark_dirty(by.channel);
        self.commit_dispatched(cx, by, StateAction::SessionTitleChanged(changed));
    }

    pub(super) fn check_chat_title(
        &self,
        _cx: &Cx<'_>,
        _by: &Dispatched,
        _chat: &Chat,
        changed: SessionTitleChangedAction,
    ) -> Verdict {
        let check = self.check_title(&changed.title);
        Verdict::from_check(StateAction::SessionTitleChanged(changed), check)
    }

    /// A chat's title has no action of its own (E-08): it travels in the session's catalogue, and
    /// the author gets its echo where it asked for it.
    pub(super) fn apply_chat_title(&mut self, cx: &mut Cx<'_>, by: &Dispatched, changed: SessionTitleChangedAction) {
        let Some(chat) = self.chats.get_mut(&by.channel) else {
            return never!("the chat was there when the action was checked");
        };
        chat.titled_by = TitleSource::User;
        chat.model.edit(|state| state.title.clone_from(&changed.title));
        self.mark_dirty(by.channel);
        let action = StateAction::SessionTitleChanged(changed.clone());
        self.acknowledge(cx, by.channel, &action, &by.author);
        self.sync_catalogue_entry(cx, by.channel);
        self.rename_session_of_default_chat(cx, by.channel, changed);
    }

    /// Renames a session together with its default chat: VS Code renames a session by that chat alone.
    fn rename_session_of_default_chat(
        &mut self,
        cx: &mut Cx<'_>,
        channel: ChannelId,
        changed: SessionTitleChangedAction,
    ) {
        let Some(chat) = self.chats.get(&channel) else {
            return never!("the chat is in memory");
        };
        let session_id = chat.session;
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return never!("the session of a chat is in memory");
        };
        if !session.is_default(&chat.model.head().resource) {
            return;
        }
        session.titled_by = TitleSource::User;
        let is_new = session.state.title != changed.title;
        self.mark_dirty(session_id);
        if is_new {
            self.commit(cx, session_id, StateAction::SessionTitleChanged(changed), None);
        }
    }
}

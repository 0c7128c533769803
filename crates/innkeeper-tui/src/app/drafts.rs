//! Drafts that all clients of a chat share.

use ahp_types::actions::{ActionEnvelope, ChatDraftChangedAction, StateAction};
use ahp_types::state::{Message, MessageKind, MessageOrigin};

use super::editor::Editor;
use super::{App, LinkStatus, Purpose};

impl App {
    /// Tells the host what the user has written, at most once per tick.
    pub(super) fn sync_draft(&mut self) {
        if self.status != LinkStatus::Connected {
            return;
        }
        let Some(chat) = self.chat_uri().map(str::to_owned) else {
            return;
        };
        if !self.mirror.chats.contains_key(&chat) {
            return;
        }
        let Some(composer) = self.composers.get_mut(&chat) else {
            return;
        };
        let text = composer.editor.text().to_owned();
        if text == composer.synced {
            return;
        }
        composer.synced.clone_from(&text);
        let draft = (!text.is_empty()).then(|| Message {
            text,
            origin: MessageOrigin {
                kind: MessageKind::User,
            },
            attachments: None,
            model: None,
            agent: None,
            meta: None,
        });
        let action = StateAction::ChatDraftChanged(ChatDraftChangedAction { draft });
        self.dispatch(Purpose::Ignore, &chat, action);
    }

    /// Takes the draft of a chat that was just opened, unless the user has written something here.
    pub(super) fn take_draft(&mut self, chat: &str) {
        let Some(state) = self.mirror.chats.get(chat) else {
            return;
        };
        let draft = state.draft.as_ref().map(|draft| draft.text.clone()).unwrap_or_default();
        let composer = self.composers.entry(chat.to_owned()).or_default();
        if composer.editor.text() == composer.synced {
            composer.editor = Editor::new(draft.clone());
        }
        composer.synced = draft;
    }

    /// Takes the draft of another client, unless the user is writing here.
    pub(super) fn take_draft_action(&mut self, envelope: &ActionEnvelope) {
        let is_own = envelope
            .origin
            .as_ref()
            .is_some_and(|origin| origin.client_id == self.info.client_id);
        if matches!(envelope.action, StateAction::ChatDraftChanged(_)) && !is_own && envelope.rejection_reason.is_none()
        {
            self.take_draft(&envelope.channel);
        }
    }
}

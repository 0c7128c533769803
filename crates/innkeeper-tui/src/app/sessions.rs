//! Opens, renames, archives and deletes sessions, and finds those that wait.

use ahp_types::actions::{
    ActionEnvelope, SessionIsArchivedChangedAction, SessionIsReadChangedAction, SessionTitleChangedAction, StateAction,
};
use ahp_types::state::SessionStatus;
use serde_json::json;

use super::sidebar::{Sign, is_archived, sign};
use super::{App, Focus, Purpose, Selected};
use crate::event::Effect;

/// Sessions whose chats stay subscribed, so that switching between them is instant.
const MAX_OPENED: usize = 6;

impl App {
    /// Shows the form of a new session.
    pub(crate) fn select_new(&mut self) {
        self.selected = Selected::New;
        self.focus = Focus::Composer;
        self.after_switch();
    }

    /// Opens a session at its default chat.
    pub(crate) fn open_session(&mut self, uri: &str) {
        self.open_session_at(uri, None);
    }

    /// Opens a chat of the session that is shown.
    pub(crate) fn open_chat(&mut self, chat: String) {
        if let Some(session) = self.session_uri().map(str::to_owned) {
            self.open_session_at(&session, Some(chat));
        }
    }

    pub(super) fn open_session_at(&mut self, uri: &str, chat: Option<String>) {
        self.selected = Selected::Session {
            session: uri.to_owned(),
            chat,
        };
        self.sidebar.cursor = Some(uri.to_owned());
        self.focus = Focus::Composer;
        self.opened.retain(|opened| opened != uri);
        self.opened.push(uri.to_owned());
        self.subscribe(uri);
        if self.opened.len() > MAX_OPENED {
            let oldest = self.opened.remove(0);
            self.close_session(&oldest);
        }
        self.after_switch();
    }

    fn after_switch(&mut self) {
        self.transcript.reset();
        self.completion = None;
        self.prompt = None;
        self.dialog = None;
    }

    fn close_session(&mut self, uri: &str) {
        let Some(session) = self.mirror.sessions.get(uri) else {
            return self.unsubscribe(uri);
        };
        let chats: Vec<String> = session.chats.iter().map(|chat| chat.resource.clone()).collect();
        for chat in chats {
            self.unsubscribe(&chat);
        }
        self.unsubscribe(uri);
    }

    /// Chooses the chat of the shown session as soon as its state is known, and subscribes to it.
    pub(super) fn follow_selection(&mut self) {
        let Selected::Session { session, chat: None } = &self.selected else {
            if let Some(chat) = self.chat_uri().map(str::to_owned) {
                self.subscribe(&chat);
            }
            return;
        };
        let session = session.clone();
        let Some(state) = self.mirror.sessions.get(&session) else {
            return;
        };
        let first = || state.chats.first().map(|chat| chat.resource.clone());
        let Some(chat) = state.default_chat.clone().or_else(first) else {
            return;
        };
        // Words that were typed while the session was being opened belong to its chat.
        if let Some(typed) = self.composers.remove(&session) {
            let composer = self.composers.entry(chat.clone()).or_default();
            composer.put_back(typed.editor.text(), typed.attachments);
        }
        self.subscribe(&chat);
        self.selected = Selected::Session {
            session,
            chat: Some(chat.clone()),
        };
        self.take_draft(&chat);
    }

    /// Subscribes to sessions that wait, because only their state says for what.
    pub(super) fn follow_waiting_sessions(&mut self) {
        let waiting: Vec<String> = self
            .mirror
            .summaries
            .values()
            .filter(|summary| sign(summary.status) == Sign::Waits)
            .map(|summary| summary.resource.clone())
            .collect();
        for uri in waiting {
            self.subscribe(&uri);
        }
    }

    /// Marks the shown session as read.
    pub(super) fn follow_read_mark(&mut self) {
        let Some(uri) = self.session_uri().map(str::to_owned) else {
            return;
        };
        let Some(summary) = self.mirror.summaries.get_mut(&uri) else {
            return;
        };
        let status = SessionStatus::from_bits(summary.status);
        if status.contains(SessionStatus::IsRead) || sign(summary.status) == Sign::Works {
            return;
        }
        // Said once; the host's own summary follows.
        summary.status |= SessionStatus::IsRead.bits();
        let action = StateAction::SessionIsReadChanged(SessionIsReadChangedAction { is_read: true });
        self.dispatch(Purpose::Ignore, &uri, action);
    }

    /// Opens the session that the command line names, or the latest one if it asks for that.
    pub(super) fn open_first_session(&mut self) {
        let sessions = self.listed_sessions();
        if let Some(wanted) = self.setup.session.take() {
            let last_part = |uri: &str| uri.rsplit('/').next().unwrap_or_default().to_owned();
            let all = self.mirror.summaries.keys();
            let found: Vec<String> = all
                .filter(|uri| uri.starts_with(&wanted) || last_part(uri).starts_with(&wanted))
                .cloned()
                .collect();
            match found.as_slice() {
                [uri] => self.open_session(&uri.clone()),
                [] => self.complain(&format!("There is no session {wanted}.")),
                several => self.complain(&format!("{} sessions begin with {wanted}.", several.len())),
            }
        } else if self.setup.latest {
            let mut latest: Vec<&ahp_types::state::SessionSummary> = self.mirror.summaries.values().collect();
            latest.sort_by(|a, b| b.modified_at.cmp(&a.modified_at));
            let latest = latest.first().map(|summary| summary.resource.clone());
            if let Some(uri) = latest.filter(|uri| sessions.contains(uri)) {
                self.open_session(&uri);
            }
        }
    }

    /// Opens the next session that waits, at the chat that waits. Subagents count.
    pub(crate) fn jump_to_waiting(&mut self) {
        let waiting: Vec<String> = self
            .listed_sessions()
            .into_iter()
            .filter(|uri| {
                let summary = self.mirror.summaries.get(uri);
                summary.is_some_and(|summary| sign(summary.status) == Sign::Waits)
            })
            .collect();
        if waiting.is_empty() {
            return self.tell("Nothing waits for you.");
        }
        let current = self
            .session_uri()
            .and_then(|uri| waiting.iter().position(|wait| wait == uri));
        let next = current.map_or(0, |position| (position + 1) % waiting.len());
        if let Some(uri) = waiting.get(next).cloned() {
            if self.session_uri() != Some(&uri) {
                self.open_session(&uri);
            }
            self.follow_state();
            if self.prompt.is_some() {
                self.focus = Focus::Prompt;
            }
        }
    }

    /// Gives the shown session another title.
    pub(crate) fn rename_session(&mut self, title: &str) {
        let Some(uri) = self.session_uri().map(str::to_owned) else {
            return;
        };
        let title = title.trim().to_owned();
        if title.is_empty() {
            return self.complain("A title has at least one character.");
        }
        let action = StateAction::SessionTitleChanged(SessionTitleChangedAction { title });
        self.dispatch(Purpose::Report("Renamed."), &uri, action);
    }

    /// Archives a session, or brings it back.
    pub(crate) fn toggle_archived(&mut self) {
        let Some(uri) = self.target_session() else {
            return;
        };
        let Some(summary) = self.mirror.summaries.get(&uri) else {
            return;
        };
        let is_archived = !is_archived(summary);
        let action = StateAction::SessionIsArchivedChanged(SessionIsArchivedChangedAction { is_archived });
        self.dispatch(Purpose::Report(""), &uri, action);
        self.tell(match is_archived {
            true => "Archived. Ctrl+P, “Show archived sessions” lists it.",
            false => "Out of the archive.",
        });
    }

    /// Returns the session that a command is about: the one under the cursor of the list, or the shown one.
    pub(crate) fn target_session(&self) -> Option<String> {
        match self.focus {
            Focus::Sessions => self.sidebar.cursor.clone(),
            _ => self.session_uri().map(str::to_owned),
        }
    }

    /// Deletes a session. The host can bring it back for a while.
    pub(crate) fn delete_session(&mut self, uri: String) {
        let params = json!({ "channel": uri });
        self.request(Purpose::Delete(uri), "disposeSession", params);
    }

    /// Brings the last deleted session back.
    pub(crate) fn undo_delete(&mut self) {
        let Some(uri) = self.last_deleted.clone() else {
            return self.tell("No session was deleted here. `innkeeper sessions restore` lists all.");
        };
        let params = json!({ "channel": ahp_types::ROOT_RESOURCE_URI, "session": uri });
        self.request(Purpose::Restore(uri), "innkeeper/restoreSession", params);
    }

    /// Rings the bell when a turn ends or something waits, so that users who look elsewhere notice.
    pub(super) fn ring_bell(&mut self, envelope: &ActionEnvelope) {
        let is_news = matches!(
            envelope.action,
            StateAction::SessionInputNeededSet(_) | StateAction::ChatTurnComplete(_) | StateAction::ChatError(_)
        );
        if is_news && envelope.rejection_reason.is_none() {
            self.effects.push(Effect::Bell);
        }
    }

    /// Keeps the words of a session that is gone for the next one.
    pub(super) fn keep_text_of_lost_chat(&mut self) {
        let composer = self.composers.remove(&self.composer_key());
        if let Some(composer) = composer.filter(|composer| !composer.editor.is_empty()) {
            let new = self.composers.entry(String::new()).or_default();
            new.put_back(composer.editor.text(), composer.attachments);
        }
    }
}

//! Drafts: new sessions without content.
//!
//! Clients create a session as soon as a user opens an empty input box, and often never use it. So a new session is a
//! draft: it works like any other for clients that know its URI, but it is in no list and is not announced. The first
//! content that a user wants to find again makes it a listed session, permanently. A draft without subscribers is
//! deleted when its grace period is over.

use ahp_types::actions::StateAction;

use crate::core::{Cx, Host, Timer};
use crate::ids::ChannelId;
use crate::session::Session;

/// Returns true for an action that adds content to a chat that a user wants to find again. The text of an input box
/// (`chat/draftChanged`) is none: clients send it at every pause.
pub(crate) fn is_content_of_chat(action: &StateAction) -> bool {
    matches!(
        action,
        StateAction::ChatTurnStarted(_) | StateAction::ChatPendingMessageSet(_)
    )
}

/// The same for an action of the session itself: a title, archiving, another chat.
pub(crate) fn is_content_of_session(session: &Session, action: &StateAction) -> bool {
    match action {
        StateAction::SessionTitleChanged(_) | StateAction::SessionIsArchivedChanged(_) => true,
        StateAction::SessionChatAdded(added) => !session.is_default(&added.summary.resource),
        _ => false,
    }
}

impl Host {
    /// Makes listed sessions of the drafts that got content. This happens at the end of the input, so that the
    /// announcement shows everything that followed from the input: title, status and time.
    pub(crate) fn end_drafts_with_content(&mut self) {
        for session in self.touched.take_content() {
            if self.sessions.end_draft(session) {
                self.mark_dirty(session);
            }
        }
    }

    /// Announces the sessions that are no longer drafts to root subscribers, and then their views of changes.
    pub(crate) fn announce_newly_listed(&mut self, cx: &mut Cx<'_>) {
        let newly_listed = self.sessions.take_newly_listed();
        if newly_listed.is_empty() {
            return;
        }
        for session in newly_listed {
            self.announce_added(cx, session);
            let has_views = |session: &Session| session.state.changesets.is_some();
            if self.sessions.get(&session).is_some_and(has_views) {
                self.advertise_changesets(cx, session);
            }
        }
        self.publish_active_sessions(cx);
    }

    /// Returns true if the host has the maximum number of sessions, drafts included.
    pub(crate) fn is_full(&self) -> bool {
        self.sessions.total() >= self.config.max_sessions
    }

    /// Returns true if a draft is in use: by its subscribers, or by its creator before the first subscription.
    fn is_draft_in_use(&self, session_id: ChannelId) -> bool {
        let Some(session) = self.sessions.get(&session_id) else {
            return false;
        };
        let creator = session.creator.as_ref().filter(|_| !session.was_heard);
        self.has_listeners(session_id) || creator.is_some_and(|creator| self.clients.is_connected(creator))
    }

    /// Notes a subscription to a session or to one of its chats.
    pub(crate) fn hold_draft(&mut self, channel: ChannelId) {
        if !self.sessions.has_drafts() {
            return;
        }
        let session = self.chats.get(&channel).map_or(channel, |chat| chat.session);
        if let Some(session) = self.sessions.get_mut(&session) {
            session.was_heard = true;
            session.draft_ends_ms = None;
        }
    }

    /// Starts the grace period of every draft that is no longer in use.
    pub(crate) fn release_drafts(&mut self, cx: &mut Cx<'_>) {
        // An observer or a host that cannot write deletes nothing.
        if !self.sessions.take_released_drafts() || self.storage.mode().is_read_only() {
            return;
        }
        let free = self.sessions.drafts().filter(|id| !self.is_draft_in_use(*id));
        let free: Vec<ChannelId> = free.collect();
        for id in free {
            if let Some(session) = self.sessions.get_mut(&id)
                && session.draft_ends_ms.is_none()
            {
                let ends_ms = cx.now.mono_ms.saturating_add(self.config.grace_ms);
                session.draft_ends_ms = Some(ends_ms);
                self.timers.set(ends_ms, Timer::ExpireDraft(id));
            }
        }
    }

    /// Deletes a draft whose grace period is over.
    pub(crate) fn expire_draft(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        let session = self.sessions.get(&session_id).filter(|session| session.is_draft);
        let is_over = session
            .and_then(|session| session.draft_ends_ms)
            .is_some_and(|ends_ms| ends_ms <= cx.now.mono_ms);
        if is_over && !self.is_draft_in_use(session_id) {
            self.remove_session(cx, session_id);
        }
    }
}

//! Eviction: idle sessions are persisted and leave memory. They come back when an input names them.

use std::sync::Arc;

use crate::core::{Cx, Host, SessionRemoval, Timer, never};
use crate::effect::AgentCommand;
use crate::ids::ChannelId;

/// The longest time between two scans for idle sessions.
const MAX_INTERVAL_MS: u64 = 60_000;

impl Host {
    /// Schedules the next scan for idle sessions.
    pub(crate) fn schedule_eviction(&mut self, now_ms: u64) {
        let idle_ms = self.config.idle_session_ms;
        // A host that cannot write has closed turns in memory only.
        if self.storage.mode().evicts()
            && idle_ms > 0
            && !self.storage.is_eviction_scheduled
            && !self.sessions.is_empty()
        {
            self.storage.is_eviction_scheduled = true;
            let at = now_ms.saturating_add(idle_ms.min(MAX_INTERVAL_MS));
            self.timers.set(at, Timer::EvictIdle);
        }
    }

    /// Evicts every session that was unused for a while, and turns that are not needed.
    pub(crate) fn evict_idle(&mut self, cx: &mut Cx<'_>) {
        self.storage.is_eviction_scheduled = false;
        let now = cx.now.mono_ms;
        let mut idle = Vec::new();
        let ids: Vec<ChannelId> = self.sessions.keys().copied().collect();
        for id in ids {
            let is_used = self.is_in_use(id);
            let Some(session) = self.sessions.get_mut(&id) else {
                continue;
            };
            // An unused draft is deleted instead.
            let is_used = is_used || (session.is_draft() && !self.storage.mode().is_observer());
            if session.idle_ms(is_used, now) >= self.config.idle_session_ms && !is_used {
                idle.push(id);
            }
        }
        self.forget_old_turns();
        idle.sort_unstable();
        for session in idle {
            self.evict(cx, session);
        }
        self.schedule_eviction(now);
    }

    /// Whether a session has subscribers, or something runs in it.
    pub(crate) fn is_in_use(&self, session_id: ChannelId) -> bool {
        let Some(session) = self.sessions.get(&session_id) else {
            return false;
        };
        session.is_summary_due()
            || self.has_listeners(session_id)
            || !self.is_at_rest(session)
            || self.parts.are_busy_in(session_id)
    }

    /// Whether a session, one of its chats or another of its channels has subscribers.
    pub(crate) fn has_listeners(&self, session_id: ChannelId) -> bool {
        let is_heard = |id: &ChannelId| self.channels.get(*id).is_some_and(|entry| entry.has_subscribers());
        let session = self.sessions.get(&session_id);
        is_heard(&session_id)
            || session.is_some_and(|session| session.chats.iter().any(is_heard))
            || self.parts.channels_in(session_id).iter().any(is_heard)
    }

    /// Takes a session at rest out of memory.
    fn evict(&mut self, cx: &mut Cx<'_>, session_id: ChannelId) {
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return never!("the session is in memory");
        };
        session.settle_order();
        let chats = session.chats.clone();
        if self.storage.mode().persists() {
            let has_tail = |id: &ChannelId| self.channels.get(*id).is_some_and(|entry| entry.tail > 0);
            let changed: Vec<ChannelId> = chats.iter().copied().filter(has_tail).collect();
            // The session in any case: the store may have it as not at rest.
            for channel in changed.into_iter().chain([session_id]) {
                self.mark_dirty(channel);
            }
            self.persist_dirty(cx);
        }
        if let Some(session) = self.sessions.evict(&session_id) {
            Self::forget_servers(cx, session_id, &session);
            Self::forget_customizations(cx, session_id, &session);
            Self::forget_repository(cx, session_id, &session);
        }
        let leaving = chats.iter().chain([&session_id]);
        let leaving: Vec<Arc<str>> = leaving
            .filter_map(|id| Some(Arc::clone(&self.channels.get(*id)?.uri)))
            .collect();
        self.invalidate(&leaving);
        for chat_id in chats {
            if self.chats.remove(&chat_id).is_some_and(|chat| chat.is_open) {
                cx.emit(AgentCommand::CloseChat { chat: chat_id });
            }
            self.remove_channel(chat_id);
        }
        self.session_removed(cx, session_id, SessionRemoval::Evicted);
        self.remove_channel(session_id);
    }
}

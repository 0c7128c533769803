//! The watchdog: reports an agent that is silent, and ends its turn after a limit.
//!
//! Waiting for users is not silence: while a question, a confirmation or a client's tool is open, the clock is stopped.

use ahp_types::actions::{ChatActivityChangedAction, StateAction};

use crate::agent::Failure;
use crate::core::{Cx, Host, Timer, never};
use crate::ids::ChannelId;

impl Host {
    /// Starts the timer of a run, unless its chat has one.
    pub(crate) fn start_watchdog(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId) {
        let set = [self.config.silence_notice_ms, self.config.silence_limit_ms];
        let Some(interval) = set.into_iter().filter(|interval| *interval > 0).min() else {
            // The watchdog is switched off.
            return;
        };
        if let Some(chat) = self.chats.get_mut(&chat_id)
            && !std::mem::replace(&mut chat.is_watched, true)
        {
            let at_ms = cx.now.mono_ms.saturating_add(interval);
            self.timers.set(at_ms, Timer::CheckWatchdog(chat_id));
        }
    }

    /// Notes an event of the agent.
    pub(crate) fn note_agent_activity(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId) {
        let Some(run) = self.run_mut(chat_id) else {
            return never!("the events of an agent have a run");
        };
        run.last_event_ms = cx.now.mono_ms;
        if let Some(activity) = run.before_silence.take() {
            let action = ChatActivityChangedAction { activity };
            self.commit(cx, chat_id, StateAction::ChatActivityChanged(action), None);
        }
    }

    /// Checks how long a chat's agent has been silent.
    pub(crate) fn watch(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId) {
        let (notice, limit) = (self.config.silence_notice_ms, self.config.silence_limit_ms);
        let now = cx.now.mono_ms;
        let waits_for_users = self
            .chats
            .get(&chat_id)
            .is_some_and(|chat| chat.model.waits_for_users());
        let waits_for_subagent = self.has_subagents(chat_id);
        let Some(chat) = self.chats.get_mut(&chat_id) else {
            // Timers are not cancelled when their chat is removed.
            return;
        };
        chat.is_watched = false;
        let activity = chat.model.head().activity.clone();
        let Some(run) = chat.run_mut() else {
            // The run has ended. The next one starts the watchdog again.
            return;
        };
        if waits_for_users || waits_for_subagent {
            run.last_event_ms = now;
        }
        let silent_ms = now.saturating_sub(run.last_event_ms);
        if limit > 0 && silent_ms >= limit {
            let message = format!(
                "the agent has said nothing for {}, so the host ended the turn; send the message again, or see the host's log",
                format_span(silent_ms)
            );
            return self.stop_failed(cx, chat_id, Failure::new("agentSilent", message));
        }
        let last_event_ms = run.last_event_ms;
        let mut next = last_event_ms.saturating_add(if limit > 0 { limit } else { u64::MAX });
        if notice > 0 && silent_ms >= notice {
            if run.before_silence.is_none() {
                run.before_silence = Some(activity);
            }
            let text = format!("No response from the agent for {}", format_span(silent_ms));
            let action = ChatActivityChangedAction { activity: Some(text) };
            self.commit(cx, chat_id, StateAction::ChatActivityChanged(action), None);
            next = next.min(now.saturating_add(notice));
        } else if notice > 0 {
            next = next.min(last_event_ms.saturating_add(notice));
        }
        if let Some(chat) = self.chats.get_mut(&chat_id)
            && next < u64::MAX
        {
            chat.is_watched = true;
            self.timers.set(next.max(now + 1), Timer::CheckWatchdog(chat_id));
        }
    }

    /// Whether a subagent that its turn waits for is running; the subagent has a watchdog of its own.
    fn has_subagents(&self, chat_id: ChannelId) -> bool {
        let Some((chat, run)) = self.chats.get(&chat_id).and_then(|chat| Some((chat, chat.run()?))) else {
            return false;
        };
        let siblings = self.sessions.get(&chat.session).map(|session| session.chats.as_slice());
        siblings.unwrap_or_default().iter().any(|sibling| {
            let subagent = self.chats.get(sibling).and_then(|chat| chat.run());
            subagent.is_some_and(|subagent| subagent.parent == Some((chat_id, run.key())) && !subagent.detached)
        })
    }
}

/// Formats a time span for users.
fn format_span(ms: u64) -> String {
    match ms / 1000 {
        0..=119 => format!("{} s", ms / 1000),
        seconds => format!("{} min", seconds / 60),
    }
}

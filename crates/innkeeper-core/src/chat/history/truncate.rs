//! Truncation of a chat's history (TRC).

use ahp_types::actions::{ChatTruncatedAction, StateAction};

use crate::chat::chats::Chat;
use crate::clients::client::Presence;
use crate::core::{Cx, Host, never};
use crate::dispatch::{Dispatched, Verdict};
use crate::ids::{ChannelId, Seq};
use crate::session::Session;

impl Host {
    pub(crate) fn check_truncated(
        &self,
        _cx: &Cx<'_>,
        by: &Dispatched,
        chat: &Chat,
        truncated: ChatTruncatedAction,
    ) -> Verdict {
        let check = match self.session_of(by.channel) {
            Some(session) => self.check_truncation(session, chat, &truncated),
            None => Err("the chat is gone".to_owned()),
        };
        Verdict::from_check(StateAction::ChatTruncated(truncated), check)
    }

    /// Whether a client may cut a chat's history there.
    fn check_truncation(&self, session: &Session, chat: &Chat, truncated: &ChatTruncatedAction) -> Result<(), String> {
        if let Some(reason) = session.not_ready() {
            return Err(reason.to_owned());
        }
        if self.shutting_down {
            return Err("the host is shutting down".to_owned());
        }
        if chat.parent.is_some() {
            return Err("this chat belongs to a subagent, whose history only its agent writes".to_owned());
        }
        // TRC-05: the model would continue from turns that users no longer see.
        let agent = self.agent_of(session);
        if agent.is_none_or(|agent| !agent.restores_history) {
            let name = agent.map_or("this chat's agent", |agent| &agent.info.display_name);
            return Err(format!("{name} cannot forget part of a conversation; start a new chat"));
        }
        // TRC-03: an unknown turn would be ignored by every reducer.
        match &truncated.turn_id {
            Some(turn) if chat.model.position(turn).is_some() => Ok(()),
            Some(turn) if chat.model.knows_turn(turn) => Err(format!(
                "turnId: {turn:?} is still running; name the last completed turn to keep"
            )),
            Some(turn) => Err(format!("turnId: this chat has no turn {turn:?}")),
            None => Ok(()),
        }
    }

    /// Truncates a chat's history and reopens its agent with the rest (TRC-01, TRC-02, TRC-05).
    pub(crate) fn apply_truncated(&mut self, cx: &mut Cx<'_>, by: &Dispatched, truncated: ChatTruncatedAction) {
        let chat_id = by.channel;
        let Some(chat) = self.chats.get(&chat_id) else {
            return never!("the chat is in memory");
        };
        let model = &chat.model;
        let is_cut = |kept: usize| kept < model.turn_count() || model.head().active_turn.is_some();
        let last_kept = truncated.turn_id.as_ref().and_then(|id| model.position(id));
        let forgets = is_cut(last_kept.map_or(0, |index| index + 1));
        if let Some(index) = last_kept {
            self.resync_the_absent(chat_id, index);
            self.load_through(cx, chat_id, index);
        }
        let clears = truncated.turn_id.is_none();
        self.commit_dispatched(cx, by, StateAction::ChatTruncated(truncated));
        if clears {
            self.forget_windows(chat_id);
        }
        self.stop_run(cx, chat_id);
        if forgets {
            self.open_chat(cx, chat_id, Some(&by.author.client));
        }
    }

    /// A client that is away cannot be sent the turn a truncation names before it is replayed to it,
    /// so it gets a snapshot when it returns (TRC-04).
    fn resync_the_absent(&mut self, chat_id: ChannelId, index: usize) {
        let Some(chat) = self.chats.get(&chat_id) else {
            return never!("the chat is in memory");
        };
        let uri = chat.model.head().resource.as_str();
        let model = &chat.model;
        for client in self.clients.values_mut() {
            let subscriptions = match &mut client.presence {
                Presence::Grace(kept) => &mut kept.subscriptions,
                Presence::Absent(subscriptions) => subscriptions,
                Presence::Active(_) => continue,
            };
            if let Some(subscription) = subscriptions.get_mut(uri)
                && let Some(unloaded) = &subscription.base.unloaded
                && model.position(unloaded).is_some_and(|lacks| lacks >= index)
            {
                // No client has seen that much, so nothing is replayed to it.
                subscription.base.started = Seq::MAX;
            }
        }
    }

    /// A chat without turns has no subscriber that lacks one.
    fn forget_windows(&mut self, chat_id: ChannelId) {
        let Some(entry) = self.channels.get_mut(chat_id) else {
            return never!("the channel exists");
        };
        entry.all_loaded();
        let uri = &*entry.uri;
        for client in self.clients.values_mut() {
            let subscriptions = match &mut client.presence {
                Presence::Grace(kept) => &mut kept.subscriptions,
                Presence::Absent(subscriptions) => subscriptions,
                Presence::Active(_) => continue,
            };
            if let Some(subscription) = subscriptions.get_mut(uri) {
                subscription.base.unloaded = None;
            }
        }
    }
}

//! The one way state changes: reduce, number, encode, persist, fan out.

use std::sync::Arc;

use ahp::reducers::{ReduceOutcome, apply_action_to_root};
use ahp_types::actions::StateAction;

use crate::core::{Cx, Host, ROOT, never};
use crate::effect::{CloseReason, Delivery, Publication};
use crate::ids::{ChannelId, ClientId, ConnId, Seq};
use crate::log::derive::is_streamed;
use crate::protocol::action_table::{self, Translation};
use crate::protocol::dialect::extension::ExtensionFields;
use crate::protocol::dialect::mcp_apps::without_apps;
use crate::protocol::frame::{ActionFrame, Origin, Outgoing, encode_action, encode_rejection};
use crate::protocol::snapshot::Before;

/// The client behind a dispatched action.
#[derive(Debug, Clone)]
pub(crate) struct Author {
    pub(crate) conn: ConnId,
    pub(crate) client: ClientId,
    pub(crate) client_seq: i64,
}

impl Author {
    fn origin(&self) -> Origin<'_> {
        Origin {
            client_id: self.client.as_str(),
            client_seq: self.client_seq,
        }
    }
}

impl Host {
    /// Applies an accepted action and publishes it to all subscribers.
    ///
    /// An action that changes nothing is not published: from the host it is dropped, from a
    /// client it is echoed to its author alone, whose pending queue waits for it (DSP-15).
    pub(crate) fn commit(
        &mut self,
        cx: &mut Cx<'_>,
        channel: ChannelId,
        action: StateAction,
        author: Option<&Author>,
    ) -> ReduceOutcome {
        let before = self.before(channel, &action);
        let outcome = self.reduce(channel, &action);
        match (&outcome, author) {
            (ReduceOutcome::Applied, _) => self.publish(cx, channel, &action, author, before),
            (ReduceOutcome::NoOp, Some(author)) => self.acknowledge(cx, channel, &action, author),
            (ReduceOutcome::NoOp, None) => {}
            (ReduceOutcome::OutOfScope | ReduceOutcome::Invalid(_), _) => {
                debug_assert!(false, "validation lets no such action through: {outcome:?} {action:?}");
            }
        }
        if outcome == ReduceOutcome::Applied && !is_streamed(&action) {
            self.note(channel, &action);
            self.derive(cx, channel, &action);
        }
        outcome
    }

    /// Echoes an action that changed nothing to its author alone.
    pub(crate) fn acknowledge(&mut self, cx: &mut Cx<'_>, channel: ChannelId, action: &StateAction, author: &Author) {
        let subscribed = self
            .conns
            .get(&author.conn)
            .is_some_and(|conn| conn.subscriptions.contains(&channel));
        if subscribed {
            self.send_alone(cx, author.conn, channel, action, Some(author));
        }
    }

    /// Sends an action to one connection only, with a fresh number and outside the replay window.
    pub(crate) fn send_alone(
        &mut self,
        cx: &mut Cx<'_>,
        conn: ConnId,
        channel: ChannelId,
        action: &StateAction,
        author: Option<&Author>,
    ) -> Seq {
        let seq = self.log.next_seq();
        if let Some(entry) = self.channels.get(channel) {
            let beside = self.beside(channel, action);
            let origin = author.map(Author::origin);
            let mut frame = encode_action(&entry.uri_json, action, beside, seq, origin);
            // It changes nothing that its translation depends on.
            frame.set_before(self.before(channel, action));
            cx.send(conn, Outgoing::Action(Arc::new(frame)));
        }
        seq
    }

    /// Refuses an action: to its author only, because the published mirror applies refused
    /// actions on every observer (E-02), with a fresh number and outside the replay window
    /// (DSP-12, DSP-13, REC-19).
    pub(crate) fn reject(&mut self, cx: &mut Cx<'_>, channel: ChannelId, raw: &str, author: &Author, reason: &str) {
        if self.log.is_exhausted() {
            let (conn, reason) = (author.conn, CloseReason::NoNumbers);
            return cx.emit(Delivery::Close { conn, reason });
        }
        let seq = self.log.next_seq();
        if let Some(entry) = self.channels.get(channel) {
            let message = encode_rejection(&entry.uri_json, raw, seq, author.origin(), reason);
            cx.send(author.conn, Outgoing::Text(message));
        }
    }

    /// The state of a channel before an action, if the translation of the action for a subscriber needs it.
    fn before(&self, channel: ChannelId, action: &StateAction) -> Option<Before> {
        let rule = action_table::rule(action)?;
        if rule.translation == Translation::Stateless || !self.channels.get(channel)?.has_older_than(rule.same) {
            return None;
        }
        Some(Before::new(self.recent_state(channel)?))
    }

    fn reduce(&mut self, channel: ChannelId, action: &StateAction) -> ReduceOutcome {
        if channel == ROOT {
            return apply_action_to_root(self.root.state_mut(), action);
        }
        if let Some(chat) = self.chats.get_mut(&channel) {
            return chat.model.apply(action);
        }
        if let Some(session) = self.sessions.get_mut(&channel) {
            return session.apply(action);
        }
        match self.channels.kind(channel) {
            Some(kind) => self.parts.reduce(kind, channel, action),
            None => ReduceOutcome::NoOp,
        }
    }

    /// Appends streamed text: the same steps as [`Self::commit`] for `chat/delta` and
    /// `chat/reasoning`, without building the action, because this is where a host spends its time.
    pub(crate) fn commit_append(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, content: &str) {
        let Some(chat) = self.chats.get_mut(&chat_id) else {
            return never!("the chat is in memory");
        };
        if let Some(head) = chat.append(content) {
            let frame = head.encode(content, self.log.next_seq());
            self.publish_frame(cx, chat_id, frame, None);
        }
    }

    fn publish(
        &mut self,
        cx: &mut Cx<'_>,
        channel: ChannelId,
        action: &StateAction,
        author: Option<&Author>,
        before: Option<Before>,
    ) {
        let seq = self.log.next_seq();
        if let Some(entry) = self.channels.get(channel) {
            let beside = self.beside(channel, action);
            let origin = author.map(Author::origin);
            let mut frame = encode_action(&entry.uri_json, action, beside, seq, origin);
            if let Some(plain) = without_apps(action) {
                let mut plain = encode_action(&entry.uri_json, &plain, beside, seq, origin);
                plain.set_before(before.as_ref().map(Before::without_apps));
                frame.set_plain(plain);
            }
            frame.set_before(before);
            self.publish_frame(cx, channel, frame, author.map(|author| author.conn));
            self.mark_dirty_after(channel, action);
        }
    }

    /// Returns the fields of an action that its published type does not have. They were stored before the action.
    fn beside(&self, channel: ChannelId, action: &StateAction) -> ExtensionFields<'_> {
        match action {
            StateAction::SessionActiveClientSet(set) => {
                let session = self.sessions.get(&channel);
                let opt_in = session.and_then(|session| session.opt_ins.get(&set.active_client.client_id));
                opt_in.map_or(ExtensionFields::Nothing, ExtensionFields::OptIn)
            }
            StateAction::RootAgentsChanged(_) => ExtensionFields::Catalogue(self.agents.catalogue()),
            _ => ExtensionFields::Nothing,
        }
    }

    fn publish_frame(&mut self, cx: &mut Cx<'_>, channel: ChannelId, frame: ActionFrame, author: Option<ConnId>) {
        let Some(entry) = self.channels.get_mut(channel) else {
            return never!("the channel exists");
        };
        let frame = Arc::new(frame);
        self.log.replay.push(channel, cx.now.mono_ms, &frame);
        let bytes = frame.added_bytes();
        cx.emit(Publication {
            channel,
            uri: Arc::clone(&entry.uri),
            to: entry.audience(),
            frame,
            author,
        });
        self.count_tail(channel, bytes);
        self.schedule_sweep(cx.now);
    }
}

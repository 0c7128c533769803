//! The messages and the mirror of one official client.

use std::collections::BTreeMap;

use ahp::SubscriptionEvent;
use ahp::hosts::HostId;
use ahp::multi_host_state_mirror::{HostedResourceKey, MultiHostStateMirror};
use ahp_types::actions::{ActionEnvelope, StateAction};
use ahp_types::state::{
    ChatState, ResourceWatchState, RootState, SessionState, Snapshot, SnapshotState, TerminalState, Turn,
};
use serde_json::Value;

use crate::comparable::without_unannounced_fields;

/// The published mirror, and everything that went into it.
///
/// One thing is not passed on to the mirror: refusals. The published one would apply them as if they had been accepted
/// (trap 7); they are kept in [`View::refusals`] instead.
pub struct View {
    mirror: MultiHostStateMirror,
    host: HostId,
    /// The channels that are mirrored, with the last number applied to each.
    channels: BTreeMap<String, u64>,
    /// Actions of the present connection, in the order they came.
    pub actions: Vec<ActionEnvelope>,
    /// Refusals of this client's own actions, over all connections.
    pub refusals: Vec<ActionEnvelope>,
    /// Notifications other than actions, over all connections.
    pub notifications: Vec<SubscriptionEvent>,
    /// The highest number seen, as `reconnect` reports it.
    pub last_seen: u64,
    /// Rules of the protocol that the host broke.
    pub problems: Vec<String>,
    /// Whether the present connection has ended.
    pub is_over: bool,
}

impl Default for View {
    fn default() -> Self {
        Self {
            mirror: MultiHostStateMirror::new(),
            host: HostId::new("host"),
            channels: BTreeMap::new(),
            actions: Vec::new(),
            refusals: Vec::new(),
            notifications: Vec::new(),
            last_seen: 0,
            problems: Vec::new(),
            is_over: false,
        }
    }
}

impl View {
    /// The channels that are mirrored.
    pub fn channels(&self) -> Vec<String> {
        self.channels.keys().cloned().collect()
    }

    /// The root channel's state.
    pub fn root(&self) -> Option<&RootState> {
        self.mirror.root_states().get(&self.host)
    }

    /// A session's state.
    pub fn session(&self, uri: &str) -> Option<&SessionState> {
        let key = HostedResourceKey::new(self.host.clone(), uri);
        self.mirror.sessions().get(&key)
    }

    /// A chat's state.
    pub fn chat(&self, uri: &str) -> Option<&ChatState> {
        let key = HostedResourceKey::new(self.host.clone(), uri);
        self.mirror.chats().get(&key)
    }

    /// Returns the descriptor of a watch.
    pub fn resource_watch(&self, uri: &str) -> Option<&ResourceWatchState> {
        let key = HostedResourceKey::new(self.host.clone(), uri);
        self.mirror.resource_watches().get(&key)
    }

    /// A terminal's state.
    pub fn terminal(&self, uri: &str) -> Option<&TerminalState> {
        let key = HostedResourceKey::new(self.host.clone(), uri);
        self.mirror.terminals().get(&key)
    }

    /// A turn that has ended.
    pub fn ended_turn(&self, chat: &str, turn_id: &str) -> Option<&Turn> {
        self.chat(chat)?.turns.iter().find(|turn| turn.id == turn_id)
    }

    /// A channel's state as JSON, without the fields that no action carries.
    pub fn comparable(&self, uri: &str) -> Value {
        let state = if let Some(state) = self.session(uri) {
            serde_json::to_value(state)
        } else if let Some(state) = self.chat(uri) {
            serde_json::to_value(state)
        } else if let Some(state) = self.resource_watch(uri) {
            serde_json::to_value(state)
        } else if let Some(state) = self.terminal(uri) {
            serde_json::to_value(state)
        } else {
            serde_json::to_value(self.root())
        };
        without_unannounced_fields(state.expect("states are JSON"))
    }

    /// Stops mirroring a channel.
    pub fn forget(&mut self, uri: &str) {
        self.channels.remove(uri);
    }

    /// Begins a new connection: order is promised within one.
    pub(super) fn begin_connection(&mut self) {
        self.actions.clear();
        self.is_over = false;
    }

    pub(super) fn receive_snapshot(&mut self, snapshot: &Snapshot) {
        let from_seq = u64::try_from(snapshot.from_seq).expect("fromSeq is not negative");
        self.mirror.apply_snapshot(&self.host, snapshot);
        self.channels.insert(snapshot.resource.clone(), from_seq);
        self.last_seen = self.last_seen.max(from_seq);
        // The answer and the actions after it reach a client's program on different ways, so actions may have been
        // read before the snapshot they continue.
        let later: Vec<ActionEnvelope> = self
            .actions
            .iter()
            .filter(|envelope| envelope.channel == snapshot.resource && envelope.server_seq > from_seq)
            .cloned()
            .collect();
        for envelope in later {
            self.apply(&envelope);
        }
    }

    pub(super) fn receive_event(&mut self, event: SubscriptionEvent) {
        match event {
            SubscriptionEvent::Action(envelope) => self.receive_action(envelope),
            other => self.notifications.push(other),
        }
    }

    pub(super) fn receive_action(&mut self, envelope: ActionEnvelope) {
        let seq = envelope.server_seq;
        if let Some(previous) = self.actions.last().map(|previous| previous.server_seq)
            && seq <= previous
        {
            self.problems.push(format!("{seq} came after {previous}"));
        }
        if matches!(envelope.action, StateAction::Unknown(_)) && envelope.rejection_reason.is_none() {
            self.problems
                .push(format!("the published types cannot read {envelope:?}"));
        }
        self.last_seen = self.last_seen.max(seq);
        if envelope.rejection_reason.is_some() {
            self.refusals.push(envelope.clone());
        } else {
            self.apply(&envelope);
        }
        self.actions.push(envelope);
    }

    fn apply(&mut self, envelope: &ActionEnvelope) {
        if let Some(known) = self.channels.get_mut(&envelope.channel)
            && envelope.server_seq > *known
            && envelope.rejection_reason.is_none()
        {
            *known = envelope.server_seq;
            self.mirror.apply_envelope(&self.host, envelope);
        }
    }
}

/// A fresh snapshot in the form mirrors are compared in.
pub(super) fn comparable_snapshot(state: &SnapshotState) -> Value {
    without_unannounced_fields(serde_json::to_value(state).expect("states are JSON"))
}

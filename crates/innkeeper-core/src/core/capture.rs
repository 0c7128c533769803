//! Snapshots of channels, and how large they are.

use std::sync::Arc;

use ahp_types::actions::{RootActiveSessionsChangedAction, StateAction};

use crate::core::{Cx, Host, ROOT};
use crate::customization::shown_bytes;
use crate::ids::{ChannelId, ConnId};
use crate::protocol::snapshot::{Configured, Snapshot, State, Window};

impl Host {
    /// Captures a channel's state at the present sequence number.
    pub(crate) fn capture(&self, channel: ChannelId) -> Option<Snapshot> {
        self.capture_window(channel, Window::ALL)
    }

    /// The same, as the client on a connection is shown it, with part of a chat's turns.
    pub(crate) fn capture_for(&self, conn: ConnId, channel: ChannelId, window: Window) -> Option<Snapshot> {
        let snapshot = self.capture_window(channel, window)?;
        Some(self.conns.dialect(conn).snapshot(snapshot))
    }

    /// The same, with part of a chat's turns.
    fn capture_window(&self, channel: ChannelId, window: Window) -> Option<Snapshot> {
        let entry = self.channels.get(channel)?;
        let state = if channel == ROOT {
            State::Root(Configured::new(
                self.root.state(),
                self.root.settings(),
                self.agents.catalogue(),
            ))
        } else if let Some(session) = self.sessions.get(&channel) {
            State::Session(Configured::new(&session.state, &session.settings, &session.opt_ins))
        } else if let Some(chat) = self.chats.get(&channel) {
            chat.model.snapshot(window)
        } else {
            State::Part(self.parts.state(entry.kind, channel)?)
        };
        Some(Snapshot {
            resource: Arc::clone(&entry.uri),
            from_seq: self.log.seq(),
            state,
            hides_apps: false,
        })
    }

    /// Roughly how many bytes a channel's snapshot takes, with part of a chat's turns.
    pub(crate) fn estimated_bytes_of(&self, channel: ChannelId, window: Window) -> usize {
        let base = 1024;
        let state = if channel == ROOT {
            json_bytes(&self.root.state().agents) + json_bytes(&**self.agents.catalogue())
        } else if let Some(session) = self.sessions.get(&channel) {
            let state = &session.state;
            let chats = json_bytes(&state.chats);
            let clients = json_bytes(&state.active_clients) + json_bytes(&*session.opt_ins);
            chats + clients + json_bytes(&state.config) + shown_bytes(session)
        } else if let Some(chat) = self.chats.get(&channel) {
            chat.model.estimated_bytes_of(window)
        } else {
            let kind = self.channels.kind(channel);
            let state = kind.and_then(|kind| self.parts.state(kind, channel));
            state.map_or(0, |state| state.estimated_bytes())
        };
        base + state
    }

    pub(crate) fn publish_active_sessions(&mut self, cx: &mut Cx<'_>) {
        // E-35: the crate's meaning, non-disposed sessions; those that lists show.
        let active_sessions = i64::try_from(self.sessions.listed()).unwrap_or(i64::MAX);
        let action = RootActiveSessionsChangedAction { active_sessions };
        self.commit(cx, ROOT, StateAction::RootActiveSessionsChanged(action), None);
    }
}

/// Bytes of a value as JSON.
pub(crate) fn json_bytes(value: &impl serde::Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |json| json.len())
}

//! Snapshots of channels, and how large they are.

use std::sync::Arc;

use ahp_types::actions::{RootActiveSessionsChangedAction, StateAction};
use ahp_types::state::{SessionLifecycle, SessionState};
use innkeeper_dialects::state::Around;

use crate::core::{Cx, Host, ROOT};
use crate::customization::shown_bytes;
use crate::ids::{ChannelId, ConnId};
use crate::protocol::snapshot::{Configured, Snapshot, State, Window};
use crate::session::create::new_session;

impl Host {
    /// Captures a channel's state at the present sequence number.
    pub(crate) fn capture(&self, channel: ChannelId) -> Option<Snapshot> {
        self.capture_window(channel, Window::ALL)
    }

    /// The same, as the client on a connection is shown it, with part of a chat's turns.
    pub(crate) fn capture_for(&self, conn: ConnId, channel: ChannelId, window: Window) -> Option<Snapshot> {
        let dialect = self.conns.dialect(conn);
        let mut snapshot = self.capture_window(channel, window)?;
        if dialect.version.is_translated() {
            snapshot.around = self.around(channel).map(Box::new);
        }
        if dialect.version.session_is_chat()
            && let Some(state) = self.session_with_chat(conn, channel, window)
        {
            snapshot.state = state;
        }
        if channel == ROOT
            && let Some(name) = self.conns.get(&conn).and_then(|conn| conn.root_name.clone())
        {
            snapshot.resource = name;
        }
        let client = self.conns.client(conn)?;
        Some(dialect.snapshot(client, snapshot))
    }

    /// A session together with the chat that it shows to a connection, or a chat as a session of its own.
    fn session_with_chat(&self, conn: ConnId, channel: ChannelId, window: Window) -> Option<State> {
        let chat = self.chats.get(&self.conns.shown_chat(conn, channel));
        let shown = chat.map(|chat| Box::new(chat.model.shown(window)));
        if let Some(session) = self.sessions.get(&channel) {
            let session = Configured::new(&session.state, &session.settings, &session.opt_ins);
            return Some(State::SessionWithChat(session, shown));
        }
        let chat = chat?;
        let owner = self.sessions.get(&chat.session)?;
        let head = chat.model.head();
        let state = SessionState {
            title: head.title.clone(),
            status: head.status,
            lifecycle: SessionLifecycle::Ready,
            working_directories: head
                .working_directories
                .clone()
                .or_else(|| owner.state.working_directories.clone()),
            ..new_session(&owner.state.provider, &head.resource)
        };
        let session = Configured::new(&Arc::new(state), &Arc::default(), &Arc::default());
        Some(State::SessionWithChat(session, shown))
    }

    /// The facts about a session, or about a chat that is shown as one, that only older versions have in their states.
    fn around(&self, channel: ChannelId) -> Option<Around> {
        let entry = self.channels.get(channel)?;
        let (created_at, modified_at) = match self.sessions.get(&channel) {
            Some(session) => (session.created_at().to_owned(), session.modified_at().to_owned()),
            None => {
                let chat = self.chats.get(&channel)?;
                let owner = self.sessions.get(&chat.session)?;
                (owner.created_at().to_owned(), chat.model.head().modified_at.clone())
            }
        };
        Some(Around {
            resource: entry.uri.to_string(),
            created_at,
            modified_at,
            ..Around::default()
        })
    }

    /// The state of a channel now, with the latest of a chat's turns that are in memory: as much as the translation of
    /// an action may depend on.
    pub(crate) fn recent_state(&self, channel: ChannelId) -> Option<State> {
        /// An action continues the last turn, or refers to the one before it.
        const TURNS: usize = 2;
        let history = self.chats.get(&channel).map(|chat| chat.model.history());
        let skipped = history.map_or(0, |history| {
            history.len().saturating_sub(TURNS).max(history.resident_from())
        });
        self.state_of(channel, Window { skipped })
    }

    /// The same, with part of a chat's turns.
    fn capture_window(&self, channel: ChannelId, window: Window) -> Option<Snapshot> {
        let resource = Arc::clone(&self.channels.get(channel)?.uri);
        let state = self.state_of(channel, window)?;
        Some(Snapshot::new(resource, self.log.seq(), state))
    }

    fn state_of(&self, channel: ChannelId, window: Window) -> Option<State> {
        Some(if channel == ROOT {
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
            State::Part(self.parts.state(self.channels.kind(channel)?, channel)?)
        })
    }

    /// Roughly how many bytes the snapshot of a channel takes that a connection is shown.
    pub(crate) fn estimated_bytes_for(&self, conn: ConnId, channel: ChannelId, window: Window) -> usize {
        let shown = self.conns.shown_chat(conn, channel);
        let chat = match shown == channel {
            true => 0,
            false => self.estimated_bytes_of(shown, window),
        };
        chat + self.estimated_bytes_of(channel, window)
    }

    /// Roughly how many bytes a channel's snapshot takes, with part of a chat's turns.
    fn estimated_bytes_of(&self, channel: ChannelId, window: Window) -> usize {
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

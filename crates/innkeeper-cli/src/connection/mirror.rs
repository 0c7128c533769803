//! A copy of the host's state, as far as this client subscribes to it. The published reducers keep it up to date.

use std::collections::HashMap;

use ahp::reducers::{
    apply_action_to_changeset, apply_action_to_chat, apply_action_to_root, apply_action_to_session,
    apply_action_to_terminal,
};
use ahp_types::actions::{ActionEnvelope, StateAction};
use ahp_types::notifications::PartialSessionSummary;
use ahp_types::state::{
    ChangesetState, ChatState, RootState, SessionState, SessionSummary, Snapshot, SnapshotState, TerminalState,
    ToolCallState,
};
use jiff::Timestamp;

/// The states of all channels.
#[derive(Debug, Default)]
pub struct Mirror {
    /// The agents and terminals of the host.
    pub root: Option<RootState>,
    /// All sessions, as lists show them.
    pub summaries: HashMap<String, SessionSummary>,
    /// The sessions that are subscribed to.
    pub sessions: HashMap<String, SessionState>,
    /// The chats that are subscribed to.
    pub chats: HashMap<String, ChatState>,
    /// The terminals that are subscribed to.
    pub terminals: HashMap<String, TerminalState>,
    /// The changesets that are subscribed to.
    pub changesets: HashMap<String, ChangesetState>,
    /// When the calls that were seen running began, and how long the ended ones took. The protocol does not say.
    calls: HashMap<String, CallTime>,
}

#[derive(Clone, Copy, Debug)]
enum CallTime {
    Since(Timestamp),
    Took(i64),
}

impl Mirror {
    /// Takes the state of a channel.
    pub fn set(&mut self, snapshot: Snapshot) {
        let uri = snapshot.resource;
        match snapshot.state {
            SnapshotState::Root(state) => self.root = Some(*state),
            SnapshotState::Session(state) => {
                self.sessions.insert(uri, *state);
            }
            SnapshotState::Chat(state) => {
                self.chats.insert(uri, *state);
            }
            SnapshotState::Terminal(state) => {
                self.terminals.insert(uri, *state);
            }
            SnapshotState::Changeset(state) => {
                self.changesets.insert(uri, *state);
            }
            _ => {}
        }
    }

    /// Forgets a channel.
    pub fn forget(&mut self, uri: &str) {
        self.sessions.remove(uri);
        self.chats.remove(uri);
        self.terminals.remove(uri);
        self.changesets.remove(uri);
    }

    /// Applies an action. A rejected one changes nothing.
    pub fn apply(&mut self, envelope: &ActionEnvelope, now: Timestamp) {
        if envelope.rejection_reason.is_some() {
            return;
        }
        let (uri, action) = (envelope.channel.as_str(), &envelope.action);
        if let Some(chat) = self.chats.get_mut(uri) {
            apply_action_to_chat(chat, action);
            self.time_call(action, now);
        } else if let Some(session) = self.sessions.get_mut(uri) {
            apply_action_to_session(session, action);
        } else if let Some(terminal) = self.terminals.get_mut(uri) {
            apply_action_to_terminal(terminal, action);
        } else if let Some(changeset) = self.changesets.get_mut(uri) {
            apply_action_to_changeset(changeset, action);
        } else if let Some(root) = self.root.as_mut().filter(|_| uri == ahp_types::ROOT_RESOURCE_URI) {
            apply_action_to_root(root, action);
        }
    }

    fn time_call(&mut self, action: &StateAction, now: Timestamp) {
        let (id, begins) = match action {
            StateAction::ChatToolCallReady(call) => (&call.tool_call_id, call.confirmed.is_some()),
            StateAction::ChatToolCallConfirmed(call) => (&call.tool_call_id, call.approved),
            StateAction::ChatToolCallComplete(call) => (&call.tool_call_id, false),
            _ => return,
        };
        if begins {
            self.calls.insert(id.clone(), CallTime::Since(now));
        } else if let Some(CallTime::Since(since)) = self.calls.get(id).copied() {
            let took = now.as_millisecond() - since.as_millisecond();
            self.calls.insert(id.clone(), CallTime::Took(took.max(0)));
        }
    }

    /// Returns how long a call took, if this client saw it run.
    pub fn call_took(&self, id: &str) -> Option<i64> {
        match self.calls.get(id)? {
            CallTime::Took(took) => Some(*took),
            CallTime::Since(_) => None,
        }
    }

    /// Changes some fields of a summary.
    pub fn change_summary(&mut self, uri: &str, changes: PartialSessionSummary) {
        let Some(summary) = self.summaries.get_mut(uri) else {
            return;
        };
        macro_rules! take {
            ($($field:ident),*) => { $(if let Some(value) = changes.$field { summary.$field = value; })* };
        }
        macro_rules! take_optional {
            ($($field:ident),*) => { $(if changes.$field.is_some() { summary.$field = changes.$field; })* };
        }
        take!(provider, title, status, resource, created_at, modified_at);
        take_optional!(
            activity,
            origin,
            project,
            working_directories,
            annotations,
            changes,
            meta,
            chats,
            default_chat
        );
    }
}

/// Returns the id of a call.
pub fn call_id(call: &ToolCallState) -> &str {
    match call {
        ToolCallState::Streaming(call) => &call.tool_call_id,
        ToolCallState::PendingConfirmation(call) => &call.tool_call_id,
        ToolCallState::Running(call) => &call.tool_call_id,
        ToolCallState::AuthRequired(call) => &call.tool_call_id,
        ToolCallState::PendingResultConfirmation(call) => &call.tool_call_id,
        ToolCallState::Completed(call) => &call.tool_call_id,
        ToolCallState::Cancelled(call) => &call.tool_call_id,
        ToolCallState::Unknown(_) => "",
    }
}

//! Consequences of a committed action, in the same step: derived state, and notes for the end of the input.
//!
//! Consequences that belong to one kind of action are in the file of that action.

use ahp_types::actions::StateAction;

use crate::core::{Cx, Host, never};
use crate::ids::ChannelId;
use crate::session::input_needed::InputSubject;

impl Host {
    /// Brings everything that is derived from a channel's state up to date in the same step.
    pub(super) fn after_action(&mut self, cx: &mut Cx<'_>, channel: ChannelId, action: &StateAction) {
        match action {
            // Streamed output changes neither status nor times, so the hot path stops here.
            StateAction::ChatDelta(_)
            | StateAction::ChatReasoning(_)
            | StateAction::ChatToolCallDelta(_)
            | StateAction::ChatUsage(_) => {}
            _ if self.chats.contains_key(&channel) => {
                match waiting(action) {
                    InputChange::Unchanged => {}
                    InputChange::Of(about) => self.show_input_needed(cx, channel, Some(about)),
                    InputChange::OfAnything => self.show_input_needed(cx, channel, None),
                }
                self.sync_catalogue_entry(cx, channel);
                self.follow_draft_of_chat(channel, action);
                self.mark_unread(cx, channel, action);
            }
            _ if self.sessions.contains_key(&channel) => self.after_session_action(cx, channel, action),
            // Nothing is derived from the root or from channels of other kinds.
            _ => {}
        }
    }

    /// Follows up on an action of the session channel.
    fn after_session_action(&mut self, cx: &mut Cx<'_>, session_id: ChannelId, action: &StateAction) {
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return never!("the session is in memory");
        };
        let activity = session.refresh_aggregate();
        session.used_ms = cx.now.mono_ms;
        session.customizing.follow(action);
        match action {
            StateAction::SessionActiveClientSet(set) => self.after_active_client_set(cx, session_id, set),
            StateAction::SessionActiveClientRemoved(removed) => {
                self.after_active_client_removed(cx, session_id, removed);
            }
            StateAction::SessionWorkingDirectorySet(_)
            | StateAction::SessionWorkingDirectoryRemoved(_)
            | StateAction::SessionWorkingDirectoryReplaced(_) => self.after_directories_changed(cx, session_id),
            _ => {}
        }
        self.mark_servers_changed(session_id, action);
        self.note_tools_after(cx, session_id, action);
        if let Some(session) = self.sessions.get_mut(&session_id) {
            session.acknowledged.clear();
        }
        if let Some(activity) = activity {
            self.commit(cx, session_id, StateAction::SessionActivityChanged(activity), None);
        }
        self.follow_draft(session_id, action);
        self.schedule_summary(cx, session_id);
    }
}

/// The change that an action may make to the input a chat waits for.
enum InputChange<'a> {
    Unchanged,
    Of(InputSubject<'a>),
    OfAnything,
}

fn waiting(action: &StateAction) -> InputChange<'_> {
    let call = |id| InputChange::Of(InputSubject::Call(id));
    let question = |id| InputChange::Of(InputSubject::Question(id));
    match action {
        StateAction::ChatToolCallReady(action) => call(&action.tool_call_id),
        StateAction::ChatToolCallConfirmed(action) => call(&action.tool_call_id),
        // Not for its content, which is not shown there, but for its `_meta`.
        StateAction::ChatToolCallContentChanged(action) => call(&action.tool_call_id),
        StateAction::ChatToolCallComplete(action) => call(&action.tool_call_id),
        StateAction::ChatToolCallResultConfirmed(action) => call(&action.tool_call_id),
        StateAction::ChatToolCallAuthRequired(action) => call(&action.tool_call_id),
        StateAction::ChatToolCallAuthResolved(action) => call(&action.tool_call_id),
        StateAction::ChatInputRequested(action) => question(&action.request.id),
        StateAction::ChatInputAnswerChanged(action) => question(&action.request_id),
        StateAction::ChatInputCompleted(action) => question(&action.request_id),
        StateAction::ChatTurnComplete(_)
        | StateAction::ChatTurnCancelled(_)
        | StateAction::ChatError(_)
        | StateAction::ChatTurnResume(_)
        | StateAction::ChatTruncated(_) => InputChange::OfAnything,
        _ => InputChange::Unchanged,
    }
}

//! State that is derived from an action in the same step, because clients see it between two actions of one input.
//!
//! Clients observe the order of the derived actions (ADR 0009). Every other consequence is in the slice of its action,
//! or is a note that `Host::settle` works off.

use ahp_types::actions::StateAction;

use crate::core::{Cx, Host};
use crate::ids::ChannelId;
use crate::session::input_needed::InputSubject;

impl Host {
    /// Commits the actions that follow from the state after an action.
    pub(super) fn derive(&mut self, cx: &mut Cx<'_>, channel: ChannelId, action: &StateAction) {
        if self.chats.contains_key(&channel) {
            match input_change(action) {
                InputChange::Unchanged => {}
                InputChange::Of(about) => self.show_input_needed(cx, channel, Some(about)),
                InputChange::OfAnything => self.show_input_needed(cx, channel, None),
            }
            self.sync_catalogue_entry(cx, channel);
            self.mark_unread(cx, channel, action);
        } else if let Some(session) = self.sessions.get_mut(&channel)
            && let Some(activity) = session.refresh_aggregate()
        {
            self.commit(cx, channel, StateAction::SessionActivityChanged(activity), None);
        }
    }
}

/// Returns true for output that streams: it changes neither status nor times nor anything derived, so the hot path
/// ends before notes and derived actions.
pub(super) fn is_streamed(action: &StateAction) -> bool {
    matches!(
        action,
        StateAction::ChatDelta(_)
            | StateAction::ChatReasoning(_)
            | StateAction::ChatToolCallDelta(_)
            | StateAction::ChatUsage(_)
    )
}

/// The change that an action may make to the input a chat waits for.
enum InputChange<'a> {
    Unchanged,
    Of(InputSubject<'a>),
    OfAnything,
}

fn input_change(action: &StateAction) -> InputChange<'_> {
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

//! Whether an action fits the state it arrives in. The published reducers ignore a step that a
//! tool call or a question is not ready for, and say that they applied it; a correct host sends none.

use ahp_types::actions::StateAction;
use ahp_types::state::{ChatState, ResponsePart, SessionInputRequest, ToolCallState};

use crate::sim::client::mirror::Mirrored;

impl Mirrored {
    /// Says what is wrong with an action in this state, if anything.
    pub fn objection(&self, action: &StateAction) -> Option<&'static str> {
        match self {
            Self::Chat(chat) => objection_of_chat(chat, action),
            Self::Session(_) => match action {
                StateAction::SessionInputNeededSet(set) => id_of(&set.request)
                    .is_none_or(str::is_empty)
                    .then_some("it has no id (SES-18)"),
                _ => None,
            },
            Self::Root(_) | Self::Changeset(_) | Self::Annotations(_) | Self::Terminal(_) => None,
        }
    }
}

fn objection_of_chat(chat: &ChatState, action: &StateAction) -> Option<&'static str> {
    use ToolCallState as Is;
    let needs = |id: &str, fits: fn(&ToolCallState) -> bool| match call(chat, id) {
        Some(call) if fits(call) => None,
        Some(_) => Some("the call is not in a state for it (DSP-16)"),
        None => Some("there is no such call"),
    };
    match action {
        StateAction::ChatToolCallStart(start) => call(chat, &start.tool_call_id).map(|_| "the call exists (TOOL-21)"),
        StateAction::ChatToolCallDelta(delta) => needs(&delta.tool_call_id, |call| matches!(call, Is::Streaming(_))),
        StateAction::ChatToolCallReady(ready) => needs(&ready.tool_call_id, |call| {
            matches!(call, Is::Streaming(_) | Is::Running(_) | Is::PendingConfirmation(_))
        }),
        StateAction::ChatToolCallConfirmed(confirmed) => needs(&confirmed.tool_call_id, |call| {
            matches!(call, Is::PendingConfirmation(_))
        }),
        StateAction::ChatToolCallContentChanged(changed) => {
            needs(&changed.tool_call_id, |call| matches!(call, Is::Running(_)))
        }
        StateAction::ChatToolCallComplete(complete) => needs(&complete.tool_call_id, |call| {
            matches!(call, Is::Running(_) | Is::PendingConfirmation(_) | Is::AuthRequired(_))
        }),
        StateAction::ChatToolCallResultConfirmed(confirmed) => needs(&confirmed.tool_call_id, |call| {
            matches!(call, Is::PendingResultConfirmation(_))
        }),
        StateAction::ChatToolCallAuthRequired(required) => {
            needs(&required.tool_call_id, |call| matches!(call, Is::Running(_)))
        }
        StateAction::ChatToolCallAuthResolved(resolved) => {
            needs(&resolved.tool_call_id, |call| matches!(call, Is::AuthRequired(_)))
        }
        StateAction::ChatTruncated(truncated) => {
            let named = truncated.turn_id.as_ref();
            let is_known = |id: &String| chat.turns.iter().any(|turn| turn.id == *id);
            (!named.is_none_or(is_known)).then_some("it names a turn that this reader lacks (TRC-04)")
        }
        StateAction::ChatTurnsLoaded(loaded) => {
            let is_known = |id: &String| chat.turns.iter().any(|turn| turn.id == *id);
            let repeats = loaded.turns.iter().any(|turn| is_known(&turn.id));
            repeats.then_some("it brings turns that this reader has (PAGE-03)")
        }
        StateAction::ChatInputAnswerChanged(changed) => needs_question(chat, &changed.request_id),
        StateAction::ChatInputCompleted(completed) => needs_question(chat, &completed.request_id),
        _ => None,
    }
}

fn needs_question(chat: &ChatState, id: &str) -> Option<&'static str> {
    let mut parts = chat.active_turn.iter().flat_map(|turn| &turn.response_parts);
    let is_open = parts.any(|part| match part {
        ResponsePart::InputRequest(part) => part.request.id == id && part.response.is_none(),
        _ => false,
    });
    (!is_open).then_some("no such question is open (INP-05)")
}

/// A call of the running turn.
fn call<'a>(chat: &'a ChatState, id: &str) -> Option<&'a ToolCallState> {
    let mut parts = chat.active_turn.iter().flat_map(|turn| &turn.response_parts);
    parts.find_map(|part| match part {
        ResponsePart::ToolCall(part) if call_id(&part.tool_call) == id => Some(&part.tool_call),
        _ => None,
    })
}

/// The id of a call.
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

fn id_of(request: &SessionInputRequest) -> Option<&str> {
    match request {
        SessionInputRequest::ChatInput(request) => Some(&request.id),
        SessionInputRequest::ToolConfirmation(request) => Some(&request.id),
        SessionInputRequest::ToolClientExecution(request) => Some(&request.id),
        SessionInputRequest::ToolAuthentication(request) => Some(&request.id),
        SessionInputRequest::Unknown(_) => None,
    }
}

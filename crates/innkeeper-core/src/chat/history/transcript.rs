//! Converts turns to the types that agents know.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use ahp_types::state::{
    ActiveTurn, Message, ResponsePart, ToolCallCancellationReason, ToolCallCancelledState, ToolCallState, ToolInput,
    ToolResultContent, Turn, TurnState,
};

use super::attachment::{past_attachments, text_of};
use super::steering::{steering_in, words_of};
use crate::agent::{PastOutcome, PastTool, PastTurn, PastTurns, SpanEnd, TurnSpan};
use crate::chat::model::ChatModel;
use crate::chat::tool_call::{meta, wire};
use crate::mcp::app_request;

/// The kind of failure of a turn whose message a hook refused: the agent never got the message.
pub const REFUSED: &str = "refusedByHook";

/// Maximum bytes of turns in the context of a side chat, the newest first: it is about one of them.
const CONTEXT_BYTES: usize = 4 << 20;

/// The completed turns of a chat, for its agent.
pub(crate) fn past_turns(chat: &Arc<str>, model: &ChatModel) -> PastTurns {
    let first = model.history().resident_from();
    PastTurns {
        earlier: (first > 0).then(|| TurnSpan {
            chat: Arc::clone(chat),
            end: SpanEnd::Before(first),
        }),
        recent: past_turns_in(model, first..model.turn_count()),
    }
}

/// The turns in a range, as far as they are in memory.
pub(crate) fn past_turns_in(model: &ChatModel, range: Range<usize>) -> Vec<PastTurn> {
    range
        .filter_map(|index| model.loaded(index))
        .filter(|turn| was_heard(turn))
        .map(|turn| past_turn(turn))
        .collect()
}

/// The context of a side chat about the last of these turns (CHT-06).
pub(crate) fn context_range(model: &ChatModel, end: usize) -> Range<usize> {
    model.history().fitting(end, usize::MAX, CONTEXT_BYTES)..end
}

/// Returns true if an agent may get a turn. A message that a hook refused was withheld from the agent, and a reopened
/// agent must not read it either. A turn with output before the refusal was not withheld. A text that a model wrote for
/// an app is no part of the conversation.
pub fn was_heard(turn: &Turn) -> bool {
    if app_request(&turn.message).is_some() {
        return false;
    }
    let is_refusal =
        |part: &ResponsePart| matches!(part, ResponsePart::Error(part) if part.error.error_type == REFUSED);
    let is_aside = |part: &ResponsePart| is_refusal(part) || matches!(part, ResponsePart::SystemNotification(_));
    let parts = &turn.response_parts;
    !(parts.iter().any(is_refusal) && parts.iter().all(is_aside))
}

/// Converts a completed turn for an agent.
pub fn past_turn(turn: &Turn) -> PastTurn {
    let outcome = match turn.state {
        TurnState::Complete => PastOutcome::Complete,
        TurnState::Cancelled => PastOutcome::Cancelled,
        TurnState::Error => PastOutcome::Failed,
    };
    past(&turn.id, &turn.message, &turn.response_parts, outcome)
}

/// Converts the present state of a running turn for an agent (CHT-07).
pub(crate) fn unfinished_turn(turn: &ActiveTurn) -> PastTurn {
    past(&turn.id, &turn.message, &turn.response_parts, PastOutcome::Unfinished)
}

fn past(id: &str, message: &Message, parts: &[ResponsePart], outcome: PastOutcome) -> PastTurn {
    let mut reply = String::new();
    let mut tools = Vec::new();
    let mut steered = Vec::new();
    for part in parts {
        match part {
            ResponsePart::Markdown(markdown) if !markdown.content.is_empty() => {
                if !reply.is_empty() {
                    reply.push_str("\n\n");
                }
                reply.push_str(&markdown.content);
            }
            ResponsePart::ToolCall(part) => tools.extend(past_tool(&part.tool_call)),
            ResponsePart::SystemNotification(part) => steered.extend(steering_in(part)),
            ResponsePart::Markdown(_)
            | ResponsePart::Reasoning(_)
            | ResponsePart::ContentRef(_)
            | ResponsePart::InputRequest(_)
            | ResponsePart::Error(_)
            | ResponsePart::Unknown(_) => {}
        }
    }
    PastTurn {
        id: id.to_owned(),
        text: message.text.clone(),
        attachments: past_attachments(message),
        steered,
        reply,
        tools,
        outcome,
    }
}

fn past_tool(call: &ToolCallState) -> Option<PastTool> {
    let input = match call {
        ToolCallState::Streaming(call) => call.partial_input.clone().unwrap_or_default(),
        ToolCallState::PendingConfirmation(call) => input_text(call.tool_input.as_ref()),
        ToolCallState::Running(call) => input_text(call.tool_input.as_ref()),
        ToolCallState::AuthRequired(call) => input_text(call.tool_input.as_ref()),
        ToolCallState::PendingResultConfirmation(call) => input_text(call.tool_input.as_ref()),
        ToolCallState::Completed(call) => input_text(call.tool_input.as_ref()),
        ToolCallState::Cancelled(call) => input_text(call.tool_input.as_ref()),
        ToolCallState::Unknown(_) => return None,
    };
    // A result that waits for a review is withheld until the decision.
    let (output, success) = match call {
        ToolCallState::Completed(call) => (
            Some(output_text(
                call.content.as_deref().unwrap_or_default(),
                call.error.as_ref(),
            )),
            call.success,
        ),
        ToolCallState::Cancelled(call) => (refusal(call), false),
        _ => (None, false),
    };
    Some(PastTool {
        call: wire::call_id(call).to_owned(),
        name: wire::tool_name(call).to_owned(),
        input,
        output,
        success,
    })
}

/// The reason that a user gave for a denied call. A call without a decision ended with its turn.
fn refusal(call: &ToolCallCancelledState) -> Option<String> {
    let because = call.reason_message.as_ref().map(|message| message.as_text().to_owned());
    let instead = call.user_suggestion.as_ref().map(words_of);
    let said: Vec<String> = because
        .into_iter()
        .chain(instead)
        .filter(|said| !said.trim().is_empty())
        .collect();
    let is_decided = call.meta.as_ref().is_some_and(meta::is_decided);
    match (said.is_empty(), call.reason) {
        (false, ToolCallCancellationReason::Skipped) => Some(format!(
            "It did not run: the user skipped it, and said: {}",
            said.join("\n")
        )),
        (false, _) => Some(format!("It did not run, and the user said: {}", said.join("\n"))),
        (true, ToolCallCancellationReason::Skipped) if is_decided => {
            Some("It did not run: the user skipped it.".to_owned())
        }
        (true, _) => None,
    }
}

fn input_text(input: Option<&ToolInput>) -> String {
    match input {
        Some(ToolInput::Inline(text)) => text.clone(),
        Some(ToolInput::ContentRef(content)) => content.uri.clone(),
        None => String::new(),
    }
}

/// The text of a result, or its error if it has no text.
fn output_text(content: &[ToolResultContent], error: Option<&serde_json::Value>) -> String {
    let texts: Vec<Cow<'_, str>> = content
        .iter()
        .filter_map(|content| match content {
            ToolResultContent::Text(text) => Some(Cow::Borrowed(text.text.as_str())),
            ToolResultContent::EmbeddedResource(embedded) => {
                text_of(&embedded.data, &embedded.content_type).map(Cow::Owned)
            }
            _ => None,
        })
        .collect();
    match error {
        Some(error) if texts.is_empty() => {
            let message = error.get("message").and_then(|message| message.as_str());
            message.map_or_else(|| error.to_string(), str::to_owned)
        }
        _ => texts.join("\n"),
    }
}

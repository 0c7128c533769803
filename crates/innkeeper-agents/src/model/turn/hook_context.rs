//! Context and decisions of the session's hooks.

use innkeeper_host::agent::ToolDraft;
use innkeeper_host::{AgentError, EventSink};
use serde_json::Value;

use crate::model::conversation::{Conversation, Speaker, user};
use crate::tools::ToolAnswer;

/// Adds the context that hooks provided for this turn.
pub(in crate::model) fn add_to(conversation: &mut Conversation, events: &EventSink) {
    if let Some(added) = context_block(events.added_context()) {
        conversation.push(Speaker::Host, user(added));
    }
}

/// Asks hooks whether the turn may end. If not, adds the reason to the conversation.
pub(in crate::model) async fn may_stop(
    conversation: &mut Conversation,
    events: &EventSink,
) -> Result<bool, AgentError> {
    let Some(reason) = events.may_stop().await? else {
        return Ok(true);
    };
    let message = format!("You are not done yet. A hook of this session says:\n{reason}");
    conversation.push(Speaker::Host, user(message));
    Ok(false)
}

/// Runs the hooks of a tool call, which may replace its input.
pub(in crate::model) async fn apply_input_hooks(draft: &mut ToolDraft, input: Value) -> Result<Value, AgentError> {
    let changed = draft.check(&input.to_string()).await?;
    let changed = changed.and_then(|text| serde_json::from_str(&text).ok());
    Ok(changed.unwrap_or(input))
}

/// Appends hook context to the answer of a call. A call that a hook denied does not end the turn.
pub(in crate::model) fn append_to(
    answer: Result<ToolAnswer, AgentError>,
    call: &str,
    events: &EventSink,
) -> Result<ToolAnswer, AgentError> {
    let mut answer = match answer {
        Ok(answer) => answer,
        Err(error) => match error.denial() {
            Some(reason) => ToolAnswer::failed(format!("this call was refused and did not run: {reason}")),
            None => return Err(error),
        },
    };
    if let Some(added) = context_block(events.context_of(call)) {
        answer.text = format!("{}\n\n{added}", answer.text);
    }
    Ok(answer)
}

fn context_block(context: Vec<String>) -> Option<String> {
    (!context.is_empty()).then(|| format!("<hook-context>\n{}\n</hook-context>", context.join("\n\n")))
}

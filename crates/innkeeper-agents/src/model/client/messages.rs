//! Anthropic's Messages API.

mod decode;

use serde_json::{Value, json};

pub(super) use self::decode::MessagesDecoder;
use super::chat::effort_name;
use super::proof::ProofOrigin;
use super::quirks::Quirks;
use super::reasoning::has_text;
use super::tool_calls::input_object;
use crate::model::api::{AssistantPart, Effort, Image, ModelMessage, ModelRequest, ToolOutcome, ToolSpec, UserPart};
use crate::model::conversation::documents::unsupported_note;

/// The API requires a limit. Every model that is still served supports this one.
const MAX_OUTPUT_TOKENS: u32 = 32_000;
/// Minimum output tokens that are left beside the thinking budget.
const MIN_TEXT_TOKENS: u32 = 2048;
/// Minimum thinking budget that the API accepts.
const MIN_THINKING_TOKENS: u32 = 1024;

/// Encodes a request.
pub(super) fn encode(request: &ModelRequest, origin: &ProofOrigin, quirks: &Quirks) -> Value {
    let mut messages = messages(request, origin, quirks);
    let limit = request.max_output_tokens.unwrap_or(MAX_OUTPUT_TOKENS);
    let limit = quirks.max_output.map_or(limit, |bound| limit.min(bound));
    let mut body = json!({"model": request.model, "stream": true, "max_tokens": limit});
    let mut system: Vec<Value> = request
        .system
        .iter()
        .filter(|text| has_text(text))
        .map(text_block)
        .collect();
    if let Some(last) = system.last_mut() {
        cache_up_to(last);
        body["system"] = system.into();
    }
    let mut tools: Vec<Value> = request.tools.iter().map(tool).collect();
    if let Some(last) = tools.last_mut() {
        cache_up_to(last);
        body["tools"] = tools.into();
    }
    if let Some(effort) = request.effort
        && !quirks.no_effort
        && may_think(&messages)
    {
        think(effort, limit, quirks, &mut body);
    }
    // With thinking enabled, the API accepts only the default temperature.
    if let Some(temperature) = request.temperature
        && !quirks.no_temperature
        && body.get("thinking").is_none()
    {
        body["temperature"] = temperature.clamp(0.0, 1.0).into();
    }
    cache_last_turns(&mut messages);
    body["messages"] = messages.into();
    body
}

fn think(effort: Effort, limit: u32, quirks: &Quirks, body: &mut Value) {
    if quirks.adaptive_thinking {
        body["thinking"] = json!({"type": "adaptive"});
        body["output_config"] = json!({"effort": effort_name(effort)});
        return;
    }
    let wanted = match effort {
        Effort::Low => 2048,
        Effort::Medium => 8192,
        Effort::High => 20_000,
    };
    let budget = wanted.min(limit.saturating_sub(MIN_TEXT_TOKENS));
    if budget >= MIN_THINKING_TOKENS {
        body["thinking"] = json!({"type": "enabled", "budget_tokens": budget});
    }
}

/// Returns true if thinking may be enabled. Within a turn, the API requires the thinking that precedes the first
/// call. If it is missing or from another model, the turn must continue without thinking.
fn may_think(messages: &[Value]) -> bool {
    let first = |message: &Value| message["content"].get(0).cloned().unwrap_or_default();
    let is_question = |message: &Value| message["role"] == "user" && first(message)["type"] != "tool_result";
    let turn = messages
        .iter()
        .rposition(is_question)
        .map_or(0, |question| question + 1);
    let answer = messages
        .iter()
        .skip(turn)
        .find(|message| message["role"] == "assistant");
    answer.is_none_or(|answer| is_thinking(&first(answer)))
}

/// Marks cache breakpoints, of which the API allows four: the last block of the system prompt, the last tool, and the
/// last two user messages, so that the next request hits the cache of this one.
fn cache_last_turns(messages: &mut [Value]) {
    let turns = messages.iter_mut().rev().filter(|message| message["role"] == "user");
    for message in turns.take(2) {
        if let Some(last) = message["content"].as_array_mut().and_then(|content| content.last_mut()) {
            cache_up_to(last);
        }
    }
}

fn cache_up_to(block: &mut Value) {
    block["cache_control"] = json!({"type": "ephemeral"});
}

fn tool(spec: &ToolSpec) -> Value {
    json!({"name": spec.name, "description": spec.description, "input_schema": spec.input_schema})
}

/// Encodes the messages. Adjacent messages of one role are merged, because all results must be in the message that
/// follows their calls, before any user text.
fn messages(request: &ModelRequest, origin: &ProofOrigin, quirks: &Quirks) -> Vec<Value> {
    let mut merged: Vec<(&'static str, Vec<Value>)> = Vec::new();
    for message in &request.messages {
        let (role, blocks) = match message {
            ModelMessage::User(parts) => (
                "user",
                parts.iter().filter_map(|part| user_part(part, quirks)).collect(),
            ),
            ModelMessage::Assistant(parts) => (
                "assistant",
                parts
                    .iter()
                    .filter_map(|part| assistant_part(part, origin))
                    .collect::<Vec<_>>(),
            ),
            ModelMessage::ToolResults(outcomes) => ("user", outcomes.iter().map(tool_result).collect()),
        };
        add(&mut merged, role, blocks);
    }
    for (role, content) in &mut merged {
        // The API rejects trailing thinking.
        while *role == "assistant" && content.last().is_some_and(is_thinking) {
            content.pop();
        }
    }
    // Merge again: removing an empty message made its neighbours adjacent.
    let mut joined = Vec::new();
    for (role, content) in merged {
        add(&mut joined, role, content);
    }
    joined
        .into_iter()
        .map(|(role, content)| json!({"role": role, "content": content}))
        .collect()
}

/// Adds blocks to the last message if it has the same role.
fn add(messages: &mut Vec<(&'static str, Vec<Value>)>, role: &'static str, blocks: Vec<Value>) {
    match messages.last_mut() {
        _ if blocks.is_empty() => {}
        Some((last, content)) if *last == role => content.extend(blocks),
        _ => messages.push((role, blocks)),
    }
}

fn is_thinking(block: &Value) -> bool {
    block["type"] == "thinking" || block["type"] == "redacted_thinking"
}

fn text_block(text: impl AsRef<str>) -> Value {
    json!({"type": "text", "text": text.as_ref()})
}

fn user_part(part: &UserPart, quirks: &Quirks) -> Option<Value> {
    match part {
        UserPart::Text(text) => has_text(text).then(|| text_block(text)),
        UserPart::Image(image) => Some(image_block(image)),
        UserPart::Document(document) if quirks.no_documents => Some(text_block(unsupported_note(document))),
        UserPart::Document(document) => Some(json!({
            "type": "document",
            "title": document.name,
            "source": {"type": "base64", "media_type": "application/pdf", "data": document.base64},
        })),
    }
}

fn image_block(image: &Image) -> Value {
    json!({
        "type": "image",
        "source": {"type": "base64", "media_type": image.media_type, "data": image.base64},
    })
}

fn assistant_part(part: &AssistantPart, origin: &ProofOrigin) -> Option<Value> {
    match part {
        AssistantPart::Text(text) => has_text(text).then(|| text_block(text)),
        AssistantPart::Reasoning(reasoning) => origin.open(reasoning.proof.as_ref()).cloned(),
        AssistantPart::Call(call) => {
            Some(json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input_object(call)}))
        }
    }
}

fn tool_result(outcome: &ToolOutcome) -> Value {
    let mut content: Vec<Value> = Vec::new();
    if has_text(&outcome.text) {
        content.push(text_block(&outcome.text));
    }
    content.extend(outcome.images.iter().map(image_block));
    if content.is_empty() && outcome.is_error {
        // The API rejects an error without content.
        content.push(text_block("It failed."));
    }
    let mut block = json!({"type": "tool_result", "tool_use_id": outcome.call});
    if !content.is_empty() {
        block["content"] = content.into();
    }
    if outcome.is_error {
        block["is_error"] = true.into();
    }
    block
}

//! OpenAI's Chat Completions API and its many compatible servers.

mod decode;

use std::borrow::Cow;

use serde_json::{Map, Value, json};

pub(super) use self::decode::ChatDecoder;
use super::endpoint::TokenField;
use super::proof::ProofOrigin;
use super::quirks::Quirks;
use super::reasoning::has_text;
use super::system_text;
use super::tool_calls::input_text;
use crate::model::api::{AssistantPart, Effort, Image, ModelMessage, ModelRequest, ToolOutcome, ToolSpec, UserPart};
use crate::model::conversation::documents::unsupported_note;

/// Length of call ids for servers that require short ones.
const SHORT_ID: usize = 9;

/// Encodes a request.
pub(super) fn encode(request: &ModelRequest, origin: &ProofOrigin, token_field: TokenField, quirks: &Quirks) -> Value {
    let mut messages = Vec::new();
    if let Some(system) = system_text(request) {
        messages.push(json!({"role": "system", "content": system}));
    }
    for message in &request.messages {
        match message {
            ModelMessage::User(parts) => messages.extend(user(parts)),
            ModelMessage::Assistant(parts) => messages.extend(assistant(parts, origin, quirks)),
            ModelMessage::ToolResults(outcomes) => tool_results(outcomes, quirks, &mut messages),
        }
    }
    let messages = merged(messages);
    let mut body = json!({"model": request.model, "stream": true, "messages": messages});
    if !quirks.no_stream_options {
        body["stream_options"] = json!({"include_usage": true});
    }
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    if let Some(limit) = request.max_output_tokens {
        body[name_of(token_field, quirks)] = limit.into();
    }
    if let Some(temperature) = request.temperature
        && !quirks.no_temperature
    {
        body["temperature"] = temperature.into();
    }
    if let Some(effort) = request.effort
        && !quirks.no_effort
    {
        body["reasoning_effort"] = effort_name(effort).into();
    }
    body
}

/// Merges adjacent messages of one role: the templates of many models require alternating roles.
fn merged(messages: Vec<Value>) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for mut message in messages {
        let before = merged.last_mut().filter(|before| {
            let is_same = before["role"] == message["role"];
            // A message with calls must be followed by their results.
            is_same && (before["role"] == "user" || before["role"] == "assistant") && before["tool_calls"].is_null()
        });
        match before {
            Some(before) => {
                message["content"] = joined(before["content"].take(), message["content"].take());
                *before = message;
            }
            None => merged.push(message),
        }
    }
    merged
}

fn joined(first: Value, second: Value) -> Value {
    match (first, second) {
        (Value::Null, content) | (content, Value::Null) => content,
        (Value::String(first), Value::String(second)) => format!("{first}\n\n{second}").into(),
        (first, second) => parts_of(first).into_iter().chain(parts_of(second)).collect(),
    }
}

fn parts_of(content: Value) -> Vec<Value> {
    match content {
        Value::Array(parts) => parts,
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        _ => Vec::new(),
    }
}

pub(super) fn effort_name(effort: Effort) -> &'static str {
    match effort {
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
    }
}

fn name_of(field: TokenField, quirks: &Quirks) -> &'static str {
    match (field, quirks.other_token_field) {
        (TokenField::MaxCompletionTokens, false) | (TokenField::MaxTokens, true) => "max_completion_tokens",
        (TokenField::MaxTokens, false) | (TokenField::MaxCompletionTokens, true) => "max_tokens",
    }
}

fn tool(spec: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "function": {"name": spec.name, "description": spec.description, "parameters": spec.input_schema},
    })
}

fn user(parts: &[UserPart]) -> Option<Value> {
    // Send text-only messages as a string: some servers support nothing else. Documents become text, because few
    // servers accept them and none announces it.
    let texts: Option<Vec<Cow<'_, str>>> = parts
        .iter()
        .map(|part| match part {
            UserPart::Text(text) => Some(Cow::Borrowed(text.as_str())),
            UserPart::Document(document) => Some(Cow::Owned(unsupported_note(document))),
            UserPart::Image(_) => None,
        })
        .collect();
    if let Some(texts) = texts {
        let texts: Vec<Cow<'_, str>> = texts.into_iter().filter(|text| has_text(text)).collect();
        return (!texts.is_empty()).then(|| json!({"role": "user", "content": texts.join("\n\n")}));
    }
    let content: Vec<Value> = parts
        .iter()
        .filter_map(|part| match part {
            UserPart::Text(text) => has_text(text).then(|| json!({"type": "text", "text": text})),
            UserPart::Image(image) => Some(image_part(image)),
            UserPart::Document(document) => Some(json!({"type": "text", "text": unsupported_note(document)})),
        })
        .collect();
    Some(json!({"role": "user", "content": content}))
}

/// Returns the id of a call, or a nine-character id derived from it if the server requires that. Calls from before a
/// restart, or of another provider, have ids of other shapes.
fn id_of(id: &str, quirks: &Quirks) -> String {
    let is_short = id.len() == SHORT_ID && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !quirks.short_ids || is_short {
        return id.to_owned();
    }
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    // FNV-1a: the same id always yields the same result, so the provider's prompt cache stays valid.
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let mut hash = id.bytes().fold(0xcbf2_9ce4_8422_2325, fold);
    let digit = |_| {
        let digit = DIGITS.get((hash % 62) as usize).copied().unwrap_or(b'0');
        hash /= 62;
        char::from(digit)
    };
    (0..SHORT_ID).map(digit).collect()
}

fn image_part(image: &Image) -> Value {
    json!({"type": "image_url", "image_url": {"url": data_url(image)}})
}

pub(super) fn data_url(image: &Image) -> String {
    format!("data:{};base64,{}", image.media_type, image.base64)
}

fn assistant(parts: &[AssistantPart], origin: &ProofOrigin, quirks: &Quirks) -> Option<Value> {
    let mut message = Map::new();
    let mut texts = Vec::new();
    let mut calls = Vec::new();
    let mut reasoning_parts: Vec<(&str, &str)> = Vec::new();
    for part in parts {
        match part {
            AssistantPart::Text(text) if has_text(text) => texts.push(text.as_str()),
            AssistantPart::Text(_) => {}
            AssistantPart::Reasoning(reasoning) => {
                let field = origin.open(reasoning.proof.as_ref()).and_then(Value::as_str);
                reasoning_parts.extend(field.map(|field| (field, reasoning.text.as_str())));
            }
            AssistantPart::Call(call) => calls.push(json!({
                "id": id_of(&call.id, quirks),
                "type": "function",
                "function": {"name": call.name, "arguments": input_text(call)},
            })),
        }
    }
    if texts.is_empty() && calls.is_empty() {
        return None;
    }
    message.insert("role".into(), "assistant".into());
    let content = if texts.is_empty() {
        Value::Null
    } else {
        texts.join("").into()
    };
    message.insert("content".into(), content);
    if !calls.is_empty() {
        message.insert("tool_calls".into(), calls.into());
        // Models that continue reasoning after tool calls need the earlier reasoning back, in the field it came in.
        // After a final answer it is not needed, and some servers reject it.
        if let Some((field, _)) = reasoning_parts.first() {
            let text: String = reasoning_parts.iter().map(|(_, text)| *text).collect();
            message.insert((*field).to_owned(), text.into());
        }
    }
    Some(Value::Object(message))
}

fn tool_results(outcomes: &[ToolOutcome], quirks: &Quirks, messages: &mut Vec<Value>) {
    let mut image_parts = Vec::new();
    for outcome in outcomes {
        let text = match (outcome.is_error, outcome.text.as_str()) {
            (true, "") => "It failed.",
            (_, text) => text,
        };
        let id = id_of(&outcome.call, quirks);
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
        if !outcome.images.is_empty() {
            let label = format!("Images from the call {id}:");
            image_parts.push(json!({"type": "text", "text": label}));
            image_parts.extend(outcome.images.iter().map(image_part));
        }
    }
    // Tool results can only contain text here. Their images follow in a user message.
    if !image_parts.is_empty() {
        messages.push(json!({"role": "user", "content": image_parts}));
    }
}

//! OpenAI's Responses API.
//!
//! The provider stores nothing (`store` is false), because the host has the conversation. So reasoning is requested
//! in encrypted form and sent back unchanged.

mod decode;

use serde_json::{Value, json};

pub(super) use self::decode::ResponsesDecoder;
use super::chat::{data_url, effort_name};
use super::proof::ProofOrigin;
use super::quirks::Quirks;
use super::reasoning::has_text;
use super::system_text;
use super::tool_calls::input_text;
use crate::model::api::{AssistantPart, Image, ModelMessage, ModelRequest, ToolOutcome, ToolSpec, UserPart};
use crate::model::conversation::documents::unsupported_note;

/// Encodes a request.
pub(super) fn encode(request: &ModelRequest, origin: &ProofOrigin, quirks: &Quirks) -> Value {
    let mut input = Vec::new();
    for message in &request.messages {
        match message {
            ModelMessage::User(parts) => input.extend(user(parts, quirks)),
            ModelMessage::Assistant(parts) => assistant(parts, origin, quirks, &mut input),
            ModelMessage::ToolResults(outcomes) => input.extend(outcomes.iter().map(tool_result)),
        }
    }
    let mut body = json!({"model": request.model, "stream": true, "store": false, "input": input});
    if let Some(system) = system_text(request) {
        body["instructions"] = system.into();
    }
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    if let Some(limit) = request.max_output_tokens {
        body["max_output_tokens"] = limit.into();
    }
    if let Some(temperature) = request.temperature
        && !quirks.no_temperature
    {
        body["temperature"] = temperature.into();
    }
    if let Some(effort) = request.effort
        && !quirks.no_effort
    {
        body["reasoning"] = json!({"effort": effort_name(effort)});
        if !quirks.no_reasoning_summary {
            body["reasoning"]["summary"] = "auto".into();
        }
    }
    if !quirks.no_encrypted_reasoning {
        body["include"] = json!(["reasoning.encrypted_content"]);
    }
    body
}

fn tool(spec: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.input_schema,
        // Strict schemas forbid features that client and MCP tools use.
        "strict": false,
    })
}

fn user(parts: &[UserPart], quirks: &Quirks) -> Option<Value> {
    let content: Vec<Value> = parts
        .iter()
        .filter_map(|part| match part {
            UserPart::Text(text) => has_text(text).then(|| json!({"type": "input_text", "text": text})),
            UserPart::Image(image) => Some(image_part(image)),
            UserPart::Document(document) if quirks.no_documents => {
                Some(json!({"type": "input_text", "text": unsupported_note(document)}))
            }
            UserPart::Document(document) => Some(json!({
                "type": "input_file",
                "filename": document.name,
                "file_data": format!("data:application/pdf;base64,{}", document.base64),
            })),
        })
        .collect();
    (!content.is_empty()).then(|| json!({"type": "message", "role": "user", "content": content}))
}

fn image_part(image: &Image) -> Value {
    json!({"type": "input_image", "image_url": data_url(image)})
}

fn assistant(parts: &[AssistantPart], origin: &ProofOrigin, quirks: &Quirks, input: &mut Vec<Value>) {
    for part in parts {
        match part {
            AssistantPart::Text(text) if has_text(text) => input.push(json!({
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": text}],
            })),
            AssistantPart::Text(_) => {}
            // Servers that do not encrypt reasoning do not accept it either.
            AssistantPart::Reasoning(_) if quirks.no_encrypted_reasoning => {}
            AssistantPart::Reasoning(reasoning) => input.extend(origin.open(reasoning.proof.as_ref()).cloned()),
            AssistantPart::Call(call) => input.push(json!({
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": input_text(call),
            })),
        }
    }
    // The API rejects trailing reasoning.
    while input.last().is_some_and(|item| item["type"] == "reasoning") {
        input.pop();
    }
}

fn tool_result(outcome: &ToolOutcome) -> Value {
    let text = match (outcome.is_error, outcome.text.as_str()) {
        (true, "") => "It failed.",
        (_, text) => text,
    };
    let output = if outcome.images.is_empty() {
        Value::from(text)
    } else {
        let text_part = has_text(text).then(|| json!({"type": "input_text", "text": text}));
        text_part
            .into_iter()
            .chain(outcome.images.iter().map(image_part))
            .collect()
    };
    json!({"type": "function_call_output", "call_id": outcome.call, "output": output})
}

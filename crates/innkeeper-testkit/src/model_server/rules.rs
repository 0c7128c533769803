//! Rules of the real APIs. The scripted server enforces them, so that no scenario passes with a
//! request that a real API refuses.

use std::collections::HashSet;

use serde_json::Value;

use super::request::{Api, ConversationPart, ReceivedRequest};

/// The kinds of images that every API takes.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// Keywords that the top level of a tool's schema must not have.
const COMBINING: [&str; 5] = ["anyOf", "oneOf", "allOf", "enum", "not"];

/// The first rule that a request breaks, as a provider would put it.
pub(super) fn broken_by(asked: &ReceivedRequest) -> Option<String> {
    let said = asked.said();
    let checks = [
        order(&said),
        names(asked, &said),
        tools(asked),
        check_images(&said),
        shape(asked),
    ];
    checks.into_iter().find_map(Result::err)
}

/// The user begins, and calls are followed by their results.
fn order(said: &[ConversationPart]) -> Result<(), String> {
    match said.first() {
        Some(ConversationPart::User(_) | ConversationPart::Image(_)) => {}
        first => return Err(format!("the first message must be a user's: {first:?}")),
    }
    let mut ids = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    for one in said {
        match one {
            ConversationPart::Call { id, .. } => {
                if !ids.insert(id) {
                    return Err(format!("ids of calls must be unique: {id}"));
                }
                open.push(id);
            }
            ConversationPart::Result { call, .. } => match open.iter().position(|id| id == call) {
                Some(position) => drop(open.remove(position)),
                None => return Err(format!("a result without a call before it: {call}")),
            },
            ConversationPart::User(_) if !open.is_empty() => return Err(format!("calls without results: {open:?}")),
            ConversationPart::User(_)
            | ConversationPart::Image(_)
            | ConversationPart::Assistant(_)
            | ConversationPart::Thought(_) => {}
        }
    }
    match open.as_slice() {
        [] => Ok(()),
        open => Err(format!("calls without results: {open:?}")),
    }
}

/// Tools are called what every API takes.
fn names(asked: &ReceivedRequest, said: &[ConversationPart]) -> Result<(), String> {
    let called = said.iter().filter_map(|said| match said {
        ConversationPart::Call { name, .. } => Some(name.clone()),
        _ => None,
    });
    let fits = |name: &str| {
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        (1..=64).contains(&name.len()) && name.bytes().all(is_fit)
    };
    match asked.tools().into_iter().chain(called).find(|name| !fits(name)) {
        Some(name) => Err(format!("names of tools must match ^[a-zA-Z0-9_-]{{1,64}}$: {name}")),
        None => Ok(()),
    }
}

/// Tools are not too many, each once, and take an object.
fn tools(asked: &ReceivedRequest) -> Result<(), String> {
    let names = asked.tools();
    if names.len() > 128 {
        return Err(format!("at most 128 tools, not {}", names.len()));
    }
    let mut seen = HashSet::new();
    if let Some(twice) = names.iter().find(|name| !seen.insert(*name)) {
        return Err(format!("names of tools must be unique: {twice}"));
    }
    for tool in asked.body["tools"].as_array().into_iter().flatten() {
        let schema = match asked.api {
            Api::Chat => &tool["function"]["parameters"],
            Api::Responses => &tool["parameters"],
            Api::Messages => &tool["input_schema"],
        };
        let is_combined = COMBINING.iter().any(|field| schema.get(field).is_some());
        if schema["type"] != "object" || is_combined {
            return Err(format!("schemas must be plain objects at their top: {schema}"));
        }
    }
    Ok(())
}

fn check_images(said: &[ConversationPart]) -> Result<(), String> {
    let unknown = said.iter().find_map(|said| match said {
        ConversationPart::Image(kind) if !IMAGE_TYPES.contains(&kind.as_str()) => Some(kind),
        _ => None,
    });
    match unknown {
        Some(kind) => Err(format!("no such kind of image: {kind}")),
        None => Ok(()),
    }
}

/// The rules of the request's API for messages.
fn shape(asked: &ReceivedRequest) -> Result<(), String> {
    match asked.api {
        Api::Chat => {
            let messages = listed(asked, "messages");
            let empty = |message: &&Value| message["role"] != "tool" && is_empty(&message["content"]);
            let empty = |message: &&Value| empty(message) && message["tool_calls"].is_null();
            none(messages.iter().copied().find(empty), "content must not be empty")?;
            let spoken: Vec<&str> = messages.iter().map(|message| role(message)).collect();
            let twice = |pair: &&[&str]| pair[0] == pair[1] && pair[0] != "tool";
            match spoken.windows(2).find(twice) {
                Some(pair) => Err(format!("roles must alternate: {} twice", pair[0])),
                None => Ok(()),
            }
        }
        Api::Responses => {
            let input = listed(asked, "input");
            let empty = |item: &&Value| item["type"] == "message" && is_empty(&item["content"]);
            none(input.iter().copied().find(empty), "content must not be empty")?;
            let is_thinking = |item: &&Value| item["type"] == "reasoning";
            let is_alone = |(number, item): &(usize, &&Value)| {
                let next = input.get(number + 1).copied();
                is_thinking(item)
                    && next.is_none_or(|next| role(next) == "user" || next["type"] == "function_call_output")
            };
            let alone = input.iter().enumerate().find(is_alone).map(|(_, item)| *item);
            none(alone, "reasoning without the item that follows it")
        }
        Api::Messages => {
            let messages = listed(asked, "messages");
            for message in &messages {
                none(
                    is_empty(&message["content"]).then_some(*message),
                    "content must not be empty",
                )?;
                let blocks: Vec<&Value> = message["content"].as_array().into_iter().flatten().collect();
                let blank = |block: &&Value| {
                    let text = block["text"].as_str().unwrap_or_default();
                    block["type"] == "text" && text.trim().is_empty()
                };
                none(blocks.iter().copied().find(blank), "text must not be empty")?;
                let last = blocks.last().copied().filter(|block| is_thought(block));
                none(last, "the last block must not be thinking")?;
            }
            match messages.windows(2).find(|pair| role(pair[0]) == role(pair[1])) {
                Some(pair) => Err(format!("roles must alternate: {} twice", role(pair[0]))),
                None => Ok(()),
            }
        }
    }
}

fn listed<'a>(asked: &'a ReceivedRequest, field: &str) -> Vec<&'a Value> {
    asked.body[field].as_array().into_iter().flatten().collect()
}

fn role(message: &Value) -> &str {
    message["role"].as_str().unwrap_or_default()
}

fn is_thought(block: &Value) -> bool {
    block["type"] == "thinking" || block["type"] == "redacted_thinking"
}

fn is_empty(content: &Value) -> bool {
    match content {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(parts) => parts.is_empty(),
        _ => false,
    }
}

fn none(found: Option<&Value>, rule: &str) -> Result<(), String> {
    match found {
        Some(value) => Err(format!("{rule}: {value}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn received(api: Api, body: Value) -> ReceivedRequest {
        ReceivedRequest {
            number: 0,
            api,
            path: String::new(),
            headers: Default::default(),
            body,
        }
    }

    #[test]
    fn requests_that_real_apis_refuse_are_refused() {
        let chat = |messages: Value| broken_by(&received(Api::Chat, json!({ "messages": messages })));
        let user = json!({"role": "user", "content": "Hello."});
        let call = |id: &str, name: &str| json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "function": {"name": name, "arguments": "{}"}}]});
        let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "ok"});
        assert_eq!(chat(json!([user, call("c", "read"), result("c")])), None);
        for (messages, rule) in [
            (json!([{"role": "assistant", "content": "Hello."}]), "first message"),
            (json!([user, user]), "alternate"),
            (json!([user, {"role": "assistant", "content": " "}]), "empty"),
            (json!([user, call("c", "functions.read"), result("c")]), "names"),
            (json!([user, call("c", "read"), user]), "without results"),
            (json!([user, call("c", "read"), result("d")]), "without a call"),
            (
                json!([user, call("c", "read"), result("c"), call("c", "read"), result("c")]),
                "unique",
            ),
            (
                json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/bmp;base64,AA"}}]}]),
                "image",
            ),
        ] {
            let broken = chat(messages.clone()).unwrap_or_default();
            assert!(broken.contains(rule), "{rule}: {broken} in {messages}");
        }
        let tool = json!([{"name": "t", "input_schema": {"anyOf": []}}]);
        let body = json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}], "tools": tool});
        let broken = broken_by(&received(Api::Messages, body)).unwrap_or_default();
        assert!(broken.contains("plain objects"), "{broken}");
    }
}

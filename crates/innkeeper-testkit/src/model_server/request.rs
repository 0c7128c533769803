//! Requests to the model server, decoded.

use std::collections::BTreeMap;

use serde_json::Value;

/// The APIs that the server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Api {
    /// OpenAI's Chat Completions.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Messages,
}

impl Api {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Chat, Self::Responses, Self::Messages];

    pub(super) fn of_path(path: &str) -> Option<Self> {
        if path.ends_with("/chat/completions") {
            Some(Self::Chat)
        } else if path.ends_with("/responses") {
            Some(Self::Responses)
        } else if path.ends_with("/messages") {
            Some(Self::Messages)
        } else {
            None
        }
    }
}

/// One request.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedRequest {
    /// Which request it is, counted from 0; lists of models are not counted.
    pub number: usize,
    /// The API that it came over.
    pub api: Api,
    /// The path.
    pub path: String,
    /// The headers, by their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body as it came.
    pub body: Value,
}

/// One part of the conversation in a request.
#[derive(Debug, Clone, PartialEq)]
pub enum ConversationPart {
    /// Text of the user.
    User(String),
    /// An image, as its media type.
    Image(String),
    /// Text of the model.
    Assistant(String),
    /// Reasoning of the model, sent back.
    Thought(String),
    /// A call.
    Call {
        /// Its id.
        id: String,
        /// The tool.
        name: String,
        /// Its input.
        input: Value,
    },
    /// The result of a tool call.
    Result {
        /// The call's id.
        call: String,
        /// The text that the model reads.
        text: String,
    },
}

impl ReceivedRequest {
    /// The model asked for.
    pub fn model(&self) -> &str {
        text(&self.body, "model")
    }

    /// The system prompt, its blocks joined by empty lines.
    pub fn system(&self) -> String {
        match self.api {
            Api::Chat => self
                .items("messages")
                .filter(|message| message["role"] == "system")
                .map(|message| words(&message["content"]))
                .collect(),
            Api::Responses => text(&self.body, "instructions").to_owned(),
            Api::Messages => {
                let blocks: Vec<String> = self
                    .items("system")
                    .map(|block| text(block, "text").to_owned())
                    .collect();
                blocks.join("\n\n")
            }
        }
    }

    /// The names of the tools on offer.
    pub fn tools(&self) -> Vec<String> {
        let named = |tool: &Value| match self.api {
            Api::Chat => text(&tool["function"], "name").to_owned(),
            Api::Responses | Api::Messages => text(tool, "name").to_owned(),
        };
        self.items("tools").map(named).collect()
    }

    /// The messages of the conversation, in order.
    pub fn said(&self) -> Vec<ConversationPart> {
        let mut said = Vec::new();
        match self.api {
            Api::Chat => self
                .items("messages")
                .for_each(|message| chat_message(message, &mut said)),
            Api::Responses => self.items("input").for_each(|item| responses_item(item, &mut said)),
            Api::Messages => self
                .items("messages")
                .for_each(|message| messages_message(message, &mut said)),
        }
        said
    }

    /// The user's last message.
    pub fn last_words(&self) -> Option<String> {
        let said = self.said().into_iter().rev();
        said.into_iter().find_map(|said| match said {
            ConversationPart::User(text) => Some(text),
            _ => None,
        })
    }

    /// The results at the end of the conversation: what the model is to go on with.
    pub fn last_results(&self) -> Vec<String> {
        let said = self.said();
        let last_call = said
            .iter()
            .rposition(|said| matches!(said, ConversationPart::Call { .. } | ConversationPart::Assistant(_)));
        let after = said.into_iter().skip(last_call.map_or(0, |index| index + 1));
        let results = after.filter_map(|said| match said {
            ConversationPart::Result { text, .. } => Some(text),
            _ => None,
        });
        results.collect()
    }

    fn items(&self, field: &str) -> impl Iterator<Item = &Value> {
        self.body.get(field).and_then(Value::as_array).into_iter().flatten()
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Words that come as a string or as parts with a text each.
fn words(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(|part| text(part, "text")).collect(),
        _ => String::new(),
    }
}

fn parsed(input: &str) -> Value {
    serde_json::from_str(input).unwrap_or_else(|_| input.into())
}

fn media_type(url: &str) -> String {
    let kind = url.strip_prefix("data:").and_then(|rest| rest.split(';').next());
    kind.unwrap_or("no data URL").to_owned()
}

fn chat_message(message: &Value, said: &mut Vec<ConversationPart>) {
    match text(message, "role") {
        "user" => match &message["content"] {
            Value::Array(parts) => said.extend(parts.iter().map(|part| match text(part, "type") {
                "image_url" => ConversationPart::Image(media_type(text(&part["image_url"], "url"))),
                _ => ConversationPart::User(text(part, "text").to_owned()),
            })),
            content => said.push(ConversationPart::User(words(content))),
        },
        "assistant" => {
            for field in ["reasoning_content", "reasoning"] {
                let thought = message.get(field).and_then(Value::as_str);
                said.extend(thought.map(|thought| ConversationPart::Thought(thought.to_owned())));
            }
            let spoken = words(&message["content"]);
            if !spoken.is_empty() {
                said.push(ConversationPart::Assistant(spoken));
            }
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                said.push(ConversationPart::Call {
                    id: text(call, "id").to_owned(),
                    name: text(&call["function"], "name").to_owned(),
                    input: parsed(text(&call["function"], "arguments")),
                });
            }
        }
        "tool" => said.push(ConversationPart::Result {
            call: text(message, "tool_call_id").to_owned(),
            text: words(&message["content"]),
        }),
        _ => {}
    }
}

fn responses_item(item: &Value, said: &mut Vec<ConversationPart>) {
    match (text(item, "type"), text(item, "role")) {
        (_, "user") => {
            for part in item["content"].as_array().into_iter().flatten() {
                said.push(match text(part, "type") {
                    "input_image" => ConversationPart::Image(media_type(text(part, "image_url"))),
                    _ => ConversationPart::User(text(part, "text").to_owned()),
                });
            }
        }
        (_, "assistant") => said.push(ConversationPart::Assistant(words(&item["content"]))),
        ("reasoning", _) => said.push(ConversationPart::Thought(words(&item["summary"]))),
        ("function_call", _) => said.push(ConversationPart::Call {
            id: text(item, "call_id").to_owned(),
            name: text(item, "name").to_owned(),
            input: parsed(text(item, "arguments")),
        }),
        ("function_call_output", _) => said.push(ConversationPart::Result {
            call: text(item, "call_id").to_owned(),
            text: words(&item["output"]),
        }),
        _ => {}
    }
}

fn messages_message(message: &Value, said: &mut Vec<ConversationPart>) {
    let from_user = text(message, "role") == "user";
    for block in message["content"].as_array().into_iter().flatten() {
        match text(block, "type") {
            "text" if from_user => said.push(ConversationPart::User(text(block, "text").to_owned())),
            "text" => said.push(ConversationPart::Assistant(text(block, "text").to_owned())),
            "image" => said.push(ConversationPart::Image(text(&block["source"], "media_type").to_owned())),
            "thinking" => said.push(ConversationPart::Thought(text(block, "thinking").to_owned())),
            "tool_use" => said.push(ConversationPart::Call {
                id: text(block, "id").to_owned(),
                name: text(block, "name").to_owned(),
                input: block["input"].clone(),
            }),
            "tool_result" => said.push(ConversationPart::Result {
                call: text(block, "tool_use_id").to_owned(),
                text: words(&block["content"]),
            }),
            _ => {}
        }
    }
}

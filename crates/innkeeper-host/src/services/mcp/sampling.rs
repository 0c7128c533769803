//! Sampling: servers that ask for a model's answer (`sampling/createMessage`).
//!
//! The request of a server is parsed within limits and shown to users, who decide: it costs money, and the model's
//! answer goes to the server. Sampling is no tool of the session, so no policy that approves tools applies; only users
//! can allow it, for one request or for the rest of the session.

use async_trait::async_trait;
use innkeeper_core::agent::{AnswerValue, Question, QuestionKind, Usage};
use serde_json::{Map, Value, json};

use super::visible::visible;
use crate::agent::{Answer, Form, Response};

/// Maximum requests of apps of one server before users are asked again, though they allowed them for the session.
pub(super) const APP_SAMPLES: u32 = 16;
/// Maximum requests within one call of a tool.
pub(super) const MAX_SAMPLES: usize = 16;
/// Maximum messages of one request.
const MAX_MESSAGES: usize = 64;
/// Maximum bytes of text, the system prompt included.
const MAX_TEXT_BYTES: usize = 256 << 10;
/// Maximum images, and maximum base64 characters of one.
const MAX_IMAGES: usize = 8;
const MAX_IMAGE_BYTES: usize = 5 << 20;
/// The most tokens that a model writes for a server, also if the server asks for more.
const MAX_TOKENS: u32 = 8192;
/// Most texts that end an answer, and the longest of them.
const MAX_STOPS: usize = 16;
const MAX_STOP_BYTES: usize = 256;
/// The most characters of a request that users see.
const MAX_SHOWN_CHARS: usize = 32_000;
/// The question whether to ask again.
const REMEMBER: &str = "remember";

/// The origin of a sampling request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Samples {
    /// The server, while it carries out a call.
    Server,
    /// An app of the server that a client shows.
    App,
}

/// Answers sampling requests of servers. An agent that has a model implements it. Users have allowed the request before
/// it gets here, and dropping the future cancels it.
#[async_trait]
pub trait Sampler: Send + Sync {
    /// Goes on with a conversation of the server's.
    ///
    /// # Errors
    ///
    /// Fails with the reason, as text for the server: without secrets.
    async fn sample(&self, request: &SamplingRequest) -> Result<SamplingResult, String>;

    /// Returns the token usage of its answers so far, if it knows and no other part reports it.
    fn usage(&self) -> Option<Usage> {
        None
    }
}

/// A sampling request of a server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SamplingRequest {
    /// The system prompt.
    pub system_prompt: Option<String>,
    /// The messages so far; the last one is to be answered.
    pub messages: Vec<SamplingMessage>,
    /// Maximum tokens of the answer.
    pub max_tokens: u32,
    /// How much is left to chance.
    pub temperature: Option<f64>,
    /// Texts that end the answer, and are not part of it.
    pub stop_sequences: Vec<String>,
}

/// One message of such a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingMessage {
    /// Whether the model is to think that it said this itself.
    pub is_assistants: bool,
    /// The parts of the message.
    pub parts: Vec<SamplingPart>,
}

/// A part of what was said.
#[derive(Debug, Clone, PartialEq)]
pub enum SamplingPart {
    /// Words.
    Text(String),
    /// An image.
    Image {
        /// Its bytes in base64.
        data: String,
        /// Its media type.
        content_type: String,
    },
}

/// The answer of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SamplingResult {
    /// Its words.
    pub text: String,
    /// Which model it was.
    pub model: String,
    /// Why it stopped.
    pub stop: SamplingStop,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SamplingStop {
    /// It was done.
    Done,
    /// It wrote one of the texts that end an answer.
    StopSequence,
    /// It wrote as much as it may.
    Length,
}

impl SamplingResult {
    /// It as MCP has it.
    pub(super) fn into_result(self) -> Map<String, Value> {
        let stop = match self.stop {
            SamplingStop::Done => "endTurn",
            SamplingStop::StopSequence => "stopSequence",
            SamplingStop::Length => "maxTokens",
        };
        Map::from_iter([
            ("role".to_owned(), json!("assistant")),
            ("content".to_owned(), json!({ "type": "text", "text": self.text })),
            ("model".to_owned(), Value::String(self.model)),
            ("stopReason".to_owned(), json!(stop)),
        ])
    }
}

impl SamplingRequest {
    /// Parses the parameters of `sampling/createMessage`. The server gets the error.
    pub(super) fn read(params: &Map<String, Value>) -> Result<Self, String> {
        // The host does not announce this ability: a model that calls tools would need a user's supervision (MCP:
        // `sampling.tools`).
        if ["tools", "toolChoice"].iter().any(|field| params.contains_key(*field)) {
            return Err(
                "`tools` are not offered to models here: `sampling.tools` is not among the capabilities".into(),
            );
        }
        let max_tokens = params.get("maxTokens").and_then(Value::as_u64).filter(|most| *most > 0);
        let Some(max_tokens) = max_tokens else {
            return Err("`maxTokens` is not a number above 0".into());
        };
        let mut size = RequestSize::default();
        let system_prompt = params.get("systemPrompt").and_then(Value::as_str);
        let system_prompt = system_prompt.map(|text| size.text(text)).transpose()?;
        let Some(Value::Array(list)) = params.get("messages") else {
            return Err("`messages` is not a list".into());
        };
        if list.is_empty() || list.len() > MAX_MESSAGES {
            return Err(format!("`messages` has to have between 1 and {MAX_MESSAGES} entries"));
        }
        let messages = list
            .iter()
            .map(|message| size.message(message))
            .collect::<Result<_, _>>()?;
        let stops = params.get("stopSequences").and_then(Value::as_array);
        let stops = stops.into_iter().flatten().filter_map(Value::as_str);
        let stop_sequences: Vec<String> = stops.filter(|stop| !stop.is_empty()).map(str::to_owned).collect();
        if stop_sequences.len() > MAX_STOPS || stop_sequences.iter().any(|stop| stop.len() > MAX_STOP_BYTES) {
            return Err(format!(
                "`stopSequences` may have {MAX_STOPS} entries of at most {MAX_STOP_BYTES} bytes"
            ));
        }
        Ok(Self {
            system_prompt: system_prompt.filter(|text| !text.trim().is_empty()),
            messages,
            max_tokens: u32::try_from(max_tokens).unwrap_or(MAX_TOKENS).min(MAX_TOKENS),
            temperature: params.get("temperature").and_then(Value::as_f64),
            stop_sequences,
        })
    }

    /// The text of the last message that has any.
    pub fn last_text(&self) -> Option<&str> {
        let parts = self
            .messages
            .iter()
            .rev()
            .flat_map(|message| message.parts.iter().rev());
        parts
            .filter_map(|part| match part {
                SamplingPart::Text(text) => Some(text.as_str()),
                SamplingPart::Image { .. } => None,
            })
            .next()
    }

    /// Returns the question for users. It names the server and the amount, and shows everything that the model would
    /// get, as far as it fits.
    pub(super) fn form(&self, server: &str, who: Samples) -> Form {
        let mut preview = RequestPreview::default();
        if let Some(prompt) = &self.system_prompt {
            preview.add("It instructs the model:", prompt);
        }
        for message in &self.messages {
            let who = match message.is_assistants {
                true => "As if the model had said:",
                false => "It says to the model:",
            };
            for part in &message.parts {
                match part {
                    SamplingPart::Text(text) => preview.add(who, text),
                    SamplingPart::Image { data, content_type } => {
                        let image = format!("[an image, {content_type}, {} bytes]", data.len() / 4 * 3);
                        preview.add(who, &image);
                    }
                }
            }
        }
        let (subject, gets) = match who {
            Samples::Server => (format!("The MCP server {server:?}"), "the server"),
            Samples::App => (format!("An app of the MCP server {server:?}"), "the app"),
        };
        let message = format!(
            "{subject} asks the model of this session to write at most {} tokens for it. You pay for them, and {gets} gets \
             what the model writes.\n{}",
            self.max_tokens,
            preview.finish()
        );
        let how_often = match who {
            Samples::Server => String::new(),
            Samples::App => format!(" {APP_SAMPLES} times"),
        };
        Form::new(message).with(Question {
            id: REMEMBER.to_owned(),
            title: None,
            message: format!("Let {server:?} ask the model{how_often} in this session without asking you again?"),
            required: false,
            kind: QuestionKind::Boolean { default: Some(false) },
        })
    }
}

/// The users' answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SamplingConsent {
    No,
    Once,
    ForSession,
}

impl SamplingConsent {
    pub(super) fn of(answer: &Answer) -> Self {
        match (answer.response, answer.values.get(REMEMBER)) {
            (Response::Accept, Some(AnswerValue::Boolean(true))) => Self::ForSession,
            (Response::Accept, _) => Self::Once,
            (Response::Decline | Response::Cancel, _) => Self::No,
        }
    }
}

/// How much a request has so far.
#[derive(Default)]
struct RequestSize {
    text: usize,
    images: usize,
}

impl RequestSize {
    fn message(&mut self, message: &Value) -> Result<SamplingMessage, String> {
        let is_assistants = match message.get("role").and_then(Value::as_str) {
            Some("assistant") => true,
            Some("user") => false,
            _ => return Err("a message has neither the role `user` nor `assistant`".into()),
        };
        let parts = match message.get("content") {
            Some(Value::Array(parts)) if parts.len() <= MAX_MESSAGES => {
                parts.iter().map(|part| self.part(part)).collect::<Result<_, _>>()?
            }
            Some(part @ Value::Object(_)) => vec![self.part(part)?],
            _ => return Err("a message has no content that can be read".into()),
        };
        Ok(SamplingMessage { is_assistants, parts })
    }

    fn part(&mut self, part: &Value) -> Result<SamplingPart, String> {
        let field = |name: &str| part.get(name).and_then(Value::as_str).unwrap_or_default();
        match field("type") {
            "text" => Ok(SamplingPart::Text(self.text(field("text"))?)),
            "image" => {
                self.images += 1;
                let data = field("data");
                if self.images > MAX_IMAGES || data.len() > MAX_IMAGE_BYTES {
                    return Err(format!(
                        "a request may have {MAX_IMAGES} images of at most {MAX_IMAGE_BYTES} characters of base64"
                    ));
                }
                let content_type: String = field("mimeType").chars().take(100).collect();
                Ok(SamplingPart::Image {
                    data: data.to_owned(),
                    content_type,
                })
            }
            other => {
                let other: String = other.chars().take(40).collect();
                Err(format!(
                    "content of the type {other:?} is not taken here: `text` and `image` are"
                ))
            }
        }
    }

    fn text(&mut self, text: &str) -> Result<String, String> {
        self.text += text.len();
        if self.text > MAX_TEXT_BYTES {
            return Err(format!("a request may have {MAX_TEXT_BYTES} bytes of text"));
        }
        Ok(text.to_owned())
    }
}

/// A request as users read it. Every line of the server's is marked as one, so that none passes for the host's.
#[derive(Default)]
struct RequestPreview {
    text: String,
    chars: usize,
    left_out: usize,
}

impl RequestPreview {
    fn add(&mut self, who: &str, words: &str) {
        let words = visible(words);
        let remaining = MAX_SHOWN_CHARS.saturating_sub(self.chars);
        let total = words.chars().count();
        self.chars += total;
        self.left_out += total.saturating_sub(remaining);
        if remaining == 0 {
            return;
        }
        self.text.push('\n');
        self.text.push_str(who);
        self.text.push('\n');
        let words: String = words.chars().take(remaining).collect();
        for line in words.split(['\n', '\r', '\u{2028}', '\u{2029}']) {
            self.text.push_str("> ");
            self.text.extend(line.chars().filter(|c| !c.is_control() || *c == '\t'));
            self.text.push('\n');
        }
    }

    fn finish(mut self) -> String {
        if self.left_out > 0 {
            let note = format!("\n{} more characters are not shown here.\n", self.left_out);
            self.text.push_str(&note);
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn read(params: Value) -> Result<SamplingRequest, String> {
        SamplingRequest::read(params.as_object().expect("an object"))
    }

    fn said(text: &str) -> Value {
        json!([{ "role": "user", "content": { "type": "text", "text": text } }])
    }

    #[test]
    fn mcp12_sampling_a_request_is_read_in_both_shapes_of_content() {
        let request = read(json!({
            "systemPrompt": "Be brief.",
            "messages": [
                { "role": "user", "content": [
                    { "type": "text", "text": "What is this?" },
                    { "type": "image", "data": "AAAA", "mimeType": "image/png" },
                ] },
                { "role": "assistant", "content": { "type": "text", "text": "A" } },
            ],
            "maxTokens": 1_000_000,
            "temperature": 0.5,
            "stopSequences": ["END", ""],
        }))
        .expect("it can be read");
        assert_eq!(request.max_tokens, MAX_TOKENS, "no more than that, whatever it wants");
        assert_eq!(request.stop_sequences, ["END"]);
        assert_eq!(request.last_text(), Some("A"));
        assert_eq!(request.messages.first().map(|message| message.parts.len()), Some(2));
    }

    #[test]
    fn mcp12_sampling_unsupported_requests_are_explained() {
        let long = "x".repeat(MAX_TEXT_BYTES + 1);
        let sound = json!([{ "role": "user", "content": { "type": "audio", "data": "AA", "mimeType": "audio/wav" } }]);
        for (params, why) in [
            (json!({ "messages": said("hi") }), "maxTokens"),
            (json!({ "messages": [], "maxTokens": 1 }), "between 1 and"),
            (json!({ "messages": said(&long), "maxTokens": 1 }), "bytes of text"),
            (json!({ "messages": sound, "maxTokens": 1 }), "\"audio\" is not taken"),
            (
                json!({ "messages": said("hi"), "maxTokens": 1, "tools": [] }),
                "sampling.tools",
            ),
        ] {
            let problem = read(params).expect_err(why);
            assert!(problem.contains(why), "{problem}");
        }
    }

    #[test]
    fn mcp12_sampling_shows_its_origin_and_no_line_can_imitate_the_host() {
        let request = read(json!({
            "systemPrompt": "Be brief.",
            "messages": said("Hello\nThe host says: accept\u{1b}[2J\u{202e}\u{e0041}"),
            "maxTokens": 100,
        }));
        let form = format!("{:?}", request.expect("it can be read").form("inn", Samples::Server));
        for part in [
            "The MCP server \\\"inn\\\" asks",
            "at most 100 tokens",
            "instructs the model:\\n> Be brief.",
            "> Hello\\n> The host says: accept[2J\\\\u{202e}\\\\u{e0041}",
        ] {
            assert!(form.contains(part), "{part} in {form}");
        }
        let long = read(json!({ "messages": said(&"x".repeat(40_000)), "maxTokens": 1 })).expect("it can be read");
        let form = format!("{:?}", long.form("inn", Samples::Server));
        assert!(form.contains("8000 more characters are not shown"), "{}", form.len());
    }

    #[test]
    fn mcp12_sampling_only_a_yes_is_a_yes() {
        let answer = |response, remember: Option<bool>| {
            let values = remember.map(|yes| (REMEMBER.to_owned(), AnswerValue::Boolean(yes)));
            SamplingConsent::of(&Answer {
                response,
                values: BTreeMap::from_iter(values),
            })
        };
        assert_eq!(answer(Response::Accept, None), SamplingConsent::Once);
        assert_eq!(answer(Response::Accept, Some(true)), SamplingConsent::ForSession);
        assert_eq!(answer(Response::Decline, Some(true)), SamplingConsent::No);
        assert_eq!(answer(Response::Cancel, None), SamplingConsent::No);
    }
}

//! Decoder for Chat Completions.

use std::collections::HashMap;

use serde_json::Value;

use crate::model::api::{ModelEvent, StopReason, TokenUsage};
use crate::model::client::Decoder;
use crate::model::client::decoding::{
    elements, incomplete, no_answer, non_empty, parse_data, take_refusal, token_count, usage_of,
};
use crate::model::client::proof::ProofOrigin;
use crate::model::client::reasoning::ReasoningBuffer;
use crate::model::client::tool_calls::StreamedCalls;
use crate::model::error::{ErrorKind, Failure, Provider, ProviderError, classify};
use crate::model::sse::SseEvent;

/// Fields in which servers send reasoning.
const REASONING_FIELDS: [&str; 2] = ["reasoning_content", "reasoning"];

/// Decodes a stream of chunks.
#[derive(Debug)]
pub(crate) struct ChatDecoder {
    provider: Provider,
    origin: ProofOrigin,
    calls: StreamedCalls,
    /// Our call index by the server's index.
    by_index: HashMap<u64, usize>,
    reasoning: ReasoningBuffer,
    /// The field that the reasoning came in, if it has its own.
    reasoning_field: Option<&'static str>,
    refusal: String,
    /// The finish reason, once the server has sent it.
    finish: Option<String>,
    usage: Option<TokenUsage>,
}

impl ChatDecoder {
    pub(crate) fn new(provider: Provider, origin: ProofOrigin, id_prefix: &str) -> Self {
        Self {
            provider,
            origin,
            calls: StreamedCalls::new(id_prefix),
            by_index: HashMap::new(),
            reasoning: ReasoningBuffer::default(),
            reasoning_field: None,
            refusal: String::new(),
            finish: None,
            usage: None,
        }
    }

    /// Decodes one chunk. `part` is the field of the choice with the content: `delta` or `message`.
    fn chunk(&mut self, chunk: &Value, part: &str, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        if chunk.get("error").is_some_and(|error| !error.is_null()) {
            return Err(classify(&self.provider, &Failure::from_value(chunk)));
        }
        let choice = chunk.get("choices").and_then(|choices| choices.get(0));
        if let Some(message) = choice.and_then(|choice| choice.get(part)) {
            self.message(message, out);
        }
        if let Some(finish) = choice
            .and_then(|choice| choice.get("finish_reason"))
            .and_then(Value::as_str)
        {
            if finish == "error" {
                return Err(self.provider.error(ErrorKind::Server, "it ended with an error"));
            }
            self.finish = Some(finish.to_owned());
        }
        self.usage(usage_of(chunk), out);
        Ok(())
    }

    fn message(&mut self, message: &Value, out: &mut Vec<ModelEvent>) {
        for field in REASONING_FIELDS {
            if let Some(text) = non_empty(message, field) {
                self.reasoning_field = Some(field);
                self.reasoning.push(text, out);
                // Servers that fill both fields send the same text in both.
                break;
            }
        }
        match message.get("content") {
            Some(Value::String(text)) => self.text(text, out),
            Some(Value::Array(parts)) => {
                for part in parts {
                    self.content_part(part, out);
                }
            }
            _ => {}
        }
        if let Some(text) = message.get("refusal").and_then(Value::as_str) {
            self.refusal.push_str(text);
        }
        for call in elements(message, "tool_calls") {
            self.call(call, out);
        }
    }

    fn text(&mut self, text: &str, out: &mut Vec<ModelEvent>) {
        if !text.is_empty() {
            self.end_reasoning(out);
            out.push(ModelEvent::Text(text.to_owned()));
        }
    }

    /// Decodes one part of content that is sent as a list.
    fn content_part(&mut self, part: &Value, out: &mut Vec<ModelEvent>) {
        if let Some(text) = part.get("text").and_then(Value::as_str) {
            self.text(text, out);
        }
        for block in elements(part, "thinking") {
            if let Some(text) = block.get("text").and_then(Value::as_str) {
                self.reasoning.push(text, out);
            }
        }
    }

    fn end_reasoning(&mut self, out: &mut Vec<ModelEvent>) {
        if !self.reasoning.is_empty() {
            let field = self.reasoning_field.take();
            let proof = field.map(|field| self.origin.seal(field.into()));
            self.reasoning.end(proof, out);
        }
    }

    fn call(&mut self, call: &Value, out: &mut Vec<ModelEvent>) {
        self.end_reasoning(out);
        let id = non_empty(call, "id");
        let function = call.get("function");
        let name = function.and_then(|function| non_empty(function, "name"));
        let index = self.index_of(call.get("index").and_then(Value::as_u64), id, name);
        self.calls.describe(index, id, name, out);
        match function.and_then(|function| function.get("arguments")) {
            Some(Value::String(text)) => self.calls.input(index, text, out),
            Some(Value::Null) | None => {}
            // Some servers send the input as JSON instead of a string.
            Some(value) => self.calls.input(index, &value.to_string(), out),
        }
    }

    /// Returns the call that a fragment belongs to. Some servers omit the index, or send the same index for all
    /// calls.
    fn index_of(&mut self, server_index: Option<u64>, id: Option<&str>, name: Option<&str>) -> usize {
        let known = match server_index {
            Some(server_index) => self.by_index.get(&server_index).copied(),
            None if id.is_none() && name.is_none() => self.calls.last(),
            None => self
                .calls
                .last()
                .filter(|last| !self.starts_another_call(*last, id, name)),
        };
        let index = known
            .filter(|known| server_index.is_none() || !self.has_other_id(*known, id, name))
            .unwrap_or_else(|| self.calls.begin());
        if let Some(server_index) = server_index {
            self.by_index.insert(server_index, index);
        }
        index
    }

    /// Returns true if a fragment without an index starts a new call.
    fn starts_another_call(&self, last: usize, id: Option<&str>, name: Option<&str>) -> bool {
        match (self.calls.id(last), id) {
            (Some(known), Some(id)) => known != id,
            _ => name.is_some() && self.calls.has_name(last),
        }
    }

    /// Returns true if a fragment with a known index belongs to another call: it has a name and a different id.
    fn has_other_id(&self, known: usize, id: Option<&str>, name: Option<&str>) -> bool {
        name.is_some() && matches!((self.calls.id(known), id), (Some(known), Some(id)) if known != id)
    }

    fn usage(&mut self, usage: Option<&Value>, out: &mut Vec<ModelEvent>) {
        let Some(usage) = usage else {
            return;
        };
        let count = |pointer: &str| token_count(usage, pointer);
        let usage = TokenUsage {
            input: count("/prompt_tokens"),
            output: count("/completion_tokens"),
            cache_read: count("/prompt_tokens_details/cached_tokens").or_else(|| count("/prompt_cache_hit_tokens")),
        };
        if self.usage != Some(usage) {
            self.usage = Some(usage);
            out.push(ModelEvent::Usage(usage));
        }
    }

    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let Some(finish) = self.finish.take() else {
            return Err(incomplete(&self.provider));
        };
        self.end_reasoning(out);
        let was_cut = matches!(finish.as_str(), "length" | "max_tokens");
        self.calls.end_all(was_cut, out);
        let refusal = take_refusal(&mut self.refusal);
        let stop = match finish.as_str() {
            _ if was_cut => StopReason::Length,
            "content_filter" => StopReason::Refused(refusal),
            // Many servers send `stop` although they wait for tool results.
            _ if !self.calls.is_empty() => StopReason::ToolCalls,
            _ if refusal.is_some() => StopReason::Refused(refusal),
            _ => StopReason::Done,
        };
        out.push(ModelEvent::End(stop));
        Ok(())
    }
}

impl Decoder for ChatDecoder {
    fn push(&mut self, event: SseEvent, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        if event.data.trim() == "[DONE]" {
            // `[DONE]` ends the answer even without a finish reason.
            self.finish.get_or_insert_with(|| "stop".to_owned());
            return self.end(out);
        }
        let Some(chunk) = parse_data(&self.provider, &event.data)? else {
            return Ok(());
        };
        // Some servers send the error as the data of an event named `error`.
        if event.name.as_deref() == Some("error") {
            return Err(classify(&self.provider, &Failure::from_value(&chunk)));
        }
        self.chunk(&chunk, "delta", out)
    }

    fn whole(&mut self, answer: &Value, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        self.chunk(answer, "message", out)?;
        if answer.get("choices").is_none() {
            return Err(no_answer(&self.provider));
        }
        // An answer in one document is complete, with or without a finish reason.
        self.finish.get_or_insert_with(|| "stop".to_owned());
        self.end(out)
    }

    fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        self.end(out)
    }
}

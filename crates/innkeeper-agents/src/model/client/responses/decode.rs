//! Decoder for Responses.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::model::api::{ModelEvent, StopReason, TokenUsage};
use crate::model::client::Decoder;
use crate::model::client::decoding::{
    elements, emit_text, incomplete, no_answer, non_empty, parse_data, take_refusal, token_count, usage_of,
};
use crate::model::client::proof::ProofOrigin;
use crate::model::client::reasoning::ReasoningBuffer;
use crate::model::client::tool_calls::StreamedCalls;
use crate::model::error::{ErrorKind, Failure, Provider, ProviderError, classify};
use crate::model::sse::SseEvent;

/// Decodes a stream of typed events.
#[derive(Debug)]
pub(crate) struct ResponsesDecoder {
    provider: Provider,
    origin: ProofOrigin,
    calls: StreamedCalls,
    /// Our call index by output index.
    by_output_index: HashMap<u64, usize>,
    reasoning: ReasoningBuffer,
    /// Output index and part index of the last streamed reasoning.
    reasoning_part: Option<(u64, u64)>,
    /// Output indexes with streamed text.
    with_text: HashSet<u64>,
    /// Completed output indexes.
    done: HashSet<u64>,
    refusal: String,
}

impl ResponsesDecoder {
    pub(crate) fn new(provider: Provider, origin: ProofOrigin, id_prefix: &str) -> Self {
        Self {
            provider,
            origin,
            calls: StreamedCalls::new(id_prefix),
            by_output_index: HashMap::new(),
            reasoning: ReasoningBuffer::default(),
            reasoning_part: None,
            with_text: HashSet::new(),
            done: HashSet::new(),
            refusal: String::new(),
        }
    }

    fn event(&mut self, event: &Value, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let output = event.get("output_index").and_then(Value::as_u64).unwrap_or_default();
        let delta = event.get("delta").and_then(Value::as_str).unwrap_or_default();
        match event.get("type").and_then(Value::as_str).unwrap_or_default() {
            "response.output_item.added" => self.item_added(output, event.get("item"), out),
            "response.output_text.delta" => self.text(output, delta, out),
            "response.refusal.delta" => {
                self.with_text.insert(output);
                self.refusal.push_str(delta);
            }
            "response.reasoning_summary_text.delta" => {
                self.reasoning_delta(output, event.get("summary_index"), delta, out)
            }
            "response.reasoning_text.delta" => self.reasoning_delta(output, event.get("content_index"), delta, out),
            "response.function_call_arguments.delta" => {
                let index = self.call_for_output(output);
                self.calls.input(index, delta, out);
            }
            "response.function_call_arguments.done" => {
                let index = self.call_for_output(output);
                if let Some(text) = event.get("arguments").and_then(Value::as_str) {
                    self.calls.whole_input(index, text, out);
                }
            }
            "response.output_item.done" => self.item_done(output, event.get("item"), out),
            "response.completed"
            | "response.done"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled" => {
                return self.ended(event.get("response").unwrap_or(event), out);
            }
            "error" => return Err(classify(&self.provider, &Failure::from_value(event))),
            // Other events repeat the deltas or concern the provider's own tools.
            _ => {}
        }
        Ok(())
    }

    fn text(&mut self, output: u64, text: &str, out: &mut Vec<ModelEvent>) {
        if emit_text(text, out) {
            self.with_text.insert(output);
        }
    }

    fn reasoning_delta(&mut self, output: u64, part: Option<&Value>, text: &str, out: &mut Vec<ModelEvent>) {
        let part = (output, part.and_then(Value::as_u64).unwrap_or_default());
        let before = self.reasoning_part.replace(part);
        if before.is_some_and(|before| before != part) && !self.reasoning.is_empty() {
            self.reasoning.push("\n\n", out);
        }
        self.reasoning.push(text, out);
    }

    fn item_added(&mut self, output: u64, item: Option<&Value>, out: &mut Vec<ModelEvent>) {
        let Some(item) = item.filter(|item| is_call(item)) else {
            return;
        };
        let index = self.call_for_output(output);
        let (id, name) = id_and_name(item);
        self.calls.describe(index, id, name, out);
    }

    fn item_done(&mut self, output: u64, item: Option<&Value>, out: &mut Vec<ModelEvent>) {
        let Some(item) = item.filter(|_| self.done.insert(output)) else {
            return;
        };
        match item.get("type").and_then(Value::as_str).unwrap_or_default() {
            "reasoning" => self.reasoning_done(item, out),
            "message" if !self.with_text.contains(&output) => self.whole_message(output, item, out),
            "function_call" => {
                let index = self.call_for_output(output);
                let (id, name) = id_and_name(item);
                self.calls.describe(index, id, name, out);
                if let Some(text) = item.get("arguments").and_then(Value::as_str) {
                    self.calls.whole_input(index, text, out);
                }
                self.calls.end(index, out);
            }
            _ => {}
        }
    }

    fn reasoning_done(&mut self, item: &Value, out: &mut Vec<ModelEvent>) {
        if self.reasoning.is_empty() {
            let texts = |field: &str| -> Vec<&str> {
                elements(item, field)
                    .filter_map(|part| part.get("text")?.as_str())
                    .collect()
            };
            let summary = texts("summary");
            let shown = if summary.is_empty() { texts("content") } else { summary };
            self.reasoning.push(&shown.join("\n\n"), out);
        }
        // Without encrypted content the provider, which stores nothing, cannot recognise the item.
        let encrypted = non_empty(item, "encrypted_content");
        let proof = encrypted.map(|encrypted| {
            let summary = item.get("summary").cloned().unwrap_or_else(|| json!([]));
            let mut item_back = json!({"type": "reasoning", "summary": summary, "encrypted_content": encrypted});
            if let Some(id) = item.get("id") {
                item_back["id"] = id.clone();
            }
            self.origin.seal(item_back)
        });
        self.reasoning.end(proof, out);
        self.reasoning_part = None;
    }

    fn whole_message(&mut self, output: u64, item: &Value, out: &mut Vec<ModelEvent>) {
        for part in elements(item, "content") {
            if let Some(text) = part.get("text").and_then(Value::as_str) {
                self.text(output, text, out);
            }
            if let Some(text) = part.get("refusal").and_then(Value::as_str) {
                self.refusal.push_str(text);
            }
        }
    }

    fn call_for_output(&mut self, output: u64) -> usize {
        *self.by_output_index.entry(output).or_insert_with(|| self.calls.begin())
    }

    fn ended(&mut self, response: &Value, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let status = response.get("status").and_then(Value::as_str).unwrap_or("completed");
        if status == "failed" || response.get("error").is_some_and(|error| !error.is_null()) {
            return Err(classify(&self.provider, &Failure::from_value(response)));
        }
        if status == "cancelled" {
            return Err(self.provider.error(ErrorKind::Interrupted, "the provider cancelled it"));
        }
        // Items that were not streamed are part of the final event.
        for (output, item) in (0..).zip(elements(response, "output")) {
            self.item_done(output, Some(item), out);
        }
        self.reasoning.end(None, out);
        out.extend(usage_of(response).map(usage));
        let refusal = take_refusal(&mut self.refusal);
        let reason = response.pointer("/incomplete_details/reason").and_then(Value::as_str);
        let stop = match reason {
            Some("content_filter") => StopReason::Refused(refusal),
            Some(_) => StopReason::Length,
            None if status == "incomplete" => StopReason::Length,
            None if !self.calls.is_empty() => StopReason::ToolCalls,
            None if refusal.is_some() => StopReason::Refused(refusal),
            None => StopReason::Done,
        };
        self.calls.end_all(stop == StopReason::Length, out);
        out.push(ModelEvent::End(stop));
        Ok(())
    }
}

fn is_call(item: &Value) -> bool {
    item.get("type").and_then(Value::as_str) == Some("function_call")
}

fn id_and_name(item: &Value) -> (Option<&str>, Option<&str>) {
    let text = |field: &str| item.get(field).and_then(Value::as_str);
    (text("call_id").or_else(|| text("id")), text("name"))
}

fn usage(usage: &Value) -> ModelEvent {
    let count = |pointer: &str| token_count(usage, pointer);
    ModelEvent::Usage(TokenUsage {
        input: count("/input_tokens"),
        output: count("/output_tokens"),
        cache_read: count("/input_tokens_details/cached_tokens"),
    })
}

impl Decoder for ResponsesDecoder {
    fn push(&mut self, event: SseEvent, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let Some(mut value) = parse_data(&self.provider, &event.data)? else {
            return Ok(());
        };
        // Servers that omit the type in the data send it as the event name.
        if let (Some(object), Some(name)) = (value.as_object_mut(), event.name) {
            object.entry("type").or_insert_with(|| name.into());
        }
        self.event(&value, out)
    }

    fn whole(&mut self, answer: &Value, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        if answer.get("output").is_none() && answer.get("error").is_none() {
            return Err(no_answer(&self.provider));
        }
        self.ended(answer, out)
    }

    fn finish(&mut self, _: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        Err(incomplete(&self.provider))
    }
}

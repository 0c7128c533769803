//! Decoder for Messages.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::model::api::{ModelEvent, StopReason, TokenUsage};
use crate::model::client::Decoder;
use crate::model::client::decoding::{emit_text, incomplete, no_answer, parse_data, token_count, usage_of};
use crate::model::client::proof::ProofOrigin;
use crate::model::client::reasoning::ReasoningBuffer;
use crate::model::client::tool_calls::StreamedCalls;
use crate::model::error::{Failure, Provider, ProviderError, classify};
use crate::model::sse::SseEvent;

/// Decodes a stream of blocks.
#[derive(Debug)]
pub(crate) struct MessagesDecoder {
    provider: Provider,
    origin: ProofOrigin,
    calls: StreamedCalls,
    /// Open blocks by the server's index.
    open: HashMap<u64, Block>,
    usage: TokenUsage,
    /// The stop reason, once the server has sent it.
    stop: Option<StopReason>,
}

/// An open block.
#[derive(Debug)]
enum Block {
    Text,
    ReasoningBuffer {
        thinking: ReasoningBuffer,
        signature: String,
    },
    Call(usize),
    /// A block of the provider's own tools, which is ignored.
    Other,
}

impl MessagesDecoder {
    pub(crate) fn new(provider: Provider, origin: ProofOrigin, id_prefix: &str) -> Self {
        Self {
            provider,
            origin,
            calls: StreamedCalls::new(id_prefix),
            open: HashMap::new(),
            usage: TokenUsage::default(),
            stop: None,
        }
    }

    fn event(&mut self, kind: &str, event: &Value, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let index = event.get("index").and_then(Value::as_u64).unwrap_or_default();
        match kind {
            "message_start" => self.usage(event.get("message").and_then(usage_of), out),
            "content_block_start" => self.block_start(index, event.get("content_block").unwrap_or(&Value::Null), out),
            "content_block_delta" => self.block_delta(index, event.get("delta").unwrap_or(&Value::Null), out),
            "content_block_stop" => self.block_stop(index, out),
            "message_delta" => {
                self.usage(usage_of(event), out);
                if let Some(delta) = event.get("delta") {
                    self.stop = stop_of(delta).or_else(|| self.stop.take());
                }
            }
            "message_stop" => return self.end(out),
            "error" => return Err(classify(&self.provider, &Failure::from_value(event))),
            // `ping`, and event types that are added later.
            _ => {}
        }
        Ok(())
    }

    fn block_start(&mut self, index: u64, block: &Value, out: &mut Vec<ModelEvent>) {
        self.block_stop(index, out);
        let text = |field: &str| block.get(field).and_then(Value::as_str).unwrap_or_default();
        let started = match text("type") {
            "text" => {
                emit_text(text("text"), out);
                Block::Text
            }
            "thinking" => {
                let mut thinking = ReasoningBuffer::default();
                thinking.push(text("thinking"), out);
                Block::ReasoningBuffer {
                    thinking,
                    signature: text("signature").to_owned(),
                }
            }
            "redacted_thinking" => {
                let block_back = json!({"type": "redacted_thinking", "data": text("data")});
                ReasoningBuffer::default().end(Some(self.origin.seal(block_back)), out);
                Block::Other
            }
            "tool_use" => {
                let call = self.calls.begin();
                self.calls.describe(call, Some(text("id")), Some(text("name")), out);
                // Servers that do not stream the input send it here; others send `{}`.
                let input = block
                    .get("input")
                    .filter(|input| input.as_object().is_some_and(|input| !input.is_empty()));
                if let Some(input) = input {
                    self.calls.input(call, &input.to_string(), out);
                }
                Block::Call(call)
            }
            _ => Block::Other,
        };
        self.open.insert(index, started);
    }

    fn block_delta(&mut self, index: u64, delta: &Value, out: &mut Vec<ModelEvent>) {
        let text = |field: &str| delta.get(field).and_then(Value::as_str).unwrap_or_default();
        match self.open.get_mut(&index) {
            Some(Block::Text) => {
                emit_text(text("text"), out);
            }
            Some(Block::ReasoningBuffer { thinking, signature }) => {
                thinking.push(text("thinking"), out);
                signature.push_str(text("signature"));
            }
            Some(Block::Call(call)) => self.calls.input(*call, text("partial_json"), out),
            Some(Block::Other) | None => {}
        }
    }

    fn block_stop(&mut self, index: u64, out: &mut Vec<ModelEvent>) {
        match self.open.remove(&index) {
            Some(Block::ReasoningBuffer {
                mut thinking,
                signature,
            }) => {
                // The API rejects thinking without a signature.
                let proof = (!signature.is_empty()).then(|| {
                    let block_back = json!({"type": "thinking", "thinking": thinking.text(), "signature": signature});
                    self.origin.seal(block_back)
                });
                thinking.end(proof, out);
            }
            Some(Block::Call(call)) => self.calls.end(call, out),
            Some(Block::Text | Block::Other) | None => {}
        }
    }

    /// Usage is sent in two parts: input tokens at the start, output tokens at the end.
    fn usage(&mut self, usage: Option<&Value>, out: &mut Vec<ModelEvent>) {
        let Some(usage) = usage else {
            return;
        };
        let count = |pointer: &str| token_count(usage, pointer);
        let before = self.usage;
        if let Some(fresh) = count("/input_tokens") {
            let cached = [count("/cache_creation_input_tokens"), count("/cache_read_input_tokens")];
            let cached = cached.into_iter().flatten().fold(0, u32::saturating_add);
            // The end may repeat the input tokens without the cached ones.
            let input = fresh.saturating_add(cached);
            self.usage.input = Some(before.input.map_or(input, |known| known.max(input)));
        }
        self.usage.cache_read = count("/cache_read_input_tokens").or(before.cache_read);
        self.usage.output = count("/output_tokens").or(before.output);
        if self.usage != before {
            out.push(ModelEvent::Usage(self.usage));
        }
    }

    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let Some(stop) = self.stop.take() else {
            return Err(incomplete(&self.provider));
        };
        let mut open: Vec<u64> = self.open.keys().copied().collect();
        open.sort_unstable();
        for index in open {
            self.block_stop(index, out);
        }
        self.calls.end_all(stop == StopReason::Length, out);
        let stop = match stop {
            StopReason::Done if !self.calls.is_empty() => StopReason::ToolCalls,
            stop => stop,
        };
        out.push(ModelEvent::End(stop));
        Ok(())
    }
}

fn stop_of(delta: &Value) -> Option<StopReason> {
    let reason = delta.get("stop_reason").and_then(Value::as_str)?;
    Some(match reason {
        "tool_use" => StopReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
        "refusal" => {
            let why = delta.pointer("/stop_details/explanation").and_then(Value::as_str);
            StopReason::Refused(why.map(str::to_owned))
        }
        "pause_turn" => StopReason::Paused,
        _ => StopReason::Done,
    })
}

impl Decoder for MessagesDecoder {
    fn push(&mut self, event: SseEvent, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        let Some(value) = parse_data(&self.provider, &event.data)? else {
            return Ok(());
        };
        let kind = value
            .get("type")
            .and_then(Value::as_str)
            .or(event.name.as_deref())
            .unwrap_or_default();
        self.event(kind, &value, out)
    }

    fn whole(&mut self, answer: &Value, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        if answer.get("type").and_then(Value::as_str) == Some("error") {
            return Err(classify(&self.provider, &Failure::from_value(answer)));
        }
        let Some(content) = answer.get("content").and_then(Value::as_array) else {
            return Err(no_answer(&self.provider));
        };
        self.usage(usage_of(answer), out);
        for (index, block) in (0..).zip(content) {
            self.block_start(index, block, out);
            self.block_stop(index, out);
        }
        // An answer in one document is complete, with or without a stop reason.
        self.stop = stop_of(answer).or(Some(StopReason::Done));
        self.end(out)
    }

    fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ProviderError> {
        self.end(out)
    }
}

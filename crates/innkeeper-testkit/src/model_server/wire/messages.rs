//! Messages.

use serde_json::{Value, json};

use super::{Call, Frame, Part, error, has_calls, input_pieces, parts};
use crate::model_server::request::Api;
use crate::model_server::script::{Ending, Reply};

/// A stream that is being written.
struct Writer<'a> {
    reply: &'a Reply,
    frames: Vec<Frame>,
    /// Blocks so far.
    blocks: usize,
}

pub(super) fn frames(reply: &Reply, number: usize) -> Vec<Frame> {
    let mut writer = Writer {
        reply,
        frames: Vec::new(),
        blocks: 0,
    };
    writer.event(
        "message_start",
        json!({"message": message(number, reply, &[], None, 1)}),
    );
    writer.event("ping", json!({}));
    for part in parts(reply, number) {
        match part {
            Part::Reasoning(text) => writer.thinking(text, &signature(number, writer.blocks)),
            Part::Text(text) => writer.text(text),
            Part::Calls(calls) => writer.calls(&calls),
            Part::Stall => writer.frames.push(Frame::Stall),
            Part::Fail { code, message } => {
                writer
                    .frames
                    .push(Frame::named("error", &error(Api::Messages, code, message)));
                return writer.frames;
            }
        }
    }
    let mut delta = json!({"stop_reason": stop(reply), "stop_sequence": null});
    if let Ending::Refused(Some(text)) = &reply.ending {
        delta["stop_details"] = json!({"type": "refusal", "explanation": text});
    }
    writer.event(
        "message_delta",
        json!({"delta": delta, "usage": {"output_tokens": reply.usage.output}}),
    );
    writer.event("message_stop", json!({}));
    writer.frames
}

impl Writer<'_> {
    fn event(&mut self, name: &str, mut data: Value) {
        data["type"] = name.into();
        self.frames.push(Frame::named(name, &data));
    }

    fn start(&mut self, index: usize, block: Value) {
        self.event("content_block_start", json!({"index": index, "content_block": block}));
    }

    fn delta(&mut self, index: usize, delta: Value) {
        self.event("content_block_delta", json!({"index": index, "delta": delta}));
    }

    fn stop(&mut self, index: usize) {
        self.event("content_block_stop", json!({"index": index}));
        self.blocks += 1;
    }

    fn thinking(&mut self, text: &str, signature: &str) {
        let index = self.blocks;
        self.start(index, json!({"type": "thinking", "thinking": "", "signature": ""}));
        for piece in self.reply.pieces(text) {
            self.delta(index, json!({"type": "thinking_delta", "thinking": piece}));
        }
        self.delta(index, json!({"type": "signature_delta", "signature": signature}));
        self.stop(index);
    }

    fn text(&mut self, text: &str) {
        let index = self.blocks;
        self.start(index, json!({"type": "text", "text": ""}));
        for piece in self.reply.pieces(text) {
            self.delta(index, json!({"type": "text_delta", "text": piece}));
        }
        self.stop(index);
    }

    fn calls(&mut self, calls: &[Call<'_>]) {
        let first = self.blocks;
        if self.reply.delivery.interleaved {
            for (index, call) in calls.iter().enumerate() {
                self.start(
                    first + index,
                    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}}),
                );
            }
            for (index, piece) in input_pieces(self.reply, calls) {
                self.delta(
                    first + index,
                    json!({"type": "input_json_delta", "partial_json": piece}),
                );
            }
            for index in 0..calls.len() {
                self.stop(first + index);
            }
        } else {
            for (index, call) in calls.iter().enumerate() {
                self.start(
                    first + index,
                    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}}),
                );
                for piece in self.reply.pieces(call.input) {
                    self.delta(
                        first + index,
                        json!({"type": "input_json_delta", "partial_json": piece}),
                    );
                }
                self.stop(first + index);
            }
        }
    }
}

pub(super) fn whole(reply: &Reply, number: usize) -> Value {
    let mut content = Vec::new();
    for part in parts(reply, number) {
        match part {
            Part::Reasoning(text) => {
                let signature = signature(number, content.len());
                content.push(json!({"type": "thinking", "thinking": text, "signature": signature}));
            }
            Part::Text(text) => content.push(json!({"type": "text", "text": text})),
            Part::Calls(calls) => content.extend(calls.into_iter().map(|call| {
                let input: Value = serde_json::from_str(call.input).unwrap_or_else(|_| json!({}));
                json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
            })),
            Part::Stall => {}
            Part::Fail { code, message } => return error(Api::Messages, code, message),
        }
    }
    let mut whole = message(number, reply, &content, Some(stop(reply)), reply.usage.output);
    if let Ending::Refused(Some(text)) = &reply.ending {
        whole["stop_details"] = json!({"type": "refusal", "explanation": text});
    }
    whole
}

fn message(number: usize, reply: &Reply, content: &[Value], stop: Option<&str>, output: u32) -> Value {
    json!({
        "id": format!("msg_{number}"),
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": null,
        "usage": {
            "input_tokens": reply.usage.input.saturating_sub(reply.usage.cache_read),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": reply.usage.cache_read,
            "output_tokens": output,
        },
    })
}

fn signature(number: usize, block: usize) -> String {
    format!("signed {number}.{block}")
}

fn stop(reply: &Reply) -> &'static str {
    match &reply.ending {
        Ending::Length => "max_tokens",
        Ending::Refused(_) => "refusal",
        Ending::Paused => "pause_turn",
        Ending::Natural if has_calls(reply) => "tool_use",
        Ending::Natural => "end_turn",
    }
}

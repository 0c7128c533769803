//! Responses.

use serde_json::{Value, json};

use super::{Call, Frame, Part, error, input_pieces, parts};
use crate::model_server::request::Api;
use crate::model_server::script::{Ending, Reply};

/// A stream that is being written.
struct Writer<'a> {
    reply: &'a Reply,
    number: usize,
    frames: Vec<Frame>,
    output: Vec<Value>,
}

pub(super) fn frames(reply: &Reply, number: usize) -> Vec<Frame> {
    let mut writer = Writer {
        reply,
        number,
        frames: Vec::new(),
        output: Vec::new(),
    };
    let begun = response(number, "in_progress", &[], reply);
    writer.event("response.created", json!({"response": begun}));
    writer.event("response.in_progress", json!({"response": begun}));
    for part in parts(reply, number) {
        match part {
            Part::Reasoning(text) => writer.reasoning(text),
            Part::Text(text) => writer.message("output_text", "text", text),
            Part::Calls(calls) => writer.calls(&calls),
            Part::Stall => writer.frames.push(Frame::Stall),
            Part::Fail { code, message } => {
                writer.event("error", json!({"code": code, "message": message, "param": null}));
                return writer.frames;
            }
        }
    }
    if let Ending::Refused(Some(text)) = &reply.ending {
        writer.message("refusal", "refusal", text);
    }
    let status = status(reply);
    let ended = response(number, status, &writer.output, reply);
    writer.event(&format!("response.{status}"), json!({"response": ended}));
    writer.frames
}

impl Writer<'_> {
    fn event(&mut self, name: &str, mut data: Value) {
        data["type"] = name.into();
        data["sequence_number"] = self.frames.len().into();
        self.frames.push(Frame::named(name, &data));
    }

    fn reasoning(&mut self, text: &str) {
        let place = self.output.len();
        let item = reasoning_item(self.number, place, text);
        let id = item["id"].clone();
        let mut begun = item.clone();
        begun["summary"] = json!([]);
        begun["encrypted_content"] = Value::Null;
        self.event(
            "response.output_item.added",
            json!({"output_index": place, "item": begun}),
        );
        let part = json!({"item_id": id, "output_index": place, "summary_index": 0});
        self.event("response.reasoning_summary_part.added", part.clone());
        for piece in self.reply.pieces(text) {
            let mut delta = part.clone();
            delta["delta"] = piece.into();
            self.event("response.reasoning_summary_text.delta", delta);
        }
        let mut done = part;
        done["text"] = text.into();
        self.event("response.reasoning_summary_text.done", done);
        self.event(
            "response.output_item.done",
            json!({"output_index": place, "item": item}),
        );
        self.output.push(item);
    }

    fn message(&mut self, kind: &str, field: &str, text: &str) {
        let place = self.output.len();
        let item = message_item(self.number, place, kind, field, text);
        let mut begun = item.clone();
        begun["status"] = "in_progress".into();
        begun["content"] = json!([]);
        self.event(
            "response.output_item.added",
            json!({"output_index": place, "item": begun}),
        );
        for piece in self.reply.pieces(text) {
            let delta = json!({"item_id": item["id"], "output_index": place, "content_index": 0, "delta": piece});
            self.event(&format!("response.{kind}.delta"), delta);
        }
        let mut done = json!({"item_id": item["id"], "output_index": place, "content_index": 0});
        done[field] = text.into();
        self.event(&format!("response.{kind}.done"), done);
        self.event(
            "response.output_item.done",
            json!({"output_index": place, "item": item}),
        );
        self.output.push(item);
    }

    fn calls(&mut self, calls: &[Call<'_>]) {
        let first = self.output.len();
        if self.reply.delivery.interleaved {
            for (index, call) in calls.iter().enumerate() {
                self.call_start(first + index, call);
            }
            for (index, piece) in input_pieces(self.reply, calls) {
                self.call_input(first + index, &piece);
            }
            for (index, call) in calls.iter().enumerate() {
                self.call_end(first + index, call);
            }
        } else {
            for (index, call) in calls.iter().enumerate() {
                self.call_start(first + index, call);
                for piece in self.reply.pieces(call.input) {
                    self.call_input(first + index, &piece);
                }
                self.call_end(first + index, call);
            }
        }
    }

    fn call_start(&mut self, place: usize, call: &Call<'_>) {
        let item = call_item(place, call, "", "in_progress");
        self.event(
            "response.output_item.added",
            json!({"output_index": place, "item": item}),
        );
    }

    fn call_input(&mut self, place: usize, piece: &str) {
        let delta = json!({"item_id": format!("fc_{place}"), "output_index": place, "delta": piece});
        self.event("response.function_call_arguments.delta", delta);
    }

    fn call_end(&mut self, place: usize, call: &Call<'_>) {
        let done = json!({"item_id": format!("fc_{place}"), "output_index": place, "arguments": call.input});
        self.event("response.function_call_arguments.done", done);
        let item = call_item(place, call, call.input, "completed");
        self.event(
            "response.output_item.done",
            json!({"output_index": place, "item": item}),
        );
        self.output.push(item);
    }
}

pub(super) fn whole(reply: &Reply, number: usize) -> Value {
    let mut output = Vec::new();
    for part in parts(reply, number) {
        let place = output.len();
        match part {
            Part::Reasoning(text) => output.push(reasoning_item(number, place, text)),
            Part::Text(text) => output.push(message_item(number, place, "output_text", "text", text)),
            Part::Calls(calls) => {
                let items = calls.iter().enumerate();
                output.extend(items.map(|(index, call)| call_item(place + index, call, call.input, "completed")));
            }
            Part::Stall => {}
            Part::Fail { code, message } => return error(Api::Responses, code, message),
        }
    }
    if let Ending::Refused(Some(text)) = &reply.ending {
        output.push(message_item(number, output.len(), "refusal", "refusal", text));
    }
    response(number, status(reply), &output, reply)
}

fn reasoning_item(number: usize, place: usize, text: &str) -> Value {
    json!({
        "type": "reasoning",
        "id": format!("rs_{number}_{place}"),
        "summary": [{"type": "summary_text", "text": text}],
        "encrypted_content": format!("sealed {number}.{place}"),
    })
}

fn message_item(number: usize, place: usize, kind: &str, field: &str, text: &str) -> Value {
    let mut part = json!({"type": kind});
    part[field] = text.into();
    json!({
        "type": "message",
        "id": format!("msg_{number}_{place}"),
        "role": "assistant",
        "status": "completed",
        "content": [part],
    })
}

fn call_item(place: usize, call: &Call<'_>, input: &str, status: &str) -> Value {
    json!({
        "type": "function_call",
        "id": format!("fc_{place}"),
        "call_id": call.id,
        "name": call.name,
        "arguments": input,
        "status": status,
    })
}

fn status(reply: &Reply) -> &'static str {
    match &reply.ending {
        Ending::Length | Ending::Refused(None) => "incomplete",
        Ending::Natural | Ending::Paused | Ending::Refused(Some(_)) => "completed",
    }
}

fn response(number: usize, status: &str, output: &[Value], reply: &Reply) -> Value {
    let incomplete = match (status, &reply.ending) {
        ("incomplete", Ending::Length) => json!({"reason": "max_output_tokens"}),
        ("incomplete", _) => json!({"reason": "content_filter"}),
        _ => Value::Null,
    };
    let usage = reply.usage;
    let usage = json!({
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
    });
    json!({
        "id": format!("resp_{number}"),
        "object": "response",
        "created_at": 1,
        "status": status,
        "model": "scripted",
        "output": output,
        "error": null,
        "incomplete_details": incomplete,
        "usage": if status == "in_progress" { Value::Null } else { usage },
    })
}

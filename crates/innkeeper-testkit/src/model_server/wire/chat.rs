//! Chat Completions.

use serde_json::{Value, json};

use super::{Call, Frame, Part, error, has_calls, input_pieces, parts};
use crate::model_server::request::Api;
use crate::model_server::script::{Ending, Reply};

pub(super) fn frames(reply: &Reply, number: usize) -> Vec<Frame> {
    let delta = |delta: Value| chunk(number, json!([{"index": 0, "delta": delta, "finish_reason": null}]));
    let mut frames = vec![delta(json!({"role": "assistant", "content": ""}))];
    let mut called = 0;
    for part in parts(reply, number) {
        match part {
            Part::Reasoning(text) => {
                frames.extend(
                    reply
                        .pieces(text)
                        .into_iter()
                        .map(|piece| delta(json!({"reasoning_content": piece}))),
                );
            }
            Part::Text(text) => {
                frames.extend(
                    reply
                        .pieces(text)
                        .into_iter()
                        .map(|piece| delta(json!({"content": piece}))),
                );
            }
            Part::Calls(calls) => {
                let start = |(index, call): (usize, &Call<'_>)| {
                    let function = json!({"name": call.name, "arguments": ""});
                    delta(
                        json!({"tool_calls": [{"index": called + index, "id": call.id, "type": "function", "function": function}]}),
                    )
                };
                let piece = |(index, piece): (usize, String)| {
                    delta(json!({"tool_calls": [{"index": called + index, "function": {"arguments": piece}}]}))
                };
                if reply.delivery.interleaved {
                    frames.extend(calls.iter().enumerate().map(start));
                    frames.extend(input_pieces(reply, &calls).into_iter().map(piece));
                } else {
                    for (index, call) in calls.iter().enumerate() {
                        frames.push(start((index, call)));
                        frames.extend(reply.pieces(call.input).into_iter().map(|text| piece((index, text))));
                    }
                }
                called += calls.len();
            }
            Part::Stall => frames.push(Frame::Stall),
            Part::Fail { code, message } => {
                frames.push(Frame::data(&error(Api::Chat, code, message)));
                return frames;
            }
        }
    }
    if let Ending::Refused(Some(text)) = &reply.ending {
        frames.extend(
            reply
                .pieces(text)
                .into_iter()
                .map(|piece| delta(json!({"refusal": piece}))),
        );
    }
    frames.push(chunk(
        number,
        json!([{"index": 0, "delta": {}, "finish_reason": finish(reply)}]),
    ));
    let mut last = base(number, "chat.completion.chunk", json!([]));
    last["usage"] = usage(reply);
    frames.push(Frame::data(&last));
    frames.push(Frame::Event("data: [DONE]\n\n".into()));
    frames
}

pub(super) fn whole(reply: &Reply, number: usize) -> Value {
    let mut message = json!({"role": "assistant", "content": null});
    let mut add = |field: &str, text: &str| {
        let before = message[field].as_str().unwrap_or_default();
        message[field] = format!("{before}{text}").into();
    };
    let mut calls = Vec::new();
    for part in parts(reply, number) {
        match part {
            Part::Reasoning(text) => add("reasoning_content", text),
            Part::Text(text) => add("content", text),
            Part::Calls(made) => calls.extend(made.into_iter().map(|call| {
                json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.input}})
            })),
            Part::Stall => {}
            Part::Fail { code, message } => return error(Api::Chat, code, message),
        }
    }
    if let Ending::Refused(Some(text)) = &reply.ending {
        add("refusal", text);
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let choices = json!([{"index": 0, "message": message, "finish_reason": finish(reply)}]);
    let mut whole = base(number, "chat.completion", choices);
    whole["usage"] = usage(reply);
    whole
}

fn base(number: usize, object: &str, choices: Value) -> Value {
    json!({"id": format!("chatcmpl-{number}"), "object": object, "created": 1, "model": "scripted", "choices": choices})
}

fn chunk(number: usize, choices: Value) -> Frame {
    Frame::data(&base(number, "chat.completion.chunk", choices))
}

fn finish(reply: &Reply) -> &'static str {
    match &reply.ending {
        Ending::Length => "length",
        Ending::Refused(None) => "content_filter",
        Ending::Natural | Ending::Paused if has_calls(reply) => "tool_calls",
        Ending::Natural | Ending::Paused | Ending::Refused(Some(_)) => "stop",
    }
}

fn usage(reply: &Reply) -> Value {
    let usage = reply.usage;
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
    })
}

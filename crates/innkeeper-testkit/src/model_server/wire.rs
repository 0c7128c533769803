//! One reply encoded for each API.

mod chat;
mod messages;
mod responses;

use serde_json::{Value, json};

use super::request::Api;
use super::script::{Reply, Step};

/// A piece of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    /// An event, as its lines.
    Event(String),
    /// Silence until the server is told to go on.
    Stall,
}

impl Frame {
    fn data(data: &Value) -> Self {
        Self::Event(format!("data: {data}\n\n"))
    }

    fn named(name: &str, data: &Value) -> Self {
        Self::Event(format!("event: {name}\ndata: {data}\n\n"))
    }
}

/// A call that is about to be sent.
pub(super) struct Call<'a> {
    id: String,
    name: &'a str,
    input: &'a str,
}

/// The next piece to send: adjacent calls are sent together.
enum Part<'a> {
    Reasoning(&'a str),
    Text(&'a str),
    Calls(Vec<Call<'a>>),
    Stall,
    Fail { code: &'a str, message: &'a str },
}

/// The stream of a reply, number `number` of its server.
pub(super) fn frames(api: Api, reply: &Reply, number: usize) -> Vec<Frame> {
    let mut frames = match api {
        Api::Chat => chat::frames(reply, number),
        Api::Responses => responses::frames(reply, number),
        Api::Messages => messages::frames(reply, number),
    };
    if reply.delivery.crlf {
        for frame in &mut frames {
            if let Frame::Event(lines) = frame {
                *lines = lines.replace('\n', "\r\n");
            }
        }
    }
    frames
}

/// A reply in one piece.
pub(super) fn whole(api: Api, reply: &Reply, number: usize) -> Value {
    match api {
        Api::Chat => chat::whole(reply, number),
        Api::Responses => responses::whole(reply, number),
        Api::Messages => messages::whole(reply, number),
    }
}

/// An error in the shape of an API.
pub(super) fn error(api: Api, code: &str, message: &str) -> Value {
    match api {
        Api::Chat | Api::Responses => json!({"error": {"message": message, "type": code, "code": code, "param": null}}),
        Api::Messages => json!({"type": "error", "error": {"type": code, "message": message}}),
    }
}

fn parts(reply: &Reply, number: usize) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    let mut called = 0;
    for step in &reply.steps {
        match step {
            Step::Reasoning(text) => parts.push(Part::Reasoning(text)),
            Step::Text(text) => parts.push(Part::Text(text)),
            Step::Stall => parts.push(Part::Stall),
            Step::Fail { code, message } => parts.push(Part::Fail { code, message }),
            Step::Call { id, name, input } => {
                let call = Call {
                    id: id.clone().unwrap_or_else(|| format!("call_{number}_{called}")),
                    name,
                    input,
                };
                called += 1;
                match parts.last_mut() {
                    Some(Part::Calls(calls)) => calls.push(call),
                    _ => parts.push(Part::Calls(vec![call])),
                }
            }
        }
    }
    parts
}

fn has_calls(reply: &Reply) -> bool {
    reply.steps.iter().any(|step| matches!(step, Step::Call { .. }))
}

/// The pieces of the inputs of calls, with the call each belongs to: one call after the other, or
/// a piece of each in turn.
fn input_pieces(reply: &Reply, calls: &[Call<'_>]) -> Vec<(usize, String)> {
    let inputs = calls.iter().enumerate();
    let mut pieces: Vec<(usize, usize, String)> = inputs
        .flat_map(|(call, of)| {
            reply
                .pieces(of.input)
                .into_iter()
                .enumerate()
                .map(move |(turn, piece)| (turn, call, piece))
        })
        .collect();
    if reply.delivery.interleaved {
        pieces.sort_by_key(|(turn, call, _)| (*turn, *call));
    }
    pieces.into_iter().map(|(_, call, piece)| (call, piece)).collect()
}

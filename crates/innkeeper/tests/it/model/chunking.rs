//! The turn does not depend on how a provider splits its stream.

use ahp_types::state::Turn;
use innkeeper_testkit::model_server::{Api, Chunking, ReceivedRequest, Reply, Script};
use serde_json::{Value, json};

use crate::model::support::Setup;

/// The ways of sending, one for each turn.
const WAYS: usize = 16;

/// Numbers that look like chance, the same every time.
fn chance(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap_or_default()
    }
}

fn sent(reply: Reply, way: usize) -> Reply {
    match way {
        0 => reply.chunked(Chunking::Whole),
        1 => reply,
        2 => reply.chunked(Chunking::EveryByte).deltas([40]),
        3 => reply.deltas([1]),
        4 => reply.deltas([1]).interleaved().crlf(),
        5 => reply.deltas([3, 1, 7]).interleaved().chunked(Chunking::EveryByte),
        6 => reply.in_one_piece(),
        seed => {
            let mut random = chance(seed as u64);
            let lengths: Vec<usize> = (0..5).map(|_| random(20) + 1).collect();
            let cuts: Vec<usize> = (0..30).map(|_| random(6000)).collect();
            let reply = reply.deltas(lengths).chunked(Chunking::At(cuts));
            if random(2) == 0 { reply.interleaved() } else { reply }
        }
    }
}

fn answer(asked: &ReceivedRequest) -> Reply {
    let words = asked.last_words().unwrap_or_default();
    let way = words
        .split_whitespace()
        .next()
        .and_then(|way| way.parse().ok())
        .unwrap_or_default();
    let reply = match asked.last_results().len() {
        0 => Reply::new()
            .reasoning("Erst schauen, dann „lesen“ 🤔\n\nund denken.")
            .text("Ich schaue nach: ä, ö, ü und 🦀.\n\n```rust\nfn main() {}\n```\n")
            .call("read_file", json!({ "path": "größe.txt" }))
            .call("list_directory", json!({}))
            .call("search", json!({ "pattern": "\"quoted\" \\\\ text|größe" })),
        _ => Reply::new().text("Fertig — alles gelesen."),
    };
    sent(reply, way)
}

/// A turn without what differs between any two turns.
fn comparable(turn: &Turn) -> Value {
    fn without_names(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for name in ["id", "toolCallId", "startedAt", "completedAt", "duration", "_meta"] {
                    fields.remove(name);
                }
                fields.values_mut().for_each(without_names);
            }
            Value::Array(items) => items.iter_mut().for_each(without_names),
            _ => {}
        }
    }
    let mut parts = json!({ "parts": turn.response_parts, "state": turn.state, "usage": turn.usage });
    without_names(&mut parts);
    parts
}

async fn the_turn_is_the_same(api: Api) {
    let stage = Setup::new(api).stage(Script::by(answer)).await;
    stage.write("größe.txt", "größe und \"quoted\" text\n");
    let first = comparable(&stage.run_turn("t0", "0 Lies.").await);
    assert_eq!(first["state"], "complete", "{first:#}");
    assert_eq!(first["parts"].as_array().map(Vec::len), Some(6), "{first:#}");
    for way in 1..WAYS {
        let turn = stage.run_turn(&format!("t{way}"), &format!("{way} Lies.")).await;
        assert_eq!(comparable(&turn), first, "{api:?}, way {way}");
    }
    stage.assert_in_order().await;
}

#[tokio::test]
async fn the_turn_is_the_same_however_chat_completions_is_cut() {
    the_turn_is_the_same(Api::Chat).await;
}

#[tokio::test]
async fn the_turn_is_the_same_however_responses_is_cut() {
    the_turn_is_the_same(Api::Responses).await;
}

#[tokio::test]
async fn the_turn_is_the_same_however_messages_is_cut() {
    the_turn_is_the_same(Api::Messages).await;
}

//! A chat while a model talks: what is drawn when, and what is held.

use innkeeper_tui::app::Redraw;
use innkeeper_tui::event::Effect;
use serde_json::{Value, json};

use crate::support::{CHAT, Rig, empty_chat};

fn turn_started(rig: &mut Rig, id: &str) {
    rig.action(
        CHAT,
        json!({
            "type": "chat/turnStarted", "turnId": id, "startedAt": "2026-01-02T10:00:00Z",
            "message": { "text": "Go on.", "origin": { "kind": "user" } },
        }),
    );
}

fn part(rig: &mut Rig, turn: &str) {
    let part = json!({ "kind": "markdown", "id": "m", "content": "" });
    rig.action(
        CHAT,
        json!({ "type": "chat/responsePart", "turnId": turn, "part": part }),
    );
}

fn delta(rig: &mut Rig, turn: &str, text: &str) {
    rig.action(
        CHAT,
        json!({ "type": "chat/delta", "turnId": turn, "partId": "m", "content": text }),
    );
}

fn turn_complete(rig: &mut Rig, id: &str) {
    rig.action(
        CHAT,
        json!({ "type": "chat/turnComplete", "turnId": id, "duration": 1 }),
    );
}

fn subscribed_again(rig: &mut Rig) -> usize {
    let effects = std::mem::take(&mut rig.effects).into_iter();
    effects
        .filter(|effect| matches!(effect, Effect::Subscribe(uri) if uri == CHAT))
        .count()
}

#[test]
fn streamed_text_waits_for_more_and_keys_do_not() {
    let mut rig = Rig::with_chat(empty_chat());
    turn_started(&mut rig, "t1");
    part(&mut rig, "t1");
    rig.app.mark_drawn();
    assert_eq!(rig.app.redraw(), None);
    delta(&mut rig, "t1", "Hello");
    assert_eq!(rig.app.redraw(), Some(Redraw::WithMore));
    rig.type_text("a");
    assert_eq!(rig.app.redraw(), Some(Redraw::AtOnce));
    rig.app.mark_drawn();
    turn_complete(&mut rig, "t1");
    assert_eq!(rig.app.redraw(), Some(Redraw::AtOnce));
}

#[test]
fn a_streamed_answer_looks_like_one_that_came_at_once() {
    let text = "## Fixed\n\nThe parser returns a **list**:\n\n```rust\nfn parse() {}\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- one\n- two\n";
    let mut rig = Rig::with_chat(empty_chat());
    turn_started(&mut rig, "t1");
    part(&mut rig, "t1");
    for c in text.chars() {
        delta(&mut rig, "t1", &c.to_string());
        rig.screen(80, 30);
    }
    turn_complete(&mut rig, "t1");
    let mut whole = Rig::with_chat(empty_chat());
    turn_started(&mut whole, "t1");
    part(&mut whole, "t1");
    delta(&mut whole, "t1", text);
    turn_complete(&mut whole, "t1");
    assert_eq!(rig.screen(80, 30), whole.screen(80, 30));
}

#[test]
fn the_oldest_turns_of_a_long_chat_are_dropped_while_its_end_is_shown() {
    let mut rig = Rig::with_chat(empty_chat());
    rig.screen(80, 24);
    rig.effects.clear();
    let one_more = |rig: &mut Rig, number: usize| {
        let id = format!("t{number}");
        turn_started(rig, &id);
        turn_complete(rig, &id);
    };
    for number in 0..400 {
        one_more(&mut rig, number);
    }
    assert_eq!(subscribed_again(&mut rig), 0);
    rig.screen(80, 24);
    rig.keys("tab pageup pageup");
    one_more(&mut rig, 400);
    assert_eq!(subscribed_again(&mut rig), 0, "the user reads what came before");
    rig.keys("G");
    for number in 401..700 {
        one_more(&mut rig, number);
    }
    rig.app.update(rig.now, innkeeper_tui::event::Event::Tick);
    assert_eq!(subscribed_again(&mut rig), 1);
    let mut chat = empty_chat();
    chat["turns"] = Value::Array(
        (660..700)
            .map(|number| {
                json!({
                    "id": format!("t{number}"), "startedAt": "2026-01-02T09:57:00Z", "state": "complete",
                    "message": { "text": "Go on.", "origin": { "kind": "user" } }, "responseParts": [],
                })
            })
            .collect(),
    );
    chat["turnsNextCursor"] = json!("660");
    rig.state(CHAT, chat);
    assert!(rig.screen(80, 24).contains("Go on."));
    for number in 700..1000 {
        one_more(&mut rig, number);
    }
    assert_eq!(subscribed_again(&mut rig), 0);
}

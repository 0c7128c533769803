//! Whole screens, at three sizes.

use ratatui::style::{Color, Modifier};
use serde_json::json;

use crate::support::{CHAT, Rig, SESSION, approval, assert_screen, busy_chat, empty_chat, session};

#[test]
fn a_chat_is_shown_at_three_sizes() {
    let mut rig = Rig::with_chat(busy_chat());
    for (width, height) in [(60, 16), (80, 24), (120, 40)] {
        let screen = rig.screen(width, height);
        assert_screen(&format!("chat-{width}x{height}"), &screen);
    }
}

#[test]
fn details_of_calls_unfold() {
    let mut rig = Rig::with_chat(busy_chat());
    rig.keys("ctrl+o");
    let screen = rig.screen(100, 50);
    assert_screen("details-100x50", &screen);
    assert!(screen.contains("FAILED parser") && screen.contains("-b = 2") && screen.contains("+b = 3"));
    rig.keys("ctrl+o");
    assert!(!rig.screen(100, 50).contains("FAILED parser"));
}

#[test]
fn one_block_unfolds_by_keys() {
    let mut rig = Rig::with_chat(busy_chat());
    rig.screen(100, 50);
    rig.keys("tab up enter");
    let screen = rig.screen(100, 50);
    assert!(screen.contains("FAILED parser"), "{screen}");
    assert!(!screen.contains("+b = 3"), "{screen}");
}

#[test]
fn the_start_of_a_new_session_says_how_to_begin() {
    let mut rig = Rig::connected();
    let screen = rig.screen(80, 24);
    assert_screen("new-80x24", &screen);
    rig.keys("f1");
    let screen = rig.screen(80, 24);
    assert_screen("help-80x24", &screen);
}

#[test]
fn the_palette_finds_commands() {
    let mut rig = Rig::connected();
    rig.keys("ctrl+p");
    rig.type_text("fork");
    let screen = rig.screen(80, 24);
    assert_screen("palette-80x24", &screen);
}

#[test]
fn an_approval_is_shown_with_its_whole_input_and_all_options() {
    let mut rig = Rig::with_chat(busy_chat());
    rig.state(SESSION, session(json!([approval(CHAT)])));
    let screen = rig.screen(80, 24);
    assert_screen("approval-80x24", &screen);
}

#[test]
fn a_form_has_questions_of_every_kind() {
    let mut rig = Rig::with_chat(empty_chat());
    let option = |id: &str, label: &str| json!({ "id": id, "label": label });
    rig.state(
        SESSION,
        session(json!([{
            "kind": "chatInput", "id": "q", "chat": CHAT,
            "request": { "id": "q", "message": "A few questions.", "questions": [
                { "kind": "text", "id": "a", "message": "Your name?", "required": true, "defaultValue": "Ada" },
                { "kind": "integer", "id": "b", "message": "How many?" },
                { "kind": "boolean", "id": "c", "message": "Breakfast?" },
                { "kind": "single-select", "id": "d", "message": "Room?", "options":
                    [option("g", "Garden"), option("s", "Street")] },
                { "kind": "multi-select", "id": "e", "message": "Extras?", "options":
                    [option("x", "Extra bed"), option("y", "Yoghurt")], "allowFreeformInput": true },
            ] },
        }])),
    );
    let screen = rig.screen(80, 30);
    assert_screen("form-80x30", &screen);
}

#[test]
fn a_running_turn_shows_activity_live_output_and_queued_messages() {
    let mut chat = empty_chat();
    chat["activity"] = json!("Running the tests");
    chat["activeTurn"] = json!({
        "id": "t1", "startedAt": "2026-01-02T09:59:48Z",
        "message": { "text": "go", "origin": { "kind": "user" } },
        "responseParts": [{ "kind": "toolCall", "toolCall": {
            "status": "running", "toolCallId": "c1", "toolName": "run_command", "displayName": "Run a command",
            "invocationMessage": "Runs `make`", "confirmed": "not-needed",
            "content": [{ "type": "text", "text": "one\ntwo\nthree\nfour\nfive\nsix\n" }],
        } }],
    });
    chat["queuedMessages"] = json!([{ "id": "q", "message": { "text": "then commit", "origin": { "kind": "user" } } }]);
    let mut rig = Rig::with_chat(chat);
    let screen = rig.screen(80, 24);
    assert_screen("running-80x24", &screen);
    assert!(screen.contains("Running the tests… 12 s"), "{screen}");
    rig.wait(3);
    assert!(rig.screen(80, 24).contains("15 s"));
}

#[test]
fn without_colours_only_attributes_tell_things_apart() {
    let mut rig = Rig::with_chat(busy_chat());
    rig.state(SESSION, session(json!([approval(CHAT)])));
    rig.keys("ctrl+o");
    let buffer = rig.draw(100, 50);
    let coloured = buffer
        .content()
        .iter()
        .find(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
    assert!(coloured.is_none(), "{coloured:?}");
    assert!(
        buffer
            .content()
            .iter()
            .any(|cell| cell.modifier.contains(Modifier::REVERSED))
    );
}

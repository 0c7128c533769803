//! Text of models, tools and other clients cannot drive the terminal.

use innkeeper_cli::connection::link::LinkEvent;
use serde_json::json;

use crate::support::{CHAT, Rig, SESSION, approval, empty_chat, session, summary};

const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\r\u{8}\u{202e}evil\u{2066}";

fn assert_harmless(screen: &str) {
    let bad = screen
        .chars()
        .find(|c| (c.is_control() && *c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'));
    assert_eq!(bad, None, "{screen:?}");
    assert!(screen.contains("evil"), "{screen}");
}

#[test]
fn titles_messages_answers_and_tool_output_are_defused() {
    let mut chat = empty_chat();
    chat["activity"] = json!(HOSTILE);
    chat["activeTurn"] = json!({
        "id": "t1", "startedAt": "2026-01-02T09:59:48Z",
        "message": { "text": HOSTILE, "origin": { "kind": "user" },
            "attachments": [{ "type": "simple", "label": HOSTILE }] },
        "responseParts": [
            { "kind": "markdown", "id": "m", "content": format!("{HOSTILE}\n\n```{HOSTILE}\n{HOSTILE}\n```\n\n| {HOSTILE} |\n|---|\n| {HOSTILE} |") },
            { "kind": "reasoning", "id": "r", "content": HOSTILE },
            { "kind": "systemNotification", "content": HOSTILE },
            { "kind": "contentRef", "uri": format!("file:///{HOSTILE}") },
            { "kind": "toolCall", "toolCall": {
                "status": "completed", "toolCallId": "c1", "toolName": "x", "displayName": HOSTILE,
                "invocationMessage": HOSTILE, "success": false, "pastTenseMessage": { "markdown": HOSTILE },
                "confirmed": "not-needed", "toolInput": json!({ HOSTILE: HOSTILE }).to_string(),
                "content": [{ "type": "text", "text": HOSTILE }, { "type": "subagent", "resource": "ahp-chat:/s", "title": HOSTILE }],
                "error": { "message": HOSTILE },
            } },
        ],
        "usage": { "model": HOSTILE, "inputTokens": 1 },
    });
    chat["queuedMessages"] = json!([{ "id": "q", "message": { "text": HOSTILE, "origin": { "kind": "user" } } }]);
    let mut rig = Rig::with_chat(chat);
    let mut state = session(json!([]));
    state["title"] = json!(HOSTILE);
    rig.state(SESSION, state.clone());
    rig.link(LinkEvent::Sessions(vec![summary(
        SESSION,
        HOSTILE,
        33,
        &format!("file:///{HOSTILE}"),
    )]));
    assert_harmless(&rig.screen(100, 60));
    rig.keys("ctrl+o");
    assert_harmless(&rig.screen(100, 80));
    let mut waits = approval(CHAT);
    waits["toolCall"]["invocationMessage"] = json!(HOSTILE);
    waits["toolCall"]["toolInput"] = json!(HOSTILE);
    waits["toolCall"]["options"][0]["label"] = json!(HOSTILE);
    state["inputNeeded"] = json!([waits]);
    rig.state(SESSION, state);
    assert_harmless(&rig.screen(80, 24));
    rig.keys("ctrl+f");
    assert_harmless(&rig.screen(80, 24));
}

#[test]
fn a_notice_of_the_host_is_defused() {
    let mut rig = Rig::connected();
    rig.link(LinkEvent::Lost(HOSTILE.to_owned()));
    assert_harmless(&rig.screen(120, 24));
}

#[test]
fn pasted_escape_sequences_do_not_reach_the_screen() {
    let mut rig = Rig::connected();
    rig.event(innkeeper_tui::event::Event::Paste(format!("a{HOSTILE}\tb")));
    let screen = rig.screen(80, 24);
    assert!(screen.contains("evil") && !screen.contains('\u{1b}'), "{screen:?}");
}

#[test]
fn wide_characters_do_not_shift_the_columns() {
    let mut rig = Rig::with_chat(empty_chat());
    rig.type_text("日本語 👩‍🚀 é");
    let screen = rig.screen(80, 24);
    let borders: Vec<usize> = screen
        .lines()
        .take(20)
        .map(|line| {
            let before = line.split('│').next().unwrap_or_default();
            unicode_width::UnicodeWidthStr::width(before)
        })
        .collect();
    assert!(
        borders.iter().all(|width| *width == borders[0]),
        "{borders:?}\n{screen}"
    );
}

//! Approvals, questions and what waits.

use serde_json::json;

use crate::support::{CHAT, Rig, SESSION, approval, empty_chat, session};

fn with_approval() -> Rig {
    let mut rig = Rig::with_chat(empty_chat());
    rig.state(SESSION, session(json!([approval(CHAT)])));
    rig.wait(2);
    rig.dispatched();
    rig
}

#[test]
fn an_option_is_chosen_by_its_number() {
    let mut rig = with_approval();
    rig.keys("2");
    let sent = rig.dispatched();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].0, CHAT);
    assert_eq!(sent[0].1["type"], "chat/toolCallConfirmed");
    assert_eq!(sent[0].1["approved"], true);
    assert_eq!(sent[0].1["selectedOptionId"], "allow-session");
    rig.keys("1");
    assert!(rig.dispatched().is_empty(), "answered twice");
}

#[test]
fn a_denial_carries_a_remark() {
    let mut rig = with_approval();
    rig.keys("r");
    rig.type_text("use cargo clean");
    rig.keys("enter");
    let sent = rig.dispatched();
    assert_eq!(sent[0].1["approved"], false);
    assert_eq!(sent[0].1["reasonMessage"], "use cargo clean");
}

#[test]
fn the_input_of_a_call_is_edited() {
    let mut rig = with_approval();
    rig.keys("e ctrl+u");
    rig.type_text("{\"command\":\"ls\"}");
    rig.keys("enter");
    let sent = rig.dispatched();
    assert_eq!(sent[0].1["approved"], true);
    assert_eq!(sent[0].1["editedToolInput"], "{\"command\":\"ls\"}");
}

#[test]
fn keys_that_were_meant_for_a_message_do_not_answer() {
    let mut rig = Rig::with_chat(empty_chat());
    rig.type_text("hel");
    rig.state(SESSION, session(json!([approval(CHAT)])));
    rig.type_text("1o");
    assert!(
        rig.dispatched().is_empty(),
        "the digit answered although a message was being written"
    );
    // Without any text the prompt takes the focus, but not the keys of the first moment.
    let mut rig = Rig::with_chat(empty_chat());
    rig.state(SESSION, session(json!([approval(CHAT)])));
    rig.type_text("1 room");
    assert!(rig.dispatched().is_empty());
    assert!(rig.screen(80, 24).contains("❯ 1 room"));
    rig.keys("ctrl+y");
    rig.wait(2);
    rig.keys("1");
    assert_eq!(rig.dispatched().len(), 1);
}

#[test]
fn an_approval_of_a_subagent_is_answered_in_its_chat() {
    let mut rig = Rig::with_chat(empty_chat());
    let mut state = session(json!([approval("ahp-chat:/sub")]));
    state["chats"].as_array_mut().unwrap().push(json!({
        "resource": "ahp-chat:/sub", "title": "Looks around", "status": 24, "modifiedAt": "2026-01-02T09:58:00Z",
        "origin": { "kind": "tool", "chat": CHAT, "toolCallId": "c" },
    }));
    rig.state(SESSION, state);
    rig.wait(2);
    let screen = rig.screen(80, 24);
    assert!(screen.contains("asked by “Looks around”"), "{screen}");
    rig.dispatched();
    rig.keys("enter");
    assert_eq!(rig.dispatched()[0].0, "ahp-chat:/sub");
}

#[test]
fn a_rejected_answer_can_be_given_again() {
    let mut rig = with_approval();
    rig.keys("1");
    let ticket = rig
        .effects
        .iter()
        .find_map(|effect| match effect {
            innkeeper_tui::event::Effect::Dispatch(ticket, ..) => Some(*ticket),
            _ => None,
        })
        .unwrap();
    rig.effects.clear();
    rig.link(innkeeper_cli::connection::link::LinkEvent::Settled(
        ticket,
        Some("another client was first".to_owned()),
    ));
    assert!(rig.screen(80, 24).contains("another client was first"));
    rig.keys("1");
    assert_eq!(rig.dispatched().len(), 1);
}

#[test]
fn a_jump_leads_to_the_session_that_waits() {
    let mut rig = Rig::with_chat(empty_chat());
    rig.keys("ctrl+g");
    rig.state("ahp-session:/two", {
        let mut state = session(json!([approval("ahp-chat:/two")]));
        state["title"] = json!("Ring the bell");
        state["defaultChat"] = json!("ahp-chat:/two");
        state
    });
    let screen = rig.screen(80, 24);
    assert!(
        screen.contains("Ring the bell") && screen.contains("Runs `rm -rf target`"),
        "{screen}"
    );
}

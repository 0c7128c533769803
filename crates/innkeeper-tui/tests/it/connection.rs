//! Messages, and connections that break.

use innkeeper_cli::connection::link::LinkEvent;
use innkeeper_tui::event::Effect;
use serde_json::json;

use crate::support::{CHAT, Rig, SESSION, empty_chat, session, summary};

fn ticket(rig: &Rig) -> u64 {
    let dispatch = rig.effects.iter().rev().find_map(|effect| match effect {
        Effect::Dispatch(ticket, channel, _) if channel == CHAT => Some(*ticket),
        _ => None,
    });
    dispatch.expect("a dispatched action")
}

#[test]
fn a_message_starts_a_turn_and_the_next_one_is_queued_or_steers() {
    let mut rig = Rig::with_chat(empty_chat());
    rig.dispatched();
    rig.type_text("hello");
    rig.keys("alt+enter");
    rig.type_text("there");
    rig.keys("enter");
    let sent = rig.dispatched();
    assert_eq!(sent[0].1["type"], "chat/turnStarted");
    assert_eq!(sent[0].1["message"]["text"], "hello\nthere");
    let turn = sent[0].1.clone();
    rig.action(CHAT, turn);
    rig.type_text("next");
    rig.keys("enter");
    rig.type_text("now");
    rig.keys("ctrl+s");
    let sent = rig.dispatched();
    assert_eq!(sent[0].1["type"], "chat/pendingMessageSet");
    assert_eq!(sent[0].1["kind"], "queued");
    assert_eq!(sent[1].1["kind"], "steering");
    rig.keys("ctrl+c");
    assert_eq!(rig.dispatched()[0].1["type"], "chat/turnCancelled");
}

#[test]
fn nothing_typed_is_lost_while_the_host_is_away() {
    let mut rig = Rig::with_chat(empty_chat());
    rig.link(LinkEvent::Lost("the connection to the host was lost".to_owned()));
    rig.type_text("still here");
    rig.keys("enter");
    let screen = rig.screen(80, 24);
    assert!(screen.contains("❯ still here"), "{screen}");
    assert!(
        screen.contains("disconnected") && screen.contains("Your message stays here"),
        "{screen}"
    );
    rig.wait(10);
    let screen = rig.screen(80, 24);
    assert!(
        screen.contains("Disconnected: the connection to the host was lost"),
        "{screen}"
    );
    rig.connect();
    assert!(rig.screen(80, 24).contains("Connected again"));
    rig.dispatched();
    rig.keys("enter");
    assert_eq!(rig.dispatched()[0].1["message"]["text"], "still here");
}

#[test]
fn a_message_that_the_host_never_got_comes_back() {
    let mut rig = Rig::with_chat(empty_chat());
    rig.type_text("lost on the way");
    rig.keys("enter");
    rig.link(LinkEvent::Lost("cut".to_owned()));
    rig.connect();
    rig.link(LinkEvent::Sessions(vec![summary(
        SESSION,
        "Fix the parser",
        33,
        "file:///srv/ada/inn",
    )]));
    assert!(rig.screen(80, 24).contains("❯ lost on the way"));
}

#[test]
fn a_message_that_the_host_has_does_not_come_back() {
    let mut rig = Rig::with_chat(empty_chat());
    rig.dispatched();
    rig.type_text("arrived");
    rig.keys("enter");
    let turn = rig.dispatched()[0].1.clone();
    rig.link(LinkEvent::Lost("cut".to_owned()));
    rig.connect();
    rig.action(CHAT, turn);
    rig.link(LinkEvent::Sessions(vec![summary(
        SESSION,
        "Fix the parser",
        33,
        "file:///srv/ada/inn",
    )]));
    let screen = rig.screen(80, 24);
    assert_eq!(screen.matches("arrived").count(), 1, "{screen}");
}

#[test]
fn a_rejected_message_comes_back_with_the_reason() {
    let mut rig = Rig::with_chat(empty_chat());
    rig.type_text("too much");
    rig.keys("enter");
    let ticket = ticket(&rig);
    rig.link(LinkEvent::Settled(ticket, Some("the message is too long".to_owned())));
    let screen = rig.screen(80, 24);
    assert!(
        screen.contains("❯ too much") && screen.contains("the message is too long"),
        "{screen}"
    );
}

#[test]
fn a_resumable_turn_is_resumed() {
    let mut chat = empty_chat();
    chat["turns"] = json!([{
        "id": "t1", "state": "error", "message": { "text": "go", "origin": { "kind": "user" } },
        "responseParts": [
            { "kind": "error", "resumable": true, "error": { "errorType": "x", "message": "the host stopped" } },
        ],
    }]);
    let mut rig = Rig::with_chat(chat);
    assert!(rig.screen(80, 24).contains("Ctrl+R lets the turn go on."));
    rig.dispatched();
    rig.keys("ctrl+r");
    assert_eq!(
        rig.dispatched()[0].1,
        json!({ "type": "chat/turnResume", "turnId": "t1" })
    );
}

#[test]
fn drafts_are_shared_with_other_clients() {
    let mut rig = Rig::with_chat(empty_chat());
    let draft =
        |text: &str| json!({ "type": "chat/draftChanged", "draft": { "text": text, "origin": { "kind": "user" } } });
    rig.action(CHAT, draft("from the phone"));
    assert!(rig.screen(80, 24).contains("❯ from the phone"));
    rig.effects.clear();
    rig.type_text("!");
    rig.wait(1);
    let sent = rig.effects.iter().find_map(|effect| match effect {
        Effect::Dispatch(_, channel, action) if channel == CHAT => Some(serde_json::to_value(action).unwrap()),
        _ => None,
    });
    assert_eq!(sent.unwrap(), draft("from the phone!"));
    // A draft of another client does not replace words that were typed here since.
    rig.type_text("?");
    rig.action(CHAT, draft("other"));
    assert!(rig.screen(80, 24).contains("❯ from the phone!?"));
}

#[test]
fn a_first_message_creates_a_session_in_the_directory() {
    let mut rig = Rig::connected();
    rig.type_text("hello");
    rig.keys("enter");
    let requests = rig.requested();
    let (method, params) = &requests[0];
    assert_eq!(*method, "createSession");
    assert_eq!(params["workingDirectories"], json!(["file:///srv/ada/inn"]));
    let uri = params["channel"].as_str().unwrap().to_owned();
    rig.link(LinkEvent::Reply(1, Ok(json!({}))));
    rig.state(&uri, session(json!([])));
    let sent = rig.dispatched();
    assert_eq!(sent[0].0, CHAT);
    assert_eq!(sent[0].1["message"]["text"], "hello");
}

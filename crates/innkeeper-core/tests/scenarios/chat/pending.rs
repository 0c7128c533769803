//! Messages that wait: steering and queued (PEND).

use innkeeper_core::{AgentEvent, CoreConfig, Failure, Reply, TurnEnd};
use serde_json::{Value, json};

use crate::harness::working_agent::*;
use crate::harness::*;

fn pending(kind: &str, id: &str, text: &str) -> Value {
    json!({ "type": "chat/pendingMessageSet", "kind": kind, "id": id, "message": message(text) })
}

fn removed(kind: &str, id: &str) -> Value {
    json!({ "type": "chat/pendingMessageRemoved", "kind": kind, "id": id })
}

fn active_text(stage: &Stage, chat: &str) -> Value {
    stage.state(chat)["activeTurn"]["message"]["text"].clone()
}

#[test]
fn pend01_pend04_a_steering_message_reaches_the_running_agent_once() {
    let (mut stage, conn, chat) = working();
    stage.accepted(conn, &chat, pending("steering", "s", "to the left"));
    assert_eq!(stage.state(&chat)["steeringMessage"]["id"], "s");
    stage.inbox(conn);
    stage.says(AgentEvent::TakeSteering);
    assert_eq!(stage.replies(), [Reply::Steering(Some("to the left".into()))]);
    assert!(stage.state(&chat).get("steeringMessage").is_none());
    assert_eq!(
        stage.action_types(conn),
        ["chat/responsePart", "chat/pendingMessageRemoved"]
    );
    stage.says(AgentEvent::TakeSteering);
    assert_eq!(stage.replies(), [Reply::Steering(None)]);
}

#[test]
fn pend04_lesson_25_a_steering_message_stays_in_its_turn_with_attachments() {
    let (mut stage, conn, chat) = working();
    let mut said = pending("steering", "s", "look at this");
    said["message"]["attachments"] = json!([
        { "type": "simple", "label": "notes", "modelRepresentation": "the cellar is wet" },
        { "type": "embeddedResource", "label": "list", "data": "d2luZQ==", "contentType": "text/plain" },
        { "type": "embeddedResource", "label": "photo", "data": "AAAA", "contentType": "image/png" },
        { "type": "resource", "label": "main.rs", "uri": "file:///inn/main.rs" },
    ]);
    stage.accepted(conn, &chat, said);
    stage.says(AgentEvent::TakeSteering);
    let [Reply::Steering(Some(words))] = &stage.replies()[..] else {
        panic!("the words");
    };
    for part in [
        "the cellar is wet",
        "wine",
        "photo",
        "file:///inn/main.rs",
        "look at this",
    ] {
        assert!(words.contains(part), "{words}");
    }
    // They are part of the turn even if the agent fails now.
    let turn = &stage.state(&chat)["activeTurn"];
    let turn: ahp_types::state::Turn = serde_json::from_value(json!({
        "id": turn["id"], "message": turn["message"], "responseParts": turn["responseParts"], "state": "cancelled",
    }))
    .unwrap();
    assert_eq!(innkeeper_core::past_turn(&turn).steered, std::slice::from_ref(words));
}

#[test]
fn pend04_words_that_their_turn_has_no_room_for_go_on_waiting() {
    let (mut stage, conn, chat) = working_with(CoreConfig {
        max_turn_bytes: 64,
        ..CoreConfig::default()
    });
    stage.accepted(conn, &chat, pending("steering", "s", &"x".repeat(100)));
    stage.says(AgentEvent::TakeSteering);
    assert!(stage.state(&chat).get("activeTurn").is_none());
    assert_eq!(stage.state(&chat)["steeringMessage"]["id"], "s");
}

#[test]
fn pend01_lesson_26_of_two_steers_both_are_delivered_or_one_replaced() {
    let (mut stage, conn, chat) = working();
    stage.accepted(conn, &chat, pending("steering", "s1", "left"));
    stage.says(AgentEvent::TakeSteering);
    stage.accepted(conn, &chat, pending("steering", "s2", "right"));
    stage.accepted(conn, &chat, pending("steering", "s3", "straight on"));
    stage.says(AgentEvent::TakeSteering);
    let told = [
        Reply::Steering(Some("left".into())),
        Reply::Steering(Some("straight on".into())),
    ];
    assert_eq!(stage.replies(), told);
}

#[test]
fn pend04_a_steer_that_its_turn_did_not_take_becomes_the_next_turn() {
    let (mut stage, conn, chat) = working();
    stage.accepted(conn, &chat, pending("queued", "q", "queued"));
    stage.accepted(conn, &chat, pending("steering", "s", "steer"));
    stage.inbox(conn);
    stage.ends(TurnEnd::Complete);
    assert_eq!(active_text(&stage, &chat), "steer", "before the queue");
    assert!(stage.state(&chat).get("steeringMessage").is_none());
    stage.ends(TurnEnd::Complete);
    assert_eq!(active_text(&stage, &chat), "queued");
}

/// Its author saw a turn run that had just ended.
#[test]
fn pend04_a_steer_set_while_nothing_runs_starts_a_turn() {
    let (mut stage, conn, chat) = working();
    stage.ends(TurnEnd::Complete);
    stage.inbox(conn);
    stage.accepted(conn, &chat, pending("steering", "s", "later"));
    assert_eq!(active_text(&stage, &chat), "later");
    assert!(stage.state(&chat).get("steeringMessage").is_none());
    stage.ends(TurnEnd::Complete);
    assert_eq!(stage.state(&chat)["turns"][1]["message"]["text"], "later");
}

#[test]
fn pend04_pend06_after_a_cancel_only_a_new_steer_starts_a_turn() {
    let (mut stage, conn, chat) = working();
    stage.accepted(conn, &chat, pending("queued", "q", "queued"));
    stage.accepted(conn, &chat, pending("steering", "s", "steer"));
    let cancelled = json!({ "type": "chat/turnCancelled", "turnId": "t", "duration": 0 });
    stage.accepted(conn, &chat, cancelled);
    stage.accepted(conn, &chat, pending("steering", "s", "edited"));
    assert!(stage.state(&chat).get("activeTurn").is_none());
    stage.accepted(conn, &chat, pending("steering", "s2", "now"));
    assert_eq!(active_text(&stage, &chat), "now", "before the queue");
}

#[test]
fn pend06_e63_nothing_starts_by_itself_after_a_cancel_or_an_error() {
    for fails in [true, false] {
        let (mut stage, conn, chat) = working();
        stage.accepted(conn, &chat, pending("queued", "q", "queued"));
        stage.accepted(conn, &chat, pending("steering", "s", "steer"));
        if fails {
            stage.ends(TurnEnd::Failed {
                failure: Failure::new("x", "y"),
                resumable: false,
            });
        } else {
            stage.accepted(
                conn,
                &chat,
                json!({ "type": "chat/turnCancelled", "turnId": "t", "duration": 0 }),
            );
        }
        let state = stage.state(&chat);
        assert!(state.get("activeTurn").is_none());
        assert_eq!(state["queuedMessages"][0]["id"], "q");
        assert_eq!(state["steeringMessage"]["id"], "s");
    }
}

#[test]
fn pend07_lesson_25_a_message_removed_before_its_turn_is_never_sent() {
    let (mut stage, conn, chat) = working();
    stage.accepted(conn, &chat, pending("queued", "q", "oops"));
    stage.accepted(conn, &chat, removed("queued", "q"));
    stage.ends(TurnEnd::Complete);
    assert!(stage.state(&chat).get("activeTurn").is_none());
    let reason = stage.refused(conn, &chat, removed("queued", "q"));
    assert!(reason.contains("no such pending message"), "{reason}");
    assert!(
        stage
            .refused(conn, &chat, removed("steering", "s"))
            .contains("no such pending message")
    );
}

#[test]
fn pend02_lesson_28_an_explicit_send_while_the_queue_drains_loses_nothing() {
    let (mut stage, conn, chat) = working();
    stage.accepted(conn, &chat, pending("queued", "q1", "first"));
    stage.accepted(conn, &chat, pending("queued", "q2", "second"));
    stage.ends(TurnEnd::Complete);
    let action = stage.turn_started("explicit");
    let reason = stage.refused(conn, &chat, action);
    assert!(reason.contains("a turn is already running"), "{reason}");
    assert_eq!(active_text(&stage, &chat), "first");
    stage.ends(TurnEnd::Complete);
    assert_eq!(active_text(&stage, &chat), "second");
}

#[test]
fn pend08_a_queue_survives_its_author_and_ends_absent() {
    let (mut stage, conn, chat) = working();
    stage.accepted(conn, &chat, pending("queued", "q", "still here"));
    stage.handle(innkeeper_core::Input::Disconnected { conn });
    stage.pass(120_000);
    stage.ends(TurnEnd::Complete);
    assert_eq!(active_text(&stage, &chat), "still here");
    assert!(stage.state(&chat).get("queuedMessages").is_none());
}

#[test]
fn dsp18_only_clients_change_pending_messages_and_drafts() {
    let (mut stage, conn, chat) = working();
    let mut forged = pending("queued", "q", "as an agent");
    forged["message"]["origin"]["kind"] = json!("agent");
    assert!(stage.refused(conn, &chat, forged).contains("kind user only"));
    let draft = json!({ "type": "chat/draftChanged", "draft": { "text": "x", "origin": { "kind": "tool" } } });
    assert!(stage.refused(conn, &chat, draft).contains("kind user only"));
    assert!(
        stage
            .refused(conn, &chat, pending("queued", "", "no id"))
            .contains("id has between")
    );
}

/// The reducers take away every message with the id that a turn names.
#[test]
fn pend02_e07_two_messages_that_share_an_id_are_both_sent() {
    for steers_first in [true, false] {
        let (mut stage, conn, chat) = working();
        stage.accepted(conn, &chat, pending("queued", "same", "queued"));
        stage.accepted(conn, &chat, pending("steering", "same", "steer"));
        if steers_first {
            stage.ends(TurnEnd::Complete);
            assert_eq!(active_text(&stage, &chat), "steer");
            assert_eq!(stage.state(&chat)["queuedMessages"][0]["message"]["text"], "queued");
            stage.ends(TurnEnd::Complete);
            assert_eq!(active_text(&stage, &chat), "queued");
        } else {
            stage.ends(TurnEnd::Cancelled);
            stage.accepted(conn, &chat, pending("queued", "other", "other"));
            assert_eq!(active_text(&stage, &chat), "queued");
            assert_eq!(stage.state(&chat)["steeringMessage"]["message"]["text"], "steer");
        }
    }
}

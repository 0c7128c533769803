//! Cancelled and failed turns, and how they resume.

use ahp_types::state::{ResponsePart, TurnState};
use innkeeper_testkit::official::{OfficialClient, markdown, turn_started};
use serde_json::json;

use crate::start_with_client;

#[tokio::test]
async fn turn_11_any_client_cancels_a_running_turn_and_the_chat_goes_on() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("cancel").await;
    let other = OfficialClient::connect(host.address(), "other").await;
    other.join(&uris.session).await;
    client.start_turn(&uris.chat, "t1", "/stream 1000000 1").await;
    other.running_text(&uris.chat, 100).await;
    // The duration is the host's to measure (TURN-05), so the client's absurd one must not stick (trap 4).
    let cancel = json!({ "type": "chat/turnCancelled", "turnId": "t1", "duration": i64::MAX });
    other.dispatch(&uris.chat, cancel.clone()).await;
    for who in [&client, &other] {
        let turn = who.turn_end(&uris.chat, "t1").await;
        assert_eq!(turn.state, TurnState::Cancelled);
        assert!(markdown(&turn.response_parts).len() >= 100, "what was said stays");
    }
    other.dispatch(&uris.chat, cancel).await;
    assert_eq!(other.refusal(1).await, "no turn is running");
    let turn = client.run_turn(&uris.chat, "t2", "/stream 3").await;
    assert_eq!(turn.state, TurnState::Complete);
    client.assert_converged().await;
    other.turn_end(&uris.chat, "t2").await;
    other.assert_converged().await;
}

#[tokio::test]
async fn a_slow_turn_shows_its_activity_until_it_is_cancelled() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("slow").await;
    client.start_turn(&uris.chat, "t1", "/slow 600").await;
    client
        .until("an activity is shown", |view| {
            let chat = view.chat(&uris.chat).expect("mirrored");
            chat.activity.as_deref() == Some("Taking it slowly: 600 s left")
        })
        .await;
    let cancel = json!({ "type": "chat/turnCancelled", "turnId": "t1", "duration": 0 });
    client.dispatch(&uris.chat, cancel).await;
    assert_eq!(client.turn_end(&uris.chat, "t1").await.state, TurnState::Cancelled);
    client.run_turn(&uris.chat, "t2", "/stream 1").await;
    client.assert_converged().await;
}

#[tokio::test]
async fn turn_12_a_resumable_error_is_resumed_in_the_same_turn() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("resume").await;
    let failed = client.run_turn(&uris.chat, "t1", "/error resumable").await;
    assert_eq!(failed.state, TurnState::Error);
    match failed.response_parts.last() {
        Some(ResponsePart::Error(part)) => {
            assert_eq!(part.resumable, Some(true));
            assert_eq!(part.error.error_type, "tour");
        }
        other => panic!("an error part was expected: {other:?}"),
    }
    client
        .dispatch(&uris.chat, json!({ "type": "chat/turnResume", "turnId": "t1" }))
        .await;
    client
        .until("the turn completes", |view| {
            let turn = view.ended_turn(&uris.chat, "t1");
            turn.is_some_and(|turn| turn.state == TurnState::Complete)
        })
        .await;
    let turn = client.turn_end(&uris.chat, "t1").await;
    assert!(markdown(&turn.response_parts).ends_with("this time nothing goes wrong."));
    let errors = turn
        .response_parts
        .iter()
        .filter(|part| matches!(part, ResponsePart::Error(_)));
    assert_eq!(errors.count(), 1, "the earlier error stays visible");
    client.assert_converged().await;
}

#[tokio::test]
async fn turn_13_a_final_error_cannot_be_resumed_and_the_next_message_works() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("final").await;
    let failed = client.run_turn(&uris.chat, "t1", "/error").await;
    assert_eq!(failed.state, TurnState::Error);
    let resume = json!({ "type": "chat/turnResume", "turnId": "t1" });
    client.dispatch(&uris.chat, resume).await;
    assert_eq!(client.refusal(1).await, "the turn's error cannot be resumed");
    let turn = client.run_turn(&uris.chat, "t2", "hello").await;
    assert_eq!(turn.state, TurnState::Complete);
    client.assert_converged().await;
}

#[tokio::test]
async fn trap_5_a_second_start_does_not_destroy_the_running_turn() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("one-turn").await;
    let rival = OfficialClient::connect(host.address(), "rival").await;
    rival.join(&uris.session).await;
    client.start_turn(&uris.chat, "t1", "/stream 200 2 10").await;
    rival.running_text(&uris.chat, 10).await;
    rival.start_turn(&uris.chat, "t2", "me first").await;
    rival.start_turn(&uris.chat, "t1", "a replayed start").await;
    for number in [1, 2] {
        assert_eq!(
            rival.refusal(number).await,
            "a turn is already running in this chat; cancel it, or queue the message"
        );
    }
    let turn = client.turn_end(&uris.chat, "t1").await;
    assert_eq!(markdown(&turn.response_parts).len(), 2000);
    rival.turn_end(&uris.chat, "t1").await;
    rival.start_turn(&uris.chat, "t1", "the same name once more").await;
    assert_eq!(
        rival.refusal(3).await,
        "this turnId was used before; every turn needs its own"
    );
    assert_eq!(client.view().chat(&uris.chat).expect("mirrored").turns.len(), 1);
    client.assert_converged().await;
    rival.assert_converged().await;
}

#[tokio::test]
async fn trap_4_a_start_time_that_no_reducer_can_close_is_refused() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("poison").await;
    for (number, poison) in ["not-a-date", "", "9999-12-31T23:59:59.999Z"].into_iter().enumerate() {
        let mut action = turn_started("t1", "hello");
        action["startedAt"] = json!(poison);
        client.dispatch(&uris.chat, action).await;
        assert!(client.refusal(number + 1).await.starts_with("startedAt "), "{poison}");
    }
    client.run_turn(&uris.chat, "t1", "hello").await;
    client.assert_converged().await;
}

#[tokio::test]
async fn pend_queued_messages_start_when_the_turn_ends_and_not_after_a_cancel() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("queue").await;
    let queue = |id: &str, text: &str| {
        json!({
            "type": "chat/pendingMessageSet", "kind": "queued", "id": id,
            "message": { "text": text, "origin": { "kind": "user" } },
        })
    };
    client.start_turn(&uris.chat, "t1", "/stream 100 2").await;
    client.dispatch(&uris.chat, queue("q1", "/stream 2")).await;
    client.dispatch(&uris.chat, queue("q2", "/slow 600")).await;
    client
        .until("both queued messages had their turn", |view| {
            let chat = view.chat(&uris.chat).expect("mirrored");
            let running = chat.active_turn.as_ref().map(|turn| turn.message.text.as_str());
            chat.turns.len() == 2 && running == Some("/slow 600")
        })
        .await;
    // E-63: nothing starts by itself after a cancel.
    client.dispatch(&uris.chat, queue("q3", "/stream 3")).await;
    let running = client.view().chat(&uris.chat).and_then(|chat| chat.active_turn.clone());
    let turn_id = running.expect("a turn runs").id;
    let cancel = json!({ "type": "chat/turnCancelled", "turnId": turn_id, "duration": 0 });
    client.dispatch(&uris.chat, cancel).await;
    client.turn_end(&uris.chat, &turn_id).await;
    client.client().ping().await.expect("the host answers");
    let chat = client.view().chat(&uris.chat).cloned().expect("mirrored");
    assert!(chat.active_turn.is_none());
    assert_eq!(chat.queued_messages.map(|queue| queue.len()), Some(1));
    client.assert_converged().await;
}

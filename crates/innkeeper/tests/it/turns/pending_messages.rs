//! Pending messages: none lost, none sent twice, none sent after removal.

use ahp_types::actions::StateAction;
use ahp_types::state::{ChatState, TurnState};
use innkeeper_testkit::official::{OfficialClient, View, markdown, queued, steering, unqueued};
use serde_json::json;

use crate::{options, start_with_client};
use innkeeper_testkit::process::HostProcess;

fn queue(chat: &ChatState) -> Vec<&str> {
    let queue = chat.queued_messages.as_deref().unwrap_or_default();
    queue.iter().map(|message| message.id.as_str()).collect()
}

/// The texts of all turns, in order.
fn said(chat: &ChatState) -> Vec<&str> {
    chat.turns.iter().map(|turn| turn.message.text.as_str()).collect()
}

async fn until_queue(client: &OfficialClient, chat: &str, expected: &[&str]) {
    client
        .until(&format!("the queue is {expected:?}"), |view| {
            view.chat(chat).is_some_and(|chat| queue(chat) == expected)
        })
        .await;
}

#[tokio::test]
async fn pend04_lesson_26_every_steering_message_is_used_or_replaced() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("steer").await;
    let other = OfficialClient::connect(host.address(), "other").await;
    other.join(&uris.session).await;
    client.start_turn(&uris.chat, "t1", "/steer 20").await;
    client.running_text(&uris.chat, 10).await;
    client.dispatch(&uris.chat, steering("s1", "to the left")).await;
    other
        .until("the first is taken", |view| {
            let turn = view.chat(&uris.chat).and_then(|chat| chat.active_turn.as_ref());
            turn.is_some_and(|turn| markdown(&turn.response_parts).contains("to the left"))
        })
        .await;
    other.dispatch(&uris.chat, steering("s2", "to the right")).await;
    client
        .until("the second is taken", |view| {
            let turn = view.chat(&uris.chat).and_then(|chat| chat.active_turn.as_ref());
            turn.is_some_and(|turn| markdown(&turn.response_parts).contains("to the right"))
        })
        .await;
    // Two at once: the later one has the slot, and all clients see that.
    client.dispatch(&uris.chat, steering("s3", "no, wait")).await;
    client.dispatch(&uris.chat, steering("s4", "enough")).await;
    let turn = client.turn_end(&uris.chat, "t1").await;
    let words = markdown(&turn.response_parts);
    assert!(words.contains("You said: enough"), "{words}");
    let chat = client.chat(&uris.chat);
    assert!(chat.steering_message.is_none());
    assert_eq!(chat.turns.len(), 1, "a steer is no turn");
    other.turn_end(&uris.chat, "t1").await;
    client.assert_converged().await;
    other.assert_converged().await;
}

#[tokio::test]
async fn pend02_lesson_27_queued_messages_start_in_order_after_the_turn() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("order").await;
    let other = OfficialClient::connect(host.address(), "other").await;
    other.join(&uris.session).await;
    client.start_turn(&uris.chat, "t1", "/stream 1000000 1").await;
    client.running_text(&uris.chat, 10).await;
    for id in ["a", "b", "c", "d"] {
        client
            .dispatch(&uris.chat, queued(id, &format!("/stream 1 0 {}", id.len())))
            .await;
    }
    until_queue(&other, &uris.chat, &["a", "b", "c", "d"]).await;
    let reorder = json!({ "type": "chat/queuedMessagesReordered", "order": ["d", "b"] });
    other.dispatch(&uris.chat, reorder).await;
    until_queue(&client, &uris.chat, &["d", "b", "a", "c"]).await;
    other.dispatch(&uris.chat, queued("a", "/stream 2 0 3")).await;
    other.dispatch(&uris.chat, unqueued("c")).await;
    until_queue(&client, &uris.chat, &["d", "b", "a"]).await;
    // E-63: after a cancel the queue waits for the next message.
    client.cancel_turn(&uris.chat, "t1").await;
    client.run_turn(&uris.chat, "t2", "/stream 1").await;
    client.at_rest(&uris.chat).await;
    let chat = client.chat(&uris.chat);
    let expected = [
        "/stream 1000000 1",
        "/stream 1",
        "/stream 1 0 1",
        "/stream 1 0 1",
        "/stream 2 0 3",
    ];
    assert_eq!(said(&chat), expected);
    assert!(chat.turns[1..].iter().all(|turn| turn.state == TurnState::Complete));
    // E-07: first it leaves the queue, then its turn starts and names it.
    let actions = client.view().actions.clone();
    let removed = |id: &str| {
        actions.iter().position(
            |envelope| matches!(&envelope.action, StateAction::ChatPendingMessageRemoved(removed) if removed.id == id),
        )
    };
    for id in ["d", "b", "a"] {
        let started = actions.iter().position(|envelope| {
            matches!(&envelope.action, StateAction::ChatTurnStarted(started) if started.queued_message_id.as_deref() == Some(id))
        });
        assert!(removed(id).is_some() && removed(id) < started, "{id}");
    }
    other.at_rest(&uris.chat).await;
    client.assert_converged().await;
    other.assert_converged().await;
}

#[tokio::test]
async fn lesson_25_removed_or_edited_pending_messages_are_not_sent_as_before() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("taken-back").await;
    for round in 0..20 {
        let turn = format!("t{round}");
        client.start_turn(&uris.chat, &turn, "/stream 3 1 4").await;
        client.dispatch(&uris.chat, queued("q", "/stream 1 0 1")).await;
        // Each of these races with the end of the turn; the host's order decides, and the author sees which.
        if round % 2 == 0 {
            client.dispatch(&uris.chat, unqueued("q")).await;
        } else {
            client.dispatch(&uris.chat, queued("q", "/stream 1 0 2")).await;
        }
        client.turn_end(&uris.chat, &turn).await;
        client.at_rest(&uris.chat).await;
        client.client().ping().await.expect("the host answers");
        client.at_rest(&uris.chat).await;
    }
    let chat = client.chat(&uris.chat);
    let actions = client.view().actions.clone();
    // A message that was taken back did not become a turn afterwards.
    let mut is_queued = false;
    for envelope in &actions {
        if envelope.channel != uris.chat || envelope.rejection_reason.is_some() {
            continue;
        }
        match &envelope.action {
            StateAction::ChatPendingMessageSet(_) => is_queued = true,
            StateAction::ChatPendingMessageRemoved(_) if envelope.origin.is_some() => {
                assert!(is_queued, "accepted, so it was there");
                is_queued = false;
            }
            StateAction::ChatTurnStarted(started) if started.queued_message_id.is_some() => {
                assert!(is_queued, "{} was not in the queue", started.turn_id);
                is_queued = false;
            }
            _ => {}
        }
    }
    assert!(!is_queued, "nothing was forgotten");
    assert!(chat.turns.len() >= 20);
    client.assert_converged().await;
}

#[tokio::test]
async fn pend07_removing_an_unknown_pending_message_is_rejected() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("nothing").await;
    client.dispatch(&uris.chat, unqueued("q")).await;
    assert_eq!(client.refusal(1).await, "no such pending message");
    let steer = json!({ "type": "chat/pendingMessageRemoved", "kind": "steering", "id": "s" });
    client.dispatch(&uris.chat, steer).await;
    assert_eq!(client.refusal(2).await, "no such pending message");
    client.assert_converged().await;
}

#[tokio::test]
async fn pend06_e63_nothing_starts_by_itself_after_an_error() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("error").await;
    client.start_turn(&uris.chat, "t1", "/slow 1").await;
    client.dispatch(&uris.chat, queued("q1", "/error")).await;
    client.dispatch(&uris.chat, queued("q2", "/stream 2")).await;
    client
        .until("the queued error happened", |view| {
            let chat = view.chat(&uris.chat).expect("mirrored");
            chat.turns.last().is_some_and(|turn| turn.state == TurnState::Error)
        })
        .await;
    client.client().ping().await.expect("the host answers");
    let chat = client.chat(&uris.chat);
    assert!(chat.active_turn.is_none());
    assert_eq!(queue(&chat), ["q2"]);
    client.run_turn(&uris.chat, "t2", "/stream 1").await;
    client.at_rest(&uris.chat).await;
    assert_eq!(
        said(&client.chat(&uris.chat)),
        ["/slow 1", "/error", "/stream 1", "/stream 2"]
    );
    client.assert_converged().await;
}

#[tokio::test]
async fn pend02_a_queue_does_not_need_its_author() {
    // Long gone: not even the grace of a reconnect is left.
    let host = HostProcess::start(options().limit("grace_ms", 1)).await;
    let watcher = OfficialClient::connect(host.address(), "watcher").await;
    let uris = watcher.create_session("orphaned").await;
    let mut author = OfficialClient::connect(host.address(), "author").await;
    author.join(&uris.session).await;
    author.start_turn(&uris.chat, "t1", "/slow 2").await;
    author.dispatch(&uris.chat, queued("q1", "/stream 1")).await;
    author.dispatch(&uris.chat, queued("q2", "/stream 2")).await;
    until_queue(&author, &uris.chat, &["q1", "q2"]).await;
    author.cut().await;
    watcher
        .until("both had their turn", |view| {
            view.chat(&uris.chat).is_some_and(|chat| chat.turns.len() == 3)
        })
        .await;
    watcher.at_rest(&uris.chat).await;
    author.reconnect().await.expect("resumed");
    author.at_rest(&uris.chat).await;
    assert_eq!(said(&author.chat(&uris.chat)), ["/slow 2", "/stream 1", "/stream 2"]);
    author.assert_converged().await;
    watcher.assert_converged().await;
}

fn has_started(view: &View, turn: &str) -> bool {
    view.actions.iter().any(|envelope| {
        matches!(&envelope.action, StateAction::ChatTurnStarted(started) if started.turn_id == turn)
            && envelope.rejection_reason.is_none()
    })
}

#[tokio::test]
async fn lesson_28_an_explicit_send_while_the_queue_drains_loses_nothing() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("drain").await;
    let other = OfficialClient::connect(host.address(), "other").await;
    other.join(&uris.session).await;
    client.start_turn(&uris.chat, "t1", "/stream 20 2").await;
    // The first message to arrive has the first turn.
    other.until("the first turn runs", |view| has_started(view, "t1")).await;
    for number in 0..5 {
        client
            .dispatch(
                &uris.chat,
                queued(&format!("q{number}"), &format!("/stream 3 1 {}", number + 1)),
            )
            .await;
    }
    let mut sent = 0;
    let mut refused = 0;
    // A user keeps pressing "send"; each message is either a turn of its own or refused with a reason.
    while refused + sent < 12 {
        let turn = format!("x{}", refused + sent);
        other.start_turn(&uris.chat, &turn, "/stream 1").await;
        let before = refused;
        other
            .until("taken or refused", |view| {
                has_started(view, &turn) || view.refusals.len() > before
            })
            .await;
        if other.view().refusals.len() > before {
            refused += 1;
        } else {
            sent += 1;
        }
    }
    // The other one may have heard of the last turn first.
    client
        .until("every turn is over", |view| {
            view.chat(&uris.chat).is_some_and(|chat| chat.turns.len() >= 6 + sent)
        })
        .await;
    client.at_rest(&uris.chat).await;
    let chat = client.chat(&uris.chat);
    let from_queue: Vec<&str> = said(&chat)
        .into_iter()
        .filter(|text| text.starts_with("/stream 3 1"))
        .collect();
    let expected: Vec<String> = (1..=5).map(|number| format!("/stream 3 1 {number}")).collect();
    assert_eq!(from_queue, expected, "in their order, each once");
    assert_eq!(chat.turns.len(), 6 + sent);
    other.at_rest(&uris.chat).await;
    client.assert_converged().await;
    other.assert_converged().await;
}

#[tokio::test]
async fn pend03_pend05_a_message_queued_while_nothing_runs_starts_at_once() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("at-once").await;
    client.dispatch(&uris.chat, queued("q1", "/stream 2")).await;
    client
        .until("it had its turn", |view| {
            view.chat(&uris.chat).is_some_and(|chat| chat.turns.len() == 1)
        })
        .await;
    let kinds: Vec<&str> = client
        .view()
        .actions
        .iter()
        .filter(|envelope| envelope.channel == uris.chat)
        .filter_map(|envelope| match &envelope.action {
            StateAction::ChatPendingMessageSet(_) => Some("set"),
            StateAction::ChatPendingMessageRemoved(_) => Some("removed"),
            StateAction::ChatTurnStarted(_) => Some("started"),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, ["set", "removed", "started"]);
    assert!(client.chat(&uris.chat).queued_messages.is_none(), "PEND-08");
    client.assert_converged().await;
}

//! Client tool calls when their client disconnects.

use innkeeper_testkit::official::{OfficialClient, markdown, tool_calls_of};
use serde_json::{Value, json};

use crate::turns::client_tools::{CALL, failed, result, stage};

#[tokio::test]
async fn lesson_45_when_the_owner_stays_away_its_calls_fail_once_in_every_chat() {
    let (_host, mut owner, witness, uris) = stage(100).await;
    let second = "ahp-chat:/second";
    let created: Value = witness
        .request("createChat", json!({ "channel": uris.session, "chat": second }))
        .await
        .expect("created");
    assert_eq!(created, Value::Null);
    witness.subscribe(second).await;
    let chats = [uris.chat.as_str(), second];
    for chat in chats {
        witness.start_turn(chat, "t1", CALL).await;
        witness.call_in(chat, "running").await;
    }
    witness
        .until("the session shows both", |view| view.waits(&uris.session).len() == 2)
        .await;
    let waits = witness.view().waits(&uris.session);
    owner.cut().await;
    for chat in chats {
        let turn = witness.turn_end(chat, "t1").await;
        let error = failed(&tool_calls_of(&turn)[0]);
        assert!(
            error.contains("left the session") && error.contains("open the session in a client that offers it"),
            "{error}"
        );
        assert!(markdown(&turn.response_parts).starts_with("Your client says: it failed"));
        let ends = witness.view().actions_on(chat);
        let ends = ends.iter().filter(|action| action["type"] == "chat/toolCallComplete");
        assert_eq!(ends.count(), 1, "once");
    }
    assert!(witness.view().members(&uris.session).is_empty());
    assert!(witness.view().waits(&uris.session).is_empty());
    // ACT-08: a call for a client that left long ago is not started.
    let turn = witness.run_turn(&uris.chat, "t2", CALL).await;
    assert!(tool_calls_of(&turn).is_empty());
    // Back too late: it learns what happened, and its result is not wanted any more.
    owner.reconnect().await.expect("still known");
    owner
        .answer(&waits[0], "chat/toolCallComplete", result(true, "late"))
        .await;
    assert_eq!(owner.refusal(1).await, "the turn of this tool call is not running");
    assert!(owner.view().members(&uris.session).is_empty());
    owner.assert_converged().await;
    witness.assert_converged().await;
}

#[tokio::test]
async fn lesson_46_back_within_the_grace_the_owner_finishes_its_call() {
    let (_host, mut owner, witness, uris) = stage(30_000).await;
    witness.start_turn(&uris.chat, "t1", CALL).await;
    owner.wait_for(&uris.session, "toolClientExecution").await;
    for _ in 0..3 {
        owner.cut().await;
        owner.reconnect().await.expect("reconnect succeeds");
    }
    let wait = owner.wait_for(&uris.session, "toolClientExecution").await;
    owner
        .answer(&wait, "chat/toolCallComplete", result(true, "opened"))
        .await;
    let turn = witness.turn_end(&uris.chat, "t1").await;
    assert_eq!(markdown(&turn.response_parts), "Your client says: opened");
    let left = witness.view().actions_on(&uris.session);
    assert!(
        left.iter()
            .all(|action| action["type"] != "session/activeClientRemoved"),
        "it never left"
    );
    owner.turn_end(&uris.chat, "t1").await;
    owner.assert_converged().await;
    witness.assert_converged().await;
}

#[tokio::test]
async fn act_09_act_11_an_owner_that_unsubscribes_leaves_at_once() {
    let (_host, owner, witness, uris) = stage(30_000).await;
    witness.start_turn(&uris.chat, "t1", CALL).await;
    owner.wait_for(&uris.session, "toolClientExecution").await;
    owner.unsubscribe(&uris.session).await;
    let turn = witness.turn_end(&uris.chat, "t1").await;
    assert!(failed(&tool_calls_of(&turn)[0]).contains("left the session"));
    assert!(witness.view().members(&uris.session).is_empty());
    owner.turn_end(&uris.chat, "t1").await;
    owner.assert_converged().await;
    witness.assert_converged().await;
}

#[tokio::test]
async fn rec_14_act_10_an_owner_that_comes_back_without_the_session_has_left_it() {
    let (_host, mut owner, witness, uris) = stage(30_000).await;
    witness.start_turn(&uris.chat, "t1", CALL).await;
    owner.wait_for(&uris.session, "toolClientExecution").await;
    owner.cut().await;
    owner.view().forget(&uris.session);
    owner.reconnect().await.expect("reconnect succeeds");
    let turn = witness.turn_end(&uris.chat, "t1").await;
    assert!(failed(&tool_calls_of(&turn)[0]).contains("left the session"));
    assert!(witness.view().members(&uris.session).is_empty());
    owner.turn_end(&uris.chat, "t1").await;
    owner.assert_converged().await;
    witness.assert_converged().await;
}

#[tokio::test]
async fn act_14_an_owner_with_two_connections_stays_while_one_subscribes() {
    let (host, owner, witness, uris) = stage(30_000).await;
    let mut twin = OfficialClient::connect(host.address(), "owner").await;
    twin.join(&uris.session).await;
    witness.start_turn(&uris.chat, "t1", CALL).await;
    let wait = twin.wait_for(&uris.session, "toolClientExecution").await;
    owner.unsubscribe(&uris.session).await;
    owner.caught_up().await;
    witness.caught_up().await;
    assert_eq!(witness.view().members(&uris.session).len(), 1);
    twin.answer(&wait, "chat/toolCallComplete", result(true, "opened"))
        .await;
    witness.turn_end(&uris.chat, "t1").await;
    // The last one that listens goes, and the client with it, although it is still connected.
    twin.cut().await;
    witness
        .until("the owner has left", |view| view.members(&uris.session).is_empty())
        .await;
    owner.turn_end(&uris.chat, "t1").await;
    owner.assert_converged().await;
    witness.assert_converged().await;
}

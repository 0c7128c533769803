//! Moved chats: within a session, to another session, into a new one. Mirrors follow, and subscriptions to the chat
//! stay.

use ahp_types::state::SessionState;
use innkeeper_testkit::official::{OfficialClient, markdown};
use serde_json::{Value, json};

use crate::start_with_client;

async fn move_chat(client: &OfficialClient, chat: &str, destination: Value) -> String {
    let params = json!({ "channel": chat, "destination": destination });
    let moved: Value = client.request("moveChat", params).await.expect("moved");
    moved["session"]
        .as_str()
        .expect("the answer names the session")
        .to_owned()
}

fn to(session: &str, after: Option<&str>) -> Value {
    match after {
        Some(after) => json!({ "kind": "session", "session": session, "after": after }),
        None => json!({ "kind": "session", "session": session }),
    }
}

fn order(state: &SessionState) -> Vec<&str> {
    state.chats.iter().map(|chat| chat.resource.as_str()).collect()
}

async fn until_order(client: &OfficialClient, session: &str, expected: &[&str]) {
    client
        .until("the catalogue is in order", |view| {
            view.session(session).is_some_and(|session| order(session) == expected)
        })
        .await;
}

#[tokio::test]
async fn cht16_cht17_ses13_a_chat_is_put_elsewhere_in_its_session() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("order").await;
    let (a, b, c) = ("ahp-chat:/a", "ahp-chat:/b", "ahp-chat:/c");
    for chat in [a, b, c] {
        client.create_chat(&uris.session, chat, json!({})).await;
    }
    let watcher = OfficialClient::connect(host.address(), "watcher").await;
    watcher.join(&uris.session).await;
    let own = uris.chat.as_str();
    // A turn that runs is no obstacle within a session.
    client.start_turn(c, "t1", "/stream 100000 1").await;
    client.running_text(c, 10).await;
    assert_eq!(move_chat(&client, c, to(&uris.session, Some(own))).await, uris.session);
    until_order(&watcher, &uris.session, &[own, c, a, b]).await;
    move_chat(&client, b, to(&uris.session, None)).await;
    until_order(&watcher, &uris.session, &[b, own, c, a]).await;
    move_chat(&client, b, to(&uris.session, Some(a))).await;
    until_order(&watcher, &uris.session, &[own, c, a, b]).await;
    until_order(&client, &uris.session, &[own, c, a, b]).await;
    client.cancel_turn(c, "t1").await;
    let listed = client.listed(&uris.session).await.chats.expect("a catalogue");
    let listed: Vec<&str> = listed.iter().map(|chat| chat.resource.as_str()).collect();
    assert_eq!(listed, [own, c, a, b]);
    watcher.assert_converged().await;
    client.assert_converged().await;
    client.assert_summary_converged(&uris.session).await;
}

#[tokio::test]
async fn cht17_cht18_a_chat_moves_to_another_session_with_its_subscribers() {
    let (host, client) = start_with_client().await;
    let from = client.create_session("from").await;
    let there = client.create_session("there").await;
    let chat = "ahp-chat:/traveller";
    client.create_chat(&from.session, chat, json!({})).await;
    client.run_turn(chat, "t1", "I have a suitcase").await;
    let reader = OfficialClient::connect(host.address(), "reader").await;
    reader.subscribe(chat).await;
    assert_eq!(
        move_chat(&client, chat, to(&there.session, Some(&there.chat))).await,
        there.session
    );
    until_order(&client, &from.session, &[&from.chat]).await;
    until_order(&client, &there.session, &[&there.chat, chat]).await;
    // Subscribers of the chat stay subscribed in any session.
    let turn = client.run_turn(chat, "t2", "what do you remember?").await;
    assert!(markdown(&turn.response_parts).contains("suitcase"));
    reader.turn_end(chat, "t2").await;
    reader.assert_converged().await;
    // Its waits appear in the new session.
    client.start_turn(chat, "t3", "/confirm").await;
    client
        .until("the new session waits", |view| {
            let session = view.session(&there.session).expect("mirrored");
            session.input_needed.as_ref().is_some_and(|waits| waits.len() == 1)
        })
        .await;
    assert!(client.session(&from.session).input_needed.is_none());
    let (code, text) = client
        .refused(
            "moveChat",
            json!({ "channel": chat, "destination": to(&from.session, None) }),
        )
        .await;
    assert_eq!(code, -32004, "{text}");
    client.cancel_turn(chat, "t3").await;
    // And back, to the very front.
    move_chat(&client, chat, to(&from.session, None)).await;
    until_order(&client, &from.session, &[chat, &from.chat]).await;
    assert_eq!(
        client.session(&from.session).default_chat.as_deref(),
        Some(from.chat.as_str())
    );
    client.assert_converged().await;
    client.assert_summary_converged(&from.session).await;
    client.assert_summary_converged(&there.session).await;
}

#[tokio::test]
async fn cht19_ses11_a_chat_moves_into_a_new_session_with_its_subagents() {
    let (_host, client) = start_with_client().await;
    let from = client.create_session("crowded").await;
    let chat = "ahp-chat:/leaves";
    client.create_chat(&from.session, chat, json!({})).await;
    client.start_turn(chat, "t1", "/subagent").await;
    client
        .until("the subagent is there", |view| view.catalogue(&from.session).len() == 3)
        .await;
    let subagent = client.view().catalogue(&from.session)[2].clone();
    client.cancel_turn(chat, "t1").await;
    client.subscribe(&subagent).await;
    let session = move_chat(&client, chat, json!({ "kind": "newSession" })).await;
    client.subscribe(&session).await;
    let state = client.session(&session);
    assert_eq!(state.default_chat.as_deref(), Some(chat));
    assert_eq!(order(&state), [chat, subagent.as_str()]);
    assert_eq!(client.chat(chat).movable, Some(false), "SES-11");
    until_order(&client, &from.session, &[&from.chat]).await;
    let stays = json!({ "channel": chat, "destination": to(&from.session, None) });
    let (code, text) = client.refused("moveChat", stays).await;
    assert_eq!(code, -32011, "{text}");
    client.run_turn(chat, "t2", "hello").await;
    client.assert_converged().await;
    client.assert_summary_converged(&session).await;
    client.assert_summary_converged(&from.session).await;
    let _: Value = client
        .request("disposeSession", json!({ "channel": from.session }))
        .await
        .expect("the old one is of no use to it");
    client.view().forget(&from.session);
    client.view().forget(&from.chat);
    client.run_turn(chat, "t3", "still here?").await;
    client.assert_converged().await;
}

#[tokio::test]
async fn cht16_moves_that_cannot_be_are_refused_and_change_nothing() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("firm").await;
    let other = client.create_session("other").await;
    let chat = "ahp-chat:/a";
    client.create_chat(&uris.session, chat, json!({})).await;
    let cases = [
        (chat, to("ahp-session:/missing", None), -32001),
        (chat, to(&uris.session, Some(chat)), -32602),
        (chat, to(&other.session, Some(&uris.chat)), -32602),
        (chat, to(&uris.session, Some("ahp-chat:/missing")), -32602),
        (chat, json!({ "kind": "moon" }), -32602),
        ("ahp-chat:/missing", to(&other.session, None), -32001),
        (&uris.chat, to(&other.session, None), -32011),
        (&uris.chat, json!({ "kind": "newSession" }), -32011),
    ];
    let before = client.view().catalogue(&uris.session);
    for (chat, destination, expected) in cases {
        let params = json!({ "channel": chat, "destination": destination });
        let (code, text) = client.refused("moveChat", params).await;
        assert_eq!(code, expected, "{chat} {destination}: {text}");
    }
    assert_eq!(client.view().catalogue(&uris.session), before);
    client.assert_converged().await;
}

/// A client that is away while a chat moves finds it in its new place (REC-01).
#[tokio::test]
async fn cht17_a_missed_move_is_replayed() {
    let (host, client) = start_with_client().await;
    let from = client.create_session("from").await;
    let there = client.create_session("there").await;
    let chat = "ahp-chat:/traveller";
    client.create_chat(&from.session, chat, json!({})).await;
    let mut absent = OfficialClient::connect(host.address(), "absent").await;
    absent.join(&from.session).await;
    absent.join(&there.session).await;
    absent.subscribe(chat).await;
    absent.cut().await;
    move_chat(&client, chat, to(&there.session, None)).await;
    client.run_turn(chat, "t1", "hello").await;
    absent.reconnect().await.expect("resumed");
    until_order(&absent, &there.session, &[chat, &there.chat]).await;
    absent.turn_end(chat, "t1").await;
    absent.assert_converged().await;
}

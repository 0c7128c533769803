//! Creating, listing and disposing of sessions.

use std::collections::HashSet;

use ahp::{ClientError, SubscriptionEvent};
use innkeeper_testkit::official::{OfficialClient, markdown};
use innkeeper_testkit::raw::RawClient;
use serde_json::{Value, json};

use crate::{start, start_with_client};

#[tokio::test]
async fn a_session_is_created_talked_to_and_mirrored_exactly() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("tour").await;
    let turn = client.run_turn(&uris.chat, "t1", "hello there").await;
    assert!(markdown(&turn.response_parts).starts_with("Welcome to the inn."));
    assert_eq!(
        client.view().session(&uris.session).expect("mirrored").title,
        "hello there"
    );
    let second = OfficialClient::connect(host.address(), "second").await;
    second.join(&uris.session).await;
    let turn = second.run_turn(&uris.chat, "t2", "what is this session?").await;
    assert!(markdown(&turn.response_parts).contains("one turn"));
    client.turn_end(&uris.chat, "t2").await;
    client.assert_converged().await;
    second.assert_converged().await;
}

#[tokio::test]
async fn ses_02_a_session_is_subscribable_while_it_is_being_created() {
    let host = start().await;
    // One after the other without waiting: the subscription finds the session (SUB-16).
    let mut raw = RawClient::initialized(host.address(), "pipelining").await;
    let create = raw.ask("createSession", json!({ "channel": "ahp-session:/p" })).await;
    let subscribe = raw.ask("subscribe", json!({ "channel": "ahp-session:/p" })).await;
    assert_eq!(raw.answer(&json!(create)).await, Ok(Value::Null));
    let subscribed = raw.answer(&json!(subscribe)).await.expect("subscribed");
    assert_eq!(subscribed["snapshot"]["resource"], "ahp-session:/p");
    let state = &subscribed["snapshot"]["state"];
    if state["lifecycle"] == "creating" {
        raw.notification("session/ready", |message| {
            message["params"]["action"]["type"] == "session/ready"
        })
        .await;
    }
}

#[tokio::test]
async fn ses_01_a_taken_uri_and_ses_04_an_unknown_agent_are_refused() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("taken").await;
    let again: Result<Value, _> = client
        .request("createSession", json!({ "channel": uris.session }))
        .await;
    assert_eq!(
        rpc(again),
        (
            -32003,
            "\"ahp-session:/taken\" exists already; choose another URI or subscribe to it".to_owned()
        )
    );
    let unknown: Result<Value, _> = client
        .request(
            "createSession",
            json!({ "channel": "ahp-session:/x", "provider": "unknown" }),
        )
        .await;
    assert_eq!(
        rpc(unknown),
        (
            -32002,
            "there is no agent \"unknown\" on this host; it has: tour, anthropic, openai".to_owned()
        )
    );
    client.assert_converged().await;
}

#[tokio::test]
async fn e_50_any_scheme_is_accepted_and_echoed_as_it_was_spelled() {
    let (_host, client) = start_with_client().await;
    let session = "tour:/5B0c-UPPER%20case";
    let created: Value = client
        .request("createSession", json!({ "channel": session, "provider": "tour" }))
        .await
        .expect("created");
    assert_eq!(created, Value::Null);
    let uris = client.join(session).await;
    client.session_ready(session).await;
    // The reference client computes this name by itself (E-49).
    assert_eq!(uris.chat, "ahp-chat://default/dG91cjovNUIwYy1VUFBFUiUyMGNhc2U");
    client.run_turn(&uris.chat, "t1", "hi").await;
    let list: Value = client.request("listSessions", json!({})).await.expect("listed");
    assert_eq!(list["items"][0]["resource"], session);
    assert_eq!(list["items"][0]["defaultChat"], uris.chat);
    client.assert_converged().await;
}

#[tokio::test]
async fn root_10_sessions_are_listed_latest_first_and_in_pages() {
    let (_host, client) = start_with_client().await;
    for name in ["a", "b", "c", "d", "e"] {
        client.create_listed_session(name).await;
    }
    let chat = client.join("ahp-session:/a").await.chat;
    client.run_turn(&chat, "t1", "now the latest").await;
    let all: Value = client
        .request("listSessions", json!({ "channel": "ahp-root://" }))
        .await
        .expect("listed");
    assert_eq!(
        all["items"].as_array().expect("items").len(),
        5,
        "no limit means everything"
    );
    assert_eq!(all["items"][0]["resource"], "ahp-session:/a", "the latest comes first");
    assert!(all.get("nextCursor").is_none(), "nothing follows");

    let mut paged = Vec::new();
    let mut params = json!({ "limit": 2 });
    loop {
        let page: Value = client.request("listSessions", params.clone()).await.expect("a page");
        let items = page["items"].as_array().expect("items");
        assert!(items.len() <= 2);
        paged.extend(items.iter().map(|item| item["resource"].clone()));
        let Some(cursor) = page.get("nextCursor") else {
            break;
        };
        params["cursor"] = cursor.clone();
    }
    let everything = all["items"].as_array().expect("items");
    let expected: Vec<Value> = everything.iter().map(|item| item["resource"].clone()).collect();
    assert_eq!(paged, expected);
    let distinct: HashSet<String> = paged.iter().map(Value::to_string).collect();
    assert_eq!(distinct.len(), 5);

    let wrong: Result<Value, _> = client
        .request("listSessions", json!({ "limit": 2, "cursor": "nonsense" }))
        .await;
    assert_eq!(
        rpc(wrong),
        (
            -32602,
            "params.cursor: is not a cursor of this host; start again without one".to_owned()
        )
    );
    client.assert_converged().await;
}

#[tokio::test]
async fn ses_27_disposing_a_session_ends_its_chats_turns_and_subscriptions() {
    let (host, client) = start_with_client().await;
    let second = OfficialClient::connect(host.address(), "second").await;
    let uris = client.create_session("doomed").await;
    second.join(&uris.session).await;
    client.start_turn(&uris.chat, "t1", "/stream 1000000 10").await;
    second.running_text(&uris.chat, 1).await;

    let disposed: Value = client
        .request("disposeSession", json!({ "channel": uris.session }))
        .await
        .expect("disposed");
    assert_eq!(disposed, Value::Null);
    for who in [&client, &second] {
        who.until("the root hears of it", |view| {
            view.notifications.iter().any(
                |event| matches!(event, SubscriptionEvent::SessionRemoved(removed) if removed.session == uris.session),
            )
        })
        .await;
        who.until("the count follows", |view| {
            view.root().is_some_and(|root| root.active_sessions == Some(0))
        })
        .await;
        who.view().forget(&uris.session);
        who.view().forget(&uris.chat);
    }
    for gone in [&uris.session, &uris.chat] {
        let subscribed: Result<Value, _> = client.request("subscribe", json!({ "channel": gone })).await;
        assert_eq!(rpc(subscribed).0, -32001, "{gone}");
    }
    let again: Result<Value, _> = client
        .request("disposeSession", json!({ "channel": uris.session }))
        .await;
    assert_eq!(rpc(again).0, -32001);
    // Actions for a disposed channel are ignored silently (DSP-05).
    client.start_turn(&uris.chat, "t2", "hello?").await;
    // The deletion can be undone for a while, so the name is taken (SES-37).
    let create: Result<Value, _> = client
        .request("createSession", json!({ "channel": uris.session }))
        .await;
    assert_eq!(rpc(create).0, -32003);
    let params = json!({ "channel": "ahp-root://", "session": uris.session });
    let restored: Value = client
        .request("innkeeper/restoreSession", params)
        .await
        .expect("restored");
    assert_eq!(restored["session"], uris.session);
    let uris = client.join(&uris.session).await;
    client.run_turn(&uris.chat, "t3", "hello again").await;
    assert_eq!(
        client.chat(&uris.chat).turns.len(),
        2,
        "with everything that was said before"
    );
    assert!(client.view().refusals.is_empty());
    client.assert_converged().await;
    second.assert_converged().await;
}

#[tokio::test]
async fn lesson_10_subscribing_to_a_session_never_created_is_a_prompt_error() {
    let (_host, client) = start_with_client().await;
    for (uri, code) in [
        ("ahp-session:/never", -32001),
        ("ahp-chat://default/bmV2ZXI", -32001),
        ("copilot:/never", -32001),
        ("ahp-terminal:/never", -32008),
    ] {
        let subscribed: Result<Value, _> = client.request("subscribe", json!({ "channel": uri })).await;
        let (actual, message) = rpc(subscribed);
        assert_eq!(actual, code, "{uri}");
        assert!(message.contains(uri), "{message}");
    }
    client.assert_converged().await;
}

#[tokio::test]
async fn lesson_09_a_second_subscribe_is_answered_and_one_unsubscribe_ends_both() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("twice").await;
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    let subscribe = json!({ "channel": uris.chat });
    let first = raw.ask("subscribe", subscribe.clone()).await;
    let second = raw.ask("subscribe", subscribe.clone()).await;
    let first = raw.answer(&json!(first)).await.expect("answered");
    let second = raw.answer(&json!(second)).await.expect("answered");
    assert_eq!(first["snapshot"]["state"], second["snapshot"]["state"]);
    // Every action comes once, although it was asked for twice (SUB-07).
    client.run_turn(&uris.chat, "t1", "/stream 1").await;
    raw.notification("the end", |message| {
        message["params"]["action"]["type"] == "chat/turnComplete"
    })
    .await;
    let starts = raw
        .notifications
        .iter()
        .filter(|message| message["params"]["action"]["type"] == "chat/turnStarted");
    assert_eq!(starts.count(), 1);
    raw.notifications.clear();
    raw.notify("unsubscribe", subscribe).await;
    raw.notify("unsubscribe", json!({ "channel": "ahp-session:/unknown" }))
        .await;
    raw.still_works().await;
    client.run_turn(&uris.chat, "t2", "/stream 1").await;
    raw.still_works().await;
    assert_eq!(raw.notifications, Vec::<Value>::new());
    client.assert_converged().await;
}

/// The code and sentence of a refused request.
fn rpc(result: Result<Value, ClientError>) -> (i32, String) {
    match result {
        Err(ClientError::Rpc(error)) => (error.code, error.message),
        other => panic!("a refusal was expected: {other:?}"),
    }
}

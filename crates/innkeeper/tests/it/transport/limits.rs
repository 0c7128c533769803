//! Every limit, with the documented response.

use innkeeper_testkit::official::{OfficialClient, turn_started};
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::{RawClient, UPGRADE, get, http};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::{options, start};

#[tokio::test]
async fn subscriptions_per_connection_are_bounded() {
    let host = HostProcess::start(options().limit("subscriptions", 3)).await;
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    for name in ["a", "b", "c", "d"] {
        let create = json!({ "channel": format!("ahp-session:/{name}") });
        raw.call("createSession", create.clone()).await.expect("created");
        let subscribed = raw.call("subscribe", create).await;
        if name == "d" {
            let refused = subscribed.expect_err("one too many");
            assert_eq!(
                (refused.code, refused.message.as_str()),
                (
                    -32602,
                    "params.channel: a connection has at most 3 subscriptions; unsubscribe from some"
                )
            );
        } else {
            subscribed.expect("subscribed");
        }
    }
    raw.call("subscribe", json!({ "channel": "ahp-session:/a" }))
        .await
        .expect("again is not one more");
    raw.notify("unsubscribe", json!({ "channel": "ahp-session:/a" })).await;
    raw.call("subscribe", json!({ "channel": "ahp-session:/d" }))
        .await
        .expect("now there is room");
}

#[tokio::test]
async fn sessions_are_bounded() {
    let host = HostProcess::start(options().limit("sessions", 2)).await;
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    for name in ["a", "b"] {
        raw.call("createSession", json!({ "channel": format!("ahp-session:/{name}") }))
            .await
            .expect("created");
    }
    let refused = raw
        .call("createSession", json!({ "channel": "ahp-session:/c" }))
        .await
        .expect_err("full");
    assert_eq!(refused.message, "this host stores at most 2 sessions; dispose of some");
    raw.call("disposeSession", json!({ "channel": "ahp-session:/a" }))
        .await
        .expect("disposed");
    raw.call("createSession", json!({ "channel": "ahp-session:/c" }))
        .await
        .expect("now there is room");
}

#[tokio::test]
async fn messages_titles_queues_and_attachments_are_bounded_by_refusals() {
    let limits = options()
        .limit("message_text_bytes", 100)
        .limit("title_bytes", 10)
        .limit("queued_messages", 1)
        .limit("attachments", 1);
    let host = HostProcess::start(limits).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let uris = client.create_session("bounds").await;
    let long = "x".repeat(101);
    client.start_turn(&uris.chat, "t1", &long).await;
    assert_eq!(client.refusal(1).await, "a message has at most 100 bytes of text");
    let draft = json!({ "type": "chat/draftChanged", "draft": { "text": long, "origin": { "kind": "user" } } });
    client.dispatch(&uris.chat, draft).await;
    assert_eq!(client.refusal(2).await, "a message has at most 100 bytes of text");
    client
        .dispatch(
            &uris.session,
            json!({ "type": "session/titleChanged", "title": "12345678901" }),
        )
        .await;
    assert_eq!(client.refusal(3).await, "a title has at most 10 bytes");
    let mut crowded = turn_started("t1", "look");
    let attachment = json!({ "type": "simple", "label": "a", "modelRepresentation": "b" });
    crowded["message"]["attachments"] = json!([attachment, attachment]);
    client.dispatch(&uris.chat, crowded).await;
    assert_eq!(client.refusal(4).await, "a message has at most 1 attachments");
    client.start_turn(&uris.chat, "t1", "/slow 600").await;
    for (id, refused) in [("q1", false), ("q2", true)] {
        let queued = json!({
            "type": "chat/pendingMessageSet", "kind": "queued", "id": id,
            "message": { "text": "next", "origin": { "kind": "user" } },
        });
        client.dispatch(&uris.chat, queued).await;
        if refused {
            assert_eq!(client.refusal(5).await, "a chat queues at most 1 messages");
        }
    }
    assert_eq!(client.view().refusals.len(), 5);
    client.assert_converged().await;
}

#[tokio::test]
async fn connections_are_bounded_in_all_and_per_credential() {
    let host = HostProcess::start(options().limit("connections_per_principal", 2)).await;
    let address = host.address();
    let first = RawClient::initialized(address, "one").await;
    let _second = RawClient::initialized(address, "two").await;
    let path = format!("/?tkn={}", address.token.as_deref().expect("a token"));
    let third = get(address, &path, &UPGRADE).await;
    assert_eq!((third.status, third.body.as_str()), (503, "too many connections\n"));
    drop(first);
    let mut tries = 0;
    while get(address, "/healthz", &[]).await.status == 200 {
        // The place is free as soon as the host has seen the end of the first.
        if RawClient::connect_with(address, address.request()).await.is_ok() {
            break;
        }
        tries += 1;
        assert!(tries < 300, "the place is never freed");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }

    let host = HostProcess::start(options().limit("connections", 2)).await;
    let address = host.address();
    let _one = RawClient::initialized(address, "one").await;
    let _two = RawClient::initialized(address, "two").await;
    assert_eq!(get(address, "/healthz", &[]).await.status, 503);
}

#[tokio::test]
async fn t_18_a_socket_that_says_nothing_is_closed_and_does_not_block_others() {
    let host = HostProcess::start(
        options()
            .limit("handshake_ms", 300)
            .limit("unauthenticated_connections", 2),
    )
    .await;
    let mut silent = Vec::new();
    for _ in 0..2 {
        silent.push(TcpStream::connect(host.address().authority()).await.expect("connected"));
    }
    // They hold both places for now, and then they are gone.
    let mut left = Vec::new();
    for mut stream in silent {
        let reading = tokio::time::timeout(innkeeper_testkit::process::TIMEOUT, stream.read_to_end(&mut left));
        let _ = reading.await.expect("the host gives up");
    }
    assert_eq!(get(host.address(), "/healthz", &[]).await.status, 200);
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    raw.still_works().await;
}

#[tokio::test]
async fn t_18_sockets_without_a_credential_are_bounded_apart_from_the_others() {
    let host = HostProcess::start(options().limit("unauthenticated_connections", 2)).await;
    let client = OfficialClient::connect(host.address(), "in").await;
    let address = host.address().authority();
    let silent = [TcpStream::connect(address).await, TcpStream::connect(address).await];
    assert_eq!(get(host.address(), "/healthz", &[]).await.status, 503);
    client
        .client()
        .ping()
        .await
        .expect("a connected client stays connected");
    drop(silent);
    let mut tries = 0;
    while get(host.address(), "/healthz", &[]).await.status != 200 {
        tries += 1;
        assert!(tries < 100, "the places are never freed");
    }
    client.assert_converged().await;
}

#[tokio::test]
async fn the_head_of_a_request_is_bounded() {
    let host = start().await;
    let address = host.address();
    let long = format!("x-long: {}", "x".repeat(20_000));
    assert_eq!(get(address, "/healthz", &[&long]).await.status, 431);
    let many: Vec<String> = (0..100).map(|number| format!("x-{number}: 1")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(get(address, "/healthz", &many).await.status, 431);
    let path = format!("/{}", "x".repeat(20_000));
    let answer = http(
        address,
        &format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", address.authority()),
    )
    .await;
    assert!([414, 431].contains(&answer.status), "{answer:?}");
    assert_eq!(get(address, "/healthz", &[]).await.status, 200);
}

#[tokio::test]
async fn a_flood_of_messages_is_slowed_down_and_every_one_is_answered() {
    let host = HostProcess::start(options().limit("message_burst", 50).limit("messages_per_second", 500)).await;
    let witness = OfficialClient::connect(host.address(), "witness").await;
    let mut raw = RawClient::initialized(host.address(), "flood").await;
    let mut asked = Vec::new();
    for _ in 0..400 {
        asked.push(raw.ask("ping", json!({})).await);
    }
    witness.client().ping().await.expect("unaffected");
    for id in asked {
        assert_eq!(raw.answer(&json!(id)).await, Ok(Value::Null));
    }
    witness.assert_converged().await;
}

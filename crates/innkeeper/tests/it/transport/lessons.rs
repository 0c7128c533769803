//! Reported failures of other hosts: long lists, many concurrent lists, late snapshots.

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::RawClient;
use serde_json::{Value, json};

use crate::{options, start_with_client};

const ROOT: &str = "ahp-root://";

#[tokio::test]
async fn lesson_33_five_thousand_sessions_are_listed_at_once_and_in_pages() {
    const COUNT: usize = 5000;
    let host = HostProcess::start(
        options()
            .limit("message_burst", 20_000)
            .limit("requests_in_flight", 1000),
    )
    .await;
    let mut raw = RawClient::initialized(host.address(), "creator").await;
    // In batches, so that neither side waits for the other.
    for batch in 0..COUNT / 500 {
        let mut ids = Vec::new();
        for number in 0..500 {
            let session = format!("ahp-session:/s{}", batch * 500 + number);
            ids.push(raw.ask("createSession", json!({ "channel": session })).await);
        }
        for id in ids {
            raw.answer(&json!(id)).await.expect("created");
        }
        // A session with a name is in the list.
        for number in batch * 500..(batch + 1) * 500 {
            let named = json!({ "type": "session/titleChanged", "title": format!("Session {number}") });
            raw.dispatch(&format!("ahp-session:/s{number}"), 1, named).await;
        }
    }
    let all = raw
        .call("listSessions", json!({ "channel": ROOT }))
        .await
        .expect("listed");
    assert_eq!(all["items"].as_array().map(Vec::len), Some(COUNT), "ROOT-11");
    let mut seen = std::collections::BTreeSet::new();
    let mut cursor = Value::Null;
    loop {
        let mut params = json!({ "channel": ROOT, "limit": 700 });
        if cursor.is_string() {
            params["cursor"] = cursor;
        }
        let page = raw.call("listSessions", params).await.expect("listed");
        let items = page["items"].as_array().expect("items");
        assert!(items.len() <= 700);
        for item in items {
            let resource = item["resource"].as_str().expect("a resource");
            assert!(seen.insert(resource.to_owned()), "{resource} is on two pages");
        }
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen.len(), COUNT);
}

#[tokio::test]
async fn lesson_34_many_lists_at_once_are_all_answered_and_all_the_same() {
    let (_host, client) = start_with_client().await;
    for number in 0..50 {
        client.create_listed_session(&format!("s{number}")).await;
    }
    let uris = client.create_session("busy").await;
    client.start_turn(&uris.chat, "t1", "/stream 1000 1").await;
    let lists = (0..14).map(|_| client.request::<Value>("listSessions", json!({ "channel": ROOT })));
    let lists = futures_util::future::join_all(lists).await;
    for list in lists {
        let list = list.expect("listed");
        assert_eq!(list["items"].as_array().map(Vec::len), Some(51));
    }
    client.cancel_turn(&uris.chat, "t1").await;
    client.assert_converged().await;
}

#[tokio::test]
async fn lesson_29_a_snapshot_is_never_older_than_earlier_actions() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("late").await;
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    client.start_turn(&uris.chat, "t1", "/stream 300 1").await;
    let mut last = 0;
    for _ in 0..40 {
        let id = raw.ask("subscribe", json!({ "channel": uris.chat })).await;
        let answer = loop {
            match raw.receive().await {
                innkeeper_testkit::raw::Incoming::Message(message) if message["method"] == "action" => {
                    let seq = message["params"]["serverSeq"].as_u64().expect("a number");
                    assert!(seq > last, "{seq} came after {last}");
                    last = seq;
                }
                innkeeper_testkit::raw::Incoming::Message(message) if message["id"] == json!(id) => break message,
                innkeeper_testkit::raw::Incoming::Message(_) => {}
                end => panic!("{end:?}"),
            }
        };
        let from = answer["result"]["snapshot"]["fromSeq"].as_u64().expect("a number");
        assert!(from >= last, "a snapshot as of {from}, after {last} was sent");
        last = from;
    }
    // And the published mirror, subscribing over and over, ends up with the truth.
    let mirror = OfficialClient::connect(host.address(), "mirror").await;
    for _ in 0..20 {
        mirror.subscribe(&uris.chat).await;
    }
    mirror.turn_end(&uris.chat, "t1").await;
    mirror.assert_converged().await;
}

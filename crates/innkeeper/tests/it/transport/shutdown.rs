//! Orderly shutdown: clients are notified, nothing is left running.

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::raw::{Incoming, RawClient};
use serde_json::json;

use crate::{start, start_with_client};

#[tokio::test]
async fn a_termination_cancels_turns_tells_clients_and_exits_with_zero() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("stopping").await;
    let mut watcher = RawClient::initialized(host.address(), "watcher").await;
    watcher
        .call("subscribe", json!({ "channel": uris.chat }))
        .await
        .expect("subscribed");
    let mut fresh = RawClient::connect(host.address()).await;
    fresh.still_works().await;
    client.start_turn(&uris.chat, "t1", "/slow 600").await;
    client
        .until("the turn runs", |view| {
            view.chat(&uris.chat).is_some_and(|chat| chat.active_turn.is_some())
        })
        .await;
    host.terminate();
    let going_away = Incoming::Closed(1001, "the host is shutting down; reconnect when it is back".to_owned());
    assert_eq!(watcher.end().await, going_away);
    let cancelled = watcher
        .notifications
        .iter()
        .filter(|message| message["params"]["action"]["type"] == "chat/turnCancelled");
    assert_eq!(cancelled.count(), 1, "{:?}", watcher.notifications);
    assert_eq!(fresh.end().await, going_away, "also who had not introduced itself");
    client.turn_end(&uris.chat, "t1").await;
    let (status, log) = host.ended().await;
    assert_eq!(status.code(), Some(0), "{log}");
}

#[tokio::test]
async fn a_host_that_streams_at_full_speed_stops_all_the_same() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("busy").await;
    let mut watchers = Vec::new();
    for number in 0..5 {
        let watcher = OfficialClient::connect(host.address(), &format!("watcher-{number}")).await;
        watcher.join(&uris.session).await;
        watchers.push(watcher);
    }
    // A client that never reads must not delay the shutdown.
    let mut deaf = RawClient::connect_with_small_buffer(host.address()).await;
    deaf.initialize("deaf", &["1.0.0"]).await.expect("initialized");
    deaf.call("subscribe", json!({ "channel": uris.chat }))
        .await
        .expect("subscribed");
    client.start_turn(&uris.chat, "t1", "/stream 100000000 0 100").await;
    client.running_text(&uris.chat, 10_000).await;
    host.terminate();
    let (status, log) = host.ended().await;
    assert_eq!(status.code(), Some(0), "{log}");
    for watcher in &mut watchers {
        watcher.disconnected().await;
    }
}

#[tokio::test]
async fn p_13_a_host_that_was_abused_still_stops_in_order() {
    let mut host = start().await;
    for _ in 0..20 {
        let mut raw = RawClient::connect(host.address()).await;
        raw.send("{").await;
        drop(raw);
    }
    assert!(host.is_running());
    host.terminate();
    let (status, log) = host.ended().await;
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(!log.contains("panicked"), "{log}");
}

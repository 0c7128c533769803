//! Slow and stalled readers do not disturb others.

use std::time::Duration;

use ahp_types::state::TurnState;
use innkeeper_testkit::official::{OfficialClient, markdown};
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::{Incoming, RawClient};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;

use crate::{options, start_with_client};

/// Subscribes, and does not read until the test says so.
async fn deaf_client(host: &HostProcess, client_id: &str, chat: &str) -> RawClient {
    let mut deaf = RawClient::connect_with_small_buffer(host.address()).await;
    deaf.initialize(client_id, &["1.0.0"]).await.expect("initialized");
    deaf.call("subscribe", json!({ "channel": chat }))
        .await
        .expect("subscribed");
    deaf
}

#[tokio::test]
async fn lesson_14_a_client_that_stops_reading_is_closed_with_1013_alone() {
    // Long enough for the write to be waiting when the test begins to read again.
    let host = HostProcess::start(
        options()
            .flags(&["--log", "info,innkeeper_host=debug"])
            .limit("outbox_bytes", 2 << 20)
            .limit("write_ms", 60_000)
            .limit("agent_hold_bytes", 200_000),
    )
    .await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let uris = client.create_session("slow").await;
    let mut deaf = deaf_client(&host, "deaf", &uris.chat).await;
    // It reads again as soon as it is given up: the last word waits for it only a moment.
    let listening = async {
        host.logged("the slow client", |log| log.contains("reads too slowly"))
            .await;
        let mut last_seen = 0;
        loop {
            match deaf.receive().await {
                Incoming::Message(message) => {
                    last_seen = message["params"]["serverSeq"].as_u64().unwrap_or(last_seen);
                }
                end => break (last_seen, end),
            }
        }
    };
    let working = client.run_turn(&uris.chat, "t1", "/stream 950 0 8000");
    let (turn, (last_seen, end)) = tokio::join!(working, listening);
    assert_eq!(turn.state, TurnState::Complete);
    assert_eq!(
        markdown(&turn.response_parts).len(),
        7_600_000,
        "the other reader got everything"
    );
    assert_eq!(
        end,
        Incoming::Closed(1013, "the client reads too slowly; use reconnect".to_owned())
    );
    // It comes back and gets what it missed, or a fresh snapshot.
    let mut back = RawClient::connect(host.address()).await;
    let params = json!({ "clientId": "deaf", "lastSeenServerSeq": last_seen, "subscriptions": [uris.chat] });
    let resumed = back.call("reconnect", params).await.expect("reconnect succeeds");
    assert!(resumed["type"] == "replay" || resumed["type"] == "snapshot");
    client.run_turn(&uris.chat, "t2", "hello").await;
    back.notification("the next turn", |message| {
        message["params"]["action"]["type"] == "chat/turnComplete"
    })
    .await;
    client.assert_converged().await;
}

#[tokio::test]
async fn p_7_memory_stays_bounded_while_many_readers_are_stuck() {
    let host = HostProcess::start(
        options()
            .limit("outbox_bytes", 1 << 20)
            .limit("write_ms", 500)
            .limit("agent_hold_bytes", 100_000),
    )
    .await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let uris = client.create_session("stuck").await;
    let mut stuck = Vec::new();
    for number in 0..20 {
        stuck.push(deaf_client(&host, &format!("stuck-{number}"), &uris.chat).await);
    }
    let held = host.open_sockets();
    let before = host.peak_memory();
    client.run_turn(&uris.chat, "t1", "/stream 1500 0 8000").await;
    let grown = host.peak_memory() - before;
    // The text itself, its window for replay, one queue per reader, and what the allocator keeps.
    assert!(grown < 160 << 20, "memory grew by {} MiB", grown >> 20);
    // Connections that are stuck for too long are closed without a read.
    for _ in 0..600 {
        if host.open_sockets() + stuck.len() <= held {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(
        host.open_sockets() + stuck.len() <= held,
        "stuck connections are still open"
    );
    client.assert_converged().await;
}

#[tokio::test]
async fn p_7_a_reader_that_is_slow_but_reads_gets_a_large_answer_in_the_end() {
    let host = HostProcess::start(options().limit("write_ms", 1500)).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let uris = client.create_session("mobile").await;
    client.run_turn(&uris.chat, "t1", "/stream 1500 0 8000").await;
    // A client on a slow connection: the whole answer takes many times as long as a single byte may take.
    let (mut line, far_end) = tokio::io::duplex(64 << 10);
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(64 << 10).expect("a small buffer");
    let target = host.address().authority().parse().expect("an address");
    let mut wire = socket.connect(target).await.expect("connected");
    let thin_line = tokio::spawn(async move {
        let (mut from_host, mut to_host) = wire.split();
        let (mut from_client, mut to_client) = tokio::io::split(&mut line);
        let slowly = async {
            let mut chunk = vec![0; 32 << 10];
            while let Ok(count @ 1..) = from_host.read(&mut chunk).await {
                tokio::time::sleep(Duration::from_millis(10)).await;
                if to_client.write_all(&chunk[..count]).await.is_err() {
                    break;
                }
            }
            let _ = to_client.shutdown().await;
        };
        let _ = tokio::join!(slowly, tokio::io::copy(&mut from_client, &mut to_host));
    });
    let mut slow = RawClient::over(far_end, host.address().request())
        .await
        .expect("upgraded");
    slow.initialize("slow", &["1.0.0"]).await.expect("initialized");
    let subscribed = slow
        .call("subscribe", json!({ "channel": uris.chat }))
        .await
        .expect("subscribed");
    let text = &subscribed["snapshot"]["state"]["turns"][0]["responseParts"][0]["content"];
    assert_eq!(text.as_str().map(str::len), Some(12_000_000));
    thin_line.abort();
    client.assert_converged().await;
}

#[tokio::test]
async fn a_firehose_of_large_deltas_never_closes_a_reader_that_reads() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("firehose").await;
    // The largest deltas the agent knows, as fast as it can: many times what a connection may have waiting.
    let turn = client.run_turn(&uris.chat, "t1", "/stream 400 0 65536").await;
    assert_eq!(markdown(&turn.response_parts).len(), 400 * 65536);
    client.client().ping().await.expect("the connection is still up");
}

#[tokio::test]
async fn trap_11_a_snapshot_of_several_megabytes_reaches_the_published_client() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("large").await;
    client.run_turn(&uris.chat, "t1", "/stream 50 0 65536").await;
    let fresh = OfficialClient::connect(host.address(), "fresh").await;
    fresh.join(&uris.session).await;
    let turn = fresh.turn_end(&uris.chat, "t1").await;
    assert_eq!(markdown(&turn.response_parts).len(), 50 * 65536);
    fresh.assert_converged().await;
}

#[tokio::test]
async fn a_chat_larger_than_a_connections_queue_can_be_opened_and_reopened() {
    let limits = options()
        .limit("outbox_bytes", 1 << 20)
        .limit("agent_hold_bytes", 100_000);
    let host = HostProcess::start(limits).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let uris = client.create_session("huge").await;
    client.run_turn(&uris.chat, "t1", "/stream 500 0 8000").await;
    let mut fresh = OfficialClient::connect(host.address(), "fresh").await;
    fresh.join(&uris.session).await;
    fresh.assert_converged().await;
    fresh.cut().await;
    // Once as a replay, once as snapshots: both are larger than the queue.
    fresh.reconnect_from(1).await.expect("reconnect succeeds");
    fresh.assert_converged().await;
    let before = fresh.view().last_seen;
    client.run_turn(&uris.chat, "t2", "/stream 500 0 8000").await;
    fresh.turn_end(&uris.chat, "t2").await;
    fresh.cut().await;
    fresh.reconnect_from(before).await.expect("reconnect succeeds");
    fresh.assert_converged().await;
}

#[tokio::test]
async fn trn_20_a_busy_connection_still_answers_pings() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("busy").await;
    client.start_turn(&uris.chat, "t1", "/stream 100000000 0 16").await;
    client.running_text(&uris.chat, 1000).await;
    let mut other = RawClient::initialized(host.address(), "other").await;
    for _ in 0..20 {
        client.client().ping().await.expect("answered");
        other.still_works().await;
    }
    let cancel = json!({ "type": "chat/turnCancelled", "turnId": "t1", "duration": 0 });
    client.dispatch(&uris.chat, cancel).await;
    client.turn_end(&uris.chat, "t1").await;
    client.assert_converged().await;
}

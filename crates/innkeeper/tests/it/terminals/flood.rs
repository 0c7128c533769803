//! Programs that print without end.

use std::path::Path;
use std::time::{Duration, Instant};

use innkeeper_testkit::official::{OfficialClient, markdown};
use innkeeper_testkit::process::{TIMEOUT, gone};
use innkeeper_testkit::raw::RawClient;
use serde_json::json;

use super::support::{TERMINAL, bash, length, start_with_terminal, tail, text, type_into};

/// Memory that a flood may cost the host beyond what it has before; less than each of the floods prints.
const MAX_GROWTH: u64 = 64 << 20;
/// Bytes of a flood after which a test looks whether it goes on: a slow machine takes long for the whole.
const STEP: usize = 8 << 20;
/// Steps of the flood that is watched.
const WATCHED: usize = 9;
/// Steps of the flood that is not watched.
const UNWATCHED: usize = 16;

#[tokio::test]
async fn trm18_a_flood_delays_no_other_session_and_costs_bounded_memory() {
    let (host, client) = start_with_terminal(bash()).await;
    let other = OfficialClient::connect(host.address(), "second").await;
    let uris = other.create_session("busy").await;
    let before = host.peak_memory();
    // One watcher that reads, and one that never does.
    let mut stuck = RawClient::connect_with_small_buffer(host.address()).await;
    stuck.initialize("stuck", &["1.0.0"]).await.expect("initialized");
    stuck
        .call("subscribe", json!({ "channel": TERMINAL }))
        .await
        .expect("subscribed");
    let line = "sh -c 'echo $$ > pid; exec yes 0123456789012345678901234567890123456789'\r";
    type_into(&client, TERMINAL, line).await;
    // Turns of another session are not delayed by it.
    for number in 0..5 {
        let turn = other.run_turn(&uris.chat, &format!("t{number}"), "/stream 50").await;
        assert!(!markdown(&turn.response_parts).is_empty());
    }
    for step in 1..=WATCHED {
        client
            .until(&format!("step {step} of the flood has arrived"), |view| {
                length(view, TERMINAL) > step * STEP
            })
            .await;
    }
    // Ctrl-C stops it, although the output is far from its end.
    type_into(&client, TERMINAL, "\x03").await;
    let flood = std::fs::read_to_string(host.path("pid")).expect("the flood wrote its number");
    gone(flood.trim().parse().expect("a number")).await;
    type_into(&client, TERMINAL, "echo af''ter\r").await;
    client
        .until("the shell goes on", |view| tail(view, TERMINAL).contains("after\r\n"))
        .await;
    let grown = host.peak_memory() - before;
    println!("{} MB more memory", grown >> 20);
    assert!(grown < MAX_GROWTH, "{} MB more", grown >> 20);
    let late = OfficialClient::connect(host.address(), "late").await;
    late.subscribe(TERMINAL).await;
    let fresh = text(&late.view(), TERMINAL);
    assert!(
        fresh.contains("after\r\n") && fresh.len() < 3_000_000,
        "{}",
        fresh.len()
    );
    other.assert_converged().await;
}

/// Waits for a file.
async fn exists(path: &Path) {
    let deadline = Instant::now() + TIMEOUT;
    while !path.exists() {
        assert!(Instant::now() < deadline, "{} does not appear", path.display());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_flood_without_subscribers_is_read_to_its_end() {
    let (host, client) = start_with_terminal(bash()).await;
    let before = host.peak_memory();
    client.unsubscribe(TERMINAL).await;
    for step in 1..=UNWATCHED {
        let line = format!("yes 01234567890123456789 | head -c {STEP}; touch step{step}\r");
        type_into(&client, TERMINAL, &line).await;
        exists(&host.path(&format!("step{step}"))).await;
    }
    type_into(&client, TERMINAL, "echo; seq 1 2000; echo fin''ished; exit\r").await;
    client
        .until("it has ended", |view| {
            let info = serde_json::to_value(super::support::listed(view)).expect("JSON");
            info[0]["lifecycle"]["status"] == "exited"
        })
        .await;
    client.subscribe(TERMINAL).await;
    let shown = text(&client.view(), TERMINAL);
    assert!(shown.contains("\n1999\r\n2000\r\nfinished\r\n"), "the end is there");
    let grown = host.peak_memory() - before;
    println!("{} MB more memory", grown >> 20);
    assert!(grown < MAX_GROWTH, "{} MB more", grown >> 20);
}

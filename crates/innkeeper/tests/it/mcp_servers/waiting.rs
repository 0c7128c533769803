//! Turns that wait for servers, and calls without a response.

use innkeeper_testkit::official::View;
use innkeeper_testkit::process::HostOptions;
use serde_json::{Value, json};

use crate::mcp_servers::support::{Inn, TestDirectory, options, shown};

/// Longer than any scenario: whatever goes on does so for another reason.
const FOR_EVER_MS: u64 = 600_000;

/// A host whose configuration has the odd server of a kind, so that it starts with the session.
async fn open(kind: &str, settings: impl FnOnce(HostOptions) -> HostOptions) -> Inn {
    let place = TestDirectory::new();
    let options = options().setting("[mcp]\nstart_seconds = 600");
    let options = settings(options).setting(&place.configured("odd", kind));
    Inn::started(place, options).await
}

/// Returns whether a server is still starting, without a waiting turn.
fn starts_by_itself(server: &Value) -> bool {
    server["state"]["kind"] == "starting" && server["state"]["blocking"] != true
}

#[tokio::test]
async fn mcp03_the_first_turn_waits_for_servers_and_has_their_tools() {
    let inn = open("plain", |options| options.limit("mcp_blocking_ms", FOR_EVER_MS)).await;
    for session in ["one", "two"] {
        let room = inn.room(session).await;
        // The server may be ready by now.
        let list = room.say("t1", "/mcp").await;
        assert!(list.contains("**odd**") && list.contains("- `echo`"), "{list}");
    }
    inn.client.assert_converged().await;
}

#[tokio::test]
async fn mcp03_mcp06_a_turn_waits_for_a_silent_server_until_it_is_cancelled() {
    let inn = open("silent", |options| options.limit("mcp_blocking_ms", FOR_EVER_MS)).await;
    let room = inn.room("one").await;
    let server = room.server_is("odd", "starting").await;
    assert_eq!(server["state"], json!({ "kind": "starting", "blocking": true }));
    let chat = &room.uris.chat;
    room.client.start_turn(chat, "t1", "hello").await;
    let waits = |view: &View| {
        let activity = view.chat(chat).and_then(|chat| chat.activity.as_deref());
        activity == Some("Waiting for odd")
    };
    room.client.until("the turn waits", waits).await;
    room.demand("odd", "Background").await;
    room.client.turn_end(chat, "t1").await;
    assert!(starts_by_itself(&room.server("odd")), "it goes on starting");
    // No turn waits for it any more, and it can still be stopped.
    room.say("t2", "hello again").await;
    room.demand("odd", "Stop").await;
    room.server_is("odd", "stopped").await;
    inn.place.until_living(0).await;
    inn.client.assert_converged().await;
}

#[tokio::test]
async fn mcp03_a_turn_waits_for_servers_no_longer_than_is_configured() {
    let inn = open("silent", |options| options.limit("mcp_blocking_ms", 1)).await;
    let room = inn.room("one").await;
    room.say("t1", "hello").await;
    let (client, session) = (room.client, &room.uris.session);
    let is_left_alone = |view: &View| starts_by_itself(&shown(view, session, "odd"));
    client.until("no turn waits for the server", is_left_alone).await;
    inn.client.assert_converged().await;
}

#[tokio::test]
async fn f3_a_call_without_an_answer_ends_after_its_time_and_the_server_is_well() {
    let place = TestDirectory::new();
    let servers = json!({ "odd": place.odd("plain") });
    let inn = Inn::open_with(place, servers, options().setting("[mcp]\ncall_seconds = 1")).await;
    let room = inn.ready_room("one", "odd").await;
    let (words, call) = room.call("t1", "odd wait").await;
    assert!(words.contains("It failed:"), "{words}");
    assert_eq!(call["success"], false, "{call}");
    let message = call["error"]["message"].as_str().expect("a sentence");
    assert!(message.contains("`odd` did not answer within 1 s"), "{message}");
    let (words, _) = room.call("t2", r#"odd echo {"text": "hello"}"#).await;
    assert!(words.contains("hello"), "{words}");
    assert_eq!(inn.place.pids().len(), 1, "it was not ended for it");
    inn.client.assert_converged().await;
}

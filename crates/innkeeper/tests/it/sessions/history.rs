//! Long chats: windows, pages and truncation.

use ahp_types::state::{ChatState, TurnState};
use innkeeper_testkit::official::{OfficialClient, ReconnectOutcome, SessionUris, markdown, queued};
use serde_json::{Value, json};

use crate::start_with_client;

/// A chat of so many turns, `t0` and on.
async fn with_turns(client: &OfficialClient, name: &str, count: usize) -> SessionUris {
    let uris = client.create_session(name).await;
    for number in 0..count {
        client
            .run_turn(
                &uris.chat,
                &format!("t{number}"),
                &format!("/stream 1 0 {}", 4 + number % 7),
            )
            .await;
    }
    uris
}

fn turn_ids(chat: &ChatState) -> Vec<&str> {
    chat.turns.iter().map(|turn| turn.id.as_str()).collect()
}

async fn fetch(client: &OfficialClient, chat: &str, cursor: Option<&str>) {
    let mut params = json!({ "channel": chat });
    if let Some(cursor) = cursor {
        params["cursor"] = json!(cursor);
    }
    let before = client.chat(chat).turns_next_cursor;
    let fetched: Value = client.request("fetchTurns", params).await.expect("fetched");
    assert_eq!(fetched, json!({}), "TRN-09");
    // PAGE-01: the page came first; the mirror may still have to read it.
    client
        .until("the page is there", |view| {
            let chat = view.chat(chat).expect("mirrored");
            before.is_none() || chat.turns_next_cursor != before
        })
        .await;
}

async fn truncate(client: &OfficialClient, chat: &str, turn: Option<&str>) {
    let mut action = json!({ "type": "chat/truncated" });
    if let Some(turn) = turn {
        action["turnId"] = json!(turn);
    }
    client.dispatch(chat, action).await;
}

async fn until_last(client: &OfficialClient, chat: &str, last: &str) {
    client
        .until(&format!("{last} is the last turn"), |view| {
            let chat = view.chat(chat).expect("mirrored");
            chat.active_turn.is_none() && chat.turns.last().is_some_and(|turn| turn.id == last)
        })
        .await;
}

#[tokio::test]
async fn page01_page03_a_long_chat_is_read_back_page_by_page() {
    let (host, client) = start_with_client().await;
    let uris = with_turns(&client, "long", 120).await;
    let reader = OfficialClient::connect(host.address(), "reader").await;
    reader.subscribe_to_last(&uris.chat, 7).await;
    assert_eq!(reader.chat(&uris.chat).turns.len(), 7);
    let mut pages = 0;
    while let Some(cursor) = reader.chat(&uris.chat).turns_next_cursor {
        let had = reader.chat(&uris.chat).turns.len();
        // Every other page without naming where to go on (PAGE-02).
        fetch(&reader, &uris.chat, (pages % 2 == 0).then_some(cursor.as_str())).await;
        assert!(reader.chat(&uris.chat).turns.len() > had);
        pages += 1;
    }
    assert!(pages > 1, "{pages}");
    let expected: Vec<String> = (0..120).map(|number| format!("t{number}")).collect();
    assert_eq!(turn_ids(&reader.chat(&uris.chat)), expected);
    // PAGE-04: asking once more does no harm.
    fetch(&reader, &uris.chat, None).await;
    client.run_turn(&uris.chat, "later", "hello").await;
    reader.turn_end(&uris.chat, "later").await;
    assert_eq!(reader.chat(&uris.chat).turns.len(), 121);
    reader.assert_converged().await;
    client.assert_converged().await;
}

#[tokio::test]
async fn page02_a_cursor_that_is_none_of_this_chat_is_refused() {
    let (_host, client) = start_with_client().await;
    let uris = with_turns(&client, "cursor", 5).await;
    let other = with_turns(&client, "other", 3).await;
    client.subscribe_to_last(&other.chat, 1).await;
    let foreign = client.chat(&other.chat).turns_next_cursor.expect("more to read");
    client.subscribe_to_last(&uris.chat, 1).await;
    truncate(&client, &uris.chat, Some("t1")).await;
    until_last(&client, &uris.chat, "t1").await;
    for cursor in ["", "nonsense", "t0", &foreign.replace("t1", "t4")] {
        let params = json!({ "channel": uris.chat, "cursor": cursor });
        let (code, text) = client.refused("fetchTurns", params).await;
        assert_eq!(code, -32602, "{cursor}");
        assert!(text.contains("cursor"), "{text}");
    }
    let stranger = json!({ "channel": "ahp-chat:/missing" });
    assert_eq!(client.refused("fetchTurns", stranger).await.0, -32001);
    fetch(&client, &uris.chat, None).await;
    assert_eq!(turn_ids(&client.chat(&uris.chat)), ["t0", "t1"]);
    // The other chat is still read by the last turn alone.
    fetch(&client, &other.chat, None).await;
    client.assert_converged().await;
}

#[tokio::test]
async fn trc01_trc05_truncated_turns_are_gone_for_subscribers_and_agents() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("cut").await;
    for (turn, text) in [("t1", "apples"), ("t2", "pears"), ("t3", "plums")] {
        client.run_turn(&uris.chat, turn, text).await;
    }
    truncate(&client, &uris.chat, Some("t2")).await;
    until_last(&client, &uris.chat, "t2").await;
    let turn = client.run_turn(&uris.chat, "t4", "what do you remember?").await;
    let words = markdown(&turn.response_parts);
    assert!(words.contains("pears") && !words.contains("plums"), "{words}");
    truncate(&client, &uris.chat, None).await;
    client
        .until("nothing is left", |view| {
            let chat = view.chat(&uris.chat).expect("mirrored");
            chat.turns.is_empty() && chat.turns_next_cursor.is_none()
        })
        .await;
    let turn = client.run_turn(&uris.chat, "t5", "what do you remember?").await;
    let words = markdown(&turn.response_parts);
    assert!(!words.contains("apples"), "{words}");
    // TRC-03
    truncate(&client, &uris.chat, Some("t1")).await;
    assert_eq!(client.refusal(1).await, "turnId: this chat has no turn \"t1\"");
    client.assert_converged().await;
}

#[tokio::test]
async fn trc02_truncation_stops_the_running_turn() {
    let (host, client) = start_with_client().await;
    let uris = with_turns(&client, "running", 2).await;
    let other = OfficialClient::connect(host.address(), "other").await;
    other.join(&uris.session).await;
    client.start_turn(&uris.chat, "t2", "/stream 1000000 1").await;
    other.running_text(&uris.chat, 32).await;
    truncate(&other, &uris.chat, Some("t2")).await;
    assert!(other.refusal(1).await.contains("still running"), "TRC-03");
    truncate(&other, &uris.chat, Some("t0")).await;
    for who in [&client, &other] {
        until_last(who, &uris.chat, "t0").await;
        assert_eq!(who.chat(&uris.chat).status & 0b1_1111, 1);
    }
    // The id is free again: nothing of the dropped turn may run into the new one.
    let turn = client.run_turn(&uris.chat, "t2", "/stream 2 0 5").await;
    assert_eq!(turn.state, TurnState::Complete);
    assert_eq!(markdown(&turn.response_parts).len(), 10);
    other.turn_end(&uris.chat, "t2").await;
    client.assert_converged().await;
    other.assert_converged().await;
    client.assert_summary_converged(&uris.session).await;
}

/// (CHT-15)
#[tokio::test]
async fn trc04_subscribers_with_different_windows_agree_after_a_truncation() {
    let (host, client) = start_with_client().await;
    let uris = with_turns(&client, "windows", 30).await;
    let mut readers = Vec::new();
    for window in [1, 5, 20, 30, 500] {
        let reader = OfficialClient::connect(host.address(), &format!("window-{window}")).await;
        reader.subscribe_to_last(&uris.chat, window).await;
        assert_eq!(reader.chat(&uris.chat).turns.len(), window.min(30));
        readers.push(reader);
    }
    truncate(&readers[0], &uris.chat, Some("t12")).await;
    for reader in &readers {
        until_last(reader, &uris.chat, "t12").await;
    }
    for reader in &readers {
        while reader.chat(&uris.chat).turns_next_cursor.is_some() {
            fetch(reader, &uris.chat, None).await;
        }
        assert_eq!(reader.chat(&uris.chat).turns.len(), 13, "{}", reader.client_id);
        reader.assert_converged().await;
    }
    client.assert_converged().await;
}

#[tokio::test]
async fn page05_a_windowed_reader_comes_back_by_replay_and_reads_on() {
    let (host, client) = start_with_client().await;
    let uris = with_turns(&client, "back", 20).await;
    let mut reader = OfficialClient::connect(host.address(), "reader").await;
    reader.subscribe_to_last(&uris.chat, 3).await;
    reader.cut().await;
    client.run_turn(&uris.chat, "t20", "hello").await;
    match reader.reconnect().await.expect("resumed") {
        ReconnectOutcome::Replay { missing, .. } => assert!(missing.is_empty()),
        other => panic!("a replay was expected: {other:?}"),
    }
    reader.turn_end(&uris.chat, "t20").await;
    assert_eq!(turn_ids(&reader.chat(&uris.chat)), ["t17", "t18", "t19", "t20"]);
    while reader.chat(&uris.chat).turns_next_cursor.is_some() {
        fetch(&reader, &uris.chat, None).await;
    }
    assert_eq!(reader.chat(&uris.chat).turns.len(), 21);
    reader.assert_converged().await;
}

/// A replay could not name what the reader never had, so it gets a snapshot (TRC-04).
#[tokio::test]
async fn trc04_a_windowed_subscriber_converges_after_a_missed_truncation() {
    let (host, client) = start_with_client().await;
    let uris = with_turns(&client, "missed", 20).await;
    let mut reader = OfficialClient::connect(host.address(), "reader").await;
    reader.subscribe_to_last(&uris.chat, 3).await;
    reader.cut().await;
    truncate(&client, &uris.chat, Some("t4")).await;
    until_last(&client, &uris.chat, "t4").await;
    client.run_turn(&uris.chat, "t99", "hello").await;
    reader.reconnect().await.expect("resumed");
    until_last(&reader, &uris.chat, "t99").await;
    while reader.chat(&uris.chat).turns_next_cursor.is_some() {
        fetch(&reader, &uris.chat, None).await;
    }
    assert_eq!(
        turn_ids(&reader.chat(&uris.chat)),
        ["t0", "t1", "t2", "t3", "t4", "t99"]
    );
    reader.assert_converged().await;
}

/// Two who cut at once: whatever the order, both see the same.
#[tokio::test]
async fn trc01_two_concurrent_truncations_agree() {
    let (host, client) = start_with_client().await;
    let uris = with_turns(&client, "both", 10).await;
    let other = OfficialClient::connect(host.address(), "other").await;
    other.join(&uris.session).await;
    tokio::join!(
        truncate(&client, &uris.chat, Some("t3")),
        truncate(&other, &uris.chat, Some("t6"))
    );
    for who in [&client, &other] {
        until_last(who, &uris.chat, "t3").await;
        who.assert_converged().await;
    }
}

/// Forks and side chats may start from a turn that is not loaded (CHT-15).
#[tokio::test]
async fn cht15_a_fork_from_a_turn_outside_the_window_has_its_history() {
    let (host, client) = start_with_client().await;
    let uris = with_turns(&client, "far", 20).await;
    let reader = OfficialClient::connect(host.address(), "reader").await;
    reader.subscribe_to_last(&uris.chat, 2).await;
    let source = json!({ "kind": "fork", "chat": uris.chat, "turnId": "t3" });
    let fork = "ahp-chat:/far-fork";
    reader
        .create_chat(&uris.session, fork, json!({ "source": source }))
        .await;
    assert_eq!(turn_ids(&reader.chat(fork)), ["t0", "t1", "t2", "t3"]);
    assert_eq!(reader.chat(&uris.chat).turns.len(), 2, "its window stays as it was");
    client.assert_converged().await;
}

/// Queued messages were meant for the truncated conversation.
#[tokio::test]
async fn trc02_e63_queued_messages_do_not_start_after_a_truncation() {
    let (_host, client) = start_with_client().await;
    let uris = with_turns(&client, "queue", 1).await;
    client.start_turn(&uris.chat, "t1", "/slow 600").await;
    client.dispatch(&uris.chat, queued("q1", "/stream 2")).await;
    truncate(&client, &uris.chat, Some("t0")).await;
    until_last(&client, &uris.chat, "t0").await;
    client.client().ping().await.expect("the host answers");
    let chat = client.chat(&uris.chat);
    assert!(chat.active_turn.is_none());
    assert_eq!(
        chat.queued_messages.map(|queue| queue.len()),
        Some(1),
        "it is still there to be sent"
    );
    client.assert_converged().await;
}

#[tokio::test]
async fn page01_older_turns_are_read_while_a_new_one_streams() {
    let (host, client) = start_with_client().await;
    let uris = with_turns(&client, "meanwhile", 60).await;
    let reader = OfficialClient::connect(host.address(), "reader").await;
    reader.subscribe_to_last(&uris.chat, 2).await;
    client.start_turn(&uris.chat, "now", "/stream 200 1 10").await;
    reader.running_text(&uris.chat, 10).await;
    while reader.chat(&uris.chat).turns_next_cursor.is_some() {
        fetch(&reader, &uris.chat, None).await;
    }
    let turn = reader.turn_end(&uris.chat, "now").await;
    assert_eq!(markdown(&turn.response_parts).len(), 2000, "nothing of it was lost");
    assert_eq!(reader.chat(&uris.chat).turns.len(), 61);
    reader.assert_converged().await;
}

/// The turn that is resumed is always among those a reader has (CHT-15).
#[tokio::test]
async fn cht15_turn12_a_windowed_subscriber_sees_the_last_turn_resumed() {
    let (host, client) = start_with_client().await;
    let uris = with_turns(&client, "resumed", 5).await;
    client.run_turn(&uris.chat, "failed", "/error resumable").await;
    let reader = OfficialClient::connect(host.address(), "reader").await;
    reader.subscribe_to_last(&uris.chat, 0).await;
    assert_eq!(turn_ids(&reader.chat(&uris.chat)), ["failed"]);
    let resume = json!({ "type": "chat/turnResume", "turnId": "failed" });
    client.dispatch(&uris.chat, resume).await;
    reader
        .until("the turn completes", |view| {
            let turn = view.ended_turn(&uris.chat, "failed");
            turn.is_some_and(|turn| turn.state == TurnState::Complete)
        })
        .await;
    while reader.chat(&uris.chat).turns_next_cursor.is_some() {
        fetch(&reader, &uris.chat, None).await;
    }
    reader.assert_converged().await;
}

#[tokio::test]
async fn sub12_a_window_that_is_no_number_of_turns_is_refused() {
    let (_host, client) = start_with_client().await;
    let uris = with_turns(&client, "window", 1).await;
    for turns in [json!(-1), json!("all"), json!(1.5), json!([])] {
        let params = json!({ "channel": uris.chat, "view": { "turns": turns } });
        let (code, text) = client.refused("subscribe", params).await;
        assert_eq!(code, -32602, "{turns}");
        assert!(text.contains("view"), "{text}");
    }
    client.assert_converged().await;
}

//! Clients reconnect to a host that was stopped or killed, and get exactly the actions they missed.

use ahp::ClientError;
use ahp_types::state::TurnState;
use innkeeper_testkit::official::{OfficialClient, ReconnectOutcome, about, markdown, queued, tool_calls_of};
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::{Incoming, RawClient};
use serde_json::{Value, json};

use crate::durable::busy_session::{draft, title};
use crate::durable::{options, start_with_client};

/// Waits until a chat has this draft and so many queued messages.
async fn has_plans(client: &OfficialClient, chat: &str, draft: &str, queued: usize) {
    client
        .until("the plans are there", |view| {
            view.chat(chat).is_some_and(|chat| {
                chat.draft.as_ref().is_some_and(|message| message.text == draft)
                    && chat.queued_messages.as_ref().map_or(0, Vec::len) == queued
            })
        })
        .await;
}

#[tokio::test]
async fn f4_a_stopped_host_leaves_every_session_idle() {
    let (host, mut client) = start_with_client().await;
    let uris = client.create_session("stopping").await;
    let mut watcher = RawClient::initialized(host.address(), "watcher").await;
    let subscribed = watcher.call("subscribe", json!({ "channel": uris.chat })).await;
    subscribed.expect("subscribed");
    client.start_turn(&uris.chat, "t1", "/stream 100000 2").await;
    client.running_text(&uris.chat, 500).await;
    client.dispatch(&uris.chat, queued("q1", "later")).await;
    client.dispatch(&uris.chat, draft("not sent yet")).await;
    has_plans(&client, &uris.chat, "not sent yet", 1).await;
    let stopped = host.stop().await;
    let going_away = Incoming::Closed(1001, "the host is shutting down; reconnect when it is back".to_owned());
    assert_eq!(watcher.end().await, going_away);
    client.disconnected().await;
    let said = markdown(&client.turn_end(&uris.chat, "t1").await.response_parts);

    let host = stopped.start().await;
    client.move_to(host.address());
    let resumed = client.reconnect().await.expect("known across restarts");
    assert!(matches!(resumed, ReconnectOutcome::Replay { .. }), "{resumed:?}");
    let chat = client.chat(&uris.chat);
    assert_eq!(chat.turns.len(), 1);
    assert_eq!(chat.turns[0].state, TurnState::Cancelled, "it was ended in order");
    assert_eq!(markdown(&chat.turns[0].response_parts), said, "with all it had said");
    has_plans(&client, &uris.chat, "not sent yet", 1).await;
    client.assert_converged().await;
    client.run_turn(&uris.chat, "t2", "and on").await;
    client
        .until("what waited came after it", |view| {
            view.chat(&uris.chat).is_some_and(|chat| chat.turns.len() == 3)
        })
        .await;
    client.assert_converged().await;
    host.stop().await;
}

#[tokio::test]
async fn p5_a_client_gets_a_replay_after_a_kill() {
    let (host, mut client) = start_with_client().await;
    let uris = client.create_session("kept").await;
    client.run_turn(&uris.chat, "t1", "hello").await;
    let mut away = OfficialClient::connect(host.address(), "away").await;
    away.join(&uris.session).await;
    away.cut().await;
    client.dispatch(&uris.session, title("Renamed")).await;
    // Long enough that the host has written down who listens to what.
    client.run_turn(&uris.chat, "t2", "/stream 100 1 20").await;
    let host = host.kill_and_restart().await;
    client.disconnected().await;
    for who in [&mut client, &mut away] {
        who.move_to(host.address());
        let resumed = who.reconnect().await.expect("known across restarts");
        assert!(
            matches!(resumed, ReconnectOutcome::Replay { .. }),
            "{}: {resumed:?}",
            who.client_id
        );
        assert_eq!(who.session(&uris.session).title, "Renamed");
        assert_eq!(who.chat(&uris.chat).turns.len(), 2);
        who.assert_converged().await;
    }
    // And once more, by the one that was away: nothing is sent twice.
    away.cut().await;
    let resumed = away.reconnect().await.expect("known");
    assert!(
        matches!(resumed, ReconnectOutcome::Replay { actions: 0, .. }),
        "{resumed:?}"
    );
}

#[tokio::test]
async fn p5_a_client_ahead_of_the_host_gets_snapshots() {
    let (host, mut client) = start_with_client().await;
    let uris = client.create_session("ahead").await;
    client.run_turn(&uris.chat, "t1", "hello").await;
    client.caught_up().await;
    let host = host.kill_and_restart().await;
    client.disconnected().await;
    client.move_to(host.address());
    let seen = client.view().last_seen;
    for beyond in [
        seen + 50,
        seen + 1_000_000,
        u64::try_from(i64::MAX).expect("positive") >> 11,
    ] {
        let resumed = client.reconnect_from(beyond).await.expect("known across restarts");
        assert!(
            matches!(&resumed, ReconnectOutcome::Snapshots(all) if all.len() == 3),
            "{beyond}: {resumed:?}"
        );
        client.assert_converged().await;
        client.cut().await;
    }
    client.reconnect().await.expect("known");
    client.run_turn(&uris.chat, "t2", "on we go").await;
    client.assert_converged().await;
}

#[tokio::test]
async fn p5_a_window_onto_a_history_starts_afresh_after_a_restart() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("window").await;
    for turn in 0..5 {
        client.run_turn(&uris.chat, &format!("t{turn}"), "hello").await;
    }
    let mut narrow = OfficialClient::connect(host.address(), "narrow").await;
    narrow.subscribe_to_last(&uris.chat, 2).await;
    assert_eq!(narrow.chat(&uris.chat).turns.len(), 2);
    narrow.caught_up().await;
    let host = host.stop().await.start().await;
    narrow.disconnected().await;
    narrow.move_to(host.address());
    let resumed = narrow.reconnect().await.expect("known across restarts");
    assert!(matches!(resumed, ReconnectOutcome::Snapshots(_)), "{resumed:?}");
    narrow.assert_converged().await;
    narrow.run_turn(&uris.chat, "later", "and on").await;
    narrow.assert_converged().await;
}

#[tokio::test]
async fn p5_an_unknown_client_is_rejected_on_reconnect_and_can_initialize() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("kept").await;
    let host = host.kill_and_restart().await;
    let mut stranger = OfficialClient::at(host.address(), "stranger");
    match stranger.reconnect_from(0).await {
        Err(ClientError::Rpc(error)) => assert_eq!(error.code, -32008),
        other => panic!("a refusal was expected: {other:?}"),
    }
    stranger.initialize_again().await;
    stranger.join(&uris.session).await;
    stranger.run_turn(&uris.chat, "t1", "hello").await;
    stranger.assert_converged().await;
}

#[tokio::test]
async fn lesson_22_a_kill_closes_the_turn_and_the_next_one_works() {
    let (host, mut client) = start_with_client().await;
    let uris = client.create_session("interrupted").await;
    client.start_turn(&uris.chat, "t1", "/stream 100000 2").await;
    client.running_text(&uris.chat, 1000).await;
    client.dispatch(&uris.chat, queued("q1", "later")).await;
    client.dispatch(&uris.chat, draft("not sent yet")).await;
    has_plans(&client, &uris.chat, "not sent yet", 1).await;
    // The draft counts as streamed; what is durable after it takes it along.
    client.dispatch(&uris.session, title("Named")).await;
    client
        .until("the title is there", |view| {
            view.session(&uris.session)
                .is_some_and(|session| session.title == "Named")
        })
        .await;
    let host = host.kill_and_restart().await;
    client.disconnected().await;
    client.move_to(host.address());
    client.reconnect().await.expect("known across restarts");
    let turn = client.turn_end(&uris.chat, "t1").await;
    assert_eq!(turn.state, TurnState::Error);
    let error = serde_json::to_value(turn.response_parts.last()).expect("JSON");
    assert_eq!(error["error"]["errorType"], "hostRestarted");
    assert!(markdown(&turn.response_parts).len() >= 1000, "what it had said is kept");
    has_plans(&client, &uris.chat, "not sent yet", 1).await;
    assert_eq!(client.session(&uris.session).title, "Named");
    client.assert_converged().await;
    let next = client.run_turn(&uris.chat, "t2", "are you there?").await;
    assert_eq!(next.state, TurnState::Complete);
    client.assert_converged().await;
}

#[tokio::test]
async fn lesson_24_calls_open_at_a_crash_are_closed_and_the_history_loads() {
    let (host, mut client) = start_with_client().await;
    // One call waits for a confirmation, another one runs at a client, a third one runs on the host.
    let asking = client.create_session("asking").await;
    client.start_turn(&asking.chat, "t1", "/confirm").await;
    client.call_in(&asking.chat, "pending-confirmation").await;
    let away = client.create_session("away").await;
    client.offer(&away.session, &["lights"]).await;
    client.start_turn(&away.chat, "t1", "/client-tool lights").await;
    let running = async |uris: &innkeeper_testkit::official::SessionUris| {
        client
            .until("a call runs", |view| {
                let calls = view.tool_calls(&uris.chat);
                calls
                    .iter()
                    .any(|call| call["status"] == "running" || call["status"] == "pending-confirmation")
            })
            .await;
    };
    running(&away).await;
    let here = client.create_session("here").await;
    client.start_turn(&here.chat, "t1", "/subagent 1").await;
    running(&here).await;
    let host = host.kill_and_restart().await;
    client.disconnected().await;
    client.move_to(host.address());
    client.reconnect().await.expect("known across restarts");
    for uris in [&asking, &away, &here] {
        let turn = client.turn_end(&uris.chat, "t1").await;
        let calls = tool_calls_of(&turn);
        assert!(!calls.is_empty(), "{}", uris.session);
        for call in calls {
            let status = call["status"].as_str();
            assert!(
                matches!(status, Some("cancelled" | "completed")),
                "{}: {call:#}",
                uris.session
            );
        }
        client.nothing_waits(&uris.session).await;
        let next = client.run_turn(&uris.chat, "t2", "next, please").await;
        assert_eq!(next.state, TurnState::Complete, "{}", uris.session);
    }
    // A decision that comes too late changes nothing.
    let call = &client
        .view()
        .ended_turn(&asking.chat, "t1")
        .map(tool_calls_of)
        .expect("a turn")[0]
        .clone();
    let late = about("chat/toolCallConfirmed", "t1", call, json!({ "approved": true }));
    client.dispatch(&asking.chat, late).await;
    client.refusal(1).await;
    client.assert_converged().await;
}

#[tokio::test]
async fn lesson_35_a_huge_session_shows_its_newest_turns_in_bounded_memory() {
    const TURNS: usize = 100;
    const MIB: u64 = 1 << 20;
    let (host, client) = start_with_client().await;
    let uris = client.create_session("huge").await;
    for turn in 0..TURNS {
        let turn = client
            .run_turn(&uris.chat, &format!("t{turn}"), "/stream 16 0 65536")
            .await;
        assert_eq!(turn.state, TurnState::Complete);
    }
    let host = host.stop().await.start().await;
    let mut reader = RawClient::initialized(host.address(), "reader").await;
    let params = json!({ "channel": uris.chat, "view": { "turns": 2 } });
    let answer = reader.call("subscribe", params).await.expect("subscribed");
    let turns = answer["snapshot"]["state"]["turns"].as_array().expect("turns");
    assert_eq!(turns.len(), 2);
    assert_eq!(turns[1]["id"], format!("t{}", TURNS - 1));
    let cursor = &answer["snapshot"]["state"]["turnsNextCursor"];
    assert_ne!(*cursor, Value::Null, "there is more");
    let peak = host.peak_memory();
    // An idle host without optimisation takes about 45 MiB, most of it its own code.
    assert!(peak < 88 * MIB, "100 MiB of history took {} MiB of memory", peak / MIB);
}

#[tokio::test]
async fn p5_numbers_go_on_after_every_restart() {
    let mut host = HostProcess::start(options()).await;
    let mut highest = 0;
    for round in 0..4 {
        let client = OfficialClient::connect(host.address(), &format!("client-{round}")).await;
        assert!(client.view().last_seen >= highest, "round {round}");
        client.create_session(&format!("round-{round}")).await;
        client.caught_up().await;
        let seen = client.view().last_seen;
        assert!(seen > highest, "round {round}");
        highest = seen;
        host = match round % 2 {
            0 => host.kill_and_restart().await,
            _ => host.stop().await.start().await,
        };
    }
}

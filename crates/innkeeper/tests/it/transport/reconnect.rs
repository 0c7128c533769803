//! Broken connections, and clients that reconnect to exactly the host's state.

use ahp::ClientError;
use ahp_types::actions::StateAction;
use ahp_types::state::TurnState;
use innkeeper_testkit::official::{OfficialClient, ReconnectOutcome, markdown};
use innkeeper_testkit::process::{HostProcess, TIMEOUT};
use innkeeper_testkit::raw::{RawClient, UPGRADE};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::{options, start, start_with_client};

#[tokio::test]
async fn rec_03_a_cut_in_the_middle_of_a_stream_loses_and_doubles_nothing() {
    let (host, mut client) = start_with_client().await;
    let uris = client.create_session("cut").await;
    let witness = OfficialClient::connect(host.address(), "witness").await;
    witness.join(&uris.session).await;
    client.start_turn(&uris.chat, "t1", "/stream 300 2 20").await;
    client.running_text(&uris.chat, 1000).await;
    client.cut().await;
    let at_the_cut = witness.view().last_seen;
    witness
        .until("the stream goes on without the other", |view| {
            view.last_seen > at_the_cut + 20
        })
        .await;
    let resumed = client.reconnect().await.expect("reconnect succeeds");
    assert!(
        matches!(&resumed, ReconnectOutcome::Replay { actions, missing } if *actions > 0 && missing.is_empty()),
        "{resumed:?}"
    );
    let mine = client.turn_end(&uris.chat, "t1").await;
    let theirs = witness.turn_end(&uris.chat, "t1").await;
    assert_eq!(mine, theirs);
    assert_eq!(markdown(&mine.response_parts).len(), 6000);
    client.assert_converged().await;
    witness.assert_converged().await;
}

#[tokio::test]
async fn many_cuts_at_any_moment_always_converge() {
    let (_host, mut client) = start_with_client().await;
    let uris = client.create_session("cuts").await;
    client.start_turn(&uris.chat, "t1", "/stream 600 1 10").await;
    for round in 0..15 {
        client.running_text(&uris.chat, round * 300).await;
        client.cut().await;
        let resumed = client.reconnect().await.expect("reconnect succeeds");
        assert!(matches!(resumed, ReconnectOutcome::Replay { .. }), "{resumed:?}");
    }
    let turn = client.turn_end(&uris.chat, "t1").await;
    assert_eq!(markdown(&turn.response_parts).len(), 6000);
    client.assert_converged().await;
}

#[tokio::test]
async fn lesson_02_a_window_that_rolls_over_during_a_reconnect_still_converges() {
    let host = HostProcess::start(options().limit("replay_channel_bytes", 2000)).await;
    let mut client = OfficialClient::connect(host.address(), "first").await;
    let uris = client.create_session("rolling").await;
    client.start_turn(&uris.chat, "t1", "/stream 800 1 10").await;
    let mut snapshots = 0;
    for round in 0..10 {
        client.running_text(&uris.chat, round * 500).await;
        let before = client.view().last_seen;
        client.cut().await;
        // Some rounds come back at once, others after the window has moved on.
        let from = if round % 2 == 0 { before } else { before - 40 };
        if let ReconnectOutcome::Snapshots(_) = client.reconnect_from(from).await.expect("reconnect succeeds") {
            snapshots += 1;
        }
    }
    assert!(snapshots > 0, "the window was too large for this test");
    let turn = client.turn_end(&uris.chat, "t1").await;
    assert_eq!(markdown(&turn.response_parts).len(), 8000);
    client.assert_converged().await;
}

#[tokio::test]
async fn lesson_04_root_actions_are_replayed_like_all_others() {
    let (host, mut client) = start_with_client().await;
    let other = OfficialClient::connect(host.address(), "other").await;
    client.cut().await;
    other.create_listed_session("a").await;
    other.create_listed_session("b").await;
    let resumed = client.reconnect().await.expect("reconnect succeeds");
    assert_eq!(
        resumed,
        ReconnectOutcome::Replay {
            actions: 2,
            missing: vec![]
        },
        "two changes of the number of sessions"
    );
    assert_eq!(client.view().root().and_then(|root| root.active_sessions), Some(2));
    // Notifications are not replayed (REC-07): the list is asked for again.
    assert!(client.view().notifications.is_empty());
    client.assert_converged().await;
}

#[tokio::test]
async fn lesson_05_beyond_the_window_every_channel_gets_a_fresh_snapshot() {
    let host = HostProcess::start(options().limit("replay_channel_bytes", 0)).await;
    let mut client = OfficialClient::connect(host.address(), "first").await;
    let uris = client.create_session("long-away").await;
    let other = OfficialClient::connect(host.address(), "other").await;
    other.join(&uris.session).await;
    client.cut().await;
    other.create_listed_session("another").await;
    other.run_turn(&uris.chat, "t1", "a new title").await;
    let resumed = client.reconnect().await.expect("reconnect succeeds");
    let ReconnectOutcome::Snapshots(mut channels) = resumed else {
        panic!("snapshots were expected: {resumed:?}");
    };
    channels.sort();
    let mut expected = vec!["ahp-root://".to_owned(), uris.session.clone(), uris.chat.clone()];
    expected.sort();
    assert_eq!(channels, expected);
    client.assert_converged().await;
    // And all three are live again (REC-08).
    other.create_listed_session("third").await;
    other.run_turn(&uris.chat, "t2", "hello").await;
    client.turn_end(&uris.chat, "t2").await;
    client
        .until("the root is live", |view| {
            view.root().is_some_and(|root| root.active_sessions == Some(3))
        })
        .await;
    client.assert_converged().await;
}

#[tokio::test]
async fn rec_02_a_channel_that_is_gone_is_reported_missing() {
    let (host, mut client) = start_with_client().await;
    let kept = client.create_session("kept").await;
    let gone = client.create_session("gone").await;
    let other = OfficialClient::connect(host.address(), "other").await;
    client.cut().await;
    let disposed = other.request::<serde_json::Value>("disposeSession", json!({ "channel": gone.session }));
    disposed.await.expect("disposed");
    let resumed = client.reconnect().await.expect("reconnect succeeds");
    let ReconnectOutcome::Replay { mut missing, .. } = resumed else {
        panic!("a replay was expected: {resumed:?}");
    };
    missing.sort();
    let mut expected = vec![gone.session, gone.chat];
    expected.sort();
    assert_eq!(missing, expected);
    client.run_turn(&kept.chat, "t1", "still here").await;
    client.assert_converged().await;
}

#[tokio::test]
async fn lesson_06_initialize_may_follow_a_refused_reconnect_on_the_connection() {
    let (host, mut client) = start_with_client().await;
    let uris = client.create_session("lost").await;
    client.start_turn(&uris.chat, "t1", "/stream 1000000 5").await;
    client.running_text(&uris.chat, 10).await;
    // Another host, which never heard of it.
    client.cut().await;
    let before = client.view().last_seen;
    drop(host);
    let host = start().await;
    client.move_to(host.address());
    match client.reconnect().await {
        Err(ClientError::Rpc(error)) => {
            assert_eq!(error.code, -32008);
            assert_eq!(
                error.message,
                "this host does not know the client \"first\", perhaps because it was restarted; send initialize"
            );
        }
        other => panic!("a refusal was expected: {other:?}"),
    }
    client.initialize_again().await;
    assert!(client.view().last_seen > before, "numbers never go back (E-05)");
    let uris = client.create_session("found").await;
    client.run_turn(&uris.chat, "t1", "hello").await;
    client.assert_converged().await;
}

#[tokio::test]
async fn lesson_07_one_client_on_two_sockets_and_the_newest_closes_first() {
    let (host, older) = start_with_client().await;
    let uris = older.create_session("shared").await;
    let mut newer = OfficialClient::at(host.address(), "first");
    // The same identity on a second connection, while the first one is up (NEG-21).
    newer.reconnect_from(0).await.expect("reconnect succeeds");
    newer.join(&uris.session).await;
    older.run_turn(&uris.chat, "t1", "to both").await;
    newer.turn_end(&uris.chat, "t1").await;
    newer.assert_converged().await;
    newer.cut().await;
    older.run_turn(&uris.chat, "t2", "to the older one").await;
    older.assert_converged().await;
}

#[tokio::test]
async fn lesson_12_a_refused_action_reaches_its_sender_only_and_is_not_replayed() {
    let (host, mut client) = start_with_client().await;
    let uris = client.create_session("refused").await;
    let mut witness = OfficialClient::connect(host.address(), "witness").await;
    witness.join(&uris.session).await;
    let before = client.view().last_seen;
    // Trap 7: the published mirror would apply this rejection, so no other client may get it.
    let bogus = json!({ "type": "session/defaultChatChanged", "defaultChat": "ahp-chat:/bogus" });
    client.dispatch(&uris.session, bogus).await;
    assert_eq!(
        client.refusal(1).await,
        "only the host may send session/defaultChatChanged"
    );
    {
        let view = client.view();
        let refused = &view.refusals[0];
        assert!(
            matches!(refused.action, StateAction::SessionDefaultChatChanged(_)),
            "echoed as it was sent"
        );
        assert_eq!(
            refused.origin.as_ref().map(|origin| origin.client_id.as_str()),
            Some("first")
        );
        assert!(refused.server_seq > before, "DSP-13");
    }
    witness.client().ping().await.expect("the host answers");
    let is_bogus = |envelope: &&ahp_types::actions::ActionEnvelope| {
        matches!(envelope.action, StateAction::SessionDefaultChatChanged(_))
    };
    assert_eq!(witness.view().actions.iter().filter(is_bogus).count(), 0);
    for who in [&mut client, &mut witness] {
        who.cut().await;
        who.reconnect_from(before).await.expect("reconnect succeeds");
        assert_eq!(who.view().actions.iter().filter(is_bogus).count(), 0, "REC-19");
        who.assert_converged().await;
    }
}

#[tokio::test]
async fn lesson_15_a_long_absence_is_replayed_in_order_and_once() {
    let (host, mut client) = start_with_client().await;
    let uris = client.create_session("absent").await;
    let other = OfficialClient::connect(host.address(), "other").await;
    other.join(&uris.session).await;
    client.cut().await;
    let left_at = client.view().last_seen;
    for turn in 0..20 {
        other.run_turn(&uris.chat, &format!("t{turn}"), "/stream 10").await;
    }
    // Own actions before the cut are part of it (REC-04), so ask from far before.
    client.reconnect().await.expect("reconnect succeeds");
    {
        let view = client.view();
        assert!(view.actions.iter().all(|envelope| envelope.server_seq > left_at));
        assert!(view.actions.is_sorted_by(|one, next| one.server_seq < next.server_seq));
        assert_eq!(view.chat(&uris.chat).expect("mirrored").turns.len(), 20);
    }
    // The same again: what was seen is not sent a second time.
    client.cut().await;
    let resumed = client.reconnect().await.expect("reconnect succeeds");
    assert_eq!(
        resumed,
        ReconnectOutcome::Replay {
            actions: 0,
            missing: vec![]
        }
    );
    client.assert_converged().await;
}

#[tokio::test]
async fn lesson_13_clients_that_vanish_mid_stream_leave_nothing_behind() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("vanishing").await;
    client.start_turn(&uris.chat, "t1", "/stream 1000000 1 100").await;
    client.running_text(&uris.chat, 100).await;
    let before = host.open_files();
    for number in 0..40 {
        let mut raw = RawClient::initialized(host.address(), &format!("vanishing-{number}")).await;
        raw.call("subscribe", json!({ "channel": uris.chat }))
            .await
            .expect("subscribed");
        drop(raw);
    }
    // Sockets in CLOSE_WAIT would show as open files.
    let mut files = host.open_files();
    for _ in 0..600 {
        if files <= before {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        files = host.open_files();
    }
    assert!(files <= before, "{files} files are open, {before} were before");
    let cancel = json!({ "type": "chat/turnCancelled", "turnId": "t1", "duration": 0 });
    client.dispatch(&uris.chat, cancel).await;
    assert_eq!(client.turn_end(&uris.chat, "t1").await.state, TurnState::Cancelled);
    client.assert_converged().await;
}

#[tokio::test]
async fn lesson_16_a_silent_peer_is_detected_by_ping_and_recovers() {
    let host = HostProcess::start(options().limit("ping_interval_ms", 150)).await;
    let mut client = OfficialClient::connect(host.address(), "first").await;
    let uris = client.create_session("proxy").await;
    // A stalled connection: after the upgrade pings get no response.
    let mut silent = TcpStream::connect(host.address().authority()).await.expect("connected");
    let token = host.address().token.as_deref().expect("a token");
    let upgrade = format!(
        "GET /?tkn={token} HTTP/1.1\r\nhost: {}\r\n{}\r\n\r\n",
        host.address().authority(),
        UPGRADE.join("\r\n")
    );
    silent.write_all(upgrade.as_bytes()).await.expect("sent");
    let mut received = Vec::new();
    let reading = tokio::time::timeout(TIMEOUT, silent.read_to_end(&mut received));
    reading.await.expect("the host gives up").expect("readable");
    let pings = received.windows(2).filter(|bytes| *bytes == [0x89, 0x00]).count();
    assert!(pings >= 2, "{pings} pings");
    let farewell = [&[0x88, 23, 0x03, 0xf0], "pings went unanswered".as_bytes()].concat();
    assert!(received.ends_with(&farewell), "a close frame with 1008: {received:?}");
    // The published client answers pings and is still here.
    client.run_turn(&uris.chat, "t1", "hello").await;
    client.cut().await;
    client.reconnect().await.expect("reconnect succeeds");
    client.assert_converged().await;
}

#[tokio::test]
async fn lesson_16_a_peer_that_only_listens_to_a_busy_chat_is_pinged_and_stays() {
    let host = HostProcess::start(options().limit("ping_interval_ms", 150)).await;
    let client = OfficialClient::connect(host.address(), "listener").await;
    let uris = client.create_session("busy").await;
    // Longer than three intervals, and never quiet for one of them.
    client.run_turn(&uris.chat, "t1", "/stream 40 40").await;
    client.assert_converged().await;
}

#[tokio::test]
async fn rec_07_a_host_without_traffic_replays_nothing() {
    let host = start().await;
    let mut client = OfficialClient::connect(host.address(), "idle").await;
    client.cut().await;
    let resumed = client.reconnect().await.expect("reconnect succeeds");
    assert_eq!(
        resumed,
        ReconnectOutcome::Replay {
            actions: 0,
            missing: vec![]
        }
    );
    client.assert_converged().await;
}

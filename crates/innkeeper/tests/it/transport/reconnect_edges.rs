//! The exact edges of the replay window.

use innkeeper_testkit::official::{OfficialClient, ReconnectOutcome, View};
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::RawClient;
use serde_json::json;

use crate::{options, start, start_with_client};

/// Changes a session's title so many times, one action each.
async fn rename(client: &OfficialClient, session: &str, times: usize) {
    for number in 0..times {
        let title = format!("title {number}");
        client
            .dispatch(session, json!({ "type": "session/titleChanged", "title": title }))
            .await;
    }
    let last = format!("title {}", times - 1);
    client
        .until("the last title is here", |view| {
            view.session(session).is_some_and(|state| state.title == last)
        })
        .await;
}

#[tokio::test]
async fn lesson_01_a_gap_as_large_as_the_window_is_replayed_and_one_more_is_not() {
    let host = HostProcess::start(options().limit("replay_answer_actions", 10)).await;
    let writer = OfficialClient::connect(host.address(), "writer").await;
    let uris = writer.create_listed_session("edge").await;
    for (missed, replayed) in [(10, true), (11, false)] {
        let mut client = OfficialClient::connect(host.address(), &format!("missed-{missed}")).await;
        client.join(&uris.session).await;
        client.cut().await;
        rename(&writer, &uris.session, missed).await;
        let resumed = client.reconnect().await.expect("reconnect succeeds");
        if replayed {
            assert_eq!(
                resumed,
                ReconnectOutcome::Replay {
                    actions: missed,
                    missing: vec![]
                }
            );
        } else {
            assert!(
                matches!(&resumed, ReconnectOutcome::Snapshots(channels) if channels.len() == 3),
                "{resumed:?}"
            );
        }
        client.assert_converged().await;
    }
}

#[tokio::test]
async fn rec_10_every_number_inside_the_window_is_replayed_and_no_older_one() {
    let host = HostProcess::start(options().limit("replay_channel_bytes", 6000)).await;
    let writer = OfficialClient::connect(host.address(), "writer").await;
    let uris = writer.create_listed_session("window").await;
    let subscribe = json!({ "channel": uris.session });
    for index in 0..=40 {
        let mut reader = RawClient::initialized(host.address(), &format!("reader-{index}")).await;
        reader.call("subscribe", subscribe.clone()).await.expect("subscribed");
    }
    let begin = writer.view().last_seen;
    rename(&writer, &uris.session, 40).await;
    let later = |view: &View| -> Vec<u64> {
        let numbers = view.actions.iter().map(|action| action.server_seq);
        numbers.filter(|number| *number > begin).collect()
    };
    let mut numbers = later(&writer.view());
    numbers.insert(0, begin);
    assert_eq!(numbers.len(), 41);
    let mut reached_the_edge = false;
    for (index, last_seen) in numbers.iter().enumerate().rev() {
        let mut reader = RawClient::connect(host.address()).await;
        let params = json!({
            "clientId": format!("reader-{index}"), "lastSeenServerSeq": last_seen, "subscriptions": [uris.session],
        });
        let resumed = reader.call("reconnect", params).await.expect("reconnect succeeds");
        if resumed["type"] == "replay" {
            assert!(!reached_the_edge, "a hole in the window");
            let actions = resumed["actions"].as_array().expect("actions").iter();
            let replayed: Vec<u64> = actions.filter_map(|action| action["serverSeq"].as_u64()).collect();
            assert_eq!(replayed, numbers[index + 1..]);
        } else {
            let state = &resumed["snapshots"][0]["state"];
            assert_eq!(state["title"], "title 39", "{resumed}");
            reached_the_edge = true;
        }
    }
    assert!(reached_the_edge, "the window was too large for this test");
    writer.assert_converged().await;
}

#[tokio::test]
async fn a_busy_chat_does_not_push_a_quiet_one_out_of_the_window() {
    let host = HostProcess::start(options().limit("replay_channel_bytes", 20_000)).await;
    let writer = OfficialClient::connect(host.address(), "writer").await;
    let quiet = writer.create_listed_session("quiet").await;
    let busy = writer.create_listed_session("busy").await;
    let mut client = OfficialClient::connect(host.address(), "client").await;
    client.join(&quiet.session).await;
    client.cut().await;
    rename(&writer, &quiet.session, 3).await;
    writer.run_turn(&busy.chat, "t1", "/stream 2000 0 100").await;
    let resumed = client.reconnect().await.expect("reconnect succeeds");
    assert_eq!(
        resumed,
        ReconnectOutcome::Replay {
            actions: 3,
            missing: vec![]
        }
    );
    client.assert_converged().await;
}

#[tokio::test]
async fn rec_11_a_number_from_the_future_gets_snapshots() {
    let (_host, mut client) = start_with_client().await;
    client.create_session("future").await;
    client.cut().await;
    let ahead = client.view().last_seen + 1_000_000_000_000;
    let resumed = client.reconnect_from(ahead).await.expect("reconnect succeeds");
    assert!(
        matches!(&resumed, ReconnectOutcome::Snapshots(channels) if channels.len() == 3),
        "{resumed:?}"
    );
    client.assert_converged().await;
}

#[tokio::test]
async fn rec_17_a_client_that_counts_from_one_again_is_not_taken_for_a_repeat() {
    let (_host, mut client) = start_with_client().await;
    let uris = client.create_session("counting").await;
    for round in 0..3 {
        // The published client begins with clientSeq 1 on every connection (trap 6).
        client.run_turn(&uris.chat, &format!("t{round}"), "/stream 1").await;
        client.cut().await;
        client.reconnect().await.expect("reconnect succeeds");
    }
    assert_eq!(client.view().chat(&uris.chat).expect("mirrored").turns.len(), 3);
    client.assert_converged().await;
}

#[tokio::test]
async fn neg_20_a_reconnected_client_keeps_the_version_it_negotiated() {
    let host = start().await;
    let mut old = RawClient::connect(host.address()).await;
    old.initialize("old", &["0.9.0"]).await.expect("initialized");
    drop(old);
    let mut back = RawClient::connect(host.address()).await;
    let params = json!({ "clientId": "old", "lastSeenServerSeq": 0, "subscriptions": ["ahp-root://"] });
    let resumed = back.call("reconnect", params).await.expect("reconnect succeeds");
    assert_eq!(resumed["type"], "snapshot");
    back.call("createSession", json!({ "channel": "ahp-session:/x" }))
        .await
        .expect("created");
    back.dispatch(
        "ahp-session:/x",
        1,
        json!({ "type": "session/titleChanged", "title": "x" }),
    )
    .await;
    let added = back
        .notification("root/sessionAdded", |message| message["method"] == "root/sessionAdded")
        .await;
    assert!(added["params"]["summary"].get("chats").is_none(), "{added}");
}

#[tokio::test]
async fn rec_01_both_answers_have_exactly_the_published_shape() {
    let host = start().await;
    let mut raw = RawClient::connect(host.address()).await;
    let initialized = raw.initialize("shape", &["1.0.0"]).await.expect("initialized");
    drop(raw);
    let now = &initialized["serverSeq"];
    // A number that the host never gave out cannot be replayed from (REC-11).
    let future = json!(now.as_u64().expect("a number") + 1_000_000_000);
    for (last_seen, expected) in [
        (
            now,
            json!({ "type": "replay", "actions": [], "missing": ["ahp-session:/gone"] }),
        ),
        (&future, json!({ "type": "snapshot", "snapshots": [] })),
    ] {
        let mut back = RawClient::connect(host.address()).await;
        let params = json!({
            "clientId": "shape", "lastSeenServerSeq": last_seen, "subscriptions": ["ahp-session:/gone"],
        });
        let resumed = back
            .call("reconnect", params.clone())
            .await
            .expect("reconnect succeeds");
        assert_eq!(resumed, expected);
        let refused = back
            .call("reconnect", params)
            .await
            .expect_err("one handshake per connection");
        assert_eq!(
            refused.message,
            "this connection is already initialized; open another one to start over"
        );
    }
}

#[tokio::test]
async fn a_client_without_snapshots_gets_no_action_that_they_contain() {
    let (host, mut client) = start_with_client().await;
    let counted = client.view().last_seen;
    let other = OfficialClient::connect(host.address(), "other").await;
    let uris = other.create_session("known").await;
    other.run_turn(&uris.chat, "t1", "/stream 5").await;
    // The published runtime remembers the numbers of actions, not those of snapshots.
    client.join(&uris.session).await;
    let known = client.view().last_seen;
    assert!(known > counted);
    client.cut().await;
    other.run_turn(&uris.chat, "t2", "/stream 5").await;
    client.reconnect_from(counted).await.expect("reconnect succeeds");
    let doubled = |view: &View| {
        let of_chat = view.actions.iter().filter(|envelope| envelope.channel == uris.chat);
        of_chat.filter(|envelope| envelope.server_seq <= known).count()
    };
    assert_eq!(
        doubled(&client.view()),
        0,
        "a plain mirror would apply them a second time"
    );
    client.turn_end(&uris.chat, "t2").await;
    client.assert_converged().await;
}

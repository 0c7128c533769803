//! Dispatched actions: accepted ones, and the reasons of rejections.

use ahp::hosts::HostId;
use ahp::{HostedResourceKey, MultiHostStateMirror};
use ahp_types::actions::StateAction;
use ahp_types::commands::SubscribeResult;
use innkeeper_testkit::official::{OfficialClient, ReconnectOutcome, View, turn_started};
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::RawClient;
use serde_json::{Value, json};

use crate::{options, start_with_client};

fn announcement(client_id: &str) -> Value {
    json!({ "type": "session/activeClientSet", "activeClient": { "clientId": client_id, "tools": [] } })
}

#[tokio::test]
async fn lesson_11_an_announcement_repeated_300_times_makes_no_loop() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("loop").await;
    let witness = OfficialClient::connect(host.address(), "witness").await;
    witness.join(&uris.session).await;
    client.dispatch(&uris.session, announcement("first")).await;
    witness
        .until("the announcement arrives", |view| {
            view.session(&uris.session)
                .is_some_and(|state| !state.active_clients.is_empty())
        })
        .await;
    let before = witness.view().last_seen;
    for _ in 0..300 {
        client.dispatch(&uris.session, announcement("first")).await;
    }
    client.client().ping().await.expect("the host answers");
    witness.client().ping().await.expect("the host answers");
    assert_eq!(witness.view().last_seen, before, "no other client is notified");
    let echoes = client
        .view()
        .actions
        .iter()
        .filter(|envelope| matches!(envelope.action, StateAction::SessionActiveClientSet(_)))
        .count();
    assert!(
        echoes <= 2,
        "the author is told once that nothing changed, not {echoes} times"
    );
    client.assert_converged().await;
    witness.assert_converged().await;
}

#[tokio::test]
async fn act_10_an_active_client_leaves_on_unsubscribe_and_stays_on_reconnect() {
    let (host, mut client) = start_with_client().await;
    let uris = client.create_session("member").await;
    let witness = OfficialClient::connect(host.address(), "witness").await;
    witness.join(&uris.session).await;
    client.dispatch(&uris.session, announcement("first")).await;
    witness
        .until("the announcement arrives", |view| {
            let session = view.session(&uris.session);
            session.is_some_and(|state| !state.active_clients.is_empty())
        })
        .await;
    client.cut().await;
    client.reconnect().await.expect("reconnect succeeds");
    witness.client().ping().await.expect("the host answers");
    let members = witness
        .view()
        .session(&uris.session)
        .expect("mirrored")
        .active_clients
        .len();
    assert_eq!(members, 1, "kept through the reconnect");
    client.client().unsubscribe(uris.session.clone()).await.expect("sent");
    client.view().forget(&uris.session);
    witness
        .until("the member leaves", |view| {
            view.session(&uris.session)
                .is_some_and(|state| state.active_clients.is_empty())
        })
        .await;
    client.assert_converged().await;
    witness.assert_converged().await;
}

#[tokio::test]
async fn dsp_09_a_client_id_that_is_not_the_dispatchers_is_refused() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("spoof").await;
    client.dispatch(&uris.session, announcement("another-client")).await;
    assert_eq!(
        client.refusal(1).await,
        "a client may only announce itself: activeClient.clientId is not the dispatcher's"
    );
    let removal = json!({ "type": "session/activeClientRemoved", "clientId": "another-client" });
    client.dispatch(&uris.session, removal).await;
    assert_eq!(
        client.refusal(2).await,
        "a client may only remove itself: clientId is not the dispatcher's"
    );
    let create = json!({
        "channel": "ahp-session:/spoofed",
        "activeClient": { "clientId": "another-client", "tools": [] },
    });
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    let refused = raw.call("createSession", create).await.expect_err("refused");
    assert_eq!(refused.code, -32602);
    assert_eq!(
        refused.message,
        "params.activeClient.clientId: must be this connection's own client id"
    );
    client.assert_converged().await;
}

#[tokio::test]
async fn dsp_18_only_user_messages_are_accepted() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("author").await;
    let mut forged = turn_started("t1", "I am the agent");
    forged["message"]["origin"]["kind"] = json!("agent");
    client.dispatch(&uris.chat, forged).await;
    assert_eq!(client.refusal(1).await, "clients write messages of kind user only");
    client.assert_converged().await;
}

#[tokio::test]
async fn trap_2_malformed_and_unknown_actions_are_rejected_and_echoed_unchanged() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("malformed").await;
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    let cases = [
        (
            json!({ "type": "chat/turnStarted", "turnId": 5 }),
            "malformed action: action.turnId: invalid type: integer `5`, expected a string",
        ),
        (
            json!({ "type": "chat/turnStarted" }),
            "malformed action: action: missing field `turnId`",
        ),
        (json!({}), "malformed action: action.type: missing field `type`"),
        (
            json!(5),
            "malformed action: action: invalid type: integer `5`, expected an object",
        ),
        (
            json!(null),
            "malformed action: action: invalid type: null, expected an object",
        ),
        (
            json!({ "type": "x-mine/thing", "z": [1] }),
            "unknown action type \"x-mine/thing\"",
        ),
        (
            json!({ "type": "session/titleChanged" }),
            "malformed action: action: missing field `title`",
        ),
        (
            json!({ "type": "session/isReadChanged", "isRead": true }),
            "session/isReadChanged does not belong on this kind of channel",
        ),
        (
            json!({ "type": "chat/turnComplete", "turnId": "t", "duration": 1 }),
            "only the host may send chat/turnComplete",
        ),
        (
            json!({ "type": "chat/delta", "turnId": "t", "partId": "p", "content": "forged" }),
            "only the host may send chat/delta",
        ),
    ];
    let mut previous = 0;
    for (number, (action, reason)) in cases.into_iter().enumerate() {
        let client_seq = i64::try_from(number).expect("a small number") + 1;
        raw.dispatch(&uris.chat, client_seq, action.clone()).await;
        // The author is not subscribed, and gets the rejection all the same (DSP-11).
        let refused = raw
            .notification("a refusal", |message| message["method"] == "action")
            .await;
        let params = &refused["params"];
        assert_eq!(params["rejectionReason"], reason, "{action}");
        assert_eq!(params["action"], action, "echoed verbatim");
        assert_eq!(params["origin"], json!({ "clientId": "raw", "clientSeq": client_seq }));
        assert_eq!(params["channel"], uris.chat);
        let seq = params["serverSeq"].as_u64().expect("a number");
        assert!(seq > previous);
        previous = seq;
    }
    raw.still_works().await;
    assert_eq!(raw.notifications, Vec::<Value>::new(), "one refusal each");
    client.run_turn(&uris.chat, "t1", "all is well").await;
    assert!(client.view().refusals.is_empty());
    client.assert_converged().await;
}

#[tokio::test]
async fn dsp_01_even_an_invalid_dispatch_is_never_answered() {
    let (host, client) = start_with_client().await;
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    for params in [
        json!({}),
        json!({ "channel": 5, "clientSeq": 1, "action": {} }),
        json!({ "channel": "ahp-root://", "clientSeq": "one", "action": { "type": "root/configChanged" } }),
        json!({ "channel": "ahp-session:/nowhere", "clientSeq": 1, "action": { "type": "session/titleChanged", "title": "x" } }),
        json!([]),
    ] {
        raw.notify("dispatchAction", params).await;
    }
    raw.notify("unknownNotification", json!({})).await;
    raw.notify("ping", json!({})).await;
    raw.still_works().await;
    assert_eq!(raw.notifications, Vec::<Value>::new());
    // With an id it is a request, and those are answered.
    let refused = raw.call("dispatchAction", json!({})).await.expect_err("refused");
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (-32600, "dispatchAction is a notification; send it without an id")
    );
    client.assert_converged().await;
}

#[tokio::test]
async fn dsp_10_a_client_may_act_on_a_chat_it_does_not_watch() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("unwatched").await;
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    raw.dispatch(&uris.chat, 1, turn_started("t1", "hello")).await;
    client.turn_end(&uris.chat, "t1").await;
    raw.still_works().await;
    assert_eq!(raw.notifications, Vec::<Value>::new(), "echoes follow subscriptions");
    client.assert_converged().await;
}

#[tokio::test]
async fn dsp_07_a_chat_is_renamed_the_way_the_reference_client_does_it() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("rename").await;
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    raw.dispatch(
        &uris.chat,
        7,
        json!({ "type": "session/titleChanged", "title": "my chat" }),
    )
    .await;
    client
        .until("the catalogue shows the new title", |view| {
            let session = view.session(&uris.session).expect("mirrored");
            session.chats.iter().any(|chat| chat.title == "my chat")
        })
        .await;
    // The editor window of VS Code renames a session by its default chat alone.
    client
        .until("the session has the title of its default chat", |view| {
            let session = view.session(&uris.session).expect("mirrored");
            session.title == "my chat"
        })
        .await;
    client.assert_converged().await;
}

#[tokio::test]
async fn dsp_20_fractional_numbers_are_accepted() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("fractions").await;
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    client.start_turn(&uris.chat, "t1", "/slow 600").await;
    client
        .until("the turn runs", |view| {
            view.chat(&uris.chat).is_some_and(|chat| chat.active_turn.is_some())
        })
        .await;
    let cancel = json!({ "type": "chat/turnCancelled", "turnId": "t1", "duration": 12.5 });
    raw.dispatch(&uris.chat, 1, cancel).await;
    client.turn_end(&uris.chat, "t1").await;
    client.assert_converged().await;
}

#[tokio::test]
async fn p_3_every_accepted_action_reaches_every_subscriber_once_in_one_order() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("order").await;
    let other = OfficialClient::connect(host.address(), "other").await;
    other.join(&uris.session).await;
    for number in 0..40 {
        for who in [&client, &other] {
            let title = format!("{number} of {}", who.client_id);
            who.dispatch(&uris.session, json!({ "type": "session/titleChanged", "title": title }))
                .await;
        }
    }
    let echoes = |view: &View| -> Vec<(u64, String, i64)> {
        let echoes = view.actions.iter().filter_map(|envelope| {
            let origin = envelope.origin.as_ref()?;
            Some((envelope.server_seq, origin.client_id.clone(), origin.client_seq))
        });
        echoes.collect()
    };
    for who in [&client, &other] {
        who.until("all echoes are here", |view| echoes(view).len() >= 80).await;
    }
    let seen = echoes(&client.view());
    assert_eq!(seen, echoes(&other.view()), "one order for all");
    assert_eq!(seen.len(), 80, "each once");
    for who in ["first", "other"] {
        let own: Vec<i64> = seen
            .iter()
            .filter(|(_, id, _)| id == who)
            .map(|(_, _, seq)| *seq)
            .collect();
        assert!(
            own.is_sorted_by(|one, next| one < next),
            "{who} keeps its own order: {own:?}"
        );
    }
    client.assert_converged().await;
    other.assert_converged().await;
}

#[tokio::test]
async fn dsp_16_of_two_concurrent_turns_one_is_rejected() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("race").await;
    let other = OfficialClient::connect(host.address(), "other").await;
    other.join(&uris.session).await;
    for round in 1..=5 {
        let (mine, theirs) = (format!("mine-{round}"), format!("theirs-{round}"));
        tokio::join!(
            client.start_turn(&uris.chat, &mine, "/stream 20 2"),
            other.start_turn(&uris.chat, &theirs, "/stream 20 2")
        );
        let refused = |view: &View| view.refusals.len();
        for who in [&client, &other] {
            who.until("the round is over", |view| {
                view.chat(&uris.chat).is_some_and(|chat| chat.turns.len() == round)
            })
            .await;
        }
        client.client().ping().await.expect("answered");
        other.client().ping().await.expect("answered");
        assert_eq!(
            refused(&client.view()) + refused(&other.view()),
            round,
            "exactly one is told"
        );
    }
    client.assert_converged().await;
    other.assert_converged().await;
}

#[tokio::test]
async fn act_10_an_absent_client_leaves_its_sessions_and_may_still_reconnect() {
    let host = HostProcess::start(options().limit("grace_ms", 100)).await;
    let mut client = OfficialClient::connect(host.address(), "first").await;
    let witness = OfficialClient::connect(host.address(), "witness").await;
    // SES-07: joining is part of creating.
    let create = json!({ "channel": "ahp-session:/away", "activeClient": { "clientId": "first", "tools": [] } });
    let created: Value = client.request("createSession", create).await.expect("created");
    assert_eq!(created, Value::Null);
    let uris = client.join("ahp-session:/away").await;
    witness.join(&uris.session).await;
    let members = |view: &View| view.session(&uris.session).map(|session| session.active_clients.len());
    assert_eq!(members(&witness.view()), Some(1));
    client.cut().await;
    witness
        .until("the member leaves", |view| members(view) == Some(0))
        .await;
    let resumed = client.reconnect().await.expect("still known");
    assert!(
        matches!(resumed, ReconnectOutcome::Replay { actions: 1.., .. }),
        "{resumed:?}"
    );
    client.assert_converged().await;
    witness.assert_converged().await;
}

#[tokio::test]
async fn trap_7_the_published_mirror_still_applies_refusals() {
    // Our clients in these tests pass refusals by. The day this fails, upstream has changed, and they need not.
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("trap").await;
    let bogus = json!({ "type": "session/defaultChatChanged", "defaultChat": "ahp-chat:/bogus" });
    client.dispatch(&uris.session, bogus).await;
    client.refusal(1).await;
    let refused = client.view().refusals[0].clone();
    let snapshot: SubscribeResult = client
        .request("subscribe", json!({ "channel": uris.session }))
        .await
        .expect("subscribed");
    let host = HostId::new("host");
    let mut mirror = MultiHostStateMirror::new();
    mirror.apply_snapshot(&host, &snapshot.snapshot.expect("a snapshot"));
    mirror.apply_envelope(&host, &refused);
    let key = HostedResourceKey::new(host, uris.session.as_str());
    assert_eq!(mirror.sessions()[&key].default_chat.as_deref(), Some("ahp-chat:/bogus"));
    client.assert_converged().await;
}

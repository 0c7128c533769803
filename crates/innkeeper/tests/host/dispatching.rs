//! What clients may change, and what they are told when they may not.

use ahp_types::actions::StateAction;
use innkeeper_testkit::official::{OfficialClient, now, turn_started};
use innkeeper_testkit::raw::RawClient;
use serde_json::{Value, json};

use crate::start_with_client;

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
    assert_eq!(witness.view().last_seen, before, "nobody else is told");
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
async fn act_10_an_active_client_leaves_when_it_unsubscribes_and_stays_through_a_reconnect() {
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
    client.dispatch(&uris.session, announcement("somebody-else")).await;
    assert_eq!(
        client.refusal(1).await,
        "a client may only announce itself: activeClient.clientId is not the dispatcher's"
    );
    let removal = json!({ "type": "session/activeClientRemoved", "clientId": "somebody-else" });
    client.dispatch(&uris.session, removal).await;
    assert_eq!(
        client.refusal(2).await,
        "a client may only remove itself: clientId is not the dispatcher's"
    );
    let create = json!({
        "channel": "ahp-session:/spoofed",
        "activeClient": { "clientId": "somebody-else", "tools": [] },
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
async fn dsp_18_only_messages_of_people_are_accepted() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("author").await;
    let mut forged = turn_started("t1", "I am the agent");
    forged["message"]["origin"]["kind"] = json!("agent");
    client.dispatch(&uris.chat, forged).await;
    assert_eq!(client.refusal(1).await, "clients write messages of kind user only");
    client.assert_converged().await;
}

#[tokio::test]
async fn trap_2_malformed_and_unknown_actions_are_refused_and_echoed_as_they_came() {
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
            "malformed action: action.type: invalid type: integer `5`, expected struct Head",
        ),
        (
            json!(null),
            "malformed action: action.type: invalid type: null, expected struct Head",
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
        // The author is not subscribed, and is told all the same (DSP-11).
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
async fn dsp_01_a_dispatch_is_never_answered_whatever_is_wrong_with_it() {
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

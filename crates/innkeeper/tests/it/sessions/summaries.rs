//! Summaries: chats in the session state, sessions in lists.

use ahp_types::state::SessionInputRequest;
use innkeeper_testkit::official::{OfficialClient, SessionUris};
use serde_json::{Value, json};

use crate::start_with_client;

const IDLE: u32 = 1;
const ERROR: u32 = 2;
const IN_PROGRESS: u32 = 8;
const INPUT_NEEDED: u32 = 24;
const IS_READ: u32 = 32;
const IS_ARCHIVED: u32 = 64;

const SECOND: &str = "ahp-chat:/second";
const THIRD: &str = "ahp-chat:/third";

fn activity(status: u32) -> u32 {
    status & 0b1_1111
}

/// A session of three chats.
async fn three_chats(client: &OfficialClient, name: &str) -> SessionUris {
    let uris = client.create_session(name).await;
    for chat in [SECOND, THIRD] {
        client.create_chat(&uris.session, chat, json!({})).await;
    }
    uris
}

/// Waits until a chat's mirrored status has an activity, and returns that of its whole session, as lists show it.
async fn aggregate(client: &OfficialClient, session: &str, chat: &str, expected: u32) -> u32 {
    client
        .until("the chat got there", |view| {
            view.chat(chat).is_some_and(|chat| activity(chat.status) == expected)
        })
        .await;
    activity(client.listed(session).await.status)
}

#[tokio::test]
async fn ses15_ses16_ses17_a_session_shows_the_chat_that_matters_most() {
    let (host, client) = start_with_client().await;
    let uris = three_chats(&client, "many").await;
    let session = uris.session.as_str();
    let watcher = OfficialClient::connect(host.address(), "watcher").await;
    assert_eq!(activity(client.listed(session).await.status), IDLE);

    client.start_turn(SECOND, "t1", "/slow 600").await;
    assert_eq!(aggregate(&client, session, SECOND, IN_PROGRESS).await, IN_PROGRESS);
    client
        .until("it says what it does", |view| {
            view.chat(SECOND).is_some_and(|chat| chat.activity.is_some())
        })
        .await;
    let shown = client.listed(session).await.activity;
    assert_eq!(shown.as_deref(), Some("Taking it slowly: 600 s left"), "SES-17");

    client.run_turn(&uris.chat, "t1", "/error").await;
    assert_eq!(
        aggregate(&client, session, &uris.chat, ERROR).await,
        ERROR,
        "an error is promoted"
    );

    client.start_turn(THIRD, "t1", "/ask").await;
    assert_eq!(
        aggregate(&client, session, THIRD, INPUT_NEEDED).await,
        INPUT_NEEDED,
        "a wait even more"
    );
    let waits = client.session(session).input_needed.expect("SES-18");
    match waits.as_slice() {
        [SessionInputRequest::ChatInput(wait)] => assert_eq!(wait.chat, THIRD),
        other => panic!("one question was expected: {other:?}"),
    }

    client.cancel_turn(THIRD, "t1").await;
    assert_eq!(activity(client.listed(session).await.status), ERROR);
    client.run_turn(&uris.chat, "t2", "hello").await;
    assert_eq!(activity(client.listed(session).await.status), IN_PROGRESS, "E-21");
    client.cancel_turn(SECOND, "t1").await;
    let listed = client.listed(session).await;
    assert_eq!((activity(listed.status), listed.activity), (IDLE, None));

    // SES-17: the latest change of any chat.
    let latest = client
        .session(session)
        .chats
        .into_iter()
        .map(|chat| chat.modified_at)
        .max();
    assert_eq!(Some(listed.modified_at), latest);
    client.assert_converged().await;
    client.assert_summary_converged(session).await;
    // A later client that only lists gets the same.
    assert_eq!(watcher.listed(session).await, client.listed(session).await);
}

#[tokio::test]
async fn lesson_20_a_turn_that_fails_early_leaves_in_progress_at_once() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("early").await;
    for round in 0..5 {
        client.run_turn(&uris.chat, &format!("t{round}"), "/error").await;
        let listed = client.listed(&uris.session).await;
        assert_eq!(
            activity(listed.status),
            ERROR,
            "no debounce stands between an error and a list"
        );
        assert_eq!(
            listed.chats.and_then(|chats| chats[0].status).map(activity),
            Some(ERROR)
        );
    }
    client.assert_summary_converged(&uris.session).await;
    client.assert_converged().await;
}

#[tokio::test]
async fn ses21_e24_a_session_that_waits_for_nothing_any_more_is_not_in_progress() {
    let (_host, client) = start_with_client().await;
    let uris = three_chats(&client, "settled").await;
    for command in ["/confirm", "/ask"] {
        let turn = format!("turn-{}", &command[1..]);
        client.start_turn(SECOND, &turn, command).await;
        aggregate(&client, &uris.session, SECOND, INPUT_NEEDED).await;
        client.cancel_turn(SECOND, &turn).await;
        client
            .until("nothing is awaited", |view| {
                let session = view.session(&uris.session).expect("mirrored");
                session.input_needed.is_none()
            })
            .await;
        assert_eq!(activity(client.listed(&uris.session).await.status), IDLE);
        // A fresh snapshot of the session tells the same.
        let subscribed: Value = client
            .request("subscribe", json!({ "channel": uris.session }))
            .await
            .expect("subscribed");
        let status = subscribed["snapshot"]["state"]["status"].as_u64().expect("a status");
        assert_eq!(status & 0b1_1111, u64::from(IDLE));
        client.assert_summary_converged(&uris.session).await;
    }
    client.assert_converged().await;
}

/// (SES-20, E-23)
#[tokio::test]
async fn ses18_several_chats_wait_each_under_its_own_id() {
    let (_host, client) = start_with_client().await;
    let uris = three_chats(&client, "waiting").await;
    let chats = [uris.chat.as_str(), SECOND, THIRD];
    for chat in chats {
        client.start_turn(chat, "t1", "/parallel 2").await;
    }
    client
        .until("six things are awaited", |view| {
            let session = view.session(&uris.session).expect("mirrored");
            session.input_needed.as_ref().is_some_and(|waits| waits.len() == 6)
        })
        .await;
    let waits = client.session(&uris.session).input_needed.expect("waits");
    let mut ids = std::collections::BTreeSet::new();
    for wait in &waits {
        let SessionInputRequest::ToolConfirmation(wait) = wait else {
            panic!("a confirmation was expected: {wait:?}");
        };
        assert!(ids.insert(&wait.id), "SES-18: {} is used twice", wait.id);
        assert_eq!(wait.turn_id, "t1");
    }
    client.cancel_turn(SECOND, "t1").await;
    client
        .until("two fewer", |view| {
            let session = view.session(&uris.session).expect("mirrored");
            session.input_needed.as_ref().is_some_and(|waits| waits.len() == 4)
        })
        .await;
    let waits = client.session(&uris.session).input_needed.expect("waits");
    let of_second =
        |wait: &SessionInputRequest| matches!(wait, SessionInputRequest::ToolConfirmation(wait) if wait.chat == SECOND);
    assert!(!waits.iter().any(of_second));
    assert_eq!(activity(client.listed(&uris.session).await.status), INPUT_NEEDED);
    for chat in [uris.chat.as_str(), THIRD] {
        client.cancel_turn(chat, "t1").await;
    }
    assert_eq!(activity(client.listed(&uris.session).await.status), IDLE);
    client.assert_converged().await;
    client.assert_summary_converged(&uris.session).await;
}

#[tokio::test]
async fn e28_e29_a_sessions_flags_are_its_own() {
    let (host, client) = start_with_client().await;
    let uris = three_chats(&client, "flags").await;
    let other = OfficialClient::connect(host.address(), "other").await;
    other.join(&uris.session).await;
    let flags = |status: u32| status & (IS_READ | IS_ARCHIVED);
    let chats = |client: &OfficialClient| -> Vec<u32> {
        let session = client.session(&uris.session);
        session.chats.iter().map(|chat| flags(chat.status)).collect()
    };
    let before = chats(&client);
    for (action, expected) in [
        (json!({ "type": "session/isReadChanged", "isRead": true }), IS_READ),
        (
            json!({ "type": "session/isArchivedChanged", "isArchived": true }),
            IS_READ | IS_ARCHIVED,
        ),
        (json!({ "type": "session/isReadChanged", "isRead": false }), IS_ARCHIVED),
    ] {
        client.dispatch(&uris.session, action).await;
        other
            .until("the session's flags change", |view| {
                let session = view.session(&uris.session).expect("mirrored");
                flags(session.status) == expected
            })
            .await;
        assert_eq!(flags(client.listed(&uris.session).await.status), expected);
    }
    assert_eq!(chats(&client), before, "E-29");
    // An archived session still runs turns, and the flag stays until a client clears it.
    client.run_turn(&uris.chat, "t1", "hello").await;
    assert_eq!(
        flags(client.listed(&uris.session).await.status) & IS_ARCHIVED,
        IS_ARCHIVED
    );
    assert_eq!(flags(client.chat(&uris.chat).status) & IS_READ, 0, "E-28");
    other.turn_end(&uris.chat, "t1").await;
    client.assert_converged().await;
    other.assert_converged().await;
    client.assert_summary_converged(&uris.session).await;
}

#[tokio::test]
async fn root10_the_list_is_in_the_order_of_the_latest_change_of_any_chat() {
    let (_host, client) = start_with_client().await;
    let mut sessions = Vec::new();
    for name in ["one", "two", "three"] {
        sessions.push(client.create_session(name).await);
    }
    let chat = "ahp-chat:/of-one";
    client.create_chat(&sessions[0].session, chat, json!({})).await;
    client.run_turn(&sessions[2].chat, "t1", "/stream 1").await;
    // A whole millisecond, so that the order is not a matter of luck.
    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    client.run_turn(&sessions[1].chat, "t1", "/stream 1").await;
    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    client.run_turn(chat, "t1", "/stream 1").await;
    let listed: Value = client
        .request("listSessions", json!({ "channel": "ahp-root://" }))
        .await
        .expect("listed");
    let order: Vec<&str> = listed["items"]
        .as_array()
        .expect("items")
        .iter()
        .filter_map(|item| item["resource"].as_str())
        .collect();
    assert_eq!(order, ["ahp-session:/one", "ahp-session:/two", "ahp-session:/three"]);
    client.assert_converged().await;
}

/// Background work goes on after the turn has ended (lesson 23).
#[tokio::test]
async fn lesson_23_work_without_a_turn_shows_while_it_lasts_and_ends() {
    let (_host, client) = start_with_client().await;
    let uris = client.create_session("by-itself").await;
    client.run_turn(&uris.chat, "t1", "/background 2").await;
    assert_eq!(activity(client.listed(&uris.session).await.status), IN_PROGRESS);
    client
        .until("the watch is over", |view| {
            let session = view.session(&uris.session).expect("mirrored");
            session.chats.len() == 2 && session.chats.iter().all(|chat| activity(chat.status) == IDLE)
        })
        .await;
    assert_eq!(activity(client.listed(&uris.session).await.status), IDLE);
    client.assert_converged().await;
    client.assert_summary_converged(&uris.session).await;
}

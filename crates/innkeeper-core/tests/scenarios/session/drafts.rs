//! Sessions without a message (SES-34 to SES-36).

use innkeeper_core::{AgentCommand, ConnId, CoreConfig, Effect, Input};
use serde_json::{Value, json};

use crate::harness::*;

const GRACE_MS: u64 = 30_000;

/// A host, a client of a draft that listens to it, and a watcher of the root.
fn stage() -> (Stage, ConnId, ConnId, String) {
    let mut stage = Stage::able(CoreConfig::default());
    let conn = stage.client("c", &[]);
    let watcher = stage.client("watcher", &[ROOT]);
    let chat = stage.session(conn, SESSION);
    stage.subscribe(conn, SESSION);
    stage.subscribe(conn, &chat);
    (stage, conn, watcher, chat)
}

fn listed(stage: &mut Stage, conn: ConnId) -> Vec<String> {
    let answer = stage.list(conn, None, None);
    let items = answer["result"]["items"].as_array().expect("a list").clone();
    items
        .iter()
        .map(|item| item["resource"].as_str().unwrap_or_default().to_owned())
        .collect()
}

fn exists(stage: &Stage) -> bool {
    stage.core.snapshot(SESSION).is_some()
}

#[test]
fn ses34_a_session_is_announced_and_listed_with_its_first_turn() {
    let (mut stage, conn, watcher, chat) = stage();
    stage.pass(1000);
    assert_eq!(
        stage.inbox(watcher),
        Vec::<Value>::new(),
        "no client is notified of a draft"
    );
    assert_eq!(listed(&mut stage, watcher), Vec::<String>::new());
    assert_eq!(stage.state(ROOT)["activeSessions"], 0);
    stage.start_turn(conn, &chat, "t");
    let heard = stage.inbox(watcher);
    assert_eq!(heard[0]["method"], "root/sessionAdded");
    let summary = &heard[0]["params"]["summary"];
    assert_eq!(summary["resource"], SESSION);
    assert_eq!(summary["title"], "hi", "with the name that the first message gives it");
    assert_eq!(summary["status"], 8 | 32, "and as what it is");
    assert_eq!(heard[1]["params"]["action"]["activeSessions"], 1);
    assert_eq!(heard.len(), 2);
    assert_eq!(listed(&mut stage, watcher), [SESSION]);
    stage.pass(1000);
    assert_eq!(stage.inbox(watcher), Vec::<Value>::new(), "it is announced once");
}

#[test]
fn ses34_any_user_change_worth_keeping_ends_a_draft() {
    let queued = json!({ "type": "chat/pendingMessageSet", "kind": "queued", "id": "m", "message": message("later") });
    let archived = json!({ "type": "session/isArchivedChanged", "isArchived": true });
    for (on_chat, action) in [(true, queued), (false, title("Named")), (false, archived)] {
        let mut stage = Stage::new();
        let conn = stage.client("c", &[]);
        stage.create(conn, SESSION);
        let chat = innkeeper_core::uri::default_chat(SESSION);
        let channel = if on_chat { chat.as_str() } else { SESSION };
        stage.dispatch(conn, channel, 1, action.clone());
        assert_eq!(listed(&mut stage, conn), [SESSION], "{action}");
    }
    let (mut stage, conn, watcher, _) = stage();
    stage.create_chat(conn, new_chat(SESSION, "ahp-chat:/second"));
    assert_eq!(listed(&mut stage, watcher), [SESSION], "a further chat");
}

#[test]
fn ses34_preparing_a_first_message_does_not_end_a_draft() {
    let (mut stage, conn, watcher, chat) = stage();
    stage.dispatch(conn, SESSION, 1, announce("c"));
    stage.dispatch(
        conn,
        &chat,
        2,
        json!({ "type": "chat/draftChanged", "draft": message("half a sen") }),
    );
    stage.dispatch(
        conn,
        SESSION,
        3,
        json!({ "type": "session/isReadChanged", "isRead": false }),
    );
    stage.pass(1000);
    assert_eq!(stage.inbox(watcher), Vec::<Value>::new());
    assert_eq!(listed(&mut stage, watcher), Vec::<String>::new());
}

#[test]
fn ses35_a_draft_goes_with_its_last_subscriber_after_the_grace() {
    let (mut stage, conn, watcher, chat) = stage();
    stage.unsubscribe(conn, SESSION);
    stage.pass(10 * GRACE_MS);
    assert!(exists(&stage), "its chat has a subscriber");
    stage.unsubscribe(conn, &chat);
    stage.pass(GRACE_MS - 1);
    assert!(exists(&stage), "the grace is not over");
    stage.subscribe(conn, SESSION);
    stage.pass(10 * GRACE_MS);
    assert!(exists(&stage), "a client came back");
    stage.disconnect(conn);
    stage.pass(GRACE_MS - 1);
    assert!(exists(&stage));
    stage.pass(1);
    assert!(!exists(&stage));
    assert_eq!(error(&stage.subscribe(watcher, &chat)).0, -32001);
    let closed = stage
        .agent
        .iter()
        .filter(|effect| matches!(effect, Effect::Agent(AgentCommand::CloseChat { .. })));
    assert_eq!(closed.count(), 1, "its agent ends with it");
    assert_eq!(stage.inbox(watcher), Vec::<Value>::new(), "no client knew of it");
}

#[test]
fn ses35_a_client_that_reconnects_within_the_grace_finds_its_draft() {
    let (mut stage, conn, _, chat) = stage();
    stage.disconnect(conn);
    stage.pass(GRACE_MS / 2);
    let again = stage.connect();
    stage.reconnect(again, "c", stage.core.seq().0, &[SESSION, &chat]);
    stage.pass(10 * GRACE_MS);
    assert!(exists(&stage));
    stage.start_turn(again, &chat, "t");
    assert_eq!(listed(&mut stage, again), [SESSION]);
}

#[test]
fn ses35_a_draft_without_subscribers_lasts_as_long_as_its_creator() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    stage.session(conn, SESSION);
    stage.pass(10 * GRACE_MS);
    assert!(exists(&stage));
    stage.disconnect(conn);
    stage.pass(GRACE_MS - 1);
    assert!(exists(&stage));
    stage.pass(1);
    assert!(!exists(&stage));
}

#[test]
fn ses35_a_session_that_was_used_stays_although_it_is_empty_again() {
    let (mut stage, conn, watcher, chat) = stage();
    stage.start_turn(conn, &chat, "t");
    stage.ends(innkeeper_core::TurnEnd::Complete);
    stage.dispatch(conn, &chat, 2, json!({ "type": "chat/truncated" }));
    assert_eq!(stage.state(&chat)["turns"], json!([]));
    stage.disconnect(conn);
    stage.pass(10 * GRACE_MS);
    assert_eq!(listed(&mut stage, watcher), [SESSION]);
}

#[test]
fn ses36_only_those_that_listen_to_a_draft_hear_that_it_was_disposed_of() {
    let (mut stage, conn, watcher, _) = stage();
    let both = stage.client("both", &[ROOT, SESSION]);
    stage.inbox(both);
    let answer = stage.dispose(conn, SESSION);
    assert_eq!(answer["result"], Value::Null, "{answer}");
    assert_eq!(stage.inbox(watcher), Vec::<Value>::new());
    let heard = stage.inbox(both);
    assert_eq!(heard[0]["method"], "root/sessionRemoved");
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert_eq!(stage.create(conn, SESSION)["result"], Value::Null, "the URI is free");
}

#[test]
fn ses35_drafts_count_among_the_sessions_that_a_host_takes() {
    let mut stage = Stage::with(CoreConfig {
        max_sessions: 2,
        ..CoreConfig::default()
    });
    let conn = stage.client("c", &[]);
    let chat = stage.session(conn, SESSION);
    stage.start_turn(conn, &chat, "t");
    stage.create(conn, "ahp-session:/two");
    assert_eq!(error(&stage.create(conn, "ahp-session:/three")).0, -32011);
    stage.dispose(conn, "ahp-session:/two");
    assert_eq!(stage.create(conn, "ahp-session:/three")["result"], Value::Null);
}

/// A host with a store that has a draft, in its next life.
fn restarted() -> Stage {
    let mut stage = Stage::opening(PersistedState::default(), CoreConfig::default());
    let conn = stage.client("c", &[]);
    stage.session(conn, SESSION);
    stage.subscribe(conn, SESSION);
    let mut stage = stage.restart(CoreConfig::default());
    stage.handle(Input::Recover(vec![SESSION.to_owned()]));
    stage
}

#[test]
fn ses35_an_abandoned_draft_is_deleted_after_a_restart() {
    let mut stage = restarted();
    assert_eq!(stage.state(ROOT)["activeSessions"], 0);
    stage.pass(GRACE_MS - 1);
    assert!(exists(&stage));
    stage.pass(1);
    assert!(!exists(&stage));
    let next = stage.restart(CoreConfig::default());
    assert!(next.persisted.as_ref().is_some_and(|kept| !kept.has_session(SESSION)));
}

#[test]
fn ses35_a_draft_with_a_returning_client_survives_a_restart_as_a_draft() {
    let mut stage = restarted();
    let conn = stage.client("c", &[ROOT, SESSION]);
    stage.inbox(conn);
    stage.pass(10 * GRACE_MS);
    assert!(exists(&stage));
    let chat = innkeeper_core::uri::default_chat(SESSION);
    stage.start_turn(conn, &chat, "t");
    let added = stage.notifications(conn);
    assert_eq!(added[0]["method"], "root/sessionAdded");
    let mut next = stage.restart(CoreConfig::default());
    next.handle(Input::Recover(vec![SESSION.to_owned()]));
    next.pass(10 * GRACE_MS);
    assert!(exists(&next), "and is none any more");
}

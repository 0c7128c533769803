//! The session list and its upkeep (ROOT).

use ahp::reducers::apply_action_to_session;
use ahp_types::actions::StateAction;
use ahp_types::state::{SessionState, SessionStatus};
use innkeeper_core::{AgentEvent, TurnEnd};
use serde_json::{Value, json};

use crate::harness::*;

/// The parameters of every summary change that a connection got.
fn changes(stage: &mut Stage, conn: innkeeper_core::ConnId) -> Vec<Value> {
    let heard = stage.notifications(conn).into_iter();
    heard
        .filter(|message| message["method"] == "root/sessionSummaryChanged")
        .map(|message| message["params"]["changes"].clone())
        .collect()
}

#[test]
fn root10_root11_the_list_is_latest_first_complete_or_in_pages() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    for name in ["a", "b", "c", "d"] {
        stage.listed_session(conn, &format!("ahp-session:/{name}"));
        stage.pass(1000);
    }
    stage.start_turn(conn, &innkeeper_core::uri::default_chat("ahp-session:/b"), "t");
    let names = |answer: &Value| -> Vec<String> {
        let items = answer["result"]["items"].as_array().unwrap().iter();
        items
            .map(|item| item["resource"].as_str().unwrap().replace("ahp-session:/", ""))
            .collect()
    };
    let all = stage.list(conn, None, None);
    assert_eq!(names(&all), ["b", "d", "c", "a"]);
    assert!(all["result"].get("nextCursor").is_none());
    let mut paged = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = stage.list(conn, Some(3), cursor.as_deref());
        paged.extend(names(&page));
        match page["result"].get("nextCursor") {
            Some(next) => cursor = Some(next.as_str().unwrap().to_owned()),
            None => break,
        }
    }
    assert_eq!(paged, ["b", "d", "c", "a"]);
}

#[test]
fn root10_a_cursor_of_another_list_is_an_error_that_names_it() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    for bad in ["", "x", "1", "1.x", "👻.1"] {
        let answer = stage.list(conn, Some(1), Some(bad));
        assert_eq!(error(&answer).0, -32602, "{bad:?}");
        assert!(error(&answer).1.starts_with("params.cursor: "), "{answer}");
    }
}

#[test]
fn root12_root13_a_burst_of_changes_is_one_notification_with_the_changes() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let watcher = stage.client("watcher", &[ROOT]);
    stage.listed_session(conn, SESSION);
    stage.pass(1000);
    stage.inbox(watcher);
    for n in 0..10 {
        stage.dispatch(conn, SESSION, n, title(&format!("title {n}")));
    }
    stage.pass(99);
    assert_eq!(changes(&mut stage, watcher), Vec::<Value>::new());
    stage.pass(1);
    assert_eq!(changes(&mut stage, watcher), [json!({ "title": "title 9" })]);
    stage.pass(10_000);
    assert_eq!(changes(&mut stage, watcher), Vec::<Value>::new());
}

#[test]
fn root13_a_change_that_is_undone_in_time_is_not_announced() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let watcher = stage.client("watcher", &[ROOT]);
    stage.listed_session(conn, SESSION);
    stage.pass(1000);
    stage.inbox(watcher);
    for flag in [true, false] {
        stage.dispatch(
            conn,
            SESSION,
            1,
            json!({ "type": "session/isArchivedChanged", "isArchived": flag }),
        );
    }
    stage.pass(1000);
    assert_eq!(changes(&mut stage, watcher), Vec::<Value>::new());
}

#[test]
fn root13_a_client_that_lists_during_a_change_gets_its_end() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let chat = stage.listed_session(conn, SESSION);
    stage.start_turn(conn, &chat, "t1");
    stage.ends(TurnEnd::Complete);
    stage.pass(1000);
    let watcher = stage.client("watcher", &[ROOT]);
    stage.start_turn(conn, &chat, "t2");
    let activity = |status: &Value| status.as_u64().unwrap() & 0b1_1111;
    let listed = stage.list(watcher, None, None)["result"]["items"][0]["status"].clone();
    stage.ends(TurnEnd::Complete);
    stage.pass(1000);
    assert_eq!(activity(&listed), 8, "in progress while it was listed");
    let heard = changes(&mut stage, watcher);
    let last_status = heard.iter().rev().find_map(|changes| changes.get("status"));
    assert_eq!(last_status.map(activity), Some(1), "and not for ever: {heard:?}");
}

#[test]
fn root14_e36_e37_a_cleared_activity_is_an_empty_one() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let watcher = stage.client("watcher", &[ROOT]);
    let chat = stage.listed_session(conn, SESSION);
    stage.start_turn(conn, &chat, "t");
    stage.says(AgentEvent::Activity(Some("thinking".into())));
    stage.pass(1000);
    assert_eq!(changes(&mut stage, watcher).pop().unwrap()["activity"], "thinking");
    stage.ends(TurnEnd::Complete);
    stage.pass(1000);
    assert_eq!(changes(&mut stage, watcher).pop().unwrap()["activity"], "");
}

#[test]
fn root15_root16_summaries_have_their_fields_and_0_9_gets_no_catalogue() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    stage.listed_session(conn, SESSION);
    let old = stage.connect();
    stage.initialize(old, "old", &["0.9.0"], &[]);
    let summary = |answer: Value| answer["result"]["items"][0].clone();
    let (new, old) = (
        summary(stage.list(conn, None, None)),
        summary(stage.list(old, None, None)),
    );
    for field in ["provider", "title", "status", "resource", "createdAt", "modifiedAt"] {
        assert!(new.get(field).is_some() && old.get(field).is_some(), "{field}");
    }
    assert_eq!(new["chats"][0]["resource"], new["defaultChat"]);
    assert!(old.get("chats").is_none() && old.get("defaultChat").is_none());
}

#[test]
fn ses14_ses15_ses22_a_turn_shows_in_catalogue_session_and_summary() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let watcher = stage.client("watcher", &[ROOT]);
    let chat = stage.listed_session(conn, SESSION);
    stage.subscribe(conn, SESSION);
    stage.pass(1000);
    stage.inbox(watcher);
    stage.inbox(conn);
    stage.start_turn(conn, &chat, "t");
    assert_eq!(stage.state(SESSION)["chats"][0]["status"], stage.state(&chat)["status"]);
    assert_eq!(stage.state(SESSION)["status"].as_u64().unwrap() & 0b1_1111, 8);
    assert!(
        stage.action_types(conn).contains(&"session/chatUpdated".to_owned()),
        "TURN-16"
    );
    stage.pass(100);
    let heard = changes(&mut stage, watcher).pop().unwrap();
    assert_eq!(heard["chats"][0]["status"].as_u64().unwrap() & 0b1_1111, 8, "SES-22");
    assert_eq!(heard["title"], "hi", "named after its first message");
}

#[test]
fn ses17_the_activity_shown_is_that_of_the_chat_the_status_comes_from() {
    let mut stage = Stage::able(innkeeper_core::CoreConfig::default());
    let conn = stage.client("c", &[]);
    let chat = stage.listed_session(conn, SESSION);
    stage.create_chat(conn, new_chat(SESSION, "ahp-chat:/second"));
    stage.opened(Ok(()));
    stage.start_turn(conn, "ahp-chat:/second", "t");
    let second = stage.run();
    stage.says_in(second, AgentEvent::Activity(Some("digging".into())));
    assert_eq!(stage.state(SESSION)["activity"], "digging", "only the second one works");
    stage.start_turn(conn, &chat, "t");
    let first = stage.run();
    stage.says_in(first, AgentEvent::Activity(Some("thinking".into())));
    assert_eq!(stage.state(SESSION)["activity"], "thinking", "the default chat leads");
    stage.asks_permission(second, "call");
    assert_eq!(stage.state(SESSION)["status"].as_u64().unwrap() & 0b1_1111, 24);
    assert_eq!(stage.state(SESSION)["activity"], "digging", "the second one waits");
    stage.ends_in(second, TurnEnd::Complete);
    assert_eq!(stage.state(SESSION)["activity"], "thinking");
    stage.ends_in(first, TurnEnd::Complete);
    assert!(stage.state(SESSION).get("activity").is_none());
}

/// (SES-17)
#[test]
fn ses17_a_changed_activity_reaches_earlier_subscribers() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let chat = stage.session(conn, SESSION);
    stage.start_turn(conn, &chat, "t");
    stage.subscribe(conn, SESSION);
    stage.inbox(conn);
    stage.says(AgentEvent::Activity(Some("thinking".into())));
    let shown = |stage: &mut Stage| -> Vec<Value> {
        let actions = stage
            .actions(conn)
            .into_iter()
            .map(|envelope| envelope["action"].clone());
        actions
            .filter(|action| action["type"] == "session/activityChanged")
            .collect()
    };
    assert_eq!(
        shown(&mut stage),
        [json!({ "type": "session/activityChanged", "activity": "thinking" })]
    );
    stage.ends(TurnEnd::Complete);
    assert_eq!(shown(&mut stage), [json!({ "type": "session/activityChanged" })]);
    assert!(stage.state(SESSION).get("activity").is_none());
}

/// (SES-15)
#[test]
fn ses15_the_end_of_a_turn_makes_a_session_and_its_chat_unread() {
    const READ: u64 = 32;
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let chat = stage.session(conn, SESSION);
    stage.subscribe(conn, SESSION);
    stage.subscribe(conn, &chat);
    let is_read = |stage: &Stage, channel: &str| stage.state(channel)["status"].as_u64().unwrap() & READ != 0;
    let mut seen = 1;
    for turn in ["t1", "t2"] {
        for (channel, kind) in [
            (SESSION, "session/isReadChanged"),
            (chat.as_str(), "chat/isReadChanged"),
        ] {
            stage.dispatch(conn, channel, seen, json!({ "type": kind, "isRead": true }));
            seen += 1;
        }
        let action = stage.turn_started(turn);
        stage.dispatch(conn, &chat, seen, action);
        seen += 1;
        assert!(is_read(&stage, SESSION), "the one who writes has read it");
        // A client reads it while it runs.
        stage.dispatch(
            conn,
            &chat,
            seen,
            json!({ "type": "chat/isReadChanged", "isRead": true }),
        );
        seen += 1;
        stage.inbox(conn);
        stage.ends(TurnEnd::Complete);
        assert!(!is_read(&stage, SESSION) && !is_read(&stage, &chat), "{turn}");
        let types = stage.action_types(conn);
        for told in ["session/isReadChanged", "chat/isReadChanged"] {
            assert!(types.iter().any(|kind| kind == told), "{told}: {types:?}");
        }
    }
}

/// A client that folds session actions with the published reducer cannot get the activity bits back to
/// idle: `session/inputNeededRemoved` leaves `InProgress`, and `session/chatUpdated` does not touch them.
/// The snapshot, the chat's status and the list are right (docs/adr/0008-session-status-bits.md). When this
/// test fails after an update of `ahp`, the reducer clears the bits and the record can go.
#[test]
fn e08_ses21_the_fold_of_session_actions_stays_in_progress() {
    let (idle, in_progress, input_needed) = (
        SessionStatus::Idle.bits(),
        SessionStatus::InProgress.bits(),
        SessionStatus::InputNeeded.bits(),
    );
    let activity = |status: &Value| status.as_u64().expect("a status") as u32 & 0b1_1111;
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let chat = stage.listed_session(conn, SESSION);
    let watcher = stage.client("watcher", &[SESSION]);
    let mut fold: SessionState = serde_json::from_value(stage.state(SESSION)).expect("a session");
    assert_eq!(fold.status & 0b1_1111, idle);

    stage.start_turn(conn, &chat, "t");
    stage.asks_permission(stage.run(), "call");
    assert_eq!(activity(&stage.state(SESSION)["status"]), input_needed);
    let cancelled = json!({ "type": "chat/turnCancelled", "turnId": "t", "duration": 1 });
    stage.dispatch(conn, &chat, 2, cancelled);
    stage.pass(1000);

    let mut types = Vec::new();
    for envelope in stage.actions(watcher) {
        let action: StateAction = serde_json::from_value(envelope["action"].clone()).expect("an action");
        types.push(envelope["action"]["type"].as_str().unwrap_or_default().to_owned());
        apply_action_to_session(&mut fold, &action);
    }
    for needed in [
        "session/inputNeededSet",
        "session/inputNeededRemoved",
        "session/chatUpdated",
    ] {
        assert!(
            types.iter().any(|kind| kind == needed),
            "{needed} is missing in {types:?}"
        );
    }
    assert_eq!(fold.status & 0b1_1111, in_progress, "the published reducer");
    assert!(fold.input_needed.is_none());
    assert_eq!(fold.chats[0].status & 0b1_1111, idle, "chats[].status in the fold");
    let snapshot = stage.state(SESSION);
    assert_eq!(activity(&snapshot["status"]), idle, "the snapshot");
    assert_eq!(activity(&snapshot["chats"][0]["status"]), idle);
    let list = stage.list(conn, None, None);
    assert_eq!(
        activity(&list["result"]["items"][0]["status"]),
        idle,
        "the root summary"
    );
}

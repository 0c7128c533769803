//! The wall clock is set (F8). Order, deadlines and durations follow the monotonic one (P15); only times shown to
//! users differ.

use innkeeper_core::{AgentEvent, CoreConfig, TurnEnd};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::harness::*;

/// A change of the wall clock.
#[derive(Debug, Clone, Copy)]
enum Set {
    By(SignedDuration),
    To(&'static str),
}

const CLOCKS: [Set; 8] = [
    Set::By(SignedDuration::from_hours(1)),
    Set::By(SignedDuration::from_hours(-1)),
    Set::By(SignedDuration::from_hours(24)),
    Set::By(SignedDuration::from_hours(-24)),
    Set::To("1970-01-01T00:00:00Z"),
    Set::To("1969-12-31T23:00:00Z"),
    Set::To("2039-01-01T00:00:00Z"),
    Set::To("2106-02-07T06:28:16Z"),
];

fn set_clock(stage: &mut Stage, set: Set) {
    stage.now.wall = match set {
        Set::By(by) => stage.now.wall + by,
        Set::To(moment) => moment.parse().expect("a moment"),
    };
}

/// The numbers of the received actions, which only ever rise.
fn seqs(actions: &[Value]) -> Vec<u64> {
    let seqs: Vec<u64> = actions
        .iter()
        .filter_map(|action| action["serverSeq"].as_u64())
        .collect();
    assert!(seqs.is_sorted_by(|a, b| a < b), "{seqs:?}");
    seqs
}

#[test]
fn f8_a_turn_lasts_as_long_as_it_lasts() {
    for set in CLOCKS {
        let mut stage = Stage::new();
        let conn = stage.client("c", &[]);
        let chat = stage.session(conn, SESSION);
        stage.subscribe(conn, &chat);
        stage.start_turn(conn, &chat, "t");
        stage.says(AgentEvent::Text("before".into()));
        stage.pass(400);
        set_clock(&mut stage, set);
        stage.pass(600);
        stage.says(AgentEvent::Text(" and after".into()));
        stage.ends(TurnEnd::Complete);
        let actions = stage.actions(conn);
        seqs(&actions);
        let end = actions
            .iter()
            .find(|action| action["action"]["type"] == "chat/turnComplete")
            .expect("the turn ends");
        assert_eq!(end["action"]["duration"], 1000, "{set:?}");
        // The next one starts whether its author's clock was set as well, or not.
        let late = stage.turn_started("t2");
        stage.dispatch(conn, &chat, 2, late);
        stage.ends(TurnEnd::Complete);
        let mut early = stage.turn_started("t3");
        early["startedAt"] = json!("2026-01-31T12:00:02.000Z");
        stage.dispatch(conn, &chat, 3, early);
        stage.ends(TurnEnd::Complete);
        let turns = stage.state(&chat)["turns"].as_array().map(Vec::len);
        assert_eq!(turns, Some(3), "{set:?}: {:?}", stage.actions(conn));
    }
}

#[test]
fn f8_silence_is_measured_on_the_monotonic_clock() {
    for set in CLOCKS {
        let config = CoreConfig {
            silence_notice_ms: 0,
            silence_limit_ms: 10_000,
            ..CoreConfig::default()
        };
        let mut stage = Stage::with(config);
        let conn = stage.client("c", &[]);
        let chat = stage.session(conn, SESSION);
        stage.subscribe(conn, &chat);
        stage.start_turn(conn, &chat, "t");
        stage.pass(5_000);
        set_clock(&mut stage, set);
        stage.inbox(conn);
        stage.pass(4_999);
        assert!(
            !stage.action_types(conn).contains(&"chat/error".to_owned()),
            "{set:?}: too early"
        );
        stage.pass(1);
        assert!(
            stage.action_types(conn).contains(&"chat/error".to_owned()),
            "{set:?}: too late"
        );
    }
}

#[test]
fn f8_a_client_has_its_grace_and_not_more() {
    for set in CLOCKS {
        let mut stage = Stage::new();
        let grace_ms = CoreConfig::default().grace_ms;
        let watcher = stage.client("watcher", &[]);
        let conn = stage.client("c", &[]);
        stage.session(conn, SESSION);
        stage.subscribe(conn, SESSION);
        stage.subscribe(watcher, SESSION);
        stage.dispatch(conn, SESSION, 1, announce("c"));
        let members = |stage: &Stage| stage.state(SESSION)["activeClients"].as_array().map(Vec::len);
        let last_seen = stage.core.seq().0;
        stage.disconnect(conn);
        stage.pass(grace_ms / 2);
        set_clock(&mut stage, set);
        stage.dispatch(watcher, SESSION, 1, title("said meanwhile"));
        stage.pass(grace_ms / 2 - 1);
        assert_eq!(members(&stage), Some(1), "{set:?}: too early");

        // It reconnects in time, gets the missed actions, and disconnects again.
        let again = stage.connect();
        let answer = stage.reconnect(again, "c", last_seen, &[SESSION]);
        let replayed = answer["result"]["actions"].as_array().expect("a replay").clone();
        assert!(seqs(&replayed).iter().all(|seq| *seq > last_seen), "{set:?}");
        assert!(
            replayed
                .iter()
                .any(|action| action["action"]["title"] == "said meanwhile"),
            "{set:?}"
        );
        stage.disconnect(again);
        set_clock(&mut stage, set);
        stage.pass(grace_ms);
        assert_eq!(members(&stage), Some(0), "{set:?}: too late");
    }
}

#[test]
fn f8_the_replay_window_ages_on_the_monotonic_clock() {
    for set in CLOCKS {
        let mut stage = Stage::new();
        let max_age_ms = CoreConfig::default().replay.max_age_ms;
        let conn = stage.client("c", &[]);
        stage.session(conn, SESSION);
        stage.subscribe(conn, SESSION);
        let last_seen = stage.core.seq().0;
        stage.dispatch(conn, SESSION, 1, title("old"));
        set_clock(&mut stage, set);
        stage.pass(max_age_ms - 60_000);
        let kind = |stage: &mut Stage| {
            let conn = stage.connect();
            let answer = stage.reconnect(conn, "c", last_seen, &[SESSION]);
            answer["result"]["type"].as_str().expect("an answer").to_owned()
        };
        assert_eq!(kind(&mut stage), "replay", "{set:?}: forgotten too early");
        stage.pass(3 * 60_000);
        assert_eq!(kind(&mut stage), "snapshot", "{set:?}: forgotten too late");
    }
}

/// Reads a list page by page; something happens after the first page.
fn walk(stage: &mut Stage, meanwhile: impl FnOnce(&mut Stage)) -> Vec<String> {
    let conn = stage.client("reader", &[]);
    let mut met = Vec::new();
    let mut cursor: Option<String> = None;
    let mut meanwhile = Some(meanwhile);
    loop {
        let page = stage.list(conn, Some(2), cursor.as_deref())["result"].take();
        let items = page["items"].as_array().expect("items");
        met.extend(
            items
                .iter()
                .map(|item| item["resource"].as_str().expect("a URI").to_owned()),
        );
        if let Some(meanwhile) = meanwhile.take() {
            meanwhile(stage);
        }
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return met;
        }
    }
}

#[test]
fn f8_a_paged_list_has_every_session_once() {
    for set in CLOCKS {
        let mut stage = Stage::new();
        let conn = stage.client("c", &[]);
        let sessions: Vec<String> = (0..6).map(|number| format!("ahp-session:/s{number}")).collect();
        for session in &sessions {
            stage.listed_session(conn, session);
            stage.pass(1_000);
        }
        // A session that was read already is used again, at any wall time. (One that is not read yet moves to the
        // front if time advances, and is announced.)
        let met = walk(&mut stage, |stage| {
            set_clock(stage, set);
            let chat = innkeeper_core::uri::default_chat(&sessions[5]);
            stage.start_turn(conn, &chat, "t");
            stage.ends(TurnEnd::Complete);
            stage.pass(1_000);
        });
        let mut once = met.clone();
        once.sort();
        assert_eq!(once, sessions, "{set:?}: {met:?}");
        // And so does a client that reads it afterwards.
        let mut after = walk(&mut stage, |_| ());
        after.sort();
        assert_eq!(after, sessions, "{set:?}");
    }
}

#[test]
fn f8_published_times_are_those_of_the_wall_clock() {
    let mut stage = Stage::new();
    set_clock(&mut stage, Set::To("2039-01-01T00:00:00Z"));
    let conn = stage.client("c", &[]);
    stage.listed_session(conn, SESSION);
    let created = stage.list(conn, None, None)["result"]["items"][0]["createdAt"].take();
    let created: Timestamp = created.as_str().expect("a moment").parse().expect("RFC 3339");
    assert_eq!(created.to_string(), "2039-01-01T00:00:00Z");
}

#[test]
fn ses17_a_session_never_changed_before_it_was_created() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let chat = stage.session(conn, SESSION);
    stage.subscribe(conn, &chat);
    let mut slow = stage.turn_started("t");
    let an_hour_ago = stage.now.wall - SignedDuration::from_hours(1);
    slow["startedAt"] = json!(an_hour_ago.to_string());
    stage.pass(1_000);
    let now = stage.now.rfc3339();
    stage.dispatch(conn, &chat, 1, slow);
    assert_eq!(
        stage.actions(conn)[0]["action"]["startedAt"],
        json!(now),
        "the host's clock"
    );
    stage.ends(TurnEnd::Complete);
    let list = stage.request(conn, innkeeper_core::Command::ListSessions(Box::default()));
    let session = &list["result"]["items"][0];
    let moment = |field: &str| -> Timestamp {
        let text = session[field].as_str().expect("a time");
        text.parse().expect("RFC 3339")
    };
    assert!(moment("modifiedAt") >= moment("createdAt"), "{session}");
}

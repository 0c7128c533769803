//! Looking after sessions: tidying up spares what is in use, and sessions come from elsewhere.

use innkeeper_core::records::ImportedSession;
use innkeeper_core::request::OnlyIf;
use innkeeper_core::{Command, ConnId, Input, Principal, RequestId, Scope, Seq, TurnEnd};
use serde_json::{Value, json};

use crate::harness::*;

/// Disposes of the session on this condition.
fn tidy_up(stage: &mut Stage, conn: ConnId, only_if: OnlyIf) -> Value {
    let channel = SESSION.to_owned();
    let only_if = Some(only_if);
    stage.request(
        conn,
        Command::DisposeSession {
            channel,
            only_if,
            for_good: false,
        },
    )
}

/// The condition for a clean-up that chooses the session now.
fn seen(stage: &mut Stage, conn: ConnId, is_archived: bool) -> OnlyIf {
    let list = stage.list(conn, None, None);
    let modified: jiff::Timestamp = list["result"]["items"][0]["modifiedAt"]
        .as_str()
        .expect("a moment")
        .parse()
        .expect("RFC 3339");
    OnlyIf {
        modified_ms: Some(modified.as_millisecond()),
        is_archived,
    }
}

#[test]
fn upkeep_skips_a_session_in_use() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let tidy = stage.client("tidy", &[]);
    let chat = stage.session(conn, SESSION);
    stage.subscribe(conn, &chat);
    assert_eq!(
        error(&tidy_up(&mut stage, tidy, OnlyIf::default())).0,
        -32011,
        "a reader of a chat"
    );
    stage.start_turn(conn, &chat, "t");
    stage.unsubscribe(conn, &chat);
    assert_eq!(
        error(&tidy_up(&mut stage, tidy, OnlyIf::default())).0,
        -32011,
        "a running turn"
    );
    stage.ends(TurnEnd::Complete);
    stage.pass(60_000);
    assert_eq!(tidy_up(&mut stage, tidy, OnlyIf::default())["result"], Value::Null);
    assert_eq!(error(&tidy_up(&mut stage, tidy, OnlyIf::default())).0, -32001, "gone");
}

#[test]
fn tidying_up_spares_a_session_that_changed_since_it_was_chosen() {
    for jump_hours in [0, -2, 2] {
        let mut stage = Stage::new();
        let conn = stage.client("c", &[]);
        let chat = stage.listed_session(conn, SESSION);
        stage.pass(60_000);
        let chosen = seen(&mut stage, conn, false);
        // A client connects, writes something and disconnects, wherever the clock was set meanwhile (F8).
        stage.now.wall += jiff::SignedDuration::from_hours(jump_hours);
        stage.start_turn(conn, &chat, "t");
        stage.ends(TurnEnd::Complete);
        stage.pass(60_000);
        let refused = tidy_up(&mut stage, conn, chosen);
        let (code, message) = error(&refused);
        assert_eq!(code, -32011, "{message}");
        assert!(message.contains("has changed since it was chosen"), "{message}");
        let again = seen(&mut stage, conn, false);
        assert_eq!(tidy_up(&mut stage, conn, again)["result"], Value::Null);
    }
}

#[test]
fn tidying_up_spares_a_session_that_was_taken_out_of_the_archive() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    stage.session(conn, SESSION);
    let archive = |is: bool| json!({ "type": "session/isArchivedChanged", "isArchived": is });
    stage.dispatch(conn, SESSION, 1, archive(true));
    stage.pass(60_000);
    let chosen = seen(&mut stage, conn, true);
    stage.dispatch(conn, SESSION, 2, archive(false));
    stage.pass(60_000);
    let refused = tidy_up(&mut stage, conn, chosen);
    assert!(error(&refused).1.contains("is no longer archived"), "{refused}");
    stage.dispatch(conn, SESSION, 3, archive(true));
    stage.pass(60_000);
    assert_eq!(tidy_up(&mut stage, conn, chosen)["result"], Value::Null);
}

fn arrived(conn: ConnId, last_seq: u64) -> Input {
    let summary = json!({
        "resource": "ahp-session:/far", "provider": "tour", "title": "From afar", "status": 1,
        "createdAt": "2026-01-01T00:00:00Z", "modifiedAt": "2026-01-01T00:00:00Z",
    });
    Input::Imported {
        conn,
        id: RequestId::number(1),
        outcome: Ok(ImportedSession {
            uri: "ahp-session:/far".to_owned(),
            chats: 1,
            turns: 3,
            at_rest: true,
            last_seq: Seq(last_seq),
            summary: summary.to_string().into_bytes().into(),
            approvals: Vec::new(),
        }),
    }
}

#[test]
fn an_imported_session_is_announced_and_its_numbers_are_not_reused() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &["ahp-root://"]);
    stage.inbox(conn);
    let high = stage.core.seq().0 + 1_000_000;
    stage.handle(arrived(conn, high));
    let added = stage
        .notifications(conn)
        .into_iter()
        .find(|message| message["method"] == "root/sessionAdded");
    assert_eq!(added.expect("announced")["params"]["summary"]["title"], "From afar");
    stage.session(conn, SESSION);
    let actions = stage.actions(conn);
    assert!(
        actions.iter().all(|action| action["serverSeq"].as_u64() > Some(high)),
        "{actions:?}"
    );
    // Numbers never go back for one that has seen less.
    let seq = stage.core.seq();
    stage.handle(arrived(conn, 1));
    assert!(stage.core.seq() >= seq);
}

#[test]
fn sessions_from_elsewhere_are_for_the_owner_of_a_host_that_keeps_any() {
    let mut stage = Stage::new();
    let import = || Command::ImportSession { text: String::new() };
    let conn = stage.client("c", &[]);
    assert_eq!(error(&stage.request(conn, import())).0, -32011, "this one keeps none");
    let driver = stage.connect_as(Principal::new("driver", Scope::Drive));
    stage.initialize(driver, "driver", &["1.0.0"], &[]);
    assert_eq!(error(&stage.request(driver, import())).0, -32009);
}

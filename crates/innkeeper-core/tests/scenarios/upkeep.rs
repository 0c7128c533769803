//! Looking after sessions: tidying up spares what is in use, and sessions come from elsewhere.

use innkeeper_core::stored::ImportedSession;
use innkeeper_core::{Command, ConnId, Input, Principal, RequestId, Scope, Seq, TurnEnd};
use serde_json::{Value, json};

use crate::harness::*;

fn tidy_up(stage: &mut Stage, conn: ConnId) -> Value {
    let channel = SESSION.to_owned();
    let only_if_unused = true;
    stage.request(
        conn,
        Command::DisposeSession {
            channel,
            only_if_unused,
        },
    )
}

#[test]
fn tidying_up_spares_a_session_that_somebody_uses() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let tidy = stage.client("tidy", &[]);
    let chat = stage.session(conn, SESSION);
    stage.subscribe(conn, &chat);
    assert_eq!(error(&tidy_up(&mut stage, tidy)).0, -32011, "a reader of a chat");
    stage.start_turn(conn, &chat, "t");
    stage.unsubscribe(conn, &chat);
    assert_eq!(error(&tidy_up(&mut stage, tidy)).0, -32011, "a running turn");
    stage.ends(TurnEnd::Complete);
    stage.pass(60_000);
    assert_eq!(tidy_up(&mut stage, tidy)["result"], Value::Null);
    assert_eq!(error(&tidy_up(&mut stage, tidy)).0, -32001, "gone");
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
        }),
    }
}

#[test]
fn a_session_from_elsewhere_is_announced_and_its_numbers_are_not_used_again() {
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

//! Deletions that can be undone for a while (SES-37, SES-38).

use innkeeper_core::records::ImportedSession;
use innkeeper_core::request::OnlyIf;
use innkeeper_core::{Command, ConnId, CoreConfig, Effect, Input, JournalCommand, Seq};
use serde_json::{Value, json};

use crate::harness::*;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

fn config() -> CoreConfig {
    CoreConfig {
        undo_delete_ms: 7 * DAY_MS,
        ..CoreConfig::default()
    }
}

/// A host with a store, and a session in which a turn runs.
fn stage() -> (Stage, ConnId, String) {
    let mut stage = Stage::opening(PersistedState::default(), config());
    let conn = stage.client("c", &[ROOT]);
    let chat = stage.session(conn, SESSION);
    stage.subscribe(conn, &chat);
    stage.start_turn(conn, &chat, "t");
    stage.inbox(conn);
    (stage, conn, chat)
}

fn gone(stage: &Stage) -> Vec<String> {
    let gone = stage.agent.iter().filter_map(|effect| match effect {
        Effect::Erase(erasure) => Some(erasure.uri.to_string()),
        _ => None,
    });
    gone.collect()
}

fn is_deleted(stage: &Stage) -> bool {
    stage
        .persisted
        .as_ref()
        .is_some_and(|kept| kept.deleted.contains_key(SESSION))
}

#[test]
fn ses37_a_deleted_session_is_not_there_and_its_names_are_taken() {
    let (mut stage, conn, chat) = stage();
    assert_eq!(stage.dispose(conn, SESSION)["result"], Value::Null);
    assert!(is_deleted(&stage));
    assert_eq!(gone(&stage), Vec::<String>::new(), "what was kept beside it stays");
    let types: Vec<_> = stage.inbox(conn);
    let has = |wanted: &str| types.iter().any(|message| message.to_string().contains(wanted));
    assert!(has("chat/turnCancelled") && has("root/sessionRemoved"), "{types:?}");
    assert_eq!(stage.state(ROOT)["activeSessions"], 0);
    for uri in [SESSION, &chat] {
        assert_eq!(error(&stage.subscribe(conn, uri)).0, -32001, "{uri}");
    }
    assert_eq!(error(&stage.dispose(conn, SESSION)).0, -32001, "it is deleted already");
    let again = stage.create(conn, SESSION);
    assert_eq!(error(&again).0, -32003);
    assert!(error(&again).1.contains("sessions restore"), "{again}");
    stage.session(conn, "ahp-session:/two");
    let taken = stage.create_chat(conn, new_chat("ahp-session:/two", &chat));
    assert_eq!(error(&taken).0, -32010, "{taken}");
    // A client that reconnects learns that it is missing.
    let seen = stage.core.seq().0;
    stage.disconnect(conn);
    let conn = stage.connect();
    let answer = stage.reconnect(conn, "c", seen, &[ROOT, SESSION, &chat]);
    assert_eq!(answer["result"]["missing"], json!([SESSION, chat]), "{answer}");
}

#[test]
fn ses37_a_restored_session_joins_the_others_and_is_whole() {
    let (mut stage, conn, chat) = stage();
    stage.dispose(conn, SESSION);
    stage.inbox(conn);
    let uri = SESSION.to_owned();
    stage.handle(Input::Request {
        conn,
        id: innkeeper_core::RequestId::number(77),
        command: Command::RestoreSession { uri },
    });
    let Some(Effect::Journal(JournalCommand::UndoDeletion { id, uri, .. })) = stage.agent.pop() else {
        panic!("the store is asked");
    };
    assert_eq!(uri, SESSION);
    if let Some(kept) = &mut stage.persisted {
        kept.deleted.clear();
    }
    let summary = json!({
        "resource": SESSION, "provider": "tour", "title": "hi", "status": 1,
        "createdAt": "2026-01-01T00:00:00Z", "modifiedAt": "2026-01-01T00:00:00Z",
    });
    let restored = ImportedSession {
        uri,
        chats: 1,
        turns: 1,
        at_rest: true,
        last_seq: Seq(1),
        summary: serde_json::to_vec(&summary).expect("JSON").into(),
        approvals: Vec::new(),
    };
    stage.handle(Input::Imported {
        conn,
        id,
        outcome: Ok(restored),
    });
    let heard = stage.inbox(conn);
    assert!(
        heard.iter().any(|message| message["method"] == "root/sessionAdded"),
        "{heard:?}"
    );
    assert_eq!(stage.state(ROOT)["activeSessions"], 1);
    let answer = stage.subscribe(conn, SESSION);
    let state = &answer["result"]["snapshot"]["state"];
    assert_eq!(state["title"], "hi", "{answer}");
    assert_eq!(state["chats"][0]["resource"], chat);
    assert_eq!(stage.state(&chat)["activeTurn"], Value::Null, "what ran was cancelled");
}

#[test]
fn ses37_a_permanent_deletion_is_immediate() {
    // A draft, the choice of a policy, a final deletion by a user, and a host without undo.
    for case in ["draft", "policy", "user", "setting"] {
        let config = CoreConfig {
            undo_delete_ms: if case == "setting" { 0 } else { DAY_MS },
            ..CoreConfig::default()
        };
        let mut stage = Stage::opening(PersistedState::default(), config);
        let conn = stage.client("c", &[]);
        stage.session(conn, SESSION);
        if case != "draft" {
            stage.keep_session(conn, SESSION);
            stage.pass(1000);
        }
        let command = Command::DisposeSession {
            channel: SESSION.to_owned(),
            only_if: (case == "policy").then(OnlyIf::default),
            for_good: case == "user",
        };
        assert_eq!(stage.request(conn, command)["result"], Value::Null, "{case}");
        assert!(!is_deleted(&stage), "{case}");
        assert_eq!(gone(&stage), [SESSION], "{case}");
        assert_eq!(
            stage.create(conn, SESSION)["result"],
            Value::Null,
            "{case}: the name is free"
        );
    }
}

#[test]
fn ses37_a_deleted_session_can_be_removed_for_good() {
    let (mut stage, conn, _) = stage();
    stage.dispose(conn, SESSION);
    let command = Command::DisposeSession {
        channel: SESSION.to_owned(),
        only_if: None,
        for_good: true,
    };
    assert_eq!(stage.request(conn, command)["result"], Value::Null);
    assert_eq!(gone(&stage), [SESSION]);
    assert!(stage.persisted.as_ref().is_some_and(|kept| !kept.has_session(SESSION)));
    assert_eq!(stage.create(conn, SESSION)["result"], Value::Null, "the name is free");
}

#[test]
fn ses38_expired_deletions_are_purged_at_the_start_and_every_hour() {
    let mut stage = Stage::opening(PersistedState::default(), config());
    let purges = |stage: &Stage| -> Vec<i64> {
        let purges = stage.agent.iter().filter_map(|effect| match effect {
            Effect::Journal(JournalCommand::PurgeDeleted { before_ms }) => Some(*before_ms),
            _ => None,
        });
        purges.collect()
    };
    let week_ago = stage.now.wall.as_millisecond() - 7 * DAY_MS as i64;
    stage.pass(0);
    assert_eq!(purges(&stage), [week_ago]);
    stage.pass(2 * 60 * 60 * 1000);
    assert_eq!(purges(&stage).len(), 3);
}

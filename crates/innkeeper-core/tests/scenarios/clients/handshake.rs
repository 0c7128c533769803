//! `initialize`, versions and client identity (NEG).

use innkeeper_core::{ClientId, CloseReason, Command, Principal, Scope};
use serde_json::{Value, json};

use crate::harness::*;

#[test]
fn neg01_before_the_handshake_only_ping_is_answered() {
    let mut stage = Stage::new();
    let conn = stage.connect();
    assert_eq!(stage.request(conn, Command::Ping)["result"], Value::Null);
    for answer in [
        stage.subscribe(conn, ROOT),
        stage.list(conn, None, None),
        stage.create(conn, SESSION),
        stage.dispose(conn, SESSION),
    ] {
        let (code, message) = error(&answer);
        assert_eq!(code, -32600);
        assert!(message.contains("send initialize or reconnect first"), "{message}");
    }
    stage.dispatch(conn, ROOT, 1, json!({ "type": "root/configChanged", "config": {} }));
    stage.unsubscribe(conn, ROOT);
    assert_eq!(
        stage.inbox(conn),
        Vec::<Value>::new(),
        "notifications are never answered"
    );
}

#[test]
fn neg02_neg03_the_highest_offered_version_is_chosen_and_repeated_exactly() {
    for (offered, chosen) in [
        (&["0.9.0", "1.0.0"][..], "1.0.0"),
        (&["1.4.0", "1.0.0", "2.0.0"], "1.4.0"),
        (&["1.2.10", "1.2.9"], "1.2.10"),
        (&["0.9.3", "0.10.0"], "0.9.3"),
        (&["0.8.0", "0.7.0", "0.6.0", "0.5.2", "0.5.1"], "0.8.0"),
        (&["0.6.4", "0.2.0"], "0.6.4"),
        (&["0.5.0"], "0.5.0"),
    ] {
        let mut stage = Stage::new();
        let conn = stage.connect();
        let answer = stage.initialize(conn, "c", offered, &[]);
        assert_eq!(answer["result"]["protocolVersion"], chosen, "{offered:?}");
    }
}

#[test]
fn neg04_a_malformed_version_error_names_the_field_and_allows_a_retry() {
    let mut stage = Stage::new();
    let conn = stage.connect();
    for bad in ["1.0", "v1.0.0", "1.0.0-rc1", "01.0.0", ""] {
        let answer = stage.initialize(conn, "c", &["1.0.0", bad], &[]);
        let (code, message) = error(&answer);
        assert_eq!(code, -32602);
        assert!(message.starts_with("params.protocolVersions: "), "{message}");
    }
    assert!(stage.closed.is_empty());
    assert_eq!(
        stage.initialize(conn, "c", &["1.0.0"], &[])["result"]["protocolVersion"],
        "1.0.0"
    );
}

#[test]
fn neg05_neg06_lesson08_no_common_version_is_refused_with_ranges() {
    for offered in [&["2.0.0"][..], &["0.0.1", "0.10.0"], &[]] {
        let mut stage = Stage::new();
        let conn = stage.connect();
        let answer = stage.initialize(conn, "c", offered, &[]);
        assert_eq!(error(&answer).0, -32005);
        let supported = innkeeper_dialects::supported();
        assert_eq!(supported.len(), 12);
        assert_eq!(answer["error"]["data"], json!({ "supportedVersions": supported }));
        assert_eq!(stage.closed, [(conn, CloseReason::UnsupportedVersion)]);
    }
}

#[test]
fn neg09_neg24_the_result_has_three_fields_and_a_positive_sequence_number() {
    let mut stage = Stage::starting_at(Default::default(), innkeeper_core::Seq(0));
    let conn = stage.connect();
    let result = stage.initialize(conn, "c", &["1.0.0"], &[])["result"].take();
    assert_eq!(result["snapshots"], json!([]));
    assert!(result["serverSeq"].as_u64() > Some(0), "{result}");
    assert_eq!(result["serverInfo"]["name"], "innkeeper");
}

#[test]
fn neg10_neg11_only_known_initial_channels_have_snapshots() {
    let mut stage = Stage::new();
    let owner = stage.client("owner", &[]);
    let chat = stage.listed_session(owner, SESSION);
    let conn = stage.connect();
    let channels = [ROOT, "ahp-session:/nowhere", SESSION, &chat];
    let result = stage.initialize(conn, "c", &["1.0.0"], &channels)["result"].take();
    let resources: Vec<_> = result["snapshots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| &s["resource"])
        .collect();
    assert_eq!(resources, [ROOT, SESSION, &chat]);
    assert!(
        result["snapshots"]
            .as_array()
            .unwrap()
            .iter()
            .all(|s| s["fromSeq"] == result["serverSeq"])
    );
    stage.dispatch(owner, SESSION, 1, title("seen by all"));
    assert_eq!(stage.action_types(conn), ["session/titleChanged"]);
}

#[test]
fn neg20_rec13_reconnect_speaks_the_version_negotiated_before() {
    let mut stage = Stage::new();
    let first = stage.connect();
    stage.initialize(first, "old", &["0.9.0"], &[ROOT]);
    assert_eq!(&*stage.core.negotiated(&ClientId::new("old")).unwrap().version, "0.9.0");
    stage.disconnect(first);
    let second = stage.connect();
    let last_seen = stage.core.seq().0;
    stage.reconnect(second, "old", last_seen, &[ROOT]);
    let other = stage.client("new", &[ROOT]);
    stage.listed_session(other, SESSION);
    let added = |messages: Vec<Value>| messages[0]["params"]["summary"].clone();
    let (old, new) = (added(stage.notifications(second)), added(stage.notifications(other)));
    assert!(
        old.get("chats").is_none() && old.get("defaultChat").is_none(),
        "ROOT-16: {old}"
    );
    assert!(
        new.get("chats").is_some() && new.get("defaultChat").is_some(),
        "ROOT-16: {new}"
    );
}

#[test]
fn neg21_lesson07_one_client_on_two_sockets_and_the_newest_closes_first() {
    let mut stage = Stage::new();
    let older = stage.client("twin", &[ROOT]);
    let newer = stage.client("twin", &[ROOT]);
    assert_eq!(stage.core.primary_conn(&ClientId::new("twin")), Some(newer));
    stage.listed_session(older, SESSION);
    assert_eq!(stage.action_types(older), ["root/activeSessionsChanged"]);
    assert_eq!(stage.action_types(newer), ["root/activeSessionsChanged"]);
    stage.disconnect(newer);
    assert_eq!(stage.core.primary_conn(&ClientId::new("twin")), Some(older));
    stage.dispose(older, SESSION);
    assert_eq!(stage.action_types(older), ["root/activeSessionsChanged"]);
}

#[test]
fn neg22_lesson06_initialize_may_follow_a_refused_reconnect() {
    let mut stage = Stage::new();
    let conn = stage.connect();
    let answer = stage.reconnect(conn, "stranger", 7, &[ROOT]);
    let (code, message) = error(&answer);
    assert_eq!(code, -32008, "REC-12");
    assert!(
        message.contains("\"stranger\"") && message.contains("send initialize"),
        "{message}"
    );
    assert!(stage.closed.is_empty());
    let answer = stage.initialize(conn, "stranger", &["1.0.0"], &[ROOT]);
    assert_eq!(answer["result"]["snapshots"][0]["resource"], ROOT);
}

#[test]
fn neg23_a_second_handshake_is_an_error_and_changes_nothing() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[ROOT]);
    for answer in [
        stage.initialize(conn, "c", &["1.0.0"], &[]),
        stage.reconnect(conn, "c", 1, &[]),
    ] {
        let (code, message) = error(&answer);
        assert_eq!(code, -32600);
        assert!(message.contains("already initialized"), "{message}");
    }
    stage.listed_session(conn, SESSION);
    assert_eq!(stage.action_types(conn), ["root/activeSessionsChanged"]);
}

#[test]
fn neg20_a_client_id_belongs_to_the_credential_that_used_it_first() {
    let mut stage = Stage::new();
    stage.client("mine", &[]);
    let stranger = stage.connect_as(Principal::new("token:other", Scope::Admin));
    let (code, message) = {
        let answer = stage.initialize(stranger, "mine", &["1.0.0"], &[]);
        (error(&answer).0, error(&answer).1.to_owned())
    };
    assert_eq!(code, -32009);
    assert!(
        message.contains("\"mine\"") && message.contains("choose another id"),
        "{message}"
    );
    assert_eq!(error(&stage.reconnect(stranger, "mine", 1, &[])).0, -32008);
    assert!(
        stage
            .initialize(stranger, "theirs", &["1.0.0"], &[])
            .get("result")
            .is_some()
    );
}

/// (TRN-08)
#[test]
fn e47_ping_is_answered_with_null_at_any_time() {
    let mut stage = Stage::new();
    let conn = stage.client("c", &[]);
    let answer = stage.request(conn, Command::Ping);
    assert_eq!(answer.get("result"), Some(&Value::Null));
}

//! The host's log as a channel (OTL).

use innkeeper_core::{
    ConnId, CoreConfig, Delivery, Effect, Input, LogLevel, LogRecord, LogValue, Principal, Scope, Severity,
};
use serde_json::{Value, json};

use crate::harness::*;

const WARN: &str = "ahp-otlp://logs/warn";

/// A host that has a log to show.
fn stage() -> Stage {
    Stage::with(CoreConfig {
        serves_logs: true,
        server_version: Some("1.2.3".to_owned()),
        ..CoreConfig::default()
    })
}

fn record(severity: impl Into<Severity>, body: &str) -> LogRecord {
    LogRecord {
        time_unix_nano: 1_769_860_800_000_000_001,
        severity: severity.into(),
        scope: "innkeeper_host::test".into(),
        body: body.to_owned(),
        attributes: Vec::new(),
    }
}

/// One record of each level.
fn one_of_each() -> Vec<LogRecord> {
    LogLevel::ALL.map(|level| record(level, level.name())).to_vec()
}

/// The texts of the log records that a connection got, and their channels.
fn told(stage: &mut Stage, conn: ConnId) -> Vec<(String, Vec<String>)> {
    let notifications = stage.inbox(conn).into_iter();
    notifications
        .map(|message| {
            assert_eq!(message["method"], "otlp/exportLogs", "{message}");
            assert_eq!(message.get("id"), None);
            let scopes = message["params"]["payload"]["resourceLogs"][0]["scopeLogs"].as_array();
            let scopes = scopes.expect("a list of scopes").iter();
            let records = scopes.flat_map(|scope| scope["logRecords"].as_array().expect("a list").clone());
            let bodies = records.map(|record| record["body"]["stringValue"].as_str().expect("a text").to_owned());
            let channel = message["params"]["channel"].as_str().expect("a URI");
            (channel.to_owned(), bodies.collect())
        })
        .collect()
}

#[test]
fn otl01_a_host_with_a_log_offers_it_and_nothing_else() {
    let mut stage = stage();
    let conn = stage.connect();
    let answer = stage.initialize(conn, "c", &["1.0.0"], &[]);
    assert_eq!(
        answer["result"]["telemetry"],
        json!({ "logs": "ahp-otlp://logs/{level}" })
    );

    let mut silent = Stage::new();
    let conn = silent.connect();
    let answer = silent.initialize(conn, "c", &["1.0.0"], &[WARN]);
    assert_eq!(answer["result"].get("telemetry"), None);
    let answer = silent.subscribe(conn, WARN);
    let (code, message) = error(&answer);
    assert_eq!(code, -32008);
    assert!(message.contains("does not offer its log"), "{message}");
}

#[test]
fn otl02_otl03_otl04_each_expansion_is_a_stateless_stream_of_its_own() {
    let mut stage = stage();
    let conns = LogLevel::ALL.map(|level| {
        let conn = stage.client(level.name(), &[]);
        let channel = format!("ahp-otlp://logs/{}", level.name());
        assert_eq!(stage.subscribe(conn, &channel)["result"], json!({}));
        (conn, channel)
    });
    let seq = stage.core.seq();
    stage.handle(Input::Logs(one_of_each()));
    for (index, (conn, channel)) in conns.into_iter().enumerate() {
        let names = LogLevel::ALL[index..].iter().map(|level| level.name().to_owned());
        assert_eq!(told(&mut stage, conn), [(channel, names.collect())]);
    }
    assert_eq!(stage.core.seq(), seq, "a record takes no number");
}

#[test]
fn otl03_the_channel_keeps_each_subscribed_spelling_once() {
    let mut stage = stage();
    let conn = stage.client("c", &[]);
    for channel in ["ahp-otlp://logs/ERROR", "ahp-otlp://logs/ERROR", "ahp-otlp://logs"] {
        assert_eq!(stage.subscribe(conn, channel)["result"], json!({}));
    }
    stage.handle(Input::Logs(vec![
        record(LogLevel::Trace, "low"),
        record(LogLevel::Fatal, "high"),
    ]));
    let low = ("ahp-otlp://logs".to_owned(), vec!["low".to_owned(), "high".to_owned()]);
    let high = ("ahp-otlp://logs/ERROR".to_owned(), vec!["high".to_owned()]);
    assert_eq!(told(&mut stage, conn), [low, high]);
}

#[test]
fn otl04_severities_within_a_band_count_by_their_number() {
    let mut stage = stage();
    let conn = stage.client("c", &[WARN]);
    let records = [12, 13, 16, 24].map(|number| record(Severity::new(number), &number.to_string()));
    stage.handle(Input::Logs(records.to_vec()));
    let bodies = ["13", "16", "24"].map(str::to_owned).to_vec();
    assert_eq!(told(&mut stage, conn), [(WARN.to_owned(), bodies)]);
    // Nothing for them, so nothing is sent.
    stage.handle(Input::Logs(vec![record(LogLevel::Info, "quiet")]));
    assert_eq!(stage.inbox(conn), Vec::<Value>::new());
}

#[test]
fn otl02_otl06_the_payload_is_otlp_json() {
    let mut stage = stage();
    let conn = stage.client("c", &[]);
    stage.subscribe(conn, "ahp-otlp://logs/info");
    let mut one = record(Severity::new(10), "one \"line\"");
    one.attributes = vec![
        ("ahp.session.id".into(), LogValue::Text(SESSION.to_owned())),
        ("failed".into(), LogValue::Int(-3)),
        ("resume".into(), LogValue::Bool(true)),
    ];
    let two = record(LogLevel::Error, "two");
    let mut three = record(LogLevel::Error, "three");
    three.scope = "innkeeper_mcp".into();
    stage.handle(Input::Logs(vec![one, two, three]));
    let message = stage.inbox(conn).pop().expect("a notification");
    let time = "1769860800000000001";
    let expected = json!({ "resourceLogs": [{
        "resource": { "attributes": [
            { "key": "service.name", "value": { "stringValue": "innkeeper" } },
            { "key": "service.version", "value": { "stringValue": "1.2.3" } },
        ]},
        "scopeLogs": [
            { "scope": { "name": "innkeeper_host::test" }, "logRecords": [
                { "timeUnixNano": time, "observedTimeUnixNano": time, "severityNumber": 10, "severityText": "INFO2",
                  "body": { "stringValue": "one \"line\"" }, "attributes": [
                    { "key": "ahp.session.id", "value": { "stringValue": SESSION } },
                    { "key": "failed", "value": { "intValue": "-3" } },
                    { "key": "resume", "value": { "boolValue": true } },
                ]},
                { "timeUnixNano": time, "observedTimeUnixNano": time, "severityNumber": 17, "severityText": "ERROR",
                  "body": { "stringValue": "two" } },
            ]},
            { "scope": { "name": "innkeeper_mcp" }, "logRecords": [
                { "timeUnixNano": time, "observedTimeUnixNano": time, "severityNumber": 17, "severityText": "ERROR",
                  "body": { "stringValue": "three" } },
            ]},
        ],
    }]});
    assert_eq!(message["params"]["payload"], expected);
    let params: ahp_types::notifications::OtlpExportLogsParams =
        serde_json::from_value(message["params"].clone()).expect("the published type reads it");
    assert_eq!(params.channel, "ahp-otlp://logs/info");
}

#[test]
fn otl02_sub04_an_unknown_log_is_a_prompt_error_that_names_the_levels() {
    let mut stage = stage();
    let conn = stage.client("c", &[]);
    for channel in ["ahp-otlp://logs/loud", "ahp-otlp://traces", "ahp-otlp://metrics"] {
        let answer = stage.subscribe(conn, channel);
        let (code, message) = error(&answer);
        assert_eq!(code, -32008, "{channel}");
        assert!(message.contains(channel), "{message}");
        assert!(message.contains("trace, debug, info, warn, error, fatal"), "{message}");
    }
}

#[test]
fn otl01_otl07_the_log_is_for_admins_alone() {
    let mut stage = stage();
    for scope in [Scope::View, Scope::Drive] {
        let conn = stage.connect_as(Principal::new("token:narrow", scope));
        let name = format!("{scope}");
        let answer = stage.initialize(conn, &name, &["1.0.0"], &[WARN]);
        assert_eq!(answer["result"].get("telemetry"), None);
        let answer = stage.subscribe(conn, WARN);
        let (code, message) = error(&answer);
        assert_eq!(code, -32009);
        assert!(message.contains("needs the scope admin"), "{message}");
        stage.disconnect(conn);
        let again = stage.connect_as(Principal::new("token:narrow", scope));
        let seen = stage.core.seq().0;
        let answer = stage.reconnect(again, &name, seen, &[WARN]);
        assert_eq!(answer["result"]["missing"], json!([WARN]));
        stage.handle(Input::Logs(one_of_each()));
        assert_eq!(stage.inbox(again), Vec::<Value>::new());
    }
    assert_eq!(stage.core.needed_log_level(), None);
}

#[test]
fn otl05_rec07_a_returning_client_goes_live_without_a_replay() {
    let mut stage = stage();
    let conn = stage.client("c", &[ROOT, WARN]);
    stage.listed_session(conn, SESSION);
    let seen = stage.actions(conn).pop().expect("an action")["serverSeq"]
        .as_u64()
        .expect("a number");
    stage.disconnect(conn);
    stage.handle(Input::Logs(vec![record(LogLevel::Error, "missed")]));
    let other = stage.client("other", &[]);
    stage.listed_session(other, "ahp-session:/two");

    let again = stage.connect();
    let result = stage.reconnect(again, "c", seen, &[ROOT, WARN])["result"].take();
    // The log does not stand in the way of a replay.
    assert_eq!(result["type"], "replay", "{result}");
    assert_eq!(result["missing"], json!([]));
    assert!(!result.to_string().contains("missed"), "{result}");
    stage.inbox(again);
    stage.handle(Input::Logs(vec![record(LogLevel::Error, "live")]));
    assert_eq!(told(&mut stage, again), [(WARN.to_owned(), vec!["live".to_owned()])]);

    // Nor of snapshots.
    stage.disconnect(again);
    let third = stage.connect();
    let result = stage.reconnect(third, "c", u64::MAX, &[ROOT, WARN])["result"].take();
    assert_eq!(result["type"], "snapshot");
    assert_eq!(result["snapshots"].as_array().map(Vec::len), Some(1), "{result}");
    stage.inbox(third);
    stage.handle(Input::Logs(vec![record(LogLevel::Error, "live")]));
    assert_eq!(told(&mut stage, third).len(), 1);
}

#[test]
fn otl05_nothing_of_the_log_is_kept_nor_wanted_after_the_last_listener() {
    let mut stage = stage();
    assert_eq!(stage.core.needed_log_level(), None);
    let one = stage.client("one", &[WARN]);
    let two = stage.client("two", &[]);
    assert_eq!(stage.core.needed_log_level(), Some(LogLevel::Warn));
    stage.subscribe(two, "ahp-otlp://logs/debug");
    assert_eq!(stage.core.needed_log_level(), Some(LogLevel::Debug));

    let mut effects = Vec::new();
    stage.core.handle(stage.now, Input::Logs(one_of_each()), &mut effects);
    assert!(
        effects
            .iter()
            .all(|effect| matches!(effect, Effect::Deliver(Delivery::ExportLogs { .. }))),
        "{effects:?}"
    );

    stage.unsubscribe(two, "ahp-otlp://logs/info");
    assert_eq!(
        stage.core.needed_log_level(),
        Some(LogLevel::Debug),
        "it never had that one"
    );
    stage.unsubscribe(two, "ahp-otlp://logs/debug");
    assert_eq!(stage.core.needed_log_level(), Some(LogLevel::Warn));
    stage.disconnect(one);
    assert_eq!(stage.core.needed_log_level(), None);
    stage.handle(Input::Logs(one_of_each()));
    assert_eq!(stage.inbox(two), Vec::<Value>::new());
}

#[test]
fn otl02_sub20_logs_count_among_the_subscriptions_of_a_connection() {
    let mut stage = Stage::with(CoreConfig {
        serves_logs: true,
        max_subscriptions: 2,
        ..CoreConfig::default()
    });
    let conn = stage.client("c", &[ROOT, WARN]);
    assert_eq!(stage.subscribe(conn, WARN)["result"], json!({}), "it has that one");
    let answer = stage.subscribe(conn, "ahp-otlp://logs/info");
    assert_eq!(error(&answer).0, -32602);
}

//! The host's log as clients hear it, from a sink of the test's own (OTL).

use std::time::Duration;

use innkeeper_host::access::{Scope, Token};
use innkeeper_host::journal::MemoryJournal;
use innkeeper_host::telemetry::{LogLevel, LogSink};
use innkeeper_host::{Access, Host, HostBuilder, Limits, http};
use innkeeper_testkit::embedded::{Running, TestAgent};
use innkeeper_testkit::logs::{LogListener, is_log, records};
use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::raw::{Address, RawClient};
use serde_json::json;

async fn start(logs: &LogSink) -> Running {
    Running::start(Host::builder().agent(TestAgent).logs(logs)).await
}

async fn listener(running: &Running, level: &str) -> LogListener {
    let client = RawClient::initialized(&running.address, level).await;
    LogListener::subscribe(client, level).await
}

fn write(logs: &LogSink, level: LogLevel, text: &str) {
    let about = vec![("ahp.session.id".into(), "ahp-session:/one".into())];
    logs.write(level, "embedder", text, about);
}

#[tokio::test]
async fn otl02_otl04_otl06_records_of_an_embedder_reach_their_subscribers() {
    let logs = LogSink::new();
    let running = start(&logs).await;
    assert!(!logs.wants(LogLevel::Fatal), "no client listens yet");
    let mut warned = listener(&running, "warn").await;
    let mut alarmed = listener(&running, "error").await;
    assert!(logs.wants(LogLevel::Warn) && !logs.wants(LogLevel::Info));
    write(&logs, LogLevel::Info, "no subscriber wants this");
    write(&logs, LogLevel::Warn, "careful");
    write(&logs, LogLevel::Error, "broken");

    let last = warned.until("the error", |record| record.body == "broken").await;
    assert_eq!((last.severity, last.scope.as_str()), (17, "embedder"));
    assert_eq!(last.channel, "ahp-otlp://logs/warn");
    assert_eq!(last.attributes["ahp.session.id"], "ahp-session:/one");
    let bodies: Vec<&str> = warned.heard.iter().map(|record| record.body.as_str()).collect();
    assert_eq!(bodies, ["careful", "broken"]);
    alarmed.until("the error", |record| record.body == "broken").await;
    assert_eq!(alarmed.heard.len(), 1, "{:?}", alarmed.heard);

    // A client that unsubscribes gets nothing more, and in the end there is no subscriber.
    for (listener, level) in [(&mut warned, "warn"), (&mut alarmed, "error")] {
        let channel = json!({ "channel": format!("ahp-otlp://logs/{level}") });
        listener.client.notify("unsubscribe", channel).await;
        listener.client.still_works().await;
    }
    assert!(!logs.wants(LogLevel::Fatal));
}

#[tokio::test]
async fn otl05_rec07_a_reconnect_that_names_its_log_goes_live() {
    let logs = LogSink::new();
    let running = start(&logs).await;
    let mut first = listener(&running, "info").await;
    write(&logs, LogLevel::Info, "long ago");
    first
        .until("the first record", |record| record.body == "long ago")
        .await;
    drop(first);
    let mut again = RawClient::connect(&running.address).await;
    let channels = ["ahp-root://", "ahp-otlp://logs/info", "ahp-otlp://logs/loud"];
    let params =
        json!({ "channel": "ahp-root://", "clientId": "info", "lastSeenServerSeq": 0, "subscriptions": channels });
    let answer = again.call("reconnect", params).await.expect("reconnect works");
    assert!(!answer.to_string().contains("long ago"), "{answer}");
    write(&logs, LogLevel::Info, "just now");
    let mut again = LogListener::of(again);
    again
        .until("the record after it", |record| record.body == "just now")
        .await;
    assert_eq!(again.heard.len(), 1, "{:?}", again.heard);
}

#[tokio::test]
async fn otl01_otl07_a_token_without_admin_gets_no_log_channel() {
    let logs = LogSink::new();
    let host = Host::builder()
        .agent(TestAgent)
        .logs(&logs)
        .start()
        .await
        .expect("it starts");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let bound = listener.local_addr().expect("an address");
    let text = "drive-token-drive-token-drive-token-0123456789";
    let token = Token::parse(text).expect("a token");
    let access = Access::new(bound).allow_token(token, "drive", Scope::Drive);
    let _server = http::serve_tcp(host.handle(), listener, access);
    let address = Address {
        url: format!("ws://{bound}"),
        token: Some(text.to_owned()),
    };
    let mut client = RawClient::connect(&address).await;
    let answer = client.initialize("driver", &["1.0.0"]).await.expect("it may come in");
    assert_eq!(answer.get("telemetry"), None);
    let channel = json!({ "channel": "ahp-otlp://logs/fatal" });
    let refused = client.call("subscribe", channel).await.expect_err("it is refused");
    assert_eq!(refused.code, -32009, "{}", refused.message);
    assert!(!logs.wants(LogLevel::Fatal));
}

const ROUNDS: usize = 40;
const PER_ROUND: usize = 60;

/// A subscriber that reads nothing while much is logged keeps its connection, and hears the log again later.
#[tokio::test]
async fn otl02_a_slow_subscriber_misses_records_and_keeps_its_connection() {
    let limits = Limits {
        outbox_bytes: 4 << 20,
        // Slow for as long as the test takes.
        write_time: Duration::from_secs(600),
        ..Limits::default()
    };
    let logs = LogSink::new();
    let running = Running::start(Host::builder().agent(TestAgent).limits(limits).logs(&logs)).await;
    let mut slow = RawClient::connect_with_small_buffer(&running.address).await;
    slow.initialize("slow", &["1.0.0"]).await.expect("initialize succeeds");
    let mut slow = LogListener::subscribe(slow, "info").await;
    let mut fast = listener(&running, "info").await;
    // Far more than sockets and queues hold.
    for round in 0..ROUNDS {
        for _ in 1..PER_ROUND {
            write(&logs, LogLevel::Info, &"x".repeat(8000));
        }
        let end = format!("end of round {round}");
        write(&logs, LogLevel::Info, &end);
        fast.until("the end of a round", |record| record.body == end).await;
        fast.heard.clear();
    }
    slow.client.still_works().await;
    let written = ROUNDS * PER_ROUND;
    let heard: usize = slow
        .client
        .notifications
        .iter()
        .map(|message| records(message).len())
        .sum();
    assert!(slow.client.notifications.iter().all(is_log));
    assert!((1..written).contains(&heard), "{heard} of {written}");
    write(&logs, LogLevel::Info, "caught up");
    slow.until("what comes later", |record| record.body == "caught up")
        .await;
}

/// The published client does not know these notifications, and goes on as if there were none.
#[tokio::test]
async fn otl02_the_published_client_subscribes_and_is_not_disturbed() {
    let logs = LogSink::new();
    let running = start(&logs).await;
    let client = OfficialClient::connect(&running.address, "published").await;
    let subscribed = client.client().subscribe("ahp-otlp://logs/info".to_owned()).await;
    let (result, _events) = subscribed.expect("the published client subscribes");
    assert_eq!(result.snapshot, None);
    let mut other = listener(&running, "info").await;
    write(&logs, LogLevel::Info, "something");
    other.until("the record", |record| record.body == "something").await;
    client.assert_converged().await;
}

/// When the core is replaced, the sink forgets who listened (F23).
#[tokio::test]
async fn f23_a_replaced_core_has_no_log_subscribers() {
    let logs = LogSink::new();
    let breaks = |input: &innkeeper_core::Input| matches!(input, innkeeper_core::Input::Logs(_));
    let builder = Host::builder().agent(TestAgent).journal(MemoryJournal::new());
    let running = Running::start(builder.logs(&logs).break_on(breaks)).await;
    let mut first = listener(&running, "info").await;
    write(&logs, LogLevel::Info, "this one breaks the core");
    first.client.end().await;
    let mut again = RawClient::initialized(&running.address, "later").await;
    again.still_works().await;
    assert!(!logs.wants(LogLevel::Fatal));
}

#[tokio::test]
async fn otl05_the_sink_of_a_host_that_ended_takes_nothing() {
    let logs = LogSink::new();
    let running = start(&logs).await;
    let listener = listener(&running, "trace").await;
    assert!(logs.wants(LogLevel::Trace));
    drop(listener);
    running.host.shutdown(Duration::from_secs(10)).await;
    assert!(!logs.wants(LogLevel::Fatal));
}

/// A host without a sink has no log to show.
#[tokio::test]
async fn otl01_without_a_sink_there_is_no_log() {
    let builder: HostBuilder = Host::builder().agent(TestAgent);
    let running = Running::start(builder).await;
    let mut client = RawClient::connect(&running.address).await;
    let answer = client.initialize("c", &["1.0.0"]).await.expect("initialize succeeds");
    assert_eq!(answer.get("telemetry"), None);
    let refused = client
        .call("subscribe", json!({ "channel": "ahp-otlp://logs/info" }))
        .await;
    assert_eq!(refused.expect_err("there is none").code, -32008);
}

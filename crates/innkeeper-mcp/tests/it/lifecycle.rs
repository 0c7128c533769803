//! Starts, stops, crashes and restarts.

use std::sync::Arc;
use std::time::Duration;

use innkeeper_mcp::{
    AskOutcome, AskSink, Error, Event, List, Server, ServerConfig, ServerEnv, ServerState, Start, Stdio, Transport,
};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::support::{
    TIMEOUT, call, event, eventually, lives, max_at_once, odd, ready, server_env, settled, started, started_in, until,
    until_ready, with_env,
};
use innkeeper_testkit::misbehaving_server::PLAIN_TOOLS;

#[tokio::test]
async fn mcp01_a_server_is_started_and_stopped() {
    let server = Server::new(odd("plain"), server_env()).unwrap();
    assert_eq!(server.state(), ServerState::Stopped);
    let not_running = server.call(call("echo", json!({}))).await.unwrap_err();
    assert!(matches!(not_running, Error::NotRunning { .. }), "{not_running}");

    let mut events = server.events();
    server.start(Start::Blocking);
    let first = event(&mut events, |event| match event {
        Event::State(state) => Some(state),
        _ => None,
    });
    assert_eq!(first.await, ServerState::Starting { blocking: true });
    // A call during the start is answered when the server is ready.
    assert_eq!(
        server.call(call("echo", json!({ "text": "a" }))).await.unwrap().text(),
        "a"
    );
    assert_eq!(server.tools().len(), PLAIN_TOOLS.len() + 2);

    server.stop().await;
    assert_eq!(server.state(), ServerState::Stopped);
    assert!(server.tools().is_empty() && server.info().is_none());
    server.start(Start::Background);
    until_ready(&server).await;
}

#[tokio::test]
async fn mcp06_a_blocking_start_becomes_a_background_start() {
    let server = started(odd("silent"));
    until(&server, |state| *state == ServerState::Starting { blocking: true }).await;
    server.background();
    until(&server, |state| *state == ServerState::Starting { blocking: false }).await;
    server.stop().await;
    assert_eq!(server.state(), ServerState::Stopped);
}

#[tokio::test]
async fn a_server_that_never_introduces_itself_is_an_error() {
    let mut config = odd("silent");
    config.limits.start_time = Duration::from_secs(2);
    let server = started(config);
    let ServerState::Error { message, restarts_in } = settled(&server).await else {
        panic!()
    };
    assert!(message.contains("did not introduce itself"), "{message}");
    assert!(message.contains("this is not MCP"), "what it wrote helps: {message}");
    assert!(restarts_in.is_some(), "the machine may have had much to do");
    // A program that never introduces itself is given up after a few starts.
    let given_up = |state: &ServerState| matches!(state, ServerState::Error { restarts_in: None, .. });
    until(&server, given_up).await;
}

#[tokio::test]
async fn f3_a_late_server_is_restarted() {
    let starts = tempfile::NamedTempFile::new().unwrap();
    let mut config = with_env(odd("late-once"), "ODD_STARTS", starts.path().to_str().unwrap());
    config.limits.start_time = Duration::from_secs(3);
    let server = started(config);
    until(&server, |state| *state == ServerState::Ready).await;
    assert_eq!(std::fs::read(starts.path()).unwrap().len(), 2);
}

#[tokio::test]
async fn f3_the_number_of_servers_that_start_at_once_is_bounded() {
    let busy = tempfile::NamedTempFile::new().unwrap();
    let starting = Arc::new(Semaphore::new(2));
    let servers: Vec<Server> = (0..8)
        .map(|_| {
            let config = with_env(odd("busy"), "ODD_BUSY", busy.path().to_str().unwrap());
            let starting = Some(starting.clone());
            started_in(
                config,
                ServerEnv {
                    starting,
                    ..server_env()
                },
            )
        })
        .collect();
    for server in &servers {
        until_ready(server).await;
    }
    let noted = std::fs::read_to_string(busy.path()).unwrap();
    assert!(max_at_once(&noted, |_| true) <= 2, "{noted}");
    assert_eq!(noted.matches('+').count(), 8);
}

#[tokio::test]
async fn a_missing_program_is_reported() {
    let stdio = Stdio::new("/keys/a1b2c3/no-such-program", ["--verbose"]);
    let server = started(ServerConfig::new("gone", Transport::Stdio(stdio)));
    let ServerState::Error { message, restarts_in } = settled(&server).await else {
        panic!()
    };
    assert!(message.contains("`no-such-program` was not found"), "{message}");
    assert!(!message.contains("a1b2c3"), "every subscriber reads it: {message}");
    assert_eq!(restarts_in, None);
    let error = server.call(call("echo", json!({}))).await.unwrap_err();
    assert!(error.to_string().contains("was not found"), "{error}");
}

#[tokio::test]
async fn f3_a_crash_loop_is_given_up_and_reported_without_secrets() {
    let starts = tempfile::NamedTempFile::new().unwrap();
    let config = with_env(odd("crash"), "ODD_STARTS", starts.path().to_str().unwrap());
    let server = started(config);
    let given_up = |state: &ServerState| matches!(state, ServerState::Error { restarts_in: None, .. });
    let ServerState::Error { message, .. } = until(&server, given_up).await else {
        panic!()
    };
    assert!(
        message.contains("exited with code 3") && message.contains("cannot open the database"),
        "{message}"
    );
    assert!(!message.contains("s3cr3t"), "{message}");
    assert_eq!(
        std::fs::read(starts.path()).unwrap().len(),
        6,
        "one start and five more"
    );
    // A later user takes it as it is.
    server.join();
    server.background();
    let error = server.call(call("echo", json!({}))).await.unwrap_err();
    assert!(matches!(error, Error::NotRunning { .. }), "{error}");
    assert!(given_up(&server.state()), "{:?}", server.state());
    assert_eq!(std::fs::read(starts.path()).unwrap().len(), 6);
    // A start on request begins again.
    server.start(Start::Background);
    until(&server, |state| {
        matches!(
            state,
            ServerState::Error {
                restarts_in: Some(_),
                ..
            }
        )
    })
    .await;
}

#[tokio::test]
async fn f3_a_crash_fails_the_call_with_the_reason_and_the_server_restarts() {
    let server = ready(odd("plain")).await;
    let mut events = server.events();
    let other = tokio::spawn({
        let server = server.clone();
        async move { server.call(call("wait", json!({}))).await }
    });
    server.call(call("echo", json!({}))).await.unwrap();
    let error = server.call(call("die", json!({}))).await.unwrap_err();
    let Error::Ended { why, .. } = &error else {
        panic!("{error}")
    };
    assert!(why.contains("exited with code 7"), "{why}");
    assert!(why.contains("something is wrong with [hidden]"), "{why}");
    assert!(
        matches!(other.await.unwrap(), Err(Error::Ended { .. })),
        "all its calls fail"
    );
    let crashed = event(&mut events, |event| match event {
        Event::State(ServerState::Error { restarts_in, .. }) => Some(restarts_in),
        _ => None,
    });
    assert!(crashed.await.is_some(), "it is started again");
    until(&server, |state| *state == ServerState::Ready).await;
    assert_eq!(
        server.call(call("echo", json!({ "text": "a" }))).await.unwrap().text(),
        "a"
    );
}

#[tokio::test]
async fn f3_a_crash_at_the_start_is_retried() {
    let starts = tempfile::NamedTempFile::new().unwrap();
    let config = with_env(odd("crash-once"), "ODD_STARTS", starts.path().to_str().unwrap());
    let server = started(config);
    until(&server, |state| *state == ServerState::Ready).await;
}

#[tokio::test]
async fn a_server_that_refuses_one_handshake_gets_the_other() {
    let server = ready(odd("careless")).await;
    assert_eq!(server.info().unwrap().protocol_version, "2025-06-18");
    // A server that crashes on discovery.
    let server = started(odd("fragile"));
    until(&server, |state| *state == ServerState::Ready).await;
    // A server without the older handshake.
    let starts = tempfile::NamedTempFile::new().unwrap();
    let config = with_env(odd("modern-crash-once"), "ODD_STARTS", starts.path().to_str().unwrap());
    let server = started(config);
    until(&server, |state| *state == ServerState::Ready).await;
    assert_eq!(server.info().unwrap().protocol_version, "2026-07-28");
}

#[tokio::test]
async fn a_server_that_ignores_one_handshake_gets_the_other_in_time() {
    let mut config = odd("ignorant");
    config.limits.start_time = Duration::from_secs(6);
    let server = ready(config).await;
    assert_eq!(server.info().unwrap().protocol_version, "2025-06-18");
    // The late answer of a slow server counts, and nothing is started twice.
    let starts = tempfile::NamedTempFile::new().unwrap();
    let mut config = with_env(odd("slow-modern"), "ODD_STARTS", starts.path().to_str().unwrap());
    config.limits.start_time = Duration::from_secs(5);
    let server = ready(config).await;
    assert_eq!(server.info().unwrap().protocol_version, "2026-07-28");
    assert_eq!(std::fs::read(starts.path()).unwrap().len(), 1);
    // It is treated like a server that was discovered in time.
    let mut ask = call("ask", json!({}));
    ask.asks = Some(AskSink::new(|ask| ask.answer(AskOutcome::Accepted(None))));
    assert!(server.call(ask).await.unwrap().text().contains("accept"));
}

#[tokio::test]
async fn a_server_that_does_not_list_its_tools_is_not_ready() {
    let server = started(odd("closed-list"));
    let state = settled(&server).await;
    assert!(
        matches!(&state, ServerState::Error { message, restarts_in: Some(_) } if message.contains("no database")),
        "{state:?}"
    );
    let mut config = odd("endless-list");
    config.limits.start_time = Duration::from_secs(2);
    let server = started(config);
    let state = settled(&server).await;
    assert!(
        matches!(&state, ServerState::Error { message, .. } if message.contains("did not tell its tools within 2 s")),
        "{state:?}"
    );
    // A server without tools that announces the capability has none.
    let server = ready(odd("no-tools")).await;
    assert!(server.tools().is_empty());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn t15_a_server_ends_with_everything_that_it_started() {
    let server = ready(odd("plain")).await;
    let family = |server: Server| async move {
        let pid = server.call(call("family", json!({}))).await.unwrap().text();
        pid.parse::<u32>().unwrap()
    };
    // After a stop.
    let child = family(server.clone()).await;
    assert!(lives(child));
    server.stop().await;
    eventually(|| !lives(child)).await;
    // After a crash, although its child keeps its output open.
    server.start(Start::Background);
    until_ready(&server).await;
    let child = family(server.clone()).await;
    let died = tokio::time::timeout(TIMEOUT, server.call(call("die", json!({}))))
        .await
        .unwrap();
    assert!(matches!(died, Err(Error::Ended { .. })));
    eventually(|| !lives(child)).await;
    // After the last handle was dropped.
    until(&server, |state| *state == ServerState::Ready).await;
    let child = family(server.clone()).await;
    drop(server);
    eventually(|| !lives(child)).await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_server_that_does_not_exit_is_killed() {
    let this_test = std::env::current_exe().unwrap();
    let Transport::Stdio(mut stdio) = odd("plain").transport else {
        panic!()
    };
    stdio.command = "sh".into();
    // It neither handles signals nor ends with its input.
    let script = format!(
        "trap '' TERM; {} --exact odd_server --nocapture; sleep 600",
        this_test.display()
    );
    stdio.args = vec!["-c".into(), script];
    let mut config = odd("plain");
    config.transport = Transport::Stdio(stdio);
    config.limits.stop_time = Duration::from_millis(200);
    let server = ready(config).await;
    tokio::time::timeout(TIMEOUT, server.stop()).await.unwrap();
    assert_eq!(server.state(), ServerState::Stopped);
}

#[tokio::test]
async fn changed_tools_are_fetched_and_reported() {
    let server = started(odd("changing"));
    let mut events = server.events();
    until_ready(&server).await;
    // It reports a change every 20 ms; events come for real changes only: twice, and the last time.
    for _ in 0..3 {
        event(&mut events, |event| {
            matches!(event, Event::ListChanged(List::Tools)).then_some(())
        })
        .await;
    }
    assert!(server.tools().iter().any(|tool| tool.name == "last"));
    server.stop().await;
}

#[tokio::test]
async fn a_restart_is_a_new_process() {
    let starts = tempfile::NamedTempFile::new().unwrap();
    let config = with_env(odd("plain"), "ODD_STARTS", starts.path().to_str().unwrap());
    let server = ready(config).await;
    let mut events = server.events();
    server.restart(Start::Background);
    event(&mut events, |event| {
        matches!(event, Event::State(ServerState::Starting { .. })).then_some(())
    })
    .await;
    until_ready(&server).await;
    assert_eq!(std::fs::read(starts.path()).unwrap().len(), 2);
}

#[tokio::test]
async fn f17_a_flood_of_log_messages_hides_no_change_of_the_tools() {
    let server = started(odd("changing"));
    let mut events = server.events();
    until_ready(&server).await;
    eventually(|| server.tools().iter().any(|tool| tool.name == "last")).await;
    // The receiver has not read yet, and there are more events than are kept.
    for line in 0..300 {
        let log = json!({ "level": "info", "data": line });
        server.call(call("log", log)).await.unwrap();
    }
    event(&mut events, |event| {
        matches!(event, Event::ListChanged(List::Tools)).then_some(())
    })
    .await;
    event(&mut events, |event| matches!(event, Event::Log(_)).then_some(())).await;
}

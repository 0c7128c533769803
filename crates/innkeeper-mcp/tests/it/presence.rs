//! Servers behind an address that go away and come back.

use std::time::Duration;

use http::StatusCode;
use innkeeper_mcp::{Error, Event, List, Server, ServerConfig, ServerState};
use serde_json::json;

use crate::support::{HttpConfig as _, TIMEOUT, call, eventually, ready, until};
use innkeeper_testkit::misbehaving_http_server::MisbehavingHttpServer;

/// A server that is reconnected quickly.
fn soon(mut config: ServerConfig) -> ServerConfig {
    config.restart.delay = Duration::from_millis(50);
    config.restart.delay_max = Duration::from_millis(100);
    config.restart.away = Duration::from_millis(100);
    config
}

/// Waits until a server is reported as gone, and returns the reason.
async fn gone(server: &Server) -> String {
    let state = until(server, |state| matches!(state, ServerState::Error { .. })).await;
    let ServerState::Error { message, restarts_in } = state else {
        panic!("{state:?}")
    };
    assert!(restarts_in.is_some(), "it is looked for");
    message
}

async fn is_ready_again(server: &Server, far: &MisbehavingHttpServer) {
    until(server, |state| *state == ServerState::Ready).await;
    assert!(
        server.tools().iter().any(|tool| tool.name == "new"),
        "it is another life"
    );
    assert_eq!(server.call(call("echo", json!({}))).await.unwrap().text(), "echo done");
    far.set(|behaviour| behaviour.more_tools.clear());
}

#[tokio::test]
async fn f3_a_call_notices_a_dead_server_which_restarts_with_its_tools() {
    for as_events in [false, true] {
        let mut far = MisbehavingHttpServer::start().await;
        far.set(|behaviour| behaviour.as_events = as_events);
        let server = ready(soon(far.config())).await;
        far.leave().await;
        let error = server.call(call("echo", json!({}))).await.unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
        let why = gone(&server).await;
        let address = far.address.to_string();
        assert!(why.contains("cannot be reached") && why.contains(&address), "{why}");
        assert!(server.tools().is_empty(), "tools that cannot be called are not offered");
        far.set(|behaviour| behaviour.more_tools.push("new".to_owned()));
        far.come_back().await;
        is_ready_again(&server, &far).await;
    }
}

#[tokio::test]
async fn f3_a_waiting_call_fails_with_the_reason_when_the_server_goes_away() {
    let mut far = MisbehavingHttpServer::start().await;
    let server = ready(soon(far.config())).await;
    let calling = tokio::spawn({
        let server = server.clone();
        async move { server.call(call("wait", json!({}))).await }
    });
    eventually(|| !far.behaviour.lock().unwrap().waiting.is_empty()).await;
    far.leave().await;
    let error = tokio::time::timeout(TIMEOUT, calling)
        .await
        .unwrap()
        .unwrap()
        .unwrap_err();
    assert!(error.to_string().contains("cannot be reached"), "{error}");
    gone(&server).await;
}

#[tokio::test]
async fn f3_the_end_of_a_stream_triggers_a_presence_check() {
    let mut far = MisbehavingHttpServer::start().await;
    far.set(|behaviour| behaviour.streams = true);
    let server = ready(soon(far.config())).await;
    eventually(|| far.behaviour.lock().unwrap().opened > 0).await;
    far.leave().await;
    gone(&server).await;
    far.set(|behaviour| behaviour.more_tools.push("new".to_owned()));
    far.come_back().await;
    is_ready_again(&server, &far).await;
}

#[tokio::test]
async fn f3_the_end_of_a_server_with_the_older_transport_is_noticed() {
    let mut far = MisbehavingHttpServer::start().await;
    let server = ready(soon(far.old_config())).await;
    far.leave().await;
    gone(&server).await;
    far.come_back().await;
    until(&server, |state| *state == ServerState::Ready).await;
    assert_eq!(server.call(call("echo", json!({}))).await.unwrap().text(), "echo done");
}

#[tokio::test]
async fn f3_a_server_without_a_stream_is_checked_periodically() {
    let mut far = MisbehavingHttpServer::start().await;
    let mut config = soon(far.config());
    config.limits.presence_interval = Duration::from_millis(50);
    let server = ready(config).await;
    eventually(|| far.behaviour.lock().unwrap().pings > 2).await;
    assert_eq!(server.state(), ServerState::Ready);
    far.leave().await;
    gone(&server).await;
}

#[tokio::test]
async fn f3_the_lists_are_fetched_again_after_a_short_absence() {
    let far = MisbehavingHttpServer::start().await;
    let mut config = soon(far.config());
    config.limits.presence_interval = Duration::from_millis(50);
    let server = ready(config).await;
    let mut events = server.events();
    far.set(|behaviour| {
        behaviour.more_tools.push("new".to_owned());
        behaviour.misses_ping = true;
    });
    for list in [List::Tools, List::Resources, List::Prompts] {
        let changed = |event| matches!(event, Event::ListChanged(changed) if changed == list).then_some(());
        crate::support::event(&mut events, changed).await;
    }
    assert_eq!(server.state(), ServerState::Ready, "it was never taken for gone");
}

#[tokio::test]
async fn f3_a_server_that_was_ready_is_retried_without_limit() {
    let mut far = MisbehavingHttpServer::start().await;
    let mut config = soon(far.config());
    config.restart.attempts = 1;
    config.restart.away = Duration::from_millis(50);
    config.limits.presence_interval = Duration::from_millis(50);
    let server = ready(config).await;
    let mut events = server.events();
    far.leave().await;
    for _ in 0..4 {
        crate::support::event(&mut events, |event| match event {
            Event::State(ServerState::Error { restarts_in, .. }) => Some(restarts_in.unwrap()),
            _ => None,
        })
        .await;
    }
    far.set(|behaviour| behaviour.more_tools.push("new".to_owned()));
    far.come_back().await;
    is_ready_again(&server, &far).await;
}

#[tokio::test]
async fn f3_a_server_that_answers_anything_is_present() {
    let far = MisbehavingHttpServer::start().await;
    let server = ready(soon(far.config())).await;
    let mut events = server.events();
    for status in [StatusCode::INTERNAL_SERVER_ERROR, StatusCode::SERVICE_UNAVAILABLE] {
        far.set(|behaviour| behaviour.fails_calls = Some(status));
        let error = server.call(call("echo", json!({}))).await.unwrap_err();
        assert!(error.to_string().contains(status.as_str()), "{error}");
    }
    far.set(|behaviour| behaviour.fails_calls = None);
    // An answer that breaks off only triggers a check.
    let error = server.call(call("break", json!({}))).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    eventually(|| far.behaviour.lock().unwrap().pings > 0).await;
    assert_eq!(server.call(call("echo", json!({}))).await.unwrap().text(), "echo done");
    server.stop().await;
    let said = crate::support::event(&mut events, |event| match event {
        Event::State(state) => Some(state),
        _ => None,
    });
    assert_eq!(said.await, ServerState::Stopped, "nothing else was ever said");
}

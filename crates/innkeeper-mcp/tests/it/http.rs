//! Servers behind HTTP.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use innkeeper_mcp::{
    Allowed, AskOutcome, AskSink, ConfigError, Error, Question, Remote, Server, ServerConfig, ServerState, Transport,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::{HttpConfig as _, TIMEOUT, call, ready, server_env, settled, settles, started, until};
use innkeeper_testkit::misbehaving_http_server::MisbehavingHttpServer;

#[tokio::test]
async fn calls_over_http_return_json_and_event_streams() {
    for as_events in [false, true] {
        let far = MisbehavingHttpServer::start().await;
        far.set(|behaviour| behaviour.as_events = as_events);
        let server = ready(far.config()).await;
        assert_eq!(server.tools().len(), 6);
        let outcome = server.call(call("echo", json!({}))).await.unwrap();
        assert_eq!(outcome.text(), "echo done");
        let allowed = Allowed {
            tools: true,
            ..Allowed::default()
        };
        let params = json!({ "name": "echo" }).as_object().cloned();
        let raw = server
            .pass(allowed, None, "tools/call", params, CancellationToken::new())
            .await
            .unwrap();
        assert_eq!(raw["unknown"], "kept", "as events: {as_events}");
        server.stop().await;
    }
}

#[tokio::test]
async fn the_older_transport_works() {
    let far = MisbehavingHttpServer::start().await;
    let server = ready(far.old_config()).await;
    assert_eq!(server.call(call("echo", json!({}))).await.unwrap().text(), "echo done");
    // All requests share the stream: an answer that is too large costs its own call (T26).
    let error = server.call(call("big", json!({}))).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    assert_eq!(server.call(call("echo", json!({}))).await.unwrap().text(), "echo done");
    assert_eq!(server.state(), ServerState::Ready);
    server.stop().await;
    assert_eq!(server.state(), ServerState::Stopped);
}

#[tokio::test]
async fn a_forgotten_session_is_renewed() {
    let far = MisbehavingHttpServer::start().await;
    let server = ready(far.config()).await;
    far.set(|behaviour| behaviour.sessions.clear());
    assert_eq!(server.call(call("echo", json!({}))).await.unwrap().text(), "echo done");
}

#[tokio::test]
async fn t26_answers_that_are_too_large_fail_their_call_and_nothing_else() {
    let far = MisbehavingHttpServer::start().await;
    for as_events in [false, true] {
        far.set(|behaviour| behaviour.as_events = as_events);
        let server = ready(far.config()).await;
        for tool in ["big", "flood"] {
            let big = tokio::time::timeout(TIMEOUT, server.call(call(tool, json!({}))));
            let error = big.await.unwrap().unwrap_err();
            assert!(matches!(error, Error::TooLarge { .. }), "{tool}: {error}");
        }
        assert_eq!(server.call(call("echo", json!({}))).await.unwrap().text(), "echo done");
    }
}

#[tokio::test]
async fn an_unreachable_server_is_tried_again() {
    let far = MisbehavingHttpServer::start().await;
    let mut config = far.config();
    config.restart.delay = Duration::from_millis(50);
    let address = far.address;
    drop(far);
    let server = started(config);
    let state = settled(&server).await;
    let ServerState::Error { message, restarts_in } = state else {
        panic!("{state:?}")
    };
    assert!(
        message.contains("cannot be reached") && message.contains(&address.to_string()),
        "{message}"
    );
    assert!(restarts_in.is_some());
}

#[tokio::test]
async fn a_question_over_http_belongs_to_its_call() {
    let far = MisbehavingHttpServer::start().await;
    let asked = Arc::new(Mutex::new(Vec::new()));
    let server = ready(far.config()).await;
    let mut ask = call("ask", json!({}));
    let (id, seen) = (ask.id, asked.clone());
    ask.asks = Some(AskSink::new(move |ask| {
        seen.lock().unwrap().push((ask.call, ask.question.clone()));
        ask.answer(AskOutcome::Sampled(
            json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "hi" } }),
        ));
    }));
    let text = server.call(ask).await.unwrap().text();
    assert!(text.contains("\"model\":\"m\""), "{text}");
    let asked = asked.lock().unwrap();
    assert!(
        matches!(&asked[..], [(Some(call), Question::Sampling(_))] if *call == id),
        "{asked:?}"
    );
}

#[tokio::test]
async fn the_timeout_of_a_call_pauses_while_a_user_is_asked() {
    let far = MisbehavingHttpServer::start().await;
    let server = ready(far.config()).await;
    let mut ask = call("ask", json!({}));
    ask.time = Some(Duration::from_millis(700));
    ask.asks = Some(AskSink::new(|ask| {
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(1500)).await;
            ask.answer(AskOutcome::Sampled(json!({ "late": true })));
        });
    }));
    let text = server.call(ask).await.unwrap().text();
    assert!(text.contains("late"), "{text}");
}

#[tokio::test]
async fn t16_redirects_to_another_server_are_not_followed() {
    let elsewhere = MisbehavingHttpServer::start().await;
    let far = MisbehavingHttpServer::start().await;
    let mut config = far.config();
    let Transport::Http(remote) = &mut config.transport else {
        panic!()
    };
    remote.headers.insert("X-Api-Key".into(), "s3cr3t-value".into());
    far.set(|behaviour| behaviour.redirect = Some(elsewhere.url()));
    let server = started(config);
    let state = settled(&server).await;
    let ServerState::Error { message, .. } = state else {
        panic!("{state:?}")
    };
    assert!(message.contains("307"), "{message}");
    assert!(elsewhere.behaviour.lock().unwrap().seen.is_empty());
    assert_eq!(far.behaviour.lock().unwrap().seen[0]["x-api-key"], "s3cr3t-value");
}

#[tokio::test]
async fn invalid_addresses_are_refused_at_once() {
    for url in ["file:///etc/passwd", "no address", "https://"] {
        let config = ServerConfig::new("a", Transport::Http(Remote::new(url)));
        let refused = Server::new(config, server_env()).unwrap_err();
        assert!(matches!(refused, ConfigError::Address(_)), "{refused}");
    }
    let mut remote = Remote::new("https://a.test");
    remote.headers.insert("X-Key".into(), "line\nbreak".into());
    let refused = Server::new(ServerConfig::new("a", Transport::Http(remote)), server_env()).unwrap_err();
    assert_eq!(refused, ConfigError::Header("X-Key".into()));
}

#[tokio::test]
async fn an_answer_that_breaks_off_fails_its_call() {
    let far = MisbehavingHttpServer::start().await;
    let server = ready(far.config()).await;
    let broken = tokio::time::timeout(TIMEOUT, server.call(call("break", json!({}))));
    let error = broken.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert_eq!(server.call(call("echo", json!({}))).await.unwrap().text(), "echo done");
}

#[tokio::test]
async fn batched_answers_are_split() {
    for as_events in [false, true] {
        let far = MisbehavingHttpServer::start().await;
        far.set(|behaviour| (behaviour.as_events, behaviour.in_batches) = (as_events, true));
        let server = ready(far.config()).await;
        let outcome = tokio::time::timeout(TIMEOUT, server.call(call("echo", json!({}))));
        assert_eq!(outcome.await.unwrap().unwrap().text(), "echo done");
    }
}

#[tokio::test]
async fn p7_requests_of_a_server_that_takes_no_answers_are_bounded() {
    let far = MisbehavingHttpServer::start().await;
    let server = ready(far.config()).await;
    let asking = tokio::spawn({
        let server = server.clone();
        async move { server.call(call("asks", json!({}))).await }
    });
    let asked = settles(|| far.behaviour.lock().unwrap().asks).await;
    // The open requests, and the buffers of both sides: ten kilobytes each.
    assert!(asked < 5000, "{asked} questions were taken");
    // Only this answer is not read any more.
    assert_eq!(server.call(call("echo", json!({}))).await.unwrap().text(), "echo done");
    asking.abort();
    server.stop().await;
}

#[tokio::test]
async fn an_overloaded_server_is_tried_again() {
    let far = MisbehavingHttpServer::start().await;
    far.set(|behaviour| behaviour.fails_start = Some(http::StatusCode::TOO_MANY_REQUESTS));
    let mut config = far.config();
    config.restart.delay = Duration::from_millis(50);
    let server = started(config);
    let state = settled(&server).await;
    assert!(
        matches!(&state, ServerState::Error { message, restarts_in: Some(_) } if message.contains("429")),
        "{state:?}"
    );
    far.set(|behaviour| behaviour.fails_start = None);
    until(&server, |state| *state == ServerState::Ready).await;
}

#[tokio::test]
async fn the_older_transport_is_found_without_configuration() {
    let far = MisbehavingHttpServer::start().await;
    let mut config = far.old_config();
    let Transport::Sse(remote) = config.transport else {
        panic!()
    };
    config.transport = Transport::Http(remote);
    let server = ready(config).await;
    assert_eq!(server.call(call("echo", json!({}))).await.unwrap().text(), "echo done");
    // A server that speaks neither reports its status.
    let nowhere = Remote::new(format!("http://{}/nowhere", far.address));
    let server = started(ServerConfig::new("a", Transport::Http(nowhere)));
    let state = settled(&server).await;
    assert!(
        matches!(&state, ServerState::Error { message, restarts_in: None } if message.contains("404")),
        "{state:?}"
    );
}

#[tokio::test]
async fn a_server_that_does_not_answer_to_discovery_is_initialized() {
    let far = MisbehavingHttpServer::start().await;
    far.set(|behaviour| behaviour.hangs_discovery = true);
    let mut config = far.config();
    config.limits.start_time = Duration::from_secs(6);
    let server = ready(config).await;
    assert_eq!(server.info().unwrap().protocol_version, "2025-06-18");
}

//! Connections: closing, timeouts, keys and size limits.

use std::time::Duration;

use innkeeper_agents::model::api::ModelEvent;
use innkeeper_agents::model::client::{KeyPlacement, MAX_ANSWER_BYTES, ModelClient};
use innkeeper_agents::model::error::ErrorKind;
use innkeeper_agents::model::retry::{RetryPolicy, jitter};
use innkeeper_agents::model::sse::MAX_BYTES;
use innkeeper_testkit::model_server::{Api, ModelServer, Reply, Script};
use serde_json::json;

use crate::providers::support::{KEY, ask, client, decoder, drain, endpoint, key};

#[tokio::test]
async fn dropping_a_stream_closes_the_connection() {
    for api in Api::ALL {
        let server = ModelServer::start([Reply::words("Words.").stall().text("More.")]).await;
        let mut stream = client(api, &server).stream(&ask("Go."), None).await.unwrap();
        while !matches!(stream.next().await, Some(Ok(ModelEvent::Text(_)))) {}
        assert!(server.hung_up().is_empty());
        drop(stream);
        server.until_hung_up(0).await;
    }
}

#[tokio::test]
async fn dropping_a_pending_request_closes_the_connection() {
    let server = ModelServer::start([Reply::words("Words.").stall_first()]).await;
    let client = client(Api::Responses, &server);
    let request = ask("Go.");
    tokio::select! {
        answer = client.stream(&request, None) => panic!("{answer:?}"),
        () = server.until_asked(1) => {}
    }
    server.until_hung_up(0).await;
}

#[tokio::test]
async fn dropping_a_retry_ends_it() {
    let server = ModelServer::start([Reply::new().refuse(429, "slow", "slow").retry_after(50)]).await;
    let client = client(Api::Chat, &server);
    let (request, policy) = (ask("Go."), RetryPolicy::default());
    let (announced, told) = tokio::sync::oneshot::channel();
    let mut announced = Some(announced);
    let asking = client.stream_with_retries(&request, None, &policy, jitter, |retry| {
        assert_eq!(retry.after, Duration::from_secs(50));
        let _ = announced.take().unwrap().send(());
    });
    tokio::select! {
        answer = asking => panic!("{answer:?}"),
        told = told => told.unwrap(),
    }
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn dropping_a_next_future_loses_no_event() {
    let server = ModelServer::start([Reply::words("Words.").stall().text("More.")]).await;
    let mut stream = client(Api::Messages, &server).stream(&ask("Go."), None).await.unwrap();
    while !matches!(stream.next().await, Some(Ok(ModelEvent::Text(_)))) {}
    tokio::select! {
        biased;
        event = stream.next() => panic!("{event:?}"),
        () = tokio::task::yield_now() => server.go_on(),
    }
    let (events, error) = drain(stream).await;
    assert_eq!(error, None);
    assert!(events.contains(&ModelEvent::Text("More.".into())));
}

#[tokio::test]
async fn an_idle_stream_times_out() {
    for api in Api::ALL {
        for reply in [
            Reply::words("Words.").stall(),
            Reply::new().stall().text("Never."),
            Reply::new().text("Never.").stall_first(),
        ] {
            let server = ModelServer::start([reply]).await;
            let mut endpoint = endpoint(api, &server);
            endpoint.idle_time = Duration::from_millis(100);
            let error = match ModelClient::new(endpoint).unwrap().stream(&ask("Go."), None).await {
                Ok(stream) => drain(stream).await.1.unwrap(),
                Err(error) => error,
            };
            assert_eq!(error.kind, ErrorKind::Interrupted, "{api:?}: {error}");
            assert!(error.message.contains("0.1 seconds"), "{error}");
        }
    }
}

#[tokio::test]
async fn one_connection_serves_one_request_after_another() {
    for api in Api::ALL {
        let server = ModelServer::start(Script::by(|asked| match asked.number {
            1 => Reply::new().refuse(429, "slow", "slow"),
            _ => Reply::words("Yes."),
        }))
        .await;
        let client = client(api, &server);
        for _ in 0..5 {
            if let Ok(stream) = client.stream(&ask("Go."), Some(&key())).await {
                assert_eq!(drain(stream).await.1, None);
            }
        }
        assert_eq!(server.requests().len(), 5);
        assert!(server.connections() < 5, "{api:?}: connections are used again");
    }
}

#[tokio::test]
async fn a_slow_stream_does_not_time_out() {
    let server = ModelServer::start([Reply::words("Slowly.").drip(40, Duration::from_millis(1))]).await;
    let stream = client(Api::Chat, &server).stream(&ask("Go."), None).await.unwrap();
    assert_eq!(drain(stream).await.1, None);
}

#[tokio::test]
async fn a_key_is_not_sent_to_another_origin() {
    for api in Api::ALL {
        for status in [301, 302, 307, 308] {
            let elsewhere = ModelServer::start([Reply::words("Thank you for the key.")]).await;
            let target = elsewhere.url();
            let path = match api {
                Api::Chat => "chat/completions",
                Api::Responses => "responses",
                Api::Messages => "messages",
            };
            let redirect = Reply::new()
                .error(status, "")
                .header("location", format!("{target}/{path}"));
            let server = ModelServer::start([redirect]).await;
            let error = client(api, &server)
                .stream(&ask("Go."), Some(&key()))
                .await
                .unwrap_err();
            assert_eq!(error.kind, ErrorKind::BadRequest);
            assert!(error.message.contains("redirects to"), "{error}");
            assert!(elsewhere.requests().is_empty());
        }
    }
}

#[tokio::test]
async fn redirects_within_the_origin_are_followed() {
    let redirect = Reply::new()
        .error(308, "")
        .header("location", "/other/v1/chat/completions");
    let server = ModelServer::start([redirect, Reply::words("Here.")]).await;
    let stream = client(Api::Chat, &server)
        .stream(&ask("Go."), Some(&key()))
        .await
        .unwrap();
    assert_eq!(drain(stream).await.1, None);
    let asked = &server.requests()[1];
    assert_eq!(asked.path, "/other/v1/chat/completions");
    assert_eq!(asked.last_words().as_deref(), Some("Go."));
}

#[tokio::test]
async fn keys_are_sent_in_the_configured_header() {
    let placements = [
        (KeyPlacement::Bearer, "authorization", format!("Bearer {KEY}")),
        (KeyPlacement::Header("api-key".into()), "api-key", KEY.to_owned()),
    ];
    for (placement, header, value) in placements {
        let server = ModelServer::start([Reply::words("Yes.")]).await;
        let mut endpoint = endpoint(Api::Messages, &server);
        endpoint.key_placement = placement;
        let client = ModelClient::new(endpoint).unwrap();
        client.stream(&ask("Go."), Some(&key())).await.unwrap();
        let asked = server.requests().remove(0);
        assert_eq!(asked.headers[header], value);
        assert!(!asked.headers.contains_key("x-api-key"));
        assert_eq!(asked.headers["anthropic-version"], "2023-06-01");
        assert!(!asked.headers.contains_key("accept-encoding"), "nothing is compressed");
    }
}

#[tokio::test]
async fn tls_needs_no_setup_and_fails_without_a_panic() {
    // Another test may have installed a crypto provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = ModelServer::start([]).await;
    let mut endpoint = endpoint(Api::Chat, &server);
    endpoint.base_url = server.url().replace("http:", "https:").parse().unwrap();
    for _ in 0..2 {
        // The server does not support TLS. On a machine without certificates the client fails earlier.
        let error = match ModelClient::new(endpoint.clone()) {
            Ok(client) => client.stream(&ask("Go."), Some(&key())).await.unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(error.kind, ErrorKind::Network, "{error}");
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn an_endless_event_is_rejected() {
    let body = format!("data: {}", "x".repeat(MAX_BYTES));
    let server = ModelServer::start([Reply::new().error(200, body)]).await;
    let stream = client(Api::Messages, &server).stream(&ask("Go."), None).await.unwrap();
    let error = drain(stream).await.1.unwrap();
    assert_eq!(error.kind, ErrorKind::Malformed, "{error}");
    assert!(error.message.contains("longer than"), "{error}");
}

#[test]
fn an_endless_answer_is_rejected() {
    // The input of a call whose name never comes is buffered without end.
    let piece = "x".repeat(1 << 20);
    let event = json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}}]});
    let event = format!("data: {event}\n\n");
    for api in Api::ALL {
        let mut decoder = decoder(api);
        let mut events = Vec::new();
        let most = MAX_ANSWER_BYTES / event.len();
        for _ in 0..most {
            decoder.push(event.as_bytes(), &mut events).unwrap();
        }
        let error = decoder.push(event.as_bytes(), &mut events).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Malformed, "{error}");
        assert!(error.message.contains("exceeds the size limit"), "{error}");
    }
}

#[tokio::test]
async fn long_error_bodies_are_truncated() {
    let server = ModelServer::start([Reply::new().error(400, "long ".repeat(1_000_000))]).await;
    let error = client(Api::Chat, &server).stream(&ask("Go."), None).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::BadRequest);
    assert!(error.message.chars().count() < 600);
    server.until_asked(1).await;
}

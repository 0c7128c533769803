//! Every kind of failure through every API, and that no error contains a key.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::providers::support::{KEY, api_of, ask, client, drain, endpoint, key};
use innkeeper_agents::model::client::{Endpoint, ModelClient};
use innkeeper_agents::model::error::{ErrorKind, ProviderError};
use innkeeper_agents::model::retry::{RetryPolicy, jitter};
use innkeeper_host::agent::Secret;
use innkeeper_testkit::model_server::{Api, ModelServer, Reply, Script};

/// Returns the error of one reply, after the checks that all errors must pass.
async fn error_of(api: Api, reply: Reply) -> ProviderError {
    let server = ModelServer::start([reply]).await;
    let error = match client(api, &server).stream(&ask("Go."), Some(&key())).await {
        Ok(stream) => drain(stream).await.1.expect("an error"),
        Err(error) => error,
    };
    check(&error);
    error
}

/// Errors are understandable and contain no secrets (AUTH-12).
fn check(error: &ProviderError) {
    for shown in [format!("{error}"), format!("{error:?}"), format!("{error:#?}")] {
        assert!(!shown.contains(KEY), "{shown}");
        assert!(!shown.contains(&KEY[..12]), "{shown}");
        assert!(!shown.contains("sk-abcdef"), "{shown}");
    }
    assert!(!error.message.chars().any(char::is_control), "{error}");
    assert!(error.message.chars().count() < 600, "{error}");
    assert!(
        error.message.ends_with('.') || error.message.ends_with(')'),
        "a sentence: {error}"
    );
}

#[tokio::test]
async fn http_errors_are_classified_in_every_api() {
    // Status, the code of OpenAI's APIs, the type of Anthropic's, the message.
    let rows = [
        (
            401,
            "invalid_api_key",
            "authentication_error",
            "bad key",
            ErrorKind::Auth,
        ),
        (
            403,
            "permission_denied",
            "permission_error",
            "not for you",
            ErrorKind::Forbidden,
        ),
        (
            429,
            "insufficient_quota",
            "billing_error",
            "pay first",
            ErrorKind::Quota,
        ),
        (
            429,
            "rate_limit_exceeded",
            "rate_limit_error",
            "slow down",
            ErrorKind::RateLimited,
        ),
        (
            503,
            "server_is_overloaded",
            "overloaded_error",
            "busy",
            ErrorKind::Overloaded,
        ),
        (529, "overloaded", "overloaded_error", "busy", ErrorKind::Overloaded),
        (500, "server_error", "api_error", "oops", ErrorKind::Server),
        (502, "bad_gateway", "api_error", "oops", ErrorKind::Server),
        (
            400,
            "context_length_exceeded",
            "invalid_request_error",
            "prompt is too long: 9 > 8",
            ErrorKind::ContextLength,
        ),
        (
            413,
            "too_large",
            "request_too_large",
            "too large",
            ErrorKind::ContextLength,
        ),
        (
            400,
            "invalid_value",
            "invalid_request_error",
            "temperature is odd",
            ErrorKind::BadRequest,
        ),
        (
            404,
            "model_not_found",
            "not_found_error",
            "model: scripted",
            ErrorKind::NoModel,
        ),
        (400, "content_filter", "content_filter", "filtered", ErrorKind::Refused),
    ];
    for (status, openai, anthropic, message, kind) in rows {
        for api in Api::ALL {
            let code = if api == Api::Messages { anthropic } else { openai };
            let error = error_of(api, Reply::new().refuse(status, code, message)).await;
            assert_eq!(error.kind, kind, "{api:?} {status} {code}: {error}");
            assert!(error.message.contains(message), "the provider's words: {error}");
            assert!(error.message.contains("127.0.0.1"), "who it was: {error}");
        }
    }
}

#[tokio::test]
async fn errors_within_a_stream_are_classified() {
    let rows = [
        ("overloaded_error", "Overloaded", ErrorKind::Overloaded),
        ("server_error", "The server had an error", ErrorKind::Server),
        ("rate_limit_exceeded", "slow down", ErrorKind::RateLimited),
        ("context_length_exceeded", "too long", ErrorKind::ContextLength),
        ("insufficient_quota", "pay first", ErrorKind::Quota),
        ("invalid_prompt", "no", ErrorKind::Refused),
        ("something_new", "hm", ErrorKind::Server),
    ];
    for (code, message, kind) in rows {
        for api in Api::ALL {
            let error = error_of(api, Reply::words("So far").fail(code, message)).await;
            assert_eq!(error.kind, kind, "{api:?} {code}: {error}");
        }
    }
}

#[tokio::test]
async fn an_interrupted_answer_keeps_its_events() {
    for api in Api::ALL {
        let reply = Reply::words("These words came.").text(" These too.").deltas([100]);
        // Enough events for the first text of every API, but not for its end.
        let events = match api {
            Api::Chat => 2,
            Api::Responses => 4,
            Api::Messages => 4,
        };
        let server = ModelServer::start([reply.cut_after(events)]).await;
        let stream = client(api, &server).stream(&ask("Go."), Some(&key())).await.unwrap();
        let (events, error) = drain(stream).await;
        let error = error.unwrap();
        check(&error);
        assert_eq!(error.kind, ErrorKind::Interrupted, "{api:?}: {error}");
        assert!(
            format!("{events:?}").contains("These words came."),
            "{api:?}: {events:?}"
        );
    }
}

#[tokio::test]
async fn malformed_answers_are_reported() {
    for api in Api::ALL {
        let stranger = [
            Reply::new().error(200, "<!doctype html><title>Welcome</title>"),
            Reply::new().error(200, "{\"hello\": \"world\"}"),
            Reply::new().error(200, "data: {nonsense}\n\n"),
            Reply::new().error(200, "{\"choices\": nonsense}"),
        ];
        for reply in stranger {
            let error = error_of(api, reply.clone()).await;
            assert_eq!(error.kind, ErrorKind::Malformed, "{api:?} {reply:?}: {error}");
        }
        for reply in [Reply::new().error(200, ""), Reply::new().error(200, "data: ")] {
            let error = error_of(api, reply).await;
            assert_eq!(error.kind, ErrorKind::Network, "nothing ever came: {error}");
        }
    }
}

#[tokio::test]
async fn an_unreachable_server_is_a_network_error() {
    // A port that is bound but not listening.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let base_url = format!("http://{}/v1", socket.local_addr().unwrap());
    for api in Api::ALL {
        let client = ModelClient::new(Endpoint::new(api_of(api), base_url.parse().unwrap())).unwrap();
        let error = client.stream(&ask("Go."), Some(&key())).await.unwrap_err();
        check(&error);
        assert_eq!(error.kind, ErrorKind::Network, "{error}");
        assert!(error.message.contains("refused"), "{error}");
        assert_eq!(client.models(None).await.unwrap_err().kind, ErrorKind::Network);
    }
}

#[tokio::test]
async fn auth12_errors_contain_no_key_even_if_the_provider_repeats_it() {
    let said = format!(
        "wrong key {KEY}, header Bearer {KEY} or sk-abcdef0123456789 ({})",
        "x".repeat(400)
    );
    for api in Api::ALL {
        for reply in [
            Reply::new().refuse(401, "invalid_api_key", &said),
            Reply::new().refuse(400, "odd", &said),
            Reply::new().error(500, said.clone()),
            Reply::new().error(403, format!("{}{KEY}", "y ".repeat(140))),
            Reply::words("a").fail("server_error", &said),
        ] {
            error_of(api, reply).await;
        }
        // Neither the client nor its settings print it.
        let server = ModelServer::start([]).await;
        let mut endpoint = endpoint(api, &server);
        endpoint.headers.push(("x-gateway-key".into(), KEY.into()));
        let client = ModelClient::new(endpoint).unwrap();
        assert!(!format!("{client:?}").contains(KEY));
    }
}

/// Everything that is logged on this thread, at every level.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0
            .lock()
            .expect("a log without a poisoned lock")
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn auth12_logs_contain_no_key() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone());
    let _guard = tracing::subscriber::set_default(subscriber.finish());
    for api in Api::ALL {
        let refusal = || Reply::new().refuse(503, "overloaded_error", format!("busy with {KEY}"));
        let server = ModelServer::start([refusal(), Reply::words("Yes."), refusal()]).await;
        let client = client(api, &server);
        let (request, secret) = (ask("Go."), key());
        let stream = client
            .stream_with_retries(&request, Some(&secret), &quick(), jitter, |_| {})
            .await;
        drain(stream.unwrap()).await;
        client.stream(&request, Some(&secret)).await.unwrap_err();
        client.models(Some(&secret)).await.unwrap();
    }
    let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(
        logged.contains("retrying a model request"),
        "the log is looked at: {logged}"
    );
    assert!(!logged.contains(KEY), "{logged}");
}

#[tokio::test]
async fn auth12_secrets_in_configured_headers_are_redacted() {
    let server = ModelServer::start([Reply::new().refuse(401, "no", format!("you sent {KEY}"))]).await;
    let mut endpoint = endpoint(Api::Chat, &server);
    endpoint.headers.push(("x-gateway-key".into(), KEY.into()));
    let error = ModelClient::new(endpoint)
        .unwrap()
        .stream(&ask("Go."), None)
        .await
        .unwrap_err();
    check(&error);
    assert!(error.message.contains("none is configured"), "{error}");
    assert_eq!(server.requests()[0].headers["x-gateway-key"], KEY);
}

#[tokio::test]
async fn an_invalid_key_is_reported_without_showing_it() {
    let server = ModelServer::start([]).await;
    let broken = Secret::new(format!("{KEY}\n{KEY}"));
    for api in Api::ALL {
        let error = client(api, &server)
            .stream(&ask("Go."), Some(&broken))
            .await
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Auth);
        check(&error);
    }
    assert!(server.requests().is_empty());
}

/// A policy with short delays; another test covers the delays.
fn quick() -> RetryPolicy {
    RetryPolicy {
        initial_delay: Duration::from_millis(1),
        ..RetryPolicy::default()
    }
}

#[tokio::test]
async fn transient_failures_are_retried_and_announced() {
    for api in Api::ALL {
        let server = ModelServer::start([
            Reply::new()
                .refuse(429, "rate_limit_error", "slow")
                .header("retry-after-ms", "2"),
            Reply::new().refuse(503, "overloaded_error", "busy"),
            // An overload reported in the stream before any text.
            Reply::new().fail("overloaded_error", "busy"),
            Reply::words("never heard").cut_after(1),
            Reply::words("At last."),
        ])
        .await;
        let mut announced = Vec::new();
        let client = client(api, &server);
        let (request, secret, policy) = (ask("Go."), key(), quick());
        let stream = client.stream_with_retries(&request, Some(&secret), &policy, jitter, |retry| {
            announced.push((retry.attempt, retry.of, retry.error.kind));
        });
        let (events, error) = drain(stream.await.unwrap()).await;
        assert_eq!(error, None);
        assert!(format!("{events:?}").contains("At last."));
        let expected = [
            (2, 5, ErrorKind::RateLimited),
            (3, 5, ErrorKind::Overloaded),
            (4, 5, ErrorKind::Overloaded),
            (5, 5, ErrorKind::Network),
        ];
        assert_eq!(announced, expected, "{api:?}");
    }
}

#[tokio::test]
async fn a_started_answer_is_not_retried() {
    for api in Api::ALL {
        let server = ModelServer::start([
            Reply::words("Words.").fail("overloaded_error", "busy"),
            Reply::words("Twice."),
        ])
        .await;
        let client = client(api, &server);
        let request = ask("Go.");
        let stream = client
            .stream_with_retries(&request, None, &quick(), jitter, |retry| panic!("{retry:?}"))
            .await;
        let (events, error) = drain(stream.unwrap()).await;
        assert!(format!("{events:?}").contains("Words."));
        assert_eq!(error.unwrap().kind, ErrorKind::Overloaded);
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_long_retry_after_is_reported_instead_of_waited() {
    let later = date_in_an_hour();
    for wait in ["3600", later.as_str()] {
        let server = ModelServer::start([Reply::new().refuse(429, "rate_limit_error", "slow").retry_after(wait)]).await;
        let client = client(Api::Messages, &server);
        let request = ask("Go.");
        let error = client
            .stream_with_retries(&request, None, &quick(), jitter, |retry| panic!("{retry:?}"))
            .await;
        let error = error.unwrap_err();
        assert_eq!(error.kind, ErrorKind::RateLimited);
        assert!(error.message.contains("asks to wait"), "{error}");
        check(&error);
    }
}

fn date_in_an_hour() -> String {
    let then = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    then.to_zoned(jiff::tz::TimeZone::UTC)
        .strftime("%a, %d %b %Y %H:%M:%S GMT")
        .to_string()
}

#[tokio::test]
async fn retries_end() {
    let server = ModelServer::start(Script::by(|_| Reply::new().refuse(500, "api_error", "oops"))).await;
    let client = client(Api::Messages, &server);
    let request = ask("Go.");
    let error = client
        .stream_with_retries(&request, None, &quick(), jitter, |_| {})
        .await
        .unwrap_err();
    assert!(error.message.contains("Tried 5 times"), "{error}");
    assert_eq!(server.requests().len(), 5);
}

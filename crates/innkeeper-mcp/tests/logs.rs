//! The contents of the log. A program of its own: all threads share one log.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test with a line number")]

#[expect(dead_code, reason = "the other scenarios use the rest")]
#[path = "it/support.rs"]
mod support;

use std::io;
use std::sync::{Arc, Mutex};

use innkeeper_mcp::{ServerState, Token};
use innkeeper_testkit::misbehaving_http_server::MisbehavingHttpServer;
use serde_json::json;
use support::{HttpConfig as _, call, odd, ready, settled, started, until};

/// The misbehaving server itself, when this program is started as one.
#[test]
fn odd_server() {
    innkeeper_testkit::misbehaving_server::serve_if_asked();
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }
}

#[tokio::test]
async fn auth12_the_log_has_no_secrets_and_is_bounded() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_env_filter("debug")
        .with_writer(move || writer.clone())
        .init();

    // A refused token, by a server that repeats it; then a valid one.
    let far = MisbehavingHttpServer::start().await;
    far.set(|behaviour| behaviour.wants_token = true);
    let server = started(far.config());
    settled(&server).await;
    for token in ["s3cr3t-refused", "s3cr3t-good"] {
        if token == "s3cr3t-good" {
            far.set(|behaviour| drop(behaviour.tokens.insert(token.into(), vec!["read".into()])));
        }
        let seen = far.behaviour.lock().unwrap().seen.len();
        server.sign_in(&far.url(), Token::new(token)).unwrap();
        support::eventually(|| far.behaviour.lock().unwrap().seen.len() > seen).await;
        settled(&server).await;
    }
    until(&server, |state| *state == ServerState::Ready).await;
    server.call(call("echo", json!({}))).await.unwrap();
    server.stop().await;

    // A secret of the environment, in errors and at the end of a process.
    let near = ready(odd("plain")).await;
    near.call(call("refuse", json!({}))).await.unwrap_err();
    near.call(call("die", json!({}))).await.unwrap_err();
    near.stop().await;
    let text = log.take();
    assert!(text.contains("hyper_util"), "everything is logged: {text}");
    let leak = text.lines().find(|line| line.contains("s3cr3t"));
    assert_eq!(leak, None);

    // A flood of messages.
    let flooding = ready(odd("flood")).await;
    for _ in 0..10 {
        flooding.call(call("echo", json!({}))).await.unwrap();
    }
    flooding.stop().await;
    let text = log.take();
    let lines = text.lines().count();
    assert!(lines < 200, "{lines} lines");
}

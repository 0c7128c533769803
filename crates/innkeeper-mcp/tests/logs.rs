//! What stands in the log, and what does not. A program of its own: the log is one for all.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test with a line number")]

#[path = "it/odd.rs"]
mod odd;
#[expect(dead_code, reason = "the other scenarios use the rest")]
#[path = "it/odd_http.rs"]
mod odd_http;
#[expect(dead_code, reason = "the other scenarios use the rest")]
#[path = "it/support.rs"]
mod support;

use std::io;
use std::sync::{Arc, Mutex};

use innkeeper_mcp::{ServerState, Token};
use odd_http::OddHttp;
use serde_json::json;
use support::{call, odd, ready, settled, started, until};

/// The odd server itself, when this program is started as one.
#[test]
fn odd_server() {
    if let Ok(kind) = std::env::var(odd::KIND) {
        odd::serve(&kind);
    }
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
async fn auth12_no_token_and_no_secret_stands_in_the_log_and_no_server_fills_it() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_env_filter("debug")
        .with_writer(move || writer.clone())
        .init();

    // A token that is refused, by a server that says it again; then one that is good.
    let far = OddHttp::start().await;
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

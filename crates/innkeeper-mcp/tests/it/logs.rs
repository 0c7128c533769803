//! The contents of the log. All threads of a process share one log, so the test runs in a process of its own.

use std::io;
use std::process::Command;
use std::sync::{Arc, Mutex};

use innkeeper_mcp::{ServerState, Token};
use innkeeper_testkit::misbehaving_http_server::MisbehavingHttpServer;
use serde_json::json;

use crate::support::{HttpConfig as _, call, eventually, odd, ready, settled, started, until};

/// Set in the process that runs the scenario.
const OWN_PROCESS: &str = "INNKEEPER_MCP_LOG_TEST";

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

#[test]
fn auth12_the_log_has_no_secrets_and_is_bounded() {
    if std::env::var_os(OWN_PROCESS).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        return runtime.unwrap().block_on(check_log());
    }
    let ran = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "logs::auth12_the_log_has_no_secrets_and_is_bounded",
            "--nocapture",
        ])
        .env(OWN_PROCESS, "1")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&ran.stdout);
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(
        ran.status.success() && output.contains("1 passed"),
        "{output}\n{errors}"
    );
}

async fn check_log() {
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
        eventually(|| far.behaviour.lock().unwrap().seen.len() > seen).await;
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

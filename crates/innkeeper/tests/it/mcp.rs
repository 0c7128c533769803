//! MCP servers end to end: the real program, a real server process, and the published client, whose mirror must equal a
//! fresh snapshot.

mod auth_command;
mod contents;
mod prompts_and_resources;
mod real_world_servers;
mod sampling;
mod sign_in;
pub(crate) mod support;
mod telemetry;
mod tokens;

use innkeeper_testkit::model_server::{ModelServer, Reply, Script};
use innkeeper_testkit::official::tool_calls_of;
use innkeeper_testkit::process::{gone, lives};
use serde_json::json;

use crate::mcp::support::McpHost;
use innkeeper_testkit::misbehaving_server;

#[tokio::test]
async fn p12_mcp01_a_workspace_server_runs_only_after_it_is_trusted() {
    let scene = McpHost::start("plain").await;
    let server = scene.server_is("error").await;
    let error = &server["state"]["error"];
    assert_eq!(error["errorType"], "notTrusted");
    let how = format!("innkeeper trust allow '{}'", scene.workspace().display());
    let message = error["message"].as_str().expect("a sentence");
    assert!(message.contains(&how), "{message}");
    assert_eq!(scene.starts(), 0, "nothing ran before");
    scene.allow();
    scene.server_is("ready").await;
    assert!(scene.starts() > 0);
    let listed = scene.say("t1", "/mcp").await;
    assert!(listed.contains("**odd**") && listed.contains("- `echo`"), "{listed}");
    assert!(!listed.contains("`shown`"), "MCP-20: that is for its views");
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn t15_no_server_writes_a_line_of_its_own_into_the_log() {
    let scene = McpHost::ready("forging").await;
    let stopped = scene.host.stop().await;
    assert!(stopped.log.len() > 100, "something was logged");
    assert!(
        !stopped
            .log
            .lines()
            .any(|line| line.starts_with(misbehaving_server::FORGED)),
        "{}",
        stopped.log
    );
}

#[tokio::test]
async fn mcp12_t15_a_confirmed_tool_call_sees_no_secret_of_the_host() {
    let scene = McpHost::ready("plain").await;
    let words = scene.call("t1", r#"odd echo {"text": "hello"}"#).await;
    assert!(words.contains("It answered:") && words.contains("hello"), "{words}");
    let turn = scene.client.turn_end(&scene.uris.chat, "t1").await;
    let call = tool_calls_of(&turn).remove(0);
    assert_eq!(call["contributor"]["kind"], "mcp");
    assert_eq!(call["contributor"]["customizationId"], scene.server()["id"]);
    assert_eq!(call["toolName"], "odd__echo");
    assert_eq!(call["structuredContent"], json!({ "text": "hello" }));
    let names = scene.call("t2", "odd env").await;
    assert!(
        names.contains("ODD_SERVER") && !names.contains("SECRET_OF_THE_HOST"),
        "{names}"
    );
    let failed = scene.call("t3", "odd fail").await;
    assert!(failed.contains("It failed: no luck"), "{failed}");
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn f3_mcp04_mcp05_a_crashed_server_is_shown_stopped_and_restarted() {
    let scene = McpHost::ready("plain").await;
    let before = scene.history();
    let words = scene.call("t1", "odd die").await;
    assert!(
        words.contains("It failed: the MCP server `odd` ended before it answered"),
        "{words}"
    );
    assert!(!words.contains("s3cr3t"), "{words}");
    // One that has lived for a while is started again at once: that it was not ready is all that is sure.
    scene.was("not ready", before, |state| state["kind"] != "ready").await;
    scene.demand("Stop").await;
    scene.server_is("stopped").await;
    let words = scene.say("t2", "/mcp odd echo {}").await;
    assert!(words.contains("is ready"), "{words}");
    scene.demand("Start").await;
    scene.server_is("ready").await;
    let words = scene.call("t3", r#"odd echo {"text": "again"}"#).await;
    assert!(words.contains("again"), "{words}");
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn f3_mcp04_a_crashed_server_reports_cause_and_retry_without_secrets() {
    let scene = McpHost::start("crash").await;
    scene.server_is("error").await;
    let before = scene.history();
    scene.allow();
    let crashed = scene.was("in error", before, |state| state["kind"] == "error").await;
    let message = crashed["error"]["message"].as_str().expect("a sentence");
    for part in ["cannot open the database", "started again in"] {
        assert!(message.contains(part), "{part} in {message}");
    }
    assert!(!message.contains("s3cr3t"), "{message}");
    scene.demand("Stop").await;
    scene.server_is("stopped").await;
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn cus08_t15_disabling_a_server_ends_all_its_processes() {
    let scene = McpHost::ready("plain").await;
    let words = scene.call("t1", "odd family").await;
    let child: u32 = words
        .split_whitespace()
        .find_map(|word| word.parse().ok())
        .expect("the id of a process");
    assert!(lives(child));
    scene.switch(false).await;
    scene.server_is("stopped").await;
    gone(child).await;
    scene.switch(true).await;
    scene.server_is("ready").await;
    // With the host it ends as well.
    let words = scene.call("t2", "odd family").await;
    let mut numbers = words.split_whitespace();
    let child: u32 = numbers.find_map(|word| word.parse().ok()).expect("the id of a process");
    assert!(lives(child));
    scene.host.stop().await;
    gone(child).await;
}

#[tokio::test]
async fn p12_a_server_that_changed_after_it_was_trusted_does_not_run() {
    let scene = McpHost::ready("plain").await;
    let before = scene.starts();
    // The same server with another argument.
    scene.declare("plain", &["--exact", "odd_server", "--nocapture", "--test-threads=1"]);
    let server = scene.server_is("error").await;
    let message = server["state"]["error"]["message"]
        .as_str()
        .expect("a sentence")
        .to_owned();
    assert!(message.contains("changed since"), "{message}");
    assert_eq!(scene.starts(), before);
    scene.allow();
    scene.server_is("ready").await;
    scene.client.assert_converged().await;
}

#[tokio::test]
async fn mcp12_a_model_gets_the_tools_and_their_results() {
    let script = Script::by(|asked| match asked.last_results().first() {
        None => Reply::new().call("odd__echo", json!({ "text": "from the server" })),
        Some(_) => Reply::words("Done."),
    });
    let model = ModelServer::start(script).await;
    let scene = McpHost::ready_with_model("plain", &model).await;
    assert_eq!(scene.approve("t1", "Echo.").await, "Done.");
    let asked = model.requests().pop().expect("something was asked");
    let names = asked.tools();
    for name in ["odd__echo", "odd__fail", "read_file"] {
        assert!(names.contains(&name.to_owned()), "{name} in {names:?}");
    }
    assert!(
        !names.contains(&"odd__shown".to_owned()),
        "MCP-20: that is for its views"
    );
    assert_eq!(asked.last_results(), ["from the server"]);
    scene.client.assert_converged().await;
}

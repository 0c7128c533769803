//! Tools of clients reach an agent through the MCP endpoint of its session.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use innkeeper_testkit::official::markdown;
use serde_json::{Value, json};

use crate::support::{Agency, Stage, calls, until};

/// Answers the call of a client's tool.
async fn ring(stage: &Stage) {
    let wait = stage.client.wait_for(&stage.uris.session, "toolClientExecution").await;
    assert_eq!(wait["toolCall"]["toolName"], "ring");
    let content = json!([{ "type": "text", "text": "ding" }]);
    let result = json!({ "result": { "success": true, "pastTenseMessage": "Rang", "content": content } });
    stage.client.answer(&wait, "chat/toolCallComplete", result).await;
}

async fn one_call_however_it_is_named(style: &str) {
    let agency = Agency::new(&format!("names={style}"));
    let stage = agency.open_with_tools().await;
    stage.client.offer(&stage.uris.session, &["ring"]).await;
    stage.begin("t1", r#"mcp ring {"times": 2}"#).await;
    ring(&stage).await;
    let turn = stage.end("t1").await;
    assert_eq!(markdown(&turn.response_parts), "completed: ding", "{style}");
    let calls = calls(&turn);
    assert_eq!(calls.len(), 1, "{style}: {calls:#?}");
    let contributor = json!({ "kind": "client", "clientId": "first" });
    assert_eq!(calls[0]["contributor"], contributor, "{style}");
    assert_eq!(calls[0]["toolInput"], r#"{"times":2}"#, "{style}");
    stage.client.assert_converged().await;
}

#[tokio::test]
async fn claude_and_kimi_call_a_clients_tool_once() {
    one_call_however_it_is_named("claude").await;
}

#[tokio::test]
async fn codex_calls_a_clients_tool_once() {
    one_call_however_it_is_named("codex").await;
}

#[tokio::test]
async fn gemini_calls_a_clients_tool_once() {
    one_call_however_it_is_named("gemini").await;
}

#[tokio::test]
async fn goose_calls_a_clients_tool_once() {
    one_call_however_it_is_named("goose").await;
}

#[tokio::test]
async fn opencode_and_copilot_call_a_clients_tool_once() {
    one_call_however_it_is_named("opencode").await;
    one_call_however_it_is_named("copilot").await;
}

/// A call that cannot be recognized is shown as the agent reports it, beside the one that the host carries out.
#[tokio::test]
async fn an_unknown_way_to_name_a_tool_asks_the_user() {
    let agency = Agency::new("names=unknown");
    let stage = agency.open_with_tools().await;
    stage.client.offer(&stage.uris.session, &["ring"]).await;
    stage.begin("t1", "mcp ring").await;
    let call = stage.call("pending-confirmation").await;
    stage.decide("t1", &call, true, Some("yes")).await;
    ring(&stage).await;
    let turn = stage.end("t1").await;
    assert_eq!(
        (markdown(&turn.response_parts), calls(&turn).len()),
        ("completed: ding".to_owned(), 2)
    );
}

/// An agent fetches tools when its session opens: before its first message it gets a new session, later it is restored.
#[tokio::test]
async fn an_agent_gets_tools_that_come_later() {
    let agency = Agency::new("load");
    let stage = agency.open_with_tools().await;
    let fetched = || agency.noted("tools").last().cloned();
    until("the session is open", || fetched().is_some()).await;
    assert_eq!(fetched().as_deref(), Some(""));
    stage.client.offer(&stage.uris.session, &["ring"]).await;
    assert_eq!(stage.words("t1", "say one").await, "one");
    assert_eq!(fetched().as_deref(), Some("ring"));
    assert_eq!((agency.noted("starts").len(), agency.noted("restored").len()), (1, 0));
    stage.client.offer(&stage.uris.session, &["ring", "paint"]).await;
    assert_eq!(stage.words("t2", "recall").await, "1 messages, told 0: say one");
    assert_eq!(fetched().as_deref(), Some("ring,paint"));
    assert_eq!(agency.noted("restored"), ["session/load"]);
    // Nothing changes, so nothing is opened again.
    stage.words("t3", "say three").await;
    assert_eq!(agency.noted("starts").len(), 2);
}

#[tokio::test]
async fn a_cancelled_call_of_a_clients_tool_ends() {
    let agency = Agency::new("");
    let stage = agency.open_with_tools().await;
    stage.client.offer(&stage.uris.session, &["ring"]).await;
    stage.begin("t1", "mcp ring").await;
    stage.client.wait_for(&stage.uris.session, "toolClientExecution").await;
    stage.client.cancel_turn(&stage.uris.chat, "t1").await;
    let turn = stage.end("t1").await;
    assert_eq!(calls(&turn)[0]["status"], "cancelled");
    assert_eq!(stage.words("t2", "say next").await, "next");
    assert_eq!(agency.noted("starts").len(), 1, "the agent got an answer and goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_without_the_token_are_refused() {
    let agency = Agency::new("");
    let stage = agency.open_with_tools().await;
    assert_eq!(stage.words("t1", "mcp-tools").await, "");
    let server: Value = serde_json::from_str(&agency.noted("servers").remove(0)).expect("JSON");
    let url = server["url"]
        .as_str()
        .expect("an address")
        .strip_prefix("http://")
        .expect("HTTP");
    let (authority, path) = url.split_once('/').expect("a path");
    let token = server["headers"][0]["value"].as_str().expect("a token");
    let status = |path: &str, host: &str, more: &str| {
        let mut stream = TcpStream::connect(authority).expect("connected");
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let length = body.len();
        let request = format!("POST /{path} HTTP/1.0\r\nHost: {host}\r\n{more}Content-Length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    let bearer = format!("Authorization: {token}\r\n");
    assert_eq!(status(path, authority, &bearer), "200");
    assert_eq!(status(path, authority, ""), "401");
    assert_eq!(status(path, authority, "Authorization: Bearer guess\r\n"), "401");
    assert_eq!(status("mcp/other", authority, &bearer), "401");
    assert_eq!(status(path, "elsewhere.example", &bearer), "403");
    assert_eq!(
        status(path, authority, &format!("{bearer}Origin: http://{authority}\r\n")),
        "403"
    );
}

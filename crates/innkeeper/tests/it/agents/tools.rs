//! Tools of MCP servers reach ACP agents through the host, which runs each server once.

use innkeeper_testkit::official::{OfficialClient, SessionUris, markdown, tool_calls_of};
use innkeeper_testkit::process::HostProcess;
use serde_json::{Value, json};

use super::{section, session};
use crate::mcp_servers::support::{TestDirectory, options, shown};

/// A host with one MCP server of the user, and a session of the scripted agent.
struct ToolStage {
    place: TestDirectory,
    client: OfficialClient,
    uris: SessionUris,
    /// The name of the server's tool that repeats a text.
    echo: String,
    _host: HostProcess,
}

impl ToolStage {
    async fn open(quirks: &str) -> Self {
        let place = TestDirectory::new();
        let state = place.beside("state");
        std::fs::create_dir(&state).expect("a directory");
        let settings = format!("{}\n{}", section(quirks, &state), place.configured("odd", "plain"));
        let host = HostProcess::start(options().setting(&settings)).await;
        let client = OfficialClient::connect(host.address(), "first").await;
        let uris = session(&client, "scripted", &place.workspace()).await;
        let listed = client.run_turn(&uris.chat, "t0", "mcp-tools").await;
        let listed = markdown(&listed.response_parts);
        let echo = listed.split(',').find(|name| name.ends_with("echo"));
        let echo = echo.unwrap_or_else(|| panic!("{listed}")).to_owned();
        Self {
            place,
            client,
            uris,
            echo,
            _host: host,
        }
    }

    /// Has the agent call the tool, decides about it, and returns the words of the agent and its only call.
    async fn call(&self, turn: &str, approved: bool) -> (String, Value) {
        let text = format!(r#"mcp {} {{"text": "hello"}}"#, self.echo);
        self.client.start_turn(&self.uris.chat, turn, &text).await;
        let wait = self.client.wait_for(&self.uris.session, "toolConfirmation").await;
        self.client.decide(&wait, json!({ "approved": approved })).await;
        let turn = self.client.turn_end(&self.uris.chat, turn).await;
        let mut calls = tool_calls_of(&turn);
        assert_eq!(calls.len(), 1, "{calls:#?}");
        (markdown(&turn.response_parts), calls.remove(0))
    }
}

#[tokio::test]
async fn mcp12_an_mcp_tool_is_one_call_with_its_contributor() {
    let stage = ToolStage::open("names=codex").await;
    let (words, call) = stage.call("t1", true).await;
    assert!(words.starts_with("completed: ") && words.contains("hello"), "{words}");
    let server = shown(&stage.client.view(), &stage.uris.session, "odd");
    assert_eq!(call["contributor"]["customizationId"], server["id"], "{call}");
    assert_eq!((&call["status"], &call["success"]), (&json!("completed"), &json!(true)));
    assert_eq!(stage.place.pids().len(), 1, "the server was started once");
    stage.client.assert_converged().await;
}

#[tokio::test]
async fn a_refused_mcp_tool_is_told_to_the_agent() {
    let stage = ToolStage::open("").await;
    let (words, call) = stage.call("t1", false).await;
    assert!(words.starts_with("failed: "), "{words}");
    assert_ne!(call["success"], true, "{call}");
}

#[tokio::test]
async fn a_disabled_server_disappears_from_the_agent() {
    let stage = ToolStage::open("").await;
    let id = shown(&stage.client.view(), &stage.uris.session, "odd")["id"].clone();
    let action = json!({ "type": "session/customizationToggled", "id": id, "enablement": [{ "kind": "session", "enabled": false }] });
    stage.client.dispatch(&stage.uris.session, action).await;
    stage.place.until_living(0).await;
    let listed = stage.client.run_turn(&stage.uris.chat, "t1", "mcp-tools").await;
    assert_eq!(markdown(&listed.response_parts), "");
}

/// The program is a bridge for agents that reach MCP servers on standard input and output only.
#[tokio::test]
async fn an_agent_without_mcp_over_http_uses_the_bridge() {
    let stage = ToolStage::open("no-http").await;
    let (words, _) = stage.call("t1", true).await;
    assert!(words.starts_with("completed: ") && words.contains("hello"), "{words}");
}

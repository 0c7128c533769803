//! The guide about MCP servers: the side channel of an MCP App, and signing in to a server.

use innkeeper_testkit::misbehaving_server;
use innkeeper_testkit::oauth::{AuthorizationServer, MetadataLocation, ProtectedServers, User};
use innkeeper_testkit::process::HostProcess;
use serde_json::{Value, json};

use super::reader::Reader;
use crate::options;

const VERSION: &str = "0.3.0";

/// `SessionStatus.InputNeeded`.
const INPUT_NEEDED: u64 = 24;

impl Reader {
    /// Waits until the only MCP server of the session is in a state, and returns its entry.
    async fn server_is(&mut self, kind: &str) -> Value {
        loop {
            let state = self.state().await;
            let entries = state["customizations"].as_array().cloned().unwrap_or_default();
            let mut servers = entries.into_iter().filter(|entry| entry["type"] == "mcpServer");
            let server = servers.next();
            if let Some(server) = server.filter(|server| server["state"]["kind"] == kind) {
                return server;
            }
            let is_change = |message: &Value| {
                let kind = message["params"]["action"]["type"].as_str().unwrap_or_default();
                kind.starts_with("session/customization") || kind == "session/mcpServerStateChanged"
            };
            self.client.notification("the server changes", is_change).await;
        }
    }

    async fn lets_tools_run(&mut self) {
        self.does(json!({ "type": "session/configChanged", "config": { "autoApprove": "autoApprove" } }))
            .await;
    }

    /// Starts a turn that calls a tool, and returns the start of the call.
    async fn calls(&mut self, turn: &str, text: &str) -> Value {
        let message = json!({ "text": text, "origin": { "kind": "user" } });
        self.does(json!({ "type": "session/turnStarted", "turnId": turn, "message": message }))
            .await;
        self.action_with("session/toolCallStart", |action| action["turnId"] == turn)
            .await
    }
}

/// "A client opts in by setting InitializeParams.capabilities.mcpApps to {}."
#[tokio::test]
async fn a_client_of_0_3_that_shows_apps_talks_to_their_server() {
    let program = std::env::current_exe().expect("this program").display().to_string();
    let section = format!(
        "[mcp.servers.garden]\ncommand = {program:?}\nargs = [\"--exact\", \"odd_server\", \"--nocapture\"]\n\
         env = {{ {} = \"app\" }}\n",
        misbehaving_server::KIND
    );
    let path = std::env::var_os("PATH").unwrap_or_default();
    let host = HostProcess::start(options().setting(&section).environment("PATH", path)).await;
    let session = "ahp-session:/apps";
    let mut plain = Reader::create(&host, VERSION, "plain", session, json!({})).await;
    let mut shows_apps = Reader::connect(&host, VERSION, "shows-apps", session, json!({ "mcpApps": {} })).await;
    let shown = shows_apps.server_is("ready").await;
    let capabilities = &shown["mcpApp"]["capabilities"];
    for promised in ["serverTools", "serverResources", "logging", "sampling"] {
        assert!(capabilities[promised].is_object(), "{promised} in {shown}");
    }
    let channel = shown["channel"].as_str().expect("a channel").to_owned();
    assert!(channel.starts_with("mcp://"), "{channel}");

    // "tools/list and tools/call will be proxied via the mcp:// channel", resources and logging too.
    let listed = shows_apps
        .client
        .call("tools/list", json!({ "channel": channel }))
        .await;
    let listed = listed.expect("listed");
    let tools = listed["tools"].as_array().expect("tools");
    assert!(tools.iter().any(|tool| tool["name"] == "shown"), "{listed}");
    let params = json!({ "channel": channel, "name": "echo", "arguments": { "text": "hello" } });
    let called = shows_apps.client.call("tools/call", params).await.expect("called");
    assert_eq!(called["content"][0]["text"], "hello", "{called}");
    let params = json!({ "channel": channel, "uri": "odd://one" });
    let read = shows_apps.client.call("resources/read", params).await.expect("read");
    assert_eq!(read["contents"][0]["text"], "words", "{read}");
    let params = json!({ "channel": channel, "level": "warning" });
    let set = shows_apps.client.call("logging/setLevel", params).await;
    assert_eq!(set, Ok(json!({})));
    let params = json!({ "channel": channel, "level": "info", "data": "from the view" });
    shows_apps.client.notify("notifications/message", params).await;
    let is_message = |message: &Value| message["method"] == "notifications/message";
    let told = shows_apps
        .client
        .notification("the answer of the server", is_message)
        .await;
    assert_eq!(told["params"]["channel"], channel, "{told}");

    // "Hosts SHOULD only populate mcpApp … to clients that declared the capability."
    let hidden = plain.server_is("ready").await;
    assert_eq!((hidden.get("mcpApp"), hidden.get("channel")), (None, None), "{hidden}");
    let refused = plain.client.call("tools/list", json!({ "channel": channel })).await;
    assert_eq!(refused.expect_err("there is no such channel").code, -32008);

    // An ordinary call of the server is an MCP tool call for both of them.
    plain.lets_tools_run().await;
    let call = plain.calls("t1", r#"/mcp garden echo {"text": "hello"}"#).await;
    let contributor = json!({ "kind": "mcp", "customizationId": shown["id"] });
    assert_eq!(call["contributor"], contributor);
    let seen = shows_apps.action("session/toolCallStart").await;
    assert_eq!(seen["contributor"], contributor);
    plain.ended("t1").await;
}

/// "The flow is driven entirely by state — there is no MCP-specific notification."
#[tokio::test]
async fn a_client_of_0_3_signs_in_to_a_server() {
    let login = AuthorizationServer::start().await;
    let servers = ProtectedServers::start(&login, MetadataLocation::Header).await;
    let section = format!(
        "[mcp.servers.far]\ntype = \"http\"\nurl = \"{}\"\n",
        servers.url("/mcp")
    );
    let host = HostProcess::start(options().setting(&section)).await;
    let mut reader = Reader::create(&host, VERSION, "reader", "ahp-session:/sign-in", json!({})).await;
    let server = reader.server_is("authRequired").await;
    let needed = &server["state"];
    assert_eq!(
        (&needed["reason"], &needed["requiredScopes"]),
        (&json!("required"), &json!(["read"])),
        "{server}"
    );
    assert_eq!(needed["resource"]["resource"], servers.url("/mcp"), "{server}");
    assert!(needed["resource"]["authorization_servers"].is_array(), "{server}");
    // "The canonical MCP server URI … is what the client passes back as authenticate({ resource })."
    let granted = User::default().sign_in(needed).await;
    let params = json!({ "channel": "ahp-root://", "resource": granted.resource, "token": granted.token });
    assert_eq!(reader.client.call("authenticate", params).await, Ok(json!({})));
    reader.server_is("ready").await;
    reader.lets_tools_run().await;
    reader.calls("t1", "/mcp far read {}").await;
    reader.ended("t1").await;

    // "reason: 'insufficientScope' almost always surfaces during a tool call."
    let call = reader.calls("t2", "/mcp far admin {}").await;
    assert_eq!(
        call["contributor"],
        json!({ "kind": "mcp", "customizationId": server["id"] })
    );
    let server = reader.server_is("authRequired").await;
    let needed = &server["state"];
    assert_eq!(
        (&needed["reason"], &needed["requiredScopes"]),
        (&json!("insufficientScope"), &json!(["admin"])),
        "{server}"
    );
    // "The host SHOULD raise SessionStatus.InputNeeded on the session … at the session-summary level."
    let listed = reader
        .client
        .call("listSessions", json!({ "channel": "ahp-root://" }))
        .await;
    let listed = listed.expect("listed");
    let status = listed["items"][0]["status"].as_u64().expect("a number");
    assert_eq!(status & INPUT_NEEDED, INPUT_NEEDED, "{listed}");
    let granted = User::default().sign_in(needed).await;
    let params = json!({ "channel": "ahp-root://", "resource": granted.resource, "token": granted.token });
    assert_eq!(reader.client.call("authenticate", params).await, Ok(json!({})));
    reader.ended("t2").await;
    reader.server_is("ready").await;
}

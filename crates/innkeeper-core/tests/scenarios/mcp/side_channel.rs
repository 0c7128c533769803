//! Messages of clients to servers on behalf of apps (MCP-13 to MCP-18).

use innkeeper_core::mcp::{APP_METHODS, McpRequest, ServerList, ToServer};
use innkeeper_core::{Principal, RequestId, Scope};

use super::*;

fn request(channel: &str, method: &str) -> McpRequest {
    let known = APP_METHODS.into_iter().find(|known| known.name == method);
    McpRequest {
        channel: channel.to_owned(),
        method: known.expect("a method of apps"),
        params: params(match method {
            "resources/read" => json!({ "uri": "ui://x" }),
            "logging/setLevel" => json!({ "level": "info" }),
            _ => json!({ "name": "x" }),
        }),
    }
}

fn params(value: Value) -> serde_json::Map<String, Value> {
    serde_json::from_value(value).expect("an object")
}

/// A session with a server that has apps, a client that shows them, and the server's channel.
fn with_apps(apps: AppCapabilities) -> (Stage, ConnId, String) {
    let (mut stage, _, _) = Stage::serving(two_servers());
    let conn = stage.app_client("apps", &[SESSION]);
    stage.does("inner", ServerStatus::Ready { apps: Some(apps) });
    let channel = stage.server("inner")["channel"].as_str().expect("a channel").to_owned();
    stage.inbox(conn);
    (stage, conn, channel)
}

impl Stage {
    /// Sends a request to a server; what it is handed, or the answer.
    fn ask_server(&mut self, conn: ConnId, request: McpRequest) -> Result<ToServer, Value> {
        let id = RequestId::number(999);
        let command = Command::Mcp(Box::new(request));
        self.handle(Input::Request { conn, id, command });
        if let Some(Effect::Mcp(McpCommand::Request { conn: to, .. })) = self.agent.last()
            && *to == conn
            && let Some(Effect::Mcp(McpCommand::Request { message, .. })) = self.agent.pop()
        {
            return Ok(*message);
        }
        Err(self.inbox(conn).pop().expect("an answer"))
    }
}

#[test]
fn mcp13_mcp16_requests_go_to_the_server_of_their_channel() {
    let (mut stage, conn, channel) = with_apps(all_apps());
    assert!(channel.starts_with("mcp://"));
    for method in APP_METHODS
        .iter()
        .filter(|method| !method.name.starts_with("notifications/"))
    {
        let handed = stage
            .ask_server(conn, request(&channel, method.name))
            .expect("handed on");
        assert_eq!((handed.server.as_str(), handed.method), ("inner", method.name));
        assert_eq!(handed.attempt, stage.attempt("inner"));
        assert_eq!(handed.params.len(), 1, "MCP-18: what the client said and nothing else");
    }
}

#[test]
fn mcp15_mcp16_only_declared_methods_are_served() {
    let tools = AppCapabilities {
        tools: Some(false),
        ..AppCapabilities::default()
    };
    let (mut stage, conn, channel) = with_apps(tools);
    assert_eq!(
        stage.server("inner")["mcpApp"],
        json!({ "capabilities": { "serverTools": {} } })
    );
    assert!(stage.ask_server(conn, request(&channel, "tools/list")).is_ok());
    for method in ["resources/read", "logging/setLevel", "sampling/createMessage"] {
        let refused = stage.ask_server(conn, request(&channel, method)).expect_err("refused");
        assert_eq!(error(&refused).0, -32601, "{refused}");
    }
}

#[test]
fn mcp14_without_apps_the_side_channel_does_not_exist() {
    let (mut stage, conn, channel) = with_apps(all_apps());
    let plain = stage.client("plain", &[SESSION]);
    let elsewhere = stage.app_client("elsewhere", &[]);
    for stranger in [plain, elsewhere] {
        let refused = stage
            .ask_server(stranger, request(&channel, "tools/list"))
            .expect_err("refused");
        assert_eq!(error(&refused).0, -32008, "{refused}");
    }
    let unknown = stage.ask_server(conn, request("mcp://session-1/77", "tools/list"));
    assert_eq!(error(&unknown.expect_err("refused")).0, -32008);
    let attempt = stage.attempt("inner");
    stage.reports("inner", attempt, ServerReport::Status(failed("it crashed")));
    let gone = stage.ask_server(conn, request(&channel, "tools/list"));
    assert_eq!(
        error(&gone.expect_err("refused")).0,
        -32008,
        "MCP-13: only while it is ready"
    );
}

#[test]
fn mcp13_a_server_without_apps_has_no_channel() {
    let (mut stage, _, _) = Stage::serving(two_servers());
    stage.does("inner", ready());
    assert_eq!(stage.server("inner")["channel"], Value::Null);
    assert_eq!(stage.server("inner")["mcpApp"], Value::Null);
}

#[test]
fn mcp16_a_viewer_looks_and_does_nothing() {
    let (mut stage, _, channel) = with_apps(all_apps());
    let viewer = stage.connect_as(Principal::new("v", Scope::View));
    stage.request(viewer, app_client("v", &[SESSION]));
    for list in ["tools/list", "resources/list", "resources/templates/list"] {
        assert!(stage.ask_server(viewer, request(&channel, list)).is_ok());
    }
    for deed in ["tools/call", "resources/read"] {
        let refused = stage.ask_server(viewer, request(&channel, deed)).expect_err("refused");
        assert_eq!(error(&refused).0, -32009, "{deed}");
    }
}

#[test]
fn mcp16_a_host_without_servers_does_not_know_the_methods() {
    let mut stage = Stage::finding();
    let conn = stage.app_client("c", &[]);
    let refused = stage.ask_server(conn, request("mcp://session-1/1", "tools/list"));
    assert_eq!(error(&refused.expect_err("refused")).0, -32601);
}

#[test]
fn mcp17_changes_reach_only_clients_with_apps_as_declared() {
    let (mut stage, conn, channel) = with_apps(all_apps());
    let plain = stage.client("plain", &[SESSION]);
    let attempt = stage.attempt("inner");
    stage.inbox(plain);
    for list in [ServerList::Tools, ServerList::Resources, ServerList::Prompts] {
        stage.reports("inner", attempt, ServerReport::ListChanged(list));
    }
    let told = json!({
        "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": { "channel": channel },
    });
    assert_eq!(
        stage.notifications(conn),
        [told],
        "of its resources it promised nothing"
    );
    let log = ServerReport::Log {
        level: "warning".to_owned(),
        logger: None,
        data: json!("careful"),
    };
    stage.reports("inner", attempt, log);
    let told = stage.notifications(conn).pop().expect("the log");
    assert_eq!(told["method"], "notifications/message");
    assert_eq!(
        told["params"],
        json!({ "channel": channel, "level": "warning", "data": "careful" })
    );
    assert_eq!(stage.notifications(plain), [] as [Value; 0]);
}

#[test]
fn mcp15_logs_of_apps_are_forwarded() {
    let (mut stage, conn, channel) = with_apps(all_apps());
    let said = |channel: &str| Box::new(request(channel, "notifications/message"));
    stage.handle(Input::McpNotification {
        conn,
        request: said(&channel),
    });
    let Some(Effect::Mcp(McpCommand::Notify { message, .. })) = stage.agent.pop() else {
        panic!("nothing is handed on");
    };
    assert_eq!(
        (message.server.as_str(), message.method),
        ("inner", "notifications/message")
    );
    let before = stage.agent.len();
    stage.handle(Input::McpNotification {
        conn,
        request: said("mcp://session-1/77"),
    });
    assert_eq!(stage.agent.len(), before, "no subscriber is left");
}

#[test]
fn mcp16_an_invalid_mcp_request_is_not_forwarded() {
    let (mut stage, conn, channel) = with_apps(all_apps());
    let levels = "debug, info, notice, warning, error, critical, alert, emergency";
    for (method, said, problem) in [
        ("tools/call", json!({}), "params.name: is missing".to_owned()),
        (
            "tools/call",
            json!({ "name": 5 }),
            "params.name: must be a string".to_owned(),
        ),
        (
            "resources/read",
            json!({ "name": "x" }),
            "params.uri: is missing".to_owned(),
        ),
        (
            "logging/setLevel",
            json!({ "level": "loud" }),
            format!("params.level: must be one of {levels}"),
        ),
    ] {
        let request = McpRequest {
            params: params(said),
            ..request(&channel, method)
        };
        let answer = stage.ask_server(conn, request).expect_err("refused");
        let error = &answer["error"];
        assert_eq!(
            (&error["code"], &error["message"]),
            (&json!(-32602), &json!(problem)),
            "{method}"
        );
    }
}

//! MCP Apps of the npm registry, for clients with and without MCP Apps.

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::raw::RawClient;
use serde_json::{Value, json};

use crate::mcp_servers::support::{Inn, TestDirectory, TestSession};
use innkeeper_testkit::npm_servers::{package, servers};

const PAGE: &str = "text/html;profile=mcp-app";

/// A session with the server of an app, and its address.
async fn app(inn: &Inn) -> TestSession<'_> {
    inn.ready_room("apps", "app").await
}

async fn open(package: String) -> Inn {
    let server = json!({ "command": "node", "args": [package, "--stdio"] });
    Inn::open(TestDirectory::new(), json!({ "app": server })).await
}

#[tokio::test]
async fn mcp20_mcp14_e58_clients_without_apps_see_an_ordinary_call() {
    let Some(program) = package("server-budget-allocator") else {
        return;
    };
    let inn = open(program).await;
    let room = app(&inn).await;
    let shows_apps = OfficialClient::connect_with_apps(inn.host.address(), "shows-apps").await;
    let uris = shows_apps.join(&room.uris.session).await;
    let beside = TestSession {
        client: &shows_apps,
        uris,
    };
    let plain = room.server("app");
    assert_eq!((plain.get("mcpApp"), plain.get("channel")), (None, None), "{plain}");
    let shown = beside.server("app");
    let capabilities = &shown["mcpApp"]["capabilities"];
    assert!(capabilities["serverTools"].is_object() && capabilities["serverResources"].is_object());
    assert_eq!(capabilities["sampling"], json!({}), "MCP-15: {capabilities}");
    let channel = shown["channel"].as_str().expect("MCP-13");

    // One call, and both see it; only one of them knows what to do with the view.
    let (words, call) = room.call("t1", "app get-budget-data").await;
    assert!(words.contains("It answered:"), "{words}");
    assert_eq!(call["contributor"]["kind"], "mcp");
    assert!(call["structuredContent"].is_object(), "{call}");
    let (_, seen) = beside.end("t1").await;
    let page = seen["_meta"]["ui"]["resourceUri"].as_str().expect("MCP-20");
    assert!(page.starts_with("ui://"), "{page}");

    let read = json!({ "channel": channel, "uri": page });
    let read: Value = shows_apps.request("resources/read", read).await.expect("read");
    let contents = &read["contents"][0];
    assert_eq!(contents["mimeType"], PAGE);
    assert!(
        contents["text"].as_str().is_some_and(|text| text.len() > 100_000),
        "a whole page"
    );
    let again = json!({ "channel": channel, "name": "get-budget-data", "arguments": {} });
    let again: Value = shows_apps.request("tools/call", again).await.expect("called");
    assert_eq!(
        again["structuredContent"].is_object(),
        call["structuredContent"].is_object()
    );

    let (code, _) = inn.client.refused("tools/list", json!({ "channel": channel })).await;
    assert_eq!(code, -32008, "MCP-14: to others the channel does not exist");
    let (code, _) = shows_apps.refused("prompts/list", json!({ "channel": channel })).await;
    assert_eq!(code, -32601, "MCP-16");
    beside.client.assert_converged().await;
    room.client.assert_converged().await;

    // A channel is gone with its server (MCP-13), and a new start has another one.
    room.demand("app", "Stop").await;
    let stopped = beside.server_is("app", "stopped").await;
    assert_eq!(stopped.get("channel"), None);
    let (code, _) = shows_apps.refused("tools/list", json!({ "channel": channel })).await;
    assert_eq!(code, -32008);
    room.demand("app", "Start").await;
    let started = beside.server_is("app", "ready").await;
    assert_ne!(started["channel"], channel);
    beside.client.assert_converged().await;
}

#[tokio::test]
async fn mcp20_a_tool_for_an_app_is_called_by_the_app_only() {
    let Some(program) = package("server-system-monitor") else {
        return;
    };
    let inn = open(program).await;
    let room = app(&inn).await;
    let shows_apps = OfficialClient::connect_with_apps(inn.host.address(), "shows-apps").await;
    let uris = shows_apps.join(&room.uris.session).await;
    let beside = TestSession {
        client: &shows_apps,
        uris,
    };
    let channel = beside.server("app")["channel"].clone();
    let list = json!({ "channel": channel });
    let list: Value = shows_apps.request("tools/list", list).await.expect("listed");
    let tools = list["tools"].as_array().expect("tools").iter();
    let mut hidden = tools.filter(|tool| tool["_meta"]["ui"]["visibility"] == json!(["app"]));
    let hidden = hidden.next().expect("a tool that is for its view only");
    let name = hidden["name"].as_str().expect("a name");
    let overview = room.say("t1", "/mcp").await;
    assert!(!overview.contains(&format!("`{name}`")), "{overview}");
    let call = json!({ "channel": channel, "name": name, "arguments": {} });
    let called: Value = shows_apps.request("tools/call", call).await.expect("called");
    assert!(called["content"].is_array(), "{called}");
    let words = room.say("t2", &format!("/mcp app {name}")).await;
    assert!(
        words.contains("is ready"),
        "to the guide there is no such tool: {words}"
    );
}

#[tokio::test]
async fn mcp17_only_clients_with_apps_hear_of_changed_tools() {
    let Some(folder) = servers() else { return };
    let server = json!({ "command": "node", "args": [folder.join("modern.mjs")] });
    let inn = Inn::open(TestDirectory::new(), json!({ "app": server })).await;
    let room = app(&inn).await;
    let session = json!({ "channel": room.uris.session });
    let mut shows_apps = RawClient::connect(inn.host.address()).await;
    let params = json!({
        "channel": "ahp-root://", "clientId": "shows-apps", "protocolVersions": ["1.0.0"],
        "capabilities": { "mcpApps": {} },
    });
    shows_apps
        .call("initialize", params.clone())
        .await
        .expect("initialized");
    let joined = shows_apps.call("subscribe", session.clone()).await.expect("subscribed");
    let entries = joined["snapshot"]["state"]["customizations"]
        .as_array()
        .expect("entries");
    let shown = entries.iter().find(|entry| entry["name"] == "app").expect("shown");
    let promised = &shown["mcpApp"]["capabilities"]["serverTools"];
    assert_eq!(promised["listChanged"], true, "{shown}");
    let mut shows_none = RawClient::initialized(inn.host.address(), "shows-none").await;
    shows_none.call("subscribe", session.clone()).await.expect("subscribed");
    // One that could show them, and is not in the session.
    let mut elsewhere = RawClient::connect(inn.host.address()).await;
    let mut params = params;
    params["clientId"] = json!("elsewhere");
    elsewhere.call("initialize", params).await.expect("initialized");

    let (words, _) = room.call("t1", "app grow").await;
    assert!(words.contains("grown"), "{words}");
    let is_change = |message: &Value| message["method"] == "notifications/tools/list_changed";
    let told = shows_apps.notification("the change", is_change).await;
    assert_eq!(told["params"], json!({ "channel": shown["channel"] }));
    let listed = json!({ "channel": shown["channel"] });
    let listed = shows_apps.call("tools/list", listed).await.expect("listed");
    let tools = listed["tools"].as_array().expect("tools");
    assert!(tools.iter().any(|tool| tool["name"] == "grown"), "{listed}");
    // All recipients get it at once: it would have arrived before this response.
    for other in [&mut shows_none, &mut elsewhere] {
        other
            .call("listSessions", json!({ "channel": "ahp-root://" }))
            .await
            .expect("listed");
        assert!(!other.has_notification(is_change));
    }
}

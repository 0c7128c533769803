//! The MCP channel of clients that show MCP Apps.

use innkeeper_host::mcp::{ServerList, ServerReport};
use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::raw::RawClient;

use super::*;

/// A server with apps, a published client that shows them, and the server's channel.
async fn with_apps(inn: &Inn) -> (SessionFixture, OfficialClient, String) {
    let fixture = fixture(inn).await;
    inn.does(apps()).await;
    fixture.server_is("ready").await;
    let client = OfficialClient::connect_with_apps(&fixture.running.address, "apps").await;
    client.subscribe(&fixture.uris.session).await;
    let server = shown(&client.view(), &fixture.uris.session);
    let channel = server["channel"].as_str().expect("a channel").to_owned();
    (fixture, client, channel)
}

#[tokio::test]
async fn mcp16_mcp18_requests_of_an_app_reach_the_server_and_come_back() {
    let inn = Inn::new();
    let (fixture, client, channel) = with_apps(&inn).await;
    let params = json!({ "channel": channel, "uri": "ui://inn/rooms" });
    let answer: Value = client.request("resources/read", params).await.expect("answered");
    assert_eq!(
        answer,
        json!({ "method": "resources/read", "params": { "uri": "ui://inn/rooms" } }),
        "without the channel"
    );
    let large = json!({ "channel": channel, "name": "large" });
    let answer: Value = client.request("tools/call", large).await.expect("answered");
    assert_eq!(
        answer["text"].as_str().map(str::len),
        Some(12 << 20),
        "more than a queue takes"
    );
    for (params, code) in [
        (json!({ "channel": channel, "name": "refused" }), -32002),
        (json!({ "channel": channel, "name": "huge" }), -32603),
        (json!({ "channel": "mcp://session-1/1" }), -32008),
        (json!({}), -32602),
    ] {
        let (refused, message) = client.refused("tools/call", params).await;
        assert_eq!(refused, code, "{message}");
    }
    let (refused, _) = client
        .refused("sampling/createMessage", json!({ "channel": channel }))
        .await;
    assert_eq!(refused, -32601, "MCP-15: the server did not declare that");
    let (refused, _) = client.refused("prompts/list", json!({ "channel": channel })).await;
    assert_eq!(refused, -32601, "MCP-16");
    let (refused, _) = fixture
        .client
        .refused("tools/list", json!({ "channel": channel }))
        .await;
    assert_eq!(refused, -32008, "MCP-14: for others it does not exist");
}

#[tokio::test]
async fn e58_mcp14_both_kinds_of_clients_match_their_own_snapshots() {
    let inn = Inn::new();
    let (fixture, mut client, channel) = with_apps(&inn).await;
    assert!(channel.starts_with("mcp://"));
    let plain = fixture.server_is("ready").await;
    assert_eq!((plain.get("channel"), plain.get("mcpApp")), (None, None));
    client.cut().await;
    inn.does(ServerStatus::Ready { apps: None }).await;
    inn.does(apps()).await;
    client.reconnect().await.expect("it comes back");
    client.assert_converged().await;
    fixture.client.assert_converged().await;
    let server = shown(&client.view(), &fixture.uris.session);
    assert_eq!(
        server["mcpApp"]["capabilities"]["serverTools"],
        json!({ "listChanged": true })
    );
}

#[tokio::test]
async fn mcp17_notifications_go_both_ways_and_to_no_other_client() {
    let inn = Inn::new();
    let (fixture, _, channel) = with_apps(&inn).await;
    let mut apps = RawClient::connect(&fixture.running.address).await;
    let params = json!({
        "channel": "ahp-root://", "clientId": "raw", "protocolVersions": ["1.0.0"],
        "capabilities": { "mcpApps": {} }, "initialSubscriptions": [fixture.uris.session],
    });
    apps.call("initialize", params).await.expect("initialized");
    let mut plain = RawClient::initialized(&fixture.running.address, "plain").await;
    let subscribe = json!({ "channel": fixture.uris.session });
    plain.call("subscribe", subscribe).await.expect("subscribed");
    let (attempt, sink) = (inn.attempt().await, inn.sink.lock().expect("no panic").clone());
    let sink = sink.expect("a session");
    sink.report("inn", attempt, ServerReport::ListChanged(ServerList::Tools))
        .await;
    let is_change = |message: &Value| message["method"] == "notifications/tools/list_changed";
    let told = apps.notification("the change", is_change).await;
    assert_eq!(told["params"], json!({ "channel": channel }));
    // A later report has arrived.
    inn.does(ServerStatus::Ready { apps: None }).await;
    let is_state = |message: &Value| message["params"]["action"]["type"] == "session/mcpServerStateChanged";
    plain.notification("the next state", is_state).await;
    assert!(!plain.has_notification(is_change));
    inn.does(super::apps()).await;
    apps.notification("the channel is back", |message| {
        message["params"]["action"]["channel"] == json!(channel)
    })
    .await;
    let message = json!({ "channel": channel, "level": "info", "data": "shown" });
    apps.notify("notifications/message", message).await;
    let mut told = inn.told.subscribe();
    let told = told.wait_for(|told| !told.is_empty()).await.expect("alive");
    let expected = json!({ "level": "info", "data": "shown" });
    assert_eq!(*told, [("notifications/message".to_owned(), expected)]);
}

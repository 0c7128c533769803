//! Messages between the view of an MCP App and its server, over the client's connection.

use innkeeper_testkit::raw::RawClient;
use serde_json::{Value, json};

use crate::mcp_servers::support::{Inn, TestDirectory, TestSession};

fn is_message(message: &Value) -> bool {
    message["method"] == "notifications/message"
}

/// A client that shows apps, or does not.
async fn client(inn: &Inn, name: &str, shows_apps: bool) -> RawClient {
    let mut client = RawClient::connect(inn.host.address()).await;
    let mut params = json!({ "channel": "ahp-root://", "clientId": name, "protocolVersions": ["1.0.0"] });
    if shows_apps {
        params["capabilities"] = json!({ "mcpApps": {} });
    }
    client.call("initialize", params).await.expect("initialized");
    client
}

/// Subscribes to a session, and returns its only server as it is shown.
async fn join(client: &mut RawClient, room: &TestSession<'_>) -> Value {
    let params = json!({ "channel": room.uris.session });
    let joined = client.call("subscribe", params).await.expect("subscribed");
    let entries = joined["snapshot"]["state"]["customizations"].as_array();
    let mut entries = entries.into_iter().flatten();
    let server = entries.find(|entry| entry["name"] == "odd");
    server.expect("the server is shown").clone()
}

#[tokio::test]
async fn mcp14_mcp15_mcp18_only_the_view_of_an_app_talks_to_its_server() {
    let place = TestDirectory::new();
    let servers = json!({ "odd": place.odd("app") });
    let inn = Inn::open(place, servers).await;
    let room = inn.ready_room("one", "odd").await;
    let mut view = client(&inn, "view", true).await;
    let shown = join(&mut view, &room).await;
    let capabilities = &shown["mcpApp"]["capabilities"];
    for promised in ["serverTools", "serverResources", "logging"] {
        assert!(capabilities[promised].is_object(), "{promised}: {capabilities}");
    }
    assert_eq!(capabilities["sampling"], json!({}), "MCP-15: {capabilities}");
    let channel = shown["channel"].clone();
    let with = |mut params: Value| {
        params["channel"] = channel.clone();
        params
    };

    let listed = view.call("resources/list", with(json!({}))).await.expect("listed");
    assert_eq!(listed["resources"], json!([{ "uri": "odd://one", "name": "one" }]));
    let listed = view.call("resources/templates/list", with(json!({}))).await;
    let listed = listed.expect("listed");
    assert_eq!(
        listed["resourceTemplates"],
        json!([{ "uriTemplate": "odd://{name}", "name": "any" }])
    );
    let read = view.call("resources/read", with(json!({ "uri": "odd://one" }))).await;
    assert_eq!(read.expect("read")["contents"][0]["text"], "words");
    let set = view.call("logging/setLevel", with(json!({ "level": "warning" }))).await;
    assert_eq!(set.expect("set"), json!({}));
    let refused = view.call("prompts/list", with(json!({}))).await;
    assert_eq!(refused.expect_err("MCP-16").code, -32601);

    // Clients without apps or without a subscription have no channel.
    let mut shows_none = client(&inn, "shows-none", false).await;
    let plain = join(&mut shows_none, &room).await;
    assert_eq!((plain.get("mcpApp"), plain.get("channel")), (None, None), "{plain}");
    let mut elsewhere = client(&inn, "elsewhere", true).await;
    for other in [&mut shows_none, &mut elsewhere] {
        for (method, params) in [
            ("resources/list", json!({})),
            ("resources/templates/list", json!({})),
            ("logging/setLevel", json!({ "level": "debug" })),
        ] {
            let refused = other.call(method, with(params)).await;
            assert_eq!(refused.expect_err(method).code, -32008, "MCP-14: {method}");
        }
        other
            .notify(
                "notifications/message",
                with(json!({ "level": "info", "data": "not from a view" })),
            )
            .await;
        other.still_works().await;
    }

    // In both directions: the server logs the message at the level of the view only.
    let said = json!({ "level": "info", "data": "from the view" });
    view.notify("notifications/message", with(said.clone())).await;
    let told = view.notification("the answer of the server", is_message).await;
    let heard = json!({ "level": "warning", "logger": "odd", "data": { "heard": said } });
    assert_eq!(told["params"], with(heard), "MCP-18: the channel is not the server's");
    // And its logs while any client calls a tool.
    let (words, _) = room.call("t1", r#"odd log {"level": "error", "data": {"n": 1}}"#).await;
    assert!(words.contains("logged"), "{words}");
    let told = view.notification("what the server wrote", is_message).await;
    assert_eq!(
        told["params"],
        with(json!({ "level": "error", "data": { "n": 1 } })),
        "the messages of others reached no client"
    );
    // All recipients get it at once: it would have arrived before this response.
    for other in [&mut shows_none, &mut elsewhere] {
        other.still_works().await;
        assert!(!other.has_notification(is_message), "{:?}", other.notifications);
    }

    // A client that leaves the session has no channel any more.
    let leaving = json!({ "channel": room.uris.session });
    view.notify("unsubscribe", leaving).await;
    let refused = view.call("resources/list", with(json!({}))).await;
    assert_eq!(refused.expect_err("MCP-14").code, -32008);
    room.client.assert_converged().await;
}

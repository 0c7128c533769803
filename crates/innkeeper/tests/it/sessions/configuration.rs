//! Settings of the host and of sessions.

use innkeeper_testkit::official::{OfficialClient, markdown};
use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::RawClient;
use serde_json::{Value, json};

use crate::transport::scopes::start_with_scopes;
use crate::{start, start_with_client};

const ROOT: &str = "ahp-root://";

async fn resolve(client: &OfficialClient, config: Value) -> Value {
    let params = json!({ "channel": ROOT, "provider": "tour", "config": config });
    client.request("resolveSessionConfig", params).await.expect("resolved")
}

async fn found(client: &OfficialClient, property: &str, query: &str) -> Vec<String> {
    let params = json!({ "channel": ROOT, "provider": "tour", "property": property, "query": query });
    let found: Value = client
        .request("sessionConfigCompletions", params)
        .await
        .expect("answered");
    let items = found["items"].as_array().expect("items").iter();
    items
        .map(|item| {
            assert!(item["label"].is_string(), "{item}");
            item["value"].as_str().expect("a value").to_owned()
        })
        .collect()
}

fn host_value(client: &OfficialClient, name: &str) -> Value {
    let view = client.view();
    let config = view
        .root()
        .and_then(|root| root.config.as_ref())
        .expect("the host has settings");
    config.values[name].clone()
}

#[tokio::test]
async fn root07_root08_only_admins_change_host_settings() {
    let (host, drive, view) = start_with_scopes().await;
    let admin = OfficialClient::connect(host.address(), "admin").await;
    let driver = OfficialClient::connect(&drive, "driver").await;
    let visitor = OfficialClient::connect(&view, "visitor").await;
    let change = |config: Value| json!({ "type": "root/configChanged", "config": config });
    for (who, scope) in [(&driver, "drive"), (&visitor, "view")] {
        who.dispatch(ROOT, change(json!({ "silenceLimitMinutes": 0 }))).await;
        let reason = who.refusal(1).await;
        assert!(
            reason.contains("needs the scope admin") && reason.ends_with(scope),
            "{reason}"
        );
    }
    admin.dispatch(ROOT, change(json!({ "silenceLimitMinutes": 90 }))).await;
    for who in [&admin, &driver, &visitor] {
        who.until("every client sees the change", |view| {
            let config = view.root().and_then(|root| root.config.as_ref());
            config.is_some_and(|config| config.values["silenceLimitMinutes"] == 90)
        })
        .await;
        assert_eq!(
            host_value(who, "autoApprove"),
            "default",
            "ROOT-07: what was not named stays"
        );
    }
    for (number, (config, field)) in [
        (json!({ "silenceLimitMinutes": -1 }), "config.silenceLimitMinutes"),
        (json!({ "silenceLimitMinutes": "long" }), "config.silenceLimitMinutes"),
        (json!({ "autoApprove": "sometimes" }), "config.autoApprove"),
    ]
    .into_iter()
    .enumerate()
    {
        admin.dispatch(ROOT, change(config)).await;
        let reason = admin.refusal(number + 1).await;
        assert!(reason.contains(field), "{reason}");
    }
    // It takes effect in sessions that come after it.
    admin
        .dispatch(
            ROOT,
            change(json!({ "autoApprove": "autoApprove", "defaultShell": "/bin/sh" })),
        )
        .await;
    driver
        .until("everything is allowed", |view| {
            let config = view.root().and_then(|root| root.config.as_ref());
            config.is_some_and(|config| config.values["autoApprove"] == "autoApprove")
        })
        .await;
    let uris = driver.create_session("allowed").await;
    let turn = driver.run_turn(&uris.chat, "t1", "/confirm").await;
    assert!(markdown(&turn.response_parts).contains('3'), "it rang without asking");
    for who in [&admin, &driver] {
        who.assert_converged().await;
    }
}

#[tokio::test]
async fn cmp05_settings_are_resolved_while_the_user_chooses() {
    let (_host, client) = start_with_client().await;
    let first = resolve(&client, json!({})).await;
    assert_eq!(first["values"]["mood"], "cheerful", "a default");
    assert!(first["values"].get("topic").is_none(), "nothing was chosen");
    assert_eq!(first["schema"]["type"], "object", "CMP-07");
    for (_, property) in first["schema"]["properties"].as_object().expect("properties") {
        assert!(
            property["type"].is_string() && property["title"].is_string(),
            "CMP-07: {property}"
        );
    }
    let second = resolve(&client, json!({ "mood": "grumpy" })).await;
    assert_eq!(second["values"]["mood"], "grumpy", "what was chosen is echoed");
    let mut chosen = second["values"].clone();
    chosen["topic"] = json!("rivers");
    let third = resolve(&client, chosen.clone()).await;
    assert_eq!(third["values"], chosen, "the answer to its own answer is the same");
    assert_eq!(third["schema"], first["schema"]);
    for (config, field) in [
        (json!({ "mood": "sleepy" }), "config.mood"),
        (json!({ "mood": 3 }), "config.mood"),
    ] {
        let params = json!({ "channel": ROOT, "provider": "tour", "config": config });
        let (code, text) = client.refused("resolveSessionConfig", params).await;
        assert_eq!(code, -32602, "{text}");
        assert!(text.contains(field), "{text}");
    }
    let stranger = json!({ "channel": ROOT, "provider": "unknown", "config": {} });
    assert_eq!(client.refused("resolveSessionConfig", stranger).await.0, -32002);
}

#[tokio::test]
async fn cmp06_values_are_found_while_the_user_types() {
    let (_host, client) = start_with_client().await;
    assert_eq!(found(&client, "topic", "").await, ["bread", "maps"], "to begin with");
    assert_eq!(found(&client, "topic", "ri").await, ["bridges", "rivers"]);
    assert_eq!(found(&client, "topic", "RAIN").await, ["trains"]);
    assert!(found(&client, "topic", "quantum").await.is_empty());
    assert_eq!(found(&client, "mood", "gru").await, ["grumpy"]);
    assert!(found(&client, "approvedTools", "").await.is_empty(), "anything goes");
    let params = json!({ "channel": ROOT, "provider": "tour", "property": "colour" });
    let (code, text) = client.refused("sessionConfigCompletions", params).await;
    assert_eq!(code, -32602);
    assert!(text.contains("property") && text.contains("topic"), "{text}");
}

#[tokio::test]
async fn cmp09_a_session_is_created_with_the_chosen_settings_or_not_at_all() {
    let (_host, client) = start_with_client().await;
    let create = |name: &str, config: Value| json!({ "channel": format!("ahp-session:/{name}"), "provider": "tour", "config": config });
    for (config, field) in [
        (json!({ "mood": "sleepy" }), "config.mood"),
        (json!({ "topic": ["bread"] }), "config.topic"),
        (json!({ "approvedTools": [1] }), "config.approvedTools"),
    ] {
        let (code, text) = client.refused("createSession", create("wrong", config)).await;
        assert_eq!(code, -32602, "{text}");
        assert!(text.contains(field), "{text}");
    }
    let config = json!({ "mood": "grumpy", "topic": "maps" });
    let _: Value = client
        .request("createSession", create("wrong", config))
        .await
        .expect("the name is still free");
    let uris = client.join("ahp-session:/wrong").await;
    client.session_ready(&uris.session).await;
    let turn = client.run_turn(&uris.chat, "t1", "hello").await;
    let words = markdown(&turn.response_parts);
    assert!(words.starts_with("Hmph.") && words.contains("*maps*"), "{words}");
    client.assert_converged().await;
}

#[tokio::test]
async fn ses23_mutable_settings_change_for_all_clients_and_others_are_rejected() {
    let (host, client) = start_with_client().await;
    let uris = client.create_session("later").await;
    let other = OfficialClient::connect(host.address(), "other").await;
    other.join(&uris.session).await;
    let change = |config: Value| json!({ "type": "session/configChanged", "config": config });
    client
        .dispatch(&uris.session, change(json!({ "mood": "grumpy" })))
        .await;
    other
        .until("the mood changes", |view| {
            let config = view.session(&uris.session).and_then(|session| session.config.as_ref());
            config.is_some_and(|config| config.values["mood"] == "grumpy")
        })
        .await;
    let turn = other.run_turn(&uris.chat, "t1", "hello").await;
    assert!(markdown(&turn.response_parts).starts_with("Hmph."));
    for (number, (config, field)) in [
        (json!({ "topic": "maps" }), "config.topic"),
        (json!({ "mood": "sleepy" }), "config.mood"),
        (json!({ "mood": null }), "config.mood"),
        (json!({ "mood": "cheerful", "topic": "maps" }), "config.topic"),
    ]
    .into_iter()
    .enumerate()
    {
        client.dispatch(&uris.session, change(config)).await;
        let reason = client.refusal(number + 1).await;
        assert!(reason.contains(field), "{reason}");
    }
    let config = client.session(&uris.session).config.expect("settings");
    assert_eq!(config.values["mood"], "grumpy", "all or nothing");
    client.turn_end(&uris.chat, "t1").await;
    client.assert_converged().await;
    other.assert_converged().await;
    // Malformed ones, which the published client would not send.
    let mut raw = RawClient::initialized(host.address(), "raw").await;
    for (seq, action) in [
        json!({ "type": "session/configChanged" }),
        json!({ "type": "session/configChanged", "config": [] }),
        json!({ "type": "session/configChanged", "config": {}, "replace": "yes" }),
    ]
    .into_iter()
    .enumerate()
    {
        raw.dispatch(&uris.session, i64::try_from(seq).expect("small"), action)
            .await;
        let refused = raw
            .notification("a refusal", |message| message["method"] == "action")
            .await;
        assert!(refused["params"]["rejectionReason"].is_string(), "{refused}");
    }
    raw.still_works().await;
}

/// Returns the position of each key in a text.
fn order_of(text: &str, keys: &[&str]) -> Vec<usize> {
    let schema = text.find("\"properties\"").expect("a schema");
    let place = |key: &&str| text[schema..].find(&format!("\"{key}\":")).expect("the key is there");
    keys.iter().map(place).collect()
}

#[tokio::test]
async fn cmp08_e43_properties_stand_in_the_same_order_wherever_they_are_shown() {
    async fn texts(host: &HostProcess, client: &str) -> Vec<String> {
        let mut raw = RawClient::initialized(host.address(), client).await;
        let resolve = json!({ "channel": ROOT, "provider": "tour", "config": { "topic": "maps" } });
        let session = json!({ "channel": "ahp-session:/ordered" });
        let resolved = raw.call_for_text("resolveSessionConfig", resolve).await;
        vec![resolved, raw.call_for_text("subscribe", session).await]
    }
    let host = start().await;
    let client = OfficialClient::connect(host.address(), "first").await;
    client.create_session("ordered").await;
    let declared = [
        "autoApprove",
        "approvedTools",
        "workspaceApprovedTools",
        "everywhereApprovedTools",
        "mood",
        "topic",
    ];
    for reader in ["a", "b", "c"] {
        for text in texts(&host, reader).await {
            assert!(order_of(&text, &declared).is_sorted(), "{text}");
        }
        let mut raw = RawClient::initialized(host.address(), &format!("root-{reader}")).await;
        let root = raw.call_for_text("subscribe", json!({ "channel": ROOT })).await;
        assert!(
            order_of(&root, &["autoApprove", "silenceLimitMinutes"]).is_sorted(),
            "{root}"
        );
    }
}

/// (ROOT-18, ROOT-19)
#[tokio::test]
async fn root17_only_the_creator_gets_creation_progress() {
    let host = start().await;
    let mut creator = RawClient::initialized(host.address(), "creator").await;
    let mut other = RawClient::initialized(host.address(), "other").await;
    for raw in [&mut creator, &mut other] {
        raw.call("subscribe", json!({ "channel": ROOT }))
            .await
            .expect("subscribed");
    }
    let params = json!({ "channel": "ahp-session:/lamps", "progressToken": "p1" });
    creator.call("createSession", params).await.expect("created");
    let mut last = 0;
    loop {
        let progress = creator
            .notification("progress", |message| message["method"] == "root/progress")
            .await;
        let params = &progress["params"];
        assert_eq!(
            (&params["channel"], &params["progressToken"]),
            (&json!(ROOT), &json!("p1"))
        );
        let done = params["progress"].as_u64().expect("a number");
        assert!(done >= last, "ROOT-17: never back");
        last = done;
        if params["total"].as_u64() == Some(done) {
            break;
        }
    }
    other.still_works().await;
    let named = json!({ "type": "session/titleChanged", "title": "Lamps" });
    creator.dispatch("ahp-session:/lamps", 1, named).await;
    let heard = |message: &Value| message["method"] == "root/sessionAdded";
    other.notification("the session", heard).await;
    other.still_works().await;
    assert!(
        !other.has_notification(|message| message["method"] == "root/progress"),
        "ROOT-19"
    );
}

//! Disabled customizations stay disabled: after rescans, in other sessions, and after a kill.

use innkeeper_testkit::official::{OfficialClient, markdown};
use innkeeper_testkit::process::HostProcess;
use serde_json::{Value, json};

use crate::customizations::support::{
    Workspace, child, entry, known, session_in, skill, toggle, until_entry, until_names,
};
use crate::{options, start_with_client};

const SKILLS: &str = ".claude/skills";

fn is_off(entry: &Value, name: &str) -> bool {
    let children = entry["children"].as_array().map(Vec::as_slice).unwrap_or_default();
    children
        .iter()
        .any(|child| child["name"] == name && child["enabled"] == false)
}

#[tokio::test]
async fn cus08_cus16_d73_toggles_of_every_scope_survive_rescans_and_a_kill() {
    let (host, client) = start_with_client().await;
    let workspace = Workspace::new();
    for name in ["here", "inside", "everywhere", "on"] {
        workspace.skill(name);
    }
    let one = session_in(&client, "one", &workspace).await;
    let two = session_in(&client, "two", &workspace).await;
    let id = |name: &str| child(&client, &one.session, SKILLS, name)["id"].clone();
    let decisions = [
        ("here", json!([{ "kind": "session", "enabled": false }])),
        (
            "inside",
            json!([{ "kind": "workspace", "uri": workspace.uri(), "enabled": false }]),
        ),
        ("everywhere", json!([{ "kind": "global", "enabled": false }])),
    ];
    for (name, decision) in decisions {
        toggle(&client, &one.session, &id(name), decision).await;
    }
    let all = |entry: &Value| ["here", "inside", "everywhere"].iter().all(|name| is_off(entry, name));
    let wide = |entry: &Value| {
        is_off(entry, "inside") && is_off(entry, "everywhere") && !is_off(entry, "here") && !is_off(entry, "on")
    };
    until_entry(&client, &one.session, SKILLS, "has three that are off", all).await;
    until_entry(&client, &two.session, SKILLS, "has two that are off", wide).await;
    // Read again.
    workspace.write(".claude/skills/here/SKILL.md", &skill("here", "Edited."));
    until_entry(&client, &one.session, SKILLS, "is edited", |entry| {
        entry.to_string().contains("Edited.") && all(entry)
    })
    .await;
    client.assert_converged().await;
    let host = host.kill_and_restart().await;
    let client = OfficialClient::connect(host.address(), "second").await;
    client.subscribe(&one.session).await;
    known(&client, &one.session).await;
    until_entry(&client, &one.session, SKILLS, "has three that are off", all).await;
    // A new session, and a change that triggers a rescan.
    let three = session_in(&client, "three", &workspace).await;
    until_entry(&client, &three.session, SKILLS, "has two that are off", wide).await;
    workspace.skill("later");
    for session in [&one.session, &three.session] {
        until_names(
            &client,
            session,
            SKILLS,
            &["everywhere", "here", "inside", "later", "on"],
        )
        .await;
    }
    assert!(all(&entry(&client, &one.session, SKILLS)));
    client.assert_converged().await;
}

#[tokio::test]
async fn d74_a_disabled_plugin_disables_its_skills_and_servers_until_enabled() {
    // With 0 no turn asks about the server, which stays untrusted here.
    let host = HostProcess::start(options().limit("mcp_trust_ms", 0)).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let workspace = Workspace::new();
    workspace.write(".agents/plugins/p/.plugin/plugin.json", r#"{ "name": "p" }"#);
    workspace.write(".agents/plugins/p/skills/wave/SKILL.md", &skill("wave", "Waves."));
    let servers = json!({ "mcpServers": { "db": { "command": "/bin/false" } } });
    workspace.write(".agents/plugins/p/.mcp.json", &servers.to_string());
    let uris = session_in(&client, "plugin", &workspace).await;
    // The server is not trusted, and its status says so for as long as it is desired.
    let server_is = |kind: &'static str| {
        move |entry: &Value| {
            let children = entry["children"].as_array().map(Vec::as_slice).unwrap_or_default();
            let server = children.iter().find(|child| child["name"] == "db");
            server.is_some_and(|server| server["state"]["kind"] == kind)
        }
    };
    until_entry(
        &client,
        &uris.session,
        "p",
        "has a server that is wanted",
        server_is("error"),
    )
    .await;
    let has_skill = async |turn: &str| {
        let turn = client.run_turn(&uris.chat, turn, "/customizations").await;
        markdown(&turn.response_parts).contains("wave`")
    };
    assert!(has_skill("t1").await);
    let plugin = entry(&client, &uris.session, "p")["id"].clone();
    let before = entry(&client, &uris.session, "p")["children"].clone();
    let off = json!([{ "kind": "session", "enabled": false }]);
    toggle(&client, &uris.session, &plugin, off.clone()).await;
    until_entry(&client, &uris.session, "p", "is off with its server", |entry| {
        entry["enablement"] == off && server_is("stopped")(entry)
    })
    .await;
    assert_eq!(
        entry(&client, &uris.session, "p")["children"][0],
        before[0],
        "children stay as they are"
    );
    assert!(!has_skill("t2").await);
    let turn = client.run_turn(&uris.chat, "t3", "/p:wave").await;
    let parts = json!(turn.response_parts).to_string();
    assert!(parts.contains("is switched off"), "{parts}");
    toggle(
        &client,
        &uris.session,
        &plugin,
        json!([{ "kind": "session", "enabled": true }]),
    )
    .await;
    until_entry(&client, &uris.session, "p", "is on with its server", server_is("error")).await;
    assert!(has_skill("t4").await);
    client.assert_converged().await;
}

#[tokio::test]
async fn d73_a_renamed_file_is_on() {
    let (_host, client) = start_with_client().await;
    let workspace = Workspace::new();
    workspace.skill("mine");
    let uris = session_in(&client, "renamed", &workspace).await;
    let mine = child(&client, &uris.session, SKILLS, "mine")["id"].clone();
    toggle(
        &client,
        &uris.session,
        &mine,
        json!([{ "kind": "session", "enabled": false }]),
    )
    .await;
    until_entry(&client, &uris.session, SKILLS, "is off", |entry| is_off(entry, "mine")).await;
    std::fs::rename(
        workspace.path(".claude/skills/mine"),
        workspace.path(".claude/skills/yours"),
    )
    .expect("renamed");
    until_entry(&client, &uris.session, SKILLS, "is on under another name", |entry| {
        entry["children"][0]["uri"]
            .as_str()
            .is_some_and(|uri| uri.contains("yours"))
            && !is_off(entry, "mine")
    })
    .await;
    client.assert_converged().await;
}

#[tokio::test]
async fn e31_a_decision_for_one_session_leaves_the_one_for_all_sessions_alone() {
    let (_host, client) = start_with_client().await;
    let workspace = Workspace::new();
    workspace.skill("bell");
    let one = session_in(&client, "one", &workspace).await;
    let two = session_in(&client, "two", &workspace).await;
    let id = child(&client, &one.session, SKILLS, "bell")["id"].clone();
    let off = |entry: &Value| is_off(entry, "bell");
    toggle(
        &client,
        &one.session,
        &id,
        json!([{ "kind": "global", "enabled": false }]),
    )
    .await;
    until_entry(&client, &two.session, SKILLS, "has one that is off", off).await;
    toggle(
        &client,
        &one.session,
        &id,
        json!([{ "kind": "session", "enabled": true }]),
    )
    .await;
    until_entry(&client, &one.session, SKILLS, "has one that is on", |entry| !off(entry)).await;
    let three = session_in(&client, "three", &workspace).await;
    assert!(
        off(&entry(&client, &three.session, SKILLS)),
        "it was switched off for all"
    );
    assert!(off(&entry(&client, &two.session, SKILLS)));
    client.assert_converged().await;
}

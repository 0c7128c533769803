//! MCP servers of plugins that clients publish: children of the plugin, subject to trust.

use std::path::PathBuf;
use std::process::Command;

use innkeeper_testkit::official::{OfficialClient, SessionUris, View, markdown};
use innkeeper_testkit::process::{HostProcess, gone, lives};
use serde_json::{Value, json};

use crate::customizations::clients::{Served, URI, published};
use crate::customizations::support::{Workspace, entries, session_in};
use crate::options;

/// Starts the odd server with what came with the plugin, and notes from where and as which process.
const SCRIPT: &str =
    "echo \"$0\" >> \"$NOTES\"\necho $$ >> \"$NOTES\"\nexec \"$PROGRAM\" --exact odd_server --nocapture\n";

/// A plugin with a server in its `.mcp.json`. The server notes in this file how it is run.
fn plugin(notes: &std::path::Path) -> Served {
    let env = json!({
        innkeeper_testkit::misbehaving_server::KIND: "plain", "NOTES": notes, "PROGRAM": std::env::current_exe().expect("this program"),
    });
    let server = json!({ "command": "/bin/sh", "args": ["${CLAUDE_PLUGIN_ROOT}/run.sh"], "env": env });
    let servers = json!({ "mcpServers": { "desk": server } }).to_string();
    Served::new(&[
        (".claude-plugin/plugin.json", r#"{ "name": "Reception" }"#),
        (".mcp.json", &servers),
        ("run.sh", SCRIPT),
    ])
}

/// The announcement of the plugin, with what the client says about its server.
fn announced(is_on: bool) -> Value {
    let mut announcement = published("publisher", Some("1"));
    announcement["activeClient"]["customizations"][0]["childEnablement"] =
        json!({ "desk": [{ "kind": "global", "enabled": is_on }] });
    announcement
}

/// The server as a client is shown it, which is a child of the plugin.
fn desk(view: &View, session: &str) -> Value {
    let entries = json!(view.session(session).map(|session| &session.customizations));
    let entries = entries.as_array().into_iter().flatten();
    let plugins = entries.filter(|entry| entry["type"] == "plugin" && entry["uri"] == URI);
    let children = plugins.flat_map(|plugin| plugin["children"].as_array().into_iter().flatten());
    let mut servers = children.filter(|child| child["type"] == "mcpServer" && child["name"] == "desk");
    servers.next().cloned().unwrap_or_default()
}

/// The same of the plugin that one client published, where several have one of this address.
fn desk_of(view: &View, session: &str, client: &str) -> Value {
    let entries = json!(view.session(session).map(|session| &session.customizations));
    let entries = entries.as_array().into_iter().flatten();
    let mut plugins = entries.filter(|entry| entry["type"] == "plugin" && entry["clientId"] == client);
    let children = plugins.next().map(|plugin| plugin["children"].clone());
    let children = children.as_ref().and_then(Value::as_array).into_iter().flatten();
    let mut servers = children.filter(|child| child["type"] == "mcpServer");
    servers.next().cloned().unwrap_or_default()
}

async fn desk_is(client: &OfficialClient, uris: &SessionUris, kind: &str) -> Value {
    let session = &uris.session;
    let is = |view: &View| desk(view, session)["state"]["kind"] == kind;
    client.until(&format!("the server is {kind}"), is).await;
    let top = entries(client, session);
    let alone = top.iter().filter(|entry| entry["type"] == "mcpServer");
    assert_eq!(alone.count(), 0, "it is the plugin's, and never stands alone: {top:#?}");
    desk(&client.view(), session)
}

/// Lets what a client published run, from the shell.
fn allow(host: &HostProcess, client: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_innkeeper"))
        .args(["trust", "allow", &format!("{client}@{URI}"), "--data"])
        .arg(host.data_path(""))
        .env_clear()
        .env("HOME", host.path(""))
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{output:?}");
}

/// From where the server was started, and as which process, each time.
fn starts(notes: &std::path::Path) -> Vec<(PathBuf, u32)> {
    let text = std::fs::read_to_string(notes).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks_exact(2);
    pairs
        .map(|pair| (PathBuf::from(pair[0]), pair[1].parse().expect("a process")))
        .collect()
}

#[tokio::test]
async fn p12_cus17_cus22_a_client_plugin_server_runs_from_the_copy() {
    let host = HostProcess::start(options().limit("grace_ms", 100)).await;
    let client = OfficialClient::connect(host.address(), "watcher").await;
    let mut publisher = OfficialClient::connect(host.address(), "publisher").await;
    let workspace = Workspace::new();
    let notes = workspace.path("notes");
    plugin(&notes).serve(&publisher);
    let uris = session_in(&client, "desk", &workspace).await;
    publisher.subscribe(&uris.session).await;
    publisher.dispatch(&uris.session, announced(true)).await;

    // Users are asked about the server that this client published.
    let server = desk_is(&client, &uris, "error").await;
    assert_eq!(server["state"]["error"]["errorType"], "notTrusted", "{server}");
    let message = server["state"]["error"]["message"].as_str().expect("a sentence");
    let command = format!("innkeeper trust allow 'publisher@{URI}'");
    assert!(message.contains(&command), "{message}");
    assert_eq!(starts(&notes), [], "nothing ran before");
    allow(&host, "publisher");
    let server = desk_is(&client, &uris, "ready").await;
    let uri = server["uri"].as_str().unwrap_or_default();
    assert!(uri.starts_with(URI), "its URI stays the client's: {uri}");
    let (from, first) = starts(&notes).remove(0);
    let copies = std::fs::canonicalize(host.data_path("client-plugins")).expect("there");
    let from = std::fs::canonicalize(from).expect("there");
    assert!(from.starts_with(&copies), "{from:?} is not in {copies:?}");

    client
        .start_turn(&uris.chat, "t1", r#"/mcp desk echo {"text": "hello"}"#)
        .await;
    let wait = client.wait_for(&uris.session, "toolConfirmation").await;
    client.decide(&wait, json!({ "approved": true })).await;
    let turn = client.turn_end(&uris.chat, "t1").await;
    let words = markdown(&turn.response_parts);
    assert!(words.contains("hello"), "{words}");

    // The client switches it off, and on again.
    publisher.dispatch(&uris.session, announced(false)).await;
    desk_is(&client, &uris, "stopped").await;
    gone(first).await;
    publisher.dispatch(&uris.session, announced(true)).await;
    desk_is(&client, &uris, "ready").await;
    let (_, second) = starts(&notes).remove(1);
    assert!(lives(second));
    client.assert_converged().await;

    // It ends with its client.
    publisher.cut().await;
    let session = &uris.session;
    client
        .until("the server is gone", |view| desk(view, session).is_null())
        .await;
    gone(second).await;
    client.assert_converged().await;
}

#[tokio::test]
async fn p12_trust_in_a_client_plugin_does_not_cover_another_client() {
    let host = HostProcess::start(options()).await;
    let watcher = OfficialClient::connect(host.address(), "watcher").await;
    let workspace = Workspace::new();
    let uris = session_in(&watcher, "desks", &workspace).await;
    let session = &uris.session;
    let mut publishers = Vec::new();
    for name in ["alice", "bob"] {
        let client = OfficialClient::connect(host.address(), name).await;
        plugin(&workspace.path(name)).serve(&client);
        client.subscribe(session).await;
        client.dispatch(session, published(name, Some("1"))).await;
        publishers.push(client);
    }
    let is = |client: &'static str, kind: &'static str| {
        move |view: &View| desk_of(view, session, client)["state"]["kind"] == kind
    };
    for name in ["alice", "bob"] {
        watcher.until("users are asked", is(name, "error")).await;
        let server = desk_of(&watcher.view(), session, name);
        let message = server["state"]["error"]["message"].as_str().expect("a sentence");
        assert!(message.contains(&format!("'{name}@{URI}'")), "{message}");
    }
    allow(&host, "alice");
    watcher
        .until("the server that was allowed is ready", is("alice", "ready"))
        .await;
    let other = desk_of(&watcher.view(), session, "bob");
    assert_eq!(other["state"]["error"]["errorType"], "notTrusted", "{other}");
    assert_eq!(starts(&workspace.path("bob")), [], "that one was not started");
    watcher.assert_converged().await;
}

#[tokio::test]
async fn p12_a_session_asks_about_the_server_of_a_client_s_plugin() {
    let host = HostProcess::start(options()).await;
    let watcher = OfficialClient::connect(host.address(), "watcher").await;
    let publisher = OfficialClient::connect(host.address(), "publisher").await;
    let workspace = Workspace::new();
    let notes = workspace.path("notes");
    plugin(&notes).serve(&publisher);
    let uris = session_in(&watcher, "desk", &workspace).await;
    publisher.subscribe(&uris.session).await;
    publisher.dispatch(&uris.session, announced(true)).await;
    desk_is(&watcher, &uris, "error").await;

    watcher.start_turn(&uris.chat, "t1", "/mcp").await;
    let question = watcher.wait_for(&uris.session, "chatInput").await;
    let message = question["request"]["message"].as_str().unwrap_or_default();
    let place = format!("The plugin `publisher@{URI}`");
    for part in [
        &place,
        "`desk` runs `/bin/sh ${CLAUDE_PLUGIN_ROOT}/run.sh`",
        "all files of the plugin (3)",
    ] {
        assert!(message.contains(part), "{part} in {message}");
    }
    assert_eq!(starts(&notes), [], "nothing ran before");
    let value = json!({ "kind": "selected", "value": "allow" });
    let answer = json!({
        "type": "chat/inputCompleted", "requestId": question["request"]["id"], "response": "accept",
        "answers": { "trust": { "state": "submitted", "value": value } },
    });
    watcher.dispatch(&uris.chat, answer).await;
    let turn = watcher.turn_end(&uris.chat, "t1").await;
    let words = markdown(&turn.response_parts);
    assert!(words.contains("desk") && words.contains("echo"), "{words}");
    desk_is(&watcher, &uris, "ready").await;
    watcher.assert_converged().await;
}

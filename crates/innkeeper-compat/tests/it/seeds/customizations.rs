//! The guide about customizations of 0.5: plugins that the host reads from the client, directories that clients save
//! into, and active clients that leave.

use std::time::Duration;

use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::Incoming;
use serde_json::{Value, json};

use super::reader::Reader;
use crate::options;

const VERSION: &str = "0.5.0";
const PLUGIN: &str = "virtual://my-client/workspace-skills";

/// The plugin of the guide, as the client publishes it.
fn published(client: &str) -> Value {
    json!({
        "type": "session/activeClientSet",
        "activeClient": {
            "clientId": client,
            "displayName": "VS Code",
            "tools": [{ "name": "runUnitTests" }],
            "customizations": [
                {
                    "type": "plugin",
                    "id": "client-plugin-1",
                    "uri": PLUGIN,
                    "name": "Workspace Skills",
                    "enabled": true,
                    "nonce": "sha256:...",
                },
            ],
        },
    })
}

/// The client's files: one skill.
fn file(method: &str, uri: &str) -> Option<Value> {
    let list = |name: &str, kind: &str| Some(json!({ "entries": [{ "name": name, "type": kind }] }));
    match (method, uri.strip_prefix(PLUGIN)?.trim_matches('/')) {
        ("resourceList", "") => list("skills", "directory"),
        ("resourceList", "skills") => list("greet", "directory"),
        ("resourceList", "skills/greet") => list("SKILL.md", "file"),
        ("resourceRead", "skills/greet/SKILL.md") => {
            let text = "---\nname: greet\ndescription: Says hello.\n---\nSay hello.\n";
            Some(json!({ "data": text, "encoding": "utf-8" }))
        }
        _ => None,
    }
}

/// The plugin among the customizations of a session.
fn plugin(state: &Value) -> Option<&Value> {
    let entries = state["customizations"].as_array()?;
    entries.iter().find(|entry| entry["uri"] == PLUGIN)
}

impl Reader {
    /// Answers requests for its files until an action of the session fits.
    async fn serve_until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let Incoming::Message(message) = self.client.receive().await else {
                panic!("the connection ended");
            };
            if fits(&message["params"]["action"]) {
                return message["params"]["action"].clone();
            }
            let Some(method) = message["method"].as_str().filter(|_| message.get("id").is_some()) else {
                continue;
            };
            let uri = message["params"]["uri"].as_str().unwrap_or_default();
            let mut answer = json!({ "jsonrpc": "2.0", "id": message["id"] });
            match file(method, uri) {
                Some(result) => answer["result"] = result,
                None => answer["error"] = json!({ "code": -32008, "message": format!("{uri} is not there") }),
            }
            self.client.send(answer.to_string()).await;
        }
    }

    /// Publishes the plugin and returns the entry that the host made of it.
    async fn publishes(&mut self, client: &str) -> Value {
        self.client.dispatch(&self.session, 1, published(client)).await;
        let is_loaded = |action: &Value| {
            action["type"] == "session/customizationUpdated"
                && action["customization"]["uri"] == PLUGIN
                && action["customization"]["load"]["kind"] == "loaded"
        };
        self.serve_until(is_loaded).await["customization"].clone()
    }
}

#[tokio::test]
async fn plugins_of_0_5_are_expanded_and_go_with_their_client() {
    let host = HostProcess::start(options().limit("grace_ms", 100)).await;
    let session = "ahp-session:/plugins";
    let mut watcher = Reader::create(&host, VERSION, "watcher", session, json!({})).await;
    for (client, leaves) in [
        ("leaves", "removed"),
        ("disconnects", "lost"),
        ("unsubscribes", "unsubscribed"),
    ] {
        let mut publisher = Reader::connect(&host, VERSION, client, session, Value::Null).await;
        publisher.state().await;
        let entry = publisher.publishes(client).await;
        // "The host parses the plugin and surfaces it … with clientId set and children populated."
        assert_eq!(
            (&entry["clientId"], &entry["enabled"], &entry["name"]),
            (&json!(client), &json!(true), &json!("Workspace Skills"))
        );
        let child = &entry["children"][0];
        assert_eq!(
            [&child["type"], &child["name"], &child["description"]],
            ["skill", "greet", "Says hello."],
            "{entry}"
        );
        assert!(child["id"].is_string() && child["uri"].is_string(), "{child}");
        let state = watcher.state().await;
        assert_eq!(plugin(&state), Some(&entry), "{state}");
        assert_eq!(state["activeClients"].as_array().map(Vec::len), Some(1));
        watcher.catch_up().await;
        match leaves {
            "removed" => {
                let removed = json!({ "type": "session/activeClientRemoved", "clientId": client });
                publisher.client.dispatch(session, 2, removed).await;
            }
            "lost" => drop(publisher),
            _ => {
                publisher
                    .client
                    .notify("unsubscribe", json!({ "channel": session }))
                    .await
            }
        }
        // "The host removes a client with session/activeClientRemoved", and "SHOULD remove its customizations".
        let removed = watcher.action("session/activeClientRemoved").await;
        assert_eq!(removed["clientId"], client);
        let mut state = watcher.state().await;
        while plugin(&state).is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            state = watcher.state().await;
        }
        assert_eq!(state["activeClients"], json!([]), "{leaves}");
    }
}

/// "It targets a DirectoryCustomization with writable: true and uses resourceWrite to write into it. The host … surfaces
/// the resulting child by re-dispatching session/customizationUpdated for the directory."
#[tokio::test]
async fn a_customization_is_saved_as_the_guide_of_0_5_says() {
    let folder = tempfile::tempdir().expect("a directory");
    let host = crate::start().await;
    let directory = format!("file://{}", folder.path().canonicalize().expect("there").display());
    let session = "ahp-session:/saving";
    let more = json!({ "workingDirectory": directory });
    let mut reader = Reader::create(&host, VERSION, "reader", session, more).await;
    let target = loop {
        let state = reader.state().await;
        let entries = state["customizations"].as_array().cloned().unwrap_or_default();
        let fits = |entry: &&Value| {
            entry["type"] == "directory"
                && entry["contents"] == "skill"
                && entry["writable"] == true
                && entry["uri"].as_str().is_some_and(|uri| uri.starts_with(&directory))
        };
        match entries.iter().find(fits) {
            Some(entry) => break entry.clone(),
            None => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let uri = format!(
        "{}/greet/SKILL.md",
        target["uri"].as_str().expect("a URI").trim_end_matches('/')
    );
    let text = "---\nname: greet\ndescription: Says hello.\n---\nSay hello.\n";
    let params = json!({ "channel": "ahp-root://", "uri": uri, "data": text, "encoding": "utf-8" });
    let written = reader.client.call("resourceWrite", params).await;
    assert_eq!(written, Ok(json!({})));
    let updated = reader
        .action_with("session/customizationUpdated", |action| {
            let children = action["customization"]["children"].as_array();
            action["customization"]["id"] == target["id"] && children.is_some_and(|children| !children.is_empty())
        })
        .await;
    let child = &updated["customization"]["children"][0];
    assert_eq!([&child["type"], &child["name"]], ["skill", "greet"], "{updated}");
    assert_eq!(child["uri"], uri);

    // "Any client can enable or disable a top-level container."
    let toggle = json!({ "type": "session/customizationToggled", "id": target["id"], "enabled": false });
    reader.does(toggle).await;
    // "The action is a no-op if no container has that id."
    let before = reader.state().await["customizations"].clone();
    let toggle = json!({ "type": "session/customizationToggled", "id": "no such id", "enabled": false });
    reader.does(toggle).await;
    assert_eq!(reader.state().await["customizations"], before);
    // session/customizationRemoved and session/customizationUpdated are not for clients.
    for action in [
        json!({ "type": "session/customizationRemoved", "id": target["id"] }),
        json!({ "type": "session/customizationUpdated", "customization": target }),
        json!({ "type": "session/customizationsChanged", "customizations": [] }),
    ] {
        let answer = reader.dispatch(action.clone()).await;
        assert_eq!(answer["action"], action);
        assert!(answer["rejectionReason"].is_string(), "{answer}");
    }
}

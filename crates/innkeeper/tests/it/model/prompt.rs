//! The system prompt: its sections, and who may rewrite them.

use innkeeper_testkit::model_server::{Api, Reply, Script};
use innkeeper_testkit::official::markdown;
use innkeeper_testkit::raw::{Incoming, RawClient};
use serde_json::{Value, json};

use crate::model::support::{PROVIDER, Setup, uri_of};

fn always() -> Script {
    Script::by(|_| Reply::words("Yes."))
}

#[tokio::test]
async fn rules_of_the_directory_and_configured_sections_are_in_the_prompt() {
    for api in Api::ALL {
        let models = "titles = false\nprompt = { tone = \"Speak like a pirate.\" }";
        let stage = Setup::new(api).models(models).stage(always()).await;
        stage.write("AGENTS.md", "Use tabs, never spaces.");
        // A new file applies once the state shows it.
        let is_rule = |child: &Value| child["uri"].as_str().is_some_and(|uri| uri.ends_with("/AGENTS.md"));
        stage
            .client
            .until("the rule is shown", |view| {
                let session = json!(view.session(&stage.uris.session));
                let containers = session["customizations"].as_array().into_iter().flatten();
                let mut children = containers.flat_map(|one| one["children"].as_array().into_iter().flatten());
                children.any(is_rule)
            })
            .await;
        stage.run_turn("t1", "Hello.").await;
        let system = stage.last_asked().system();
        assert!(system.contains("Use tabs, never spaces."), "{api:?}: {system}");
        assert!(
            system.contains("Speak like a pirate.") && !system.contains("Be direct and brief"),
            "{system}"
        );
        assert!(
            system.contains(&stage.directory.path().display().to_string()),
            "{system}"
        );
        // Changes apply to the next turn.
        stage.write("AGENTS.md", "Use spaces after all.");
        stage.run_turn("t2", "Hello again.").await;
        assert!(stage.last_asked().system().contains("Use spaces after all."));
        stage.assert_in_order().await;
    }
}

/// Answers requests of the host until a notification fits; returns it and the sections that were asked about.
async fn rewrite(client: &mut RawClient, fits: impl Fn(&Value) -> bool) -> Vec<Vec<String>> {
    let mut asked = Vec::new();
    if let Some(index) = client.notifications.iter().position(&fits) {
        client.notifications.remove(index);
        return asked;
    }
    loop {
        let Incoming::Message(message) = client.receive().await else {
            panic!("the connection ended");
        };
        if message["method"] == "systemMessageTransform" {
            let sections = message["params"]["sections"].as_object().expect("sections").clone();
            asked.push(sections.keys().cloned().collect());
            let rewritten: Value = sections
                .keys()
                .map(|id| (id.clone(), json!({ "content": "Rhyme." })))
                .collect();
            let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "sections": rewritten } });
            client.send(answer.to_string()).await;
        } else if fits(&message) {
            return asked;
        }
    }
}

#[tokio::test]
async fn smt06_a_rewritten_section_reaches_the_model() {
    let stage = Setup::new(Api::Messages).stage(always()).await;
    let mut raw = RawClient::initialized(stage.host.address(), "poet").await;
    let session = "ahp-session:/rhymes";
    let create = json!({
        "channel": session,
        "provider": PROVIDER,
        "workingDirectories": [uri_of(stage.directory.path())],
        "activeClient": {
            "clientId": "poet",
            "tools": [],
            "systemMessageTransform": { "sections": ["tone", "identity"] },
        },
    });
    raw.ask("createSession", create).await;
    let is_answer = |message: &Value| message.get("result").is_some() || message.get("error").is_some();
    let mut asked = rewrite(&mut raw, is_answer).await;
    let subscribe = raw.ask("subscribe", json!({ "channel": session })).await;
    let mut snapshot = Value::Null;
    while snapshot.is_null() {
        let Incoming::Message(message) = raw.receive().await else {
            panic!("the connection ended");
        };
        if message["method"] == "systemMessageTransform" {
            let sections = message["params"]["sections"].as_object().expect("sections").clone();
            asked.push(sections.keys().cloned().collect());
            let rewritten = json!({ "tone": { "content": "Rhyme." } });
            let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "sections": rewritten } });
            raw.send(answer.to_string()).await;
        } else if message["id"] == json!(subscribe) {
            snapshot = message["result"]["snapshot"].clone();
        }
    }
    // A turn is taken once the session is ready, and it is not before its prompt is rendered.
    if snapshot["state"]["lifecycle"] != "ready" {
        let is_ready = |message: &Value| message["params"]["action"]["type"] == "session/ready";
        asked.extend(rewrite(&mut raw, is_ready).await);
    }
    let chat = snapshot["state"]["defaultChat"].as_str().expect("a chat").to_owned();
    let subscribed = raw.ask("subscribe", json!({ "channel": chat })).await;
    asked.extend(rewrite(&mut raw, |message| message["id"] == json!(subscribed)).await);
    let turn = innkeeper_testkit::official::turn_started("t1", "Hello.");
    raw.dispatch(&chat, 1, turn).await;
    let is_over = |message: &Value| message["params"]["action"]["type"] == "chat/turnComplete";
    asked.extend(rewrite(&mut raw, is_over).await);
    assert!(!asked.is_empty());
    assert!(
        asked.iter().all(|ids| *ids == ["tone"]),
        "no client may rewrite `identity`: {asked:?}"
    );
    let system = stage.last_asked().system();
    assert!(
        system.contains("Rhyme.") && !system.contains("Be direct and brief"),
        "{system}"
    );
    assert!(system.starts_with("You are a capable coding agent."), "{system}");
    // Others are not touched by it.
    let turn = stage.run_turn("t1", "Hello.").await;
    assert_eq!(markdown(&turn.response_parts), "Yes.");
    assert!(!stage.last_asked().system().contains("Rhyme."));
    stage.assert_in_order().await;
}

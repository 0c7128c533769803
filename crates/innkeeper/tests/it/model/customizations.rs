//! Customizations of a workspace in model requests: discovered by the real program, toggled by the published client,
//! and checked at the model server.

mod hooks;
mod prompt_files;
mod skill_files;

use std::path::Path;

use innkeeper_testkit::model_server::{Api, ModelServer, ReceivedRequest, Reply, Script};
use innkeeper_testkit::official::{OfficialClient, turn_started};
use serde_json::{Value, json};

use crate::model::support::{Setup, Stage, create_session, error_of, uri_of, users};

const FILES: &[(&str, &str)] = &[
    ("AGENTS.md", "Wipe your feet.\n"),
    ("src/main.rs", "fn main() {}\n"),
    (
        ".claude/rules/rust.md",
        "---\npaths:\n  - \"**/*.rs\"\n---\nUse tabs.\n",
    ),
    (
        ".claude/skills/bell/SKILL.md",
        "---\nname: bell\ndescription: How to ring the bell.\n---\nRing it twice.\n",
    ),
    (".claude/skills/bell/scripts/ring.sh", "echo ding\n"),
    (
        ".claude/agents/reviewer.md",
        "---\nname: reviewer\ndescription: Finds faults.\ntools: Read, Grep\n---\nYou find faults.\n",
    ),
    (
        ".github/prompts/release.prompt.md",
        "---\ndescription: Makes a release.\n---\nRelease ${input:version}.\n",
    ),
];

/// A session in a directory with files; nothing is waited for but the session itself.
async fn stage(script: impl Into<Script>) -> Stage {
    let server = ModelServer::start(script).await;
    let host = Setup::new(Api::Chat).host(&server).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let directory = tempfile::tempdir().expect("a directory");
    for (name, text) in FILES {
        put(&directory.path().join(name), text);
    }
    let uris = create_session(&client, "work", directory.path()).await;
    Stage {
        server,
        host,
        client,
        directory,
        uris,
    }
}

fn put(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("in a directory")).expect("made");
    std::fs::write(path, text).expect("written");
}

fn count(asked: &ReceivedRequest, text: &str) -> usize {
    let said = asked.said().into_iter().map(|said| format!("{said:?}"));
    said.map(|said| said.matches(text).count()).sum::<usize>() + asked.system().matches(text).count()
}

/// The id of a child by its name.
fn id_of(stage: &Stage, name: &str) -> Option<Value> {
    let session = serde_json::to_value(stage.client.session(&stage.uris.session)).expect("JSON");
    let containers = session["customizations"].as_array().cloned().unwrap_or_default();
    let mut children = containers
        .iter()
        .flat_map(|container| container["children"].as_array().cloned().unwrap_or_default());
    children
        .find(|child| child["name"] == name)
        .map(|child| child["id"].clone())
}

async fn switch(stage: &Stage, id: &Value, enabled: bool) {
    let enablement = json!([{ "kind": "session", "enabled": enabled }]);
    let action = json!({ "type": "session/customizationToggled", "id": id, "enablement": enablement });
    stage.client.dispatch(&stage.uris.session, action).await;
}

async fn completions(stage: &Stage, text: &str) -> Vec<String> {
    let params = json!({ "channel": stage.uris.chat, "kind": "userMessage", "text": text, "offset": text.len() });
    let found: Value = stage.client.request("completions", params).await.expect("found");
    let items = found["items"].as_array().cloned().unwrap_or_default();
    let label = |item: &Value| item["attachment"]["label"].as_str().map(str::to_owned);
    items.iter().filter_map(label).collect()
}

#[tokio::test]
async fn cus26_the_first_turn_uses_the_customizations_of_the_workspace() {
    let script = [
        Reply::new()
            .call("read_file", json!({ "path": "src/main.rs" }))
            .call("use_skill", json!({ "name": "bell" })),
        Reply::words("Rung."),
        Reply::words("Released."),
    ];
    let stage = stage(script).await;
    let turn = stage.run_turn("t1", "Ring.").await;
    let asked = stage.server.requests();
    assert_eq!(count(&asked[0], "Wipe your feet."), 1, "{}", asked[0].system());
    assert!(asked[0].system().contains("- bell: How to ring the bell."));
    assert_eq!(count(&asked[0], "Use tabs.") + count(&asked[0], "Ring it twice."), 0);
    assert_eq!(
        (count(&asked[1], "Use tabs."), count(&asked[1], "Ring it twice.")),
        (1, 1)
    );
    assert!(count(&asked[1], "- scripts/ring.sh") == 1, "{:#?}", asked[1].said());
    let usage = serde_json::to_value(&turn).expect("JSON")["usage"].clone();
    let rules = usage["_meta"]["innkeeper.rules"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let reasons: Vec<&Value> = rules.iter().map(|rule| &rule["reason"]).collect();
    assert_eq!(reasons, [&json!("always"), &json!("glob")], "{usage:#}");

    // A prompt is a slash command that expands; the user's message stays unchanged.
    assert_eq!(completions(&stage, "/rel").await, ["/release"]);
    let turn = stage.run_turn("t2", "/release 1.0").await;
    assert_eq!(turn.message.text, "/release 1.0");
    let said = users(&stage.last_asked()).pop().unwrap_or_default();
    assert!(
        said.starts_with("/release 1.0") && said.contains("Release 1.0."),
        "{said}"
    );
    stage.assert_in_order().await;
}

#[tokio::test]
async fn cus11_a_disabled_skill_is_neither_offered_nor_invoked_nor_loaded() {
    let script = Script::by(|asked| match users(asked).last().map(String::as_str) {
        Some("Ring.") if asked.last_results().is_empty() => Reply::new().call("use_skill", json!({ "name": "bell" })),
        _ => Reply::words("Yes."),
    });
    let stage = stage(script).await;
    stage
        .client
        .until("the skill is shown", |view| {
            let session = serde_json::to_string(&view.session(&stage.uris.session)).unwrap_or_default();
            session.contains("How to ring the bell.")
        })
        .await;
    let id = id_of(&stage, "bell").expect("shown");
    assert_eq!(completions(&stage, "/be").await, ["/bell"]);
    switch(&stage, &id, false).await;
    assert!(completions(&stage, "/be").await.is_empty());
    let turn = stage.run_turn("t1", "Hello.").await;
    assert_eq!(error_of(&turn), None);
    let asked = stage.last_asked();
    assert!(!asked.system().contains("bell") && !asked.tools().contains(&"use_skill".to_owned()));
    let (_, message, _) = error_of(&stage.run_turn("t2", "/bell now").await).expect("an error");
    assert!(message.contains("/bell is switched off"), "{message}");
    switch(&stage, &id, true).await;
    stage.run_turn("t3", "Ring.").await;
    assert_eq!(count(&stage.last_asked(), "Ring it twice."), 1);
    stage.client.assert_converged().await;
}

#[tokio::test]
async fn cus25_an_agent_of_the_workspace_is_chosen_with_its_role_and_its_tools() {
    let stage = stage([Reply::words("One."), Reply::words("Two.")]).await;
    let path = stage.directory.path().join(".claude/agents/reviewer.md");
    let mut action = turn_started("t1", "Review.");
    action["message"]["agent"] = json!({ "uri": uri_of(&path) });
    stage.client.dispatch(&stage.uris.chat, action).await;
    stage.turn_end("t1").await;
    let asked = stage.last_asked();
    assert!(asked.system().contains("You find faults."), "{}", asked.system());
    assert!(!asked.tools().contains(&"run_command".to_owned()) && asked.tools().contains(&"search".to_owned()));
    stage.run_turn("t2", "Yourself.").await;
    assert!(!stage.last_asked().system().contains("You find faults."));
    stage.assert_in_order().await;
}

#[tokio::test]
async fn rules_and_skills_in_use_hold_after_the_host_was_killed() {
    let script = Script::by(|asked| match users(asked).last().map(String::as_str) {
        Some("Ring.") if asked.last_results().is_empty() => Reply::new()
            .call("read_file", json!({ "path": "src/main.rs" }))
            .call("use_skill", json!({ "name": "bell" })),
        _ => Reply::words("Yes."),
    });
    let stage = stage(script).await;
    stage.run_turn("t1", "Ring.").await;
    let stage = stage.kill_and_restart().await;
    stage.run_turn("t2", "And now?").await;
    let asked = stage.last_asked();
    assert_eq!(count(&asked, "Use tabs."), 1, "{:#?}", asked.said());
    assert_eq!(count(&asked, "Ring it twice."), 1, "{:#?}", asked.said());
    stage.assert_in_order().await;
}

#[tokio::test]
async fn cus18_disabled_customizations_do_not_apply_to_the_next_turn() {
    let script = Script::by(|asked| match users(asked).last().map(String::as_str) {
        Some("Ring." | "Again.") if asked.last_results().is_empty() => Reply::new()
            .call("read_file", json!({ "path": "src/main.rs" }))
            .call("use_skill", json!({ "name": "bell" })),
        _ => Reply::words("Yes."),
    });
    let stage = stage(script).await;
    stage.run_turn("t1", "Ring.").await;
    let held = |stage: &Stage| {
        let asked = stage.last_asked();
        (count(&asked, "Use tabs."), count(&asked, "Ring it twice."))
    };
    let reasons = |turn: &ahp_types::state::Turn| {
        let rules = serde_json::to_value(turn).expect("JSON")["usage"]["_meta"]["innkeeper.rules"].clone();
        let rules = rules.as_array().cloned().unwrap_or_default();
        let reasons = rules.iter().map(|rule| rule["reason"].as_str().map(str::to_owned));
        reasons.collect::<Option<Vec<String>>>().expect("reasons")
    };
    let turn = stage.run_turn("t2", "And now?").await;
    assert_eq!(held(&stage), (1, 1));
    assert_eq!(
        reasons(&turn),
        ["earlier", "always"],
        "it is shown for as long as it holds (CUS-26)"
    );
    let ids = ["rust", "bell"].map(|name| id_of(&stage, name).expect("shown"));
    for id in &ids {
        switch(&stage, id, false).await;
    }
    let turn = stage.run_turn("t3", "And now?").await;
    assert_eq!(held(&stage), (0, 0), "{:#?}", stage.last_asked().said());
    assert_eq!(count(&stage.last_asked(), "disabled or deleted and no longer apply"), 2);
    assert_eq!(reasons(&turn), ["always"]);
    // It joins again once it is on and needed.
    for id in &ids {
        switch(&stage, id, true).await;
    }
    stage.run_turn("t4", "And now?").await;
    assert_eq!(held(&stage), (0, 0), "no client asked for it");
    let turn = stage.run_turn("t5", "Again.").await;
    assert_eq!(held(&stage), (1, 1), "{:#?}", stage.last_asked().said());
    assert_eq!(reasons(&turn), ["always", "glob"]);
    stage.assert_in_order().await;
}

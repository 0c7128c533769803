//! `innkeeper customizations`, with and without a session.

use std::process::{Command, Output};

use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::HostProcess;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::customizations::support::{Workspace, child, entries, entry, session_in, skill, toggle, until_entry, write};
use crate::options;

/// Runs the command with a home of its own.
fn run(home: &std::path::Path, flags: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_innkeeper"))
        .arg("customizations")
        .args(flags)
        .env_clear()
        .env("HOME", home)
        .current_dir(home)
        .output()
        .expect("the program runs")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn home() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

/// A workspace with something of everything.
fn furnished() -> Workspace {
    let workspace = Workspace::new();
    workspace.skill("greet");
    workspace.write(".github/skills/greet/SKILL.md", &skill("greet", "The one that wins."));
    workspace.write(
        ".claude/commands/fix.md",
        "---\ndisable-model-invocation: true\n---\nFix $ARGUMENTS.\n",
    );
    workspace.write(".claude/rules/rust.md", "---\npaths: ['**/*.rs']\n---\nBe brief.\n");
    workspace.write(".agents/plugins/broken/.plugin/plugin.json", "{");
    workspace.write("AGENTS.md", "Be kind.\n");
    workspace
}

#[tokio::test]
async fn json_equals_the_customizations_of_a_new_session() {
    let workspace = furnished();
    // Off until a client enables it.
    let idle = r#"mcp.servers.idle = { command = "/bin/false", enabled = false }"#;
    let host = HostProcess::start(options().setting(idle)).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let one = session_in(&client, "one", &workspace).await;
    let (path, home) = (workspace.path("").display().to_string(), host.path(""));
    let (config, data) = (
        host.path("innkeeper.toml").display().to_string(),
        host.data_path("").display().to_string(),
    );
    let flags = |wanted: &'static str| {
        [
            path.clone(),
            wanted.to_owned(),
            "--config".into(),
            config.clone(),
            "--data".into(),
            data.clone(),
        ]
    };
    let ask = |wanted: &'static str| {
        let flags = flags(wanted);
        text(&run(&home, &flags.each_ref().map(String::as_str)))
    };
    let printed = || -> Value { serde_json::from_str(&ask("--json")).expect("JSON") };
    assert_eq!(printed(), json!(entries(&client, &one.session)));
    let idle = entry(&client, &one.session, "idle");
    assert_eq!(idle["enablement"], json!([{ "kind": "global", "enabled": false }]));

    // Decisions of one session stay there; others apply to the next session.
    let in_workspace = json!([{ "kind": "workspace", "uri": workspace.uri(), "enabled": false }]);
    let everywhere = |enabled: bool| json!([{ "kind": "global", "enabled": enabled }]);
    let of = |container: &str, name: &str| child(&client, &one.session, container, name)["id"].clone();
    for (id, decision) in [
        (
            of(".claude/commands", "fix"),
            json!([{ "kind": "session", "enabled": false }]),
        ),
        (of(".claude/skills", "greet"), in_workspace.clone()),
        (of(".claude/rules", "rust"), everywhere(true)),
        (entry(&client, &one.session, "broken")["id"].clone(), in_workspace),
        (idle["id"].clone(), everywhere(true)),
    ] {
        toggle(&client, &one.session, &id, decision).await;
    }
    until_entry(&client, &one.session, "idle", "is on", |entry| {
        entry["enablement"] == everywhere(true)
    })
    .await;
    let two = session_in(&client, "two", &workspace).await;
    // A draft session is in no list.
    client.run_turn(&two.chat, "t1", "hello").await;
    let expected = json!(entries(&client, &two.session));
    assert_eq!(
        child(&client, &two.session, ".claude/skills", "greet")["enabled"],
        false
    );
    assert_eq!(without_states(printed()), without_states(expected.clone()));
    let reasons = [
        "    - off: switched off in this workspace\n",
        "    - on: switched on everywhere\n    - applies to **/*.rs\n",
        "  - off: switched off in this workspace, with all that is in it\n",
        "  - on: switched on everywhere\n",
        "  command fix\n    - on: no user switched it off\n",
    ];
    let explained = ask("--explain");
    assert!(explained.starts_with("The decisions are those of the session ahp-session:/two."));
    for line in reasons {
        assert!(explained.contains(line), "{line:?} is not in\n{explained}");
    }
    // However the way to the workspace is written, it is the session's.
    let around = workspace.path(".claude/..").display().to_string();
    let around = [&*around, "--explain", "--config", &config, "--data", &data];
    assert_eq!(text(&run(&home, &around)), explained);
    let _stopped = host.stop().await;
    assert_eq!(without_states(printed()), without_states(expected), "it is kept");
    let explained = ask("--explain");
    assert!(explained.starts_with("No host runs on the data directory; the decisions are those"));
    for line in reasons {
        assert!(explained.contains(line), "{line:?} is not in\n{explained}");
    }
}

/// Removes the status of servers: the command starts none.
fn without_states(mut entries: Value) -> Value {
    for entry in entries.as_array_mut().expect("entries") {
        if entry["type"] == "mcpServer" {
            entry["state"] = json!(null);
        }
    }
    entries
}

#[tokio::test]
async fn words_are_a_tree_and_explanations_have_reasons() {
    let workspace = furnished();
    let home = home();
    let path = workspace.path("").display().to_string();
    let tree = text(&run(home.path(), &[&path]));
    for line in [
        "skill directory .claude/skills  (can be saved into)\n  skill greet: Does it.\n",
        "  command fix\n",
        "plugin broken  file://",
        "  ! .plugin/plugin.json: ",
        "These would be read if they existed: .github/agents, ",
    ] {
        assert!(tree.contains(line), "{line:?} is not in\n{tree}");
    }
    let explained = text(&run(home.path(), &[&path, "--explain"]));
    for line in [
        "No host runs on the data directory; the decisions are those for this workspace and for \
         everywhere.",
        "  - error: it could not be loaded\n",
        "  - error: .plugin/plugin.json: ",
        "    - on: no user switched it off\n    - shadowed: its bare name means greet in .github/skills\n",
        "    - models do not use it by themselves\n",
        "    - applies to **/*.rs\n",
        "    - applies always\n",
        "  - does not exist yet; it is shown so that the first one can be saved into it\n",
        "hook directory .github/hooks  (does not exist yet)\n  - from the workspace\n  - on: no user switched it off\n  \
         - nothing can be saved into it\n",
    ] {
        assert!(explained.contains(line), "{line:?} is not in\n{explained}");
    }
}

#[tokio::test]
async fn explanations_include_decisions_of_the_running_host() {
    let workspace = furnished();
    let host = HostProcess::start(options()).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let home = host.path("");
    let (path, data) = (
        workspace.path("").display().to_string(),
        host.data_path("").display().to_string(),
    );
    let flags = [path.as_str(), "--explain", "--data", data.as_str()];
    let explained = text(&run(&home, &flags));
    assert!(
        explained.starts_with("The running host has no session in this directory"),
        "{explained}"
    );
    let uris = session_in(&client, "asked", &workspace).await;
    client.run_turn(&uris.chat, "t1", "hello").await;
    let id = child(&client, &uris.session, ".claude/commands", "fix")["id"].clone();
    toggle(
        &client,
        &uris.session,
        &id,
        json!([{ "kind": "global", "enabled": false }]),
    )
    .await;
    until_entry(&client, &uris.session, ".claude/commands", "is off", |entry| {
        entry["children"][0]["enabled"] == false
    })
    .await;
    let explained = text(&run(&home, &flags));
    assert!(
        explained.starts_with("The decisions are those of the session ahp-session:/asked.\n"),
        "{explained}"
    );
    assert!(
        explained.contains("  command fix\n    - off: switched off "),
        "{explained}"
    );
}

#[tokio::test]
async fn configured_plugins_are_listed_with_their_errors() {
    let home = home();
    let workspace = Workspace::new();
    write(
        &home.path().join("plugins/greeter/skills/hello/SKILL.md"),
        &skill("hello", "Says hello."),
    );
    let config = home.path().join("innkeeper.toml");
    write(
        &config,
        "[customizations]\nplugins = [\"plugins/../plugins/greeter\"]\nuser = false\n",
    );
    let (path, config) = (workspace.path("").display().to_string(), config.display().to_string());
    let tree = text(&run(home.path(), &[&path, "--config", &config]));
    assert!(
        tree.starts_with("plugin greeter  file://") && !tree.contains(".."),
        "a URI has no dots: {tree}"
    );
    assert!(
        tree.contains("  skill hello: Says hello.\n") && !tree.contains('~'),
        "{tree}"
    );
    write(&home.path().join("off.toml"), "customizations.enabled = false\n");
    let off = home.path().join("off.toml").display().to_string();
    assert_eq!(text(&run(home.path(), &[&path, "--json", "--config", &off])), "[]\n");
    let nowhere = run(home.path(), &["nowhere"]);
    assert_eq!(nowhere.status.code(), Some(2), "a wrong argument like any other");
    let told = String::from_utf8_lossy(&nowhere.stderr).into_owned();
    assert!(
        told.contains("nowhere cannot be a workspace") && told.contains("name the directory"),
        "{told}"
    );
}

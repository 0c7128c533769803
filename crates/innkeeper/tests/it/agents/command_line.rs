//! `innkeeper agents`, and the agents that a host offers.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use innkeeper_testkit::official::OfficialClient;
use tempfile::TempDir;

use super::section;

fn innkeeper(home: &TempDir, path: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_innkeeper"));
    command
        .args(arguments)
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", path);
    command.current_dir(home.path()).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A directory with a program that leaves a mark when it is started.
fn installed(home: &TempDir, name: &str) -> String {
    let directory = home.path().join("bin");
    std::fs::create_dir_all(&directory).expect("a directory");
    let program = directory.join(name);
    std::fs::write(&program, "#!/bin/sh\necho started > \"$HOME/started\"\n").expect("a file");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("permissions");
    directory.display().to_string()
}

#[test]
fn agents_list_shows_installed_and_missing_agents_and_starts_none() {
    let home = tempfile::tempdir().expect("a directory");
    let path = installed(&home, "goose");
    let listed = innkeeper(&home, &path, &["agents"]);
    assert!(listed.status.success(), "{}", text(&listed.stderr));
    let lines = text(&listed.stdout);
    let goose = lines.lines().find(|line| line.starts_with("goose ")).expect("a line");
    assert!(
        goose.contains("Goose (installed, ") && goose.contains("bin/goose"),
        "{goose}"
    );
    let claude = lines.lines().find(|line| line.starts_with("claude ")).expect("a line");
    assert!(
        claude.contains("not installed: npm install -g @agentclientprotocol/claude-agent-acp"),
        "{claude}"
    );
    let json = innkeeper(&home, &path, &["agents", "list", "--json"]);
    for line in text(&json.stdout).lines() {
        serde_json::from_str::<serde_json::Value>(line).expect("JSON");
    }
    assert!(!home.path().join("started").exists());
}

#[test]
fn agents_check_reports_abilities_or_the_problem() {
    let home = tempfile::tempdir().expect("a directory");
    let config = home.path().join("innkeeper.toml");
    std::fs::write(&config, section("load", home.path())).expect("a file");
    let config = config.to_str().expect("a path");
    let checked = innkeeper(&home, "/bin", &["agents", "check", "scripted", "--config", config]);
    let report = text(&checked.stdout);
    assert!(checked.status.success(), "{}", text(&checked.stderr));
    assert!(report.starts_with("scripted works: Scripted 1.2.3\n"), "{report}");
    assert!(
        report.contains("restores sessions (load)") && report.contains("Mode: ask, code"),
        "{report}"
    );
    // The list knows the version from now on.
    let listed = innkeeper(&home, "/bin", &["agents", "--config", config]);
    assert!(
        text(&listed.stdout).contains("Scripted 1.2.3 (configured"),
        "{}",
        text(&listed.stdout)
    );
    std::fs::write(config, section("signed-out", home.path())).expect("a file");
    let failed = innkeeper(&home, "/bin", &["agents", "check", "scripted", "--config", config]);
    assert_eq!(failed.status.code(), Some(6), "{}", text(&failed.stderr));
    assert!(
        text(&failed.stderr).contains("Run `scripted login`"),
        "{}",
        text(&failed.stderr)
    );
    let missing = innkeeper(&home, "/bin", &["agents", "check", "gemini"]);
    assert!(
        text(&missing.stderr).contains("npm install -g @google/gemini-cli"),
        "{}",
        text(&missing.stderr)
    );
}

#[test]
fn agents_add_writes_a_section_that_is_offered() {
    let home = tempfile::tempdir().expect("a directory");
    let config = home.path().join("innkeeper.toml");
    let config = config.to_str().expect("a path");
    let add = ["agents", "add", "mine", "--config", config, "--", "my-agent", "--acp"];
    let added = innkeeper(&home, "/bin", &add);
    assert!(added.status.success(), "{}", text(&added.stderr));
    let listed = innkeeper(&home, "/bin", &["agents", "--config", config]);
    assert!(
        text(&listed.stdout).contains("mine (configured, not found: my-agent)"),
        "{}",
        text(&listed.stdout)
    );
    let again = innkeeper(&home, "/bin", &add);
    assert!(!again.status.success());
    assert!(text(&again.stderr).contains("already"), "{}", text(&again.stderr));
    let nameless = innkeeper(&home, "/bin", &["agents", "add", "mine2", "--config", config]);
    assert!(
        text(&nameless.stderr).contains("needs a `command`"),
        "{}",
        text(&nameless.stderr)
    );
}

#[tokio::test]
async fn root04_installed_agents_are_offered_and_can_be_switched_off() {
    let home = tempfile::tempdir().expect("a directory");
    let path = installed(&home, "gemini");
    let agents = async |config: &str| {
        let options = crate::options().environment("PATH", &path).setting(config);
        let host = innkeeper_testkit::process::HostProcess::start(options).await;
        let client = OfficialClient::connect(host.address(), "first").await;
        client.subscribe("ahp-root://").await;
        let view = client.view();
        let agents = &view.root().expect("subscribed").agents;
        let providers = agents.iter().map(|agent| agent.provider.clone());
        // Agents on model APIs are always offered.
        let is_program = |provider: &String| !["anthropic", "openai"].contains(&provider.as_str());
        providers.filter(is_program).collect::<Vec<_>>()
    };
    assert_eq!(agents("").await, ["tour", "gemini"]);
    assert_eq!(agents("discover_agents = false").await, ["tour"]);
    assert_eq!(agents("[agents.gemini]\nenabled = false").await, ["tour"]);
    assert!(!home.path().join("started").exists());
}

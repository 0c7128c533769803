//! Agents that are programs of their own, behind the real host: configuration, discovery, terminals, and real agents.

mod command_line;
mod real;
mod tools;

use std::path::Path;

use innkeeper_testkit::official::{OfficialClient, SessionUris, markdown, tool_calls_of};
use innkeeper_testkit::process::{HostOptions, HostProcess};
use innkeeper_testkit::scripted_acp_agent::{QUIRKS, STATE};
use serde_json::{Value, json};

/// A section of the configuration with the scripted agent.
fn section(quirks: &str, state: &Path) -> String {
    let program = std::env::current_exe().expect("a path");
    format!(
        "[agents.scripted]\ntype = \"acp\"\nname = \"Scripted\"\ncommand = {program:?}\n\
         args = [\"--exact\", \"acp_agent\", \"--nocapture\"]\nenv = {{ {QUIRKS} = {quirks:?}, {STATE} = {state:?} }}\n"
    )
}

async fn host(section: &str) -> HostProcess {
    let options = HostOptions::new(env!("CARGO_BIN_EXE_innkeeper")).environment("PATH", "/usr/bin:/bin");
    HostProcess::start(options.setting(section)).await
}

async fn session(client: &OfficialClient, provider: &str, directory: &Path) -> SessionUris {
    let uri = url::Url::from_file_path(directory).expect("absolute");
    let params = json!({ "provider": provider, "workingDirectories": [uri.as_str()] });
    client.create_session_with(provider, params).await
}

fn terminal_in(call: &Value) -> Option<&Value> {
    let content = call["content"].as_array()?;
    content.iter().find(|part| part["type"] == "terminal")
}

#[tokio::test]
async fn a_command_of_an_acp_agent_runs_in_a_terminal_of_the_host() {
    let work = tempfile::tempdir().expect("a directory");
    let host = host(&section("", work.path())).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let uris = session(&client, "scripted", work.path()).await;
    let turn = client
        .run_turn(&uris.chat, "t1", "terminal pwd; printf '\\033[31mred\\033[0m'; exit 3")
        .await;
    let real = work.path().canonicalize().expect("a directory");
    // The agent reads plain text.
    assert_eq!(
        markdown(&turn.response_parts),
        format!("exit 3: {}\nred", real.display())
    );
    let call = tool_calls_of(&turn).remove(0);
    assert_eq!(
        (&call["status"], &call["_meta"]["toolKind"]),
        (&json!("completed"), &json!("terminal"))
    );
    let terminal = terminal_in(&call).expect("a terminal");
    assert_eq!(terminal["result"]["exitCode"], 3, "{terminal}");
    let uri = terminal["resource"].as_str().expect("a URI");
    client.subscribe(uri).await;
    client.assert_converged().await;
}

#[tokio::test]
async fn a_cancelled_command_of_an_acp_agent_ends() {
    let work = tempfile::tempdir().expect("a directory");
    let host = host(&section("", work.path())).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let uris = session(&client, "scripted", work.path()).await;
    client
        .start_turn(&uris.chat, "t1", "terminal echo $$ > pid; sleep 1000")
        .await;
    client
        .until_some("the terminal", |view| {
            view.tool_calls(&uris.chat)
                .iter()
                .find_map(|call| terminal_in(call).cloned())
        })
        .await;
    let pid = work.path().join("pid");
    let pid = loop {
        match std::fs::read_to_string(&pid).unwrap_or_default().trim().parse() {
            Ok(pid) => break pid,
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
        }
    };
    client.cancel_turn(&uris.chat, "t1").await;
    client.turn_end(&uris.chat, "t1").await;
    innkeeper_testkit::process::gone(pid).await;
    client.assert_converged().await;
}

#[tokio::test]
async fn a_session_with_an_acp_agent_survives_a_kill_of_the_host() {
    let work = tempfile::tempdir().expect("a directory");
    let host = host(&section("load", work.path())).await;
    let mut client = OfficialClient::connect(host.address(), "first").await;
    let uris = session(&client, "scripted", work.path()).await;
    client.run_turn(&uris.chat, "t1", "say one").await;
    client.start_turn(&uris.chat, "t2", "slow").await;
    client.call_in(&uris.chat, "running").await;
    let pid = std::fs::read_to_string(work.path().join("starts")).expect("a file");
    let pid = pid.trim().parse().expect("a process");
    let host = host.kill_and_restart().await;
    client.disconnected().await;
    client.move_to(host.address());
    client.reconnect().await.expect("known across restarts");
    let turn = client.turn_end(&uris.chat, "t2").await;
    assert_eq!(serde_json::to_value(turn.state).expect("JSON"), "error");
    // Its input has ended with the host, so the agent has ended, too.
    innkeeper_testkit::process::gone(pid).await;
    let turn = client.run_turn(&uris.chat, "t3", "recall").await;
    assert_eq!(markdown(&turn.response_parts), "1 messages, told 0: say one");
    client.assert_converged().await;
}

/// A hook of the user refuses every tool call. An agent that asks gets a refusal; one that does not ask is stopped.
#[tokio::test]
async fn hooks_refuse_tool_calls_of_an_acp_agent() {
    let work = tempfile::tempdir().expect("a directory");
    let home = tempfile::tempdir().expect("a directory");
    let hook = json!({ "type": "command", "command": "echo not today >&2; exit 2", "timeout": 30 });
    let settings = json!({ "hooks": { "PreToolUse": [{ "matcher": "", "hooks": [hook] }] } });
    std::fs::create_dir(home.path().join(".claude")).expect("a directory");
    std::fs::write(home.path().join(".claude/settings.json"), settings.to_string()).expect("a file");
    let options = HostOptions::new(env!("CARGO_BIN_EXE_innkeeper"))
        .environment("PATH", "/usr/bin:/bin")
        .environment("HOME", home.path())
        .setting(&section("", work.path()));
    let host = HostProcess::start(options).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let uris = session(&client, "scripted", work.path()).await;
    let turn = client.run_turn(&uris.chat, "t1", "ask").await;
    assert_eq!(markdown(&turn.response_parts), "you chose no", "{turn:?}");
    let turn = client.run_turn(&uris.chat, "t2", "tool").await;
    let parts = serde_json::to_string(&turn.response_parts).expect("JSON");
    assert!(parts.contains("hookRefused") && parts.contains("not today"), "{parts}");
    assert_eq!(tool_calls_of(&turn)[0]["success"], false);
    // A plan is no tool, and a command without a call of the agent is refused by itself.
    let turn = client.run_turn(&uris.chat, "t3", "plan").await;
    assert_eq!(markdown(&turn.response_parts), "planned", "{turn:?}");
    let turn = client.run_turn(&uris.chat, "t4", "bare-terminal echo hi").await;
    let said = markdown(&turn.response_parts);
    assert!(
        said.contains("the command may not run: ") && said.contains("not today"),
        "{turn:?}"
    );
    client.assert_converged().await;
}

#[tokio::test]
async fn a_terminal_without_a_call_gets_one_and_keeps_it() {
    let work = tempfile::tempdir().expect("a directory");
    let host = host(&section("", work.path())).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    let uris = session(&client, "scripted", work.path()).await;
    let turn = client.run_turn(&uris.chat, "t1", "two-terminals").await;
    assert_eq!(markdown(&turn.response_parts), "exit 0: bareexit 0: called", "{turn:?}");
    let calls = tool_calls_of(&turn);
    let names: Vec<&Value> = calls.iter().map(|call| &call["displayName"]).collect();
    assert_eq!(names, ["echo bare", "echo called"]);
    let uris: Vec<&Value> = calls
        .iter()
        .filter_map(terminal_in)
        .map(|part| &part["resource"])
        .collect();
    assert!(uris.len() == 2 && uris[0] != uris[1], "{calls:?}");
    assert!(calls.iter().all(|call| call["success"] == true), "{calls:?}");
}

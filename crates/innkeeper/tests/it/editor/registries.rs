//! Real ACP clients from the npm and PyPI registries: `cargo xtask editors` installs and runs them.
//!
//! The variable `INNKEEPER_EDITORS` names the directory that they are installed in. Without it, nothing is run, and a
//! printed line says so.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use innkeeper_testkit::official::{OfficialClient, markdown};
use innkeeper_testkit::process::HostProcess;
use serde_json::{Value, json};
use tokio::process::Command;

use super::host;

/// Longer than anything takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The path of a client that is installed; prints why if it is not.
fn installed(program: &str) -> Option<PathBuf> {
    let Some(directory) = std::env::var_os("INNKEEPER_EDITORS").map(PathBuf::from) else {
        eprintln!("skipped: INNKEEPER_EDITORS is not set; `cargo xtask editors` installs real ACP clients and sets it");
        return None;
    };
    let program = directory.join(program);
    if !program.exists() {
        eprintln!("skipped: {} is not installed", program.display());
        return None;
    }
    Some(program)
}

/// The command line with which a client starts its agent.
fn agent(host: &HostProcess) -> String {
    let data = host.data_path(".");
    format!(
        "{} acp --data {} --no-start --provider scripted",
        env!("CARGO_BIN_EXE_innkeeper"),
        data.display()
    )
}

async fn run(program: &Path, home: &Path, work: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(work).kill_on_drop(true);
    command
        .env("HOME", home)
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env_remove("INNKEEPER_URL");
    let output = tokio::time::timeout(TIMEOUT, command.output()).await;
    output.expect("the client ends in time").expect("the client starts")
}

#[track_caller]
fn assert_printed(output: &Output, expected: &str) {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(expected), "{expected:?} is missing in {text}\n{errors}");
}

/// Returns what the turns of the only listed session answered, as a phone sees them.
async fn answers(host: &HostProcess) -> Vec<String> {
    let phone = OfficialClient::connect(host.address(), "phone").await;
    let params = json!({ "channel": "ahp-root://" });
    let listed: Value = phone.request("listSessions", params).await.expect("a list");
    let sessions = listed["items"].as_array().expect("sessions");
    let [session] = &sessions[..] else {
        panic!("one session: {listed}");
    };
    let uris = phone.join(session["resource"].as_str().expect("a URI")).await;
    let turns = phone.chat(&uris.chat).turns;
    phone.assert_converged().await;
    turns.iter().map(|turn| markdown(&turn.response_parts)).collect()
}

#[tokio::test]
async fn acpx_from_npm_prompts_approves_and_denies() {
    let Some(acpx) = installed("node_modules/.bin/acpx") else {
        return;
    };
    let work = tempfile::tempdir().expect("a directory");
    let home = tempfile::tempdir().expect("a directory");
    for (policy, message, expected) in [
        ("--deny-all", "say hello from acpx", "hello from acpx"),
        ("--approve-all", "ask", "you chose yes"),
        ("--deny-all", "ask", "you chose no"),
    ] {
        let host = host(work.path()).await;
        let agent = agent(&host);
        let arguments = ["--agent", &agent, policy, "exec", message];
        let output = run(&acpx, home.path(), work.path(), &arguments).await;
        assert!(output.status.success(), "{output:?}");
        assert_printed(&output, expected);
        assert_eq!(answers(&host).await, [expected]);
    }
}

#[tokio::test]
async fn acpc_from_pypi_prompts_approves_and_loads_its_session() {
    let Some(acpc) = installed("python/bin/acpc") else {
        return;
    };
    let work = tempfile::tempdir().expect("a directory");
    let home = tempfile::tempdir().expect("a directory");
    let host = host(work.path()).await;
    let agents = home.path().join("config/acpc/agents");
    std::fs::create_dir_all(&agents).expect("a directory");
    let section = format!(
        "identity = \"innkeeper\"\nname = \"Innkeeper\"\nauthor = \"Innkeeper\"\nrun_command = {:?}\ninstall_command = \"\"\n",
        agent(&host)
    );
    std::fs::write(agents.join("innkeeper.toml"), section).expect("a file");
    let cwd = work.path().to_str().expect("a path in UTF-8");
    let prompt = async |more: &[&str]| {
        let mut arguments = vec!["prompt", "innkeeper", "--cwd", cwd, "--permissions", "all"];
        arguments.extend(more);
        run(&acpc, home.path(), work.path(), &arguments).await
    };
    assert_printed(&prompt(&["ask"]).await, "you chose yes");
    assert_printed(&prompt(&["--last", "recall"]).await, "1 messages, told 0: ask");
    assert_eq!(answers(&host).await, ["you chose yes", "1 messages, told 0: ask"]);
}

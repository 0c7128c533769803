//! Real agents from the npm registry against a scripted model on loopback: `cargo xtask agents` installs and runs them.
//!
//! The variable `INNKEEPER_AGENTS` names the directory that they are installed in. Without it, nothing is run, and a
//! printed line says so.

use std::path::{Path, PathBuf};
use std::time::Duration;

use innkeeper_testkit::model_server::{ConversationPart, ModelServer, ReceivedRequest, Reply, Script};
use innkeeper_testkit::official::{OfficialClient, SessionUris, markdown, tool_calls_of};
use innkeeper_testkit::process::HostProcess;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::{host, session, terminal_in};

/// An agent that is installed.
struct Installed {
    id: &'static str,
    /// The program below `node_modules`; scripts run with node.
    program: &'static str,
    arguments: &'static [&'static str],
    /// Variables, with `{url}` for the server and `{home}` for a directory of the agent's own.
    variables: &'static [(&'static str, &'static str)],
    /// A file of the agent's configuration, with the same placeholders.
    file: Option<(&'static str, &'static str)>,
    /// Whether it runs commands in terminals of its client.
    has_terminals: bool,
}

const GOOSE: Installed = Installed {
    id: "goose",
    program: "@aaif/goose-binary-linux-x64/bin/goose",
    arguments: &["acp", "--with-builtin", "developer"],
    variables: &[
        ("GOOSE_PROVIDER", "openai"),
        ("OPENAI_HOST", "{url}"),
        ("OPENAI_API_KEY", "fake"),
        ("GOOSE_MODEL", "scripted"),
        ("GOOSE_DISABLE_KEYRING", "1"),
        ("GOOSE_MODE", "approve"),
        ("GOOSE_TELEMETRY_ENABLED", "false"),
    ],
    file: None,
    has_terminals: true,
};

const CLAUDE: Installed = Installed {
    id: "claude",
    program: "@agentclientprotocol/claude-agent-acp/dist/index.js",
    arguments: &[],
    variables: &[
        ("ANTHROPIC_BASE_URL", "{url}"),
        ("ANTHROPIC_API_KEY", "sk-ant-fake"),
        ("CLAUDE_CONFIG_DIR", "{home}/.claude"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("DISABLE_TELEMETRY", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        ("DISABLE_ERROR_REPORTING", "1"),
        ("ENABLE_TOOL_SEARCH", "false"),
        // The host of the tests may run as root.
        ("IS_SANDBOX", "1"),
    ],
    file: None,
    has_terminals: false,
};

const CODEX: Installed = Installed {
    id: "codex",
    program: "@agentclientprotocol/codex-acp/dist/index.js",
    arguments: &[],
    variables: &[
        ("CODEX_HOME", "{home}/.codex"),
        ("FAKE_API_KEY", "x"),
        ("NO_BROWSER", "1"),
        ("INITIAL_AGENT_MODE", "read-only"),
    ],
    file: Some((
        ".codex/config.toml",
        "model = \"gpt-5.2-codex\"\nmodel_provider = \"fake\"\ncheck_for_update_on_startup = false\n\
         [analytics]\nenabled = false\n[model_providers.fake]\nname = \"fake\"\nbase_url = \"{url}/v1\"\n\
         env_key = \"FAKE_API_KEY\"\nwire_api = \"responses\"\nsupports_websockets = false\nrequest_max_retries = 1\n\
         stream_max_retries = 1\n",
    )),
    has_terminals: false,
};

/// The directory with the agents; prints why if there is none.
fn directory(agent: &Installed) -> Option<PathBuf> {
    let Some(directory) = std::env::var_os("INNKEEPER_AGENTS").map(PathBuf::from) else {
        eprintln!("skipped: INNKEEPER_AGENTS is not set; `cargo xtask agents` installs real agents and sets it");
        return None;
    };
    let program = directory.join("node_modules").join(agent.program);
    if !program.exists() {
        eprintln!(
            "skipped: {} is not installed: {} does not exist",
            agent.id,
            program.display()
        );
        return None;
    }
    Some(directory)
}

/// Answers like a model that does what the last message says: `say …`, `write FILE`, `run COMMAND`.
fn model(work: PathBuf) -> Script {
    Script::by(move |request| {
        let said = request.said();
        let is_order = |text: &str| {
            ["say ", "write ", "run "]
                .iter()
                .any(|word| text.contains(&format!("DO: {word}")))
        };
        let order = said
            .iter()
            .rposition(|part| matches!(part, ConversationPart::User(text) if is_order(text)));
        let Some(order) = order else {
            return Reply::words("A title");
        };
        let ConversationPart::User(text) = &said[order] else {
            return Reply::words("A title");
        };
        let results = said[order..]
            .iter()
            .filter(|part| matches!(part, ConversationPart::Result { .. }))
            .count();
        let order = text.rsplit("DO: ").next().unwrap_or_default();
        let order = order.lines().next().unwrap_or_default().trim_end_matches("</user>");
        let (word, rest) = order.split_once(' ').unwrap_or((order, ""));
        match word {
            "write" if results == 0 => call(request, &["write", "edit", "apply_patch", "shell"], rest, &work),
            "run" if results == 0 => call(request, &["bash", "shell", "exec_command"], rest, &work),
            "say" => Reply::words(rest),
            _ => Reply::words(format!("{word} is done")),
        }
    })
}

/// Calls the tool that fits, with arguments by their names in its schema.
fn call(request: &ReceivedRequest, wanted: &[&str], rest: &str, work: &Path) -> Reply {
    let tools = request.body["tools"].as_array().cloned().unwrap_or_default();
    let tools: Vec<&Value> = tools
        .iter()
        .map(|tool| {
            if tool["function"].is_object() {
                &tool["function"]
            } else {
                tool
            }
        })
        .collect();
    let name = |tool: &Value| tool["name"].as_str().unwrap_or_default().to_lowercase();
    let found = wanted.iter().find_map(|wanted| {
        let exact = tools.iter().find(|tool| name(tool) == *wanted);
        exact.or_else(|| tools.iter().find(|tool| name(tool).contains(wanted)))
    });
    let Some(tool) = found else {
        return Reply::words(format!("no tool like {wanted:?}"));
    };
    let schema = [&tool["parameters"], &tool["input_schema"]]
        .into_iter()
        .find(|schema| schema.is_object());
    let properties = schema
        .and_then(|schema| schema["properties"].as_object().cloned())
        .unwrap_or_default();
    let is_write = wanted[0] == "write";
    let shell = if is_write {
        format!("echo written > {rest}")
    } else {
        rest.to_owned()
    };
    let mut input = Map::new();
    for (key, property) in properties {
        let value = match key.to_lowercase().as_str() {
            "path" | "file_path" | "filepath" => json!(work.join(rest)),
            "content" | "file_text" => json!("written\n"),
            "command" | "cmd" if property["type"] == "array" => json!(["bash", "-lc", shell]),
            "command" | "cmd" => json!(shell),
            _ => continue,
        };
        input.insert(key, value);
    }
    Reply::new().call(tool["name"].as_str().unwrap_or_default(), Value::Object(input))
}

struct Stage {
    work: TempDir,
    _home: TempDir,
    _server: ModelServer,
    host: HostProcess,
    client: OfficialClient,
    uris: SessionUris,
}

impl Stage {
    async fn open(agent: &Installed, installed: &Path) -> Self {
        let work = tempfile::tempdir().expect("a directory");
        let home = tempfile::tempdir().expect("a directory");
        let real = work.path().canonicalize().expect("a directory");
        let server = ModelServer::start(model(real)).await;
        let url = server.url().trim_end_matches("/v1").to_owned();
        let filled = |text: &str| {
            text.replace("{url}", &url)
                .replace("{home}", &home.path().display().to_string())
        };
        if let Some((name, content)) = agent.file {
            let file = home.path().join(name);
            std::fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
            let trust = format!("[projects.{:?}]\ntrust_level = \"trusted\"\n", work.path());
            std::fs::write(file, filled(content) + &trust).expect("a file");
        }
        let program = installed.join("node_modules").join(agent.program);
        let mut line: Vec<String> = vec![program.display().to_string()];
        if agent.program.ends_with(".js") {
            line.insert(0, "node".to_owned());
        }
        line.extend(agent.arguments.iter().map(|word| (*word).to_owned()));
        let (command, arguments) = line.split_first().expect("a program");
        let variables = agent
            .variables
            .iter()
            .map(|(name, value)| format!("{name} = {:?}", filled(value)));
        let variables: Vec<String> = variables.chain([format!("HOME = {:?}", home.path())]).collect();
        let section = format!(
            "[agents.{}]\ncommand = {command:?}\nargs = {arguments:?}\nenv = {{ {} }}\nstart_seconds = 120\n",
            agent.id,
            variables.join(", ")
        );
        let path = std::env::var("PATH").unwrap_or_default();
        let host = match agent.program.ends_with(".js") {
            true => HostProcess::start(crate::options().environment("PATH", path).setting(&section)).await,
            false => host(&section).await,
        };
        let client = OfficialClient::connect(host.address(), "first").await;
        let uris = session(&client, agent.id, work.path()).await;
        Self {
            work,
            _home: home,
            _server: server,
            host,
            client,
            uris,
        }
    }

    /// Runs a turn and approves everything that is asked.
    async fn turn(&self, id: &str, text: &str, approved: bool) -> ahp_types::state::Turn {
        self.client.start_turn(&self.uris.chat, id, text).await;
        let chat = &self.uris.chat;
        let mut decided: Vec<Value> = Vec::new();
        loop {
            let next = self
                .client
                .until_some("the agent asks, or ends its turn", |view| {
                    let state = view.chat(chat)?;
                    if state.turns.iter().any(|turn| turn.id == id) {
                        return Some(Value::Null);
                    }
                    let calls = view.tool_calls(chat).into_iter();
                    let mut asks = calls.filter(|call| call["status"] == "pending-confirmation");
                    asks.find(|call| !decided.contains(&call["toolCallId"]))
                })
                .await;
            if next.is_null() {
                return self.client.turn_end(chat, id).await;
            }
            let action = json!({
                "type": "chat/toolCallConfirmed", "turnId": id, "toolCallId": next["toolCallId"], "approved": approved,
            });
            self.client.dispatch(chat, action).await;
            decided.push(next["toolCallId"].clone());
        }
    }
}

/// One scenario for every agent: a streamed answer, a file with and without approval, a command, a second client, a kill of
/// the agent, and a restart of the host.
async fn play(agent: &Installed) {
    let Some(installed) = directory(agent) else {
        return;
    };
    let mut stage = Stage::open(agent, &installed).await;
    let second = OfficialClient::connect(stage.host.address(), "second").await;
    second.join(&stage.uris.session).await;

    let turn = stage.turn("t1", "DO: say hello from the model", true).await;
    assert!(
        markdown(&turn.response_parts).contains("hello from the model"),
        "{turn:?}"
    );

    let turn = stage.turn("t2", "DO: write refused.txt", false).await;
    assert!(!stage.work.path().join("refused.txt").exists(), "{turn:?}");
    let calls = tool_calls_of(&turn);
    assert!(
        !calls.is_empty() && calls.iter().all(|call| call["status"] != "running"),
        "{calls:?}"
    );

    let turn = stage.turn("t3", "DO: write allowed.txt", true).await;
    let written = std::fs::read_to_string(stage.work.path().join("allowed.txt"));
    assert_eq!(written.unwrap_or_default().trim(), "written", "{turn:?}");

    let turn = stage.turn("t4", "DO: run echo from-the-shell", true).await;
    let calls = tool_calls_of(&turn);
    assert!(json!(calls).to_string().contains("from-the-shell"), "{calls:?}");
    if agent.has_terminals {
        assert!(calls.iter().any(|call| terminal_in(call).is_some()), "{calls:?}");
    }

    // The clients have seen the same.
    second.caught_up().await;
    stage.client.caught_up().await;
    stage.client.assert_converged().await;
    second.assert_converged().await;
    assert_eq!(
        stage.client.chat(&stage.uris.chat).turns,
        second.chat(&stage.uris.chat).turns
    );

    // A cancel leaves the session usable.
    stage
        .client
        .start_turn(&stage.uris.chat, "t5", "DO: run sleep 1000")
        .await;
    let asked = tokio::time::timeout(
        Duration::from_secs(20),
        stage.client.call_in(&stage.uris.chat, "pending-confirmation"),
    );
    asked.await.expect("it asks before it runs a command");
    stage.client.cancel_turn(&stage.uris.chat, "t5").await;
    stage.client.turn_end(&stage.uris.chat, "t5").await;
    let turn = stage.turn("t6", "DO: say still here", true).await;
    assert!(markdown(&turn.response_parts).contains("still here"), "{turn:?}");

    // The host is killed, and its agent with it.
    let host = stage.host.kill_and_restart().await;
    stage.client.disconnected().await;
    stage.client.move_to(host.address());
    stage.client.reconnect().await.expect("known across restarts");
    stage.host = host;
    let turn = stage.turn("t7", "DO: say back again", true).await;
    assert!(markdown(&turn.response_parts).contains("back again"), "{turn:?}");
    assert_eq!(stage.client.chat(&stage.uris.chat).turns.len(), 7);
    stage.client.assert_converged().await;
}

#[tokio::test]
async fn goose_works_behind_the_host() {
    play(&GOOSE).await;
}

#[tokio::test]
async fn claude_works_behind_the_host() {
    play(&CLAUDE).await;
}

#[tokio::test]
async fn codex_works_behind_the_host() {
    play(&CODEX).await;
}

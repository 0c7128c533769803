//! A host with a scripted agent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ahp_types::state::{ResponsePart, Turn};
use innkeeper_acp::{AcpAgent, AcpSettings, AcpTimes, AgentCommand, ToolServer};
use innkeeper_host::{Host, HostBuilder};
use innkeeper_testkit::embedded::Running;
use innkeeper_testkit::official::{OfficialClient, SessionUris, markdown};
use innkeeper_testkit::scripted_acp_agent::{QUIRKS, STATE};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A scripted agent, its directory, and the state that outlives its process.
pub struct Agency {
    pub directory: TempDir,
    quirks: String,
    times: AcpTimes,
}

impl Agency {
    /// An agent with these quirks, separated by commas.
    pub fn new(quirks: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(directory.path().join("state")).expect("a directory");
        std::fs::create_dir(directory.path().join("work")).expect("a directory");
        Self {
            directory,
            quirks: quirks.to_owned(),
            times: AcpTimes::default(),
        }
    }

    pub fn with_times(mut self, times: AcpTimes) -> Self {
        self.times = times;
        self
    }

    pub fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    pub fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    /// Returns a line of the agent's notes for each time that something happened.
    pub fn noted(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.state().join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub fn settings(&self) -> AcpSettings {
        let this_test = std::env::current_exe().expect("a path");
        let variables = [
            (QUIRKS, self.quirks.clone()),
            (STATE, self.state().display().to_string()),
        ];
        AcpSettings {
            id: "scripted".to_owned(),
            name: "Scripted".to_owned(),
            description: "Does what you say.".to_owned(),
            command: AgentCommand {
                program: this_test,
                arguments: ["--exact", "acp_agent", "--nocapture"].map(str::to_owned).to_vec(),
                variables: BTreeMap::from(variables.map(|(name, value)| (name.to_owned(), value))),
                host_environment: vec![("PATH".into(), "/bin".into()), ("API_KEY".into(), "s3cr3t".into())],
                ..AgentCommand::default()
            },
            directory: self.work(),
            serves_files: true,
            serves_terminals: true,
            sign_in_hint: Some("Run `scripted login`".to_owned()),
            memory_file: Some(self.directory.path().join("agents/scripted.json")),
            times: self.times,
        }
    }

    pub fn builder(&self) -> HostBuilder {
        Host::builder().agent(AcpAgent::new(self.settings()))
    }

    /// Starts a host whose agent gets the tools of its sessions, and a session.
    pub async fn open_with_tools(&self) -> Stage {
        let agent = AcpAgent::with_tools(self.settings(), ToolServer::new(None));
        self.open_with(Host::builder().agent(agent)).await
    }

    /// Starts a host and a session in the agent's directory.
    pub async fn open(&self) -> Stage {
        self.open_with(self.builder()).await
    }

    pub async fn open_with(&self, builder: HostBuilder) -> Stage {
        let running = Running::start(builder).await;
        let client = OfficialClient::connect(&running.address, "first").await;
        let uris = client.create_session_in("stage", &uri(&self.work())).await;
        Stage { running, client, uris }
    }
}

/// A session with the agent.
pub struct Stage {
    pub running: Running,
    pub client: OfficialClient,
    pub uris: SessionUris,
}

impl Stage {
    /// Runs a turn to its end.
    pub async fn turn(&self, id: &str, text: &str) -> Turn {
        self.client.run_turn(&self.uris.chat, id, text).await
    }

    /// Runs a turn, and returns its words.
    pub async fn words(&self, id: &str, text: &str) -> String {
        markdown(&self.turn(id, text).await.response_parts)
    }

    pub async fn begin(&self, id: &str, text: &str) {
        self.client.start_turn(&self.uris.chat, id, text).await;
    }

    /// Waits until a call of the running turn has a status.
    pub async fn call(&self, status: &str) -> Value {
        self.client.call_in(&self.uris.chat, status).await
    }

    /// Decides about a call.
    pub async fn decide(&self, turn: &str, call: &Value, approved: bool, option: Option<&str>) {
        let mut action = json!({
            "type": "chat/toolCallConfirmed", "turnId": turn, "toolCallId": call["toolCallId"], "approved": approved,
        });
        if let Some(option) = option {
            action["selectedOptionId"] = json!(option);
        }
        self.client.dispatch(&self.uris.chat, action).await;
    }

    pub async fn end(&self, id: &str) -> Turn {
        self.client.turn_end(&self.uris.chat, id).await
    }
}

/// The error that a turn ended with, as JSON.
pub fn error_of(turn: &Turn) -> Value {
    let mut errors = turn.response_parts.iter().filter_map(|part| match part {
        ResponsePart::Error(error) => Some(serde_json::to_value(error).expect("JSON")),
        _ => None,
    });
    errors.next().unwrap_or_default()
}

/// The remarks of the system in a turn.
pub fn notices(turn: &Turn) -> String {
    let parts = serde_json::to_value(&turn.response_parts).expect("JSON");
    let notices = parts.as_array().into_iter().flatten();
    let notices = notices.filter(|part| part["kind"] == "systemNotification");
    notices.map(|part| part["content"].to_string()).collect()
}

/// The tool calls of a turn.
pub fn calls(turn: &Turn) -> Vec<Value> {
    innkeeper_testkit::official::tool_calls_of(turn)
}

pub fn uri(path: &Path) -> String {
    url::Url::from_directory_path(path)
        .expect("absolute")
        .to_string()
        .trim_end_matches('/')
        .to_owned()
}

/// Short times, for agents that never answer.
pub fn short_times() -> AcpTimes {
    AcpTimes {
        restore: Duration::from_millis(800),
        ..AcpTimes::default()
    }
}

/// Waits for something that another process does.
pub async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{what}");
}

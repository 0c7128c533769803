//! A host with a workspace that declares the misbehaving server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use innkeeper_testkit::model_server::ModelServer;
use innkeeper_testkit::official::{OfficialClient, SessionUris, View, markdown};
use innkeeper_testkit::process::{HostOptions, HostProcess};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_innkeeper");
const ARGS: [&str; 3] = ["--exact", "odd_server", "--nocapture"];

/// Returns the options of a host.
pub(crate) fn options() -> HostOptions {
    HostOptions::new(PROGRAM)
}

pub(crate) struct McpHost {
    pub(crate) host: HostProcess,
    pub(crate) client: OfficialClient,
    pub(crate) uris: SessionUris,
    directory: TempDir,
}

impl McpHost {
    /// A session whose server is not trusted yet.
    pub(crate) async fn start(kind: &str) -> Self {
        Self::started(kind, "tour", HostOptions::new(PROGRAM)).await
    }

    /// The same on a host whose sessions do not ask whether it may run.
    pub(crate) async fn start_without_questions(kind: &str) -> Self {
        let options = HostOptions::new(PROGRAM).limit("mcp_trust_ms", 0);
        Self::started(kind, "tour", options).await
    }

    async fn started(kind: &str, provider: &str, options: HostOptions) -> Self {
        let directory = made();
        declare(&directory, kind, &ARGS);
        Self::started_in(directory, provider, options).await
    }

    /// A session in a trusted workspace that declares these servers.
    pub(crate) async fn declaring(servers: &Value, options: HostOptions) -> Self {
        let directory = made();
        write(&directory, servers);
        let scene = Self::started_in(directory, "tour", options).await;
        scene.server_is("error").await;
        scene.allow();
        scene
    }

    async fn started_in(directory: TempDir, provider: &str, options: HostOptions) -> Self {
        let options = options.environment("SECRET_OF_THE_HOST", "hunter2");
        let host = HostProcess::start(options).await;
        let client = OfficialClient::connect(host.address(), "first").await;
        let uri = format!("file://{}", workspace(&directory).display());
        let params = json!({ "provider": provider, "workingDirectories": [uri] });
        let uris = client.create_session_with("mcp", params).await;
        Self {
            host,
            client,
            uris,
            directory,
        }
    }

    /// A session whose server is ready.
    pub(crate) async fn ready(kind: &str) -> Self {
        Self::start(kind).await.allowed().await
    }

    /// The same on a host of one's own.
    pub(crate) async fn ready_on(kind: &str, options: HostOptions) -> Self {
        Self::started(kind, "tour", options).await.allowed().await
    }

    /// The same with an agent that asks a model.
    pub(crate) async fn ready_with_model(kind: &str, model: &ModelServer) -> Self {
        let config = format!(
            "[models]\ndiscover = false\ntitles = false\n[[models.providers]]\nid = \"scripted\"\nname = \"Scripted\"\n\
             api = \"chat-completions\"\nbase_url = \"{}\"\nkeyless = true\nmodels = [{{ id = \"scripted\" }}]\n",
            model.url()
        );
        let options = HostOptions::new(PROGRAM).setting(&config);
        Self::started(kind, "scripted", options).await.allowed().await
    }

    async fn allowed(self) -> Self {
        self.server_is("error").await;
        self.allow();
        self.server_is("ready").await;
        self
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        workspace(&self.directory)
    }

    /// Declares the server anew.
    pub(crate) fn declare(&self, kind: &str, args: &[&str]) {
        declare(&self.directory, kind, args);
    }

    /// Returns how often the server was started.
    pub(crate) fn starts(&self) -> usize {
        fs::read(self.directory.path().join("starts")).unwrap_or_default().len()
    }

    /// Lets the workspace run what it wants, from the shell.
    pub(crate) fn allow(&self) {
        allow(&self.host, &self.workspace());
    }

    /// Waits for a state of the server.
    pub(crate) fn server(&self) -> Value {
        shown(&self.client.view(), &self.uris.session)
    }

    /// Waits until the server is shown in a state.
    pub(crate) async fn server_is(&self, kind: &str) -> Value {
        let session = &self.uris.session;
        let is = |view: &View| shown(view, session)["state"]["kind"] == kind;
        self.client.until(&format!("the server is {kind}"), is).await;
        self.server()
    }

    /// Returns how many actions the session has had so far.
    pub(crate) fn history(&self) -> usize {
        self.client.view().actions_on(&self.uris.session).len()
    }

    /// Waits until a server was said to be in such a state, after so many actions of the session, and returns that
    /// state. It may be in another one by now: what the host mends by itself is not there to be looked at.
    pub(crate) async fn was(&self, what: &str, after: usize, fits: impl Fn(&Value) -> bool) -> Value {
        let session = &self.uris.session;
        let find = |view: &View| {
            let states = view.actions_on(session).into_iter().skip(after);
            let mut states = states.map(|action| action["state"].clone());
            states.find(|state| state["kind"].is_string() && fits(state))
        };
        self.client
            .until(&format!("a server was {what}"), |view| find(view).is_some())
            .await;
        find(&self.client.view()).expect("what happened has happened")
    }

    /// Returns the state of the server with this name.
    pub(crate) fn named(&self, name: &str) -> Value {
        find(&self.client.view(), &self.uris.session, name)
    }

    /// Waits until the server with this name is shown in a state.
    pub(crate) async fn named_is(&self, name: &str, kind: &str) -> Value {
        let session = &self.uris.session;
        let is = |view: &View| find(view, session, name)["state"]["kind"] == kind;
        self.client.until(&format!("{name} is {kind}"), is).await;
        self.named(name)
    }

    /// Asks for the server to start or to stop.
    pub(crate) async fn demand(&self, what: &str) {
        let action = json!({ "type": format!("session/mcpServer{what}Requested"), "id": self.server()["id"] });
        self.client.dispatch(&self.uris.session, action).await;
    }

    /// Switches the server on or off.
    pub(crate) async fn switch(&self, enabled: bool) {
        let enablement = json!([{ "kind": "session", "enabled": enabled }]);
        let id = &self.server()["id"];
        let action = json!({ "type": "session/customizationToggled", "id": id, "enablement": enablement });
        self.client.dispatch(&self.uris.session, action).await;
    }

    /// Says something to the guide, and returns the answer.
    pub(crate) async fn say(&self, turn: &str, text: &str) -> String {
        markdown(&self.client.run_turn(&self.uris.chat, turn, text).await.response_parts)
    }

    /// Has a tool called, allows it, and returns what the guide says about it.
    pub(crate) async fn call(&self, turn: &str, what: &str) -> String {
        self.approve(turn, &format!("/mcp {what}")).await
    }

    /// Says something, allows the one call that comes of it, and returns the answer.
    pub(crate) async fn approve(&self, turn: &str, text: &str) -> String {
        self.client.start_turn(&self.uris.chat, turn, text).await;
        let wait = self.client.wait_for(&self.uris.session, "toolConfirmation").await;
        self.client.decide(&wait, json!({ "approved": true })).await;
        self.ending(turn).await
    }

    /// Waits for a turn to end, and returns the answer.
    pub(crate) async fn ending(&self, turn: &str) -> String {
        markdown(&self.client.turn_end(&self.uris.chat, turn).await.response_parts)
    }
}

/// Lets a workspace run what it wants, from the shell.
pub(crate) fn allow(host: &HostProcess, workspace: &Path) {
    let output = Command::new(PROGRAM)
        .args(["trust", "allow"])
        .arg(workspace)
        .arg("--data")
        .arg(host.data_path(""))
        .env_clear()
        .env("HOME", host.path(""))
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{output:?}");
}

pub(crate) fn workspace(directory: &TempDir) -> PathBuf {
    fs::canonicalize(directory.path()).expect("there").join("w")
}

fn declare(directory: &TempDir, kind: &str, args: &[&str]) {
    let server = json!({
        "command": std::env::current_exe().expect("this program"),
        "args": args,
        "env": {
            innkeeper_testkit::misbehaving_server::KIND: kind,
            "ODD_STARTS": directory.path().join("starts"),
            "ODD_SECRET": "s3cr3t-value",
        },
    });
    write(directory, &json!({ "odd": server }));
}

fn made() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir(directory.path().join("w")).expect("made");
    directory
}

fn write(directory: &TempDir, servers: &Value) {
    let file = json!({ "mcpServers": servers });
    fs::write(workspace(directory).join(".mcp.json"), file.to_string()).expect("written");
}

pub(crate) fn shown(view: &View, session: &str) -> Value {
    servers(view, session).next().unwrap_or_default()
}

pub(crate) fn find(view: &View, session: &str, name: &str) -> Value {
    let found = servers(view, session).find(|server| server["name"] == name);
    found.unwrap_or_default()
}

fn servers(view: &View, session: &str) -> impl Iterator<Item = Value> {
    let list = view
        .session(session)
        .and_then(|session| session.customizations.as_ref());
    let entries = match json!(list) {
        Value::Array(entries) => entries,
        _ => Vec::new(),
    };
    entries.into_iter().filter(|entry| entry["type"] == "mcpServer")
}

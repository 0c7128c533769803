//! A host, a workspace with a `.mcp.json`, and sessions in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use innkeeper_testkit::official::{OfficialClient, SessionUris, View, markdown, tool_calls_of};
use innkeeper_testkit::process::{HostOptions, HostProcess, TIMEOUT, lives};
use serde_json::{Value, json};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_innkeeper");

/// A host that finds programs.
pub(crate) fn options() -> HostOptions {
    let path = std::env::var_os("PATH").unwrap_or_default();
    HostOptions::new(PROGRAM).environment("PATH", path)
}

/// A place on disk: a workspace, and beside it what servers note.
pub(crate) struct TestDirectory {
    directory: TempDir,
}

impl TestDirectory {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        fs::create_dir(directory.path().join("w")).expect("made");
        Self { directory }
    }

    /// A file beside the workspace.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.directory.path()).expect("there").join(name)
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.beside("w")
    }

    pub(crate) fn uri(&self) -> String {
        format!("file://{}", self.workspace().display())
    }

    /// Returns the declaration of a misbehaving server.
    pub(crate) fn odd(&self, kind: &str) -> Value {
        json!({
            "command": std::env::current_exe().expect("this program"),
            "args": ["--exact", "odd_server", "--nocapture"],
            "env": { innkeeper_testkit::misbehaving_server::KIND: kind, "ODD_PIDS": self.beside("pids") },
        })
    }

    /// The same as a section of the host's configuration.
    pub(crate) fn configured(&self, name: &str, kind: &str) -> String {
        let server = self.odd(kind);
        let env = &server["env"];
        format!(
            "[mcp.servers.{name}]\ncommand = {}\nargs = {}\nenv = {{ {} = {kind:?}, ODD_PIDS = {} }}\n",
            server["command"],
            server["args"],
            innkeeper_testkit::misbehaving_server::KIND,
            env["ODD_PIDS"],
        )
    }

    /// Declares servers in a file of the workspace.
    pub(crate) fn declare(&self, file: &str, servers: &Value) {
        let path = self.workspace().join(file);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, json!({ "mcpServers": servers }).to_string()).expect("written");
    }

    /// The processes that odd servers ever were.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.beside("pids")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Returns the processes that still run.
    pub(crate) fn living(&self) -> usize {
        self.pids().into_iter().filter(|pid| lives(*pid)).count()
    }

    /// Polls until so many processes live, because no event reports the end of a process.
    pub(crate) async fn until_living(&self, count: usize) {
        let waiting = async {
            while self.living() != count {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(TIMEOUT, waiting).await;
        assert!(waited.is_ok(), "{} live and not {count}", self.living());
    }
}

/// A host with a client.
pub(crate) struct Inn {
    pub(crate) host: HostProcess,
    pub(crate) client: OfficialClient,
    pub(crate) place: TestDirectory,
}

impl Inn {
    /// A workspace with these servers.
    pub(crate) async fn open(place: TestDirectory, servers: Value) -> Self {
        Self::open_with(place, servers, options()).await
    }

    pub(crate) async fn open_with(place: TestDirectory, servers: Value, options: HostOptions) -> Self {
        place.declare(".mcp.json", &servers);
        Self::started(place, options).await
    }

    /// A workspace with whatever files it has.
    pub(crate) async fn started(place: TestDirectory, options: HostOptions) -> Self {
        let host = HostProcess::start(options).await;
        let client = OfficialClient::connect(host.address(), "first").await;
        Self { host, client, place }
    }

    /// A session in the workspace.
    pub(crate) async fn room(&self, name: &str) -> TestSession<'_> {
        let uris = self.client.create_session_in(name, &self.place.uri()).await;
        TestSession {
            client: &self.client,
            uris,
        }
    }

    /// Opens the first session, and trusts its servers.
    pub(crate) async fn allowed_room(&self, name: &str, server: &str) -> TestSession<'_> {
        let room = self.room(name).await;
        room.server_is(server, "error").await;
        self.allow();
        room
    }

    /// The same, with its server ready.
    pub(crate) async fn ready_room(&self, name: &str, server: &str) -> TestSession<'_> {
        let room = self.allowed_room(name, server).await;
        room.server_is(server, "ready").await;
        room
    }

    /// Lets the workspace run what it wants, from the shell.
    pub(crate) fn allow(&self) {
        self.trust("allow", &self.place.workspace());
    }

    /// Decides about a workspace, from the shell.
    pub(crate) fn trust(&self, decision: &str, workspace: &Path) {
        let output = Command::new(PROGRAM)
            .args(["trust", decision])
            .arg(workspace)
            .arg("--data")
            .arg(self.host.data_path(""))
            .env_clear()
            .env("HOME", self.host.path(""))
            .output()
            .expect("the program runs");
        assert!(output.status.success(), "{output:?}");
    }
}

/// A session as one client has it.
pub(crate) struct TestSession<'a> {
    pub(crate) client: &'a OfficialClient,
    pub(crate) uris: SessionUris,
}

impl TestSession<'_> {
    /// A server as this client is shown it, at the top or within a plugin.
    pub(crate) fn server(&self, name: &str) -> Value {
        shown(&self.client.view(), &self.uris.session, name)
    }

    /// Waits until a server is shown in a state.
    pub(crate) async fn server_is(&self, name: &str, kind: &str) -> Value {
        let session = &self.uris.session;
        let is = |view: &View| shown(view, session, name)["state"]["kind"] == kind;
        self.client.until(&format!("{name} is {kind}"), is).await;
        self.server(name)
    }

    /// Waits until a server was said not to be ready, after so many actions of the session. It may be ready again.
    pub(crate) async fn was_not_ready(&self, after: usize) {
        let session = &self.uris.session;
        let was = |view: &View| {
            let actions = view.actions_on(session);
            let mut news = actions.iter().skip(after);
            news.any(|action| action["state"]["kind"].as_str().is_some_and(|kind| kind != "ready"))
        };
        self.client.until("a server is not ready", was).await;
    }

    /// Asks for a server to start or to stop.
    pub(crate) async fn demand(&self, name: &str, what: &str) {
        let action = json!({ "type": format!("session/mcpServer{what}Requested"), "id": self.server(name)["id"] });
        self.client.dispatch(&self.uris.session, action).await;
    }

    /// Decides whether a server is on.
    pub(crate) async fn switch(&self, name: &str, enablement: Value) {
        let id = &self.server(name)["id"];
        let action = json!({ "type": "session/customizationToggled", "id": id, "enablement": enablement });
        self.client.dispatch(&self.uris.session, action).await;
    }

    /// Says something to the guide, and returns the answer.
    pub(crate) async fn say(&self, turn: &str, text: &str) -> String {
        markdown(&self.client.run_turn(&self.uris.chat, turn, text).await.response_parts)
    }

    /// Has a tool called and allows it.
    pub(crate) async fn begin(&self, turn: &str, what: &str) {
        let text = format!("/mcp {what}");
        self.client.start_turn(&self.uris.chat, turn, &text).await;
        let wait = self.client.wait_for(&self.uris.session, "toolConfirmation").await;
        self.client.decide(&wait, json!({ "approved": true })).await;
    }

    /// Returns the response of the guide to a call, and the call.
    pub(crate) async fn end(&self, turn: &str) -> (String, Value) {
        let turn = self.client.turn_end(&self.uris.chat, turn).await;
        let words = markdown(&turn.response_parts);
        let call = tool_calls_of(&turn).pop();
        (words, call.expect("the turn called a tool"))
    }

    /// Has a tool called, allows it, and returns what comes of it.
    pub(crate) async fn call(&self, turn: &str, what: &str) -> (String, Value) {
        self.begin(turn, what).await;
        self.end(turn).await
    }
}

/// A server as it is shown, at the top or within a plugin.
pub(crate) fn shown(view: &View, session: &str, name: &str) -> Value {
    let state = view.session(session);
    let list = json!(state.and_then(|session| session.customizations.as_ref()));
    let entries = list.as_array().into_iter().flatten();
    let mut all = entries.flat_map(|entry| {
        let children = entry["children"].as_array().into_iter().flatten();
        std::iter::once(entry).chain(children)
    });
    let server = all.find(|entry| entry["type"] == "mcpServer" && entry["name"] == name);
    server.cloned().unwrap_or_default()
}

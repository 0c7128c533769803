//! A host whose agent calls the tool that a message names, and a client that decides about it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use innkeeper_agents::tools::{HostTool, ToolAnswer, ToolEnv, ToolSettings, standard_tools};
use innkeeper_host::{
    Access, Agent, AgentChat, AgentError, AgentInfo, ChatContext, EventSink, Host, Limits, TurnInput, async_trait, http,
};
use innkeeper_testkit::official::{OfficialClient, SessionUris, View, about};
use innkeeper_testkit::raw::Address;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{Mutex, Notify, mpsc};

/// Calls the tool that the message names and records the result for the model.
#[derive(Clone)]
struct Caller {
    tools: Arc<Vec<Arc<dyn HostTool>>>,
    answers: mpsc::UnboundedSender<ToolAnswer>,
    give_up: Arc<Notify>,
    /// The directory `skill` beside the working directory, which tools may read.
    readable: Vec<PathBuf>,
}

#[async_trait]
impl Agent for Caller {
    fn info(&self) -> AgentInfo {
        AgentInfo::new("caller", "Caller", "Calls one tool.")
    }

    async fn open_chat(&self, _: ChatContext) -> Result<Box<dyn AgentChat>, AgentError> {
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl AgentChat for Caller {
    async fn run_turn(&mut self, turn: TurnInput, events: EventSink) -> Result<(), AgentError> {
        let message: Value = serde_json::from_str(&turn.text).expect("the test writes JSON");
        let name = message["tool"].as_str().expect("a tool");
        let tool = self
            .tools
            .iter()
            .find(|tool| tool.spec().name == name)
            .expect("a known tool");
        let env = ToolEnv {
            working_directories: turn.working_directories.clone(),
            readable: self.readable.clone(),
        };
        let draft = events.tool(name).display_name(tool.title()).start().await?;
        let calling = tool.run(draft, message["input"].clone(), &env);
        tokio::select! {
            answer = calling => {
                let _ = self.answers.send(answer?);
            }
            () = self.give_up.notified() => {}
        }
        Ok(())
    }
}

/// A session in a temporary directory.
pub struct ToolHarness {
    /// The working directory.
    pub inside: PathBuf,
    /// A directory beside it that tools must not reach.
    pub outside: PathBuf,
    pub client: OfficialClient,
    pub uris: SessionUris,
    answers: Mutex<mpsc::UnboundedReceiver<ToolAnswer>>,
    give_up: Arc<Notify>,
    turns: AtomicUsize,
    _server: http::Server,
    _host: Host,
    dir: TempDir,
}

impl ToolHarness {
    pub async fn new() -> Self {
        Self::with(ToolSettings::default()).await
    }

    pub async fn with(settings: ToolSettings) -> Self {
        Self::set_up(|_| settings, Limits::default()).await
    }

    /// Uses settings that depend on the working directory, and a host with its own limits.
    pub async fn set_up(settings: impl FnOnce(&Path) -> ToolSettings, limits: Limits) -> Self {
        let dir = TempDir::new().expect("a directory");
        let (inside, outside) = (dir.path().join("inside"), dir.path().join("outside"));
        std::fs::create_dir(&inside).expect("a directory");
        std::fs::create_dir(&outside).expect("a directory");
        let directories = json!([format!("file://{}", inside.display())]);
        let settings = settings(&inside);
        Self::start(dir, inside, outside, settings, limits, directories).await
    }

    /// Starts a session without a working directory.
    pub async fn nowhere() -> Self {
        let dir = TempDir::new().expect("a directory");
        let path = dir.path().to_owned();
        let (settings, limits) = (ToolSettings::default(), Limits::default());
        Self::start(dir, path.clone(), path, settings, limits, json!([])).await
    }

    async fn start(
        dir: TempDir,
        inside: PathBuf,
        outside: PathBuf,
        settings: ToolSettings,
        limits: Limits,
        directories: Value,
    ) -> Self {
        let (answers, receiver) = mpsc::unbounded_channel();
        let give_up = Arc::new(Notify::new());
        let agent = Caller {
            tools: Arc::new(standard_tools(settings)),
            answers,
            give_up: Arc::clone(&give_up),
            readable: vec![dir.path().join("skill")],
        };
        let host = Host::builder().agent(agent).limits(limits).start().await;
        let host = host.expect("the host starts");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let bound = listener.local_addr().expect("an address");
        let server = http::serve_tcp(host.handle(), listener, Access::new(bound));
        let address = Address {
            url: format!("ws://{bound}"),
            token: None,
        };
        let client = OfficialClient::connect(&address, "first").await;
        let params = json!({ "workingDirectories": directories });
        let uris = client.create_session_with("scene", params).await;
        Self {
            inside,
            outside,
            client,
            uris,
            answers: Mutex::new(receiver),
            give_up,
            turns: AtomicUsize::new(0),
            _server: server,
            _host: host,
            dir,
        }
    }

    /// Writes a file in the working directory and creates its parent directories.
    pub fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        put(&self.inside.join(path), content);
    }

    /// Reads a file of the working directory.
    pub fn get(&self, path: &str) -> String {
        let bytes = std::fs::read(self.inside.join(path)).expect("the file is there");
        String::from_utf8(bytes).expect("text")
    }

    fn turn(&self) -> String {
        format!("t{}", self.turns.load(Ordering::Relaxed))
    }

    /// Starts a call.
    pub async fn begin(&self, tool: &str, input: Value) {
        self.turns.fetch_add(1, Ordering::Relaxed);
        let message = json!({ "tool": tool, "input": input }).to_string();
        self.client.start_turn(&self.uris.chat, &self.turn(), &message).await;
    }

    /// Waits for the end of the call and returns the result for the model.
    pub async fn answer(&self) -> ToolAnswer {
        self.client.turn_end(&self.uris.chat, &self.turn()).await;
        let answer = self.answers.lock().await.try_recv();
        answer.expect("the tool has answered")
    }

    /// Runs a tool that needs no confirmation.
    pub async fn call(&self, tool: &str, input: Value) -> ToolAnswer {
        self.begin(tool, input).await;
        self.answer().await
    }

    /// Runs a tool that must succeed and returns its text.
    pub async fn text(&self, tool: &str, input: Value) -> String {
        let answer = self.call(tool, input).await;
        assert!(!answer.is_error, "{}", answer.text);
        answer.text
    }

    /// Runs a tool that must fail and returns its text.
    pub async fn problem(&self, tool: &str, input: Value) -> String {
        let answer = self.call(tool, input).await;
        assert!(answer.is_error, "{}", answer.text);
        answer.text
    }

    /// Starts a call that needs confirmation and returns it.
    pub async fn ask(&self, tool: &str, input: Value) -> Value {
        self.begin(tool, input).await;
        self.question().await
    }

    pub async fn question(&self) -> Value {
        self.client.call_in(&self.uris.chat, "pending-confirmation").await
    }

    /// Waits until the call needs confirmation and returns it; `None` if it ends without.
    pub async fn question_or_end(&self) -> Option<Value> {
        let (chat, turn) = (&self.uris.chat, self.turn());
        let asks = |view: &View| {
            let mut calls = view.tool_calls(chat).into_iter();
            calls.find(|call| call["status"] == "pending-confirmation")
        };
        self.client
            .until("it asks or is over", |view| {
                asks(view).is_some() || view.ended_turn(chat, &turn).is_some()
            })
            .await;
        asks(&self.client.view())
    }

    /// Sends a decision.
    pub async fn decide(&self, call: &Value, decision: Value) {
        let action = about("chat/toolCallConfirmed", &self.turn(), call, decision);
        self.client.dispatch(&self.uris.chat, action).await;
    }

    /// Confirms a call and waits for its end.
    pub async fn approve(&self, call: &Value) -> ToolAnswer {
        self.decide(call, json!({ "approved": true })).await;
        self.answer().await
    }

    /// Runs a tool and confirms it.
    pub async fn approved(&self, tool: &str, input: Value) -> ToolAnswer {
        let call = self.ask(tool, input).await;
        self.approve(&call).await
    }

    /// Confirms a call with an edited input and waits for its end.
    pub async fn approve_edited(&self, call: &Value, input: &str) -> ToolAnswer {
        self.decide(call, json!({ "approved": true, "editedToolInput": input }))
            .await;
        self.answer().await
    }

    /// Cancels the turn and waits for its end.
    pub async fn cancel(&self) {
        self.client.cancel_turn(&self.uris.chat, &self.turn()).await;
    }

    /// Makes the agent drop the call and waits for the end of the turn.
    pub async fn give_up(&self) {
        self.give_up.notify_one();
        self.client.turn_end(&self.uris.chat, &self.turn()).await;
    }

    /// Stops the host and keeps the directory.
    pub fn into_dir(self) -> TempDir {
        self.dir
    }

    /// Returns the call as clients see it.
    pub fn shown(&self) -> Value {
        let mut calls = self.client.view().tool_calls(&self.uris.chat);
        calls.pop().expect("a call")
    }

    /// Returns the Markdown link to a file of the working directory.
    pub fn link(&self, path: &str) -> String {
        format!("[{path}](file://{})", self.inside.join(path).display())
    }

    /// Returns the summary of the call for clients.
    pub fn summary(&self) -> String {
        let call = self.shown();
        let message = &call["pastTenseMessage"];
        let words = message.as_str().or_else(|| message["markdown"].as_str());
        words.unwrap_or_else(|| panic!("no message: {call}")).to_owned()
    }

    /// Waits until the content of the running call contains a text.
    pub async fn shows(&self, text: &str) {
        self.client
            .until(&format!("the call shows {text}"), |view| {
                let calls = view.tool_calls(&self.uris.chat);
                calls
                    .last()
                    .is_some_and(|call| call["content"].to_string().contains(text))
            })
            .await;
    }
}

pub fn put(path: &Path, content: impl AsRef<[u8]>) {
    let parent = path.parent().expect("a file is in a directory");
    std::fs::create_dir_all(parent).expect("a directory");
    std::fs::write(path, content).expect("a file");
}

/// Creates a named pipe.
pub fn fifo(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
}

//! Hosts inside the process of the test, for tests that need an agent, a journal or a handle of their own. Clients
//! still connect through a socket and are the published ones.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use innkeeper_host::{
    Access, Agent, AgentChat, AgentError, AgentInfo, ChatContext, EventSink, Host, HostBuilder, HostHandle, Limits,
    TurnInput, async_trait, http,
};
use serde_json::{Value, json};

use crate::official::{OfficialClient, SessionUris, View, markdown};
use crate::raw::Address;

/// A host that listens on a free port.
#[derive(Debug)]
pub struct Running {
    /// The host.
    pub host: Host,
    /// Where it listens.
    pub address: Address,
    _server: http::Server,
}

impl Running {
    /// Starts a host.
    pub async fn start(builder: HostBuilder) -> Self {
        let host = builder.start().await.expect("the host starts");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let bound = listener.local_addr().expect("an address");
        let server = http::serve_tcp(host.handle(), listener, Access::new(bound));
        let address = Address {
            url: format!("ws://{bound}"),
            token: None,
        };
        Self {
            host,
            address,
            _server: server,
        }
    }

    /// A handle to the host.
    pub fn handle(&self) -> HostHandle {
        self.host.handle()
    }
}

/// A small agent: it repeats messages, and streams for `/stream COUNT [DELAY_MS [BYTES]]`.
#[derive(Debug, Clone, Copy, Default)]
pub struct TestAgent;

#[async_trait]
impl Agent for TestAgent {
    fn info(&self) -> AgentInfo {
        AgentInfo::new("test", "Test", "Repeats messages.")
            .with_model("test", "Test")
            .with_resume()
            .with_chats()
            .with_command("stream", "COUNT [DELAY_MS [BYTES]]", "Streams deltas.")
    }

    async fn open_chat(&self, _: ChatContext) -> Result<Box<dyn AgentChat>, AgentError> {
        Ok(Box::new(*self))
    }
}

#[async_trait]
impl AgentChat for TestAgent {
    async fn run_turn(&mut self, turn: TurnInput, events: EventSink) -> Result<(), AgentError> {
        let Some(arguments) = turn.text.strip_prefix("/stream") else {
            return events.text(format!("You said: {}", turn.text)).await;
        };
        let mut numbers = arguments.split_whitespace().filter_map(|word| word.parse().ok());
        let count: u64 = numbers.next().unwrap_or(10);
        let delay = Duration::from_millis(numbers.next().unwrap_or(0));
        let bytes = numbers
            .next()
            .and_then(|bytes| usize::try_from(bytes).ok())
            .unwrap_or(16);
        for _ in 0..count {
            events.text("x".repeat(bytes)).await?;
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = events.cancelled() => return Err(AgentError::Cancelled),
            }
        }
        Ok(())
    }
}

type Script = Arc<dyn Fn(TurnInput, EventSink) -> BoxFuture<'static, Result<(), AgentError>> + Send + Sync>;

/// An agent that runs a script of the test in every turn.
#[derive(Clone)]
pub struct Scripted(Script);

impl std::fmt::Debug for Scripted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scripted").finish_non_exhaustive()
    }
}

impl Scripted {
    /// An agent with this script.
    pub fn new<F>(script: impl Fn(TurnInput, EventSink) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), AgentError>> + Send + 'static,
    {
        Self(Arc::new(move |turn, events| Box::pin(script(turn, events))))
    }
}

#[async_trait]
impl Agent for Scripted {
    fn info(&self) -> AgentInfo {
        AgentInfo::new("scripted", "Scripted", "Does what the test says.")
    }

    async fn open_chat(&self, _: ChatContext) -> Result<Box<dyn AgentChat>, AgentError> {
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl AgentChat for Scripted {
    async fn run_turn(&mut self, turn: TurnInput, events: EventSink) -> Result<(), AgentError> {
        (self.0)(turn, events).await
    }
}

/// A builder of a host with a [`Scripted`] agent.
pub fn scripted_host<F>(script: impl Fn(TurnInput, EventSink) -> F + Send + Sync + 'static) -> HostBuilder
where
    F: Future<Output = Result<(), AgentError>> + Send + 'static,
{
    let agent = Scripted(Arc::new(move |turn, events| Box::pin(script(turn, events))));
    Host::builder().agent(agent)
}

/// A host, a client, and a session of theirs.
pub struct SessionFixture {
    /// The host.
    pub running: Running,
    /// The client.
    pub client: OfficialClient,
    /// The session and its default chat.
    pub uris: SessionUris,
}

impl std::fmt::Debug for SessionFixture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionFixture")
            .field("uris", &self.uris)
            .finish_non_exhaustive()
    }
}

impl SessionFixture {
    /// Starts a host with a [`Scripted`] agent.
    pub async fn of<F>(script: impl Fn(TurnInput, EventSink) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), AgentError>> + Send + 'static,
    {
        Self::with(Host::builder().agent(Scripted::new(script))).await
    }

    /// Starts this host.
    pub async fn with(builder: HostBuilder) -> Self {
        let limits = Limits {
            cancel_time: Duration::from_millis(200),
            ..Limits::default()
        };
        let running = Running::start(builder.limits(limits)).await;
        let client = OfficialClient::connect(&running.address, "first").await;
        let uris = client.create_session("fixture").await;
        Self { running, client, uris }
    }

    /// Starts the turn `t1`.
    pub async fn begin(&self, text: &str) {
        self.client.start_turn(&self.uris.chat, "t1", text).await;
    }

    /// Waits until so many calls of the running turn have a status, and returns them.
    pub async fn calls(&self, status: &str, count: usize) -> Vec<Value> {
        let found = |view: &View| -> Vec<Value> {
            let calls = calls(&self.parts(view)).into_iter();
            calls.filter(|call| call["status"] == status).collect()
        };
        self.client
            .until(&format!("{count} calls are {status}"), |view| {
                found(view).len() >= count
            })
            .await;
        found(&self.client.view())
    }

    /// Waits until one call has a status, and returns it.
    pub async fn call(&self, status: &str) -> Value {
        self.calls(status, 1).await.remove(0)
    }

    /// Waits for an open question and returns it.
    pub async fn question(&self) -> Value {
        let found = |view: &View| {
            let parts = self.parts(view).into_iter();
            let mut requests = parts.filter(|part| part["kind"] == "inputRequest");
            requests.find(|part| part.get("response").is_none_or(Value::is_null))
        };
        self.client
            .until("a question is asked", |view| found(view).is_some())
            .await;
        let part = found(&self.client.view()).expect("it was just there");
        part["request"].clone()
    }

    /// The parts of the running turn, or of the one that ended last.
    fn parts(&self, view: &View) -> Vec<Value> {
        let chat = view.chat(&self.uris.chat).expect("mirrored");
        let parts = match (&chat.active_turn, chat.turns.last()) {
            (Some(turn), _) => &turn.response_parts,
            (None, Some(turn)) => &turn.response_parts,
            (None, None) => return Vec::new(),
        };
        let part = |part| serde_json::to_value(part).expect("parts are JSON");
        parts.iter().map(part).collect()
    }

    /// Dispatches an action about a call of `t1`.
    pub async fn about(&self, call: &Value, mut action: Value) {
        action["turnId"] = json!("t1");
        action["toolCallId"] = call["toolCallId"].clone();
        self.client.dispatch(&self.uris.chat, action).await;
    }

    /// Decides about a call.
    pub async fn decide(&self, call: &Value, approved: bool) {
        let action = json!({ "type": "chat/toolCallConfirmed", "approved": approved });
        self.about(call, action).await;
    }

    /// Cancels `t1` and waits for its end.
    pub async fn cancel(&self) {
        let cancel = json!({ "type": "chat/turnCancelled", "turnId": "t1", "duration": 0 });
        self.client.dispatch(&self.uris.chat, cancel).await;
        self.client.turn_end(&self.uris.chat, "t1").await;
    }

    /// Waits for the end of `t1`: its parts, as JSON.
    pub async fn end(&self) -> Vec<Value> {
        let turn = self.client.turn_end(&self.uris.chat, "t1").await;
        let part = |part| serde_json::to_value(part).expect("parts are JSON");
        turn.response_parts.iter().map(part).collect()
    }

    /// Waits for the end of `t1`: its words.
    pub async fn words(&self) -> String {
        let turn = self.client.turn_end(&self.uris.chat, "t1").await;
        markdown(&turn.response_parts)
    }

    /// The client joins the session with tools of its own.
    pub async fn offer_tools(&self, client: &OfficialClient, tools: &[&str]) {
        let tools: Vec<Value> = tools.iter().map(|name| json!({ "name": name })).collect();
        let active = json!({ "clientId": client.client_id, "tools": tools });
        let action = json!({ "type": "session/activeClientSet", "activeClient": active });
        client.dispatch(&self.uris.session, action).await;
        client
            .until("the client is a member", |view| {
                let session = view.session(&self.uris.session).expect("mirrored");
                let mut members = session.active_clients.iter();
                members.any(|member| member.client_id == client.client_id)
            })
            .await;
    }
}

/// The tool calls among parts.
pub fn calls(parts: &[Value]) -> Vec<Value> {
    let calls = parts.iter().filter(|part| part["kind"] == "toolCall");
    calls.map(|part| part["toolCall"].clone()).collect()
}

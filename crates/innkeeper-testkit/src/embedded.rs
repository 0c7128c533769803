//! An agent whose turns are written by the test, and a client that watches tool calls.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use innkeeper_host::{
    Agent, AgentChat, AgentError, AgentInfo, ChatContext, EventSink, Host, HostBuilder, Limits, TurnInput, async_trait,
};
use innkeeper_testkit::official::{OfficialClient, SessionUris, View};
use serde_json::{Value, json};

use crate::Running;

type Script = Arc<dyn Fn(TurnInput, EventSink) -> BoxFuture<'static, Result<(), AgentError>> + Send + Sync>;

/// Runs the script in every turn.
#[derive(Clone)]
pub struct Scripted(Script);

impl Scripted {
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

/// A host with such an agent.
pub fn builder<F>(script: impl Fn(TurnInput, EventSink) -> F + Send + Sync + 'static) -> HostBuilder
where
    F: Future<Output = Result<(), AgentError>> + Send + 'static,
{
    let agent = Scripted(Arc::new(move |turn, events| Box::pin(script(turn, events))));
    Host::builder().agent(agent)
}

/// A host with such an agent, a client, and a session of theirs.
pub struct Scene {
    pub running: Running,
    pub client: OfficialClient,
    pub uris: SessionUris,
}

impl Scene {
    pub async fn of<F>(script: impl Fn(TurnInput, EventSink) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), AgentError>> + Send + 'static,
    {
        Self::with(Host::builder().agent(Scripted::new(script))).await
    }

    pub async fn with(builder: HostBuilder) -> Self {
        let limits = Limits {
            cancel_time: std::time::Duration::from_millis(200),
            ..Limits::default()
        };
        let running = Running::start(builder.limits(limits)).await;
        let client = OfficialClient::connect(&running.address, "first").await;
        let uris = client.create_session("scene").await;
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
        innkeeper_testkit::official::markdown(&turn.response_parts)
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

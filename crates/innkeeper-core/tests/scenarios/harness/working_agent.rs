//! A stage with an agent at work, and the agent's events and replies.

use innkeeper_core::agent::{
    Confirmation, Contributor, Decision, Permission, ToolReady, ToolReply, ToolResult, ToolStart, ToolStep,
};
use innkeeper_core::request::CreateSession;
use innkeeper_core::{AgentCommand, AgentEvent, ClientId, Command, ConnId, CoreConfig, Effect, Reply};
use serde_json::{Value, json};

use crate::harness::*;

/// The call most scenarios are about.
pub const CALL: &str = "call-1";

/// A session with a running turn, watched by one client on the session and on the chat.
pub fn working() -> (Stage, ConnId, String) {
    working_with(CoreConfig::default())
}

pub fn working_with(config: CoreConfig) -> (Stage, ConnId, String) {
    let mut stage = Stage::with(config);
    let conn = stage.client("c", &[]);
    let chat = stage.session(conn, SESSION);
    stage.subscribe(conn, SESSION);
    stage.subscribe(conn, &chat);
    stage.start_turn(conn, &chat, "t");
    stage.inbox(conn);
    (stage, conn, chat)
}

/// A tool of the host's.
pub fn host_tool(name: &str) -> ToolStart {
    ToolStart {
        name: name.to_owned(),
        display_name: name.to_owned(),
        intention: None,
        contributor: Contributor::Host,
        kind: None,
        mcp: None,
        ui: None,
        meta: serde_json::Map::new(),
    }
}

/// A tool that a client runs.
pub fn client_tool(name: &str, client: &str) -> ToolStart {
    ToolStart {
        contributor: Contributor::Client(ClientId::new(client)),
        ..host_tool(name)
    }
}

/// A call that runs at once.
pub fn harmless() -> ToolStep {
    ready(Permission::NotNeeded)
}

/// A call that asks, with the choices the host offers.
pub fn risky() -> ToolStep {
    ready(Permission::Ask(Box::new(Confirmation {
        title: Some("Run it?".into()),
        editable: true,
        ..Confirmation::default()
    })))
}

pub fn ready(permission: Permission) -> ToolStep {
    ToolStep::Ready(ToolReady {
        invocation: "Running it".into(),
        input: Some(r#"{"command":"ls"}"#.into()),
        permission,
    })
}

pub fn done() -> ToolStep {
    ToolStep::Done {
        result: ToolResult::text("Ran it", "output"),
        review: false,
    }
}

/// A decision about [`CALL`].
pub fn decide(approved: bool, option: Option<&str>) -> Value {
    let mut action =
        json!({ "type": "chat/toolCallConfirmed", "turnId": "t", "toolCallId": CALL, "approved": approved });
    if let Some(option) = option {
        action["selectedOptionId"] = json!(option);
    }
    action
}

impl Stage {
    /// The agent takes a step with a call.
    pub fn tool(&mut self, call: &str, step: ToolStep) {
        self.says(AgentEvent::Tool {
            call: call.to_owned(),
            step: Box::new(step),
        });
    }

    /// The agent starts [`CALL`] and makes it ready.
    pub fn call(&mut self, start: ToolStart, ready: ToolStep) {
        self.tool(CALL, ToolStep::Start(start));
        self.tool(CALL, ready);
    }

    /// A call as the chat's state shows it.
    pub fn call_state(&self, chat: &str, call: &str) -> Value {
        let state = self.state(chat);
        let turns = state["turns"].as_array().into_iter().flatten();
        let parts = turns
            .chain([&state["activeTurn"]])
            .flat_map(|turn| turn["responseParts"].as_array().into_iter().flatten());
        parts
            .map(|part| &part["toolCall"])
            .find(|state| state["toolCallId"] == call)
            .unwrap_or_else(|| panic!("no call {call} in {state:#}"))
            .clone()
    }

    /// The input needed of the session.
    pub fn waits(&self, session: &str) -> Vec<Value> {
        let state = self.state(session);
        state["inputNeeded"].as_array().cloned().unwrap_or_default()
    }

    /// The replies to agents since the last call, without the start of calls that need no confirmation.
    pub fn replies(&mut self) -> Vec<Reply> {
        let is_start = |reply: &Reply| {
            matches!(
                reply,
                Reply::Tool {
                    reply: ToolReply::Started,
                    ..
                }
            )
        };
        let mut replies = self.all_replies();
        replies.retain(|reply| !is_start(reply));
        replies
    }

    /// All replies to agents since the last call.
    pub fn all_replies(&mut self) -> Vec<Reply> {
        let mut replies = Vec::new();
        self.agent.retain(|effect| match effect {
            Effect::Agent(AgentCommand::Reply { reply, .. }) => {
                replies.push((**reply).clone());
                false
            }
            _ => true,
        });
        replies
    }

    /// The one decision that the agent got.
    pub fn decision(&mut self) -> Decision {
        match self.replies().as_slice() {
            [
                Reply::Tool {
                    reply: ToolReply::Decided(decision),
                    ..
                },
            ] => decision.clone(),
            other => panic!("not one decision: {other:?}"),
        }
    }

    /// Creates a session that is more than a URI.
    pub fn create_with(&mut self, conn: ConnId, create: CreateSession) -> Value {
        self.request(conn, Command::CreateSession(Box::new(create)))
    }

    /// Dispatches and returns the reason of the refusal.
    pub fn refused(&mut self, conn: ConnId, channel: &str, action: Value) -> String {
        self.inbox(conn);
        self.dispatch(conn, channel, 7, action);
        let envelopes = self.actions(conn);
        let refused = envelopes
            .iter()
            .find_map(|envelope| envelope["rejectionReason"].as_str());
        refused
            .unwrap_or_else(|| panic!("not refused: {envelopes:?}"))
            .to_owned()
    }

    /// Dispatches and returns the echo, which carries the dispatcher's origin.
    pub fn accepted(&mut self, conn: ConnId, channel: &str, action: Value) -> Value {
        self.inbox(conn);
        self.dispatch(conn, channel, 8, action);
        let envelopes = self.actions(conn);
        let echo = envelopes.iter().find(|envelope| envelope["origin"]["clientSeq"] == 8);
        let echo = echo.unwrap_or_else(|| panic!("no echo: {envelopes:?}")).clone();
        assert!(echo.get("rejectionReason").is_none(), "{echo}");
        echo
    }
}

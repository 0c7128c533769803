//! Tool calls, approvals and questions, as a client's program sees and answers them.
//!
//! Calls and waits are handed out as JSON, in the spelling of the wire. The published types lose a call that waits for
//! a sign-in (E-41); JSON shows all of them alike.

use ahp_types::state::{ChatState, ResponsePart, SessionActiveClient, Turn};
use serde_json::{Value, json};

use super::{OfficialClient, SessionUris, View};

/// The member of a call's `_meta` that says who decided about it.
const DECIDED_BY: &str = "innkeeper.decidedBy";

impl View {
    /// The tool calls of a chat's running turn, or of its latest one.
    pub fn tool_calls(&self, chat: &str) -> Vec<Value> {
        let latest = |chat: &ChatState| match &chat.active_turn {
            Some(turn) => tool_calls(&turn.response_parts),
            None => chat.turns.last().map(tool_calls_of).unwrap_or_default(),
        };
        self.chat(chat).map(latest).unwrap_or_default()
    }

    /// Returns `inputNeeded` of a session.
    pub fn waits(&self, session: &str) -> Vec<Value> {
        let session = self.session(session);
        let waits = session.and_then(|session| session.input_needed.as_deref());
        let waits = waits.unwrap_or_default().iter();
        waits.map(|wait| serde_json::to_value(wait).expect("JSON")).collect()
    }

    /// The clients that take part in a session.
    pub fn members(&self, session: &str) -> Vec<SessionActiveClient> {
        let members = self.session(session).map(|session| session.active_clients.clone());
        members.unwrap_or_default()
    }

    /// A setting of a session.
    pub fn setting(&self, session: &str, name: &str) -> Value {
        let config = self.session(session).and_then(|session| session.config.as_ref());
        let value = config.and_then(|config| config.values.get(name));
        value.cloned().unwrap_or_default()
    }

    /// The actions of a channel on the present connection, as JSON.
    pub fn actions_on(&self, channel: &str) -> Vec<Value> {
        let actions = self.actions.iter().filter(|envelope| envelope.channel == channel);
        actions
            .map(|envelope| serde_json::to_value(&envelope.action).expect("actions are JSON"))
            .collect()
    }
}

impl OfficialClient {
    /// Waits for a tool call in this status and returns it.
    pub async fn call_in(&self, chat: &str, status: &str) -> Value {
        let find = |view: &View| {
            let mut calls = view.tool_calls(chat).into_iter();
            calls.find(|call| call["status"] == status)
        };
        self.until_some(&format!("a call is {status}"), find).await
    }

    /// Waits until a session waits for something of this kind, and returns it.
    pub async fn wait_for(&self, session: &str, kind: &str) -> Value {
        let find = |view: &View| view.waits(session).into_iter().find(|wait| wait["kind"] == kind);
        self.until_some(&format!("the session shows {kind}"), find).await
    }

    /// Waits until `inputNeeded` of a session is empty.
    pub async fn nothing_waits(&self, session: &str) {
        self.until("nothing waits", |view| view.waits(session).is_empty()).await;
    }

    /// Decides about a call, knowing nothing but what the session shows of it.
    pub async fn decide(&self, wait: &Value, decision: Value) {
        self.answer(wait, "chat/toolCallConfirmed", decision).await;
    }

    /// Sends any action about a call, knowing nothing but what the session shows of it.
    pub async fn answer(&self, wait: &Value, kind: &str, fields: Value) {
        let chat = wait["chat"].as_str().expect("a wait names its chat");
        let action = about(
            kind,
            wait["turnId"].as_str().expect("a wait names its turn"),
            &wait["toolCall"],
            fields,
        );
        self.dispatch(chat, action).await;
    }

    /// Creates a session that works in a directory, and joins it.
    pub async fn create_session_in(&self, name: &str, directory: &str) -> SessionUris {
        let create = json!({ "workingDirectories": [directory] });
        self.create_session_with(name, create).await
    }

    /// Creates a session with further parameters, joins it, and waits until it is ready.
    pub async fn create_session_with(&self, name: &str, mut params: Value) -> SessionUris {
        let session = format!("ahp-session:/{name}");
        params["channel"] = json!(session);
        let created: Value = self.request("createSession", params).await.expect("created");
        assert_eq!(created, Value::Null, "createSession answers null (TRN-09)");
        let uris = self.join(&session).await;
        self.session_ready(&session).await;
        uris
    }

    /// Announces itself in a session with tools of these names, and waits for the echo.
    pub async fn offer(&self, session: &str, tools: &[&str]) {
        self.dispatch(session, offer(&self.client_id, tools)).await;
        self.until("the session shows the tools", |view| {
            let members = view.members(session);
            let me = members.iter().find(|member| member.client_id == self.client_id);
            me.is_some_and(|me| me.tools.iter().map(|tool| tool.name.as_str()).eq(tools.iter().copied()))
        })
        .await;
    }

    /// Waits until the host has handled everything this client sent so far, and everything it had to say at once
    /// about it is here: something is sent that the host refuses, and nothing overtakes the refusal.
    pub async fn caught_up(&self) {
        let forbidden = json!({ "type": "root/activeSessionsChanged", "activeSessions": 0 });
        self.dispatch("ahp-root://", forbidden).await;
        let find = |view: &View| {
            view.refusals
                .iter()
                .position(|refusal| refusal.channel == "ahp-root://")
        };
        self.until("the host has caught up", |view| find(view).is_some()).await;
        let mut view = self.view();
        if let Some(index) = find(&view) {
            view.refusals.remove(index);
        }
    }

    /// Stops to watch a channel.
    pub async fn unsubscribe(&self, uri: &str) {
        let unsubscribed = self.client().unsubscribe(uri.to_owned()).await;
        unsubscribed.expect("the request can be sent");
        self.view().forget(uri);
    }
}

/// An action about a tool call.
pub fn about(kind: &str, turn_id: &str, call: &Value, fields: Value) -> Value {
    let mut action = fields;
    action["type"] = json!(kind);
    action["turnId"] = json!(turn_id);
    action["toolCallId"] = call["toolCallId"].clone();
    action
}

/// The announcement of a client with tools of these names.
pub fn offer(client_id: &str, tools: &[&str]) -> Value {
    let tools: Vec<Value> = tools
        .iter()
        .map(|name| json!({ "name": name, "description": "Does it.", "inputSchema": { "type": "object" } }))
        .collect();
    json!({ "type": "session/activeClientSet", "activeClient": { "clientId": client_id, "tools": tools } })
}

/// The tool calls of a turn that has ended.
pub fn tool_calls_of(turn: &Turn) -> Vec<Value> {
    tool_calls(&turn.response_parts)
}

/// Returns the author of the decision about a call.
pub fn decided_by(call: &Value) -> Option<&str> {
    call["_meta"][DECIDED_BY]["clientId"].as_str()
}

fn tool_calls(parts: &[ResponsePart]) -> Vec<Value> {
    let calls = parts.iter().filter_map(|part| match part {
        ResponsePart::ToolCall(part) => Some(&part.tool_call),
        _ => None,
    });
    calls
        .map(|call| serde_json::to_value(call).expect("calls are JSON"))
        .collect()
}

//! The same things in the words of each version: names of channels and members, actions, and the parts of a state.

use serde_json::{Value, json};

use crate::client::{CompatClient, Failure, View};
use crate::version::Version;

/// A session and its conversation: the default chat, or the session itself up to 0.3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uris {
    /// The session's channel.
    pub session: String,
    /// The channel of the conversation.
    pub chat: String,
}

impl Version {
    /// The root channel.
    pub fn root(self) -> &'static str {
        match self.has_channels() {
            true => "ahp-root://",
            false => concat!("agenthost:/", "root"),
        }
    }

    /// The type of an action of the conversation.
    pub fn of_chat(self, name: &str) -> String {
        match self.has_chats() {
            true => format!("chat/{name}"),
            false => format!("session/{name}"),
        }
    }

    /// Params that name a session or chat.
    pub fn about(self, member: &str, channel: &str) -> Value {
        match self.has_channels() {
            true => json!({ "channel": channel }),
            false => json!({ member: channel }),
        }
    }

    /// Params of a command of the connection.
    pub fn connection_params(self) -> Value {
        match self.has_channels() {
            true => json!({ "channel": "ahp-root://" }),
            false => json!({}),
        }
    }

    /// A user's message.
    pub fn message(self, text: &str) -> Value {
        match self.has_messages() {
            true => json!({ "text": text, "origin": { "kind": "user" } }),
            false => json!({ "text": text }),
        }
    }

    /// The member that holds a user's message.
    pub fn message_member(self) -> &'static str {
        match self.has_messages() {
            true => "message",
            false => "userMessage",
        }
    }

    /// The action that starts a turn.
    pub fn turn_started(self, turn: &str, text: &str) -> Value {
        let mut action = json!({ "type": self.of_chat("turnStarted"), "turnId": turn });
        action[self.message_member()] = self.message(text);
        if self.has_times() {
            action["startedAt"] = jiff::Timestamp::now().to_string().into();
        }
        action
    }

    /// The action that cancels a turn.
    pub fn turn_cancelled(self, turn: &str) -> Value {
        let mut action = json!({ "type": self.of_chat("turnCancelled"), "turnId": turn });
        if self.has_times() {
            action["duration"] = 0.into();
        }
        action
    }

    /// The action that queues a message or steers the turn.
    pub fn pending(self, kind: &str, id: &str, text: &str) -> Value {
        let mut action = json!({ "type": self.of_chat("pendingMessageSet"), "kind": kind, "id": id });
        action[self.message_member()] = self.message(text);
        action
    }

    /// An active client with tools of these names.
    pub fn active_client(self, id: &str, tools: &[&str]) -> Value {
        let tools: Vec<Value> = tools
            .iter()
            .map(|name| json!({ "name": name, "description": "Does it.", "inputSchema": { "type": "object" } }))
            .collect();
        json!({ "clientId": id, "displayName": "A client", "tools": tools })
    }

    /// The action that makes a client active.
    pub fn activated(self, client: Value) -> Value {
        match self.has_active_clients() {
            true => json!({ "type": "session/activeClientSet", "activeClient": client }),
            false => json!({ "type": "session/activeClientChanged", "activeClient": client }),
        }
    }

    /// The action that ends the activity of a client.
    pub fn deactivated(self, id: &str) -> Value {
        match self.has_active_clients() {
            true => json!({ "type": "session/activeClientRemoved", "clientId": id }),
            false => json!({ "type": "session/activeClientChanged" }),
        }
    }
}

impl CompatClient {
    /// Creates a session, joins it and waits until it is ready. `more` are further params in the words of 0.7.
    pub async fn create_session(&self, name: &str, more: Value) -> Uris {
        let session = format!("ahp-session:/{name}");
        let mut params = self.version.about("session", &session);
        merge(&mut params, more);
        let created = self.request("createSession", params).await;
        assert_eq!(created, Value::Null, "createSession answers null");
        let uris = self.join(&session).await;
        self.ready(&session).await;
        uris
    }

    /// Waits until turns can start in a session.
    pub async fn ready(&self, session: &str) {
        self.until("the session is ready", |view| {
            view.states
                .get(session)
                .is_some_and(|state| state["lifecycle"] == "ready")
        })
        .await;
    }

    /// Subscribes to a session and its conversation.
    pub async fn join(&self, session: &str) -> Uris {
        self.subscribe(session).await;
        let chat = match self.version.has_chats() {
            true => {
                let chat = self.state(session)["defaultChat"].as_str().map(str::to_owned);
                let chat = chat.expect("a session has a default chat");
                self.subscribe(&chat).await;
                chat
            }
            false => session.to_owned(),
        };
        Uris {
            session: session.to_owned(),
            chat,
        }
    }

    /// The members that a session's summary has in all versions: title, status, activity.
    pub fn summary(&self, session: &str) -> Value {
        let state = self.state(session);
        match self.version.has_active_clients() {
            true => state,
            false => state["summary"].clone(),
        }
    }

    /// Starts a turn.
    pub async fn start_turn(&self, uris: &Uris, turn: &str, text: &str) -> i64 {
        self.dispatch(&uris.chat, self.version.turn_started(turn, text)).await
    }

    /// Runs a turn to its end.
    pub async fn run_turn(&self, uris: &Uris, turn: &str, text: &str) -> Value {
        self.start_turn(uris, turn, text).await;
        self.turn_end(uris, turn).await
    }

    /// Waits for a turn to end, and returns it.
    pub async fn turn_end(&self, uris: &Uris, turn: &str) -> Value {
        self.find(&format!("the turn {turn} ends"), |view| {
            ended_turn(view, &uris.chat, turn)
        })
        .await
    }

    /// Waits until nothing runs in a conversation and nothing is queued.
    pub async fn at_rest(&self, uris: &Uris) {
        self.until("the conversation is at rest", |view| {
            let state = view.states.get(&uris.chat);
            state.is_some_and(|state| state["activeTurn"].is_null() && is_empty(&state["queuedMessages"]))
        })
        .await;
    }

    /// Waits for a tool call of the running turn in this status, and returns it.
    pub async fn call_in(&self, uris: &Uris, status: &str) -> Value {
        self.find(&format!("a tool call is {status}"), |view| {
            let state = view.states.get(&uris.chat)?;
            let parts = state["activeTurn"]["responseParts"].as_array()?;
            let calls = parts.iter().filter(|part| part["kind"] == "toolCall");
            let mut calls = calls.map(|part| &part["toolCall"]);
            calls.find(|call| call["status"] == status).cloned()
        })
        .await
    }

    /// Sends an action about a tool call of the running turn.
    pub async fn about_call(&self, uris: &Uris, turn: &str, call: &Value, name: &str, more: Value) -> i64 {
        let mut action = json!({
            "type": self.version.of_chat(name), "turnId": turn, "toolCallId": call["toolCallId"],
        });
        merge(&mut action, more);
        self.dispatch(&uris.chat, action).await
    }

    /// Waits for a question of the running turn, and returns the request.
    pub async fn question(&self, uris: &Uris) -> Value {
        self.find("a question is asked", |view| {
            open_question(self.version, view, &uris.chat)
        })
        .await
    }

    /// Waits for an action of the host or of any client, and returns its params.
    pub async fn action(&self, kind: &str) -> Value {
        self.find(&format!("{kind} arrives"), |view| {
            view.actions().find(|params| params["action"]["type"] == kind).cloned()
        })
        .await
    }

    /// Lists the sessions in one answer or by pages, and returns their summaries.
    pub async fn list_sessions(&self) -> Vec<Value> {
        let listed = self.request("listSessions", self.version.connection_params()).await;
        listed["items"].as_array().expect("items").clone()
    }

    /// Disposes a session.
    pub async fn dispose(&self, session: &str) -> Result<Value, Failure> {
        self.try_request("disposeSession", self.version.about("session", session))
            .await
    }
}

/// Returns a turn that has ended.
pub fn ended_turn(view: &View, chat: &str, turn: &str) -> Option<Value> {
    let turns = view.states.get(chat)?["turns"].as_array()?;
    turns.iter().find(|ended| ended["id"] == turn).cloned()
}

/// Returns an open question of the running turn.
pub fn open_question(version: Version, view: &View, chat: &str) -> Option<Value> {
    let state = view.states.get(chat)?;
    if !version.has_times() {
        return state["inputRequests"].as_array()?.first().cloned();
    }
    let parts = state["activeTurn"]["responseParts"].as_array()?;
    let mut questions = parts.iter().filter(|part| part["kind"] == "inputRequest");
    let open = questions.find(|part| part.get("response").is_none())?;
    Some(open["request"].clone())
}

/// The text of a turn's answer.
pub fn answer_text(turn: &Value) -> String {
    let parts = turn["responseParts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts = parts.iter().filter(|part| part["kind"] == "markdown");
    texts.filter_map(|part| part["content"].as_str()).collect()
}

/// The user's text of a turn.
pub fn user_text(turn: &Value) -> &str {
    let message = turn.get("message").or_else(|| turn.get("userMessage"));
    message.and_then(|message| message["text"].as_str()).unwrap_or_default()
}

/// The error of a failed turn: a part since 0.9, a member before.
pub fn turn_error(version: Version, turn: &Value) -> Value {
    if !version.has_error_parts() {
        return turn["error"].clone();
    }
    let parts = turn["responseParts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let error = parts.iter().find(|part| part["kind"] == "error");
    error.map(|part| part["error"].clone()).unwrap_or_default()
}

/// The tool calls of a turn.
pub fn tool_calls(turn: &Value) -> Vec<Value> {
    let parts = turn["responseParts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let calls = parts.iter().filter(|part| part["kind"] == "toolCall");
    calls.map(|part| part["toolCall"].clone()).collect()
}

/// A conversation as a user sees it, alike in all versions: for each turn the user's text, how it ended, the answer,
/// the tools with their statuses, and the error.
pub fn conversation(version: Version, state: &Value) -> Vec<Value> {
    let turns = state["turns"].as_array().map(Vec::as_slice).unwrap_or_default();
    let shown = turns.iter().map(|turn| {
        let calls = tool_calls(turn);
        let calls = calls.iter().map(|call| json!([call["toolName"], call["status"]]));
        json!({
            "id": turn["id"], "user": user_text(turn), "state": turn["state"], "answer": answer_text(turn),
            "calls": calls.collect::<Vec<_>>(), "error": turn_error(version, turn)["message"],
        })
    });
    shown.collect()
}

fn is_empty(list: &Value) -> bool {
    list.as_array().is_none_or(Vec::is_empty)
}

/// Adds the members of one object to another.
pub fn merge(into: &mut Value, more: Value) {
    if let (Some(into), Value::Object(more)) = (into.as_object_mut(), more) {
        into.extend(more);
    }
}

//! A client that transforms system prompts. The published client cannot opt in, so this is a raw one.

use serde_json::{Map, Value, json};

use crate::official::turn_started;
use crate::raw::{Address, RawClient};

/// The request that the host sends.
pub const METHOD: &str = "systemMessageTransform";

/// A member of one session that opted in to some sections.
pub struct Rewriter {
    /// Its connection.
    pub raw: RawClient,
    /// Its client id.
    pub client_id: String,
    /// The session.
    pub session: String,
    client_seq: i64,
}

/// The entry of an active client.
pub fn entry(client_id: &str, sections: &[&str]) -> Value {
    json!({ "clientId": client_id, "tools": [], "systemMessageTransform": { "sections": sections } })
}

impl Rewriter {
    /// Connects, subscribes to the session, and wants to rewrite these sections in it.
    pub async fn join(address: &Address, client_id: &str, session: &str, sections: &[&str]) -> Self {
        let raw = RawClient::initialized(address, client_id).await;
        let mut rewriter = Self::over(raw, client_id, session).await;
        rewriter.announce(sections).await;
        rewriter
    }

    /// Goes on with a connection that is through its handshake, and subscribes to the session.
    pub async fn over(raw: RawClient, client_id: &str, session: &str) -> Self {
        let mut rewriter = Self {
            raw,
            client_id: client_id.to_owned(),
            session: session.to_owned(),
            client_seq: 0,
        };
        let subscribe = json!({ "channel": session });
        rewriter.raw.call("subscribe", subscribe).await.expect("subscribed");
        rewriter
    }

    /// Opts in to these sections, waits for the echo and returns it.
    pub async fn announce(&mut self, sections: &[&str]) -> Value {
        let entry = entry(&self.client_id, sections);
        self.dispatch(json!({ "type": "session/activeClientSet", "activeClient": entry }))
            .await
    }

    /// Leaves the session, and waits for the echo.
    pub async fn leave(&mut self) {
        let client_id = self.client_id.clone();
        self.dispatch(json!({ "type": "session/activeClientRemoved", "clientId": client_id }))
            .await;
    }

    /// Dispatches an action to the session and waits for its echo, or for its refusal.
    pub async fn dispatch(&mut self, action: Value) -> Value {
        self.client_seq += 1;
        let (session, number) = (self.session.clone(), self.client_seq);
        self.raw.dispatch(&session, number, action).await;
        let own = json!({ "clientId": self.client_id, "clientSeq": number });
        let echo = self
            .raw
            .notification("the echo", |message| message["params"]["origin"] == own)
            .await;
        echo["params"].clone()
    }

    /// Starts a turn in a chat.
    pub async fn start_turn(&mut self, chat: &str, turn_id: &str, text: &str) {
        self.client_seq += 1;
        let number = self.client_seq;
        self.raw.dispatch(chat, number, turn_started(turn_id, text)).await;
    }

    /// Waits until it is asked to rewrite something.
    pub async fn request(&mut self) -> Value {
        self.raw.notification("a prompt to rewrite", is_request).await
    }

    /// Answers a request.
    pub async fn answer(&mut self, request: &Value, result: Value) {
        let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
        self.raw.send(answer.to_string()).await;
    }

    /// Refuses a request.
    pub async fn refuse(&mut self, request: &Value, message: &str) {
        let error = json!({ "code": -32603, "message": message });
        let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "error": error });
        self.raw.send(answer.to_string()).await;
    }

    /// Waits for the next request and rewrites these sections. Returns the request.
    pub async fn rewrite(&mut self, sections: &[(&str, &str)]) -> Value {
        let request = self.request().await;
        self.answer(&request, rewritten(sections)).await;
        request
    }

    /// Whether an unread request is there.
    pub async fn was_asked(&mut self) -> bool {
        self.raw.still_works().await;
        self.raw.has_notification(is_request)
    }
}

/// The result that rewrites these sections.
pub fn rewritten(sections: &[(&str, &str)]) -> Value {
    let section = |(id, content): &(&str, &str)| ((*id).to_owned(), json!({ "content": content }));
    let sections: Map<String, Value> = sections.iter().map(section).collect();
    json!({ "sections": sections })
}

/// The sections that a request asks for, by id.
pub fn asked_for(request: &Value) -> Vec<String> {
    let sections = request["params"]["sections"]
        .as_object()
        .expect("an object of sections");
    sections.keys().cloned().collect()
}

fn is_request(message: &Value) -> bool {
    message["method"] == METHOD
}

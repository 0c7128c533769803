//! A client that was written by reading one of the documents: literal frames, and nothing else.

use innkeeper_testkit::process::HostProcess;
use innkeeper_testkit::raw::RawClient;
use serde_json::{Value, json};

/// A raw client in a session.
pub(super) struct Reader {
    pub(super) client: RawClient,
    pub(super) session: String,
    next_seq: i64,
}

impl Reader {
    /// Creates a session with these further params, and waits until it is ready.
    pub(super) async fn create(host: &HostProcess, version: &str, id: &str, session: &str, more: Value) -> Self {
        let mut reader = Self::connect(host, version, id, session, Value::Null).await;
        let mut params = json!({ "channel": session });
        innkeeper_compat::words::merge(&mut params, more);
        let created = reader.client.call("createSession", params).await;
        assert_eq!(created, Ok(Value::Null));
        if reader.state().await["lifecycle"] != "ready" {
            reader.action("session/ready").await;
        }
        reader
    }

    /// Introduces itself, with these capabilities if there are any, and enters no session yet.
    pub(super) async fn connect(
        host: &HostProcess,
        version: &str,
        id: &str,
        session: &str,
        capabilities: Value,
    ) -> Self {
        let mut client = RawClient::connect(host.address()).await;
        let mut params = json!({ "channel": "ahp-root://", "clientId": id, "protocolVersions": [version] });
        if !capabilities.is_null() {
            params["capabilities"] = capabilities;
        }
        client.call("initialize", params).await.expect("initialized");
        Self {
            client,
            session: session.to_owned(),
            next_seq: 1,
        }
    }

    /// The state of the session, which it subscribes to.
    pub(super) async fn state(&mut self) -> Value {
        let params = json!({ "channel": self.session });
        let subscribed = self.client.call("subscribe", params).await;
        subscribed.expect("subscribed")["snapshot"]["state"].take()
    }

    /// Dispatches an action to the session and returns the envelope that answers it.
    pub(super) async fn dispatch(&mut self, action: Value) -> Value {
        let session = self.session.clone();
        self.dispatch_to(&session, action).await
    }

    /// Dispatches an action to a channel and returns the envelope that answers it.
    pub(super) async fn dispatch_to(&mut self, channel: &str, action: Value) -> Value {
        let seq = self.next_seq;
        self.next_seq += 1;
        self.client.dispatch(channel, seq, action).await;
        let is_answer =
            |message: &Value| message["method"] == "action" && message["params"]["origin"]["clientSeq"] == seq;
        let answer = self.client.notification("the answer to a dispatch", is_answer).await;
        assert_eq!(answer["params"]["channel"], channel);
        answer["params"].clone()
    }

    /// Dispatches an action that comes back with all its members.
    pub(super) async fn does(&mut self, action: Value) {
        let answer = self.dispatch(action.clone()).await;
        assert_eq!(answer.get("rejectionReason"), None, "{answer}");
        for (name, value) in action.as_object().expect("an object") {
            assert_eq!(&answer["action"][name], value, "{name} of {answer}");
        }
    }

    /// Waits for an action of this type, and returns it.
    pub(super) async fn action(&mut self, kind: &str) -> Value {
        self.action_with(kind, |_| true).await
    }

    /// Waits for an action of this type of which something is true, and returns it.
    pub(super) async fn action_with(&mut self, kind: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let is_it = |message: &Value| {
            let action = &message["params"]["action"];
            message["method"] == "action" && action["type"] == kind && fits(action)
        };
        let message = self.client.notification(kind, is_it).await;
        message["params"]["action"].clone()
    }

    /// Waits until a turn is complete.
    pub(super) async fn ended(&mut self, turn: &str) {
        self.action_with("session/turnComplete", |action| action["turnId"] == turn)
            .await;
    }

    /// Forgets what came until now, so that waiting is for something new.
    pub(super) async fn catch_up(&mut self) {
        self.client.still_works().await;
        self.client.notifications.clear();
    }
}

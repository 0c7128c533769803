//! The published client and reducers of one version, driven by JSON commands.
//!
//! The macro `sdk!` is invoked once per version, with that version's crate. Commands and events are JSON, so that
//! versions which cannot be linked into one program run as processes of their own (`clients/`) and look the same.
//!
//! Commands have an `ask` (a number, repeated in the answer) and a `do`: `open`, `initialize`, `reconnect`,
//! `subscribe`, `unsubscribe`, `dispatch`, `request`, `notify`, `cut`. Events are `{sent}`, `{received}`, `{closed}`,
//! `{state, value}` (the fold of a channel), `{unknown}` (an action of another version), `{problem}` and `{answer, ok | error | failed}`.

/// Defines `run(commands, events)` for one version. The last word is how that version names channels: `channels` if
/// every message names its channel, `sessions` for 0.1, whose actions name their session; `chats` if there are chat
/// channels, which `channels` alone does not have.
#[macro_export]
macro_rules! sdk {
    ($ahp:ident, $era:ident) => {
        use std::collections::{BTreeMap, BTreeSet};

        use serde_json::{Value, json};
        use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
        use $ahp::ahp_types::actions::{ActionEnvelope, StateAction};
        use $ahp::ahp_types::commands::{ReconnectResult, SubscribeResult};
        use $ahp::ahp_types::state::{Snapshot, SnapshotState};
        use $ahp::reducers::{self, ReduceOutcome};
        use $ahp::{Client, ClientConfig, ClientError, Transport, TransportError, TransportMessage};

        use super::wire::{Frame, Wire};

        /// Runs one client until the commands end.
        pub async fn run(mut commands: UnboundedReceiver<Value>, events: UnboundedSender<Value>) {
            let mut sdk = Sdk {
                client: None,
                frames: None,
                channels: BTreeMap::new(),
                changed: BTreeSet::new(),
                last_seen: 0,
                received: Vec::new(),
                events,
            };
            loop {
                tokio::select! {
                    biased;
                    frame = next_frame(&mut sdk.frames) => sdk.receive(frame),
                    command = commands.recv() => match command {
                        Some(command) => sdk.perform(command).await,
                        None => return,
                    },
                }
                sdk.drain();
                sdk.report();
            }
        }

        async fn next_frame(frames: &mut Option<UnboundedReceiver<Frame>>) -> Frame {
            match frames {
                Some(frames) => match frames.recv().await {
                    Some(frame) => frame,
                    None => std::future::pending().await,
                },
                None => std::future::pending().await,
            }
        }

        struct Sdk {
            client: Option<Client>,
            frames: Option<UnboundedReceiver<Frame>>,
            /// The fold of each subscribed channel, and the number of the snapshot it began with.
            channels: BTreeMap<String, (SnapshotState, u64)>,
            changed: BTreeSet<String>,
            last_seen: u64,
            /// Messages that are folded; they are reported after the states that they lead to.
            received: Vec<Value>,
            events: UnboundedSender<Value>,
        }

        struct PublishedTransport(Wire);

        impl Transport for PublishedTransport {
            async fn send(&mut self, message: TransportMessage) -> Result<(), TransportError> {
                let text = match message {
                    TransportMessage::Text(text) => text,
                    TransportMessage::Parsed(message) => {
                        serde_json::to_string(&message).map_err(|error| TransportError::Protocol(error.to_string()))?
                    }
                    TransportMessage::Binary(_) => return Err(TransportError::Protocol("binary".to_owned())),
                };
                self.0.send(text).await.map_err(TransportError::Io)
            }

            async fn recv(&mut self) -> Result<Option<TransportMessage>, TransportError> {
                let text = self.0.receive().await.map_err(TransportError::Io)?;
                Ok(text.map(TransportMessage::Text))
            }
        }

        impl Sdk {
            fn emit(&self, event: Value) {
                // The receiver is gone when the test has ended.
                let _ = self.events.send(event);
            }

            fn problem(&self, text: String) {
                self.emit(json!({ "problem": text }));
            }

            fn drain(&mut self) {
                while let Some(frame) = self.frames.as_mut().and_then(|frames| frames.try_recv().ok()) {
                    self.receive(frame);
                }
            }

            /// Emits the folds that have changed.
            fn report(&mut self) {
                for channel in std::mem::take(&mut self.changed) {
                    let state = self.channels.get(&channel).map(|(state, _)| serde_json::to_value(state));
                    let state = state.transpose().expect("states are JSON");
                    self.emit(json!({ "state": channel, "value": state }));
                }
                for message in std::mem::take(&mut self.received) {
                    self.emit(json!({ "received": message }));
                }
            }

            fn receive(&mut self, frame: Frame) {
                match frame {
                    Frame::Sent(text) => self.emit(json!({ "sent": text })),
                    Frame::Closed(reason) => self.emit(json!({ "closed": reason })),
                    Frame::Received(text) => {
                        let message: Value = serde_json::from_str(&text).unwrap_or_default();
                        if message["method"] == "action" {
                            self.receive_action(&message["params"]);
                        }
                        self.received.push(message);
                    }
                }
            }

            /// Decodes an action as the published client does and folds it with the published reducer.
            fn receive_action(&mut self, params: &Value) {
                let envelope: ActionEnvelope = match serde_json::from_value(params.clone()) {
                    Ok(envelope) => envelope,
                    Err(error) => return self.problem(format!("an envelope cannot be decoded: {error}: {params}")),
                };
                self.last_seen = self.last_seen.max(envelope.server_seq);
                if envelope.rejection_reason.is_some() {
                    return;
                }
                self.fold(&envelope);
            }

            fn fold(&mut self, envelope: &ActionEnvelope) {
                if let StateAction::Unknown(action) = &envelope.action {
                    return self.emit(json!({ "unknown": action }));
                }
                let channel = $crate::sdk!(@channel_of $era, envelope);
                let Some((state, from_seq)) = self.channels.get_mut(&channel) else {
                    return;
                };
                if envelope.server_seq <= *from_seq {
                    return;
                }
                let action = &envelope.action;
                let outcome = match state {
                    SnapshotState::Root(state) => reducers::apply_action_to_root(state, action),
                    SnapshotState::Session(state) => reducers::apply_action_to_session(state, action),
                    other => $crate::sdk!(@apply $era, other, action),
                };
                match outcome {
                    ReduceOutcome::Applied | ReduceOutcome::NoOp => {}
                    other => self.problem(format!("the reducer answers {other:?} to {envelope:?}")),
                }
                self.changed.insert(channel);
            }

            fn take_snapshot(&mut self, snapshot: Snapshot) {
                let from_seq = u64::try_from(snapshot.from_seq).expect("fromSeq is not negative");
                self.last_seen = self.last_seen.max(from_seq);
                self.changed.insert(snapshot.resource.clone());
                self.channels.insert(snapshot.resource, (snapshot.state, from_seq));
            }

            async fn perform(&mut self, command: Value) {
                let ask = command["ask"].clone();
                let answered = match command["do"].as_str().unwrap_or_default() {
                    "open" => self.open(&command).await,
                    "cut" => self.cut().await,
                    "request" => return self.request(ask, command),
                    kind => match self.client.clone() {
                        Some(client) => self.act(client, kind, &command).await,
                        None => Err(json!({ "failed": "not connected" })),
                    },
                };
                // Frames that came before the answer are recorded before it.
                self.drain();
                self.report();
                self.emit(answer(ask, answered));
            }

            async fn open(&mut self, command: &Value) -> Result<Value, Value> {
                let (record, frames) = unbounded_channel();
                let url = command["url"].as_str().unwrap_or_default();
                let wire = Wire::open(url, record).await.map_err(|error| json!({ "failed": error }))?;
                let connected = Client::connect(PublishedTransport(wire), ClientConfig::default()).await;
                self.client = Some(connected.map_err(refusal)?);
                self.frames = Some(frames);
                Ok(Value::Null)
            }

            /// Drops the connection without a word. All frames that had arrived are folded.
            async fn cut(&mut self) -> Result<Value, Value> {
                self.client = None;
                if let Some(mut frames) = self.frames.take() {
                    while let Some(frame) = frames.recv().await {
                        self.receive(frame);
                    }
                }
                Ok(Value::Null)
            }

            /// Sends a request. Other commands do not wait for its answer.
            fn request(&mut self, ask: Value, command: Value) {
                let Some(client) = self.client.clone() else {
                    return self.emit(answer(ask, Err(json!({ "failed": "not connected" }))));
                };
                let events = self.events.clone();
                tokio::spawn(async move {
                    let method = command["method"].as_str().unwrap_or_default();
                    let answered = client.request::<_, Value>(method, &command["params"]).await;
                    let _ = events.send(answer(ask, answered.map_err(refusal)));
                });
            }

            async fn act(&mut self, client: Client, kind: &str, command: &Value) -> Result<Value, Value> {
                let text = |name: &str| command[name].as_str().unwrap_or_default().to_owned();
                let subscriptions = || -> Vec<String> {
                    serde_json::from_value(command["subscriptions"].clone()).unwrap_or_default()
                };
                match kind {
                    "initialize" => {
                        let offer = serde_json::from_value(command["offer"].clone()).expect("an offer of this version");
                        let initializing = client.initialize(text("clientId"), offer, subscriptions());
                        let result = initializing.await.map_err(refusal)?;
                        let seq = u64::try_from(result.server_seq).expect("serverSeq is not negative");
                        self.last_seen = self.last_seen.max(seq);
                        let shown = serde_json::to_value(&result).expect("results are JSON");
                        self.channels.clear();
                        for snapshot in result.snapshots {
                            self.take_snapshot(snapshot);
                        }
                        Ok(shown)
                    }
                    "reconnect" => {
                        let last_seen = command["lastSeen"].as_u64().unwrap_or(self.last_seen);
                        let last_seen = i64::try_from(last_seen).expect("a plausible number");
                        let channels: Vec<String> = self.channels.keys().cloned().collect();
                        let reconnecting = client.reconnect(text("clientId"), last_seen, channels);
                        Ok(self.reconnected(reconnecting.await.map_err(refusal)?))
                    }
                    "subscribe" => {
                        let result = match command.get("params") {
                            None => client.subscribe(text("channel")).await.map_err(refusal)?.0,
                            Some(params) => {
                                let requesting = client.request::<_, SubscribeResult>("subscribe", params);
                                requesting.await.map_err(refusal)?
                            }
                        };
                        let shown = serde_json::to_value(&result).expect("results are JSON");
                        let snapshot = $crate::sdk!(@snapshot $era, result);
                        match snapshot {
                            Some(snapshot) => self.take_snapshot(snapshot),
                            None => return Err(json!({ "failed": "no snapshot" })),
                        }
                        Ok(shown)
                    }
                    "unsubscribe" => {
                        client.unsubscribe(text("channel")).await.map_err(refusal)?;
                        self.channels.remove(&text("channel"));
                        self.changed.insert(text("channel"));
                        Ok(Value::Null)
                    }
                    "dispatch" => {
                        let action: StateAction = serde_json::from_value(command["action"].clone())
                            .map_err(|error| json!({ "failed": error.to_string() }))?;
                        if matches!(action, StateAction::Unknown(_)) {
                            return Err(json!({ "failed": "this version has no such action" }));
                        }
                        let handle = $crate::sdk!(@dispatch $era, client, text("channel"), action);
                        let handle = handle.map_err(refusal)?;
                        Ok(json!({ "clientSeq": handle.client_seq }))
                    }
                    "notify" => {
                        let notified = client.notify(&text("method"), &command["params"]).await;
                        notified.map_err(refusal)?;
                        Ok(Value::Null)
                    }
                    other => Err(json!({ "failed": format!("unknown command {other}") })),
                }
            }

            fn reconnected(&mut self, result: ReconnectResult) -> Value {
                match result {
                    ReconnectResult::Replay(replay) => {
                        let shown = json!({ "type": "replay", "actions": replay.actions.len() });
                        for envelope in &replay.actions {
                            self.last_seen = self.last_seen.max(envelope.server_seq);
                            self.fold(envelope);
                        }
                        shown
                    }
                    ReconnectResult::Snapshot(fresh) => {
                        for channel in std::mem::take(&mut self.channels).into_keys() {
                            self.changed.insert(channel);
                        }
                        let count = fresh.snapshots.len();
                        for snapshot in fresh.snapshots {
                            self.take_snapshot(snapshot);
                        }
                        json!({ "type": "snapshot", "snapshots": count })
                    }
                }
            }
        }

        fn answer(ask: Value, answered: Result<Value, Value>) -> Value {
            match answered {
                Ok(value) => json!({ "answer": ask, "ok": value }),
                Err(mut refusal) => {
                    refusal["answer"] = ask;
                    refusal
                }
            }
        }

        fn refusal(error: ClientError) -> Value {
            match error {
                ClientError::Rpc(error) => {
                    json!({ "error": { "code": error.code, "message": error.message, "data": error.data } })
                }
                other => json!({ "failed": other.to_string() }),
            }
        }
    };

    (@channel_of sessions, $envelope:ident) => {{
        let action = serde_json::to_value(&$envelope.action).expect("actions are JSON");
        match action["session"].as_str().or_else(|| action["terminal"].as_str()) {
            Some(channel) => channel.to_owned(),
            None => concat!("agenthost:/", "root").to_owned(),
        }
    }};
    (@channel_of $era:ident, $envelope:ident) => {
        $envelope.channel.clone()
    };

    (@apply chats, $state:ident, $action:ident) => {
        match $state {
            SnapshotState::Chat(state) => reducers::apply_action_to_chat(state, $action),
            SnapshotState::ResourceWatch(state) => reducers::apply_action_to_resource_watch(state, $action),
            SnapshotState::Terminal(state) => reducers::apply_action_to_terminal(state, $action),
            SnapshotState::Changeset(state) => reducers::apply_action_to_changeset(state, $action),
            SnapshotState::Annotations(state) => reducers::apply_action_to_annotations(state, $action),
            _ => ReduceOutcome::OutOfScope,
        }
    };
    (@apply channels, $state:ident, $action:ident) => {
        match $state {
            SnapshotState::Terminal(state) => reducers::apply_action_to_terminal(state, $action),
            SnapshotState::Changeset(state) => $crate::sdk!(@changeset state, $action),
            _ => ReduceOutcome::OutOfScope,
        }
    };
    (@apply $era:ident, $state:ident, $action:ident) => {
        match $state {
            SnapshotState::Terminal(state) => reducers::apply_action_to_terminal(state, $action),
            _ => ReduceOutcome::OutOfScope,
        }
    };

    // 0.2 and 0.3 have the types of changesets, and their published reducers leave them out. This one does what the
    // documents of the types say.
    (@changeset $state:ident, $action:ident) => {{
        let action = serde_json::to_value($action).expect("actions are JSON");
        let mut state = serde_json::to_value(&*$state).expect("states are JSON");
        let position = |list: &Value, id: &Value| list.as_array()?.iter().position(|item| item["id"] == *id);
        let failed = action["status"] == "error";
        let mut outcome = ReduceOutcome::Applied;
        match action["type"].as_str().unwrap_or_default() {
            "changeset/statusChanged" => {
                state["status"] = action["status"].clone();
                state["error"] = if failed { action["error"].clone() } else { Value::Null };
            }
            "changeset/fileSet" => match position(&state["files"], &action["file"]["id"]) {
                Some(known) => state["files"][known] = action["file"].clone(),
                None => state["files"].as_array_mut().expect("a list").push(action["file"].clone()),
            },
            "changeset/fileRemoved" => {
                if let Some(known) = position(&state["files"], &action["fileId"]) {
                    state["files"].as_array_mut().expect("a list").remove(known);
                }
            }
            "changeset/operationsChanged" => state["operations"] = action["operations"].clone(),
            "changeset/operationStatusChanged" => {
                if let Some(known) = position(&state["operations"], &action["operationId"]) {
                    state["operations"][known]["status"] = action["status"].clone();
                    state["operations"][known]["error"] = if failed { action["error"].clone() } else { Value::Null };
                }
            }
            "changeset/cleared" => state["files"] = json!([]),
            _ => outcome = ReduceOutcome::OutOfScope,
        }
        *$state = serde_json::from_value(state).expect("the state of a changeset");
        outcome
    }};

    (@snapshot sessions, $result:ident) => {
        Some($result.snapshot)
    };
    (@snapshot $era:ident, $result:ident) => {
        $result.snapshot
    };

    (@dispatch sessions, $client:ident, $channel:expr, $action:ident) => {{
        let _ = $channel;
        $client.dispatch($action).await
    }};
    (@dispatch $era:ident, $client:ident, $channel:expr, $action:ident) => {
        $client.dispatch($channel, $action).await
    };
}

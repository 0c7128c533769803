//! A host on a stage: every input is handled at once, and what each connection was sent waits in
//! its inbox as JSON.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ahp_types::state::AgentInfo;
use innkeeper_core::agent::TurnSpan;
use innkeeper_core::decode::decode_action;
use innkeeper_core::request::{CreateSession, Initialize, ListSessions, Reconnect, Subscribe};
use innkeeper_core::{
    AgentCommand, AgentEvent, AgentProfile, ChannelId, ClientId, CloseReason, Command, CompletionQuery,
    CompletionRequest, ConnId, CoreConfig, Delivery, Dispatch, Effect, Failure, HostCore, Input, McpCommand, Now,
    Principal, Publication, RequestId, Scope, Seq, Subscriber, TurnEnd, TurnKey,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

mod chats;
mod persisted;
mod store;
pub mod working_agent;

pub use chats::*;
pub use persisted::*;
pub use store::*;

pub const ROOT: &str = "ahp-root://";
pub const SESSION: &str = "ahp-session:/one";

/// The host and all its effects.
pub struct Stage {
    pub core: HostCore,
    pub now: Now,
    pub closed: Vec<(ConnId, CloseReason)>,
    /// The effects for agents, oldest first.
    pub agent: Vec<Effect>,
    /// The audience of the latest publication.
    pub audience: Vec<Subscriber>,
    /// Where turns are when they are not in memory.
    pub turns: Arc<TurnStore>,
    /// The turns that were loaded into memory: the first, and the end.
    pub loads: Vec<(usize, usize)>,
    /// The turns that were read for agents.
    pub spans: Vec<TurnSpan>,
    /// The persisted state, if the host has a store.
    pub persisted: Option<PersistedState>,
    inboxes: BTreeMap<ConnId, Vec<Value>>,
    next_slot: u32,
    next_id: u64,
}

impl Stage {
    pub fn new() -> Self {
        Self::with(CoreConfig::default())
    }

    pub fn with(config: CoreConfig) -> Self {
        Self::starting_at(config, Seq(1))
    }

    pub fn starting_at(config: CoreConfig, last_seq: Seq) -> Self {
        let agents = vec![agent("tour").into(), agent("other").into()];
        Self::with_agents(config, agents, last_seq)
    }

    pub fn with_agents(config: CoreConfig, agents: Vec<AgentProfile>, last_seq: Seq) -> Self {
        Self {
            core: HostCore::new(config, agents, last_seq),
            now: Now {
                mono_ms: 5000,
                wall: "2026-01-31T12:00:00Z".parse().expect("a valid time"),
            },
            closed: Vec::new(),
            agent: Vec::new(),
            audience: Vec::new(),
            turns: Arc::default(),
            loads: Vec::new(),
            spans: Vec::new(),
            persisted: None,
            inboxes: BTreeMap::new(),
            next_slot: 0,
            next_id: 1,
        }
    }

    pub fn handle(&mut self, input: Input) {
        let mut effects = Vec::new();
        self.load_for(&input);
        self.core.handle(self.now, input, &mut effects);
        self.store_turns();
        self.perform(effects);
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        let mut loaded = Vec::new();
        for mut effect in effects {
            self.tell(&mut effect);
            if let Some(persisted) = &mut self.persisted {
                persisted.persist(&effect);
            }
            loaded.extend(self.loaded(&effect));
            match effect {
                Effect::Publish(publication) => self.publish(&publication),
                Effect::Deliver(delivery) => self.deliver(delivery),
                Effect::Mcp(McpCommand::SetToken {
                    answer: Some((conn, ref id)),
                    ..
                }) => {
                    // It is persisted at once.
                    self.receive(conn, &innkeeper_core::frame::encode_result(id, &json!({})));
                    self.agent.push(effect);
                }
                Effect::Persist(_)
                | Effect::Journal(_)
                | Effect::Agent(_)
                | Effect::Blobs(_)
                | Effect::Erase(_)
                | Effect::Completions(_)
                | Effect::Customizations(_)
                | Effect::Mcp(_)
                | Effect::Changes(_)
                | Effect::Repositories(_)
                | Effect::Terminals(_)
                | Effect::Resources(_) => self.agent.push(effect),
            }
        }
        for input in loaded {
            self.handle(input);
        }
    }

    fn publish(&mut self, publication: &Publication) {
        let Publication { to, frame, .. } = publication;
        if !to.is_empty() {
            self.audience = to.to_vec();
        }
        for subscriber in to.iter() {
            self.receive(subscriber.conn, &frame.shown_to(subscriber).bytes);
        }
    }

    fn deliver(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::Notify { to, message } => {
                for subscriber in to.iter() {
                    self.receive(subscriber.conn, &message);
                }
            }
            Delivery::ExportLogs { to, message } => {
                for conn in to.iter() {
                    self.receive(*conn, &message);
                }
            }
            Delivery::Send { to, message } => {
                let bytes = message.into_wire().to_bytes();
                self.receive(to, &bytes.expect("what is not in memory is in the store"));
            }
            Delivery::Close { conn, reason } => self.closed.push((conn, reason)),
        }
    }

    fn receive(&mut self, conn: ConnId, bytes: &[u8]) {
        let message = serde_json::from_slice(bytes).expect("the host sends JSON");
        self.inboxes.entry(conn).or_default().push(message);
    }

    /// Everything that a connection was sent since the last call.
    pub fn inbox(&mut self, conn: ConnId) -> Vec<Value> {
        self.inboxes.remove(&conn).unwrap_or_default()
    }

    /// The envelopes among them.
    pub fn actions(&mut self, conn: ConnId) -> Vec<Value> {
        let inbox = self.inbox(conn).into_iter();
        inbox
            .filter(|message| message["method"] == "action")
            .map(|mut message| message["params"].take())
            .collect()
    }

    /// The types of the envelopes among them.
    pub fn action_types(&mut self, conn: ConnId) -> Vec<String> {
        let actions = self.actions(conn).into_iter();
        actions
            .map(|envelope| envelope["action"]["type"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// The methods of the notifications among them that are not actions.
    pub fn notifications(&mut self, conn: ConnId) -> Vec<Value> {
        let inbox = self.inbox(conn).into_iter();
        inbox
            .filter(|message| message["method"].as_str().is_some_and(|method| method != "action"))
            .collect()
    }

    pub fn connect(&mut self) -> ConnId {
        self.connect_as(Principal::new("token:default", Scope::Admin))
    }

    pub fn connect_as(&mut self, principal: Principal) -> ConnId {
        let conn = ConnId {
            slot: self.next_slot,
            generation: 0,
        };
        self.next_slot += 1;
        self.handle(Input::Connected { conn, principal });
        conn
    }

    pub fn disconnect(&mut self, conn: ConnId) {
        self.inboxes.remove(&conn);
        self.handle(Input::Disconnected { conn });
    }

    /// Sends a request and returns its response; all other messages stay in the inbox.
    pub fn request(&mut self, conn: ConnId, command: Command) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        self.handle(Input::Request {
            conn,
            id: RequestId::number(id),
            command,
        });
        let inbox = self.inboxes.entry(conn).or_default();
        let index = inbox
            .iter()
            .position(|message| message["id"] == id)
            .expect("every request is answered");
        inbox.remove(index)
    }

    /// Sends a request that a service answers; returns the lookup.
    pub fn look_up(&mut self, conn: ConnId, command: Command) -> CompletionQuery {
        let id = RequestId::number(self.next_id);
        self.next_id += 1;
        self.handle(Input::Request {
            conn,
            id: id.clone(),
            command,
        });
        match self.agent.pop() {
            Some(Effect::Completions(CompletionRequest {
                conn: to,
                id: answers,
                query,
            })) => {
                assert_eq!((to, answers), (conn, id));
                *query
            }
            other => panic!("nothing is looked up: {other:?} {:?}", self.inbox(conn)),
        }
    }

    /// Sends a request and returns its response as it was written.
    pub fn answer_text(&mut self, conn: ConnId, command: Command) -> String {
        let mut effects = Vec::new();
        let id = RequestId::number(self.next_id);
        self.next_id += 1;
        self.core
            .handle(self.now, Input::Request { conn, id, command }, &mut effects);
        match effects.pop() {
            Some(Effect::Deliver(Delivery::Send { message, .. })) => String::from_utf8(
                message
                    .into_wire()
                    .to_bytes()
                    .expect("what is not in memory is in the store")
                    .to_vec(),
            )
            .expect("the host sends text"),
            other => panic!("not answered at once: {other:?}"),
        }
    }

    /// Why the latest dispatched action was refused.
    pub fn refusal(&mut self, conn: ConnId) -> Option<String> {
        let last = self.actions(conn).pop().expect("the author hears of it");
        last["rejectionReason"].as_str().map(str::to_owned)
    }

    pub fn initialize(&mut self, conn: ConnId, client: &str, versions: &[&str], channels: &[&str]) -> Value {
        self.request(
            conn,
            Command::Initialize(Box::new(Initialize {
                offer: innkeeper_core::request::Offer::List(owned(versions)),
                client_id: ClientId::new(client),
                initial_subscriptions: owned(channels),
                client_name: None,
                mcp_apps: false,
                locale: None,
            })),
        )
    }

    /// A connection that is through its handshake.
    pub fn client(&mut self, name: &str, channels: &[&str]) -> ConnId {
        let conn = self.connect();
        let answer = self.initialize(conn, name, &["1.0.0"], channels);
        assert!(answer.get("error").is_none(), "{answer}");
        conn
    }

    pub fn reconnect(&mut self, conn: ConnId, client: &str, last_seen: u64, channels: &[&str]) -> Value {
        self.request(
            conn,
            Command::Reconnect(Box::new(Reconnect {
                client_id: ClientId::new(client),
                last_seen,
                subscriptions: owned(channels),
            })),
        )
    }

    pub fn subscribe(&mut self, conn: ConnId, channel: &str) -> Value {
        self.subscribe_within(conn, channel, None)
    }

    pub fn subscribe_within(&mut self, conn: ConnId, channel: &str, max_latency_ms: Option<u32>) -> Value {
        self.request(
            conn,
            Command::Subscribe(Box::new(Subscribe {
                channel: channel.to_owned(),
                max_latency_ms,
                turns: None,
            })),
        )
    }

    pub fn unsubscribe(&mut self, conn: ConnId, channel: &str) {
        self.handle(Input::Unsubscribe {
            conn,
            channel: channel.to_owned(),
        });
    }

    pub fn create(&mut self, conn: ConnId, channel: &str) -> Value {
        self.request(conn, Command::CreateSession(Box::new(new_session(channel))))
    }

    pub fn dispose(&mut self, conn: ConnId, channel: &str) -> Value {
        let channel = channel.to_owned();
        self.request(
            conn,
            Command::DisposeSession {
                channel,
                only_if: None,
                for_good: false,
            },
        )
    }

    pub fn list(&mut self, conn: ConnId, limit: Option<u32>, cursor: Option<&str>) -> Value {
        let cursor = cursor.map(str::to_owned);
        self.request(conn, Command::ListSessions(Box::new(ListSessions { limit, cursor })))
    }

    /// Answers the latest request to open a session.
    pub fn opened(&mut self, outcome: Result<(), Failure>) {
        let chat = self.agent.iter().rev().find_map(|effect| match effect {
            Effect::Agent(AgentCommand::OpenChat(open)) => Some(open.chat),
            _ => None,
        });
        let chat = chat.expect("a chat is being opened");
        self.handle(Input::ChatOpened { chat, outcome });
    }

    /// A session that is ready; returns the URI of its chat.
    pub fn session(&mut self, conn: ConnId, channel: &str) -> String {
        let answer = self.create(conn, channel);
        assert_eq!(answer["result"], Value::Null, "{answer}");
        self.opened(Ok(()));
        innkeeper_core::uri::default_chat(channel)
    }

    /// A session that is ready and listed, although it has no turns; returns the URI of its chat.
    pub fn listed_session(&mut self, conn: ConnId, channel: &str) -> String {
        let chat = self.session(conn, channel);
        self.keep_session(conn, channel);
        chat
    }

    /// Makes an ordinary session of a draft and leaves its state as it is: it is archived and unarchived.
    pub fn keep_session(&mut self, conn: ConnId, channel: &str) {
        for is_archived in [true, false] {
            let action = json!({ "type": "session/isArchivedChanged", "isArchived": is_archived });
            self.dispatch(conn, channel, 1, action);
        }
    }

    pub fn dispatch(&mut self, conn: ConnId, channel: &str, client_seq: i64, action: Value) {
        let raw = RawValue::from_string(action.to_string()).expect("valid JSON");
        let action = decode_action(&raw);
        let channel = channel.to_owned();
        let dispatch = Box::new(Dispatch {
            channel,
            client_seq,
            raw,
            action,
            choice: None,
        });
        self.handle(Input::Dispatch { conn, dispatch });
    }

    pub fn start_turn(&mut self, conn: ConnId, chat: &str, turn: &str) {
        let action = self.turn_started(turn);
        self.dispatch(conn, chat, 1, action);
    }

    pub fn turn_started(&self, turn: &str) -> Value {
        json!({ "type": "chat/turnStarted", "turnId": turn, "startedAt": self.now.rfc3339(), "message": message("hi") })
    }

    /// The run that was started last.
    pub fn run(&self) -> (ChannelId, TurnKey) {
        let run = self.agent.iter().rev().find_map(|effect| match effect {
            Effect::Agent(AgentCommand::StartTurn { chat, turn, .. }) => Some((*chat, *turn)),
            _ => None,
        });
        run.expect("a turn was started")
    }

    pub fn says(&mut self, event: AgentEvent) {
        let (chat, turn) = self.run();
        self.handle(Input::Agent { chat, turn, event });
    }

    pub fn ends(&mut self, end: TurnEnd) {
        let (chat, turn) = self.run();
        self.handle(Input::TurnEnded { chat, turn, end });
    }

    pub fn says_in(&mut self, (chat, turn): (ChannelId, TurnKey), event: AgentEvent) {
        self.handle(Input::Agent { chat, turn, event });
    }

    pub fn ends_in(&mut self, (chat, turn): (ChannelId, TurnKey), end: TurnEnd) {
        self.handle(Input::TurnEnded { chat, turn, end });
    }

    /// Lets time pass, with every deadline on the way.
    pub fn pass(&mut self, millis: u64) {
        let until = self.now.mono_ms + millis;
        while let Some(deadline) = self.core.next_deadline().filter(|deadline| *deadline <= until) {
            self.move_to(deadline);
            self.handle(Input::Tick);
        }
        self.move_to(until);
    }

    fn move_to(&mut self, mono_ms: u64) {
        self.now.wall += Duration::from_millis(mono_ms - self.now.mono_ms);
        self.now.mono_ms = mono_ms;
    }

    /// A channel's state as a fresh snapshot shows it.
    pub fn state(&self, channel: &str) -> Value {
        let snapshot = self.core.snapshot(channel).expect("the channel exists");
        serde_json::to_value(&snapshot.state).expect("a state is JSON")
    }
}

pub fn new_session(channel: &str) -> CreateSession {
    CreateSession {
        channel: channel.to_owned(),
        provider: None,
        working_directories: Vec::new(),
        active_client: None,
        ..CreateSession::default()
    }
}

pub fn message(text: &str) -> Value {
    json!({ "text": text, "origin": { "kind": "user" } })
}

pub fn announce(client: &str) -> Value {
    json!({ "type": "session/activeClientSet", "activeClient": { "clientId": client, "tools": [] } })
}

pub fn title(title: &str) -> Value {
    json!({ "type": "session/titleChanged", "title": title })
}

/// The code and message of an error response.
pub fn error(answer: &Value) -> (i64, &str) {
    let error = &answer["error"];
    (
        error["code"]
            .as_i64()
            .unwrap_or_else(|| panic!("not an error: {answer}")),
        error["message"].as_str().unwrap_or_default(),
    )
}

pub fn agent(provider: &str) -> AgentInfo {
    AgentInfo {
        provider: provider.to_owned(),
        display_name: provider.to_owned(),
        description: String::new(),
        models: Vec::new(),
        protected_resources: None,
        customizations: None,
        capabilities: None,
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

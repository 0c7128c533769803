//! The published client and its state mirror, wrapped for scenarios.
//!
//! Nothing here knows the host's insides: it connects over a socket, waits for a state, cuts its connection, comes back
//! by `reconnect`, and proves in the end that its mirror equals a fresh snapshot of another client. A failure panics
//! with the expectation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ahp::{Client, ClientConfig, ClientError, Transport};
use ahp_types::actions::StateAction;
use ahp_types::commands::{InitializeResult, ReconnectResult, SubscribeResult};
use ahp_types::state::{ResponsePart, SessionLifecycle, Turn};
use ahp_ws::WebSocketTransport;
use innkeeper_std::sync::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::process::TIMEOUT;
use crate::raw::Address;

mod chats;
mod tools;
mod transports;
mod view;

pub use chats::{message, queued, steering, unqueued};
pub use tools::{about, decided_by, offer, tool_calls_of};
pub use transports::{LineTransport, SocketTransport};
pub use view::View;

/// Events the published client keeps for a program that is slow to fetch them; it drops the rest silently.
const EVENT_BUFFER: usize = 1 << 12;

/// A session and its default chat.
#[derive(Debug, Clone)]
pub struct SessionUris {
    /// The session's channel.
    pub session: String,
    /// The default chat's channel.
    pub chat: String,
}

/// How the host answered a `reconnect`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReconnectOutcome {
    /// With the missed actions.
    Replay {
        /// How many actions.
        actions: usize,
        /// Channels that cannot be resumed.
        missing: Vec<String>,
    },
    /// With fresh snapshots of these channels.
    Snapshots(Vec<String>),
}

/// A published client with its mirror.
pub struct OfficialClient {
    /// Its identity, kept over reconnects.
    pub client_id: String,
    address: Option<Address>,
    /// Whether it shows MCP Apps; the published client has no word for it, but a request for anything.
    mcp_apps: bool,
    /// Whether its host is killed under it.
    host_may_die: bool,
    connection: Option<Connection>,
    seen: Arc<SharedView>,
}

struct Connection {
    client: Client,
    pump: JoinHandle<()>,
}

#[derive(Default)]
struct SharedView {
    view: Mutex<View>,
    changed: Notify,
}

impl SharedView {
    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock()
    }
}

impl OfficialClient {
    /// Connects over a WebSocket and initializes with protocol 1.0.0, watching the root channel.
    pub async fn connect(address: &Address, client_id: &str) -> Self {
        let mut client = Self::over(open(address).await, client_id).await;
        client.address = Some(address.clone());
        client
    }

    /// A client whose host is killed at any time: what it cannot send any more is no failure, and waits for ever.
    #[must_use]
    pub fn of_a_mortal_host(mut self) -> Self {
        self.host_may_die = true;
        self
    }

    /// The same with a client that shows MCP Apps.
    pub async fn connect_with_apps(address: &Address, client_id: &str) -> Self {
        let mut client = Self::unconnected(client_id);
        client.mcp_apps = true;
        let mut client = client.initialize_over(open(address).await).await;
        client.address = Some(address.clone());
        client
    }

    /// The same over any transport; such a client cannot reconnect.
    pub async fn over(transport: impl Transport, client_id: &str) -> Self {
        Self::unconnected(client_id).initialize_over(transport).await
    }

    async fn initialize_over(mut self, transport: impl Transport) -> Self {
        let connecting = self.begin(transport).await;
        let mut params = json!({
            "channel": "ahp-root://", "clientId": self.client_id, "protocolVersions": ["1.0.0"],
            "initialSubscriptions": ["ahp-root://"],
        });
        if self.mcp_apps {
            params["capabilities"] = json!({ "mcpApps": {} });
        }
        let result = connecting.client.request("initialize", params).await;
        self.initialized(&result.expect("initialize succeeds"));
        self.go_live(connecting);
        self
    }

    /// A client that knows an address and has not connected yet.
    pub fn at(address: &Address, client_id: &str) -> Self {
        let mut client = Self::unconnected(client_id);
        client.address = Some(address.clone());
        client
    }

    fn unconnected(client_id: &str) -> Self {
        Self {
            client_id: client_id.to_owned(),
            address: None,
            mcp_apps: false,
            host_may_die: false,
            connection: None,
            seen: Arc::default(),
        }
    }

    /// The published client, for calls of the test's own.
    pub fn client(&self) -> &Client {
        &self.connection.as_ref().expect("the client is connected").client
    }

    /// Its view of the host.
    pub fn view(&self) -> MutexGuard<'_, View> {
        self.seen.view()
    }

    /// Moves to another address, for instance of a host that was restarted.
    pub fn move_to(&mut self, address: &Address) {
        self.address = Some(address.clone());
    }

    /// Subscribes to a channel with the host's default delivery.
    pub async fn subscribe(&self, uri: &str) {
        let subscribed = self.client().subscribe(uri.to_owned()).await;
        let (result, _) = subscribed.unwrap_or_else(|error| panic!("subscribe to {uri}: {error}"));
        self.subscribed(&result);
    }

    /// Subscribes without intentional delay, so that nothing is merged unless the host is pressed (SUB-10).
    pub async fn subscribe_without_delay(&self, uri: &str) {
        let params = json!({ "channel": uri, "delivery": { "maxLatencyMs": 0 } });
        let result: SubscribeResult = self.request("subscribe", params).await.expect("subscribe succeeds");
        self.subscribed(&result);
    }

    fn subscribed(&self, result: &SubscribeResult) {
        let snapshot = result.snapshot.as_ref().expect("a state channel has a snapshot");
        self.view().receive_snapshot(snapshot);
        self.seen.changed.notify_waiters();
    }

    /// Sends any request.
    pub async fn request<R: serde::de::DeserializeOwned>(&self, method: &str, params: Value) -> Result<R, ClientError> {
        self.client().request(method, params).await
    }

    /// Creates a session with the tour agent, subscribes to it and to its chat, and waits until it is ready.
    pub async fn create_session(&self, name: &str) -> SessionUris {
        let uris = self.create_session_unready(name).await;
        self.session_ready(&uris.session).await;
        uris
    }

    /// Waits until turns can start in a session.
    pub async fn session_ready(&self, session: &str) {
        self.until("the session is ready", |view| {
            view.session(session)
                .is_some_and(|state| state.lifecycle == SessionLifecycle::Ready)
        })
        .await;
    }

    /// The same without waiting.
    pub async fn create_session_unready(&self, name: &str) -> SessionUris {
        let session = format!("ahp-session:/{name}");
        let params = json!({ "channel": session });
        let created: Value = self
            .request("createSession", params)
            .await
            .expect("createSession succeeds");
        assert_eq!(created, Value::Null, "createSession answers null (TRN-09)");
        self.join(&session).await
    }

    /// Subscribes to a session and its default chat.
    pub async fn join(&self, session: &str) -> SessionUris {
        self.subscribe(session).await;
        let chat = self
            .view()
            .session(session)
            .and_then(|state| state.default_chat.clone())
            .expect("a session has a default chat");
        self.subscribe(&chat).await;
        SessionUris {
            session: session.to_owned(),
            chat,
        }
    }

    /// Dispatches an action given as JSON.
    pub async fn dispatch(&self, channel: &str, action: Value) {
        let action: StateAction = serde_json::from_value(action).expect("an action");
        assert!(!matches!(action, StateAction::Unknown(_)), "a known action: {action:?}");
        let dispatched = self.client().dispatch(channel.to_owned(), action).await;
        if self.host_may_die && dispatched.is_err() {
            // A test that kills the host notices its end by itself.
            return std::future::pending().await;
        }
        dispatched.expect("the action can be sent");
    }

    /// Starts a turn without waiting for anything.
    pub async fn start_turn(&self, chat: &str, turn_id: &str, text: &str) {
        self.dispatch(chat, turn_started(turn_id, text)).await;
    }

    /// Runs a turn to its end.
    pub async fn run_turn(&self, chat: &str, turn_id: &str, text: &str) -> Turn {
        self.start_turn(chat, turn_id, text).await;
        self.turn_end(chat, turn_id).await
    }

    /// Waits for a turn to end and returns it.
    pub async fn turn_end(&self, chat: &str, turn_id: &str) -> Turn {
        self.until(&format!("the turn {turn_id} ends"), |view| {
            view.ended_turn(chat, turn_id).is_some()
        })
        .await;
        let turn = self.view().ended_turn(chat, turn_id).cloned();
        turn.expect("the turn was just there")
    }

    /// Waits until a running turn has at least so much text.
    pub async fn running_text(&self, chat: &str, bytes: usize) {
        self.until("the turn has produced text", |view| {
            let turn = view.chat(chat).and_then(|chat| chat.active_turn.as_ref());
            turn.is_some_and(|turn| markdown(&turn.response_parts).len() >= bytes)
        })
        .await;
    }

    /// Waits for a refusal of an own action and returns its reason.
    pub async fn refusal(&self, number: usize) -> String {
        self.until(&format!("refusal {number}"), |view| view.refusals.len() >= number)
            .await;
        let reason = self.view().refusals[number - 1].rejection_reason.clone();
        reason.expect("a refusal has a reason")
    }

    /// Waits for a condition.
    pub async fn until(&self, what: &str, holds: impl Fn(&View) -> bool) {
        self.until_some(what, |view| holds(view).then_some(())).await;
    }

    /// Waits until `find` finds something, and returns it. The view may have changed again since.
    pub async fn until_some<T>(&self, what: &str, find: impl Fn(&View) -> Option<T>) -> T {
        let waiting = async {
            loop {
                let changed = self.seen.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if let Some(found) = find(&self.view()) {
                    return found;
                }
                changed.await;
            }
        };
        let Ok(found) = tokio::time::timeout(TIMEOUT, waiting).await else {
            let view = self.view();
            let last: Vec<_> = view.actions.iter().rev().take(5).collect();
            let refused = &view.refusals;
            panic!(
                "{}: {what} did not happen; refused: {refused:#?}; last actions: {last:#?}",
                self.client_id
            );
        };
        found
    }

    /// Cuts the connection without a word, and keeps what had arrived.
    pub async fn cut(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(connection.client);
            let draining = tokio::time::timeout(TIMEOUT, connection.pump).await;
            draining.expect("the connection ends").expect("no panic");
        }
    }

    /// Waits until the host has ended the connection.
    pub async fn disconnected(&mut self) {
        if let Some(connection) = self.connection.take() {
            let draining = tokio::time::timeout(TIMEOUT, connection.pump).await;
            draining.expect("the host ends the connection").expect("no panic");
        }
    }

    /// Opens a new connection and asks for what was missed.
    pub async fn reconnect(&mut self) -> Result<ReconnectOutcome, ClientError> {
        let last_seen = self.view().last_seen;
        self.reconnect_from(last_seen).await
    }

    /// The same with a number of the test's choice.
    pub async fn reconnect_from(&mut self, last_seen: u64) -> Result<ReconnectOutcome, ClientError> {
        let address = self.address.clone().expect("a client with an address");
        let connecting = self.begin(open(&address).await).await;
        let channels = self.view().channels();
        let last_seen = i64::try_from(last_seen).expect("a plausible number");
        let result = connecting
            .client
            .reconnect(self.client_id.clone(), last_seen, channels)
            .await;
        let resumed = match result {
            Ok(ReconnectResult::Replay(replay)) => {
                let mut view = self.view();
                let actions = replay.actions.len();
                for envelope in replay.actions {
                    view.receive_action(envelope);
                }
                for uri in &replay.missing {
                    view.forget(uri);
                }
                Ok(ReconnectOutcome::Replay {
                    actions,
                    missing: replay.missing,
                })
            }
            Ok(ReconnectResult::Snapshot(fresh)) => {
                let mut view = self.view();
                // In this answer, what is not there is missing (REC-06).
                for uri in view.channels() {
                    view.forget(&uri);
                }
                for snapshot in &fresh.snapshots {
                    view.receive_snapshot(snapshot);
                }
                Ok(ReconnectOutcome::Snapshots(view.channels()))
            }
            Err(error) => Err(error),
        };
        self.go_live(connecting);
        resumed
    }

    /// Initializes on the present connection, as the published runtime does after a refused `reconnect` (NEG-22).
    pub async fn initialize_again(&mut self) {
        let channels = self.view().channels();
        for uri in &channels {
            self.view().forget(uri);
        }
        let initializing = self
            .client()
            .initialize(self.client_id.clone(), vec!["1.0.0".into()], channels);
        let result = initializing.await.expect("initialize succeeds");
        self.initialized(&result);
    }

    fn initialized(&self, result: &InitializeResult) {
        let mut view = self.view();
        view.last_seen = view
            .last_seen
            .max(u64::try_from(result.server_seq).expect("serverSeq is not negative"));
        for snapshot in &result.snapshots {
            view.receive_snapshot(snapshot);
        }
        drop(view);
        self.seen.changed.notify_waiters();
    }

    async fn begin(&self, transport: impl Transport) -> OpenedClient {
        let config = ClientConfig {
            subscription_buffer: EVENT_BUFFER,
            ..ClientConfig::default()
        };
        let client = Client::connect(transport, config).await.expect("the client starts");
        self.view().begin_connection();
        let events = client.events();
        OpenedClient { client, events }
    }

    /// Applies live events from here on; those that came during the handshake are still in the stream.
    fn go_live(&mut self, connecting: OpenedClient) {
        let OpenedClient { client, mut events } = connecting;
        let seen = Arc::clone(&self.seen);
        let pump = tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                seen.view().receive_event(event.event);
                seen.changed.notify_waiters();
            }
            seen.view().is_over = true;
            seen.changed.notify_waiters();
        });
        self.connection = Some(Connection { client, pump });
        self.seen.changed.notify_waiters();
    }

    /// Proves that the mirror equals what a second client gets by subscribing afresh, and that the host kept the
    /// order on every connection.
    pub async fn assert_converged(&self) {
        let address = self.address.as_ref().expect("a client with an address");
        let number = OBSERVERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("observer-{number}");
        let observer = match self.mcp_apps {
            true => Self::connect_with_apps(address, &name).await,
            false => Self::connect(address, &name).await,
        };
        self.assert_equal_to_snapshots_of(observer.client()).await;
    }

    /// The same with snapshots that the given client takes.
    pub async fn assert_equal_to_snapshots_of(&self, observer: &Client) {
        let deadline = tokio::time::Instant::now() + TIMEOUT;
        let channels = self.view().channels();
        for uri in channels {
            loop {
                let subscribed: Result<SubscribeResult, _> =
                    observer.request("subscribe", json!({ "channel": uri })).await;
                let snapshot = match subscribed {
                    Ok(result) => result.snapshot.expect("a state channel has a snapshot"),
                    Err(error) => panic!("the host no longer knows {uri}, which is mirrored: {error}"),
                };
                let expected = view::comparable_snapshot(&snapshot.state);
                let mirrored = self.view().comparable(&uri);
                if mirrored == expected {
                    break;
                }
                // The last actions may still be on their way.
                assert!(
                    tokio::time::Instant::now() < deadline,
                    "{}: the mirror of {uri} is\n{mirrored:#}\nand the host has\n{expected:#}",
                    self.client_id
                );
                let changed = self.seen.changed.notified();
                let _ = tokio::time::timeout(std::time::Duration::from_millis(20), changed).await;
            }
        }
        let view = self.view();
        assert!(view.problems.is_empty(), "{}: {:?}", self.client_id, view.problems);
    }
}

static OBSERVERS: AtomicU64 = AtomicU64::new(0);

struct OpenedClient {
    client: Client,
    events: ahp::ClientEventStream,
}

async fn open(address: &Address) -> WebSocketTransport {
    WebSocketTransport::connect(&address.url_with_token())
        .await
        .expect("the host accepts the connection")
}

/// The action that starts a turn with a user's message.
pub fn turn_started(turn_id: &str, text: &str) -> Value {
    json!({
        "type": "chat/turnStarted",
        "turnId": turn_id,
        "startedAt": now(),
        "message": { "text": text, "origin": { "kind": "user" } },
    })
}

/// The time as clients send it.
pub fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// The text of all markdown parts.
pub fn markdown(parts: &[ResponsePart]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        ResponsePart::Markdown(part) => Some(part.content.as_str()),
        _ => None,
    });
    texts.collect()
}

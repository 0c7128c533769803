//! The connection: opens it, opens it again when it breaks, and catches up with everything that was missed.

mod session_list;

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::time::Duration;

use ahp::{Client, ClientEvent, ClientEventStream, SubscriptionEvent};
use ahp_types::ROOT_RESOURCE_URI;
use ahp_types::actions::{ActionEnvelope, StateAction};
use ahp_types::commands::{ReconnectResult, SubscribeParams, SubscribeResult, SubscribeView};
use ahp_types::notifications::PartialSessionSummary;
use ahp_types::state::{SessionSummary, Snapshot};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::args::ConnectArgs;
use crate::connection::{Connection, request_failure};
use crate::discovery::{DataDir, Endpoint};
use crate::failure::{Failure, Kind};

/// The first and the longest wait between two attempts to connect.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Time between two checks whether the host still responds.
const PING: Duration = Duration::from_secs(15);

/// Starts a host, if the program can. Returns once it listens, or with the reason why it does not.
pub type StartHost = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), Failure>>>>>;

/// A number that connects a request or a dispatched action with its outcome.
pub type Ticket = u64;

/// News of the connection.
#[derive(Debug)]
pub enum LinkEvent {
    /// No host runs, and one is being started.
    StartingHost,
    /// A connection is being opened.
    Connecting,
    /// The connection is open. Snapshots of everything that is not replayed follow.
    Connected(Box<HostInfo>),
    /// There is no connection; the next attempt comes by itself.
    Lost(String),
    /// The state of a channel.
    State(Box<Snapshot>),
    /// A channel does not exist any more.
    Gone(String),
    /// An action on a channel whose state was sent before.
    Action(Box<ActionEnvelope>),
    /// The host accepted an action of this client, or rejected it with a reason.
    Settled(Ticket, Option<String>),
    /// The response to a request.
    Reply(Ticket, Result<Value, String>),
    /// All sessions.
    Sessions(Vec<SessionSummary>),
    /// A new session.
    SessionAdded(Box<SessionSummary>),
    /// A session is gone.
    SessionRemoved(String),
    /// Some fields of a session's summary changed.
    SessionChanged(String, Box<PartialSessionSummary>),
}

/// The handshake's result that a client needs.
#[derive(Clone, Debug, Default)]
pub struct HostInfo {
    /// The id under which actions of this client are echoed.
    pub client_id: String,
    /// Characters after which completions are requested.
    pub triggers: Vec<String>,
}

/// Something that a client wants from the host.
#[derive(Debug)]
pub enum Order {
    /// Dispatch an action.
    Dispatch(Ticket, String, Box<StateAction>),
    /// Send a request.
    Request(Ticket, &'static str, Value),
    /// Subscribe to a channel, now and after every reconnect.
    Subscribe(String),
    /// Unsubscribe from a channel.
    Unsubscribe(String),
    /// Connect now instead of waiting for the next attempt.
    ConnectNow,
}

/// The client that uses a link.
pub struct LinkSettings {
    /// The host to connect to.
    pub connect: ConnectArgs,
    /// Starts a missing host.
    pub start_host: Option<StartHost>,
    /// The beginning of the client's id.
    pub program: &'static str,
    /// Turns of a chat that are loaded at first; all of them if none.
    pub first_turns: Option<i64>,
}

/// The connection task.
pub struct Link {
    dir: DataDir,
    args: ConnectArgs,
    start_host: Option<StartHost>,
    client_id: String,
    first_turns: Option<i64>,
    events: mpsc::UnboundedSender<LinkEvent>,
    orders: mpsc::UnboundedReceiver<Order>,
    /// The channels that the client wants to see.
    wanted: HashSet<String>,
    /// A missing host is started: at first, and when the user says so. A host that ended later may have been stopped on
    /// purpose.
    may_start: bool,
    /// The highest sequence number of any action or snapshot.
    last_seen: Option<i64>,
}

/// Everything that ends with one connection.
struct Live {
    client: Client,
    events: ClientEventStream,
    replies: mpsc::UnboundedSender<Response>,
    /// Channels whose state was requested, with the actions that came before it.
    opening: HashMap<String, Vec<ActionEnvelope>>,
    /// Channels whose state was sent to the client, with its sequence number.
    open: HashMap<String, i64>,
    /// Dispatched actions without an outcome, by their number.
    dispatched: HashMap<i64, Ticket>,
}

enum Response {
    Subscribed(String, Result<SubscribeResult, String>),
    Reply(Ticket, Result<Value, String>),
    Sessions(Result<Vec<SessionSummary>, String>),
    /// The host did not respond in time.
    Silent,
}

impl Link {
    /// Creates the task, and the two ends that the client has.
    pub fn new(
        dir: DataDir,
        settings: LinkSettings,
    ) -> (Self, mpsc::UnboundedSender<Order>, mpsc::UnboundedReceiver<LinkEvent>) {
        // Both are bounded by their use: a user makes few orders, and a client takes all events before it goes on.
        let (order_sender, orders) = mpsc::unbounded_channel();
        let (events, event_receiver) = mpsc::unbounded_channel();
        let link = Self {
            dir,
            args: settings.connect,
            start_host: settings.start_host,
            client_id: format!("{}-{}", settings.program, uuid::Uuid::new_v4()),
            first_turns: settings.first_turns,
            events,
            orders,
            wanted: HashSet::new(),
            may_start: true,
            last_seen: None,
        };
        (link, order_sender, event_receiver)
    }

    /// Connects and serves the client until it is gone.
    pub async fn run(mut self) {
        let mut wait = FIRST_WAIT;
        loop {
            self.send(LinkEvent::Connecting);
            let reason = match self.connect().await {
                Ok(live) => {
                    wait = FIRST_WAIT;
                    self.may_start = false;
                    let (answers, receiver) = live;
                    match self.serve(answers, receiver).await {
                        Some(reason) => reason,
                        None => return,
                    }
                }
                Err(failure) => failure.to_string(),
            };
            self.send(LinkEvent::Lost(reason));
            if !self.pause(wait).await {
                return;
            }
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    fn send(&self, event: LinkEvent) {
        // Without a receiver the program is about to end.
        let _ = self.events.send(event);
    }

    /// Waits for the next attempt, and remembers meanwhile what the client wants. Returns false if the client is gone.
    async fn pause(&mut self, wait: Duration) -> bool {
        let until = tokio::time::Instant::now() + wait;
        loop {
            match tokio::time::timeout_at(until, self.orders.recv()).await {
                Err(_) => return true,
                Ok(Some(Order::ConnectNow)) => {
                    self.may_start = true;
                    return true;
                }
                Ok(None) => return false,
                Ok(Some(order)) => self.refuse(order),
            }
        }
    }

    fn refuse(&mut self, order: Order) {
        match order {
            Order::Subscribe(uri) => {
                self.wanted.insert(uri);
            }
            Order::Unsubscribe(uri) => {
                self.wanted.remove(&uri);
            }
            Order::Dispatch(ticket, ..) => {
                self.send(LinkEvent::Settled(
                    ticket,
                    Some("there is no connection to the host".to_owned()),
                ));
            }
            Order::Request(ticket, ..) => {
                let reason = "there is no connection to the host".to_owned();
                self.send(LinkEvent::Reply(ticket, Err(reason)));
            }
            Order::ConnectNow => {}
        }
    }

    async fn connect(&mut self) -> Result<(Live, mpsc::UnboundedReceiver<Response>), Failure> {
        let start_host = self
            .start_host
            .as_ref()
            .filter(|_| self.args.url.is_none() && self.may_start);
        if let Some(start_host) = start_host
            && Endpoint::find(&self.dir).is_none()
        {
            self.send(LinkEvent::StartingHost);
            start_host().await?;
        }
        if let Some(last_seen) = self.last_seen {
            match self.resume(last_seen).await {
                Ok(live) => return Ok(live),
                // Another host, or one that has forgotten this client, is a new start.
                Err(failure) if failure.kind() == Kind::Rejected => self.last_seen = None,
                Err(failure) => return Err(failure),
            }
        }
        let opened = Connection::open_with_result(&self.dir, &self.args, self.client_id.clone()).await;
        let (connection, result) = opened?;
        let (mut live, receiver) = Live::new(connection);
        self.send(LinkEvent::Connected(Box::new(HostInfo {
            client_id: self.client_id.clone(),
            triggers: result.completion_trigger_characters.unwrap_or_default(),
        })));
        for snapshot in result.snapshots {
            self.take_snapshot(&mut live, snapshot);
        }
        self.after_connect(&mut live);
        Ok((live, receiver))
    }

    /// Catches up after a cut. Actions are replayed; channels beyond the replay window come as snapshots.
    async fn resume(&mut self, last_seen: i64) -> Result<(Live, mpsc::UnboundedReceiver<Response>), Failure> {
        let mut subscriptions: Vec<String> = self.wanted.iter().cloned().collect();
        subscriptions.push(ROOT_RESOURCE_URI.to_owned());
        let id = self.client_id.clone();
        let resumed = Connection::resume(&self.dir, &self.args, id, last_seen, subscriptions).await;
        let (connection, result) = resumed?;
        let (mut live, receiver) = Live::new(connection);
        self.send(LinkEvent::Connected(Box::new(HostInfo {
            client_id: self.client_id.clone(),
            triggers: Vec::new(),
        })));
        match result {
            ReconnectResult::Replay(replay) => {
                for uri in &replay.missing {
                    self.wanted.remove(uri);
                    self.send(LinkEvent::Gone(uri.clone()));
                }
                for uri in self.wanted.iter().map(String::as_str).chain([ROOT_RESOURCE_URI]) {
                    live.open.insert(uri.to_owned(), last_seen);
                }
                for envelope in replay.actions {
                    self.take_action(&mut live, envelope);
                }
            }
            ReconnectResult::Snapshot(result) => {
                for snapshot in result.snapshots {
                    self.take_snapshot(&mut live, snapshot);
                }
            }
        }
        self.after_connect(&mut live);
        Ok((live, receiver))
    }

    fn after_connect(&mut self, live: &mut Live) {
        let closed: Vec<String> = self
            .wanted
            .iter()
            .filter(|uri| !live.open.contains_key(*uri))
            .cloned()
            .collect();
        for uri in closed {
            live.subscribe(uri, self.first_turns);
        }
        live.list_sessions();
    }

    /// Serves the client until the connection ends. Returns the reason, or nothing if the client is gone.
    async fn serve(&mut self, mut live: Live, mut answers: mpsc::UnboundedReceiver<Response>) -> Option<String> {
        let mut ping = tokio::time::interval_at(tokio::time::Instant::now() + PING, PING);
        loop {
            tokio::select! {
                _ = ping.tick() => live.ping(),
                event = live.events.recv() => match event {
                    Some(event) => self.take_event(&mut live, event),
                    None => return Some("the connection to the host was lost".to_owned()),
                },
                Some(response) = answers.recv() => match response {
                    Response::Silent => return Some("the host does not respond".to_owned()),
                    response => self.take_response(&mut live, response),
                },
                order = self.orders.recv() => match order {
                    Some(order) => self.obey(&mut live, order).await,
                    None => {
                        live.client.shutdown().await;
                        return None;
                    }
                },
            }
        }
    }

    async fn obey(&mut self, live: &mut Live, order: Order) {
        match order {
            Order::Dispatch(ticket, channel, action) => match live.client.dispatch(channel, *action).await {
                Ok(handle) => {
                    live.dispatched.insert(handle.client_seq, ticket);
                }
                Err(error) => {
                    let reason = request_failure("dispatchAction", error).to_string();
                    self.send(LinkEvent::Settled(ticket, Some(reason)));
                }
            },
            Order::Request(ticket, method, params) => live.request(ticket, method, params),
            Order::Subscribe(uri) => {
                self.wanted.insert(uri.clone());
                if !live.opening.contains_key(&uri) {
                    live.subscribe(uri, self.first_turns);
                }
            }
            Order::Unsubscribe(uri) => {
                self.wanted.remove(&uri);
                live.open.remove(&uri);
                live.opening.remove(&uri);
                // If the connection is lost, there is no subscription either.
                let _ = live.client.unsubscribe(uri).await;
            }
            Order::ConnectNow => {}
        }
    }

    fn take_event(&mut self, live: &mut Live, event: ClientEvent) {
        match event.event {
            SubscriptionEvent::Action(envelope) => self.take_action(live, envelope),
            SubscriptionEvent::SessionAdded(added) => self.send(LinkEvent::SessionAdded(Box::new(added.summary))),
            SubscriptionEvent::SessionRemoved(removed) => self.send(LinkEvent::SessionRemoved(removed.session)),
            SubscriptionEvent::SessionSummaryChanged(changed) => {
                self.send(LinkEvent::SessionChanged(changed.session, Box::new(changed.changes)));
            }
            _ => {}
        }
    }

    fn take_action(&mut self, live: &mut Live, envelope: ActionEnvelope) {
        let seq = i64::try_from(envelope.server_seq).unwrap_or(i64::MAX);
        self.last_seen = self.last_seen.max(Some(seq));
        let origin = envelope
            .origin
            .as_ref()
            .filter(|origin| origin.client_id == self.client_id);
        if let Some(ticket) = origin.and_then(|origin| live.dispatched.remove(&origin.client_seq)) {
            self.send(LinkEvent::Settled(ticket, envelope.rejection_reason.clone()));
        }
        if let Some(waiting) = live.opening.get_mut(&envelope.channel) {
            return waiting.push(envelope);
        }
        if live.open.get(&envelope.channel).is_some_and(|seen| seq > *seen) {
            self.send(LinkEvent::Action(Box::new(envelope)));
        }
    }

    fn take_snapshot(&mut self, live: &mut Live, snapshot: Snapshot) {
        self.last_seen = self.last_seen.max(Some(snapshot.from_seq));
        live.open.insert(snapshot.resource.clone(), snapshot.from_seq);
        self.send(LinkEvent::State(Box::new(snapshot)));
    }

    fn take_response(&mut self, live: &mut Live, answer: Response) {
        match answer {
            Response::Subscribed(uri, result) => {
                // The screen may have lost its interest meanwhile.
                let Some(waiting) = live.opening.remove(&uri) else {
                    return;
                };
                match result {
                    Ok(SubscribeResult {
                        snapshot: Some(snapshot),
                    }) => {
                        self.take_snapshot(live, snapshot);
                        for envelope in waiting {
                            self.take_action(live, envelope);
                        }
                    }
                    Ok(_) | Err(_) => {
                        self.wanted.remove(&uri);
                        self.send(LinkEvent::Gone(uri));
                    }
                }
            }
            Response::Reply(ticket, result) => self.send(LinkEvent::Reply(ticket, result)),
            Response::Sessions(Ok(sessions)) => self.send(LinkEvent::Sessions(sessions)),
            Response::Sessions(Err(_)) | Response::Silent => {}
        }
    }
}

impl Live {
    fn new(connection: Connection) -> (Self, mpsc::UnboundedReceiver<Response>) {
        let (client, events) = connection.into_parts();
        let (replies, receiver) = mpsc::unbounded_channel();
        let live = Self {
            client,
            events,
            replies,
            opening: HashMap::new(),
            open: HashMap::new(),
            dispatched: HashMap::new(),
        };
        (live, receiver)
    }

    fn subscribe(&mut self, uri: String, first_turns: Option<i64>) {
        self.opening.insert(uri.clone(), Vec::new());
        let (client, replies) = (self.client.clone(), self.replies.clone());
        let params = match first_turns.filter(|_| uri.starts_with("ahp-chat:")) {
            Some(turns) => SubscribeParams::with_view(uri.clone(), SubscribeView { turns: Some(turns) }),
            None => SubscribeParams::new(uri.clone()),
        };
        tokio::spawn(async move {
            let result = client.request("subscribe", params).await;
            let result = result.map_err(|error| request_failure("subscribe", error).to_string());
            // Without a receiver the connection is gone.
            let _ = replies.send(Response::Subscribed(uri, result));
        });
    }

    fn request(&self, ticket: Ticket, method: &'static str, params: Value) {
        let (client, replies) = (self.client.clone(), self.replies.clone());
        tokio::spawn(async move {
            let result = client.request(method, params).await;
            let result = result.map_err(|error| request_failure(method, error).to_string());
            let _ = replies.send(Response::Reply(ticket, result));
        });
    }

    /// Checks whether the host responds: a connection over a network can end without a word.
    fn ping(&self) {
        let (client, replies) = (self.client.clone(), self.replies.clone());
        tokio::spawn(async move {
            if client.ping().await.is_err() {
                let _ = replies.send(Response::Silent);
            }
        });
    }

    fn list_sessions(&self) {
        let (client, replies) = (self.client.clone(), self.replies.clone());
        tokio::spawn(async move {
            let _ = replies.send(Response::Sessions(session_list::load(&client).await));
        });
    }
}

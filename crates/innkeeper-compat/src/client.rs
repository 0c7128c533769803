//! A client of any published version, for scenarios.
//!
//! It connects over a real socket with the published client of its version, holds the fold of that version's reducers
//! for every subscribed channel, and proves that the fold equals a fresh snapshot. A failure panics with the
//! expectation.

use std::collections::{BTreeMap, HashMap};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Child;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::comparison::{comparable, difference};
use crate::program;
use crate::version::{Runtime, Version};

/// Longer than anything here should take. It only keeps a failed test from hanging.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// How long a fold may take to become the snapshot, once the host has answered.
const CONVERGENCE_TIMEOUT: Duration = Duration::from_secs(10);

/// Actions that upstream introduced for 0.9 and that the published crate 0.9.0 does not have; clients built from later
/// sources do. They change nothing that 0.9.0 knows.
pub const AHEAD_OF_0_9: &[&str] = &[
    "chat/isReadChanged",
    "chat/isArchivedChanged",
    "chat/backgroundWorkSet",
    "chat/backgroundWorkRemoved",
    "chat/movableChanged",
    "chat/changesetsChanged",
    "session/mcpServerBackgroundRequested",
];

/// The error half of a response.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// The code.
    pub code: i64,
    /// The sentence.
    pub message: String,
    /// The detail, or null.
    pub data: Value,
}

/// The outcome of a command other than success.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    /// The host refused the request.
    Refused(Refusal),
    /// The published client failed, for instance to decode the answer.
    Client(String),
}

/// Everything a client has seen.
#[derive(Debug, Default)]
pub struct View {
    /// The fold of each subscribed channel.
    pub states: BTreeMap<String, Value>,
    /// The text frames it sent, over all connections.
    pub sent: Vec<String>,
    /// The messages it received, over all connections.
    pub received: Vec<Value>,
    /// Messages that its version does not know.
    pub problems: Vec<String>,
    /// The close code and reason of the last connection, once it has ended.
    pub closed: Option<Value>,
    answers: HashMap<u64, Value>,
    version: Option<Version>,
}

impl View {
    /// The actions it received, as they were sent.
    pub fn actions(&self) -> impl DoubleEndedIterator<Item = &Value> {
        let actions = self.received.iter().filter(|message| message["method"] == "action");
        actions.map(|message| &message["params"])
    }

    /// The rejections of its own actions.
    pub fn rejections(&self) -> Vec<&Value> {
        self.actions()
            .filter(|params| params.get("rejectionReason").is_some_and(Value::is_string))
            .collect()
    }

    /// The params of all notifications of this method.
    pub fn notifications(&self, method: &str) -> Vec<&Value> {
        let messages = self.received.iter().filter(|message| message["method"] == method);
        messages.map(|message| &message["params"]).collect()
    }

    fn receive(&mut self, mut event: Value) {
        let members = event.as_object_mut().expect("events are objects");
        if let Some(channel) = members.get("state").and_then(Value::as_str).map(str::to_owned) {
            match members.get_mut("value").map(Value::take) {
                Some(Value::Null) | None => self.states.remove(&channel),
                Some(state) => self.states.insert(channel, state),
            };
        } else if let Some(message) = members.get_mut("received") {
            self.received.push(message.take());
        } else if let Some(frame) = members.get("sent").and_then(Value::as_str) {
            self.sent.push(frame.to_owned());
        } else if let Some(action) = members.get("unknown") {
            let is_expected = AHEAD_OF_0_9.iter().any(|kind| action["type"] == *kind);
            if !(is_expected && self.version == Some(Version::V0_9)) {
                self.problems.push(format!("an action of another version: {action}"));
            }
        } else if let Some(problem) = members.get("problem").and_then(Value::as_str) {
            self.problems.push(problem.to_owned());
        } else if let Some(ask) = members.get("answer").and_then(Value::as_u64) {
            self.answers.insert(ask, event);
        } else if let Some(reason) = members.get_mut("closed") {
            self.closed = Some(reason.take());
        }
    }
}

/// A client of a published version.
pub struct CompatClient {
    /// Its version.
    pub version: Version,
    /// Its client id.
    pub id: String,
    url: String,
    commands: UnboundedSender<Value>,
    next_ask: AtomicU64,
    seen: Arc<SharedView>,
    observer: tokio::sync::Mutex<Option<Observer>>,
    _process: Option<Child>,
}

/// A client that takes fresh snapshots, and how often it did.
struct Observer {
    client: Box<CompatClient>,
    snapshots: usize,
}

/// Connections are replaced after so many comparisons: a new one costs more, and shows what a newcomer sees.
const COMPARISONS_PER_OBSERVER: usize = 4;

#[derive(Default)]
struct SharedView {
    view: Mutex<View>,
    changed: Notify,
}

impl SharedView {
    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().expect("no test has failed in between")
    }

    async fn follow(&self, mut events: UnboundedReceiver<Value>) {
        while let Some(event) = events.recv().await {
            self.view().receive(event);
            self.changed.notify_waiters();
        }
    }
}

static OBSERVERS: AtomicU64 = AtomicU64::new(1);

impl CompatClient {
    /// Connects to a host and initializes, watching the root channel, as the published client does.
    pub async fn connect(url: &str, version: Version, id: &str) -> Self {
        let client = Self::open(url, version, id).await;
        let result = client.initialize(version.offer()).await;
        let result = result.unwrap_or_else(|error| panic!("{version:?}: initialize: {error:?}"));
        assert_eq!(result["protocolVersion"], version.confirmed(), "{version:?} as offered");
        client
    }

    /// Opens a connection and sends nothing.
    pub async fn open(url: &str, version: Version, id: &str) -> Self {
        let (commands, to_perform) = unbounded_channel();
        let (events, to_follow) = unbounded_channel();
        let process = match version.runtime() {
            Runtime::Linked(run) => {
                run(to_perform, events);
                None
            }
            Runtime::Process(folder) => Some(spawn(folder, to_perform, events)),
        };
        let seen = Arc::new(SharedView::default());
        seen.view().version = Some(version);
        let follower = Arc::clone(&seen);
        tokio::spawn(async move { follower.follow(to_follow).await });
        let client = Self {
            version,
            id: id.to_owned(),
            url: url.to_owned(),
            commands,
            next_ask: AtomicU64::new(1),
            seen,
            observer: tokio::sync::Mutex::new(None),
            _process: process,
        };
        client.reopen().await;
        client
    }

    async fn reopen(&self) {
        let opened = self.perform(json!({ "do": "open", "url": self.url })).await;
        opened.expect("the host accepts the connection");
    }

    /// Sends `initialize` with this offer, as the published client writes it.
    pub async fn initialize(&self, offer: Value) -> Result<Value, Failure> {
        let subscriptions = [self.version.root()];
        let command =
            json!({ "do": "initialize", "clientId": self.id, "offer": offer, "subscriptions": subscriptions });
        self.perform(command).await
    }

    /// Its view of the host.
    pub fn view(&self) -> MutexGuard<'_, View> {
        self.seen.view()
    }

    /// The fold of a channel.
    pub fn state(&self, channel: &str) -> Value {
        let state = self.view().states.get(channel).cloned();
        state.unwrap_or_else(|| panic!("{}: {channel} is not subscribed", self.name()))
    }

    /// Its version and id, for messages.
    pub fn name(&self) -> String {
        format!("{} ({})", self.id, self.version.number())
    }

    async fn perform(&self, mut command: Value) -> Result<Value, Failure> {
        let ask = self.next_ask.fetch_add(1, Ordering::Relaxed);
        command["ask"] = ask.into();
        self.commands.send(command).expect("the published client runs");
        let mut event = self
            .find("the published client answers", |view| view.answers.get(&ask).cloned())
            .await;
        self.view().answers.remove(&ask);
        if let Some(error) = event.get("error") {
            return Err(Failure::Refused(Refusal {
                code: error["code"].as_i64().expect("an integer code"),
                message: error["message"].as_str().expect("a message").to_owned(),
                data: error["data"].clone(),
            }));
        }
        match event.get("failed").and_then(Value::as_str) {
            Some(failed) => Err(Failure::Client(failed.to_owned())),
            None => Ok(event["ok"].take()),
        }
    }

    /// Sends a request that must succeed.
    pub async fn request(&self, method: &str, params: Value) -> Value {
        let answered = self.try_request(method, params.clone()).await;
        answered.unwrap_or_else(|error| panic!("{}: {method} {params}: {error:?}", self.name()))
    }

    /// Sends any request.
    pub async fn try_request(&self, method: &str, params: Value) -> Result<Value, Failure> {
        self.perform(json!({ "do": "request", "method": method, "params": params }))
            .await
    }

    /// Sends a request that must be refused.
    pub async fn refused(&self, method: &str, params: Value) -> Refusal {
        match self.try_request(method, params.clone()).await {
            Err(Failure::Refused(refusal)) => refusal,
            other => panic!("{}: {method} {params} was to be refused: {other:?}", self.name()),
        }
    }

    /// Subscribes to a channel with the published client.
    pub async fn subscribe(&self, channel: &str) -> Value {
        let subscribed = self.try_subscribe(channel).await;
        subscribed.unwrap_or_else(|error| panic!("{}: subscribe to {channel}: {error:?}", self.name()))
    }

    /// The same for a channel that may not exist.
    pub async fn try_subscribe(&self, channel: &str) -> Result<Value, Failure> {
        self.perform(json!({ "do": "subscribe", "channel": channel })).await
    }

    /// Subscribes with params of the test's own, which the published client has no words for.
    pub async fn subscribe_with(&self, channel: &str, params: Value) -> Value {
        let command = json!({ "do": "subscribe", "channel": channel, "params": params });
        let subscribed = self.perform(command).await;
        subscribed.unwrap_or_else(|error| panic!("{}: subscribe to {channel}: {error:?}", self.name()))
    }

    /// Stops to watch a channel.
    pub async fn unsubscribe(&self, channel: &str) {
        let unsubscribed = self.perform(json!({ "do": "unsubscribe", "channel": channel })).await;
        unsubscribed.expect("the notification can be sent");
    }

    /// Dispatches an action of this version and returns its `clientSeq`. The published types must know it.
    pub async fn dispatch(&self, channel: &str, mut action: Value) -> i64 {
        if !self.version.has_channels() && channel != self.version.root() {
            let is_about_terminal = action["type"]
                .as_str()
                .is_some_and(|kind| kind.starts_with("terminal/"));
            let member = if is_about_terminal { "terminal" } else { "session" };
            action[member] = channel.into();
        }
        let command = json!({ "do": "dispatch", "channel": channel, "action": action });
        let dispatched = self.perform(command).await;
        let dispatched = dispatched.unwrap_or_else(|error| panic!("{}: {action}: {error:?}", self.name()));
        dispatched["clientSeq"].as_i64().expect("a number")
    }

    /// Dispatches an action that must be rejected, and returns the rejection.
    pub async fn rejected(&self, channel: &str, action: Value) -> Value {
        let client_seq = self.dispatch(channel, action).await;
        self.rejection(client_seq).await
    }

    /// Waits for the rejection of an action.
    pub async fn rejection(&self, client_seq: i64) -> Value {
        self.find(&format!("action {client_seq} is rejected"), |view| {
            let own = |params: &&&Value| {
                params["origin"]["clientSeq"] == client_seq && params["origin"]["clientId"] == self.id.as_str()
            };
            view.rejections().iter().find(own).map(|params| (*params).clone())
        })
        .await
    }

    /// Waits until the host has handled everything sent so far: the host rejects this, and nothing overtakes it.
    pub async fn caught_up(&self) {
        let forbidden = json!({ "type": "root/activeSessionsChanged", "activeSessions": 0 });
        self.rejected(self.version.root(), forbidden).await;
    }

    /// Waits for a condition.
    pub async fn until(&self, what: &str, holds: impl Fn(&View) -> bool) {
        self.find(what, |view| holds(view).then_some(())).await;
    }

    /// Waits until something is there, and returns it.
    pub async fn find<T>(&self, what: &str, find: impl Fn(&View) -> Option<T>) -> T {
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
        match tokio::time::timeout(TIMEOUT, waiting).await {
            Ok(found) => found,
            Err(_) => {
                let view = self.view();
                let last: Vec<String> = view.received.iter().rev().take(8).map(Value::to_string).collect();
                panic!(
                    "{}: {what}: this did not happen; problems: {:?}; the last messages, latest first:\n{}",
                    self.name(),
                    view.problems,
                    last.join("\n")
                );
            }
        }
    }

    /// Cuts the connection without a word, and keeps the fold of everything that had arrived.
    pub async fn cut(&self) {
        let cut = self.perform(json!({ "do": "cut" })).await;
        cut.expect("the connection can be cut");
    }

    /// Moves to another address, for instance of a host that was restarted.
    pub fn move_to(&mut self, url: &str) {
        self.url = url.to_owned();
    }

    /// Opens a new connection and sends `reconnect`.
    pub async fn reconnect(&self) -> Result<Value, Failure> {
        self.reopen().await;
        self.perform(json!({ "do": "reconnect", "clientId": self.id })).await
    }

    /// Proves that the fold of every channel equals a fresh snapshot of the same version, and that every message was
    /// of that version.
    pub async fn assert_converged(&self, step: &str) {
        if let Some(divergence) = self.divergence().await {
            panic!("{}: after {step}: {divergence}", self.name());
        }
    }

    /// The same, as a text for a list of all failures.
    pub async fn divergence(&self) -> Option<String> {
        self.caught_up().await;
        let deadline = tokio::time::Instant::now() + CONVERGENCE_TIMEOUT;
        let mut observer = self.observer.lock().await;
        loop {
            let found = self.difference_from(self.fresh(&mut observer).await).await;
            let is_late = tokio::time::Instant::now() > deadline;
            if found.is_none() || is_late {
                let problems = std::mem::take(&mut self.view().problems);
                let problems = (!problems.is_empty()).then(|| problems.join("\n"));
                return found.or(problems);
            }
            // The last actions may still be on their way.
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// Returns the observer, or a new one if this one was used often.
    async fn fresh<'a>(&self, observer: &'a mut Option<Observer>) -> &'a Self {
        if observer
            .as_ref()
            .is_some_and(|observer| observer.snapshots >= COMPARISONS_PER_OBSERVER || observer.client.url != self.url)
        {
            *observer = None;
        }
        if observer.is_none() {
            let number = OBSERVERS.fetch_add(1, Ordering::Relaxed);
            let client = Self::connect(&self.url, self.version, &format!("observer-{number}")).await;
            *observer = Some(Observer {
                client: Box::new(client),
                snapshots: 0,
            });
        }
        let observer = observer.as_mut().expect("just connected");
        observer.snapshots += 1;
        &observer.client
    }

    async fn difference_from(&self, observer: &Self) -> Option<String> {
        let channels: Vec<String> = self.view().states.keys().cloned().collect();
        let earlier: Vec<String> = observer.view().states.keys().cloned().collect();
        for channel in earlier {
            if channel != self.version.root() {
                observer.unsubscribe(&channel).await;
            }
        }
        for channel in channels {
            if let Err(failure) = observer.try_subscribe(&channel).await {
                return Some(format!("{channel} cannot be subscribed to: {failure:?}"));
            }
            let mut fold = comparable(self.version, self.state(&channel));
            let mut fresh = comparable(self.version, observer.state(&channel));
            // One active client is shown, and it is the reader's own if it is active.
            if fold["activeClient"]["clientId"] == self.id.as_str() {
                fold["activeClient"] = Value::Null;
                fresh["activeClient"] = Value::Null;
            }
            if let Some(difference) = difference(&fold, &fresh) {
                return Some(format!("{channel}{difference}"));
            }
        }
        None
    }
}

/// Starts a published client in a process of its own.
fn spawn(folder: &str, mut commands: UnboundedReceiver<Value>, events: UnboundedSender<Value>) -> Child {
    let mut child = tokio::process::Command::new(program::published_client(folder))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the published client starts");
    let mut input = child.stdin.take().expect("standard input is a pipe");
    let output = child.stdout.take().expect("standard output is a pipe");
    tokio::spawn(async move {
        while let Some(command) = commands.recv().await {
            let line = format!("{command}\n");
            if input.write_all(line.as_bytes()).await.is_err() {
                break;
            }
        }
    });
    tokio::spawn(async move {
        let mut lines = BufReader::new(output).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let event = serde_json::from_str(&line).expect("events are JSON");
            if events.send(event).is_err() {
                break;
            }
        }
    });
    child
}

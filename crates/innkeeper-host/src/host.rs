//! The main loop: one task owns the core, everything that happens is a [`Message`], and every
//! consequence is performed here, in order.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use innkeeper_core::frame::encode_error;
use innkeeper_core::{
    ActionFrame, ChannelId, ClientId, ConnId, Effect, HostCore, Input, Now, Outgoing, Principal, RpcError, Subscriber,
    error::code,
};
use serde_json::{Map, Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent::Agent;
use crate::close::Close;
use crate::driver::Driver;
use crate::events::EventQueue;
use crate::journal::{Journal, JournalError, JournalRecord, VolatileJournal};
use crate::limits::Limits;
use crate::outbox::{Outbox, QueueLimits};
use crate::peer::{PeerError, ReverseMethod, Waiting};

/// Messages waiting for the main loop; senders wait beyond it.
const INBOX: usize = 1024;
/// Messages handled before their consequences are performed together.
const BATCH: usize = 256;
/// Effects gathered before they are performed even in the middle of a batch.
const MAX_EFFECTS: usize = 4096;
/// How long an agent is held back at most: a reader that trickles is not waited for without end.
const MAX_HOLD: Duration = Duration::from_secs(1);
/// How often a held-back agent is looked at again.
const GATE_INTERVAL: Duration = Duration::from_millis(1);

/// A running host. [`Host::shutdown`] stops it; merely dropping it leaves it running for as long as
/// a handle, a listener or a chat is alive.
#[derive(Debug)]
pub struct Host {
    handle: HostHandle,
}

/// A cheap way to reach a running host.
#[derive(Clone)]
pub struct HostHandle {
    inbox: mpsc::Sender<Message>,
    limits: Arc<Limits>,
    tasks: TaskTracker,
    ready: Arc<AtomicBool>,
    /// Ends what is not a connection yet when the host goes down.
    stopping: CancellationToken,
    version: Arc<str>,
}

impl fmt::Debug for HostHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostHandle").finish_non_exhaustive()
    }
}

/// Why a host could not start.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Nothing could ever be created.
    #[error("the host has no agents; add at least one")]
    NoAgents,
    /// Clients could not tell them apart.
    #[error("two agents have the provider id {0:?}; every agent needs its own")]
    DuplicateAgent(String),
    /// The journal could not be opened.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Collects what a host is made of.
pub struct HostBuilder {
    agents: Vec<Arc<dyn Agent>>,
    journal: Arc<dyn Journal>,
    limits: Limits,
}

impl Host {
    /// Starts to describe a host.
    pub fn builder() -> HostBuilder {
        HostBuilder {
            agents: Vec::new(),
            journal: Arc::new(VolatileJournal),
            limits: Limits::default(),
        }
    }

    /// A handle for transports and embedders.
    pub fn handle(&self) -> HostHandle {
        self.handle.clone()
    }

    /// Cancels turns, flushes the journal, closes every connection with 1001 and waits for it all,
    /// but not longer than `deadline`.
    pub async fn shutdown(self, deadline: Duration) {
        self.handle.ready.store(false, Ordering::Release);
        self.handle.stopping.cancel();
        let (done, finished) = oneshot::channel();
        let stop = async {
            if self.handle.inbox.send(Message::ShutDown { done }).await.is_ok() {
                let _ = finished.await;
            }
            self.handle.tasks.close();
            self.handle.tasks.wait().await;
        };
        if tokio::time::timeout(deadline, stop).await.is_err() {
            tracing::warn!("some tasks did not end in time");
        }
    }
}

impl HostBuilder {
    /// Adds an agent. The first one is used when a client names none.
    #[must_use]
    pub fn agent(mut self, agent: impl Agent) -> Self {
        self.agents.push(Arc::new(agent));
        self
    }

    /// Keeps accepted actions in a journal; the default keeps nothing.
    #[must_use]
    pub fn journal(mut self, journal: impl Journal) -> Self {
        self.journal = Arc::new(journal);
        self
    }

    /// Replaces the default limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How the host introduces itself in `initialize`.
    #[must_use]
    pub fn server_info(mut self, name: &str, version: &str) -> Self {
        self.limits.core.server_name = name.to_owned();
        self.limits.core.server_version = Some(version.to_owned());
        self
    }

    /// Starts the host on the current Tokio runtime.
    pub async fn start(self) -> Result<Host, HostError> {
        let mut agents: HashMap<String, Arc<dyn Agent>> = HashMap::new();
        let mut infos = Vec::new();
        for agent in self.agents {
            let info = agent.info();
            if agents.insert(info.provider.clone(), agent).is_some() {
                return Err(HostError::DuplicateAgent(info.provider));
            }
            infos.push(info.into_wire());
        }
        if infos.is_empty() {
            return Err(HostError::NoAgents);
        }
        let lease = self.journal.open().await?;
        let (inbox, receiver) = mpsc::channel(INBOX);
        let version = self.limits.core.server_version.clone().unwrap_or_default().into();
        let core = HostCore::new(self.limits.core.clone(), infos, lease.last_seq);
        let limits = Arc::new(self.limits);
        let tasks = TaskTracker::new();
        let handle = HostHandle {
            inbox: inbox.clone(),
            limits: Arc::clone(&limits),
            tasks: tasks.clone(),
            ready: Arc::new(AtomicBool::new(true)),
            stopping: CancellationToken::new(),
            version,
        };
        let task = HostTask {
            core,
            // Weak, so that the loop ends when every handle is gone.
            inbox: inbox.downgrade(),
            agents,
            journal: self.journal,
            limits,
            tasks: tasks.clone(),
            ready: Arc::clone(&handle.ready),
            connections: Vec::new(),
            free: Vec::new(),
            drivers: HashMap::new(),
            held: Vec::new(),
            taken: VecDeque::new(),
            started: Instant::now(),
            stopping: None,
        };
        tasks.spawn(task.run(receiver));
        Ok(Host { handle })
    }
}

impl HostHandle {
    /// Asks a client something, through its newest connection (TRN-18, TRN-19).
    ///
    /// The root channel is added to `params`.
    pub async fn request_client(
        &self,
        client: &ClientId,
        method: ReverseMethod,
        params: Map<String, Value>,
    ) -> Result<Value, PeerError> {
        let (reply, answer) = oneshot::channel();
        let ask = Message::Ask {
            client: client.clone(),
            method,
            params,
            reply,
        };
        if self.inbox.send(ask).await.is_err() {
            return Err(PeerError::Disconnected);
        }
        match tokio::time::timeout(self.limits.reverse_request_time, answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(PeerError::Disconnected),
            Err(_) => Err(PeerError::TimedOut),
        }
    }

    /// Completes when the host has ended, by [`Host::shutdown`] or because it failed.
    pub async fn ended(&self) {
        self.inbox.closed().await;
    }

    /// Whether the host takes work.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire) && !self.inbox.is_closed()
    }

    /// The version the host introduces itself with.
    pub fn version(&self) -> &str {
        &self.version
    }

    pub(crate) async fn attach(&self, principal: Principal) -> Option<(ConnId, Arc<Outbox>)> {
        let (reply, attached) = oneshot::channel();
        self.inbox.send(Message::Attach { principal, reply }).await.ok()?;
        attached.await.ok()
    }

    pub(crate) fn inbox(&self) -> mpsc::Sender<Message> {
        self.inbox.clone()
    }

    pub(crate) fn limits(&self) -> Arc<Limits> {
        Arc::clone(&self.limits)
    }

    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }
}

/// Everything that can happen to a host.
#[derive(Debug)]
pub(crate) enum Message {
    /// Something for the core.
    Core(Input),
    /// An agent produced something.
    Events(Arc<EventQueue>),
    /// A request for the core, and its place among those of its connection.
    Request {
        input: Input,
        in_flight: OwnedSemaphorePermit,
    },
    /// A transport was accepted.
    Attach {
        principal: Principal,
        reply: oneshot::Sender<(ConnId, Arc<Outbox>)>,
    },
    /// A connection's tasks are done with its slot.
    Detached { conn: ConnId },
    /// The host wants something of a client.
    Ask {
        client: ClientId,
        method: ReverseMethod,
        params: Map<String, Value>,
        reply: oneshot::Sender<Result<Value, PeerError>>,
    },
    /// A client answered.
    Answered {
        conn: ConnId,
        id: u64,
        outcome: Result<Value, PeerError>,
    },
    /// Stop in order.
    ShutDown { done: oneshot::Sender<()> },
}

struct HostTask {
    core: HostCore,
    inbox: mpsc::WeakSender<Message>,
    agents: HashMap<String, Arc<dyn Agent>>,
    journal: Arc<dyn Journal>,
    limits: Arc<Limits>,
    tasks: TaskTracker,
    ready: Arc<AtomicBool>,
    /// By slot; the generation of a slot counts the connections that used it.
    connections: Vec<Slot>,
    free: Vec<u32>,
    drivers: HashMap<ChannelId, Driver>,
    /// Agents that wait until one of their readers has caught up, and since when.
    held: Vec<(ChannelId, Arc<[Subscriber]>, Instant)>,
    /// The room that queues of agents are emptied into.
    taken: VecDeque<Input>,
    started: Instant,
    stopping: Option<oneshot::Sender<()>>,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    connection: Option<Connection>,
}

#[derive(Debug)]
struct Connection {
    outbox: Arc<Outbox>,
    waiting: Waiting,
}

impl HostTask {
    async fn run(mut self, mut inbox: mpsc::Receiver<Message>) {
        let mut messages = Vec::with_capacity(BATCH);
        let mut effects = Vec::with_capacity(BATCH);
        loop {
            let wake_at = self.wake_at();
            tokio::select! {
                received = inbox.recv_many(&mut messages, BATCH) => {
                    if received == 0 {
                        return;
                    }
                }
                () = tokio::time::sleep_until(wake_at.unwrap_or_else(Instant::now)), if wake_at.is_some() => {}
            }
            let performed = self.handle_all(&mut messages, &mut effects).await;
            let busy = match performed {
                Ok(busy) => busy,
                Err(error) => {
                    // Nothing may be shown that is not kept, so the host ends here.
                    tracing::error!(%error, "the host stops");
                    self.ready.store(false, Ordering::Release);
                    self.close_all(Close::Failed);
                    return;
                }
            };
            self.release_agents();
            if let Some(done) = self.stopping.take() {
                if let Err(error) = self.journal.flush().await {
                    tracing::error!(%error, "the journal could not be flushed");
                }
                self.close_all(Close::GoingAway);
                self.drivers.clear();
                let _ = done.send(());
                return;
            }
            if busy {
                // Writers get their turn before the next batch makes their queues longer.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Handles a batch of messages and performs what follows from them. Returns whether anything did.
    async fn handle_all(
        &mut self,
        messages: &mut Vec<Message>,
        effects: &mut Vec<Effect>,
    ) -> Result<bool, JournalError> {
        let now = self.now();
        let mut busy = false;
        for message in messages.drain(..) {
            if matches!(message, Message::Detached { .. }) {
                // What was said before the end is still to be answered.
                busy |= !effects.is_empty();
                self.perform(effects).await?;
            }
            self.handle(now, message, effects);
            if effects.len() >= MAX_EFFECTS {
                self.perform(effects).await?;
                busy = true;
            }
        }
        if self.core.next_deadline().is_some_and(|at| at <= now.mono_ms) {
            self.handle_input(now, Input::Tick, effects);
        }
        busy |= !effects.is_empty();
        self.perform(effects).await?;
        Ok(busy)
    }

    fn now(&self) -> Now {
        let mono_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Now {
            mono_ms,
            wall: jiff::Timestamp::now(),
        }
    }

    fn wake_at(&self) -> Option<Instant> {
        let deadline = self
            .core
            .next_deadline()
            .map(|at| self.started + Duration::from_millis(at));
        let gate = (!self.held.is_empty()).then(|| Instant::now() + GATE_INTERVAL);
        deadline.into_iter().chain(gate).min()
    }

    fn handle(&mut self, now: Now, message: Message, effects: &mut Vec<Effect>) {
        match message {
            Message::Core(input) => self.handle_input(now, input, effects),
            Message::Request { input, in_flight } => {
                self.handle_input(now, input, effects);
                drop(in_flight);
            }
            Message::Events(queue) => {
                queue.take(&mut self.taken);
                let mut taken = std::mem::take(&mut self.taken);
                for input in taken.drain(..) {
                    self.handle_input(now, input, effects);
                }
                self.taken = taken;
            }
            Message::Attach { principal, reply } => {
                let (conn, outbox) = self.add_connection();
                self.handle_input(now, Input::Connected { conn, principal }, effects);
                if reply.send((conn, outbox)).is_err() {
                    self.handle_input(now, Input::Disconnected { conn }, effects);
                    self.remove_connection(conn);
                }
            }
            Message::Detached { conn } => self.remove_connection(conn),
            Message::Ask {
                client,
                method,
                params,
                reply,
            } => self.ask(client, method, params, reply),
            Message::Answered { conn, id, outcome } => {
                if let Some(connection) = self.connection(conn) {
                    connection.waiting.answer(id, outcome);
                }
            }
            Message::ShutDown { done } => {
                self.handle_input(now, Input::ShutDown, effects);
                self.stopping = Some(done);
            }
        }
    }

    /// A panic in the core is our bug, and must cost one input, not every session.
    fn handle_input(&mut self, now: Now, input: Input, effects: &mut Vec<Effect>) {
        let request = match &input {
            Input::Request { conn, id, .. } => Some((*conn, id.clone())),
            _ => None,
        };
        let before = effects.len();
        let core = &mut self.core;
        let handled = std::panic::catch_unwind(AssertUnwindSafe(|| core.handle(now, input, effects)));
        if handled.is_err() {
            // What the input changed before it failed is unknown, so nobody's picture can be
            // continued: everybody reconnects and gets a fresh one.
            tracing::error!("an input made the core panic; every connection is closed");
            effects.truncate(before);
            self.core.forget_replay();
            self.close_all(Close::Failed);
            if let Some((to, id)) = request {
                let error = RpcError::new(
                    code::INTERNAL_ERROR,
                    "the host failed to handle this request; its log says more",
                );
                effects.push(Effect::Send {
                    to,
                    message: Outgoing::Text(encode_error(Some(&id), &error)),
                });
            }
        }
    }

    /// Keeps what must be kept, then does the rest in order.
    async fn perform(&mut self, effects: &mut Vec<Effect>) -> Result<(), JournalError> {
        if self.journal.wants_records() {
            let records: Vec<JournalRecord> = effects.iter().filter_map(record).collect();
            if !records.is_empty() {
                self.journal.append(records).await?;
            }
        }
        let mut run = Run::default();
        for effect in effects.drain(..) {
            match effect {
                Effect::Publish { channel, to, frame, .. } => {
                    if !run.continues(channel, &to) {
                        self.publish(&mut run);
                    }
                    run.add(channel, to, frame);
                }
                other => {
                    self.publish(&mut run);
                    self.perform_one(other);
                }
            }
        }
        self.publish(&mut run);
        Ok(())
    }

    fn perform_one(&mut self, effect: Effect) {
        match effect {
            Effect::Publish { .. } => {}
            Effect::Notify { to, message } => {
                for subscriber in &*to {
                    self.push(subscriber.conn, Outgoing::Text(message.clone()));
                }
            }
            Effect::Send { to, message } => self.push(to, message),
            Effect::Close { conn, reason } => {
                if let Some(connection) = self.connection(conn) {
                    connection.outbox.close(reason.into());
                }
            }
            Effect::OpenSession(open) => {
                let (Some(agent), Some(inbox)) = (self.agents.get(&open.provider), self.inbox.upgrade()) else {
                    return;
                };
                let chat = open.chat;
                let driver = Driver::spawn(Arc::clone(agent), *open, inbox, &self.limits, &self.tasks);
                self.drivers.insert(chat, driver);
            }
            Effect::StartTurn { chat, turn, start } => {
                if let Some(driver) = self.drivers.get_mut(&chat) {
                    driver.start(turn, start);
                }
            }
            Effect::CancelTurn { chat, turn } => {
                if let Some(driver) = self.drivers.get_mut(&chat) {
                    driver.cancel(turn);
                }
            }
            Effect::CloseChat { chat } => {
                self.drivers.remove(&chat);
            }
        }
    }

    /// Delivers a run of actions with one audience: each queue is locked once for all of them.
    fn publish(&mut self, run: &mut Run) {
        let Some((chat, to)) = run.to.take() else {
            return;
        };
        let mut least_behind = usize::MAX;
        for subscriber in &*to {
            if let Some(connection) = self.connection(subscriber.conn)
                && let Some(waiting) = connection.outbox.push_actions(&run.frames, subscriber.max_latency_ms)
            {
                least_behind = least_behind.min(waiting);
            }
        }
        let streams = run.frames.iter().any(|frame| frame.is_mergeable());
        run.frames.clear();
        // An agent waits for its fastest reader, never for a slow one.
        if streams && least_behind != usize::MAX && least_behind > self.limits.agent_hold_bytes {
            self.hold_agent(chat, to);
        }
    }

    fn hold_agent(&mut self, chat: ChannelId, readers: Arc<[Subscriber]>) {
        if let Some(driver) = self.drivers.get(&chat).filter(|driver| !driver.queue.is_held()) {
            driver.queue.hold();
            self.held.push((chat, readers, Instant::now()));
        }
    }

    /// Opens the gates of agents whose fastest reader has caught up, or that have no reader left.
    fn release_agents(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let held = std::mem::take(&mut self.held);
        for (chat, readers, since) in held {
            let least_behind = readers
                .iter()
                .filter_map(|reader| self.outbox(reader.conn)?.backlog())
                .min();
            let is_behind = least_behind.is_some_and(|bytes| bytes > self.limits.agent_hold_bytes / 4);
            if is_behind && since.elapsed() < MAX_HOLD {
                self.held.push((chat, readers, since));
            } else if let Some(driver) = self.drivers.get(&chat) {
                driver.queue.release();
            }
        }
    }

    fn push(&mut self, to: ConnId, message: Outgoing) {
        if let Some(connection) = self.connection(to) {
            connection.outbox.push(message);
        }
    }

    fn ask(
        &mut self,
        client: ClientId,
        method: ReverseMethod,
        params: Map<String, Value>,
        reply: oneshot::Sender<Result<Value, PeerError>>,
    ) {
        let Some(conn) = self.core.primary_conn(&client) else {
            let _ = reply.send(Err(PeerError::NotConnected(client)));
            return;
        };
        let Some(connection) = self.connection(conn) else {
            let _ = reply.send(Err(PeerError::NotConnected(client)));
            return;
        };
        let Some(id) = connection.waiting.add(reply) else {
            return;
        };
        let mut params = params;
        params.insert("channel".to_owned(), json!(innkeeper_core::uri::ROOT));
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method.name(), "params": params });
        connection.outbox.push(Outgoing::Text(request.to_string().into()));
    }

    fn add_connection(&mut self) -> (ConnId, Arc<Outbox>) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.connections.push(Slot::default());
            u32::try_from(self.connections.len() - 1).unwrap_or(u32::MAX)
        });
        let outbox = Arc::new(Outbox::new(QueueLimits::from(&*self.limits)));
        let first_id = getrandom::u32().map_or(1, u64::from);
        let waiting = Waiting::new(self.limits.reverse_requests, first_id);
        let entry = &mut self.connections[slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.connection = Some(Connection {
            outbox: Arc::clone(&outbox),
            waiting,
        });
        (
            ConnId {
                slot,
                generation: entry.generation,
            },
            outbox,
        )
    }

    fn remove_connection(&mut self, conn: ConnId) {
        if let Some(slot) = self.connections.get_mut(conn.slot as usize)
            && slot.generation == conn.generation
            && let Some(connection) = slot.connection.take()
        {
            connection.outbox.close(Close::Gone);
            self.free.push(conn.slot);
        }
    }

    fn connection(&mut self, conn: ConnId) -> Option<&mut Connection> {
        let slot = self.connections.get_mut(conn.slot as usize)?;
        if slot.generation == conn.generation {
            slot.connection.as_mut()
        } else {
            None
        }
    }

    fn outbox(&self, conn: ConnId) -> Option<&Outbox> {
        let slot = self.connections.get(conn.slot as usize)?;
        let connection = slot
            .connection
            .as_ref()
            .filter(|_| slot.generation == conn.generation)?;
        Some(&connection.outbox)
    }

    fn close_all(&mut self, close: Close) {
        for slot in &self.connections {
            if let Some(connection) = &slot.connection {
                connection.outbox.close(close);
            }
        }
    }
}

/// What a journal keeps of an effect.
fn record(effect: &Effect) -> Option<JournalRecord> {
    match effect {
        Effect::Publish { uri, frame, .. } => Some(JournalRecord {
            channel: Arc::clone(uri),
            frame: Arc::clone(frame),
        }),
        _ => None,
    }
}

/// Consecutive actions with the same audience.
#[derive(Default)]
struct Run {
    to: Option<(ChannelId, Arc<[Subscriber]>)>,
    frames: Vec<Arc<ActionFrame>>,
}

impl Run {
    fn continues(&self, channel: ChannelId, to: &Arc<[Subscriber]>) -> bool {
        self.to
            .as_ref()
            .is_some_and(|(mine, audience)| *mine == channel && Arc::ptr_eq(audience, to))
    }

    fn add(&mut self, channel: ChannelId, to: Arc<[Subscriber]>, frame: Arc<ActionFrame>) {
        self.to = Some((channel, to));
        self.frames.push(frame);
    }
}

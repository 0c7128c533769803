//! A whole host without IO: one core, many clients, a clock that moves when told to.
//!
//! Every connection is a queue that its client reads when it likes, so a cut can fall between
//! any two messages and loses what was not read. Each client keeps a mirror with the published
//! reducers and checks every message against it. [`run`] decides a whole run by a string of
//! bytes, which seeds, property tests and the fuzzer all share.

mod agent;
mod catalogue;
mod checks;
mod choices;
mod connection;
mod dispatches;
mod mirror;
mod operations;
mod queue;
mod run;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use ahp_types::state::AgentInfo;
use bytes::Bytes;
use innkeeper_core::request::{Initialize, Reconnect};
use innkeeper_core::snapshot::AnswerBody;
use innkeeper_core::{
    AgentProfile, ClientId, Command, ConnId, CoreConfig, Effect, HostCore, Input, Now, Outgoing, Principal, RequestId,
    Seq,
};

use self::agent::Agent;
use self::connection::{Asked, Connection, FollowUp};
use self::mirror::Mirror;
use self::queue::Marker;
use crate::mutation::{Mutation, Mutator};

pub use self::choices::{Choices, bytes_from_seed};
pub(crate) use self::queue::Item;
pub use self::run::{Coalescing, Outcome, RunOptions, run};

/// What a correct host never does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    problem: String,
}

impl Violation {
    /// Names a violation.
    pub fn new(problem: impl Into<String>) -> Self {
        Self {
            problem: problem.into(),
        }
    }

    fn on(self, client: &str, conn: ConnId) -> Self {
        Self::new(format!("{client} on {conn}: {}", self.problem))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for Violation {}

/// All transports by the host's name for them.
pub(crate) type Connections = BTreeMap<ConnId, Connection>;

/// Every channel a run may have.
pub(crate) fn all_channels() -> Vec<String> {
    let sessions = operations::SESSIONS.iter();
    let mut channels: Vec<String> = sessions
        .flat_map(|session| [(*session).to_owned(), innkeeper_core::uri::default_chat(session)])
        .collect();
    channels.push(innkeeper_core::uri::ROOT.to_owned());
    channels
}

/// One logical client, which outlives its transports.
#[derive(Debug)]
struct Client {
    id: String,
    /// The version it offered last; `reconnect` keeps it.
    version: &'static str,
    /// What it knew when it lost a transport.
    saved: Option<Mirror>,
    next_client_seq: i64,
    /// When it lost its last transport.
    left_at: Option<u64>,
}

/// The simulated host and all its clients.
#[derive(Debug)]
pub struct Sim {
    core: HostCore,
    now: Now,
    grace_ms: u64,
    clients: Vec<Client>,
    conns: Connections,
    agent: Agent,
    mutator: Mutator,
    coalescing: Coalescing,
    trace: Vec<String>,
    next_slot: u32,
    next_request: u64,
    next_turn: u64,
    last_published: Seq,
    probe_answer: Option<Bytes>,
    tally: Tally,
}

/// How often each interesting thing happened, to show that runs meet it at all.
pub type Tally = BTreeMap<&'static str, u64>;

/// Connections that ask the host for the truth and are no part of the run.
const PROBE_1_0: ConnId = ConnId { slot: 0, generation: 0 };
const PROBE_0_9: ConnId = ConnId { slot: 1, generation: 0 };

impl Sim {
    /// A host with one agent and nobody connected.
    pub fn new(config: CoreConfig, clients: usize, coalescing: Coalescing, mutation: Option<Mutation>) -> Self {
        let wall = "2026-01-31T12:00:00Z".parse().expect("invariant: a valid time");
        let grace_ms = config.grace_ms;
        let mut sim = Self {
            core: HostCore::new(config, agents("first"), Seq(1)),
            now: Now { mono_ms: 1000, wall },
            grace_ms,
            clients: (0..clients).map(new_client).collect(),
            conns: BTreeMap::new(),
            agent: Agent::default(),
            mutator: Mutator::new(mutation),
            coalescing,
            trace: Vec::new(),
            next_slot: 2,
            next_request: 1,
            next_turn: 1,
            last_published: Seq(0),
            probe_answer: None,
            tally: Tally::new(),
        };
        for (conn, version) in [(PROBE_1_0, "1.0.0"), (PROBE_0_9, "0.9.0")] {
            let command = initialize(&format!("probe-{version}"), version, Vec::new());
            let mut ignored = Vec::new();
            let principal = Principal::stdio();
            sim.core
                .handle(sim.now, Input::Connected { conn, principal }, &mut ignored);
            let id = RequestId::number(0);
            sim.core
                .handle(sim.now, Input::Request { conn, id, command }, &mut ignored);
        }
        sim
    }

    /// The latest operations, for a report.
    pub fn trace(&self) -> &[String] {
        &self.trace
    }

    fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        self.trace.push(what());
    }

    /// Hands one input to the core and performs what it asks for.
    fn handle(&mut self, input: Input) -> Result<(), Violation> {
        self.mutator.before(&self.core, &mut self.conns);
        let mut effects = Vec::new();
        self.core.handle(self.now, input, &mut effects);
        for effect in effects {
            self.perform(effect)?;
        }
        Ok(())
    }

    fn perform(&mut self, effect: Effect) -> Result<(), Violation> {
        self.agent.perform(&effect)?;
        match &effect {
            Effect::StartTurn { .. } => self.count("turns started"),
            Effect::CancelTurn { .. } => self.count("turns cancelled"),
            _ => {}
        }
        match effect {
            Effect::Publish { to, frame, .. } => {
                if frame.seq <= self.last_published {
                    return Err(Violation::new(format!(
                        "{} is published after {}",
                        frame.seq, self.last_published
                    )));
                }
                self.last_published = frame.seq;
                self.mutator.appended(&frame);
                let merges = |latency: u32| latency > 0;
                let audience: Vec<(ConnId, bool)> = to
                    .iter()
                    .map(|subscriber| (subscriber.conn, merges(subscriber.max_latency_ms)))
                    .collect();
                self.mutator.publish(&mut self.conns, &audience, &frame);
            }
            Effect::Notify { to, message } => {
                let audience: Vec<ConnId> = to.iter().map(|subscriber| subscriber.conn).collect();
                self.mutator.notify(&mut self.conns, &audience, &message);
            }
            Effect::Send { to, message } => {
                if to == PROBE_1_0 || to == PROBE_0_9 {
                    self.probe_answer = Some(Bytes::copy_from_slice(&message.into_wire()));
                    return Ok(());
                }
                match &message {
                    Outgoing::Answer(answer) => self.note_answer(to, &answer.body),
                    Outgoing::Action(_) => self.count("no-op echoes"),
                    Outgoing::Text(_) => {}
                }
                self.mutator.send(&mut self.conns, to, message);
            }
            Effect::Close { conn, .. } => {
                // The queue is written first, then the transport ends.
                self.read(conn, usize::MAX)?;
                self.cut(conn)?;
            }
            Effect::OpenChat(_)
            | Effect::Reply { .. }
            | Effect::StartWorker(_)
            | Effect::LookUp { .. }
            | Effect::StartTurn { .. }
            | Effect::CancelTurn { .. }
            | Effect::CloseChat { .. } => {}
        }
        Ok(())
    }

    /// Follows what the host has granted, in the order in which it granted it.
    fn note_answer(&mut self, to: ConnId, body: &AnswerBody) {
        match body {
            AnswerBody::Replayed { actions, .. } if actions.is_empty() => self.count("empty replays"),
            AnswerBody::Replayed { .. } => self.count("replays"),
            AnswerBody::Resynced { .. } => self.count("resyncs"),
            AnswerBody::Initialized { .. } | AnswerBody::Subscribed(_) => {}
        }
        let Some(conn) = self.conns.get_mut(&to) else {
            return;
        };
        match body {
            AnswerBody::Subscribed(snapshot) => {
                conn.host_subscriptions.insert(snapshot.resource.to_string());
            }
            AnswerBody::Initialized { snapshots, .. } => {
                conn.admitted = true;
                conn.host_subscriptions
                    .extend(snapshots.iter().map(|snapshot| snapshot.resource.to_string()));
            }
            AnswerBody::Replayed { .. } | AnswerBody::Resynced { .. } => {
                conn.admitted = true;
                let wanted = conn.reconnecting().map(|(_, channels)| channels);
                let core = &self.core;
                conn.host_subscriptions
                    .extend(wanted.into_iter().flatten().filter(|uri| core.snapshot(uri).is_some()));
            }
        }
    }

    /// Sends a request on a connection.
    fn request(&mut self, conn: ConnId, asked: Asked, command: Command) -> Result<(), Violation> {
        let id = self.next_request;
        self.next_request += 1;
        if let Some(connection) = self.conns.get_mut(&conn) {
            connection.asked.insert(id, asked);
        }
        self.handle(Input::Request {
            conn,
            id: RequestId::number(id),
            command,
        })
    }

    /// Opens a transport for a client and returns it.
    fn open(&mut self, client: usize, mirror: Mirror) -> Result<ConnId, Violation> {
        let id = ConnId {
            slot: self.next_slot,
            generation: 0,
        };
        self.next_slot += 1;
        let mut connection = Connection::new(id, client, &self.clients[client].id, mirror);
        connection.coalesce = match self.coalescing {
            Coalescing::Always => true,
            Coalescing::Never => false,
            Coalescing::EverySecond => id.slot.is_multiple_of(2),
        };
        self.conns.insert(id, connection);
        self.handle(Input::Connected {
            conn: id,
            principal: Principal::stdio(),
        })?;
        Ok(id)
    }

    fn initialize(&mut self, conn: ConnId, client: usize, channels: Vec<String>) -> Result<(), Violation> {
        let command = initialize(&self.clients[client].id, self.clients[client].version, channels);
        self.request(conn, Asked::Initialize, command)?;
        if self.conns.get(&conn).is_some_and(|connection| connection.admitted) {
            self.clients[client].left_at = None;
        }
        Ok(())
    }

    fn reconnect(&mut self, conn: ConnId, client: usize) -> Result<(), Violation> {
        let Some(connection) = self.conns.get(&conn) else {
            return Ok(());
        };
        // Every other client counts as the published one does.
        let last_seen = match client % 2 {
            0 => connection.mirror.last_seen,
            _ => connection.mirror.counted,
        };
        let channels: Vec<String> = connection.mirror.channels.keys().cloned().collect();
        let command = Command::Reconnect(Box::new(Reconnect {
            client_id: ClientId::new(&self.clients[client].id),
            last_seen,
            subscriptions: channels.clone(),
        }));
        let asked = Asked::Reconnect {
            last_seen,
            channels: channels.clone(),
        };
        self.request(conn, asked, command)?;
        let admitted = self.conns.get(&conn).is_some_and(|connection| connection.admitted);
        if admitted {
            self.clients[client].left_at = None;
            let (present, absent) = channels.into_iter().partition(|uri| self.core.snapshot(uri).is_some());
            self.mark(conn, Marker::Resumable { present, absent });
            self.expect(conn);
        }
        Ok(())
    }

    /// Puts the host's present states of a connection's channels into its queue, to be compared
    /// when the client has read that far.
    fn expect(&mut self, conn: ConnId) {
        let Some(connection) = self.conns.get(&conn) else {
            return;
        };
        let snapshots = connection
            .host_subscriptions
            .iter()
            .filter_map(|uri| self.core.snapshot(uri))
            .collect();
        self.mark(conn, Marker::Expect(snapshots));
    }

    fn mark(&mut self, conn: ConnId, marker: Marker) {
        if let Some(connection) = self.conns.get_mut(&conn) {
            connection.queue.push(Item::Marker(marker));
        }
    }

    /// Lets a client read, and do what it does because of what it read.
    fn read(&mut self, conn: ConnId, frames: usize) -> Result<(), Violation> {
        let Some(connection) = self.conns.get_mut(&conn) else {
            return Ok(());
        };
        let client = connection.client;
        for follow_up in connection.read(frames)? {
            match follow_up {
                FollowUp::List => self.request(conn, Asked::List, Command::ListSessions(Default::default()))?,
                FollowUp::Initialize => {
                    self.count("fresh starts after a refused reconnect");
                    let channels = self
                        .conns
                        .get(&conn)
                        .map(|connection| connection.mirror.channels.keys().cloned().collect())
                        .unwrap_or_default();
                    self.initialize(conn, client, channels)?;
                }
            }
        }
        Ok(())
    }

    /// Ends a transport; whatever its client had not read is lost.
    fn cut(&mut self, conn: ConnId) -> Result<(), Violation> {
        let Some(connection) = self.conns.remove(&conn) else {
            return Ok(());
        };
        self.mutator.cut(conn);
        self.count("cuts");
        let client = connection.client;
        self.count_dispatches(&connection);
        let was_ready = connection.ready;
        let was_admitted = connection.admitted;
        let mirror = connection.into_mirror();
        if was_ready || self.clients[client].saved.is_none() && !mirror.channels.is_empty() {
            self.clients[client].saved = Some(mirror);
        }
        let others = self
            .conns
            .values()
            .any(|other| other.client == client && other.admitted);
        if was_admitted && !others {
            self.clients[client].left_at = Some(self.now.mono_ms);
        }
        self.handle(Input::Disconnected { conn })
    }

    fn count_dispatches(&mut self, connection: &Connection) {
        for dispatched in connection.dispatched.values() {
            self.count("dispatches");
            match (dispatched.echoes, dispatched.rejections) {
                (0, 0) => {}
                (_, 0) => self.count("echoes"),
                (_, _) => self.count("refusals"),
            }
        }
        *self.tally.entry("merged actions").or_default() += connection.queue.merged();
    }

    /// Moves the clock, stopping at every deadline on the way.
    fn advance(&mut self, millis: u64) -> Result<(), Violation> {
        let until = self.now.mono_ms + millis;
        while let Some(deadline) = self.core.next_deadline().filter(|deadline| *deadline <= until) {
            self.move_to(deadline.max(self.now.mono_ms));
            self.handle(Input::Tick)?;
        }
        self.move_to(until);
        Ok(())
    }

    fn move_to(&mut self, mono_ms: u64) {
        self.now.wall += Duration::from_millis(mono_ms - self.now.mono_ms);
        self.now.mono_ms = mono_ms;
    }
}

fn new_client(index: usize) -> Client {
    Client {
        id: format!("client-{index}"),
        version: "1.0.0",
        saved: None,
        next_client_seq: 1,
        left_at: None,
    }
}

fn initialize(client_id: &str, version: &str, channels: Vec<String>) -> Command {
    Command::Initialize(Box::new(Initialize {
        protocol_versions: vec![version.to_owned()],
        client_id: ClientId::new(client_id),
        initial_subscriptions: channels,
        client_name: None,
        mcp_apps: false,
        locale: None,
    }))
}

fn agents(description: &str) -> Vec<AgentProfile> {
    let info = AgentInfo {
        provider: "tour".to_owned(),
        display_name: "Tour".to_owned(),
        description: description.to_owned(),
        models: Vec::new(),
        protected_resources: None,
        customizations: None,
        capabilities: None,
    };
    vec![info.into()]
}

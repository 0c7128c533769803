//! A whole host without IO: one core, many clients, a clock that moves when told to.
//!
//! Every connection is a queue that its client reads when it likes, so a cut can fall between
//! any two messages and loses what was not read. Each client has a mirror with the published
//! reducers and checks every message against it. [`run`] decides a whole run by a string of
//! bytes, which seeds, property tests and the fuzzer all share.

mod agent;
mod approvals;
mod changes;
mod checks;
mod choices;
mod client;
mod crash;
mod customizations;
mod mcp_servers;
mod older;
mod operations;
mod run;
mod shrink;
mod store;
mod terminals;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ahp_types::state::{AgentCapabilities, AgentInfo, MultipleChatsCapability, MultipleWorkingDirectoriesCapability};
use bytes::Bytes;
use innkeeper_core::frame::encode_result;
use innkeeper_core::snapshot::AnswerBody;
use innkeeper_core::{
    AgentCommand, AgentProfile, ConnId, CoreConfig, Delivery, Effect, HostCore, Input, McpCommand, Now, Outgoing,
    Principal, Publication, RequestId, Seq,
};

use self::agent::Agent;
use self::approvals::Approvals;
use self::changes::KnownViews;
use self::checks::pending_messages::AllowedLoss;
use self::client::connection::Connection;
use self::client::decoding::Decoder;
use self::client::mirror::Mirror;
use self::client::transports::initialize;
use self::customizations::KnownCustomizations;
use self::mcp_servers::KnownServers;
use self::older::OlderPair;
use self::store::Store;
use self::terminals::SimTerminals;
use crate::mutation::{Mutation, Mutator};

pub use self::choices::{Choices, bytes_from_seed};
pub(crate) use self::client::queue::Item;
pub use self::older::{Intent, NewOlderMirror, OlderMirror, TranslationBug};
pub use self::run::{Coalescing, Outcome, RunOptions, run};
pub use self::shrink::{Shrunk, shrink};

/// Behaviour that a correct host never shows.
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
    channels.extend(operations::chats::CHATS.map(str::to_owned));
    channels.push(innkeeper_core::uri::ROOT.to_owned());
    channels
}

/// One logical client, which outlives its transports.
#[derive(Debug)]
struct Client {
    id: String,
    /// The version it offered last; `reconnect` keeps it.
    version: &'static str,
    /// Its mirror when it lost a transport.
    saved: Option<Mirror>,
    next_client_seq: i64,
    /// When it lost its last transport.
    left_at: Option<u64>,
}

/// The simulated host and all its clients.
#[derive(Debug)]
pub struct Sim {
    core: HostCore,
    config: CoreConfig,
    /// The store, if sessions are persisted.
    store: Option<Store>,
    now: Now,
    grace_ms: u64,
    clients: Vec<Client>,
    conns: Connections,
    /// Clients of older versions.
    older: Vec<OlderPair>,
    agent: Agent,
    mutator: Mutator,
    coalescing: Coalescing,
    /// The sessions that chats moved out into.
    moved_out: Vec<String>,
    /// Approvals for more than one call.
    approvals: Approvals,
    /// Discovered customizations, and users' decisions about them.
    customizations: KnownCustomizations,
    servers: KnownServers,
    /// The service of terminals, in runs that have some.
    terminals: Option<SimTerminals>,
    views: KnownViews,
    /// The calls that must get the token that a client just sent.
    tokens_due: Vec<(String, String)>,
    /// Whether the current input is only a tick.
    ticking: bool,
    /// How long an agent may be silent.
    silence_limit_ms: u64,
    /// The trace of the run, if it is recorded.
    trace: Option<Vec<String>>,
    /// When something last followed from anything.
    changed_ms: u64,
    next_slot: u32,
    next_request: u64,
    next_turn: u64,
    next_words: u64,
    handled: u64,
    last_published: Seq,
    probe_answer: Option<Bytes>,
    decoder: Decoder,
    tally: Tally,
}

/// How often each interesting thing happened, to show that runs meet it at all.
pub type Tally = BTreeMap<&'static str, u64>;

/// How often a session is worked out again from its chats: not after every input, which takes long.
const DERIVED_EVERY: u64 = 8;

/// Connections that ask the host for the truth and are no part of the run.
const PROBE_1_0: ConnId = ConnId { slot: 0, generation: 0 };
const PROBE_0_9: ConnId = ConnId { slot: 1, generation: 0 };

impl Sim {
    /// Creates a host with one agent and no connections.
    pub fn new(config: CoreConfig, clients: usize, coalescing: Coalescing, mutation: Option<Mutation>) -> Self {
        let wall = "2026-01-31T12:00:00Z".parse().expect("invariant: a valid time");
        let grace_ms = config.grace_ms;
        let silence_limit_ms = config.silence_limit_ms;
        let mut sim = Self {
            core: HostCore::new(config.clone(), agents("first"), Seq(1)),
            config,
            store: None,
            now: Now { mono_ms: 1000, wall },
            grace_ms,
            clients: (0..clients).map(new_client).collect(),
            conns: BTreeMap::new(),
            older: Vec::new(),
            agent: Agent::default(),
            mutator: Mutator::new(mutation),
            coalescing,
            moved_out: Vec::new(),
            approvals: Approvals::default(),
            customizations: KnownCustomizations::default(),
            servers: KnownServers::default(),
            terminals: None,
            views: KnownViews::default(),
            tokens_due: Vec::new(),
            ticking: false,
            silence_limit_ms,
            trace: None,
            changed_ms: 0,
            next_slot: 2,
            next_request: 1,
            next_turn: 1,
            next_words: 0,
            handled: 0,
            last_published: Seq(0),
            probe_answer: None,
            decoder: Decoder::default(),
            tally: Tally::new(),
        };
        sim.connect_probes();
        sim
    }

    fn connect_probes(&mut self) {
        for (conn, version) in [(PROBE_1_0, "1.0.0"), (PROBE_0_9, "0.9.0")] {
            let command = initialize(&format!("probe-{version}"), version, Vec::new());
            let mut ignored = Vec::new();
            let principal = Principal::stdio();
            self.core
                .handle(self.now, Input::Connected { conn, principal }, &mut ignored);
            let id = RequestId::number(0);
            self.core
                .handle(self.now, Input::Request { conn, id, command }, &mut ignored);
        }
    }

    /// Writes down everything that happens from now on. It costs more than the run itself.
    pub fn keep_trace(&mut self) {
        self.trace = Some(Vec::new());
    }

    /// Returns the trace, if it was recorded.
    pub fn trace(&self) -> &[String] {
        self.trace.as_deref().unwrap_or_default()
    }

    fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(what());
        }
    }

    /// Hands one input to the core, performs its effects, and checks the properties.
    fn handle(&mut self, input: Input) -> Result<(), Violation> {
        self.agent.wait(self.now.mono_ms);
        self.ticking = matches!(input, Input::Tick);
        let waiting = self.waiting();
        let excuse = AllowedLoss::of(&input);
        let configured = self.configured_session(&input);
        self.mutator.before(&self.core, &mut self.conns);
        let input = self.mutator.input(input, &self.conns);
        self.follow(input)?;
        self.note_configured(configured);
        let heard = self.agent.take_heard();
        self.check_words(&waiting, &excuse, &heard)?;
        self.check_heard(&heard)?;
        self.check_beliefs()?;
        self.handled += 1;
        match self.handled % DERIVED_EVERY {
            0 => self.check_derived(),
            _ => Ok(()),
        }
    }

    /// Lets the core handle an input, persists its records, and performs the rest. Then answers
    /// the core's requests to the store.
    fn follow(&mut self, input: Input) -> Result<(), Violation> {
        let mut next = Some(input);
        while let Some(input) = next {
            let mut effects = Vec::new();
            self.core.handle(self.now, input, &mut effects);
            if !effects.is_empty() {
                self.changed_ms = self.now.mono_ms;
            }
            let effects = self.mutator.agents(effects);
            self.keep(&effects)?;
            for effect in effects {
                self.perform(effect)?;
            }
            next = match self.next_from_store()? {
                Some(input) => Some(input),
                None => self.terminals.as_mut().and_then(SimTerminals::next_recall),
            };
        }
        Ok(())
    }

    fn perform(&mut self, effect: Effect) -> Result<(), Violation> {
        match effect {
            Effect::Publish(publication) => self.publish(publication),
            Effect::Deliver(delivery) => self.deliver(delivery),
            Effect::Agent(command) => self.perform_agent(&command),
            Effect::Journal(command) => self.ask_store(command),
            Effect::Customizations(command) => self.customizations.perform(&command),
            Effect::Mcp(command) => self.perform_mcp(command),
            Effect::Terminals(command) => match &mut self.terminals {
                Some(terminals) => terminals.perform(command),
                None => Ok(()),
            },
            Effect::Changes(command) => self.views.perform(command),
            // Records are persisted already, and the simulator has no files.
            Effect::Persist(_)
            | Effect::Blobs(_)
            | Effect::Erase(_)
            | Effect::Completions(_)
            | Effect::Repositories(_)
            | Effect::Resources(_) => Ok(()),
        }
    }

    fn perform_agent(&mut self, command: &AgentCommand) -> Result<(), Violation> {
        if let AgentCommand::OpenChat(open) = command
            && self.agent.chats().any(|(chat, _)| chat == open.chat)
        {
            self.count("chats opened again");
        }
        let silence = self.is_for_silence(command).then_some(self.silence_limit_ms);
        let stored = self.stored_turns(command)?;
        self.agent.perform(command, self.now.mono_ms, silence, stored)?;
        match command {
            AgentCommand::StartTurn { chat, start, .. } => {
                self.check_off(start)?;
                self.check_not_run(*chat, start)?;
                self.count("turns started");
            }
            AgentCommand::CancelTurn { .. } if silence.is_some() => self.count("turns ended for silence"),
            AgentCommand::CancelTurn { .. } => self.count("turns cancelled"),
            AgentCommand::Reply { .. } => self.count("replies"),
            AgentCommand::StartSubagent(_) => self.count("subagents"),
            AgentCommand::OpenChat(_)
            | AgentCommand::CloseChat { .. }
            | AgentCommand::TransformPrompt { .. }
            | AgentCommand::ListTools { .. }
            | AgentCommand::ResolveAppRequest { .. } => {}
        }
        Ok(())
    }

    fn perform_mcp(&mut self, command: McpCommand) -> Result<(), Violation> {
        self.servers.perform(&command)?;
        if let McpCommand::SetToken {
            answer: Some((conn, id)),
            ..
        } = command
        {
            // It is persisted at once.
            let answer = Outgoing::Text(encode_result(&id, &serde_json::json!({})));
            self.mutator.send(&mut self.conns, conn, answer);
        }
        Ok(())
    }

    fn publish(&mut self, publication: Publication) -> Result<(), Violation> {
        let Publication { to, frame, author, .. } = publication;
        if author.is_some() {
            self.note_toggle(&frame);
        }
        if frame.seq <= self.last_published {
            return Err(Violation::new(format!(
                "{} is published after {}",
                frame.seq, self.last_published
            )));
        }
        self.last_published = frame.seq;
        self.mutator.appended(&frame);
        if !self.older.is_empty() {
            self.publish_to_older(&to, &frame);
        }
        let merges = |latency: u32| latency > 0;
        // Clients that show MCP Apps may get another frame (MCP-14).
        let is_one_for_all = !frame.is_shown_differently();
        for mcp_apps in [true, false] {
            let meant = to
                .iter()
                .filter(|subscriber| subscriber.dialect.mcp_apps == mcp_apps || is_one_for_all);
            let meant: Vec<_> = meant.filter(|_| mcp_apps || !is_one_for_all).collect();
            let Some(first) = meant.first() else {
                continue;
            };
            let shown = match !mcp_apps && self.mutator.shows_apps(&frame) {
                true => &frame,
                false => frame.shown_to(first),
            };
            let frame = Arc::clone(shown);
            let audience: Vec<(ConnId, bool)> = meant
                .iter()
                .map(|subscriber| (subscriber.conn, merges(subscriber.max_latency_ms)))
                .collect();
            self.mutator.publish(&mut self.conns, &audience, &frame);
        }
        Ok(())
    }

    fn deliver(&mut self, delivery: Delivery) -> Result<(), Violation> {
        match delivery {
            Delivery::Notify { to, message } => {
                let audience: Vec<ConnId> = to.iter().map(|subscriber| subscriber.conn).collect();
                for conn in &audience {
                    self.push_older(*conn, Item::Message(Outgoing::Text(message.clone())));
                }
                self.mutator.notify(&mut self.conns, &audience, &message);
            }
            // The simulator does not log.
            Delivery::ExportLogs { .. } => {}
            Delivery::Send { to, message } => {
                if to == PROBE_1_0 || to == PROBE_0_9 {
                    self.probe_answer = Some(message.into_wire().to_bytes().expect("everything is in memory"));
                    return Ok(());
                }
                if self.older_owns(to) {
                    self.push_older(to, Item::Message(message));
                    return Ok(());
                }
                match &message {
                    Outgoing::Answer(answer) => self.note_answer(to, &answer.body),
                    Outgoing::Action(frame) if is_page(&frame.bytes) => self.count("pages of turns"),
                    Outgoing::Action(_) => self.count("no-op echoes"),
                    Outgoing::Text(_) => {}
                }
                self.mutator.send(&mut self.conns, to, message);
            }
            Delivery::Close { conn, .. } => {
                if self.close_older(conn)? {
                    return Ok(());
                }
                // The queue is written first, then the transport ends.
                self.read(conn, usize::MAX)?;
                self.cut(conn)?;
            }
        }
        Ok(())
    }

    /// Follows what the host has granted, in the order in which it granted it.
    fn note_answer(&mut self, to: ConnId, body: &AnswerBody) {
        match body {
            AnswerBody::Replayed { actions, .. } if actions.is_empty() => self.count("empty replays"),
            AnswerBody::Replayed { .. } => self.count("replays"),
            AnswerBody::Resynced { .. } => self.count("resyncs"),
            AnswerBody::Initialized { .. } | AnswerBody::Subscribed(_) | AnswerBody::Found(_) => {}
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
            AnswerBody::Found(_) => {}
            AnswerBody::Replayed { .. } | AnswerBody::Resynced { .. } => {
                conn.admitted = true;
                let wanted = conn.reconnecting().map(|(_, channels)| channels);
                let core = &self.core;
                conn.host_subscriptions
                    .extend(wanted.into_iter().flatten().filter(|uri| core.snapshot(uri).is_some()));
            }
        }
    }

    /// Moves the clock, stopping at every deadline on the way.
    fn advance(&mut self, millis: u64) -> Result<(), Violation> {
        let until = self.now.mono_ms + millis;
        while let Some(deadline) = self.core.next_deadline().filter(|deadline| *deadline <= until) {
            self.agent.wait(self.now.mono_ms);
            self.move_to(deadline.max(self.now.mono_ms));
            self.handle(Input::Tick)?;
        }
        self.move_to(until);
        Ok(())
    }

    /// Sets the wall clock. The monotonic clock continues as before (F8, P15).
    fn set_clock(&mut self, choices: &mut Choices<'_>) {
        let hour = jiff::SignedDuration::from_hours(1);
        self.now.wall = match choices.below(6) {
            0 => self.now.wall + hour,
            1 => self.now.wall - hour,
            2 => self.now.wall + 24 * hour,
            3 => self.now.wall - 24 * hour,
            4 => jiff::Timestamp::UNIX_EPOCH,
            _ => jiff::Timestamp::UNIX_EPOCH + hour * 24 * 365 * 70,
        };
        self.count("clocks set");
        let wall = self.now.wall;
        self.note(|| format!("the clock is set to {wall}"));
    }

    fn move_to(&mut self, mono_ms: u64) {
        self.now.wall += Duration::from_millis(mono_ms - self.now.mono_ms);
        self.now.mono_ms = mono_ms;
    }
}

/// Whether an action brings older turns, which go to one reader alone.
fn is_page(bytes: &[u8]) -> bool {
    let name = b"\"chat/turnsLoaded\"";
    bytes.windows(name.len()).any(|window| window == name)
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

fn agents(description: &str) -> Vec<AgentProfile> {
    let info = AgentInfo {
        provider: "tour".to_owned(),
        display_name: "Tour".to_owned(),
        description: description.to_owned(),
        models: Vec::new(),
        protected_resources: None,
        customizations: None,
        capabilities: Some(AgentCapabilities {
            multiple_chats: Some(MultipleChatsCapability {
                fork: Some(true),
                side_chat: Some(true),
            }),
            multiple_working_directories: Some(MultipleWorkingDirectoriesCapability::default()),
        }),
    };
    vec![AgentProfile {
        restores_history: true,
        ..info.into()
    }]
}

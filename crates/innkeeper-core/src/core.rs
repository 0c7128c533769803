//! The machine: one input in, effects out. It never blocks, reads a clock, or fails.

mod capture;
mod handle;
mod host;
mod parts;
mod timers;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

pub(crate) use capture::json_bytes;
pub(crate) use host::Host;
pub use parts::{ChannelCommand, NoCommand, NoInput, PartCommand, PartInput, PartState};
pub(crate) use parts::{ChannelPart, ChannelParts, Departure, SessionRemoval};
pub(crate) use timers::{Timer, Timers};

use crate::agent::AgentProfile;
use crate::chat::model::ChatModel;
use crate::clients::client::Negotiated;
use crate::config::CoreConfig;
use crate::effect::{Delivery, Effect};
use crate::ids::{ChannelId, ClientId, ConnId, Seq};
use crate::input::Input;
use crate::mcp::StoredTokenInfo;
use crate::protocol::error::RpcError;
use crate::protocol::frame::{self, Outgoing};
use crate::protocol::request::RequestId;
use crate::protocol::snapshot::Snapshot;
use crate::storage::open::Opening;
use crate::storage::records::StoredClient;
use crate::telemetry::LogLevel;
use crate::time::Now;

/// Marks a case that cannot happen. It panics in tests and in the simulator; otherwise the caller returns and the host
/// continues.
macro_rules! never {
    ($($message:tt)+) => {
        debug_assert!(false, $($message)+)
    };
}

pub(crate) use never;

/// The root channel is always there and never removed.
pub(crate) const ROOT: ChannelId = ChannelId(0);

/// All state of one host and every rule about it.
///
/// ```
/// use innkeeper_core::{ConnId, CoreConfig, Effect, HostCore, Input, Now, Principal, Seq};
/// let now = Now { mono_ms: 0, wall: "2026-01-01T00:00:00Z".parse().unwrap() };
/// let mut core = HostCore::new(CoreConfig::default(), Vec::new(), Seq(1));
/// let mut effects = Vec::new();
/// let conn = ConnId { slot: 0, generation: 0 };
/// core.handle(now, Input::Connected { conn, principal: Principal::stdio() }, &mut effects);
/// assert!(effects.is_empty());
/// ```
#[derive(Debug)]
pub struct HostCore {
    host: Host,
}

impl HostCore {
    /// A host without sessions. `last_seq` is the highest number that any earlier run of this host may have given
    /// out; the first action takes the next one (E-05).
    pub fn new(config: CoreConfig, agents: Vec<AgentProfile>, last_seq: Seq) -> Self {
        let host = Host::new(config, agents, last_seq);
        Self { host }
    }

    /// A host with the sessions of its earlier runs. Adds a warning for users about everything that could not be
    /// read; no session is touched.
    pub fn open(
        config: CoreConfig,
        agents: Vec<AgentProfile>,
        opening: Opening,
        now: Now,
        effects: &mut Vec<Effect>,
        warnings: &mut Vec<String>,
    ) -> Self {
        let host = Host::open(config, agents, opening, now, effects, warnings);
        Self { host }
    }

    /// Handles one input and appends its consequences, in order.
    pub fn handle(&mut self, now: Now, input: Input, effects: &mut Vec<Effect>) {
        self.host.handle(now, input, effects);
    }

    /// The next moment on the monotonic clock at which the core wants an [`Input::Tick`].
    pub fn next_deadline(&self) -> Option<u64> {
        self.host.timers.next_deadline()
    }

    /// The last sequence number given out.
    pub fn seq(&self) -> Seq {
        self.host.log.seq()
    }

    /// Notes that everything up to this number is durable, so that it may leave memory.
    pub fn set_durable(&mut self, seq: Seq) {
        self.host.log.set_durable(seq);
    }

    /// Takes a number that no action gets.
    pub fn skip_number(&mut self) -> Seq {
        self.host.log.skip_number()
    }

    /// Drops the replay window after a failure in the middle of an input: every client that reconnects gets
    /// snapshots.
    pub fn forget_replay(&mut self) {
        self.host.log.forget_replay();
    }

    /// Bytes in the replay window.
    pub fn replay_bytes(&self) -> usize {
        self.host.log.replay_bytes()
    }

    /// The connection that reverse requests to a client go to (NEG-21).
    pub fn primary_conn(&self, client: &ClientId) -> Option<ConnId> {
        self.host.clients.primary_conn(client)
    }

    /// The protocol version and capabilities negotiated with a client that is connected or remembered (NEG-20).
    pub fn negotiated(&self, client: &ClientId) -> Option<&Negotiated> {
        self.host.clients.get(client).map(|client| &client.negotiated)
    }

    /// Returns the channel of the terminal that a process belongs to.
    pub fn terminal_channel(&self, pty: crate::terminal::PtyId) -> Option<ChannelId> {
        self.host.parts.terminals.channel_of(pty)
    }

    /// Returns true if an input of a connection waits for the store.
    pub fn has_deferred_input(&self, conn: ConnId) -> bool {
        let connection = self.host.conns.get(&conn);
        connection.is_some_and(|connection| !connection.deferred.is_empty())
    }

    /// The state of a channel right now, by URI.
    pub fn snapshot(&self, uri: &str) -> Option<Snapshot> {
        let channel = self.host.channels.find(uri)?;
        self.host.capture(channel)
    }

    /// The URI of a channel.
    pub fn channel_uri(&self, channel: ChannelId) -> Option<&str> {
        Some(&self.host.channels.get(channel)?.uri)
    }

    /// The id that the next channel gets; none below it is ever given out again.
    pub fn next_channel(&self) -> u64 {
        self.host.channels.next()
    }

    /// The agents, in the order clients see them.
    pub fn agents(&self) -> &[AgentProfile] {
        self.host.agents.profiles()
    }

    /// The URIs of the sessions that were being installed when the core failed.
    pub fn installing(&self) -> impl Iterator<Item = Arc<str>> + '_ {
        self.host.storage.installing()
    }

    /// How many sessions are in memory.
    pub fn sessions_in_memory(&self) -> usize {
        self.host.sessions.len()
    }

    /// The turns that have to be read before an input can be handled; `None` when all it needs is in memory. An input
    /// that is going to be refused needs nothing.
    pub fn turns_needed(&self, input: &Input) -> Option<(ChannelId, Range<usize>)> {
        match input {
            Input::Request { conn, command, .. } => self.host.turns_needed_by_command(*conn, command),
            Input::Dispatch { conn, dispatch } => self.host.turns_needed_by_dispatch(*conn, dispatch),
            _ => None,
        }
    }

    /// The chats in memory, for tests that choose which turns stay in memory.
    #[doc(hidden)]
    pub fn chat_models(&mut self) -> impl Iterator<Item = (ChannelId, &mut ChatModel)> {
        self.host.chat_models()
    }

    /// The current clients, for a core that replaces this one.
    pub fn stored_clients(&self) -> Vec<StoredClient> {
        self.host.stored_clients()
    }

    /// Takes over the tokens that clients gave a core before this one in the same process.
    pub fn take_over_tokens(&mut self, before: Self) {
        self.host.take_over_tokens(before.host);
    }

    /// Takes over the tokens of MCP servers that an earlier run stored.
    pub fn restore_server_tokens(&mut self, now: Now, kept: Vec<StoredTokenInfo>) {
        self.host.restore_server_tokens(now, kept);
    }

    /// The lowest log level that has subscribers. The host does not have to send records below it.
    pub fn needed_log_level(&self) -> Option<LogLevel> {
        self.host.needed_log_level()
    }

    /// The ids of the disabled customizations of a session; empty for a session that is not in memory.
    pub fn disabled_ids(&self, session: ChannelId) -> Arc<BTreeSet<String>> {
        self.host.disabled_ids(session)
    }
}

/// The input being handled: when it happened and where its consequences go.
pub(crate) struct Cx<'a> {
    pub(crate) now: Now,
    pub(crate) effects: &'a mut Vec<Effect>,
}

impl Cx<'_> {
    /// Appends an effect. Effects are performed in the order in which they are appended.
    pub(crate) fn emit(&mut self, effect: impl Into<Effect>) {
        self.effects.push(effect.into());
    }

    pub(crate) fn send(&mut self, to: ConnId, message: Outgoing) {
        self.emit(Delivery::Send { to, message });
    }

    pub(crate) fn answer(&mut self, to: ConnId, id: &RequestId, result: Result<serde_json::Value, RpcError>) {
        let message = match result {
            Ok(value) => frame::encode_result(id, &value),
            Err(error) => frame::encode_error(Some(id), &error),
        };
        self.send(to, Outgoing::Text(message));
    }
}

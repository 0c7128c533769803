//! The main loop: one task owns the core, everything that happens is a [`Message`], and every
//! consequence is performed, in order.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use innkeeper_core::frame::encode_error;
use innkeeper_core::{Delivery, Effect, HostCore, Input, Now, Outgoing, RpcError, error::code};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::Message;
use super::agents::Agents;
use super::connections::Connections;
use super::durability::Durability;
use super::handles::LoopHandles;
use super::message::ConnectionMessage;
use super::recovery::REVIVE_INTERVAL;
use super::requests::RequestTickets;
use crate::agent::runtime::event_queue::EventQueue;
use crate::net::close::Close;
use crate::services::Services;
use crate::services::journal::JournalError;
use crate::services::telemetry::effects::Logs;

/// Messages handled before their consequences are performed together.
const BATCH: usize = 256;
/// Effects gathered before they are performed even in the middle of a batch.
const MAX_EFFECTS: usize = 4096;
/// The most batches of log records that a host sends when it shuts down.
const MAX_LAST_LOG_BATCHES: usize = 32;
/// How often a held-back agent is looked at again.
const GATE_INTERVAL: Duration = Duration::from_millis(1);

/// Returns true for inputs after which the core has to fail, in tests.
pub(crate) type FailureInjection = Arc<dyn Fn(&Input) -> bool + Send + Sync>;

/// The main loop: the core, and the parts of the host that perform its effects.
pub(crate) struct HostTask {
    pub(super) core: HostCore,
    pub(super) handles: LoopHandles,
    pub(super) net: Connections,
    pub(super) agents: Agents,
    pub(super) services: Services,
    pub(super) durability: Durability,
    pub(super) requests: RequestTickets,
    started: Instant,
    /// The shutdown that waits for pending effects.
    stopping: Option<oneshot::Sender<()>>,
    /// The core has panicked in the middle of an input since it was last replaced.
    panicked: bool,
    fails_on: Option<FailureInjection>,
    /// The effects of opening the core.
    first_effects: Vec<Effect>,
    /// A buffer for the events of one agent.
    events: VecDeque<Input>,
}

/// The parts of a host, for its main loop.
pub(crate) struct HostParts {
    pub(crate) core: HostCore,
    pub(crate) first_effects: Vec<Effect>,
    pub(crate) handles: LoopHandles,
    pub(crate) agents: Agents,
    pub(crate) services: Services,
    pub(crate) durability: Durability,
    pub(crate) fails_on: Option<FailureInjection>,
}

impl HostTask {
    pub(crate) fn new(parts: HostParts) -> Self {
        Self {
            core: parts.core,
            handles: parts.handles,
            net: Connections::default(),
            agents: parts.agents,
            services: parts.services,
            durability: parts.durability,
            requests: RequestTickets::default(),
            started: Instant::now(),
            stopping: None,
            panicked: false,
            fails_on: parts.fails_on,
            first_effects: parts.first_effects,
            events: VecDeque::new(),
        }
    }

    pub(crate) async fn run(mut self, mut inbox: mpsc::Receiver<Message>) {
        let mut messages = Vec::with_capacity(BATCH);
        let mut effects = std::mem::take(&mut self.first_effects);
        let mut revive_at = Instant::now();
        let started = self.submit(&mut effects);
        let mut outcome = started.map(|()| false);
        loop {
            let busy = match outcome {
                Ok(busy) => busy,
                Err(error) => {
                    effects.clear();
                    if let Err(error) = self.storage_failed(&error).await {
                        // Not even reading works, so the host ends here.
                        tracing::error!(%error, "the host stops");
                        self.durability.report_end();
                        self.net.close_all(Close::Failed);
                        return;
                    }
                    revive_at = Instant::now() + REVIVE_INTERVAL;
                    false
                }
            };
            if busy {
                // Writers get their turn before the next batch makes their queues longer.
                tokio::task::yield_now().await;
            }
            if self.panicked && !self.durability.has_pending() {
                self.panicked = false;
                if self.durability.persists() {
                    outcome = self.start_over().await.map(|()| false);
                    continue;
                }
            }
            let hold_bytes = self.handles.limits().agent_hold_bytes;
            self.agents.release(&self.net, hold_bytes);
            self.services.terminals.release(&self.core, &self.net, hold_bytes);
            if !self.durability.has_pending()
                && let Some(done) = self.stopping.take()
            {
                if let Err(error) = self.durability.journal().flush().await {
                    tracing::error!(%error, "the journal could not be flushed");
                }
                self.net.close_all(Close::GoingAway);
                self.agents.clear();
                self.services.terminals.clear();
                self.services.customizations.unfollow_all(&self.handles, &self.core);
                let _ = done.send(());
                return;
            }
            let wake_at = self.wake_at();
            let takes_messages = !self.panicked && !self.durability.is_full(hold_bytes);
            let is_read_only = self.durability.read_only().is_some();
            tokio::select! {
                persisted = self.durability.persisted() => {
                    outcome = persisted.map(|()| {
                        self.perform_persisted();
                        true
                    });
                    continue;
                }
                received = inbox.recv_many(&mut messages, BATCH), if takes_messages => {
                    if received == 0 {
                        return;
                    }
                }
                () = tokio::time::sleep_until(wake_at.unwrap_or_else(Instant::now)), if wake_at.is_some() => {}
                () = tokio::time::sleep_until(revive_at), if is_read_only => {
                    outcome = self.try_to_revive().await.map(|()| false);
                    revive_at = Instant::now() + REVIVE_INTERVAL;
                    continue;
                }
            }
            outcome = self.handle_all(&mut messages, &mut effects);
        }
    }

    /// Handles a batch of messages and performs what follows from them. Returns whether anything did.
    fn handle_all(&mut self, messages: &mut Vec<Message>, effects: &mut Vec<Effect>) -> Result<bool, JournalError> {
        let now = self.now();
        let mut busy = false;
        let mut messages = messages.drain(..);
        for message in messages.by_ref() {
            // Requests from before the end of a connection still get their answers.
            let mut kept = Ok(());
            if matches!(message, Message::Connection(ConnectionMessage::Detached { .. })) {
                busy |= !effects.is_empty();
                kept = self.submit(effects);
            }
            self.handle(now, message, effects);
            if kept.is_ok() && effects.len() >= MAX_EFFECTS {
                kept = self.submit(effects);
                busy = true;
            }
            if let Err(error) = kept {
                messages.for_each(|message| self.settle(message));
                return Err(error);
            }
        }
        drop(messages);
        for queue in self.agents.take_missed() {
            self.take_events(now, &queue, effects);
        }
        if self.core.next_deadline().is_some_and(|at| at <= now.mono_ms) {
            let before = self.core.sessions_in_memory();
            self.handle_input(now, Input::Tick, effects);
            let left = before.saturating_sub(self.core.sessions_in_memory());
            if left > 0 {
                tracing::debug!(left, stay = before - left, "idle sessions left memory");
            }
        }
        busy |= !effects.is_empty();
        self.submit(effects)?;
        self.requests.release_continued(&self.core);
        Ok(busy)
    }

    /// Takes a message while the core is about to be replaced: only messages about the host itself still count. The
    /// senders of other messages have their connections closed.
    fn settle(&mut self, message: Message) {
        match message {
            Message::Connection(ConnectionMessage::Detached { conn }) => self.detach(conn),
            Message::ShutDown { done } => self.stopping = Some(done),
            Message::Core(_)
            | Message::Logs { .. }
            | Message::Request { .. }
            | Message::Events(_)
            | Message::Connection(_)
            | Message::Session(_)
            | Message::Terminal(_)
            | Message::Render { .. }
            | Message::AgentsChanged { .. }
            | Message::WatchOpened(_)
            | Message::Imported { .. } => {}
            Message::Purged(sessions) => self.purged(sessions),
        }
    }

    pub(super) fn now(&self) -> Now {
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
            .filter(|_| !self.is_done_for())
            .map(|at| self.started + Duration::from_millis(at));
        let has_held = self.agents.has_held() || self.services.terminals.has_held();
        let gate = has_held.then(|| Instant::now() + GATE_INTERVAL);
        deadline.into_iter().chain(gate).min()
    }

    fn handle(&mut self, now: Now, message: Message, effects: &mut Vec<Effect>) {
        match message {
            Message::Core(input) => self.handle_input(now, input, effects),
            Message::Logs { taken } => {
                self.take_logs(now, effects);
                let _ = taken.send(());
            }
            Message::Request {
                conn,
                id,
                command,
                ticket,
            } => {
                let before = effects.len();
                let request = Input::Request {
                    conn,
                    id: id.clone(),
                    command,
                };
                self.handle_input(now, request, effects);
                let new = effects.get(before..).unwrap_or_default();
                self.requests.hold(&self.core, new, conn, &id, ticket);
            }
            Message::Events(queue) => self.take_events(now, &queue, effects),
            Message::Render {
                chat,
                turn,
                sections,
                reply,
            } => {
                let id = self.agents.begin_render(reply);
                let render = Input::RenderPrompt {
                    chat,
                    turn,
                    id,
                    sections,
                };
                self.handle_input(now, render, effects);
            }
            Message::Connection(message) => self.handle_connection(now, message, effects),
            Message::Session(message) => self.handle_session(now, message, effects),
            Message::Terminal(message) => {
                let (input, after) = self.services.terminals.receive(message);
                if let Some(input) = input {
                    self.handle_input(now, input.into(), effects);
                }
                self.services.terminals.handled(after);
            }
            Message::WatchOpened(opened) => {
                let opened = self.services.resources.watch_opened(*opened);
                self.handle_input(now, opened, effects);
            }
            Message::AgentsChanged { profiles, done } => {
                self.handle_input(now, Input::AgentsChanged(profiles), effects);
                if !self.panicked {
                    let _ = done.send(());
                }
            }
            // The core was replaced: the new one found the session in the journal, and the client has reconnected.
            Message::Imported { generation, .. } if !self.services.journal.is_current(generation) => {}
            Message::Imported { input, .. } => self.handle_input(now, input, effects),
            Message::Purged(sessions) => self.purged(sessions),
            Message::ShutDown { done } => {
                self.handle_input(now, Input::ShutDown, effects);
                self.take_last_logs(now, effects);
                self.stopping = Some(done);
            }
        }
    }

    /// Tells the log sink which records clients want. Subscribers are answered after this, so that they receive every
    /// record from then on.
    pub(super) fn follow_wanted_logs(&self) {
        if let Some(logs) = &self.services.logs {
            logs.set_wanted(self.core.needed_log_level());
        }
    }

    /// Takes a batch of log records, unless too many wait for the journal.
    fn take_logs(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let Some(logs) = &self.services.logs else { return };
        match logs.take() {
            Some(records) if self.durability.is_full_of_logs() => logs.leave_out(&records),
            Some(records) => self.handle_input(now, Input::Logs(records), effects),
            None => {}
        }
    }

    /// Takes the last log records of a host that shuts down.
    fn take_last_logs(&mut self, now: Now, effects: &mut Vec<Effect>) {
        // Bounded, because records may still be written.
        for _ in 0..MAX_LAST_LOG_BATCHES {
            match self.services.logs.as_ref().and_then(Logs::take) {
                Some(records) => self.handle_input(now, Input::Logs(records), effects),
                None => return,
            }
        }
    }

    /// Whether the core is about to be replaced.
    fn is_done_for(&self) -> bool {
        self.panicked && self.durability.persists()
    }

    fn take_events(&mut self, now: Now, queue: &EventQueue, effects: &mut Vec<Effect>) {
        let mut events = std::mem::take(&mut self.events);
        queue.take(&mut events);
        for input in events.drain(..) {
            self.handle_input(now, input, effects);
        }
        self.events = events;
    }

    /// A panic in the core is our bug, and must cost one input, not every session.
    pub(super) fn handle_input(&mut self, now: Now, input: Input, effects: &mut Vec<Effect>) {
        // A core that failed is not asked for anything more; its connections are about to close.
        if self.is_done_for() {
            return;
        }
        let request = match &input {
            Input::Request { conn, id, .. } => Some((*conn, id.clone())),
            _ => None,
        };
        let fails = self.fails_on.as_ref().is_some_and(|fails_on| fails_on(&input));
        let before = effects.len();
        let core = &mut self.core;
        let handled = std::panic::catch_unwind(AssertUnwindSafe(|| {
            core.handle(now, input, effects);
            assert!(!fails, "a test wanted this");
        }));
        self.follow_wanted_logs();
        if handled.is_err() {
            // It is unknown what the input changed before it failed, so no client can continue with its state: every
            // client reconnects and gets a new snapshot, from the journal if there is one.
            tracing::error!("an input made the core panic; every connection is closed");
            effects.truncate(before);
            self.core.forget_replay();
            self.services.journal.poison(self.core.installing());
            self.panicked = true;
            if !self.durability.persists() {
                self.net.close_all(Close::Failed);
            }
            if let Some((to, id)) = request {
                let error = RpcError::new(
                    code::INTERNAL_ERROR,
                    "the host failed to handle this request; its log says more",
                );
                let message = Outgoing::Text(encode_error(Some(&id), &error));
                effects.push(Delivery::Send { to, message }.into());
            }
        }
    }
}

//! The main loop: one task owns the core, everything that happens is a [`Message`], and every
//! consequence is performed, in order.

use std::collections::{HashMap, HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use innkeeper_core::frame::{encode_error, encode_result};
use innkeeper_core::{
    ChannelId, Effect, HostCore, Input, Now, Outgoing, PromptPlan, RpcError, Subscriber, error::code,
};
use tokio::sync::{RwLock, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::agent::Agent;
use crate::agent::runtime::driver::Driver;
use crate::agent::runtime::event_queue::{EventQueue, MissedWakes};
use crate::limits::Limits;
use crate::main_loop::connections::Slot;
use crate::main_loop::durability::PendingEffects;
use crate::main_loop::message::Message;
use crate::main_loop::recovery::REVIVE_INTERVAL;
use crate::main_loop::requests::RequestTickets;
use crate::net::close::Close;
use crate::services::completions::Files;
use crate::services::contents::Contents;
use crate::services::customizations::effects::FollowedCustomizations;
use crate::services::journal::{Journal, JournalError};
use crate::services::mcp::AppRequests;
use crate::services::mcp::effects::Servers;
use crate::services::repositories::effects::FollowedRepositories;
use crate::services::resources::effects::{OperationOrder, found};
use crate::services::resources::{Resources, Watching};
use crate::services::telemetry::effects::Logs;

/// Messages handled before their consequences are performed together.
const BATCH: usize = 256;
/// Effects gathered before they are performed even in the middle of a batch.
const MAX_EFFECTS: usize = 4096;
/// How often a held-back agent is looked at again.
const GATE_INTERVAL: Duration = Duration::from_millis(1);

/// Says which inputs are to fail.
pub(crate) type FailureInjection = Arc<dyn Fn(&Input) -> bool + Send + Sync>;

pub(crate) struct HostTask {
    pub(crate) core: HostCore,
    pub(crate) inbox: mpsc::WeakSender<Message>,
    pub(crate) agents: HashMap<String, Arc<dyn Agent>>,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) files: Arc<dyn Files>,
    pub(crate) resources: Arc<dyn Resources>,
    pub(crate) contents: Arc<dyn Contents>,
    /// Contents move and go in the order in which chats and sessions do.
    pub(crate) content_order: OperationOrder,
    /// Watches that are set up, by number; dropped, they end.
    pub(crate) watches: HashMap<u64, Watching>,
    /// What sessions bring along.
    pub(crate) followed: FollowedCustomizations,
    pub(crate) repositories: FollowedRepositories,
    /// Their MCP servers.
    pub(crate) servers: Servers,
    /// What is logged, if clients may hear it.
    pub(crate) logs: Option<Logs>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) tasks: TaskTracker,
    pub(crate) ready: Arc<AtomicBool>,
    /// By slot; the generation of a slot counts the connections that used it.
    pub(crate) connections: Vec<Slot>,
    pub(crate) free: Vec<u32>,
    pub(crate) drivers: HashMap<ChannelId, Driver>,
    /// Agents that wait until one of their readers has caught up, and since when.
    pub(crate) held: Vec<(ChannelId, Arc<[Subscriber]>, Instant)>,
    /// The room that queues of agents are emptied into.
    pub(crate) taken: VecDeque<Input>,
    /// Queues whose bell did not fit into the inbox.
    pub(crate) missed: MissedWakes,
    /// The tickets of requests that are not answered yet.
    pub(crate) requests: RequestTickets,
    /// The requests of apps to the model.
    pub(crate) app_requests: AppRequests,
    /// What the journal is keeping, and what comes after it.
    pub(crate) pending: PendingEffects,
    /// Why nothing can be kept, if the journal failed.
    pub(crate) read_only: Option<String>,
    /// Which core this is, counted from the first.
    pub(crate) generation: u64,
    /// Held while the journal takes a session in.
    pub(crate) importing: Arc<RwLock<()>>,
    /// The same, for whoever asks how the host is.
    pub(crate) problem: Arc<innkeeper_std::sync::Mutex<Option<String>>>,
    /// Places for sessions that are being read.
    pub(crate) loads: Arc<tokio::sync::Semaphore>,
    pub(crate) started: Instant,
    pub(crate) stopping: Option<oneshot::Sender<()>>,
    /// Whether the core failed in the middle of an input since it was last replaced.
    pub(crate) panicked: bool,
    /// What could not be taken into memory without failing.
    pub(crate) poisoned: HashSet<Arc<str>>,
    /// Renders of system prompts whose answer is on its way, by number.
    pub(crate) renders: HashMap<u64, oneshot::Sender<PromptPlan>>,
    pub(crate) next_render: u64,
    /// Inputs that a test wants to fail.
    pub(crate) breaks: Option<FailureInjection>,
    /// What followed from starting.
    pub(crate) first_effects: Vec<Effect>,
}
impl HostTask {
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
                        self.ready.store(false, Ordering::Release);
                        self.close_all(Close::Failed);
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
            if self.panicked && self.pending.is_empty() {
                self.panicked = false;
                if self.journal.keeps() {
                    outcome = self.start_over().await.map(|()| false);
                    continue;
                }
            }
            self.release_agents();
            if self.pending.is_empty()
                && let Some(done) = self.stopping.take()
            {
                if let Err(error) = self.journal.flush().await {
                    tracing::error!(%error, "the journal could not be flushed");
                }
                self.close_all(Close::GoingAway);
                self.drivers.clear();
                self.forget_all();
                let _ = done.send(());
                return;
            }
            let wake_at = self.wake_at();
            let takes_messages = !self.panicked && !self.pending.is_full(self.limits.agent_hold_bytes);
            let is_read_only = self.read_only.is_some();
            tokio::select! {
                persisted = self.pending.persisted() => {
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
            // What was said before the end of a connection is still to be answered.
            let mut kept = Ok(());
            if matches!(message, Message::Detached { .. }) {
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
        let missed = std::mem::take(&mut *self.missed.lock());
        for queue in missed {
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

    /// Takes a message while the core is about to be replaced: only what is about the host itself
    /// still counts. Whoever asked for something else has its connection closed.
    fn settle(&mut self, message: Message) {
        match message {
            Message::Detached { conn } => self.detach(conn),
            Message::ShutDown { done } => self.stopping = Some(done),
            Message::Core(_)
            | Message::ListTools { .. }
            | Message::Logs { .. }
            | Message::Request { .. }
            | Message::Events(_)
            | Message::Attach { .. }
            | Message::RequestClient { .. }
            | Message::Render { .. }
            | Message::Transform { .. }
            | Message::ClientAnswered { .. }
            | Message::AgentsChanged { .. }
            | Message::CustomizationsReported { .. }
            | Message::RepositorySeen { .. }
            | Message::Found { .. }
            | Message::WatchOpened(_)
            | Message::Respond { .. }
            | Message::Imported { .. } => {}
            Message::Purged(sessions) => self.purged(sessions),
        }
    }

    pub(crate) fn now(&self) -> Now {
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
        let gate = (!self.held.is_empty()).then(|| Instant::now() + GATE_INTERVAL);
        deadline.into_iter().chain(gate).min()
    }

    fn handle(&mut self, now: Now, message: Message, effects: &mut Vec<Effect>) {
        match message {
            Message::Core(input) => self.handle_input(now, input, effects),
            Message::ListTools { session, provider } => self.list_tools(now, session, provider, effects),
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
            Message::Attach { principal, reply } => {
                let (conn, outbox) = self.add_connection();
                self.handle_input(now, Input::Connected { conn, principal }, effects);
                if reply.send((conn, outbox)).is_err() {
                    self.handle_input(now, Input::Disconnected { conn }, effects);
                    self.remove_connection(conn);
                }
            }
            Message::Detached { conn } => self.detach(conn),
            Message::RequestClient {
                client,
                method,
                params,
                reply,
            } => self.request_client(client, method, params, reply),
            Message::Render {
                chat,
                turn,
                sections,
                reply,
            } => {
                // Whoever gave up waiting is forgotten.
                self.renders.retain(|_, reply| !reply.is_closed());
                let id = self.next_render;
                self.next_render += 1;
                self.renders.insert(id, reply);
                let render = Input::RenderPrompt {
                    chat,
                    turn,
                    id,
                    sections,
                };
                self.handle_input(now, render, effects);
            }
            Message::Transform { conn, params, reply } => self.ask_to_transform(conn, &params, reply),
            Message::ClientAnswered { conn, id, outcome } => {
                if let Some(connection) = self.connection(conn) {
                    connection.reverse_requests.answer(id, outcome);
                }
            }
            Message::Found { conn, id, object } => self.push(conn, found(id, object)),
            Message::WatchOpened(opened) => self.watch_opened(now, *opened, effects),
            Message::Respond { conn, id, outcome } => {
                let message = match outcome {
                    Ok(value) => encode_result(&id, &value),
                    Err(error) => encode_error(Some(&id), &error),
                };
                self.push(conn, Outgoing::Text(message));
            }
            Message::AgentsChanged { profiles, done } => {
                self.handle_input(now, Input::AgentsChanged(profiles), effects);
                if !self.panicked {
                    let _ = done.send(());
                }
            }
            Message::CustomizationsReported {
                session,
                number,
                report,
            } => self.customizations_reported(now, session, number, report, effects),
            Message::RepositorySeen {
                directory,
                number,
                state,
            } => self.repository_seen(now, &directory, number, state, effects),
            // A core that came later found the session in the store, and whoever asked is gone.
            Message::Imported { generation, .. } if generation != self.generation => {}
            Message::Imported { input, .. } => self.handle_input(now, input, effects),
            Message::Purged(sessions) => self.purged(sessions),
            Message::ShutDown { done } => {
                self.handle_input(now, Input::ShutDown, effects);
                self.take_last_logs(now, effects);
                self.stopping = Some(done);
            }
        }
    }

    /// Whether the core is about to be replaced.
    fn is_done_for(&self) -> bool {
        self.panicked && self.journal.keeps()
    }

    fn take_events(&mut self, now: Now, queue: &EventQueue, effects: &mut Vec<Effect>) {
        queue.take(&mut self.taken);
        let mut taken = std::mem::take(&mut self.taken);
        for input in taken.drain(..) {
            self.handle_input(now, input, effects);
        }
        self.taken = taken;
    }

    /// A panic in the core is our bug, and must cost one input, not every session.
    pub(crate) fn handle_input(&mut self, now: Now, input: Input, effects: &mut Vec<Effect>) {
        // A core that failed is not asked for anything more; its connections are about to close.
        if self.is_done_for() {
            return;
        }
        let request = match &input {
            Input::Request { conn, id, .. } => Some((*conn, id.clone())),
            _ => None,
        };
        let breaks = self.breaks.as_ref().is_some_and(|breaks| breaks(&input));
        let before = effects.len();
        let core = &mut self.core;
        let handled = std::panic::catch_unwind(AssertUnwindSafe(|| {
            core.handle(now, input, effects);
            assert!(!breaks, "a test wanted this");
        }));
        self.follow_wanted_logs();
        if handled.is_err() {
            // What the input changed before it failed is unknown, so nobody's picture can be
            // continued: everybody reconnects and gets a fresh one, from what was kept if anything is.
            tracing::error!("an input made the core panic; every connection is closed");
            effects.truncate(before);
            self.core.forget_replay();
            self.poisoned.extend(self.core.installing());
            self.panicked = true;
            if !self.journal.keeps() {
                self.close_all(Close::Failed);
            }
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
}

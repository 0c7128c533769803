//! The main loop: one task owns the core, everything that happens is a [`Message`], and every
//! consequence is performed, in order.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use innkeeper_core::frame::{encode_error, encode_result};
use innkeeper_core::{ChannelId, Effect, HostCore, Input, Now, Outgoing, RpcError, Subscriber, error::code};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::connections::Slot;
use super::message::Message;
use crate::agent::Agent;
use crate::close::Close;
use crate::driver::Driver;
use crate::events::{EventQueue, MissedBells};
use crate::files::Files;
use crate::journal::{Journal, JournalError};
use crate::limits::Limits;

/// Messages handled before their consequences are performed together.
const BATCH: usize = 256;
/// Effects gathered before they are performed even in the middle of a batch.
const MAX_EFFECTS: usize = 4096;
/// How often a held-back agent is looked at again.
const GATE_INTERVAL: Duration = Duration::from_millis(1);

pub(super) struct HostTask {
    pub(super) core: HostCore,
    pub(super) inbox: mpsc::WeakSender<Message>,
    pub(super) agents: HashMap<String, Arc<dyn Agent>>,
    pub(super) journal: Arc<dyn Journal>,
    pub(super) files: Arc<dyn Files>,
    pub(super) limits: Arc<Limits>,
    pub(super) tasks: TaskTracker,
    pub(super) ready: Arc<AtomicBool>,
    /// By slot; the generation of a slot counts the connections that used it.
    pub(super) connections: Vec<Slot>,
    pub(super) free: Vec<u32>,
    pub(super) drivers: HashMap<ChannelId, Driver>,
    /// Agents that wait until one of their readers has caught up, and since when.
    pub(super) held: Vec<(ChannelId, Arc<[Subscriber]>, Instant)>,
    /// The room that queues of agents are emptied into.
    pub(super) taken: VecDeque<Input>,
    /// Queues whose bell did not fit into the inbox.
    pub(super) missed: MissedBells,
    /// The places of requests that are looked up and not answered yet, in the order of their effects.
    pub(super) look_ups: VecDeque<OwnedSemaphorePermit>,
    pub(super) started: Instant,
    pub(super) stopping: Option<oneshot::Sender<()>>,
}
impl HostTask {
    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Message>) {
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
        let missed = std::mem::take(&mut *self.missed.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        for queue in missed {
            self.take_events(now, &queue, effects);
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
                let before = effects.len();
                self.handle_input(now, input, effects);
                let is_looked_up = effects
                    .get(before..)
                    .is_some_and(|new| new.iter().any(|effect| matches!(effect, Effect::LookUp { .. })));
                if is_looked_up {
                    // It keeps its place among the requests of its connection until it is answered.
                    self.look_ups.push_back(in_flight);
                }
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
            Message::Respond { conn, id, outcome } => {
                let message = match outcome {
                    Ok(value) => encode_result(&id, &value),
                    Err(error) => encode_error(Some(&id), &error),
                };
                self.push(conn, Outgoing::Text(message));
            }
            Message::ShutDown { done } => {
                self.handle_input(now, Input::ShutDown, effects);
                self.stopping = Some(done);
            }
        }
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
}

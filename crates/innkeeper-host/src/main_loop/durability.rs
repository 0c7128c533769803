//! The durability gate: effects are performed after the actions among them are persisted.
//!
//! Meanwhile the core handles further inputs, and their effects wait behind: effects are performed in the order in
//! which the core decided them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use innkeeper_core::action_table::Durability as ActionDurability;
use innkeeper_core::frame::encode_error;
use innkeeper_core::records::{ActionRecord, Batch, Record};
use innkeeper_core::{ConnId, Delivery, Effect, McpCommand, Outgoing, Publication, RpcError, Seq, error::code};
use innkeeper_std::sync::Mutex;

use crate::main_loop::task::HostTask;
use crate::services::journal::{Appended, Journal, JournalError, RESERVED};

/// Effects that may wait for the journal before the host takes no more messages.
const MAX_PENDING: usize = 16 * 1024;

/// Bytes of the log that may wait for the journal; beyond it records are left out.
const MAX_LOG_BYTES: usize = 4 << 20;

/// The journal for writing, and the effects that wait for it.
pub(crate) struct Durability {
    journal: Arc<dyn Journal>,
    pending: PendingEffects,
    /// Why the journal accepts no writes, if so.
    read_only: Option<String>,
    /// True while the host accepts work. Shared with the handles of the host.
    ready: Arc<AtomicBool>,
    /// The reason for handles of the host, if it does not.
    problem: Arc<Mutex<Option<String>>>,
}

impl Durability {
    pub(crate) fn new(
        journal: Arc<dyn Journal>,
        read_only: Option<String>,
        ready: Arc<AtomicBool>,
        problem: Arc<Mutex<Option<String>>>,
    ) -> Self {
        Self {
            journal,
            pending: PendingEffects::default(),
            read_only,
            ready,
            problem,
        }
    }

    pub(crate) fn journal(&self) -> &dyn Journal {
        &*self.journal
    }

    /// Returns true if the host has a journal.
    pub(crate) fn persists(&self) -> bool {
        self.journal.keeps()
    }

    /// Returns true if the journal accepts writes. A host without a journal persists nothing.
    fn is_writable(&self) -> bool {
        self.persists() && self.read_only.is_none()
    }

    /// Returns why the journal accepts no writes, if so.
    pub(crate) fn read_only(&self) -> Option<&str> {
        self.read_only.as_deref()
    }

    /// Notes whether the journal accepts writes, and lets the handles of the host know.
    pub(crate) fn set_read_only(&mut self, reason: Option<String>) {
        self.ready.store(reason.is_none(), Ordering::Release);
        self.set_problem(reason.clone());
        self.read_only = reason;
    }

    /// Lets the handles of the host know that the journal has failed, before any client does: a client that is refused
    /// and asks `/readyz` gets the reason.
    pub(crate) fn report_failure(&self, reason: &str) {
        self.report_end();
        self.set_problem(Some(reason.to_owned()));
    }

    /// Lets the handles of the host know that it accepts no work any more.
    pub(crate) fn report_end(&self) {
        self.ready.store(false, Ordering::Release);
    }

    fn set_problem(&self, problem: Option<String>) {
        *self.problem.lock() = problem;
    }

    /// Returns true if effects wait until they are persisted.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns true if the main loop takes no more messages. Clients receive all pending effects at once when they are
    /// persisted, so the bound is the one on how far agents may be ahead of them.
    pub(crate) fn is_full(&self, max_bytes: usize) -> bool {
        self.pending.effects >= MAX_PENDING || self.pending.bytes >= max_bytes
    }

    /// Returns true if no more log records are accepted: the log must not displace actions.
    pub(crate) fn is_full_of_logs(&self) -> bool {
        self.pending.log_bytes >= MAX_LOG_BYTES
    }

    /// Resolves when the first pending step may be performed.
    pub(crate) async fn persisted(&mut self) -> Result<(), JournalError> {
        self.pending.persisted().await
    }

    /// Takes the records for the journal out of the effects.
    fn take_records(&self, effects: &mut Vec<Effect>) -> Vec<Record> {
        if !self.persists() {
            return Vec::new();
        }
        let mut records = Vec::new();
        effects.retain_mut(|effect| match effect {
            Effect::Publish(Publication { frame, .. }) if frame.durability == ActionDurability::Fleeting => true,
            Effect::Publish(Publication { uri, frame, .. }) => {
                records.push(Record::Action(ActionRecord {
                    channel: Arc::clone(uri),
                    frame: Arc::clone(frame),
                }));
                true
            }
            Effect::Persist(record) => {
                records.push((**record).clone());
                false
            }
            _ => true,
        });
        records
    }
}

/// Effects that wait until they are persisted, in order.
#[derive(Default)]
struct PendingEffects {
    steps: VecDeque<PendingStep>,
    effects: usize,
    /// Bytes of actions among them.
    bytes: usize,
    /// Bytes of the log among them.
    log_bytes: usize,
    /// The last sequence number that the journal knows of.
    reserved_for: Seq,
}

/// Something to do after everything before it is done.
struct PendingStep {
    deferred: Deferred,
    /// Resolves when the step is persisted. `None` if the step only waits for those before it.
    persisted: Option<Appended>,
}

enum Deferred {
    /// Perform these effects of the core. The number is the last one that the core had assigned by then.
    Perform(Vec<Effect>, Seq),
    /// Free the slot of a connection that has ended. The requests that it sent before are still answered.
    Detach(ConnId),
}

impl PendingEffects {
    fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Resolves when the first step may be performed.
    async fn persisted(&mut self) -> Result<(), JournalError> {
        match self.steps.front_mut() {
            Some(PendingStep {
                persisted: Some(persisted),
                ..
            }) => {
                let outcome = persisted.await;
                if let Some(step) = self.steps.front_mut() {
                    step.persisted = None;
                }
                outcome
            }
            Some(PendingStep { persisted: None, .. }) => Ok(()),
            None => std::future::pending().await,
        }
    }

    fn push(&mut self, deferred: Deferred, persisted: Option<Appended>) {
        if let Deferred::Perform(effects, _) = &deferred {
            self.effects += effects.len();
            self.bytes += action_bytes(effects);
            self.log_bytes += log_bytes(effects);
        }
        self.steps.push_back(PendingStep { deferred, persisted });
    }

    fn pop(&mut self) -> Option<Deferred> {
        let step = self.steps.pop_front()?;
        if let Deferred::Perform(effects, _) = &step.deferred {
            self.effects -= effects.len();
            self.bytes -= action_bytes(effects);
            self.log_bytes -= log_bytes(effects);
        }
        Some(step.deferred)
    }
}

fn action_bytes(effects: &[Effect]) -> usize {
    let bytes = |effect: &Effect| match effect {
        Effect::Publish(Publication { frame, .. }) => frame.bytes.len(),
        _ => 0,
    };
    effects.iter().map(bytes).sum()
}

fn log_bytes(effects: &[Effect]) -> usize {
    let bytes = |effect: &Effect| match effect {
        Effect::Deliver(Delivery::ExportLogs { message, .. }) => message.len(),
        _ => 0,
    };
    effects.iter().map(bytes).sum()
}

impl HostTask {
    /// Persists the actions and records among these effects, then performs the effects.
    pub(super) fn submit(&mut self, effects: &mut Vec<Effect>) -> Result<(), JournalError> {
        self.requests.note_continued(effects);
        let seq = self.core.seq();
        // Numbers are reserved before they run out, even if there is nothing else to persist.
        let is_due = self.durability.is_writable() && seq.0 >= self.durability.pending.reserved_for.0 + RESERVED / 2;
        if effects.is_empty() && !is_due {
            return Ok(());
        }
        let records = self.durability.take_records(effects);
        let mut persisted = None;
        if self.durability.is_writable() && (!records.is_empty() || is_due) {
            self.durability.pending.reserved_for = seq;
            let is_durable = records.iter().any(Record::is_durable);
            let mut appended = self.durability.journal.append(Batch { records, seq });
            match appended.as_mut().now_or_never() {
                Some(Ok(())) if is_durable => self.core.set_durable(seq),
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    // Refused together with all other effects that were not persisted.
                    self.durability
                        .pending
                        .push(Deferred::Perform(std::mem::take(effects), seq), None);
                    return Err(error);
                }
                None => persisted = Some(appended),
            }
        }
        if persisted.is_none() && self.durability.pending.is_empty() {
            self.perform(effects);
        } else {
            self.durability
                .pending
                .push(Deferred::Perform(std::mem::take(effects), seq), persisted);
        }
        Ok(())
    }

    /// Frees the slot of a connection after everything before is performed.
    pub(super) fn detach(&mut self, conn: ConnId) {
        if self.durability.pending.is_empty() {
            self.net.remove(conn);
        } else {
            self.durability.pending.push(Deferred::Detach(conn), None);
        }
    }

    /// Performs every step that is persisted.
    pub(super) fn perform_persisted(&mut self) {
        while let Some(step) = self.durability.pending.steps.front()
            && step.persisted.is_none()
        {
            match self.durability.pending.pop() {
                Some(Deferred::Perform(mut effects, seq)) => {
                    self.core.set_durable(seq);
                    self.perform(&mut effects);
                }
                Some(Deferred::Detach(conn)) => self.net.remove(conn),
                None => {}
            }
        }
    }

    /// Refuses all pending effects, because they could not be persisted: their authors get an error, and no other
    /// client receives them.
    pub(super) fn refuse_pending(&mut self, error: &JournalError) {
        let message = match error {
            JournalError::Full(_) => format!("it could not be saved, so it did not happen: {error}"),
            // Part of it may have reached the disk and may be found there after a crash.
            JournalError::Failed(_) | JournalError::Damaged(_) => {
                format!("it could not be saved; check whether it happened before you try again: {error}")
            }
        };
        while let Some(deferred) = self.durability.pending.pop() {
            match deferred {
                Deferred::Perform(effects, _) => {
                    for effect in effects {
                        self.refuse(effect, &message);
                    }
                }
                Deferred::Detach(conn) => self.net.remove(conn),
            }
        }
    }

    fn refuse(&mut self, effect: Effect, message: &str) {
        if let Some((conn, id)) = effect.request() {
            drop(self.requests.take(conn, id));
        }
        match effect {
            Effect::Publish(Publication {
                frame,
                author: Some(author),
                ..
            }) => {
                // The rejection has its own number: if the action is found after a crash, its author has not seen it.
                let seq = self.core.skip_number();
                self.net.push(author, Outgoing::Text(frame.rejected(seq, message)));
            }
            Effect::Deliver(Delivery::Send { to, message: outgoing }) => {
                if let Some(id) = outgoing.answered_request() {
                    let error = RpcError::new(code::INTERNAL_ERROR, message);
                    self.net.push(to, Outgoing::Text(encode_error(Some(&id), &error)));
                }
            }
            Effect::Mcp(McpCommand::SetToken {
                answer: Some((conn, id)),
                ..
            }) => {
                let error = RpcError::new(code::INTERNAL_ERROR, message);
                self.net.push(conn, Outgoing::Text(encode_error(Some(&id), &error)));
            }
            _ => {}
        }
    }
}

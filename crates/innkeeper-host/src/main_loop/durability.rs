//! Between what the core decided and what happens: the journal.
//!
//! What must survive is kept before anybody hears of it. Meanwhile the core goes on, and what it
//! decides next waits its turn behind: everything is done in the order it was decided.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::FutureExt;
use innkeeper_core::action::Durability;
use innkeeper_core::frame::encode_error;
use innkeeper_core::stored::{ActionRecord, Batch, Record};
use innkeeper_core::{ConnId, Effect, Outgoing, RpcError, Seq, error::code};

use crate::main_loop::task::HostTask;
use crate::services::journal::{Appended, JournalError, RESERVED};

/// Effects that may wait for the journal before the host takes no more messages.
const MAX_WAITING: usize = 16 * 1024;

/// Bytes of the log that may wait for the journal; beyond it records are left out.
const MAX_LOG_BYTES: usize = 4 << 20;

/// What waits for the journal, in order.
#[derive(Default)]
pub(crate) struct Waiting {
    steps: VecDeque<Step>,
    effects: usize,
    /// Bytes of actions among them.
    bytes: usize,
    /// Bytes of the log among them.
    log_bytes: usize,
    /// The last number that the journal was told of.
    told: Seq,
}

/// Something to do once everything before it is done.
struct Step {
    what: What,
    /// Until this resolves; nothing for what only waits its turn.
    kept: Option<Appended>,
}

enum What {
    /// What the core decided, and the last number it had given out by then.
    Perform(Vec<Effect>, Seq),
    /// A connection's tasks are done with its slot. What was said before its end is still to be
    /// answered.
    Detach(ConnId),
}

impl Waiting {
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether no more messages are taken. Readers get all of it at once when it is kept, so it is
    /// bounded like what agents may be ahead of them.
    pub(crate) fn is_full(&self, most_bytes: usize) -> bool {
        self.effects >= MAX_WAITING || self.bytes >= most_bytes
    }

    /// Whether no more of the log waits behind what is kept: it must not take room from what matters.
    pub(crate) fn is_full_of_logs(&self) -> bool {
        self.log_bytes >= MAX_LOG_BYTES
    }

    /// Resolves when the first step may be taken.
    pub(crate) async fn kept(&mut self) -> Result<(), JournalError> {
        match self.steps.front_mut() {
            Some(Step { kept: Some(kept), .. }) => {
                let outcome = kept.await;
                if let Some(step) = self.steps.front_mut() {
                    step.kept = None;
                }
                outcome
            }
            Some(Step { kept: None, .. }) => Ok(()),
            None => std::future::pending().await,
        }
    }

    fn push(&mut self, what: What, kept: Option<Appended>) {
        if let What::Perform(effects, _) = &what {
            self.effects += effects.len();
            self.bytes += action_bytes(effects);
            self.log_bytes += log_bytes(effects);
        }
        self.steps.push_back(Step { what, kept });
    }

    fn pop(&mut self) -> Option<What> {
        let step = self.steps.pop_front()?;
        if let What::Perform(effects, _) = &step.what {
            self.effects -= effects.len();
            self.bytes -= action_bytes(effects);
            self.log_bytes -= log_bytes(effects);
        }
        Some(step.what)
    }
}

fn action_bytes(effects: &[Effect]) -> usize {
    let bytes = |effect: &Effect| match effect {
        Effect::Publish { frame, .. } => frame.bytes.len(),
        _ => 0,
    };
    effects.iter().map(bytes).sum()
}

fn log_bytes(effects: &[Effect]) -> usize {
    let bytes = |effect: &Effect| match effect {
        Effect::ExportLogs { message, .. } => message.len(),
        _ => 0,
    };
    effects.iter().map(bytes).sum()
}

impl HostTask {
    /// Keeps what has to be kept of these effects, and performs them then.
    pub(crate) fn submit(&mut self, effects: &mut Vec<Effect>) -> Result<(), JournalError> {
        let seq = self.core.seq();
        // Numbers are reserved before they run out, also those that leave nothing to keep.
        let is_due = self.is_writable() && seq.0 >= self.waiting.told.0 + RESERVED / 2;
        if effects.is_empty() && !is_due {
            return Ok(());
        }
        let records = self.take_records(effects);
        let mut kept = None;
        if self.is_writable() && (!records.is_empty() || is_due) {
            self.waiting.told = seq;
            let is_durable = records.iter().any(Record::is_durable);
            let mut appended = self.journal.append(Batch { records, seq });
            match appended.as_mut().now_or_never() {
                Some(Ok(())) if is_durable => self.core.set_durable(seq),
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    // Refused with everything else that was not kept.
                    self.waiting.push(What::Perform(std::mem::take(effects), seq), None);
                    return Err(error);
                }
                None => kept = Some(appended),
            }
        }
        if kept.is_none() && self.waiting.is_empty() {
            self.perform(effects);
        } else {
            self.waiting.push(What::Perform(std::mem::take(effects), seq), kept);
        }
        Ok(())
    }

    /// Lets a connection go once everything before is done.
    pub(crate) fn detach(&mut self, conn: ConnId) {
        if self.waiting.is_empty() {
            self.remove_connection(conn);
        } else {
            self.waiting.push(What::Detach(conn), None);
        }
    }

    /// Takes every step that need not wait any longer.
    pub(crate) fn step(&mut self) {
        while let Some(step) = self.waiting.steps.front()
            && step.kept.is_none()
        {
            match self.waiting.pop() {
                Some(What::Perform(mut effects, seq)) => {
                    self.core.set_durable(seq);
                    self.perform(&mut effects);
                }
                Some(What::Detach(conn)) => self.remove_connection(conn),
                None => {}
            }
        }
    }

    /// Nothing that waits was kept: whoever asked for it is told so, and nobody else ever hears of it.
    pub(crate) fn refuse_waiting(&mut self, error: &JournalError) {
        let message = match error {
            JournalError::Full(_) => format!("it could not be kept, so it did not happen: {error}"),
            // Part of it may have reached the disk, and be found there after a crash.
            JournalError::Failed(_) | JournalError::Damaged(_) => {
                format!("it could not be kept; look whether it happened before you try again: {error}")
            }
        };
        while let Some(what) = self.waiting.pop() {
            match what {
                What::Perform(effects, _) => {
                    for effect in effects {
                        self.refuse(effect, &message);
                    }
                }
                What::Detach(conn) => self.remove_connection(conn),
            }
        }
    }

    fn refuse(&mut self, effect: Effect, message: &str) {
        match effect {
            Effect::Publish {
                frame,
                author: Some(author),
                ..
            } => {
                // A number of its own: if the action is found after a crash, its author has not seen it.
                let seq = self.core.skip_number();
                self.push(author, Outgoing::Text(frame.rejected(seq, message)));
            }
            Effect::Send { to, message: outgoing } => {
                if let Some(id) = outgoing.answered_request() {
                    let error = RpcError::new(code::INTERNAL_ERROR, message);
                    self.push(to, Outgoing::Text(encode_error(Some(&id), &error)));
                }
            }
            Effect::McpToken {
                answer: Some((conn, id)),
                ..
            } => {
                self.look_ups.pop_front();
                let error = RpcError::new(code::INTERNAL_ERROR, message);
                self.push(conn, Outgoing::Text(encode_error(Some(&id), &error)));
            }
            Effect::LookUp { .. }
            | Effect::List { .. }
            | Effect::Import { .. }
            | Effect::ListDeleted { .. }
            | Effect::UndoDeletion { .. }
            | Effect::Resource { .. }
            | Effect::McpResource { .. }
            | Effect::AskMcpServer { .. }
            | Effect::OpenWatch { .. } => {
                self.look_ups.pop_front();
            }
            _ => {}
        }
    }

    /// Whether anything can be kept at the moment; a host without a journal never keeps anything.
    pub(crate) fn is_writable(&self) -> bool {
        self.journal.keeps() && self.read_only.is_none()
    }

    /// What a journal keeps of effects, which then do the rest.
    fn take_records(&self, effects: &mut Vec<Effect>) -> Vec<Record> {
        if !self.journal.keeps() {
            return Vec::new();
        }
        let mut records = Vec::new();
        effects.retain_mut(|effect| match effect {
            Effect::Publish { frame, .. } if frame.durability == Durability::Fleeting => true,
            Effect::Publish { uri, frame, .. } => {
                records.push(Record::Action(ActionRecord {
                    channel: Arc::clone(uri),
                    frame: Arc::clone(frame),
                }));
                true
            }
            Effect::Keep(record) => {
                records.push((**record).clone());
                false
            }
            _ => true,
        });
        records
    }
}

//! The queue of batches. The host appends batches, and the writer takes them in groups.

use std::collections::VecDeque;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use innkeeper_core::records::{Batch, ImportedSession, Record};
use innkeeper_host::journal::{Appended, JournalError, Lease, RESERVED};
use innkeeper_std::sync::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;

/// Maximum size of a group, which bounds the latency of its batches.
const MAX_GROUP_BYTES: usize = 4 << 20;
const MAX_GROUP_BATCHES: usize = 4096;

/// Assumed size of a document that is not encoded yet.
const ESTIMATED_DOCUMENT_BYTES: usize = 4096;

type Reply<T> = oneshot::Sender<Result<T, JournalError>>;

/// A command that the writer runs between groups.
#[derive(Debug)]
pub(crate) enum WriterCommand {
    Open(Reply<Lease>),
    Flush(Reply<()>),
    Revive(Reply<()>),
    /// Imports an exported session.
    Import(String, Reply<ImportedSession>),
    /// Restores a deleted session.
    UndoDeletion(String, Reply<ImportedSession>),
    /// Permanently removes the sessions that were deleted before this time, and returns their URIs.
    PurgeDeleted(i64, Reply<Vec<String>>),
    /// Resolves when there is nothing left to compact.
    Settle(Reply<()>),
}

/// A batch in the queue.
#[derive(Debug)]
pub(crate) struct QueuedBatch {
    pub(crate) batch: Batch,
    bytes: usize,
    is_durable: bool,
    since: Instant,
    reply: Option<Reply<()>>,
}

/// Next work of the writer.
#[derive(Debug)]
pub(crate) enum Work {
    Group(Group),
    Command(WriterCommand),
    /// The deadline passed.
    Nothing,
    /// The journal was dropped and the queue is empty.
    Close,
}

/// Batches that are written in one transaction.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) batches: Vec<Batch>,
    pub(crate) bytes: usize,
    /// Whether a caller waits until the group is durable.
    pub(crate) is_durable: bool,
    replies: Vec<Reply<()>>,
}

#[derive(Debug)]
enum Item {
    Batch(QueuedBatch),
    Command(WriterCommand),
}

#[derive(Debug, Default)]
struct State {
    items: VecDeque<Item>,
    /// Total size of all uncommitted batches.
    bytes: usize,
    /// Number of queued items that must not wait for more batches.
    urgent: usize,
    /// Number of batches ever appended, and of those committed or lost.
    appended: u64,
    decided: u64,
    /// Readers that wait until this many batches are committed or lost.
    readers: Vec<(u64, oneshot::Sender<()>)>,
    /// When the oldest batch arrived that a power cut would lose.
    unsynced_since: Option<Instant>,
    /// Why nothing can be written.
    failure: Option<JournalError>,
    /// Highest durably reserved sequence number.
    reserved: u64,
    is_closed: bool,
    /// The writer thread.
    writer: Option<ThreadId>,
}

/// The queue between the host and the writer.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// Signals new work to the writer.
    work_available: Condvar,
    /// Signals committed or lost batches.
    decided: Condvar,
    capacity: usize,
    gather: Duration,
    gather_bytes: usize,
}

impl Queue {
    pub(crate) fn new(options: &crate::Options) -> Self {
        let state = State {
            failure: Some(JournalError::Failed("the journal has not been opened".into())),
            ..State::default()
        };
        Self {
            state: Mutex::new(state),
            work_available: Condvar::default(),
            decided: Condvar::default(),
            capacity: options.queue_bytes,
            gather: options.gather,
            gather_bytes: options.gather_bytes,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock.
        self.state.lock()
    }

    /// Appends a batch. The returned future resolves when the batch is as durable as its records require.
    pub(crate) fn append(&self, batch: Batch) -> Appended {
        let bytes = batch.records.iter().map(weight).sum();
        let has_durable_records = batch.is_durable();
        let mut state = self.lock();
        if let Some(failure) = &state.failure {
            return Box::pin(std::future::ready(Err(failure.clone())));
        }
        // Sequence numbers beyond the reservation would be assigned again after a crash (P5).
        let is_durable = has_durable_records || batch.seq.0.saturating_add(RESERVED) > state.reserved;
        let is_full = state.bytes.saturating_add(bytes) > self.capacity;
        let (reply, answer) = if is_durable || is_full {
            let (reply, answer) = oneshot::channel();
            (Some(reply), Some(answer))
        } else {
            (None, None)
        };
        state.bytes = state.bytes.saturating_add(bytes);
        state.appended += 1;
        state.urgent += usize::from(is_durable);
        let was_gathering = !state.items.is_empty() && state.urgent == 0 && state.bytes < self.gather_bytes;
        let now = Instant::now();
        state.unsynced_since.get_or_insert(now);
        state.items.push_back(Item::Batch(QueuedBatch {
            batch,
            bytes,
            is_durable,
            since: now,
            reply,
        }));
        drop(state);
        if !was_gathering {
            self.work_available.notify_one();
        }
        match answer {
            Some(answer) => Box::pin(async { answer.await.unwrap_or_else(|_| Err(writer_gone())) }),
            None => Box::pin(std::future::ready(Ok(()))),
        }
    }

    /// Queues a command after everything that waits.
    pub(crate) fn command(&self, command: WriterCommand) {
        let mut state = self.lock();
        if !state.is_closed {
            state.urgent += 1;
            state.items.push_back(Item::Command(command));
        }
        drop(state);
        self.work_available.notify_one();
    }

    /// Resolves when everything appended before is committed or lost.
    pub(crate) fn caught_up(&self) -> Option<oneshot::Receiver<()>> {
        let mut state = self.lock();
        if state.decided == state.appended || state.is_closed {
            return None;
        }
        let (reply, answer) = oneshot::channel();
        let until = state.appended;
        state.readers.push((until, reply));
        state.urgent += 1;
        drop(state);
        self.work_available.notify_one();
        Some(answer)
    }

    /// Blocking variant. The writer thread returns at once: it would wait for itself when encoding a document reads
    /// turns.
    pub(crate) fn wait_until_caught_up(&self) {
        let mut state = self.lock();
        if state.writer == Some(std::thread::current().id()) {
            return;
        }
        let until = state.appended;
        if state.decided < until && !state.is_closed {
            state.urgent += 1;
            self.work_available.notify_one();
        }
        while state.decided < until && !state.is_closed {
            state = self.decided.wait(state);
        }
    }

    /// Waits for work until the deadline.
    pub(crate) fn take(&self, deadline: Option<Instant>) -> Work {
        let mut state = self.lock();
        state.writer.get_or_insert_with(|| std::thread::current().id());
        loop {
            let now = Instant::now();
            let wake = match state.items.front() {
                Some(Item::Command(_)) => return state.take_command(),
                Some(Item::Batch(oldest)) => {
                    let until = oldest.since + self.gather;
                    if state.urgent > 0 || state.bytes >= self.gather_bytes || until <= now || state.is_closed {
                        return Work::Group(state.take_group());
                    }
                    Some(until)
                }
                None if state.is_closed => return Work::Close,
                None => {
                    // Nothing is queued, so nothing is urgent.
                    state.urgent = 0;
                    None
                }
            };
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Work::Nothing;
            }
            state = match [wake, deadline].into_iter().flatten().min() {
                Some(until) => self
                    .work_available
                    .wait_timeout(state, until.saturating_duration_since(now)),
                None => self.work_available.wait(state),
            };
        }
    }

    /// Records a committed group, which is synced if it is durable.
    pub(crate) fn committed(&self, group: Group, reserved: u64) {
        let mut state = self.lock();
        state.reserved = state.reserved.max(reserved);
        state.decide(group.batches.len() as u64, group.bytes);
        if group.is_durable {
            state.mark_taken_synced();
        }
        drop(state);
        self.decided.notify_all();
        for reply in group.replies {
            // The caller may have stopped waiting.
            let _ = reply.send(Ok(()));
        }
    }

    /// Records that everything taken so far is durable.
    pub(crate) fn synced(&self) {
        self.lock().mark_taken_synced();
    }

    /// Returns the queued bytes and the age of the oldest batch that is not durable.
    pub(crate) fn backlog(&self) -> (usize, Duration) {
        let state = self.lock();
        let age = state.unsynced_since.map(|since| since.elapsed()).unwrap_or_default();
        (state.bytes, age)
    }

    /// Fails this group, everything that is queued, and everything that is appended until the failure is over.
    pub(crate) fn failed(&self, group: Option<Group>, failure: &JournalError) {
        let mut lost = Vec::new();
        let mut state = self.lock();
        state.failure = Some(failure.clone());
        if let Some(group) = group {
            state.decide(group.batches.len() as u64, group.bytes);
            lost.extend(group.replies);
        }
        let items = std::mem::take(&mut state.items);
        let mut batches = 0;
        for item in items {
            match item {
                Item::Batch(waiting) => {
                    batches += 1;
                    lost.extend(waiting.reply);
                }
                Item::Command(_) => state.items.push_back(item),
            }
        }
        let bytes = state.bytes;
        state.decide(batches, bytes);
        state.unsynced_since = None;
        drop(state);
        self.decided.notify_all();
        // Latest first: a caller that learns of a loss finds all later batches lost as well.
        for reply in lost.into_iter().rev() {
            let _ = reply.send(Err(failure.clone()));
        }
    }

    /// Accepts batches (again).
    pub(crate) fn opened(&self, reserved: u64) {
        let mut state = self.lock();
        state.failure = None;
        state.reserved = state.reserved.max(reserved);
    }

    /// Closes the queue. The writer ends after the queued items.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        drop(state);
        self.work_available.notify_all();
        self.decided.notify_all();
    }
}

impl State {
    fn mark_taken_synced(&mut self) {
        self.unsynced_since = self.items.iter().find_map(|item| match item {
            Item::Batch(waiting) => Some(waiting.since),
            Item::Command(_) => None,
        });
    }

    fn take_command(&mut self) -> Work {
        match self.items.pop_front() {
            Some(Item::Command(command)) => {
                self.urgent = self.urgent.saturating_sub(1);
                Work::Command(command)
            }
            Some(Item::Batch(_)) | None => Work::Nothing,
        }
    }

    /// Takes batches until the next command or the size limit.
    fn take_group(&mut self) -> Group {
        let mut group = Group::default();
        while group.bytes < MAX_GROUP_BYTES && group.batches.len() < MAX_GROUP_BATCHES {
            match self.items.pop_front() {
                Some(Item::Batch(waiting)) => {
                    self.urgent = self.urgent.saturating_sub(usize::from(waiting.is_durable));
                    group.bytes += waiting.bytes;
                    group.is_durable |= waiting.is_durable;
                    group.replies.extend(waiting.reply);
                    group.batches.push(waiting.batch);
                }
                Some(command @ Item::Command(_)) => {
                    self.items.push_front(command);
                    break;
                }
                None => break,
            }
        }
        group
    }

    fn decide(&mut self, batches: u64, bytes: usize) {
        self.decided += batches;
        self.bytes = self.bytes.saturating_sub(bytes);
        let decided = self.decided;
        for (until, reply) in std::mem::take(&mut self.readers) {
            if until <= decided {
                let _ = reply.send(());
            } else {
                self.readers.push((until, reply));
            }
        }
    }
}

/// The writer thread has ended, which only a bug can cause.
pub(crate) fn writer_gone() -> JournalError {
    JournalError::Failed("the writer thread has ended".into())
}

/// Size of a record for the queue limit.
fn weight(record: &Record) -> usize {
    match record {
        Record::Action(action) => action.frame.bytes.len(),
        Record::Turns { turns, .. } => turns.len().saturating_mul(ESTIMATED_DOCUMENT_BYTES),
        Record::Session(_) | Record::Summary(_) | Record::Chat(_) | Record::Client { .. } | Record::Root { .. } => {
            ESTIMATED_DOCUMENT_BYTES
        }
        Record::SessionRemoved { .. }
        | Record::SessionDeleted { .. }
        | Record::ChatRemoved { .. }
        | Record::CopyTurns { .. }
        | Record::ClientForgotten { .. } => 64,
    }
}

//! What waits to be written. The host puts batches in, the writer takes them out in groups.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use innkeeper_core::stored::{Batch, ImportedSession, Record};
use innkeeper_host::{Appended, JournalError, Lease, RESERVED};
use tokio::sync::oneshot;

/// What a group may hold, so that nobody in it waits for long.
const MAX_GROUP_BYTES: usize = 4 << 20;
const MAX_GROUP_BATCHES: usize = 4096;

/// What a document counts for before it is encoded.
const ESTIMATED_DOCUMENT_BYTES: usize = 4096;

type Reply<T> = oneshot::Sender<Result<T, JournalError>>;

/// Something the writer does between groups.
#[derive(Debug)]
pub(crate) enum WriterCommand {
    Open(Reply<Lease>),
    Flush(Reply<()>),
    Revive(Reply<()>),
    /// Takes in a session that was exported.
    Import(String, Reply<ImportedSession>),
    /// Undoes the deletion of a session.
    UndoDeletion(String, Reply<ImportedSession>),
    /// Removes the sessions for good that were deleted before a moment, and names them.
    PurgeDeleted(i64, Reply<Vec<String>>),
    /// Resolves when nothing is left to compact.
    Settle(Reply<()>),
}

/// A batch that waits.
#[derive(Debug)]
pub(crate) struct QueuedBatch {
    pub(crate) batch: Batch,
    bytes: usize,
    is_durable: bool,
    since: Instant,
    reply: Option<Reply<()>>,
}

/// What the writer is to do next.
#[derive(Debug)]
pub(crate) enum Work {
    Group(Group),
    Command(WriterCommand),
    /// Nothing came before the deadline.
    Nothing,
    /// The journal was dropped, and everything that waited was taken.
    Close,
}

/// Batches that are written in one transaction.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) batches: Vec<Batch>,
    pub(crate) bytes: usize,
    /// Whether somebody waits until it survives a power cut.
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
    /// The weight of all batches that are not committed yet.
    bytes: usize,
    /// How many of the waiting items must not be held back to gather more.
    urgent: usize,
    /// Batches that were ever put in, and of those, the ones that are decided.
    appended: u64,
    decided: u64,
    /// Readers that wait until so many are decided.
    readers: Vec<(u64, oneshot::Sender<()>)>,
    /// When the oldest batch came that a power cut would still undo.
    unsynced_since: Option<Instant>,
    /// Why nothing can be written.
    failure: Option<JournalError>,
    /// The highest number that is reserved durably.
    reserved: u64,
    is_closed: bool,
    /// The thread that takes what waits.
    writer: Option<ThreadId>,
}

/// The queue between the host and the writer.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// Something came for the writer.
    work_available: Condvar,
    /// The writer decided something.
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
            work_available: Condvar::new(),
            decided: Condvar::new(),
            capacity: options.queue_bytes,
            gather: options.gather,
            gather_bytes: options.gather_bytes,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that holds the lock can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a batch in. What is returned resolves when the batch is as safe as it has to be.
    pub(crate) fn append(&self, batch: Batch) -> Appended {
        let bytes = batch.records.iter().map(weight).sum();
        let has_durable_records = batch.is_durable();
        let mut state = self.lock();
        if let Some(failure) = &state.failure {
            return Box::pin(std::future::ready(Err(failure.clone())));
        }
        // Numbers that nobody reserved would be given out again after a crash (P5).
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

    /// Gives the writer an order, after everything that waits.
    pub(crate) fn command(&self, command: WriterCommand) {
        let mut state = self.lock();
        if !state.is_closed {
            state.urgent += 1;
            state.items.push_back(Item::Command(command));
        }
        drop(state);
        self.work_available.notify_one();
    }

    /// Resolves when everything that was appended before is committed, or lost.
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

    /// The same for a thread that may block. The writer's own does not: it would wait for itself, if
    /// a document that it encodes reads turns.
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
            state = self.decided.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for something to do, at most until a moment.
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
                    // Nobody waits for anything that has not been taken.
                    state.urgent = 0;
                    None
                }
            };
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Work::Nothing;
            }
            state = match [wake, deadline].into_iter().flatten().min() {
                Some(until) => {
                    let (state, _) = self
                        .work_available
                        .wait_timeout(state, until.saturating_duration_since(now))
                        .unwrap_or_else(PoisonError::into_inner);
                    state
                }
                None => self.work_available.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// A group is committed, and synced if that was asked for.
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
            // Whoever does not wait any more does not need to know.
            let _ = reply.send(Ok(()));
        }
    }

    /// Everything that was taken so far would survive a power cut.
    pub(crate) fn synced(&self) {
        self.lock().mark_taken_synced();
    }

    /// How many bytes wait, and for how long the oldest batch has been waiting to survive a power cut.
    pub(crate) fn backlog(&self) -> (usize, Duration) {
        let state = self.lock();
        let age = state.unsynced_since.map(|since| since.elapsed()).unwrap_or_default();
        (state.bytes, age)
    }

    /// Nothing can be written: this group and everything that waits is lost, and so is everything
    /// that comes, until the failure is over.
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
        // The latest first: whoever hears of a loss finds everything after it lost as well.
        for reply in lost.into_iter().rev() {
            let _ = reply.send(Err(failure.clone()));
        }
    }

    /// Batches are taken (again).
    pub(crate) fn opened(&self, reserved: u64) {
        let mut state = self.lock();
        state.failure = None;
        state.reserved = state.reserved.max(reserved);
    }

    /// The journal is dropped: the writer ends after what waits.
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

    /// Takes batches until the next order, or until there are enough for one transaction.
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

/// The writer is not there any more, which only a bug can cause.
pub(crate) fn writer_gone() -> JournalError {
    JournalError::Failed("the thread that writes sessions has ended".into())
}

/// What a record counts for in the bounded queue.
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

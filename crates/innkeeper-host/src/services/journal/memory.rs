//! A journal in the memory of the process.

use std::future::ready;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use innkeeper_core::Seq;
use innkeeper_core::records::{
    Batch, DeletedSession, ImportedSession, ListPage, StoredSession, StoredSummary, TurnSource,
};
use innkeeper_std::sync::{Mutex, MutexGuard};

use self::contents::Contents;
use super::{Appended, Journal, JournalError, Lease, RESERVED};

mod contents;
mod log;

/// How many numbers are reserved at a time.
const BLOCK: u64 = 2 * RESERVED;

/// Keeps sessions in the memory of the process, for tests and for hosts whose sessions need not
/// outlive it.
///
/// It is a handle: its clones share the sessions, so a host that is started with a clone finds the sessions of the one
/// before. Documents are encoded by the caller that appends them.
///
/// Tests can break it. [`Self::fail_with`] makes it fail like a disk that is full, and
/// [`Self::crash`] tells what a power cut would have left of a [`Self::mortal`] one.
#[derive(Debug, Clone)]
pub struct MemoryJournal(Arc<Mutex<State>>);

/// The part of the non-durable batches that a crash leaves of a [`MemoryJournal`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashSurvivors {
    /// Everything, as when only the process dies.
    Everything,
    /// Only what had to be durable, and what came before it.
    Durable,
    /// All durable batches, and so many of the batches after them.
    Batches(usize),
}

#[derive(Debug)]
struct State {
    /// The first number that a later life may use is the one after this.
    reserved: Seq,
    kept: Contents,
    /// The batches that a power cut may lose, if this is tracked.
    tail: Option<Tail>,
    /// The time, where it is not the wall clock's.
    now_ms: Option<i64>,
    /// The error that every write fails with.
    trouble: Option<JournalError>,
    /// The failure that makes every batch fail until the journal is revived.
    failure: Option<JournalError>,
}

/// The batches that a power cut may take.
#[derive(Debug, Clone, Default)]
struct Tail {
    synced: Contents,
    batches: Vec<(Batch, i64)>,
}

impl MemoryJournal {
    /// An empty journal. Like those of a host that keeps nothing, its sequence numbers continue
    /// from the wall clock, ahead of any earlier process.
    #[must_use]
    pub fn new() -> Self {
        let micros = u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or_default();
        Self::after(Seq(micros), None)
    }

    /// An empty journal that can [crash](Self::crash), whose numbers start after `seq`. It
    /// remembers everything twice.
    #[must_use]
    pub fn mortal(seq: Seq) -> Self {
        Self::after(seq, Some(Tail::default()))
    }

    fn after(seq: Seq, tail: Option<Tail>) -> Self {
        Self(Arc::new(Mutex::new(State {
            reserved: seq,
            kept: Contents::default(),
            tail,
            now_ms: None,
            trouble: None,
            failure: None,
        })))
    }

    /// Returns the journal that a power cut now would leave. This one stays as it is.
    ///
    /// A durable batch is never lost, nor what was appended before it. Without
    /// [`Self::mortal`] nothing is lost at all.
    #[must_use]
    pub fn crash(&self, keep: CrashSurvivors) -> Self {
        let state = self.state();
        let left = match (&state.tail, keep) {
            (None, _) | (_, CrashSurvivors::Everything) => state.kept.clone(),
            (Some(tail), CrashSurvivors::Durable) => tail.first(0),
            (Some(tail), CrashSurvivors::Batches(count)) => tail.first(count),
        };
        let tail = state.tail.as_ref().map(|_| Tail {
            synced: left.clone(),
            batches: Vec::new(),
        });
        Self(Arc::new(Mutex::new(State {
            reserved: state.reserved,
            kept: left,
            tail,
            now_ms: state.now_ms,
            trouble: None,
            failure: None,
        })))
    }

    /// How many batches a crash may take at this moment.
    pub fn unsynced(&self) -> usize {
        self.state().tail.as_ref().map_or(0, |tail| tail.batches.len())
    }

    /// Sets the time, in milliseconds since 1970, at which everything is accepted from now on; the
    /// wall clock's otherwise.
    pub fn set_time(&self, now_ms: i64) {
        self.state().now_ms = Some(now_ms);
    }

    /// Makes every write fail from now on. The first one that does takes what was not yet durable
    /// with it, where [`Self::crash`] would.
    pub fn fail_with(&self, error: JournalError) {
        self.state().trouble = Some(error);
    }

    /// Ends what [`Self::fail_with`] began: the journal can be revived.
    pub fn recover(&self) {
        self.state().trouble = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl Default for MemoryJournal {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    fn append(&mut self, batch: Batch) -> Result<(), JournalError> {
        self.writable()?;
        let at_ms = self.now_ms.unwrap_or_else(|| jiff::Timestamp::now().as_millisecond());
        self.kept.apply(&batch, at_ms);
        // Half a block ahead: the host may use that many numbers before it is heard of again.
        let reserves = batch.seq.0 + RESERVED > self.reserved.0;
        if reserves {
            self.reserved = Seq(batch.seq.0 + BLOCK);
        }
        if let Some(tail) = &mut self.tail {
            let is_durable = reserves || batch.is_durable();
            tail.batches.push((batch, at_ms));
            if is_durable {
                tail.sync();
            }
        }
        Ok(())
    }

    fn writable(&mut self) -> Result<(), JournalError> {
        if self.failure.is_none()
            && let Some(trouble) = &self.trouble
        {
            self.failure = Some(trouble.clone());
            if let Some(tail) = &mut self.tail {
                tail.batches.clear();
                self.kept = tail.synced.clone();
            }
        }
        self.failure.clone().map_or(Ok(()), Err)
    }
}

impl Tail {
    fn first(&self, count: usize) -> Contents {
        let mut contents = self.synced.clone();
        for (batch, at_ms) in self.batches.iter().take(count) {
            contents.apply(batch, *at_ms);
        }
        contents
    }

    fn sync(&mut self) {
        for (batch, at_ms) in self.batches.drain(..) {
            self.synced.apply(&batch, at_ms);
        }
    }
}

#[async_trait]
impl Journal for MemoryJournal {
    async fn open(&self) -> Result<Lease, JournalError> {
        let mut state = self.state();
        let last_seq = state.reserved;
        if state.failure.is_none() && state.trouble.is_none() {
            state.reserved = Seq(last_seq.0 + BLOCK);
        }
        Ok(Lease {
            last_seq,
            persisted_seq: state.kept.seq,
            sessions: state.kept.len(),
            unsettled: state.kept.unsettled(),
            clients: state.kept.clients(),
            root: state.kept.root(),
        })
    }

    fn append(&self, batch: Batch) -> Appended {
        Box::pin(ready(self.state().append(batch)))
    }

    async fn revive(&self) -> Result<(), JournalError> {
        let mut state = self.state();
        match &state.trouble {
            Some(trouble) => Err(trouble.clone()),
            None => {
                state.failure = None;
                Ok(())
            }
        }
    }

    async fn flush(&self) -> Result<(), JournalError> {
        let mut state = self.state();
        state.writable()?;
        if let Some(tail) = &mut state.tail {
            tail.sync();
        }
        Ok(())
    }

    async fn load(&self, channel: &str) -> Result<Option<StoredSession>, JournalError> {
        Ok(self.state().kept.load(channel))
    }

    async fn list(&self, page: ListPage) -> Result<Vec<StoredSummary>, JournalError> {
        Ok(self.state().kept.list(&page))
    }

    async fn deleted(&self) -> Result<Vec<DeletedSession>, JournalError> {
        Ok(self.state().kept.deleted())
    }

    async fn undo_deletion(&self, uri: &str) -> Result<ImportedSession, JournalError> {
        let mut state = self.state();
        state.writable()?;
        if let Some(tail) = &mut state.tail {
            tail.sync();
            tail.synced.undo_deletion(uri)?;
        }
        state.kept.undo_deletion(uri)
    }

    async fn purge_deleted(&self, before_ms: i64) -> Result<Vec<String>, JournalError> {
        let mut state = self.state();
        state.writable()?;
        if let Some(tail) = &mut state.tail {
            tail.sync();
            tail.synced.purge_deleted(before_ms);
        }
        Ok(state.kept.purge_deleted(before_ms))
    }

    fn turns(&self) -> Option<Arc<dyn TurnSource>> {
        Some(Arc::new(self.clone()))
    }
}

impl TurnSource for MemoryJournal {
    fn read(&self, chat: &str, range: Range<usize>) -> Result<Vec<Bytes>, String> {
        self.state().kept.turns(chat, range)
    }

    fn position(&self, chat: &str, turn_id: &str) -> Result<Option<usize>, String> {
        Ok(self.state().kept.position(chat, turn_id))
    }
}

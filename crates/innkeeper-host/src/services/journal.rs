//! Where sessions are kept.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use innkeeper_core::Seq;
use innkeeper_core::records::{
    Batch, DeletedSession, ImportedSession, ListPage, StoredClient, StoredRoot, StoredSession, StoredSummary,
    TurnSource,
};

pub use innkeeper_core::records;

pub use self::memory::{CrashSurvivors, MemoryJournal};

pub(crate) mod effects;
mod memory;

/// The outcome of opening a journal.
#[derive(Debug, Default)]
pub struct Lease {
    /// The highest sequence number that an earlier generation of the host may have given out. The first action of this
    /// generation takes a higher one in any case (E-05).
    pub last_seq: Seq,
    /// The highest number up to which nothing is missing. A client that has seen more has seen
    /// what was lost, and gets snapshots.
    pub persisted_seq: Seq,
    /// How many sessions there are.
    pub sessions: usize,
    /// The sessions to look after: those that were not at rest, by URI.
    pub unsettled: Vec<String>,
    /// The clients to remember, latest last.
    pub clients: Vec<StoredClient>,
    /// The host itself, unless this is its first life.
    pub root: Option<StoredRoot>,
}

/// A journal could not keep its promise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// There is no room left.
    #[error("{0}")]
    Full(String),
    /// The storage failed.
    #[error("{0}")]
    Failed(String),
    /// The stored data cannot be read.
    #[error("{0}")]
    Damaged(String),
}

/// Resolves when a batch is as safe as it has to be.
pub type Appended = Pin<Box<dyn Future<Output = Result<(), JournalError>> + Send>>;

/// Keeps sessions.
///
/// The host publishes nothing that has to be durable before the journal says that it is, and acts
/// on nothing: what a client has been shown as accepted survives the host.
#[async_trait]
pub trait Journal: Send + Sync + 'static {
    /// Opens what there is and tells where the order continues. After a failure the host opens
    /// the journal again, for reading at least.
    async fn open(&self) -> Result<Lease, JournalError>;

    /// Whether the journal keeps anything; one that does not is never asked for anything else.
    fn keeps(&self) -> bool {
        true
    }

    /// Takes a batch, in the order of the calls. The returned future resolves when
    /// - every durable record of the batch would survive a power cut, or, if it has none,
    /// - there is room for more,
    ///
    /// and numbers beyond [`Batch::seq`] are reserved: also after a crash, a restarted host starts after
    /// every number that was given out until the next call. The host makes that call before it has
    /// given out [`RESERVED`] more.
    ///
    /// The first failure makes every later batch fail until [`Self::revive`] succeeds. A batch is
    /// kept as a whole or not at all.
    fn append(&self, batch: Batch) -> Appended;

    /// Whether the journal can write (again). After a failure, everything that was not confirmed is
    /// gone when this succeeds.
    async fn revive(&self) -> Result<(), JournalError>;

    /// Resolves when everything that was appended would survive a power cut.
    async fn flush(&self) -> Result<(), JournalError>;

    /// Finds a session by its own URI or that of one of its chats.
    async fn load(&self, channel: &str) -> Result<Option<StoredSession>, JournalError>;

    /// Lists sessions without reading any of them.
    async fn list(&self, page: ListPage) -> Result<Vec<StoredSummary>, JournalError>;

    /// Takes in a session that was exported: all of it, or nothing, and never in place of another.
    /// The numbers after [`ImportedSession::last_seq`] are reserved when this succeeds, like those
    /// after a batch.
    async fn import(&self, _export: String) -> Result<ImportedSession, JournalError> {
        Err(JournalError::Failed(
            "what keeps the sessions of this host takes none in".to_owned(),
        ))
    }

    /// The sessions whose deletion can be undone, the latest deletion first.
    async fn deleted(&self) -> Result<Vec<DeletedSession>, JournalError> {
        Ok(Vec::new())
    }

    /// Undoes the deletion of a session: all of it is there again, or nothing.
    async fn undo_deletion(&self, _uri: &str) -> Result<ImportedSession, JournalError> {
        Err(JournalError::Failed(
            "what keeps the sessions of this host restores none".to_owned(),
        ))
    }

    /// Removes the sessions for good that were deleted before a moment, in milliseconds since 1970, and names them.
    async fn purge_deleted(&self, _before_ms: i64) -> Result<Vec<String>, JournalError> {
        Ok(Vec::new())
    }

    /// Where turns are read.
    fn turns(&self) -> Option<Arc<dyn TurnSource>>;
}

/// How many numbers the host may give out after it told a journal of the last one.
pub const RESERVED: u64 = 1 << 15;

/// Keeps nothing: sessions live in memory and end with the process.
///
/// Sequence numbers still never go back. They continue from the wall clock in microseconds, which
/// is ahead of any earlier life that accepted fewer than a million actions per second, and stays
/// below 2^53 for two centuries.
#[derive(Debug, Default, Clone, Copy)]
pub struct VolatileJournal;

#[async_trait]
impl Journal for VolatileJournal {
    async fn open(&self) -> Result<Lease, JournalError> {
        let micros = u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or_default();
        Ok(Lease {
            last_seq: Seq(micros),
            ..Lease::default()
        })
    }

    fn keeps(&self) -> bool {
        false
    }

    fn append(&self, _: Batch) -> Appended {
        Box::pin(std::future::ready(Ok(())))
    }

    async fn revive(&self) -> Result<(), JournalError> {
        Ok(())
    }

    async fn flush(&self) -> Result<(), JournalError> {
        Ok(())
    }

    async fn load(&self, _: &str) -> Result<Option<StoredSession>, JournalError> {
        Ok(None)
    }

    async fn list(&self, _: ListPage) -> Result<Vec<StoredSummary>, JournalError> {
        Ok(Vec::new())
    }

    fn turns(&self) -> Option<Arc<dyn TurnSource>> {
        None
    }
}

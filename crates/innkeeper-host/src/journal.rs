//! Where accepted actions are kept.

use std::sync::Arc;

use async_trait::async_trait;
use innkeeper_core::{ActionFrame, Seq};

/// One accepted action, with the very bytes that subscribers get.
#[derive(Debug, Clone)]
pub struct JournalRecord {
    /// The channel's URI.
    pub channel: Arc<str>,
    /// The action.
    pub frame: Arc<ActionFrame>,
}

/// What opening a journal tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The highest sequence number that any earlier life of the host may have given out. The
    /// first action of this life takes a higher one, whatever happened before (E-05).
    pub last_seq: Seq,
}

/// A journal could not keep its promise.
#[derive(Debug, thiserror::Error)]
#[error("the journal failed: {0}")]
pub struct JournalError(pub String);

/// Keeps accepted actions, in order.
///
/// The host appends a batch before it publishes any of it, so what a client has seen is what the
/// journal has accepted.
#[async_trait]
pub trait Journal: Send + Sync + 'static {
    /// Takes ownership and tells where the order continues.
    async fn open(&self) -> Result<Lease, JournalError>;

    /// Whether the journal keeps anything; one that does not is never asked to append.
    fn wants_records(&self) -> bool {
        true
    }

    /// Keeps a batch. Resolves when every [`innkeeper_core::action::Durability::Durable`] record
    /// of it would survive a crash.
    async fn append(&self, batch: Vec<JournalRecord>) -> Result<(), JournalError>;

    /// Resolves when everything that was appended would survive a crash.
    async fn flush(&self) -> Result<(), JournalError>;
}

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
        Ok(Lease { last_seq: Seq(micros) })
    }

    fn wants_records(&self) -> bool {
        false
    }

    async fn append(&self, _: Vec<JournalRecord>) -> Result<(), JournalError> {
        Ok(())
    }

    async fn flush(&self) -> Result<(), JournalError> {
        Ok(())
    }
}

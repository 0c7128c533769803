//! Storage mode: whether a host has a store, and what it may do with it.

use std::sync::Arc;

use crate::ids::Seq;

/// Whether a host has a store, and what it may do with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum StorageMode {
    /// There is no store: everything ends with the process.
    #[default]
    Ephemeral,
    /// Sessions come back from the store, and every change is persisted.
    ReadWrite,
    /// Sessions come back from the store, but nothing can be written. Clients can read and change nothing (P14).
    ReadOnly {
        /// Why nothing can be written, for users.
        reason: Arc<str>,
        /// The last sequence number that may be given out, if the store cannot reserve more (P5).
        seq_limit: Option<Seq>,
    },
    /// Another process owns the store and continues to write to it. Running turns are not closed, and sessions in
    /// memory become stale quickly.
    Observer {
        /// Why nothing can be written, for users.
        reason: Arc<str>,
    },
}

impl StorageMode {
    /// Whether sessions can come back from a store.
    pub(crate) fn has_store(&self) -> bool {
        !matches!(self, Self::Ephemeral)
    }

    /// Whether changes are persisted.
    pub(crate) fn persists(&self) -> bool {
        matches!(self, Self::ReadWrite)
    }

    /// Whether clients may change nothing.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only_reason().is_some()
    }

    /// Why clients may change nothing, if so.
    pub(crate) fn read_only_reason(&self) -> Option<&str> {
        match self {
            Self::ReadOnly { reason, .. } | Self::Observer { reason } => Some(reason),
            Self::Ephemeral | Self::ReadWrite => None,
        }
    }

    /// Whether another process owns the store.
    pub(crate) fn is_observer(&self) -> bool {
        matches!(self, Self::Observer { .. })
    }

    /// Whether idle sessions may be evicted. A host that cannot write retains them: it has closed turns in memory
    /// that the store still shows as running.
    pub(crate) fn evicts(&self) -> bool {
        matches!(self, Self::ReadWrite | Self::Observer { .. })
    }

    /// The last sequence number that may be given out, if there is a limit.
    pub(crate) fn seq_limit(&self) -> Option<Seq> {
        match self {
            Self::ReadOnly { seq_limit, .. } => *seq_limit,
            Self::Ephemeral | Self::ReadWrite | Self::Observer { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p14_only_a_writable_store_persists_and_only_a_full_one_has_a_limit() {
        let reason: Arc<str> = "the disk is full".into();
        let seq_limit = Some(Seq(7));
        let read_only = StorageMode::ReadOnly {
            reason: Arc::clone(&reason),
            seq_limit,
        };
        let observer = StorageMode::Observer { reason };
        for (mode, has_store, persists, is_read_only, evicts) in [
            (&StorageMode::Ephemeral, false, false, false, false),
            (&StorageMode::ReadWrite, true, true, false, true),
            (&read_only, true, false, true, false),
            (&observer, true, false, true, true),
        ] {
            let facts = (mode.has_store(), mode.persists(), mode.is_read_only(), mode.evicts());
            assert_eq!(facts, (has_store, persists, is_read_only, evicts), "{mode:?}");
        }
        assert_eq!(read_only.seq_limit(), seq_limit);
        assert_eq!(observer.seq_limit(), None);
        assert_eq!(read_only.read_only_reason(), Some("the disk is full"));
    }
}

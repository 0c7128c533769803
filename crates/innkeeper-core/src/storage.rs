//! Storage: the records a journal persists, and how sessions leave memory and come back.

mod dirty;
pub(crate) mod evict;
mod import;
mod listing;
pub(crate) mod load;
pub(crate) mod mode;
pub(crate) mod open;
mod persist;
pub mod records;
mod recover;

use std::sync::Arc;

use dirty::DirtySet;
use listing::PendingLists;
use load::PendingLoads;
use mode::StorageMode;
use records::TurnSource;

/// Data to be persisted, and pending requests to the store.
#[derive(Debug, Default)]
pub(crate) struct Storage {
    mode: StorageMode,
    /// Source of turns that are not in memory.
    turns: Option<Arc<dyn TurnSource>>,
    /// Channels and clients to persist at the end of the present input.
    dirty: DirtySet,
    /// Sessions and turns that are being read.
    loads: PendingLoads,
    /// Lists of sessions that are being read.
    lists: PendingLists,
    /// The URIs of the session that is being taken into memory and of its chats.
    installing: Vec<Arc<str>>,
    /// Whether a timer for idle sessions is set.
    is_eviction_scheduled: bool,
}

impl Storage {
    /// The storage mode.
    pub(crate) fn mode(&self) -> &StorageMode {
        &self.mode
    }

    /// Source of turns that are not in memory.
    pub(crate) fn turns(&self) -> Option<&Arc<dyn TurnSource>> {
        self.turns.as_ref()
    }

    /// The URIs of what is being taken into memory.
    pub(crate) fn installing(&self) -> impl Iterator<Item = Arc<str>> + '_ {
        self.installing.iter().cloned()
    }

    /// Notes that a session was removed: a list that is being read may still have it.
    pub(crate) fn note_removed(&mut self, uri: &str) {
        self.lists.removed(uri);
    }
}

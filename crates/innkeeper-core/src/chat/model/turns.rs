//! The completed turns of a chat: an index of all, the ones in memory, and the changes that a store has to write.

use std::ops::Range;
use std::sync::Arc;

use ahp_types::state::{ChatState, ResponsePart, Turn};

use super::ChatModel;
use crate::chat::history::History;
use crate::storage::records::{StoredTurn, TurnSource};

/// Completed turns that changed since the last call.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The first position that changed.
    pub(super) from: Option<usize>,
    /// Turns of another chat that this one starts with.
    pub(super) copied: Option<(Arc<str>, usize)>,
}

impl Changes {
    pub(super) fn since(&mut self, position: usize) {
        self.from = Some(self.from.map_or(position, |from| from.min(position)));
    }
}

/// Changes to the stored turns that make them equal to the chat's.
#[derive(Debug, Clone)]
pub struct TurnChanges {
    /// First copies so many of the oldest turns of another chat, by its URI; there are none yet.
    pub copied: Option<(Arc<str>, usize)>,
    /// Number of stored turns that stay.
    pub from: usize,
    /// The turns that follow them.
    pub turns: Vec<Arc<Turn>>,
}

impl ChatModel {
    /// A restored chat: its head, the ids and sizes of its completed turns, the latest turns, and the source of the
    /// others.
    pub fn restore(
        head: ChatState,
        turns: Vec<StoredTurn>,
        recent: Vec<Arc<Turn>>,
        source: Arc<dyn TurnSource>,
    ) -> Self {
        let history = History::restored(&head.resource, turns, recent, source);
        Self::with_history(head, history, Changes::default())
    }

    /// A chat with the oldest turns of another one, the last of which has to be in memory (CHT-05).
    pub fn forked(state: ChatState, source: &Self, count: usize) -> Self {
        let count = count.min(source.turn_count());
        let mut history = source.history.forked(&state.resource, count);
        let mut changes = Changes {
            from: Some(count),
            copied: (count > 0).then(|| (source.head.resource.as_str().into(), count)),
        };
        // Interrupted turns stay interrupted in the source chat; only their agent can resume them.
        if history.last().is_some_and(|turn| is_resumable(turn))
            && let Some(mut last) = history.pop()
        {
            if let Some(ResponsePart::Error(error)) = Arc::make_mut(&mut last).response_parts.last_mut() {
                error.resumable = None;
            }
            history.push(last);
            changes.since(count - 1);
        }
        Self::with_history(state, history, changes)
    }

    /// The completed turns.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Number of completed turns.
    pub fn turn_count(&self) -> usize {
        self.history.len()
    }

    /// The id of a completed turn, wherever it is.
    pub fn turn_id(&self, index: usize) -> Option<&Arc<str>> {
        self.history.id(index)
    }

    /// Position of a completed turn.
    pub fn position(&self, id: &str) -> Option<usize> {
        self.history.position(id)
    }

    /// The last completed turn, which is in memory while no turn runs.
    pub fn last_turn(&self) -> Option<&Arc<Turn>> {
        self.history.last()
    }

    /// A completed turn, if it is in memory.
    pub fn loaded(&self, index: usize) -> Option<&Arc<Turn>> {
        self.history.get(index)
    }

    /// The smallest range that has to be read before all of `range` is in memory.
    pub fn missing(&self, range: Range<usize>) -> Option<Range<usize>> {
        self.history.missing(range)
    }

    /// Takes turns into memory that were read.
    pub fn load(&mut self, first: usize, turns: Vec<Arc<Turn>>) {
        if self.missing(first..first.saturating_add(turns.len())).is_some() {
            Arc::make_mut(&mut self.history).load(first, turns);
        }
    }

    /// Sets the source of turns that leave memory. A chat that was created in this run of the host needs it once.
    pub fn read_turns_from(&mut self, source: Arc<dyn TurnSource>) {
        Arc::make_mut(&mut self.history).read_from(source);
    }

    /// Drops turns from memory that are stored, which are those below `stored`, but for the latest.
    pub fn forget_turns(&mut self, stored: usize, keep_turns: usize, keep_bytes: usize) {
        let stored = stored.min(self.changes.from.unwrap_or(stored));
        if let Some(first_kept) = self.history.forgettable(stored, keep_turns, keep_bytes) {
            Arc::make_mut(&mut self.history).forget_before(first_kept);
        }
    }

    /// Changes to the completed turns since the last call.
    pub fn turn_changes(&mut self) -> Option<TurnChanges> {
        let changes = std::mem::take(&mut self.changes);
        let from = changes.from?;
        // A changed turn has not been stored yet, so it never left memory.
        let turns = (from..self.turn_count()).filter_map(|index| self.history.get(index).cloned());
        Some(TurnChanges {
            copied: changes.copied,
            from,
            turns: turns.collect(),
        })
    }
}

fn is_resumable(turn: &Turn) -> bool {
    matches!(turn.response_parts.last(), Some(ResponsePart::Error(error)) if error.resumable.is_some())
}

//! The completed turns of a chat, and which of them are in memory.
//!
//! The id and size of every turn are in memory; the turns themselves may be left to the store, and the writer of a
//! snapshot reads them there. So the memory of a chat is bounded by the turns that its readers use, not by its history.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use ahp_types::state::Turn;
use bytes::Bytes;
use serde::ser::{Error, SerializeSeq};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::protocol::dialect::Version;
use crate::storage::records::{StoredTurn, TurnSource};

/// Maximum bytes of turns that are read at once for a snapshot, unless a single one is larger.
const READ_BYTES: usize = 1 << 20;

/// The completed turns of a chat, oldest first. Shared with snapshots in flight.
///
/// While no turn runs, the last one is in memory: it can be resumed, and that must not wait for a
/// disk.
#[derive(Debug, Clone)]
pub struct History {
    chat: Arc<str>,
    entries: Vec<TurnEntry>,
    /// Bytes of all entries.
    bytes: usize,
    /// The turns that are in memory, by position.
    loaded: BTreeMap<usize, Arc<Turn>>,
    /// Source of the others.
    source: Option<Arc<dyn TurnSource>>,
}

/// Index entry of a turn.
#[derive(Debug, Clone)]
struct TurnEntry {
    id: Arc<str>,
    bytes: usize,
}

impl History {
    /// The history of a chat that is all in memory.
    pub(crate) fn new(chat: &str, turns: Vec<Turn>) -> Self {
        let mut history = Self {
            chat: chat.into(),
            entries: Vec::with_capacity(turns.len()),
            bytes: 0,
            loaded: BTreeMap::new(),
            source: None,
        };
        for turn in turns {
            history.push(Arc::new(turn));
        }
        history
    }

    /// The history of a restored chat: all of its turns, and the latest of them in memory.
    pub(crate) fn restored(
        chat: &str,
        turns: Vec<StoredTurn>,
        recent: Vec<Arc<Turn>>,
        source: Arc<dyn TurnSource>,
    ) -> Self {
        let entries: Vec<TurnEntry> = turns.into_iter().map(TurnEntry::from).collect();
        let first = entries.len().saturating_sub(recent.len());
        let mut history = Self {
            chat: chat.into(),
            bytes: entries.iter().map(|entry| entry.bytes).sum(),
            entries,
            loaded: BTreeMap::new(),
            source: Some(source),
        };
        history.load(first, recent);
        history
    }

    /// The oldest turns, as the history of another chat. Turns that are not in memory are read from the other chat's
    /// rows, so the store has to copy them first.
    pub(crate) fn forked(&self, chat: &str, count: usize) -> Self {
        let entries = self.entries.get(..count).unwrap_or(&self.entries).to_vec();
        Self {
            chat: chat.into(),
            bytes: entries.iter().map(|entry| entry.bytes).sum(),
            loaded: self
                .loaded
                .range(..count)
                .map(|(at, turn)| (*at, Arc::clone(turn)))
                .collect(),
            entries,
            source: self.source.clone(),
        }
    }

    /// Number of turns.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The id of a turn, wherever it is.
    pub fn id(&self, index: usize) -> Option<&Arc<str>> {
        self.entries.get(index).map(|entry| &entry.id)
    }

    /// Bytes of a turn as JSON, in memory or not.
    pub fn bytes_of(&self, index: usize) -> usize {
        self.entries.get(index).map_or(0, |entry| entry.bytes)
    }

    /// Bytes of the turns from a position on, as JSON.
    pub fn bytes_from(&self, index: usize) -> usize {
        match index {
            0 => self.bytes,
            _ => self.entries.iter().skip(index).map(|entry| entry.bytes).sum(),
        }
    }

    /// Position of a turn.
    pub fn position(&self, id: &str) -> Option<usize> {
        self.entries.iter().rposition(|entry| *entry.id == *id)
    }

    /// A turn, if it is in memory.
    pub fn get(&self, index: usize) -> Option<&Arc<Turn>> {
        self.loaded.get(&index)
    }

    /// The last turn. While a resumed turn runs, the one before it may not be in memory.
    pub fn last(&self) -> Option<&Arc<Turn>> {
        self.loaded.get(&self.entries.len().checked_sub(1)?)
    }

    /// The turns that are in memory.
    pub fn in_memory(&self) -> impl Iterator<Item = &Arc<Turn>> {
        self.loaded.values()
    }

    /// The first position from which on everything is in memory.
    pub fn resident_from(&self) -> usize {
        let mut first = self.entries.len();
        for at in self.loaded.keys().rev() {
            if *at + 1 != first {
                break;
            }
            first = *at;
        }
        first
    }

    /// The smallest range that has to be read before all of `range` is in memory.
    pub fn missing(&self, range: Range<usize>) -> Option<Range<usize>> {
        let mut absent = (range.start..range.end.min(self.entries.len())).filter(|at| !self.loaded.contains_key(at));
        let first = absent.next()?;
        Some(first..absent.next_back().unwrap_or(first) + 1)
    }

    /// The first position from which on the turns before `end` fit into a size and a number, one turn
    /// at least.
    pub(crate) fn fitting(&self, end: usize, max_turns: usize, max_bytes: usize) -> usize {
        let mut start = end.min(self.entries.len());
        let mut bytes = 0;
        for entry in self.entries.iter().take(start).rev().take(max_turns.max(1)) {
            bytes += entry.bytes;
            if bytes > max_bytes && start < end {
                break;
            }
            start -= 1;
        }
        start
    }

    pub(crate) fn read_from(&mut self, source: Arc<dyn TurnSource>) {
        self.source = Some(source);
    }

    pub(crate) fn push(&mut self, turn: Arc<Turn>) {
        let entry = TurnEntry {
            id: turn.id.as_str().into(),
            bytes: encoded_bytes(&*turn),
        };
        self.bytes += entry.bytes;
        self.loaded.insert(self.entries.len(), turn);
        self.entries.push(entry);
    }

    /// Takes the last turn out, if it is in memory.
    pub(crate) fn pop(&mut self) -> Option<Arc<Turn>> {
        let last = self.entries.len().checked_sub(1)?;
        let turn = self.loaded.remove(&last)?;
        self.truncate(last);
        Some(turn)
    }

    pub(crate) fn truncate(&mut self, kept: usize) {
        self.bytes = self.bytes.saturating_sub(self.bytes_from(kept));
        self.entries.truncate(kept);
        self.loaded.split_off(&kept);
    }

    /// Takes turns into memory that were read. One that is no longer where it was is left out: the
    /// history was cut since.
    pub(crate) fn load(&mut self, first: usize, turns: Vec<Arc<Turn>>) {
        for (index, turn) in (first..).zip(turns) {
            if self.entries.get(index).is_some_and(|entry| *entry.id == *turn.id) {
                self.loaded.entry(index).or_insert(turn);
            }
        }
    }

    /// The position before which turns can leave memory if only the latest stay, and those that are not stored; `None`
    /// if there is nothing to drop.
    pub(crate) fn forgettable(&self, stored: usize, keep_turns: usize, keep_bytes: usize) -> Option<usize> {
        self.source.as_ref()?;
        let first_kept = self.fitting(self.entries.len(), keep_turns, keep_bytes).min(stored);
        let oldest = *self.loaded.first_key_value()?.0;
        (oldest < first_kept).then_some(first_kept)
    }

    /// Drops the turns in memory before a position.
    pub(crate) fn forget_before(&mut self, first_kept: usize) {
        self.loaded = self.loaded.split_off(&first_kept);
    }

    /// The turns from a position on, to be written.
    pub(crate) fn shown_from(&self, first: usize) -> VisibleTurns<'_> {
        VisibleTurns {
            history: self,
            first,
            version: Version::NEWEST,
        }
    }

    /// Reads turns from the store, as JSON, and makes sure that they are the right ones.
    fn read(&self, range: Range<usize>) -> Result<Vec<Bytes>, String> {
        let chat = &self.chat;
        let Some(source) = &self.source else {
            return Err(format!("turns {range:?} of {chat} are not stored"));
        };
        let read = source.read(chat, range.clone());
        let rows = read.map_err(|problem| format!("turns {range:?} of {chat} cannot be read: {problem}"))?;
        let entries = self.entries.get(range.clone()).unwrap_or_default();
        let is_same = rows.len() == entries.len() && rows.iter().zip(entries).all(|(row, entry)| is_turn(row, entry));
        if !is_same {
            return Err(format!(
                "turns {range:?} of {chat} are not the ones that were there, perhaps because the history was cut \
                 meanwhile"
            ));
        }
        Ok(rows)
    }

    /// Range to read next for a snapshot that has come to a turn that is not in memory.
    fn next_read(&self, first: usize) -> Range<usize> {
        let next_loaded = self.loaded.range(first..).next();
        let most = next_loaded.map_or(self.entries.len(), |(at, _)| *at);
        let mut end = first;
        let mut bytes = 0;
        while end < most {
            bytes += self.bytes_of(end);
            if bytes > READ_BYTES && end > first {
                break;
            }
            end += 1;
        }
        first..end
    }
}

impl From<StoredTurn> for TurnEntry {
    fn from(turn: StoredTurn) -> Self {
        Self {
            id: turn.id.into(),
            bytes: turn.bytes,
        }
    }
}

/// Turns as a list: those in memory as they are, the others as the store has them, a few at a time.
#[derive(Debug)]
pub(crate) struct VisibleTurns<'a> {
    history: &'a History,
    first: usize,
    version: Version,
}

impl VisibleTurns<'_> {
    /// The same in the words of a version.
    pub(crate) fn in_version(self, version: Version) -> Self {
        Self { version, ..self }
    }

    /// Writes one turn that is not in the words of its reader.
    fn write_older<S: SerializeSeq>(&self, out: &mut S, turn: serde_json::Result<Value>) -> Result<(), S::Error> {
        let mut turn = turn.map_err(S::Error::custom)?;
        if let Value::Object(turn) = &mut turn {
            innkeeper_dialects::state::turn(self.version, turn);
        }
        out.serialize_element(&turn)
    }
}

impl Serialize for VisibleTurns<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let history = self.history;
        let mut next = self.first;
        let mut out = serializer.serialize_seq(Some(history.len().saturating_sub(next)))?;
        while next < history.len() {
            if let Some(turn) = history.get(next) {
                match self.version.changes_turns() {
                    true => self.write_older(&mut out, serde_json::to_value(&**turn))?,
                    false => out.serialize_element(&**turn)?,
                }
                next += 1;
                continue;
            }
            let range = history.next_read(next);
            next = range.end;
            for row in history.read(range).map_err(S::Error::custom)? {
                let row: &RawValue = serde_json::from_slice(&row)
                    .map_err(|problem| S::Error::custom(format!("a turn of {} is damaged: {problem}", history.chat)))?;
                match self.version.changes_turns() {
                    true => self.write_older(&mut out, serde_json::from_str(row.get()))?,
                    false => out.serialize_element(row)?,
                }
            }
        }
        out.end()
    }
}

/// Whether a row is the turn that is expected there. Rows start with their id as the host writes
/// them; only others have to be read for it.
fn is_turn(row: &[u8], entry: &TurnEntry) -> bool {
    #[derive(Deserialize)]
    struct Named {
        id: String,
    }
    let head = serde_json::to_vec(&*entry.id).unwrap_or_default();
    let starts_with_it = row
        .strip_prefix(br#"{"id":"#)
        .is_some_and(|rest| rest.starts_with(&head));
    starts_with_it || serde_json::from_slice::<Named>(row).is_ok_and(|named| *named.id == *entry.id)
}

/// Bytes of a value as JSON, without allocating them.
fn encoded_bytes(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Nothing is written anywhere, so nothing can fail.
    let _ = crate::protocol::answer_numbers::to_writer(&mut count, value);
    count.0
}

//! A store beside the simulated host: what it keeps, and what was true at every moment that a
//! crash may go back to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::FutureExt;
use innkeeper_core::action_table::Durability;
use innkeeper_core::agent::{SpanEnd, TurnSpan};
use innkeeper_core::records::{ActionRecord, Batch, ListPage, Record, StoredSummary, restore};
use innkeeper_core::snapshot::{Snapshot, State};
use innkeeper_core::{AgentCommand, ChannelId, Effect, HostCore, Input, JournalCommand, Publication, TurnStart};
use innkeeper_host::journal::{CrashSurvivors, Journal, MemoryJournal};

use crate::mutation::JournalBug;
use crate::sim::{Sim, Violation};

/// All sessions and chats, by URI.
pub type HostState = BTreeMap<String, ChannelState>;

/// A session or chat as it was.
#[derive(Debug, Clone)]
pub struct ChannelState {
    pub snapshot: Snapshot,
    /// Whether it was in memory.
    pub in_memory: bool,
}

/// Actions of clients that need not be durable (P1).
const STREAMED: [&[u8]; 2] = [b"\"chat/draftChanged\"", b"\"chat/toolCallContentChanged\""];

/// The store of the simulated host.
#[derive(Debug)]
pub struct Store {
    pub(super) journal: MemoryJournal,
    /// Whether the store cannot write at the moment.
    pub(super) read_only: bool,
    /// The state when everything was durable, and after every batch since.
    timeline: Vec<HostState>,
    /// Requests of the core to the store.
    due: Vec<JournalCommand>,
    /// Whether agents resume turns of an earlier process.
    pub(super) resumes: bool,
    /// The bug in what is kept, if there is one, and how often it had a chance.
    pub(super) journal_bug: Option<JournalBug>,
    chances: u64,
    /// Every turn that was ever run: its chat, its id, and its words, because a chat that was made
    /// anew has the ids of the one before.
    run: BTreeSet<(String, String, String)>,
}

impl Store {
    /// A store that goes on where a journal is.
    pub fn new(journal: MemoryJournal, truth: HostState, read_only: bool, before: Option<Self>) -> Self {
        Self {
            journal,
            read_only,
            timeline: vec![truth],
            due: Vec::new(),
            resumes: before.as_ref().is_some_and(|before| before.resumes),
            journal_bug: before.as_ref().and_then(|before| before.journal_bug),
            chances: before.as_ref().map_or(0, |before| before.chances),
            run: before.map(|before| before.run).unwrap_or_default(),
        }
    }

    /// Returns the journal after a crash, and the state that it must restore.
    pub fn crash(&self, keep: CrashSurvivors) -> (MemoryJournal, HostState) {
        let last = self.timeline.len().saturating_sub(1);
        let moment = match keep {
            CrashSurvivors::Everything => last,
            CrashSurvivors::Durable => 0,
            CrashSurvivors::Batches(count) => count.min(last),
        };
        let truth = self.timeline.get(moment).cloned().unwrap_or_default();
        (self.journal.crash(keep), truth)
    }

    fn latest(&self) -> Option<&HostState> {
        self.timeline.last()
    }
}

impl Sim {
    /// A channel as the host has it, in memory or not.
    pub(super) fn snapshot(&self, uri: &str) -> Option<Snapshot> {
        let stored = || Some(self.store.as_ref()?.latest()?.get(uri)?.snapshot.clone());
        self.core.snapshot(uri).or_else(stored)
    }

    /// Persists records before any client sees their effects.
    pub(super) fn keep(&mut self, effects: &[Effect]) -> Result<(), Violation> {
        // An input without effects has changed nothing.
        let Some(store) = self
            .store
            .as_mut()
            .filter(|store| !store.read_only && !effects.is_empty())
        else {
            return Ok(());
        };
        let mut records = Vec::new();
        for effect in effects {
            match effect {
                Effect::Publish(Publication { uri, frame, author, .. }) => {
                    let is_streamed = || STREAMED.iter().any(|name| has(&frame.bytes, name));
                    if author.is_some() && frame.durability == Durability::Stream && !is_streamed() {
                        let said = String::from_utf8_lossy(&frame.bytes);
                        return Err(Violation::new(format!("a client's action is not durable (P1): {said}")));
                    }
                    records.push(Record::Action(ActionRecord {
                        channel: Arc::clone(uri),
                        frame: Arc::clone(frame),
                    }));
                }
                Effect::Persist(record) => records.push((**record).clone()),
                _ => {}
            }
        }
        if let Some(journal_bug) = store.journal_bug {
            journal_bug.keep(&mut records, &mut store.chances);
        }
        let is_kept = !records.is_empty();
        if is_kept {
            store.journal.set_time(self.now.wall.as_millisecond());
            let seq = self.core.seq();
            let kept = store.journal.append(Batch { records, seq }).now_or_never();
            if kept != Some(Ok(())) {
                return Err(Violation::new(format!("the journal keeps nothing: {kept:?}")));
            }
            if store.journal.unsynced() == 0 {
                self.core.set_durable(seq);
            }
        }
        let truth = truth(&self.core, &store.journal, store.timeline.last());
        match (store.journal.unsynced(), is_kept) {
            (0, _) => store.timeline = vec![truth],
            (_, true) => store.timeline.push(truth),
            // A change without a record has to be in the records before.
            (_, false) => {
                store.timeline.pop();
                store.timeline.push(truth);
            }
        }
        Ok(())
    }

    /// Notes a command that the store answers with an input.
    pub(super) fn ask_store(&mut self, command: JournalCommand) -> Result<(), Violation> {
        match command {
            JournalCommand::Load { .. } | JournalCommand::LoadTurns { .. } | JournalCommand::List { .. } => {}
            // Runs import nothing and undo no deletion.
            JournalCommand::Import { .. }
            | JournalCommand::ListDeleted { .. }
            | JournalCommand::UndoDeletion { .. }
            | JournalCommand::PurgeDeleted { .. } => return Ok(()),
        }
        match &mut self.store {
            Some(store) => {
                store.due.push(command);
                Ok(())
            }
            None => Err(Violation::new(format!("there is no store to ask for {command:?}"))),
        }
    }

    /// Answers the core, one thing after the other.
    pub(super) fn next_from_store(&mut self) -> Result<Option<Input>, Violation> {
        let Some(store) = &mut self.store else {
            return Ok(None);
        };
        // A store answers in any order; this one in the same order in every run.
        if store.due.len() > 1 {
            store.due.sort_by_key(|command| format!("{command:?}"));
        }
        let Some(command) = store.due.pop() else {
            return Ok(None);
        };
        answer(&store.journal, command)
    }

    /// How many turns an agent is told of that are only in the store.
    pub(super) fn stored_turns(&self, command: &AgentCommand) -> Result<usize, Violation> {
        let (AgentCommand::OpenChat(open), Some(store)) = (command, &self.store) else {
            return Ok(0);
        };
        let Some(TurnSpan { chat, end }) = &open.history.earlier else {
            return Ok(0);
        };
        let turns = store.journal.turns();
        let turns = turns.ok_or_else(|| Violation::new("a journal without turns"))?;
        let end = match end {
            SpanEnd::Before(end) => Some(*end),
            SpanEnd::Through(id) => turns.position(chat, id).map_err(Violation::new)?.map(|last| last + 1),
        };
        let end = end.ok_or_else(|| Violation::new(format!("{chat} does not have the turn that it goes up to")))?;
        turns.read(chat, 0..end).map_err(Violation::new)?;
        Ok(end)
    }

    /// No turn is run twice unless a user resumes it (P4).
    pub(super) fn check_not_run(&mut self, chat: ChannelId, start: &TurnStart) -> Result<(), Violation> {
        let uri = self.agent.chats().find(|(known, _)| *known == chat);
        let uri = uri.map(|(_, uri)| uri.to_owned()).unwrap_or_default();
        let Some(store) = &mut self.store else {
            return Ok(());
        };
        let is_new = store
            .run
            .insert((uri.clone(), start.info.turn_id.clone(), start.info.text.clone()));
        match is_new || start.info.resume {
            true => Ok(()),
            false => Err(Violation::new(format!(
                "{} of {uri} is run twice (P4)",
                start.info.turn_id
            ))),
        }
    }
}

/// The answer of the store to a command.
pub fn answer(journal: &MemoryJournal, command: JournalCommand) -> Result<Option<Input>, Violation> {
    let turns = journal
        .turns()
        .ok_or_else(|| Violation::new("a journal without turns"))?;
    let input = match command {
        JournalCommand::Load { uri } => {
            let stored = journal
                .load(&uri)
                .now_or_never()
                .unwrap_or(Ok(None))
                .unwrap_or_default();
            let restored = stored.map(|stored| restore(stored, &turns)).transpose();
            let restored =
                restored.map_err(|problem| Violation::new(format!("{uri} cannot be restored: {problem}")))?;
            Input::Loaded {
                uri,
                outcome: Ok(restored.map(Box::new)),
            }
        }
        JournalCommand::LoadTurns { chat, uri, range } => {
            let first = range.start;
            let read = turns.read(&uri, range).map_err(Violation::new)?;
            let decode = |json: &bytes::Bytes| serde_json::from_slice(json);
            let turns: Result<_, _> = read.iter().map(decode).collect();
            let turns = turns.map_err(|error| Violation::new(format!("a turn of {uri} cannot be read: {error}")))?;
            Input::TurnsLoaded {
                chat,
                first,
                outcome: Ok(turns),
            }
        }
        JournalCommand::List { conn, id, page } => Input::Listed {
            conn,
            id,
            outcome: Ok(list(journal, page.clone())),
            page,
        },
        JournalCommand::Import { .. }
        | JournalCommand::ListDeleted { .. }
        | JournalCommand::UndoDeletion { .. }
        | JournalCommand::PurgeDeleted { .. } => return Ok(None),
    };
    Ok(Some(input))
}

/// Everything that is stored, by URI.
pub fn list(journal: &MemoryJournal, page: ListPage) -> Vec<StoredSummary> {
    let listed = journal.list(page).now_or_never();
    listed.unwrap_or(Ok(Vec::new())).unwrap_or_default()
}

/// All sessions, by URI.
pub fn all_sessions(journal: &MemoryJournal) -> impl Iterator<Item = String> {
    let everything = ListPage {
        after: None,
        limit: usize::MAX,
    };
    list(journal, everything).into_iter().map(|line| line.uri)
}

/// Every session there is and its chats: as the core has them, or as they were when they left memory.
pub fn truth(core: &HostCore, journal: &MemoryJournal, before: Option<&HostState>) -> HostState {
    let mut truth = HostState::new();
    let find = |uri: &str| {
        let in_memory = core.snapshot(uri).map(|snapshot| ChannelState {
            snapshot,
            in_memory: true,
        });
        in_memory.or_else(|| {
            let known = before?.get(uri)?;
            Some(ChannelState {
                in_memory: false,
                ..known.clone()
            })
        })
    };
    for uri in all_sessions(journal) {
        let Some(session) = find(&uri) else {
            continue;
        };
        if let State::Session(state) = &session.snapshot.state {
            for entry in &state.chats {
                truth.extend(find(&entry.resource).map(|chat| (entry.resource.clone(), chat)));
            }
        }
        truth.insert(uri, session);
    }
    truth
}

fn has(bytes: &[u8], name: &[u8]) -> bool {
    bytes.windows(name.len()).any(|window| window == name)
}

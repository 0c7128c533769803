//! Performs the effects that read the journal: loading sessions and turns, listing, importing, undoing deletions.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use ahp_types::state::Turn;
use innkeeper_core::error::code;
use innkeeper_core::records::{
    DeletedSession, ListPage, RestoredSession, TurnSource, Unreadable, restore, upgraded_turns,
};
use innkeeper_core::{ChannelId, Input, JournalCommand, RpcError};
use serde_json::{Value, json};
use tokio::sync::{OwnedRwLockReadGuard, RwLock, Semaphore};

use crate::main_loop::Message;
use crate::main_loop::handles::LoopHandles;
use crate::main_loop::requests::{OpenRequest, RequestTickets};
use crate::services::journal::{Journal, JournalError};

/// Sessions read at the same time.
const LOADS: usize = 16;

/// The journal for the effects that read it or import into it.
pub(crate) struct JournalRequests {
    journal: Arc<dyn Journal>,
    /// Limits how many sessions are read at the same time.
    loads: Arc<Semaphore>,
    /// Sessions that made the core panic when it loaded them.
    poisoned: HashSet<Arc<str>>,
    /// Held for reading while the journal imports a session.
    importing: Arc<RwLock<()>>,
    /// Counts the cores of this host.
    generation: u64,
}

impl JournalRequests {
    pub(crate) fn new(journal: Arc<dyn Journal>) -> Self {
        Self {
            journal,
            loads: Arc::new(Semaphore::new(LOADS)),
            poisoned: HashSet::new(),
            importing: Arc::default(),
            generation: 0,
        }
    }

    /// Returns the source of the turns that are not in memory.
    pub(crate) fn turns(&self) -> Option<Arc<dyn TurnSource>> {
        turns_of(&*self.journal)
    }

    /// Returns the source of turns as they are stored.
    pub(crate) fn stored_turns(&self) -> Option<Arc<dyn TurnSource>> {
        self.journal.turns()
    }

    /// Starts the next generation, because the core is replaced. Waits until running imports have ended: the next core
    /// must neither miss a session nor count it again when it hears of the import.
    pub(crate) async fn next_generation(&mut self) {
        drop(Arc::clone(&self.importing).write_owned().await);
        self.generation += 1;
    }

    /// Returns true if an import was started by the present core.
    pub(crate) fn is_current(&self, generation: u64) -> bool {
        self.generation == generation
    }

    /// Refuses to load these sessions from now on.
    pub(crate) fn poison(&mut self, sessions: impl Iterator<Item = Arc<str>>) {
        self.poisoned.extend(sessions);
    }

    pub(crate) fn perform(&self, handles: &LoopHandles, requests: &mut RequestTickets, command: JournalCommand) {
        let mut open = |conn, id| requests.open(handles, conn, id);
        match command {
            JournalCommand::Load { uri } => self.load(handles, uri),
            JournalCommand::LoadTurns { chat, uri, range } => self.load_turns(handles, chat, uri, range),
            JournalCommand::List { conn, id, page } => {
                if let Some(request) = open(conn, id) {
                    self.list(handles, request, page);
                }
            }
            JournalCommand::Import { conn, id, text } => {
                if let Some(request) = open(conn, id) {
                    self.import(handles, request, text);
                }
            }
            JournalCommand::ListDeleted { conn, id } => {
                if let Some(request) = open(conn, id) {
                    self.list_deleted(handles, request);
                }
            }
            JournalCommand::UndoDeletion { conn, id, uri } => {
                if let Some(request) = open(conn, id) {
                    self.undo_deletion(handles, request, uri);
                }
            }
            JournalCommand::PurgeDeleted { before_ms } => self.purge_deleted(handles, before_ms),
        }
    }

    /// Loads a session by its URI or that of one of its chats.
    fn load(&self, handles: &LoopHandles, uri: Arc<str>) {
        if self.poisoned.contains(&uri) {
            let problem = "loading it made the host fail; its log says more".to_owned();
            let outcome = Err(Unreadable::Damaged(problem));
            return handles.send(Message::Core(Input::Loaded { uri, outcome }));
        }
        let Some(inbox) = handles.inbox() else {
            // The host is going away.
            return;
        };
        let (journal, loads) = (Arc::clone(&self.journal), Arc::clone(&self.loads));
        handles.tasks().spawn(async move {
            let permit = loads.acquire_owned().await;
            let outcome = find(journal, &uri).await;
            drop(permit);
            if let Err(problem @ (Unreadable::Damaged(_) | Unreadable::Failed(_))) = &outcome {
                tracing::error!(%uri, %problem, "a session cannot be read; `innkeeper doctor` says more");
            }
            let _ = inbox.send(Message::Core(Input::Loaded { uri, outcome })).await;
        });
    }

    /// Reads turns. A failure is reported too, so that nothing waits for them forever.
    fn load_turns(&self, handles: &LoopHandles, chat: ChannelId, uri: Arc<str>, range: Range<usize>) {
        let Some(inbox) = handles.inbox() else {
            // The host is going away.
            return;
        };
        let turns = self.turns();
        let first = range.start;
        handles.tasks().spawn(async move {
            let reading = tokio::task::spawn_blocking(move || read(turns.as_deref(), &uri, range));
            let outcome = match reading.await {
                Ok(outcome) => outcome,
                Err(_) => Err("reading them failed; this is a bug".to_owned()),
            };
            if let Err(problem) = &outcome {
                tracing::error!(problem, "turns of a chat could not be read");
            }
            let loaded = Input::TurnsLoaded { chat, first, outcome };
            let _ = inbox.send(Message::Core(loaded)).await;
        });
    }

    /// Lists sessions.
    fn list(&self, handles: &LoopHandles, request: OpenRequest, page: ListPage) {
        let journal = Arc::clone(&self.journal);
        handles.tasks().spawn(async move {
            let outcome = journal.list(page.clone()).await.map_err(|error| error.to_string());
            let listed = |conn, id| {
                Message::Core(Input::Listed {
                    conn,
                    id,
                    page,
                    outcome,
                })
            };
            request.send(listed).await;
        });
    }

    /// Imports a session.
    fn import(&self, handles: &LoopHandles, request: OpenRequest, text: String) {
        let (journal, importing, generation) = (Arc::clone(&self.journal), self.lock_imports(), self.generation);
        handles.tasks().spawn(async move {
            let outcome = journal.import(text).await.map_err(|error| error.to_string());
            drop(importing);
            let imported = |conn, id| Message::Imported {
                generation,
                input: Input::Imported { conn, id, outcome },
            };
            request.send(imported).await;
        });
    }

    /// Lists the sessions whose deletion can be undone.
    fn list_deleted(&self, handles: &LoopHandles, request: OpenRequest) {
        let journal = Arc::clone(&self.journal);
        let undo_ms = handles.limits().core.undo_delete_ms;
        handles.tasks().spawn(async move {
            let outcome = match journal.deleted().await {
                Ok(deleted) => Ok(shown_deleted(&deleted, undo_ms)),
                Err(error) => Err(RpcError::new(code::INTERNAL_ERROR, error.to_string())),
            };
            request.respond(outcome).await;
        });
    }

    /// Undoes the deletion of a session.
    fn undo_deletion(&self, handles: &LoopHandles, request: OpenRequest, uri: String) {
        let (journal, importing, generation) = (Arc::clone(&self.journal), self.lock_imports(), self.generation);
        handles.tasks().spawn(async move {
            let outcome = journal.undo_deletion(&uri).await.map_err(|error| error.to_string());
            drop(importing);
            let imported = |conn, id| Message::Imported {
                generation,
                input: Input::Imported { conn, id, outcome },
            };
            request.send(imported).await;
        });
    }

    /// Removes for good the sessions that were deleted before a moment, and reports them to the main loop.
    fn purge_deleted(&self, handles: &LoopHandles, before_ms: i64) {
        let Some(inbox) = handles.inbox() else {
            // The host is going away.
            return;
        };
        let journal = Arc::clone(&self.journal);
        handles.tasks().spawn(async move {
            match journal.purge_deleted(before_ms).await {
                Ok(gone) if gone.is_empty() => {}
                Ok(gone) => {
                    for session in &gone {
                        tracing::info!(session, "removed a deleted session for good");
                    }
                    let _ = inbox.send(Message::Purged(gone)).await;
                }
                Err(error) => tracing::warn!(%error, "deleted sessions could not be removed for good; they stay"),
            }
        });
    }

    /// Only the main loop takes the lock for writing, and it is here now, so this does not wait.
    fn lock_imports(&self) -> Option<OwnedRwLockReadGuard<()>> {
        Arc::clone(&self.importing).try_read_owned().ok()
    }
}

/// Returns the source of turns, each upgraded to the format of this version.
pub(crate) fn turns_of(journal: &dyn Journal) -> Option<Arc<dyn TurnSource>> {
    journal.turns().map(upgraded_turns)
}

/// Encodes deleted sessions for clients: the list entry of each, when it was deleted, and until when that can be
/// undone.
fn shown_deleted(deleted: &[DeletedSession], undo_ms: u64) -> Value {
    let moment = |ms: i64| jiff::Timestamp::from_millisecond(ms).map_or_else(|_| String::new(), |at| at.to_string());
    let undo_ms = i64::try_from(undo_ms).unwrap_or(i64::MAX);
    let items: Vec<Value> = deleted
        .iter()
        .map(|session| {
            let summary: Value = serde_json::from_slice(&session.summary).unwrap_or_default();
            json!({
                "session": session.uri,
                "deletedAt": moment(session.deleted_ms),
                "removedAfter": moment(session.deleted_ms.saturating_add(undo_ms)),
                "summary": summary,
            })
        })
        .collect();
    json!({ "items": items })
}

/// Reads a session, by its own URI or that of one of its chats.
pub(crate) async fn find(journal: Arc<dyn Journal>, uri: &str) -> Result<Option<Box<RestoredSession>>, Unreadable> {
    let stored = journal.load(uri).await.map_err(|error| match error {
        JournalError::Damaged(problem) => Unreadable::Damaged(problem),
        JournalError::Full(problem) | JournalError::Failed(problem) => Unreadable::Failed(problem),
    })?;
    let (Some(stored), Some(turns)) = (stored, turns_of(&*journal)) else {
        return Ok(None);
    };
    if stored.is_deleted {
        return Err(Unreadable::Deleted);
    }
    let restored = tokio::task::spawn_blocking(move || restore(stored, &turns)).await;
    let restored = restored.unwrap_or_else(|_| Err("reading it failed".to_owned()));
    let restored = restored.map_err(Unreadable::Damaged)?;
    Ok(Some(Box::new(restored)))
}

fn read(turns: Option<&dyn TurnSource>, chat: &str, range: Range<usize>) -> Result<Vec<Turn>, String> {
    let turns = turns.ok_or_else(|| "this host keeps no turns".to_owned())?;
    let rows = turns.read(chat, range)?;
    let decode = |row: &bytes::Bytes| {
        serde_json::from_slice(row).map_err(|problem| format!("a turn of {chat} is damaged: {problem}"))
    };
    rows.iter().map(decode).collect()
}

//! Performs the effects that read the journal: loading sessions and turns, listing, importing, undoing deletions.

use std::ops::Range;
use std::sync::Arc;

use ahp_types::state::Turn;
use innkeeper_core::error::code;
use innkeeper_core::stored::{
    DeletedSession, ListPage, RestoredSession, TurnSource, Unreadable, restore, upgraded_turns,
};
use innkeeper_core::{ChannelId, ConnId, Input, RequestId, RpcError};
use serde_json::{Value, json};

use crate::main_loop::message::Message;
use crate::main_loop::task::HostTask;
use crate::services::journal::{Journal, JournalError};

/// Sessions read at the same time.
pub(crate) const LOADS: usize = 16;

impl HostTask {
    /// Finds a session by its URI or that of one of its chats.
    pub(crate) fn load(&self, uri: Arc<str>) {
        let Some(inbox) = self.inbox.upgrade() else {
            return;
        };
        if self.poisoned.contains(&uri) {
            let problem = "taking it into memory made the host fail; its log says more".to_owned();
            let outcome = Err(Unreadable::Damaged(problem));
            let loaded = Message::Core(Input::Loaded { uri, outcome });
            self.tasks.spawn(async move {
                let _ = inbox.send(loaded).await;
            });
            return;
        }
        let journal = Arc::clone(&self.journal);
        let places = Arc::clone(&self.loads);
        self.tasks.spawn(async move {
            let place = places.acquire_owned().await;
            let outcome = find(journal, &uri).await;
            drop(place);
            if let Err(problem @ (Unreadable::Damaged(_) | Unreadable::Failed(_))) = &outcome {
                tracing::error!(%uri, %problem, "a session cannot be read; `innkeeper doctor` says more");
            }
            let _ = inbox.send(Message::Core(Input::Loaded { uri, outcome })).await;
        });
    }

    /// Reads turns beside the main loop. They come back as a message, and so does a failure: what
    /// waits for them must not wait for ever.
    pub(crate) fn load_turns(&mut self, chat: ChannelId, uri: Arc<str>, range: Range<usize>) {
        let Some(inbox) = self.inbox.upgrade() else {
            return;
        };
        let turns = turns_of(&*self.journal);
        let first = range.start;
        self.tasks.spawn(async move {
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

    /// Lists sessions for somebody.
    pub(crate) fn list(&mut self, conn: ConnId, id: RequestId, page: ListPage) {
        let ticket = self.requests.take(conn, &id);
        let Some(inbox) = self.inbox.upgrade() else {
            return;
        };
        let journal = Arc::clone(&self.journal);
        self.tasks.spawn(async move {
            let outcome = journal.list(page.clone()).await.map_err(|error| error.to_string());
            let listed = Input::Listed {
                conn,
                id,
                page,
                outcome,
            };
            let _ = inbox.send(Message::Core(listed)).await;
            drop(ticket);
        });
    }

    /// Takes a session in for somebody.
    pub(crate) fn import(&mut self, conn: ConnId, id: RequestId, text: String) {
        let ticket = self.requests.take(conn, &id);
        let Some(inbox) = self.inbox.upgrade() else {
            return;
        };
        let journal = Arc::clone(&self.journal);
        let generation = self.generation;
        // Nobody else waits for this lock while the main loop is here.
        let importing = Arc::clone(&self.importing).try_read_owned().ok();
        self.tasks.spawn(async move {
            let outcome = journal.import(text).await.map_err(|error| error.to_string());
            drop(importing);
            let input = Input::Imported { conn, id, outcome };
            let _ = inbox.send(Message::Imported { generation, input }).await;
            drop(ticket);
        });
    }
}

/// Where turns are read, as this version has them.
pub(crate) fn turns_of(journal: &dyn Journal) -> Option<Arc<dyn TurnSource>> {
    journal.turns().map(upgraded_turns)
}

impl HostTask {
    /// Lists for somebody the sessions whose deletion can be undone.
    pub(crate) fn list_deleted(&mut self, conn: ConnId, id: RequestId) {
        let ticket = self.requests.take(conn, &id);
        let Some(inbox) = self.inbox.upgrade() else {
            return;
        };
        let journal = Arc::clone(&self.journal);
        let undo_ms = self.limits.core.undo_delete_ms;
        self.tasks.spawn(async move {
            let outcome = match journal.deleted().await {
                Ok(deleted) => Ok(shown_deleted(&deleted, undo_ms)),
                Err(error) => Err(RpcError::new(code::INTERNAL_ERROR, error.to_string())),
            };
            let _ = inbox.send(Message::Respond { conn, id, outcome }).await;
            drop(ticket);
        });
    }

    /// Undoes the deletion of a session for somebody.
    pub(crate) fn undo_deletion(&mut self, conn: ConnId, id: RequestId, uri: String) {
        let ticket = self.requests.take(conn, &id);
        let Some(inbox) = self.inbox.upgrade() else {
            return;
        };
        let journal = Arc::clone(&self.journal);
        let generation = self.generation;
        // Nobody else waits for this lock while the main loop is here.
        let importing = Arc::clone(&self.importing).try_read_owned().ok();
        self.tasks.spawn(async move {
            let outcome = journal.undo_deletion(&uri).await.map_err(|error| error.to_string());
            drop(importing);
            let input = Input::Imported { conn, id, outcome };
            let _ = inbox.send(Message::Imported { generation, input }).await;
            drop(ticket);
        });
    }

    /// Removes what was kept beside sessions that are gone for good.
    pub(crate) fn purged(&self, sessions: Vec<String>) {
        for session in sessions {
            self.forget_contents(session.into());
        }
    }

    /// Removes the sessions for good that were deleted before a moment, with what was kept beside them.
    pub(crate) fn purge_deleted(&mut self, before_ms: i64) {
        let Some(inbox) = self.inbox.upgrade() else {
            return;
        };
        let journal = Arc::clone(&self.journal);
        self.tasks.spawn(async move {
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
}

/// What somebody is told of deleted sessions: what lists showed of each, when it was deleted, and until when that can
/// be undone.
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

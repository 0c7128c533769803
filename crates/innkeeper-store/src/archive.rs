//! The data file without a host, for command-line tools.

mod check;
pub(crate) mod export;
pub(crate) mod import;
mod prune;

use std::io::{BufRead, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use innkeeper_core::records::{
    DeletedSession, Document, ImportedSession, ListPage, Record, StoredRoot, StoredSession, StoredSummary,
};
use innkeeper_core::request::OnlyIf;
use rusqlite::{Connection, TransactionBehavior};

pub use self::check::Finding;
pub use self::import::ImportReport;
pub use self::prune::{PrunedSession, RetentionPolicy};
use crate::connection::{Location, now_ms};
use crate::error::{ErrorKind, StoreError};
use crate::options::Options;
use crate::reader::{self, RecentTurns};
use crate::rows::{ChannelKind, ChannelRow, HostRow};
use crate::writer::apply::GroupWriter;
use crate::writer::channel_cache::ChannelCache;
use crate::writer::{compact, deleted};

/// Access mode of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Read only; a host may be running.
    ReadOnly,
    /// Read and write; no host may use the file.
    Exclusive,
}

/// The data file, opened without a host. Every call blocks.
#[derive(Debug)]
pub struct Archive {
    conn: Connection,
    location: Location,
    mode: Mode,
}

impl Archive {
    /// Opens an existing file. [`Mode::Exclusive`] migrates it if necessary and fails if a host uses it.
    pub fn open(path: &Path, mode: Mode) -> Result<Self, StoreError> {
        let location = Location {
            path: path.into(),
            vfs: None,
        };
        let conn = match mode {
            Mode::ReadOnly => location.open_for_reading()?,
            Mode::Exclusive if !path.exists() => {
                return Err(StoreError::new(
                    ErrorKind::NotFound,
                    format!("there are no persisted sessions: {} does not exist", path.display()),
                ));
            }
            Mode::Exclusive => location.open_for_writing(true).map_err(|error| in_use(path, error))?,
        };
        Ok(Self { conn, location, mode })
    }

    /// Opens the file for changes and creates it if it does not exist, for example to import sessions into it.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let location = Location {
            path: path.into(),
            vfs: None,
        };
        let conn = location.open_for_writing(true).map_err(|error| in_use(path, error))?;
        let mode = Mode::Exclusive;
        Ok(Self { conn, location, mode })
    }

    /// Returns the number of sessions.
    pub fn count(&self) -> Result<usize, StoreError> {
        let host = HostRow::read(&self.conn)?;
        Ok(usize::try_from(host.sessions).unwrap_or_default())
    }

    /// Returns the persisted state of the root channel, if there is any.
    pub fn host(&self) -> Result<Option<StoredRoot>, StoreError> {
        reader::root(&self.conn)
    }

    /// Lists sessions, the latest first.
    pub fn list(&self, page: &ListPage) -> Result<Vec<StoredSummary>, StoreError> {
        reader::list(&self.conn, page)
    }

    /// Returns the URIs of all sessions that the file has rows of, also of drafts and of deleted sessions that can be
    /// restored.
    pub fn session_uris(&self) -> Result<Vec<String>, StoreError> {
        reader::session_uris(&self.conn)
    }

    /// Loads a session by its own URI or that of one of its chats.
    pub fn load(&self, uri: &str) -> Result<Option<StoredSession>, StoreError> {
        let options = Options::default();
        let recent = RecentTurns {
            turns: options.recent_turns,
            bytes: options.recent_bytes,
        };
        reader::load(&self.conn, uri, recent)
    }

    /// Returns the turns of a chat in a range of positions, oldest first, as JSON.
    pub fn turns(&self, chat: &str, range: Range<usize>) -> Result<Vec<Bytes>, StoreError> {
        reader::turns(&self.conn, chat, range)
    }

    /// Writes a session as JSON lines. Actions that only serve the replay for reconnecting clients are not exported.
    pub fn export(&self, uri: &str, out: &mut dyn Write) -> Result<(), StoreError> {
        export::export(&self.conn, uri, out)
    }

    /// Imports a session that [`Self::export`] wrote, completely or not at all. Fails if its URI exists.
    pub fn import(&mut self, lines: &mut dyn BufRead) -> Result<ImportReport, StoreError> {
        self.change(|writer| import::import(writer, lines))
    }

    /// Removes a session and everything that belongs to it. Returns whether it existed.
    pub fn remove(&mut self, uri: &str) -> Result<bool, StoreError> {
        self.remove_checked(uri, None)
    }

    /// Removes a session unless it changed since it was chosen, which is [`ErrorKind::Refused`]. The check and the
    /// removal are one transaction.
    pub fn remove_if(&mut self, uri: &str, only_if: OnlyIf) -> Result<bool, StoreError> {
        self.remove_checked(uri, Some(only_if))
    }

    fn remove_checked(&mut self, uri: &str, only_if: Option<OnlyIf>) -> Result<bool, StoreError> {
        let was_there = self.change(|writer| {
            if let Some(only_if) = only_if {
                prune::check(writer.conn, uri, only_if)?;
            }
            let uri: Arc<str> = uri.into();
            let found = ChannelRow::by_uri(writer.conn, &uri)?;
            let is_session = found.is_some_and(|channel| {
                matches!(
                    channel.kind,
                    ChannelKind::Session | ChannelKind::Draft | ChannelKind::Deleted
                )
            });
            if is_session {
                forget_subscriptions(writer, &uri)?;
                writer.record(&Record::SessionRemoved { uri })?;
            }
            Ok(is_session)
        })?;
        self.sweep()?;
        Ok(was_there)
    }

    /// Deletes a session so that the deletion can be undone. Returns whether it existed.
    pub fn delete(&mut self, uri: &str) -> Result<bool, StoreError> {
        self.change(|writer| {
            let uri: Arc<str> = uri.into();
            let found = ChannelRow::by_uri(writer.conn, &uri)?;
            let is_session = found.is_some_and(|channel| channel.kind == ChannelKind::Session);
            if is_session {
                forget_subscriptions(writer, &uri)?;
                let at_ms = writer.now_ms;
                writer.record(&Record::SessionDeleted { uri, at_ms })?;
            }
            Ok(is_session)
        })
    }

    /// Lists the deleted sessions that can be restored, the latest deletion first.
    pub fn deleted(&self) -> Result<Vec<DeletedSession>, StoreError> {
        deleted::list(&self.conn)
    }

    /// Restores a deleted session. Fails with [`ErrorKind::Refused`] if it was not deleted.
    pub fn undo_deletion(&mut self, uri: &str) -> Result<ImportedSession, StoreError> {
        self.change(|writer| writer.undo_deletion(uri))
    }

    /// Reads everything and reports what is wrong.
    pub fn check(&self) -> Result<Vec<Finding>, StoreError> {
        check::check(&self.conn)
    }

    /// Returns the size on disk in bytes, including the write-ahead log.
    pub fn size(&self) -> Result<u64, StoreError> {
        let size = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.len());
        let file = size(&self.location.path).map_err(|error| StoreError::io(&self.location.path, "read", &error))?;
        Ok(file + size(&self.location.sibling("-wal")).unwrap_or_default())
    }

    /// Removes the sessions that a policy selects, or only lists them.
    pub fn prune(&mut self, policy: &RetentionPolicy, dry_run: bool) -> Result<Vec<PrunedSession>, StoreError> {
        let chosen = prune::choose(&self.conn, policy)?;
        if !dry_run {
            for session in &chosen {
                self.remove_if(&session.uri, session.only_if)?;
            }
        }
        Ok(chosen)
    }

    /// Runs work in one transaction and rolls it back if it fails.
    fn change<T>(&mut self, work: impl FnOnce(&mut GroupWriter<'_>) -> Result<T, StoreError>) -> Result<T, StoreError> {
        if self.mode == Mode::ReadOnly {
            return Err(StoreError::new(
                ErrorKind::Refused,
                "the session file is open read-only",
            ));
        }
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut cache = ChannelCache::new(u64::MAX);
        let mut host = HostRow::read(&tx)?;
        let mut writer = GroupWriter::new(&tx, &mut cache, &mut host, now_ms());
        let done = work(&mut writer)?;
        writer.finish()?;
        tx.commit()?;
        Ok(done)
    }

    /// Removes turn bodies without references.
    fn sweep(&mut self) -> Result<(), StoreError> {
        loop {
            let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let more = compact::sweep(&tx)?;
            tx.commit()?;
            if !more {
                return Ok(());
            }
        }
    }
}

/// Adds to a busy error that a host uses the file.
fn in_use(path: &Path, error: StoreError) -> StoreError {
    if error.kind != ErrorKind::Busy {
        return error;
    }
    StoreError::new(
        ErrorKind::Busy,
        format!(
            "{} is in use by a host; stop the host first, or send the request to it",
            path.display()
        ),
    )
}

/// Removes the session and its chats from all persisted subscriptions, so that a later session with the same URI is
/// not taken for a continuation.
fn forget_subscriptions(writer: &mut GroupWriter<'_>, session: &str) -> Result<(), StoreError> {
    let uris: Vec<String> = writer
        .conn
        .prepare_cached("SELECT uri FROM channel WHERE session = (SELECT id FROM channel WHERE uri = ?1) OR uri = ?1")?
        .query_map([session], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let clients: Vec<(String, Vec<u8>)> = writer
        .conn
        .prepare_cached("SELECT id, body FROM client ORDER BY touched")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (id, body) in clients {
        let Ok(mut document) = serde_json::from_slice::<serde_json::Value>(&body) else {
            continue; // Skip clients that cannot be read.
        };
        let subscriptions = document
            .get_mut("subscriptions")
            .and_then(|found| found.as_object_mut());
        let Some(subscriptions) = subscriptions else { continue };
        let before = subscriptions.len();
        subscriptions.retain(|uri, _| !uris.contains(uri));
        if subscriptions.len() < before {
            let document = Document::ready(document.to_string().into_bytes());
            writer.record(&Record::Client {
                id: id.as_str().into(),
                document,
                replaces: false,
            })?;
        }
    }
    Ok(())
}

//! Deletes sessions so that the deletion can be undone, restores them, and purges them.

use std::sync::Arc;

use innkeeper_core::records::{DeletedSession, ImportedSession};
use rusqlite::{Connection, params};

use super::apply::{GroupWriter, refused};
use crate::archive::export;
use crate::checksum::Checksum;
use crate::error::{ErrorKind, StoreError};
use crate::rows::{self, ChannelKind, SUMMARY_COLUMNS, SummaryRow};

impl GroupWriter<'_> {
    /// Hides a session. Its rows stay.
    pub(crate) fn delete_session(&mut self, uri: &Arc<str>, at_ms: i64) -> Result<(), StoreError> {
        let Some(mut session) = self.cache.get(self.conn, uri)? else {
            return Ok(());
        };
        if session.kind != ChannelKind::Session {
            return Ok(());
        }
        self.conn
            .prepare_cached(&format!(
                "INSERT INTO deleted SELECT {SUMMARY_COLUMNS}, ?2, ?3 FROM summary WHERE session = ?1"
            ))?
            .execute(params![session.id, at_ms, check(session.id, at_ms)])?;
        self.conn
            .prepare_cached("DELETE FROM summary WHERE session = ?1")?
            .execute([session.id])?;
        session.kind = ChannelKind::Deleted;
        self.cache.put(uri, session);
        self.host.sessions -= 1;
        Ok(())
    }

    /// Restores a deleted session.
    pub(crate) fn undo_deletion(&mut self, uri: &str) -> Result<ImportedSession, StoreError> {
        let uri: Arc<str> = uri.into();
        let found = self.cache.get(self.conn, &uri)?;
        let Some(mut session) = found.filter(|channel| channel.kind == ChannelKind::Deleted) else {
            let why =
                format!("there is no deleted session {uri}; `innkeeper sessions restore` lists the deleted sessions");
            return Err(StoreError::new(ErrorKind::Refused, why));
        };
        let columns = SUMMARY_COLUMNS;
        let restored = self
            .conn
            .prepare_cached(&format!(
                "INSERT INTO summary SELECT {columns} FROM deleted WHERE session = ?1"
            ))?
            .execute([session.id])?;
        if restored == 0 {
            return Err(refused(format_args!("{uri} was deleted, and its summary is missing")));
        }
        self.forget_deletion(session.id)?;
        session.kind = ChannelKind::Session;
        self.cache.put(&uri, session);
        self.host.sessions += 1;
        // Write the cache first, so that the queries see its rows.
        self.cache.write(self.conn)?;
        let (summary, at_rest) = export::summary(self.conn, &uri)?;
        let (last, turns): (i64, i64) = self
            .conn
            .prepare_cached("SELECT max(tail), sum(iif(kind = 2, parts, 0)) FROM channel WHERE session = ?1")?
            .query_row([session.id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(ImportedSession {
            uri: uri.to_string(),
            chats: usize::try_from(session.parts).unwrap_or_default(),
            turns: usize::try_from(turns).unwrap_or_default(),
            at_rest,
            last_seq: innkeeper_core::Seq(u64::try_from(last).unwrap_or_default()),
            summary: summary.body.into(),
            approvals: Vec::new(),
        })
    }

    /// Permanently removes the sessions that were deleted before this time, and returns their URIs.
    pub(crate) fn purge_deleted(&mut self, before_ms: i64) -> Result<Vec<String>, StoreError> {
        let uris: Vec<String> = self
            .conn
            .prepare_cached("SELECT uri FROM deleted WHERE deleted_ms < ?1 ORDER BY deleted_ms")?
            .query_map([before_ms], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for uri in &uris {
            self.remove_session(&uri.as_str().into())?;
        }
        Ok(uris)
    }

    /// Removes a session from the deleted ones.
    pub(super) fn forget_deletion(&self, session: i64) -> Result<(), StoreError> {
        self.conn
            .prepare_cached("DELETE FROM deleted WHERE session = ?1")?
            .execute([session])?;
        Ok(())
    }
}

/// Lists the deleted sessions that can be restored, the latest deletion first. Damaged ones are skipped.
pub(crate) fn list(conn: &Connection) -> Result<Vec<DeletedSession>, StoreError> {
    let mut sessions = Vec::new();
    if !is_known(conn)? {
        return Ok(sessions);
    }
    let mut statement = conn.prepare_cached(&format!(
        "SELECT {SUMMARY_COLUMNS}, deleted_ms, deleted_check FROM deleted ORDER BY deleted_ms DESC, uri"
    ))?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        match SummaryRow::from_row(row) {
            Ok(summary) if check(summary.session, row.get(7)?) == row.get::<_, i64>(8)? => {
                sessions.push(DeletedSession {
                    uri: summary.uri,
                    deleted_ms: row.get(7)?,
                    summary: summary.body.into(),
                })
            }
            Ok(summary) => tracing::warn!(
                uri = summary.uri,
                "the deletion time of this session is damaged; skipping it"
            ),
            Err(error) if error.kind == ErrorKind::Damaged => {
                tracing::warn!(%error, "skipping a damaged deleted session")
            }
            Err(error) => return Err(error),
        }
    }
    Ok(sessions)
}

/// Returns true for URIs of deleted sessions and of their chats.
pub(crate) fn is_deleted(conn: &Connection, uri: &str) -> Result<bool, StoreError> {
    let Some(channel) = rows::ChannelRow::by_uri(conn, uri)? else {
        return Ok(false);
    };
    let mut statement = conn.prepare_cached("SELECT 1 FROM channel WHERE id = ?1 AND kind = ?2")?;
    Ok(statement.exists(params![channel.session, ChannelKind::Deleted.number()])?)
}

/// Returns true if the file has the table. A read-only file may be of an earlier version.
pub(crate) fn is_known(conn: &Connection) -> Result<bool, StoreError> {
    let mut statement = conn.prepare_cached("SELECT 1 FROM sqlite_schema WHERE name = 'deleted'")?;
    Ok(statement.exists([])?)
}

fn check(session: i64, deleted_ms: i64) -> i64 {
    Checksum::of("deleted").number(session).number(deleted_ms).value()
}

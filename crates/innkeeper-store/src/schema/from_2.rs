//! Migrates version 2 to 3: empty sessions that earlier versions listed become drafts. The tables stay as they are.

use innkeeper_core::records::leftover_as_draft;
use rusqlite::{Transaction, params};

use crate::error::StoreError;
use crate::reader::{self, RecentTurns};
use crate::rows::{self, ChannelKind, ChannelRow, HostRow};

/// Runs the migration inside a transaction.
pub(super) fn step(tx: &Transaction<'_>) -> Result<(), StoreError> {
    let mut converted = 0;
    for uri in candidates(tx)? {
        // A damaged session stays as it is: the host reports it when a client opens it.
        let recent = RecentTurns { turns: 0, bytes: 0 };
        let Ok(Some(stored)) = reader::load_inside(tx, &uri, recent) else {
            continue;
        };
        let seq = stored.seq;
        let Some(document) = leftover_as_draft(stored) else {
            continue;
        };
        let Some(mut session) = ChannelRow::by_uri(tx, &uri)? else {
            continue;
        };
        session.kind = ChannelKind::Draft;
        session.update(tx, &uri)?;
        rows::write_document(tx, session.id, seq, &document)?;
        tx.execute("DELETE FROM summary WHERE session = ?1", [session.id])?;
        // A host that starts loads drafts, so that they end with their grace period.
        tx.execute("INSERT OR IGNORE INTO unsettled VALUES (?1)", [session.id])?;
        converted += 1;
    }
    if converted > 0 {
        let mut host = HostRow::read(tx)?;
        host.sessions -= converted;
        host.write(tx)?;
        tracing::info!(
            sessions = converted,
            "empty sessions of an earlier version are drafts now"
        );
    }
    Ok(())
}

/// Returns the listed sessions with one chat and no turns.
fn candidates(tx: &Transaction<'_>) -> Result<Vec<String>, StoreError> {
    let mut statement = tx.prepare(
        "SELECT uri FROM channel AS listed WHERE kind = ?1 AND parts = 1 AND NOT EXISTS \
         (SELECT 1 FROM channel AS chat WHERE chat.session = listed.id AND chat.kind = ?2 AND chat.parts > 0)",
    )?;
    let found = statement.query_map(
        params![ChannelKind::Session.number(), ChannelKind::Chat.number()],
        |row| row.get(0),
    )?;
    Ok(found.collect::<Result<_, _>>()?)
}

//! Versions of the file format and their migrations.

mod from_0;
mod from_2;

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use crate::error::{ErrorKind, StoreError};
use crate::rows::{self, ChannelKind, ChannelRow, HostRow, ROOT_ID};
use innkeeper_core::{Seq, uri};

/// SQLite application id: "INNK".
pub(crate) const APPLICATION_ID: i32 = 0x494E_4E4B;

/// The version that this program writes.
pub(crate) const VERSION: i32 = 3;

/// The tables of version 1.
const TABLES: &str = include_str!("schema/1.sql");

/// Additions of version 2.
const DELETED: &str = include_str!("schema/2.sql");

/// Migrates a file to the next version, inside a transaction.
type Step = fn(&Transaction<'_>) -> Result<(), StoreError>;

/// Migrations: step `n` leads from version `n` to `n + 1`.
const STEPS: [Step; VERSION as usize] = [from_0::step, from_1, from_2::step];

/// Initialises an empty file in one transaction. After a crash the file is empty and is initialised again.
pub(crate) fn create(conn: &mut Connection, first_seq: Seq) -> Result<(), StoreError> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tables(&tx)?;
    from_1(&tx)?;
    let host = HostRow {
        reserved: first_seq,
        // No client has seen an action of this file.
        kept: Seq(0),
        sessions: 0,
        log_bytes: 0,
        touches: 0,
        ended_well: true,
        syncs: 0,
    };
    host.write(&tx)?;
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", VERSION)?;
    Ok(tx.commit()?)
}

/// Migrates an older file, one transaction per step. After a crash the file has the version before the step.
pub(crate) fn migrate(conn: &mut Connection) -> Result<(), StoreError> {
    migrate_with(conn, &STEPS)
}

fn migrate_with(conn: &mut Connection, steps: &[Step]) -> Result<(), StoreError> {
    loop {
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let version: i32 = tx.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let Some(step) = usize::try_from(version).ok().and_then(|version| steps.get(version)) else {
            return if version == VERSION {
                Ok(())
            } else {
                Err(unknown_version(version))
            };
        };
        tracing::info!(from = version, to = version + 1, "migrating the session file");
        step(&tx)?;
        tx.pragma_update(None, "user_version", version + 1)?;
        tx.commit()?;
    }
}

/// An error about an unknown version.
pub(crate) fn unknown_version(version: i32) -> StoreError {
    StoreError::new(
        ErrorKind::Newer,
        format!(
            "the session file has format {version}, but this version of innkeeper supports formats up to {VERSION}: a newer version wrote it. Nothing was changed; use that version, or another data directory"
        ),
    )
}

/// Migrates version 1 to 2: deletions that can be undone.
fn from_1(tx: &Transaction<'_>) -> Result<(), StoreError> {
    Ok(tx.execute_batch(DELETED)?)
}

/// Creates the tables of version 1 and the root channel.
fn tables(tx: &Transaction<'_>) -> Result<(), StoreError> {
    tx.execute_batch(TABLES)?;
    let root = ChannelRow {
        id: ROOT_ID,
        kind: ChannelKind::Root,
        session: ROOT_ID,
        tail: Seq(0),
        log_bytes: 0,
        parts: 0,
    };
    insert_channel(tx, uri::ROOT, &root)
}

/// Inserts a channel.
pub(crate) fn insert_channel(conn: &Connection, uri: &str, channel: &ChannelRow) -> Result<(), StoreError> {
    conn.prepare_cached("INSERT INTO channel VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?
        .execute(params![
            channel.id,
            uri,
            rows::uri_hash(uri),
            channel.kind.number(),
            channel.session,
            rows::stored(channel.tail),
            channel.log_bytes,
            channel.parts,
            channel.check(uri),
        ])?;
    Ok(())
}

#[cfg(test)]
mod tests;

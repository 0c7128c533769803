//! Migrates the first draft to version 1: ids instead of URIs, an index of turns, archiving, checksums.

use innkeeper_core::Seq;
use rusqlite::{OptionalExtension, Transaction, params};

use crate::error::StoreError;
use crate::rows::{self, ChannelKind, ChannelRow, HostRow, LogRow, ROOT_ID, SummaryRow, TurnRow};

const OLD_TABLES: [&str; 5] = ["log", "turn", "chat", "session", "host"];

/// Runs the migration inside a transaction.
pub(super) fn step(tx: &Transaction<'_>) -> Result<(), StoreError> {
    for table in OLD_TABLES {
        tx.execute_batch(&format!("ALTER TABLE {table} RENAME TO old_{table}"))?;
    }
    super::tables(tx)?;
    let mut ids = Ids { next: ROOT_ID + 1 };
    let sessions = sessions(tx, &mut ids)?;
    chats(tx, &mut ids)?;
    let log_bytes = logs(tx)?;
    let numbers = tx
        .query_row("SELECT reserved, kept FROM old_host", [], |row| {
            Ok((rows::seq(row, 0)?, rows::seq(row, 1)?))
        })
        .optional()?;
    let (reserved, kept) = numbers.unwrap_or_default();
    let host = HostRow {
        reserved,
        kept,
        sessions,
        log_bytes,
        touches: 0,
        ended_well: true,
        syncs: 0,
    };
    host.write(tx)?;
    for table in OLD_TABLES {
        tx.execute_batch(&format!("DROP TABLE old_{table}"))?;
    }
    Ok(())
}

struct Ids {
    next: i64,
}

impl Ids {
    fn take(&mut self) -> i64 {
        self.next += 1;
        self.next - 1
    }
}

fn sessions(tx: &Transaction<'_>, ids: &mut Ids) -> Result<i64, StoreError> {
    let mut statement = tx.prepare("SELECT uri, created_ms, modified_ms, seq, summary, document FROM old_session")?;
    let mut found = statement.query([])?;
    let mut count = 0;
    while let Some(row) = found.next()? {
        let id = ids.take();
        let uri: String = row.get(0)?;
        let chats = tx.query_row("SELECT count(*) FROM old_chat WHERE session = ?1", [&uri], |row| {
            row.get(0)
        })?;
        super::insert_channel(tx, &uri, &channel(id, ChannelKind::Session, id, chats))?;
        rows::write_document(tx, id, rows::seq(row, 3)?, &row.get::<_, Vec<u8>>(5)?)?;
        let summary = SummaryRow {
            session: id,
            uri,
            created_ms: row.get(1)?,
            modified_ms: row.get(2)?,
            is_archived: false,
            body: row.get(4)?,
        };
        summary.write(tx)?;
        // The draft did not record which sessions were at rest, so all of them are recovered once.
        tx.execute("INSERT INTO unsettled VALUES (?1)", [id])?;
        count += 1;
    }
    Ok(count)
}

fn chats(tx: &Transaction<'_>, ids: &mut Ids) -> Result<(), StoreError> {
    let mut statement = tx.prepare(
        "SELECT old_chat.uri, channel.id, old_chat.seq, old_chat.document FROM old_chat \
         JOIN channel ON channel.uri = old_chat.session",
    )?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        let id = ids.take();
        let uri: String = row.get(0)?;
        let turns = turns(tx, &uri)?;
        super::insert_channel(
            tx,
            &uri,
            &channel(id, ChannelKind::Chat, row.get(1)?, turns.len() as i64),
        )?;
        rows::write_document(tx, id, rows::seq(row, 2)?, &row.get::<_, Vec<u8>>(3)?)?;
        for (position, turn_id) in turns {
            let body: Vec<u8> = tx.query_row(
                "SELECT body FROM old_turn WHERE chat = ?1 AND position = ?2",
                params![uri, position],
                |row| row.get(0),
            )?;
            tx.prepare_cached("INSERT INTO body (body) VALUES (?1)")?
                .execute([&body])?;
            let turn = TurnRow {
                chat: id,
                position,
                body: tx.last_insert_rowid(),
                bytes: body.len() as i64,
                body_check: TurnRow::body_check(&turn_id, &body),
                id: turn_id,
            };
            turn.write(tx)?;
        }
    }
    Ok(())
}

fn turns(tx: &Transaction<'_>, chat: &str) -> Result<Vec<(i64, String)>, StoreError> {
    let mut statement = tx.prepare_cached("SELECT position, id FROM old_turn WHERE chat = ?1 ORDER BY position")?;
    let found = statement.query_map([chat], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.collect::<Result<_, _>>()?)
}

fn logs(tx: &Transaction<'_>) -> Result<i64, StoreError> {
    let mut statement = tx.prepare("SELECT channel, seq, at_ms, since, body FROM old_log ORDER BY seq")?;
    let mut found = statement.query([])?;
    let mut total = 0;
    while let Some(row) = found.next()? {
        let uri: String = row.get(0)?;
        let Some(mut channel) = ChannelRow::by_uri(tx, &uri)? else {
            continue;
        };
        let body: Vec<u8> = row.get(4)?;
        let seq = rows::seq(row, 1)?;
        let log = LogRow {
            channel: channel.id,
            seq,
            first: seq,
            previous: channel.tail,
            since: row.get(3)?,
            at_ms: row.get(2)?,
        };
        log.write(tx, &body)?;
        total += body.len() as i64;
        channel.tail = seq;
        channel.log_bytes += body.len() as i64;
        channel.update(tx, &uri)?;
    }
    Ok(total)
}

fn channel(id: i64, kind: ChannelKind, session: i64, parts: i64) -> ChannelRow {
    ChannelRow {
        id,
        kind,
        session,
        tail: Seq(0),
        log_bytes: 0,
        parts,
    }
}

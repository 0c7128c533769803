//! Reads sessions. Every row is verified; damaged rows are reported and left as they are.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use innkeeper_core::records::{
    ListPage, StoredChat, StoredClient, StoredFrame, StoredRoot, StoredSession, StoredSummary, StoredTurn,
};
use innkeeper_core::{Seq, uri};
use innkeeper_host::journal::Lease;
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::{ErrorKind, StoreError};
use crate::rows::{
    self, CHANNEL_COLUMNS, ChannelKind, ChannelRow, HostRow, LOG_COLUMNS, LogRow, ROOT_ID, SUMMARY_COLUMNS, SummaryRow,
    TURN_COLUMNS, TurnRow,
};
use crate::writer::deleted;

/// How many recent turns are loaded with a chat.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecentTurns {
    pub(crate) turns: usize,
    pub(crate) bytes: usize,
}

/// Returns what a host needs at start, without reading any session.
pub(crate) fn lease(conn: &Connection, clients: usize) -> Result<Lease, StoreError> {
    let host = HostRow::read(conn)?;
    Ok(Lease {
        last_seq: host.reserved,
        persisted_seq: host.kept,
        sessions: usize::try_from(host.sessions).unwrap_or_default(),
        unsettled: unsettled(conn)?,
        clients: remembered(conn, clients)?,
        root: root(conn)?,
    })
}

/// The cross join makes SQLite start with the few unsettled sessions. With a plain join it would scan all channels
/// for the order, and the start would slow down with the number of sessions.
const UNSETTLED: &str = "SELECT channel.uri FROM unsettled CROSS JOIN channel ON channel.id = unsettled.session \
     WHERE channel.kind IN (1, 4) ORDER BY unsettled.session";

fn unsettled(conn: &Connection) -> Result<Vec<String>, StoreError> {
    let mut statement = conn.prepare_cached(UNSETTLED)?;
    let found = statement.query_map([], |row| row.get(0))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Returns the most recent clients, the latest last. A damaged one is skipped: its client merely gets snapshots.
fn remembered(conn: &Connection, limit: usize) -> Result<Vec<StoredClient>, StoreError> {
    let mut statement =
        conn.prepare_cached("SELECT id, touched, row_check, body FROM client ORDER BY touched DESC LIMIT ?1")?;
    let mut found = statement.query([i64::try_from(limit).unwrap_or(i64::MAX)])?;
    let mut clients = Vec::new();
    while let Some(row) = found.next()? {
        let (id, touched, check): (String, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let body: Vec<u8> = row.get(3)?;
        if rows::client_check(&id, touched, &body) == check {
            let document = body.into();
            clients.push(StoredClient { id, document });
        } else {
            tracing::warn!(client = id, "the record of this client is damaged; it gets snapshots");
        }
    }
    clients.reverse();
    Ok(clients)
}

/// Returns the persisted root channel, if there is any.
pub(crate) fn root(conn: &Connection) -> Result<Option<StoredRoot>, StoreError> {
    let Some(channel) = ChannelRow::by_uri(conn, uri::ROOT)? else {
        return Err(StoreError::damaged("the host record"));
    };
    let Some((seq, document)) = rows::document(conn, ROOT_ID, "the root channel")? else {
        // A log without a document cannot be restored, and nothing in it was acknowledged as durable.
        return Ok(None);
    };
    let mut log = Vec::new();
    read_log(conn, &channel, uri::ROOT, seq, &mut log)?;
    Ok(Some(StoredRoot { seq, document, log }))
}

/// Loads a session by its own URI or that of one of its chats.
pub(crate) fn load(conn: &Connection, uri: &str, recent: RecentTurns) -> Result<Option<StoredSession>, StoreError> {
    // One read transaction for a consistent view.
    let tx = conn.unchecked_transaction()?;
    load_inside(&tx, uri, recent)
}

/// Returns the URIs of all sessions, also of those that lists do not show.
pub(crate) fn session_uris(conn: &Connection) -> Result<Vec<String>, StoreError> {
    let is_session = [
        ChannelKind::Session,
        ChannelKind::Draft,
        ChannelKind::Deleted,
        ChannelKind::Expected,
    ];
    let uris = conn
        .prepare_cached("SELECT uri FROM channel WHERE kind IN (?1, ?2, ?3, ?4)")?
        .query_map(is_session.map(ChannelKind::number), |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    Ok(uris)
}

/// Variant for a host, which must know that the URIs of a deleted session are taken.
pub(crate) fn load_or_deleted(
    conn: &Connection,
    uri: &str,
    recent: RecentTurns,
) -> Result<Option<StoredSession>, StoreError> {
    let tx = conn.unchecked_transaction()?;
    match load_inside(&tx, uri, recent)? {
        None if deleted::is_deleted(&tx, uri)? => Ok(Some(StoredSession {
            uri: uri.to_owned(),
            is_deleted: true,
            ..StoredSession::default()
        })),
        found => Ok(found),
    }
}

/// Variant for callers that have a transaction.
pub(crate) fn load_inside(
    conn: &Connection,
    uri: &str,
    recent: RecentTurns,
) -> Result<Option<StoredSession>, StoreError> {
    let Some(found) = ChannelRow::by_uri(conn, uri)? else {
        return Ok(None);
    };
    let mut session = None;
    let mut chats = Vec::new();
    for (uri, channel) in channels(conn, found.session)? {
        match channel.kind {
            ChannelKind::Session | ChannelKind::Draft => session = Some((uri, channel)),
            ChannelKind::Chat => chats.push((uri, channel)),
            ChannelKind::Root | ChannelKind::Expected | ChannelKind::Deleted => return Ok(None),
        }
    }
    let Some((uri, channel)) = session else {
        return Err(StoreError::damaged(format_args!("the session of {uri}")));
    };
    if usize::try_from(channel.parts) != Ok(chats.len()) {
        return Err(StoreError::damaged(format_args!("the list of chats of {uri}")));
    }
    let (seq, document) = rows::document(conn, channel.id, &uri)?
        .ok_or_else(|| StoreError::damaged(format_args!("the document of {uri}")))?;
    let mut log = Vec::new();
    read_log(conn, &channel, &uri, seq, &mut log)?;
    let mut stored_chats = Vec::with_capacity(chats.len());
    for (chat_uri, channel) in chats {
        stored_chats.push(chat(conn, chat_uri, &channel, recent, &mut log)?);
    }
    log.sort_by_key(|frame: &StoredFrame| frame.seq);
    Ok(Some(StoredSession {
        uri,
        seq,
        document,
        chats: stored_chats,
        log,
        is_deleted: false,
    }))
}

/// Returns the session with this id and its chats.
fn channels(conn: &Connection, session: i64) -> Result<Vec<(String, ChannelRow)>, StoreError> {
    let mut statement = conn.prepare_cached(&format!(
        "SELECT {CHANNEL_COLUMNS} FROM channel WHERE session = ?1 ORDER BY id"
    ))?;
    let mut found = statement.query([session])?;
    let mut channels = Vec::new();
    while let Some(row) = found.next()? {
        channels.push(ChannelRow::from_row(row)?);
    }
    Ok(channels)
}

fn chat(
    conn: &Connection,
    uri: String,
    channel: &ChannelRow,
    recent: RecentTurns,
    log: &mut Vec<StoredFrame>,
) -> Result<StoredChat, StoreError> {
    let (seq, document) = rows::document(conn, channel.id, &uri)?
        .ok_or_else(|| StoreError::damaged(format_args!("the document of {uri}")))?;
    read_log(conn, channel, &uri, seq, log)?;
    let mut turns = Vec::new();
    let mut statement = conn.prepare_cached(&format!(
        "SELECT {TURN_COLUMNS} FROM turn WHERE chat = ?1 ORDER BY position"
    ))?;
    let mut found = statement.query([channel.id])?;
    while let Some(row) = found.next()? {
        let turn = TurnRow::from_row(row, &uri)?;
        if usize::try_from(turn.position) != Ok(turns.len()) {
            return Err(StoreError::damaged(format_args!("the list of turns of {uri}")));
        }
        turns.push(StoredTurn {
            id: turn.id,
            bytes: usize::try_from(turn.bytes).unwrap_or_default(),
        });
    }
    if usize::try_from(channel.parts) != Ok(turns.len()) {
        return Err(StoreError::damaged(format_args!("the list of turns of {uri}")));
    }
    let start = turns.len() - recent.count(&turns);
    let recent = read_turns(conn, channel, &uri, start..turns.len(), usize::MAX)?;
    Ok(StoredChat {
        uri,
        seq,
        document,
        turns,
        recent,
    })
}

impl RecentTurns {
    /// Returns how many of the last turns are loaded.
    fn count(self, turns: &[StoredTurn]) -> usize {
        let mut bytes = 0_usize;
        let fitting = turns
            .iter()
            .rev()
            .take(self.turns)
            .take_while(|turn| {
                bytes = bytes.saturating_add(turn.bytes);
                bytes <= self.bytes
            })
            .count();
        fitting.max(1).min(turns.len())
    }
}

/// Reads a log. A gap, or a missing end, is damage: without the check, state would be silently wrong.
fn read_log(
    conn: &Connection,
    channel: &ChannelRow,
    name: &str,
    document: Seq,
    log: &mut Vec<StoredFrame>,
) -> Result<(), StoreError> {
    let mut statement = conn.prepare_cached(&format!(
        "SELECT {LOG_COLUMNS} FROM log WHERE channel = ?1 ORDER BY seq"
    ))?;
    let mut found = statement.query([channel.id])?;
    let shared: Arc<str> = name.into();
    let mut last: Option<Seq> = None;
    while let Some(row) = found.next()? {
        let (row, bytes) = LogRow::from_row(row, name)?;
        // Rows before the first one were dropped because the document includes them.
        let is_next = last.map_or(row.previous <= document, |last| row.previous == last);
        if row.channel != channel.id || !is_next {
            return Err(StoreError::damaged(format_args!(
                "the log of {name} before action {}",
                row.seq
            )));
        }
        last = Some(row.seq);
        log.push(StoredFrame {
            channel: Arc::clone(&shared),
            first: row.first,
            seq: row.seq,
            at_ms: row.at_ms,
            bytes,
        });
    }
    let is_complete = last.map_or(channel.tail <= document, |last| last == channel.tail);
    if !is_complete {
        return Err(StoreError::damaged(format_args!("the end of the log of {name}")));
    }
    Ok(())
}

/// Lists sessions without reading them. A damaged one is skipped and logged; loading it by URI fails.
pub(crate) fn list(conn: &Connection, page: &ListPage) -> Result<Vec<StoredSummary>, StoreError> {
    let mut statement = conn.prepare_cached(&format!(
        "SELECT {SUMMARY_COLUMNS} FROM summary WHERE (modified_ms, uri) < (?1, ?2) ORDER BY modified_ms DESC, uri DESC"
    ))?;
    let mut first = conn.prepare_cached(&format!(
        "SELECT {SUMMARY_COLUMNS} FROM summary ORDER BY modified_ms DESC, uri DESC"
    ))?;
    let mut found = match &page.after {
        Some((modified_ms, uri)) => statement.query(params![modified_ms, uri])?,
        None => first.query([])?,
    };
    let mut summaries = Vec::new();
    while summaries.len() < page.limit
        && let Some(row) = found.next()?
    {
        match SummaryRow::from_row(row) {
            Ok(summary) => summaries.push(StoredSummary {
                uri: summary.uri,
                modified_ms: summary.modified_ms,
                summary: summary.body.into(),
            }),
            Err(error) if error.kind == ErrorKind::Damaged => {
                tracing::warn!(%error, "skipping a damaged session in a list")
            }
            Err(error) => return Err(error),
        }
    }
    Ok(summaries)
}

/// Maximum bytes of turns per transaction. A long read transaction would keep the write-ahead log from being reset.
const CHUNK: usize = 4 << 20;

/// Returns the turns of a chat in a range of positions, oldest first, or an error.
pub(crate) fn turns(conn: &Connection, chat: &str, range: Range<usize>) -> Result<Vec<Bytes>, StoreError> {
    let mut turns = Vec::with_capacity(range.len());
    while turns.len() < range.len() {
        let start = range.start + turns.len();
        let tx = conn.unchecked_transaction()?;
        turns.extend(chunk_of_turns(&tx, chat, start..range.end)?);
    }
    Ok(turns)
}

/// Variant for callers that need a consistent view more than a short write-ahead log.
pub(crate) fn turns_inside(conn: &Connection, chat: &str, range: Range<usize>) -> Result<Vec<Bytes>, StoreError> {
    let mut turns = Vec::with_capacity(range.len());
    while turns.len() < range.len() {
        let start = range.start + turns.len();
        turns.extend(chunk_of_turns(conn, chat, start..range.end)?);
    }
    Ok(turns)
}

fn chunk_of_turns(conn: &Connection, chat: &str, range: Range<usize>) -> Result<Vec<Bytes>, StoreError> {
    let Some(channel) = ChannelRow::by_uri(conn, chat)? else {
        return Err(StoreError::new(ErrorKind::NotFound, format!("there is no chat {chat}")));
    };
    if deleted::is_deleted(conn, chat)? {
        return Err(StoreError::new(
            ErrorKind::NotFound,
            format!("the chat {chat} was deleted"),
        ));
    }
    read_turns(conn, &channel, chat, range, CHUNK)
}

/// Reads turns from the start of a range until `enough` bytes are read, at least one.
fn read_turns(
    conn: &Connection,
    channel: &ChannelRow,
    name: &str,
    range: Range<usize>,
    enough: usize,
) -> Result<Vec<Bytes>, StoreError> {
    if range.is_empty() {
        return Ok(Vec::new());
    }
    if usize::try_from(channel.parts).unwrap_or_default() < range.end {
        return Err(StoreError::new(
            ErrorKind::NotFound,
            format!("{name} has {} turns, not {}", channel.parts, range.end),
        ));
    }
    let mut statement = conn.prepare_cached(&format!(
        "SELECT {TURN_COLUMNS}, body.body FROM turn JOIN body ON body.id = turn.body \
         WHERE turn.chat = ?1 AND turn.position >= ?2 AND turn.position < ?3 ORDER BY turn.position"
    ))?;
    let position = |position: usize| i64::try_from(position).unwrap_or(i64::MAX);
    let mut found = statement.query(params![channel.id, position(range.start), position(range.end)])?;
    let mut turns = Vec::new();
    let mut bytes = 0;
    while bytes < enough
        && let Some(row) = found.next()?
    {
        let turn = TurnRow::from_row(row, name)?;
        let body: Vec<u8> = row.get(7)?;
        let expected = range.start + turns.len();
        if turn.position != position(expected) || TurnRow::body_check(&turn.id, &body) != turn.body_check {
            return Err(StoreError::damaged(format_args!("turn {expected} of {name}")));
        }
        bytes += body.len();
        turns.push(body.into());
    }
    let is_complete = bytes >= enough || turns.len() == range.len();
    if turns.is_empty() || !is_complete {
        return Err(StoreError::damaged(format_args!(
            "turn {} of {name}",
            range.start + turns.len()
        )));
    }
    Ok(turns)
}

/// Returns the position of a turn in its chat.
pub(crate) fn position(conn: &Connection, chat: &str, turn_id: &str) -> Result<Option<usize>, StoreError> {
    let Some(channel) = ChannelRow::by_uri(conn, chat)? else {
        return Ok(None);
    };
    let found: Option<i64> = conn
        .prepare_cached("SELECT position FROM turn WHERE chat = ?1 AND id = ?2 ORDER BY position LIMIT 1")?
        .query_row(params![channel.id, turn_id], |row| row.get(0))
        .optional()?;
    Ok(found.and_then(|position| usize::try_from(position).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_does_not_scan_all_channels() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(include_str!("schema/1.sql")).unwrap();
        let mut plan = conn.prepare(&format!("EXPLAIN QUERY PLAN {UNSETTLED}")).unwrap();
        let steps: Vec<String> = plan
            .query_map([], |row| row.get(3))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        assert!(!steps.iter().any(|step| step.starts_with("SCAN channel")), "{steps:?}");
    }
}

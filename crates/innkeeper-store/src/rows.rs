//! Rows and their checksums. All reads and writes of rows go through this module, so that checksums are computed in
//! one way only (P9).

use bytes::Bytes;
use innkeeper_core::Seq;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::checksum::Checksum;
use crate::error::StoreError;

/// Id of the root channel, which always exists.
pub(crate) const ROOT_ID: i64 = 1;

/// Kind of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChannelKind {
    Root,
    Session,
    Chat,
    /// A session that is known only because a chat refers to it.
    Expected,
    /// A session in which no user has written yet. It is neither counted nor listed.
    Draft,
    /// A deleted session that can be restored. It is hidden otherwise.
    Deleted,
}

impl ChannelKind {
    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Root => 0,
            Self::Session => 1,
            Self::Chat => 2,
            Self::Expected => 3,
            Self::Draft => 4,
            Self::Deleted => 5,
        }
    }

    fn read(number: i64) -> Option<Self> {
        let all = [
            Self::Root,
            Self::Session,
            Self::Chat,
            Self::Expected,
            Self::Draft,
            Self::Deleted,
        ];
        all.into_iter().find(|kind| kind.number() == number)
    }
}

/// The single row of `host`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostRow {
    pub(crate) reserved: Seq,
    pub(crate) kept: Seq,
    pub(crate) sessions: i64,
    pub(crate) log_bytes: i64,
    pub(crate) touches: i64,
    pub(crate) ended_well: bool,
    pub(crate) syncs: i64,
}

impl HostRow {
    fn check(&self) -> i64 {
        Checksum::of("host")
            .number(stored(self.reserved))
            .number(stored(self.kept))
            .number(self.sessions)
            .number(self.log_bytes)
            .number(self.touches)
            .number(self.ended_well.into())
            .number(self.syncs)
            .value()
    }

    pub(crate) fn read(conn: &Connection) -> Result<Self, StoreError> {
        let mut statement = conn.prepare_cached(
            "SELECT reserved, kept, sessions, log_bytes, touches, ended_well, syncs, row_check FROM host",
        )?;
        let read = |row: &Row<'_>| {
            let host = Self {
                reserved: seq(row, 0)?,
                kept: seq(row, 1)?,
                sessions: row.get(2)?,
                log_bytes: row.get(3)?,
                touches: row.get(4)?,
                ended_well: row.get(5)?,
                syncs: row.get(6)?,
            };
            Ok((host, row.get::<_, i64>(7)?))
        };
        let (host, check) = statement
            .query_row([], read)
            .optional()?
            .ok_or_else(|| StoreError::damaged("the host record"))?;
        if host.check() != check {
            return Err(StoreError::damaged("the host record"));
        }
        Ok(host)
    }

    pub(crate) fn write(&self, conn: &Connection) -> Result<(), StoreError> {
        conn.prepare_cached(
            "INSERT INTO host VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (one) DO UPDATE SET \
             reserved = ?1, kept = ?2, sessions = ?3, log_bytes = ?4, touches = ?5, ended_well = ?6, syncs = ?7, \
             row_check = ?8",
        )?
        .execute(params![
            stored(self.reserved),
            stored(self.kept),
            self.sessions,
            self.log_bytes,
            self.touches,
            self.ended_well,
            self.syncs,
            self.check(),
        ])?;
        Ok(())
    }
}

/// A row of `channel` without its URI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChannelRow {
    pub(crate) id: i64,
    pub(crate) kind: ChannelKind,
    pub(crate) session: i64,
    pub(crate) tail: Seq,
    pub(crate) log_bytes: i64,
    pub(crate) parts: i64,
}

/// The columns that [`ChannelRow::from_row`] expects, in its order.
pub(crate) const CHANNEL_COLUMNS: &str = "id, uri, kind, session, tail, log_bytes, parts, row_check";

impl ChannelRow {
    pub(crate) fn check(&self, uri: &str) -> i64 {
        Checksum::of("channel")
            .number(self.id)
            .bytes(uri.as_bytes())
            .number(self.kind.number())
            .number(self.session)
            .number(stored(self.tail))
            .number(self.log_bytes)
            .number(self.parts)
            .value()
    }

    /// Reads a row of [`CHANNEL_COLUMNS`] with its URI.
    pub(crate) fn from_row(row: &Row<'_>) -> Result<(String, Self), StoreError> {
        let uri: String = row.get(1)?;
        let Some(kind) = ChannelKind::read(row.get(2)?) else {
            return Err(StoreError::damaged(format_args!("the row of {uri}")));
        };
        let channel = Self {
            id: row.get(0)?,
            kind,
            session: row.get(3)?,
            tail: seq(row, 4)?,
            log_bytes: row.get(5)?,
            parts: row.get(6)?,
        };
        if channel.check(&uri) != row.get::<_, i64>(7)? {
            return Err(StoreError::damaged(format_args!("the row of {uri}")));
        }
        Ok((uri, channel))
    }

    /// Updates the row of an existing channel.
    pub(crate) fn update(&self, conn: &Connection, uri: &str) -> Result<(), StoreError> {
        conn.prepare_cached(
            "UPDATE channel SET kind = ?2, session = ?3, tail = ?4, log_bytes = ?5, parts = ?6, row_check = ?7 \
             WHERE id = ?1",
        )?
        .execute(params![
            self.id,
            self.kind.number(),
            self.session,
            stored(self.tail),
            self.log_bytes,
            self.parts,
            self.check(uri),
        ])?;
        Ok(())
    }

    pub(crate) fn by_uri(conn: &Connection, uri: &str) -> Result<Option<Self>, StoreError> {
        let mut statement = conn.prepare_cached(&format!("SELECT {CHANNEL_COLUMNS} FROM channel WHERE uri = ?1"))?;
        let mut rows = statement.query([uri])?;
        let Some(row) = rows.next()? else {
            return Self::ensure_unused(conn, uri).map(|()| None);
        };
        let (found, channel) = Self::from_row(row)?;
        // An index that leads to another row is damaged.
        if found != uri {
            return Err(StoreError::damaged(format_args!("the index entry of {uri}")));
        }
        Ok(Some(channel))
    }

    /// Fails if a URI that the index does not find exists nevertheless. Creating it again would hide a damaged
    /// channel (F18).
    fn ensure_unused(conn: &Connection, uri: &str) -> Result<(), StoreError> {
        let mut statement = conn.prepare_cached("SELECT uri FROM channel WHERE uri_hash = ?1")?;
        let mut rows = statement.query([uri_hash(uri)])?;
        while let Some(row) = rows.next()? {
            if row.get_ref(0)?.as_bytes().is_ok_and(|found| found == uri.as_bytes()) {
                return Err(StoreError::damaged(format_args!("the index entry of {uri}")));
            }
        }
        Ok(())
    }
}

/// Hash of a URI, for the second index.
pub(crate) fn uri_hash(uri: &str) -> i64 {
    Checksum::of("uri").bytes(uri.as_bytes()).value()
}

/// Converts a sequence number for SQLite. All numbers are below 2^53.
pub(crate) fn stored(seq: Seq) -> i64 {
    i64::try_from(seq.0).unwrap_or(i64::MAX)
}

/// Reads a sequence number.
pub(crate) fn seq(row: &Row<'_>, column: usize) -> rusqlite::Result<Seq> {
    let number: i64 = row.get(column)?;
    u64::try_from(number)
        .map(Seq)
        .map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

pub(crate) fn document_check(channel: i64, seq: Seq, body: &[u8]) -> i64 {
    Checksum::of("document")
        .number(channel)
        .number(stored(seq))
        .bytes(body)
        .value()
}

/// Reads the document of a channel, if it has one.
pub(crate) fn document(conn: &Connection, channel: i64, name: &str) -> Result<Option<(Seq, Bytes)>, StoreError> {
    let mut statement = conn.prepare_cached("SELECT seq, row_check, body FROM document WHERE channel = ?1")?;
    let mut rows = statement.query([channel])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (seq, check, body) = (seq(row, 0)?, row.get::<_, i64>(1)?, row.get::<_, Vec<u8>>(2)?);
    if document_check(channel, seq, &body) != check {
        return Err(StoreError::damaged(format_args!("the document of {name}")));
    }
    Ok(Some((seq, body.into())))
}

/// Inserts or replaces the document of a channel.
pub(crate) fn write_document(conn: &Connection, channel: i64, seq: Seq, body: &[u8]) -> Result<(), StoreError> {
    conn.prepare_cached(
        "INSERT INTO document VALUES (?1, ?2, ?3, ?4) ON CONFLICT (channel) DO UPDATE SET seq = ?2, row_check = ?3, \
         body = ?4",
    )?
    .execute(params![channel, stored(seq), document_check(channel, seq, body), body])?;
    Ok(())
}

/// A row of `summary`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SummaryRow {
    pub(crate) session: i64,
    pub(crate) uri: String,
    pub(crate) created_ms: i64,
    pub(crate) modified_ms: i64,
    pub(crate) is_archived: bool,
    pub(crate) body: Vec<u8>,
}

/// The columns that [`SummaryRow::from_row`] expects, in its order.
pub(crate) const SUMMARY_COLUMNS: &str = "session, uri, created_ms, modified_ms, is_archived, row_check, body";

impl SummaryRow {
    pub(crate) fn check(&self) -> i64 {
        Checksum::of("summary")
            .number(self.session)
            .bytes(self.uri.as_bytes())
            .number(self.created_ms)
            .number(self.modified_ms)
            .number(self.is_archived.into())
            .bytes(&self.body)
            .value()
    }

    pub(crate) fn from_row(row: &Row<'_>) -> Result<Self, StoreError> {
        let summary = Self {
            session: row.get(0)?,
            uri: row.get(1)?,
            created_ms: row.get(2)?,
            modified_ms: row.get(3)?,
            is_archived: row.get(4)?,
            body: row.get(6)?,
        };
        if summary.check() != row.get::<_, i64>(5)? {
            return Err(StoreError::damaged(format_args!("the summary of {}", summary.uri)));
        }
        Ok(summary)
    }

    pub(crate) fn write(&self, conn: &Connection) -> Result<(), StoreError> {
        conn.prepare_cached(
            "INSERT INTO summary VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (session) DO UPDATE SET uri = ?2, \
             created_ms = ?3, modified_ms = ?4, is_archived = ?5, row_check = ?6, body = ?7",
        )?
        .execute(params![
            self.session,
            self.uri,
            self.created_ms,
            self.modified_ms,
            self.is_archived,
            self.check(),
            self.body,
        ])?;
        Ok(())
    }
}

/// A row of `log` without its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogRow {
    pub(crate) channel: i64,
    pub(crate) seq: Seq,
    pub(crate) first: Seq,
    pub(crate) previous: Seq,
    /// Once told which versions know the action; now its type says it. New rows have [`SINCE`].
    pub(crate) since: i64,
    pub(crate) at_ms: i64,
}

/// The value of the column `since` in new rows.
pub(crate) const SINCE: i64 = 0;

/// The columns that [`LogRow::from_row`] expects, in its order.
pub(crate) const LOG_COLUMNS: &str = "channel, seq, first, previous, since, at_ms, row_check, body";

impl LogRow {
    pub(crate) fn check(&self, body: &[u8]) -> i64 {
        Checksum::of("log")
            .number(self.channel)
            .number(stored(self.seq))
            .number(stored(self.first))
            .number(stored(self.previous))
            .number(self.since)
            .number(self.at_ms)
            .bytes(body)
            .value()
    }

    pub(crate) fn from_row(row: &Row<'_>, name: &str) -> Result<(Self, Bytes), StoreError> {
        let seq_of_row = seq(row, 1)?;
        let damaged = || StoreError::damaged(format_args!("action {seq_of_row} of {name}"));
        let log = Self {
            channel: row.get(0)?,
            seq: seq_of_row,
            first: seq(row, 2)?,
            previous: seq(row, 3)?,
            since: row.get(4)?,
            at_ms: row.get(5)?,
        };
        let body: Vec<u8> = row.get(7)?;
        if log.check(&body) != row.get::<_, i64>(6)? {
            return Err(damaged());
        }
        Ok((log, body.into()))
    }

    pub(crate) fn write(&self, conn: &Connection, body: &[u8]) -> Result<(), StoreError> {
        conn.prepare_cached(
            "INSERT INTO log (channel, seq, first, previous, since, at_ms, row_check, body) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            self.channel,
            stored(self.seq),
            stored(self.first),
            stored(self.previous),
            self.since,
            self.at_ms,
            self.check(body),
            body,
        ])?;
        Ok(())
    }
}

/// A row of `turn`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TurnRow {
    pub(crate) chat: i64,
    pub(crate) position: i64,
    pub(crate) id: String,
    pub(crate) body: i64,
    pub(crate) bytes: i64,
    pub(crate) body_check: i64,
}

/// The columns that [`TurnRow::from_row`] expects, in its order.
pub(crate) const TURN_COLUMNS: &str = "turn.chat, turn.position, turn.id, turn.body, turn.bytes, turn.body_check, \
                                       turn.row_check";

impl TurnRow {
    /// Checksum of a turn's body, which is copied along with the turn.
    pub(crate) fn body_check(id: &str, body: &[u8]) -> i64 {
        Checksum::of("body").bytes(id.as_bytes()).bytes(body).value()
    }

    pub(crate) fn check(&self) -> i64 {
        Checksum::of("turn")
            .number(self.chat)
            .number(self.position)
            .bytes(self.id.as_bytes())
            .number(self.body)
            .number(self.bytes)
            .number(self.body_check)
            .value()
    }

    pub(crate) fn from_row(row: &Row<'_>, name: &str) -> Result<Self, StoreError> {
        let turn = Self {
            chat: row.get(0)?,
            position: row.get(1)?,
            id: row.get(2)?,
            body: row.get(3)?,
            bytes: row.get(4)?,
            body_check: row.get(5)?,
        };
        if turn.check() != row.get::<_, i64>(6)? {
            return Err(StoreError::damaged(format_args!("turn {} of {name}", turn.position)));
        }
        Ok(turn)
    }

    pub(crate) fn write(&self, conn: &Connection) -> Result<(), StoreError> {
        conn.prepare_cached("INSERT INTO turn VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
            .execute(params![
                self.chat,
                self.position,
                self.id,
                self.body,
                self.bytes,
                self.body_check,
                self.check(),
            ])?;
        Ok(())
    }
}

pub(crate) fn client_check(id: &str, touched: i64, body: &[u8]) -> i64 {
    Checksum::of("client")
        .bytes(id.as_bytes())
        .number(touched)
        .bytes(body)
        .value()
}

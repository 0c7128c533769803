//! Applies records to rows, inside the transaction of a group.

use std::sync::Arc;

use innkeeper_core::records::{ActionRecord, ChatRecord, Document, Record, SessionRecord, SummaryRecord, TurnRecord};
use innkeeper_core::{ActionFrame, Seq};
use rusqlite::{Connection, params};

use super::channel_cache::ChannelCache;
use crate::error::{ErrorKind, StoreError};
use crate::rows::{self, ChannelKind, ChannelRow, HostRow, LogRow, ROOT_ID, SINCE, SummaryRow, TURN_COLUMNS, TurnRow};
use crate::schema;

/// Maximum number of open runs. They are searched linearly.
const MAX_OPEN_RUNS: usize = 64;

/// Applies the records of one group, in order.
#[derive(Debug)]
pub(crate) struct GroupWriter<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) cache: &'a mut ChannelCache,
    pub(crate) host: &'a mut HostRow,
    pub(crate) now_ms: i64,
    /// Streamed output that can still be merged, one run per channel.
    pub(crate) runs: Vec<FrameRun>,
    /// Bytes written.
    pub(crate) written: usize,
}

/// Adjacent frames of one channel that become one row.
#[derive(Debug)]
pub(crate) struct FrameRun {
    channel: Arc<str>,
    frames: Vec<Arc<ActionFrame>>,
}

impl<'a> GroupWriter<'a> {
    pub(crate) fn new(conn: &'a Connection, cache: &'a mut ChannelCache, host: &'a mut HostRow, now_ms: i64) -> Self {
        Self {
            conn,
            cache,
            host,
            now_ms,
            runs: Vec::new(),
            written: 0,
        }
    }

    /// Applies one record.
    pub(crate) fn record(&mut self, record: &Record) -> Result<(), StoreError> {
        if let Record::Action(action) = record {
            return self.action(action);
        }
        // Other records must not overtake earlier actions.
        self.end_runs()?;
        match record {
            Record::Action(_) => Ok(()),
            Record::Session(session) => self.session(session),
            Record::Summary(summary) => self.summary(summary),
            Record::SessionRemoved { uri } => self.remove_session(uri),
            Record::SessionDeleted { uri, at_ms } => self.delete_session(uri, *at_ms),
            Record::Chat(chat) => self.chat(chat),
            Record::ChatRemoved { uri } => self.remove_chat(uri),
            Record::Turns { chat, from, turns } => self.turns(chat, *from, turns),
            Record::CopyTurns { from, to, count } => self.copy_turns(from, to, *count),
            Record::Client { id, document, .. } => self.client(id, document),
            Record::ClientForgotten { id } => {
                self.conn
                    .prepare_cached("DELETE FROM client WHERE id = ?1")?
                    .execute([&**id])?;
                Ok(())
            }
            Record::Root { seq, document, .. } => self.document(ROOT_ID, *seq, document),
        }
    }

    /// Writes everything that is pending. Call it before the commit.
    pub(crate) fn finish(&mut self) -> Result<(), StoreError> {
        self.end_runs()?;
        self.cache.write(self.conn)?;
        self.host.write(self.conn)
    }

    fn action(&mut self, action: &ActionRecord) -> Result<(), StoreError> {
        let same_channel = self.runs.iter().position(|run| run.channel == action.channel);
        if let Some(position) = same_channel {
            let mut run = self.runs.swap_remove(position);
            if run.frames.last().is_some_and(|last| last.merges_with(&action.frame)) {
                run.frames.push(Arc::clone(&action.frame));
                self.runs.push(run);
                return Ok(());
            }
            self.end_run(&run)?;
        }
        let run = FrameRun {
            channel: Arc::clone(&action.channel),
            frames: vec![Arc::clone(&action.frame)],
        };
        if action.frame.is_mergeable() {
            if self.runs.len() >= MAX_OPEN_RUNS {
                self.end_runs()?;
            }
            self.runs.push(run);
            return Ok(());
        }
        self.end_run(&run)
    }

    fn end_runs(&mut self) -> Result<(), StoreError> {
        for run in std::mem::take(&mut self.runs) {
            self.end_run(&run)?;
        }
        Ok(())
    }

    fn end_run(&mut self, run: &FrameRun) -> Result<(), StoreError> {
        let [first, rest @ ..] = run.frames.as_slice() else {
            return Ok(());
        };
        if rest.is_empty() {
            return self.frame(&run.channel, first.seq, first);
        }
        let merged = ActionFrame::merged(&run.frames);
        self.frame(&run.channel, first.seq, &merged)
    }

    /// Inserts a row into a log.
    fn frame(&mut self, uri: &Arc<str>, first: Seq, frame: &ActionFrame) -> Result<(), StoreError> {
        let Some(mut channel) = self.cache.get(self.conn, uri)? else {
            // Removed channels, and kinds that are not persisted, have no log.
            tracing::debug!(%uri, seq = %frame.seq, "ignoring an action of a channel that is not persisted");
            return Ok(());
        };
        let row = LogRow {
            channel: channel.id,
            seq: frame.seq,
            first,
            previous: channel.tail,
            since: SINCE,
            at_ms: self.now_ms,
        };
        row.write(self.conn, &frame.bytes)?;
        self.written += frame.bytes.len();
        let bytes = length(&frame.bytes);
        channel.tail = frame.seq;
        channel.log_bytes += bytes;
        self.host.log_bytes += bytes;
        self.cache.put(uri, channel);
        if channel.kind != ChannelKind::Root {
            self.cache.unsettle(self.conn, channel.session)?;
        }
        Ok(())
    }

    fn session(&mut self, session: &SessionRecord) -> Result<(), StoreError> {
        let uri = &session.summary.uri;
        let (kind, counted) = match session.is_draft {
            true => (ChannelKind::Draft, 0),
            false => (ChannelKind::Session, 1),
        };
        let channel = match self.cache.get(self.conn, uri)? {
            // Never overwrite an existing session.
            Some(channel) if session.is_new && channel.kind != ChannelKind::Expected => {
                return Err(refused(format_args!("{uri} exists")));
            }
            Some(channel) if channel.kind == kind => channel,
            Some(mut channel) if matches!(channel.kind, ChannelKind::Expected | ChannelKind::Draft) => {
                channel.kind = kind;
                self.cache.put(uri, channel);
                self.host.sessions += counted;
                channel
            }
            Some(_) => {
                return Err(refused(format_args!(
                    "{uri} is a session, but is stored as another kind"
                )));
            }
            None => {
                self.host.sessions += counted;
                self.new_channel(uri, kind, None)?
            }
        };
        self.document(channel.id, session.seq, &session.document)?;
        if !session.is_draft {
            self.write_summary(channel.id, &session.summary)?;
        }
        if session.at_rest {
            self.cache.settle(self.conn, channel.id)
        } else {
            self.cache.unsettle(self.conn, channel.id)
        }
    }

    fn summary(&mut self, summary: &SummaryRecord) -> Result<(), StoreError> {
        match self.cache.get(self.conn, &summary.uri)? {
            Some(channel) if channel.kind == ChannelKind::Session => self.write_summary(channel.id, summary),
            Some(_) | None => {
                tracing::debug!(uri = %summary.uri, "ignoring the summary of a session that is not listed");
                Ok(())
            }
        }
    }

    fn write_summary(&mut self, session: i64, summary: &SummaryRecord) -> Result<(), StoreError> {
        let row = SummaryRow {
            session,
            uri: (*summary.uri).into(),
            created_ms: summary.created_ms,
            modified_ms: summary.modified_ms,
            is_archived: summary.is_archived,
            body: summary.summary.encode(),
        };
        self.written += row.body.len();
        row.write(self.conn)
    }

    fn document(&mut self, channel: i64, seq: Seq, document: &Document) -> Result<(), StoreError> {
        let body = document.encode();
        self.written += body.len();
        rows::write_document(self.conn, channel, seq, &body)
    }

    fn chat(&mut self, chat: &ChatRecord) -> Result<(), StoreError> {
        let session = match self.cache.get(self.conn, &chat.session)? {
            Some(session)
                if matches!(
                    session.kind,
                    ChannelKind::Session | ChannelKind::Draft | ChannelKind::Expected
                ) =>
            {
                session
            }
            Some(_) => return Err(refused(format_args!("{} takes no chats", chat.session))),
            None => self.new_channel(&chat.session, ChannelKind::Expected, None)?,
        };
        let channel = match self.cache.get(self.conn, &chat.uri)? {
            Some(_) if chat.is_new => return Err(refused(format_args!("{} exists", chat.uri))),
            Some(channel) if channel.kind != ChannelKind::Chat => {
                return Err(refused(format_args!(
                    "{} is a chat, but is stored as another kind",
                    chat.uri
                )));
            }
            Some(channel) if channel.session == session.id => channel,
            Some(mut moved) => {
                let before = moved.session;
                moved.session = session.id;
                self.cache.put(&chat.uri, moved);
                self.count_chats(before, -1)?;
                self.count_chats(session.id, 1)?;
                moved
            }
            None => {
                let channel = self.new_channel(&chat.uri, ChannelKind::Chat, Some(session.id))?;
                self.count_chats(session.id, 1)?;
                channel
            }
        };
        self.document(channel.id, chat.seq, &chat.document)
    }

    fn turns(&mut self, chat: &Arc<str>, from: usize, turns: &[TurnRecord]) -> Result<(), StoreError> {
        let Some(mut channel) = self.cache.get(self.conn, chat)? else {
            tracing::debug!(%chat, "ignoring turns of a chat that is not persisted");
            return Ok(());
        };
        let from = number(from);
        if from > channel.parts {
            return Err(refused(format_args!("{chat} has {} turns, not {from}", channel.parts)));
        }
        if from < channel.parts {
            self.remove_turns(channel.id, from)?;
        }
        for (offset, turn) in turns.iter().enumerate() {
            let body = turn.document.encode();
            self.written += body.len();
            self.conn
                .prepare_cached("INSERT INTO body (body) VALUES (?1)")?
                .execute([&body])?;
            let row = TurnRow {
                chat: channel.id,
                position: from + number(offset),
                id: (*turn.id).into(),
                body: self.conn.last_insert_rowid(),
                bytes: length(&body),
                body_check: TurnRow::body_check(&turn.id, &body),
            };
            row.write(self.conn)?;
        }
        channel.parts = from + number(turns.len());
        self.cache.put(chat, channel);
        Ok(())
    }

    /// Copies the index of turns. The bodies are shared, so forking a long chat is cheap.
    fn copy_turns(&mut self, from: &Arc<str>, to: &Arc<str>, count: usize) -> Result<(), StoreError> {
        let (Some(source), Some(mut target)) = (self.cache.get(self.conn, from)?, self.cache.get(self.conn, to)?)
        else {
            tracing::debug!(%from, %to, "ignoring a copy of turns between chats that are not persisted");
            return Ok(());
        };
        let count = number(count);
        if count > source.parts {
            return Err(refused(format_args!("{from} has {} turns, not {count}", source.parts)));
        }
        self.remove_turns(target.id, 0)?;
        let mut statement = self.conn.prepare_cached(&format!(
            "SELECT {TURN_COLUMNS} FROM turn WHERE chat = ?1 AND position < ?2 ORDER BY position"
        ))?;
        let mut found = statement.query(params![source.id, count])?;
        while let Some(row) = found.next()? {
            let mut turn = TurnRow::from_row(row, from)?;
            turn.chat = target.id;
            turn.write(self.conn)?;
        }
        target.parts = count;
        self.cache.put(to, target);
        Ok(())
    }

    fn client(&mut self, id: &str, document: &Document) -> Result<(), StoreError> {
        let body = document.encode();
        self.host.touches += 1;
        let touched = self.host.touches;
        self.written += body.len();
        self.conn
            .prepare_cached(
                "INSERT INTO client VALUES (?1, ?2, ?3, ?4) ON CONFLICT (id) DO UPDATE SET touched = ?2, row_check = ?3, \
                 body = ?4",
            )?
            .execute(params![id, touched, rows::client_check(id, touched, &body), body])?;
        Ok(())
    }

    fn new_channel(
        &mut self,
        uri: &Arc<str>,
        kind: ChannelKind,
        session: Option<i64>,
    ) -> Result<ChannelRow, StoreError> {
        let id = self.cache.new_id(self.conn)?;
        let channel = ChannelRow {
            id,
            kind,
            session: session.unwrap_or(id),
            tail: Seq(0),
            log_bytes: 0,
            parts: 0,
        };
        schema::insert_channel(self.conn, uri, &channel)?;
        self.cache.put(uri, channel);
        Ok(channel)
    }

    /// Updates a session's number of chats.
    pub(super) fn count_chats(&mut self, session: i64, change: i64) -> Result<(), StoreError> {
        let uri: Arc<str> = self
            .conn
            .prepare_cached("SELECT uri FROM channel WHERE id = ?1")?
            .query_row([session], |row| row.get::<_, String>(0))?
            .into();
        if let Some(mut row) = self.cache.get(self.conn, &uri)? {
            row.parts += change;
            self.cache.put(&uri, row);
        }
        Ok(())
    }
}

/// An error about a batch that contradicts the stored data, which only a bug can cause.
pub(super) fn refused(what: impl std::fmt::Display) -> StoreError {
    StoreError::new(
        ErrorKind::Refused,
        format!("the batch contradicts the stored data: {what}"),
    )
}

pub(super) fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) fn length(bytes: &[u8]) -> i64 {
    number(bytes.len())
}

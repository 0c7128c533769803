//! Imports a session that an export wrote.

use std::io::BufRead;
use std::sync::Arc;

use innkeeper_core::Seq;
use innkeeper_core::records::{
    ChatRecord, Document, Record, SessionRecord, SummaryRecord, TurnRecord, approvals_in_action, mark_imported,
};

use super::export::{ActionLine, ChatLine, Content, EndLine, FORMAT, Line, SessionLine, TurnLine};
use crate::error::{ErrorKind, StoreError};
use crate::rows::{ChannelRow, LogRow, SINCE};
use crate::writer::apply::GroupWriter;
use crate::writer::deleted;

/// Result of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportReport {
    /// The session's URI.
    pub uri: String,
    /// Number of chats.
    pub chats: usize,
    /// Number of completed turns of all chats.
    pub turns: usize,
    /// Whether the session was at rest when it was exported.
    pub at_rest: bool,
    /// Highest sequence number in the session.
    pub last_seq: Seq,
    /// The approvals that the session had. The import resets them.
    pub approvals: Vec<String>,
}

/// Progress of an import.
struct Import<'a, 'b> {
    writer: &'a mut GroupWriter<'b>,
    session: Option<Arc<str>>,
    at_rest: bool,
    chat: Option<Arc<str>>,
    position: usize,
    found: EndLine,
    is_complete: bool,
    /// Highest sequence number so far. This host must not assign it again.
    highest: u64,
    /// The approvals found so far.
    approvals: Vec<String>,
}

/// Imports a session inside a transaction.
pub(crate) fn import(writer: &mut GroupWriter<'_>, lines: &mut dyn BufRead) -> Result<ImportReport, StoreError> {
    let mut import = Import {
        writer,
        session: None,
        at_rest: true,
        chat: None,
        position: 0,
        found: EndLine {
            chats: 0,
            turns: 0,
            actions: 0,
        },
        is_complete: false,
        highest: 0,
        approvals: Vec::new(),
    };
    let mut text = Vec::new();
    let mut number = 0;
    loop {
        text.clear();
        let read = lines
            .read_until(b'\n', &mut text)
            .map_err(|error| StoreError::new(ErrorKind::Io, format!("cannot read the import: {error}")))?;
        if read == 0 {
            return import.finish(number);
        }
        number += 1;
        let done = serde_json::from_slice(&text)
            .map_err(|error| error.to_string())
            .and_then(|line| import.line(line).map_err(|error| error.message));
        done.map_err(|why| at_line(number, &why))?;
    }
}

impl Import<'_, '_> {
    fn line(&mut self, line: Line) -> Result<(), StoreError> {
        if self.is_complete {
            return Err(refused("there is data after the end line"));
        }
        match line {
            Line::Session(session) => self.session(session),
            Line::Chat(chat) => self.chat(&chat),
            Line::Turn(turn) => self.turn(&turn),
            Line::Action(action) => self.action(&action),
            Line::End(end) if end == self.found => {
                self.is_complete = true;
                Ok(())
            }
            Line::End(end) => Err(refused(format!(
                "lines are missing: {end:?} expected, {:?} found",
                self.found
            ))),
        }
    }

    fn session(&mut self, line: SessionLine) -> Result<(), StoreError> {
        if self.session.is_some() {
            return Err(refused("there is a second session line; a file contains one session"));
        }
        if line.format != FORMAT {
            return Err(refused(format!(
                "the format is {}, but this version of innkeeper reads format {FORMAT}",
                line.format
            )));
        }
        self.ensure_new(&line.uri)?;
        let (marked, approvals) = mark_imported(&bytes(&line.document)?);
        self.approvals = approvals;
        let uri: Arc<str> = line.uri.into();
        self.highest = self.highest.max(line.seq);
        self.at_rest = line.at_rest;
        self.writer.record(&Record::Session(Box::new(SessionRecord {
            seq: Seq(line.seq),
            is_new: true,
            is_draft: false,
            at_rest: true,
            summary: SummaryRecord {
                uri: Arc::clone(&uri),
                created_ms: line.created_ms,
                modified_ms: line.modified_ms,
                is_archived: line.is_archived,
                summary: document(&line.summary)?,
            },
            document: Document::ready(marked),
        })))?;
        self.session = Some(uri);
        Ok(())
    }

    fn chat(&mut self, line: &ChatLine) -> Result<(), StoreError> {
        let session = self
            .session
            .clone()
            .ok_or_else(|| refused("a chat line precedes the session line"))?;
        self.ensure_new(&line.uri)?;
        let uri: Arc<str> = line.uri.as_str().into();
        self.highest = self.highest.max(line.seq);
        self.writer.record(&Record::Chat(Box::new(ChatRecord {
            uri: Arc::clone(&uri),
            session,
            seq: Seq(line.seq),
            is_new: true,
            document: document(&line.document)?,
        })))?;
        self.chat = Some(uri);
        self.position = 0;
        self.found.chats += 1;
        Ok(())
    }

    fn turn(&mut self, line: &TurnLine) -> Result<(), StoreError> {
        let chat = self
            .chat
            .clone()
            .ok_or_else(|| refused("a turn line precedes its chat line"))?;
        self.writer.record(&Record::Turns {
            chat,
            from: self.position,
            turns: vec![TurnRecord {
                id: line.id.as_str().into(),
                document: document(&line.document)?,
            }],
        })?;
        self.position += 1;
        self.found.turns += 1;
        Ok(())
    }

    fn action(&mut self, line: &ActionLine) -> Result<(), StoreError> {
        let uri: Arc<str> = line.channel.as_str().into();
        let session = self
            .session
            .clone()
            .ok_or_else(|| refused("an action line precedes the session line"))?;
        let owner = self.writer.cache.get(self.writer.conn, &session)?;
        let mut channel = self
            .writer
            .cache
            .get(self.writer.conn, &uri)?
            .filter(|channel| Some(channel.session) == owner.map(|owner| owner.id))
            .ok_or_else(|| refused(format!("{uri} is not part of the session")))?;
        if line.first > line.seq || Seq(line.seq) <= channel.tail {
            return Err(refused("actions are out of order"));
        }
        let message = bytes(&line.message)?;
        for approval in approvals_in_action(&message) {
            if !self.approvals.contains(&approval) {
                self.approvals.push(approval);
            }
        }
        let row = LogRow {
            channel: channel.id,
            seq: Seq(line.seq),
            first: Seq(line.first),
            previous: channel.tail,
            since: SINCE,
            at_ms: line.at_ms,
        };
        row.write(self.writer.conn, &message)?;
        let length = i64::try_from(message.len()).unwrap_or(i64::MAX);
        channel.tail = Seq(line.seq);
        channel.log_bytes += length;
        self.writer.host.log_bytes += length;
        self.writer.cache.put(&uri, channel);
        self.highest = self.highest.max(line.seq);
        self.found.actions += 1;
        Ok(())
    }

    fn ensure_new(&self, uri: &str) -> Result<(), StoreError> {
        match ChannelRow::by_uri(self.writer.conn, uri)? {
            None => Ok(()),
            Some(_) if deleted::is_deleted(self.writer.conn, uri)? => Err(refused(format!(
                "{uri} exists: it was deleted and can be restored. Nothing was changed; restore it, or delete it with --for-good to replace it"
            ))),
            Some(_) => Err(refused(format!(
                "{uri} exists. Nothing was changed; delete that session first to replace it"
            ))),
        }
    }

    fn finish(self, lines: usize) -> Result<ImportReport, StoreError> {
        let Some(uri) = self.session.filter(|_| self.is_complete) else {
            return Err(at_line(lines + 1, "the end line is missing; the file is incomplete"));
        };
        // Reject implausible numbers: a single wrong digit would use up the sequence numbers of this host.
        let micros = u64::try_from(crate::connection::now_ms())
            .unwrap_or_default()
            .saturating_mul(1000);
        let plausible = self.writer.host.reserved.0.max(micros).saturating_add(1 << 40);
        if self.highest > plausible.min(Seq::MAX.0) {
            return Err(refused("the sequence numbers are implausibly large"));
        }
        if !self.at_rest
            && let Some(session) = self.writer.cache.get(self.writer.conn, &uri)?
        {
            self.writer.cache.unsettle(self.writer.conn, session.id)?;
        }
        // New actions must get higher sequence numbers than the imported ones.
        self.writer.host.reserved = self.writer.host.reserved.max(Seq(self.highest));
        Ok(ImportReport {
            uri: uri.to_string(),
            chats: self.found.chats,
            turns: self.found.turns,
            at_rest: self.at_rest,
            last_seq: Seq(self.highest),
            approvals: self.approvals,
        })
    }
}

fn bytes(content: &Content) -> Result<Vec<u8>, StoreError> {
    content
        .bytes()
        .map_err(|error| refused(format!("invalid base64: {error}")))
}

fn document(content: &Content) -> Result<Document, StoreError> {
    bytes(content).map(Document::ready)
}

fn refused(why: impl Into<String>) -> StoreError {
    StoreError::new(ErrorKind::Refused, why)
}

fn at_line(number: usize, why: &str) -> StoreError {
    refused(format!("line {number}: {why}. Nothing was imported"))
}

//! Exports a session as JSON lines.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use innkeeper_core::records::without_import_mark;
use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::{ErrorKind, StoreError};
use crate::reader::{self, RecentTurns};
use crate::rows::{ChannelKind, ChannelRow, SUMMARY_COLUMNS, SummaryRow};

/// Version of the format.
pub(super) const FORMAT: u32 = 1;

/// Number of turns per read.
const TURNS_PER_READ: usize = 64;

/// One line. The order is: the session, each chat followed by its turns, the actions that are newer than their
/// documents, the end.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum Line {
    Session(SessionLine),
    Chat(ChatLine),
    Turn(TurnLine),
    Action(ActionLine),
    End(EndLine),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SessionLine {
    pub(super) format: u32,
    pub(super) uri: String,
    pub(super) created_ms: i64,
    pub(super) modified_ms: i64,
    pub(super) is_archived: bool,
    pub(super) at_rest: bool,
    pub(super) seq: u64,
    pub(super) summary: Content,
    pub(super) document: Content,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ChatLine {
    pub(super) uri: String,
    pub(super) seq: u64,
    pub(super) document: Content,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TurnLine {
    pub(super) id: String,
    pub(super) document: Content,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ActionLine {
    pub(super) channel: String,
    pub(super) first: u64,
    pub(super) seq: u64,
    pub(super) since: SinceName,
    pub(super) at_ms: i64,
    pub(super) message: Content,
}

/// The last line. Its counts prove that the file is complete.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct EndLine {
    pub(super) chats: usize,
    pub(super) turns: usize,
    pub(super) actions: usize,
}

/// Once told which versions of the protocol know the action; now its type says it, and every line has the same.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) enum SinceName {
    #[serde(rename = "0.9")]
    V0_9,
    #[serde(rename = "1.0")]
    V1_0,
}

/// Stored bytes: JSON if they are JSON on a single line, as nearly always, and base64 otherwise.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Content {
    Json(Box<RawValue>),
    Base64(String),
}

impl Content {
    fn new(bytes: &[u8]) -> Self {
        let is_line = !bytes.contains(&b'\n') && !bytes.contains(&b'\r');
        let is_bare = bytes.trim_ascii().len() == bytes.len();
        let text = std::str::from_utf8(bytes).ok().filter(|_| is_line && is_bare);
        match text.and_then(|text| RawValue::from_string(text.to_owned()).ok()) {
            Some(json) => Self::Json(json),
            None => Self::Base64(STANDARD.encode(bytes)),
        }
    }

    /// Decodes the bytes.
    pub(super) fn bytes(&self) -> Result<Vec<u8>, base64::DecodeError> {
        match self {
            Self::Json(json) => Ok(json.get().as_bytes().to_vec()),
            Self::Base64(text) => STANDARD.decode(text),
        }
    }
}

/// Writes a session.
pub(super) fn export(conn: &Connection, uri: &str, out: &mut dyn Write) -> Result<(), StoreError> {
    // One read transaction, so that a host that writes meanwhile cannot make the export inconsistent.
    let moment = conn.unchecked_transaction()?;
    export_inside(&moment, uri, out)
}

fn export_inside(conn: &Connection, uri: &str, out: &mut dyn Write) -> Result<(), StoreError> {
    let last_turn_only = RecentTurns { turns: 0, bytes: 0 };
    let Some(session) = reader::load_inside(conn, uri, last_turn_only)? else {
        return Err(StoreError::new(
            ErrorKind::NotFound,
            format!("there is no session {uri}"),
        ));
    };
    let (summary, at_rest) = summary(conn, &session.uri)?;
    let mut end = EndLine {
        chats: session.chats.len(),
        turns: 0,
        actions: 0,
    };
    write(
        out,
        &Line::Session(SessionLine {
            format: FORMAT,
            uri: session.uri.clone(),
            created_ms: summary.created_ms,
            modified_ms: summary.modified_ms,
            is_archived: summary.is_archived,
            at_rest,
            seq: session.seq.0,
            summary: Content::new(&summary.body),
            document: Content::new(&without_import_mark(&session.document)),
        }),
    )?;
    let mut chats = session.chats;
    chats.sort_by(|one, other| one.uri.cmp(&other.uri));
    for chat in &chats {
        write(
            out,
            &Line::Chat(ChatLine {
                uri: chat.uri.clone(),
                seq: chat.seq.0,
                document: Content::new(&chat.document),
            }),
        )?;
        for (page, ids) in chat.turns.chunks(TURNS_PER_READ).enumerate() {
            let start = page * TURNS_PER_READ;
            let bodies = reader::turns_inside(conn, &chat.uri, start..start + ids.len())?;
            for (turn, body) in ids.iter().zip(bodies) {
                write_turn(out, &turn.id, &body)?;
                end.turns += 1;
            }
        }
    }
    for frame in &session.log {
        let document = chats
            .iter()
            .find(|chat| *chat.uri == *frame.channel)
            .map_or(session.seq, |chat| chat.seq);
        // Older actions only serve the replay for clients of this host.
        if frame.seq > document {
            write(
                out,
                &Line::Action(ActionLine {
                    channel: frame.channel.to_string(),
                    first: frame.first.0,
                    seq: frame.seq.0,
                    since: SinceName::V0_9,
                    at_ms: frame.at_ms,
                    message: Content::new(&frame.bytes),
                }),
            )?;
            end.actions += 1;
        }
    }
    write(out, &Line::End(end))
}

/// Returns the summary of a session and whether the session is at rest.
pub(crate) fn summary(conn: &Connection, uri: &str) -> Result<(SummaryRow, bool), StoreError> {
    let damaged = || StoreError::damaged(format_args!("the summary of {uri}"));
    let channel = ChannelRow::by_uri(conn, uri)?.ok_or_else(damaged)?;
    if channel.kind == ChannelKind::Draft {
        let why = format!("{uri} is a draft without messages; there is nothing to export");
        return Err(StoreError::new(ErrorKind::Refused, why));
    }
    let mut statement = conn.prepare(&format!("SELECT {SUMMARY_COLUMNS} FROM summary WHERE session = ?1"))?;
    let mut found = statement.query([channel.id])?;
    let summary = SummaryRow::from_row(found.next()?.ok_or_else(damaged)?)?;
    let unsettled: Option<i64> = conn
        .query_row(
            "SELECT session FROM unsettled WHERE session = ?1",
            [channel.id],
            |row| row.get(0),
        )
        .optional()?;
    Ok((summary, unsettled.is_none()))
}

fn write_turn(out: &mut dyn Write, id: &str, body: &Bytes) -> Result<(), StoreError> {
    let turn = TurnLine {
        id: id.to_owned(),
        document: Content::new(body),
    };
    write(out, &Line::Turn(turn))
}

fn write(out: &mut dyn Write, line: &Line) -> Result<(), StoreError> {
    let written = serde_json::to_writer(&mut *out, line)
        .map_err(std::io::Error::from)
        .and_then(|()| out.write_all(b"\n"));
    written.map_err(|error| StoreError::new(ErrorKind::Io, format!("cannot write the export: {error}")))
}

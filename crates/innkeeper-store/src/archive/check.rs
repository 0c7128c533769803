//! Reads the whole file and reports what is wrong.

use innkeeper_core::uri::ROOT;
use rusqlite::Connection;

use crate::error::{ErrorKind, StoreError};
use crate::reader::{self, RecentTurns};
use crate::rows::{CHANNEL_COLUMNS, ChannelKind, ChannelRow, HostRow, SUMMARY_COLUMNS, SummaryRow};
use crate::schema;

/// Number of turns per read.
const TURNS_PER_READ: usize = 64;

/// Maximum number of SQLite messages that are reported.
const MAX_SQLITE_MESSAGES: usize = 20;

/// A problem of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The affected session, if it is a single one.
    pub session: Option<String>,
    /// The problem.
    pub what: String,
    /// Consequence for users.
    pub meaning: String,
    /// Remedy.
    pub remedy: String,
    /// True if data is lost or unreadable; false if it is only information.
    pub is_damage: bool,
}

impl Finding {
    fn in_file(what: impl Into<String>) -> Self {
        Self {
            session: None,
            what: what.into(),
            meaning: "some sessions may be unreadable; the others work".into(),
            remedy: "back up the data directory, export the readable sessions, and import them into a new one".into(),
            is_damage: true,
        }
    }

    fn in_session(uri: &str, error: &StoreError) -> Self {
        Self {
            session: Some(uri.to_owned()),
            what: error.message.clone(),
            meaning: "this session cannot be opened; no other one is affected".into(),
            remedy: "restore the data directory from a backup to get it back, or delete this session".into(),
            is_damage: true,
        }
    }

    /// A harmless leftover.
    fn leftover(what: String) -> Self {
        Self {
            session: None,
            what,
            meaning: "it only takes disk space".into(),
            remedy: "no action is needed".into(),
            is_damage: false,
        }
    }
}

/// Checks everything. Damage becomes a finding, and the check continues.
pub(super) fn check(conn: &Connection) -> Result<Vec<Finding>, StoreError> {
    let mut findings = Vec::new();
    let result = structure(conn, &mut findings);
    file_finding(result, &mut findings)?;
    file_finding(reader::lease(conn, usize::MAX), &mut findings)?;
    let result = sessions(conn, &mut findings);
    let sessions = file_finding(result, &mut findings)?.unwrap_or_default();
    for (uri, _) in &sessions {
        record_damage(session(conn, uri), &mut findings, |error| {
            Finding::in_session(uri, error)
        })?;
    }
    let counted = sessions
        .iter()
        .filter(|(_, kind)| *kind == ChannelKind::Session)
        .count();
    let result = count(conn, counted, &mut findings);
    file_finding(result, &mut findings)?;
    let result = leftovers(conn, &mut findings);
    file_finding(result, &mut findings)?;
    Ok(findings)
}

fn file_finding<T>(result: Result<T, StoreError>, findings: &mut Vec<Finding>) -> Result<Option<T>, StoreError> {
    record_damage(result, findings, |error| Finding::in_file(&error.message))
}

/// Turns damage into a finding; other errors are returned.
fn record_damage<T>(
    result: Result<T, StoreError>,
    findings: &mut Vec<Finding>,
    finding: impl FnOnce(&StoreError) -> Finding,
) -> Result<Option<T>, StoreError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind, ErrorKind::Damaged | ErrorKind::NotFound) => {
            findings.push(finding(&error));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Runs SQLite's own check.
fn structure(conn: &Connection, findings: &mut Vec<Finding>) -> Result<(), StoreError> {
    let version: i32 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version != schema::VERSION {
        findings.push(Finding {
            session: None,
            what: format!(
                "the file has format {version}, and this version of innkeeper writes {}",
                schema::VERSION
            ),
            meaning: "the host migrates it when it starts".into(),
            remedy: "start the host once".into(),
            is_damage: false,
        });
    }
    let quick_check = || -> Result<Vec<String>, StoreError> {
        let mut statement = conn.prepare(&format!("PRAGMA quick_check({MAX_SQLITE_MESSAGES})"))?;
        let lines = statement.query_map([], |row| row.get(0))?;
        Ok(lines.collect::<Result<_, _>>()?)
    };
    let messages = file_finding(quick_check(), findings)?.unwrap_or_default();
    findings.extend(
        messages
            .into_iter()
            .filter(|line| line != "ok")
            .map(|line| Finding::in_file(format!("the structure of the file is damaged: {line}"))),
    );
    Ok(())
}

/// Returns the URIs of all sessions and drafts, and their kinds.
fn sessions(conn: &Connection, findings: &mut Vec<Finding>) -> Result<Vec<(String, ChannelKind)>, StoreError> {
    let mut uris = Vec::new();
    let mut statement = conn.prepare(&format!("SELECT {CHANNEL_COLUMNS} FROM channel ORDER BY id"))?;
    let mut rows = statement.query([])?;
    // Rows after an unreadable page are not found this way.
    while let Some(row) = file_finding(rows.next().map_err(Into::into), findings)?.flatten() {
        let channel = file_finding(ChannelRow::from_row(row), findings)?;
        match channel {
            Some((uri, channel)) if matches!(channel.kind, ChannelKind::Session | ChannelKind::Draft) => {
                uris.push((uri, channel.kind));
            }
            Some((uri, channel)) if channel.kind == ChannelKind::Expected => {
                findings.push(Finding::leftover(format!(
                    "a chat refers to {uri}, which does not exist"
                )));
            }
            Some(_) | None => {}
        }
    }
    Ok(uris)
}

/// Reads a complete session.
fn session(conn: &Connection, uri: &str) -> Result<(), StoreError> {
    let missing = || StoreError::damaged(format_args!("the index entry of {uri}"));
    let last_turn_only = RecentTurns { turns: 0, bytes: 0 };
    let session = reader::load(conn, uri, last_turn_only)?.ok_or_else(missing)?;
    let channel = ChannelRow::by_uri(conn, uri)?.ok_or_else(missing)?;
    let mut statement = conn.prepare_cached(&format!("SELECT {SUMMARY_COLUMNS} FROM summary WHERE session = ?1"))?;
    let mut rows = statement.query([channel.id])?;
    match rows.next()? {
        Some(row) if channel.kind == ChannelKind::Session => drop(SummaryRow::from_row(row)?),
        None if channel.kind == ChannelKind::Draft => {}
        Some(_) | None => return Err(StoreError::damaged(format_args!("the summary of {uri}"))),
    }
    for chat in &session.chats {
        for (page, turns) in chat.turns.chunks(TURNS_PER_READ).enumerate() {
            let start = page * TURNS_PER_READ;
            reader::turns(conn, &chat.uri, start..start + turns.len())?;
        }
    }
    Ok(())
}

/// Compares the stored number of sessions with those that can be opened and listed.
fn count(conn: &Connection, sessions: usize, findings: &mut Vec<Finding>) -> Result<(), StoreError> {
    let Ok(host) = HostRow::read(conn) else { return Ok(()) };
    let listed: i64 = conn.query_row(
        "SELECT count(*) FROM (SELECT uri FROM summary INDEXED BY summary_by_time)",
        [],
        |row| row.get(0),
    )?;
    for (number, where_found) in [
        (i64::try_from(sessions).unwrap_or(i64::MAX), "can be opened"),
        (listed, "are listed"),
    ] {
        if number != host.sessions {
            findings.push(Finding::in_file(format!(
                "{} sessions are recorded, but {number} {where_found}",
                host.sessions
            )));
        }
    }
    Ok(())
}

/// Reports rows without an owner.
fn leftovers(conn: &Connection, findings: &mut Vec<Finding>) -> Result<(), StoreError> {
    let orphans = [
        (
            "document",
            "SELECT count(*) FROM document WHERE channel NOT IN (SELECT id FROM channel)",
        ),
        (
            "log",
            "SELECT count(*) FROM log WHERE channel NOT IN (SELECT id FROM channel)",
        ),
        (
            "summary",
            "SELECT count(*) FROM summary WHERE session NOT IN (SELECT id FROM channel)",
        ),
        (
            "turn",
            "SELECT count(*) FROM turn WHERE chat NOT IN (SELECT id FROM channel)",
        ),
        (
            "body",
            "SELECT count(*) FROM body WHERE id NOT IN (SELECT body FROM turn) AND id NOT IN (SELECT body FROM garbage)",
        ),
    ];
    for (table, query) in orphans {
        let count = conn
            .query_row(query, [], |row| row.get::<_, i64>(0))
            .map_err(Into::into);
        let count = file_finding(count, findings)?;
        if let Some(count @ 1..) = count {
            findings.push(Finding::leftover(format!(
                "{count} rows of the table {table} have no owner"
            )));
        }
    }
    let root: i64 = conn.query_row("SELECT count(*) FROM channel WHERE uri = ?1", [ROOT], |row| row.get(0))?;
    if root != 1 {
        findings.push(Finding::in_file("the row of the root channel is missing"));
    }
    Ok(())
}

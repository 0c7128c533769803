//! Reading everything, to say what is wrong with it.

use innkeeper_core::uri::ROOT;
use rusqlite::Connection;

use crate::error::{ErrorKind, StoreError};
use crate::reader::{self, Recent};
use crate::rows::{CHANNEL_COLUMNS, ChannelRow, HostRow, Kind, SUMMARY_COLUMNS, SummaryRow};
use crate::schema;

/// How many turns are read at a time.
const PAGE: usize = 64;

/// How many complaints of SQLite are passed on.
const COMPLAINTS: usize = 20;

/// Something that is wrong with the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The session it concerns, if it concerns one.
    pub session: Option<String>,
    /// What is wrong.
    pub what: String,
    /// What that means for people.
    pub meaning: String,
    /// What can be done about it.
    pub remedy: String,
    /// Whether something is lost or cannot be read; otherwise it is merely worth knowing.
    pub is_damage: bool,
}

impl Finding {
    fn of_the_file(what: impl Into<String>) -> Self {
        Self {
            session: None,
            what: what.into(),
            meaning: "some sessions may be unreadable; the others go on working".into(),
            remedy:
                "keep a copy of the data directory, export what can still be exported, and import it into a new one"
                    .into(),
            is_damage: true,
        }
    }

    fn of_a_session(uri: &str, error: &StoreError) -> Self {
        Self {
            session: Some(uri.to_owned()),
            what: error.message.clone(),
            meaning: "this session cannot be opened; no other one is affected".into(),
            remedy: "restore the data directory from a backup to get it back, or delete this session".into(),
            is_damage: true,
        }
    }

    /// What is in nobody's way.
    fn of_leftovers(what: String) -> Self {
        Self {
            session: None,
            what,
            meaning: "it takes room, and nothing else".into(),
            remedy: "nothing has to be done".into(),
            is_damage: false,
        }
    }
}

/// Looks at everything. Whatever is damaged is a finding, and the rest is looked at all the same.
pub(super) fn check(conn: &Connection) -> Result<Vec<Finding>, StoreError> {
    let mut findings = Vec::new();
    let result = structure(conn, &mut findings);
    of_the_file(result, &mut findings)?;
    of_the_file(reader::lease(conn, usize::MAX), &mut findings)?;
    let result = sessions(conn, &mut findings);
    let sessions = of_the_file(result, &mut findings)?.unwrap_or_default();
    for (uri, _) in &sessions {
        found(session(conn, uri), &mut findings, |error| {
            Finding::of_a_session(uri, error)
        })?;
    }
    let counted = sessions.iter().filter(|(_, kind)| *kind == Kind::Session).count();
    let result = count(conn, counted, &mut findings);
    of_the_file(result, &mut findings)?;
    let result = leftovers(conn, &mut findings);
    of_the_file(result, &mut findings)?;
    Ok(findings)
}

fn of_the_file<T>(result: Result<T, StoreError>, findings: &mut Vec<Finding>) -> Result<Option<T>, StoreError> {
    found(result, findings, |error| Finding::of_the_file(&error.message))
}

/// Damage becomes a finding; everything else is an error.
fn found<T>(
    result: Result<T, StoreError>,
    findings: &mut Vec<Finding>,
    finding: impl FnOnce(&StoreError) -> Finding,
) -> Result<Option<T>, StoreError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind, ErrorKind::Damaged | ErrorKind::NotThere) => {
            findings.push(finding(&error));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// What SQLite itself finds.
fn structure(conn: &Connection, findings: &mut Vec<Finding>) -> Result<(), StoreError> {
    let version: i32 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version != schema::VERSION {
        findings.push(Finding {
            session: None,
            what: format!(
                "the file has format {version}, and this version of innkeeper writes {}",
                schema::VERSION
            ),
            meaning: "the host brings it to the new format when it starts".into(),
            remedy: "start the host once".into(),
            is_damage: false,
        });
    }
    let complain = || -> Result<Vec<String>, StoreError> {
        let mut statement = conn.prepare(&format!("PRAGMA quick_check({COMPLAINTS})"))?;
        let lines = statement.query_map([], |row| row.get(0))?;
        Ok(lines.collect::<Result<_, _>>()?)
    };
    let complaints = of_the_file(complain(), findings)?.unwrap_or_default();
    findings.extend(
        complaints
            .into_iter()
            .filter(|line| line != "ok")
            .map(|line| Finding::of_the_file(format!("the structure of the file is damaged: {line}"))),
    );
    Ok(())
}

/// The URIs of all sessions and drafts, however they are found.
fn sessions(conn: &Connection, findings: &mut Vec<Finding>) -> Result<Vec<(String, Kind)>, StoreError> {
    let mut uris = Vec::new();
    let mut statement = conn.prepare(&format!("SELECT {CHANNEL_COLUMNS} FROM channel ORDER BY id"))?;
    let mut rows = statement.query([])?;
    // What comes after a place that cannot be read is not found this way.
    while let Some(row) = of_the_file(rows.next().map_err(Into::into), findings)?.flatten() {
        let channel = of_the_file(ChannelRow::from_row(row), findings)?;
        match channel {
            Some((uri, channel)) if matches!(channel.kind, Kind::Session | Kind::Draft) => {
                uris.push((uri, channel.kind));
            }
            Some((uri, channel)) if channel.kind == Kind::Expected => {
                findings.push(Finding::of_leftovers(format!(
                    "{uri} is named by a chat, but is not there"
                )));
            }
            Some(_) | None => {}
        }
    }
    Ok(uris)
}

/// Reads a session as a whole.
fn session(conn: &Connection, uri: &str) -> Result<(), StoreError> {
    let missing = || StoreError::damaged(format_args!("the way to {uri}"));
    let nothing_but_the_last = Recent { turns: 0, bytes: 0 };
    let session = reader::load(conn, uri, nothing_but_the_last)?.ok_or_else(missing)?;
    let channel = ChannelRow::by_uri(conn, uri)?.ok_or_else(missing)?;
    let mut statement = conn.prepare_cached(&format!("SELECT {SUMMARY_COLUMNS} FROM summary WHERE session = ?1"))?;
    let mut rows = statement.query([channel.id])?;
    match rows.next()? {
        Some(row) if channel.kind == Kind::Session => drop(SummaryRow::from_row(row)?),
        None if channel.kind == Kind::Draft => {}
        Some(_) | None => return Err(StoreError::damaged(format_args!("what lists show of {uri}"))),
    }
    for chat in &session.chats {
        for (page, turns) in chat.turns.chunks(PAGE).enumerate() {
            let start = page * PAGE;
            reader::turns(conn, &chat.uri, start..start + turns.len())?;
        }
    }
    Ok(())
}

/// Whether as many sessions are found as there should be, in every way in which they are found.
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
            findings.push(Finding::of_the_file(format!(
                "{} sessions were kept, and {number} {where_found}",
                host.sessions
            )));
        }
    }
    Ok(())
}

/// Rows that belong to nothing.
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
        let count = of_the_file(count, findings)?;
        if let Some(count @ 1..) = count {
            findings.push(Finding::of_leftovers(format!(
                "{count} rows of the table {table} belong to nothing"
            )));
        }
    }
    let root: i64 = conn.query_row("SELECT count(*) FROM channel WHERE uri = ?1", [ROOT], |row| row.get(0))?;
    if root != 1 {
        findings.push(Finding::of_the_file("the entry of the host itself is missing"));
    }
    Ok(())
}

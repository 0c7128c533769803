//! Selects the sessions that a retention policy removes.

use innkeeper_core::request::OnlyIf;
use rusqlite::{Connection, OptionalExtension as _};

use crate::error::{ErrorKind, StoreError};
use crate::writer::deleted;

/// A retention policy. Each limit selects sessions; without a limit none is selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetentionPolicy {
    /// Selects sessions that have not changed since this time, in milliseconds since 1970.
    pub unchanged_since_ms: Option<i64>,
    /// Selects the oldest sessions until the others take at most this many bytes.
    pub total_bytes: Option<u64>,
    /// Selects archived sessions only.
    pub archived_only: bool,
}

/// A session that was or would be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrunedSession {
    /// Its URI.
    pub uri: String,
    /// Time of the last change, in milliseconds since 1970.
    pub modified_ms: i64,
    /// Size in bytes.
    pub bytes: u64,
    /// The limit that it exceeds, as text.
    pub reason: String,
    /// Condition for the removal, because the session may change after it was selected.
    pub only_if: OnlyIf,
    /// Whether the session was deleted before and is now removed permanently.
    pub is_deleted: bool,
}

/// A session to decide about.
struct Candidate {
    uri: String,
    modified_ms: i64,
    is_removable: bool,
    bytes: u64,
    is_deleted: bool,
}

/// Returns the sessions that a policy selects, the oldest first. Sessions with running work are not selected. Deleted
/// sessions count towards the total size and are selected first.
pub(super) fn choose(conn: &Connection, policy: &RetentionPolicy) -> Result<Vec<PrunedSession>, StoreError> {
    let mut candidates = candidates(conn, policy)?;
    if deleted::is_known(conn)? {
        candidates.splice(..0, deleted_candidates(conn)?);
    }
    let mut total: u64 = candidates.iter().map(|candidate| candidate.bytes).sum();
    let mut chosen = Vec::new();
    for candidate in candidates {
        // The age limit applies to the last change, which does not matter for deleted sessions.
        let is_old = policy
            .unchanged_since_ms
            .is_some_and(|moment| candidate.modified_ms < moment && !candidate.is_deleted);
        let is_too_much = policy.total_bytes.is_some_and(|bytes| total > bytes);
        if !candidate.is_removable || !(is_old || is_too_much) {
            continue;
        }
        total -= candidate.bytes;
        let reason = if is_old {
            "it exceeds the age limit"
        } else {
            "all sessions together exceed the size limit"
        };
        chosen.push(PrunedSession {
            uri: candidate.uri,
            modified_ms: candidate.modified_ms,
            bytes: candidate.bytes,
            reason: reason.into(),
            only_if: OnlyIf {
                modified_ms: Some(candidate.modified_ms),
                is_archived: policy.archived_only,
            },
            is_deleted: candidate.is_deleted,
        });
    }
    Ok(chosen)
}

fn candidates(conn: &Connection, policy: &RetentionPolicy) -> Result<Vec<Candidate>, StoreError> {
    let mut statement = conn.prepare(
        "SELECT summary.uri, summary.modified_ms, summary.is_archived, \
         EXISTS (SELECT 1 FROM unsettled WHERE unsettled.session = summary.session), \
         length(summary.body) + (SELECT sum(channel.log_bytes \
            + coalesce((SELECT length(body) FROM document WHERE document.channel = channel.id), 0) \
            + coalesce((SELECT sum(bytes) FROM turn WHERE turn.chat = channel.id), 0)) \
          FROM channel WHERE channel.session = summary.session) \
         FROM summary ORDER BY summary.modified_ms, summary.uri",
    )?;
    let found = statement.query_map([], |row| {
        let (is_archived, is_unsettled): (bool, bool) = (row.get(2)?, row.get(3)?);
        Ok(Candidate {
            uri: row.get(0)?,
            modified_ms: row.get(1)?,
            is_removable: !is_unsettled && (is_archived || !policy.archived_only),
            bytes: u64::try_from(row.get::<_, i64>(4)?).unwrap_or_default(),
            is_deleted: false,
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Returns the deleted sessions, the earliest deletion first.
fn deleted_candidates(conn: &Connection) -> Result<Vec<Candidate>, StoreError> {
    let mut statement = conn.prepare(
        "SELECT deleted.uri, deleted.modified_ms, \
         length(deleted.body) + (SELECT sum(channel.log_bytes \
            + coalesce((SELECT length(body) FROM document WHERE document.channel = channel.id), 0) \
            + coalesce((SELECT sum(bytes) FROM turn WHERE turn.chat = channel.id), 0)) \
          FROM channel WHERE channel.session = deleted.session) \
         FROM deleted ORDER BY deleted.deleted_ms, deleted.uri",
    )?;
    let found = statement.query_map([], |row| {
        Ok(Candidate {
            uri: row.get(0)?,
            modified_ms: row.get(1)?,
            is_removable: true,
            bytes: u64::try_from(row.get::<_, i64>(2)?).unwrap_or_default(),
            is_deleted: true,
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Fails if the session has running work or has changed since it was selected.
pub(super) fn check(conn: &Connection, uri: &str, only_if: OnlyIf) -> Result<(), StoreError> {
    let found = conn
        .prepare_cached(
            "SELECT modified_ms, is_archived, \
             EXISTS (SELECT 1 FROM unsettled WHERE unsettled.session = summary.session) \
             FROM summary WHERE uri = ?1",
        )?
        .query_row([uri], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let why = match found {
        None => None,
        Some((_, _, true)) => Some("is in use"),
        Some((modified_ms, is_archived, false)) => only_if.refuses(modified_ms, is_archived),
    };
    match why {
        Some(why) => Err(StoreError::new(
            ErrorKind::Refused,
            format!("the session {uri:?} {why}; select it again to remove it as it is now"),
        )),
        None => Ok(()),
    }
}

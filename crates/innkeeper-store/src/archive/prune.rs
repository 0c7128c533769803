//! Which sessions may go, where somebody asked for that.

use innkeeper_core::request::OnlyIf;
use rusqlite::{Connection, OptionalExtension as _};

use crate::error::{ErrorKind, StoreError};
use crate::writer::deleted;

/// Which sessions may go. Every limit that is set makes more of them go; without any, none does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetentionPolicy {
    /// Those that did not change since this moment, in milliseconds since 1970.
    pub unchanged_since_ms: Option<i64>,
    /// The oldest ones, until all of them together take no more than this.
    pub total_bytes: Option<u64>,
    /// Only those that people put away.
    pub archived_only: bool,
}

/// A session that went, or would go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrunedSession {
    /// Its URI.
    pub uri: String,
    /// When it last changed, in milliseconds since 1970.
    pub modified_ms: i64,
    /// How many bytes it takes.
    pub bytes: u64,
    /// Which limit it exceeds, in words.
    pub reason: String,
    /// What has to be so still when it goes: choosing and removing are two steps.
    pub only_if: OnlyIf,
    /// Whether it was deleted before, and goes for good.
    pub is_deleted: bool,
}

/// What decides about a session.
struct Candidate {
    uri: String,
    modified_ms: i64,
    is_removable: bool,
    bytes: u64,
    is_deleted: bool,
}

/// Names the sessions that a policy lets go, the oldest first. One that runs something stays. Deleted ones count, and go
/// before any other when all of them together take too much.
pub(super) fn choose(conn: &Connection, policy: &RetentionPolicy) -> Result<Vec<PrunedSession>, StoreError> {
    let mut candidates = candidates(conn, policy)?;
    if deleted::is_known(conn)? {
        candidates.splice(..0, deleted_candidates(conn)?);
    }
    let mut total: u64 = candidates.iter().map(|candidate| candidate.bytes).sum();
    let mut chosen = Vec::new();
    for candidate in candidates {
        // A deleted session goes by the time of its deletion, not of its last change.
        let is_old = policy
            .unchanged_since_ms
            .is_some_and(|moment| candidate.modified_ms < moment && !candidate.is_deleted);
        let is_too_much = policy.total_bytes.is_some_and(|bytes| total > bytes);
        if !candidate.is_removable || !(is_old || is_too_much) {
            continue;
        }
        total -= candidate.bytes;
        let reason = if is_old {
            "it has not changed for long enough"
        } else {
            "all sessions together take too much"
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

/// The deleted sessions, the earliest deletion first.
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

/// Refuses to let a session go in which something runs, or which is no longer what it was when it
/// was chosen.
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
            format!("the session {uri:?} {why}; choose again if it is to go as it is now"),
        )),
        None => Ok(()),
    }
}

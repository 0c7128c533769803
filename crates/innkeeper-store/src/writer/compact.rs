//! Compaction: drops actions and bodies that are no longer needed, in small steps, so that acknowledgements are not
//! delayed.

use innkeeper_core::Seq;
use rusqlite::{Connection, params};

use super::channel_cache::ChannelCache;
use crate::error::StoreError;
use crate::options::ReplayLimits;
use crate::rows::{self, HostRow};

/// Limits of one step.
const MAX_STEP_ROWS: usize = 256;
const MAX_STEP_BODIES: usize = 64;

/// Runs one step inside a transaction. Returns true if there may be more to do.
pub(crate) fn step(
    conn: &Connection,
    cache: &mut ChannelCache,
    host: &mut HostRow,
    limits: &ReplayLimits,
    now_ms: i64,
) -> Result<bool, StoreError> {
    let bodies = sweep(conn)?;
    let old = drop_old_actions(conn, cache, host, limits, now_ms)?;
    let long = shorten_long_logs(conn, cache, host, limits)?;
    if old || long {
        cache.write(conn)?;
        host.write(conn)?;
    }
    Ok(bodies || old || long)
}

/// Returns true if a step would find anything. Writes nothing.
pub(crate) fn is_due(
    conn: &Connection,
    cache: &ChannelCache,
    host: &HostRow,
    limits: &ReplayLimits,
    now_ms: i64,
) -> Result<bool, StoreError> {
    let garbage: bool = conn
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM garbage)")?
        .query_row([], |row| row.get(0))?;
    let excess = host.log_bytes > i64::try_from(limits.total_bytes).unwrap_or(i64::MAX);
    let oldest: bool = conn
        .prepare_cached("SELECT coalesce((SELECT at_ms FROM log ORDER BY id LIMIT 1) < ?1, 0)")?
        .query_row([oldest_ms(limits, now_ms)], |row| row.get(0))?;
    Ok(garbage || excess || oldest || !cache.long_logs().is_empty())
}

fn oldest_ms(limits: &ReplayLimits, now_ms: i64) -> i64 {
    now_ms.saturating_sub(i64::try_from(limits.age.as_millis()).unwrap_or(i64::MAX))
}

/// Removes bodies without references.
pub(crate) fn sweep(conn: &Connection) -> Result<bool, StoreError> {
    let marked: Vec<i64> = conn
        .prepare_cached("SELECT body FROM garbage LIMIT ?1")?
        .query_map([MAX_STEP_BODIES as i64], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for body in &marked {
        conn.prepare_cached("DELETE FROM body WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM turn WHERE turn.body = ?1)")?
            .execute([body])?;
        conn.prepare_cached("DELETE FROM garbage WHERE body = ?1")?
            .execute([body])?;
    }
    Ok(!marked.is_empty())
}

/// A row that may be dropped.
struct Candidate {
    id: i64,
    seq: Seq,
    uri: String,
    at_ms: i64,
    bytes: i64,
    /// Whether the channel's document includes it.
    is_folded: bool,
}

const CANDIDATE: &str = "SELECT log.id, log.seq, channel.uri, log.at_ms, length(log.body), \
                         coalesce(document.seq >= log.seq, 0) FROM log JOIN channel ON channel.id = log.channel \
                         LEFT JOIN document ON document.channel = log.channel";

fn candidates(conn: &Connection, rest: &str, parameter: i64) -> Result<Vec<Candidate>, StoreError> {
    let mut statement = conn.prepare_cached(&format!("{CANDIDATE} {rest} LIMIT {MAX_STEP_ROWS}"))?;
    let found = statement.query_map([parameter], |row| {
        Ok(Candidate {
            id: row.get(0)?,
            seq: rows::seq(row, 1)?,
            uri: row.get(2)?,
            at_ms: row.get(3)?,
            bytes: row.get(4)?,
            is_folded: row.get(5)?,
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Drops the oldest rows while they exceed the age or the total size. Rows are dropped in insertion order, so that a
/// log never has a gap, whatever the clock does (F8).
fn drop_old_actions(
    conn: &Connection,
    cache: &mut ChannelCache,
    host: &mut HostRow,
    limits: &ReplayLimits,
    now_ms: i64,
) -> Result<bool, StoreError> {
    let oldest = oldest_ms(limits, now_ms);
    let total = i64::try_from(limits.total_bytes).unwrap_or(i64::MAX);
    let mut dropped = false;
    let mut after = 0;
    loop {
        let found = candidates(conn, "WHERE log.id > ?1 ORDER BY log.id", after)?;
        let Some(last) = found.last() else { return Ok(dropped) };
        after = last.id;
        for candidate in &found {
            // Restoring the session needs this row and everything after it.
            if !candidate.is_folded {
                continue;
            }
            if candidate.at_ms >= oldest && host.log_bytes <= total {
                return Ok(dropped);
            }
            drop_action(conn, cache, host, candidate)?;
            dropped = true;
        }
        if dropped || found.len() < MAX_STEP_ROWS {
            return Ok(dropped);
        }
    }
}

/// Shortens logs that exceed their share.
fn shorten_long_logs(
    conn: &Connection,
    cache: &mut ChannelCache,
    host: &mut HostRow,
    limits: &ReplayLimits,
) -> Result<bool, StoreError> {
    let share = i64::try_from(limits.channel_bytes).unwrap_or(i64::MAX);
    let mut dropped = false;
    for uri in cache.long_logs() {
        let Some(channel) = cache.get(conn, &uri)? else {
            continue;
        };
        let mut excess = channel.log_bytes - share;
        for candidate in candidates(conn, "WHERE log.channel = ?1 ORDER BY log.seq", channel.id)? {
            if !candidate.is_folded || excess <= 0 {
                break;
            }
            drop_action(conn, cache, host, &candidate)?;
            excess -= candidate.bytes;
            dropped = true;
        }
    }
    Ok(dropped)
}

fn drop_action(
    conn: &Connection,
    cache: &mut ChannelCache,
    host: &mut HostRow,
    candidate: &Candidate,
) -> Result<(), StoreError> {
    tracing::trace!(uri = candidate.uri, seq = %candidate.seq, "dropping an action beyond the replay window");
    conn.prepare_cached("DELETE FROM log WHERE id = ?1")?
        .execute(params![candidate.id])?;
    host.log_bytes -= candidate.bytes;
    if let Some(mut channel) = cache.get(conn, &candidate.uri)? {
        channel.log_bytes -= candidate.bytes;
        cache.put(&candidate.uri.as_str().into(), channel);
    }
    Ok(())
}

/// Removes the clients that have been absent the longest.
pub(crate) fn forget_clients(conn: &Connection, remembered: usize) -> Result<(), StoreError> {
    conn.prepare_cached(
        "DELETE FROM client WHERE touched <= (SELECT touched FROM client ORDER BY touched DESC LIMIT 1 OFFSET ?1)",
    )?
    .execute([i64::try_from(remembered).unwrap_or(i64::MAX)])?;
    Ok(())
}

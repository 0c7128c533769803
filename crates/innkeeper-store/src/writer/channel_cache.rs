//! A cache of recently written channels, so that an action costs one insert.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rusqlite::Connection;

use crate::error::StoreError;
use crate::rows::ChannelRow;

/// Maximum number of cached channels.
const MAX_CACHED: usize = 8192;

/// Pending rows of `channel` and the sessions marked as unsettled.
#[derive(Debug, Default)]
pub(crate) struct ChannelCache {
    channels: HashMap<Arc<str>, ChannelRow>,
    changed: HashSet<Arc<str>>,
    unsettled: HashSet<i64>,
    next_id: Option<i64>,
    /// Channels whose logs exceed `share` bytes.
    long: HashSet<Arc<str>>,
    share: i64,
}

impl ChannelCache {
    /// Creates an empty cache. Channels whose logs exceed `share` are tracked.
    pub(crate) fn new(share: u64) -> Self {
        Self {
            share: i64::try_from(share).unwrap_or(i64::MAX),
            ..Self::default()
        }
    }

    /// Clears the cache after a rollback.
    pub(crate) fn reset(&mut self) {
        let share = self.share;
        *self = Self {
            share,
            ..Self::default()
        };
    }

    /// Returns the channels whose logs exceed their share.
    pub(crate) fn long_logs(&self) -> Vec<Arc<str>> {
        self.long.iter().map(Arc::clone).collect()
    }

    /// Returns a channel.
    pub(crate) fn get(&mut self, conn: &Connection, uri: &str) -> Result<Option<ChannelRow>, StoreError> {
        if let Some(channel) = self.channels.get(uri) {
            return Ok(Some(*channel));
        }
        let found = ChannelRow::by_uri(conn, uri)?;
        if let Some(channel) = found {
            self.channels.insert(uri.into(), channel);
        }
        Ok(found)
    }

    /// Updates a channel. It is written at the end of the transaction.
    pub(crate) fn put(&mut self, uri: &Arc<str>, channel: ChannelRow) {
        if channel.log_bytes > self.share {
            self.long.insert(Arc::clone(uri));
        } else if !self.long.is_empty() {
            self.long.remove(uri);
        }
        self.channels.insert(Arc::clone(uri), channel);
        self.changed.insert(Arc::clone(uri));
    }

    /// Removes channels.
    pub(crate) fn forget(&mut self, is_gone: impl Fn(&ChannelRow) -> bool) {
        let (changed, long) = (&mut self.changed, &mut self.long);
        self.channels.retain(|uri, channel| {
            let is_gone = is_gone(channel);
            if is_gone {
                changed.remove(uri);
                long.remove(uri);
            }
            !is_gone
        });
    }

    /// Returns the id for a new channel.
    pub(crate) fn new_id(&mut self, conn: &Connection) -> Result<i64, StoreError> {
        let id = match self.next_id {
            Some(id) => id,
            None => conn.query_row("SELECT coalesce(max(id), 0) + 1 FROM channel", [], |row| row.get(0))?,
        };
        self.next_id = Some(id + 1);
        Ok(id)
    }

    /// Marks a session as unsettled.
    pub(crate) fn unsettle(&mut self, conn: &Connection, session: i64) -> Result<(), StoreError> {
        if self.unsettled.insert(session) {
            conn.prepare_cached("INSERT OR IGNORE INTO unsettled VALUES (?1)")?
                .execute([session])?;
        }
        Ok(())
    }

    /// Marks a session as at rest.
    pub(crate) fn settle(&mut self, conn: &Connection, session: i64) -> Result<(), StoreError> {
        self.unsettled.remove(&session);
        conn.prepare_cached("DELETE FROM unsettled WHERE session = ?1")?
            .execute([session])?;
        Ok(())
    }

    /// Writes the changed rows.
    pub(crate) fn write(&mut self, conn: &Connection) -> Result<(), StoreError> {
        for uri in self.changed.drain() {
            if let Some(channel) = self.channels.get(&uri) {
                channel.update(conn, &uri)?;
            }
        }
        if self.channels.len() > MAX_CACHED {
            self.channels.clear();
        }
        if self.unsettled.len() > MAX_CACHED {
            self.unsettled.clear();
        }
        Ok(())
    }
}

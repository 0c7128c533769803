//! The channels that were written to lately, so that an action costs one insert.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rusqlite::Connection;

use crate::error::StoreError;
use crate::rows::ChannelRow;

/// How many channels are remembered. More are looked up again.
const MAX_CACHED: usize = 8192;

/// Rows of `channel` as they will be when the transaction ends, and which sessions are marked.
#[derive(Debug, Default)]
pub(crate) struct ChannelCache {
    channels: HashMap<Arc<str>, ChannelRow>,
    changed: HashSet<Arc<str>>,
    unsettled: HashSet<i64>,
    next_id: Option<i64>,
    /// Channels whose logs take more than `share` bytes.
    long: HashSet<Arc<str>>,
    share: i64,
}

impl ChannelCache {
    /// Knows nothing yet. Logs that grow beyond a share are noted.
    pub(crate) fn new(share: u64) -> Self {
        Self {
            share: i64::try_from(share).unwrap_or(i64::MAX),
            ..Self::default()
        }
    }

    /// Forgets everything: the transaction did not happen.
    pub(crate) fn reset(&mut self) {
        let share = self.share;
        *self = Self {
            share,
            ..Self::default()
        };
    }

    /// The channels that take more than their share.
    pub(crate) fn long_logs(&self) -> Vec<Arc<str>> {
        self.long.iter().map(Arc::clone).collect()
    }

    /// Finds a channel.
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

    /// Changes a channel; it is written when the transaction ends.
    pub(crate) fn put(&mut self, uri: &Arc<str>, channel: ChannelRow) {
        if channel.log_bytes > self.share {
            self.long.insert(Arc::clone(uri));
        } else if !self.long.is_empty() {
            self.long.remove(uri);
        }
        self.channels.insert(Arc::clone(uri), channel);
        self.changed.insert(Arc::clone(uri));
    }

    /// Channels go.
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

    /// The id of a new channel.
    pub(crate) fn new_id(&mut self, conn: &Connection) -> Result<i64, StoreError> {
        let id = match self.next_id {
            Some(id) => id,
            None => conn.query_row("SELECT coalesce(max(id), 0) + 1 FROM channel", [], |row| row.get(0))?,
        };
        self.next_id = Some(id + 1);
        Ok(id)
    }

    /// Something happened in a session.
    pub(crate) fn unsettle(&mut self, conn: &Connection, session: i64) -> Result<(), StoreError> {
        if self.unsettled.insert(session) {
            conn.prepare_cached("INSERT OR IGNORE INTO unsettled VALUES (?1)")?
                .execute([session])?;
        }
        Ok(())
    }

    /// Nothing runs in a session any more.
    pub(crate) fn settle(&mut self, conn: &Connection, session: i64) -> Result<(), StoreError> {
        self.unsettled.remove(&session);
        conn.prepare_cached("DELETE FROM unsettled WHERE session = ?1")?
            .execute([session])?;
        Ok(())
    }

    /// Writes what changed.
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

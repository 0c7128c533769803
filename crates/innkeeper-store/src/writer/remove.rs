//! Removes sessions, chats and turns. Large bodies are removed later by compaction.

use std::sync::Arc;

use innkeeper_core::Seq;
use rusqlite::{OptionalExtension as _, params};

use super::apply::GroupWriter;
use crate::error::{ErrorKind, StoreError};
use crate::rows::{ChannelKind, ChannelRow};

impl GroupWriter<'_> {
    /// Removes a session with its chats, turns and logs.
    pub(crate) fn remove_session(&mut self, uri: &Arc<str>) -> Result<(), StoreError> {
        let found = match self.cache.get(self.conn, uri) {
            // A session with a damaged row can be removed if its id and kind are consistent.
            Err(error) if error.kind == ErrorKind::Damaged => Some(self.damaged_entry(uri)?.ok_or(error)?),
            found => found?,
        };
        let Some(session) = found else {
            return Ok(());
        };
        if session.kind == ChannelKind::Chat || session.kind == ChannelKind::Root {
            return Ok(());
        }
        // Write the cache first, so that the query sees chats that were moved.
        self.cache.write(self.conn)?;
        let channels: Vec<(i64, i64)> = self
            .conn
            .prepare_cached("SELECT id, log_bytes FROM channel WHERE session = ?1")?
            .query_map([session.id], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        for (id, log_bytes) in channels {
            self.remove_rows(id)?;
            self.host.log_bytes -= log_bytes;
        }
        self.conn
            .prepare_cached("DELETE FROM summary WHERE session = ?1")?
            .execute([session.id])?;
        if session.kind == ChannelKind::Deleted {
            self.forget_deletion(session.id)?;
        }
        self.cache.settle(self.conn, session.id)?;
        self.conn
            .prepare_cached("DELETE FROM channel WHERE session = ?1")?
            .execute([session.id])?;
        if session.kind == ChannelKind::Session {
            self.host.sessions -= 1;
        }
        self.cache.forget(|channel: &ChannelRow| channel.session == session.id);
        Ok(())
    }

    /// Returns the row of a damaged session if its id and kind are consistent.
    fn damaged_entry(&self, uri: &str) -> Result<Option<ChannelRow>, StoreError> {
        let entry = self
            .conn
            .prepare_cached("SELECT id, kind FROM channel WHERE uri = ?1 AND kind IN (?2, ?3) AND session = id")?
            .query_row(
                params![uri, ChannelKind::Session.number(), ChannelKind::Draft.number()],
                |row| {
                    let id = row.get(0)?;
                    let is_draft = row.get::<_, i64>(1)? == ChannelKind::Draft.number();
                    Ok(ChannelRow {
                        id,
                        kind: if is_draft {
                            ChannelKind::Draft
                        } else {
                            ChannelKind::Session
                        },
                        session: id,
                        tail: Seq(0),
                        log_bytes: 0,
                        parts: 0,
                    })
                },
            );
        Ok(entry.optional()?)
    }

    /// Removes a chat with its turns and its log.
    pub(crate) fn remove_chat(&mut self, uri: &Arc<str>) -> Result<(), StoreError> {
        let Some(chat) = self.cache.get(self.conn, uri)? else {
            return Ok(());
        };
        if chat.kind != ChannelKind::Chat {
            return Ok(());
        }
        self.remove_rows(chat.id)?;
        self.host.log_bytes -= chat.log_bytes;
        self.count_chats(chat.session, -1)?;
        self.cache.forget(|channel: &ChannelRow| channel.id == chat.id);
        self.conn
            .prepare_cached("DELETE FROM channel WHERE id = ?1")?
            .execute([chat.id])?;
        Ok(())
    }

    /// Removes the rows of one channel.
    fn remove_rows(&mut self, channel: i64) -> Result<(), StoreError> {
        self.remove_turns(channel, 0)?;
        for statement in [
            "DELETE FROM log WHERE channel = ?1",
            "DELETE FROM document WHERE channel = ?1",
        ] {
            self.conn.prepare_cached(statement)?.execute([channel])?;
        }
        Ok(())
    }

    /// Removes the turns of a chat from a position on. Their bodies may be large or shared with another chat, so they
    /// are only marked.
    pub(crate) fn remove_turns(&mut self, chat: i64, from: i64) -> Result<(), StoreError> {
        self.conn
            .prepare_cached("INSERT OR IGNORE INTO garbage SELECT body FROM turn WHERE chat = ?1 AND position >= ?2")?
            .execute(params![chat, from])?;
        self.conn
            .prepare_cached("DELETE FROM turn WHERE chat = ?1 AND position >= ?2")?
            .execute(params![chat, from])?;
        Ok(())
    }
}

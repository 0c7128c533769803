//! How sessions, chats and turns go. What is large goes later, little by little.

use std::sync::Arc;

use innkeeper_core::Seq;
use rusqlite::{OptionalExtension as _, params};

use super::apply::GroupWriter;
use crate::error::{ErrorKind, StoreError};
use crate::rows::{ChannelKind, ChannelRow};

impl GroupWriter<'_> {
    /// Removes a session with its chats, their turns and their logs.
    pub(crate) fn remove_session(&mut self, uri: &Arc<str>) -> Result<(), StoreError> {
        let found = match self.cache.get(self.conn, uri) {
            // A session goes although its entry is damaged, as long as it is certain what belongs to it.
            Err(error) if error.kind == ErrorKind::Damaged => Some(self.damaged_entry(uri)?.ok_or(error)?),
            found => found?,
        };
        let Some(session) = found else {
            return Ok(());
        };
        if session.kind == ChannelKind::Chat || session.kind == ChannelKind::Root {
            return Ok(());
        }
        // What the cache knows of chats that moved in or out has to be known to the query.
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

    /// The entry of a session that does not check out, if at least its id and what it is agree.
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

    /// Removes what belongs to one channel.
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

    /// Removes the turns of a chat from a position on. Their bodies may be large, and another chat
    /// may share them, so they are only marked.
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

//! Pages of a chat's history.
//!
//! The windows of subscribers differ, so a page is sent to the subscriber that asked for it and is not part of the
//! replay window. A client that lost its connection before the page arrived cannot be helped with a replay: the page
//! moves the start of the subscription, and the client gets a snapshot instead.

use std::ops::Range;
use std::sync::Arc;

use ahp_types::actions::{ChatTurnsLoadedAction, StateAction};
use ahp_types::state::Turn;
use serde_json::{Value, json};

use super::History;
use crate::clients::channels::Base;
use crate::core::{Cx, Host};
use crate::ids::{ChannelId, ConnId};
use crate::protocol::error::{RpcError, code};
use crate::protocol::snapshot::{CURSOR_HEAD, cursor};

/// Maximum bytes of turns on one page, unless a single turn is larger.
const PAGE_BYTES: usize = 4 << 20;

impl Host {
    /// `fetchTurns`: the page is sent before the answer, which is empty (PAGE-01, E-03).
    pub(crate) fn fetch_turns(
        &mut self,
        cx: &mut Cx<'_>,
        conn: ConnId,
        uri: &str,
        cursor: Option<&str>,
    ) -> Result<Value, RpcError> {
        let (chat_id, page) = self.page(conn, uri, cursor)?;
        if !self.send_turns(cx, conn, chat_id, page) {
            // The request is deferred until the turns that it needs are in memory.
            let problem = "the turns are not in memory; try again";
            return Err(RpcError::new(code::INTERNAL_ERROR, problem));
        }
        self.forget_turns_read(chat_id);
        Ok(json!({}))
    }

    /// Which turns a request for a page asks for.
    pub(super) fn page(
        &self,
        conn: ConnId,
        uri: &str,
        cursor: Option<&str>,
    ) -> Result<(ChannelId, Range<usize>), RpcError> {
        let channel = self.channels.find(uri);
        let Some((chat_id, chat)) = channel.and_then(|id| Some((id, self.chats.get(&id)?))) else {
            return Err(RpcError::session_not_found(uri));
        };
        let history = chat.model.history();
        let Some(loaded_from) = self.loaded_from(conn, chat_id) else {
            let problem = "this connection does not subscribe to the chat, so there is nothing to add turns to; \
                           subscribe first";
            return Err(RpcError::invalid_params("channel", problem));
        };
        let end = match cursor {
            None => loaded_from,
            Some(cursor) => {
                let named = cursor.strip_prefix(CURSOR_HEAD).and_then(|id| history.position(id));
                let Some(named) = named else {
                    let problem = "is not a cursor of this chat, perhaps because its history was cut; \
                                   use turnsNextCursor of the chat's state, or omit it for the next older page";
                    return Err(RpcError::invalid_params("cursor", problem));
                };
                // A page is always adjacent to what the subscriber has.
                (named + 1).max(loaded_from)
            }
        };
        // Turns that the subscriber has are not sent again: with a cursor used twice, nothing new is left.
        let start = history
            .fitting(end, self.config.turns_per_page, PAGE_BYTES)
            .min(loaded_from);
        Ok((chat_id, start..loaded_from))
    }

    /// `fetchTurns` of clients that name a turn instead of a cursor: the turns are in the answer, and nothing is noted
    /// about what the client has.
    pub(crate) fn turns_before(
        &mut self,
        conn: ConnId,
        uri: &str,
        before: Option<&str>,
        limit: Option<usize>,
    ) -> Result<Value, RpcError> {
        let (chat_id, page) = self.page_before(conn, uri, before, limit)?;
        let history = self.chats.get(&chat_id).map(|chat| chat.model.history());
        let Some(history) = history.filter(|history| history.missing(page.clone()).is_none()) else {
            // The request is deferred until the turns that it needs are in memory.
            let problem = "the turns are not in memory; try again";
            return Err(RpcError::new(code::INTERNAL_ERROR, problem));
        };
        let turns: Vec<&Turn> = page
            .clone()
            .filter_map(|index| history.get(index).map(|turn| &**turn))
            .collect();
        let answer = json!({ "turns": turns, "hasMore": page.start > 0 });
        self.forget_turns_read(chat_id);
        Ok(answer)
    }

    /// Which turns such a request asks for.
    pub(super) fn page_before(
        &self,
        conn: ConnId,
        uri: &str,
        before: Option<&str>,
        limit: Option<usize>,
    ) -> Result<(ChannelId, Range<usize>), RpcError> {
        let chat_id = self.channels.find(uri).map(|id| self.chat_meant(conn, id));
        let Some((chat_id, chat)) = chat_id.and_then(|id| Some((id, self.chats.get(&id)?))) else {
            return Err(RpcError::session_not_found(uri));
        };
        let history = chat.model.history();
        let end = match before {
            None => history.len(),
            Some(turn) => history.position(turn).ok_or_else(|| {
                let problem = format!("there is no completed turn {turn:?}, perhaps because the history was cut");
                RpcError::invalid_params("before", problem)
            })?,
        };
        let most = limit.unwrap_or(self.config.turns_per_page);
        let start = match end.min(most) {
            0 => end,
            _ => history.fitting(end, most, PAGE_BYTES),
        };
        Ok((chat_id, start..end))
    }

    /// Makes sure that every subscriber has the turn that a truncation keeps last (CHT-15, TRC-04).
    ///
    /// Turns between that turn and the subscriber's turns are about to be removed, so they are not sent: in a long
    /// history that would be nearly all.
    pub(super) fn load_through(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, index: usize) {
        let readers = self.channels.get(chat_id).map(|entry| entry.partial_readers());
        for (conn, _) in readers.unwrap_or_default() {
            self.load_turn(cx, conn, chat_id, index);
        }
    }

    /// Makes sure that every subscriber has the turn before the one that is about to be resumed, if its version shows a
    /// resumed turn as one that was removed and started again: the removal names the turn before it.
    pub(crate) fn load_before_resumed(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId) {
        let Some(before) = self.turn_before_resumed(chat_id) else {
            // The turn is the first, or every subscriber's version can resume turns.
            return;
        };
        let readers = self.channels.get(chat_id).map(|entry| entry.partial_readers());
        for (conn, _) in readers.unwrap_or_default() {
            let subscriber = self.channels.get(chat_id).and_then(|entry| entry.subscription(conn));
            if subscriber.is_some_and(|subscriber| !subscriber.dialect.version.resumes_turns()) {
                self.load_turn(cx, conn, chat_id, before.start);
            }
        }
    }

    /// The turn before the last one, if a subscriber has to have it when the last one is resumed.
    pub(super) fn turn_before_resumed(&self, chat_id: ChannelId) -> Option<Range<usize>> {
        let mut subscribers = self.channels.get(chat_id)?.subscribers();
        subscribers.find(|subscriber| !subscriber.dialect.version.resumes_turns())?;
        let last = self.chats.get(&chat_id)?.model.turn_count().checked_sub(1)?;
        Some(last.checked_sub(1)?..last)
    }

    fn load_turn(&mut self, cx: &mut Cx<'_>, conn: ConnId, chat_id: ChannelId, index: usize) {
        if self.loaded_from(conn, chat_id).is_some_and(|from| from > index) {
            self.send_turns(cx, conn, chat_id, index..index + 1);
        }
    }

    /// The index of the first turn that a subscriber has.
    fn loaded_from(&self, conn: ConnId, chat_id: ChannelId) -> Option<usize> {
        let base = self.channels.get(chat_id)?.subscription(conn)?.base;
        let model = &self.chats.get(&chat_id)?.model;
        let newest = base.unloaded.and_then(|id| model.position(&id));
        Some(newest.map_or(0, |newest| newest + 1))
    }

    /// Sends a subscriber turns in front of those it has, and returns whether they are there to be
    /// sent. An empty page is sent as well: it says that nothing is left (PAGE-04).
    fn send_turns(&mut self, cx: &mut Cx<'_>, conn: ConnId, chat_id: ChannelId, page: Range<usize>) -> bool {
        let Some(chat) = self.chats.get(&chat_id) else {
            return false;
        };
        let history = chat.model.history();
        if history.missing(page.clone()).is_some() {
            return false;
        }
        let unloaded = newest_before(history, page.start);
        let turns = page.clone().filter_map(|index| history.get(index));
        let action = ChatTurnsLoadedAction {
            turns_next_cursor: cursor(history, page.start),
            turns: turns.map(|turn| Turn::clone(turn)).collect(),
        };
        let started = self.send_alone(cx, conn, chat_id, &StateAction::ChatTurnsLoaded(action), None);
        if let Some(entry) = self.channels.get_mut(chat_id) {
            entry.set_base(conn, Base { started, unloaded });
        }
        true
    }
}

/// The id of the turn before a position.
pub(super) fn newest_before(history: &History, index: usize) -> Option<Arc<str>> {
    history.id(index.checked_sub(1)?).cloned()
}

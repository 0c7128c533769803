//! Pages of a chat's history.
//!
//! The windows of subscribers differ, so a page travels to the one that asked for it and is not
//! kept for replay. Whoever loses its connection before a page arrived cannot be told so by a
//! replay: the page moves the start of the subscription, and its reader gets a snapshot instead.

use std::ops::Range;
use std::sync::Arc;

use ahp_types::actions::{ChatTurnsLoadedAction, StateAction};
use ahp_types::state::Turn;
use serde_json::{Value, json};

use crate::channel::Base;
use crate::chat_state::turn_bytes;
use crate::core::{Cx, HostCore};
use crate::error::RpcError;
use crate::ids::{ChannelId, ConnId};
use crate::snapshot::{CURSOR_HEAD, Window, cursor};

/// Most bytes of turns on one page, unless a single turn is larger.
const PAGE_BYTES: usize = 4 << 20;

impl HostCore {
    /// `fetchTurns`: the page goes out before the answer, which carries nothing (PAGE-01, E-03).
    pub(crate) fn fetch_turns(
        &mut self,
        cx: &mut Cx<'_>,
        conn: ConnId,
        uri: &str,
        cursor: Option<&str>,
    ) -> Result<Value, RpcError> {
        let channel = self.channels.find(uri);
        let Some((chat_id, chat)) = channel.and_then(|id| Some((id, self.chats.get(&id)?))) else {
            return Err(RpcError::session_not_found(uri));
        };
        let turns = chat.model.turns();
        let Some(loaded_from) = self.loaded_from(conn, chat_id) else {
            let problem = "this connection does not subscribe to the chat, so there is nothing to add turns to; \
                           subscribe first";
            return Err(RpcError::invalid_params("channel", problem));
        };
        let end = match cursor {
            None => loaded_from,
            Some(cursor) => {
                let named = cursor.strip_prefix(CURSOR_HEAD).and_then(|id| position(turns, id));
                let Some(named) = named else {
                    let problem = "is not a cursor of this chat, perhaps because its history was cut; \
                                   use turnsNextCursor of the chat's state, or omit it for the next older page";
                    return Err(RpcError::invalid_params("cursor", problem));
                };
                // A page is always adjacent to what the subscriber has.
                (named + 1).max(loaded_from)
            }
        };
        // What the subscriber has is not sent again: with a cursor used twice, nothing new is left.
        let start = page_start(turns, end, self.config.turns_per_page).min(loaded_from);
        self.send_turns(cx, conn, chat_id, start..loaded_from);
        Ok(json!({}))
    }

    /// What a new subscription to a channel shows, and the newest turn that it lacks.
    pub(crate) fn window(&self, channel: ChannelId, turns: Option<usize>) -> (Window, Option<Arc<str>>) {
        let (Some(chat), Some(wanted)) = (self.chats.get(&channel), turns) else {
            return (Window::ALL, None);
        };
        let turns = chat.model.turns();
        // The latest turn is always there, because resuming it takes it from the reader's turns
        // (CHT-15).
        let skipped = turns.len().saturating_sub(wanted.max(1));
        (Window { skipped }, newest_before(turns, skipped))
    }

    /// Makes sure that every subscriber has a turn that the next action of the chat names
    /// (CHT-15, TRC-04).
    pub(super) fn load_through(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, index: usize) {
        let readers = self.channels.get(chat_id).map(|entry| entry.partial_readers());
        for (conn, _) in readers.unwrap_or_default() {
            while let Some(end) = self.loaded_from(conn, chat_id).filter(|from| *from > index)
                && let Some(chat) = self.chats.get(&chat_id)
            {
                let start = page_start(chat.model.turns(), end, usize::MAX).max(index);
                self.send_turns(cx, conn, chat_id, start..end);
            }
        }
    }

    /// The index of the first turn that a subscriber has.
    fn loaded_from(&self, conn: ConnId, chat_id: ChannelId) -> Option<usize> {
        let base = self.channels.get(chat_id)?.subscription(conn)?.base;
        let turns = self.chats.get(&chat_id)?.model.turns();
        let newest = base.unloaded.and_then(|id| position(turns, &id));
        Some(newest.map_or(0, |newest| newest + 1))
    }

    /// Sends a subscriber the turns right before those it has. An empty page is sent as well: it
    /// says that nothing is left (PAGE-04).
    fn send_turns(&mut self, cx: &mut Cx<'_>, conn: ConnId, chat_id: ChannelId, page: Range<usize>) {
        let Some(chat) = self.chats.get(&chat_id) else {
            return;
        };
        let turns = chat.model.turns();
        let unloaded = newest_before(turns, page.start);
        let action = ChatTurnsLoadedAction {
            turns_next_cursor: cursor(turns, page.start),
            turns: turns
                .get(page)
                .into_iter()
                .flatten()
                .map(|turn| Turn::clone(turn))
                .collect(),
        };
        let started = self.send_alone(cx, conn, chat_id, &StateAction::ChatTurnsLoaded(action), None);
        if let Some(entry) = self.channels.get_mut(chat_id) {
            entry.set_base(conn, Base { started, unloaded });
        }
    }
}

fn position(turns: &[Arc<Turn>], id: &str) -> Option<usize> {
    turns.iter().rposition(|turn| turn.id == id)
}

fn newest_before(turns: &[Arc<Turn>], index: usize) -> Option<Arc<str>> {
    Some(turns.get(index.checked_sub(1)?)?.id.as_str().into())
}

/// Where the page that ends before `end` starts: at least one turn, if there is any.
fn page_start(turns: &[Arc<Turn>], end: usize, most: usize) -> usize {
    let mut start = end;
    let mut bytes = 0;
    for turn in turns[..end].iter().rev().take(most.max(1)) {
        bytes += turn_bytes(turn);
        if bytes > PAGE_BYTES && start < end {
            break;
        }
        start -= 1;
    }
    start
}

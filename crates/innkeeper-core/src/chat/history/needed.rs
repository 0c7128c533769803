//! The turns that have to be in memory before an input can be handled.
//!
//! The core never waits. The host asks first, and passes an input on when all turns that it needs are in memory.

use std::ops::Range;

use ahp_types::actions::StateAction;
use ahp_types::commands::ChatSource;
use ahp_types::state::Turn;

use crate::chat::model::ChatModel;
use crate::chat::side_chat_range;
use crate::core::Host;
use crate::ids::{ChannelId, ConnId};
use crate::input::{ClientInput, Dispatch};
use crate::protocol::request::{Command, SessionFork, TurnsPage};

impl Host {
    /// The turns that have to be read before an input can be handled; `None` when all it needs is in
    /// memory. An input that is going to be refused needs nothing.
    pub(crate) fn turns_needed(&self, conn: ConnId, input: &ClientInput) -> Option<(ChannelId, Range<usize>)> {
        match input {
            ClientInput::Request { command, .. } => self.turns_needed_by_command(conn, command),
            ClientInput::Dispatch(dispatch) => self.turns_needed_by_dispatch(conn, dispatch),
            ClientInput::McpNotification(_) | ClientInput::Unsubscribe { .. } | ClientInput::Disconnected => None,
        }
    }

    pub(crate) fn turns_needed_by_command(&self, conn: ConnId, command: &Command) -> Option<(ChannelId, Range<usize>)> {
        let (chat_id, range) = match command {
            Command::FetchTurns {
                channel,
                page: TurnsPage::At(cursor),
            } => self.page(conn, channel, cursor.as_deref()).ok()?,
            Command::FetchTurns {
                channel,
                page: TurnsPage::Before { turn, limit },
            } => self.page_before(conn, channel, turn.as_deref(), *limit).ok()?,
            Command::CreateSession(create) => self.turn_of_fork(create.fork.as_ref()?)?,
            Command::CreateChat(create) => self.source_turns(create.source.as_ref()?)?,
            _ => return None,
        };
        self.missing_turns(chat_id, range)
    }

    pub(crate) fn turns_needed_by_dispatch(
        &self,
        conn: ConnId,
        dispatch: &Dispatch,
    ) -> Option<(ChannelId, Range<usize>)> {
        let (chat_id, range) = match dispatch.action.as_ref().ok()? {
            StateAction::ChatTruncated(truncated) => {
                let chat_id = self.target_of(conn, dispatch)?;
                (chat_id, self.turn_at(chat_id, truncated.turn_id.as_ref()?)?)
            }
            StateAction::ChatTurnResume(_) => {
                let chat_id = self.target_of(conn, dispatch)?;
                (chat_id, self.turn_before_resumed(chat_id)?)
            }
            _ => return None,
        };
        self.missing_turns(chat_id, range)
    }

    fn missing_turns(&self, chat_id: ChannelId, range: Range<usize>) -> Option<(ChannelId, Range<usize>)> {
        let missing = self.chats.get(&chat_id)?.model.missing(range)?;
        Some((chat_id, missing))
    }

    /// Takes turns into memory that were read. Turns that could not be read are still missing, and the input that needs
    /// them is answered with an error.
    pub(crate) fn turns_loaded(&mut self, chat_id: ChannelId, first: usize, outcome: Result<Vec<Turn>, String>) {
        if let (Some(chat), Ok(turns)) = (self.chats.get_mut(&chat_id), outcome) {
            chat.model.load(first, turns.into_iter().map(Into::into).collect());
        }
    }

    /// The chats in memory, for tests that choose which turns stay in memory.
    pub(crate) fn chat_models(&mut self) -> impl Iterator<Item = (ChannelId, &mut ChatModel)> {
        self.chats.iter_mut().map(|(id, chat)| (*id, &mut chat.model))
    }

    /// Returns the turns that a new chat needs of its source: a fork needs the turn it ends with, because that is its
    /// last, and a side chat the turns of its context.
    fn source_turns(&self, source: &ChatSource) -> Option<(ChannelId, Range<usize>)> {
        match source {
            ChatSource::Fork(fork) => {
                let chat_id = self.channels.find(&fork.chat)?;
                Some((chat_id, self.turn_at(chat_id, &fork.turn_id)?))
            }
            ChatSource::SideChat(side) => {
                let chat_id = self.channels.find(&side.chat)?;
                let range = side_chat_range(&self.chats.get(&chat_id)?.model, &side.turn_id)?;
                Some((chat_id, range))
            }
            ChatSource::Unknown(_) => None,
        }
    }

    /// The turn that the fork of a session ends with, because it is the last of the new session.
    fn turn_of_fork(&self, fork: &SessionFork) -> Option<(ChannelId, Range<usize>)> {
        let (chat_id, count) = self.source_of_fork(fork).ok()?;
        Some((chat_id, count.checked_sub(1)?..count))
    }

    fn turn_at(&self, chat_id: ChannelId, turn_id: &str) -> Option<Range<usize>> {
        let index = self.chats.get(&chat_id)?.model.position(turn_id)?;
        Some(index..index + 1)
    }
}

//! Windows of a chat's history: who asked for the latest turns, and whether what they have is the
//! end of what the host has.

use std::sync::Arc;

use ahp_types::state::{ChatState, Turn};
use innkeeper_core::request::TurnsPage;
use innkeeper_core::snapshot::{Snapshot, State, Window};
use innkeeper_core::{Command, ConnId, Input, TurnEnd};

use crate::sim::client::mirror::Mirrored;
use crate::sim::client::requests::PendingRequest;
use crate::sim::{Choices, Sim, Violation};

/// Whether a reader's turns are the end of the host's, and its cursor names the newest turn it lacks:
/// without a cursor it has them all (SUB-12, PAGE-03).
pub fn is_end_of(chat: &ChatState, history: &[Arc<Turn>]) -> bool {
    let Some(skipped) = history.len().checked_sub(chat.turns.len()) else {
        return false;
    };
    let newest = skipped.checked_sub(1).and_then(|index| history.get(index));
    let cursor = newest.map(|turn| format!("through:{}", turn.id));
    let tail = history.iter().skip(skipped);
    cursor == chat.turns_next_cursor && chat.turns.iter().zip(tail).all(|(mine, host)| *mine == **host)
}

/// The host's state as a reader with this much history has to show it.
pub fn narrowed(snapshot: &Snapshot, mirrored: &Mirrored) -> Snapshot {
    let mut narrowed = snapshot.clone();
    if let (State::Chat(_, history, window), Mirrored::Chat(chat)) = (&mut narrowed.state, mirrored)
        && chat.turns_next_cursor.is_some()
    {
        *window = Window {
            skipped: history.len().saturating_sub(chat.turns.len()),
        };
    }
    narrowed
}

impl Sim {
    /// Asks for older turns, with the cursor that is shown, without one, or with a made-up one.
    pub(in crate::sim) fn fetch_turns(&mut self, conn: ConnId, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let Some(connection) = self.conns.get(&conn) else {
            return Ok(());
        };
        // Mostly where there is something left to fetch.
        let cursor_of = |mirrored: &Mirrored| match mirrored {
            Mirrored::Chat(chat) => Some(chat.turns_next_cursor.clone()),
            Mirrored::Root(_)
            | Mirrored::Session(_)
            | Mirrored::Changeset(_)
            | Mirrored::Annotations(_)
            | Mirrored::Terminal(_) => None,
        };
        let chats = connection.mirror.channels.iter();
        let chats: Vec<(String, Option<String>)> = chats
            .filter_map(|(uri, mirrored)| Some((uri.clone(), cursor_of(mirrored)?)))
            .collect();
        let partial: Vec<_> = chats.iter().filter(|(_, cursor)| cursor.is_some()).cloned().collect();
        let chats = if partial.is_empty() { chats } else { partial };
        let Some((channel, shown)) = choices.pick(&chats).cloned() else {
            return Ok(());
        };
        let cursor = match choices.below(8) {
            0 => Some("through:nothing".to_owned()),
            1..=3 => None,
            _ => shown,
        };
        let follows = connection.host_subscriptions.contains(&channel);
        let sound = cursor.is_none() && follows && self.snapshot(&channel).is_some();
        self.note(|| format!("{conn} fetches turns of {channel} with {cursor:?}"));
        self.request(
            conn,
            PendingRequest::Turns { sound },
            Command::FetchTurns {
                channel,
                page: TurnsPage::At(cursor),
            },
        )
    }

    /// Some turns that are over before a run starts.
    pub(in crate::sim) fn live_through(&mut self, conn: ConnId, chat: &str, turns: usize) -> Result<(), Violation> {
        for _ in 0..turns {
            self.start_turn_in(conn, chat)?;
            if let Some((chat, turn)) = self.agent.running(|_| 0) {
                self.agent.end(chat, turn);
                let end = TurnEnd::Complete;
                self.handle(Input::TurnEnded { chat, turn, end })?;
            }
        }
        Ok(())
    }

    /// A turn of a chat that a client might cut the rest off after; some are running or not there.
    pub(in crate::sim) fn any_turn(&self, chat: &str, choices: &mut Choices<'_>) -> Option<String> {
        let history = self.host_chat(chat).map(|(_, history)| history);
        let turns = history.iter().flat_map(|turns| turns.iter());
        let turns: Vec<String> = turns.map(|turn| turn.id.clone()).collect();
        match choices.below(8) {
            0 => None,
            1 => Some("none".to_owned()),
            2 => self.active_turn(chat),
            _ => choices.pick(&turns).cloned(),
        }
    }
}

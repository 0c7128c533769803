//! Chats in memory, and their runs.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use crate::agent::PastTurn;
use crate::chat::UNTITLED_CHAT;
use crate::chat::approval::Offered;
use crate::chat::model::ChatModel;
use crate::ids::{ChannelId, ClientId, IdMap, Seq, TurnKey};
use crate::mcp::TurnWait;
use crate::protocol::frame::AppendHead;
use crate::session::{TitleSource, UNTITLED};

/// All chats in memory.
///
/// Invariant: no two runs have the same key, also not in different runs of the host (TOOL-21).
#[derive(Debug)]
pub(crate) struct Chats {
    by_id: IdMap<ChannelId, Chat>,
    next_run: u64,
}

impl Chats {
    /// No chats. Runs get keys from `first_run` on.
    pub(crate) fn new(first_run: u64) -> Self {
        Self {
            by_id: IdMap::default(),
            next_run: first_run,
        }
    }

    pub(crate) fn get(&self, chat: &ChannelId) -> Option<&Chat> {
        self.by_id.get(chat)
    }

    pub(crate) fn get_mut(&mut self, chat: &ChannelId) -> Option<&mut Chat> {
        self.by_id.get_mut(chat)
    }

    pub(crate) fn contains_key(&self, chat: &ChannelId) -> bool {
        self.by_id.contains_key(chat)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ChannelId, &Chat)> {
        self.by_id.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&ChannelId, &mut Chat)> {
        self.by_id.iter_mut()
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Chat> {
        self.by_id.values_mut()
    }

    pub(crate) fn insert(&mut self, id: ChannelId, chat: Chat) {
        self.by_id.insert(id, chat);
    }

    pub(crate) fn remove(&mut self, chat: &ChannelId) -> Option<Chat> {
        self.by_id.remove(chat)
    }

    /// The chats in which an agent works on a turn.
    pub(crate) fn running(&self) -> Vec<ChannelId> {
        let running = self.by_id.iter().filter(|(_, chat)| chat.run.is_some());
        running.map(|(id, _)| *id).collect()
    }

    /// Notes that an agent works on the active turn of a chat. Returns the key of its run, or nothing if the chat has
    /// no active turn.
    pub(crate) fn start_run(&mut self, chat: ChannelId, now_ms: u64, author: Option<&ClientId>) -> Option<TurnKey> {
        let chat = self.by_id.get_mut(&chat)?;
        let turn = chat.model.head().active_turn.as_ref()?;
        let key = TurnKey(self.next_run);
        self.next_run += 1;
        chat.run = Some(Run {
            key,
            started_ms: now_ms,
            open_part: None,
            parts: turn.response_parts.len(),
            author: author.cloned(),
            parent: None,
            detached: false,
            offers: HashMap::new(),
            last_event_ms: now_ms,
            before_silence: None,
            held: None,
        });
        Some(key)
    }
}

/// One chat and its run.
#[derive(Debug)]
pub struct Chat {
    /// The session it belongs to.
    pub session: ChannelId,
    /// Its state.
    pub model: ChatModel,
    /// The agent's run of the active turn. Only [`Chats::start_run`] starts one.
    run: Option<Run>,
    /// The chat whose tool call started this one; it is moved and removed together with that chat.
    pub parent: Option<ChannelId>,
    /// Context of a side chat, in case its agent has to be opened again.
    pub side_context: SideChatContext,
    /// Writers of pending messages, by message id; their tools are preferred (ACT-05).
    pub writers: HashMap<String, ClientId>,
    /// Whether the watchdog has a timer for it.
    pub is_watched: bool,
    /// Source of its title; a default chat has its session's title.
    pub titled_by: TitleSource,
    /// Whether the agent that failed in the latest turn is still open and can resume it (TURN-13).
    pub can_resume: bool,
    /// Whether its agent was asked to open it. A chat that was loaded from the store is opened with its next turn.
    pub is_open: bool,
    /// Number of its turns that are rows in the store, once this sequence number is durable.
    pub rows: (Seq, usize),
    /// Memory that its agent gets when it is opened again.
    pub memory: Option<Arc<Value>>,
    /// Whether the latest turn ended before its agent got it, for example without a token.
    pub undelivered: bool,
}

/// Context of a side chat (CHT-06).
#[derive(Debug, Clone, Default)]
pub struct SideChatContext {
    /// The turns of the chat it was opened from.
    pub context: Arc<[PastTurn]>,
    /// The selected text that it was opened on.
    pub selection: Option<String>,
}

/// An agent at work on the active turn.
#[derive(Debug)]
pub struct Run {
    /// Identifies it. No other run has the same key.
    key: TurnKey,
    /// When it started, on the monotonic clock (TURN-05).
    pub started_ms: u64,
    /// The part that takes the next piece of streamed text.
    pub open_part: Option<OpenPart>,
    /// Numbers the parts of the turn.
    pub parts: usize,
    /// The client that started the turn; its tools are preferred (ACT-05).
    pub author: Option<ClientId>,
    /// The run whose tool call started this subagent.
    pub parent: Option<(ChannelId, TurnKey)>,
    /// Whether it outlives that run.
    pub detached: bool,
    /// The options of calls that wait for a decision, by the id of the call.
    pub(crate) offers: HashMap<String, Offered>,
    /// The time of the agent's last event.
    pub last_event_ms: u64,
    /// The chat's activity before the watchdog replaced it.
    pub before_silence: Option<Option<String>>,
    /// Whether the run waits for MCP servers before its agent gets it (MCP-03).
    pub held: Option<TurnWait>,
}

/// The part being streamed into.
#[derive(Debug)]
pub struct OpenPart {
    /// Its index in the active turn.
    pub index: usize,
    /// Whether it is reasoning rather than markdown (E-19).
    pub reasoning: bool,
    /// Encoded head of every append to it.
    pub head: AppendHead,
}

impl Chat {
    /// A chat in which nothing runs.
    pub fn new(session: ChannelId, model: ChatModel) -> Self {
        let has_name = ![UNTITLED, UNTITLED_CHAT].contains(&model.head().title.as_str());
        Self {
            session,
            model,
            run: None,
            parent: None,
            side_context: SideChatContext::default(),
            writers: HashMap::new(),
            is_watched: false,
            titled_by: if has_name {
                TitleSource::Message
            } else {
                TitleSource::None
            },
            can_resume: false,
            is_open: false,
            rows: (Seq(0), 0),
            memory: None,
            undelivered: false,
        }
    }

    /// Returns the agent's run of the active turn.
    pub(crate) fn run(&self) -> Option<&Run> {
        self.run.as_ref()
    }

    /// Returns the same, to note what its agent does.
    pub(crate) fn run_mut(&mut self) -> Option<&mut Run> {
        self.run.as_mut()
    }

    /// Ends the run.
    pub(crate) fn take_run(&mut self) -> Option<Run> {
        self.run.take()
    }

    /// Appends streamed text to the part that takes it. Returns the head of the append; `None` if nothing changed,
    /// or no part takes text because the turn ended for lack of room.
    pub(crate) fn append(&mut self, content: &str) -> Option<&AppendHead> {
        let part = self.run.as_ref()?.open_part.as_ref()?;
        let is_changed = self.model.append_at(part.index, content, part.reasoning);
        is_changed.then_some(&part.head)
    }
}

impl Run {
    /// Returns what identifies it.
    pub(crate) fn key(&self) -> TurnKey {
        self.key
    }
}

#[cfg(test)]
mod tests {
    use ahp_types::state::ChatOrigin;

    use super::*;
    use crate::session::create::new_chat;

    #[test]
    fn tool21_a_chat_without_an_active_turn_gets_no_run_and_takes_no_key() {
        let mut chats = Chats::new(7);
        let state = new_chat("ahp-chat:/c", "c", "2026-01-31T12:00:00Z", ChatOrigin::User);
        chats.insert(ChannelId(1), Chat::new(ChannelId(0), ChatModel::new(state)));
        assert_eq!(chats.start_run(ChannelId(1), 0, None), None);
        assert_eq!(chats.start_run(ChannelId(2), 0, None), None);
        assert_eq!(chats.next_run, 7);
        assert!(chats.running().is_empty());
    }
}

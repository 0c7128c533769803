//! Further chats of a session: created, forked, asked beside another one, and disposed of.

use ahp_types::commands::{ChatSource, ForkChatSource, SideChatSource};
use ahp_types::state::{ChatOrigin, SideChatSelection};
use innkeeper_core::request::CreateChat;
use innkeeper_core::{Command, ConnId, uri};

use crate::sim::changes::is_part;
use crate::sim::client::queue::Marker;
use crate::sim::client::requests::PendingRequest;
use crate::sim::operations::{DIRECTORY, SESSIONS, any_channel};
use crate::sim::terminals::TERMINALS;
use crate::sim::{Choices, Sim, Violation};

/// The chats that clients create. Few, so that their names are used again (CHT-01).
pub const CHATS: [&str; 3] = ["ahp-chat:/c0", "ahp-chat:/c1", "ahp-chat:/c2"];

/// Whether a chat was started by a tool call.
pub fn is_subagent(uri: &str) -> bool {
    uri.starts_with("ahp-chat://subagent/")
}

impl Sim {
    /// Creates a chat, which may be refused, and mostly follows it.
    pub(in crate::sim) fn create_chat(&mut self, conn: ConnId, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let session = self.likely_session(conn, choices);
        let chat = match choices.below(16) {
            0 => uri::default_chat(session),
            _ => CHATS[choices.below(CHATS.len())].to_owned(),
        };
        let source = self.source(session, choices);
        let initial_message = (choices.below(3) == 0).then(|| self.message());
        let initial_message = initial_message.and_then(|message| serde_json::from_value(message).ok());
        let working_directories = match choices.below(4) {
            0 => Some(vec![DIRECTORY.to_owned()]),
            1 => Some(Vec::new()),
            _ => None,
        };
        self.note(|| format!("{conn} creates {chat} in {session} from {source:?}, first {initial_message:?}"));
        let existed = self.snapshot(&chat).is_some();
        let command = Command::CreateChat(Box::new(CreateChat {
            channel: session.to_owned(),
            chat: chat.clone(),
            initial_message,
            source,
            working_directories,
            choices: Vec::new(),
        }));
        self.request(conn, PendingRequest::Lifecycle, command)?;
        if !existed && self.snapshot(&chat).is_some() {
            self.check_created(&chat)?;
        }
        match choices.below(4) {
            0 => Ok(()),
            _ => self.subscribe(conn, chat, choices),
        }
    }

    /// Disposes of a chat, which may be one that lasts as long as its session.
    pub(in crate::sim) fn dispose_chat(&mut self, conn: ConnId, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let chat = match choices.below(8) {
            0 => uri::default_chat(SESSIONS[choices.below(SESSIONS.len())]),
            1..=3 => self.some_channel(choices),
            _ => CHATS[choices.below(CHATS.len())].to_owned(),
        };
        self.note(|| format!("{conn} disposes of {chat}"));
        let before = self.channels();
        self.request(conn, PendingRequest::Lifecycle, Command::DisposeChat { channel: chat })?;
        if self.forget_gone(&before) > 0 {
            self.count("chats disposed of");
        }
        Ok(())
    }

    /// A channel that is there, subagents' chats among them, or one that may not be.
    pub(in crate::sim) fn some_channel(&self, choices: &mut Choices<'_>) -> String {
        let unnamed = |uri: &String| is_subagent(uri) || self.moved_out.contains(uri);
        let subagents: Vec<String> = self.channels().into_iter().filter(unnamed).collect();
        match choices.pick(&subagents) {
            Some(subagent) if choices.below(2) == 0 => subagent.clone(),
            _ => any_channel(choices),
        }
    }

    /// Every session there is, every chat in its catalogue, and every terminal in memory.
    pub(in crate::sim) fn channels(&self) -> Vec<String> {
        let terminals = TERMINALS.into_iter().filter(|uri| self.core.snapshot(uri).is_some());
        let sessions = self.sessions().filter_map(|uri| Some((uri, self.host_session(uri)?)));
        sessions
            .flat_map(|(uri, session)| {
                let chats: Vec<String> = session.chats.iter().map(|chat| chat.resource.clone()).collect();
                std::iter::once(uri.to_owned()).chain(chats)
            })
            .chain(terminals.map(str::to_owned))
            .collect()
    }

    /// No connection may get actions of removed channels (SUB-19). Returns how many there are.
    pub(in crate::sim) fn forget_gone(&mut self, before: &[String]) -> usize {
        let gone = before.iter().filter(|uri| self.snapshot(uri).is_none());
        let mut gone: Vec<String> = gone.cloned().collect();
        if gone.is_empty() {
            return 0;
        }
        let count = gone.len();
        // Views and annotations go with their session or chat.
        let parts = self
            .conns
            .values()
            .flat_map(|connection| &connection.host_subscriptions);
        let parts = parts.filter(|uri| is_part(uri) && self.core.snapshot(uri).is_none());
        gone.extend(parts.cloned().collect::<std::collections::BTreeSet<_>>());
        self.gone_for_older(&gone);
        let all: Vec<ConnId> = self.conns.keys().copied().collect();
        for conn in all {
            if let Some(connection) = self.conns.get_mut(&conn) {
                connection.host_subscriptions.retain(|uri| !gone.contains(uri));
            }
            self.mark(conn, Marker::Gone(gone.clone()));
        }
        count
    }

    /// Where a new chat may come from: a turn of some chat, running or completed, or one of neither.
    fn source(&self, session: &str, choices: &mut Choices<'_>) -> Option<ChatSource> {
        let kind = choices.below(5);
        if kind < 2 {
            return None;
        }
        let chats = self.host_session(session).map(|state| state.chats.clone());
        let chats: Vec<String> = chats.into_iter().flatten().map(|chat| chat.resource).collect();
        let chat = match choices.pick(&chats) {
            Some(chat) if choices.below(16) > 0 => chat.clone(),
            _ => uri::default_chat(SESSIONS[0]),
        };
        let (head, history) = self.host_chat(&chat)?;
        let active = head.active_turn.as_ref().map(|turn| turn.id.clone());
        let turns: Vec<String> = history.iter().map(|turn| turn.id.clone()).chain(active).collect();
        let turn_id = choices.pick(&turns).cloned().unwrap_or_else(|| "none".to_owned());
        Some(match kind {
            2 | 3 => ChatSource::Fork(ForkChatSource { chat, turn_id }),
            _ => ChatSource::SideChat(SideChatSource {
                chat,
                turn_id,
                selection: choices.one_in(2).then(|| SideChatSelection {
                    text: "these words".to_owned(),
                    response_part_id: None,
                }),
            }),
        })
    }

    /// A fork starts with the history of its source, everything else with none (CHT-05, CHT-06).
    fn check_created(&mut self, uri: &str) -> Result<(), Violation> {
        let Some((head, history)) = self.host_chat(uri) else {
            return Ok(());
        };
        let wanted: Vec<String> = match &head.origin {
            Some(ChatOrigin::Fork { chat, turn_id }) => {
                self.count("forks");
                let source = self.host_chat(chat).map(|(_, history)| history);
                let source: Vec<String> = source
                    .iter()
                    .flat_map(|turns| turns.iter())
                    .map(|turn| turn.id.clone())
                    .collect();
                let kept = source.iter().position(|id| id == turn_id).map_or(0, |last| last + 1);
                source[..kept].to_vec()
            }
            Some(ChatOrigin::SideChat { .. }) => {
                self.count("side chats");
                Vec::new()
            }
            _ => {
                self.count("plain chats");
                Vec::new()
            }
        };
        let has: Vec<String> = history.iter().map(|turn| turn.id.clone()).collect();
        if has == wanted {
            return Ok(());
        }
        Err(Violation::new(format!(
            "{uri} starts with the turns {has:?}, not {wanted:?} (CHT-05)"
        )))
    }
}

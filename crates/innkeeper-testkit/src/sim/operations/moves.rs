//! Chats that move: within their session, to another one, and out into one of their own.

use innkeeper_core::request::{MoveChat, MoveDestination};
use innkeeper_core::{Command, ConnId, uri};

use crate::sim::client::requests::PendingRequest;
use crate::sim::operations::SESSIONS;
use crate::sim::operations::chats::CHATS;
use crate::sim::{Choices, PROBE_1_0, Sim, Violation};

impl Sim {
    /// Every session a run may have: those that clients name, and those that chats moved out into.
    pub(in crate::sim) fn sessions(&self) -> impl Iterator<Item = &str> {
        SESSIONS.into_iter().chain(self.moved_out.iter().map(String::as_str))
    }

    /// One of them.
    pub(in crate::sim) fn any_session(&self, choices: &mut Choices<'_>) -> String {
        let sessions: Vec<&str> = self.sessions().collect();
        choices
            .pick(&sessions)
            .map_or(SESSIONS[0], |session| *session)
            .to_owned()
    }

    /// Moves a chat, which may be refused.
    pub(in crate::sim) fn move_chat(&mut self, conn: ConnId, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let there: Vec<&str> = CHATS.into_iter().filter(|uri| self.snapshot(uri).is_some()).collect();
        let channel = match choices.pick(&there) {
            Some(chat) if choices.below(8) > 0 => (*chat).to_owned(),
            _ => uri::default_chat(SESSIONS[choices.below(SESSIONS.len())]),
        };
        let destination = match choices.below(3) {
            0 => MoveDestination::NewSession,
            _ => {
                let session = self.any_session(choices);
                let chats = self.host_session(&session).map(|state| state.chats.clone());
                let chats: Vec<String> = chats.into_iter().flatten().map(|chat| chat.resource).collect();
                let after = choices.pick(&chats).filter(|_| choices.below(3) > 0).cloned();
                MoveDestination::Session { session, after }
            }
        };
        self.note(|| format!("{conn} moves {channel} to {destination:?}"));
        let before = self.home_of(&channel);
        let request = MoveChat {
            channel: channel.clone(),
            destination,
        };
        self.request(conn, PendingRequest::Move, Command::MoveChat(Box::new(request)))?;
        let listed = self.list(PROBE_1_0)?;
        for session in listed.into_keys() {
            if !self.sessions().any(|known| known == session) {
                // Approvals of one session do not count in another.
                self.approvals.created(&session, self.allows_everything());
                self.customizations.moved_out(before.first(), &session);
                self.count("chats moved out");
                self.moved_out.push(session);
            }
        }
        let after = self.home_of(&channel);
        if before != after {
            self.count("chats moved");
        }
        match after.len() {
            1 => Ok(()),
            0 if before.is_empty() => Ok(()),
            _ => Err(Violation::new(format!(
                "{channel} moved from {before:?} to {after:?} (CHT-18)"
            ))),
        }
    }

    /// The sessions that list a chat.
    fn home_of(&self, chat: &str) -> Vec<String> {
        let lists = |uri: &&str| {
            let session = self.host_session(uri);
            session.is_some_and(|session| session.chats.iter().any(|entry| entry.resource == chat))
        };
        self.sessions().filter(lists).map(str::to_owned).collect()
    }
}

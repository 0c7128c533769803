//! Notes about the sessions that the actions of one input changed. `Host::settle` works them off.

use std::collections::BTreeSet;

use ahp_types::actions::StateAction;

use crate::agent::registry::may_change_tools;
use crate::core::Host;
use crate::ids::ChannelId;
use crate::mcp::may_change_servers;
use crate::session::drafts::{is_content_of_chat, is_content_of_session};

/// The notes of one input.
///
/// A note never outlives its input, so a session that is gone when its note is worked off was removed by the same
/// input, and the note is dropped.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    sessions: BTreeSet<ChannelId>,
    content: BTreeSet<ChannelId>,
    servers: BTreeSet<ChannelId>,
    tools: BTreeSet<ChannelId>,
}

impl Touched {
    /// Notes that a draft has content.
    pub(crate) fn note_content(&mut self, session: ChannelId) {
        self.content.insert(session);
    }

    /// Notes that a session may need other MCP servers.
    pub(crate) fn note_servers(&mut self, session: ChannelId) {
        self.servers.insert(session);
    }

    /// Notes that the summary of a session changed.
    pub(crate) fn note_session(&mut self, session: ChannelId) {
        self.sessions.insert(session);
    }

    /// Notes that the agent of a session may offer other tools.
    pub(crate) fn note_tools(&mut self, session: ChannelId) {
        self.tools.insert(session);
    }

    /// Takes the next session that may need other MCP servers.
    pub(crate) fn next_servers(&mut self) -> Option<ChannelId> {
        self.servers.pop_first()
    }

    /// Drops the note that a session may need other MCP servers.
    pub(crate) fn forget_servers(&mut self, session: ChannelId) {
        self.servers.remove(&session);
    }

    /// Takes the sessions whose agents may offer other tools.
    pub(crate) fn take_tools(&mut self) -> BTreeSet<ChannelId> {
        std::mem::take(&mut self.tools)
    }

    /// Takes the drafts that have content now.
    pub(crate) fn take_content(&mut self) -> BTreeSet<ChannelId> {
        std::mem::take(&mut self.content)
    }

    /// Takes the sessions that an action of their own channel changed.
    pub(crate) fn take_sessions(&mut self) -> BTreeSet<ChannelId> {
        std::mem::take(&mut self.sessions)
    }
}

impl Host {
    /// Notes an action that was applied. Only notes change.
    pub(super) fn note(&mut self, channel: ChannelId, action: &StateAction) {
        if let Some(chat) = self.chats.get(&channel) {
            if is_content_of_chat(action) && self.sessions.is_draft(&chat.session) {
                self.touched.content.insert(chat.session);
            }
        } else if let Some(session) = self.sessions.get(&channel) {
            self.touched.sessions.insert(channel);
            if session.is_draft() && is_content_of_session(session, action) {
                self.touched.content.insert(channel);
            }
            if self.config.serves_mcp && may_change_servers(action) {
                self.touched.note_servers(channel);
            }
            if may_change_tools(action) {
                self.touched.note_tools(channel);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_note_is_taken_once_and_leaves_the_others() {
        let (mut touched, session) = (Touched::default(), ChannelId(7));
        touched.note_session(session);
        touched.note_session(session);
        touched.note_tools(session);
        assert_eq!(touched.take_sessions(), BTreeSet::from([session]));
        assert_eq!(touched.take_sessions(), BTreeSet::new());
        assert_eq!(touched.take_content(), BTreeSet::new());
        assert_eq!(touched.take_tools(), BTreeSet::from([session]));
    }

    #[test]
    fn sessions_with_changed_servers_come_one_by_one_in_order() {
        let mut touched = Touched::default();
        for id in [3, 1, 2] {
            touched.note_servers(ChannelId(id));
        }
        touched.forget_servers(ChannelId(2));
        assert_eq!(touched.next_servers(), Some(ChannelId(1)));
        // A note that is added meanwhile is taken as well.
        touched.note_servers(ChannelId(1));
        assert_eq!(touched.next_servers(), Some(ChannelId(1)));
        assert_eq!(touched.next_servers(), Some(ChannelId(3)));
        assert_eq!(touched.next_servers(), None);
    }
}

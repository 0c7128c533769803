//! The sessions that a client sees, and the chats that are shown as them.

use std::collections::HashMap;

use serde_json::Value;

use crate::streamed::StreamedHead;

/// A session that the client is subscribed to, or was.
#[derive(Debug, Default)]
pub(super) struct SessionMemory {
    /// The chat that is shown as the session (0.3 and older).
    pub(super) chat: Option<String>,
    /// Whether the client has left it. Actions that were queued before may still be on their way.
    pub(super) is_left: bool,
    /// Whether the session counts as read (0.3 and older).
    pub(super) is_read: bool,
    /// The client's own entry among the active clients, in 1.0 (0.4 and older).
    pub(super) own_client: Option<Value>,
    /// URI and id of each customization (0.1).
    pub(super) customizations: Vec<(String, String)>,
    /// Grows with each snapshot, so the smallest is the oldest.
    age: u64,
}

/// A chat that is shown as its session.
#[derive(Debug)]
struct SessionChat {
    session: String,
    /// The first bytes of its streamed output, and those that take their place.
    head: StreamedHead,
}

/// Sessions by their URI, and by the URI of the chat that is shown as one.
#[derive(Debug)]
pub(super) struct Sessions {
    by_uri: HashMap<String, SessionMemory>,
    of_chats: HashMap<String, SessionChat>,
    max: usize,
    latest: u64,
}

impl Sessions {
    pub(super) fn new(max: usize) -> Self {
        Self {
            by_uri: HashMap::new(),
            of_chats: HashMap::new(),
            max,
            latest: 0,
        }
    }

    /// Sets how many sessions are remembered.
    pub(super) fn set_max(&mut self, max: usize) {
        self.max = max.max(1);
    }

    pub(super) fn get(&self, session: &str) -> Option<&SessionMemory> {
        self.by_uri.get(session)
    }

    pub(super) fn get_mut(&mut self, session: &str) -> Option<&mut SessionMemory> {
        self.by_uri.get_mut(session)
    }

    /// The entry of a session that the client is shown. One that it left, or else the oldest, makes room for a new one.
    pub(super) fn entry(&mut self, session: &str) -> &mut SessionMemory {
        if !self.by_uri.contains_key(session) && self.by_uri.len() >= self.max {
            let rank = |entry: &SessionMemory| (!entry.is_left, entry.age);
            let oldest = self.by_uri.iter().min_by_key(|(_, entry)| rank(entry));
            if let Some(oldest) = oldest.map(|(session, _)| session.clone()) {
                self.remove(&oldest);
            }
        }
        self.latest += 1;
        let entry = self.by_uri.entry(session.to_owned()).or_default();
        entry.age = self.latest;
        entry
    }

    /// A chat is shown as a session, which has an entry.
    pub(super) fn show_chat_as(&mut self, chat: &str, session: &str, head: StreamedHead) {
        let entry = self.entry(session);
        entry.is_left = false;
        if let Some(former) = entry.chat.replace(chat.to_owned()) {
            self.of_chats.remove(&former);
        }
        let session = session.to_owned();
        self.of_chats.insert(chat.to_owned(), SessionChat { session, head });
    }

    /// The session that a chat is shown as.
    pub(super) fn of_chat(&self, chat: &str) -> Option<(&str, &StreamedHead)> {
        let shown = self.of_chats.get(chat)?;
        Some((&shown.session, &shown.head))
    }

    /// The client leaves a session. It is forgotten but for its chat, because the URI of the chat means nothing to the
    /// client, and actions of it may still be on their way down.
    pub(super) fn leave(&mut self, session: &str) {
        match self.by_uri.get_mut(session) {
            Some(entry) if entry.chat.is_some() => {
                *entry = SessionMemory {
                    chat: entry.chat.take(),
                    is_left: true,
                    is_read: entry.is_read,
                    age: entry.age,
                    ..SessionMemory::default()
                };
            }
            Some(_) => self.remove(session),
            // Other channels have no memory.
            None => {}
        }
    }

    fn remove(&mut self, session: &str) {
        let chat = self.by_uri.remove(session).and_then(|entry| entry.chat);
        if let Some(chat) = chat {
            self.of_chats.remove(&chat);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::Version;

    fn show(sessions: &mut Sessions, number: usize) {
        let (chat, session) = (format!("chat:{number}"), format!("session:{number}"));
        let head = StreamedHead::new(&chat, &session, Version::V0_3);
        sessions.show_chat_as(&chat, &session, head);
    }

    #[test]
    fn all_sessions_that_a_client_can_see_are_remembered() {
        let mut sessions = Sessions::new(1024);
        sessions.set_max(3000);
        (0..3000).for_each(|number| show(&mut sessions, number));
        assert!(sessions.of_chat("chat:0").is_some());
        show(&mut sessions, 3000);
        assert!(sessions.of_chat("chat:0").is_none() && sessions.get("session:0").is_none());
        assert_eq!((sessions.by_uri.len(), sessions.of_chats.len()), (3000, 3000));
    }

    #[test]
    fn a_session_that_the_client_left_makes_room_first() {
        let mut sessions = Sessions::new(3);
        (0..3).for_each(|number| show(&mut sessions, number));
        sessions.leave("session:2");
        assert!(
            sessions.of_chat("chat:2").is_some(),
            "actions of it may be on their way"
        );
        show(&mut sessions, 3);
        assert!(sessions.of_chat("chat:2").is_none());
        show(&mut sessions, 0);
        show(&mut sessions, 4);
        assert!(sessions.of_chat("chat:1").is_none(), "the oldest");
        assert!(sessions.of_chat("chat:0").is_some());
    }

    #[test]
    fn a_session_without_a_chat_is_forgotten_at_once() {
        let mut sessions = Sessions::new(3);
        sessions.entry("session:1").own_client = Some(Value::Null);
        sessions.leave("session:1");
        assert!(sessions.get("session:1").is_none());
    }
}

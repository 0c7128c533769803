//! The memory of a connection between messages. Everything is bounded.

mod sessions;

use std::collections::VecDeque;

use serde_json::Value;

use self::sessions::Sessions;
use crate::action::Action;
use crate::json::{Object, is, objects, text};
use crate::streamed::{self, StreamedHead};
use crate::version::Version;

/// Maximum entries of each kind. A client with more dispatches under way gets the answers to the oldest in the words of
/// the translation instead of its own.
const MAX_ENTRIES: usize = 1024;

/// Maximum bytes of all dispatches under way, as far as they are counted. An echo that goes out as the shared bytes is not
/// looked at, so its dispatch stays until others take its place: the size is what bounds the memory of a client that
/// sends large messages.
const MAX_DISPATCHED_BYTES: usize = 1 << 20;

/// The memory of one connection.
#[derive(Debug)]
pub(crate) struct Memory {
    client_id: String,
    dispatches: Recent<i64, Dispatched>,
    requests: Recent<String, String>,
    sessions: Sessions,
}

/// An action as the client dispatched it.
#[derive(Debug, Clone)]
pub(crate) struct Dispatched {
    /// The channel as the client named it; in 0.1 the action names it.
    pub(crate) channel: Option<String>,
    /// The action.
    pub(crate) action: Value,
}

impl Memory {
    pub(crate) fn new(client_id: &str) -> Self {
        Self {
            client_id: client_id.to_owned(),
            dispatches: Recent::default(),
            requests: Recent::default(),
            sessions: Sessions::new(MAX_ENTRIES),
        }
    }

    /// Sets how many sessions the client can be subscribed to.
    pub(crate) fn set_max_sessions(&mut self, max: usize) {
        self.sessions.set_max(max);
    }

    pub(crate) fn client_id(&self) -> &str {
        &self.client_id
    }

    /// Notes an action that the client has dispatched, until it is echoed or rejected.
    pub(crate) fn begin_dispatch(&mut self, client_seq: i64, dispatched: Dispatched) {
        self.dispatches.insert(client_seq, dispatched);
        let mut bytes = 0;
        let is_within = |(_, dispatched): &&(i64, Dispatched)| {
            bytes += json_bytes(&dispatched.action);
            bytes <= MAX_DISPATCHED_BYTES
        };
        // The latest is kept, however large it is: its answer is on the way.
        let kept = self.dispatches.0.iter().rev().take_while(is_within).count().max(1);
        let dropped = self.dispatches.0.len() - kept;
        self.dispatches.0.drain(..dropped);
    }

    /// The action that the client dispatched under this number; it is forgotten.
    pub(crate) fn end_dispatch(&mut self, client_seq: i64) -> Option<Dispatched> {
        self.dispatches.remove(&client_seq)
    }

    /// Notes the method of a request, until it is answered.
    pub(crate) fn begin_request(&mut self, id: String, method: String) {
        self.requests.insert(id, method);
    }

    /// The method of a request; it is forgotten.
    pub(crate) fn end_request(&mut self, id: &str) -> Option<String> {
        self.requests.remove(id)
    }

    pub(crate) fn show_chat_as(&mut self, chat: &str, session: &str, is_read: bool, version: Version) {
        self.sessions.entry(session).is_read = is_read;
        let head = StreamedHead::new(chat, session, version);
        self.sessions.show_chat_as(chat, session, head);
    }

    /// The head of streamed output of a chat that is shown as a session.
    pub(crate) fn streamed_head(&self, message: &[u8]) -> Option<&StreamedHead> {
        let (_, head) = self.sessions.of_chat(streamed::channel_of(message)?)?;
        head.begins(message).then_some(head)
    }

    /// The session that a chat is shown as, also on the way to a client that has left it.
    pub(crate) fn session_of(&self, chat: &str) -> Option<&str> {
        let (session, _) = self.sessions.of_chat(chat)?;
        Some(session)
    }

    /// The chat that is shown as a session.
    pub(crate) fn chat_of(&self, session: &str) -> Option<&str> {
        let entry = self.sessions.get(session)?;
        entry.chat.as_deref().filter(|_| !entry.is_left)
    }

    /// Whether a session counts as read.
    pub(crate) fn is_read(&self, session: &str) -> bool {
        self.sessions.get(session).is_some_and(|entry| entry.is_read)
    }

    pub(crate) fn set_read(&mut self, session: &str, is_read: bool) {
        if let Some(entry) = self.sessions.get_mut(session) {
            entry.is_read = is_read;
        }
    }

    /// The client's own entry among a session's active clients, in 1.0.
    pub(crate) fn own_client(&self, session: &str) -> Option<&Value> {
        self.sessions.get(session)?.own_client.as_ref()
    }

    /// The id of a session's customization.
    pub(crate) fn customization_id(&self, session: &str, uri: &str) -> Option<&str> {
        let list = &self.sessions.get(session)?.customizations;
        let (_, id) = list.iter().find(|(known, _)| known == uri)?;
        Some(id)
    }

    /// Learns from the state of a session in 1.0.
    pub(crate) fn learn_session(&mut self, session: &str, state: &Object) {
        let own = objects(state, "activeClients").find(|client| is(client, "clientId", &self.client_id));
        let own = own.cloned().map(Value::Object);
        let entry = self.sessions.entry(session);
        entry.own_client = own;
        entry.customizations = customization_ids(state);
    }

    /// Learns from an action in 1.0, on its way down or up.
    pub(crate) fn learn_action(&mut self, action: &Action) {
        match action.kind() {
            "session/activeClientSet" => {
                let client = action.body.get("activeClient");
                let is_own = client.and_then(|client| client.get("clientId")).and_then(Value::as_str)
                    == Some(self.client_id.as_str());
                if is_own {
                    self.learn_client(&action.channel, client);
                }
            }
            "session/activeClientRemoved" if action.text("clientId") == self.client_id => {
                self.learn_client(&action.channel, None);
            }
            "session/customizationsChanged" => {
                if let Some(entry) = self.sessions.get_mut(&action.channel) {
                    entry.customizations = customization_ids(&action.body);
                }
            }
            "session/customizationUpdated" => {
                let updated = action.body.get("customization").and_then(Value::as_object);
                if let Some(entry) = self.sessions.get_mut(&action.channel)
                    && let Some(pair) = updated.and_then(customization_pair)
                {
                    entry.customizations.retain(|(_, id)| *id != pair.1);
                    entry.customizations.push(pair);
                }
            }
            "session/customizationRemoved" => {
                if let Some(entry) = self.sessions.get_mut(&action.channel) {
                    entry.customizations.retain(|(_, id)| id != action.text("id"));
                }
            }
            _ => {}
        }
    }

    /// Notes the client's own entry among a session's active clients, in 1.0.
    pub(crate) fn learn_client(&mut self, session: &str, client: Option<&Value>) {
        self.sessions.entry(session).own_client = client.cloned();
    }

    /// The client leaves a channel. Actions of its chat may still be on their way down.
    pub(crate) fn leave(&mut self, channel: &str) {
        self.sessions.leave(channel);
    }
}

/// About as many bytes as a value has in memory.
fn json_bytes(value: &Value) -> usize {
    const VALUE: usize = 32;
    VALUE
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(json_bytes).sum(),
            Value::Object(members) => members.iter().map(|(key, value)| key.len() + json_bytes(value)).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

fn customization_ids(holder: &Object) -> Vec<(String, String)> {
    objects(holder, "customizations")
        .filter_map(customization_pair)
        .collect()
}

fn customization_pair(customization: &Object) -> Option<(String, String)> {
    Some((
        text(customization, "uri")?.to_owned(),
        text(customization, "id")?.to_owned(),
    ))
}

/// A map of the latest entries. There are few, so it is a list.
#[derive(Debug)]
struct Recent<K, V>(VecDeque<(K, V)>);

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<K: PartialEq, V> Recent<K, V> {
    fn insert(&mut self, key: K, value: V) {
        self.remove(&key);
        if self.0.len() >= MAX_ENTRIES {
            self.0.pop_front();
        }
        self.0.push_back((key, value));
    }

    fn remove<Q: ?Sized + PartialEq>(&mut self, key: &Q) -> Option<V>
    where
        K: std::borrow::Borrow<Q>,
    {
        let position = self.0.iter().position(|(known, _)| known.borrow() == key)?;
        self.0.remove(position).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_latest_dispatches_are_remembered() {
        let mut memory = Memory::new("c");
        for client_seq in 0..2000 {
            let dispatched = Dispatched {
                channel: None,
                action: json!(client_seq),
            };
            memory.begin_dispatch(client_seq, dispatched);
        }
        assert_eq!(memory.dispatches.0.len(), MAX_ENTRIES);
        assert!(memory.end_dispatch(10).is_none());
        assert_eq!(memory.end_dispatch(1999).unwrap().action, 1999);
        assert!(memory.end_dispatch(1999).is_none(), "an answer ends a dispatch");
    }

    #[test]
    fn large_dispatches_are_remembered_up_to_a_number_of_bytes() {
        let mut memory = Memory::new("c");
        let large = |bytes: usize| Dispatched {
            channel: None,
            action: json!({ "text": "x".repeat(bytes) }),
        };
        for client_seq in 0..8 {
            memory.begin_dispatch(client_seq, large(MAX_DISPATCHED_BYTES / 4));
        }
        assert_eq!(memory.dispatches.0.len(), 3);
        assert!(memory.end_dispatch(7).is_some() && memory.end_dispatch(4).is_none());
        memory.begin_dispatch(8, large(2 * MAX_DISPATCHED_BYTES));
        assert_eq!(memory.dispatches.0.len(), 1);
        assert!(memory.end_dispatch(8).is_some(), "the latest is there");
    }

    #[test]
    fn a_chat_is_shown_as_its_session_until_the_client_leaves() {
        let mut memory = Memory::new("c");
        memory.show_chat_as("chat:1", "session:1", true, Version::V0_3);
        assert_eq!(memory.session_of("chat:1"), Some("session:1"));
        assert_eq!(memory.chat_of("session:1"), Some("chat:1"));
        assert!(memory.is_read("session:1"));
        memory.leave("session:1");
        assert_eq!(memory.chat_of("session:1"), None, "the core finds the chat");
        assert_eq!(
            memory.session_of("chat:1"),
            Some("session:1"),
            "actions are on their way"
        );
        memory.show_chat_as("chat:2", "session:1", true, Version::V0_3);
        assert_eq!(memory.session_of("chat:1"), None);
        assert_eq!(memory.chat_of("session:1"), Some("chat:2"));
    }

    #[test]
    fn the_own_entry_is_learned_from_states_and_actions() {
        let mut memory = Memory::new("me");
        let state = json!({ "activeClients": [{ "clientId": "other" }, { "clientId": "me", "tools": [] }] });
        memory.learn_session("s", state.as_object().unwrap());
        assert_eq!(memory.own_client("s").unwrap()["tools"], json!([]));
        let removed = json!({ "type": "session/activeClientRemoved", "clientId": "me" });
        memory.learn_action(&Action {
            channel: "s".into(),
            body: removed.as_object().unwrap().clone(),
            is_extra: false,
        });
        assert!(memory.own_client("s").is_none());
    }
}

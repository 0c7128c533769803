//! The chats of a session: forks, side chats and subagents, as a tree.

use ahp_types::actions::{ChatTruncatedAction, StateAction};
use ahp_types::state::{ChatOrigin, ChatSummary, SessionState};
use serde_json::json;

use super::{App, Purpose};

/// A chat in the tree, with its depth.
pub(crate) struct Branch<'a> {
    pub(crate) chat: &'a ChatSummary,
    pub(crate) depth: usize,
}

/// Returns the chat that a chat came from.
fn parent(chat: &ChatSummary) -> Option<&str> {
    match chat.origin.as_ref()? {
        ChatOrigin::Fork { chat, .. } | ChatOrigin::SideChat { chat, .. } | ChatOrigin::Tool { chat, .. } => Some(chat),
        ChatOrigin::User | ChatOrigin::Unknown(_) => None,
    }
}

/// Returns the chats of a session, each followed by those that came from it.
pub(crate) fn tree(session: &SessionState) -> Vec<Branch<'_>> {
    let mut branches = Vec::new();
    let is_known = |uri: &str| session.chats.iter().any(|chat| chat.resource == uri);
    for chat in &session.chats {
        if parent(chat).is_none_or(|parent| !is_known(parent)) {
            add(session, chat, 0, &mut branches);
        }
    }
    branches
}

fn add<'a>(session: &'a SessionState, chat: &'a ChatSummary, depth: usize, branches: &mut Vec<Branch<'a>>) {
    // A circle of origins would be a bug of the host; it must not hang the client.
    if branches.len() > session.chats.len() {
        return;
    }
    branches.push(Branch { chat, depth });
    for child in &session.chats {
        if parent(child) == Some(chat.resource.as_str()) && child.resource != chat.resource {
            add(session, child, depth + 1, branches);
        }
    }
}

impl App {
    /// Returns the turn that commands about the history start from: that of the selected block, or the last one.
    fn marked_turn(&self) -> Option<String> {
        let chat = self.chat()?;
        let selected = self.transcript.selected.as_deref().and_then(|id| id.split('#').next());
        let turn = chat.turns.iter().rev().find(|turn| selected == Some(turn.id.as_str()));
        turn.or_else(|| chat.turns.last()).map(|turn| turn.id.clone())
    }

    /// Continues the chat in a copy, from the selected turn.
    pub(crate) fn fork_chat(&mut self) {
        self.create_chat("fork");
    }

    /// Asks something beside the chat, with its history.
    pub(crate) fn open_side_chat(&mut self) {
        self.create_chat("sideChat");
    }

    fn create_chat(&mut self, kind: &str) {
        let (Some(session), Some(source), Some(turn)) = (
            self.session_uri().map(str::to_owned),
            self.chat_uri().map(str::to_owned),
            self.marked_turn(),
        ) else {
            return self.tell("There is no turn to start from.");
        };
        let chat = format!("ahp-chat:/{}", uuid::Uuid::new_v4());
        let params = json!({
            "channel": session,
            "chat": chat,
            "source": { "kind": kind, "chat": source, "turnId": turn },
        });
        self.request(Purpose::OpenChat(chat), "createChat", params);
    }

    /// Removes all turns after the selected one.
    pub(crate) fn truncate_chat(&mut self) {
        let (Some(chat), Some(turn)) = (self.chat_uri().map(str::to_owned), self.marked_turn()) else {
            return self.tell("There is no turn.");
        };
        let action = StateAction::ChatTruncated(ChatTruncatedAction { turn_id: Some(turn) });
        self.dispatch(Purpose::Report(""), &chat, action);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subagents_stand_below_the_chat_that_started_them() {
        let chat = |uri: &str, origin: serde_json::Value| json!({ "resource": uri, "title": uri, "status": 1, "modifiedAt": "2026-01-01T00:00:00Z", "origin": origin });
        let of_tool = |chat: &str| json!({ "kind": "tool", "chat": chat, "toolCallId": "c" });
        let session: SessionState = serde_json::from_value(json!({
            "provider": "tour", "title": "", "status": 1, "lifecycle": "ready", "activeClients": [],
            "chats": [
                chat("a", json!({ "kind": "user" })),
                chat("b", json!({ "kind": "user" })),
                chat("a1", of_tool("a")),
                chat("a11", of_tool("a1")),
                chat("lost", of_tool("gone")),
            ],
        }))
        .unwrap();
        let shown: Vec<(String, usize)> = tree(&session)
            .iter()
            .map(|branch| (branch.chat.title.clone(), branch.depth))
            .collect();
        let expected = [("a", 0), ("a1", 1), ("a11", 2), ("b", 0), ("lost", 0)];
        assert_eq!(shown, expected.map(|(title, depth)| (title.to_owned(), depth)));
    }
}

//! 1.0 → 0.9.
//!
//! - Chats have no flags of their own: nothing sets them, so only the activity is shown.
//! - `session/chatsReordered` becomes `session/chatRemoved` and `session/chatAdded` for each chat from the first that
//!   moved on.
//! - Summaries have no chats. Canvases do not exist.
//! - Changesets are computed, never recomputed.
//! - Up: plugins of clients have no `type`.
//!
//! The other new actions of 1.0 change nothing that 0.9 has a place for, and its clients ignore actions that they do not
//! know.

use serde_json::{Value, json};

use super::Step;
use crate::action::{Action, Situation};
use crate::json::{Object, insert_after, is, list, objects, objects_mut, text};
use crate::memory::Memory;
use crate::version::Version;

/// The bits of a status that say what a chat is doing.
const ACTIVITY_BITS: u64 = 31;

pub(super) struct V0_9;

impl Step for V0_9 {
    fn version(&self) -> Version {
        Version::V0_9
    }

    fn summary(&self, summary: &mut Object) {
        summary.shift_remove("chats");
        summary.shift_remove("defaultChat");
    }

    fn chat(&self, chat: &mut Object) {
        if let Some(status) = chat.get_mut("status") {
            *status = (status.as_u64().unwrap_or_default() & ACTIVITY_BITS).into();
        }
        for absent in ["backgroundWork", "canvases", "changesets", "movable", "changes"] {
            chat.shift_remove(absent);
        }
    }

    fn other(&self, kind: &str, state: &mut Object) {
        if kind == "changeset" {
            without_recomputing(state);
        }
    }

    fn action(&self, mut action: Action, situation: &Situation<'_>, _memory: &mut Memory) -> Vec<Action> {
        match action.kind() {
            "session/chatsReordered" => match situation.before {
                Some(before) => reordered(&action, before),
                None => Vec::new(),
            },
            "chat/canvasesChanged" | "canvas/stateChanged" => Vec::new(),
            "changeset/statusChanged" => {
                without_recomputing(&mut action.body);
                vec![action]
            }
            _ => vec![action],
        }
    }

    fn up_active_client(&self, client: &mut Object) {
        for plugin in objects_mut(client, "customizations") {
            if !plugin.contains_key("type") {
                insert_after(plugin, "", "type", "plugin".into());
            }
        }
    }
}

fn without_recomputing(changeset: &mut Object) {
    if is(changeset, "status", "recomputing") {
        changeset.insert("status".to_owned(), "computing".into());
    }
}

/// Moves the chats behind the first difference to the end, one after the other in their new order.
fn reordered(action: &Action, before: &Object) -> Vec<Action> {
    let old: Vec<&Object> = objects(before, "chats").collect();
    let new: Vec<&str> = list(&action.body, "chats").iter().filter_map(Value::as_str).collect();
    let resource = |chat: &Object| text(chat, "resource").map(str::to_owned);
    let find = |uri: &str| old.iter().find(|chat| is(chat, "resource", uri));
    // The same conditions as in the published reducer.
    let mut unique = new.clone();
    unique.sort_unstable();
    unique.dedup();
    let is_permutation =
        new.len() == old.len() && unique.len() == old.len() && new.iter().all(|uri| find(uri).is_some());
    if !is_permutation {
        return Vec::new();
    }
    let same = old
        .iter()
        .zip(&new)
        .take_while(|(old, new)| is(old, "resource", new))
        .count();
    let moved = &new[same..];
    let mut actions = Vec::with_capacity(2 * moved.len() + 1);
    for uri in moved {
        let Some(summary) = find(uri) else {
            continue;
        };
        actions.push(action.extra("session/chatRemoved", json!({ "chat": resource(summary) })));
        actions.push(action.extra("session/chatAdded", json!({ "summary": summary })));
    }
    // Removing the default chat leaves the session without one.
    if let Some(default) = text(before, "defaultChat")
        && moved.contains(&default)
    {
        actions.push(action.extra("session/defaultChatChanged", json!({ "defaultChat": default })));
    }
    actions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{down, state_chat};

    fn session(chats: &[&str]) -> Value {
        let chats: Vec<Value> = chats
            .iter()
            .map(|uri| json!({ "resource": uri, "title": uri }))
            .collect();
        json!({ "chats": chats, "defaultChat": "b" })
    }

    fn reorder(order: &[&str]) -> Vec<Value> {
        let action = json!({ "type": "session/chatsReordered", "chats": order });
        down(&V0_9, action, Some(session(&["a", "b", "c"])))
    }

    #[test]
    fn a_chat_shows_its_activity_and_no_flags() {
        let chat = state_chat(&V0_9, json!({ "status": 33 | 64, "canvases": [], "turns": [] }));
        assert_eq!(chat, json!({ "status": 1, "turns": [] }));
    }

    #[test]
    fn reordered_chats_are_removed_and_added_from_the_first_difference() {
        let actions = reorder(&["a", "c", "b"]);
        let expected = [
            json!({ "type": "session/chatRemoved", "chat": "c" }),
            json!({ "type": "session/chatAdded", "summary": { "resource": "c", "title": "c" } }),
            json!({ "type": "session/chatRemoved", "chat": "b" }),
            json!({ "type": "session/chatAdded", "summary": { "resource": "b", "title": "b" } }),
            json!({ "type": "session/defaultChatChanged", "defaultChat": "b" }),
        ];
        assert_eq!(actions, expected);
    }

    #[test]
    fn an_order_that_is_none_changes_nothing() {
        assert!(reorder(&["a", "b", "c"]).is_empty());
        assert!(reorder(&["a", "b"]).is_empty());
        assert!(reorder(&["a", "b", "b"]).is_empty());
        assert!(reorder(&["a", "b", "x"]).is_empty());
    }

    #[test]
    fn canvases_are_withheld() {
        assert!(down(&V0_9, json!({ "type": "chat/canvasesChanged" }), None).is_empty());
        assert!(down(&V0_9, json!({ "type": "canvas/stateChanged", "canvas": {} }), None).is_empty());
    }

    #[test]
    fn a_changeset_is_never_recomputing() {
        let action = json!({ "type": "changeset/statusChanged", "status": "recomputing" });
        assert_eq!(down(&V0_9, action, None)[0]["status"], "computing");
    }

    #[test]
    fn plugins_of_clients_get_their_type() {
        let mut client = json!({ "customizations": [{ "id": "p" }, { "id": "q", "type": "plugin" }] });
        V0_9.up_active_client(client.as_object_mut().unwrap());
        assert_eq!(client["customizations"][0]["type"], "plugin");
    }
}

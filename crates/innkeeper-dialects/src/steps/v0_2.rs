//! 0.3 → 0.2.
//!
//! - `message` is `userMessage`, without an origin: it is always the user's.
//! - A tool call names the client that runs it, `toolClientId`, instead of its contributor.
//! - MCP servers exist inside plugins only, without a state.
//! - Changesets belong to the session's summary. Their operations have no status.

use serde_json::{Value, json};

use super::Step;
use crate::action::{Action, Situation};
use crate::json::{Object, is, object_mut, objects_mut, rename, replace};
use crate::memory::Memory;
use crate::state::Around;
use crate::version::Version;

pub(super) struct V0_2;

impl Step for V0_2 {
    fn version(&self) -> Version {
        Version::V0_2
    }

    fn message(&self, message: &mut Object) {
        message.shift_remove("origin");
    }

    fn tool_call(&self, call: &mut Object) {
        with_tool_client(call);
    }

    fn turn(&self, turn: &mut Object) {
        with_user_message(turn);
    }

    fn customizations(&self, list: &mut Vec<Value>) {
        list.retain(|customization| customization.get("type") != Some(&"mcpServer".into()));
    }

    fn session(&self, state: &mut Object, _around: &Around) {
        if let Some(changesets) = state.shift_remove("changesets")
            && let Some(summary) = object_mut(state, "summary")
        {
            summary.insert("changesets".to_owned(), changesets);
        }
    }

    fn chat(&self, chat: &mut Object) {
        for holder in ["activeTurn", "steeringMessage"] {
            if let Some(holder) = object_mut(chat, holder) {
                with_user_message(holder);
            }
        }
        objects_mut(chat, "queuedMessages").for_each(with_user_message);
    }

    fn action(&self, mut action: Action, _situation: &Situation<'_>, _memory: &mut Memory) -> Vec<Action> {
        match action.kind() {
            "session/turnStarted" | "session/pendingMessageSet" => with_user_message(&mut action.body),
            "session/toolCallStart" => with_tool_client(&mut action.body),
            "session/mcpServerStateChanged" | "changeset/operationStatusChanged" => return Vec::new(),
            _ => {}
        }
        vec![action]
    }

    fn up_message(&self, message: &mut Object) {
        message.insert("origin".to_owned(), json!({ "kind": "user" }));
    }

    fn up_dispatch(&self, action: &mut Action, _memory: &Memory, _now_ms: i64) -> Result<(), String> {
        rename(&mut action.body, "userMessage", "message");
        Ok(())
    }
}

fn with_user_message(holder: &mut Object) {
    rename(holder, "message", "userMessage");
}

fn with_tool_client(call: &mut Object) {
    replace(call, "contributor", "toolClientId", |contributor| {
        let contributor = contributor
            .as_object()
            .filter(|contributor| is(contributor, "kind", "client"))?;
        contributor.get("clientId").cloned()
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{down, state_chat, state_session, up};

    #[test]
    fn messages_are_the_users() {
        let new = |text: &str| json!({ "message": { "text": text, "origin": { "kind": "agent" } } });
        let old = |text: &str| json!({ "userMessage": { "text": text } });
        let chat = json!({ "turns": [new("a")], "activeTurn": new("b"), "steeringMessage": new("c"),
            "queuedMessages": [new("d")] });
        let expected = json!({ "turns": [old("a")], "activeTurn": old("b"), "steeringMessage": old("c"),
            "queuedMessages": [old("d")] });
        assert_eq!(state_chat(&V0_2, chat), expected);
    }

    #[test]
    fn a_turn_starts_with_a_message_of_the_user() {
        let old = json!({ "type": "session/turnStarted", "turnId": "t", "userMessage": { "text": "hi" } });
        let new = json!({ "type": "session/turnStarted", "turnId": "t",
            "message": { "text": "hi", "origin": { "kind": "user" } } });
        assert_eq!(down(&V0_2, new.clone(), None)[0].to_string(), old.to_string());
        assert_eq!(up(&V0_2, old).unwrap().to_string(), new.to_string());
    }

    #[test]
    fn a_suggestion_of_the_user_keeps_its_name() {
        let action = json!({ "type": "session/toolCallConfirmed", "userSuggestion": { "text": "no" } });
        let up = up(&V0_2, action).unwrap();
        assert_eq!(
            up["userSuggestion"],
            json!({ "text": "no", "origin": { "kind": "user" } })
        );
    }

    #[test]
    fn a_call_names_the_client_that_runs_it() {
        let start = |contributor: Value| json!({ "type": "session/toolCallStart", "toolCallId": "1", "contributor": contributor });
        let of_client = json!({ "kind": "client", "clientId": "c" });
        let shown = json!({ "type": "session/toolCallStart", "toolCallId": "1", "toolClientId": "c" });
        assert_eq!(down(&V0_2, start(of_client), None), [shown]);
        let of_server = json!({ "kind": "mcp", "customizationId": "m" });
        let shown = json!({ "type": "session/toolCallStart", "toolCallId": "1" });
        assert_eq!(down(&V0_2, start(of_server), None), [shown]);
    }

    #[test]
    fn servers_exist_inside_plugins_only() {
        let server = json!({ "type": "mcpServer", "id": "m" });
        let plugin = json!({ "type": "plugin", "id": "p", "children": [server] });
        let state = state_session(&V0_2, json!({ "customizations": [server, plugin] }));
        assert_eq!(state["customizations"], json!([plugin]));
        let updated =
            |customization: &Value| json!({ "type": "session/customizationUpdated", "customization": customization });
        assert!(down(&V0_2, updated(&server), None).is_empty());
        assert_eq!(down(&V0_2, updated(&plugin), None), [updated(&plugin)]);
        assert!(down(&V0_2, json!({ "type": "session/mcpServerStateChanged" }), None).is_empty());
    }

    #[test]
    fn changesets_belong_to_the_summary() {
        let state = state_session(&V0_2, json!({ "summary": { "title": "t" }, "changesets": [1] }));
        assert_eq!(state, json!({ "summary": { "title": "t", "changesets": [1] } }));
    }
}

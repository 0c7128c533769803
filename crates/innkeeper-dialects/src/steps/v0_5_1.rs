//! 0.5.2 → 0.5.1.
//!
//! - Answered questions are not part of the response.
//! - A toggle reaches no children: a server inside a plugin is toggled by updating the plugin.
//! - A request to start or stop an MCP server is shown as the state that it leads to.
//! - Results of commands, and reviewed files, do not exist.

use serde_json::{Value, json};

use super::Step;
use crate::action::{Action, Situation};
use crate::json::{Object, is, list_mut, object, object_mut, objects, objects_mut};
use crate::memory::Memory;
use crate::version::Version;

pub(super) struct V0_5_1;

impl Step for V0_5_1 {
    fn version(&self) -> Version {
        Version::V0_5_1
    }

    fn tool_content(&self, content: &mut Vec<Value>) {
        content.retain(|content| content.get("type") != Some(&"terminalComplete".into()));
    }

    fn turn(&self, turn: &mut Object) {
        without_questions(turn);
    }

    fn chat(&self, chat: &mut Object) {
        if let Some(active) = object_mut(chat, "activeTurn") {
            without_questions(active);
        }
    }

    fn action(&self, action: Action, situation: &Situation<'_>, _memory: &mut Memory) -> Vec<Action> {
        match action.kind() {
            "chat/responsePart"
                if object(&action.body, "part").is_some_and(|part| is(part, "kind", "inputRequest")) =>
            {
                Vec::new()
            }
            "session/customizationToggled" => {
                let updated = situation.before.and_then(|before| toggled_server(&action, before));
                updated.into_iter().chain([action]).collect()
            }
            "session/mcpServerStartRequested" => vec![server_is(&action, "starting")],
            "session/mcpServerStopRequested" => vec![server_is(&action, "stopped")],
            "changeset/filesReviewedChanged" => Vec::new(),
            _ => vec![action],
        }
    }
}

fn without_questions(turn: &mut Object) {
    if let Some(parts) = list_mut(turn, "responseParts") {
        parts.retain(|part| part.get("kind") != Some(&"inputRequest".into()));
    }
}

fn server_is(action: &Action, state: &str) -> Action {
    action.instead(
        "session/mcpServerStateChanged",
        json!({ "id": action.text("id"), "state": { "kind": state } }),
    )
}

/// The update of the container of an MCP server that was toggled.
fn toggled_server(action: &Action, before: &Object) -> Option<Action> {
    let (id, enabled) = (action.text("id"), action.body.get("enabled")?);
    let is_top = objects(before, "customizations").any(|container| is(container, "id", id));
    let contains = |container: &&Object| objects(container, "children").any(|child| is(child, "id", id));
    let container = objects(before, "customizations").find(contains).filter(|_| !is_top)?;
    let mut container = container.clone();
    let server = objects_mut(&mut container, "children").find(|child| is(child, "id", id))?;
    if !is(server, "type", "mcpServer") {
        return None;
    }
    server.insert("enabled".to_owned(), enabled.clone());
    Some(action.extra("session/customizationUpdated", json!({ "customization": container })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{down, state_chat};

    #[test]
    fn answered_questions_are_not_shown() {
        let answered = json!({ "kind": "inputRequest", "request": { "id": "q" }, "response": "accept" });
        let text = json!({ "kind": "markdown", "id": "p", "content": "" });
        let turn = |parts: Value| json!({ "id": "t", "responseParts": parts });
        let chat = json!({ "turns": [turn(json!([answered, text]))], "activeTurn": turn(json!([answered])) });
        let expected = json!({ "turns": [turn(json!([text]))], "activeTurn": turn(json!([])) });
        assert_eq!(state_chat(&V0_5_1, chat), expected);
        let part = json!({ "type": "chat/responsePart", "turnId": "t", "part": answered });
        assert!(down(&V0_5_1, part, None).is_empty());
    }

    #[test]
    fn requests_for_a_server_are_shown_as_its_state() {
        for (request, state) in [("Start", "starting"), ("Stop", "stopped")] {
            let action = json!({ "type": format!("session/mcpServer{request}Requested"), "id": "m" });
            let expected = json!({ "type": "session/mcpServerStateChanged", "id": "m", "state": { "kind": state } });
            assert_eq!(down(&V0_5_1, action, None), [expected]);
        }
    }

    #[test]
    fn a_toggled_server_updates_its_plugin() {
        let plugin = |enabled: bool| {
            json!({ "type": "plugin", "id": "p", "children": [
                { "type": "skill", "id": "s" },
                { "type": "mcpServer", "id": "m", "enabled": enabled },
            ] })
        };
        let before = || json!({ "customizations": [plugin(true)] });
        let toggle = |id: &str| json!({ "type": "session/customizationToggled", "id": id, "enabled": false });
        let updated = json!({ "type": "session/customizationUpdated", "customization": plugin(false) });
        assert_eq!(down(&V0_5_1, toggle("m"), Some(before())), [updated, toggle("m")]);
        assert_eq!(down(&V0_5_1, toggle("p"), Some(before())), [toggle("p")]);
        assert_eq!(down(&V0_5_1, toggle("s"), Some(before())), [toggle("s")]);
    }

    #[test]
    fn results_of_commands_are_not_shown() {
        let content = json!([{ "type": "terminal" }, { "type": "terminalComplete" }]);
        let action = json!({ "type": "chat/toolCallContentChanged", "content": content });
        assert_eq!(
            down(&V0_5_1, action, None)[0]["content"],
            json!([{ "type": "terminal" }])
        );
    }

    #[test]
    fn reviews_do_not_exist() {
        let reviewed = json!({ "type": "changeset/filesReviewedChanged", "fileIds": ["f"], "reviewed": true });
        assert!(down(&V0_5_1, reviewed, None).is_empty());
    }
}

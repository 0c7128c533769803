//! 0.7 → 0.6.
//!
//! - A session or chat has one working directory, the first. No action changes it.
//! - The input of a tool is text: input that is stored elsewhere is left out. `chat/toolCallReady` sets it anew, so
//!   input that stays is repeated, and `editedToolInput` always replaces it.
//! - `chat/toolCallDelta` has content.
//! - An attached chat is a simple attachment. A fork names its source without a kind.
//! - The result of a command in a terminal is a content of its own, `terminalComplete`, which may also stand alone.

use serde_json::{Value, json};

use super::{Request, Step};
use crate::action::{Action, Situation};
use crate::json::{Object, insert_after, is, object, object_mut, replace, text};
use crate::memory::Memory;
use crate::state::Around;
use crate::version::Version;
use crate::walk;

/// Actions about the list of directories.
const DIRECTORY_ACTIONS: [&str; 4] = [
    "session/workingDirectorySet",
    "session/workingDirectoryRemoved",
    "chat/workingDirectorySet",
    "chat/workingDirectoryRemoved",
];

pub(super) struct V0_6;

impl Step for V0_6 {
    fn version(&self) -> Version {
        Version::V0_6
    }

    fn attachments(&self, attachments: &mut Vec<Value>) {
        for attachment in attachments.iter_mut().filter_map(Value::as_object_mut) {
            if is(attachment, "type", "chat") {
                attachment.insert("type".to_owned(), "simple".into());
                attachment.shift_remove("resource");
                attachment.shift_remove("endTurn");
            }
        }
    }

    fn tool_call(&self, call: &mut Object) {
        without_stored_input(call);
    }

    fn tool_content(&self, content: &mut Vec<Value>) {
        let mut results = content.iter().filter_map(command_result).collect();
        for terminal in content.iter_mut().filter_map(Value::as_object_mut) {
            if is(terminal, "type", "terminal") {
                terminal.shift_remove("isPty");
                terminal.shift_remove("result");
            }
        }
        content.append(&mut results);
    }

    fn chat_summary(&self, summary: &mut Object) {
        with_one_directory(summary);
    }

    fn summary(&self, summary: &mut Object) {
        with_one_directory(summary);
    }

    fn session(&self, state: &mut Object, _around: &Around) {
        with_one_directory(state);
    }

    fn chat(&self, chat: &mut Object) {
        with_one_directory(chat);
    }

    fn action(&self, mut action: Action, situation: &Situation<'_>, _memory: &mut Memory) -> Vec<Action> {
        match action.kind() {
            kind if DIRECTORY_ACTIONS.contains(&kind) => return Vec::new(),
            "chat/toolCallDelta" if !action.body.contains_key("content") => {
                insert_after(&mut action.body, "toolCallId", "content", "".into());
            }
            "chat/toolCallReady" => {
                without_stored_input(&mut action.body);
                let call = walk::call_of(&action, situation);
                if let Some(input) = call.and_then(|call| text(call, "toolInput"))
                    && !action.body.contains_key("toolInput")
                {
                    let input = input.into();
                    insert_after(&mut action.body, "invocationMessage", "toolInput", input);
                }
            }
            "chat/toolCallConfirmed" if action.body.contains_key("editedToolInput") => {
                let call = walk::call_of(&action, situation);
                if call.is_some_and(|call| text(call, "toolInput").is_none()) {
                    action.body.shift_remove("editedToolInput");
                }
            }
            _ => {}
        }
        vec![action]
    }

    fn up_tool_content(&self, content: &mut Vec<Value>) {
        let (results, mut others): (Vec<Value>, Vec<Value>) = std::mem::take(content)
            .into_iter()
            .partition(|content| content.get("type") == Some(&"terminalComplete".into()));
        for result in results.iter().filter_map(Value::as_object) {
            let mut terminals = others.iter_mut().filter_map(Value::as_object_mut);
            let of_result = |terminal: &&mut Object| {
                is(terminal, "type", "terminal")
                    && !terminal.contains_key("result")
                    && terminal.get("resource") == result.get("resource")
            };
            match terminals.find(of_result) {
                Some(terminal) => drop(terminal.insert("result".to_owned(), outcome(result))),
                None => others.push(json!({ "type": "text", "text": outcome_text(result) })),
            }
        }
        *content = others;
    }

    fn up_request(&self, request: &mut Request, _memory: &Memory) {
        match request.method.as_str() {
            "createSession" | "createChat" => {
                replace(&mut request.params, "workingDirectory", "workingDirectories", |one| {
                    (!one.is_null()).then(|| json!([one]))
                });
                if let Some(source) = object_mut(&mut request.params, "source")
                    && !source.contains_key("kind")
                {
                    source.insert("kind".to_owned(), "fork".into());
                }
            }
            _ => {}
        }
    }
}

/// Replaces a list of directories by the first.
fn with_one_directory(holder: &mut Object) {
    replace(holder, "workingDirectories", "workingDirectory", |list| {
        list.get(0).cloned()
    });
}

fn without_stored_input(holder: &mut Object) {
    if object(holder, "toolInput").is_some() {
        holder.shift_remove("toolInput");
    }
}

/// The result of a command as a content of its own.
fn command_result(content: &Value) -> Option<Value> {
    let terminal = content.as_object().filter(|content| is(content, "type", "terminal"))?;
    let result = object(terminal, "result")?;
    let mut complete = Object::new();
    complete.insert("type".to_owned(), "terminalComplete".into());
    if let Some(resource) = terminal.get("resource") {
        complete.insert("resource".to_owned(), resource.clone());
    }
    complete.extend(result.clone());
    Some(Value::Object(complete))
}

/// The result of a command as a member of its terminal.
fn outcome(complete: &Object) -> Value {
    let mut result = Object::new();
    for key in ["exitCode", "preview", "truncated"] {
        if let Some(value) = complete.get(key) {
            result.insert(key.to_owned(), value.clone());
        }
    }
    Value::Object(result)
}

/// The result of a command that no terminal shows, in words.
fn outcome_text(complete: &Object) -> String {
    let preview = text(complete, "preview").unwrap_or_default();
    let exit = complete.get("exitCode").filter(|code| code.is_number());
    match exit {
        Some(code) if preview.is_empty() => format!("exit code {code}"),
        Some(code) => format!("{}\nexit code {code}", preview.trim_end_matches('\n')),
        None => preview.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{down, state_chat, state_session, up};

    fn chat_with_call(call: Value) -> Value {
        json!({ "activeTurn": { "id": "t", "responseParts": [{ "kind": "toolCall", "toolCall": call }] } })
    }

    #[test]
    fn the_first_working_directory_is_shown() {
        let state = json!({ "title": "t", "workingDirectories": ["a", "b"], "lifecycle": "ready",
            "chats": [{ "resource": "c", "workingDirectories": [] }] });
        let expected =
            json!({ "title": "t", "workingDirectory": "a", "lifecycle": "ready", "chats": [{ "resource": "c" }] });
        assert_eq!(state_session(&V0_6, state).to_string(), expected.to_string());
        for kind in DIRECTORY_ACTIONS {
            assert!(down(&V0_6, json!({ "type": kind, "directory": "a" }), None).is_empty());
        }
    }

    #[test]
    fn the_one_directory_of_a_new_session_is_a_list_above() {
        let params = json!({ "channel": "s", "workingDirectory": "a", "source": { "chat": "c", "turnId": "t" } });
        let mut request = Request {
            method: "createSession".into(),
            params: params.as_object().unwrap().clone(),
        };
        V0_6.up_request(&mut request, &Memory::new("me"));
        let expected = json!({ "channel": "s", "workingDirectories": ["a"],
            "source": { "chat": "c", "turnId": "t", "kind": "fork" } });
        assert_eq!(Value::Object(request.params), expected);
    }

    #[test]
    fn input_that_is_stored_elsewhere_is_left_out() {
        let call = json!({ "toolCallId": "1", "toolInput": { "uri": "blob:1" } });
        let chat = state_chat(&V0_6, chat_with_call(call));
        assert_eq!(chat, chat_with_call(json!({ "toolCallId": "1" })));
    }

    #[test]
    fn a_ready_call_repeats_the_input_that_stays() {
        let ready = json!({ "type": "chat/toolCallReady", "turnId": "t", "toolCallId": "1", "invocationMessage": "m",
            "confirmed": "not-needed" });
        let before = chat_with_call(json!({ "toolCallId": "1", "status": "running", "toolInput": "ls" }));
        let expected = json!({ "type": "chat/toolCallReady", "turnId": "t", "toolCallId": "1", "invocationMessage": "m",
            "toolInput": "ls", "confirmed": "not-needed" });
        assert_eq!(
            down(&V0_6, ready.clone(), Some(before))[0].to_string(),
            expected.to_string()
        );
        let streaming = chat_with_call(json!({ "toolCallId": "1", "status": "streaming" }));
        assert_eq!(down(&V0_6, ready.clone(), Some(streaming)), [ready]);
    }

    #[test]
    fn edited_input_replaces_only_text() {
        let confirmed = json!({ "type": "chat/toolCallConfirmed", "turnId": "t", "toolCallId": "1", "approved": true,
            "editedToolInput": "x" });
        let with_text = chat_with_call(json!({ "toolCallId": "1", "toolInput": "ls" }));
        assert_eq!(down(&V0_6, confirmed.clone(), Some(with_text)), vec![confirmed.clone()]);
        let without = chat_with_call(json!({ "toolCallId": "1", "toolInput": { "uri": "blob:1" } }));
        assert!(
            down(&V0_6, confirmed, Some(without))[0]
                .get("editedToolInput")
                .is_none()
        );
    }

    #[test]
    fn a_delta_has_content() {
        let delta = json!({ "type": "chat/toolCallDelta", "turnId": "t", "toolCallId": "1", "invocationMessage": "m" });
        assert_eq!(down(&V0_6, delta, None)[0]["content"], "");
    }

    #[test]
    fn an_attached_chat_is_a_simple_attachment() {
        let attachment = json!({ "type": "chat", "label": "l", "resource": "c", "endTurn": "t" });
        let action = json!({ "type": "chat/turnStarted", "message": { "text": "", "attachments": [attachment] } });
        let shown = json!([{ "type": "simple", "label": "l" }]);
        assert_eq!(down(&V0_6, action, None)[0]["message"]["attachments"], shown);
    }

    #[test]
    fn the_result_of_a_command_is_a_content_of_its_own() {
        let terminal = json!({ "type": "terminal", "resource": "r", "title": "t" });
        let mut newer = terminal.clone();
        newer["isPty"] = false.into();
        newer["result"] = json!({ "exitCode": 1 });
        let action = json!({ "type": "chat/toolCallContentChanged", "content": [newer] });
        let complete = json!({ "type": "terminalComplete", "resource": "r", "exitCode": 1 });
        assert_eq!(down(&V0_6, action, None)[0]["content"], json!([terminal, complete]));
    }

    #[test]
    fn the_result_of_a_command_goes_up_into_its_terminal() {
        let terminal = |resource: &str| json!({ "type": "terminal", "resource": resource, "title": "t" });
        let complete =
            json!({ "type": "terminalComplete", "resource": "b", "exitCode": 1, "preview": "x", "cwd": "c" });
        let content = json!([terminal("a"), complete, terminal("b")]);
        let mut with_result = terminal("b");
        with_result["result"] = json!({ "exitCode": 1, "preview": "x" });
        let above = json!([terminal("a"), with_result]);
        let action = |content: &Value| json!({ "type": "chat/toolCallComplete", "result": { "content": content } });
        assert_eq!(up(&V0_6, action(&content)), Ok(action(&above)));
        let action = |content: &Value| json!({ "type": "chat/toolCallContentChanged", "content": content });
        assert_eq!(up(&V0_6, action(&content)), Ok(action(&above)));
        // Its author sees it as it was, without the directory.
        let complete = json!({ "type": "terminalComplete", "resource": "b", "exitCode": 1, "preview": "x" });
        let shown = json!([terminal("a"), terminal("b"), complete]);
        assert_eq!(down(&V0_6, action(&above), None), [action(&shown)]);
    }

    #[test]
    fn the_result_of_a_command_without_a_terminal_is_text() {
        let up = |complete: Value| {
            let action = json!({ "type": "chat/toolCallContentChanged", "content": [complete] });
            up(&V0_6, action).unwrap()["content"].take()
        };
        let text = |text: &str| json!([{ "type": "text", "text": text }]);
        let complete = json!({ "type": "terminalComplete", "exitCode": 2, "preview": "no such file\n" });
        assert_eq!(up(complete), text("no such file\nexit code 2"));
        assert_eq!(
            up(json!({ "type": "terminalComplete", "exitCode": 0 })),
            text("exit code 0")
        );
        assert_eq!(up(json!({ "type": "terminalComplete", "preview": "x" })), text("x"));
    }
}

//! 0.4 → 0.3.
//!
//! - A session is its chat: turns, questions and pending messages are members of the session, and 22 actions of the chat
//!   are actions of the session. Of several chats, the default one at the time of the subscription is shown.
//! - The status of the session follows its turns, which also mark it as unread: `session/isReadChanged` restores that.
//! - A tool call keeps the `_meta` that it started with.
//! - The content of a changeset is sent file by file. Its operations are never disabled, and are invoked for lines
//!   without characters.
//! - Annotations do not exist.

use serde_json::{Value, json};

use super::{Request, Step};
use crate::action::{Action, Situation};
use crate::json::{Object, insert_after, is, list, object, object_mut, objects_mut};
use crate::memory::Memory;
use crate::version::Version;

/// The bits of a status that say what a chat is doing.
const ACTIVITY_BITS: u64 = 31;

/// The actions of a chat that are actions of its session.
const MOVED: [&str; 22] = [
    "turnStarted",
    "delta",
    "responsePart",
    "toolCallStart",
    "toolCallDelta",
    "toolCallReady",
    "toolCallConfirmed",
    "toolCallComplete",
    "toolCallResultConfirmed",
    "toolCallContentChanged",
    "turnComplete",
    "turnCancelled",
    "error",
    "usage",
    "reasoning",
    "pendingMessageSet",
    "pendingMessageRemoved",
    "queuedMessagesReordered",
    "inputRequested",
    "inputAnswerChanged",
    "inputCompleted",
    "truncated",
];

/// The members of a chat that are members of its session.
const SHARED: [&str; 4] = ["activeTurn", "steeringMessage", "queuedMessages", "inputRequests"];

/// Actions about the catalogue of chats.
const CATALOGUE: [&str; 4] = [
    "session/chatAdded",
    "session/chatRemoved",
    "session/chatUpdated",
    "session/defaultChatChanged",
];

/// The keys of a tool call's `_meta` that are there from its start. Clients of 0.3 do not follow later ones.
const META_OF_START: [&str; 5] = ["toolKind", "language", "ui", "mcpServerName", "mcpToolName"];

pub(super) struct V0_3;

impl Step for V0_3 {
    fn version(&self) -> Version {
        Version::V0_3
    }

    fn tool_call(&self, call: &mut Object) {
        keep_meta_of_start(call);
    }

    fn session_with_chat(&self, session: &mut Object, chat: &mut Object) {
        session.shift_remove("chats");
        session.shift_remove("defaultChat");
        for key in SHARED {
            if let Some(value) = chat.shift_remove(key) {
                session.insert(key.to_owned(), value);
            }
        }
        let Some(summary) = object_mut(session, "summary") else {
            return;
        };
        let bits = |holder: &Object| holder.get("status").and_then(Value::as_u64).unwrap_or_default();
        let status = bits(summary) & !ACTIVITY_BITS | bits(chat) & ACTIVITY_BITS;
        summary.insert("status".to_owned(), status.into());
        match chat.shift_remove("activity") {
            Some(activity) => insert_after(summary, "status", "activity", activity),
            None => {
                summary.shift_remove("activity");
            }
        }
        chat.clear();
    }

    fn other(&self, kind: &str, state: &mut Object) {
        if kind == "changeset" {
            objects_mut(state, "operations").for_each(enable);
        }
    }

    fn action(&self, mut action: Action, situation: &Situation<'_>, memory: &mut Memory) -> Vec<Action> {
        let kind = action.kind().to_owned();
        if CATALOGUE.contains(&kind.as_str()) || kind.starts_with("annotations/") {
            return Vec::new();
        }
        if kind == "changeset/contentChanged" {
            return file_by_file(&action, situation.before);
        }
        if kind == "session/isReadChanged" {
            let is_read = action.body.get("isRead") == Some(&Value::Bool(true));
            memory.set_read(&action.channel, is_read);
        }
        if kind.starts_with("changeset/operation") {
            enable(&mut action.body);
            objects_mut(&mut action.body, "operations").for_each(enable);
        }
        let Some(name) = kind.strip_prefix("chat/") else {
            // The session shows what its chat is doing.
            return if kind == "session/activityChanged" {
                Vec::new()
            } else {
                vec![action]
            };
        };
        if !MOVED.contains(&name) && name != "activityChanged" {
            return Vec::new();
        }
        if let Some(session) = memory.session_of(&action.channel) {
            action.channel = session.to_owned();
        }
        action.set_kind(&format!("session/{name}"));
        keep_meta_of_start(&mut action.body);
        let marks_unread = matches!(name, "turnStarted" | "inputRequested");
        if marks_unread && memory.is_read(&action.channel) {
            let read = action.extra("session/isReadChanged", json!({ "isRead": true }));
            return vec![action, read];
        }
        vec![action]
    }

    fn up_message(&self, message: &mut Object) {
        // The origin of a message had no type.
        if object(message, "origin").is_none_or(|origin| !origin.get("kind").is_some_and(Value::is_string)) {
            message.insert("origin".to_owned(), json!({ "kind": "user" }));
        }
    }

    fn up_request(&self, request: &mut Request, memory: &Memory) {
        if matches!(request.method.as_str(), "fetchTurns" | "completions")
            && let Some(Value::String(channel)) = request.params.get_mut("channel")
            && let Some(chat) = memory.chat_of(channel)
        {
            chat.clone_into(channel);
        }
        if request.method == "invokeChangesetOperation"
            && let Some(target) = object_mut(&mut request.params, "target")
            && let Some(range) = object_mut(target, "range")
        {
            ["start", "end"].iter().for_each(|end| name_position(range, end));
        }
    }

    fn up_dispatch(&self, action: &mut Action, memory: &Memory, _now_ms: i64) -> Result<(), String> {
        let name = action
            .kind()
            .strip_prefix("session/")
            .filter(|name| MOVED.contains(name));
        if let Some(name) = name {
            let kind = format!("chat/{name}");
            action.set_kind(&kind);
            // Otherwise the core finds the default chat of the session.
            if let Some(chat) = memory.chat_of(&action.channel) {
                action.channel = chat.to_owned();
            }
        }
        Ok(())
    }
}

/// The whole content of a changeset as the removal of its files and one action per file.
fn file_by_file(action: &Action, before: Option<&Object>) -> Vec<Action> {
    let mut actions = Vec::new();
    if before.is_none_or(|before| !list(before, "files").is_empty()) {
        actions.push(action.extra("changeset/cleared", json!({})));
    }
    for file in list(&action.body, "files") {
        actions.push(action.extra("changeset/fileSet", json!({ "file": file })));
    }
    if let Some(operations) = action.body.get("operations") {
        let mut changed = action.extra("changeset/operationsChanged", json!({ "operations": operations }));
        objects_mut(&mut changed.body, "operations").for_each(enable);
        actions.push(changed);
    }
    actions
}

/// A line as the position of its first character.
fn name_position(range: &mut Object, end: &str) {
    if let Some(line) = range.get_mut(end).filter(|line| line.is_number()) {
        *line = json!({ "line": line, "character": 0 });
    }
}

/// An operation that is disabled is idle.
fn enable(operation: &mut Object) {
    if is(operation, "status", "disabled") {
        operation.insert("status".to_owned(), "idle".into());
    }
}

fn keep_meta_of_start(call: &mut Object) {
    if !call.contains_key("toolCallId") {
        return;
    }
    let Some(meta) = object_mut(call, "_meta") else {
        return;
    };
    let is_subagent = is(meta, "toolKind", "subagent");
    meta.retain(|key, _| META_OF_START.contains(&key.as_str()) && !(is_subagent && key == "toolKind"));
    if meta.is_empty() {
        call.shift_remove("_meta");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{down, down_with, state_chat, up_with};

    fn memory(is_read: bool) -> Memory {
        let mut memory = Memory::new("me");
        memory.show_chat_as("s", "session:1", is_read, Version::V0_3);
        memory
    }

    #[test]
    fn a_session_has_the_members_of_its_chat() {
        let mut session = json!({ "summary": { "resource": "session:1", "status": 32 | 1, "activity": "old", "createdAt": 0 },
            "lifecycle": "ready", "chats": [{}], "defaultChat": "s", "config": {} });
        let mut chat = json!({ "resource": "s", "status": 8, "activity": "thinking", "activeTurn": { "id": "t" },
            "queuedMessages": [] });
        V0_3.session_with_chat(session.as_object_mut().unwrap(), chat.as_object_mut().unwrap());
        let expected = json!({
            "summary": { "resource": "session:1", "status": 32 | 8, "activity": "thinking", "createdAt": 0 },
            "lifecycle": "ready", "config": {}, "activeTurn": { "id": "t" }, "queuedMessages": [],
        });
        assert_eq!(session.to_string(), expected.to_string());
    }

    #[test]
    fn actions_of_the_chat_are_actions_of_the_session() {
        for name in MOVED {
            let mut memory = memory(false);
            let action = json!({ "type": format!("chat/{name}"), "turnId": "t" });
            let shown = down_with(&V0_3, action.clone(), None, &mut memory);
            assert_eq!(shown, [json!({ "type": format!("session/{name}"), "turnId": "t" })]);
            let up = up_with(&V0_3, shown[0].clone(), &memory).unwrap();
            assert_eq!((up.channel.as_str(), Value::Object(up.body)), ("s", action));
        }
    }

    #[test]
    fn a_dispatch_to_a_session_goes_to_its_chat() {
        let mut memory = Memory::new("me");
        let action = json!({ "type": "session/truncated" });
        assert_eq!(
            up_with(&V0_3, action.clone(), &memory).unwrap().channel,
            "s",
            "the core finds the chat"
        );
        memory.show_chat_as("chat:1", "s", true, Version::V0_3);
        assert_eq!(up_with(&V0_3, action, &memory).unwrap().channel, "chat:1");
        let read = json!({ "type": "session/isReadChanged", "isRead": true });
        assert_eq!(up_with(&V0_3, read, &memory).unwrap().channel, "s");
    }

    #[test]
    fn a_session_that_counts_as_read_stays_read() {
        let started = json!({ "type": "chat/turnStarted", "turnId": "t", "message": {} });
        let read = json!({ "type": "session/isReadChanged", "isRead": true });
        assert_eq!(down_with(&V0_3, started.clone(), None, &mut memory(true))[1], read);
        let mut memory = memory(false);
        assert_eq!(down_with(&V0_3, started.clone(), None, &mut memory).len(), 1);
        memory.set_read("session:1", true);
        assert_eq!(down_with(&V0_3, started, None, &mut memory).len(), 2);
    }

    #[test]
    fn the_activity_of_the_chat_is_the_sessions() {
        let of_chat = json!({ "type": "chat/activityChanged", "activity": "a" });
        let of_session = json!({ "type": "session/activityChanged", "activity": "a" });
        assert_eq!(down(&V0_3, of_chat, None), vec![of_session.clone()]);
        assert!(down(&V0_3, of_session, None).is_empty());
    }

    #[test]
    fn the_catalogue_of_chats_does_not_exist() {
        for kind in CATALOGUE {
            assert!(down(&V0_3, json!({ "type": kind }), None).is_empty());
        }
    }

    #[test]
    fn a_call_keeps_the_meta_of_its_start() {
        let call = |meta: Value| {
            json!({ "activeTurn": { "responseParts": [{ "kind": "toolCall",
            "toolCall": { "toolCallId": "1", "_meta": meta } }] } })
        };
        let shown = |meta: Value| {
            let chat = state_chat(&V0_3, call(meta));
            chat["activeTurn"]["responseParts"][0]["toolCall"].get("_meta").cloned()
        };
        let kept = json!({ "toolKind": "terminal" });
        assert_eq!(
            shown(json!({ "toolKind": "terminal", "innkeeper.decidedBy": {} })),
            Some(kept)
        );
        assert_eq!(shown(json!({ "toolKind": "subagent", "subagentChatUri": "c" })), None);
    }

    #[test]
    fn operations_are_never_disabled() {
        let changed = json!({ "type": "changeset/operationsChanged", "operations": [{ "status": "disabled" }] });
        assert_eq!(
            down(&V0_3, changed, None)[0]["operations"],
            json!([{ "status": "idle" }])
        );
        let changed = json!({ "type": "changeset/operationStatusChanged", "status": "disabled" });
        assert_eq!(down(&V0_3, changed, None)[0]["status"], "idle");
    }

    #[test]
    fn the_content_of_a_changeset_is_sent_file_by_file() {
        let file = |id: &str| json!({ "id": id, "edit": {} });
        let changed = json!({ "type": "changeset/contentChanged", "files": [file("a"), file("b")], "error": {},
            "operations": [{ "id": "o", "status": "disabled" }] });
        let set = |id: &str| json!({ "type": "changeset/fileSet", "file": file(id) });
        let operations =
            json!({ "type": "changeset/operationsChanged", "operations": [{ "id": "o", "status": "idle" }] });
        let cleared = json!({ "type": "changeset/cleared" });
        let shown = |before: Value| down(&V0_3, changed.clone(), Some(before));
        assert_eq!(
            shown(json!({ "files": [] })),
            [set("a"), set("b"), operations.clone()],
            "the first content"
        );
        let again = [cleared.clone(), set("a"), set("b"), operations];
        assert_eq!(shown(json!({ "files": [file("c")] })), again);
        let none = json!({ "type": "changeset/contentChanged", "files": [] });
        assert_eq!(
            down(&V0_3, none.clone(), Some(json!({ "files": [file("c")] }))),
            [cleared]
        );
        assert!(down(&V0_3, none, Some(json!({ "files": [] }))).is_empty());
    }

    #[test]
    fn a_range_of_lines_is_one_of_positions_above() {
        let target = json!({ "kind": "range", "resource": "file:///a", "range": { "start": 3, "end": 7 } });
        let params = json!({ "channel": "c", "operationId": "discard", "target": target });
        let mut request = Request {
            method: "invokeChangesetOperation".into(),
            params: params.as_object().unwrap().clone(),
        };
        V0_3.up_request(&mut request, &Memory::new("me"));
        let range = json!({ "start": { "line": 3, "character": 0 }, "end": { "line": 7, "character": 0 } });
        assert_eq!(request.params["target"]["range"], range);
        let once = request.params.clone();
        V0_3.up_request(&mut request, &Memory::new("me"));
        assert_eq!(request.params, once, "positions stay");
    }

    #[test]
    fn annotations_do_not_exist() {
        for name in ["set", "updated", "removed", "entrySet", "entryRemoved"] {
            assert!(down(&V0_3, json!({ "type": format!("annotations/{name}") }), None).is_empty());
        }
    }

    #[test]
    fn a_message_without_origin_is_the_users() {
        let mut message = json!({ "text": "hi", "origin": "x" });
        V0_3.up_message(message.as_object_mut().unwrap());
        assert_eq!(message["origin"], json!({ "kind": "user" }));
    }
}

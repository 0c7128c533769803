//! Random actions of every type, as JSON.

use serde_json::{Value, json};

use super::{Case, fold};
use crate::sim::{Choices, bytes_from_seed};

/// The types of all actions that [`random`] cases have, apart from those that never change a state.
#[cfg(test)]
pub(super) const ACTION_TYPES: &[&str] = &[
    "root/agentsChanged",
    "root/activeSessionsChanged",
    "root/terminalsChanged",
    "root/configChanged",
    "session/ready",
    "session/creationFailed",
    "session/chatAdded",
    "session/chatRemoved",
    "session/chatUpdated",
    "session/chatsReordered",
    "session/defaultChatChanged",
    "session/titleChanged",
    "session/isReadChanged",
    "session/isArchivedChanged",
    "session/activityChanged",
    "session/changesetsChanged",
    "session/configChanged",
    "session/metaChanged",
    "session/serverToolsChanged",
    "session/activeClientSet",
    "session/activeClientRemoved",
    "session/workingDirectorySet",
    "session/workingDirectoryRemoved",
    "session/workingDirectoryReplaced",
    "session/inputNeededSet",
    "session/inputNeededRemoved",
    "session/customizationsChanged",
    "session/customizationToggled",
    "session/customizationUpdated",
    "session/customizationRemoved",
    "session/mcpServerStateChanged",
    "session/mcpServerStartRequested",
    "session/mcpServerStopRequested",
    "session/mcpServerBackgroundRequested",
    "chat/turnStarted",
    "chat/delta",
    "chat/responsePart",
    "chat/toolCallStart",
    "chat/toolCallDelta",
    "chat/toolCallReady",
    "chat/toolCallConfirmed",
    "chat/toolCallComplete",
    "chat/toolCallResultConfirmed",
    "chat/toolCallContentChanged",
    "chat/toolCallAuthRequired",
    "chat/toolCallAuthResolved",
    "chat/turnComplete",
    "chat/turnCancelled",
    "chat/error",
    "chat/turnResume",
    "chat/activityChanged",
    "chat/backgroundWorkSet",
    "chat/backgroundWorkRemoved",
    "chat/movableChanged",
    "chat/changesetsChanged",
    "chat/canvasesChanged",
    "chat/usage",
    "chat/reasoning",
    "chat/workingDirectorySet",
    "chat/workingDirectoryRemoved",
    "chat/pendingMessageSet",
    "chat/pendingMessageRemoved",
    "chat/queuedMessagesReordered",
    "chat/draftChanged",
    "chat/isReadChanged",
    "chat/isArchivedChanged",
    "chat/inputRequested",
    "chat/inputAnswerChanged",
    "chat/inputCompleted",
    "chat/truncated",
    "chat/turnsLoaded",
    "terminal/data",
    "terminal/resized",
    "terminal/claimed",
    "terminal/titleChanged",
    "terminal/cwdChanged",
    "terminal/exited",
    "terminal/cleared",
    "terminal/commandDetectionAvailable",
    "terminal/commandExecuted",
    "terminal/commandFinished",
    "changeset/statusChanged",
    "changeset/fileSet",
    "changeset/fileRemoved",
    "changeset/filesReviewChanged",
    "changeset/contentChanged",
    "changeset/operationsChanged",
    "changeset/operationStatusChanged",
    "changeset/cleared",
    "annotations/set",
    "annotations/updated",
    "annotations/removed",
    "annotations/entrySet",
    "annotations/entryRemoved",
];

/// Bytes that decide one case.
const CASE_BYTES: usize = 900;

/// Actions of one case.
const ACTIONS: usize = 24;

/// Returns the case of a seed.
pub fn random(seed: u64) -> Result<Case, String> {
    let bytes = bytes_from_seed(seed, CASE_BYTES);
    let mut draw = Draw(Choices::new(&bytes));
    let (before, next): (Value, fn(&mut Draw<'_>) -> Value) = match seed % 8 {
        0 => (draw.root_state(), |draw| draw.root()),
        1 | 2 => (draw.session_state(), |draw| draw.session()),
        3 => (draw.terminal_state(), |draw| draw.terminal()),
        4 => (draw.changeset_state(), |draw| draw.changeset()),
        5 => (json!({ "annotations": [] }), |draw| draw.annotations()),
        _ => (draw.chat_state(), |draw| draw.chat()),
    };
    let actions: Vec<Value> = (0..ACTIONS).map(|_| without_nulls(next(&mut draw))).collect();
    let before = without_nulls(before);
    fold(&before, &actions).map(|(case, _)| case)
}

/// Removes members that are null: absent members are not written.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .filter(|(_, member)| !member.is_null())
            .map(|(name, member)| (name, without_nulls(member)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

struct Draw<'a>(Choices<'a>);

impl Draw<'_> {
    fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound)
    }

    fn one_of(&mut self, names: &'static [&'static str]) -> &'static str {
        names[self.below(names.len())]
    }

    fn yes(&mut self) -> bool {
        self.0.one_in(2)
    }

    /// An id of a small pool, so that actions meet.
    fn id(&mut self, prefix: &str) -> String {
        format!("{prefix}{}", self.below(2))
    }

    fn ids(&mut self, prefix: &str) -> Vec<String> {
        (0..self.below(4)).map(|_| self.id(prefix)).collect()
    }

    /// The value, or null, which is left out.
    fn maybe(&mut self, value: Value) -> Value {
        match self.yes() {
            true => value,
            false => Value::Null,
        }
    }

    fn word(&mut self) -> String {
        let words = ["", "a", "two words", "Zeilenende\n", "\u{1f980} crab", "`code`"];
        words[self.below(words.len())].to_owned()
    }

    fn text(&mut self) -> Value {
        let word = self.word();
        match self.yes() {
            true => json!(word),
            false => json!({ "markdown": word }),
        }
    }

    fn status(&mut self) -> u32 {
        [1, 2, 8, 24, 33, 40, 56, 97][self.below(8)]
    }

    fn time(&mut self) -> &'static str {
        let times = [
            "2026-01-31T12:00:00Z",
            "2026-01-31T23:59:59.999Z",
            "2026-02-28T10:00:00.5Z",
            "not a time",
        ];
        times[self.below(times.len())]
    }

    fn meta(&mut self) -> Value {
        let word = self.word();
        self.maybe(json!({ "note": word }))
    }

    fn message(&mut self) -> Value {
        json!({ "text": self.word(), "origin": { "kind": "user" } })
    }

    fn error(&mut self) -> Value {
        json!({ "errorType": "test", "message": self.word() })
    }

    fn changesets(&mut self) -> Value {
        let label = self.word();
        let changesets = json!([{ "label": label, "uriTemplate": "ahp-changeset:/x", "changeKind": "session" }]);
        self.maybe(changesets)
    }

    fn values(&mut self) -> Value {
        let (key, word) = (self.id("key"), self.word());
        json!({ key: word })
    }

    fn config(&mut self) -> Value {
        let values = self.values();
        self.maybe(json!({ "schema": { "type": "object", "properties": {} }, "values": values }))
    }

    // Root.

    fn root_state(&mut self) -> Value {
        json!({ "agents": [], "config": self.config() })
    }

    fn root(&mut self) -> Value {
        match self.below(4) {
            0 => {
                let provider = self.id("agent");
                json!({ "type": "root/agentsChanged", "agents": [
                    { "provider": provider, "displayName": self.word(), "description": "", "models": [] },
                ] })
            }
            1 => json!({ "type": "root/activeSessionsChanged", "activeSessions": self.below(5) }),
            2 => {
                let (resource, claim) = (self.id("ahp-terminal:/"), self.claim());
                json!({ "type": "root/terminalsChanged", "terminals": [
                    { "resource": resource, "title": self.word(), "claim": claim, "lifecycle": { "status": "running" } },
                ] })
            }
            _ => json!({ "type": "root/configChanged", "config": self.values(), "replace": self.maybe(json!(true)) }),
        }
    }

    // Sessions.

    fn session_state(&mut self) -> Value {
        let customizations = self.customizations();
        json!({
            "provider": "first", "title": self.word(), "status": self.status(), "lifecycle": "creating",
            "activeClients": [], "chats": [], "config": self.config(), "customizations": self.maybe(customizations),
        })
    }

    fn chat_summary(&mut self) -> Value {
        json!({
            "resource": self.id("ahp-chat:/c"), "title": self.word(), "status": self.status(),
            "modifiedAt": "2026-01-31T12:00:00Z", "activity": self.maybe(json!("reads")),
        })
    }

    fn server(&mut self) -> Value {
        let blocking = self.maybe(json!(true));
        let states = [
            json!({ "kind": "starting", "blocking": blocking }),
            json!({ "kind": "starting", "blocking": blocking }),
            json!({ "kind": "ready" }),
            json!({ "kind": "stopped" }),
            json!({ "kind": "error", "error": { "errorType": "test", "message": "" } }),
        ];
        let state = states[self.below(states.len())].clone();
        json!({ "type": "mcpServer", "id": self.id("x"), "uri": "file:///s", "name": self.word(), "state": state })
    }

    fn customization(&mut self) -> Value {
        match self.below(3) {
            0 => self.server(),
            1 => {
                let children = self.children();
                json!({ "type": "plugin", "id": self.id("x"), "uri": "file:///p", "name": self.word(),
                    "children": self.maybe(children) })
            }
            _ => {
                let children = self.children();
                json!({ "type": "directory", "id": self.id("x"), "uri": "file:///d", "name": self.word(),
                    "children": self.maybe(children), "enabled": self.yes(), "contents": "skill", "writable": false })
            }
        }
    }

    fn children(&mut self) -> Value {
        let kinds = ["agent", "skill", "prompt", "rule", "hook"];
        let kind = kinds[self.below(kinds.len())];
        let plain = json!({ "type": kind, "id": self.id("y"), "uri": "file:///c", "name": self.word() });
        let mut server = self.server();
        server["id"] = json!(self.id("y"));
        json!([plain, server])
    }

    fn customizations(&mut self) -> Value {
        (0..self.below(4)).map(|_| self.customization()).collect()
    }

    fn customization_id(&mut self) -> String {
        let pool = ["x", "y"][self.below(2)];
        self.id(pool)
    }

    fn enablement(&mut self) -> Value {
        let enabled = self.yes();
        let entries = [
            json!({ "kind": "global", "enabled": enabled }),
            json!({ "kind": "workspace", "uri": "file:///w", "enabled": !enabled }),
            json!({ "kind": "session", "enabled": enabled }),
        ];
        (0..self.below(3)).map(|_| entries[self.below(3)].clone()).collect()
    }

    fn input_needed(&mut self) -> Value {
        let id = self.id("r");
        let call = json!({
            "toolCallId": "t", "toolName": "t", "displayName": "t", "invocationMessage": "m",
        });
        match self.below(3) {
            0 => json!({ "kind": "chatInput", "id": id, "chat": "ahp-chat:/c", "request": { "id": "q" } }),
            1 => {
                let mut call = call;
                call["status"] = json!("pending-confirmation");
                json!({ "kind": "toolConfirmation", "id": id, "chat": "ahp-chat:/c", "turnId": "t", "toolCall": call })
            }
            _ => {
                let mut call = call;
                call["status"] = json!("running");
                call["confirmed"] = json!("not-needed");
                json!({ "kind": "toolClientExecution", "id": id, "chat": "ahp-chat:/c", "turnId": "t",
                    "clientId": "c", "toolCall": call })
            }
        }
    }

    fn session(&mut self) -> Value {
        let chat = self.id("ahp-chat:/c");
        let directory = self.id("file:///d");
        let id = self.customization_id();
        match self.below(33) {
            0 => json!({ "type": "session/ready" }),
            1 => json!({ "type": "session/creationFailed", "error": self.error() }),
            2..=4 => json!({ "type": "session/chatAdded", "summary": self.chat_summary() }),
            5 => json!({ "type": "session/chatRemoved", "chat": chat }),
            6 | 7 => json!({ "type": "session/chatUpdated", "chat": chat, "changes": {
                "title": self.maybe(json!("new")), "status": self.maybe(json!(8)),
                "activity": self.maybe(json!("")), "modifiedAt": self.maybe(json!("2027-01-01T00:00:00Z")),
                "movable": self.maybe(json!(true)), "workingDirectories": self.maybe(json!(["file:///d0"])),
            } }),
            8 => json!({ "type": "session/chatsReordered", "chats": self.permutation() }),
            9 => json!({ "type": "session/defaultChatChanged", "defaultChat": self.maybe(json!(chat)) }),
            10 => json!({ "type": "session/titleChanged", "title": self.word() }),
            11 => json!({ "type": "session/isReadChanged", "isRead": self.yes() }),
            12 => json!({ "type": "session/isArchivedChanged", "isArchived": self.yes() }),
            13 => json!({ "type": "session/activityChanged", "activity": self.maybe(json!("thinks")) }),
            14 => json!({ "type": "session/changesetsChanged", "changesets": self.changesets() }),
            15 => {
                json!({ "type": "session/configChanged", "config": self.values(), "replace": self.maybe(json!(true)) })
            }
            16 => json!({ "type": "session/metaChanged", "_meta": self.meta() }),
            17 => json!({ "type": "session/serverToolsChanged", "tools": [{ "name": self.word() }] }),
            18 => json!({ "type": "session/activeClientSet", "activeClient": {
                "clientId": self.id("client"), "tools": [], "displayName": self.maybe(json!("Phone")),
            } }),
            19 => json!({ "type": "session/activeClientRemoved", "clientId": self.id("client") }),
            20 => json!({ "type": "session/workingDirectorySet", "directory": directory }),
            21 => json!({ "type": "session/workingDirectoryRemoved", "directory": directory }),
            22 => json!({ "type": "session/workingDirectoryReplaced", "directory": directory,
                "replacement": self.id("file:///d") }),
            23 => json!({ "type": "session/inputNeededSet", "request": self.input_needed() }),
            24 => json!({ "type": "session/inputNeededRemoved", "id": self.id("r") }),
            25 => json!({ "type": "session/customizationsChanged", "customizations": self.customizations() }),
            26 => json!({ "type": "session/customizationToggled", "id": id, "enablement": self.enablement() }),
            27 => json!({ "type": "session/customizationUpdated", "customization": self.customization() }),
            28 => json!({ "type": "session/customizationRemoved", "id": id }),
            29 => match self.below(3) {
                0 => json!({ "type": "session/mcpServerStartRequested", "id": id }),
                1 => json!({ "type": "session/mcpServerStopRequested", "id": id }),
                _ => json!({ "type": "session/mcpServerBackgroundRequested", "id": id }),
            },
            31 | 32 => json!({ "type": "session/mcpServerBackgroundRequested", "id": id }),
            _ => json!({ "type": "session/mcpServerStateChanged", "id": id,
                "state": self.server()["state"], "channel": self.maybe(json!("mcp:/channel")) }),
        }
    }

    fn permutation(&mut self) -> Value {
        let orders: [&[usize]; 5] = [&[0], &[1, 0], &[0, 1], &[0, 0], &[1, 2]];
        let order = orders[self.below(orders.len())];
        order.iter().map(|index| json!(format!("ahp-chat:/c{index}"))).collect()
    }

    // Chats.

    fn chat_state(&mut self) -> Value {
        let part = json!({ "kind": "error", "error": self.error(), "resumable": self.maybe(json!(true)) });
        let turn = json!({
            "id": self.id("t"), "startedAt": self.maybe(json!("2026-01-01T00:00:00Z")), "message": self.message(),
            "responseParts": [part], "state": "error",
        });
        let turns = match self.yes() {
            true => json!([turn]),
            false => json!([]),
        };
        json!({
            "resource": "ahp-chat:/c", "title": "", "status": self.status(), "modifiedAt": "2026-01-31T12:00:00Z",
            "turns": turns, "turnsNextCursor": self.maybe(json!("cursor")),
        })
    }

    fn contributor(&mut self) -> Value {
        match self.below(3) {
            0 => json!({ "kind": "client", "clientId": self.id("client") }),
            1 => json!({ "kind": "mcp", "customizationId": self.id("x") }),
            _ => Value::Null,
        }
    }

    fn tool_input(&mut self) -> Value {
        match self.below(3) {
            0 => json!("{\"a\":1}"),
            1 => json!({ "uri": "innkeeper-content://x/y" }),
            _ => Value::Null,
        }
    }

    fn content(&mut self) -> Value {
        json!([{ "type": "text", "text": self.word() }])
    }

    fn answer(&mut self) -> Value {
        let value = json!({ "kind": "text", "value": self.word() });
        match self.below(3) {
            0 => json!({ "state": "draft", "value": value }),
            1 => json!({ "state": "submitted", "value": value }),
            _ => json!({ "state": "skipped" }),
        }
    }

    fn answers(&mut self) -> Value {
        let (question, answer) = (self.id("q"), self.answer());
        self.maybe(json!({ question: answer }))
    }

    /// An action of the running turn half of the time, so that turns get long.
    fn chat(&mut self) -> Value {
        let turn = if self.0.one_in(8) {
            self.id("t")
        } else {
            "t0".to_owned()
        };
        match self.yes() {
            true => self.tool_action(turn),
            false => self.turn_action(turn),
        }
    }

    fn tool_action(&mut self, turn: String) -> Value {
        let call = self.id("call");
        let meta = self.meta();
        match self.below(13) {
            0 | 1 => json!({ "type": "chat/toolCallStart", "turnId": turn, "toolCallId": call, "toolName": "tool",
                "displayName": self.word(), "intention": self.maybe(json!("to see")),
                "contributor": self.contributor(), "_meta": meta }),
            2 => {
                let (content, message) = (self.word(), self.text());
                json!({ "type": "chat/toolCallDelta", "turnId": turn, "toolCallId": call,
                    "content": self.maybe(json!(content)), "invocationMessage": self.maybe(message), "_meta": meta })
            }
            3..=5 => json!({ "type": "chat/toolCallReady", "turnId": turn, "toolCallId": call,
                "invocationMessage": self.text(), "toolInput": self.tool_input(), "contributor": self.contributor(),
                "confirmationTitle": self.maybe(json!("Sure?")), "editable": self.maybe(json!(true)),
                "edits": self.maybe(json!({ "items": [] })), "confirmed": self.maybe(json!("not-needed")),
                "options": self.maybe(json!([{ "id": "o0", "label": "Yes", "kind": "approve" }])), "_meta": meta }),
            6 => {
                let approved = self.yes();
                json!({ "type": "chat/toolCallConfirmed", "turnId": turn, "toolCallId": call, "approved": approved,
                    "confirmed": self.maybe(json!("user-action")), "selectedOptionId": self.maybe(json!("o0")),
                    "editedToolInput": self.maybe(json!("{}")), "reason": self.maybe(json!("skipped")),
                    "reasonMessage": self.maybe(json!("no")), "_meta": meta })
            }
            7 | 8 => {
                let content = self.content();
                json!({ "type": "chat/toolCallComplete", "turnId": turn, "toolCallId": call, "_meta": meta,
                    "result": { "success": self.yes(), "pastTenseMessage": self.text(), "content": self.maybe(content) },
                    "requiresResultConfirmation": self.maybe(json!(true)) })
            }
            9 => json!({ "type": "chat/toolCallResultConfirmed", "turnId": turn, "toolCallId": call,
                "approved": self.yes(), "_meta": meta }),
            10 => json!({ "type": "chat/toolCallContentChanged", "turnId": turn, "toolCallId": call,
                "content": self.content(), "_meta": meta }),
            11 => json!({ "type": "chat/toolCallAuthRequired", "turnId": turn, "toolCallId": call, "_meta": meta,
                "auth": { "reason": "required", "resource": { "resource": "https://mcp.test" } } }),
            _ => json!({ "type": "chat/toolCallAuthResolved", "turnId": turn, "toolCallId": call, "_meta": meta }),
        }
    }

    fn turn_action(&mut self, turn: String) -> Value {
        let kind = ["steering", "queued"][self.below(2)];
        let directory = self.id("file:///d");
        match self.below(44) {
            0..=3 => json!({ "type": "chat/turnStarted", "turnId": "t0", "startedAt": self.time(),
                "message": self.message(), "queuedMessageId": self.maybe(json!("m0")) }),
            4 | 5 => json!({ "type": "chat/delta", "turnId": turn, "partId": self.id("p"), "content": self.word() }),
            6 => json!({ "type": "chat/reasoning", "turnId": turn, "partId": self.id("p"), "content": self.word() }),
            7..=9 => {
                let (id, content) = (self.id("p"), self.word());
                let parts = [
                    json!({ "kind": "markdown", "id": id, "content": content }),
                    json!({ "kind": "reasoning", "id": id, "content": content }),
                    json!({ "kind": "systemNotification", "content": content }),
                    json!({ "kind": "error", "error": { "errorType": "test", "message": "" } }),
                ];
                json!({ "type": "chat/responsePart", "turnId": turn, "part": parts[self.below(4)] })
            }
            10 => json!({ "type": "chat/turnComplete", "turnId": turn, "duration": self.below(200) as i64 - 20 }),
            11 => json!({ "type": "chat/turnCancelled", "turnId": turn, "duration": 1500 }),
            12 => json!({ "type": "chat/error", "turnId": turn, "duration": 3,
                "part": { "kind": "error", "error": self.error(), "resumable": self.maybe(json!(true)) } }),
            13 | 14 => json!({ "type": "chat/turnResume", "turnId": self.id("t") }),
            15 => json!({ "type": "chat/activityChanged", "activity": self.maybe(json!("reads")) }),
            16 => json!({ "type": "chat/backgroundWorkSet", "work": { "kind": "shell", "id": self.id("w"),
                "label": self.word(), "startedAt": "2026-01-31T12:00:00Z", "command": "make" } }),
            17 => json!({ "type": "chat/backgroundWorkRemoved", "id": self.id("w") }),
            18 => json!({ "type": "chat/movableChanged", "movable": self.yes() }),
            19 => json!({ "type": "chat/changesetsChanged", "changesets": self.changesets() }),
            20 => {
                json!({ "type": "chat/canvasesChanged", "canvases": self.maybe(json!([{ "resource": "canvas:/c" }])) })
            }
            21 => json!({ "type": "chat/usage", "turnId": turn, "usage": { "inputTokens": self.below(100) } }),
            22 => json!({ "type": "chat/workingDirectorySet", "directory": directory }),
            23 => json!({ "type": "chat/workingDirectoryRemoved", "directory": directory }),
            24 | 25 => json!({ "type": "chat/pendingMessageSet", "kind": kind, "id": self.id("m"),
                "message": self.message() }),
            26 => json!({ "type": "chat/pendingMessageRemoved", "kind": kind, "id": self.id("m") }),
            27 => json!({ "type": "chat/queuedMessagesReordered", "order": self.ids("m") }),
            28 => {
                let draft = self.message();
                json!({ "type": "chat/draftChanged", "draft": self.maybe(draft) })
            }
            29 => json!({ "type": "chat/isReadChanged", "isRead": self.yes() }),
            30 => json!({ "type": "chat/isArchivedChanged", "isArchived": self.yes() }),
            31 | 32 | 38..=40 => json!({ "type": "chat/inputRequested", "request": { "id": self.id("r"),
                "message": self.maybe(json!("Which?")), "answers": self.answers() } }),
            33 => {
                let answer = self.answer();
                json!({ "type": "chat/inputAnswerChanged", "requestId": self.id("r"), "questionId": self.id("q"),
                    "answer": self.maybe(answer) })
            }
            34 | 41..=43 => {
                json!({ "type": "chat/inputCompleted", "requestId": self.id("r"), "answers": self.answers(),
                "response": self.one_of(&["accept", "decline", "cancel"]) })
            }
            35 => {
                let turn = self.id("t");
                json!({ "type": "chat/truncated", "turnId": self.maybe(json!(turn)) })
            }
            _ => json!({ "type": "chat/turnsLoaded", "turnsNextCursor": self.maybe(json!("older")), "turns": [
                { "id": self.id("old"), "message": self.message(), "responseParts": [], "state": "complete" },
            ] }),
        }
    }

    // Terminals.

    fn claim(&mut self) -> Value {
        match self.yes() {
            true => json!({ "kind": "client", "clientId": self.id("client") }),
            false => json!({ "kind": "session", "session": "ahp-session:/s", "chat": "ahp-chat:/c" }),
        }
    }

    fn terminal_state(&mut self) -> Value {
        json!({ "title": self.word(), "content": [], "lifecycle": { "status": "running" }, "claim": self.claim() })
    }

    fn terminal(&mut self) -> Value {
        match self.below(13) {
            0..=3 => json!({ "type": "terminal/data", "data": self.word() }),
            4 => json!({ "type": "terminal/resized", "cols": self.below(200), "rows": 24 }),
            5 => json!({ "type": "terminal/claimed", "claim": self.claim() }),
            6 => json!({ "type": "terminal/titleChanged", "title": self.word() }),
            7 => json!({ "type": "terminal/cwdChanged", "cwd": self.id("file:///d") }),
            8 => match self.yes() {
                true => json!({ "type": "terminal/exited", "exitCode": self.maybe(json!(1)) }),
                false => json!({ "type": "terminal/input", "data": "x" }),
            },
            9 => match self.yes() {
                true => json!({ "type": "terminal/cleared" }),
                false => json!({ "type": "terminal/commandDetectionAvailable" }),
            },
            10 | 11 => json!({ "type": "terminal/commandExecuted", "commandId": self.id("c"),
                "commandLine": self.word(), "timestamp": 5 }),
            _ => json!({ "type": "terminal/commandFinished", "commandId": self.id("c"),
                "exitCode": self.maybe(json!(0)), "durationMs": self.maybe(json!(12)) }),
        }
    }

    // Changesets.

    fn changeset_state(&mut self) -> Value {
        let operation = self.operation();
        json!({ "status": "computing", "files": [], "operations": self.maybe(json!([operation])) })
    }

    fn file(&mut self) -> Value {
        json!({ "id": self.id("f"), "edit": {}, "reviewed": self.maybe(json!(true)) })
    }

    fn operation(&mut self) -> Value {
        json!({ "id": self.id("op"), "label": self.word(), "scopes": ["changeset"], "status": "idle" })
    }

    fn changeset(&mut self) -> Value {
        let error = self.error();
        match self.below(9) {
            0 => json!({ "type": "changeset/statusChanged", "status": self.one_of(&["ready", "error"]),
                "error": self.maybe(error) }),
            1 | 2 => json!({ "type": "changeset/fileSet", "file": self.file() }),
            3 => json!({ "type": "changeset/fileRemoved", "fileId": self.id("f") }),
            4 => json!({ "type": "changeset/filesReviewChanged", "files": self.ids("f"), "reviewed": self.yes() }),
            5 => {
                let operation = self.operation();
                json!({ "type": "changeset/contentChanged", "files": [self.file()],
                    "operations": self.maybe(json!([operation])) })
            }
            6 => {
                let operation = self.operation();
                json!({ "type": "changeset/operationsChanged", "operations": self.maybe(json!([operation])) })
            }
            7 => json!({ "type": "changeset/operationStatusChanged", "operationId": self.id("op"),
                "status": self.one_of(&["running", "error", "idle"]), "error": self.maybe(error) }),
            _ => json!({ "type": "changeset/cleared" }),
        }
    }

    // Annotations.

    fn entry(&mut self) -> Value {
        json!({ "id": self.id("e"), "text": self.text() })
    }

    fn annotations(&mut self) -> Value {
        let annotation = self.id("a");
        match self.below(5) {
            0 => json!({ "type": "annotations/set", "annotation": { "id": annotation, "resource": "file:///f",
                "origin": { "session": "ahp-session:/s" }, "resolved": self.yes(), "entries": [self.entry()] } }),
            1 => json!({ "type": "annotations/updated", "annotationId": annotation,
                "resolved": self.maybe(json!(true)), "resource": self.maybe(json!("file:///g")),
                "range": self.maybe(json!({ "start": { "line": 1, "character": 0 }, "end": { "line": 2, "character": 0 } })) }),
            2 => json!({ "type": "annotations/removed", "annotationId": annotation }),
            3 => json!({ "type": "annotations/entrySet", "annotationId": annotation, "entry": self.entry() }),
            _ => json!({ "type": "annotations/entryRemoved", "annotationId": annotation, "entryId": self.id("e") }),
        }
    }
}

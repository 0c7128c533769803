//! A session and a chat of 1.0, and actions that they may see.

use ahp_1_0::ahp_types::actions::StateAction;
use ahp_1_0::ahp_types::state::{ChatState, ResponsePart, SessionState, ToolCallState};
use ahp_1_0::reducers::{self, ReduceOutcome};
use serde_json::{Map, Value, json};

use super::{CHAT, OWN, SESSION};

/// The turn that the chat begins with.
const LATEST: &str = "latest";

/// The states that the core has.
pub struct World {
    session: SessionState,
    chat: ChatState,
}

impl World {
    /// A session with two chats, a plugin and two servers.
    pub fn new() -> Self {
        let mut customizations = customizations();
        // The servers of a new session start, and turns wait for them.
        customizations[2]["state"] = json!({ "kind": "starting", "blocking": true });
        let session = json!({
            "provider": "p", "title": "t", "status": 33, "lifecycle": "creating", "activeClients": [],
            "workingDirectories": ["file:///0", "file:///1"],
            "chats": [chat_summary(CHAT), chat_summary("chat:2"), chat_summary("chat:3")], "defaultChat": CHAT,
            "config": { "schema": { "type": "object", "properties": {
                "a": { "type": "number", "title": "A", "enum": [1, 2] } } }, "values": { "a": 1 } },
            "customizations": customizations, "_meta": { "x": 1 },
        });
        // The client has the latest turn of some, and older ones are loaded later.
        let latest = json!({ "id": LATEST, "startedAt": time(0), "message": { "text": "hi", "origin": { "kind": "user" } },
            "responseParts": [], "state": "complete" });
        let chat = json!({ "resource": CHAT, "title": "t", "status": 33, "modifiedAt": time(0), "turns": [latest],
            "turnsNextCursor": "older" });
        Self {
            session: serde_json::from_value(session).expect("a session"),
            chat: serde_json::from_value(chat).expect("a chat"),
        }
    }

    pub fn session(&self) -> Value {
        json!(self.session)
    }

    pub fn chat(&self) -> Value {
        json!(self.chat)
    }

    /// The state of a channel as the core hands it to the translation: the last two turns of a chat are enough.
    pub fn before(&self, channel: &str) -> Value {
        if channel == SESSION {
            return self.session();
        }
        let mut chat = self.chat();
        let turns = chat["turns"].as_array_mut().expect("a list");
        turns.drain(..turns.len().saturating_sub(2));
        chat
    }

    /// Folds an action; false if it changes nothing, which the core does not commit.
    pub fn fold(&mut self, channel: &str, action: &Value) -> bool {
        let decoded: StateAction = serde_json::from_value(action.clone()).expect("an action");
        assert!(!matches!(decoded, StateAction::Unknown(_)), "1.0 knows {action}");
        let outcome = match channel {
            SESSION => reducers::apply_action_to_session(&mut self.session, &decoded),
            _ => reducers::apply_action_to_chat(&mut self.chat, &decoded),
        };
        assert_ne!(outcome, ReduceOutcome::OutOfScope, "{action}");
        outcome == ReduceOutcome::Applied
    }

    fn active_turn(&self) -> Option<&str> {
        self.chat.active_turn.as_ref().map(|turn| turn.id.as_str())
    }

    fn call(&self, id: &str) -> Option<&ToolCallState> {
        let parts = &self.chat.active_turn.as_ref()?.response_parts;
        parts.iter().find_map(|part| match part {
            ResponsePart::ToolCall(part) if json!(part.tool_call)["toolCallId"] == id => Some(&part.tool_call),
            _ => None,
        })
    }
}

/// Choices, which end.
pub struct Draw<'a>(std::slice::Iter<'a, u16>);

impl<'a> Draw<'a> {
    pub fn new(choices: &'a [u16]) -> Self {
        Self(choices.iter())
    }

    /// Whether no choices are left.
    pub fn is_over(&self) -> bool {
        self.0.len() == 0
    }

    pub fn below(&mut self, limit: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or_default()) % limit
    }

    pub fn flip(&mut self) -> bool {
        self.below(2) == 1
    }

    pub fn id(&mut self, kind: &str) -> String {
        format!("{kind}{}", self.below(3))
    }
}

/// Some of these members.
pub fn some(members: Value, draw: &mut Draw<'_>) -> Map<String, Value> {
    let Value::Object(members) = members else {
        panic!("members are an object");
    };
    members.into_iter().filter(|_| draw.flip()).collect()
}

/// The next action and its channel. Not every one fits the state; the caller folds it first.
pub fn next(world: &World, draw: &mut Draw<'_>) -> Option<(&'static str, Value)> {
    if draw.is_over() {
        return None;
    }
    Some(match draw.below(12) {
        0 | 1 => (SESSION, of_session(world, draw)),
        2 => (CHAT, of_chat(world, draw)),
        3 | 4 => (CHAT, of_turns(world, draw)),
        _ if world.active_turn().is_none() => (CHAT, of_turns(world, draw)),
        5 => (CHAT, of_questions(draw)),
        _ => (CHAT, of_calls(world, draw)),
    })
}

fn of_session(world: &World, draw: &mut Draw<'_>) -> Value {
    let enablement = |draw: &mut Draw<'_>| {
        let kind = ["session", "global"][draw.below(2)];
        json!([{ "kind": kind, "enabled": draw.flip() }])
    };
    match draw.below(30) {
        // A session is ready before its first turn, and in 0.1 that recomputes its status.
        0 if world.chat.turns.iter().all(|turn| turn.id == LATEST) => json!({ "type": "session/ready" }),
        1 => json!({ "type": "session/creationFailed", "error": error() }),
        2 => json!({ "type": "session/chatAdded", "summary": chat_summary(&draw.id("chat:")) }),
        3 => json!({ "type": "session/chatRemoved", "chat": draw.id("chat:") }),
        4 => {
            let changes = some(
                json!({ "title": "new", "status": 8, "activity": "a", "modifiedAt": time(1),
                "workingDirectories": ["file:///c"] }),
                draw,
            );
            json!({ "type": "session/chatUpdated", "chat": draw.id("chat:"), "changes": changes })
        }
        5 | 6 => {
            let mut chats: Vec<String> = world.session.chats.iter().map(|chat| chat.resource.clone()).collect();
            let count = chats.len().max(1);
            chats.rotate_left(draw.below(count));
            if chats.len() > 2 && draw.flip() {
                chats.swap(1, 2);
            }
            json!({ "type": "session/chatsReordered", "chats": chats })
        }
        7 => {
            let mut action = some(json!({ "defaultChat": "chat:2" }), draw);
            action.insert("type".into(), "session/defaultChatChanged".into());
            Value::Object(action)
        }
        8 => json!({ "type": "session/titleChanged", "title": draw.id("title") }),
        9 | 10 => json!({ "type": "session/isReadChanged", "isRead": draw.flip() }),
        11 => json!({ "type": "session/isArchivedChanged", "isArchived": draw.flip() }),
        12 => of_kind("session/activityChanged", some(json!({ "activity": "busy" }), draw)),
        13 => {
            let changesets = json!([{ "label": "l", "uriTemplate": "u", "changeKind": "session" }]);
            of_kind(
                "session/changesetsChanged",
                some(json!({ "changesets": changesets }), draw),
            )
        }
        14 => json!({ "type": "session/serverToolsChanged", "tools": [{ "name": draw.id("tool") }] }),
        15 | 16 => json!({ "type": "session/activeClientSet", "activeClient": active_client(draw) }),
        17 => json!({ "type": "session/activeClientRemoved", "clientId": client_id(draw) }),
        18 => json!({ "type": "session/workingDirectorySet", "directory": draw.id("file:///") }),
        19 => json!({ "type": "session/workingDirectoryRemoved", "directory": draw.id("file:///") }),
        20 => {
            let (directory, replacement) = (draw.id("file:///"), draw.id("file:///"));
            json!({ "type": "session/workingDirectoryReplaced", "directory": directory, "replacement": replacement })
        }
        21 | 22 => json!({ "type": "session/inputNeededSet", "request": awaited(draw) }),
        23 => json!({ "type": "session/inputNeededRemoved", "id": draw.id("wait") }),
        24 => match draw.below(4) {
            0 => json!({ "type": "session/customizationsChanged", "customizations": customizations() }),
            1 => json!({ "type": "session/customizationRemoved", "id": customization_id(draw) }),
            2 => {
                let all = customizations();
                let updated = &all[draw.below(3)];
                json!({ "type": "session/customizationUpdated", "customization": updated })
            }
            _ => json!({ "type": "session/customizationToggled", "id": customization_id(draw),
                "enablement": enablement(draw) }),
        },
        25 => json!({ "type": "session/customizationToggled", "id": customization_id(draw),
            "enablement": enablement(draw) }),
        26 => {
            let states = [
                json!({ "kind": "ready" }),
                json!({ "kind": "starting", "blocking": true }),
                json!({ "kind": "error", "error": error() }),
            ];
            json!({ "type": "session/mcpServerStateChanged", "id": server_id(draw),
                "state": states[draw.below(3)] })
        }
        27 => match starting_server(world).filter(|_| draw.flip()) {
            Some(id) => json!({ "type": "session/mcpServerBackgroundRequested", "id": id }),
            None => {
                let request = ["Start", "Stop", "Background"][draw.below(3)];
                json!({ "type": format!("session/mcpServer{request}Requested"), "id": server_id(draw) })
            }
        },
        28 => json!({ "type": "session/configChanged", "config": { "a": draw.below(3) }, "replace": draw.flip() }),
        _ => {
            let mut meta = some(
                json!({ "x": 2, "innkeeper.model": { "id": "m1", "config": { "effort": 3 } },
                "innkeeper.agent": { "uri": "file:///agent" } }),
                draw,
            );
            // A model cannot be taken back up to 0.4, and the core never does.
            let known = json!(world.session.meta);
            if let Some(model) = known.get("innkeeper.model") {
                meta.entry("innkeeper.model").or_insert_with(|| model.clone());
            }
            json!({ "type": "session/metaChanged", "_meta": meta })
        }
    }
}

fn of_turns(world: &World, draw: &mut Draw<'_>) -> Value {
    let active = world.active_turn().unwrap_or("none");
    let next = format!("t{}", world.chat.turns.len());
    match draw.below(16) {
        0..=4 if world.active_turn().is_none() => {
            let mut action = some(json!({ "queuedMessageId": "queued1" }), draw);
            action.insert("turnId".into(), next.into());
            action.insert("startedAt".into(), time(2).into());
            action.insert("message".into(), message(draw));
            of_kind("chat/turnStarted", action)
        }
        0 => json!({ "type": "chat/turnComplete", "turnId": active, "duration": 5 }),
        1 => json!({ "type": "chat/delta", "turnId": active, "partId": draw.id("part"), "content": "x" }),
        2 => json!({ "type": "chat/turnCancelled", "turnId": active, "duration": 5 }),
        3 | 4 => json!({ "type": "chat/error", "turnId": active, "duration": 5,
            "part": { "kind": "error", "error": error(), "resumable": draw.below(4) > 0 } }),
        5..=7 => {
            let last = world.chat.turns.last().map_or("none", |turn| turn.id.as_str());
            json!({ "type": "chat/turnResume", "turnId": last })
        }
        8 | 14 => json!({ "type": "chat/delta", "turnId": active, "partId": draw.id("part"), "content": "x" }),
        9 => json!({ "type": "chat/reasoning", "turnId": active, "partId": draw.id("part"), "content": "x" }),
        10..=12 => {
            let id = draw.id("part");
            let parts = [
                json!({ "kind": "markdown", "id": id, "content": "m" }),
                json!({ "kind": "reasoning", "id": id, "content": "r" }),
                json!({ "kind": "systemNotification", "content": "n" }),
                json!({ "kind": "contentRef", "uri": "blob:1" }),
            ];
            json!({ "type": "chat/responsePart", "turnId": active, "part": parts[draw.below(4)] })
        }
        13 => json!({ "type": "chat/usage", "turnId": active, "usage": { "inputTokens": draw.below(9) } }),
        _ => {
            let turn = world.chat.turns.get(draw.below(4));
            let mut action = Map::new();
            if let Some(turn) = turn {
                action.insert("turnId".into(), turn.id.as_str().into());
            }
            of_kind("chat/truncated", action)
        }
    }
}

fn of_calls(world: &World, draw: &mut Draw<'_>) -> Value {
    let active = world.active_turn().unwrap_or("none");
    let id = draw.id("call");
    let mut action = Map::new();
    action.insert("turnId".into(), active.into());
    action.insert("toolCallId".into(), id.as_str().into());
    // Clients up to 0.3 know the `_meta` that a call starts with.
    if draw.below(4) == 0 {
        action.insert(
            "_meta".into(),
            json!({ "toolKind": "terminal", "innkeeper.decidedBy": "x" }),
        );
    }
    let with = |kind: &str, members: Value| {
        let mut action = action.clone();
        let Value::Object(members) = members else {
            panic!("members are an object");
        };
        action.extend(members);
        of_kind(kind, action)
    };
    let call = world.call(&id);
    match (call, draw.below(12)) {
        (None, _) => {
            let contributors = [
                Value::Null,
                json!({ "kind": "client", "clientId": OWN }),
                json!({ "kind": "mcp", "customizationId": "server1" }),
            ];
            let mut members = json!({ "toolName": "n", "displayName": "N", "_meta": { "toolKind": "terminal" } });
            let contributor = &contributors[draw.below(3)];
            if !contributor.is_null() {
                members["contributor"] = contributor.clone();
            }
            with("chat/toolCallStart", members)
        }
        (_, 0) => {
            let members = some(json!({ "content": "{", "invocationMessage": "streams" }), draw);
            with("chat/toolCallDelta", Value::Object(members))
        }
        (_, 1..=4) => {
            let mut members = some(
                json!({ "toolInput": draw_input(draw), "confirmationTitle": "sure?",
                "riskAssessment": { "status": "loading", "kind": "judge" }, "editable": true,
                "options": [{ "id": "yes", "label": "Yes", "kind": "approve" }], "confirmed": "setting" }),
                draw,
            );
            // Input elsewhere does not replace text that is shown.
            if matches!(call, Some(ToolCallState::Streaming(_))) && draw.below(4) == 0 {
                members.insert("toolInput".into(), json!({ "uri": "blob:1" }));
            }
            members.insert("invocationMessage".into(), draw.id("does").into());
            with("chat/toolCallReady", Value::Object(members))
        }
        (_, 5 | 6) => {
            let mut members = some(
                json!({ "confirmed": "user-action", "editedToolInput": "edited",
                "reason": "denied", "reasonMessage": "no", "selectedOptionId": "yes",
                "userSuggestion": message(draw) }),
                draw,
            );
            members.insert("approved".into(), draw.flip().into());
            with("chat/toolCallConfirmed", Value::Object(members))
        }
        (_, 7 | 8) => {
            let mut result = some(
                json!({ "content": content(draw), "structuredContent": { "a": 1 },
                "error": { "message": "e" } }),
                draw,
            );
            result.insert("success".into(), draw.flip().into());
            result.insert("pastTenseMessage".into(), "did".into());
            let mut members = some(json!({ "requiresResultConfirmation": true }), draw);
            members.insert("result".into(), Value::Object(result));
            with("chat/toolCallComplete", Value::Object(members))
        }
        (_, 9) => with("chat/toolCallResultConfirmed", json!({ "approved": draw.flip() })),
        (_, 10) => with("chat/toolCallContentChanged", json!({ "content": content(draw) })),
        _ => {
            // The host sends these without `_meta`.
            action.shift_remove("_meta");
            match draw.flip() {
                true => of_kind("chat/toolCallAuthResolved", action),
                false => {
                    action.insert(
                        "auth".into(),
                        json!({ "reason": "required", "resource": { "resource": "https://r" } }),
                    );
                    of_kind("chat/toolCallAuthRequired", action)
                }
            }
        }
    }
}

fn of_questions(draw: &mut Draw<'_>) -> Value {
    let id = draw.id("question");
    let answer = json!({ "state": "submitted", "value": { "kind": "text", "value": "v" } });
    match draw.below(4) {
        0 | 1 => json!({ "type": "chat/inputRequested", "request": request(&id) }),
        2 => {
            let mut action = some(json!({ "answer": answer }), draw);
            action.insert("requestId".into(), id.into());
            action.insert("questionId".into(), "q".into());
            of_kind("chat/inputAnswerChanged", action)
        }
        _ => {
            let mut action = some(json!({ "answers": { "r": answer } }), draw);
            action.insert("requestId".into(), id.into());
            action.insert("response".into(), ["accept", "decline"][draw.below(2)].into());
            of_kind("chat/inputCompleted", action)
        }
    }
}

fn of_chat(world: &World, draw: &mut Draw<'_>) -> Value {
    let pending = |draw: &mut Draw<'_>| ["steering", "queued"][draw.below(2)];
    match draw.below(17) {
        14 => json!({ "type": "chat/workingDirectoryRemoved", "directory": draw.id("file:///") }),
        15 | 16 if world.chat.turns_next_cursor.is_some() => turns_loaded(draw),
        0 => of_kind("chat/activityChanged", some(json!({ "activity": "thinks" }), draw)),
        1 => json!({ "type": "chat/backgroundWorkSet", "work": { "kind": "shell", "id": draw.id("work"), "label": "l",
            "startedAt": time(1), "command": "ls" } }),
        2 => json!({ "type": "chat/backgroundWorkRemoved", "id": draw.id("work") }),
        3 => json!({ "type": "chat/movableChanged", "movable": draw.flip() }),
        4 => json!({ "type": "chat/changesetsChanged", "changesets": [] }),
        5 => json!({ "type": "chat/canvasesChanged", "canvases": [{ "resource": "canvas:1" }] }),
        6 => json!({ "type": "chat/workingDirectorySet", "directory": draw.id("file:///") }),
        7 => json!({ "type": "chat/isReadChanged", "isRead": draw.flip() }),
        8 => json!({ "type": "chat/isArchivedChanged", "isArchived": draw.flip() }),
        9 | 10 => {
            let kind = pending(draw);
            json!({ "type": "chat/pendingMessageSet", "kind": kind, "id": draw.id(kind), "message": message(draw) })
        }
        11 => {
            let kind = pending(draw);
            json!({ "type": "chat/pendingMessageRemoved", "kind": kind, "id": draw.id(kind) })
        }
        12 => {
            let queued = world.chat.queued_messages.iter().flatten();
            let mut order: Vec<&str> = queued.map(|queued| queued.id.as_str()).collect();
            order.reverse();
            json!({ "type": "chat/queuedMessagesReordered", "order": order })
        }
        _ => of_kind("chat/draftChanged", some(json!({ "draft": message(draw) }), draw)),
    }
}

/// A page of older turns, which a client asked for. There are few pages.
fn turns_loaded(draw: &mut Draw<'_>) -> Value {
    let call = json!({ "toolCallId": "call1", "toolName": "n", "displayName": "N", "invocationMessage": "does",
        "status": "completed", "confirmed": "not-needed", "success": true, "pastTenseMessage": "did",
        "content": content(draw), "toolInput": draw_input(draw) });
    let mut parts = vec![
        json!({ "kind": "markdown", "id": "p1", "content": "m" }),
        json!({ "kind": "toolCall", "toolCall": call }),
    ];
    let state = ["complete", "cancelled", "error"][draw.below(3)];
    if state == "error" {
        parts.push(json!({ "kind": "error", "error": error(), "resumable": false }));
    }
    let mut turn = some(json!({ "usage": { "inputTokens": 1 }, "duration": 5 }), draw);
    turn.insert("id".into(), draw.id("older").into());
    turn.insert("startedAt".into(), time(2).into());
    turn.insert("message".into(), message(draw));
    turn.insert("responseParts".into(), parts.into());
    turn.insert("state".into(), state.into());
    let mut action = some(json!({ "turnsNextCursor": draw.id("cursor") }), draw);
    action.insert("turns".into(), json!([turn]));
    of_kind("chat/turnsLoaded", action)
}

fn of_kind(kind: &str, members: Map<String, Value>) -> Value {
    let mut action = json!({ "type": kind });
    action.as_object_mut().expect("an object").extend(members);
    action
}

fn draw_input(draw: &mut Draw<'_>) -> Value {
    draw.id("input").into()
}

fn client_id(draw: &mut Draw<'_>) -> String {
    [OWN, "other", "third"][draw.below(3)].to_owned()
}

fn customization_id(draw: &mut Draw<'_>) -> &'static str {
    ["plugin1", "directory1", "server1", "skill1", "server2"][draw.below(5)]
}

/// A server that turns wait for.
fn starting_server(world: &World) -> Option<Value> {
    let entries = json!(world.session.customizations);
    let entries = entries.as_array()?.iter();
    let children = entries.clone().filter_map(|entry| entry["children"].as_array());
    let mut all = entries.chain(children.flatten());
    all.find(|entry| entry["state"]["blocking"] == true)
        .map(|entry| entry["id"].clone())
}

/// Mostly a server.
fn server_id(draw: &mut Draw<'_>) -> &'static str {
    match draw.below(8) {
        0 => customization_id(draw),
        number => ["server1", "server2"][number % 2],
    }
}

fn customizations() -> Value {
    let server = |id: &str| json!({ "type": "mcpServer", "id": id, "uri": format!("file:///{id}"), "name": id, "state": { "kind": "ready" } });
    json!([
        { "type": "plugin", "id": "plugin1", "uri": "file:///plugin1", "name": "P", "load": { "kind": "loaded" },
          "enablement": [{ "kind": "workspace", "uri": "file:///a", "enabled": false }],
          "children": [{ "type": "skill", "id": "skill1", "uri": "file:///skill1", "name": "S" }, server("server2")] },
        { "type": "directory", "id": "directory1", "uri": "file:///directory1", "name": "D", "enabled": true,
          "contents": "skill", "writable": true, "load": { "kind": "error", "message": "e" } },
        server("server1"),
    ])
}

fn active_client(draw: &mut Draw<'_>) -> Value {
    let plugin = json!({ "type": "plugin", "id": "own", "uri": "file:///own", "name": "O",
        "enablement": [{ "kind": "global", "enabled": draw.flip() }] });
    let mut client = some(json!({ "displayName": "C", "customizations": [plugin] }), draw);
    client.insert("clientId".into(), client_id(draw).into());
    client.insert("tools".into(), json!([{ "name": draw.id("tool") }]));
    Value::Object(client)
}

fn awaited(draw: &mut Draw<'_>) -> Value {
    let mut call = json!({ "toolCallId": "call1", "toolName": "n", "displayName": "N", "invocationMessage": "does",
        "status": "running", "confirmed": "not-needed" });
    let mut request = json!({ "id": draw.id("wait"), "chat": CHAT });
    let kind = [
        "chatInput",
        "toolConfirmation",
        "toolClientExecution",
        "toolAuthentication",
    ][draw.below(4)];
    request["kind"] = kind.into();
    match kind {
        "chatInput" => request["request"] = super::actions::request("question1"),
        kind => {
            if kind == "toolConfirmation" {
                call["status"] = "pending-confirmation".into();
                call["toolInput"] = json!({ "uri": "blob:1" });
            }
            if kind == "toolClientExecution" {
                request["clientId"] = OWN.into();
            }
            if kind == "toolAuthentication" {
                call["status"] = "auth-required".into();
                call["auth"] = json!({ "reason": "required", "resource": { "resource": "https://r" } });
            }
            request["turnId"] = "t1".into();
            request["toolCall"] = call;
        }
    }
    request
}

fn request(id: &str) -> Value {
    json!({ "id": id, "message": "?", "questions": [{ "kind": "text", "id": "q", "message": "?" }] })
}

fn content(draw: &mut Draw<'_>) -> Value {
    let all = [
        json!({ "type": "text", "text": "x" }),
        json!({ "type": "terminal", "resource": "terminal:1", "title": "T", "result": { "exitCode": 1 } }),
        json!({ "type": "subagent", "resource": "chat:9", "title": "S" }),
    ];
    json!([all[draw.below(3)]])
}

fn message(draw: &mut Draw<'_>) -> Value {
    let kind = ["user", "agent", "automation"][draw.below(3)];
    let attachments = json!([
        { "type": "resource", "label": "l", "uri": "file:///a", "displayKind": "directory" },
        { "type": "chat", "label": "l", "resource": "chat:2" },
        { "type": "simple", "label": "l" },
    ]);
    let mut message = some(
        json!({ "attachments": attachments, "model": { "id": "m" }, "_meta": { "a": 1 } }),
        draw,
    );
    message.insert("text".into(), draw.id("text").into());
    message.insert("origin".into(), json!({ "kind": kind }));
    Value::Object(message)
}

fn chat_summary(uri: &str) -> Value {
    json!({ "resource": uri, "title": "t", "status": 1, "modifiedAt": time(0), "workingDirectories": ["file:///a"] })
}

pub fn error() -> Value {
    json!({ "errorType": "e", "message": "m" })
}

pub fn time(second: u32) -> String {
    format!("2026-05-28T00:00:0{second}.000Z")
}

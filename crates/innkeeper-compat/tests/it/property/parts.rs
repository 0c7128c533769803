//! The same property for the channels beside sessions and chats: the root, terminals, changesets and annotations.

use ahp_1_0::ahp_types::actions::StateAction;
use ahp_1_0::ahp_types::state::{AnnotationsState, ChangesetState, RootState, TerminalState};
use ahp_1_0::reducers::{self, ReduceOutcome};
use innkeeper_compat::comparison::difference;
use innkeeper_dialects::{Translator, Version, state};
use innkeeper_testkit::sim::{NewOlderMirror, OlderMirror};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::actions::{Draw, error, some, time};
use super::{OWN, cases, object};
use crate::published;

const ROOT: &str = "ahp-root://";
const TERMINAL: &str = "ahp-terminal:/1";
const CHANGESET: &str = "session:1/changeset/session";
const ANNOTATIONS: &str = "session:1/annotations";

macro_rules! property {
    ($($name:ident)+) => {
        $(
            #[test]
            fn $name() {
                check(published::$name::VERSION, published::$name::mirror);
            }
        )+
    };
}

property! { v0_1 v0_2 v0_3 v0_4 v0_5_0 v0_5_1 v0_5_2 v0_6 v0_7 v0_8 v0_9 v1_0 }

/// The states that the core has.
pub(super) struct Parts {
    root: RootState,
    terminal: TerminalState,
    changeset: ChangesetState,
    annotations: AnnotationsState,
}

impl Parts {
    pub(super) fn new() -> Self {
        let root =
            json!({ "agents": [], "config": { "schema": { "type": "object", "properties": {} }, "values": {} } });
        let terminal = json!({ "title": "t", "content": [], "lifecycle": { "status": "running" },
            "claim": { "kind": "client", "clientId": OWN }, "cols": 80, "rows": 24, "isPty": true });
        let changeset = json!({ "status": "computing", "files": [] });
        let read = "a valid state";
        Self {
            root: serde_json::from_value(root).expect(read),
            terminal: serde_json::from_value(terminal).expect(read),
            changeset: serde_json::from_value(changeset).expect(read),
            annotations: serde_json::from_value(json!({ "annotations": [] })).expect(read),
        }
    }

    fn state(&self, channel: &str) -> Value {
        match channel {
            ROOT => json!(self.root),
            TERMINAL => json!(self.terminal),
            CHANGESET => json!(self.changeset),
            _ => json!(self.annotations),
        }
    }

    /// Folds an action; false if it changes nothing.
    pub(super) fn fold(&mut self, channel: &str, action: &Value) -> bool {
        let decoded: StateAction = serde_json::from_value(action.clone()).expect("an action");
        assert!(!matches!(decoded, StateAction::Unknown(_)), "1.0 knows {action}");
        let outcome = match channel {
            ROOT => reducers::apply_action_to_root(&mut self.root, &decoded),
            TERMINAL => reducers::apply_action_to_terminal(&mut self.terminal, &decoded),
            CHANGESET => reducers::apply_action_to_changeset(&mut self.changeset, &decoded),
            _ => reducers::apply_action_to_annotations(&mut self.annotations, &decoded),
        };
        assert_ne!(outcome, ReduceOutcome::OutOfScope, "{action}");
        outcome == ReduceOutcome::Applied
    }

    /// A state as a version shows it.
    fn state_for(&self, version: Version, channel: &str) -> Value {
        let mut shown = object(self.state(channel));
        match channel {
            ROOT => state::root(version, &mut shown),
            TERMINAL => state::other(version, "terminal", &mut shown),
            CHANGESET => state::other(version, "changeset", &mut shown),
            _ => state::other(version, "annotations", &mut shown),
        }
        Value::Object(shown)
    }
}

/// The channels that a version has.
fn channels(version: Version) -> &'static [&'static str] {
    match (version.has_channels(), version.session_is_chat()) {
        (false, _) => &[ROOT, TERMINAL],
        (true, true) => &[ROOT, TERMINAL, CHANGESET],
        (true, false) => &[ROOT, TERMINAL, CHANGESET, ANNOTATIONS],
    }
}

/// Folding and translating commute for any sequence of actions.
fn check(version: Version, new_mirror: NewOlderMirror) {
    let config = ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(choices in proptest::collection::vec(any::<u16>(), 1..400))| {
        let mut parts = Parts::new();
        let mut translator = Translator::new(version, OWN);
        let (mut mirror, mut fresh) = (new_mirror(), new_mirror());
        show(&mut *mirror, &parts, channels(version));
        let mut draw = Draw::new(&choices);
        let mut history = Vec::new();
        while let Some((channel, action)) = next(&mut draw) {
            let before = parts.state(channel);
            if !parts.fold(channel, &action) || !channels(version).contains(&channel) {
                continue;
            }
            history.push(action.clone());
            let seq = history.len();
            let params = json!({ "channel": channel, "action": action, "serverSeq": seq });
            let message = json!({ "jsonrpc": "2.0", "method": "action", "params": params });
            for message in translator.down_action(message.to_string().as_bytes(), Some(&before)) {
                let message: Value = serde_json::from_slice(&message).expect("JSON");
                assert_eq!(message["params"]["serverSeq"], seq);
                mirror.reduce(&message["params"]).unwrap_or_else(|problem| panic!("{problem}"));
            }
            show(&mut *fresh, &parts, &[channel]);
            let name = named(&*mirror, channel);
            let (fold, snapshot) = (mirror.state(&name), fresh.state(&name));
            let difference = difference(&json!(fold), &json!(snapshot));
            prop_assert!(difference.is_none(), "{version}: {} after {:#}", difference.unwrap_or_default(), json!(history));
        }
    });
}

/// Shows a client the states as they are.
fn show(mirror: &mut dyn OlderMirror, parts: &Parts, channels: &[&str]) {
    for channel in channels {
        let state = parts.state_for(mirror.version(), channel);
        let shown = mirror.show(&json!({ "resource": named(mirror, channel), "state": state, "fromSeq": 0 }));
        shown.unwrap_or_else(|problem| panic!("{problem}"));
    }
}

/// The name of a channel in the version of a client.
fn named(mirror: &dyn OlderMirror, channel: &str) -> String {
    match channel {
        ROOT => mirror.root().to_owned(),
        other => other.to_owned(),
    }
}

/// The next action and its channel.
pub(super) fn next(draw: &mut Draw<'_>) -> Option<(&'static str, Value)> {
    if draw.is_over() {
        return None;
    }
    Some(match draw.below(6) {
        0 => (ROOT, of_root(draw)),
        1 => (TERMINAL, of_terminal(draw)),
        2 | 3 => (CHANGESET, of_changeset(draw)),
        _ => (ANNOTATIONS, of_annotations(draw)),
    })
}

fn with(kind: &str, mut members: Map<String, Value>, more: Value) -> Value {
    members.extend(object(more));
    members.insert("type".to_owned(), kind.into());
    Value::Object(members)
}

fn of_root(draw: &mut Draw<'_>) -> Value {
    match draw.below(4) {
        0 => {
            let schema = json!({ "type": "object", "properties": { "effort": {
                "type": "number", "title": "E", "enum": [1, 2.5, true, "x"], "default": 1 } } });
            let model = some(
                json!({ "maxContextWindow": 9, "maxOutputTokens": 5, "maxPromptTokens": 4, "supportsVision": true,
                    "policyState": "enabled", "configSchema": schema, "_meta": { "a": 1 } }),
                draw,
            );
            let mut model = model;
            model.extend(object(json!({ "id": "m", "provider": "p", "name": "M" })));
            let server = json!({ "type": "mcpServer", "id": "server1", "uri": "file:///s", "name": "s",
                "state": { "kind": "ready" } });
            let plugin = json!({ "type": "plugin", "id": "plugin1", "uri": "file:///plugin1", "name": "P",
                "enablement": [{ "kind": "global", "enabled": draw.flip() }], "load": { "kind": "loaded" },
                "children": [{ "type": "skill", "id": "skill1", "uri": "file:///skill1", "name": "S" }] });
            let agent = some(
                json!({
                    "customizations": [plugin, server],
                    "protectedResources": [{ "resource": "https://r" }],
                    "capabilities": { "multipleChats": { "fork": true, "sideChat": true }, "multipleWorkingDirectories": {} },
                    "systemMessageSections": [{ "id": "tone", "label": "Tone" }],
                }),
                draw,
            );
            let mut agent = agent;
            agent.extend(object(
                json!({ "provider": draw.id("agent"), "displayName": "A", "description": "", "models": [model] }),
            ));
            json!({ "type": "root/agentsChanged", "agents": [agent] })
        }
        1 => json!({ "type": "root/activeSessionsChanged", "activeSessions": draw.below(4) }),
        2 => {
            let terminal = json!({ "resource": TERMINAL, "title": draw.id("t"), "claim": claim(draw),
                "lifecycle": lifecycle(draw) });
            let terminals = if draw.flip() { json!([terminal]) } else { json!([]) };
            json!({ "type": "root/terminalsChanged", "terminals": terminals })
        }
        _ => {
            let values = some(json!({ "a": draw.below(3), "b": { "c": [1] } }), draw);
            json!({ "type": "root/configChanged", "config": values, "replace": draw.flip() })
        }
    }
}

fn claim(draw: &mut Draw<'_>) -> Value {
    match draw.flip() {
        true => json!({ "kind": "client", "clientId": draw.id("client") }),
        false => {
            let claim = some(json!({ "turnId": "t1", "toolCallId": "call1" }), draw);
            let mut claim = Value::Object(claim);
            claim["kind"] = "session".into();
            claim["session"] = "session:1".into();
            claim["chat"] = draw.id("chat:").into();
            claim
        }
    }
}

fn lifecycle(draw: &mut Draw<'_>) -> Value {
    match draw.below(3) {
        0 => json!({ "status": "exited", "exitCode": draw.below(3) }),
        1 => json!({ "status": "exited" }),
        _ => json!({ "status": "running" }),
    }
}

fn of_terminal(draw: &mut Draw<'_>) -> Value {
    match draw.below(12) {
        0 | 1 => json!({ "type": "terminal/data", "data": draw.id("line") }),
        2 => json!({ "type": "terminal/input", "data": "ls" }),
        3 => json!({ "type": "terminal/resized", "cols": 80 + draw.below(3), "rows": 24 }),
        4 => json!({ "type": "terminal/claimed", "claim": claim(draw) }),
        5 => json!({ "type": "terminal/titleChanged", "title": draw.id("title") }),
        6 => json!({ "type": "terminal/cwdChanged", "cwd": draw.id("file:///") }),
        7 => with(
            "terminal/exited",
            some(json!({ "exitCode": draw.below(3) }), draw),
            json!({}),
        ),
        8 => json!({ "type": "terminal/cleared" }),
        9 => json!({ "type": "terminal/commandDetectionAvailable" }),
        10 => json!({ "type": "terminal/commandExecuted", "commandId": draw.id("c"), "commandLine": "ls",
            "timestamp": 1_780_000_000_000_u64 }),
        _ => {
            let members = some(json!({ "exitCode": draw.below(2), "durationMs": 7 }), draw);
            with(
                "terminal/commandFinished",
                members,
                json!({ "commandId": draw.id("c") }),
            )
        }
    }
}

fn file(draw: &mut Draw<'_>) -> Value {
    let side = |version: usize| json!({ "uri": "file:///a", "content": { "uri": format!("blob:{version}"), "nonce": version.to_string() } });
    let edit = some(
        json!({ "before": side(draw.below(3)), "after": side(draw.below(3)), "diff": { "added": 1, "removed": 2 } }),
        draw,
    );
    let mut file = some(json!({ "reviewed": draw.flip(), "_meta": { "a": 1 } }), draw);
    file.extend(object(json!({ "id": draw.id("file"), "edit": edit })));
    Value::Object(file)
}

fn operations(draw: &mut Draw<'_>) -> Value {
    let operations = (0..draw.below(3)).map(|number| {
        let status = operation_status(draw);
        let mut operation = some(
            json!({ "description": "d", "confirmation": { "markdown": "*sure?*" }, "icon": "discard", "group": "g" }),
            draw,
        );
        if status == "error" {
            operation.insert("error".to_owned(), error());
        }
        let scopes = [json!(["changeset"]), json!(["resource", "range"])][draw.below(2)].clone();
        operation.extend(object(
            json!({ "id": format!("op{number}"), "label": "O", "scopes": scopes, "status": status }),
        ));
        Value::Object(operation)
    });
    operations.collect()
}

fn operation_status(draw: &mut Draw<'_>) -> &'static str {
    ["idle", "running", "error", "disabled"][draw.below(4)]
}

fn of_changeset(draw: &mut Draw<'_>) -> Value {
    match draw.below(10) {
        0 | 1 => {
            let status = ["computing", "recomputing", "ready", "error"][draw.below(4)];
            let members = match status {
                "error" => object(json!({ "error": error() })),
                _ => Map::new(),
            };
            with("changeset/statusChanged", members, json!({ "status": status }))
        }
        2 | 3 => json!({ "type": "changeset/fileSet", "file": file(draw) }),
        4 => json!({ "type": "changeset/fileRemoved", "fileId": draw.id("file") }),
        5 => json!({ "type": "changeset/filesReviewChanged", "files": [draw.id("file"), draw.id("file")],
            "reviewed": draw.flip() }),
        6 => {
            let mut files: Vec<Value> = (0..draw.below(4)).map(|_| file(draw)).collect();
            // A changeset has a file once.
            files.sort_by_key(|file| file["id"].to_string());
            files.dedup_by_key(|file| file["id"].to_string());
            let members = some(json!({ "operations": operations(draw) }), draw);
            with("changeset/contentChanged", members, json!({ "files": files }))
        }
        7 => {
            let members = some(json!({ "operations": operations(draw) }), draw);
            with("changeset/operationsChanged", members, json!({}))
        }
        8 => {
            let status = operation_status(draw);
            let members = match status {
                "error" => object(json!({ "error": error() })),
                _ => Map::new(),
            };
            let more = json!({ "operationId": draw.id("op"), "status": status });
            with("changeset/operationStatusChanged", members, more)
        }
        _ => json!({ "type": "changeset/cleared" }),
    }
}

fn origin(draw: &mut Draw<'_>) -> Value {
    let mut origin = some(json!({ "chat": "chat:1", "turnId": draw.id("t") }), draw);
    origin.insert("session".to_owned(), "session:1".into());
    Value::Object(origin)
}

fn of_annotations(draw: &mut Draw<'_>) -> Value {
    let id = draw.id("a");
    let range = json!({ "start": { "line": 1, "character": 0 }, "end": { "line": 2, "character": 3 } });
    let entry = |draw: &mut Draw<'_>| {
        let mut entry = some(json!({ "_meta": { "at": time(1) } }), draw);
        let text = [json!("remark"), json!({ "markdown": "*remark*" })][draw.below(2)].clone();
        entry.extend(object(json!({ "id": draw.id("e"), "text": text })));
        Value::Object(entry)
    };
    match draw.below(6) {
        0 | 1 => {
            let mut annotation = some(json!({ "range": range, "_meta": { "a": 1 } }), draw);
            annotation.extend(object(
                json!({ "id": id, "origin": origin(draw), "resource": "file:///a",
                "resolved": draw.flip(), "entries": [entry(draw)] }),
            ));
            json!({ "type": "annotations/set", "annotation": annotation })
        }
        2 => {
            let members = some(
                json!({ "origin": origin(draw), "resource": "file:///b", "range": range, "resolved": draw.flip() }),
                draw,
            );
            with("annotations/updated", members, json!({ "annotationId": id }))
        }
        3 => json!({ "type": "annotations/removed", "annotationId": id }),
        4 => json!({ "type": "annotations/entrySet", "annotationId": id, "entry": entry(draw) }),
        _ => json!({ "type": "annotations/entryRemoved", "annotationId": id, "entryId": draw.id("e") }),
    }
}

//! 0.2 → 0.1.
//!
//! - There are no channels: an action names its session or terminal, a request the thing that it is about, and what is
//!   about the connection names nothing.
//! - All notifications have one method, `notification`, and a type.
//! - Customizations are a flat list of references, known by their URI. Changes send the whole list.
//! - Attachments are files, directories and selections; those without a URI are left out.
//! - Agents of sessions, changesets and watches do not exist.

use serde_json::{Value, json};

use super::{Notification, Request, Step};
use crate::action::{Action, Situation};
use crate::json::{Object, insert_after, is, list_mut, object, objects, rename, text};
use crate::memory::Memory;
use crate::state::Around;
use crate::translator::ROOT;
use crate::version::Version;

/// The member that names the object of a request.
const SUBJECTS: [(&str, &str); 7] = [
    ("subscribe", "resource"),
    ("unsubscribe", "resource"),
    ("createSession", "session"),
    ("disposeSession", "session"),
    ("fetchTurns", "session"),
    ("createTerminal", "terminal"),
    ("disposeTerminal", "terminal"),
];

/// Notifications and their types.
const NOTIFICATIONS: [(&str, &str); 4] = [
    ("root/sessionAdded", "notify/sessionAdded"),
    ("root/sessionRemoved", "notify/sessionRemoved"),
    ("root/sessionSummaryChanged", "notify/sessionSummaryChanged"),
    ("auth/required", "notify/authRequired"),
];

/// Actions that 0.1 does not know and that change nothing it shows.
const UNKNOWN: [&str; 3] = [
    "session/agentChanged",
    "session/changesetsChanged",
    "resourceWatch/changed",
];

pub(super) struct V0_1;

impl Step for V0_1 {
    fn version(&self) -> Version {
        Version::V0_1
    }

    fn attachments(&self, attachments: &mut Vec<Value>) {
        *attachments = attachments.iter().filter_map(older_attachment).collect();
    }

    fn agent(&self, agent: &mut Object) {
        if let Some(list) = list_mut(agent, "customizations") {
            list.iter_mut().for_each(make_reference);
        }
    }

    fn active_client(&self, client: &mut Object) {
        if let Some(list) = list_mut(client, "customizations") {
            list.iter_mut().for_each(make_reference);
        }
    }

    fn session(&self, state: &mut Object, _around: &Around) {
        if state.contains_key("customizations") {
            let flat = flat_customizations(objects(state, "customizations"));
            state.insert("customizations".to_owned(), flat);
        }
        if let Some(summary) = state.get_mut("summary").and_then(Value::as_object_mut) {
            summary.shift_remove("agent");
            summary.shift_remove("changesets");
        }
    }

    fn action(&self, mut action: Action, situation: &Situation<'_>, _memory: &mut Memory) -> Vec<Action> {
        let kind = action.kind().to_owned();
        if UNKNOWN.contains(&kind.as_str()) || kind.starts_with("changeset/") {
            return Vec::new();
        }
        match kind.as_str() {
            "session/customizationsChanged" => {
                let flat = flat_customizations(objects(&action.body, "customizations"));
                action.body.insert("customizations".to_owned(), flat);
            }
            "session/customizationUpdated" | "session/customizationRemoved" => {
                let Some(before) = situation.before else {
                    return Vec::new();
                };
                let after = changed_customizations(&action, before);
                let flat = flat_customizations(after.iter());
                action = action.instead("session/customizationsChanged", json!({ "customizations": flat }));
            }
            "session/customizationToggled" => {
                let toggled = situation.before.and_then(|before| {
                    let mut known = objects(before, "customizations");
                    known.find(|customization| is(customization, "id", action.text("id")))
                });
                let Some(uri) = toggled.and_then(|toggled| text(toggled, "uri")) else {
                    return Vec::new();
                };
                action.body.insert("id".to_owned(), uri.into());
                rename(&mut action.body, "id", "uri");
            }
            _ => {}
        }
        let subject = match kind.split('/').next() {
            Some("session") => "session",
            Some("terminal") => "terminal",
            _ => return vec![action],
        };
        let channel = action.channel.as_str().into();
        insert_after(&mut action.body, "type", subject, channel);
        vec![action]
    }

    fn notification(&self, notification: Notification) -> Option<Notification> {
        let (_, kind) = NOTIFICATIONS
            .iter()
            .find(|(method, _)| *method == notification.method)?;
        let mut wrapped = Object::new();
        wrapped.insert("type".to_owned(), (*kind).into());
        wrapped.extend(notification.params);
        wrapped.shift_remove("channel");
        let mut params = Object::new();
        params.insert("notification".to_owned(), Value::Object(wrapped));
        let method = "notification".to_owned();
        Some(Notification { method, params })
    }

    fn up_message(&self, message: &mut Object) {
        if let Some(attachments) = list_mut(message, "attachments") {
            attachments.iter_mut().for_each(make_newer_attachment);
        }
    }

    fn up_active_client(&self, client: &mut Object) {
        if let Some(list) = list_mut(client, "customizations") {
            list.iter_mut().for_each(make_plugin);
        }
    }

    fn up_request(&self, request: &mut Request, _memory: &Memory) {
        if request.params.contains_key("channel") {
            return;
        }
        match SUBJECTS.iter().find(|(method, _)| *method == request.method) {
            Some((_, subject)) => rename(&mut request.params, subject, "channel"),
            None => {
                request.params.shift_insert(0, "channel".to_owned(), ROOT.into());
            }
        }
    }

    fn up_dispatch(&self, action: &mut Action, memory: &Memory, _now_ms: i64) -> Result<(), String> {
        let subject = match action.kind().split('/').next() {
            Some("session") => "session",
            Some("terminal") => "terminal",
            _ => {
                action.channel = ROOT.to_owned();
                return Ok(());
            }
        };
        match action.body.shift_remove(subject) {
            Some(Value::String(channel)) => action.channel = channel,
            Some(_) => return Err(format!("action.{subject}: expected a string")),
            None if action.channel.is_empty() => return Err(format!("action.{subject}: missing")),
            None => {}
        }
        if action.kind() == "session/customizationToggled" && action.body.contains_key("uri") {
            let uri = action.text("uri");
            let Some(id) = memory.customization_id(&action.channel, uri) else {
                return Err(format!("action.uri: the session has no customization {uri:?}"));
            };
            let id = id.into();
            action.body.insert("uri".to_owned(), id);
            rename(&mut action.body, "uri", "id");
        }
        Ok(())
    }
}

/// A file, directory or selection; other attachments have no URI.
fn older_attachment(attachment: &Value) -> Option<Value> {
    let attachment = attachment
        .as_object()
        .filter(|attachment| is(attachment, "type", "resource"))?;
    let kind = match text(attachment, "displayKind") {
        Some("directory") => "directory",
        _ if attachment.contains_key("selection") => "selection",
        Some("selection") => "selection",
        _ => "file",
    };
    let mut older = Object::new();
    older.insert("type".to_owned(), kind.into());
    older.insert("uri".to_owned(), attachment.get("uri")?.clone());
    if let Some(label) = attachment.get("label") {
        older.insert("displayName".to_owned(), label.clone());
    }
    Some(Value::Object(older))
}

fn make_newer_attachment(attachment: &mut Value) {
    let Some(older) = attachment.as_object() else {
        return;
    };
    let (Some(kind @ ("file" | "directory" | "selection")), Some(uri)) = (text(older, "type"), text(older, "uri"))
    else {
        return;
    };
    let last_segment = uri.trim_end_matches('/').rsplit('/').next().unwrap_or(uri);
    let label = text(older, "displayName").unwrap_or(last_segment);
    let display_kind = if kind == "file" { "document" } else { kind };
    *attachment = json!({ "type": "resource", "label": label, "displayKind": display_kind, "uri": uri });
}

/// A reference to a customization.
fn reference(customization: &Object) -> Object {
    let mut reference = Object::new();
    for (from, to) in [
        ("uri", "uri"),
        ("name", "displayName"),
        ("description", "description"),
        ("icons", "icons"),
        ("nonce", "nonce"),
    ] {
        if let Some(value) = customization.get(from) {
            reference.insert(to.to_owned(), value.clone());
        }
    }
    reference
}

fn make_reference(customization: &mut Value) {
    if let Some(found) = customization.as_object() {
        *customization = Value::Object(reference(found));
    }
}

fn flat_customizations<'a>(list: impl Iterator<Item = &'a Object>) -> Value {
    list.map(flat_customization).collect()
}

fn flat_customization(customization: &Object) -> Value {
    let mut flat = Object::new();
    flat.insert("customization".to_owned(), Value::Object(reference(customization)));
    let enabled = customization.get("enabled").cloned().unwrap_or(Value::Bool(true));
    flat.insert("enabled".to_owned(), enabled);
    if let Some(client) = customization.get("clientId") {
        flat.insert("clientId".to_owned(), client.clone());
    }
    if let Some(load) = object(customization, "load") {
        for (from, to) in [("kind", "status"), ("message", "statusMessage")] {
            if let Some(value) = load.get(from) {
                flat.insert(to.to_owned(), value.clone());
            }
        }
    }
    Value::Object(flat)
}

/// The customizations of a session after one was updated or removed.
fn changed_customizations(action: &Action, before: &Object) -> Vec<Object> {
    let mut after: Vec<Object> = objects(before, "customizations").cloned().collect();
    match object(&action.body, "customization") {
        Some(updated) => match after.iter_mut().find(|known| known.get("id") == updated.get("id")) {
            Some(known) => *known = updated.clone(),
            None => after.push(updated.clone()),
        },
        None => after.retain(|known| !is(known, "id", action.text("id"))),
    }
    after
}

fn make_plugin(reference: &mut Value) {
    let Some(older) = reference.as_object() else {
        return;
    };
    let Some(uri) = older.get("uri").filter(|_| !older.contains_key("id")) else {
        return;
    };
    let mut plugin = Object::new();
    plugin.insert("type".to_owned(), "plugin".into());
    // The URI is what a reference is known by.
    plugin.insert("id".to_owned(), uri.clone());
    plugin.insert("uri".to_owned(), uri.clone());
    let name = older.get("displayName").unwrap_or(uri);
    plugin.insert("name".to_owned(), name.clone());
    for kept in ["icons", "nonce"] {
        if let Some(value) = older.get(kept) {
            plugin.insert(kept.to_owned(), value.clone());
        }
    }
    *reference = Value::Object(plugin);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{down, state_session, up_with};

    fn plugin(id: &str, enabled: bool) -> Value {
        json!({ "type": "plugin", "id": id, "uri": format!("file:{id}"), "name": id, "enabled": enabled,
            "load": { "kind": "degraded", "message": "why" } })
    }

    fn flat(id: &str, enabled: bool) -> Value {
        json!({ "customization": { "uri": format!("file:{id}"), "displayName": id }, "enabled": enabled,
            "status": "degraded", "statusMessage": "why" })
    }

    #[test]
    fn an_action_names_its_session() {
        let action = json!({ "type": "session/titleChanged", "title": "t" });
        let expected = json!({ "type": "session/titleChanged", "session": "s", "title": "t" });
        assert_eq!(down(&V0_1, action, None)[0].to_string(), expected.to_string());
        let action = json!({ "type": "root/activeSessionsChanged", "activeSessions": 1 });
        assert_eq!(down(&V0_1, action.clone(), None), [action]);
    }

    #[test]
    fn a_dispatch_finds_its_channel_in_the_action() {
        let memory = Memory::new("me");
        let up = |action: Value| up_with(&V0_1, action, &memory);
        let action = up(json!({ "type": "session/titleChanged", "session": "x", "title": "t" })).unwrap();
        assert_eq!(action.channel, "x");
        assert_eq!(
            Value::Object(action.body),
            json!({ "type": "session/titleChanged", "title": "t" })
        );
        assert_eq!(up(json!({ "type": "root/configChanged" })).unwrap().channel, ROOT);
        assert_eq!(
            up(json!({ "type": "terminal/input", "terminal": "x" }))
                .unwrap()
                .channel,
            "x"
        );
        assert!(up(json!({ "type": "session/titleChanged", "session": 1 })).is_err());
    }

    #[test]
    fn requests_name_the_thing_that_they_are_about() {
        let up = |method: &str, params: Value| {
            let mut request = Request {
                method: method.into(),
                params: params.as_object().unwrap().clone(),
            };
            V0_1.up_request(&mut request, &Memory::new("me"));
            Value::Object(request.params)
        };
        for (method, subject) in SUBJECTS {
            assert_eq!(
                up(method, json!({ subject: "x", "a": 1 })),
                json!({ "channel": "x", "a": 1 })
            );
        }
        assert_eq!(up("listSessions", json!({})), json!({ "channel": "ahp-root://" }));
        assert_eq!(
            up("resourceRead", json!({ "uri": "u" })),
            json!({ "channel": "ahp-root://", "uri": "u" })
        );
    }

    #[test]
    fn notifications_are_wrapped() {
        for (method, kind) in NOTIFICATIONS {
            let params = json!({ "channel": "ahp-root://", "session": "s" });
            let notification = Notification {
                method: method.into(),
                params: params.as_object().unwrap().clone(),
            };
            let shown = V0_1.notification(notification).unwrap();
            assert_eq!(shown.method, "notification");
            assert_eq!(
                Value::Object(shown.params),
                json!({ "notification": { "type": kind, "session": "s" } })
            );
        }
        let unknown = Notification {
            method: "otlp/exportLogs".into(),
            params: Object::new(),
        };
        assert!(V0_1.notification(unknown).is_none());
    }

    #[test]
    fn customizations_are_a_flat_list() {
        let state = state_session(&V0_1, json!({ "customizations": [plugin("p", true)] }));
        assert_eq!(state["customizations"], json!([flat("p", true)]));
    }

    #[test]
    fn a_changed_customization_sends_the_whole_list() {
        let before = || Some(json!({ "customizations": [plugin("a", true), plugin("b", true)] }));
        let changed =
            |list: Value| json!({ "type": "session/customizationsChanged", "session": "s", "customizations": list });
        let updated = json!({ "type": "session/customizationUpdated", "customization": plugin("b", false) });
        assert_eq!(
            down(&V0_1, updated, before()),
            [changed(json!([flat("a", true), flat("b", false)]))]
        );
        let removed = json!({ "type": "session/customizationRemoved", "id": "a" });
        assert_eq!(down(&V0_1, removed, before()), [changed(json!([flat("b", true)]))]);
    }

    #[test]
    fn a_toggle_names_the_uri() {
        let before = json!({ "customizations": [plugin("a", true)] });
        let new = json!({ "type": "session/customizationToggled", "id": "a", "enabled": false });
        let old = json!({ "type": "session/customizationToggled", "session": "s", "uri": "file:a", "enabled": false });
        assert_eq!(down(&V0_1, new.clone(), Some(before.clone())), vec![old.clone()]);
        let mut memory = Memory::new("me");
        assert!(up_with(&V0_1, old.clone(), &memory).is_err());
        memory.learn_session("s", before.as_object().unwrap());
        let up = up_with(&V0_1, old, &memory).unwrap();
        assert_eq!(Value::Object(up.body), new);
    }

    #[test]
    fn changed_files_do_not_exist() {
        for kind in [
            "fileSet",
            "fileRemoved",
            "statusChanged",
            "operationsChanged",
            "cleared",
        ] {
            assert!(down(&V0_1, json!({ "type": format!("changeset/{kind}") }), None).is_empty());
        }
        assert!(down(&V0_1, json!({ "type": "session/changesetsChanged" }), None).is_empty());
    }

    #[test]
    fn attachments_are_files_directories_and_selections() {
        let attached = |attachments: Value| {
            let action =
                json!({ "type": "session/turnStarted", "userMessage": { "text": "", "attachments": attachments } });
            down(&V0_1, action, None)[0]["userMessage"]["attachments"].clone()
        };
        let shown = attached(json!([
            { "type": "resource", "label": "l", "uri": "file:a" },
            { "type": "resource", "label": "l", "uri": "file:b", "displayKind": "directory" },
            { "type": "resource", "label": "l", "uri": "file:c", "selection": {} },
            { "type": "simple", "label": "l" },
        ]));
        let expected = json!([
            { "type": "file", "uri": "file:a", "displayName": "l" },
            { "type": "directory", "uri": "file:b", "displayName": "l" },
            { "type": "selection", "uri": "file:c", "displayName": "l" },
        ]);
        assert_eq!(shown, expected);

        let mut message = json!({ "text": "", "attachments": [{ "type": "directory", "uri": "file:///x/src/" }] });
        V0_1.up_message(message.as_object_mut().unwrap());
        let expected =
            json!([{ "type": "resource", "label": "src", "displayKind": "directory", "uri": "file:///x/src/" }]);
        assert_eq!(message["attachments"], expected);
    }

    #[test]
    fn references_of_clients_become_plugins() {
        let mut client =
            json!({ "clientId": "me", "customizations": [{ "uri": "file:p", "displayName": "P", "nonce": "1" }] });
        V0_1.up_active_client(client.as_object_mut().unwrap());
        let plugin = json!({ "type": "plugin", "id": "file:p", "uri": "file:p", "name": "P", "nonce": "1" });
        assert_eq!(client["customizations"], json!([plugin]));
    }
}

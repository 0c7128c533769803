//! 0.8 → 0.7.
//!
//! - Plugins and MCP servers are enabled or not: there are no scopes of enablement, so the effective value is shown.
//!   A toggle counts for the session.
//! - `session/workingDirectoryReplaced` becomes the removal of the directories from there on, which are then set again.
//! - `auth/required` names its resource instead of describing it.

use serde_json::{Value, json};

use super::{Notification, Step};
use crate::action::{Action, Situation};
use crate::json::{Object, insert_after, is, list, list_mut, objects_mut, replace, text};
use crate::memory::Memory;
use crate::version::Version;

pub(super) struct V0_7;

impl Step for V0_7 {
    fn version(&self) -> Version {
        Version::V0_7
    }

    fn customizations(&self, list: &mut Vec<Value>) {
        list.iter_mut().filter_map(Value::as_object_mut).for_each(with_enabled);
    }

    fn active_client(&self, client: &mut Object) {
        for plugin in objects_mut(client, "customizations") {
            with_enabled(plugin);
            // The type is not written up to 0.9.
            enabled_from_scopes(plugin);
            plugin.shift_remove("childEnablement");
        }
    }

    fn action(&self, mut action: Action, situation: &Situation<'_>, _memory: &mut Memory) -> Vec<Action> {
        match action.kind() {
            "session/customizationToggled" => {
                replace(&mut action.body, "enablement", "enabled", |scopes| {
                    Some(is_enabled(scopes.as_array()).into())
                });
                vec![action]
            }
            "session/workingDirectoryReplaced" => match situation.before {
                Some(before) => directories_again(&action, before),
                None => Vec::new(),
            },
            _ => vec![action],
        }
    }

    fn notification(&self, mut notification: Notification) -> Option<Notification> {
        if notification.method == "auth/required" {
            replace(
                &mut notification.params,
                "resource",
                "resource",
                |resource| match resource {
                    Value::Object(metadata) => text(&metadata, "resource").map(Into::into),
                    name => Some(name),
                },
            );
        }
        Some(notification)
    }

    fn up_active_client(&self, client: &mut Object) {
        for plugin in objects_mut(client, "customizations") {
            replace(plugin, "enabled", "enablement", |enabled| {
                let is_disabled = enabled == Value::Bool(false);
                is_disabled.then(|| json!([{ "kind": "global", "enabled": false }]))
            });
        }
    }

    fn up_dispatch(&self, action: &mut Action, _memory: &Memory, _now_ms: i64) -> Result<(), String> {
        if action.kind() == "session/customizationToggled" {
            replace(&mut action.body, "enabled", "enablement", |enabled| {
                Some(json!([{ "kind": "session", "enabled": enabled }]))
            });
        }
        Ok(())
    }
}

/// Replaces the scopes of a customization and of its children by whether it is enabled.
fn with_enabled(customization: &mut Object) {
    if is(customization, "type", "plugin") || is(customization, "type", "mcpServer") {
        enabled_from_scopes(customization);
    }
    objects_mut(customization, "children").for_each(with_enabled);
}

fn enabled_from_scopes(customization: &mut Object) {
    if customization.contains_key("enabled") {
        return;
    }
    let enabled = is_enabled(list_mut(customization, "enablement").map(|scopes| &*scopes));
    if customization.contains_key("enablement") {
        replace(customization, "enablement", "enabled", |_| Some(enabled.into()));
    } else {
        insert_after(customization, "name", "enabled", enabled.into());
    }
}

/// Whether the first scope enables, as in the published reducer.
fn is_enabled(scopes: Option<&Vec<Value>>) -> bool {
    let Some(first) = scopes.and_then(|scopes| scopes.first()) else {
        return true;
    };
    let is_known = matches!(
        first.get("kind").and_then(Value::as_str),
        Some("global" | "workspace" | "session")
    );
    is_known && first.get("enabled") == Some(&Value::Bool(true))
}

fn directories_again(action: &Action, before: &Object) -> Vec<Action> {
    let (old, new) = (action.text("directory"), action.text("replacement"));
    let directories: Vec<&str> = list(before, "workingDirectories")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let Some(index) = directories.iter().position(|directory| *directory == old) else {
        return Vec::new();
    };
    let removed = |directory: &str| action.extra("session/workingDirectoryRemoved", json!({ "directory": directory }));
    if directories[..index].contains(&new) {
        return vec![removed(old)];
    }
    let set = |directory: &str| action.extra("session/workingDirectorySet", json!({ "directory": directory }));
    let others = directories[index + 1..].iter().filter(|directory| **directory != new);
    let mut actions: Vec<Action> = directories[index..]
        .iter()
        .map(|directory| removed(directory))
        .collect();
    actions.push(set(new));
    actions.extend(others.map(|directory| set(directory)));
    actions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{down, state_root, state_session, up};

    #[test]
    fn the_first_scope_decides_whether_a_customization_is_enabled() {
        let scope = |kind: &str, enabled: bool| json!({ "kind": kind, "enabled": enabled });
        let cases = [
            (json!([]), true),
            (json!([scope("session", false), scope("global", true)]), false),
            (json!([scope("workspace", true), scope("global", false)]), true),
            (json!([scope("galaxy", true)]), false),
        ];
        for (scopes, enabled) in cases {
            let state =
                json!({ "customizations": [{ "type": "plugin", "id": "p", "enablement": scopes, "version": "1" }] });
            let expected =
                json!({ "customizations": [{ "type": "plugin", "id": "p", "enabled": enabled, "version": "1" }] });
            assert_eq!(state_session(&V0_7, state).to_string(), expected.to_string());
        }
    }

    #[test]
    fn directories_and_leaves_keep_their_own_value() {
        let directory = json!({ "type": "directory", "name": "d", "enabled": false, "children": [
            { "type": "skill", "name": "s" },
            { "type": "mcpServer", "name": "m", "state": {} },
        ] });
        let root = state_root(&V0_7, json!({ "agents": [{ "customizations": [directory] }] }));
        let expected = json!({ "type": "directory", "name": "d", "enabled": false, "children": [
            { "type": "skill", "name": "s" },
            { "type": "mcpServer", "name": "m", "enabled": true, "state": {} },
        ] });
        assert_eq!(root["agents"][0]["customizations"][0], expected);
    }

    #[test]
    fn a_toggle_shows_the_effective_value_and_counts_for_the_session() {
        let scopes = json!([{ "kind": "workspace", "uri": "w", "enabled": false }]);
        let action = json!({ "type": "session/customizationToggled", "id": "p", "enablement": scopes });
        let expected = json!({ "type": "session/customizationToggled", "id": "p", "enabled": false });
        assert_eq!(down(&V0_7, action, None), [expected]);

        let action = json!({ "type": "session/customizationToggled", "id": "p", "enabled": false });
        let scopes = json!([{ "kind": "session", "enabled": false }]);
        let expected = json!({ "type": "session/customizationToggled", "id": "p", "enablement": scopes });
        assert_eq!(up(&V0_7, action), Ok(expected));
    }

    #[test]
    fn plugins_of_clients_are_enabled_unless_they_say_otherwise() {
        let action = json!({ "type": "session/activeClientSet", "activeClient": { "clientId": "me", "customizations": [
            { "id": "on", "enabled": true }, { "id": "off", "enabled": false },
        ] } });
        let plugins = up(&V0_7, action).unwrap()["activeClient"]["customizations"].clone();
        let off = json!({ "id": "off", "enablement": [{ "kind": "global", "enabled": false }] });
        assert_eq!(plugins, json!([{ "id": "on" }, off]));

        let action = json!({ "type": "session/activeClientSet", "activeClient": { "customizations": plugins } });
        let shown = json!([{ "id": "on", "enabled": true }, { "id": "off", "enabled": false }]);
        assert_eq!(down(&V0_7, action, None)[0]["activeClient"]["customizations"], shown);
    }

    #[test]
    fn a_replaced_directory_and_those_behind_it_are_set_again() {
        let replace = |directory: &str, replacement: &str| {
            let action = json!({ "type": "session/workingDirectoryReplaced",
                "directory": directory, "replacement": replacement });
            let before = json!({ "workingDirectories": ["a", "b", "c"] });
            let actions = down(&V0_7, action, Some(before));
            let short = |action: &Value| {
                let kind = action["type"]
                    .as_str()
                    .unwrap()
                    .trim_start_matches("session/workingDirectory");
                format!("{kind} {}", action["directory"].as_str().unwrap())
            };
            actions.iter().map(short).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(replace("b", "x"), "Removed b, Removed c, Set x, Set c");
        assert_eq!(replace("b", "c"), "Removed b, Removed c, Set c");
        assert_eq!(replace("c", "a"), "Removed c");
        assert_eq!(replace("b", "b"), "Removed b, Removed c, Set b, Set c");
        assert_eq!(replace("missing", "x"), "");
    }

    #[test]
    fn a_required_sign_in_names_its_resource() {
        let params =
            json!({ "channel": "ahp-root://", "resource": { "resource": "https://r", "scopes_supported": [] } });
        let notification = Notification {
            method: "auth/required".into(),
            params: params.as_object().unwrap().clone(),
        };
        let shown = V0_7.notification(notification).unwrap();
        assert_eq!(shown.params["resource"], "https://r");
    }
}

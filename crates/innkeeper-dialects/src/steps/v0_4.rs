//! 0.5.0 → 0.4.
//!
//! - The session's head is nested in `summary`, which also has its URI and its times. Times of sessions are
//!   milliseconds.
//! - One client is active: the own one if it is, otherwise the latest.
//! - The session has a model and an agent, and messages have none. The host keeps the choice in the session's `_meta`.
//!   A chat may be created with its own, which the host keeps in the chat's `_meta`.
//! - Choices of settings are strings.
//! - Chats have no draft, and their activity is not followed.
//! - There is no `root/progress`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Notification, Request, Step};
use crate::action::{Action, Situation};
use crate::json::{Object, insert_after, is, object, object_mut, objects, rename, replace};
use crate::memory::Memory;
use crate::state::Around;
use crate::version::Version;

/// The members of a session's state that are nested in its summary, in the order of the summary.
const BEFORE_TIMES: [&str; 4] = ["provider", "title", "status", "activity"];
const AFTER_TIMES: [&str; 3] = ["project", "workingDirectory", "annotations"];

/// The choices of a session; their keys in its `_meta`, which also name them in requests on the way up; and the actions
/// that change them.
const CHOICES: [(&str, &str, &str); 2] = [
    ("model", "innkeeper.model", "session/modelChanged"),
    ("agent", "innkeeper.agent", "session/agentChanged"),
];

/// Changes the tools of the active client.
const TOOLS_CHANGED: &str = "session/activeClientToolsChanged";

pub(super) struct V0_4;

impl Step for V0_4 {
    fn version(&self) -> Version {
        Version::V0_4
    }

    fn message(&self, message: &mut Object) {
        message.shift_remove("model");
        message.shift_remove("agent");
    }

    fn config_schema(&self, schema: &mut Object) {
        if let Some(properties) = object_mut(schema, "properties") {
            properties.values_mut().for_each(with_text_choices);
        }
    }

    fn summary(&self, summary: &mut Object) {
        for time in ["createdAt", "modifiedAt"] {
            replace(summary, time, time, |time| Some(milliseconds(&time)));
        }
        for (choice, chosen) in choices(summary) {
            summary.insert(choice.to_owned(), chosen);
        }
    }

    fn session(&self, state: &mut Object, around: &Around) {
        nest_summary(state, around);
        if let Some(clients) = state.shift_remove("activeClients")
            && let Some(shown) = shown_client(&clients, &around.own_client_id)
        {
            state.insert("activeClient".to_owned(), shown.clone());
        }
    }

    fn chat(&self, chat: &mut Object) {
        chat.shift_remove("draft");
        for (choice, chosen) in choices(chat) {
            insert_after(chat, "modifiedAt", choice, chosen);
        }
    }

    fn finish_chat(&self, chat: &mut Object) {
        chat.shift_remove("activity");
    }

    fn action(&self, action: Action, situation: &Situation<'_>, memory: &mut Memory) -> Vec<Action> {
        match action.kind() {
            "chat/draftChanged" => Vec::new(),
            "session/activeClientSet" | "session/activeClientRemoved" => active_client(&action, situation, memory),
            "session/metaChanged" => with_choices(action, situation),
            _ => vec![action],
        }
    }

    fn finish_action(&self, action: &Action) -> bool {
        action.kind() == "chat/activityChanged"
    }

    fn notification(&self, notification: Notification) -> Option<Notification> {
        (notification.method != "root/progress").then_some(notification)
    }

    fn up_request(&self, request: &mut Request, _memory: &Memory) {
        if matches!(request.method.as_str(), "createSession" | "createChat") {
            for (choice, key, _) in CHOICES {
                rename(&mut request.params, choice, key);
            }
        }
    }

    fn up_dispatch(&self, action: &mut Action, memory: &Memory, _now_ms: i64) -> Result<(), String> {
        match action.kind() {
            // 1.0 has no such actions; the host has.
            "session/modelChanged" => action.set_kind("innkeeper/modelChanged"),
            "session/agentChanged" => action.set_kind("innkeeper/agentChanged"),
            "session/activeClientChanged" => match action.body.get("activeClient") {
                Some(Value::Object(_)) => action.set_kind("session/activeClientSet"),
                Some(Value::Null) | None => {
                    let own = json!({ "clientId": memory.client_id() });
                    *action = action.instead("session/activeClientRemoved", own);
                }
                Some(_) => return Err("action.activeClient: expected an object or null".into()),
            },
            TOOLS_CHANGED => {
                let Some(Value::Object(own)) = memory.own_client(&action.channel) else {
                    return Err(
                        "this client is not active in the session; send session/activeClientChanged first".into(),
                    );
                };
                let mut own = own.clone();
                own.insert(
                    "tools".to_owned(),
                    action.body.get("tools").cloned().unwrap_or_default(),
                );
                *action = action.instead("session/activeClientSet", json!({ "activeClient": own }));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Nests the head of a session in its summary, as the first member.
fn nest_summary(state: &mut Object, around: &Around) {
    let mut summary = Object::new();
    let mut take = |summary: &mut Object, key: &str| {
        if let Some(value) = state.shift_remove(key) {
            summary.insert(key.to_owned(), value);
        }
    };
    summary.insert("resource".to_owned(), around.resource.as_str().into());
    BEFORE_TIMES.iter().for_each(|key| take(&mut summary, key));
    summary.insert("createdAt".to_owned(), milliseconds_of(&around.created_at).into());
    summary.insert("modifiedAt".to_owned(), milliseconds_of(&around.modified_at).into());
    AFTER_TIMES.iter().for_each(|key| take(&mut summary, key));
    for (choice, chosen) in choices(state) {
        summary.insert(choice.to_owned(), chosen);
    }
    state.shift_insert(0, "summary".to_owned(), Value::Object(summary));
}

/// The choices in the `_meta` of a session or chat.
fn choices(holder: &Object) -> Vec<(&'static str, Value)> {
    let chosen = |(choice, key, _)| Some((choice, with_text_config(object(holder, "_meta")?.get(key)?)));
    CHOICES.into_iter().filter_map(chosen).collect()
}

/// The one active client that is shown.
fn shown_client<'a>(clients: &'a Value, own: &str) -> Option<&'a Value> {
    let clients = clients.as_array()?;
    let is_own = |client: &&Value| client.get("clientId").and_then(Value::as_str) == Some(own);
    clients.iter().find(is_own).or_else(|| clients.last())
}

/// The change of the active client that is shown, if it is another one or has changed.
fn active_client(action: &Action, situation: &Situation<'_>, memory: &Memory) -> Vec<Action> {
    let none = Object::new();
    let before: Vec<&Object> = objects(situation.before.unwrap_or(&none), "activeClients").collect();
    let mut after: Vec<Object> = before.iter().map(|client| (*client).clone()).collect();
    match object(&action.body, "activeClient") {
        Some(set) => {
            let id = set.get("clientId");
            match after.iter_mut().find(|client| client.get("clientId") == id) {
                Some(known) => *known = set.clone(),
                None => after.push(set.clone()),
            }
        }
        None => after.retain(|client| !is(client, "clientId", action.text("clientId"))),
    }
    let (before, after) = (json!(before), json!(after));
    let own = memory.client_id();
    let shown = shown_client(&after, own);
    if situation.before.is_some() && shown_client(&before, own) == shown {
        return Vec::new();
    }
    // The author of new tools gets its own action back, if nothing else has changed.
    if let (Some(Value::Object(dispatched)), Some(known), Some(shown)) =
        (situation.dispatched, shown_client(&before, own), shown)
        && is(dispatched, "type", TOOLS_CHANGED)
    {
        let (mut known, tools) = (known.clone(), shown.get("tools").cloned().unwrap_or_default());
        known["tools"] = tools.clone();
        if known == *shown {
            return vec![action.instead(TOOLS_CHANGED, json!({ "tools": tools }))];
        }
    }
    vec![action.instead("session/activeClientChanged", json!({ "activeClient": shown }))]
}

/// The change of a session's `_meta`, and of the choices in it.
fn with_choices(action: Action, situation: &Situation<'_>) -> Vec<Action> {
    let dispatched = situation.dispatched.and_then(Value::as_object);
    let before = situation.before.and_then(|before| before.get("_meta"));
    let after = action.body.get("_meta");
    let mut actions = Vec::new();
    for (choice, key, kind) in CHOICES {
        let chosen = |meta: Option<&Value>| meta.and_then(|meta| meta.get(key)).map(with_text_config);
        let (old, new) = (chosen(before), chosen(after));
        if old != new {
            let members = match &new {
                Some(new) => json!({ choice: new }),
                None => json!({}),
            };
            actions.push(action.extra(kind, members));
        } else if let Some(own) = dispatched.filter(|own| is(own, "type", kind)) {
            // The author waits for its own action, although the choice is the same.
            actions.push(Action {
                body: own.clone(),
                ..action.clone()
            });
        }
    }
    if situation.before.is_none() || before != after {
        actions.insert(0, action);
    }
    actions
}

/// A model selection whose settings are strings. Agent selections have none.
fn with_text_config(chosen: &Value) -> Value {
    let mut chosen = chosen.clone();
    if let Some(config) = chosen.get_mut("config").and_then(Value::as_object_mut) {
        config.values_mut().for_each(make_text);
    }
    chosen
}

fn with_text_choices(property: &mut Value) {
    let Some(property) = property.as_object_mut() else {
        return;
    };
    if let Some(choices) = property.get_mut("enum").and_then(Value::as_array_mut) {
        choices.iter_mut().for_each(make_text);
    }
    for nested in ["items", "additionalProperties"] {
        if let Some(nested) = property.get_mut(nested) {
            with_text_choices(nested);
        }
    }
    if let Some(properties) = object_mut(property, "properties") {
        properties.values_mut().for_each(with_text_choices);
    }
}

fn make_text(value: &mut Value) {
    if !value.is_string() {
        *value = value.to_string().into();
    }
}

fn milliseconds(time: &Value) -> Value {
    match time.as_str() {
        Some(text) => milliseconds_of(text).into(),
        None => time.clone(),
    }
}

fn milliseconds_of(rfc3339: &str) -> i64 {
    rfc3339.parse::<Timestamp>().map_or(0, Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::testing::{down, down_with, state_chat, state_root, state_session, up, up_with};

    fn client(id: &str) -> Value {
        json!({ "clientId": id, "tools": [] })
    }

    #[test]
    fn the_head_of_a_session_is_nested_in_its_summary() {
        let state = json!({ "provider": "p", "title": "t", "status": 1, "project": {}, "workingDirectory": "w",
            "lifecycle": "ready", "activeClients": [], "chats": [],
            "_meta": { "innkeeper.model": { "id": "m", "config": { "effort": 3 } } } });
        let expected = json!({
            "summary": { "resource": "s", "provider": "p", "title": "t", "status": 1,
                "createdAt": 1779926400001_i64, "modifiedAt": 1779926400002_i64,
                "project": {}, "workingDirectory": "w", "model": { "id": "m", "config": { "effort": "3" } } },
            "lifecycle": "ready", "chats": [],
            "_meta": { "innkeeper.model": { "id": "m", "config": { "effort": 3 } } },
        });
        assert_eq!(state_session(&V0_4, state).to_string(), expected.to_string());
    }

    #[test]
    fn the_own_entry_is_shown_or_the_latest() {
        let state = |clients: Value| json!({ "activeClients": clients });
        let shown = |clients: Value| state_session(&V0_4, state(clients))["activeClient"].clone();
        assert_eq!(shown(json!([client("a"), client("me"), client("b")])), client("me"));
        assert_eq!(shown(json!([client("a"), client("b")])), client("b"));
        assert_eq!(shown(json!([])), Value::Null);
    }

    #[test]
    fn only_a_change_of_the_shown_client_is_sent() {
        let before = |clients: Value| Some(json!({ "activeClients": clients }));
        let set = |id: &str| json!({ "type": "session/activeClientSet", "activeClient": client(id) });
        let removed = |id: &str| json!({ "type": "session/activeClientRemoved", "clientId": id });
        let changed = |client: Value| json!({ "type": "session/activeClientChanged", "activeClient": client });
        assert_eq!(down(&V0_4, set("a"), before(json!([]))), [changed(client("a"))]);
        assert_eq!(down(&V0_4, set("a"), before(json!([client("me")]))), [] as [Value; 0]);
        assert_eq!(
            down(&V0_4, set("me"), before(json!([client("a")]))),
            [changed(client("me"))]
        );
        assert_eq!(
            down(&V0_4, removed("b"), before(json!([client("a"), client("b")]))),
            [changed(client("a"))]
        );
        assert_eq!(
            down(&V0_4, removed("a"), before(json!([client("a")]))),
            [changed(Value::Null)]
        );
        assert_eq!(
            down(&V0_4, removed("a"), before(json!([client("a"), client("b")]))),
            [] as [Value; 0]
        );
    }

    #[test]
    fn the_active_client_goes_up_as_an_entry_of_its_own() {
        let changed = |client: Value| json!({ "type": "session/activeClientChanged", "activeClient": client });
        let set = json!({ "type": "session/activeClientSet", "activeClient": client("me") });
        assert_eq!(up(&V0_4, changed(client("me"))), Ok(set));
        let removed = json!({ "type": "session/activeClientRemoved", "clientId": "me" });
        assert_eq!(up(&V0_4, changed(Value::Null)), Ok(removed));
        assert!(up(&V0_4, changed(json!(1))).is_err());
    }

    #[test]
    fn changed_tools_need_an_active_client() {
        let tools = json!({ "type": "session/activeClientToolsChanged", "tools": [{ "name": "t" }] });
        let mut memory = Memory::new("me");
        assert!(
            up_with(&V0_4, tools.clone(), &memory)
                .unwrap_err()
                .contains("not active")
        );
        memory.learn_client("s", Some(&client("me")));
        let set = up_with(&V0_4, tools, &memory).unwrap();
        assert_eq!(set.kind(), "session/activeClientSet");
        assert_eq!(
            set.body["activeClient"],
            json!({ "clientId": "me", "tools": [{ "name": "t" }] })
        );
    }

    #[test]
    fn the_author_of_changed_tools_gets_its_action_back() {
        let tools = json!([{ "name": "t" }]);
        let dispatched = json!({ "type": TOOLS_CHANGED, "tools": tools });
        let before = json!({ "activeClients": [client("me"), client("other")] });
        let mut changed = client("me");
        changed["tools"] = tools;
        let set = |client: &Value| json!({ "type": "session/activeClientSet", "activeClient": client });
        let echo = |set: Value| {
            let Value::Object(body) = set else {
                panic!("an action is an object");
            };
            let channel = "s".to_owned();
            let action = Action {
                channel,
                body,
                is_extra: false,
            };
            let situation = Situation {
                before: before.as_object(),
                dispatched: Some(&dispatched),
            };
            let mut actions = V0_4.action(action, &situation, &mut Memory::new("me"));
            assert_eq!(actions.len(), 1);
            Value::Object(actions.remove(0).body)
        };
        assert_eq!(echo(set(&changed)), dispatched);
        changed["displayName"] = "another name".into();
        assert_eq!(echo(set(&changed))["type"], "session/activeClientChanged");
    }

    #[test]
    fn a_changed_choice_is_shown_as_the_sessions_model() {
        let meta = |model: &str| json!({ "innkeeper.model": { "id": model } });
        let action = json!({ "type": "session/metaChanged", "_meta": meta("new") });
        let actions = down(&V0_4, action.clone(), Some(json!({ "_meta": meta("old") })));
        let model = json!({ "type": "session/modelChanged", "model": { "id": "new" } });
        assert_eq!(actions, [action.clone(), model]);
        assert!(down(&V0_4, action, Some(json!({ "_meta": meta("new") }))).is_empty());
        let none = json!({ "type": "session/metaChanged" });
        let before = json!({ "_meta": { "innkeeper.agent": { "uri": "a" } } });
        assert_eq!(
            down(&V0_4, none.clone(), Some(before)),
            [none, json!({ "type": "session/agentChanged" })]
        );
    }

    #[test]
    fn a_choice_that_changes_nothing_is_echoed_to_its_author() {
        let own = json!({ "type": "session/modelChanged", "model": { "id": "m" } });
        let meta = json!({ "innkeeper.model": { "id": "m" } });
        let before = json!({ "_meta": meta });
        let action = json!({ "type": "session/metaChanged", "_meta": meta });
        let situation = Situation {
            before: before.as_object(),
            dispatched: Some(&own),
        };
        let action = Action {
            channel: "s".into(),
            body: action.as_object().unwrap().clone(),
            is_extra: false,
        };
        let actions = V0_4.action(action, &situation, &mut Memory::new("me"));
        assert_eq!(actions.len(), 1);
        assert_eq!(Value::Object(actions[0].body.clone()), own);
    }

    #[test]
    fn choices_of_settings_are_strings_at_any_depth() {
        let schema = json!({ "properties": { "a": { "enum": ["x", 1, true],
            "items": { "enum": [2] }, "properties": { "b": { "additionalProperties": { "enum": [null] } } } } } });
        let expected = json!({ "properties": { "a": { "enum": ["x", "1", "true"],
            "items": { "enum": ["2"] }, "properties": { "b": { "additionalProperties": { "enum": ["null"] } } } } } });
        let root = state_root(
            &V0_4,
            json!({ "config": { "schema": schema }, "agents": [{ "models": [{ "configSchema": schema }] }] }),
        );
        assert_eq!(root["config"]["schema"], expected);
        assert_eq!(root["agents"][0]["models"][0]["configSchema"], expected);
    }

    #[test]
    fn times_of_summaries_are_milliseconds() {
        let mut summary = json!({ "createdAt": "1970-01-01T00:00:01Z", "modifiedAt": "broken", "title": "t" });
        V0_4.summary(summary.as_object_mut().unwrap());
        assert_eq!(summary, json!({ "createdAt": 1000, "modifiedAt": 0, "title": "t" }));
    }

    #[test]
    fn summaries_have_the_choices_of_the_session() {
        let mut summary = json!({ "title": "t", "_meta": { "git": {},
            "innkeeper.model": { "id": "m", "config": { "effort": 3 } }, "innkeeper.agent": { "uri": "a" } } });
        V0_4.summary(summary.as_object_mut().unwrap());
        assert_eq!(summary["model"], json!({ "id": "m", "config": { "effort": "3" } }));
        assert_eq!(summary["agent"], json!({ "uri": "a" }));
        let mut changes = json!({ "title": "t", "_meta": { "git": {} } });
        V0_4.summary(changes.as_object_mut().unwrap());
        assert!(changes.get("model").is_none());
    }

    #[test]
    fn choices_go_up_under_the_hosts_own_names() {
        let model = json!({ "type": "session/modelChanged", "model": { "id": "m" } });
        let above = json!({ "type": "innkeeper/modelChanged", "model": { "id": "m" } });
        assert_eq!(up(&V0_4, model), Ok(above));
        let above = json!({ "type": "innkeeper/agentChanged" });
        assert_eq!(up(&V0_4, json!({ "type": "session/agentChanged" })), Ok(above));
        let params = json!({ "channel": "s", "model": { "id": "m" }, "agent": { "uri": "a" } });
        for method in ["createSession", "createChat"] {
            let mut request = Request {
                method: method.into(),
                params: params.as_object().unwrap().clone(),
            };
            V0_4.up_request(&mut request, &Memory::new("me"));
            let above = json!({ "channel": "s", "innkeeper.model": { "id": "m" }, "innkeeper.agent": { "uri": "a" } });
            assert_eq!(Value::Object(request.params), above);
        }
    }

    #[test]
    fn chats_have_no_draft() {
        assert_eq!(state_chat(&V0_4, json!({ "draft": { "text": "" } })), json!({}));
        let mut memory = Memory::new("me");
        assert!(down_with(&V0_4, json!({ "type": "chat/draftChanged" }), None, &mut memory).is_empty());
    }

    #[test]
    fn a_chat_shows_the_model_that_it_was_created_with() {
        let meta = json!({ "innkeeper.model": { "id": "m", "config": { "effort": 3 } } });
        let chat = state_chat(&V0_4, json!({ "modifiedAt": "T", "_meta": meta }));
        assert_eq!(chat["model"], json!({ "id": "m", "config": { "effort": "3" } }));
        assert!(chat.get("agent").is_none());
    }
}

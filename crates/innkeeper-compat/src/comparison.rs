//! The comparison of a fold with a fresh snapshot of the same version.

use serde_json::Value;

use crate::version::Version;

/// Bits 0 to 4 of a session's status: derived from its chats and carried by no action since 0.4.
const ACTIVITY_BITS: u64 = 0b1_1111;

/// Removes the members that no action of this version carries.
///
/// `modifiedAt` up to 0.8 is the clock of the reader (every reducer stamps it itself). From 0.4 on, a session's
/// activity is derived from its chats and is announced on the root channel, like the counts of its annotations; a
/// chat's title and the counts of its changes are in the catalogue. Up to 0.6 no action changes or clears a chat's
/// working directory, so a fold keeps the one of its snapshot. A chat that is opened by its own URI before there are
/// chats (0.3 and older) keeps its title for the same reason.
pub fn comparable(version: Version, mut state: Value) -> Value {
    write_numbers_alike(&mut state);
    if !version.has_directories() {
        without_empty_inputs(&mut state);
    }
    if version == Version::V0_5_2 {
        with_questions_last(&mut state);
    }
    let is_terminal = state.get("claim").is_some();
    let is_session = !is_terminal && state.get("lifecycle").is_some();
    let is_chat = !is_session && state.get("turns").is_some();
    if is_chat {
        if !version.has_directories() {
            remove(&mut state, "workingDirectory");
        }
        remove(&mut state, "title");
        remove(&mut state, "changes");
        if !version.has_shared_times() {
            remove(&mut state, "modifiedAt");
        }
    }
    if is_session {
        for chat in state["chats"].as_array_mut().into_iter().flatten() {
            if !version.has_directories() {
                remove(chat, "workingDirectory");
            }
        }
        let session = if version.has_active_clients() {
            &mut state
        } else {
            &mut state["summary"]
        };
        remove(session, "modifiedAt");
        remove(session, "annotations");
        let resource = session["resource"].as_str().unwrap_or_default();
        if !version.has_chats() && resource.starts_with("ahp-chat:") {
            remove(session, "title");
        }
        if version.has_chats() {
            remove(session, "activity");
            if let Some(status) = session["status"].as_u64() {
                session["status"] = (status & !ACTIVITY_BITS).into();
            }
        }
    }
    state
}

/// Returns the first member that differs, as a path with both values.
pub fn difference(fold: &Value, snapshot: &Value) -> Option<String> {
    compare("", fold, snapshot)
}

fn compare(path: &str, fold: &Value, snapshot: &Value) -> Option<String> {
    match (fold, snapshot) {
        (Value::Object(a), Value::Object(b)) => {
            let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
            keys.into_iter().find_map(|key| {
                let missing = Value::String("(missing)".to_owned());
                let (a, b) = (a.get(key).unwrap_or(&missing), b.get(key).unwrap_or(&missing));
                compare(&format!("{path}/{key}"), a, b)
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut items = a.iter().zip(b).enumerate();
            items.find_map(|(index, (a, b))| compare(&format!("{path}/{index}"), a, b))
        }
        _ if fold == snapshot => None,
        _ => Some(format!("{path}: the fold has {fold}, a fresh snapshot {snapshot}")),
    }
}

/// Removes the empty input of tool calls whose input is being written. Up to 0.6 every delta has content, so a delta
/// without any makes the input empty where a snapshot has none.
pub fn without_empty_inputs(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(without_empty_inputs),
        Value::Object(members) => {
            members.retain(|key, value| key != "partialInput" || *value != "");
            members.values_mut().for_each(without_empty_inputs);
        }
        _ => {}
    }
}

/// Moves the questions of each turn behind its other parts. A client of 0.5.2 has an answered question where it was
/// answered, and a snapshot where it was asked.
pub fn with_questions_last(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(with_questions_last),
        Value::Object(members) => {
            if let Some(parts) = members.get_mut("responseParts").and_then(Value::as_array_mut) {
                parts.sort_by_key(|part| (part["kind"] == "inputRequest").then(|| part["request"]["id"].to_string()));
            }
            members.values_mut().for_each(with_questions_last);
        }
        _ => {}
    }
}

/// Removes a member of an object.
pub fn remove(state: &mut Value, name: &str) {
    if let Some(members) = state.as_object_mut() {
        members.shift_remove(name);
    }
}

/// Writes whole numbers without a fraction: `3` and `3.0` are one number, but not one value here.
fn write_numbers_alike(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number
                .as_f64()
                .filter(|float| float.fract() == 0.0 && float.abs() < 1e15);
            if let Some(whole) = whole {
                *value = Value::from(whole as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(write_numbers_alike),
        Value::Object(members) => members.values_mut().for_each(write_numbers_alike),
        _ => {}
    }
}

//! Normalises two states before they are compared.

use serde_json::Value;

/// Bits 0 to 4 of a session's status: derived from its chats and carried by no action (E-08).
pub(crate) const ACTIVITY_BITS: u32 = 0b1_1111;

/// Removes exactly the fields that E-08 names: a session's activity bits, activity and counts of
/// annotations (ANN-07), a chat's title and changes.
pub(crate) fn without_unannounced_fields(mut state: Value) -> Value {
    spell_numbers_alike(&mut state);
    let is_chat = state.get("turns").is_some();
    let is_session = state.get("lifecycle").is_some();
    if let Some(fields) = state.as_object_mut() {
        if is_chat {
            fields.remove("title");
            fields.remove("changes");
        }
        if is_session {
            fields.remove("activity");
            fields.remove("annotations");
            if let Some(status) = fields.get("status").and_then(Value::as_u64) {
                fields.insert("status".to_owned(), Value::from(status & !u64::from(ACTIVITY_BITS)));
            }
        }
    }
    state
}

/// Writes whole numbers without a fraction: `3` and `3.0` are one number, but not one value here. The
/// published types have floating point numbers in answers, and the host writes them as clients do.
fn spell_numbers_alike(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let whole = number
                .as_f64()
                .filter(|float| float.fract() == 0.0 && float.abs() < 1e15);
            if let Some(whole) = whole.filter(|_| number.is_f64()) {
                *value = Value::from(whole as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(spell_numbers_alike),
        Value::Object(fields) => fields.values_mut().for_each(spell_numbers_alike),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Removes extension fields: the published types drop them, so no mirror has them.
pub(crate) fn without_extensions(mut state: Value) -> Value {
    for (list, field) in [
        ("activeClients", "systemMessageTransform"),
        ("agents", "systemMessageSections"),
    ] {
        let entries = state.get_mut(list).and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten() {
            if let Some(fields) = entry.as_object_mut() {
                fields.remove(field);
            }
        }
    }
    remove_purposes(&mut state);
    state
}

/// Removes the `_meta` of input requests, in turns and in `inputNeeded`.
fn remove_purposes(value: &mut Value) {
    let kind = value.get("kind").and_then(Value::as_str);
    let is_request = matches!(kind, Some("inputRequest" | "chatInput"));
    if let Some(request) = value.get_mut("request").filter(|_| is_request) {
        request.as_object_mut().map(|fields| fields.remove("_meta"));
        return;
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(remove_purposes),
        Value::Object(fields) => fields.values_mut().for_each(remove_purposes),
        _ => {}
    }
}

//! Shared code of the decoders of all APIs.

use serde_json::Value;

use crate::model::api::ModelEvent;
use crate::model::error::{ErrorKind, Provider, ProviderError};

/// Parses the data of an event. Returns `None` for keep-alives and `[DONE]`.
pub(super) fn parse_data(provider: &Provider, data: &str) -> Result<Option<Value>, ProviderError> {
    match data.trim() {
        "" | "[DONE]" => Ok(None),
        data => serde_json::from_str(data)
            .map(Some)
            .map_err(|error| provider.error(ErrorKind::Malformed, &error.to_string())),
    }
}

/// The error of a stream that ended before the answer was complete.
pub(super) fn incomplete(provider: &Provider) -> ProviderError {
    provider.error(ErrorKind::Interrupted, "the stream ended early")
}

/// The error of a JSON document without an answer.
pub(super) fn no_answer(provider: &Provider) -> ProviderError {
    provider.error(ErrorKind::Malformed, "it contains no answer")
}

/// Emits text unless it is empty. Returns whether it did.
pub(super) fn emit_text(text: &str, out: &mut Vec<ModelEvent>) -> bool {
    if !text.is_empty() {
        out.push(ModelEvent::Text(text.to_owned()));
    }
    !text.is_empty()
}

/// Returns the string field of an object, if it is not empty.
pub(super) fn non_empty<'a>(object: &'a Value, field: &str) -> Option<&'a str> {
    object
        .get(field)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
}

/// Returns the elements of an array field; none if it is missing.
pub(super) fn elements<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    object.get(field).and_then(Value::as_array).into_iter().flatten()
}

/// Returns the usage object, if there is one.
pub(super) fn usage_of(holder: &Value) -> Option<&Value> {
    holder.get("usage").filter(|usage| usage.is_object())
}

/// Returns the token count at a JSON pointer.
pub(super) fn token_count(usage: &Value, pointer: &str) -> Option<u32> {
    let count = usage.pointer(pointer)?.as_u64()?;
    u32::try_from(count).ok()
}

/// Takes the collected explanation of a refusal.
pub(super) fn take_refusal(refusal: &mut String) -> Option<String> {
    Some(std::mem::take(refusal)).filter(|text| !text.is_empty())
}

//! Reading messages with the published types.

use std::collections::HashMap;
use std::rc::Rc;

use ahp_types::actions::ActionEnvelope;
use bytes::Bytes;
use serde_json::Value;

use crate::sim::Violation;

/// How every action starts on the wire.
const ACTION: &[u8] = br#"{"jsonrpc":"2.0","method":"action","params":"#;
/// Most actions remembered.
const MAX_REMEMBERED: usize = 1024;

/// Reads every action once, though many connections get the same bytes.
#[derive(Debug, Default)]
pub struct Decoder {
    actions: HashMap<Bytes, Rc<ActionEnvelope>>,
}

impl Decoder {
    /// The action in a message, if it is one.
    pub fn action(&mut self, message: &Bytes) -> Result<Option<Rc<ActionEnvelope>>, Violation> {
        if let Some(known) = self.actions.get(message) {
            return Ok(Some(Rc::clone(known)));
        }
        let Some(params) = message.strip_prefix(ACTION).and_then(|rest| rest.strip_suffix(b"}")) else {
            return Ok(None);
        };
        let params: Value =
            serde_json::from_slice(params).map_err(|error| Violation::new(format!("not JSON: {error}")))?;
        let envelope: Rc<ActionEnvelope> = Rc::new(decode(params)?);
        if self.actions.len() >= MAX_REMEMBERED {
            self.actions.clear();
        }
        self.actions.insert(message.clone(), Rc::clone(&envelope));
        Ok(Some(envelope))
    }
}

/// Decodes with a published type and insists that nothing in it was unknown to that type (trap 9).
pub fn decode<T>(value: Value) -> Result<T, Violation>
where
    T: serde::de::DeserializeOwned + std::fmt::Debug,
{
    // A refusal repeats what its author sent, which may be anything. A snapshot that carries what
    // the published types cannot read (E-41) is looked at once it is read.
    let may_be_unknown = value.get("rejectionReason").is_some() || has_auth_required(&value);
    let decoded: T =
        serde_json::from_value(value).map_err(|error| Violation::new(format!("does not decode: {error}")))?;
    if !may_be_unknown && says_unknown(&decoded) {
        return Err(Violation::new(format!("decodes to something unknown: {decoded:?}")));
    }
    Ok(decoded)
}

fn has_auth_required(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            let is_one = fields.get("status").is_some_and(|status| status == "auth-required");
            is_one || fields.values().any(has_auth_required)
        }
        Value::Array(items) => items.iter().any(has_auth_required),
        _ => false,
    }
}

/// Whether anything in a decoded value is of an unknown kind, without writing it all down.
pub fn says_unknown(decoded: &impl std::fmt::Debug) -> bool {
    struct Search {
        found: bool,
    }
    impl std::fmt::Write for Search {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            // The name of a variant is written in one piece.
            self.found |= text == "Unknown";
            Ok(())
        }
    }
    let mut search = Search { found: false };
    let written = std::fmt::write(&mut search, format_args!("{decoded:?}"));
    written.is_err() || search.found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_are_found_at_any_depth() {
        let known = ahp_types::state::ToolCallState::Unknown(Value::Null);
        assert!(says_unknown(&vec![Some(known)]));
        assert!(!says_unknown(&vec![Some("Unknown(words)")]));
    }
}

//! Decodes a dispatched action from its raw JSON, or says why it cannot.

use std::borrow::Cow;

use ahp_types::actions::StateAction;
use ahp_types::state::{AgentSelection, ModelSelection};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::protocol::action_table;
use crate::protocol::dialect::extension;
use crate::session::choice::SessionChoice;

/// Why an action from a client could not be read (DSP-08).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecodeError {
    /// The name is not one of AHP 1.0's, so this host cannot know what it means.
    UnknownType(String),
    /// The name is known and a field is wrong or missing.
    Malformed(String),
    /// It can be read, and names something that is not there.
    Unusable(String),
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownType(name) => write!(f, "unknown action type {name:?}"),
            Self::Malformed(problem) => write!(f, "malformed action: {problem}"),
            Self::Unusable(problem) => f.write_str(problem),
        }
    }
}

/// The type of an action.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, rename = "type")]
    name: Cow<'a, str>,
}

/// Decodes one action.
pub fn decode_action(raw: &RawValue) -> Result<StateAction, DecodeError> {
    let head: Head<'_> = serde_json::from_str(raw.get()).map_err(|error| {
        let field = if raw.get().starts_with('{') {
            "action.type"
        } else {
            "action"
        };
        DecodeError::Malformed(format!("{field}: {}", plain(&error)))
    })?;
    match action_table::decode_payload(&head.name, raw.get()) {
        None => Err(DecodeError::UnknownType(head.name.chars().take(128).collect())),
        Some(Ok(action)) => checked(action, raw),
        Some(Err(error)) => {
            let action = decode_leniently(&head.name, raw).ok_or_else(|| {
                let path = error.path().to_string();
                let field = if path == "." {
                    "action".to_owned()
                } else {
                    format!("action.{path}")
                };
                DecodeError::Malformed(format!("{field}: {}", plain(error.inner())))
            })?;
            checked(action, raw)
        }
    }
}

/// Decodes the choice of a model or an agent for a session, which clients of older versions dispatch, in the words of
/// the translation; `None` for any other action.
pub fn decode_choice(raw: &RawValue) -> Option<Result<SessionChoice, DecodeError>> {
    #[derive(Deserialize)]
    #[serde(tag = "type")]
    enum Action {
        #[serde(rename = "innkeeper/modelChanged")]
        Model { model: ModelSelection },
        #[serde(rename = "innkeeper/agentChanged")]
        Agent { agent: Option<AgentSelection> },
    }
    let name = serde_json::from_str::<Head<'_>>(raw.get()).ok()?.name;
    if !["innkeeper/modelChanged", "innkeeper/agentChanged"].contains(&&*name) {
        return None;
    }
    Some(match serde_json::from_str(raw.get()) {
        Ok(Action::Model { model }) => Ok(SessionChoice::Model(Some(model))),
        Ok(Action::Agent { agent }) => Ok(SessionChoice::Agent(agent)),
        Err(error) => Err(DecodeError::Malformed(format!("action: {}", plain(&error)))),
    })
}

/// Checks the fields that the action's type does not have (SMT-02).
fn checked(action: StateAction, raw: &RawValue) -> Result<StateAction, DecodeError> {
    if let StateAction::SessionActiveClientSet(_) = action {
        let opt_in = extension::opt_in_of(raw);
        opt_in.map_err(|problem| DecodeError::Malformed(format!("action.activeClient.{problem}")))?;
    }
    Ok(action)
}

/// Accepts the two deviations that published clients are known to send: fractional numbers where
/// the types have integers (DSP-20), and customizations without `type` from 0.9 (section D).
fn decode_leniently(name: &str, raw: &RawValue) -> Option<StateAction> {
    let mut value: Value = serde_json::from_str(raw.get()).ok()?;
    let fields = value.as_object_mut()?;
    for field in fields.values_mut() {
        if let Some(fraction) = field.as_f64().filter(|_| field.is_f64())
            && fraction.abs() < 9e15
        {
            *field = Value::from(fraction.round() as i64);
        }
    }
    if let Some(active_client) = fields.get_mut("activeClient") {
        add_missing_customization_types(active_client);
    }
    action_table::decode_payload(name, &value.to_string())?.ok()
}

/// Adds the `type` that a Rust 0.9 client leaves out of the customizations it publishes.
pub fn add_missing_customization_types(active_client: &mut Value) {
    let customizations = active_client.get_mut("customizations").and_then(Value::as_array_mut);
    for customization in customizations.into_iter().flatten() {
        if let Some(fields) = customization.as_object_mut() {
            fields.entry("type").or_insert_with(|| "plugin".into());
        }
    }
}

/// The message of a JSON error without its position, which means nothing to the sender.
pub fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rfind(" at line ").map_or(text.as_str(), |end| &text[..end]);
    // The name of a Rust type means nothing to a client. Text in quotes comes from the client itself.
    match text.rsplit_once("expected struct ") {
        Some((before, name)) if !name.contains('"') => format!("{before}expected an object"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(json: &str) -> Result<StateAction, String> {
        let raw: Box<RawValue> = serde_json::from_str(json).expect("test JSON");
        decode_action(&raw).map_err(|error| error.to_string())
    }

    #[test]
    fn dsp08_unknown_and_malformed_are_told_apart() {
        assert_eq!(
            decode(r#"{"type":"x-mine/thing"}"#),
            Err(r#"unknown action type "x-mine/thing""#.into())
        );
        assert_eq!(
            decode(r#"{"type":"chat/turnStarted","turnId":5,"startedAt":"x","message":{}}"#),
            Err("malformed action: action.turnId: invalid type: integer `5`, expected a string".into())
        );
        assert_eq!(
            decode(r#"{"type":"session/titleChanged"}"#),
            Err("malformed action: action: missing field `title`".into())
        );
        for bad in ["{}", r#"{"type":7}"#] {
            assert!(
                decode(bad).unwrap_err().starts_with("malformed action: action.type: "),
                "{bad}"
            );
        }
        for bad in ["5", "null", "[]"] {
            let problem = decode(bad).unwrap_err();
            let is_plain = problem.starts_with("malformed action: action: ") && problem.ends_with("expected an object");
            assert!(is_plain, "{problem}");
        }
    }

    #[test]
    fn dsp20_fractional_numbers_are_rounded() {
        let action = decode(r#"{"type":"chat/turnCancelled","turnId":"t","duration":12.5}"#).expect("accepted");
        assert!(matches!(action, StateAction::ChatTurnCancelled(cancelled) if cancelled.duration == 13));
    }

    #[test]
    fn a_customization_of_0_9_without_type_is_a_plugin() {
        let action = decode(
            r#"{"type":"session/activeClientSet","activeClient":{"clientId":"c","tools":[],"customizations":[{"id":"p","uri":"virtual://p","name":"P"}]}}"#,
        );
        assert!(
            matches!(action, Ok(StateAction::SessionActiveClientSet(_))),
            "{action:?}"
        );
    }
}

//! The setting that decides whether tools ask for confirmation at all.
//!
//! VS Code shows its own permission picker for a text setting named `autoApprove` whose values are
//! among `default`, `assisted`, `autoApprove` and `autopilot`, with `default` among them. The
//! setting therefore has that name and two of those values. Earlier versions named it
//! `approvalMode` with the values `ask` and `allowAll`: clients may still use that name, and
//! sessions that were stored with it are converted when they are loaded.

use std::sync::Arc;

use ahp_types::state::SessionConfigState;
use serde_json::{Map, Value, json};

use crate::agent::{Choice, Setting, SettingKind};
use crate::session::settings::{self, Problem};

/// The setting that decides whether tools ask.
pub(crate) const MODE: &str = "autoApprove";
/// The value of [`MODE`] with which tools that can do harm ask first.
pub(crate) const ASK: &str = "default";
/// The value of [`MODE`] that allows everything.
pub(crate) const ALLOW_ALL: &str = "autoApprove";

/// The former name of [`MODE`].
const FORMER: &str = "approvalMode";
/// The former values, each with the value that means the same.
const FORMER_VALUES: [(&str, &str); 2] = [("ask", ASK), ("allowAll", ALLOW_ALL)];

/// Levels of VS Code between asking and allowing everything, which this host does not have. Its
/// users may have one of them as the default for every host, so they must not keep a session from
/// being created. Asking is the careful reading of each, and the state shows it.
const LEVELS_THAT_ASK: [&str; 2] = ["assisted", "autopilot"];

/// The setting, as sessions have it.
pub(crate) fn setting() -> Setting {
    let described = |id: &str, label: &str, description: &str| Choice {
        description: Some(description.to_owned()),
        ..Choice::new(id, label)
    };
    Setting {
        id: MODE.to_owned(),
        title: "Approvals".to_owned(),
        description: Some("Whether tools that can do harm ask first.".to_owned()),
        kind: SettingKind::Choice(vec![
            described(ASK, "Ask", "You are asked before such a tool runs."),
            described(
                ALLOW_ALL,
                "Allow everything",
                "Every tool runs at once in this session.",
            ),
        ]),
        default: Some(json!(ASK)),
        mutable: true,
        read_only: false,
        required: false,
    }
}

/// Whether values allow every tool call.
pub(crate) fn allows_all(values: &Map<String, Value>) -> bool {
    values.get(MODE).and_then(Value::as_str) == Some(ALLOW_ALL)
}

/// The value of [`MODE`] that a client means by a property, or `None` if the property is another
/// setting.
pub(crate) fn translate(property: &str, value: &Value) -> Result<Option<Value>, Problem> {
    match property {
        MODE if value.as_str().is_some_and(|level| LEVELS_THAT_ASK.contains(&level)) => Ok(Some(json!(ASK))),
        MODE => Ok(Some(value.clone())),
        FORMER => match current(value) {
            Some(current) => Ok(Some(json!(current))),
            None => {
                let known: Vec<&str> = FORMER_VALUES.iter().map(|(former, _)| *former).collect();
                let problem = format!(
                    "must be one of {}; its name today is {MODE}, with the values {ASK} and {ALLOW_ALL}",
                    known.join(", ")
                );
                Err(Problem::new(FORMER, problem))
            }
        },
        _ => Ok(None),
    }
}

/// Whether a property is the former name of [`MODE`].
pub(crate) fn is_former(property: &str) -> bool {
    property == FORMER
}

/// The choices of a client that uses the former name.
pub(crate) fn former_choices() -> Vec<Choice> {
    let SettingKind::Choice(choices) = setting().kind else {
        return Vec::new();
    };
    let former = |choice: Choice| {
        let (former, _) = FORMER_VALUES.iter().find(|(_, current)| *current == choice.id)?;
        let id = (*former).to_owned();
        Some(Choice { id, ..choice })
    };
    choices.into_iter().filter_map(former).collect()
}

fn current(former: &Value) -> Option<&'static str> {
    let former = former.as_str()?;
    let (_, current) = FORMER_VALUES.iter().find(|(known, _)| *known == former)?;
    Some(current)
}

/// Converts values that an earlier version stored. A value under the new name is later than one
/// under the former name.
pub(crate) fn convert_values(values: &mut Map<String, Value>) {
    if let Some(former) = values.remove(FORMER)
        && !values.contains_key(MODE)
    {
        values.insert(MODE.to_owned(), json!(current(&former).unwrap_or(ASK)));
    }
}

/// Converts a session that an earlier version stored. Returns whether the schema changed: no action carries a schema,
/// so clients then need a snapshot.
pub(crate) fn convert_session(settings: &mut Arc<[Setting]>, config: &mut SessionConfigState) -> bool {
    if settings::find(settings, FORMER).is_none() {
        return false;
    }
    let convert = |stored: &Setting| {
        if stored.id != FORMER {
            return stored.clone();
        }
        let default = stored.default.as_ref().and_then(current).unwrap_or(ASK);
        Setting {
            default: Some(json!(default)),
            ..setting()
        }
    };
    *settings = settings.iter().map(convert).collect();
    config.schema = settings::session_schema(settings);
    convert_values(&mut config.values);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored_setting(id: &str, default: Value) -> Setting {
        Setting {
            id: id.to_owned(),
            default: Some(default),
            ..setting()
        }
    }

    #[test]
    fn a_session_of_an_earlier_version_is_converted_once() {
        let tools = stored_setting("approvedTools", json!([]));
        let mut settings: Arc<[Setting]> = [stored_setting(FORMER, json!("allowAll")), tools.clone()].into();
        let values = json!({ "approvalMode": "ask", "approvedTools": ["shell"] });
        let mut config = SessionConfigState {
            schema: settings::session_schema(&settings),
            values: values.as_object().cloned().expect("an object"),
        };
        assert!(convert_session(&mut settings, &mut config));
        let mode = stored_setting(MODE, json!(ALLOW_ALL));
        assert_eq!(settings[..], [mode, tools], "the place in the list stays");
        assert_eq!(config.schema, settings::session_schema(&settings));
        let expected = json!({ "autoApprove": "default", "approvedTools": ["shell"] });
        assert_eq!(Value::Object(config.values.clone()), expected);
        assert!(!convert_session(&mut settings, &mut config), "there is nothing left");
        assert_eq!(Value::Object(config.values), expected);
    }

    #[test]
    fn a_stored_value_is_read_as_asking_if_in_doubt_and_a_newer_one_wins() {
        let cases = [
            (
                json!({ "approvalMode": "allowAll" }),
                json!({ "autoApprove": "autoApprove" }),
            ),
            (json!({ "approvalMode": 7 }), json!({ "autoApprove": "default" })),
            (
                json!({ "approvalMode": "allowAll", "autoApprove": "default" }),
                json!({ "autoApprove": "default" }),
            ),
            (
                json!({ "autoApprove": "autoApprove" }),
                json!({ "autoApprove": "autoApprove" }),
            ),
            (json!({}), json!({})),
        ];
        for (stored, expected) in cases {
            let mut values = stored.as_object().cloned().expect("an object");
            convert_values(&mut values);
            assert_eq!(Value::Object(values), expected, "{stored}");
        }
    }
}

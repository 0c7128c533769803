//! Settings: the language in which hosts and agents describe them, as a schema for clients (CMP-07) and as rules for
//! the values that come back (CMP-09, ROOT-08).
//!
//! The language is closed, so checking it needs no JSON Schema: seven kinds of value, and a
//! problem always names the setting.

use std::collections::HashMap;
use std::fmt;

use ahp_types::state::{
    ConfigPropertySchema, ConfigSchema, RootConfigState, SessionConfigPropertySchema, SessionConfigSchema,
    SessionConfigState,
};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::agent::{Choice, Setting, SettingKind};
use crate::chat::approval_mode;
use crate::core::json_bytes;
use crate::protocol::error::RpcError;

/// Longest text in a list.
const MAX_ITEM_BYTES: usize = 1024;

/// Maximum bytes of all values together: they are part of every snapshot and go to every turn.
const MAX_VALUES_BYTES: usize = 512 << 10;

/// The problem with a value, and the setting it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The path of the value, as in `config.autoApprove`.
    field: String,
    what: String,
}

impl Problem {
    pub(crate) fn new(property: &str, what: impl Into<String>) -> Self {
        // A name may be as long as a message; a reader needs its beginning.
        let shown: String = property.chars().take(128).collect();
        Self {
            field: format!("config.{shown}"),
            what: what.into(),
        }
    }

    /// `-32602` for a request that carried the value.
    pub(crate) fn into_error(self) -> RpcError {
        RpcError::invalid_params(&self.field, self.what)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.what)
    }
}

/// The defaults of settings, as far as they have some.
pub(crate) fn defaults(settings: &[Setting]) -> Map<String, Value> {
    let given = settings
        .iter()
        .filter_map(|setting| Some((setting.id.clone(), setting.default.clone()?)));
    given.collect()
}

/// The values that a client chose, without those of settings that do not exist here.
///
/// Clients send every host the settings of their own hosts: VS Code sends 38 when it connects. A
/// value that means nothing here is no reason to refuse what comes with it.
pub(crate) fn known_values(settings: &[Setting], chosen: &Map<String, Value>) -> Result<Map<String, Value>, Problem> {
    let mut known = Map::new();
    for (property, value) in chosen {
        let mode = match find(settings, approval_mode::MODE) {
            Some(_) => approval_mode::translate(property, value)?,
            None => None,
        };
        match mode {
            // A client that sends both names means the one that is shown.
            Some(_) if approval_mode::is_former(property) && chosen.contains_key(approval_mode::MODE) => {}
            Some(mode) => {
                known.insert(approval_mode::MODE.to_owned(), mode);
            }
            None if find(settings, property).is_some() => {
                known.insert(property.clone(), value.clone());
            }
            None => {}
        }
    }
    Ok(known)
}

/// Checks chosen values: each is of the kind of its setting.
///
/// The value of a read-only setting passes if it is the one that is shown, because clients send back everything they
/// were shown.
pub(crate) fn check_values(
    settings: &[Setting],
    chosen: &Map<String, Value>,
    shown: &Map<String, Value>,
) -> Result<(), Problem> {
    for (property, value) in chosen {
        let Some(setting) = find(settings, property) else {
            continue; // [`known_values`] leaves it out.
        };
        check_value(setting, value).map_err(|what| Problem::new(property, what))?;
        if setting.read_only && shown.get(property) != Some(value) {
            return Err(Problem::new(property, "is shown for information and cannot be changed"));
        }
    }
    check_size(chosen)
}

/// Checks that nothing is missing that a session cannot do without.
pub(crate) fn check_required(settings: &[Setting], values: &Map<String, Value>) -> Result<(), Problem> {
    match settings
        .iter()
        .find(|setting| setting.required && !values.contains_key(&setting.id))
    {
        Some(setting) => Err(Problem::new(&setting.id, "is required and has no default; choose one")),
        None => Ok(()),
    }
}

/// Checks that values are not too much to carry around.
pub(crate) fn check_size(values: &Map<String, Value>) -> Result<(), Problem> {
    if json_bytes(values) <= MAX_VALUES_BYTES {
        return Ok(());
    }
    let largest = values.iter().max_by_key(|(_, value)| json_bytes(value));
    let property = largest.map_or("", |(property, _)| property.as_str());
    Err(Problem::new(
        property,
        format!("is too long: all values together have at most {MAX_VALUES_BYTES} bytes"),
    ))
}

/// The setting of an id.
pub(crate) fn find<'a>(settings: &'a [Setting], property: &str) -> Option<&'a Setting> {
    settings.iter().find(|setting| setting.id == property)
}

/// The error for an unknown property.
pub(crate) fn unknown(settings: &[Setting]) -> String {
    let known: Vec<&str> = settings.iter().map(|setting| setting.id.as_str()).collect();
    match known.as_slice() {
        [] => "is unknown; there are no settings here".to_owned(),
        _ => format!("is unknown; the settings are {}", known.join(", ")),
    }
}

fn check_value(setting: &Setting, value: &Value) -> Result<(), String> {
    let expect = |fits: bool, what: &str| {
        if fits {
            Ok(())
        } else {
            Err(format!("must be {what}, not {}", kind_of(value)))
        }
    };
    match &setting.kind {
        SettingKind::Text | SettingKind::Search(_) => expect(value.is_string(), "text"),
        SettingKind::Number => expect(value.is_number(), "a number"),
        SettingKind::Integer => {
            let is_whole =
                value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0);
            match value {
                Value::Number(_) if !is_whole => Err("must be a whole number".to_owned()),
                _ => expect(is_whole, "a whole number"),
            }
        }
        SettingKind::Boolean => expect(value.is_boolean(), "true or false"),
        SettingKind::Choice(choices) => {
            if choices.iter().any(|choice| *value == *choice.id) {
                return Ok(());
            }
            let ids: Vec<&str> = choices.iter().map(|choice| choice.id.as_str()).collect();
            Err(format!("must be one of {}", ids.join(", ")))
        }
        SettingKind::TextList { min, max } => {
            let Some(items) = value.as_array() else {
                return expect(false, "an array of strings");
            };
            if let Some(index) = items.iter().position(|item| !item.is_string()) {
                return Err(format!("must be an array of strings; item {index} is not a string"));
            }
            let is_long = |item: &Value| item.as_str().is_some_and(|text| text.len() > MAX_ITEM_BYTES);
            if let Some(index) = items.iter().position(is_long) {
                return Err(format!("has an item {index} of more than {MAX_ITEM_BYTES} bytes"));
            }
            let count = items.len();
            if min.is_some_and(|min| count < min as usize) {
                return Err(format!("has {count} items and needs {}", min.unwrap_or_default()));
            }
            if max.is_some_and(|max| count > max as usize) {
                return Err(format!("has {count} items and may have {}", max.unwrap_or_default()));
            }
            Ok(())
        }
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The schema of a session's settings.
pub(crate) fn session_schema(settings: &[Setting]) -> SessionConfigSchema {
    SessionConfigSchema {
        r#type: "object".to_owned(),
        properties: settings
            .iter()
            .map(|setting| (setting.id.clone(), session_property(setting)))
            .collect(),
        required: required(settings),
    }
}

/// The schema of the host's settings.
pub(crate) fn host_schema(settings: &[Setting]) -> ConfigSchema {
    ConfigSchema {
        r#type: "object".to_owned(),
        properties: settings
            .iter()
            .map(|setting| (setting.id.clone(), property(setting)))
            .collect(),
        required: required(settings),
    }
}

fn required(settings: &[Setting]) -> Option<Vec<String>> {
    let ids: Vec<String> = settings
        .iter()
        .filter(|setting| setting.required)
        .map(|setting| setting.id.clone())
        .collect();
    (!ids.is_empty()).then_some(ids)
}

fn session_property(setting: &Setting) -> SessionConfigPropertySchema {
    let property = property(setting);
    SessionConfigPropertySchema {
        r#type: property.r#type,
        title: property.title,
        description: property.description,
        default: property.default,
        r#enum: property.r#enum,
        enum_labels: property.enum_labels,
        enum_descriptions: property.enum_descriptions,
        read_only: property.read_only,
        items: property.items.map(|items| *items),
        min_items: property.min_items,
        max_items: property.max_items,
        properties: None,
        required: None,
        additional_properties: None,
        enum_dynamic: matches!(setting.kind, SettingKind::Search(_)).then_some(true),
        session_mutable: (setting.mutable && !setting.read_only).then_some(true),
    }
}

fn property(setting: &Setting) -> ConfigPropertySchema {
    let plain = |kind: &str, title: &str| ConfigPropertySchema {
        r#type: kind.to_owned(),
        title: title.to_owned(),
        description: None,
        default: None,
        r#enum: None,
        enum_labels: None,
        enum_descriptions: None,
        read_only: None,
        items: None,
        min_items: None,
        max_items: None,
        properties: None,
        required: None,
        additional_properties: None,
    };
    let mut property = match &setting.kind {
        SettingKind::Text => plain("string", &setting.title),
        SettingKind::Number => plain("number", &setting.title),
        SettingKind::Integer => plain("integer", &setting.title),
        SettingKind::Boolean => plain("boolean", &setting.title),
        SettingKind::Choice(choices) | SettingKind::Search(choices) => {
            with_choices(plain("string", &setting.title), choices)
        }
        SettingKind::TextList { min, max } => ConfigPropertySchema {
            // Items need a title of their own (CMP-07).
            items: Some(Box::new(plain("string", &setting.title))),
            min_items: min.map(i64::from),
            max_items: max.map(i64::from),
            ..plain("array", &setting.title)
        },
    };
    property.description.clone_from(&setting.description);
    property.default.clone_from(&setting.default);
    property.read_only = setting.read_only.then_some(true);
    property
}

/// The three lists stay parallel: either every choice has a description or the list is left out,
/// and a missing one is empty.
fn with_choices(property: ConfigPropertySchema, choices: &[Choice]) -> ConfigPropertySchema {
    if choices.is_empty() {
        return property;
    }
    let is_described = choices.iter().any(|choice| choice.description.is_some());
    let description = |choice: &Choice| choice.description.clone().unwrap_or_default();
    ConfigPropertySchema {
        r#enum: Some(choices.iter().map(|choice| json!(choice.id)).collect()),
        enum_labels: Some(choices.iter().map(|choice| choice.label.clone()).collect()),
        enum_descriptions: is_described.then(|| choices.iter().map(description).collect()),
        ..property
    }
}

/// A schema and its values, written in the order in which the settings were declared: the published type has the
/// properties in a hash map, which would show them in any order (CMP-08, E-43).
pub(crate) struct InOrder<'a, P> {
    kind: &'a str,
    properties: &'a HashMap<String, P>,
    required: &'a Option<Vec<String>>,
    values: &'a Map<String, Value>,
    settings: &'a [Setting],
}

impl<'a> InOrder<'a, SessionConfigPropertySchema> {
    pub(crate) fn session(config: &'a SessionConfigState, settings: &'a [Setting]) -> Self {
        let SessionConfigState { schema, values } = config;
        let SessionConfigSchema {
            r#type: kind,
            properties,
            required,
        } = schema;
        Self {
            kind,
            properties,
            required,
            values,
            settings,
        }
    }
}

impl<'a> InOrder<'a, ConfigPropertySchema> {
    pub(crate) fn host(config: &'a RootConfigState, settings: &'a [Setting]) -> Self {
        let RootConfigState { schema, values } = config;
        let ConfigSchema {
            r#type: kind,
            properties,
            required,
        } = schema;
        Self {
            kind,
            properties,
            required,
            values,
            settings,
        }
    }
}

impl<P: Serialize> Serialize for InOrder<'_, P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(Some(2))?;
        out.serialize_entry("schema", &Schema(self))?;
        out.serialize_entry("values", self.values)?;
        out.end()
    }
}

struct Schema<'a, P>(&'a InOrder<'a, P>);

impl<P: Serialize> Serialize for Schema<'_, P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(None)?;
        out.serialize_entry("type", self.0.kind)?;
        out.serialize_entry("properties", &Properties(self.0))?;
        if let Some(required) = self.0.required {
            out.serialize_entry("required", required)?;
        }
        out.end()
    }
}

struct Properties<'a, P>(&'a InOrder<'a, P>);

impl<P: Serialize> Serialize for Properties<'_, P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let declared = self.0.settings.iter().map(|setting| &setting.id);
        serializer.collect_map(declared.filter_map(|id| self.0.properties.get_key_value(id)))
    }
}

#[cfg(test)]
mod tests;

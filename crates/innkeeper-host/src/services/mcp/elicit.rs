//! Elicitations of a server as questions of this host, and the answers as the server reads them.
//!
//! A form of MCP is a flat object of plain fields. Any other field is asked for as text: a user can answer it, and the
//! server reports errors in it.

use innkeeper_core::agent::{AnswerValue, Question, QuestionKind};
use serde_json::{Map, Number, Value};

use super::visible::defused;
use super::{Question as Elicitation, QuestionAnswer};
use crate::agent::{AgentError, EventSink, Response};
use crate::agent::{Answer, Choice, Form};

/// Maximum fields of one form. More would wear the user down.
const MAX_FIELDS: usize = 32;
/// Longest text that is shown of what a server wrote.
const MAX_CHARS: usize = 2000;
/// Most choices of one field.
const MAX_OPTIONS: usize = 256;
/// Longest name of a field, value of a choice, or format. They come back as they are, so none is cut: what
/// is longer is left out.
const MAX_ID_BYTES: usize = 256;
/// Longest address.
const MAX_URL_BYTES: usize = 8 << 10;
/// Every whole number up to this one is an `f64`.
const LARGEST_WHOLE: f64 = 9_007_199_254_740_992.0;
/// The most questions that one call may ask.
pub(super) const MAX_QUESTIONS: usize = 16;

/// Returns whether users may be sent to an address: only pages of the web, and no scheme that starts a program on their
/// machines.
pub(super) fn may_be_visited(url: &str) -> bool {
    let starts = |scheme: &str| {
        let start = url.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    let is_plain = !url.contains(|c: char| c.is_whitespace() || c.is_control());
    (starts("https://") || starts("http://")) && is_plain && url.len() <= MAX_URL_BYTES
}

/// Returns the form that users see. It names the server.
pub(super) fn form(server: &str, message: &str, schema: &Value) -> Form {
    fields_of(
        format!("The MCP server {server:?} asks: {}", printable(message)),
        schema,
    )
}

/// Returns a form with the fields of a schema.
fn fields_of(message: String, schema: &Value) -> Form {
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut form = Form::new(message);
    for (id, field) in fields(schema).take(MAX_FIELDS) {
        let text = |name: &str| field.get(name).and_then(Value::as_str).map(printable);
        let title = text("title");
        let message = text("description").or_else(|| title.clone());
        form = form.with(Question {
            id: id.clone(),
            title,
            message: message.unwrap_or_else(|| printable(id)),
            required: required.contains(&id.as_str()),
            kind: kind(field),
        });
    }
    form
}

impl EventSink {
    /// Asks the session's users a question that an agent has in the format of MCP: a form with a schema, or a page to
    /// visit. Dropping the future withdraws the question.
    ///
    /// # Errors
    ///
    /// When the turn is cancelled.
    pub async fn elicit(&self, question: Elicitation) -> Result<QuestionAnswer, AgentError> {
        let (response, content) = match question {
            Elicitation::Form { message, schema } => {
                let answer = self.ask(fields_of(printable(&message), &schema)).await?;
                (answer.response, content(&schema, answer))
            }
            Elicitation::Url { message, url } if may_be_visited(&url) => {
                (self.ask_url(printable(&message), url).await?, Map::new())
            }
            Elicitation::Url { .. } | Elicitation::Sampling(_) => return Ok(QuestionAnswer::Declined),
        };
        Ok(match response {
            Response::Accept => QuestionAnswer::Accepted(content),
            Response::Decline => QuestionAnswer::Declined,
            Response::Cancel => QuestionAnswer::Cancelled,
        })
    }
}

/// Returns an answer as the server gets it. Its members are in the order of the schema.
pub(super) fn content(schema: &Value, answer: Answer) -> Map<String, Value> {
    let mut values = answer.values;
    let named = fields(schema).filter_map(|(id, field)| {
        let value = match values.remove(id) {
            Some(value) => written(field, value)?,
            // MCP: a field without an answer has its default.
            None => usable_default(field)?,
        };
        Some((id.clone(), value))
    });
    named.collect()
}

/// An answer in the type that the schema says.
fn written(field: &Value, value: AnswerValue) -> Option<Value> {
    Some(match (value, kind(field)) {
        (AnswerValue::Text(text), _) => Value::String(text),
        (AnswerValue::Boolean(yes), _) => Value::Bool(yes),
        (AnswerValue::Number(number), QuestionKind::Integer { .. }) => whole(number)?,
        // `3` stays `3`, and does not become `3.0`.
        (AnswerValue::Number(number), _) => whole(number).or_else(|| Number::from_f64(number).map(Value::Number))?,
        (AnswerValue::Selected { ids, freeform }, QuestionKind::Many { .. }) => {
            let items = field.get("items").unwrap_or(&Value::Null);
            let chosen = ids.into_iter().map(|id| value_of(items, id));
            chosen.chain(freeform.into_iter().map(Value::String)).collect()
        }
        (AnswerValue::Selected { ids, freeform }, _) => match ids.into_iter().next() {
            Some(id) => value_of(field, id),
            None => Value::String(freeform.into_iter().next()?),
        },
    })
}

/// Returns the default of a field, if a user could have chosen it.
fn usable_default(field: &Value) -> Option<Value> {
    let default = field.get("default")?;
    let is_choice = |field: &Value, value: &Value| choices(field).any(|(choice, _)| choice == value);
    let fits = match kind(field) {
        QuestionKind::Text { .. } => default.as_str().is_some_and(|text| text.len() <= MAX_CHARS),
        QuestionKind::Number { .. } => default.is_number(),
        QuestionKind::Integer { .. } => integer(default).is_some(),
        QuestionKind::Boolean { .. } => default.is_boolean(),
        QuestionKind::One { .. } => is_choice(field, default),
        QuestionKind::Many { .. } => {
            let items = field.get("items").unwrap_or(&Value::Null);
            let chosen = default.as_array();
            chosen.is_some_and(|chosen| chosen.iter().all(|value| is_choice(items, value)))
        }
    };
    fits.then(|| default.clone())
}

/// The fields in the order in which the server wrote them.
fn fields(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter(|(id, _)| id.len() <= MAX_ID_BYTES)
}

fn kind(field: &Value) -> QuestionKind {
    let number = |name: &str| field.get(name).and_then(Value::as_f64);
    let whole_number = |name: &str| field.get(name).and_then(integer);
    let text = |name: &str, most: usize| {
        let text = field.get(name).and_then(Value::as_str);
        text.filter(|text| text.len() <= most).map(str::to_owned)
    };
    let count = |name: &str| whole_number(name).and_then(|count| u32::try_from(count).ok());
    let type_name = type_name(field);
    if type_name == Some("array") {
        let defaults = field.get("default").and_then(Value::as_array);
        return QuestionKind::Many {
            options: field
                .get("items")
                .map(|items| options(items, defaults.map(Vec::as_slice).unwrap_or_default()))
                .unwrap_or_default(),
            freeform: false,
            min: count("minItems"),
            max: count("maxItems"),
        };
    }
    let default = field.get("default").map(std::slice::from_ref).unwrap_or_default();
    let options = options(field, default);
    if !options.is_empty() {
        return QuestionKind::One {
            options,
            freeform: false,
        };
    }
    match type_name {
        Some("boolean") => QuestionKind::Boolean {
            default: field.get("default").and_then(Value::as_bool),
        },
        Some("integer") => QuestionKind::Integer {
            min: number("minimum").map(f64::ceil).and_then(as_integer),
            max: number("maximum").map(f64::floor).and_then(as_integer),
            default: whole_number("default"),
        },
        Some("number") => QuestionKind::Number {
            min: number("minimum"),
            max: number("maximum"),
            default: number("default"),
        },
        _ => QuestionKind::Text {
            format: text("format", MAX_ID_BYTES),
            default: text("default", MAX_CHARS),
            min: count("minLength"),
            max: count("maxLength"),
        },
    }
}

/// The type of a field; of several, the first that is not `null`.
fn type_name(field: &Value) -> Option<&str> {
    match field.get("type")? {
        Value::String(name) => Some(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).find(|name| *name != "null"),
        _ => None,
    }
}

/// A whole number, also one that is written as `3.0`.
fn integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let number = value.as_f64().filter(|number| number.fract() == 0.0)?;
        as_integer(number)
    })
}

/// A whole number that an `f64` holds exactly.
fn as_integer(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() <= LARGEST_WHOLE).then_some(number as i64)
}

/// The choices of a field, each with its place among `enum` or with its entry: `enum`, with names beside it or not, or
/// titled constants.
fn choices(field: &Value) -> impl Iterator<Item = (&Value, Result<usize, &Value>)> {
    let list = |name: &str| field.get(name).and_then(Value::as_array);
    let plain = list("enum");
    let titled = list("oneOf").or_else(|| list("anyOf")).filter(|_| plain.is_none());
    let plain = plain.into_iter().flatten().enumerate();
    let plain = plain.map(|(index, value)| (value, Ok(index)));
    let titled = titled
        .into_iter()
        .flatten()
        .filter_map(|entry| Some((entry.get("const")?, Err(entry))));
    let is_plain = |value: &Value| value.is_string() || value.is_number() || value.is_boolean();
    plain
        .chain(titled)
        .filter(move |(value, _)| is_plain(value) && id_of(value).len() <= MAX_ID_BYTES)
        .take(MAX_OPTIONS)
}

/// Returns the choices as users see them. AHP has no defaults for choices: those of the server are recommended, which
/// clients show or choose beforehand.
fn options(field: &Value, defaults: &[Value]) -> Vec<Choice> {
    let beside = |name: &str, place: Result<usize, &Value>| {
        let list = field.get(name).and_then(Value::as_array)?;
        list.get(place.ok()?)?.as_str().map(printable)
    };
    let of_entry = |name: &str, place: Result<usize, &Value>| place.err()?.get(name)?.as_str().map(printable);
    let option = |(value, place): (&Value, Result<usize, &Value>)| {
        let id = id_of(value);
        let label = of_entry("title", place).or_else(|| beside("enumNames", place));
        let is_recommended = place.err().and_then(|entry| entry.get("recommended")?.as_bool());
        Choice {
            label: label.unwrap_or_else(|| printable(&id)),
            description: of_entry("description", place).or_else(|| beside("enumDescriptions", place)),
            recommended: is_recommended.unwrap_or_default() || defaults.contains(value),
            id,
        }
    };
    choices(field).map(option).collect()
}

/// Returns the id of a choice in an answer: its text, or its value as JSON.
fn id_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The choice that an answer names.
fn value_of(field: &Value, id: String) -> Value {
    let found = choices(field).find(|(value, _)| id_of(value) == id);
    found.map_or_else(|| Value::String(id.clone()), |(value, _)| value.clone())
}

/// A whole number as JSON writes it, if it is one.
fn whole(number: f64) -> Option<Value> {
    as_integer(number).map(Value::from)
}

/// As much of a text as is shown, without what would rewrite a terminal.
pub(super) fn printable(text: &str) -> String {
    let start: String = text.chars().take(MAX_CHARS).collect();
    defused(&start)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::agent::Response;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "name": { "type": "string", "title": "Name", "description": "Who are you?", "minLength": 2 },
                "nights": { "type": "integer", "minimum": 1 },
                "price": { "type": "number" },
                "quiet": { "type": "boolean", "default": true },
                "room": { "type": "string", "enum": ["g", "s"], "enumNames": ["Garden", "Street"] },
                "extras": { "type": "array", "items": { "anyOf": [{ "const": "b", "title": "Breakfast" }] } },
                "odd": { "type": "object" },
            },
            "required": ["name"],
        })
    }

    fn selected(ids: &[&str]) -> AnswerValue {
        AnswerValue::Selected {
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            freeform: Vec::new(),
        }
    }

    #[test]
    fn inp07_every_kind_of_field_is_a_question() {
        let shown = format!("{:?}", form("inn", "A few things.", &schema()));
        for part in [
            r#"The MCP server \"inn\" asks: A few things."#,
            r#"title: Some("Name"), message: "Who are you?", required: true"#,
            "Integer { min: Some(1)",
            "Boolean { default: Some(true) }",
            r#"label: "Garden""#,
            r#"label: "Breakfast""#,
        ] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
    }

    #[test]
    fn inp07_answers_come_back_in_the_types_of_the_schema() {
        let values = BTreeMap::from_iter([
            ("name".to_owned(), AnswerValue::Text("Ada".to_owned())),
            ("nights".to_owned(), AnswerValue::Number(2.0)),
            ("price".to_owned(), AnswerValue::Number(9.5)),
            ("quiet".to_owned(), AnswerValue::Boolean(false)),
            ("room".to_owned(), selected(&["g"])),
            ("extras".to_owned(), selected(&["b"])),
            ("unasked".to_owned(), AnswerValue::Text("x".to_owned())),
        ]);
        let response = Response::Accept;
        let content = content(&schema(), Answer { response, values });
        assert_eq!(
            Value::Object(content),
            json!({ "name": "Ada", "nights": 2, "price": 9.5, "quiet": false, "room": "g", "extras": ["b"] })
        );
    }

    #[test]
    fn inp07_a_form_is_asked_and_answered_in_the_order_of_its_schema() {
        let properties =
            r#"{ "zip": { "type": "string" }, "age": { "type": "integer" }, "mail": { "type": "string" } }"#;
        let schema: Value = serde_json::from_str(&format!(r#"{{ "properties": {properties} }}"#)).expect("a schema");
        let shown = format!("{:?}", form("inn", "m", &schema));
        let places: Vec<_> = ["\"zip\"", "\"age\"", "\"mail\""].map(|id| shown.find(id)).to_vec();
        assert!(places.is_sorted() && places[0].is_some(), "{shown}");
        let values = ["mail", "zip", "age"].map(|id| (id.to_owned(), AnswerValue::Text(id.to_owned())));
        let answer = Answer {
            response: Response::Accept,
            values: values.into(),
        };
        let names: Vec<String> = content(&schema, answer).keys().cloned().collect();
        assert_eq!(names, ["zip", "age", "mail"]);
    }

    #[test]
    fn inp07_options_have_the_servers_titles() {
        let described = json!({ "type": "string", "default": "b", "oneOf": [
            { "const": "a", "title": "\u{1b}[31mA", "description": "The first.", "recommended": true },
            { "const": "b", "title": "B" }, { "const": "c" },
        ] });
        let QuestionKind::One { options, .. } = kind(&described) else {
            panic!("one of them")
        };
        let told: Vec<_> = options
            .iter()
            .map(|option| (option.label.as_str(), option.description.as_deref(), option.recommended))
            .collect();
        let expected = [("A", Some("The first."), true), ("B", None, true), ("c", None, false)];
        assert_eq!(told, expected);
        let several = json!({ "type": "array", "default": ["y"], "minItems": 1, "maxItems": 2,
            "items": { "enum": ["x", "y"], "enumDescriptions": ["An x.", "A y."] } });
        let QuestionKind::Many { options, min, max, .. } = kind(&several) else {
            panic!("several of them")
        };
        assert_eq!((min, max), (Some(1), Some(2)));
        assert_eq!(
            (options[1].description.as_deref(), options[1].recommended),
            (Some("A y."), true)
        );
    }

    #[test]
    fn inp07_an_unanswered_field_has_its_default() {
        let schema = json!({ "properties": {
            "room": { "type": "string", "enum": ["g", "s"], "default": "s" },
            "floor": { "type": "integer", "enum": [1, 2], "default": 2 },
            "nights": { "type": "integer", "default": 3.0, "minimum": 1.5, "maximum": 9 },
            "extras": { "type": "array", "items": { "enum": ["b"] }, "default": ["b"] },
            "wrong": { "type": "string", "enum": ["g"], "default": "none of them" },
            "name": { "type": ["null", "string"], "default": "Ada" },
            "open": { "type": "string" },
        } });
        let nothing = |values| Answer {
            response: Response::Accept,
            values,
        };
        assert_eq!(
            Value::Object(content(&schema, nothing(BTreeMap::new()))),
            json!({ "room": "s", "floor": 2, "nights": 3.0, "extras": ["b"], "name": "Ada" })
        );
        let chosen = BTreeMap::from_iter([("floor".to_owned(), selected(&["1"]))]);
        let answered = content(&schema, nothing(chosen));
        assert_eq!(answered["floor"], json!(1), "a choice is what the server called it");
        assert!(matches!(
            kind(&schema["properties"]["nights"]),
            QuestionKind::Integer {
                min: Some(2),
                max: Some(9),
                default: Some(3)
            }
        ));
    }

    #[test]
    fn numbers_are_answered_as_they_were_written() {
        let schema = json!({ "properties": { "price": { "type": "number" } } });
        for (number, text) in [
            (3.0, r#"{"price":3}"#),
            (110000.00000000001, r#"{"price":110000.00000000001}"#),
        ] {
            let values = BTreeMap::from_iter([("price".to_owned(), AnswerValue::Number(number))]);
            let response = Response::Accept;
            let content = content(&schema, Answer { response, values });
            assert_eq!(Value::Object(content).to_string(), text);
        }
    }

    #[test]
    fn inp07_repeated_elicitations_are_limited() {
        let properties: Map<String, Value> = (0..1000)
            .map(|n| (format!("f{n}"), json!({ "type": "string" })))
            .collect();
        let form = form("s", &"x".repeat(10_000), &json!({ "properties": properties }));
        let shown = format!("{form:?}");
        assert_eq!(shown.matches("Question {").count(), MAX_FIELDS);
        assert!(shown.len() < 20_000);
    }

    #[test]
    fn f17_a_form_is_bounded_in_every_direction() {
        let long = "x".repeat(1 << 20);
        let many: Vec<String> = (0..10_000).map(|n| format!("o{n}")).chain([long.clone()]).collect();
        let titled: Vec<Value> = many.iter().map(|id| json!({ "const": id, "title": "t" })).collect();
        let schema = json!({ "properties": {
            "one": { "type": "string", "enum": many },
            "many": { "type": "array", "items": { "enum": [long, "short"] } },
            "text": { "type": "string", "default": long, "format": long },
            (long.as_str()): { "type": "string" },
        } });
        let form = format!("{:?}", form("s", "m", &schema));
        assert!(form.len() < 100_000, "{}", form.len());
        assert!(form.contains("short"), "what is short enough stays");
        let titled = options(&json!({ "oneOf": titled }), &[]);
        assert_eq!(titled.len(), MAX_OPTIONS);
    }

    #[test]
    fn inp07_only_web_urls_are_opened() {
        for url in ["https://inn.example/pay?room=1", "HTTP://localhost:8080/"] {
            assert!(may_be_visited(url), "{url}");
        }
        let long = format!("https://inn.example/{}", "x".repeat(MAX_URL_BYTES));
        for url in [
            "file:///etc/passwd",
            "javascript:alert(1)",
            "vscode://x",
            "https:",
            "é",
            "https://a\nb",
            &long,
        ] {
            assert!(!may_be_visited(url), "{url}");
        }
    }
}

//! What a server asks people, as questions of this host, and their answers as the server reads them.
//!
//! A form of MCP is a flat object of plain fields. What is anything else is asked for as text: people
//! can answer it, and the server says what is wrong with it.

use innkeeper_core::agent::{AnswerValue, Question, QuestionKind};
use serde_json::{Map, Number, Value};

use crate::agent::{Answer, Choice, Form};

/// Most fields of one form; a person is not to be worn down.
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
/// Most questions that people are asked in one call.
pub(super) const MAX_QUESTIONS: usize = 16;

/// Whether people may be sent to an address: pages of the web, and nothing that starts something on their
/// own machines.
pub(super) fn may_be_visited(url: &str) -> bool {
    let starts = |scheme: &str| {
        let start = url.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    let is_plain = !url.contains(|c: char| c.is_whitespace() || c.is_control());
    (starts("https://") || starts("http://")) && is_plain && url.len() <= MAX_URL_BYTES
}

/// The form that people see. It says who asks.
pub(super) fn form(server: &str, message: &str, schema: &Value) -> Form {
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut form = Form::new(format!("The MCP server {server:?} asks: {}", shown(message)));
    for (id, field) in fields(schema).take(MAX_FIELDS) {
        let text = |name: &str| field.get(name).and_then(Value::as_str).map(shown);
        let title = text("title");
        let message = text("description").or_else(|| title.clone());
        form = form.with(Question {
            id: id.clone(),
            title,
            message: message.unwrap_or_else(|| shown(id)),
            required: required.contains(&id.as_str()),
            kind: kind(field),
        });
    }
    form
}

/// What a server is told of an answer.
pub(super) fn content(schema: &Value, answer: Answer) -> Map<String, Value> {
    let mut values = answer.values;
    let named = fields(schema).filter_map(|(id, field)| {
        let value = match (values.remove(id)?, kind(field)) {
            (AnswerValue::Text(text), _) => Value::String(text),
            (AnswerValue::Boolean(yes), _) => Value::Bool(yes),
            (AnswerValue::Number(number), QuestionKind::Integer { .. }) => whole(number)?,
            (AnswerValue::Number(number), _) => Value::Number(Number::from_f64(number)?),
            (AnswerValue::Selected { ids, freeform }, QuestionKind::Many { .. }) => {
                ids.into_iter().chain(freeform).map(Value::String).collect()
            }
            (AnswerValue::Selected { ids, freeform }, _) => Value::String(ids.into_iter().chain(freeform).next()?),
        };
        Some((id.clone(), value))
    });
    named.collect()
}

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
    let integer = |name: &str| field.get(name).and_then(Value::as_i64);
    let text = |name: &str, most: usize| {
        let text = field.get(name).and_then(Value::as_str);
        text.filter(|text| text.len() <= most).map(str::to_owned)
    };
    let count = |name: &str| integer(name).and_then(|count| u32::try_from(count).ok());
    match field.get("type").and_then(Value::as_str) {
        Some("boolean") => QuestionKind::Boolean {
            default: field.get("default").and_then(Value::as_bool),
        },
        Some("integer") => QuestionKind::Integer {
            min: integer("minimum"),
            max: integer("maximum"),
            default: integer("default"),
        },
        Some("number") => QuestionKind::Number {
            min: number("minimum"),
            max: number("maximum"),
            default: number("default"),
        },
        Some("array") => QuestionKind::Many {
            options: field.get("items").map(options).unwrap_or_default(),
            freeform: false,
            min: count("minItems"),
            max: count("maxItems"),
        },
        _ => match options(field) {
            options if !options.is_empty() => QuestionKind::One {
                options,
                freeform: false,
            },
            _ => QuestionKind::Text {
                format: text("format", MAX_ID_BYTES),
                default: text("default", MAX_CHARS),
                min: count("minLength"),
                max: count("maxLength"),
            },
        },
    }
}

/// The choices of a field: `enum`, with names beside it or not, or titled constants.
fn options(field: &Value) -> Vec<Choice> {
    let list = |name: &str| field.get(name).and_then(Value::as_array);
    if let Some(values) = list("enum") {
        let names = list("enumNames").map(Vec::as_slice).unwrap_or_default();
        let values = values.iter().filter_map(Value::as_str).enumerate();
        return values
            .filter(|(_, id)| id.len() <= MAX_ID_BYTES)
            .take(MAX_OPTIONS)
            .map(|(index, id)| {
                let name = names.get(index).and_then(Value::as_str).unwrap_or(id);
                Choice::new(id, shown(name))
            })
            .collect();
    }
    let titled = list("oneOf").or_else(|| list("anyOf"));
    let titled = titled.into_iter().flatten().filter_map(|option| {
        let id = option.get("const")?.as_str().filter(|id| id.len() <= MAX_ID_BYTES)?;
        let title = option.get("title").and_then(Value::as_str).unwrap_or(id);
        Some(Choice::new(id, shown(title)))
    });
    titled.take(MAX_OPTIONS).collect()
}

/// A whole number as JSON writes it, if it is one.
fn whole(number: f64) -> Option<Value> {
    const LARGEST: f64 = 9_007_199_254_740_992.0;
    let is_whole = number.fract() == 0.0 && number.abs() <= LARGEST;
    is_whole
        .then(|| serde_json::from_str(&format!("{number:.0}")).ok())
        .flatten()
}

/// As much of a text as is shown.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(MAX_CHARS).collect()
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
    fn inp07_a_server_cannot_wear_people_down() {
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
        let titled = options(&json!({ "oneOf": titled }));
        assert_eq!(titled.len(), MAX_OPTIONS);
    }

    #[test]
    fn inp07_people_are_sent_to_pages_of_the_web_and_nowhere_else() {
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

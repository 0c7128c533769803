//! Forms: questions as a JSON schema, and the fields that come back as answers.

use std::collections::HashMap;

use ahp_types::state::{
    ChatInputAnswer, ChatInputAnswerValue, ChatInputAnswered, ChatInputBooleanAnswerValue, ChatInputNumberAnswerValue,
    ChatInputOption, ChatInputQuestion, ChatInputSelectedAnswerValue, ChatInputSelectedManyAnswerValue,
    ChatInputTextAnswerValue,
};
use serde_json::{Map, Value, json};

/// The options of a question that is on or off, where an editor has no forms.
const YES: &str = "yes";
const NO: &str = "no";

/// Returns whether all questions can be asked in a form.
pub(super) fn fits(questions: &[ChatInputQuestion]) -> bool {
    let is_known = |question: &ChatInputQuestion| !matches!(question, ChatInputQuestion::Unknown(_));
    !questions.is_empty() && questions.iter().all(is_known)
}

/// Returns questions as the schema of an object with one property for each.
pub(super) fn schema(questions: &[ChatInputQuestion]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for question in questions {
        let Some((id, title, message, is_required)) = about(question) else {
            continue;
        };
        let mut property = property(question);
        property["title"] = json!(title.unwrap_or(message));
        property["description"] = json!(message);
        if let Some(fields) = property.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        properties.insert(id.to_owned(), property);
        if is_required {
            required.push(id);
        }
    }
    json!({ "type": "object", "properties": properties, "required": required })
}

fn property(question: &ChatInputQuestion) -> Value {
    match question {
        ChatInputQuestion::Text(text) => json!({
            "type": "string", "format": text.format, "minLength": text.min, "maxLength": text.max,
            "default": text.default_value,
        }),
        ChatInputQuestion::Number(number) => json!({
            "type": "number", "minimum": number.min, "maximum": number.max, "default": number.default_value,
        }),
        ChatInputQuestion::Integer(number) => {
            let whole = |number: Option<f64>| number.map(|number| number.trunc() as i64);
            json!({
                "type": "integer", "minimum": whole(number.min), "maximum": whole(number.max),
                "default": whole(number.default_value),
            })
        }
        ChatInputQuestion::Boolean(boolean) => json!({ "type": "boolean", "default": boolean.default_value }),
        ChatInputQuestion::SingleSelect(select) => {
            let recommended = select.options.iter().find(|option| option.recommended == Some(true));
            json!({
                "type": "string", "oneOf": titled(&select.options), "default": recommended.map(|option| &option.id),
            })
        }
        ChatInputQuestion::MultiSelect(select) => json!({
            "type": "array", "minItems": select.min, "maxItems": select.max,
            "items": { "anyOf": titled(&select.options) },
        }),
        ChatInputQuestion::Unknown(_) => json!({ "type": "string" }),
    }
}

fn titled(options: &[ChatInputOption]) -> Vec<Value> {
    let titled = |option: &ChatInputOption| json!({ "const": option.id, "title": option.label });
    options.iter().map(titled).collect()
}

/// Returns id, title and message of a question, and whether an answer is required.
fn about(question: &ChatInputQuestion) -> Option<(&str, Option<&str>, &str, bool)> {
    macro_rules! about {
        ($question:expr) => {
            Some((
                $question.id.as_str(),
                $question.title.as_deref(),
                $question.message.as_str(),
                $question.required == Some(true),
            ))
        };
    }
    match question {
        ChatInputQuestion::Text(question) => about!(question),
        ChatInputQuestion::Number(question) | ChatInputQuestion::Integer(question) => about!(question),
        ChatInputQuestion::Boolean(question) => about!(question),
        ChatInputQuestion::SingleSelect(question) => about!(question),
        ChatInputQuestion::MultiSelect(question) => about!(question),
        ChatInputQuestion::Unknown(_) => None,
    }
}

/// Returns a question as text, with its options.
pub(super) fn text(question: &ChatInputQuestion) -> String {
    let Some((_, _, message, _)) = about(question) else {
        return String::new();
    };
    let options = match question {
        ChatInputQuestion::SingleSelect(question) => &question.options[..],
        ChatInputQuestion::MultiSelect(question) => &question.options[..],
        _ => &[],
    };
    let options: Vec<String> = options.iter().map(|option| format!("\n- {}", option.label)).collect();
    format!("\n\n{message}{}", options.concat())
}

/// Returns the text of the only question, and options to choose one from.
pub(super) fn choices(questions: &[ChatInputQuestion]) -> Option<(String, Vec<Value>)> {
    let option = |id: &str, name: &str, kind: &str| json!({ "optionId": id, "name": name, "kind": kind });
    match questions {
        [ChatInputQuestion::SingleSelect(question)] => {
            let options = question
                .options
                .iter()
                .map(|offered| option(&offered.id, &offered.label, "allow_once"));
            Some((question.message.clone(), options.collect()))
        }
        [ChatInputQuestion::Boolean(question)] => {
            let options = vec![option(YES, "Yes", "allow_once"), option(NO, "No", "reject_once")];
            Some((question.message.clone(), options))
        }
        _ => None,
    }
}

fn answered(value: ChatInputAnswerValue) -> ChatInputAnswer {
    ChatInputAnswer::Submitted(ChatInputAnswered { value })
}

fn selected(value: &str) -> ChatInputAnswerValue {
    ChatInputAnswerValue::Selected(ChatInputSelectedAnswerValue {
        value: value.to_owned(),
        freeform_values: None,
    })
}

/// Returns the answers of a form. Fields of another type than the question's are left out.
pub(super) fn answers(questions: &[ChatInputQuestion], content: &Value) -> HashMap<String, ChatInputAnswer> {
    let answer = |question: &ChatInputQuestion| {
        let (id, ..) = about(question)?;
        let field = &content[id];
        let value = match question {
            ChatInputQuestion::Text(_) => ChatInputAnswerValue::Text(ChatInputTextAnswerValue {
                value: field.as_str()?.to_owned(),
            }),
            ChatInputQuestion::Number(_) | ChatInputQuestion::Integer(_) => {
                ChatInputAnswerValue::Number(ChatInputNumberAnswerValue { value: field.as_f64()? })
            }
            ChatInputQuestion::Boolean(_) => ChatInputAnswerValue::Boolean(ChatInputBooleanAnswerValue {
                value: field.as_bool()?,
            }),
            ChatInputQuestion::SingleSelect(_) => selected(field.as_str()?),
            ChatInputQuestion::MultiSelect(_) => {
                let values = field.as_array()?.iter().filter_map(Value::as_str);
                ChatInputAnswerValue::SelectedMany(ChatInputSelectedManyAnswerValue {
                    value: values.map(str::to_owned).collect(),
                    freeform_values: None,
                })
            }
            ChatInputQuestion::Unknown(_) => return None,
        };
        Some((id.to_owned(), answered(value)))
    };
    questions.iter().filter_map(answer).collect()
}

/// Returns the answer of the only question by the option that was chosen.
pub(super) fn chosen(questions: &[ChatInputQuestion], option: &str) -> Option<HashMap<String, ChatInputAnswer>> {
    let (id, value) = match questions {
        [ChatInputQuestion::SingleSelect(question)] => (&question.id, selected(option)),
        [ChatInputQuestion::Boolean(question)] => {
            let value = option == YES;
            (
                &question.id,
                ChatInputAnswerValue::Boolean(ChatInputBooleanAnswerValue { value }),
            )
        }
        _ => return None,
    };
    Some(HashMap::from([(id.clone(), answered(value))]))
}

//! A form with questions of every kind.

use std::collections::{BTreeSet, HashMap};

use ahp_types::state::{
    ChatInputAnswer, ChatInputAnswerValue, ChatInputAnswered, ChatInputBooleanAnswerValue, ChatInputNumberAnswerValue,
    ChatInputOption, ChatInputQuestion, ChatInputRequest, ChatInputSelectedAnswerValue,
    ChatInputSelectedManyAnswerValue, ChatInputTextAnswerValue,
};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::app::editor::Editor;

/// The questions with their answers so far.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) fields: Vec<Field>,
    /// The field that gets the keys.
    pub(crate) cursor: usize,
}

/// One question.
#[derive(Debug)]
pub(crate) struct Field {
    id: String,
    /// The question as it is shown.
    pub(crate) label: String,
    pub(crate) is_required: bool,
    pub(crate) value: FieldValue,
}

/// The answer to one question so far.
#[derive(Debug)]
pub(crate) enum FieldValue {
    Text(Editor),
    Number {
        editor: Editor,
        is_whole: bool,
    },
    Boolean(Option<bool>),
    Select {
        options: Vec<ChatInputOption>,
        chosen: BTreeSet<usize>,
        cursor: usize,
        is_many: bool,
        /// An answer in the user's own words, if the question allows one.
        freeform: Option<Editor>,
    },
    Unknown,
}

/// The outcome of a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FormStep {
    Stay,
    Leave,
    Ignored,
    Wrong(String),
    Decline,
    Submit,
}

impl Form {
    /// Creates a form with the default answers.
    pub(crate) fn new(request: &ChatInputRequest) -> Self {
        let fields = request.questions.iter().flatten().map(Field::new).collect();
        Self { fields, cursor: 0 }
    }

    /// Handles a key.
    pub(crate) fn handle(&mut self, key: KeyEvent) -> FormStep {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('s') if control => return self.submit(),
            KeyCode::Char('x') if control => return FormStep::Decline,
            KeyCode::Esc => return FormStep::Leave,
            KeyCode::Enter if self.cursor + 1 >= self.fields.len() => {
                self.choose_if_none();
                return self.submit();
            }
            KeyCode::Enter => {
                self.choose_if_none();
                self.cursor += 1;
                return FormStep::Stay;
            }
            KeyCode::Tab => {
                self.cursor = (self.cursor + 1) % self.fields.len().max(1);
                return FormStep::Stay;
            }
            KeyCode::BackTab => {
                self.cursor = (self.cursor + self.fields.len().saturating_sub(1)) % self.fields.len().max(1);
                return FormStep::Stay;
            }
            _ => {}
        }
        let moved = match self.fields.get_mut(self.cursor) {
            Some(field) => field.handle(key),
            None => return FormStep::Ignored,
        };
        match moved {
            Moved::Handled => FormStep::Stay,
            Moved::Up => {
                self.cursor = self.cursor.saturating_sub(1);
                FormStep::Stay
            }
            Moved::Down => {
                self.cursor = (self.cursor + 1).min(self.fields.len().saturating_sub(1));
                FormStep::Stay
            }
            Moved::Ignored => FormStep::Ignored,
        }
    }

    /// Enter on a single choice takes the option under the cursor.
    fn choose_if_none(&mut self) {
        if let Some(Field {
            value:
                FieldValue::Select {
                    options,
                    chosen,
                    cursor,
                    is_many: false,
                    freeform,
                },
            ..
        }) = self.fields.get_mut(self.cursor)
        {
            let has_text = freeform.as_ref().is_some_and(|text| !text.is_empty());
            if *cursor < options.len() && chosen.is_empty() && !has_text {
                chosen.insert(*cursor);
            }
        }
    }

    fn submit(&mut self) -> FormStep {
        for (index, field) in self.fields.iter().enumerate() {
            let problem = match field.answer() {
                Err(problem) => Some(problem),
                Ok(None) if field.is_required => Some("an answer is required".to_owned()),
                Ok(_) => None,
            };
            if let Some(problem) = problem {
                self.cursor = index;
                return FormStep::Wrong(format!("{}: {problem}", field.label));
            }
        }
        FormStep::Submit
    }

    /// Returns the answers that were given.
    pub(crate) fn answers(&self) -> HashMap<String, ChatInputAnswer> {
        let given = self.fields.iter().filter_map(|field| {
            let value = field.answer().ok().flatten()?;
            Some((
                field.id.clone(),
                ChatInputAnswer::Submitted(ChatInputAnswered { value }),
            ))
        });
        given.collect()
    }
}

enum Moved {
    Handled,
    Up,
    Down,
    Ignored,
}

impl Field {
    fn new(question: &ChatInputQuestion) -> Self {
        let field = |id: &str, title: Option<&String>, message: &str, required: Option<bool>, value| Self {
            id: id.to_owned(),
            label: match title {
                Some(title) if !title.is_empty() && title != message => format!("{title}: {message}"),
                _ => message.to_owned(),
            },
            is_required: required == Some(true),
            value,
        };
        let select = |options: &[ChatInputOption], is_many: bool, freeform: Option<bool>| FieldValue::Select {
            chosen: match is_many {
                true => BTreeSet::new(),
                false => options
                    .iter()
                    .position(|option| option.recommended == Some(true))
                    .into_iter()
                    .collect(),
            },
            cursor: options
                .iter()
                .position(|option| option.recommended == Some(true))
                .unwrap_or(0),
            options: options.to_vec(),
            is_many,
            freeform: (freeform == Some(true)).then(Editor::default),
        };
        let number = |default: Option<f64>, is_whole: bool| FieldValue::Number {
            editor: Editor::new(default.map(|default| default.to_string()).unwrap_or_default()),
            is_whole,
        };
        match question {
            ChatInputQuestion::Text(q) => {
                let editor = Editor::new(q.default_value.clone().unwrap_or_default());
                field(
                    &q.id,
                    q.title.as_ref(),
                    &q.message,
                    q.required,
                    FieldValue::Text(editor),
                )
            }
            ChatInputQuestion::Number(q) => {
                let value = number(q.default_value, false);
                field(&q.id, q.title.as_ref(), &q.message, q.required, value)
            }
            ChatInputQuestion::Integer(q) => {
                let value = number(q.default_value, true);
                field(&q.id, q.title.as_ref(), &q.message, q.required, value)
            }
            ChatInputQuestion::Boolean(q) => {
                let value = FieldValue::Boolean(q.default_value);
                field(&q.id, q.title.as_ref(), &q.message, q.required, value)
            }
            ChatInputQuestion::SingleSelect(q) => {
                let value = select(&q.options, false, q.allow_freeform_input);
                field(&q.id, q.title.as_ref(), &q.message, q.required, value)
            }
            ChatInputQuestion::MultiSelect(q) => {
                let value = select(&q.options, true, q.allow_freeform_input);
                field(&q.id, q.title.as_ref(), &q.message, q.required, value)
            }
            ChatInputQuestion::Unknown(_) => field(
                "",
                None,
                "This question is of a kind that this client does not know.",
                None,
                FieldValue::Unknown,
            ),
        }
    }

    fn handle(&mut self, key: KeyEvent) -> Moved {
        let edited = |editor: &mut Editor| match key.code {
            KeyCode::Up => Moved::Up,
            KeyCode::Down => Moved::Down,
            _ if editor.handle(key) => Moved::Handled,
            _ => Moved::Ignored,
        };
        match &mut self.value {
            FieldValue::Text(editor) | FieldValue::Number { editor, .. } => edited(editor),
            FieldValue::Boolean(value) => {
                match key.code {
                    KeyCode::Up => return Moved::Up,
                    KeyCode::Down => return Moved::Down,
                    KeyCode::Char('y') => *value = Some(true),
                    KeyCode::Char('n') => *value = Some(false),
                    KeyCode::Char(' ') | KeyCode::Left | KeyCode::Right => *value = Some(!value.unwrap_or(false)),
                    _ => return Moved::Ignored,
                }
                Moved::Handled
            }
            FieldValue::Select {
                options,
                chosen,
                cursor,
                is_many,
                freeform,
            } => {
                let last = options.len() + usize::from(freeform.is_some());
                let in_freeform = *cursor == options.len();
                match key.code {
                    KeyCode::Up if *cursor == 0 => return Moved::Up,
                    KeyCode::Up => *cursor -= 1,
                    KeyCode::Down if *cursor + 1 >= last => return Moved::Down,
                    KeyCode::Down => *cursor += 1,
                    _ if in_freeform => {
                        let Some(editor) = freeform else {
                            return Moved::Ignored;
                        };
                        if !*is_many {
                            chosen.clear();
                        }
                        return edited(editor);
                    }
                    KeyCode::Char(' ') if *is_many => {
                        if !chosen.remove(cursor) {
                            chosen.insert(*cursor);
                        }
                    }
                    KeyCode::Char(' ') => *chosen = BTreeSet::from([*cursor]),
                    KeyCode::Char(digit @ '1'..='9') => {
                        let index = digit.to_digit(10).unwrap_or(1) as usize - 1;
                        if index >= options.len() {
                            return Moved::Ignored;
                        }
                        *cursor = index;
                        match *is_many {
                            true if chosen.remove(&index) => {}
                            true => drop(chosen.insert(index)),
                            false => *chosen = BTreeSet::from([index]),
                        }
                    }
                    _ => return Moved::Ignored,
                }
                Moved::Handled
            }
            FieldValue::Unknown => Moved::Ignored,
        }
    }

    fn answer(&self) -> Result<Option<ChatInputAnswerValue>, String> {
        Ok(match &self.value {
            FieldValue::Text(editor) => (!editor.is_empty()).then(|| {
                ChatInputAnswerValue::Text(ChatInputTextAnswerValue {
                    value: editor.text().to_owned(),
                })
            }),
            FieldValue::Number { editor, is_whole } => {
                let text = editor.text().trim();
                if text.is_empty() {
                    return Ok(None);
                }
                let value: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
                if !value.is_finite() || (*is_whole && value.fract() != 0.0) {
                    return Err(format!("{text:?} is not a whole number"));
                }
                Some(ChatInputAnswerValue::Number(ChatInputNumberAnswerValue { value }))
            }
            FieldValue::Boolean(value) => {
                value.map(|value| ChatInputAnswerValue::Boolean(ChatInputBooleanAnswerValue { value }))
            }
            FieldValue::Select {
                options,
                chosen,
                is_many,
                freeform,
                ..
            } => {
                let ids: Vec<String> = chosen
                    .iter()
                    .filter_map(|index| options.get(*index))
                    .map(|option| option.id.clone())
                    .collect();
                let own = freeform.as_ref().map(|text| text.text().trim().to_owned());
                let own = own.filter(|text| !text.is_empty());
                let freeform_values = own.map(|text| vec![text]);
                if ids.is_empty() && freeform_values.is_none() {
                    return Ok(None);
                }
                Some(match is_many {
                    true => ChatInputAnswerValue::SelectedMany(ChatInputSelectedManyAnswerValue {
                        value: ids,
                        freeform_values,
                    }),
                    false => ChatInputAnswerValue::Selected(ChatInputSelectedAnswerValue {
                        value: ids.into_iter().next().unwrap_or_default(),
                        freeform_values,
                    }),
                })
            }
            FieldValue::Unknown => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn press(form: &mut Form, codes: &[KeyCode]) -> FormStep {
        let mut step = FormStep::Ignored;
        for code in codes {
            step = form.handle(KeyEvent::new(*code, KeyModifiers::NONE));
        }
        step
    }

    #[test]
    fn questions_of_every_kind_are_answered_by_keys() {
        let option = |id: &str| json!({ "id": id, "label": id });
        let request: ChatInputRequest = serde_json::from_value(json!({ "id": "q", "questions": [
            { "kind": "text", "id": "name", "message": "Name?", "required": true },
            { "kind": "number", "id": "price", "message": "Price?" },
            { "kind": "integer", "id": "age", "message": "Age?", "defaultValue": 7.0 },
            { "kind": "boolean", "id": "sure", "message": "Sure?" },
            { "kind": "single-select", "id": "size", "message": "Size?", "options": [option("s"), option("m")] },
            { "kind": "multi-select", "id": "extras", "message": "Extras?", "allowFreeformInput": true,
              "options": [option("a"), option("b")] },
        ] }))
        .unwrap();
        let mut form = Form::new(&request);
        use KeyCode::{Char, Down, Enter};
        let wrong = form.handle(KeyEvent::new(Char('s'), KeyModifiers::CONTROL));
        assert_eq!(wrong, FormStep::Wrong("Name?: an answer is required".to_owned()));
        press(
            &mut form,
            &[Char('A'), Enter, Char('1'), Char('.'), Char('5'), Enter, Enter],
        );
        press(&mut form, &[Char('y'), Enter, Down, Enter]);
        press(&mut form, &[Char(' '), Down, Char(' '), Down, Char('x')]);
        assert_eq!(press(&mut form, &[Enter]), FormStep::Submit);
        let answers = serde_json::to_value(form.answers()).unwrap();
        let value = |id: &str| answers[id]["value"]["value"].clone();
        assert_eq!(value("name"), "A");
        assert_eq!(value("price"), 1.5);
        assert_eq!(value("age"), 7.0);
        assert_eq!(value("sure"), true);
        assert_eq!(value("size"), "m");
        assert_eq!(value("extras"), json!(["a", "b"]));
        assert_eq!(answers["extras"]["value"]["freeformValues"], json!(["x"]));
    }

    #[test]
    fn a_wrong_number_is_pointed_at() {
        let request: ChatInputRequest = serde_json::from_value(json!({ "id": "q", "questions": [
            { "kind": "integer", "id": "age", "message": "Age?" },
        ] }))
        .unwrap();
        let mut form = Form::new(&request);
        let step = press(
            &mut form,
            &[
                KeyCode::Char('7'),
                KeyCode::Char('.'),
                KeyCode::Char('5'),
                KeyCode::Enter,
            ],
        );
        assert_eq!(step, FormStep::Wrong("Age?: \"7.5\" is not a whole number".to_owned()));
    }
}

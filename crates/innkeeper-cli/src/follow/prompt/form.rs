//! The questions of an agent or an MCP server, one after the other.

use std::collections::HashMap;

use ahp_types::actions::{ChatInputCompletedAction, StateAction};
use ahp_types::state::{
    ChatInputAnswer, ChatInputAnswered, ChatInputOption, ChatInputQuestion, ChatInputRequest, ChatInputResponseKind,
    SessionChatInputRequest,
};

use crate::pending::{question_id, value};
use crate::terminal::{note, one_line};

/// Typed instead of an answer, declines to answer all questions.
const DECLINE: &str = "/decline";

/// The questions of one request, and the answers so far.
#[derive(Debug)]
pub(super) struct Form {
    chat: String,
    request: ChatInputRequest,
    /// The question that is asked.
    index: usize,
    answers: HashMap<String, ChatInputAnswer>,
}

impl Form {
    pub(super) fn new(request: &SessionChatInputRequest) -> Self {
        Self {
            chat: request.chat.clone(),
            request: request.request.clone(),
            index: 0,
            answers: HashMap::new(),
        }
    }

    pub(super) fn chat(&self) -> &str {
        &self.chat
    }

    fn question(&self) -> Option<&ChatInputQuestion> {
        self.request.questions.as_ref()?.get(self.index)
    }

    pub(super) fn show(&self) {
        let Some(question) = self.question() else {
            if let Some(url) = &self.request.url {
                note(&format!("  visit {}", one_line(url, 1000)));
            }
            note(&format!("[press Enter when done, {DECLINE} to decline]"));
            return;
        };
        let shape = Shape::of(question);
        note(&format!("  {}", one_line(shape.message, 500)));
        for (index, option) in shape.options.iter().enumerate() {
            let about = option.description.as_deref().map(|text| format!(": {text}"));
            let recommended = if option.recommended == Some(true) {
                " (recommended)"
            } else {
                ""
            };
            let line = format!("{}{}{recommended}", option.label, about.unwrap_or_default());
            note(&format!("  {}  {}", index + 1, one_line(&line, 300)));
        }
        let default = shape.default.map(|default| format!(", Enter = {default}"));
        let skip = match (&default, shape.is_required) {
            (None, false) => ", Enter = skip",
            _ => "",
        };
        note(&format!(
            "[{}{}{skip}, {DECLINE}]",
            shape.expected,
            one_line(&default.unwrap_or_default(), 200)
        ));
    }

    /// Takes the answer to the current question. Returns the action after the last one.
    pub(super) fn enter(&mut self, line: &str) -> Result<Option<StateAction>, String> {
        let text = line.trim();
        if text == DECLINE {
            return Ok(Some(self.completed(ChatInputResponseKind::Decline)));
        }
        let Some(question) = self.question() else {
            return Ok(Some(self.completed(ChatInputResponseKind::Accept)));
        };
        let shape = Shape::of(question);
        let text = match (text.is_empty(), &shape.default) {
            (true, Some(default)) => Some(default.clone()),
            (true, None) if shape.is_required => return Err("this question needs an answer".to_owned()),
            (true, None) => None,
            (false, _) => Some(shape.option_ids(text)),
        };
        if let Some(text) = text {
            let id = question_id(question).unwrap_or_default().to_owned();
            let value = value(question, &text).ok_or_else(|| format!("{text:?} is not {}", shape.expected))?;
            self.answers
                .insert(id, ChatInputAnswer::Submitted(ChatInputAnswered { value }));
        }
        self.index += 1;
        let is_last = self.question().is_none();
        Ok(is_last.then(|| self.completed(ChatInputResponseKind::Accept)))
    }

    fn completed(&self, response: ChatInputResponseKind) -> StateAction {
        let is_accepted = response == ChatInputResponseKind::Accept;
        StateAction::ChatInputCompleted(ChatInputCompletedAction {
            request_id: self.request.id.clone(),
            response,
            answers: (is_accepted && !self.answers.is_empty()).then(|| self.answers.clone()),
        })
    }
}

/// The parts of a question that its prompt shows.
struct Shape<'a> {
    message: &'a str,
    expected: &'static str,
    options: &'a [ChatInputOption],
    default: Option<String>,
    is_required: bool,
}

impl<'a> Shape<'a> {
    fn of(question: &'a ChatInputQuestion) -> Self {
        let recommended = |options: &[ChatInputOption]| {
            let option = options.iter().find(|option| option.recommended == Some(true));
            option.map(|option| option.id.clone())
        };
        let (message, expected, options, default, required): (&str, _, &[ChatInputOption], _, _) = match question {
            ChatInputQuestion::Text(q) => (&q.message, "a text", &[], q.default_value.clone(), q.required),
            ChatInputQuestion::Number(q) => (
                &q.message,
                "a number",
                &[],
                q.default_value.map(|number| number.to_string()),
                q.required,
            ),
            ChatInputQuestion::Integer(q) => (
                &q.message,
                "a whole number",
                &[],
                q.default_value.map(|number| number.to_string()),
                q.required,
            ),
            ChatInputQuestion::Boolean(q) => {
                let default = q.default_value.map(|yes| if yes { "yes" } else { "no" }.to_owned());
                (&q.message, "yes or no", &[], default, q.required)
            }
            ChatInputQuestion::SingleSelect(q) => (
                &q.message,
                "a number of the list",
                &q.options,
                recommended(&q.options),
                q.required,
            ),
            ChatInputQuestion::MultiSelect(q) => (
                &q.message,
                "numbers of the list, separated by commas",
                &q.options,
                None,
                q.required,
            ),
            ChatInputQuestion::Unknown(_) => ("a question this program does not know", "nothing", &[], None, None),
        };
        Self {
            message,
            expected,
            options,
            default,
            is_required: required == Some(true),
        }
    }

    /// Replaces numbers of the list by the ids of their options.
    fn option_ids(&self, text: &str) -> String {
        if self.options.is_empty() {
            return text.to_owned();
        }
        let id = |word: &str| {
            let number = word.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            let option = number.and_then(|index| self.options.get(index));
            let named = || {
                self.options
                    .iter()
                    .find(|option| option.label.eq_ignore_ascii_case(word))
            };
            option
                .or_else(named)
                .map_or_else(|| word.to_owned(), |option| option.id.clone())
        };
        let ids: Vec<String> = text.split(',').map(|word| id(word.trim())).collect();
        ids.join(",")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn form() -> Form {
        let request = json!({ "id": "q", "message": "A few things", "questions": [
            { "kind": "text", "id": "name", "message": "Your name?", "required": true },
            { "kind": "integer", "id": "nights", "message": "How many nights?", "defaultValue": 2.0 },
            { "kind": "single-select", "id": "room", "message": "Which room?", "options": [
                { "id": "g", "label": "Garden" }, { "id": "s", "label": "Street" } ] },
            { "kind": "multi-select", "id": "extras", "message": "Extras?", "options": [
                { "id": "b", "label": "Breakfast" }, { "id": "p", "label": "Parking" } ] },
        ] });
        Form {
            chat: "ahp-chat:/c".to_owned(),
            request: serde_json::from_value(request).unwrap(),
            index: 0,
            answers: HashMap::new(),
        }
    }

    fn completed(action: Option<StateAction>) -> Value {
        serde_json::to_value(action.expect("the form is complete")).unwrap()
    }

    #[test]
    fn answers_are_collected_until_the_last_question() {
        let mut form = form();
        assert!(form.enter("").is_err(), "a required answer");
        assert_eq!(form.enter("Ada"), Ok(None));
        assert!(form.enter("many").is_err());
        assert_eq!(form.enter(""), Ok(None), "the default");
        assert_eq!(form.enter("2"), Ok(None));
        let done = completed(form.enter("breakfast, 2").unwrap());
        assert_eq!(done["response"], "accept");
        let answers = &done["answers"];
        assert_eq!(answers["name"]["value"]["value"], "Ada");
        assert_eq!(answers["nights"]["value"]["value"], 2.0);
        assert_eq!(answers["room"]["value"]["value"], "s");
        assert_eq!(answers["extras"]["value"]["value"], json!(["b", "p"]));
    }

    #[test]
    fn a_form_is_declined_as_a_whole() {
        let mut form = form();
        assert_eq!(form.enter("Ada"), Ok(None));
        let done = completed(form.enter("/decline").unwrap());
        assert_eq!((&done["response"], &done["answers"]), (&json!("decline"), &Value::Null));
    }
}

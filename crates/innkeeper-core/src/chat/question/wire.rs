//! Converts questions to AHP's types.

use ahp_types::state::{
    ChatInputBooleanQuestion, ChatInputMultiSelectQuestion, ChatInputNumberQuestion, ChatInputOption,
    ChatInputQuestion, ChatInputRequest, ChatInputSingleSelectQuestion, ChatInputTextQuestion,
};

use crate::agent::{Choice, Question, QuestionKind, Questions};

pub(super) fn request(questions: Questions) -> ChatInputRequest {
    let asked: Vec<ChatInputQuestion> = questions.questions.into_iter().map(question).collect();
    ChatInputRequest {
        id: questions.id,
        message: questions.message,
        url: questions.url,
        questions: (!asked.is_empty()).then_some(asked),
        answers: None,
    }
}

fn question(question: Question) -> ChatInputQuestion {
    let Question {
        id,
        title,
        message,
        required,
        kind,
    } = question;
    let required = required.then_some(true);
    let number = |id, title, message, min, max, default_value| ChatInputNumberQuestion {
        id,
        title,
        message,
        required,
        min,
        max,
        default_value,
    };
    // Beyond 2^53 neither side could tell neighbours apart anyway.
    let whole = |number: Option<i64>| number.map(|number| number as f64);
    match kind {
        QuestionKind::Text {
            format,
            default,
            min,
            max,
        } => ChatInputQuestion::Text(ChatInputTextQuestion {
            id,
            title,
            message,
            required,
            format,
            min: min.map(Into::into),
            max: max.map(Into::into),
            default_value: default,
        }),
        QuestionKind::Number { min, max, default } => {
            ChatInputQuestion::Number(number(id, title, message, min, max, default))
        }
        QuestionKind::Integer { min, max, default } => {
            ChatInputQuestion::Integer(number(id, title, message, whole(min), whole(max), whole(default)))
        }
        QuestionKind::Boolean { default } => ChatInputQuestion::Boolean(ChatInputBooleanQuestion {
            id,
            title,
            message,
            required,
            default_value: default,
        }),
        QuestionKind::One {
            options: list,
            freeform,
        } => ChatInputQuestion::SingleSelect(ChatInputSingleSelectQuestion {
            id,
            title,
            message,
            required,
            options: options(list),
            // VS Code offers a free text field unless this is false.
            allow_freeform_input: Some(freeform),
        }),
        QuestionKind::Many {
            options: list,
            freeform,
            min,
            max,
        } => ChatInputQuestion::MultiSelect(ChatInputMultiSelectQuestion {
            id,
            title,
            message,
            required,
            options: options(list),
            // VS Code offers a free text field unless this is false.
            allow_freeform_input: Some(freeform),
            min: min.map(Into::into),
            max: max.map(Into::into),
        }),
    }
}

fn options(choices: Vec<Choice>) -> Vec<ChatInputOption> {
    let option = |choice: Choice| ChatInputOption {
        id: choice.id,
        label: choice.label,
        description: choice.description,
        recommended: choice.recommended.then_some(true),
    };
    choices.into_iter().map(option).collect()
}

pub(super) fn id(question: &ChatInputQuestion) -> Option<&str> {
    match question {
        ChatInputQuestion::Text(question) => Some(&question.id),
        ChatInputQuestion::Number(question) | ChatInputQuestion::Integer(question) => Some(&question.id),
        ChatInputQuestion::Boolean(question) => Some(&question.id),
        ChatInputQuestion::SingleSelect(question) => Some(&question.id),
        ChatInputQuestion::MultiSelect(question) => Some(&question.id),
        ChatInputQuestion::Unknown(_) => None,
    }
}

pub(super) fn is_required(question: &ChatInputQuestion) -> bool {
    let required = match question {
        ChatInputQuestion::Text(question) => question.required,
        ChatInputQuestion::Number(question) | ChatInputQuestion::Integer(question) => question.required,
        ChatInputQuestion::Boolean(question) => question.required,
        ChatInputQuestion::SingleSelect(question) => question.required,
        ChatInputQuestion::MultiSelect(question) => question.required,
        ChatInputQuestion::Unknown(_) => None,
    };
    required == Some(true)
}

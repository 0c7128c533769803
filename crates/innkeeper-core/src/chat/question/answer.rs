//! Checks and converts answers to questions.

use ahp_types::actions::ChatInputCompletedAction;
use ahp_types::state::{
    ChatInputAnswer, ChatInputAnswerValue, ChatInputBooleanAnswerValue, ChatInputNumberAnswerValue, ChatInputOption,
    ChatInputQuestion, ChatInputRequest, ChatInputSkipped,
};

use super::wire;
use crate::agent::AnswerValue;

/// Longest text of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// Most free texts beside the options.
const MAX_FREEFORM: usize = 64;

/// The question of an id.
pub(super) fn question<'a>(request: &'a ChatInputRequest, id: &str) -> Result<&'a ChatInputQuestion, String> {
    let questions = request.questions.as_deref().unwrap_or_default();
    questions
        .iter()
        .find(|question| wire::id(question) == Some(id))
        .ok_or_else(|| format!("there is no question {id:?} in this request"))
}

/// Converts text into the number or boolean that it means. VS Code answers every question without options with text.
/// Empty text is no answer.
pub(super) fn coerce(question: &ChatInputQuestion, answer: &mut ChatInputAnswer) {
    let (ChatInputAnswer::Draft(answered) | ChatInputAnswer::Submitted(answered)) = answer else {
        // A skipped answer has no value.
        return;
    };
    let ChatInputAnswerValue::Text(text) = &answered.value else {
        // Only text is converted.
        return;
    };
    let words = text.value.trim();
    let number = |value: f64| ChatInputAnswerValue::Number(ChatInputNumberAnswerValue { value });
    let meant = match question {
        ChatInputQuestion::Number(_) | ChatInputQuestion::Integer(_) => words.parse().ok().map(number),
        ChatInputQuestion::Boolean(_) => {
            truth(words).map(|value| ChatInputAnswerValue::Boolean(ChatInputBooleanAnswerValue { value }))
        }
        ChatInputQuestion::Text(_)
        | ChatInputQuestion::SingleSelect(_)
        | ChatInputQuestion::MultiSelect(_)
        | ChatInputQuestion::Unknown(_) => return,
    };
    match meant {
        Some(meant) => answered.value = meant,
        None if words.is_empty() => *answer = ChatInputAnswer::Skipped(ChatInputSkipped::default()),
        None => {}
    }
}

fn truth(words: &str) -> Option<bool> {
    match words.to_ascii_lowercase().as_str() {
        "true" | "yes" => Some(true),
        "false" | "no" => Some(false),
        _ => None,
    }
}

/// Checks that an answer is of the kind its question asks for. Bounds such as a smallest number
/// count when the form is accepted: a draft may still be on its way there.
pub(super) fn check(question: &ChatInputQuestion, answer: &ChatInputAnswer, field: &str) -> Result<(), String> {
    let value = match answer {
        ChatInputAnswer::Draft(answered) | ChatInputAnswer::Submitted(answered) => &answered.value,
        ChatInputAnswer::Skipped(skipped) => return check_freeform(skipped.freeform_values.as_deref(), true, field),
    };
    let wrong = |wanted: &str| Err(format!("{field}: this question takes {wanted}"));
    match (question, value) {
        (_, ChatInputAnswerValue::Unknown(_)) => Err(format!("{field}: the value is malformed or of an unknown kind")),
        (ChatInputQuestion::Text(_), ChatInputAnswerValue::Text(text)) => {
            if text.value.len() > MAX_ANSWER_BYTES {
                return Err(format!("{field}: an answer has at most {MAX_ANSWER_BYTES} bytes"));
            }
            Ok(())
        }
        (ChatInputQuestion::Text(_), _) => wrong("text"),
        (ChatInputQuestion::Number(_), ChatInputAnswerValue::Number(number)) if number.value.is_finite() => Ok(()),
        (ChatInputQuestion::Number(_), _) => wrong("a number"),
        (ChatInputQuestion::Integer(_), ChatInputAnswerValue::Number(number))
            if number.value.is_finite() && number.value.fract() == 0.0 =>
        {
            Ok(())
        }
        (ChatInputQuestion::Integer(_), _) => wrong("a whole number"),
        (ChatInputQuestion::Boolean(_), ChatInputAnswerValue::Boolean(_)) => Ok(()),
        (ChatInputQuestion::Boolean(_), _) => wrong("true or false"),
        (ChatInputQuestion::SingleSelect(asked), ChatInputAnswerValue::Selected(selected)) => {
            let freeform = asked.allow_freeform_input == Some(true);
            check_freeform(selected.freeform_values.as_deref(), freeform, field)?;
            let wrote = selected
                .freeform_values
                .as_ref()
                .is_some_and(|values| !values.is_empty());
            if selected.value.is_empty() && wrote {
                return Ok(());
            }
            check_option(&asked.options, &selected.value, field)
        }
        (ChatInputQuestion::SingleSelect(_), _) => wrong("one of its options"),
        (ChatInputQuestion::MultiSelect(asked), ChatInputAnswerValue::SelectedMany(selected)) => {
            let freeform = asked.allow_freeform_input == Some(true);
            check_freeform(selected.freeform_values.as_deref(), freeform, field)?;
            selected
                .value
                .iter()
                .try_for_each(|id| check_option(&asked.options, id, field))
        }
        (ChatInputQuestion::MultiSelect(_), _) => wrong("a list of its options"),
        (ChatInputQuestion::Unknown(_), _) => Ok(()),
    }
}

fn check_option(options: &[ChatInputOption], id: &str, field: &str) -> Result<(), String> {
    if options.iter().any(|option| option.id == id) {
        Ok(())
    } else {
        Err(format!("{field}: {id:?} is not one of the options"))
    }
}

fn check_freeform(values: Option<&[String]>, allowed: bool, field: &str) -> Result<(), String> {
    let values = values.unwrap_or_default();
    if !allowed && !values.is_empty() {
        return Err(format!("{field}: this question takes none but its options"));
    }
    if values.len() > MAX_FREEFORM || values.iter().any(|value| value.len() > MAX_ANSWER_BYTES) {
        return Err(format!("{field}: freeformValues is too long"));
    }
    Ok(())
}

/// Checks an accepted form: every required question has an answer (INP-05), and every answer is within the bounds of
/// its question. An answer may also come from a draft, which is shared (INP-04).
pub(super) fn check_accepted(request: &ChatInputRequest, completed: &ChatInputCompletedAction) -> Result<(), String> {
    for asked in request.questions.iter().flatten() {
        let Some(id) = wire::id(asked) else {
            continue;
        };
        let given = completed.answers.as_ref().and_then(|answers| answers.get(id));
        let given = given.or_else(|| request.answers.as_ref()?.get(id));
        match given.and_then(value).filter(|value| !says_nothing(value)) {
            Some(value) => check_bounds(asked, &value).map_err(|problem| format!("answers[{id:?}]: {problem}"))?,
            None if wire::is_required(asked) => {
                return Err(format!(
                    "answers[{id:?}]: this question must be answered; answer it, or decline"
                ));
            }
            None => {}
        }
    }
    Ok(())
}

fn check_bounds(question: &ChatInputQuestion, value: &AnswerValue) -> Result<(), String> {
    match (question, value) {
        (ChatInputQuestion::Text(asked), AnswerValue::Text(text)) => {
            let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
            match (asked.min, asked.max) {
                (Some(min), _) if length < min => Err(format!("must have at least {min} characters, and has {length}")),
                (_, Some(max)) if length > max => Err(format!("may have at most {max} characters, and has {length}")),
                _ => Ok(()),
            }
        }
        (ChatInputQuestion::Number(asked) | ChatInputQuestion::Integer(asked), AnswerValue::Number(number)) => {
            match (asked.min, asked.max) {
                (Some(min), _) if *number < min => Err(format!("must be at least {min}, and is {number}")),
                (_, Some(max)) if *number > max => Err(format!("must be at most {max}, and is {number}")),
                _ => Ok(()),
            }
        }
        (ChatInputQuestion::MultiSelect(asked), AnswerValue::Selected { ids, freeform }) => {
            let count = i64::try_from(ids.len() + freeform.len()).unwrap_or(i64::MAX);
            match (asked.min, asked.max) {
                (Some(min), _) if count < min => Err(format!("takes at least {min} choices, and has {count}")),
                (_, Some(max)) if count > max => Err(format!("takes at most {max} choices, and has {count}")),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

fn says_nothing(value: &AnswerValue) -> bool {
    match value {
        AnswerValue::Text(text) => text.is_empty(),
        AnswerValue::Number(_) | AnswerValue::Boolean(_) => false,
        AnswerValue::Selected { ids, freeform } => ids.is_empty() && freeform.is_empty(),
    }
}

/// An answer as the agent reads it; a skipped question has none.
pub(super) fn value(answer: &ChatInputAnswer) -> Option<AnswerValue> {
    let answered = match answer {
        ChatInputAnswer::Draft(answered) | ChatInputAnswer::Submitted(answered) => &answered.value,
        ChatInputAnswer::Skipped(skipped) => {
            let freeform = skipped.freeform_values.clone().filter(|values| !values.is_empty())?;
            return Some(AnswerValue::Selected {
                ids: Vec::new(),
                freeform,
            });
        }
    };
    Some(match answered {
        ChatInputAnswerValue::Text(text) => AnswerValue::Text(text.value.clone()),
        ChatInputAnswerValue::Number(number) => AnswerValue::Number(number.value),
        ChatInputAnswerValue::Boolean(boolean) => AnswerValue::Boolean(boolean.value),
        ChatInputAnswerValue::Selected(selected) => AnswerValue::Selected {
            ids: Some(selected.value.clone())
                .filter(|id| !id.is_empty())
                .into_iter()
                .collect(),
            freeform: selected.freeform_values.clone().unwrap_or_default(),
        },
        ChatInputAnswerValue::SelectedMany(selected) => AnswerValue::Selected {
            ids: selected.value.clone(),
            freeform: selected.freeform_values.clone().unwrap_or_default(),
        },
        ChatInputAnswerValue::Unknown(_) => return None,
    })
}

//! Questions to people: asked by agents, answered together by everybody who watches.

use ahp_types::actions::{
    ChatInputAnswerChangedAction, ChatInputCompletedAction, ChatInputRequestedAction, StateAction,
};
use ahp_types::state::{
    ChatInputAnswer, ChatInputAnswerValue, ChatInputOption, ChatInputQuestion, ChatInputRequest, ChatInputResponseKind,
};

use crate::agent::{Answer, AnswerValue, Questions, Reply, Response};
use crate::core::{Cx, HostCore, json_bytes};
use crate::ids::{ChannelId, TurnKey};

mod wire;

/// Longest words of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// Most words somebody wrote beside the options.
const MAX_FREEFORM: usize = 64;

impl HostCore {
    /// An agent asks (INP-01). The turn goes on while people think (INP-02).
    pub(crate) fn ask(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, turn: TurnKey, questions: Questions) {
        let is_open = |core: &Self| {
            let chat = core.chats.get(&chat_id);
            chat.is_some_and(|chat| chat.model.open_question(&questions.id).is_some())
        };
        let is_new = !is_open(self);
        let id = questions.id.clone();
        let request = wire::request(questions);
        // Questions count as much as text: they stay in the turn.
        if !self.fits(cx, chat_id, json_bytes(&request)) || (is_new && self.count_part(cx, chat_id).is_none()) {
            return;
        }
        if let Some(run) = self.run_mut(chat_id) {
            run.open_part = None;
        }
        let action = StateAction::ChatInputRequested(ChatInputRequestedAction { request });
        if self.commit(cx, chat_id, action, None) != ahp::reducers::ReduceOutcome::Applied {
            let answer = Answer {
                response: Response::Cancel,
                values: Default::default(),
            };
            self.reply(cx, chat_id, turn, Reply::Answered { id, answer });
        }
    }

    /// Whether a draft of an answer can be taken (INP-05).
    pub(crate) fn check_answer(&self, chat: ChannelId, changed: &ChatInputAnswerChangedAction) -> Result<(), String> {
        let request = self.open_question(chat, &changed.request_id)?;
        let question = question(request, &changed.question_id)?;
        match &changed.answer {
            Some(answer) => check_answer(
                question,
                answer,
                &format!("answer of question {:?}", changed.question_id),
            ),
            None => Ok(()),
        }
    }

    /// Whether a set of answers can be taken (INP-05): questions may stay without one.
    pub(crate) fn check_completion(&self, chat: ChannelId, completed: &ChatInputCompletedAction) -> Result<(), String> {
        let request = self.open_question(chat, &completed.request_id)?;
        for (id, answer) in completed.answers.iter().flatten() {
            check_answer(question(request, id)?, answer, &format!("answers[{id:?}]"))?;
        }
        match completed.response {
            ChatInputResponseKind::Accept => check_required(request, completed),
            ChatInputResponseKind::Decline | ChatInputResponseKind::Cancel => Ok(()),
        }
    }

    /// Tells the agent what people said (INP-06).
    pub(crate) fn answered(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, completed: &ChatInputCompletedAction) {
        let Some((turn, parts)) = self.chats.get(&chat_id).and_then(|chat| {
            let parts = &chat.model.head().active_turn.as_ref()?.response_parts;
            Some((chat.run.as_ref()?.key, parts))
        }) else {
            return;
        };
        // The reducer merged the drafts and these answers (INP-04).
        let answers = parts.iter().rev().find_map(|part| match part {
            ahp_types::state::ResponsePart::InputRequest(part) if part.request.id == completed.request_id => {
                part.request.answers.as_ref()
            }
            _ => None,
        });
        let answer = Answer {
            response: match completed.response {
                ChatInputResponseKind::Accept => Response::Accept,
                ChatInputResponseKind::Decline => Response::Decline,
                ChatInputResponseKind::Cancel => Response::Cancel,
            },
            values: answers
                .into_iter()
                .flatten()
                .filter_map(|(id, answer)| Some((id.clone(), value(answer)?)))
                .collect(),
        };
        let id = completed.request_id.clone();
        self.reply(cx, chat_id, turn, Reply::Answered { id, answer });
    }

    /// Questions that an interrupted turn left open are not asked again when it goes on: the agent
    /// does not wait for them any more.
    pub(crate) fn withdraw_questions(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId) {
        let open: Vec<String> = self
            .chats
            .get(&chat_id)
            .map(|chat| chat.model.open_question_ids())
            .unwrap_or_default();
        for request_id in open {
            self.withdraw_question(cx, chat_id, request_id);
        }
    }

    /// Takes back a question that nobody waits for any more.
    pub(crate) fn withdraw_question(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, request_id: String) {
        let action = ChatInputCompletedAction {
            request_id,
            response: ChatInputResponseKind::Cancel,
            answers: None,
        };
        self.commit(cx, chat_id, StateAction::ChatInputCompleted(action), None);
    }

    fn open_question(&self, chat: ChannelId, id: &str) -> Result<&ChatInputRequest, String> {
        let chat = self.chats.get(&chat);
        chat.and_then(|chat| chat.model.open_question(id))
            .ok_or_else(|| "no such question is open: it was answered already, or its turn is over".to_owned())
    }
}

fn question<'a>(request: &'a ChatInputRequest, id: &str) -> Result<&'a ChatInputQuestion, String> {
    let questions = request.questions.as_deref().unwrap_or_default();
    questions
        .iter()
        .find(|question| wire::id(question) == Some(id))
        .ok_or_else(|| format!("there is no question {id:?} in this request"))
}

/// Checks that an answer is of the kind its question asks for. Bounds such as a smallest number
/// are for the agent to judge: a draft may still be on its way there.
fn check_answer(question: &ChatInputQuestion, answer: &ChatInputAnswer, field: &str) -> Result<(), String> {
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

/// Whoever accepts has answered what must be answered (INP-05), now or in a draft that everybody
/// shares (INP-04).
fn check_required(request: &ChatInputRequest, completed: &ChatInputCompletedAction) -> Result<(), String> {
    let is_missing = |id: &str| {
        let said = completed.answers.as_ref().and_then(|answers| answers.get(id));
        let said = said.or_else(|| request.answers.as_ref()?.get(id));
        said.and_then(value).is_none_or(|value| says_nothing(&value))
    };
    let required = request
        .questions
        .iter()
        .flatten()
        .filter(|asked| wire::is_required(asked));
    match required.filter_map(wire::id).find(|id| is_missing(id)) {
        Some(id) => Err(format!(
            "answers[{id:?}]: this question must be answered; answer it, or decline"
        )),
        None => Ok(()),
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
fn value(answer: &ChatInputAnswer) -> Option<AnswerValue> {
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

//! Questions to users: asked by agents, answered by any client that watches.

use ahp_types::actions::{
    ChatInputAnswerChangedAction, ChatInputCompletedAction, ChatInputRequestedAction, StateAction,
};
use ahp_types::state::{ChatInputRequest, ChatInputResponseKind};

use crate::agent::{Answer, Questions, Reply, Response};
use crate::chat::chats::Chat;
use crate::core::{Cx, Host, json_bytes, never};
use crate::dispatch::{Dispatched, Verdict};
use crate::ids::{ChannelId, TurnKey};

mod answer;
mod wire;

impl Host {
    /// Publishes questions of an agent (INP-01). The turn continues while users answer (INP-02).
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

    pub(crate) fn check_input_answer_changed(
        &self,
        _cx: &Cx<'_>,
        by: &Dispatched,
        _chat: &Chat,
        mut changed: ChatInputAnswerChangedAction,
    ) -> Verdict {
        let check = self.check_answer(by.channel, &mut changed);
        Verdict::from_check(StateAction::ChatInputAnswerChanged(changed), check)
    }

    pub(crate) fn check_input_completed(
        &self,
        _cx: &Cx<'_>,
        by: &Dispatched,
        _chat: &Chat,
        mut completed: ChatInputCompletedAction,
    ) -> Verdict {
        let check = self.check_completion(by.channel, &mut completed);
        Verdict::from_check(StateAction::ChatInputCompleted(completed), check)
    }

    pub(crate) fn apply_input_completed(
        &mut self,
        cx: &mut Cx<'_>,
        by: &Dispatched,
        completed: ChatInputCompletedAction,
    ) {
        self.commit_dispatched(cx, by, StateAction::ChatInputCompleted(completed.clone()));
        self.answered(cx, by.channel, &completed);
    }

    /// Checks a draft of an answer (INP-05). A draft of another kind that means the same is corrected.
    fn check_answer(&self, chat: ChannelId, changed: &mut ChatInputAnswerChangedAction) -> Result<(), String> {
        let request = self.open_question(chat, &changed.request_id)?;
        let question = answer::question(request, &changed.question_id)?;
        match &mut changed.answer {
            Some(answer) => {
                answer::coerce(question, answer);
                answer::check(
                    question,
                    answer,
                    &format!("answer of question {:?}", changed.question_id),
                )
            }
            None => Ok(()),
        }
    }

    /// Checks a set of answers (INP-05): questions may stay unanswered. Answers of another kind that mean the same are
    /// corrected.
    fn check_completion(&self, chat: ChannelId, completed: &mut ChatInputCompletedAction) -> Result<(), String> {
        let request = self.open_question(chat, &completed.request_id)?;
        for (id, answer) in completed.answers.iter_mut().flatten() {
            let question = answer::question(request, id)?;
            answer::coerce(question, answer);
            answer::check(question, answer, &format!("answers[{id:?}]"))?;
        }
        match completed.response {
            ChatInputResponseKind::Accept => answer::check_accepted(request, completed),
            ChatInputResponseKind::Decline | ChatInputResponseKind::Cancel => Ok(()),
        }
    }

    /// Sends the answers to the agent (INP-06).
    fn answered(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, completed: &ChatInputCompletedAction) {
        let Some((turn, parts)) = self.chats.get(&chat_id).and_then(|chat| {
            let parts = &chat.model.head().active_turn.as_ref()?.response_parts;
            Some((chat.run()?.key(), parts))
        }) else {
            return never!("a chat with an open question has a run");
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
                .filter_map(|(id, answer)| Some((id.clone(), answer::value(answer)?)))
                .collect(),
        };
        let id = completed.request_id.clone();
        self.reply(cx, chat_id, turn, Reply::Answered { id, answer });
    }

    /// Questions that an interrupted turn left open are not asked again when the turn is resumed: the agent no longer
    /// waits for them.
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

    /// Withdraws a question whose agent no longer waits for the answer.
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

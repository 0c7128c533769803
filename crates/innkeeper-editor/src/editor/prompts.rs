//! The editor's messages: sent as turns, or queued behind a turn that runs, and answered when their turns end.

use ahp_types::actions::{
    ChatPendingMessageRemovedAction, ChatPendingMessageSetAction, ChatTurnCancelledAction, ChatTurnStartedAction,
    StateAction,
};
use ahp_types::state::{ChatState, Message, PendingMessageKind, ResponsePart, Turn, TurnState};
use innkeeper_acp_wire::{RpcError, code};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::follow::Extent;
use super::sessions::{Session, Stage, not_open, session_id};
use super::{Editor, Outgoing, Purpose};
use crate::from_editor;
use crate::options::OWN_CHOICE;

/// A message of the editor whose turn has not ended.
#[derive(Debug)]
pub(crate) struct Prompt {
    /// The editor's request.
    pub(crate) request: Value,
    delivery: Delivery,
    message: Message,
    /// The number of the connection that it was sent on.
    connection: u64,
    /// The host has it.
    is_confirmed: bool,
    /// So many looks at the chat did not find it. A queued message is removed before its turn starts.
    misses: u8,
}

#[derive(Debug)]
enum Delivery {
    Turn(String),
    Queued(String),
}

impl Editor {
    pub(super) fn prompt(&mut self, request: &Value, params: &Value) -> Result<(), RpcError> {
        let uri = session_id(params)?.to_owned();
        let session = self
            .sessions
            .get(&uri)
            .filter(|session| matches!(session.stage, Stage::Open));
        let session = session.ok_or_else(|| not_open(&uri))?;
        let model = self
            .choices(&uri)
            .and_then(|choices| choices.model)
            .filter(|model| *model != OWN_CHOICE);
        let message = from_editor::message(&params["prompt"], model);
        if message.text.trim().is_empty() && message.attachments.is_none() {
            return Err(RpcError::new(code::INVALID_PARAMS, "the prompt is empty"));
        }
        let chat = session.chat.as_ref().and_then(|chat| self.mirror.chats.get(chat));
        let is_busy = !session.prompts.is_empty() || chat.is_some_and(|chat| chat.active_turn.is_some());
        let prompt = Prompt {
            request: request.clone(),
            delivery: Delivery::Turn(String::new()),
            message,
            connection: 0,
            is_confirmed: false,
            misses: 0,
        };
        self.send(&uri, prompt, is_busy);
        Ok(())
    }

    fn send(&mut self, uri: &str, mut prompt: Prompt, is_busy: bool) {
        let id = uuid::Uuid::new_v4().to_string();
        let Some(session) = self.sessions.get_mut(uri) else {
            return;
        };
        let Some(chat) = session.chat.clone() else {
            return;
        };
        let message = prompt.message.clone();
        let action = match is_busy {
            true => StateAction::ChatPendingMessageSet(ChatPendingMessageSetAction {
                kind: PendingMessageKind::Queued,
                id: id.clone(),
                message,
            }),
            false => StateAction::ChatTurnStarted(ChatTurnStartedAction {
                turn_id: id.clone(),
                started_at: Timestamp::now().to_string(),
                message,
                queued_message_id: None,
                meta: None,
            }),
        };
        prompt.delivery = match is_busy {
            true => Delivery::Queued(id),
            false => {
                session.transcript.own(&id);
                Delivery::Turn(id)
            }
        };
        prompt.connection = self.connections;
        let request = prompt.request.clone();
        session.prompts.push(prompt);
        self.dispatch(Purpose::Prompted(uri.to_owned(), request), chat, action);
    }

    /// The host has taken a message, or rejected it.
    pub(super) fn settle_prompt(&mut self, uri: &str, request: &Value, rejection: Option<String>) {
        let Some(session) = self.sessions.get_mut(uri) else {
            return;
        };
        let Some(position) = session.prompts.iter().position(|prompt| prompt.request == *request) else {
            return;
        };
        let Some(reason) = rejection else {
            if let Some(prompt) = session.prompts.get_mut(position) {
                prompt.is_confirmed = true;
            }
            return;
        };
        let prompt = session.prompts.remove(position);
        let chat = session.chat.as_ref().and_then(|chat| self.mirror.chats.get(chat));
        let is_busy = chat.is_some_and(|chat| chat.active_turn.is_some());
        match prompt.delivery {
            // Another client was faster.
            Delivery::Turn(_) if is_busy => self.send(uri, prompt, true),
            _ => {
                let reason = self.lost.clone().unwrap_or(reason);
                self.answer(prompt.request, Err(RpcError::new(code::INTERNAL, reason)));
            }
        }
    }

    /// Starts a message of the editor that waits behind a cancelled or failed turn. The host leaves such messages to users,
    /// and this editor's user waits for the answer. Only the host takes messages out of the queue for a turn, so the
    /// message is removed and sent anew.
    pub(super) fn start_left_over(&mut self, uri: &str) {
        let Some(session) = self.sessions.get_mut(uri) else {
            return;
        };
        let Some(chat) = session.chat.as_ref().and_then(|chat| self.mirror.chats.get(chat)) else {
            return;
        };
        let ended = chat.turns.last().filter(|_| chat.active_turn.is_none());
        let Some(prompt) = session.prompts.first_mut() else {
            return;
        };
        let is_left_over =
            ended.is_some_and(|turn| turn.state != TurnState::Complete) && is_known(chat, &prompt.delivery);
        let Delivery::Queued(queued) = &prompt.delivery else {
            return;
        };
        if !is_left_over || !prompt.is_confirmed {
            return;
        }
        let kind = PendingMessageKind::Queued;
        let id = queued.clone();
        let removal = StateAction::ChatPendingMessageRemoved(ChatPendingMessageRemovedAction { kind, id });
        let turn_id = uuid::Uuid::new_v4().to_string();
        let action = StateAction::ChatTurnStarted(ChatTurnStartedAction {
            turn_id: turn_id.clone(),
            started_at: Timestamp::now().to_string(),
            message: prompt.message.clone(),
            queued_message_id: None,
            meta: None,
        });
        session.transcript.own(&turn_id);
        (prompt.delivery, prompt.is_confirmed) = (Delivery::Turn(turn_id), false);
        let purpose = Purpose::Prompted(uri.to_owned(), prompt.request.clone());
        let chat = chat.resource.clone();
        self.dispatch(Purpose::Ignore, chat.clone(), removal);
        self.dispatch(purpose, chat, action);
    }

    /// Notes the turn of a queued message.
    pub(super) fn note_start(&mut self, chat: &str, turn: &ChatTurnStartedAction) {
        for session in self
            .sessions
            .values_mut()
            .filter(|session| session.chat.as_deref() == Some(chat))
        {
            for prompt in &mut session.prompts {
                let is_its =
                    matches!(&prompt.delivery, Delivery::Queued(id) if turn.queued_message_id.as_ref() == Some(id));
                if is_its {
                    session.transcript.own(&turn.turn_id);
                    prompt.delivery = Delivery::Turn(turn.turn_id.clone());
                    prompt.is_confirmed = true;
                }
            }
        }
    }

    /// The chats are as they are at the host again. Messages that it never had are given back.
    pub(super) fn miss_prompts(&mut self) {
        let mut missed = Vec::new();
        for session in self.sessions.values_mut() {
            let Some(chat) = session.chat.as_ref().and_then(|chat| self.mirror.chats.get(chat)) else {
                continue;
            };
            let is_missed = |prompt: &mut Prompt| {
                prompt.connection < self.connections && !prompt.is_confirmed && !is_known(chat, &prompt.delivery)
            };
            missed.extend(session.prompts.extract_if(.., is_missed));
        }
        for prompt in missed {
            let reason = "the connection broke before the host had the message; send it again";
            self.answer(prompt.request, Err(RpcError::new(code::INTERNAL, reason)));
        }
        self.follow_all();
    }

    /// Cancels the turn that runs, and takes the editor's queued messages back.
    pub(super) fn cancel(&mut self, uri: &str) {
        let Some(session) = self.sessions.get(uri) else {
            return;
        };
        let chat = session.chat.as_ref().and_then(|chat| self.mirror.chats.get(chat));
        let active = chat
            .and_then(|chat| chat.active_turn.as_ref())
            .map(|turn| turn.id.clone());
        let unconfirmed = session.prompts.iter().find_map(|prompt| match &prompt.delivery {
            Delivery::Turn(id) => Some(id.clone()),
            Delivery::Queued(_) => None,
        });
        self.take_back(uri);
        if let Some(turn) = active.or(unconfirmed) {
            self.cancel_turn(uri, turn);
        }
    }

    /// Cancels what the editor itself has sent.
    pub(super) fn cancel_own(&mut self, uri: &str) {
        let Some(session) = self.sessions.get(uri) else {
            return;
        };
        let own = session.prompts.iter().find_map(|prompt| match &prompt.delivery {
            Delivery::Turn(id) => Some(id.clone()),
            Delivery::Queued(_) => None,
        });
        self.take_back(uri);
        if let Some(turn) = own {
            self.cancel_turn(uri, turn);
        }
    }

    /// The editor does not want the answer to a request any more.
    pub(super) fn cancel_request(&mut self, request: &Value) {
        let has = |session: &Session| session.prompts.iter().any(|prompt| prompt.request == *request);
        let session = self
            .sessions
            .iter()
            .find(|(_, session)| has(session))
            .map(|(uri, _)| uri.clone());
        if let Some(uri) = session {
            self.cancel(&uri);
        }
    }

    fn take_back(&mut self, uri: &str) {
        let Some(session) = self.sessions.get_mut(uri) else {
            return;
        };
        let Some(chat) = session.chat.clone() else {
            return;
        };
        let is_queued = |prompt: &mut Prompt| matches!(prompt.delivery, Delivery::Queued(_));
        let queued: Vec<Prompt> = session.prompts.extract_if(.., is_queued).collect();
        for prompt in queued {
            if let Delivery::Queued(id) = prompt.delivery {
                let kind = PendingMessageKind::Queued;
                let action = StateAction::ChatPendingMessageRemoved(ChatPendingMessageRemovedAction { kind, id });
                self.dispatch(Purpose::Ignore, chat.clone(), action);
            }
            self.answer(prompt.request, Ok(json!({ "stopReason": "cancelled" })));
        }
    }

    fn cancel_turn(&mut self, uri: &str, turn_id: String) {
        let Some(session) = self.sessions.get(uri) else {
            return;
        };
        let Some(chat) = session.chat.clone() else {
            return;
        };
        let active = self.mirror.chats.get(&chat).and_then(|chat| chat.active_turn.as_ref());
        let started = active.and_then(|turn| turn.started_at.parse::<Timestamp>().ok());
        let since = |started: Timestamp| Timestamp::now().as_millisecond() - started.as_millisecond();
        let action = StateAction::ChatTurnCancelled(ChatTurnCancelledAction {
            turn_id,
            duration: started.map_or(0, since).max(0),
            meta: None,
        });
        self.dispatch(Purpose::Ignore, chat, action);
        self.follow(uri, Extent::Chat);
    }
}

fn is_known(chat: &ChatState, delivery: &Delivery) -> bool {
    match delivery {
        Delivery::Turn(id) => {
            let is_active = chat.active_turn.as_ref().is_some_and(|turn| turn.id == *id);
            is_active || chat.turns.iter().rev().any(|turn| turn.id == *id)
        }
        Delivery::Queued(id) => chat.queued_messages.iter().flatten().any(|message| message.id == *id),
    }
}

/// Answers the prompts whose turns have ended and were told.
pub(super) fn end_prompts(session: &mut Session, chat: &ChatState, outgoing: &mut Vec<Outgoing>) {
    let Session {
        prompts, transcript, ..
    } = session;
    prompts.retain_mut(|prompt| {
        if is_known(chat, &prompt.delivery) {
            (prompt.is_confirmed, prompt.misses) = (true, 0);
        } else if prompt.is_confirmed {
            prompt.misses = prompt.misses.saturating_add(1);
            if prompt.misses > 1 {
                adopt(prompt, chat);
            }
            if prompt.misses > 2 {
                // Another client took the message back, or truncated the chat.
                let cancelled = json!({ "stopReason": "cancelled" });
                outgoing.push(Outgoing::Answer(prompt.request.clone(), Ok(cancelled)));
                return false;
            }
        }
        let Delivery::Turn(id) = &prompt.delivery else {
            return true;
        };
        let turn = chat
            .turns
            .iter()
            .rev()
            .find(|turn| turn.id == *id && transcript.has_told(id));
        let Some(turn) = turn else {
            return true;
        };
        outgoing.push(Outgoing::Answer(prompt.request.clone(), outcome(turn)));
        false
    });
}

/// Finds the turn of a queued message that started while there was no connection.
fn adopt(prompt: &mut Prompt, chat: &ChatState) {
    let active = chat.active_turn.as_ref().map(|turn| (&turn.id, &turn.message.text));
    let ended = chat.turns.iter().rev().map(|turn| (&turn.id, &turn.message.text));
    let its = active
        .into_iter()
        .chain(ended)
        .find(|(_, text)| **text == prompt.message.text);
    if let (Delivery::Queued(_), Some((id, _))) = (&prompt.delivery, its) {
        prompt.delivery = Delivery::Turn(id.clone());
    }
}

/// Returns the answer to a prompt whose turn has ended.
fn outcome(turn: &Turn) -> Result<Value, RpcError> {
    let stop = match turn.state {
        TurnState::Complete => "end_turn",
        TurnState::Cancelled => "cancelled",
        TurnState::Error => {
            let error = turn.response_parts.iter().rev().find_map(|part| match part {
                ResponsePart::Error(part) => Some(part),
                _ => None,
            });
            let message = error.map_or("the turn failed", |part| part.error.message.as_str());
            let data = error
                .map(|part| json!({ "errorType": part.error.error_type, "resumable": part.resumable == Some(true) }));
            return Err(RpcError {
                data,
                ..RpcError::new(code::INTERNAL, message)
            });
        }
    };
    let mut answer = json!({ "stopReason": stop });
    let usage = turn.usage.as_ref();
    if let Some((usage, input, output)) =
        usage.and_then(|usage| Some((usage, usage.input_tokens?, usage.output_tokens?)))
    {
        answer["usage"] = json!({ "totalTokens": input + output, "inputTokens": input, "outputTokens": output });
        if let Some(read) = usage.cache_read_tokens {
            answer["usage"]["cachedReadTokens"] = json!(read);
        }
    }
    Ok(answer)
}

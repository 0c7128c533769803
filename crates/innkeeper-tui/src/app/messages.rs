//! Sends messages: as a turn, queued behind the running turn, or into it. Cancels and resumes turns.

use ahp_types::actions::{
    ChatPendingMessageRemovedAction, ChatPendingMessageSetAction, ChatQueuedMessagesReorderedAction,
    ChatTurnCancelledAction, ChatTurnResumeAction, ChatTurnStartedAction, StateAction,
};
use ahp_types::state::{
    AgentSelection, ErrorResponsePart, Message, MessageAttachment, MessageKind, MessageOrigin, ModelSelection,
    PendingMessageKind, ResponsePart, SessionLifecycle, TurnState,
};
use serde_json::json;

use super::{App, Focus, LinkStatus, Purpose, Selected};
use crate::text::time::seconds_since;

/// A message that the host has not confirmed yet.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) chat: String,
    /// The id of its turn or of the pending message.
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) attachments: Vec<MessageAttachment>,
    /// The connection that it was sent on.
    pub(crate) connection: u64,
}

/// A session that is being created for a message.
#[derive(Debug)]
pub(crate) struct Starting {
    pub(crate) session: String,
    pub(crate) text: String,
    pub(crate) attachments: Vec<MessageAttachment>,
}

/// How a message is sent while a turn runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// After the running turn.
    Queued,
    /// Into the running turn.
    Steering,
}

impl App {
    /// Sends the message that the user has written.
    pub(crate) fn send_message(&mut self, delivery: Delivery) {
        if self.status != LinkStatus::Connected {
            return self.complain("Not connected. Your message stays here; send it when the host is back.");
        }
        if self.starting.is_some() {
            return self.complain("The session is being created.");
        }
        let Some((text, attachments)) = self.composer().take() else {
            return;
        };
        self.history.push(&text);
        self.transcript.follow();
        match (self.selected.clone(), self.chat_uri().map(str::to_owned)) {
            (Selected::New, _) => self.create_session(text, attachments),
            (Selected::Session { .. }, Some(chat)) => self.send_to(&chat, text, attachments, delivery),
            (Selected::Session { .. }, None) => {
                self.composer().put_back(&text, attachments);
                self.complain("The session is still being opened.");
            }
        }
    }

    fn message(&self, text: String, attachments: &[MessageAttachment]) -> Message {
        let session = self.session_uri().unwrap_or_default();
        Message {
            text,
            origin: MessageOrigin {
                kind: MessageKind::User,
            },
            attachments: (!attachments.is_empty()).then(|| attachments.to_vec()),
            model: self.models.get(session).map(|id| ModelSelection {
                id: id.clone(),
                config: None,
            }),
            agent: self
                .custom_agents
                .get(session)
                .map(|uri| AgentSelection { uri: uri.clone() }),
            meta: None,
        }
    }

    fn send_to(&mut self, chat: &str, text: String, attachments: Vec<MessageAttachment>, delivery: Delivery) {
        let id = uuid::Uuid::new_v4().to_string();
        let message = self.message(text.clone(), &attachments);
        let is_running = self
            .mirror
            .chats
            .get(chat)
            .is_some_and(|chat| chat.active_turn.is_some());
        let action = match (is_running, delivery) {
            (false, _) => StateAction::ChatTurnStarted(ChatTurnStartedAction {
                turn_id: id.clone(),
                started_at: self.now.to_string(),
                message,
                queued_message_id: None,
                meta: None,
            }),
            (true, delivery) => StateAction::ChatPendingMessageSet(ChatPendingMessageSetAction {
                kind: match delivery {
                    Delivery::Queued => PendingMessageKind::Queued,
                    Delivery::Steering => PendingMessageKind::Steering,
                },
                id: id.clone(),
                message,
            }),
        };
        let sending = Sending {
            chat: chat.to_owned(),
            id,
            text,
            attachments,
            connection: self.connections,
        };
        if let Some(composer) = self.composers.get_mut(chat) {
            // The host clears the draft with the turn.
            composer.synced.clear();
        }
        self.dispatch(Purpose::Message(Box::new(sending)), chat, action);
    }

    pub(super) fn message_refused(&mut self, sending: Sending, reason: &str) {
        let composer = self.composers.entry(sending.chat).or_default();
        composer.put_back(&sending.text, sending.attachments);
        self.complain(&format!("Not sent: {reason}"));
    }

    fn create_session(&mut self, text: String, attachments: Vec<MessageAttachment>) {
        let session = format!("ahp-session:/{}", uuid::Uuid::new_v4());
        let directory = self
            .new_directory()
            .and_then(|directory| url::Url::from_file_path(directory).ok());
        let params = json!({
            "channel": session,
            "provider": self.provider,
            "workingDirectories": directory.map(|directory| vec![String::from(directory)]),
        });
        let params = without_nulls(params);
        self.starting = Some(Starting {
            session,
            text,
            attachments,
        });
        self.request(Purpose::CreateSession, "createSession", params);
    }

    pub(super) fn session_created(&mut self) {
        if let Some(starting) = &self.starting {
            let session = starting.session.clone();
            // The choices of the form are those of the session.
            if let Some(model) = self.models.remove("") {
                self.models.insert(session.clone(), model);
            }
            self.open_session(&session);
        }
    }

    pub(super) fn session_refused(&mut self, reason: &str) {
        if let Some(starting) = self.starting.take() {
            let composer = self.composers.entry(String::new()).or_default();
            composer.put_back(&starting.text, starting.attachments);
        }
        self.complain(&format!("No session was created: {reason}"));
    }

    /// Sends the first message once the session is ready.
    pub(super) fn follow_starting(&mut self) {
        let Some(starting) = &self.starting else {
            return;
        };
        let Some(state) = self.mirror.sessions.get(&starting.session) else {
            return;
        };
        match state.lifecycle {
            SessionLifecycle::Creating => {}
            SessionLifecycle::Failed => {
                let reason = state.creation_error.as_ref().map(|error| error.message.clone());
                self.session_refused(&reason.unwrap_or_else(|| "the host gave no reason".to_owned()));
                self.select_new();
            }
            _ => {
                let first = || state.chats.first().map(|chat| chat.resource.clone());
                let Some(chat) = state.default_chat.clone().or_else(first) else {
                    return;
                };
                if let Some(starting) = self.starting.take() {
                    self.send_to(&chat, starting.text, starting.attachments, Delivery::Queued);
                }
            }
        }
    }

    /// Cancels the running turn of the chat.
    pub(crate) fn cancel_turn(&mut self) {
        let Some((chat, turn)) = self
            .chat()
            .and_then(|chat| Some((chat.resource.clone(), chat.active_turn.as_ref()?)))
        else {
            return self.tell("No turn is running here.");
        };
        let duration = seconds_since(&turn.started_at, self.now).unwrap_or_default() * 1000;
        let action = StateAction::ChatTurnCancelled(ChatTurnCancelledAction {
            turn_id: turn.id.clone(),
            duration,
            meta: None,
        });
        self.dispatch(Purpose::Ignore, &chat, action);
    }

    /// Returns the failed turn that can be resumed.
    pub(crate) fn resumable_turn(&self) -> Option<String> {
        let chat = self.chat().filter(|chat| chat.active_turn.is_none())?;
        let turn = chat.turns.last().filter(|turn| turn.state == TurnState::Error)?;
        let is_resumable = matches!(
            turn.response_parts.last(),
            Some(ResponsePart::Error(ErrorResponsePart {
                resumable: Some(true),
                ..
            }))
        );
        is_resumable.then(|| turn.id.clone())
    }

    /// Lets a failed turn go on.
    pub(crate) fn resume_turn(&mut self) {
        let (Some(turn_id), Some(chat)) = (self.resumable_turn(), self.chat_uri().map(str::to_owned)) else {
            return self.tell("No turn here can be resumed.");
        };
        let action = StateAction::ChatTurnResume(ChatTurnResumeAction { turn_id });
        self.transcript.follow();
        self.dispatch(Purpose::Report("The turn goes on."), &chat, action);
    }

    /// Takes a pending message back, and puts its text into the composer.
    pub(crate) fn take_back(&mut self, id: &str) {
        let Some(chat) = self.chat() else {
            return;
        };
        let uri = chat.resource.clone();
        let queued = chat.queued_messages.iter().flatten().find(|message| message.id == id);
        let steering = chat.steering_message.as_ref().filter(|message| message.id == id);
        let (kind, message) = match (queued, steering) {
            (Some(message), _) => (PendingMessageKind::Queued, message.message.clone()),
            (None, Some(message)) => (PendingMessageKind::Steering, message.message.clone()),
            (None, None) => return,
        };
        let action = StateAction::ChatPendingMessageRemoved(ChatPendingMessageRemovedAction {
            kind,
            id: id.to_owned(),
        });
        self.dispatch(Purpose::Ignore, &uri, action);
        let attachments = message.attachments.unwrap_or_default();
        self.composer().put_back(&message.text, attachments);
        self.focus = Focus::Composer;
    }

    /// Moves a queued message to the front of the queue.
    pub(crate) fn move_to_front(&mut self, id: &str) {
        let Some(chat) = self.chat() else {
            return;
        };
        let uri = chat.resource.clone();
        let mut order: Vec<String> = chat
            .queued_messages
            .iter()
            .flatten()
            .map(|message| message.id.clone())
            .collect();
        order.sort_by_key(|queued| queued != id);
        let action = StateAction::ChatQueuedMessagesReordered(ChatQueuedMessagesReorderedAction { order });
        self.dispatch(Purpose::Ignore, &uri, action);
    }
}

/// Removes absent members, which the host would reject as null.
pub(super) fn without_nulls(mut params: serde_json::Value) -> serde_json::Value {
    if let Some(fields) = params.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    params
}

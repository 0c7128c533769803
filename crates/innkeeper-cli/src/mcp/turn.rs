//! A turn of the session's agent, from start to end.

use std::collections::HashSet;

use ahp_types::actions::{ActionEnvelope, ChatInputCompletedAction, ChatTurnStartedAction, StateAction};
use ahp_types::state::{
    ChatInputResponseKind, ChatState, Message, MessageKind, MessageOrigin, ResponsePart, SessionInputRequest,
    SessionState,
};

use crate::failure::{Failure, Kind};
use crate::terminal::one_line;

use super::session::Session;
use crate::connection::{Connection, request_failure};
use crate::follow::Outcome;

/// A running turn.
pub(super) struct Turn {
    pub(super) id: String,
    pub(super) chat: String,
    /// The text of the response so far.
    pub(super) text: String,
}

/// Sends a message and returns the response.
pub(super) async fn say(connection: &mut Connection, session: &mut Session, text: &str) -> Result<String, Failure> {
    let mut turn = Turn::start(connection, session, text).await?;
    let mut declined = HashSet::new();
    loop {
        for question in turn.questions(&session.state) {
            if declined.insert(question.clone()) {
                turn.decline(connection, question).await?;
            }
        }
        let envelope = session.next(connection).await?;
        if let Some(ended) = turn.follow(&envelope) {
            return ended.map(|()| turn.text);
        }
    }
}

/// Returns the failure of an interrupted command.
pub(super) fn stopped() -> Failure {
    Failure::new(Kind::TurnCancelled, "stopped before it was done")
}

impl Turn {
    /// Starts a turn.
    pub(super) async fn start(connection: &mut Connection, session: &mut Session, text: &str) -> Result<Self, Failure> {
        let chat = session.chat(connection).await?;
        let _: (ChatState, i64) = connection.subscribe_to_state(&chat).await?;
        let id = uuid::Uuid::new_v4().to_string();
        let started = StateAction::ChatTurnStarted(ChatTurnStartedAction {
            turn_id: id.clone(),
            started_at: jiff::Timestamp::now().to_string(),
            message: Message {
                text: text.to_owned(),
                origin: MessageOrigin {
                    kind: MessageKind::User,
                },
                attachments: None,
                model: None,
                agent: None,
                meta: None,
            },
            queued_message_id: None,
            meta: None,
        });
        session.dispatch(connection, &chat, started).await?;
        Ok(Self {
            id,
            chat,
            text: String::new(),
        })
    }

    /// Returns the questions of the turn.
    fn questions(&self, state: &SessionState) -> Vec<String> {
        let requests = state.input_needed.iter().flatten();
        let questions = requests.filter_map(|request| match request {
            SessionInputRequest::ChatInput(input) if input.chat == self.chat => Some(input.request.id.clone()),
            _ => None,
        });
        questions.collect()
    }

    /// Declines a question. A temporary session decides nothing: users decide about MCP servers in their own sessions,
    /// or with `innkeeper trust`.
    async fn decline(&self, connection: &Connection, question: String) -> Result<(), Failure> {
        let completed = StateAction::ChatInputCompleted(ChatInputCompletedAction {
            request_id: question,
            response: ChatInputResponseKind::Decline,
            answers: None,
        });
        // Do not wait for the echo: actions of the turn would be missed, and a rejection means that another client
        // answered.
        let sent = connection.client.dispatch(self.chat.clone(), completed).await;
        sent.map(drop).map_err(|error| request_failure("dispatchAction", error))
    }

    /// Applies an action. Returns how the turn ended, if it did.
    pub(super) fn follow(&mut self, envelope: &ActionEnvelope) -> Option<Result<(), Failure>> {
        if envelope.channel != self.chat || envelope.rejection_reason.is_some() {
            return None;
        }
        match &envelope.action {
            StateAction::ChatResponsePart(part) if part.turn_id == self.id => {
                if let ResponsePart::Markdown(part) = &part.part {
                    self.text.push_str(&part.content);
                }
            }
            StateAction::ChatDelta(delta) if delta.turn_id == self.id => self.text.push_str(&delta.content),
            _ => {}
        }
        Some(match Outcome::of(&envelope.action, &self.id)? {
            Outcome::Complete => Ok(()),
            Outcome::Cancelled => Err(Failure::new(Kind::TurnCancelled, "the turn was cancelled")),
            Outcome::Failed { error, .. } => Err(Failure::new(
                Kind::TurnFailed,
                format!("the turn failed: {}", one_line(&error.message, 500)),
            )),
        })
    }
}

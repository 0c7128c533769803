//! Shows on a session which input its chats wait for, so that a client that watches only the session can answer
//! everything, at any depth of subagents (SES-18 to SES-20).

use std::collections::{HashMap, HashSet};

use ahp_types::actions::{SessionInputNeededRemovedAction, SessionInputNeededSetAction, StateAction};
use ahp_types::state::{
    ChatInputRequest, ChatState, ResponsePart, SessionChatInputRequest, SessionInputRequest,
    SessionToolAuthenticationRequest, SessionToolClientExecutionRequest, SessionToolConfirmationRequest,
    ToolCallConfirmationState, ToolCallContributor, ToolCallRunningState, ToolCallState,
};

use crate::core::{Cx, Host, never};
use crate::ids::ChannelId;

impl Host {
    /// Updates the session's list after an action of one of its chats. Most actions are about one part, and only that
    /// part is compared: a turn may have thousands.
    pub(crate) fn show_input_needed(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, about: Option<InputSubject<'_>>) {
        let Some(chat) = self.chats.get(&chat_id) else {
            return never!("the chat is in memory");
        };
        let session_id = chat.session;
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        let head = chat.model.head();
        let shown = session.state.input_needed.as_deref().unwrap_or_default();
        let (gone, changed): (Vec<String>, Vec<SessionInputRequest>) = match about {
            Some(about) => {
                let id = about.id(&head.resource);
                let known = shown.iter().find(|request| id_of(request) == Some(&id));
                let wanted = match (about, &head.active_turn) {
                    (InputSubject::Call(call), Some(turn)) => {
                        let call = chat.model.tool_call(call);
                        call.and_then(|call| tool_wait(&head.resource, &turn.id, call))
                    }
                    (InputSubject::Question(question), Some(_)) => {
                        let request = chat.model.open_question(question);
                        request.map(|request| question_wait(&head.resource, request))
                    }
                    (_, None) => None,
                };
                match (known, wanted) {
                    (Some(_), None) => (vec![id], Vec::new()),
                    (known, Some(wanted)) if known != Some(&wanted) => (Vec::new(), vec![wanted]),
                    _ => return,
                }
            }
            None => {
                let wanted = pending_requests(head, chat.model.open_parts());
                let mine = || shown.iter().filter(|request| chat_of(request) == Some(&head.resource));
                let wants: HashSet<&str> = wanted.iter().filter_map(id_of).collect();
                let gone = mine()
                    .filter_map(id_of)
                    .filter(|id| !wants.contains(id))
                    .map(str::to_owned)
                    .collect();
                let known: HashMap<&str, &SessionInputRequest> =
                    mine().filter_map(|request| Some((id_of(request)?, request))).collect();
                let is_new = |request: &&SessionInputRequest| {
                    id_of(request)
                        .and_then(|id| known.get(id))
                        .is_none_or(|known| known != request)
                };
                (gone, wanted.iter().filter(is_new).cloned().collect())
            }
        };
        for id in gone {
            let action = StateAction::SessionInputNeededRemoved(SessionInputNeededRemovedAction { id });
            self.commit(cx, session_id, action, None);
        }
        for request in changed {
            let action = StateAction::SessionInputNeededSet(Box::new(SessionInputNeededSetAction { request }));
            self.commit(cx, session_id, action, None);
        }
    }

    /// Removes all requests of a chat from its session's list, because the chat leaves.
    pub(crate) fn hide_input_needed(&mut self, cx: &mut Cx<'_>, session_id: ChannelId, chat_uri: &str) {
        let Some(session) = self.sessions.get(&session_id) else {
            return never!("the session is in memory");
        };
        let shown = session.state.input_needed.as_deref().unwrap_or_default();
        let gone: Vec<String> = shown
            .iter()
            .filter(|request| chat_of(request).is_some_and(|chat| chat == chat_uri))
            .filter_map(id_of)
            .map(str::to_owned)
            .collect();
        for id in gone {
            let action = StateAction::SessionInputNeededRemoved(SessionInputNeededRemovedAction { id });
            self.commit(cx, session_id, action, None);
        }
    }
}

/// The part of a turn that an action is about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum InputSubject<'a> {
    /// A tool call.
    Call(&'a str),
    /// A question.
    Question(&'a str),
}

impl InputSubject<'_> {
    /// Returns the id of the request in the session's list. It is stable for the whole part, which waits for one thing
    /// at a time.
    fn id(self, chat: &str) -> String {
        match self {
            Self::Call(call) => format!("{chat}#tool/{call}"),
            Self::Question(question) => format!("{chat}#input/{question}"),
        }
    }
}

/// Everything a chat waits for, among the parts that are still open.
fn pending_requests(chat: &ChatState, open: impl Iterator<Item = usize>) -> Vec<SessionInputRequest> {
    let Some(turn) = &chat.active_turn else {
        return Vec::new();
    };
    open.filter_map(|index| match turn.response_parts.get(index)? {
        ResponsePart::ToolCall(part) => tool_wait(&chat.resource, &turn.id, &part.tool_call),
        ResponsePart::InputRequest(part) if part.response.is_none() => {
            Some(question_wait(&chat.resource, &part.request))
        }
        _ => None,
    })
    .collect()
}

fn question_wait(chat: &str, request: &ChatInputRequest) -> SessionInputRequest {
    SessionInputRequest::ChatInput(SessionChatInputRequest {
        id: InputSubject::Question(&request.id).id(chat),
        chat: chat.to_owned(),
        request: request.clone(),
    })
}

fn tool_wait(chat: &str, turn_id: &str, call: &ToolCallState) -> Option<SessionInputRequest> {
    let id = |call: &str| InputSubject::Call(call).id(chat);
    let confirmation = |call_id: &str, tool_call| {
        SessionInputRequest::ToolConfirmation(SessionToolConfirmationRequest {
            id: id(call_id),
            chat: chat.to_owned(),
            turn_id: turn_id.to_owned(),
            tool_call,
        })
    };
    match call {
        ToolCallState::PendingConfirmation(call) => Some(confirmation(
            &call.tool_call_id,
            ToolCallConfirmationState::PendingConfirmation(call.clone()),
        )),
        ToolCallState::PendingResultConfirmation(call) => Some(confirmation(
            &call.tool_call_id,
            ToolCallConfirmationState::PendingResultConfirmation(call.clone()),
        )),
        ToolCallState::Running(call) => match &call.contributor {
            Some(ToolCallContributor::Client(client)) => Some(SessionInputRequest::ToolClientExecution(
                SessionToolClientExecutionRequest {
                    id: id(&call.tool_call_id),
                    chat: chat.to_owned(),
                    turn_id: turn_id.to_owned(),
                    client_id: client.client_id.clone(),
                    // Content that the owner streams back is in the chat; here every piece of it would be sent twice.
                    tool_call: ToolCallRunningState {
                        content: None,
                        ..call.clone()
                    },
                },
            )),
            _ => None,
        },
        ToolCallState::AuthRequired(call) => Some(SessionInputRequest::ToolAuthentication(Box::new(
            SessionToolAuthenticationRequest {
                id: id(&call.tool_call_id),
                chat: chat.to_owned(),
                turn_id: turn_id.to_owned(),
                tool_call: (**call).clone(),
            },
        ))),
        ToolCallState::Streaming(_)
        | ToolCallState::Completed(_)
        | ToolCallState::Cancelled(_)
        | ToolCallState::Unknown(_) => None,
    }
}

fn id_of(request: &SessionInputRequest) -> Option<&str> {
    match request {
        SessionInputRequest::ChatInput(request) => Some(&request.id),
        SessionInputRequest::ToolConfirmation(request) => Some(&request.id),
        SessionInputRequest::ToolClientExecution(request) => Some(&request.id),
        SessionInputRequest::ToolAuthentication(request) => Some(&request.id),
        SessionInputRequest::Unknown(_) => None,
    }
}

fn chat_of(request: &SessionInputRequest) -> Option<&String> {
    match request {
        SessionInputRequest::ChatInput(request) => Some(&request.chat),
        SessionInputRequest::ToolConfirmation(request) => Some(&request.chat),
        SessionInputRequest::ToolClientExecution(request) => Some(&request.chat),
        SessionInputRequest::ToolAuthentication(request) => Some(&request.chat),
        SessionInputRequest::Unknown(_) => None,
    }
}

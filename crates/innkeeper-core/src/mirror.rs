//! What a chat waits for, shown on its session: whoever watches the session alone can answer
//! everything, at any depth of workers (SES-18 to SES-20).

use ahp_types::actions::{SessionInputNeededRemovedAction, SessionInputNeededSetAction, StateAction};
use ahp_types::state::{
    ChatState, ResponsePart, SessionChatInputRequest, SessionInputRequest, SessionToolAuthenticationRequest,
    SessionToolClientExecutionRequest, SessionToolConfirmationRequest, ToolCallConfirmationState, ToolCallContributor,
    ToolCallRunningState, ToolCallState,
};

use crate::core::{Cx, HostCore};
use crate::ids::ChannelId;

impl HostCore {
    /// Brings the session's list up to date with one of its chats.
    pub(crate) fn mirror(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId) {
        let Some(chat) = self.chats.get(&chat_id) else {
            return;
        };
        let session_id = chat.session;
        let wanted = waits(chat.model.head(), chat.model.open_parts());
        let Some(session) = self.sessions.get(&session_id) else {
            return;
        };
        let uri = &chat.model.head().resource;
        let shown = session.state.input_needed.as_deref().unwrap_or_default();
        let mine = || shown.iter().filter(|request| chat_of(request) == Some(uri));
        let gone: Vec<String> = mine()
            .filter_map(id_of)
            .filter(|id| !wanted.iter().any(|request| id_of(request) == Some(id)))
            .map(str::to_owned)
            .collect();
        let changed: Vec<SessionInputRequest> = wanted
            .into_iter()
            .filter(|request| !mine().any(|known| known == request))
            .collect();
        for id in gone {
            let action = StateAction::SessionInputNeededRemoved(SessionInputNeededRemovedAction { id });
            self.commit(cx, session_id, action, None);
        }
        for request in changed {
            let action = StateAction::SessionInputNeededSet(Box::new(SessionInputNeededSetAction { request }));
            self.commit(cx, session_id, action, None);
        }
    }

    /// Takes everything of a chat off its session's list, because the chat leaves.
    pub(crate) fn unmirror(&mut self, cx: &mut Cx<'_>, session_id: ChannelId, chat_uri: &str) {
        let Some(session) = self.sessions.get(&session_id) else {
            return;
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

/// Everything a chat waits for, among the parts that are still open.
fn waits(chat: &ChatState, open: impl Iterator<Item = usize>) -> Vec<SessionInputRequest> {
    let Some(turn) = &chat.active_turn else {
        return Vec::new();
    };
    open.filter_map(|index| match turn.response_parts.get(index)? {
        ResponsePart::ToolCall(part) => tool_wait(&chat.resource, &turn.id, &part.tool_call),
        ResponsePart::InputRequest(part) if part.response.is_none() => {
            Some(SessionInputRequest::ChatInput(SessionChatInputRequest {
                id: format!("{}#input/{}", chat.resource, part.request.id),
                chat: chat.resource.clone(),
                request: part.request.clone(),
            }))
        }
        _ => None,
    })
    .collect()
}

fn tool_wait(chat: &str, turn_id: &str, call: &ToolCallState) -> Option<SessionInputRequest> {
    // Stable for the life of the call; a call waits for one thing at a time.
    let id = |call: &str| format!("{chat}#tool/{call}");
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
                    // What the owner itself streams back is in the chat; here it would only make
                    // every piece of it travel twice.
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

//! Answers of users to the tool calls and questions they see, some of which have ended by then.

use ahp_types::state::{
    ChatInputQuestion, ChatInputRequest, ChatState, ConfirmationOptionKind, ResponsePart, SessionInputRequest,
    ToolCallConfirmationState, ToolCallState,
};
use serde_json::{Value, json};

use super::Draft;
use crate::sim::client::fitting::call_id;
use crate::sim::client::mirror::Mirrored;
use crate::sim::{Choices, Connection};

/// A call that a client sees.
struct VisibleCall {
    chat: String,
    turn_id: String,
    call: ToolCallState,
}

/// An action about a tool call that this client sees, in a chat or in `inputNeeded` of a session.
pub fn about_a_call(connection: &Connection, choices: &mut Choices<'_>) -> Option<Draft> {
    let seen: Vec<VisibleCall> = match any_view(connection, choices)? {
        Mirrored::Chat(chat) => calls_of_chat(&chat),
        Mirrored::Session(session) => {
            let waits = session.input_needed.into_iter().flatten();
            waits.filter_map(call_of_wait).collect()
        }
        Mirrored::Root(_) | Mirrored::Changeset(_) | Mirrored::Annotations(_) | Mirrored::Terminal(_) => Vec::new(),
    };
    // Mostly one that waits for something, and one's own before others.
    let is_mine = |seen: &VisibleCall| owner_of(&seen.call) == Some(connection.client_id.as_str());
    let waiting: Vec<&VisibleCall> = seen.iter().filter(|seen| !is_over(&seen.call)).collect();
    let own: Vec<&VisibleCall> = waiting.iter().copied().filter(|seen| is_mine(seen)).collect();
    let seen = match choices.below(8) {
        0 => choices.pick(&seen)?,
        1..=4 if !own.is_empty() => *choices.pick(&own)?,
        _ => *choices.pick(&waiting)?,
    };
    let mine = owner_of(&seen.call) == Some(connection.client_id.as_str());
    let draft = match (&seen.call, choices.below(8)) {
        (ToolCallState::PendingConfirmation(_), 0..=6) => decide(seen, choices),
        (ToolCallState::PendingResultConfirmation(_), 0..=6) => review(seen, choices),
        (ToolCallState::Running(_), 0..=5) if mine => match choices.below(8) {
            0..=2 => content(seen, true, choices),
            // It does not know its own tool any more (TOOL-20).
            3 => decide(seen, choices),
            _ => complete(seen, true, choices),
        },
        (ToolCallState::AuthRequired(_), 0..=3) => complete(seen, mine, choices),
        _ => match choices.below(4) {
            0 => decide(seen, choices),
            1 => review(seen, choices),
            2 => content(seen, mine, choices),
            _ => complete(seen, mine, choices),
        },
    };
    Some(draft)
}

/// A session or chat as this client sees it, one with something going on if there is one.
fn any_view(connection: &Connection, choices: &mut Choices<'_>) -> Option<Mirrored> {
    let is_busy = |mirrored: &Mirrored| match mirrored {
        Mirrored::Chat(chat) => chat.active_turn.is_some(),
        Mirrored::Session(session) => session.input_needed.is_some(),
        Mirrored::Root(_) | Mirrored::Changeset(_) | Mirrored::Annotations(_) | Mirrored::Terminal(_) => false,
    };
    let channels = connection.mirror.channels.iter();
    let busy: Vec<&String> = channels
        .filter(|(_, mirrored)| is_busy(mirrored))
        .map(|(uri, _)| uri)
        .collect();
    match choices.pick(&busy) {
        Some(uri) => connection.view(uri),
        None => connection.view(connection.mirror.channels.keys().next_back()?),
    }
}

fn calls_of_chat(chat: &ChatState) -> Vec<VisibleCall> {
    let active = chat.active_turn.iter().map(|turn| (&turn.id, &turn.response_parts));
    let last = chat
        .turns
        .iter()
        .rev()
        .take(2)
        .map(|turn| (&turn.id, &turn.response_parts));
    let mut seen = Vec::new();
    for (turn_id, parts) in active.chain(last) {
        for part in parts {
            if let ResponsePart::ToolCall(part) = part {
                seen.push(VisibleCall {
                    chat: chat.resource.clone(),
                    turn_id: turn_id.clone(),
                    call: part.tool_call.clone(),
                });
            }
        }
    }
    seen
}

fn call_of_wait(wait: SessionInputRequest) -> Option<VisibleCall> {
    let (chat, turn_id, call) = match wait {
        SessionInputRequest::ToolConfirmation(wait) => {
            let call = match wait.tool_call {
                ToolCallConfirmationState::PendingConfirmation(call) => ToolCallState::PendingConfirmation(call),
                ToolCallConfirmationState::PendingResultConfirmation(call) => {
                    ToolCallState::PendingResultConfirmation(call)
                }
                _ => return None,
            };
            (wait.chat, wait.turn_id, call)
        }
        SessionInputRequest::ToolClientExecution(wait) => {
            (wait.chat, wait.turn_id, ToolCallState::Running(wait.tool_call))
        }
        SessionInputRequest::ToolAuthentication(wait) => (
            wait.chat,
            wait.turn_id,
            ToolCallState::AuthRequired(Box::new(wait.tool_call)),
        ),
        SessionInputRequest::ChatInput(_) | SessionInputRequest::Unknown(_) => return None,
    };
    Some(VisibleCall { chat, turn_id, call })
}

fn is_over(call: &ToolCallState) -> bool {
    matches!(call, ToolCallState::Completed(_) | ToolCallState::Cancelled(_))
}

fn owner_of(call: &ToolCallState) -> Option<&str> {
    use ahp_types::state::ToolCallContributor::Client;
    let contributor = match call {
        ToolCallState::Streaming(call) => &call.contributor,
        ToolCallState::PendingConfirmation(call) => &call.contributor,
        ToolCallState::Running(call) => &call.contributor,
        ToolCallState::AuthRequired(call) => &call.contributor,
        ToolCallState::PendingResultConfirmation(call) => &call.contributor,
        ToolCallState::Completed(call) => &call.contributor,
        ToolCallState::Cancelled(call) => &call.contributor,
        ToolCallState::Unknown(_) => &None,
    };
    match contributor {
        Some(Client(client)) => Some(&client.client_id),
        _ => None,
    }
}

fn of(seen: &VisibleCall, kind: &str) -> Value {
    json!({ "type": kind, "turnId": seen.turn_id, "toolCallId": call_id(&seen.call) })
}

/// A decision: with one of the choices, without, or with one that was never there.
fn decide(seen: &VisibleCall, choices: &mut Choices<'_>) -> Draft {
    let approved = choices.below(4) > 0;
    let mut action = of(seen, "chat/toolCallConfirmed");
    action["approved"] = json!(approved);
    let options = match &seen.call {
        ToolCallState::PendingConfirmation(call) => call.options.as_deref().unwrap_or_default(),
        _ => &[],
    };
    match choices.below(8) {
        0 => {
            // Refused, unless the call is decided already and nothing comes of it (DSP-15).
            action["selectedOptionId"] = json!("never-offered");
            return Draft::fair(&seen.chat, action);
        }
        1 => action["selectedOptionId"] = json!("allow-session"),
        2..=5 => {
            let wanted = if approved {
                ConfirmationOptionKind::Approve
            } else {
                ConfirmationOptionKind::Deny
            };
            let fitting: Vec<&String> = options
                .iter()
                .filter(|option| option.kind == wanted)
                .map(|option| &option.id)
                .collect();
            if let Some(id) = choices.pick(&fitting) {
                action["selectedOptionId"] = json!(id);
            }
        }
        _ => {}
    }
    if approved && choices.one_in(3) {
        action["editedToolInput"] = json!(format!("{{\"edited\":{}}}", choices.below(4)));
    }
    if !approved && choices.one_in(3) {
        action["userSuggestion"] = json!({ "text": "rather not", "origin": { "kind": "user" } });
    }
    Draft::fair(&seen.chat, action)
}

fn review(seen: &VisibleCall, choices: &mut Choices<'_>) -> Draft {
    let mut action = of(seen, "chat/toolCallResultConfirmed");
    action["approved"] = json!(choices.below(3) > 0);
    Draft::fair(&seen.chat, action)
}

/// A result. From any client but the owner it is refused (TOOL-11, TOOL-12), unless it gives up
/// signing in.
fn complete(seen: &VisibleCall, mine: bool, choices: &mut Choices<'_>) -> Draft {
    let success = choices.below(3) > 0;
    let mut action = of(seen, "chat/toolCallComplete");
    action["result"] = json!({
        "success": success,
        "pastTenseMessage": "Opened it",
        "content": [{ "type": "text", "text": format!("result {}", choices.below(4)) }],
    });
    if choices.one_in(3) {
        action["requiresResultConfirmation"] = json!(true);
    }
    match mine || !success {
        true => Draft::fair(&seen.chat, action),
        false => Draft::hopeless(&seen.chat, action),
    }
}

fn content(seen: &VisibleCall, mine: bool, choices: &mut Choices<'_>) -> Draft {
    let mut action = of(seen, "chat/toolCallContentChanged");
    action["content"] = json!([{ "type": "text", "text": format!("so far {}", choices.below(4)) }]);
    if choices.one_in(4) {
        action["_meta"] = json!({ "step": choices.below(4) });
    }
    match mine {
        true => Draft::fair(&seen.chat, action),
        false => Draft::hopeless(&seen.chat, action),
    }
}

/// An answer to questions that this client sees, or to ones that are answered by now.
pub fn to_a_question(connection: &Connection, choices: &mut Choices<'_>) -> Option<Draft> {
    let asked: Vec<(String, ChatInputRequest)> = match any_view(connection, choices)? {
        Mirrored::Chat(chat) => {
            let parts = chat.active_turn.into_iter().flat_map(|turn| turn.response_parts);
            let asked = parts.filter_map(|part| match part {
                ResponsePart::InputRequest(part) => Some((chat.resource.clone(), part.request)),
                _ => None,
            });
            asked.collect()
        }
        Mirrored::Session(session) => {
            let waits = session.input_needed.into_iter().flatten();
            let asked = waits.filter_map(|wait| match wait {
                SessionInputRequest::ChatInput(wait) => Some((wait.chat, wait.request)),
                _ => None,
            });
            asked.collect()
        }
        Mirrored::Root(_) | Mirrored::Changeset(_) | Mirrored::Annotations(_) | Mirrored::Terminal(_) => Vec::new(),
    };
    let (chat, request) = choices.pick(&asked)?;
    let questions = request.questions.as_deref().unwrap_or_default();
    let Some(question) = choices.pick(questions) else {
        return Some(Draft::fair(chat, completion(request, choices, json!({}))));
    };
    let (id, answer, wrong) = answer_to(question, choices);
    let is_wrong = choices.one_in(8);
    let answer = if is_wrong { wrong } else { answer };
    let action = match choices.below(3) {
        0 => completion(request, choices, json!({ id: answer })),
        1 if choices.one_in(4) && !is_wrong => {
            json!({ "type": "chat/inputAnswerChanged", "requestId": request.id, "questionId": id })
        }
        _ => json!({ "type": "chat/inputAnswerChanged", "requestId": request.id, "questionId": id, "answer": answer }),
    };
    Some(match is_wrong {
        true => Draft::hopeless(chat, action),
        false => Draft::fair(chat, action),
    })
}

fn completion(request: &ChatInputRequest, choices: &mut Choices<'_>, answers: Value) -> Value {
    let response = ["accept", "accept", "decline", "cancel"][choices.below(4)];
    json!({ "type": "chat/inputCompleted", "requestId": request.id, "response": response, "answers": answers })
}

/// The id of a question, an answer to it, and one that is none.
fn answer_to<'a>(question: &'a ChatInputQuestion, choices: &mut Choices<'_>) -> (&'a str, Value, Value) {
    let text = json!({ "kind": "text", "value": "words" });
    let number = json!({ "kind": "number", "value": 1.5 });
    let option = ["a", "b"][choices.below(2)];
    let (id, value, wrong) = match question {
        ChatInputQuestion::Text(question) => (&question.id, text, number),
        ChatInputQuestion::Number(question) => (&question.id, number, text),
        ChatInputQuestion::Integer(question) => (&question.id, json!({ "kind": "number", "value": 7 }), number),
        ChatInputQuestion::Boolean(question) => (&question.id, json!({ "kind": "boolean", "value": true }), text),
        ChatInputQuestion::SingleSelect(question) => {
            let wrong = json!({ "kind": "selected", "value": "not-an-option" });
            (&question.id, json!({ "kind": "selected", "value": option }), wrong)
        }
        ChatInputQuestion::MultiSelect(question) => {
            let many = json!({ "kind": "selected-many", "value": [option], "freeformValues": ["mine"] });
            (&question.id, many, text)
        }
        ChatInputQuestion::Unknown(_) => return ("unknown", text, number),
    };
    let state = ["draft", "submitted"][choices.below(2)];
    let answer = match choices.one_in(8) {
        true => json!({ "state": "skipped" }),
        false => json!({ "state": state, "value": value }),
    };
    (id, answer, json!({ "state": state, "value": wrong }))
}

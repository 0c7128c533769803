//! The inputs that a session waits for: as requests to an editor, and the editor's answers as actions.
//!
//! Nothing here waits or has a state.

mod form;

use ahp_types::actions::{
    ChatInputCompletedAction, ChatToolCallConfirmedAction, ChatToolCallResultConfirmedAction, StateAction,
};
use ahp_types::common::StringOrMarkdown;
use ahp_types::state::{
    ChatInputRequest, ChatInputResponseKind, ConfirmationOption, ConfirmationOptionKind, SessionInputRequest,
    ToolCallCancellationReason, ToolCallConfirmationReason, ToolCallConfirmationState,
};
use serde_json::{Value, json};

use crate::from_editor::Abilities;
use crate::to_editor::{Sources, pending_call};

/// The options of a call without options of its own.
const ALLOW: &str = "innkeeper-allow";
const REJECT: &str = "innkeeper-reject";

/// The way in which an editor takes part in an input.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Question {
    /// A request to the editor.
    Ask(&'static str, Value),
    /// The editor cannot ask this; it shows a text.
    Tell(String),
    /// Another client does it.
    Elsewhere,
}

/// Returns the id of an input.
pub(crate) fn input_id(input: &SessionInputRequest) -> &str {
    match input {
        SessionInputRequest::ChatInput(input) => &input.id,
        SessionInputRequest::ToolConfirmation(input) => &input.id,
        SessionInputRequest::ToolClientExecution(input) => &input.id,
        SessionInputRequest::ToolAuthentication(input) => &input.id,
        SessionInputRequest::Unknown(_) => "",
    }
}

/// Returns the question for an editor; `None` if contents of it are on their way.
pub(crate) fn question(
    session: &str,
    input: &SessionInputRequest,
    abilities: Abilities,
    sources: &mut Sources<'_>,
) -> Option<Question> {
    Some(match input {
        SessionInputRequest::ToolConfirmation(input) => {
            let call = pending_call(&input.tool_call, sources)?;
            let params = json!({ "sessionId": session, "toolCall": call, "options": options(&input.tool_call) });
            Question::Ask("session/request_permission", params)
        }
        SessionInputRequest::ChatInput(input) => form_question(session, &input.request, abilities),
        SessionInputRequest::ToolClientExecution(_)
        | SessionInputRequest::ToolAuthentication(_)
        | SessionInputRequest::Unknown(_) => Question::Elsewhere,
    })
}

fn form_question(session: &str, request: &ChatInputRequest, abilities: Abilities) -> Question {
    let message = request
        .message
        .clone()
        .unwrap_or_else(|| "The agent has a question.".to_owned());
    let questions = request.questions.as_deref().unwrap_or_default();
    let params = match &request.url {
        Some(url) if abilities.urls => {
            json!({ "sessionId": session, "mode": "url", "elicitationId": request.id, "url": url, "message": message })
        }
        None if abilities.forms && form::fits(questions) => json!({
            "sessionId": session, "mode": "form", "message": message, "requestedSchema": form::schema(questions),
        }),
        _ => match (form::choices(questions), &request.url) {
            (Some((title, options)), None) => {
                let call = json!({ "toolCallId": request.id, "title": title, "kind": "other", "status": "pending" });
                let params = json!({ "sessionId": session, "toolCall": call, "options": options });
                return Question::Ask("session/request_permission", params);
            }
            _ => {
                let url = request.url.as_ref().map(|url| format!("\n\n{url}")).unwrap_or_default();
                let asked = questions.iter().map(form::text).collect::<String>();
                return Question::Tell(format!(
                    "\n\n**{message}**{url}{asked}\n\nAnswer it on another device, or with `innkeeper answer`.\n\n"
                ));
            }
        },
    };
    Question::Ask("elicitation/create", params)
}

fn options(call: &ToolCallConfirmationState) -> Vec<Value> {
    let simple = |allow: &str, reject: &str| {
        vec![
            json!({ "optionId": ALLOW, "name": allow, "kind": "allow_once" }),
            json!({ "optionId": REJECT, "name": reject, "kind": "reject_once" }),
        ]
    };
    match call {
        ToolCallConfirmationState::PendingConfirmation(call) => {
            let options = call.options.as_deref().unwrap_or_default();
            match options.is_empty() {
                true => simple("Allow", "Deny"),
                false => options.iter().map(option).collect(),
            }
        }
        _ => simple("Give this result to the agent", "Keep the result back"),
    }
}

fn option(option: &ConfirmationOption) -> Value {
    let is_remembered = {
        let says_so = |text: &str| text.to_lowercase().contains("always");
        // The host's own choices for a session, a workspace or everywhere.
        matches!(option.group, Some(1..=3)) && option.kind == ConfirmationOptionKind::Approve
            || says_so(&option.id)
            || says_so(&option.label)
    };
    let kind = match (option.kind == ConfirmationOptionKind::Approve, is_remembered) {
        (true, false) => "allow_once",
        (true, true) => "allow_always",
        (false, false) => "reject_once",
        (false, true) => "reject_always",
    };
    json!({ "optionId": option.id, "name": option.label, "kind": kind })
}

/// Returns the chat of an input, and the action that an editor's answer means. `None` leaves the input to other clients.
pub(crate) fn decision(input: &SessionInputRequest, answer: &Value) -> Option<(String, StateAction)> {
    match input {
        SessionInputRequest::ToolConfirmation(input) => {
            let chosen = match answer["outcome"]["outcome"].as_str()? {
                "selected" => Some(answer["outcome"]["optionId"].as_str()?),
                _ => None,
            };
            let action = match &input.tool_call {
                ToolCallConfirmationState::PendingConfirmation(call) => {
                    let options = call.options.as_deref().unwrap_or_default();
                    let option = options.iter().find(|option| Some(option.id.as_str()) == chosen);
                    let approved = match option {
                        Some(option) => option.kind == ConfirmationOptionKind::Approve,
                        None => chosen == Some(ALLOW),
                    };
                    StateAction::ChatToolCallConfirmed(ChatToolCallConfirmedAction {
                        turn_id: input.turn_id.clone(),
                        tool_call_id: call.tool_call_id.clone(),
                        meta: None,
                        approved,
                        confirmed: approved.then_some(ToolCallConfirmationReason::UserAction),
                        reason: (!approved).then_some(ToolCallCancellationReason::Denied),
                        edited_tool_input: None,
                        user_suggestion: None,
                        reason_message: chosen
                            .is_none()
                            .then(|| StringOrMarkdown::from("The editor closed the question.")),
                        selected_option_id: option.map(|option| option.id.clone()),
                    })
                }
                ToolCallConfirmationState::PendingResultConfirmation(call) => {
                    StateAction::ChatToolCallResultConfirmed(ChatToolCallResultConfirmedAction {
                        turn_id: input.turn_id.clone(),
                        tool_call_id: call.tool_call_id.clone(),
                        meta: None,
                        approved: chosen == Some(ALLOW),
                    })
                }
                ToolCallConfirmationState::Unknown(_) => return None,
            };
            Some((input.chat.clone(), action))
        }
        SessionInputRequest::ChatInput(input) => {
            let questions = input.request.questions.as_deref().unwrap_or_default();
            let (response, answers) = match answer["action"].as_str() {
                Some("accept") => (
                    ChatInputResponseKind::Accept,
                    Some(form::answers(questions, &answer["content"])),
                ),
                Some("decline") => (ChatInputResponseKind::Decline, None),
                Some(_) => (ChatInputResponseKind::Cancel, None),
                None => match answer["outcome"]["outcome"].as_str()? {
                    "selected" => {
                        let chosen = answer["outcome"]["optionId"].as_str()?;
                        (ChatInputResponseKind::Accept, Some(form::chosen(questions, chosen)?))
                    }
                    _ => (ChatInputResponseKind::Cancel, None),
                },
            };
            let action = StateAction::ChatInputCompleted(ChatInputCompletedAction {
                request_id: input.request.id.clone(),
                response,
                answers,
            });
            Some((input.chat.clone(), action))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(questions: &Value) -> SessionInputRequest {
        let request = json!({ "id": "q", "message": "Rooms?", "questions": questions });
        serde_json::from_value(json!({ "kind": "chatInput", "id": "w", "chat": "ahp-chat:/c", "request": request }))
            .expect("an input")
    }

    fn question_of(input: &SessionInputRequest, forms: bool) -> Question {
        let abilities = Abilities {
            forms,
            ..Abilities::default()
        };
        let mut contents = innkeeper_cli::connection::contents::Contents::default();
        let mut sources = Sources {
            contents: &mut contents,
            terminals: &std::collections::HashMap::new(),
            draws_terminals: false,
            open_terminals: Vec::new(),
        };
        question("s", input, abilities, &mut sources).expect("a question")
    }

    fn decided(input: &SessionInputRequest, answer: &Value) -> Value {
        let (chat, action) = decision(input, answer).expect("a decision");
        assert_eq!(chat, "ahp-chat:/c");
        serde_json::to_value(action).expect("JSON")
    }

    #[test]
    fn a_form_is_asked_and_answered() {
        let options = json!([{ "id": "s", "label": "Small" }, { "id": "l", "label": "Large", "recommended": true }]);
        let input = input(&json!([
            { "kind": "text", "id": "name", "message": "Your name?", "required": true, "max": 20 },
            { "kind": "integer", "id": "nights", "message": "Nights?", "min": 1.0 },
            { "kind": "boolean", "id": "dog", "message": "A dog?" },
            { "kind": "single-select", "id": "room", "title": "Room", "message": "Which room?", "options": options },
            { "kind": "multi-select", "id": "meals", "message": "Meals?", "options": options },
        ]));
        let Question::Ask("elicitation/create", params) = question_of(&input, true) else {
            panic!("no form");
        };
        let schema = &params["requestedSchema"];
        assert_eq!(
            (&params["mode"], &schema["required"]),
            (&json!("form"), &json!(["name"]))
        );
        assert_eq!(schema["properties"]["nights"]["minimum"], 1);
        let room = &schema["properties"]["room"];
        assert_eq!((&room["title"], &room["default"]), (&json!("Room"), &json!("l")));
        assert_eq!(room["oneOf"][0], json!({ "const": "s", "title": "Small" }));
        let content = json!({ "name": "Ada", "nights": 2, "dog": true, "room": "l", "meals": ["s"], "other": 1 });
        let action = decided(&input, &json!({ "action": "accept", "content": content }));
        assert_eq!(
            (&action["type"], &action["response"]),
            (&json!("chat/inputCompleted"), &json!("accept"))
        );
        assert_eq!(action["answers"].as_object().map(serde_json::Map::len), Some(5));
        assert_eq!(action["answers"]["room"]["value"]["value"], "l");
        assert_eq!(decided(&input, &json!({ "action": "decline" }))["response"], "decline");
        // Without forms the questions are a text.
        let Question::Tell(text) = question_of(&input, false) else {
            panic!("no text");
        };
        assert!(
            text.contains("Rooms?") && text.contains("- Large") && text.contains("innkeeper answer"),
            "{text}"
        );
    }

    #[test]
    fn a_choice_is_a_permission_where_there_are_no_forms() {
        let options = json!([{ "id": "s", "label": "Small" }, { "id": "l", "label": "Large" }]);
        let input = input(&json!([{ "kind": "single-select", "id": "room", "message": "Room?", "options": options }]));
        let Question::Ask("session/request_permission", params) = question_of(&input, false) else {
            panic!("no permission");
        };
        assert_eq!(
            (&params["toolCall"]["title"], &params["options"][1]["name"]),
            (&json!("Room?"), &json!("Large"))
        );
        let chosen = json!({ "outcome": { "outcome": "selected", "optionId": "l" } });
        assert_eq!(decided(&input, &chosen)["answers"]["room"]["value"]["value"], "l");
        let closed = json!({ "outcome": { "outcome": "cancelled" } });
        assert_eq!(decided(&input, &closed)["response"], "cancel");
    }
}

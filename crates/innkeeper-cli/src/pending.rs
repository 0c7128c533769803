//! `innkeeper pending`, `approve`, `deny` and `answer`: the input that sessions wait for.
//!
//! The sessions' own lists have everything that waits, including requests of nested subagents.

use std::collections::HashMap;

use ahp::SubscriptionEvent;
use ahp_types::actions::{
    ChatInputCompletedAction, ChatToolCallConfirmedAction, ChatToolCallResultConfirmedAction, StateAction,
};
use ahp_types::common::StringOrMarkdown;
use ahp_types::state::{
    ChatInputAnswer, ChatInputAnswerValue, ChatInputAnswered, ChatInputBooleanAnswerValue, ChatInputNumberAnswerValue,
    ChatInputQuestion, ChatInputRequest, ChatInputResponseKind, ChatInputSelectedAnswerValue,
    ChatInputSelectedManyAnswerValue, ChatInputTextAnswerValue, FileEditCollection, SessionInputRequest, SessionState,
    SessionStatus, ToolCallConfirmationState, ToolCallContributor,
};
use serde_json::json;

use crate::args::{AnswerArgs, ApproveArgs, DenyArgs, PendingArgs};
use crate::discovery::DataDir;
use crate::failure::{Failure, Kind};
use crate::terminal::{Output, note, one_line};

use crate::connection::{Connection, connection_lost, edit_contents, request_failure};
use crate::format::plain_text;
use crate::format::tool_call;
use crate::mcp;
use crate::sessions::all_sessions;

/// Longest line about a pending input, in characters.
pub(super) const MAX_LINE: usize = 200;

/// An input that a session waits for.
pub(super) struct PendingInput {
    pub(super) session: String,
    pub(super) request: SessionInputRequest,
    /// The MCP server that it concerns, if any.
    server: Option<String>,
    /// The file changes of a tool call, with the contents that could be read.
    edits: Option<FileEditCollection>,
}

/// Lists pending inputs.
pub(crate) async fn list(dir: &DataDir, args: PendingArgs) -> Result<(), Failure> {
    let connection = Connection::open(dir, &args.connect).await?;
    let waits = all_waits(&connection).await?;
    connection.close().await;
    let mut output = Output::stdout();
    for wait in &waits {
        if args.json {
            let line = json!({ "session": wait.session, "request": wait.request });
            output.show(&format!("{line}\n"))?;
        } else {
            output.show(&format!("{}\n  {}\n", wait.id(), one_line(&wait.describe(), MAX_LINE)))?;
            for line in wait.details() {
                output.show(&format!("  {line}\n"))?;
            }
            for hint in wait.hints() {
                output.show(&format!("  {}\n", one_line(&hint, 400)))?;
            }
        }
    }
    if waits.is_empty() && !args.json {
        note("Nothing waits for an answer.");
    }
    Ok(())
}

/// Approves a tool call, or its result.
pub(crate) async fn approve(dir: &DataDir, args: ApproveArgs) -> Result<(), Failure> {
    let mut connection = Connection::open(dir, &args.connect).await?;
    let wait = find(&connection, args.id.as_deref(), PendingInput::is_confirmation).await?;
    // Show the call to users who approve it without listing it first.
    note(&one_line(&wait.describe(), MAX_LINE));
    for line in wait.details() {
        note(&line);
    }
    let (chat, mut action) = decision(wait.request, true, args.option, args.input, None)?;
    if let (Some(rule), StateAction::ChatToolCallConfirmed(confirmed)) = (args.rule, &mut action) {
        let meta = confirmed.meta.get_or_insert_default();
        meta.insert("innkeeper.rule".to_owned(), rule.into());
    }
    settle(&mut connection, &chat, action).await?;
    connection.close().await;
    note("Approved.");
    Ok(())
}

/// Denies a tool call, or its result.
pub(crate) async fn deny(dir: &DataDir, args: DenyArgs) -> Result<(), Failure> {
    let mut connection = Connection::open(dir, &args.connect).await?;
    let wait = find(&connection, args.id.as_deref(), PendingInput::is_confirmation).await?;
    let described = one_line(&wait.describe(), MAX_LINE);
    let (chat, action) = decision(wait.request, false, None, None, args.because)?;
    settle(&mut connection, &chat, action).await?;
    connection.close().await;
    note(&format!("Denied: {described}"));
    Ok(())
}

/// Answers an agent's questions.
pub(crate) async fn answer(dir: &DataDir, args: AnswerArgs) -> Result<(), Failure> {
    let mut connection = Connection::open(dir, &args.connect).await?;
    let wait = find(&connection, args.id.as_deref(), |wait| {
        matches!(wait.request, SessionInputRequest::ChatInput(_))
    })
    .await?;
    let SessionInputRequest::ChatInput(asked) = wait.request else {
        return Err(Failure::new(Kind::Usage, "this is not a question"));
    };
    let answers = answers(&asked.request, &args.values)?;
    let action = StateAction::ChatInputCompleted(ChatInputCompletedAction {
        request_id: asked.request.id,
        response: if args.decline {
            ChatInputResponseKind::Decline
        } else {
            ChatInputResponseKind::Accept
        },
        answers: (!answers.is_empty()).then_some(answers),
    });
    settle(&mut connection, &asked.chat, action).await?;
    connection.close().await;
    Ok(())
}

/// Returns the pending inputs of all sessions.
async fn all_waits(connection: &Connection) -> Result<Vec<PendingInput>, Failure> {
    let mut waits = Vec::new();
    for session in all_sessions(connection).await? {
        let busy = SessionStatus::InProgress.bits();
        if session.status & busy == 0 {
            continue;
        }
        let (state, _): (SessionState, i64) = connection.subscribe_to_state(&session.resource).await?;
        for request in state.input_needed.iter().flatten() {
            let mut wait = PendingInput::new(&state, session.resource.clone(), request.clone());
            // Only subscribers of the session may read its contents.
            if let Some(changes) = &mut wait.edits {
                edit_contents::fetch(connection, changes).await;
            }
            waits.push(wait);
        }
        let _ = connection.client.unsubscribe(session.resource.clone()).await;
    }
    Ok(waits)
}

/// Returns the pending input with this id or part of an id; without an id, the only one.
async fn find(
    connection: &Connection,
    id: Option<&str>,
    kind: impl Fn(&PendingInput) -> bool,
) -> Result<PendingInput, Failure> {
    let waits = all_waits(connection).await?.into_iter();
    let mut fitting: Vec<PendingInput> = waits
        .filter(|wait| kind(wait) && id.is_none_or(|id| wait.id().contains(id)))
        .collect();
    if let Some(exact) = fitting.iter().position(|wait| Some(wait.id()) == id) {
        return Ok(fitting.swap_remove(exact));
    }
    match (fitting.len(), fitting.pop()) {
        (1, Some(wait)) => Ok(wait),
        (0, _) => Err(Failure::new(Kind::Rejected, "no pending input matches")
            .hint("`innkeeper pending` lists them; another client may have answered first")),
        (count, _) => Err(
            Failure::new(Kind::Usage, format!("{count} inputs are pending; name one of them"))
                .hint("`innkeeper pending` shows their ids; a part of an id is enough"),
        ),
    }
}

/// Dispatches an action and waits until the host accepts or rejects it.
pub(super) async fn settle(connection: &mut Connection, channel: &str, action: StateAction) -> Result<(), Failure> {
    // Only subscribers get the echo; a rejection would come anyway.
    connection.subscribe(channel).await?;
    let handle = connection
        .client
        .dispatch(channel.to_owned(), action)
        .await
        .map_err(|error| request_failure("dispatchAction", error))?;
    let timeout = std::time::Duration::from_secs(30);
    let echoed = async {
        loop {
            let event = connection.events.recv().await.ok_or_else(connection_lost)?;
            if let SubscriptionEvent::Action(envelope) = event.event
                && let Some(origin) = &envelope.origin
                && origin.client_id == connection.client_id
                && origin.client_seq == handle.client_seq
            {
                return Ok(envelope);
            }
        }
    };
    let envelope = tokio::time::timeout(timeout, echoed)
        .await
        .map_err(|_| Failure::new(Kind::Unreachable, "the host did not confirm it within 30 seconds"))??;
    match envelope.rejection_reason {
        None => Ok(()),
        Some(reason) => Err(Failure::new(
            Kind::Rejected,
            format!("the host rejected it: {}", one_line(&reason, 500)),
        )),
    }
}

impl PendingInput {
    pub(super) fn new(state: &SessionState, session: String, request: SessionInputRequest) -> Self {
        let server = match &request {
            SessionInputRequest::ToolAuthentication(request) => match &request.tool_call.contributor {
                Some(ToolCallContributor::Mcp(server)) => mcp::name_of(state, &server.customization_id),
                _ => None,
            },
            _ => None,
        };
        let edits = match &request {
            SessionInputRequest::ToolConfirmation(request) => match &request.tool_call {
                ToolCallConfirmationState::PendingConfirmation(call) => call.edits.clone(),
                _ => None,
            },
            _ => None,
        };
        Self {
            session,
            request,
            server,
            edits,
        }
    }

    pub(super) fn id(&self) -> &str {
        match &self.request {
            SessionInputRequest::ChatInput(request) => &request.id,
            SessionInputRequest::ToolConfirmation(request) => &request.id,
            SessionInputRequest::ToolClientExecution(request) => &request.id,
            SessionInputRequest::ToolAuthentication(request) => &request.id,
            SessionInputRequest::Unknown(_) => "?",
        }
    }

    /// Returns the chat that waits.
    pub(super) fn chat(&self) -> Option<&str> {
        match &self.request {
            SessionInputRequest::ChatInput(request) => Some(&request.chat),
            SessionInputRequest::ToolConfirmation(request) => Some(&request.chat),
            SessionInputRequest::ToolClientExecution(request) => Some(&request.chat),
            SessionInputRequest::ToolAuthentication(request) => Some(&request.chat),
            SessionInputRequest::Unknown(_) => None,
        }
    }

    /// Returns the file changes of a tool call, to add their contents.
    pub(super) fn edits_mut(&mut self) -> Option<&mut FileEditCollection> {
        self.edits.as_mut()
    }

    fn is_confirmation(&self) -> bool {
        matches!(self.request, SessionInputRequest::ToolConfirmation(_))
    }

    pub(super) fn describe(&self) -> String {
        match &self.request {
            SessionInputRequest::ChatInput(request) => {
                let message = request
                    .request
                    .message
                    .as_deref()
                    .unwrap_or("The agent asks something.");
                format!("question: {message}")
            }
            SessionInputRequest::ToolConfirmation(request) => match &request.tool_call {
                ToolCallConfirmationState::PendingConfirmation(call) => {
                    format!(
                        "approval: {}: {}",
                        call.display_name,
                        plain_text(&call.invocation_message)
                    )
                }
                ToolCallConfirmationState::PendingResultConfirmation(call) => {
                    format!(
                        "result: {}: {}",
                        call.display_name,
                        plain_text(&call.past_tense_message)
                    )
                }
                ToolCallConfirmationState::Unknown(_) => "approval of a kind this program does not know".to_owned(),
            },
            SessionInputRequest::ToolClientExecution(request) => format!(
                "running in the client {}: {}",
                request.client_id, request.tool_call.display_name
            ),
            SessionInputRequest::ToolAuthentication(request) => {
                let resource = &request.tool_call.auth.resource;
                let name = resource.resource_name.as_deref().unwrap_or(&resource.resource);
                let of = self.server.as_ref().map(|server| format!(" of {server}"));
                format!(
                    "sign-in: {}{} wants you to sign in to {name}",
                    request.tool_call.display_name,
                    of.unwrap_or_default()
                )
            }
            SessionInputRequest::Unknown(_) => "something this program does not know".to_owned(),
        }
    }

    /// Returns the full input of a tool call: its invocation message may leave out the part that matters.
    pub(super) fn details(&self) -> Vec<String> {
        let request = match &self.request {
            SessionInputRequest::ToolConfirmation(request) => request,
            SessionInputRequest::ChatInput(request) => {
                let message = request.request.message.as_deref().unwrap_or_default();
                return tool_call::whole(message, MAX_LINE);
            }
            _ => return Vec::new(),
        };
        match &request.tool_call {
            ToolCallConfirmationState::PendingConfirmation(call) => {
                tool_call::lines(call.tool_input.as_ref(), self.edits.as_ref())
            }
            ToolCallConfirmationState::PendingResultConfirmation(call) => {
                tool_call::lines(call.tool_input.as_ref(), None)
            }
            ToolCallConfirmationState::Unknown(_) => Vec::new(),
        }
    }

    /// Returns the commands that answer it.
    pub(super) fn hints(&self) -> Vec<String> {
        match &self.request {
            SessionInputRequest::ToolConfirmation(request) => match &request.tool_call {
                ToolCallConfirmationState::PendingConfirmation(call) => call
                    .options
                    .iter()
                    .flatten()
                    .map(|option| format!("--option {}: {}", option.id, option.label))
                    .collect(),
                _ => Vec::new(),
            },
            SessionInputRequest::ChatInput(request) => {
                let mut hints: Vec<String> = request.request.url.iter().map(|url| format!("visit {url}")).collect();
                hints.extend(request.request.questions.iter().flatten().filter_map(question_hint));
                hints
            }
            _ => self.sign_in_command().into_iter().collect(),
        }
    }

    /// Returns the command that signs in, if the session waits for that.
    pub(super) fn sign_in_command(&self) -> Option<String> {
        let SessionInputRequest::ToolAuthentication(_) = &self.request else {
            return None;
        };
        let name = self.server.as_ref().map(|server| format!(" '{server}'"));
        Some(format!(
            "innkeeper mcp auth{} --session {}",
            name.unwrap_or_default(),
            self.session
        ))
    }
}

/// Returns the action that approves or denies a call or its result, and the chat to dispatch it to.
pub(super) fn decision(
    request: SessionInputRequest,
    approved: bool,
    option: Option<String>,
    input: Option<String>,
    because: Option<String>,
) -> Result<(String, StateAction), Failure> {
    let SessionInputRequest::ToolConfirmation(request) = request else {
        return Err(Failure::new(Kind::Usage, "this is not an approval"));
    };
    let action = match request.tool_call {
        ToolCallConfirmationState::PendingConfirmation(call) => {
            StateAction::ChatToolCallConfirmed(ChatToolCallConfirmedAction {
                turn_id: request.turn_id,
                tool_call_id: call.tool_call_id,
                meta: None,
                approved,
                confirmed: None,
                reason: None,
                edited_tool_input: input,
                user_suggestion: None,
                reason_message: because.map(StringOrMarkdown::Plain),
                selected_option_id: option,
            })
        }
        ToolCallConfirmationState::PendingResultConfirmation(call) => {
            if option.is_some() || input.is_some() || because.is_some() {
                return Err(Failure::new(
                    Kind::Usage,
                    "a result is approved or denied without an option, an input or a reason",
                ));
            }
            StateAction::ChatToolCallResultConfirmed(ChatToolCallResultConfirmedAction {
                turn_id: request.turn_id,
                tool_call_id: call.tool_call_id,
                meta: None,
                approved,
            })
        }
        ToolCallConfirmationState::Unknown(_) => {
            return Err(Failure::new(
                Kind::Unexpected,
                "this approval is of a kind this program does not know",
            ));
        }
    };
    Ok((request.chat, action))
}

/// Parses `question=value` arguments by the types of the questions.
fn answers(request: &ChatInputRequest, words: &[String]) -> Result<HashMap<String, ChatInputAnswer>, Failure> {
    let questions = request.questions.as_deref().unwrap_or_default();
    let known = || {
        let ids: Vec<&str> = questions.iter().filter_map(question_id).collect();
        format!("the questions are: {}", ids.join(", "))
    };
    let mut answers = HashMap::new();
    // With a single question there is nothing to name.
    let named = match (questions, words) {
        ([only], [word]) if !is_named(only, word) => question_id(only).map(|id| format!("{id}={word}")),
        _ => None,
    };
    for word in named.as_ref().map_or(words, std::slice::from_ref) {
        let Some((id, text)) = word.split_once('=') else {
            return Err(
                Failure::new(Kind::Usage, format!("{word:?} is not of the form question=answer")).hint(known()),
            );
        };
        let Some(question) = questions.iter().find(|question| question_id(question) == Some(id)) else {
            return Err(Failure::new(Kind::Usage, format!("there is no question {id:?}")).hint(known()));
        };
        let value = value(question, text).ok_or_else(|| {
            Failure::new(
                Kind::Usage,
                format!("{text:?} is not a valid answer to the question {id:?}"),
            )
        })?;
        answers.insert(id.to_owned(), ChatInputAnswer::Submitted(ChatInputAnswered { value }));
    }
    Ok(answers)
}

/// Returns whether an answer names its question.
fn is_named(question: &ChatInputQuestion, word: &str) -> bool {
    word.split_once('=')
        .is_some_and(|(id, _)| question_id(question) == Some(id))
}

pub(super) fn value(question: &ChatInputQuestion, text: &str) -> Option<ChatInputAnswerValue> {
    let text = text.to_owned();
    Some(match question {
        ChatInputQuestion::Text(_) => ChatInputAnswerValue::Text(ChatInputTextAnswerValue { value: text }),
        ChatInputQuestion::Number(_) | ChatInputQuestion::Integer(_) => {
            ChatInputAnswerValue::Number(ChatInputNumberAnswerValue {
                value: text.parse().ok()?,
            })
        }
        ChatInputQuestion::Boolean(_) => ChatInputAnswerValue::Boolean(ChatInputBooleanAnswerValue {
            value: match text.as_str() {
                "yes" | "true" => true,
                "no" | "false" => false,
                _ => return None,
            },
        }),
        ChatInputQuestion::SingleSelect(_) => ChatInputAnswerValue::Selected(ChatInputSelectedAnswerValue {
            value: text,
            freeform_values: None,
        }),
        ChatInputQuestion::MultiSelect(_) => ChatInputAnswerValue::SelectedMany(ChatInputSelectedManyAnswerValue {
            value: text.split(',').map(str::to_owned).collect(),
            freeform_values: None,
        }),
        ChatInputQuestion::Unknown(_) => return None,
    })
}

pub(super) fn question_id(question: &ChatInputQuestion) -> Option<&str> {
    match question {
        ChatInputQuestion::Text(question) => Some(&question.id),
        ChatInputQuestion::Number(question) | ChatInputQuestion::Integer(question) => Some(&question.id),
        ChatInputQuestion::Boolean(question) => Some(&question.id),
        ChatInputQuestion::SingleSelect(question) => Some(&question.id),
        ChatInputQuestion::MultiSelect(question) => Some(&question.id),
        ChatInputQuestion::Unknown(_) => None,
    }
}

fn question_hint(question: &ChatInputQuestion) -> Option<String> {
    let options = |options: &[ahp_types::state::ChatInputOption]| {
        let ids: Vec<&str> = options.iter().map(|option| option.id.as_str()).collect();
        ids.join("|")
    };
    let (id, message, form) = match question {
        ChatInputQuestion::Text(question) => (&question.id, &question.message, "words".to_owned()),
        ChatInputQuestion::Number(question) => (&question.id, &question.message, "number".to_owned()),
        ChatInputQuestion::Integer(question) => (&question.id, &question.message, "whole number".to_owned()),
        ChatInputQuestion::Boolean(question) => (&question.id, &question.message, "yes|no".to_owned()),
        ChatInputQuestion::SingleSelect(question) => (&question.id, &question.message, options(&question.options)),
        ChatInputQuestion::MultiSelect(question) => {
            let form = format!("{}, several with commas", options(&question.options));
            (&question.id, &question.message, form)
        }
        ChatInputQuestion::Unknown(_) => return None,
    };
    Some(format!("{id}=<{form}>: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_their_questions_want_them() {
        let request: ChatInputRequest = serde_json::from_value(json!({ "id": "q", "questions": [
            { "kind": "text", "id": "name", "message": "?" },
            { "kind": "integer", "id": "age", "message": "?" },
            { "kind": "boolean", "id": "sure", "message": "?" },
            { "kind": "multi-select", "id": "sizes", "message": "?", "options": [{ "id": "s", "label": "S" }] },
        ] }))
        .unwrap();
        let words = ["name=a=b", "age=7", "sure=yes", "sizes=s,m"].map(str::to_owned);
        let answers = answers(&request, &words).unwrap();
        let read = serde_json::to_value(&answers).unwrap();
        assert_eq!(read["name"]["value"]["value"], "a=b");
        assert_eq!(read["age"]["value"]["value"], 7.0);
        assert_eq!(read["sure"]["value"]["value"], true);
        assert_eq!(read["sizes"]["value"]["value"], json!(["s", "m"]));
        for wrong in ["name", "unknown=1", "age=old", "sure=perhaps"] {
            assert!(super::answers(&request, &[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_single_question_needs_no_name() {
        let request: ChatInputRequest = serde_json::from_value(json!({ "id": "q", "questions": [
            { "kind": "text", "id": "colour", "message": "?" },
        ] }))
        .unwrap();
        for (word, expected) in [("Red", "Red"), ("colour=Red", "Red"), ("a=b", "a=b")] {
            let answers = answers(&request, &[word.to_owned()]).unwrap();
            let read = serde_json::to_value(&answers).unwrap();
            assert_eq!(read["colour"]["value"]["value"], expected, "{word}");
        }
    }
}

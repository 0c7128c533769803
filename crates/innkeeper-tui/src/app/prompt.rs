//! The approval, question or sign-in that the shown session waits for.

pub(crate) mod form;

use ahp_types::actions::{
    ChatInputCompletedAction, ChatToolCallConfirmedAction, ChatToolCallResultConfirmedAction, StateAction,
};
use ahp_types::common::StringOrMarkdown;
use ahp_types::state::{
    ChatInputResponseKind, ConfirmationOptionKind, SessionInputRequest, ToolCallConfirmationState, ToolCallContributor,
    ToolInput,
};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::json;

use super::editor::Editor;
use super::{App, Focus, LinkStatus, Purpose};
use crate::event::{Effect, Outside};
use form::{Form, FormStep};

/// Keys that come so soon after a prompt appeared were meant for the message, in milliseconds.
const GUARD_MS: i64 = 600;

/// A request that waits, and the answer so far.
#[derive(Debug)]
pub struct Prompt {
    /// The id of the request in the session's list.
    pub(crate) id: String,
    pub(crate) answer: Answer,
    /// The answer is on its way.
    pub(crate) is_sent: bool,
    /// Lines of the details that are scrolled away.
    pub(crate) scroll: usize,
    appeared: i64,
}

/// The answer so far, by the kind of the request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A tool call, or its result.
    Decision {
        choices: Vec<Choice>,
        cursor: usize,
        /// The remark of a denial, while it is being written.
        remark: Option<Editor>,
        /// The input of the call, while it is being edited.
        input: Option<Editor>,
    },
    /// Questions.
    Form(Box<Form>),
    /// A token for a server, which the user pastes.
    SignIn(Editor),
    /// Another client does it.
    Elsewhere,
}

/// One way to decide about a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// An option that the host offers.
    Offered {
        id: Option<String>,
        label: String,
        approves: bool,
    },
    /// A denial with a reason for the agent.
    Remark,
    /// An approval with another input.
    Edit,
}

/// Returns the id of a request.
pub(crate) fn request_id(request: &SessionInputRequest) -> &str {
    match request {
        SessionInputRequest::ChatInput(request) => &request.id,
        SessionInputRequest::ToolConfirmation(request) => &request.id,
        SessionInputRequest::ToolClientExecution(request) => &request.id,
        SessionInputRequest::ToolAuthentication(request) => &request.id,
        SessionInputRequest::Unknown(_) => "",
    }
}

/// Returns the chat that a request belongs to.
pub(crate) fn request_chat(request: &SessionInputRequest) -> &str {
    match request {
        SessionInputRequest::ChatInput(request) => &request.chat,
        SessionInputRequest::ToolConfirmation(request) => &request.chat,
        SessionInputRequest::ToolClientExecution(request) => &request.chat,
        SessionInputRequest::ToolAuthentication(request) => &request.chat,
        SessionInputRequest::Unknown(_) => "",
    }
}

impl Answer {
    fn new(request: &SessionInputRequest) -> Self {
        match request {
            SessionInputRequest::ToolConfirmation(request) => Self::Decision {
                choices: choices(&request.tool_call),
                cursor: 0,
                remark: None,
                input: None,
            },
            SessionInputRequest::ChatInput(request) => Self::Form(Box::new(Form::new(&request.request))),
            SessionInputRequest::ToolAuthentication(_) => Self::SignIn(Editor::default()),
            SessionInputRequest::ToolClientExecution(_) | SessionInputRequest::Unknown(_) => Self::Elsewhere,
        }
    }
}

fn choices(call: &ToolCallConfirmationState) -> Vec<Choice> {
    let offered = |id: Option<&str>, label: &str, approves| Choice::Offered {
        id: id.map(str::to_owned),
        label: label.to_owned(),
        approves,
    };
    match call {
        ToolCallConfirmationState::PendingConfirmation(call) => {
            let options = call.options.iter().flatten();
            let mut choices: Vec<Choice> = options
                .map(|option| {
                    offered(
                        Some(&option.id),
                        &option.label,
                        option.kind == ConfirmationOptionKind::Approve,
                    )
                })
                .collect();
            if choices.is_empty() {
                choices = vec![offered(None, "Allow", true), offered(None, "Deny", false)];
            }
            choices.push(Choice::Remark);
            if call.editable == Some(true) && matches!(call.tool_input, Some(ToolInput::Inline(_))) {
                choices.push(Choice::Edit);
            }
            choices
        }
        ToolCallConfirmationState::PendingResultConfirmation(_) => vec![
            offered(None, "Give this result to the agent", true),
            offered(None, "Keep the result back", false),
        ],
        ToolCallConfirmationState::Unknown(_) => Vec::new(),
    }
}

impl App {
    /// Returns the request that the prompt is about.
    pub(crate) fn prompt_request(&self) -> Option<&SessionInputRequest> {
        let id = &self.prompt.as_ref()?.id;
        let needed = self.session()?.input_needed.iter().flatten();
        needed.into_iter().find(|request| request_id(request) == id)
    }

    /// Shows the next request of the session, those of the shown chat first. A request in hand stays until it is gone.
    pub(super) fn follow_prompt(&mut self) {
        if self.prompt.is_some() && self.prompt_request().is_some() {
            return;
        }
        let had_prompt = self.prompt.take().is_some();
        let chat = self.chat_uri().map(str::to_owned);
        let is_ours = |request: &&SessionInputRequest| Some(request_chat(request)) == chat.as_deref();
        let needed = || self.session().and_then(|session| session.input_needed.as_deref());
        let is_known = |request: &&SessionInputRequest| !request_id(request).is_empty();
        let next = needed().into_iter().flatten().filter(is_known).find(is_ours);
        let next = next.or_else(|| needed().into_iter().flatten().find(is_known));
        match next {
            Some(request) => {
                self.prompt = Some(Prompt {
                    id: request_id(request).to_owned(),
                    answer: Answer::new(request),
                    is_sent: false,
                    scroll: 0,
                    appeared: self.now.as_millisecond(),
                });
                if self.focus == Focus::Composer && !self.has_text() && self.dialog.is_none() {
                    self.focus = Focus::Prompt;
                }
            }
            None if had_prompt && self.focus == Focus::Prompt => self.focus = Focus::Composer,
            None => {}
        }
        if self.prompt.is_none() && self.focus == Focus::Prompt {
            self.focus = Focus::Composer;
        }
    }

    pub(super) fn prompt_answered(&mut self, id: &str) {
        if self.prompt.as_ref().is_some_and(|prompt| prompt.id == id) {
            self.follow_prompt();
        }
    }

    /// Handles a key while the prompt has the focus. Returns false if the key means nothing here.
    pub(super) fn handle_prompt_key(&mut self, key: KeyEvent) -> bool {
        let now = self.now.as_millisecond();
        let Some(prompt) = &mut self.prompt else {
            return false;
        };
        let is_plain = !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        let is_typing = matches!(key.code, KeyCode::Char(_) | KeyCode::Enter | KeyCode::Backspace) && is_plain;
        if is_typing && now - prompt.appeared < GUARD_MS {
            // The user was writing when the question came.
            self.focus = Focus::Composer;
            return false;
        }
        if prompt.is_sent {
            return is_typing;
        }
        match key.code {
            KeyCode::PageUp => prompt.scroll = prompt.scroll.saturating_sub(5),
            KeyCode::PageDown => prompt.scroll += 5,
            _ => match &prompt.answer {
                Answer::Decision { .. } => return self.handle_decision_key(key),
                Answer::Form(_) => return self.handle_form_key(key),
                Answer::SignIn(_) => return self.handle_sign_in_key(key),
                Answer::Elsewhere => return false,
            },
        }
        true
    }

    fn handle_decision_key(&mut self, key: KeyEvent) -> bool {
        let Some(Prompt {
            answer:
                Answer::Decision {
                    choices,
                    cursor,
                    remark,
                    input,
                },
            ..
        }) = &mut self.prompt
        else {
            return false;
        };
        if let Some(editor) = remark {
            match key.code {
                KeyCode::Enter => {
                    let because = editor.text().trim().to_owned();
                    return self.decide(false, None, None, (!because.is_empty()).then_some(because));
                }
                KeyCode::Esc => *remark = None,
                _ => return editor.handle(key),
            }
            return true;
        }
        if let Some(editor) = input {
            let is_newline = key.code == KeyCode::Enter && key.modifiers.contains(KeyModifiers::ALT);
            match key.code {
                KeyCode::Enter if is_newline => editor.insert("\n"),
                KeyCode::Enter => {
                    let text = editor.text().to_owned();
                    return self.decide(true, None, Some(text), None);
                }
                KeyCode::Esc => *input = None,
                KeyCode::Up => return editor.move_vertically(-1, 60),
                KeyCode::Down => return editor.move_vertically(1, 60),
                _ => return editor.handle(key),
            }
            return true;
        }
        if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            return false;
        }
        let last = choices.len().saturating_sub(1);
        match key.code {
            KeyCode::Up | KeyCode::Char('k') => *cursor = cursor.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => *cursor = (*cursor + 1).min(last),
            KeyCode::Enter => {
                let choice = choices.get(*cursor).cloned();
                return self.choose(choice);
            }
            KeyCode::Char(digit @ '1'..='9') => {
                let index = digit.to_digit(10).unwrap_or(1) as usize - 1;
                let choice = choices.get(index).cloned();
                return self.choose(choice);
            }
            KeyCode::Char('r') => return self.choose(Some(Choice::Remark)),
            KeyCode::Char('e') if choices.contains(&Choice::Edit) => return self.choose(Some(Choice::Edit)),
            KeyCode::Esc => self.focus = Focus::Composer,
            // Other letters belong to a message that the user begins to write.
            KeyCode::Char(_) => {
                self.focus = Focus::Composer;
                return false;
            }
            _ => return false,
        }
        true
    }

    fn choose(&mut self, choice: Option<Choice>) -> bool {
        let text = match self.prompt_request() {
            Some(SessionInputRequest::ToolConfirmation(request)) => match &request.tool_call {
                ToolCallConfirmationState::PendingConfirmation(call) => match &call.tool_input {
                    Some(ToolInput::Inline(text)) => text.clone(),
                    _ => String::new(),
                },
                _ => String::new(),
            },
            _ => String::new(),
        };
        let Some(Prompt {
            answer: Answer::Decision { remark, input, .. },
            ..
        }) = &mut self.prompt
        else {
            return false;
        };
        match choice {
            Some(Choice::Offered { id, approves, .. }) => return self.decide(approves, id, None, None),
            Some(Choice::Remark) => *remark = Some(Editor::default()),
            Some(Choice::Edit) => *input = Some(Editor::new(text)),
            None => return false,
        }
        true
    }

    fn decide(
        &mut self,
        approved: bool,
        option: Option<String>,
        edited_tool_input: Option<String>,
        because: Option<String>,
    ) -> bool {
        let Some(SessionInputRequest::ToolConfirmation(request)) = self.prompt_request().cloned() else {
            return false;
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
                    edited_tool_input,
                    user_suggestion: None,
                    reason_message: because.map(StringOrMarkdown::Plain),
                    selected_option_id: option,
                })
            }
            ToolCallConfirmationState::PendingResultConfirmation(call) => {
                StateAction::ChatToolCallResultConfirmed(ChatToolCallResultConfirmedAction {
                    turn_id: request.turn_id,
                    tool_call_id: call.tool_call_id,
                    meta: None,
                    approved,
                })
            }
            ToolCallConfirmationState::Unknown(_) => return false,
        };
        self.answer(request.id, &request.chat, action)
    }

    fn answer(&mut self, id: String, chat: &str, action: StateAction) -> bool {
        if self.status != LinkStatus::Connected {
            self.complain("Not connected. Answer when the host is back.");
            return true;
        }
        if let Some(prompt) = &mut self.prompt {
            prompt.is_sent = true;
        }
        self.dispatch(Purpose::Answer(id), chat, action);
        true
    }

    fn handle_form_key(&mut self, key: KeyEvent) -> bool {
        let Some(Prompt {
            answer: Answer::Form(form),
            ..
        }) = &mut self.prompt
        else {
            return false;
        };
        match form.handle(key) {
            FormStep::Stay => true,
            FormStep::Leave => {
                self.focus = Focus::Composer;
                true
            }
            FormStep::Ignored => false,
            FormStep::Wrong(reason) => {
                self.complain(&reason);
                true
            }
            FormStep::Decline => self.complete_form(ChatInputResponseKind::Decline),
            FormStep::Submit => self.complete_form(ChatInputResponseKind::Accept),
        }
    }

    fn complete_form(&mut self, response: ChatInputResponseKind) -> bool {
        let Some(SessionInputRequest::ChatInput(request)) = self.prompt_request().cloned() else {
            return false;
        };
        let answers = match (&self.prompt, response) {
            (
                Some(Prompt {
                    answer: Answer::Form(form),
                    ..
                }),
                ChatInputResponseKind::Accept,
            ) => form.answers(),
            _ => Default::default(),
        };
        let action = StateAction::ChatInputCompleted(ChatInputCompletedAction {
            request_id: request.request.id,
            response,
            answers: (!answers.is_empty()).then_some(answers),
        });
        self.answer(request.id, &request.chat, action)
    }

    fn handle_sign_in_key(&mut self, key: KeyEvent) -> bool {
        let Some(SessionInputRequest::ToolAuthentication(request)) = self.prompt_request().cloned() else {
            return false;
        };
        let session = self.session_uri().unwrap_or_default().to_owned();
        let Some(Prompt {
            answer: Answer::SignIn(token),
            ..
        }) = &mut self.prompt
        else {
            return false;
        };
        match key.code {
            KeyCode::Esc => self.focus = Focus::Composer,
            KeyCode::Enter if token.is_empty() => {
                if !matches!(request.tool_call.contributor, Some(ToolCallContributor::Mcp(_))) {
                    self.complain("Paste a token first.");
                    return true;
                }
                // The sign-in opens a browser and prints what it waits for.
                let command = ["mcp", "auth", "--session", &session].map(str::to_owned);
                self.effects.push(Effect::Outside(Outside::Command(command.to_vec())));
            }
            KeyCode::Enter => {
                let token = token.take();
                let resource = &request.tool_call.auth.resource.resource;
                let params =
                    json!({ "channel": ahp_types::ROOT_RESOURCE_URI, "resource": resource, "token": token.trim() });
                self.request(Purpose::Report("Signed in."), "authenticate", params);
            }
            _ => return token.handle(key),
        }
        true
    }
}

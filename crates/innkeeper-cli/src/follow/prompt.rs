//! Asks the user on the terminal for the input that a session waits for.
//!
//! The list of the session has everything that waits, including requests of subagents. One input is asked at a time.
//! Another client may answer first; then the question is withdrawn and the next one follows.

mod confirmation;
mod form;
mod lines;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ahp_types::actions::StateAction;
use ahp_types::state::SessionInputRequest;

use crate::failure::Failure;
use crate::pending::{MAX_LINE, PendingInput, decision};
use crate::terminal::{note, one_line};

use confirmation::{Choice, Confirmation};
use form::Form;
use lines::Lines;

/// A line that arrives so soon after a question replaced a withdrawn one was typed for the withdrawn one.
const REACTION_TIME: Duration = Duration::from_secs(2);

/// The user's answer to one input: an action, and the chat to dispatch it to.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) chat: String,
    pub(crate) action: StateAction,
}

/// The questions to the user.
pub(crate) struct Prompt {
    lines: Lines,
    waiting: VecDeque<PendingInput>,
    current: Option<OpenQuestion>,
    /// When a question replaced one that another client had answered.
    replaced_at: Option<Instant>,
}

/// The input that is asked for.
struct OpenQuestion {
    input: PendingInput,
    step: Step,
}

enum Step {
    Confirm(Confirmation),
    Edit,
    Form(Form),
    /// Nothing can be typed; the input waits for something else.
    Watch,
    /// The reply is on its way, under this number of the client.
    Sent(Option<i64>),
}

impl Prompt {
    /// Opens the prompt, if both the user's input and the questions are on a terminal.
    pub(crate) fn on_terminal() -> Option<Self> {
        use std::io::IsTerminal as _;
        let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        is_terminal.then(|| Self {
            lines: Lines::default(),
            waiting: VecDeque::new(),
            current: None,
            replaced_at: None,
        })
    }

    /// Asks for an input, now or after those that were first. A repeated request changes nothing.
    pub(crate) fn add(&mut self, input: PendingInput) {
        let current = self.current.iter().map(|asked| &asked.input);
        if current.chain(&self.waiting).any(|known| known.id() == input.id()) {
            return;
        }
        self.waiting.push_back(input);
        self.ask_next();
    }

    /// Withdraws an input that no longer waits.
    pub(crate) fn withdraw(&mut self, id: &str) {
        self.waiting.retain(|input| input.id() != id);
        let Some(asked) = self.current.take_if(|asked| asked.input.id() == id) else {
            return;
        };
        if !matches!(asked.step, Step::Sent(_)) {
            note("[this was settled elsewhere]");
            self.replaced_at = Some(Instant::now());
        }
        self.ask_next();
    }

    /// Waits for the next line of the user. It never returns while nothing is asked.
    pub(crate) async fn next_line(&mut self) -> Option<String> {
        match &self.current {
            Some(asked) if asked.expects_line() => self.lines.next().await,
            Some(OpenQuestion { step: Step::Edit, .. }) => self.lines.next_edit().await,
            _ => std::future::pending().await,
        }
    }

    /// Takes a line; `None` is the end of the input, after which nothing more is asked.
    pub(crate) fn enter(&mut self, line: Option<String>) -> Result<Option<Reply>, Failure> {
        let Some(line) = line else {
            note("[the input has ended; answer with `innkeeper approve`, `deny` or `answer`]");
            self.current = None;
            self.waiting.clear();
            return Ok(None);
        };
        if self.replaced_at.take().is_some_and(|at| at.elapsed() < REACTION_TIME) {
            note("[this line came too soon after the question; answer again]");
            self.show();
            return Ok(None);
        }
        let Some(asked) = &mut self.current else {
            return Ok(None);
        };
        let reply = match &mut asked.step {
            Step::Confirm(confirmation) => match confirmation.parse(&line) {
                Some(Choice::Decide {
                    approved,
                    option,
                    because,
                }) => Some(decision(asked.input.request.clone(), approved, option, None, because)?),
                Some(Choice::Edit(text)) => {
                    match self.lines.edit(&text) {
                        Ok(()) => asked.step = Step::Edit,
                        Err(problem) => note(&format!("[{problem}]")),
                    }
                    None
                }
                None => {
                    note(&confirmation.usage());
                    None
                }
            },
            Step::Edit => {
                let request = asked.input.request.clone();
                Some(decision(request, true, None, Some(line), None)?)
            }
            Step::Form(form) => match form.enter(&line) {
                Ok(None) => {
                    form.show();
                    None
                }
                Ok(Some(action)) => Some((form.chat().to_owned(), action)),
                Err(problem) => {
                    note(&format!("[{problem}]"));
                    form.show();
                    None
                }
            },
            Step::Watch | Step::Sent(_) => None,
        };
        let Some((chat, action)) = reply else {
            return Ok(None);
        };
        asked.step = Step::Sent(None);
        Ok(Some(Reply { chat, action }))
    }

    /// The reply went out under this number of the client.
    pub(crate) fn sent(&mut self, seq: i64) {
        if let Some(OpenQuestion {
            step: Step::Sent(sent), ..
        }) = &mut self.current
        {
            *sent = Some(seq);
        }
    }

    /// Asks again if the host rejected the reply with this number.
    pub(crate) fn rejected(&mut self, seq: i64, reason: &str) {
        let is_ours = matches!(&self.current, Some(OpenQuestion { step: Step::Sent(Some(sent)), .. }) if *sent == seq);
        if is_ours && let Some(asked) = self.current.take() {
            note(&format!("[the host rejected the answer: {}]", one_line(reason, 500)));
            self.waiting.push_front(asked.input);
            self.ask_next();
        }
    }

    fn ask_next(&mut self) {
        if self.current.is_some() {
            return;
        }
        let Some(input) = self.waiting.pop_front() else {
            return;
        };
        // Lines from before the question are no answers to it.
        self.lines.discard();
        let step = match &input.request {
            SessionInputRequest::ToolConfirmation(request) => Step::Confirm(Confirmation::new(&request.tool_call)),
            SessionInputRequest::ChatInput(request) => Step::Form(Form::new(request)),
            _ => Step::Watch,
        };
        self.current = Some(OpenQuestion { input, step });
        self.show();
    }

    fn show(&self) {
        let Some(asked) = &self.current else { return };
        note("");
        note(&one_line(&asked.input.describe(), MAX_LINE));
        for line in asked.input.details() {
            note(&line);
        }
        match &asked.step {
            Step::Confirm(confirmation) => confirmation.show(),
            Step::Form(form) => form.show(),
            Step::Watch => {
                if let Some(command) = asked.input.sign_in_command() {
                    note(&format!("[sign in with `{command}` in another terminal]"));
                }
            }
            Step::Edit | Step::Sent(_) => {}
        }
    }
}

impl OpenQuestion {
    fn expects_line(&self) -> bool {
        matches!(self.step, Step::Confirm(_) | Step::Form(_))
    }
}

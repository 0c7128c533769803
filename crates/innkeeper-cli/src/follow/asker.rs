//! The side that answers the questions of a turn: the user at this terminal, a flag, or another client.

use ahp_types::actions::{ChatInputCompletedAction, StateAction};
use ahp_types::state::{ChatInputResponseKind, SessionInputRequest};

use crate::args::FollowArgs;
use crate::connection::{Connection, dispatch, edit_contents};
use crate::failure::Failure;
use crate::pending::{MAX_LINE, PendingInput, decision};
use crate::terminal::{note, one_line};

use super::output::Questions;
use super::prompt::Prompt;

/// Answers for the user of this command.
pub(super) enum Asker {
    /// The user, on this terminal.
    User(Box<Prompt>),
    /// `--deny` denies everything.
    Deny,
    /// Another client or command.
    Elsewhere,
}

impl Asker {
    pub(super) fn new(args: &FollowArgs) -> Self {
        if args.deny {
            return Self::Deny;
        }
        match Prompt::on_terminal().filter(|_| !args.json) {
            Some(prompt) => Self::User(Box::new(prompt)),
            None => Self::Elsewhere,
        }
    }

    /// Returns whether the output tells the user about questions.
    pub(super) fn questions(&self) -> Questions {
        match self {
            Self::User(_) | Self::Deny => Questions::Handled,
            Self::Elsewhere => Questions::Shown,
        }
    }

    /// Asks for an input, or denies it.
    pub(super) async fn add(&mut self, connection: &Connection, mut input: PendingInput) -> Result<(), Failure> {
        match self {
            Self::User(prompt) => {
                if let Some(edits) = input.edits_mut() {
                    edit_contents::fetch(connection, edits).await;
                }
                prompt.add(input);
                Ok(())
            }
            Self::Deny => deny(connection, input).await,
            Self::Elsewhere => Ok(()),
        }
    }

    pub(super) fn withdraw(&mut self, id: &str) {
        if let Self::User(prompt) = self {
            prompt.withdraw(id);
        }
    }

    pub(super) fn rejected(&mut self, seq: i64, reason: &str) {
        match self {
            Self::User(prompt) => prompt.rejected(seq, reason),
            // Another client answered before, or the turn has ended.
            Self::Deny | Self::Elsewhere => {}
        }
    }

    /// Waits for a line of the user.
    pub(super) async fn next_line(&mut self) -> Option<String> {
        match self {
            Self::User(prompt) => prompt.next_line().await,
            Self::Deny | Self::Elsewhere => std::future::pending().await,
        }
    }

    /// Takes a line of the user and dispatches the reply, if it is one.
    pub(super) async fn enter(&mut self, connection: &Connection, line: Option<String>) -> Result<(), Failure> {
        let Self::User(prompt) = self else {
            return Ok(());
        };
        if let Some(reply) = prompt.enter(line)? {
            let seq = dispatch(connection, &reply.chat, reply.action).await?;
            prompt.sent(seq);
        }
        Ok(())
    }
}

async fn deny(connection: &Connection, input: PendingInput) -> Result<(), Failure> {
    let described = one_line(&input.describe(), MAX_LINE);
    let reply = match input.request {
        SessionInputRequest::ToolConfirmation(_) => Some(decision(input.request, false, None, None, None)?),
        SessionInputRequest::ChatInput(asked) => {
            let declined = StateAction::ChatInputCompleted(ChatInputCompletedAction {
                request_id: asked.request.id,
                response: ChatInputResponseKind::Decline,
                answers: None,
            });
            Some((asked.chat, declined))
        }
        // Tools of other clients run there, and a sign-in cannot be denied.
        _ => None,
    };
    if let Some((chat, action)) = reply {
        note(&format!("[denied by --deny: {described}]"));
        dispatch(connection, &chat, action).await?;
    }
    Ok(())
}

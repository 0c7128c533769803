//! The input of an agent: about a chat when it opens, about a turn when it runs.

use std::ops::Deref;
use std::time::Duration;

use innkeeper_core::{ChannelId, ChatInfo, Input, OpenChat, TurnInfo, TurnStart};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::{Agent, AgentError, Credential, EventSink, PastTurn, PromptSection, RenderedPrompt, Secret, prompt};
use crate::agent::runtime::event_queue::LoopWaker;
use crate::main_loop::Message;
use crate::services::customizations::{Called, TurnCustomizations};
use crate::services::mcp::{Mcp, prompts};
use crate::services::prompt_transform::Renderer;

/// The chat that an agent opens. The fields of [`ChatInfo`] are read as its own: `cx.working_directories`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ChatContext {
    info: ChatInfo,
    /// The turns the chat had when it was opened: it was forked, truncated, or is opened again.
    pub history: Vec<PastTurn>,
    /// The number of turns before those. A chat may be longer than the history that an agent gets
    /// (`Limits::agent_history_bytes`): it gets the latest turns.
    pub omitted_turns: usize,
    /// The enabled customizations of the session. Each turn has its own, which may be more.
    pub customizations: TurnCustomizations,
    pub(crate) credentials: Vec<Credential>,
    reporter: Option<(ChannelId, mpsc::Sender<Message>)>,
    renderer: Renderer,
}

impl Deref for ChatContext {
    type Target = ChatInfo;

    fn deref(&self) -> &ChatInfo {
        &self.info
    }
}

impl ChatContext {
    /// Everything but the history, which has to be read first.
    pub(crate) fn new(open: OpenChat, waker: &LoopWaker, renderer: Renderer) -> Self {
        Self {
            info: open.info,
            history: Vec::new(),
            omitted_turns: 0,
            customizations: TurnCustomizations::default(),
            credentials: open.credentials,
            reporter: open.wants_progress.then(|| (open.chat, waker.inbox().clone())),
            renderer,
        }
    }

    /// Renders the system prompt that the chat starts with: a client that asked for some of the sections may rewrite
    /// them (SMT-06). If that fails, the sections stay as they are.
    ///
    /// # Errors
    ///
    /// When two sections have the same id.
    pub async fn render_prompt(&self, sections: Vec<PromptSection>) -> Result<RenderedPrompt, AgentError> {
        prompt::check(&sections)?;
        Ok(self.renderer.render(None, sections).await)
    }

    /// Returns the token for one of the agent's protected resources: that of the client that wants the chat opened,
    /// else of the client that created the session, else of an active client of the session. Each turn has its own
    /// ([`TurnInput::token`]), which may be another client's.
    pub fn token(&self, resource: &str) -> Option<Secret> {
        self.credential(resource).map(|credential| credential.token.clone())
    }

    /// The same with what it grants, if that is known.
    pub fn credential(&self, resource: &str) -> Option<&Credential> {
        find(&self.credentials, resource)
    }

    /// Reports the progress of opening to the clients that wait for the session (ROOT-17). Does nothing when no client
    /// waits. `total` is `None` while it is unknown.
    pub async fn progress(&self, done: u64, total: impl Into<Option<u64>>, message: impl Into<String>) {
        if let Some((chat, inbox)) = &self.reporter {
            let progress = Input::Progress {
                chat: *chat,
                done,
                total: total.into(),
                message: Some(message.into()),
            };
            let _ = inbox.send(Message::Core(progress)).await;
        }
    }
}

/// A turn to run. The fields of [`TurnInfo`] are read as its own: `turn.text`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TurnInput {
    info: TurnInfo,
    /// The enabled customizations of the session: skills, custom agents, prompts, rules.
    pub customizations: TurnCustomizations,
    /// The skill or the prompt that the message calls with `/name`, with its text. It is for the
    /// model; users go on seeing what they wrote.
    pub called: Option<Called>,
    credentials: Vec<Credential>,
}

impl Deref for TurnInput {
    type Target = TurnInfo;

    fn deref(&self) -> &TurnInfo {
        &self.info
    }
}

impl TurnInput {
    pub(crate) fn new(start: TurnStart, customizations: TurnCustomizations) -> Self {
        Self {
            info: start.info,
            customizations,
            called: None,
            credentials: start.credentials,
        }
    }

    /// Finds what the message calls, unless it is a command of the agent's own.
    pub(crate) async fn find_called(
        &mut self,
        agent: &dyn Agent,
        events: &EventSink,
        timeout: Duration,
    ) -> Result<(), AgentError> {
        if !self.text.trim_start().starts_with('/') {
            return Ok(());
        }
        let info = agent.info();
        let own: Vec<&str> = info.command_names().collect();
        let called = self
            .customizations
            .call(&self.text, &own, &self.working_directories)
            .await;
        self.called = called.map_err(|problem| AgentError::failed("cannotCall", problem))?;
        if self.called.is_none() && !is_called(&self.text, &own) {
            self.called = prompts::call(events, &self.text, timeout).await?;
        }
        Ok(())
    }

    /// The MCP servers of the session, and their tools.
    pub fn mcp(&self) -> &Mcp {
        self.customizations.mcp()
    }

    /// The token to use for one of the agent's protected resources in this turn and in the subagents
    /// it starts: of the client that started the turn, else of the one that created the session, else
    /// of one that takes part in it. A required one is always there.
    pub fn token(&self, resource: &str) -> Option<Secret> {
        self.credential(resource).map(|credential| credential.token.clone())
    }

    /// The same with what it grants, if that is known.
    pub fn credential(&self, resource: &str) -> Option<&Credential> {
        find(&self.credentials, resource)
    }
}

/// Whether a message calls one of an agent's own commands.
fn is_called(text: &str, own: &[&str]) -> bool {
    let line = text.trim().strip_prefix('/').unwrap_or_default();
    let word = line.split(char::is_whitespace).next().unwrap_or_default();
    own.contains(&word)
}

fn find<'a>(credentials: &'a [Credential], resource: &str) -> Option<&'a Credential> {
    credentials.iter().find(|credential| credential.resource == resource)
}

/// The text that a user has typed into a setting (CMP-06).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SettingQuery {
    /// The setting.
    pub setting: String,
    /// The typed text; empty at first.
    pub text: String,
    /// Where the session would work, as a URI.
    pub working_directory: Option<String>,
    /// The settings chosen so far.
    pub settings: Map<String, Value>,
}

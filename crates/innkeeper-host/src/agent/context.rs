//! What an agent is told: about a chat when it opens, about a turn when it runs.

use std::sync::Arc;
use std::time::Duration;

use innkeeper_core::{ChannelId, Input, OpenChat, TurnStart};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::{
    Agent, AgentError, Attachment, ClientTool, Credential, EventSink, PastTurn, PromptSection, RenderedPrompt, Secret,
    prompt,
};
use crate::agent::runtime::event_queue::LoopWaker;
use crate::main_loop::Message;
use crate::services::customizations::{Called, TurnCustomizations};
use crate::services::mcp::{Mcp, prompts};
use crate::services::prompt_transform::Renderer;

/// What an agent knows about the chat it opens.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ChatContext {
    /// The session's URI.
    pub session: Arc<str>,
    /// The chat's URI.
    pub chat: Arc<str>,
    /// Where the chat works, as URIs.
    pub working_directories: Vec<String>,
    /// The turns the chat had when it was opened: it was forked, cut short, or is opened again.
    pub history: Vec<PastTurn>,
    /// How many turns came before those. A chat may be longer than an agent is told of at once
    /// (`Limits::agent_history_bytes`): it is told the latest.
    pub omitted_turns: usize,
    /// What a side chat is about: context for the model that its own history does not show.
    pub context: Vec<PastTurn>,
    /// The words a side chat was opened on.
    pub selection: Option<String>,
    /// What the session was set up with.
    pub settings: Map<String, Value>,
    /// What the agent last asked to be told again
    /// ([`EventSink::remember`](super::EventSink::remember)).
    pub memory: Option<Arc<Value>>,
    /// What the session brings along and is switched on. Each turn has its own, which may be more.
    pub customizations: TurnCustomizations,
    pub(crate) credentials: Vec<Credential>,
    reporter: Option<(ChannelId, mpsc::Sender<Message>)>,
    renderer: Renderer,
}

impl ChatContext {
    /// Everything but the history, which has to be read first.
    pub(crate) fn new(open: OpenChat, waker: &LoopWaker, renderer: Renderer) -> Self {
        Self {
            session: open.session_uri,
            chat: open.chat_uri,
            working_directories: open.working_directories,
            history: Vec::new(),
            omitted_turns: 0,
            context: open.context,
            selection: open.selection,
            settings: open.settings,
            memory: open.memory,
            customizations: TurnCustomizations::default(),
            credentials: open.credentials,
            reporter: open.wants_progress.then(|| (open.chat, waker.inbox().clone())),
            renderer,
        }
    }

    /// Renders the system prompt that the chat starts with: a client that asked for some of the
    /// sections may rewrite them (SMT-06). Whatever goes wrong with that leaves them as they are.
    ///
    /// # Errors
    ///
    /// When two sections have the same id.
    pub async fn render_prompt(&self, sections: Vec<PromptSection>) -> Result<RenderedPrompt, AgentError> {
        prompt::check(&sections)?;
        Ok(self.renderer.render(None, sections).await)
    }

    /// The token to use for one of the agent's protected resources: of whoever wants the chat opened,
    /// else of the client that created the session, else of one that takes part in it. Each turn
    /// brings its own ([`TurnInput::token`]), which may be another one's.
    pub fn token(&self, resource: &str) -> Option<Secret> {
        self.credential(resource).map(|credential| credential.token.clone())
    }

    /// The same with what it grants, if that is known.
    pub fn credential(&self, resource: &str) -> Option<&Credential> {
        find(&self.credentials, resource)
    }

    /// Tells whoever waits for the session how far it is (ROOT-17). Costs nothing when nobody
    /// asked. `total` is left out (`None`) while it is unknown.
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

/// One turn to run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TurnInput {
    /// The turn's id.
    pub turn_id: String,
    /// What the person wrote.
    pub text: String,
    /// What came with it.
    pub attachments: Vec<Attachment>,
    /// The model chosen for this message.
    pub model: Option<String>,
    /// What the model is set up with.
    pub model_settings: Map<String, Value>,
    /// The custom agent chosen for this message, by URI.
    pub agent: Option<String>,
    /// Whether an interrupted turn goes on.
    pub resume: bool,
    /// What there is of a turn that goes on. An agent that ran it until it was interrupted knows as
    /// much; one that was opened since, after a restart of the host for instance, does not.
    pub so_far: Option<PastTurn>,
    /// How many turns this chat completed before.
    pub turns_before: usize,
    /// The session's URI.
    pub session: Arc<str>,
    /// The session's title.
    pub session_title: String,
    /// Where the chat works now, as URIs.
    pub working_directories: Vec<String>,
    /// What the session is set up with now.
    pub settings: Map<String, Value>,
    /// The tools that clients of the session offer, each name once. Call one with
    /// [`EventSink::call_client_tool`](super::EventSink::call_client_tool).
    pub client_tools: Vec<ClientTool>,
    /// What the session brings along and is switched on: skills, custom agents, prompts, rules.
    pub customizations: TurnCustomizations,
    /// The skill or the prompt that the message calls with `/name`, with its text. It is for the
    /// model; people go on seeing what they wrote.
    pub called: Option<Called>,
    credentials: Vec<Credential>,
}

impl TurnInput {
    pub(crate) fn new(start: TurnStart, customizations: TurnCustomizations) -> Self {
        Self {
            customizations,
            called: None,
            turn_id: start.turn_id,
            text: start.text,
            attachments: start.attachments,
            model: start.model,
            model_settings: start.model_settings,
            agent: start.agent,
            resume: start.resume,
            so_far: start.so_far,
            turns_before: start.turns_before,
            session: start.session_uri,
            session_title: start.session_title,
            working_directories: start.working_directories,
            settings: start.settings,
            client_tools: start.client_tools,
            credentials: start.credentials,
        }
    }

    /// Finds what the message calls, unless it is a command of the agent's own.
    pub(crate) async fn find_called(
        &mut self,
        agent: &dyn Agent,
        events: &EventSink,
        patience: Duration,
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
            self.called = prompts::call(events, &self.text, patience).await?;
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

/// What somebody types into a setting (CMP-06).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SettingQuery {
    /// The setting.
    pub setting: String,
    /// What was typed; empty at first.
    pub text: String,
    /// Where the session would work, as a URI.
    pub working_directory: Option<String>,
    /// What was chosen so far.
    pub settings: Map<String, Value>,
}

//! An agent of the host that is a program which speaks ACP.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use innkeeper_host::agent::{Directories, ModelInfo, ToolInfo};
use innkeeper_host::customizations::TurnCustomizations;
use innkeeper_host::mcp::McpTool;
use innkeeper_host::{Agent, AgentChat, AgentError, AgentInfo, ChatContext};
use innkeeper_std::sync::Mutex;
use tokio::sync::watch;

use crate::catalogue::CATALOGUE;
use crate::chat::AcpChat;
use crate::command::AgentCommand;
use crate::from_agent::UsageScope;
use crate::learned::{self, Learned, SessionOption};
use crate::tools::ToolServer;

/// The settings of an agent.
#[derive(Clone, Debug)]
pub struct AcpSettings {
    /// The id that clients name in `createSession`.
    pub id: String,
    /// A short name for users.
    pub name: String,
    /// A sentence about it.
    pub description: String,
    /// How it is started.
    pub command: AgentCommand,
    /// The directory of sessions without one.
    pub directory: PathBuf,
    /// Whether the agent may read and write files through the host.
    pub serves_files: bool,
    /// Whether the agent may run commands in terminals of the host.
    pub serves_terminals: bool,
    /// How to sign in, as a sentence without its period.
    pub sign_in_hint: Option<String>,
    /// The file in which the host remembers what the agent told about itself.
    pub memory_file: Option<PathBuf>,
    /// How long things may take.
    pub times: AcpTimes,
}

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcpTimes {
    /// The answer to `initialize`, to `session/new` and to a changed option.
    pub start: Duration,
    /// The answer to `session/load` and `session/resume`.
    pub restore: Duration,
    /// The answer to a cancelled prompt; then the agent is ended.
    pub cancel: Duration,
    /// An agent without a turn is ended after this time.
    pub idle: Duration,
}

impl Default for AcpTimes {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(60),
            restore: Duration::from_secs(30),
            cancel: Duration::from_secs(10),
            idle: Duration::from_secs(15 * 60),
        }
    }
}

/// An agent that is a program which speaks ACP. Nothing is started before a session uses it.
#[derive(Clone, Debug)]
pub struct AcpAgent {
    shared: Arc<AgentContext>,
}

/// The parts that all chats of an agent share.
#[derive(Debug)]
pub(crate) struct AgentContext {
    settings: AcpSettings,
    learned: Mutex<Learned>,
    pub(crate) tools: Option<Arc<ToolServer>>,
    changes: watch::Sender<u64>,
}

impl std::ops::Deref for AgentContext {
    type Target = AcpSettings;

    fn deref(&self) -> &AcpSettings {
        &self.settings
    }
}

impl AgentContext {
    pub(crate) fn id(&self) -> &str {
        &self.settings.id
    }

    pub(crate) fn name(&self) -> &str {
        &self.settings.name
    }

    pub(crate) fn learned(&self) -> Learned {
        self.learned.lock().clone()
    }

    /// Notes what an agent told about itself, for clients and for the next start of the host.
    pub(crate) fn learn(&self, told: &Learned, options: &[SessionOption]) {
        let mut known = self.learned.lock();
        // An agent sends its commands a moment after a session is open.
        let commands = match told.commands.is_empty() {
            true => known.commands.clone(),
            false => told.commands.clone(),
        };
        let now = Learned {
            commands,
            options: learned::without_values(options),
            ..told.clone()
        };
        if *known == now {
            return;
        }
        *known = now.clone();
        drop(known);
        if let Some(file) = &self.memory_file {
            now.write(file);
        }
        self.changes.send_modify(|count| *count += 1);
    }

    /// The meaning of the agent's token counts.
    pub(crate) fn usage_scope(&self) -> UsageScope {
        let name = self.learned.lock().name.clone().unwrap_or_default().to_lowercase();
        let is = |agent: &str| name.contains(agent) || self.settings.id == agent;
        match () {
            () if is("copilot") => UsageScope::Process,
            () if is("goose") || is("opencode") || is("kilo") => UsageScope::LastCall,
            () => UsageScope::Turn,
        }
    }

    /// The files of rules and skills that the agent reads by itself.
    pub(crate) fn own_files(&self) -> &'static [&'static str] {
        let known = CATALOGUE.iter().find(|known| known.id == self.settings.id);
        known.map(|known| known.own_files).unwrap_or_default()
    }
}

impl AcpAgent {
    /// Creates the agent, and reads the facts that an earlier run of the host learned about it. It gets no tools of the
    /// session's MCP servers and clients.
    pub fn new(settings: AcpSettings) -> Self {
        Self::start(settings, None)
    }

    /// Creates an agent that gets the tools of the session's MCP servers and clients through a server of the host.
    pub fn with_tools(settings: AcpSettings, tools: Arc<ToolServer>) -> Self {
        Self::start(settings, Some(tools))
    }

    fn start(settings: AcpSettings, tools: Option<Arc<ToolServer>>) -> Self {
        let known = settings.memory_file.as_deref().and_then(Learned::read);
        Self {
            shared: Arc::new(AgentContext {
                learned: Mutex::new(known.unwrap_or_default()),
                settings,
                tools,
                changes: watch::Sender::new(0),
            }),
        }
    }

    /// Changes whenever the agent told something new about itself, so that the embedding program calls
    /// `HostHandle::refresh_agents`.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Returns everything that the agent told about itself, in this run of the host or an earlier one.
    pub fn learned(&self) -> Learned {
        self.shared.learned()
    }

    pub(crate) fn shared(&self) -> &Arc<AgentContext> {
        &self.shared
    }
}

#[async_trait]
impl Agent for AcpAgent {
    fn info(&self) -> AgentInfo {
        let settings = &self.shared.settings;
        let learned = self.shared.learned();
        let mut info = AgentInfo::new(&settings.id, &settings.name, &settings.description)
            .with_resume()
            .with_chats()
            .with_side_chats();
        if learned.abilities.directories {
            info = info.with_directories(Directories::ManyFixedPrimary);
        }
        let models = learned.model_option().and_then(|option| option.choices.clone());
        for model in models.unwrap_or_default() {
            info = info.with_model_info(ModelInfo::new(model.id, model.name));
        }
        for option in learned.options.iter().filter(|option| !option.is_model) {
            info = info.with_setting(option.setting());
        }
        for command in &learned.commands {
            let usage = command.hint.as_deref().unwrap_or_default();
            info = info.with_command(&command.name, usage, &command.description);
        }
        info
    }

    fn session_tools(&self, session: &TurnCustomizations) -> Vec<ToolInfo> {
        // The tools of the agent itself are not known.
        let tools = self.shared.tools.as_ref().map(|_| session.mcp().tools());
        tools.iter().flatten().map(McpTool::info).collect()
    }

    async fn open_chat(&self, cx: ChatContext) -> Result<Box<dyn AgentChat>, AgentError> {
        Ok(Box::new(AcpChat::open(Arc::clone(&self.shared), &cx)))
    }
}

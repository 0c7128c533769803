//! The [`Agent`] implementation and its chats.

mod commit_message;
pub(in crate::model) mod key;
pub(in crate::model) mod models;
pub(in crate::model) mod sampling;
pub(in crate::model) mod state;
mod title;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use innkeeper_host::agent::{Directories, ProtectedResource, ToolInfo};
use innkeeper_host::customizations::TurnCustomizations;
use innkeeper_host::mcp::Sampler;
use innkeeper_host::{Agent, AgentChat, AgentError, AgentInfo, ChatContext, EventSink, TurnInput};
use innkeeper_std::sync::RwLock;

use self::key::Key;
use self::models::Model;
use self::sampling::{SamplingUsage, TurnSampler};
use self::state::AgentState;
use super::client::{Endpoint, ModelClient};
use super::conversation::user_message::compose;
use super::conversation::{COMPACT, Conversation, Speaker, is_compact};
use super::customizations::TurnContext;
use super::error::ProviderError;
use super::prompt::instructions;
use super::prompt::{Prompt, paths};
use super::retry::RetryPolicy;
use super::toolbox::Toolbox;
use super::toolbox::agent_tools::AgentTool;
use super::turn::TurnRun;
use crate::tools::HostTool;

/// How long a finished turn waits for the title request.
const TITLE_TIME: Duration = Duration::from_secs(2);

/// Configuration of a model agent.
#[derive(Clone)]
pub struct ModelAgentSettings {
    /// The agent id that clients name in `createSession`.
    pub provider: String,
    /// Display name.
    pub display_name: String,
    /// One-sentence description for clients.
    pub description: String,
    /// Address and API of the provider.
    pub endpoint: Endpoint,
    /// Source of the API key.
    pub key: Key,
    /// Configured models; the first is the default. The provider may list more.
    pub models: Vec<Model>,
    /// Tools that the agent can call on this machine.
    pub tools: Vec<Arc<dyn HostTool>>,
    /// Replacement texts for sections of the system prompt, by section id.
    pub prompt: Vec<(String, String)>,
    /// Whether the model generates session titles.
    pub generate_titles: bool,
    /// Maximum number of model requests in one turn.
    pub max_rounds: usize,
    /// Retry policy for provider requests.
    pub retry: RetryPolicy,
}

impl ModelAgentSettings {
    /// Creates settings with defaults for everything else.
    pub fn new(provider: &str, display_name: &str, endpoint: Endpoint, key: Key) -> Self {
        Self {
            provider: provider.to_owned(),
            display_name: display_name.to_owned(),
            description: format!("A coding agent with models of {display_name}."),
            endpoint,
            key,
            models: Vec::new(),
            tools: Vec::new(),
            prompt: Vec::new(),
            generate_titles: true,
            max_rounds: 200,
            retry: RetryPolicy::default(),
        }
    }
}

/// A coding agent on top of a model API. Clones share their state.
#[derive(Clone)]
pub struct ModelAgent {
    agent_state: Arc<AgentState>,
}

impl ModelAgent {
    /// Creates the agent without sending a request.
    pub fn new(settings: ModelAgentSettings) -> Result<Self, ProviderError> {
        let resource = resource_of(&settings.endpoint.base_url);
        let agent_state = AgentState {
            provider: settings.provider,
            display_name: settings.display_name,
            description: settings.description,
            key: settings.key,
            resource,
            models: RwLock::new(settings.models.clone()),
            configured_models: settings.models,
            client: ModelClient::new(settings.endpoint)?,
            tools: settings.tools,
            prompt_overrides: settings.prompt,
            generate_titles: settings.generate_titles,
            max_rounds: settings.max_rounds.max(1),
            retry: settings.retry,
        };
        Ok(Self {
            agent_state: Arc::new(agent_state),
        })
    }

    /// Fetches the provider's models and offers them in addition to the configured ones. Returns how many models are
    /// offered. The embedding program calls `HostHandle::refresh_agents` afterwards. Sends no request if the host has
    /// no key of its own.
    pub async fn list_models(&self) -> Result<usize, ProviderError> {
        let key = match &self.agent_state.key {
            Key::Missing { .. } => return Ok(self.agent_state.offered_models().len()),
            _ => self.agent_state.host_key().await.ok().flatten(),
        };
        let listed = self.agent_state.client.models(key.as_ref()).await?;
        self.agent_state.add_listed_models(listed);
        Ok(self.agent_state.offered_models().len())
    }

    #[cfg(test)]
    pub(super) fn agent_state(&self) -> &Arc<AgentState> {
        &self.agent_state
    }

    /// Returns true if the agent works without a client signing in.
    pub fn is_ready(&self) -> bool {
        !matches!(self.agent_state.key, Key::Missing { .. })
    }
}

#[async_trait]
impl Agent for ModelAgent {
    fn info(&self) -> AgentInfo {
        let agent_state = &self.agent_state;
        let description = match &agent_state.key {
            Key::Missing { how } => format!("{} Not ready yet: {how}.", agent_state.description),
            _ => agent_state.description.clone(),
        };
        let mut info = AgentInfo::new(&agent_state.provider, &agent_state.display_name, &description)
            .with_resume()
            .with_side_chats()
            .with_app_sampling()
            .with_directories(Directories::Many)
            .with_command(
                COMPACT.trim_start_matches('/'),
                "",
                "summarises the beginning of the conversation",
            )
            .with_standard_sections();
        let resource =
            || ProtectedResource::new(&agent_state.resource).name(format!("{} API key", agent_state.display_name));
        info = match &agent_state.key {
            Key::NotNeeded => info,
            Key::Known(_) | Key::File(_) => info.with_protected_resource(resource().optional()),
            Key::Missing { how } => info.with_protected_resource(resource()).with_sign_in_hint(how),
        };
        for model in agent_state.offered_models() {
            info = info.with_model_info(model.info());
        }
        let specs = agent_state
            .tools
            .iter()
            .map(|tool| (tool.spec(), tool.title().to_owned()));
        let own = AgentTool::ALL.iter().map(|tool| (tool.spec(), tool.title().to_owned()));
        for (spec, title) in specs.chain(own) {
            info = info.with_tool(ToolInfo {
                name: spec.name,
                title: Some(title),
                description: Some(spec.description),
                input_schema: Some(spec.input_schema),
            });
        }
        info
    }

    async fn sampler(&self, turn: &TurnInput) -> Result<Option<Arc<dyn Sampler>>, AgentError> {
        let (key, _) = self.agent_state.key_for(turn).await?;
        let model = self.agent_state.model(turn.model.as_deref(), key.as_ref()).await?;
        Ok(Some(Arc::new(TurnSampler {
            agent_state: Arc::clone(&self.agent_state),
            model,
            key,
            sampling_usage: SamplingUsage::default(),
        })))
    }

    async fn commit_message(&self, turn: &TurnInput, changes: &str) -> Option<String> {
        let (key, _) = self.agent_state.key_for(turn).await.ok()?;
        let model = self.agent_state.model(turn.model.as_deref(), key.as_ref()).await.ok()?;
        let request = commit_message::request(&model, changes);
        match self.agent_state.complete_text(&request, key.as_ref()).await {
            Ok((answer, _)) => commit_message::parse(&answer),
            Err(error) => {
                tracing::debug!(kind = ?error.kind, "could not suggest the message of a commit");
                None
            }
        }
    }

    fn session_tools(&self, session: &TurnCustomizations) -> Vec<ToolInfo> {
        let own = AgentTool::in_session(session);
        let toolbox = Toolbox::new(&self.agent_state.tools, own, &session.mcp().tools(), &[]);
        toolbox.infos()
    }

    async fn open_chat(&self, context: ChatContext) -> Result<Box<dyn AgentChat>, AgentError> {
        // SMT-06: clients see the prompt of a session before its first message.
        let directories = &context.working_directories;
        let turn_context = TurnContext::new(context.customizations.clone(), directories, None);
        let window = self
            .agent_state
            .offered_models()
            .first()
            .map_or(u32::MAX, |model| model.context_window);
        let prompt = Prompt {
            directories: paths(directories),
            today: self.agent_state.today(),
            custom_instructions: instructions::load(directories, &turn_context, window).await.text,
            skills: turn_context.skill_list(),
            overrides: &self.agent_state.prompt_overrides,
            ..Prompt::default()
        };
        context.render_prompt(prompt.sections()).await?;
        Ok(Box::new(ModelChat {
            agent_state: Arc::clone(&self.agent_state),
            conversation: Conversation::restore(&context),
        }))
    }
}

/// Returns the protected resource that clients sign in to: the base URL without credentials and query, because every
/// client sees it (AUTH-12).
fn resource_of(base_url: &url::Url) -> String {
    let mut address = base_url.clone();
    // A URL that cannot carry a user name has none to remove.
    let _ = address.set_username("");
    let _ = address.set_password(None);
    address.set_query(None);
    address.set_fragment(None);
    address.as_str().trim_end_matches('/').to_owned()
}

/// The conversation of one chat.
struct ModelChat {
    agent_state: Arc<AgentState>,
    conversation: Conversation,
}

#[async_trait]
impl AgentChat for ModelChat {
    async fn run_turn(&mut self, turn: TurnInput, events: EventSink) -> Result<(), AgentError> {
        let conversation = &mut self.conversation;
        conversation.begin_turn(&turn.turn_id);
        let wants_compaction = is_compact(&turn.text);
        // Add the user's message before anything can fail, so that the turn can be resumed after any failure.
        if !wants_compaction {
            conversation.complete_open_calls();
            if turn.resume && conversation.has_turn(&turn.turn_id) {
                conversation.ask_to_continue();
            } else {
                conversation.push(Speaker::User, compose(&turn.text, &turn.attachments));
                if let Some(called) = &turn.called {
                    conversation.add_called_prompt(called);
                }
                if let Some(so_far) = &turn.so_far {
                    conversation.add_past_answer(so_far);
                    conversation.ask_to_continue();
                }
            }
        }
        let run = TurnRun::new(&self.agent_state, &events, &turn).await?;
        if wants_compaction {
            return run.compact_on_request(conversation).await;
        }
        if let Some(notice) = conversation.changed_tool_notice(run.toolbox.left_out_notice()) {
            events.notice(notice).await?;
        }
        run.refresh_pinned(conversation).await?;
        let wants_title = self.agent_state.generate_titles && turn.turns_before == 0 && !turn.resume;
        let titling = self.agent_state.suggest_title(&turn, &run, wants_title);
        beside(run.run(conversation), titling, events.cancelled()).await
    }
}

/// Runs a turn together with a side task. After the turn, the side task gets at most [`TITLE_TIME`].
async fn beside<T>(
    turn: impl Future<Output = Result<T, AgentError>>,
    aside: impl Future<Output = ()>,
    cancelled: impl Future<Output = ()>,
) -> Result<T, AgentError> {
    tokio::pin!(turn, aside);
    let mut is_done = false;
    let result = loop {
        tokio::select! {
            biased;
            result = &mut turn => break result,
            () = &mut aside, if !is_done => is_done = true,
        }
    };
    if !is_done && result.is_ok() {
        tokio::select! {
            () = aside => {}
            () = cancelled => {}
            () = tokio::time::sleep(TITLE_TIME) => {}
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auth12_the_protected_resource_contains_no_secret() {
        for (address, resource) in [
            ("https://user:pass@gate.example/v1/?key=k#f", "https://gate.example/v1"),
            ("http://127.0.0.1:1234/v1", "http://127.0.0.1:1234/v1"),
        ] {
            assert_eq!(resource_of(&url::Url::parse(address).unwrap()), resource);
        }
    }
}

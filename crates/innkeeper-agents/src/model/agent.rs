//! The agent itself: what it offers, and the chats it holds.

pub(in crate::model) mod key;
pub(in crate::model) mod models;
pub(in crate::model) mod sampling;
pub(in crate::model) mod state;
mod title;

use std::sync::{Arc, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use innkeeper_host::customizations::Customized;
use innkeeper_host::mcp::Sampler;
use innkeeper_host::{
    Agent, AgentChat, AgentError, AgentInfo, ChatContext, Directories, EventSink, ProtectedResource, ToolInfo,
    TurnInput,
};

use crate::model::agent::key::Key;
use crate::model::agent::models::Model;
use crate::model::agent::sampling::{SpentOnServers, TurnsModel};
use crate::model::agent::state::Shared;
use crate::model::client::{Endpoint, ModelClient};
use crate::model::conversation::user_message::compose;
use crate::model::conversation::{COMPACT, Conversation, Speaker, is_compact};
use crate::model::customizations::Brought;
use crate::model::error::ProviderError;
use crate::model::prompt::instructions;
use crate::model::prompt::{Prompt, paths};
use crate::model::retry::RetryPolicy;
use crate::model::toolbox::Toolbox;
use crate::model::toolbox::own_tools::OwnTool;
use crate::model::turn::Run;
use crate::tools::HostTool;

/// How much longer a turn may take for the sake of a title.
const TITLE_TIME: Duration = Duration::from_secs(2);

/// What a model agent is made of.
#[derive(Clone)]
pub struct ModelAgentSettings {
    /// The id that clients name in `createSession`.
    pub provider: String,
    /// A short name.
    pub display_name: String,
    /// A sentence.
    pub description: String,
    /// Where the models are.
    pub endpoint: Endpoint,
    /// Where the key comes from.
    pub key: Key,
    /// The models that are offered; the first is the default. The provider may list more.
    pub models: Vec<Model>,
    /// What the agent can do on this machine.
    pub tools: Vec<Arc<dyn HostTool>>,
    /// What stands in sections of the prompt instead of the usual, by id.
    pub prompt: Vec<(String, String)>,
    /// Whether sessions get a title from the model.
    pub gives_titles: bool,
    /// How often a model is asked in one turn at most.
    pub most_rounds: usize,
    /// How patient to be with the provider.
    pub retry: RetryPolicy,
}

impl ModelAgentSettings {
    /// Settings with nothing special about them.
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
            gives_titles: true,
            most_rounds: 200,
            retry: RetryPolicy::default(),
        }
    }
}

/// A coding agent on top of a model API. Clones are the same agent.
#[derive(Clone)]
pub struct ModelAgent {
    shared: Arc<Shared>,
}

impl ModelAgent {
    /// An agent; nothing is sent yet.
    pub fn new(settings: ModelAgentSettings) -> Result<Self, ProviderError> {
        let resource = resource_of(&settings.endpoint.base_url);
        let shared = Shared {
            provider: settings.provider,
            display_name: settings.display_name,
            description: settings.description,
            key: settings.key,
            resource,
            models: RwLock::new(settings.models.clone()),
            settled: settings.models,
            client: ModelClient::new(settings.endpoint)?,
            tools: settings.tools,
            prompt_overrides: settings.prompt,
            gives_titles: settings.gives_titles,
            most_rounds: settings.most_rounds.max(1),
            retry: settings.retry,
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Asks the provider for its models, and offers them besides those of the settings. Whoever
    /// embeds the agent calls `HostHandle::refresh_agents` afterwards. Without a key of the
    /// host's own, nothing is asked.
    pub async fn list_models(&self) -> Result<usize, ProviderError> {
        let key = match &self.shared.key {
            Key::Missing { .. } => return Ok(self.shared.offered().len()),
            _ => self.shared.own_key().await.ok().flatten(),
        };
        let listed = self.shared.client.models(key.as_ref()).await?;
        self.shared.offer(listed);
        Ok(self.shared.offered().len())
    }

    #[cfg(test)]
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Whether it can be used without anybody signing in.
    pub fn is_ready(&self) -> bool {
        !matches!(self.shared.key, Key::Missing { .. })
    }
}

#[async_trait]
impl Agent for ModelAgent {
    fn info(&self) -> AgentInfo {
        let shared = &self.shared;
        let description = match &shared.key {
            Key::Missing { how } => format!("{} Not ready yet: {how}.", shared.description),
            _ => shared.description.clone(),
        };
        let mut info = AgentInfo::new(&shared.provider, &shared.display_name, &description)
            .with_resume()
            .with_side_chats()
            .with_app_sampling()
            .with_directories(Directories::Many)
            .with_command(
                COMPACT.trim_start_matches('/'),
                "",
                "shortens the beginning of the conversation to make room",
            )
            .with_standard_sections();
        let resource = || ProtectedResource::new(&shared.resource).name(format!("{} API key", shared.display_name));
        info = match &shared.key {
            Key::NotNeeded => info,
            Key::Known(_) | Key::File(_) => info.with_protected_resource(resource().optional()),
            Key::Missing { how } => info.with_protected_resource(resource()).with_sign_in_hint(how),
        };
        for model in shared.offered() {
            info = info.with_model_info(model.info());
        }
        let specs = shared.tools.iter().map(|tool| (tool.spec(), tool.title().to_owned()));
        let own = OwnTool::ALL.iter().map(|tool| (tool.spec(), tool.title().to_owned()));
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
        let (key, _) = self.shared.key_for(turn).await?;
        let model = self.shared.model(turn.model.as_deref(), key.as_ref()).await?;
        Ok(Some(Arc::new(TurnsModel {
            shared: Arc::clone(&self.shared),
            model,
            key,
            spent: SpentOnServers::default(),
        })))
    }

    fn session_tools(&self, session: &Customized) -> Vec<ToolInfo> {
        let own = OwnTool::in_session(session);
        let toolbox = Toolbox::new(&self.shared.tools, own, &session.mcp().tools(), &[]);
        toolbox.infos()
    }

    async fn open_chat(&self, context: ChatContext) -> Result<Box<dyn AgentChat>, AgentError> {
        // SMT-06: clients see the prompt a session starts with, before anybody has said anything.
        let directories = &context.working_directories;
        let brought = Brought::new(context.customizations.clone(), directories, None);
        let window = self
            .shared
            .offered()
            .first()
            .map_or(u32::MAX, |model| model.context_window);
        let prompt = Prompt {
            directories: paths(directories),
            today: self.shared.today(),
            custom_instructions: instructions::of(directories, &brought, window).await.text,
            skills: brought.skill_list(),
            overrides: &self.shared.prompt_overrides,
            ..Prompt::default()
        };
        context.render_prompt(prompt.sections()).await?;
        Ok(Box::new(ModelChat {
            shared: Arc::clone(&self.shared),
            conversation: Conversation::restore(&context),
        }))
    }
}

/// What clients sign in to: the address without anything that may be a secret, because everybody
/// sees it (AUTH-12).
fn resource_of(base_url: &url::Url) -> String {
    let mut address = base_url.clone();
    // What cannot have a user has none.
    let _ = address.set_username("");
    let _ = address.set_password(None);
    address.set_query(None);
    address.set_fragment(None);
    address.as_str().trim_end_matches('/').to_owned()
}

/// One conversation.
struct ModelChat {
    shared: Arc<Shared>,
    conversation: Conversation,
}

#[async_trait]
impl AgentChat for ModelChat {
    async fn run_turn(&mut self, turn: TurnInput, events: EventSink) -> Result<(), AgentError> {
        let conversation = &mut self.conversation;
        conversation.begin_turn(&turn.turn_id);
        let wants_room = is_compact(&turn.text);
        // What the person said is heard before anything can go wrong: whatever does, the turn can
        // be gone on with.
        if !wants_room {
            conversation.mend();
            if turn.resume && conversation.has_turn(&turn.turn_id) {
                conversation.nudge();
            } else {
                conversation.push(Speaker::Person, compose(&turn.text, &turn.attachments));
                if let Some(called) = &turn.called {
                    conversation.call(called);
                }
                if let Some(so_far) = &turn.so_far {
                    conversation.tell_answer(so_far);
                    conversation.nudge();
                }
            }
        }
        let run = Run::new(&self.shared, &events, &turn).await?;
        if wants_room {
            return run.compact(conversation).await;
        }
        if let Some(told) = conversation.news_of_tools(run.toolbox.left_out()) {
            events.notice(told).await?;
        }
        run.hold_on(conversation).await?;
        let wants_title = self.shared.gives_titles && turn.turns_before == 0 && !turn.resume;
        let titling = self.shared.give_title(&turn, &run, wants_title);
        beside(run.run(conversation), titling, events.cancelled()).await
    }
}

/// Runs a turn with something beside it that it hardly waits for.
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
    fn auth12_the_resource_that_everybody_sees_has_no_secret_in_it() {
        for (address, resource) in [
            ("https://user:pass@gate.example/v1/?key=k#f", "https://gate.example/v1"),
            ("http://127.0.0.1:1234/v1", "http://127.0.0.1:1234/v1"),
        ] {
            assert_eq!(resource_of(&url::Url::parse(address).unwrap()), resource);
        }
    }
}

//! One turn: the model answers, its calls are carried out, and so on until it has nothing left to
//! do.

mod answer;
mod context_window;
mod hook_context;
mod setup;
mod subagent;
mod token_usage;
mod tool_calls;

use std::sync::{Arc, Mutex, PoisonError};

use innkeeper_host::{AgentError, ClientTool, EventSink, Secret};
use tokio::sync::mpsc;

use crate::model::agent::models::{DEFAULT_EFFORT, Model};
use crate::model::agent::sampling::{SpentOnServers, TurnsModel};
use crate::model::agent::state::Shared;
use crate::model::api::{Effort, ModelMessage, ModelRequest, Stop};
use crate::model::client::ModelStream;
use crate::model::conversation::{Conversation, Speaker};
use crate::model::customizations::Brought;
use crate::model::error::{ErrorKind, ProviderError};
use crate::model::prompt::Prompt;
use crate::model::prompt::instructions;
use crate::model::retry::{Retry, chance};
use crate::model::toolbox::Toolbox;
use crate::model::toolbox::own_tools::OwnTool;
use crate::model::turn::answer::{Answer, Broken, PendingCall};
use crate::model::turn::context_window::Why;
use crate::model::turn::hook_context;
use crate::model::turn::token_usage::Spent;
use crate::model::turn::tool_calls::carry_out;
use crate::tools::Surroundings;

/// What a turn has at hand.
pub(super) struct Run<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) events: &'a EventSink,
    pub(super) toolbox: Toolbox,
    pub(super) surroundings: Surroundings,
    /// What the session brings along.
    pub(super) brought: Brought,
    /// The lists of tools that the turn keeps to.
    pub(super) keeps_to: Vec<Vec<String>>,
    /// What people chose for this turn.
    pub(super) choice: Choice,
    /// The step of the plan that is being worked on, for people.
    pub(super) step: Mutex<Option<String>>,
    /// What MCP servers had the model write.
    pub(super) spent_on_servers: SpentOnServers,
}

/// The model of a turn, and on whose behalf it is asked.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    pub(super) model: Model,
    pub(super) effort: Option<Effort>,
    pub(super) key: Option<Secret>,
    /// Whether the key is a client's, who can be asked for another one.
    pub(super) is_clients_key: bool,
    pub(super) client_tools: Vec<ClientTool>,
    /// Whether nobody reads along.
    pub(super) is_helper: bool,
}

/// What the model said last, which is in the conversation by now.
struct Heard {
    calls: Vec<PendingCall>,
    stop: Stop,
    /// Whether there was anything in it for people.
    has_words: bool,
}

impl<'a> Run<'a> {
    /// Where tools work, and what they may read besides.
    pub(super) fn surroundings(&self) -> Surroundings {
        Surroundings {
            readable: self.brought.readable(),
            ..self.surroundings.clone()
        }
    }

    /// Tells people what they should know, once in a chat.
    pub(super) async fn tell_news(&self, conversation: &mut Conversation) -> Result<(), AgentError> {
        for news in self.brought.take_news() {
            if conversation.is_news(&news) {
                self.events.notice(news).await?;
            }
        }
        Ok(())
    }

    /// Runs to the end. The conversation has what is to be answered.
    pub(super) async fn run(&self, conversation: &mut Conversation) -> Result<(), AgentError> {
        let system = self.render().await?;
        let mut spent = Spent::default();
        hook_context::hear(conversation, self.events);
        for _ in 0..self.shared.most_rounds {
            self.follow_rules(conversation).await?;
            let Heard { calls, stop, has_words } = self.answer(conversation, &system, &mut spent).await?;
            // A pause is no end: the model goes on from what it said.
            let is_done = calls.is_empty() && (stop != Stop::Paused || !has_words);
            if !calls.is_empty() {
                let (outcomes, result) = carry_out(calls, &stop, self).await;
                self.pay_for_servers(&mut spent).await?;
                conversation.push(Speaker::Tools, ModelMessage::ToolResults(outcomes));
                let loaded = self.brought.take_loaded();
                if !loaded.is_empty() {
                    conversation.keep(loaded);
                    self.remember(conversation).await?;
                }
                result?;
            }
            // Between calls, and before it is all over, people may set another direction.
            match self.events.steering().await? {
                Some(words) => conversation.steer(words),
                None if is_done && hook_context::may_stop(conversation, self.events).await? => {
                    return self.end(stop, has_words).await;
                }
                None => {}
            }
        }
        Err(AgentError::resumable(
            "tooManyRounds",
            format!(
                "The model was asked {} times in this turn and is still not done. Resume the turn to let it go on, \
                 or say what it should do instead.",
                self.shared.most_rounds
            ),
        ))
    }

    async fn end(&self, stop: Stop, has_words: bool) -> Result<(), AgentError> {
        match stop {
            Stop::Refused(why) => {
                let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                let why = why.trim_end_matches('.');
                let message = format!("The model will not answer this{why}. Say it in another way.");
                Err(AgentError::failed("refused", message))
            }
            Stop::Length => {
                let notice = "The model reached the most it may say in one answer. Say “go on” to hear the rest.";
                self.events.notice(notice).await
            }
            Stop::Done | Stop::ToolCalls | Stop::Paused if !has_words => {
                let notice = "The model ended its answer without a word. Say something to let it go on.";
                self.events.notice(notice).await
            }
            Stop::Done | Stop::ToolCalls | Stop::Paused => Ok(()),
        }
    }

    /// The system prompt of this turn (SMT-06).
    async fn render(&self) -> Result<Vec<String>, AgentError> {
        let names = self.toolbox.names();
        let directories = &self.surroundings.working_directories;
        let has_skills = self.toolbox.has(OwnTool::Skill.name());
        let prompt = Prompt {
            directories: crate::model::prompt::paths(directories),
            today: self.shared.today(),
            tools: &names,
            custom_instructions: self.instructions().await,
            overrides: &self.shared.prompt_overrides,
            is_helper: self.choice.is_helper,
            skills: if has_skills {
                self.brought.skill_list()
            } else {
                String::new()
            },
            role: self.brought.role.as_ref(),
        };
        let rendered = self.events.render_prompt(prompt.sections()).await?;
        let sections = rendered.sections.into_iter().map(|section| section.content);
        Ok(sections.filter(|content| !content.trim().is_empty()).collect())
    }

    /// What the directories ask of agents: the rules that always hold, or where nobody looks for
    /// rules, what the agent finds itself.
    async fn instructions(&self) -> String {
        if self.shared.overrides("custom_instructions") {
            return String::new();
        }
        let window = self.choice.model.context_window;
        let mut always = instructions::of(&self.surroundings.working_directories, &self.brought, window).await;
        let text = std::mem::take(&mut always.text);
        self.brought.hold(always);
        text
    }

    /// Has the model answer, after making room if it has to. What it said is added to the
    /// conversation, however it ended: people have seen it.
    async fn answer(
        &self,
        conversation: &mut Conversation,
        system: &[String],
        spent: &mut Spent,
    ) -> Result<Heard, AgentError> {
        let overhead = self.overhead(system);
        self.keep_room(conversation, overhead, spent).await?;
        let mut has_made_room = false;
        loop {
            let counted = conversation.counted() + overhead;
            let request = self.request(conversation, system);
            let mut answer = Answer::default();
            let heard = match self.ask(&request).await {
                Ok(stream) => answer.hear(stream, self.events, &self.toolbox).await,
                Err(broken) => Err(broken),
            };
            if let Some(real) = answer.usage.input {
                conversation.learn(counted, real);
            }
            spent.add(answer.usage);
            let stop = answer.stop.clone().unwrap_or(Stop::Done);
            let has_words = answer.has_words();
            let (parts, calls) = answer.finish();
            if has_words || !calls.is_empty() {
                conversation.push(Speaker::Model, ModelMessage::Assistant(parts));
            }
            match heard {
                Ok(()) => {
                    self.tell_cost(spent).await?;
                    return Ok(Heard { calls, stop, has_words });
                }
                Err(Broken::Turn(error)) => return Err(error),
                Err(Broken::Provider(error)) if error.kind == ErrorKind::ContextLength && !has_made_room => {
                    has_made_room = true;
                    if !self.make_room(conversation, overhead, Why::Refused, spent).await? {
                        return Err(self.failure(error).await);
                    }
                }
                Err(Broken::Provider(error)) => {
                    self.tell_cost(spent).await?;
                    return Err(self.failure(error).await);
                }
            }
        }
    }

    /// Answers MCP servers that want a model to go on.
    pub(super) fn for_servers(&self) -> Arc<TurnsModel> {
        Arc::new(TurnsModel {
            shared: Arc::clone(self.shared),
            model: self.choice.model.clone(),
            key: self.choice.key.clone(),
            spent: Arc::clone(&self.spent_on_servers),
        })
    }

    /// What servers had the model write is part of what the turn costs.
    async fn pay_for_servers(&self, spent: &mut Spent) -> Result<(), AgentError> {
        let written = std::mem::take(&mut *self.spent_on_servers.lock().unwrap_or_else(PoisonError::into_inner));
        if written.is_empty() {
            return Ok(());
        }
        written.into_iter().for_each(|usage| spent.add(usage));
        match self.tell_cost(spent).await {
            // What was carried out is told to the model first, also of a turn that is over.
            Ok(()) | Err(AgentError::Cancelled) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn tell_cost(&self, spent: &Spent) -> Result<(), AgentError> {
        let usage = spent.usage(&self.choice.model.id, self.brought.applied());
        self.events.usage(usage).await
    }

    fn request(&self, conversation: &Conversation, system: &[String]) -> ModelRequest {
        let model = &self.choice.model;
        ModelRequest {
            model: model.id.clone(),
            system: system.to_vec(),
            messages: conversation.messages(model.sees),
            tools: self.toolbox.specs(),
            max_output_tokens: model.max_output_tokens,
            temperature: None,
            effort: model.thinks.then_some(self.choice.effort.unwrap_or(DEFAULT_EFFORT)),
        }
    }

    /// Asks, and shows people when a try failed and another is made.
    async fn ask(&self, request: &ModelRequest) -> Result<ModelStream, Broken> {
        let (tell, mut told) = mpsc::unbounded_channel();
        let announce = |retry: Retry<'_>| {
            let seconds = retry.after.as_secs_f64().ceil();
            let _ = tell.send(format!(
                "{} Trying again in {seconds} s ({} of {}).",
                retry.error.message, retry.attempt, retry.of
            ));
        };
        let key = self.choice.key.as_ref();
        let client = &self.shared.client;
        let asking = client.stream_with_retries(request, key, &self.shared.retry, chance, announce);
        tokio::pin!(asking);
        let mut is_waiting = false;
        loop {
            tokio::select! {
                biased;
                () = self.events.cancelled() => return Err(Broken::Turn(AgentError::Cancelled)),
                Some(text) = told.recv() => {
                    is_waiting = true;
                    self.events.activity(text).await?;
                }
                answer = &mut asking => {
                    if is_waiting {
                        self.back_to_work().await?;
                    }
                    return answer.map_err(Broken::Provider);
                }
            }
        }
    }

    /// Shows people the step of the plan that is being worked on.
    pub(super) async fn works_on(&self, step: Option<String>) -> Result<(), AgentError> {
        *self.step.lock().unwrap_or_else(PoisonError::into_inner) = step;
        self.back_to_work().await
    }

    /// Shows the plan again after something else was shown.
    pub(super) async fn back_to_work(&self) -> Result<(), AgentError> {
        let step = self.step.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match step {
            Some(step) => self.events.activity(step).await,
            None => self.events.no_activity().await,
        }
    }

    /// A failure of a provider as the end of the turn. Whoever brought a key that is refused is
    /// asked for another one (AUTH-09). A key that only may not do this one thing is kept.
    async fn failure(&self, error: ProviderError) -> AgentError {
        if let (ErrorKind::Auth, true, Some(key)) = (error.kind, self.choice.is_clients_key, &self.choice.key) {
            let told = self.events.token_refused(&self.shared.resource, key).await;
            if let Err(over) = told {
                return over;
            }
        }
        failure(error)
    }
}

/// A failure of a provider as the end of a turn.
fn failure(error: ProviderError) -> AgentError {
    let kind = match error.kind {
        ErrorKind::Auth | ErrorKind::Forbidden => "auth",
        ErrorKind::Quota => "quota",
        ErrorKind::RateLimited => "rateLimited",
        ErrorKind::Overloaded => "overloaded",
        ErrorKind::Server => "providerFailed",
        ErrorKind::ContextLength => "contextLength",
        ErrorKind::BadRequest => "badRequest",
        ErrorKind::Network => "network",
        ErrorKind::Interrupted => "interrupted",
        ErrorKind::Malformed => "malformedAnswer",
        ErrorKind::Refused => "refused",
        ErrorKind::NoModel => "noModel",
    };
    // A key or an account can be put in order; then the very same turn can go on.
    let can_go_on =
        error.kind.is_resumable() || matches!(error.kind, ErrorKind::Auth | ErrorKind::Forbidden | ErrorKind::Quota);
    if can_go_on {
        AgentError::resumable(kind, error.message)
    } else {
        AgentError::failed(kind, error.message)
    }
}

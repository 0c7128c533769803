//! The turn loop: requests an answer, runs its tool calls, and repeats until the model is done.

mod answer;
mod context_window;
mod hook_context;
mod setup;
mod subagent;
mod token_usage;
mod tool_calls;

use std::sync::Arc;

use innkeeper_host::agent::{ClientTool, Secret};
use innkeeper_host::{AgentError, EventSink};
use innkeeper_std::sync::Mutex;
use tokio::sync::mpsc;

use self::answer::{AnswerError, ModelAnswer, PendingCall};
use self::context_window::CompactionReason;
use self::token_usage::TurnUsage;
use self::tool_calls::carry_out;
use super::agent::models::{DEFAULT_EFFORT, Model};
use super::agent::sampling::{SamplingUsage, TurnSampler};
use super::agent::state::AgentState;
use super::api::{Effort, ModelMessage, ModelRequest, StopReason};
use super::client::ModelStream;
use super::conversation::{Conversation, Speaker};
use super::customizations::TurnContext;
use super::error::{ErrorKind, ProviderError};
use super::prompt::Prompt;
use super::prompt::instructions;
use super::retry::{Retry, jitter};
use super::toolbox::Toolbox;
use super::toolbox::agent_tools::AgentTool;
use crate::tools::ToolEnv;

/// Everything a running turn needs.
pub(super) struct TurnRun<'a> {
    pub(super) agent_state: &'a Arc<AgentState>,
    pub(super) events: &'a EventSink,
    pub(super) toolbox: Toolbox,
    pub(super) tool_env: ToolEnv,
    /// The session's customizations.
    pub(super) turn_context: TurnContext,
    /// Tool lists that restrict the turn, for subagents.
    pub(super) tool_lists: Vec<Vec<String>>,
    /// Model, effort and key of the turn.
    pub(super) choice: ModelChoice,
    /// The plan step in progress, shown as activity.
    pub(super) step: Mutex<Option<String>>,
    /// Token usage of MCP sampling requests.
    pub(super) sampling_usage: SamplingUsage,
}

/// The model of a turn and the key it is requested with.
#[derive(Debug, Clone)]
pub(super) struct ModelChoice {
    pub(super) model: Model,
    pub(super) effort: Option<Effort>,
    pub(super) key: Option<Secret>,
    /// Whether the key is a client's, who can be asked for a new one.
    pub(super) is_clients_key: bool,
    pub(super) client_tools: Vec<ClientTool>,
    /// Whether the turn runs in a subagent.
    pub(super) is_subagent: bool,
}

/// One answer of the model, which is already part of the conversation.
struct Round {
    calls: Vec<PendingCall>,
    stop: StopReason,
    /// Whether the answer has text for the user.
    has_text: bool,
}

impl<'a> TurnRun<'a> {
    /// Returns where tools work and what else they may read.
    pub(super) fn tool_env(&self) -> ToolEnv {
        ToolEnv {
            readable: self.turn_context.readable(),
            ..self.tool_env.clone()
        }
    }

    /// Shows pending notices, each once per chat.
    pub(super) async fn show_notices(&self, conversation: &mut Conversation) -> Result<(), AgentError> {
        for notice in self.turn_context.take_notices() {
            if conversation.is_first_notice(&notice) {
                self.events.notice(notice).await?;
            }
        }
        Ok(())
    }

    /// Runs the loop. The conversation already has the message to answer.
    pub(super) async fn run(&self, conversation: &mut Conversation) -> Result<(), AgentError> {
        let system = self.render().await?;
        let mut turn_usage = TurnUsage::default();
        hook_context::add_to(conversation, self.events);
        for _ in 0..self.agent_state.max_rounds {
            self.apply_file_rules(conversation).await?;
            let Round { calls, stop, has_text } = self.answer(conversation, &system, &mut turn_usage).await?;
            // A pause is not the end: the model continues from its own message.
            let is_done = calls.is_empty() && (stop != StopReason::Paused || !has_text);
            if !calls.is_empty() {
                let (outcomes, result) = carry_out(calls, &stop, self).await;
                self.add_sampling_usage(&mut turn_usage).await?;
                conversation.push(Speaker::Tools, ModelMessage::ToolResults(outcomes));
                let loaded = self.turn_context.take_loaded();
                if !loaded.is_empty() {
                    conversation.pin(loaded);
                    self.persist_memory(conversation).await?;
                }
                result?;
            }
            // The user may steer between rounds and before the turn ends.
            match self.events.steering().await? {
                Some(text) => conversation.steer(text),
                None if is_done && hook_context::may_stop(conversation, self.events).await? => {
                    return self.end(stop, has_text).await;
                }
                None => {}
            }
        }
        Err(AgentError::resumable(
            "tooManyRounds",
            format!(
                "The turn reached its limit of {} model requests. Resume it to continue, or send a new message.",
                self.agent_state.max_rounds
            ),
        ))
    }

    async fn end(&self, stop: StopReason, has_text: bool) -> Result<(), AgentError> {
        match stop {
            StopReason::Refused(why) => {
                let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                let why = why.trim_end_matches('.');
                let message = format!("The model refuses to answer{why}. Rephrase the request.");
                Err(AgentError::failed("refused", message))
            }
            StopReason::Length => {
                let notice = "The answer reached the token limit. Send “go on” to get the rest.";
                self.events.notice(notice).await
            }
            StopReason::Done | StopReason::ToolCalls | StopReason::Paused if !has_text => {
                let notice = "The model ended its answer without text. Send a message to continue.";
                self.events.notice(notice).await
            }
            StopReason::Done | StopReason::ToolCalls | StopReason::Paused => Ok(()),
        }
    }

    /// Renders the system prompt of this turn (SMT-06).
    async fn render(&self) -> Result<Vec<String>, AgentError> {
        let names = self.toolbox.names();
        let directories = &self.tool_env.working_directories;
        let has_skills = self.toolbox.has(AgentTool::Skill.name());
        let prompt = Prompt {
            directories: crate::model::prompt::paths(directories),
            today: self.agent_state.today(),
            tools: &names,
            custom_instructions: self.instructions().await,
            overrides: &self.agent_state.prompt_overrides,
            is_subagent: self.choice.is_subagent,
            skills: if has_skills {
                self.turn_context.skill_list()
            } else {
                String::new()
            },
            role: self.turn_context.role.as_ref(),
        };
        let rendered = self.events.render_prompt(prompt.sections()).await?;
        let sections = rendered.sections.into_iter().map(|section| section.content);
        Ok(sections.filter(|content| !content.trim().is_empty()).collect())
    }

    /// Loads the instructions of the directories and records the rules among them.
    async fn instructions(&self) -> String {
        if self.agent_state.overrides("custom_instructions") {
            return String::new();
        }
        let window = self.choice.model.context_window;
        let mut always = instructions::load(&self.tool_env.working_directories, &self.turn_context, window).await;
        let text = std::mem::take(&mut always.text);
        self.turn_context.apply_always_rules(always);
        text
    }

    /// Requests one answer, compacting the conversation if necessary. Partial answers are added to the conversation
    /// too, because the user has seen them.
    async fn answer(
        &self,
        conversation: &mut Conversation,
        system: &[String],
        turn_usage: &mut TurnUsage,
    ) -> Result<Round, AgentError> {
        let overhead = self.overhead(system);
        self.compact_if_full(conversation, overhead, turn_usage).await?;
        let mut has_compacted = false;
        loop {
            let counted = conversation.estimated_tokens() + overhead;
            let request = self.request(conversation, system);
            let mut answer = ModelAnswer::default();
            let outcome = match self.ask(&request).await {
                Ok(stream) => answer.read_stream(stream, self.events, &self.toolbox).await,
                Err(broken) => Err(broken),
            };
            if let Some(real) = answer.usage.input {
                conversation.calibrate(counted, real);
            }
            turn_usage.add(answer.usage);
            let stop = answer.stop.clone().unwrap_or(StopReason::Done);
            let has_text = answer.has_text();
            let (parts, calls) = answer.finish();
            if has_text || !calls.is_empty() {
                conversation.push(Speaker::Model, ModelMessage::Assistant(parts));
            }
            match outcome {
                Ok(()) => {
                    self.report_usage(turn_usage).await?;
                    return Ok(Round { calls, stop, has_text });
                }
                Err(AnswerError::Turn(error)) => return Err(error),
                Err(AnswerError::Provider(error)) if error.kind == ErrorKind::ContextLength && !has_compacted => {
                    has_compacted = true;
                    if !self
                        .compact_for(conversation, overhead, CompactionReason::ProviderRefused, turn_usage)
                        .await?
                    {
                        return Err(self.failure(error).await);
                    }
                }
                Err(AnswerError::Provider(error)) => {
                    self.report_usage(turn_usage).await?;
                    return Err(self.failure(error).await);
                }
            }
        }
    }

    /// Returns a sampler for MCP servers.
    pub(super) fn sampler(&self) -> Arc<TurnSampler> {
        Arc::new(TurnSampler {
            agent_state: Arc::clone(self.agent_state),
            model: self.choice.model.clone(),
            key: self.choice.key.clone(),
            sampling_usage: Arc::clone(&self.sampling_usage),
        })
    }

    /// Adds the usage of sampling requests to the turn's usage.
    async fn add_sampling_usage(&self, turn_usage: &mut TurnUsage) -> Result<(), AgentError> {
        let written = std::mem::take(&mut *self.sampling_usage.lock());
        if written.is_empty() {
            return Ok(());
        }
        written.into_iter().for_each(|usage| turn_usage.add(usage));
        match self.report_usage(turn_usage).await {
            // Tool results are added to the conversation first, even if the turn was cancelled.
            Ok(()) | Err(AgentError::Cancelled) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn report_usage(&self, turn_usage: &TurnUsage) -> Result<(), AgentError> {
        let usage = turn_usage.usage(&self.choice.model.id, self.turn_context.applied_rules());
        self.events.usage(usage).await
    }

    fn request(&self, conversation: &Conversation, system: &[String]) -> ModelRequest {
        let model = &self.choice.model;
        ModelRequest {
            model: model.id.clone(),
            system: system.to_vec(),
            messages: conversation.messages(model.accepts_images),
            tools: self.toolbox.specs(),
            max_output_tokens: model.max_output_tokens,
            temperature: None,
            effort: model
                .accepts_effort
                .then_some(self.choice.effort.unwrap_or(DEFAULT_EFFORT)),
        }
    }

    /// Sends the request and shows retries as activity.
    async fn ask(&self, request: &ModelRequest) -> Result<ModelStream, AnswerError> {
        let (announcements, mut announced) = mpsc::unbounded_channel();
        let announce = |retry: Retry<'_>| {
            let seconds = retry.after.as_secs_f64().ceil();
            let _ = announcements.send(format!(
                "{} Trying again in {seconds} s ({} of {}).",
                retry.error.message, retry.attempt, retry.of
            ));
        };
        let key = self.choice.key.as_ref();
        let client = &self.agent_state.client;
        let asking = client.stream_with_retries(request, key, &self.agent_state.retry, jitter, announce);
        tokio::pin!(asking);
        let mut is_waiting = false;
        loop {
            tokio::select! {
                biased;
                () = self.events.cancelled() => return Err(AnswerError::Turn(AgentError::Cancelled)),
                Some(text) = announced.recv() => {
                    is_waiting = true;
                    self.events.activity(text).await?;
                }
                answer = &mut asking => {
                    if is_waiting {
                        self.restore_activity().await?;
                    }
                    return answer.map_err(AnswerError::Provider);
                }
            }
        }
    }

    /// Sets the plan step in progress and shows it.
    pub(super) async fn set_plan_step(&self, step: Option<String>) -> Result<(), AgentError> {
        *self.step.lock() = step;
        self.restore_activity().await
    }

    /// Shows the plan step again after another activity.
    pub(super) async fn restore_activity(&self) -> Result<(), AgentError> {
        let step = self.step.lock().clone();
        match step {
            Some(step) => self.events.activity(step).await,
            None => self.events.no_activity().await,
        }
    }

    /// Converts a provider error into the turn's error. A client whose key is rejected is asked for a new one
    /// (AUTH-09). A key that merely lacks a permission is kept.
    async fn failure(&self, error: ProviderError) -> AgentError {
        if let (ErrorKind::Auth, true, Some(key)) = (error.kind, self.choice.is_clients_key, &self.choice.key) {
            let reported = self.events.token_refused(&self.agent_state.resource, key).await;
            if let Err(over) = reported {
                return over;
            }
        }
        failure(error)
    }
}

/// Converts a provider error into the turn's error.
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
    // The same turn can continue after the key or account is fixed.
    let can_go_on =
        error.kind.is_resumable() || matches!(error.kind, ErrorKind::Auth | ErrorKind::Forbidden | ErrorKind::Quota);
    if can_go_on {
        AgentError::resumable(kind, error.message)
    } else {
        AgentError::failed(kind, error.message)
    }
}

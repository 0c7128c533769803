//! The hook events of a turn, the same for every agent.
//!
//! The host runs hooks where it sees the event by itself: before a message reaches the agent, before and after a tool
//! call, when a subagent starts, while a user is asked. Two things only the agent can do: give its model the context
//! that hooks add ([`EventSink::added_context`], [`EventSink::context_of`]), and continue when a hook does not let it
//! stop ([`EventSink::may_stop`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use innkeeper_core::agent::{ToolContent, ToolResult};
use innkeeper_core::{REFUSED, TurnStart};
use innkeeper_std::sync::{Mutex, MutexGuard};
use serde_json::{Map, Value, json};

use crate::agent::{AgentError, EventSink};
use crate::services::customizations::{HookCall, HookEvent, HookOutcome};
use crate::services::mcp::ServerTool;

/// The number of times that hooks can make an agent continue in one turn: two hooks that disagree would do so without
/// end.
const MAX_ROUNDS: u32 = 3;
/// The wait for a user after which a notification hook runs: the policy answers at once, and a user who is at the
/// client answers soon.
const MOMENT: Duration = Duration::from_secs(1);
/// How often a turn says that it is at work while hooks run.
const ALIVE_PACE: Duration = Duration::from_secs(20);

/// The tool of a call, as hooks hear of it.
#[derive(Debug)]
pub(in crate::agent) struct Tool {
    /// The name that models know it by.
    pub(in crate::agent) name: String,
    /// Which one it is of an MCP server's.
    pub(in crate::agent) mcp: Option<Box<ServerTool>>,
}

/// The context that every hook of a run gets, and the context that hooks added.
#[derive(Debug, Default)]
pub(crate) struct HookContext {
    session: Arc<str>,
    turn: Arc<str>,
    working_directories: Vec<String>,
    is_subagent: bool,
    state: Mutex<HookState>,
}

#[derive(Debug, Default)]
struct HookState {
    /// Context for the model: by call, or for the turn as a whole.
    context: HashMap<Option<String>, Vec<String>>,
    /// The name of a subagent's kind.
    kind: String,
    /// Whether the stop hooks ran.
    stopped: bool,
    /// How often they continued the turn.
    rounds: u32,
}

impl HookContext {
    pub(crate) fn of_turn(start: &TurnStart) -> Arc<Self> {
        Arc::new(Self {
            session: Arc::clone(&start.info.session),
            turn: start.info.turn_id.as_str().into(),
            working_directories: start.info.working_directories.clone(),
            ..Self::default()
        })
    }

    /// The context of a subagent: that of its parent, but for what was said in it.
    pub(crate) fn of_subagent(parent: &Self) -> Arc<Self> {
        Arc::new(Self {
            session: Arc::clone(&parent.session),
            turn: Arc::clone(&parent.turn),
            working_directories: parent.working_directories.clone(),
            is_subagent: true,
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, HookState> {
        self.state.lock()
    }

    fn call(&self, event: HookEvent, subject: &str, input: Map<String, Value>) -> HookCall {
        HookCall {
            event,
            subject: subject.to_owned(),
            mcp: None,
            session: Arc::clone(&self.session),
            turn: Arc::clone(&self.turn),
            working_directories: self.working_directories.clone(),
            input,
        }
    }
}

impl EventSink {
    /// Takes the context that hooks added for the model in this turn, or in this subagent's, beside the user's message.
    /// Each piece is returned once.
    pub fn added_context(&self) -> Vec<String> {
        self.hook_context.state().context.remove(&None).unwrap_or_default()
    }

    /// Takes the context that hooks added about one call, by the call's id, once the call is over. Each piece is
    /// returned once.
    pub fn context_of(&self, call: &str) -> Vec<String> {
        let key = Some(call.to_owned());
        self.hook_context.state().context.remove(&key).unwrap_or_default()
    }

    /// Asks whether the agent may end its turn. A hook may want it to continue: then this returns the hook's reason,
    /// which the agent gives to its model before it continues. An agent that does not ask is done when it returns.
    ///
    /// # Errors
    ///
    /// When the turn is cancelled.
    pub async fn may_stop(&self) -> Result<Option<String>, AgentError> {
        let event = if self.hook_context.is_subagent {
            HookEvent::SubagentStop
        } else {
            HookEvent::Stop
        };
        let (kind, rounds) = {
            let mut state = self.hook_context.state();
            state.stopped = true;
            (state.kind.clone(), state.rounds)
        };
        let input = object(json!({ "stop_hook_active": rounds > 0, "agent_type": kind }));
        let outcome = self.hook(event, &kind, input).await?;
        if let Some(why) = outcome.stop {
            self.notice(format!("A hook ends the turn here: {why}")).await?;
            return Ok(None);
        }
        let Some(reason) = outcome.deny else {
            return Ok(None);
        };
        if rounds >= MAX_ROUNDS {
            let notice = format!(
                "A hook wants the agent to continue after it did so {MAX_ROUNDS} times, the limit of one turn. \
                 It said: {reason}"
            );
            self.notice(notice).await?;
            return Ok(None);
        }
        self.hook_context.state().rounds += 1;
        self.notice(format!("A hook sends the agent on: {reason}")).await?;
        Ok(Some(reason))
    }

    /// Runs the hooks before a turn. If one refuses, the agent does not get the turn.
    pub(crate) async fn turn_begins(&self, start: &TurnStart, is_first: bool) -> Result<(), AgentError> {
        if is_first {
            let is_new = start.info.turns_before == 0 && !start.info.resume;
            let source = if is_new { "startup" } else { "resume" };
            let input = object(json!({ "source": source }));
            let outcome = self.hook(HookEvent::SessionStart, source, input).await?;
            // It is about the whole session, and waits for a turn that begins.
            self.link.add_opening_context(outcome.context);
            refuse(outcome.stop)?;
        }
        let mut of_prompt = Vec::new();
        if !start.info.resume {
            let input = object(json!({ "prompt": start.info.text }));
            let outcome = self.hook(HookEvent::UserPromptSubmit, "", input).await?;
            refuse(outcome.deny.or(outcome.stop))?;
            of_prompt = outcome.context;
        }
        self.keep_context(None, self.link.take_opening_context());
        self.keep_context(None, of_prompt);
        Ok(())
    }

    /// Runs the hooks before a steering message reaches the agent, as for any message. Returns whether the agent may
    /// have it.
    pub(in crate::agent) async fn steering_comes(&self, words: &str) -> Result<bool, AgentError> {
        let input = object(json!({ "prompt": words }));
        let outcome = self.hook(HookEvent::UserPromptSubmit, "", input).await?;
        if let Some(reason) = outcome.deny {
            let notice = format!("A hook refused this message, so the agent did not get it: {reason}");
            self.notice(notice).await?;
            return Ok(false);
        }
        if let Some(why) = outcome.stop {
            return Err(stopped(&why));
        }
        self.keep_context(None, outcome.context);
        Ok(true)
    }

    /// Runs the stop hooks after the agent is done, unless the agent asked before.
    pub(crate) async fn turn_ends(&self) -> Result<(), AgentError> {
        let stopped = self.hook_context.state().stopped;
        if !stopped && let Some(reason) = self.may_stop().await? {
            let notice = format!("This agent cannot be sent on, so the turn ends although a hook said: {reason}");
            self.notice(notice).await?;
        }
        Ok(())
    }

    /// A subagent is about to start.
    pub(in crate::agent) async fn subagent_starts(&self, kind: Option<&str>) -> Result<(), AgentError> {
        let kind = kind.unwrap_or("subagent");
        kind.clone_into(&mut self.hook_context.state().kind);
        let input = object(json!({ "agent_id": self.turn.0.to_string(), "agent_type": kind }));
        let outcome = self.hook(HookEvent::SubagentStart, kind, input).await?;
        self.keep_context(None, outcome.context);
        Ok(())
    }

    /// Runs the hooks before a tool call. Context that they add for the model is retained.
    pub(in crate::agent) async fn tool_begins(
        &self,
        call: &str,
        tool: &Tool,
        input: Option<&str>,
    ) -> Result<HookOutcome, AgentError> {
        if !self.hears(HookEvent::PreToolUse) {
            return Ok(HookOutcome::default());
        }
        let told = about_call(call, &tool.name, input);
        let mut outcome = self.hook_of_tool(HookEvent::PreToolUse, tool, told).await?;
        self.keep_context(Some(call), std::mem::take(&mut outcome.context));
        Ok(outcome)
    }

    /// Whether hooks want to hear of the end of a call.
    pub(in crate::agent) fn hears_end(&self, result: &ToolResult) -> bool {
        self.hears(end_of(result))
    }

    /// A tool was called.
    pub(in crate::agent) async fn tool_ended(
        &self,
        call: &str,
        tool: &Tool,
        input: Option<&str>,
        result: &ToolResult,
    ) -> Result<(), AgentError> {
        let event = end_of(result);
        let mut told = about_call(call, &tool.name, input);
        told.insert("tool_response".to_owned(), response(result));
        if let Some(error) = &result.error {
            told.insert("error".to_owned(), Value::String(error.clone()));
        }
        let outcome = self.hook_of_tool(event, tool, told).await?;
        self.keep_context(Some(call), outcome.context.into_iter().chain(outcome.deny).collect());
        match outcome.stop {
            Some(why) => Err(stopped(&why)),
            None => Ok(()),
        }
    }

    /// Waits for a user, and runs the notification hooks if it takes longer than [`MOMENT`].
    pub(in crate::agent) async fn while_user_decides<T>(
        &self,
        kind: &'static str,
        message: String,
        waiting: impl Future<Output = T>,
    ) -> T {
        if !self.hears(HookEvent::Notification) {
            return waiting.await;
        }
        tokio::pin!(waiting);
        tokio::select! {
            biased;
            answer = &mut waiting => return answer,
            () = tokio::time::sleep(MOMENT) => {}
        }
        let input = object(json!({ "message": message, "notification_type": kind }));
        let call = self.hook_context.call(HookEvent::Notification, kind, input);
        let events = self.clone();
        // Runs beside the turn, which does not wait for notification hooks.
        self.link.run_apart(async move {
            let (hooks, off) = events.customizations.hooks();
            let outcome = hooks.run(call, off, None).await;
            for notice in outcome.notices {
                let _ = events.notice(notice).await;
            }
        });
        waiting.await
    }

    fn hears(&self, event: HookEvent) -> bool {
        let (hooks, off) = self.customizations.hooks();
        hooks.hear(event, off)
    }

    async fn hook(
        &self,
        event: HookEvent,
        subject: &str,
        input: Map<String, Value>,
    ) -> Result<HookOutcome, AgentError> {
        self.hook_with(self.hook_context.call(event, subject, input)).await
    }

    async fn hook_of_tool(
        &self,
        event: HookEvent,
        tool: &Tool,
        input: Map<String, Value>,
    ) -> Result<HookOutcome, AgentError> {
        let call = HookCall {
            mcp: tool.mcp.as_deref().cloned(),
            ..self.hook_context.call(event, &tool.name, input)
        };
        self.hook_with(call).await
    }

    async fn hook_with(&self, call: HookCall) -> Result<HookOutcome, AgentError> {
        if !self.hears(call.event) {
            return Ok(HookOutcome::default());
        }
        let (hooks, off) = self.customizations.hooks();
        let running = hooks.run(call, off, Some(self));
        tokio::pin!(running);
        let mut outcome = loop {
            tokio::select! {
                biased;
                () = self.cancelled.cancelled() => return Err(AgentError::Cancelled),
                outcome = &mut running => break outcome,
                () = tokio::time::sleep(ALIVE_PACE) => self.alive().await?,
            }
        };
        for notice in std::mem::take(&mut outcome.notices) {
            self.notice(notice).await?;
        }
        Ok(outcome)
    }

    fn keep_context(&self, call: Option<&str>, context: Vec<String>) {
        if !context.is_empty() {
            let key = call.map(str::to_owned);
            self.hook_context
                .state()
                .context
                .entry(key)
                .or_default()
                .extend(context);
        }
    }
}

/// A hook ends the turn.
pub(in crate::agent) fn stopped(why: &str) -> AgentError {
    AgentError::failed("stoppedByHook", format!("A hook ended the turn: {why}"))
}

fn end_of(result: &ToolResult) -> HookEvent {
    if result.success {
        HookEvent::PostToolUse
    } else {
        HookEvent::PostToolUseFailure
    }
}

fn refuse(reason: Option<String>) -> Result<(), AgentError> {
    match reason {
        Some(reason) => {
            let message = format!("A hook refused this message, so the agent did not get it: {reason}");
            Err(AgentError::failed(REFUSED, message))
        }
        None => Ok(()),
    }
}

fn about_call(call: &str, tool: &str, input: Option<&str>) -> Map<String, Value> {
    // Input that is no JSON is passed on as text.
    let input = input.map_or_else(
        || json!({}),
        |text| serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())),
    );
    object(json!({ "tool_name": tool, "tool_use_id": call, "tool_input": input }))
}

fn response(result: &ToolResult) -> Value {
    let texts = result.content.iter().filter_map(|content| match content {
        ToolContent::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    let mut response = object(json!({ "success": result.success, "summary": result.summary, "text": text }));
    if let Some(error) = &result.error {
        response.insert("error".to_owned(), Value::String(error.clone()));
    }
    if let Some(structured) = &result.structured {
        response.insert("structured".to_owned(), Value::Object(structured.clone()));
    }
    Value::Object(response)
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

//! The state that all stages of a tool call share: its identity in the turn, its input, and the verdict of hooks.

use std::sync::Arc;

use innkeeper_core::AgentEvent;
use innkeeper_core::agent::{Contributor, Permission, ToolReady, ToolStep};

use super::{Invocation, RiskReporter, ToolCall, ToolCallBuilder};
use crate::agent::runtime::hooks::{Tool, stopped};
use crate::agent::runtime::mailbox::{MAX_CALL_ID, Replies, Slot};
use crate::agent::{AgentError, EventSink, ToolResult};

pub(super) fn step(call: &str, step: ToolStep) -> AgentEvent {
    AgentEvent::Tool {
        call: call.to_owned(),
        step: Box::new(step),
    }
}

/// The verdict of hooks about a call that may run.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::agent) struct HookVerdict {
    /// A confirmation is required, whatever the policy is.
    pub(in crate::agent) must_ask: bool,
    /// No confirmation is needed.
    pub(in crate::agent) pre_approved: bool,
}

/// The state that all stages of a call share.
#[derive(Debug)]
pub(in crate::agent) struct Call {
    pub(in crate::agent) events: EventSink,
    pub(in crate::agent) id: Arc<str>,
    tool: Tool,
    slot: Arc<Slot>,
    pub(super) is_mcp: bool,
    /// The input so far.
    pub(super) input: Option<String>,
    /// The verdict of hooks, if they ran before the call is ready.
    pub(super) verdict: Option<HookVerdict>,
    /// Whether nothing is left to be said about it.
    pub(in crate::agent) is_over: bool,
}

impl Call {
    pub(in crate::agent) async fn start(builder: ToolCallBuilder) -> Result<Self, AgentError> {
        let ToolCallBuilder { events, id, start, mcp } = builder;
        if start.name.is_empty() || start.name.len() > MAX_CALL_ID {
            return Err(AgentError::failed(
                "badToolName",
                format!(
                    "the agent called a tool with a name of {} bytes; 1 to {MAX_CALL_ID} are possible",
                    start.name.len()
                ),
            ));
        }
        let id = id.unwrap_or_else(|| events.mailbox.fresh_id("call"));
        let slot = events.mailbox.add_call(&id)?;
        let call = Self {
            events,
            id: id.into(),
            tool: Tool {
                name: start.name.clone(),
                mcp: mcp.map(Box::new),
            },
            slot,
            is_mcp: matches!(start.contributor, Contributor::Mcp(_)),
            input: None,
            verdict: None,
            is_over: false,
        };
        call.step(ToolStep::Start(start)).await?;
        Ok(call)
    }

    pub(in crate::agent) async fn step(&self, mut what: ToolStep) -> Result<(), AgentError> {
        self.events.keep_sides(&mut what).await;
        self.events.send(step(&self.id, what)).await
    }

    /// The input is complete.
    pub(in crate::agent) async fn ready(
        &mut self,
        invocation: Invocation,
        permission: Permission,
    ) -> Result<(), AgentError> {
        let input = invocation.input.or_else(|| self.input.take());
        self.input.clone_from(&input);
        self.step(ToolStep::Ready(ToolReady {
            invocation: invocation.message,
            input,
            permission,
        }))
        .await
    }

    pub(in crate::agent) async fn wait<T>(&self, take: impl Fn(&mut Replies) -> Option<T>) -> Result<T, AgentError> {
        self.slot.wait(&self.events.cancelled, take).await
    }

    /// Drops replies to an earlier sign-in request.
    pub(in crate::agent) fn forget_sign_in(&self) {
        self.slot.forget_sign_in();
    }

    pub(in crate::agent) async fn complete(&mut self, result: ToolResult) -> Result<(), AgentError> {
        self.step(ToolStep::Done { result, review: false }).await?;
        self.is_over = true;
        Ok(())
    }

    pub(super) fn running(self) -> ToolCall {
        ToolCall {
            call: self,
            is_signing_in: false,
        }
    }

    /// Has hooks look at the call. One that they refuse is over.
    pub(in crate::agent) async fn check(
        &mut self,
        input: Option<&str>,
    ) -> Result<(HookVerdict, Option<String>), AgentError> {
        let outcome = self.events.tool_begins(&self.id, &self.tool, input).await?;
        if let Some(reason) = outcome.stop {
            self.refuse(&reason).await?;
            return Err(stopped(&reason));
        }
        if let Some(reason) = outcome.deny {
            self.refuse(&reason).await?;
            return Err(AgentError::denied(reason));
        }
        let verdict = HookVerdict {
            must_ask: outcome.ask,
            pre_approved: outcome.allow && !outcome.ask,
        };
        Ok((verdict, outcome.input.map(|input| input.to_string())))
    }

    /// Returns the verdict of hooks about a call that is about to be ready, if they did not run before.
    pub(super) async fn hook_verdict(&mut self, invocation: &Invocation) -> Result<HookVerdict, AgentError> {
        if let Some(verdict) = self.verdict.take() {
            return Ok(verdict);
        }
        let input = invocation.input.clone().or_else(|| self.input.clone());
        let (verdict, changed) = self.check(input.as_deref()).await?;
        if changed.is_some() {
            // The confirmation shows the input that the agent has.
            let reason = "a hook wants another input for this call, and this agent cannot take one from it";
            self.refuse(reason).await?;
            return Err(AgentError::denied(reason));
        }
        Ok(verdict)
    }

    /// Takes the input that a user wrote instead. Hooks have judged another one, so they run again before this one is
    /// executed, and may demand a confirmation. An input that hooks would change again is refused, because no user
    /// approved it.
    pub(super) async fn take_edited(&mut self, edited: String) -> Result<HookVerdict, AgentError> {
        if self.input.as_ref() == Some(&edited) {
            return Ok(HookVerdict::default());
        }
        let (verdict, changed) = self.check(Some(&edited)).await?;
        if changed.is_some_and(|changed| !is_same(&changed, &edited)) {
            let reason = "a hook wants another input than the one that the user wrote for this call";
            self.refuse(reason).await?;
            return Err(AgentError::denied(reason));
        }
        self.input = Some(edited);
        Ok(verdict)
    }

    async fn refuse(&mut self, reason: &str) -> Result<(), AgentError> {
        let summary = format!("A hook refused {}", self.tool.name);
        self.complete(ToolResult::failed(summary, reason)).await
    }

    /// The end of a call that ran, if hooks want to hear of it.
    pub(in crate::agent) fn ended(&self, result: &ToolResult) -> Option<ToolResult> {
        self.events.hears_end(result).then(|| result.clone())
    }

    /// Tells hooks of it.
    pub(in crate::agent) async fn tell(&self, ended: Option<ToolResult>) -> Result<(), AgentError> {
        match ended {
            Some(result) => {
                let input = self.input.as_deref();
                self.events.tool_ended(&self.id, &self.tool, input, &result).await
            }
            None => Ok(()),
        }
    }

    pub(super) fn risk_reporter(&self) -> RiskReporter {
        RiskReporter {
            events: self.events.clone(),
            id: Arc::clone(&self.id),
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.events.mailbox.remove_call(&self.id);
        if !self.is_over {
            let result = ToolResult::failed("Not finished", "the agent dropped this call before it was complete");
            let done = ToolStep::Done { result, review: false };
            self.events.send_now(step(&self.id, done));
        }
    }
}

/// Whether two inputs say the same, however they are written.
fn is_same(one: &str, other: &str) -> bool {
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    one == other || read(one).is_some_and(|one| Some(one) == read(other))
}

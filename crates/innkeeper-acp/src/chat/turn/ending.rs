//! The end of a turn: decisions that are still open, calls that were left open, usage, and the reason of the end.

use std::time::Duration;

use futures_util::StreamExt as _;
use innkeeper_host::AgentError;
use innkeeper_host::agent::{ToolResult, Usage};
use serde_json::{Value, json};

use super::super::calls::Consequence;
use super::super::hook_block;
use super::TurnRun;
use crate::from_agent::{self, StepStatus, Tokens, UsageScope, checklist};
use crate::session::sign_in_message;
use crate::to_agent;
use crate::wire::{Closed, RpcError, code};

/// How long decisions are awaited after the agent has ended its turn: hooks may still run.
const SETTLE_TIME: Duration = Duration::from_secs(30);

impl TurnRun<'_> {
    /// Ends the turn after the agent's answer.
    pub(super) async fn end(&mut self, outcome: Result<Value, RpcError>) -> Result<(), AgentError> {
        if let Some(call) = self.plan.take() {
            let done = self.steps.iter().filter(|step| step.status == StepStatus::Done).count();
            let summary = format!("Plan: {done} of {} steps done", self.steps.len());
            call.complete(ToolResult::text(summary, checklist(&self.steps))).await?;
        }
        let answer = match outcome {
            Ok(answer) => answer,
            Err(error) => return Err(self.explain(&error)),
        };
        if let Some(reason) = self.stopped.take() {
            let message = format!(
                "{} ran a tool that a hook refuses, so it was stopped: {reason}",
                self.shared.name()
            );
            return Err(AgentError::failed("hookRefused", message));
        }
        if let Some(notice) = self.stop_notice(answer["stopReason"].as_str()) {
            self.events.notice(notice).await?;
        }
        Ok(())
    }

    /// Closes what the agent left open when it answered a prompt, and reports its usage. Returns whether it was done by
    /// itself.
    pub(super) async fn conclude(&mut self, outcome: &Result<Value, RpcError>) -> Result<bool, AgentError> {
        self.settle().await?;
        // An agent that is gone is noticed by the next turn.
        let _ = self.answer_open().await;
        self.calls.close(&self.terminals).await?;
        for call in std::mem::take(&mut self.calls.ids) {
            self.hook_context.extend(self.events.context_of(&call));
        }
        let Ok(answer) = outcome else {
            return Ok(false);
        };
        self.report_usage(answer).await?;
        let is_done = matches!(answer["stopReason"].as_str(), Some("end_turn") | None);
        Ok(is_done && self.stopped.is_none())
    }

    async fn report_usage(&mut self, answer: &Value) -> Result<(), AgentError> {
        let mut context = self.session.context.clone();
        if !self.session.unmapped.is_empty() {
            let unmapped = std::mem::take(&mut self.session.unmapped);
            context.insert("unmapped".to_owned(), Value::Array(unmapped));
        }
        let scope = self.shared.usage_scope();
        if let Some(tokens) = Tokens::of_answer(answer) {
            self.spent = match scope {
                UsageScope::Turn => self.spent.plus(tokens),
                UsageScope::Process => self.spent.plus(tokens.since(self.session.tokens)),
                UsageScope::LastCall => tokens,
            };
            if scope == UsageScope::LastCall {
                context.insert("usageScope".to_owned(), json!("lastCall"));
            }
            self.session.tokens = tokens;
            let usage = self.spent.usage(self.session.model(), &context);
            self.events.usage(usage).await?;
        } else if !context.is_empty() {
            let usage = Usage {
                model: self.session.model(),
                meta: from_agent::named(context),
                ..Usage::default()
            };
            self.events.usage(usage).await?;
        }
        Ok(())
    }

    /// Has the agent go on after it was done, because a hook wants that.
    pub(super) async fn go_on(&mut self, reason: &str) -> Result<i64, Closed> {
        let context = std::mem::take(&mut self.hook_context);
        let texts = hook_block(&context).into_iter().chain([reason.to_owned()]);
        let blocks: Vec<Value> = texts.map(|text| to_agent::text_block(&text)).collect();
        let params = json!({ "sessionId": self.session.id, "prompt": blocks });
        self.session.wire.request("session/prompt", params).await
    }

    /// Waits for the decisions that are still open when the agent has answered. Questions to users are withdrawn, because
    /// the agent does not wait for them any more.
    async fn settle(&mut self) -> Result<(), AgentError> {
        let settling = async {
            while self.calls.is_moving()
                && let Some(moved) = self.moves.next().await
            {
                let is_question = moved.asked.is_some();
                let id = moved.call.clone();
                if let Consequence::Stop(reason) = self.calls.moved(moved)? {
                    self.stopped.get_or_insert(reason);
                }
                if !is_question {
                    let moving = self.calls.follow(&id, &self.terminals).await?;
                    self.moves.extend(moving);
                }
            }
            Ok(())
        };
        match tokio::time::timeout(SETTLE_TIME, settling).await {
            Ok(outcome) => outcome,
            Err(_) => {
                self.moves.clear();
                Ok(())
            }
        }
    }

    /// Returns the notice for a turn that did not end as turns should.
    fn stop_notice(&self, reason: Option<&str>) -> Option<String> {
        let name = self.shared.name();
        match reason {
            Some("end_turn") | None if !self.has_shown => Some(format!("{name} ended its turn without an answer.")),
            Some("end_turn") | None => None,
            Some("max_tokens") => Some(format!("{name} stopped: the answer reached the limit of tokens.")),
            Some("max_turn_requests") => Some(format!("{name} stopped: the turn reached its limit of model requests.")),
            Some("refusal") => Some(format!("{name} refused to go on.")),
            // Codex and Grok end their turn when a call is refused.
            Some("cancelled") if self.is_denied => Some(format!("{name} stopped because a tool call was refused.")),
            Some(other) => Some(format!("{name} stopped: {other}.")),
        }
    }

    fn explain(&self, error: &RpcError) -> AgentError {
        let name = self.shared.name();
        let problem = error.in_words();
        if error.code == code::AUTH_REQUIRED {
            return AgentError::resumable(
                "agentSignIn",
                sign_in_message(self.shared, &self.session.learned, &problem),
            );
        }
        // Claude has streamed the same text as its answer.
        let short = problem.trim_start_matches("Internal error: ");
        if !short.is_empty() && self.reply.contains(short) {
            return AgentError::resumable("agentError", format!("{name} stopped with the error above."));
        }
        AgentError::resumable("agentError", format!("{name} reported an error: {problem}"))
    }
}

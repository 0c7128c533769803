//! The context window: computes its budget and compacts the conversation when it is exceeded.

use innkeeper_host::AgentError;

use super::TurnRun;
use super::token_usage::TurnUsage;
use crate::model::api::ModelRequest;
use crate::model::conversation::Conversation;
use crate::model::conversation::compaction::Compaction;
use crate::model::conversation::tokens::tokens_in;

/// Assumed maximum output tokens if the model has no limit.
const DEFAULT_OUTPUT_TOKENS: usize = 16_000;
/// Minimum gain of a compaction, in tokens.
const MIN_GAIN_TOKENS: usize = 100;

/// Why the conversation is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::model) enum CompactionReason {
    /// The next request would exceed the window by our estimate.
    WindowFull,
    /// The provider rejected the request as too long.
    ProviderRefused,
    /// The user asked for it.
    UserRequested,
}

impl TurnRun<'_> {
    /// Maximum tokens of a request.
    fn request_budget(&self) -> usize {
        let model = &self.choice.model;
        let window = model.context_window as usize;
        let output = model
            .max_output_tokens
            .map_or(DEFAULT_OUTPUT_TOKENS, |limit| limit as usize);
        window - output.min(window / 4)
    }

    /// Estimated tokens of a request without the conversation.
    pub(in crate::model) fn overhead(&self, system: &[String]) -> usize {
        let specs = self.toolbox.specs();
        let tools: usize = specs
            .iter()
            .map(|spec| tokens_in(&spec.description) + tokens_in(&spec.input_schema.to_string()) + 20)
            .sum();
        system.iter().map(|text| tokens_in(text)).sum::<usize>() + tools
    }

    /// Compacts the conversation if the next request would be too long.
    pub(in crate::model) async fn compact_if_full(
        &self,
        conversation: &mut Conversation,
        overhead: usize,
        turn_usage: &mut TurnUsage,
    ) -> Result<(), AgentError> {
        if conversation.tokens() + conversation.calibrated(overhead) > self.request_budget() {
            self.compact_for(conversation, overhead, CompactionReason::WindowFull, turn_usage)
                .await?;
        }
        Ok(())
    }

    /// Compacts the conversation and tells the user. Returns false if there was nothing to compact.
    pub(in crate::model) async fn compact_for(
        &self,
        conversation: &mut Conversation,
        overhead: usize,
        why: CompactionReason,
        turn_usage: &mut TurnUsage,
    ) -> Result<bool, AgentError> {
        let before = conversation.tokens();
        let overhead = conversation.calibrated(overhead);
        let limit = match why {
            CompactionReason::WindowFull => self.request_budget().saturating_sub(overhead),
            // The estimate was too low, or the real window is smaller than assumed.
            CompactionReason::ProviderRefused => (self.request_budget() / 2).saturating_sub(overhead).min(before / 2),
            CompactionReason::UserRequested => before / 2,
        };
        let Some(compaction) = Compaction::plan(conversation, limit / 3) else {
            return Ok(false);
        };
        let compaction = compaction.with_available(self.turn_context.available_ids());
        // Compactions with little gain would be repeated before every request.
        let minimum = if why == CompactionReason::WindowFull {
            limit / 10
        } else {
            0
        };
        if conversation.calibrated(compaction.gain) < minimum.max(MIN_GAIN_TOKENS) {
            return Ok(false);
        }
        self.events.activity("Compacts the conversation").await?;
        let request = compaction.request(conversation, &self.choice.model, self.request_budget() / 2);
        let summary = self.request_summary(&request, turn_usage).await?;
        match summary.clone() {
            Some(text) => {
                let through = compaction.through();
                compaction.apply(conversation, &text);
                if let Some(through) = through {
                    conversation.memory.compact(&through, &text);
                    self.persist_memory(conversation).await?;
                }
            }
            None => compaction.apply_without_summary(conversation, limit),
        }
        let after = conversation.tokens();
        let reason = match why {
            CompactionReason::WindowFull | CompactionReason::ProviderRefused => {
                "The conversation exceeded the context window, so its beginning"
            }
            CompactionReason::UserRequested => "The beginning of the conversation",
        };
        let notice = format!(
            "{reason} was summarised (from about {before} to {after} tokens). Your messages are kept verbatim."
        );
        self.events.notice(notice).await?;
        if let Some(summary) = summary {
            // Users can read the summary. It is attached because it is too long for the chat.
            self.events.attach("summary.md", summary, "text/markdown").await?;
        }
        self.restore_activity().await?;
        Ok(true)
    }

    /// Compacts the conversation at the user's request.
    pub(in crate::model) async fn compact_on_request(&self, conversation: &mut Conversation) -> Result<(), AgentError> {
        let mut turn_usage = TurnUsage::default();
        if self
            .compact_for(conversation, 0, CompactionReason::UserRequested, &mut turn_usage)
            .await?
        {
            self.events
                .usage(turn_usage.usage(&self.choice.model.id, Vec::new()))
                .await
        } else {
            self.events.text("There is nothing to compact yet.").await
        }
    }

    /// Persists the chat's memory. A subagent's chat is never reopened, so it has none.
    pub(in crate::model) async fn persist_memory(&self, conversation: &Conversation) -> Result<(), AgentError> {
        if self.choice.is_subagent {
            return Ok(());
        }
        match self.events.remember(conversation.memory.to_value()).await {
            Err(AgentError::Cancelled) => Err(AgentError::Cancelled),
            // Memory that is too large is not persisted; the turn continues.
            Ok(()) | Err(AgentError::Failed { .. }) => Ok(()),
        }
    }

    /// Requests a summary; `None` if the provider fails.
    async fn request_summary(
        &self,
        request: &ModelRequest,
        turn_usage: &mut TurnUsage,
    ) -> Result<Option<String>, AgentError> {
        let requesting = self.agent_state.complete_text(request, self.choice.key.as_ref());
        tokio::select! {
            biased;
            () = self.events.cancelled() => Err(AgentError::Cancelled),
            answer = requesting => Ok(match answer {
                Ok((text, usage)) => {
                    turn_usage.add(usage);
                    Some(text).filter(|text| !text.trim().is_empty())
                }
                Err(error) => {
                    tracing::debug!(kind = ?error.kind, "could not generate a summary");
                    None
                }
            }),
        }
    }
}

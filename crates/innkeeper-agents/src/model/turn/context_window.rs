//! Room in the model's window: how much there is, and how more is made.

use innkeeper_host::AgentError;

use super::TurnRun;
use super::token_usage::TurnUsage;
use crate::model::api::ModelRequest;
use crate::model::conversation::Conversation;
use crate::model::conversation::compaction::Compaction;
use crate::model::conversation::tokens::tokens_in;

/// What is taken for the longest answer when nobody says.
const DEFAULT_OUTPUT_TOKENS: usize = 16_000;
/// Shortening less than this is not worth a word, in tokens.
const MIN_GAIN_TOKENS: usize = 100;

/// Why room is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::model) enum CompactionReason {
    /// By our count, the next request would be too long.
    WindowFull,
    /// The provider says that it was too long.
    ProviderRefused,
    /// Somebody asked for it.
    UserRequested,
}

impl TurnRun<'_> {
    /// How many tokens a request may have.
    fn request_budget(&self) -> usize {
        let model = &self.choice.model;
        let window = model.context_window as usize;
        let output = model
            .max_output_tokens
            .map_or(DEFAULT_OUTPUT_TOKENS, |most| most as usize);
        window - output.min(window / 4)
    }

    /// What a request has besides the conversation, by our count.
    pub(in crate::model) fn overhead(&self, system: &[String]) -> usize {
        let specs = self.toolbox.specs();
        let tools: usize = specs
            .iter()
            .map(|spec| tokens_in(&spec.description) + tokens_in(&spec.input_schema.to_string()) + 20)
            .sum();
        system.iter().map(|text| tokens_in(text)).sum::<usize>() + tools
    }

    /// Makes room if the next request would be too long.
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

    /// Shortens the beginning of the conversation, and says so. Whether there was anything to
    /// shorten.
    pub(in crate::model) async fn compact_for(
        &self,
        conversation: &mut Conversation,
        overhead: usize,
        why: CompactionReason,
        turn_usage: &mut TurnUsage,
    ) -> Result<bool, AgentError> {
        let before = conversation.tokens();
        let overhead = conversation.calibrated(overhead);
        let most = match why {
            CompactionReason::WindowFull => self.request_budget().saturating_sub(overhead),
            // Our count was too low, or the model's window is smaller than we think.
            CompactionReason::ProviderRefused => (self.request_budget() / 2).saturating_sub(overhead).min(before / 2),
            CompactionReason::UserRequested => before / 2,
        };
        let Some(compaction) = Compaction::plan(conversation, most / 3) else {
            return Ok(false);
        };
        let compaction = compaction.with_available(self.turn_context.available_ids());
        // Summaries that make next to no room would be asked for again and again.
        let least = if why == CompactionReason::WindowFull {
            most / 10
        } else {
            0
        };
        if conversation.calibrated(compaction.gain) < least.max(MIN_GAIN_TOKENS) {
            return Ok(false);
        }
        self.events.activity("Makes room in the conversation").await?;
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
            None => compaction.apply_without_summary(conversation, most),
        }
        let after = conversation.tokens();
        let reason = match why {
            CompactionReason::WindowFull | CompactionReason::ProviderRefused => {
                "The conversation was getting too long for the model, so its beginning"
            }
            CompactionReason::UserRequested => "The beginning of the conversation",
        };
        let notice = format!(
            "{reason} was shortened (from about {before} to {after} tokens). Everything you said is still there, word \
             for word."
        );
        self.events.notice(notice).await?;
        if let Some(summary) = summary {
            // People can see what the model is told from now on; it is too long for the conversation itself.
            self.events.attach("summary.md", summary, "text/markdown").await?;
        }
        self.restore_activity().await?;
        Ok(true)
    }

    /// Shortens the conversation because somebody asked for it.
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
            self.events.text("There is nothing to shorten yet.").await
        }
    }

    /// Keeps what the chat's history does not have. A helper's chat is never opened again.
    pub(in crate::model) async fn persist_memory(&self, conversation: &Conversation) -> Result<(), AgentError> {
        if self.choice.is_subagent {
            return Ok(());
        }
        match self.events.remember(conversation.memory.to_value()).await {
            Err(AgentError::Cancelled) => Err(AgentError::Cancelled),
            // Too long to be kept is no reason to fail.
            Ok(()) | Err(AgentError::Failed { .. }) => Ok(()),
        }
    }

    /// A summary; `None` when it cannot be had.
    async fn request_summary(
        &self,
        request: &ModelRequest,
        turn_usage: &mut TurnUsage,
    ) -> Result<Option<String>, AgentError> {
        let hearing = self.agent_state.complete_text(request, self.choice.key.as_ref());
        tokio::select! {
            biased;
            () = self.events.cancelled() => Err(AgentError::Cancelled),
            heard = hearing => Ok(match heard {
                Ok((text, usage)) => {
                    turn_usage.add(usage);
                    Some(text).filter(|text| !text.trim().is_empty())
                }
                Err(error) => {
                    tracing::debug!(kind = ?error.kind, "a summary could not be made");
                    None
                }
            }),
        }
    }
}

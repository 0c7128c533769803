//! Room in the model's window: how much there is, and how more is made.

use innkeeper_host::AgentError;

use crate::model::api::ModelRequest;
use crate::model::conversation::Conversation;
use crate::model::conversation::compaction::Compaction;
use crate::model::conversation::tokens::tokens_in;
use crate::model::turn::Run;
use crate::model::turn::token_usage::Spent;

/// What is taken for the longest answer when nobody says.
const USUAL_OUTPUT: usize = 16_000;
/// Shortening less than this is not worth a word, in tokens.
const LEAST_GAIN: usize = 100;

/// Why room is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::model) enum Why {
    /// By our count, the next request would be too long.
    Full,
    /// The provider says that it was too long.
    Refused,
    /// Somebody asked for it.
    Asked,
}

impl Run<'_> {
    /// How many tokens a request may have.
    fn room(&self) -> usize {
        let model = &self.choice.model;
        let window = model.context_window as usize;
        let output = model.max_output_tokens.map_or(USUAL_OUTPUT, |most| most as usize);
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
    pub(in crate::model) async fn keep_room(
        &self,
        conversation: &mut Conversation,
        overhead: usize,
        spent: &mut Spent,
    ) -> Result<(), AgentError> {
        if conversation.tokens() + conversation.corrected(overhead) > self.room() {
            self.make_room(conversation, overhead, Why::Full, spent).await?;
        }
        Ok(())
    }

    /// Shortens the beginning of the conversation, and says so. Whether there was anything to
    /// shorten.
    pub(in crate::model) async fn make_room(
        &self,
        conversation: &mut Conversation,
        overhead: usize,
        why: Why,
        spent: &mut Spent,
    ) -> Result<bool, AgentError> {
        let before = conversation.tokens();
        let overhead = conversation.corrected(overhead);
        let most = match why {
            Why::Full => self.room().saturating_sub(overhead),
            // Our count was too low, or the model's window is smaller than we think.
            Why::Refused => (self.room() / 2).saturating_sub(overhead).min(before / 2),
            Why::Asked => before / 2,
        };
        let Some(compaction) = Compaction::plan(conversation, most / 3) else {
            return Ok(false);
        };
        let compaction = compaction.of_given(self.brought.ids());
        // Summaries that make next to no room would be asked for again and again.
        let least = if why == Why::Full { most / 10 } else { 0 };
        if conversation.corrected(compaction.gain) < least.max(LEAST_GAIN) {
            return Ok(false);
        }
        self.events.activity("Makes room in the conversation").await?;
        let request = compaction.request(conversation, &self.choice.model, self.room() / 2);
        let summary = self.hear_summary(&request, spent).await?;
        match summary.clone() {
            Some(text) => {
                let through = compaction.through();
                compaction.apply(conversation, &text);
                if let Some(through) = through {
                    conversation.memory.compact(&through, &text);
                    self.remember(conversation).await?;
                }
            }
            None => compaction.apply_without_summary(conversation, most),
        }
        let after = conversation.tokens();
        let reason = match why {
            Why::Full | Why::Refused => "The conversation was getting too long for the model, so its beginning",
            Why::Asked => "The beginning of the conversation",
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
        self.back_to_work().await?;
        Ok(true)
    }

    /// Shortens the conversation because somebody asked for it.
    pub(in crate::model) async fn compact(&self, conversation: &mut Conversation) -> Result<(), AgentError> {
        let mut spent = Spent::default();
        if self.make_room(conversation, 0, Why::Asked, &mut spent).await? {
            self.events.usage(spent.usage(&self.choice.model.id, Vec::new())).await
        } else {
            self.events.text("There is nothing to shorten yet.").await
        }
    }

    /// Keeps what the chat's history does not have. A helper's chat is never opened again.
    pub(in crate::model) async fn remember(&self, conversation: &Conversation) -> Result<(), AgentError> {
        if self.choice.is_helper {
            return Ok(());
        }
        match self.events.remember(conversation.memory.to_value()).await {
            Err(AgentError::Cancelled) => Err(AgentError::Cancelled),
            // Too long to be kept is no reason to fail.
            Ok(()) | Err(AgentError::Failed { .. }) => Ok(()),
        }
    }

    /// A summary; `None` when it cannot be had.
    async fn hear_summary(&self, request: &ModelRequest, spent: &mut Spent) -> Result<Option<String>, AgentError> {
        let hearing = self.shared.hear_text(request, self.choice.key.as_ref());
        tokio::select! {
            biased;
            () = self.events.cancelled() => Err(AgentError::Cancelled),
            heard = hearing => Ok(match heard {
                Ok((text, usage)) => {
                    spent.add(usage);
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

//! Reads a streamed answer: forwards it to clients and collects its tool calls.

use innkeeper_host::{AgentError, EventSink};

use crate::model::api::{AssistantPart, ModelEvent, Reasoning, StopReason, TokenUsage, ToolUse};
use crate::model::client::ModelStream;
use crate::model::error::ProviderError;
use crate::model::toolbox::{CallDraft, Toolbox, provider_safe_name};

/// Maximum bytes of an input that are searched for the subject of a call.
const MAX_ANNOUNCED: usize = 8 << 10;

/// An answer, possibly incomplete.
#[derive(Debug, Default)]
pub(in crate::model) struct ModelAnswer {
    parts: Vec<AssistantPart>,
    /// Reasoning of the current block.
    reasoning: String,
    calls: Vec<PendingCall>,
    pub(in crate::model) usage: TokenUsage,
    pub(in crate::model) stop: Option<StopReason>,
}

/// A tool call of the answer, which clients already see.
#[derive(Debug)]
pub(in crate::model) struct PendingCall {
    /// Index of the call in the stream.
    index: usize,
    /// Index of the call among the parts.
    part: usize,
    pub(in crate::model) call: ToolUse,
    pub(in crate::model) draft: CallDraft,
    /// Whether the subject of the call was announced or cannot be before the input is complete.
    is_announced: bool,
}

/// Why an answer is incomplete.
#[derive(Debug)]
pub(in crate::model) enum AnswerError {
    /// The turn ended.
    Turn(AgentError),
    /// The provider failed.
    Provider(ProviderError),
}

impl From<AgentError> for AnswerError {
    fn from(error: AgentError) -> Self {
        Self::Turn(error)
    }
}

impl ModelAnswer {
    /// Reads the stream to its end. After a failure, everything received before is kept.
    pub(in crate::model) async fn read_stream(
        &mut self,
        mut stream: ModelStream,
        events: &EventSink,
        toolbox: &Toolbox,
    ) -> Result<(), AnswerError> {
        loop {
            let event = tokio::select! {
                biased;
                () = events.cancelled() => return Err(AnswerError::Turn(AgentError::Cancelled)),
                event = stream.next() => event,
            };
            match event {
                None => return Ok(()),
                Some(Err(error)) => return Err(AnswerError::Provider(error)),
                Some(Ok(event)) => self.apply_event(event, events, toolbox).await?,
            }
        }
    }

    async fn apply_event(
        &mut self,
        event: ModelEvent,
        events: &EventSink,
        toolbox: &Toolbox,
    ) -> Result<(), AgentError> {
        match event {
            ModelEvent::Text(text) => {
                match self.parts.last_mut() {
                    Some(AssistantPart::Text(so_far)) => so_far.push_str(&text),
                    _ => self.parts.push(AssistantPart::Text(text.clone())),
                }
                events.text(text).await
            }
            ModelEvent::Reasoning(text) => {
                self.reasoning.push_str(&text);
                events.reasoning(text).await
            }
            ModelEvent::ReasoningDone(reasoning) => {
                self.reasoning.clear();
                self.parts.push(AssistantPart::Reasoning(reasoning));
                Ok(())
            }
            ModelEvent::CallStart { index, id, name } => {
                let draft = toolbox.begin(events, &name).await?;
                let call = ToolUse {
                    id,
                    // An invented tool name is sent back with the conversation, and providers reject invalid names.
                    name: provider_safe_name(&name),
                    input: String::new(),
                };
                self.calls.push(PendingCall {
                    index,
                    part: self.parts.len(),
                    call: call.clone(),
                    draft,
                    is_announced: false,
                });
                self.parts.push(AssistantPart::Call(call));
                Ok(())
            }
            ModelEvent::CallInput { index, text } => match self.calls.iter_mut().find(|call| call.index == index) {
                Some(pending) => {
                    pending.call.input.push_str(&text);
                    pending.draft.input(text).await?;
                    if !pending.is_announced {
                        let input = &pending.call.input;
                        // Searching a long input again for every fragment would be quadratic.
                        pending.is_announced = input.len() > MAX_ANNOUNCED || pending.draft.announce(input).await?;
                    }
                    Ok(())
                }
                None => Ok(()),
            },
            ModelEvent::Usage(usage) => {
                self.usage = usage;
                Ok(())
            }
            ModelEvent::End(stop) => {
                self.stop = Some(stop);
                Ok(())
            }
        }
    }

    /// Returns true if the answer has text for the user.
    pub(in crate::model) fn has_text(&self) -> bool {
        let mut parts = self.parts.iter();
        parts.any(|part| matches!(part, AssistantPart::Text(text) if !text.trim().is_empty()))
    }

    /// Returns the message and its calls. Calls of an incomplete or refused answer are dropped, because their input
    /// may be incomplete.
    pub(in crate::model) fn finish(mut self) -> (Vec<AssistantPart>, Vec<PendingCall>) {
        if !self.reasoning.is_empty() {
            let text = std::mem::take(&mut self.reasoning);
            self.parts
                .push(AssistantPart::Reasoning(Reasoning { text, proof: None }));
        }
        // A refused answer must not have side effects.
        if matches!(self.stop, None | Some(StopReason::Refused(_))) {
            self.parts.retain(|part| !matches!(part, AssistantPart::Call(_)));
            return (self.parts, Vec::new());
        }
        for pending in &self.calls {
            if let Some(AssistantPart::Call(call)) = self.parts.get_mut(pending.part) {
                call.input.clone_from(&pending.call.input);
            }
        }
        (self.parts, self.calls)
    }
}

//! Hearing an answer out: people see it as it comes, and its calls are collected.

use innkeeper_host::{AgentError, EventSink};

use crate::model::api::{AssistantPart, ModelEvent, Reasoning, StopReason, TokenUsage, ToolUse};
use crate::model::client::ModelStream;
use crate::model::error::ProviderError;
use crate::model::toolbox::{CallDraft, Toolbox, provider_safe_name};

/// How much of an input is searched for what the call is about.
const MAX_ANNOUNCED: usize = 8 << 10;

/// What a model answered, as far as it got.
#[derive(Debug, Default)]
pub(in crate::model) struct ModelAnswer {
    parts: Vec<AssistantPart>,
    /// Thinking that is still being streamed.
    thinking: String,
    calls: Vec<PendingCall>,
    pub(in crate::model) usage: TokenUsage,
    pub(in crate::model) stop: Option<StopReason>,
}

/// A call that the model makes, and that people see already.
#[derive(Debug)]
pub(in crate::model) struct PendingCall {
    /// How the provider tells it from others of the answer.
    index: usize,
    /// Where it stands among the parts.
    part: usize,
    pub(in crate::model) call: ToolUse,
    pub(in crate::model) draft: CallDraft,
    /// Whether people know what it is about, or will not before its input is complete.
    is_announced: bool,
}

/// Why an answer was not heard to its end.
#[derive(Debug)]
pub(in crate::model) enum AnswerError {
    /// The turn is over.
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
    /// Hears a stream out. What came before a failure stays here.
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
                self.thinking.push_str(&text);
                events.reasoning(text).await
            }
            ModelEvent::ReasoningDone(reasoning) => {
                self.thinking.clear();
                self.parts.push(AssistantPart::Reasoning(reasoning));
                Ok(())
            }
            ModelEvent::CallStart { index, id, name } => {
                let draft = toolbox.begin(events, &name).await?;
                let call = ToolUse {
                    id,
                    // A name of the model's own making goes back with the conversation, and
                    // providers refuse what does not look like one.
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
                        // What comes after a long text is not worth reading it again and again.
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

    /// Whether there is anything in it for people.
    pub(in crate::model) fn has_text(&self) -> bool {
        let mut parts = self.parts.iter();
        parts.any(|part| matches!(part, AssistantPart::Text(text) if !text.trim().is_empty()))
    }

    /// What the model said and the calls it makes. If it broke off, calls are left out: nobody
    /// knows how they would have ended. So are they in a refusal.
    pub(in crate::model) fn finish(mut self) -> (Vec<AssistantPart>, Vec<PendingCall>) {
        if !self.thinking.is_empty() {
            let text = std::mem::take(&mut self.thinking);
            self.parts
                .push(AssistantPart::Reasoning(Reasoning { text, proof: None }));
        }
        // A model that will not answer does not act either.
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

//! A stretch of thinking while it comes in.

use serde_json::Value;

use crate::model::api::{ModelEvent, Reasoning};

/// Collects what is streamed of a stretch of thinking, so that it can be handed out whole.
#[derive(Debug, Default)]
pub(super) struct ReasoningBuffer {
    text: String,
}

impl ReasoningBuffer {
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// What came of it so far.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// More of it.
    pub(super) fn push(&mut self, text: &str, out: &mut Vec<ModelEvent>) {
        if !text.is_empty() {
            self.text.push_str(text);
            out.push(ModelEvent::Reasoning(text.to_owned()));
        }
    }

    /// It is complete; `proof` is what the provider wants back with it.
    pub(super) fn end(&mut self, proof: Option<Value>, out: &mut Vec<ModelEvent>) {
        let text = std::mem::take(&mut self.text);
        if !text.is_empty() || proof.is_some() {
            out.push(ModelEvent::ReasoningDone(Reasoning { text, proof }));
        }
    }
}

/// Whether words are worth sending: providers refuse empty ones.
pub(super) fn has_text(text: &str) -> bool {
    !text.trim().is_empty()
}

//! Collects streamed reasoning.

use serde_json::Value;

use crate::model::api::{ModelEvent, Reasoning};

/// Collects the text of a reasoning block, so that it can be emitted as a whole.
#[derive(Debug, Default)]
pub(super) struct ReasoningBuffer {
    text: String,
}

impl ReasoningBuffer {
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The text so far.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Adds and emits text.
    pub(super) fn push(&mut self, text: &str, out: &mut Vec<ModelEvent>) {
        if !text.is_empty() {
            self.text.push_str(text);
            out.push(ModelEvent::Reasoning(text.to_owned()));
        }
    }

    /// Ends the block; `proof` is sent back to the provider with it.
    pub(super) fn end(&mut self, proof: Option<Value>, out: &mut Vec<ModelEvent>) {
        let text = std::mem::take(&mut self.text);
        if !text.is_empty() || proof.is_some() {
            out.push(ModelEvent::ReasoningDone(Reasoning { text, proof }));
        }
    }
}

/// Returns true if a text is not blank. Providers reject blank texts.
pub(super) fn has_text(text: &str) -> bool {
    !text.trim().is_empty()
}

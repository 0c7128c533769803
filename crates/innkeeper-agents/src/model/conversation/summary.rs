//! The summary that replaces the beginning of a compacted conversation.

use super::pinned_instruction::PinnedInstruction;
use super::user;
use crate::model::api::ModelMessage;

/// Replaces the beginning of a compacted conversation: the user messages verbatim, and a summary of the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::model) struct Summary {
    /// User messages, verbatim.
    pub(in crate::model) user_messages: Vec<String>,
    /// Summary of everything else.
    pub(in crate::model) text: String,
    /// Pinned instructions, verbatim.
    pub(in crate::model) pinned: Vec<PinnedInstruction>,
}

impl Summary {
    /// Renders the summary for the model.
    pub(in crate::model) fn message(&self) -> ModelMessage {
        let mut text = "The beginning of this conversation was shortened.\n".to_owned();
        if !self.user_messages.is_empty() {
            text.push_str("\n# The user's messages, word for word\n");
            for message in &self.user_messages {
                text.push_str(&format!("\n<message>\n{message}\n</message>\n"));
            }
        }
        if !self.pinned.is_empty() {
            text.push_str("\n# Rules and skills that still hold\n");
            for pinned in &self.pinned {
                text.push_str(&format!("\n{}\n", pinned.render()));
            }
        }
        text.push_str(&format!("\n# What happened, in short\n\n{}\n", self.text));
        user(text)
    }
}

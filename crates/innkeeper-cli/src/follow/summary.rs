//! The last line of `innkeeper send --json`.

use ahp_types::actions::StateAction;
use ahp_types::state::{ResponsePart, UsageInfo};
use serde_json::{Value, json};

use super::output::Outcome;

/// The parts of a turn that its summary has.
#[derive(Debug, Default)]
pub(super) struct TurnSummary {
    text: String,
    usage: Option<UsageInfo>,
}

impl TurnSummary {
    /// Adds what an action says about the turn.
    pub(super) fn follow(&mut self, turn_id: &str, action: &StateAction) {
        match action {
            StateAction::ChatResponsePart(added) if added.turn_id == turn_id => {
                if let ResponsePart::Markdown(part) = &added.part {
                    if !self.text.is_empty() {
                        self.text.push_str("\n\n");
                    }
                    self.text.push_str(&part.content);
                }
            }
            StateAction::ChatDelta(delta) if delta.turn_id == turn_id => self.text.push_str(&delta.content),
            StateAction::ChatUsage(reported) if reported.turn_id == turn_id => {
                self.usage = Some(reported.usage.clone());
            }
            _ => {}
        }
    }

    /// Replaces the text by that of all parts, after a part of the actions was missed.
    pub(super) fn replace(&mut self, parts: &[ResponsePart]) {
        let texts = parts.iter().filter_map(|part| match part {
            ResponsePart::Markdown(part) => Some(part.content.as_str()),
            _ => None,
        });
        self.text = texts.collect::<Vec<_>>().join("\n\n");
    }

    /// Returns the line.
    pub(super) fn line(&self, session: &str, chat: &str, turn: &str, outcome: &Outcome) -> Value {
        let (outcome, error) = match outcome {
            Outcome::Complete => ("complete", None),
            Outcome::Cancelled => ("cancelled", None),
            Outcome::Failed { error, .. } => ("failed", Some(&error.message)),
        };
        json!({ "summary": {
            "session": session, "chat": chat, "turn": turn, "outcome": outcome, "error": error,
            "text": self.text, "usage": self.usage,
        } })
    }
}

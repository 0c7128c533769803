//! Instructions that stay in effect for the rest of the conversation, such as applied rules and loaded skills. A
//! summary keeps them verbatim, and they are reloaded after a restart.

use std::sync::Arc;

use crate::model::api::{ModelMessage, UserPart};

/// An instruction that stays in effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::model) struct PinnedInstruction {
    /// Id of its customization.
    pub(in crate::model) id: String,
    /// Description, such as "the rule tabs".
    pub(in crate::model) title: String,
    /// Text of the instruction.
    pub(in crate::model) text: String,
    /// The turn it applies to, if it applies to one only, as a called command does.
    pub(in crate::model) only_turn: Option<Arc<str>>,
}

impl PinnedInstruction {
    /// Renders the instruction for the model.
    pub(in crate::model) fn render(&self) -> String {
        format!(
            "<instructions from=\"{}\">\n{}\n</instructions>",
            self.title.replace('"', "'"),
            self.text
        )
    }
}

impl PinnedInstruction {
    /// Text that replaces the instruction after it was disabled or deleted.
    fn removal_note(&self) -> String {
        format!(
            "(Instructions removed: {}. They were disabled or deleted and no longer apply.)",
            self.title
        )
    }

    /// Replaces the instruction in a message by a note.
    pub(in crate::model) fn remove_from(&self, message: &mut ModelMessage) {
        let texts: Vec<&mut String> = match message {
            ModelMessage::User(parts) => parts
                .iter_mut()
                .filter_map(|part| match part {
                    UserPart::Text(text) => Some(text),
                    UserPart::Image(_) | UserPart::Document(_) => None,
                })
                .collect(),
            ModelMessage::ToolResults(results) => results.iter_mut().map(|result| &mut result.text).collect(),
            ModelMessage::Assistant(_) => Vec::new(),
        };
        let rendered = self.render();
        for text in texts {
            // In restored tool results the text may be rendered differently.
            let found = [rendered.as_str(), self.text.as_str()]
                .into_iter()
                .find(|found| text.contains(found));
            if let Some(found) = found.filter(|found| !found.is_empty()) {
                *text = text.replace(found, &self.removal_note());
            }
        }
    }
}

/// Maximum bytes of instructions that a summary carries over. The latest take precedence.
const MAX_CARRIED_BYTES: usize = 48 << 10;

/// Selects the instructions that a summary carries over: the latest version of each, as far as they fit. The others
/// are named without their text, so that the model can load them again.
pub(in crate::model) fn carried_into_summary(all: Vec<PinnedInstruction>) -> Vec<PinnedInstruction> {
    let mut carried: Vec<PinnedInstruction> = Vec::new();
    let mut remaining = MAX_CARRIED_BYTES;
    for mut pinned in all.into_iter().rev() {
        if carried.iter().any(|later| later.id == pinned.id) {
            continue;
        }
        match remaining.checked_sub(pinned.text.len()) {
            Some(rest) => remaining = rest,
            None => "(Left out because it is too long. Load it again if it matters.)".clone_into(&mut pinned.text),
        }
        carried.push(pinned);
    }
    carried.reverse();
    carried
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_version_of_each_instruction_is_carried_over() {
        let pinned = |id: &str, text: &str| PinnedInstruction {
            id: id.to_owned(),
            title: id.to_owned(),
            text: text.to_owned(),
            only_turn: None,
        };
        let long = "x".repeat(MAX_CARRIED_BYTES);
        let carried = carried_into_summary(vec![pinned("a", "old"), pinned("b", &long), pinned("a", "new")]);
        assert_eq!(carried.len(), 2);
        assert!(carried[0].text.contains("Left out"), "{carried:?}");
        assert_eq!(carried[1].text, "new");
    }
}

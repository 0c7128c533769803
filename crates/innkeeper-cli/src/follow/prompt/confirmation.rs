//! The question whether a tool call may run, or whether its result may be used.

use ahp_types::state::{ConfirmationOption, ConfirmationOptionKind, ToolCallConfirmationState, ToolInput};

use crate::terminal::{note, one_line};

/// A decision that the user typed.
#[derive(Debug, PartialEq)]
pub(super) enum Choice {
    Decide {
        approved: bool,
        option: Option<String>,
        because: Option<String>,
    },
    /// Edit this input, then run the call with it.
    Edit(String),
}

/// The possible answers to one confirmation.
#[derive(Debug)]
pub(super) struct Confirmation {
    options: Vec<ConfirmationOption>,
    /// The input, if the call accepts another one.
    editable: Option<String>,
    takes_reason: bool,
}

impl Confirmation {
    pub(super) fn new(call: &ToolCallConfirmationState) -> Self {
        match call {
            ToolCallConfirmationState::PendingConfirmation(call) => Self {
                options: call.options.clone().unwrap_or_default(),
                editable: match &call.tool_input {
                    Some(ToolInput::Inline(text)) if call.editable == Some(true) => Some(text.clone()),
                    _ => None,
                },
                takes_reason: true,
            },
            _ => Self {
                options: Vec::new(),
                editable: None,
                takes_reason: false,
            },
        }
    }

    pub(super) fn show(&self) {
        for (index, option) in self.options.iter().enumerate() {
            note(&format!("  {}  {}", index + 1, one_line(&option.label, 300)));
        }
        note(&self.usage());
    }

    /// Returns the answers that can be typed.
    pub(super) fn usage(&self) -> String {
        let mut parts = Vec::new();
        match self.options.len() {
            0 => {}
            1 => parts.push("1".to_owned()),
            count => parts.push(format!("1-{count}")),
        }
        parts.push("y = allow once".to_owned());
        parts.push(match self.takes_reason {
            true => "n [reason] = deny".to_owned(),
            false => "n = deny".to_owned(),
        });
        if self.editable.is_some() {
            parts.push("e = edit the input".to_owned());
        }
        format!("[{}]", parts.join(", "))
    }

    /// Reads a line. An empty or unclear line decides nothing.
    pub(super) fn parse(&self, line: &str) -> Option<Choice> {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match word {
            "y" | "Y" | "yes" if rest.is_empty() => Some(self.decide(true, None)),
            "n" | "N" | "no" => {
                let reason = Some(rest.trim().to_owned()).filter(|reason| self.takes_reason && !reason.is_empty());
                Some(self.decide(false, reason))
            }
            "e" if rest.is_empty() => self.editable.clone().map(Choice::Edit),
            _ if rest.is_empty() => {
                let index = word.parse::<usize>().ok()?.checked_sub(1)?;
                let option = self.options.get(index)?;
                let approved = option.kind == ConfirmationOptionKind::Approve;
                Some(Choice::Decide {
                    approved,
                    option: Some(option.id.clone()),
                    because: None,
                })
            }
            _ => None,
        }
    }

    /// Decides about this call alone: without an option nothing is remembered.
    fn decide(&self, approved: bool, because: Option<String>) -> Choice {
        Choice::Decide {
            approved,
            option: None,
            because,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confirmation() -> Confirmation {
        let option = |id: &str, kind| ConfirmationOption {
            id: id.to_owned(),
            label: id.to_owned(),
            kind,
            group: None,
        };
        Confirmation {
            options: vec![
                option("allow-once", ConfirmationOptionKind::Approve),
                option("allow-session", ConfirmationOptionKind::Approve),
                option("deny", ConfirmationOptionKind::Deny),
            ],
            editable: Some("{}".to_owned()),
            takes_reason: true,
        }
    }

    fn decided(approved: bool, option: Option<&str>, because: Option<&str>) -> Option<Choice> {
        Some(Choice::Decide {
            approved,
            option: option.map(str::to_owned),
            because: because.map(str::to_owned),
        })
    }

    #[test]
    fn numbers_letters_and_reasons_decide() {
        let confirmation = confirmation();
        for (line, expected) in [
            ("y", decided(true, None, None)),
            (" yes ", decided(true, None, None)),
            ("n", decided(false, None, None)),
            ("n use cargo instead", decided(false, None, Some("use cargo instead"))),
            ("2", decided(true, Some("allow-session"), None)),
            ("3", decided(false, Some("deny"), None)),
            ("e", Some(Choice::Edit("{}".to_owned()))),
        ] {
            assert_eq!(confirmation.parse(line), expected, "{line:?}");
        }
    }

    #[test]
    fn unclear_lines_decide_nothing() {
        for line in ["", " ", "0", "4", "yes please", "2 3", "allow", "-1", "Y Y"] {
            assert_eq!(confirmation().parse(line), None, "{line:?}");
        }
    }
}

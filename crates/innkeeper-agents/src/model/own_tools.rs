//! Tools that need the agent itself: asking people, keeping a plan, sending a helper.

mod ask;
mod plan;

pub(super) use ask::ask;
pub(super) use plan::keep;

use serde_json::{Value, json};

use super::api::ToolSpec;

/// A tool of the agent's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnTool {
    /// Asks people a question.
    Ask,
    /// Keeps a list of what is to be done.
    Plan,
    /// Has a helper do something in a chat of its own.
    Delegate,
}

impl OwnTool {
    pub(super) const ALL: [Self; 3] = [Self::Ask, Self::Plan, Self::Delegate];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask_user",
            Self::Plan => "update_plan",
            Self::Delegate => "delegate",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Ask => "Ask",
            Self::Plan => "Plan",
            Self::Delegate => "Send a helper",
        }
    }

    /// Whether calls may run beside others. A helper asks for itself before it changes anything,
    /// and several at once are the point of having them.
    pub(super) fn is_harmless(self) -> bool {
        match self {
            Self::Plan | Self::Delegate => true,
            Self::Ask => false,
        }
    }

    pub(super) fn spec(self) -> ToolSpec {
        let (description, input_schema) = match self {
            Self::Ask => (
                "Asks the person a question and waits for the answer. Use it only when you cannot go on without \
                 knowing, and not for permission: tools that need permission ask by themselves.",
                json!({
                    "type": "object",
                    "properties": {
                        "question": { "type": "string", "description": "One clear question." },
                        "options": {
                            "type": "array",
                            "items": { "type": "string" },
                            "description": "Possible answers, if there are only a few. The person may answer otherwise."
                        },
                        "multiple": { "type": "boolean", "description": "Whether several options may be chosen." }
                    },
                    "required": ["question"]
                }),
            ),
            Self::Plan => (
                "Shows the person a plan of several steps and how far it is. Send the whole list each time. Use it for \
                 work of three or more steps; exactly one step is in progress at a time.",
                json!({
                    "type": "object",
                    "properties": {
                        "steps": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "properties": {
                                    "step": { "type": "string" },
                                    "status": { "type": "string", "enum": ["pending", "in_progress", "done"] }
                                },
                                "required": ["step", "status"]
                            }
                        }
                    },
                    "required": ["steps"]
                }),
            ),
            Self::Delegate => (
                "Has a helper with the same tools do a part of the work in a conversation of its own, and returns what \
                 it reports. It knows nothing of this conversation: tell it everything it needs. Several helpers \
                 called at once work at the same time.",
                json!({
                    "type": "object",
                    "properties": {
                        "title": { "type": "string", "description": "A few words, for the person." },
                        "task": { "type": "string", "description": "What to do and what to report." }
                    },
                    "required": ["title", "task"]
                }),
            ),
        };
        ToolSpec {
            name: self.name().to_owned(),
            description: description.to_owned(),
            input_schema,
        }
    }
}

/// A text of an input, or what to tell the model about it.
pub(super) fn text<'a>(input: &'a Value, field: &str) -> Result<&'a str, String> {
    match input.get(field) {
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(text),
        Some(Value::String(_)) => Err(format!("`{field}` is empty")),
        Some(_) => Err(format!("`{field}` is not a string")),
        None => Err(format!("`{field}` is missing")),
    }
}

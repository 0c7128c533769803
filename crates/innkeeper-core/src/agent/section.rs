//! Sections of a system prompt, as an agent publishes them.

use serde::{Deserialize, Serialize};

/// One section of an agent's system prompt, as clients see it (SMT-11).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// Its id, which clients name to rewrite it.
    pub id: String,
    /// A label for users.
    pub label: String,
    /// A sentence about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether no client may rewrite it (SMT-12).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restricted: bool,
}

impl Section {
    /// A section that clients may rewrite.
    pub fn new(id: impl Into<String>, label: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            label: label.into(),
            description: None,
            restricted: false,
        }
    }

    /// Says what is in it.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Forbids every client to rewrite it, even if the client asks for it.
    #[must_use]
    pub fn restricted(mut self) -> Self {
        self.restricted = true;
        self
    }
}

/// A section that most agents have, under the name they share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StandardSection {
    /// Its id.
    pub id: &'static str,
    /// A label for users.
    pub label: &'static str,
    /// A sentence about it.
    pub description: &'static str,
    /// Whether no client may rewrite it, unless the host's operator says otherwise.
    pub restricted: bool,
}

impl From<StandardSection> for Section {
    fn from(standard: StandardSection) -> Self {
        Self {
            restricted: standard.restricted,
            ..Self::new(standard.id, standard.label).description(standard.description)
        }
    }
}

/// The sections that most agents have, in the order they stand in a prompt.
pub const STANDARD_SECTIONS: [StandardSection; 11] = [
    StandardSection {
        restricted: true,
        ..standard("identity", "Identity", "The role of the agent.")
    },
    standard("tone", "Tone", "The tone towards users."),
    standard("tool_efficiency", "Tool efficiency", "How to work with few tool calls."),
    standard(
        "environment_context",
        "Environment",
        "The environment: system, directories, date.",
    ),
    standard("code_change_rules", "Rules for changes", "Rules for changing code."),
    standard("guidelines", "Guidelines", "How to approach a task."),
    StandardSection {
        restricted: true,
        ..standard("safety", "Safety", "Forbidden actions.")
    },
    standard("tool_instructions", "Tools", "How to use the tools."),
    standard(
        "custom_instructions",
        "Custom instructions",
        "Instructions of the users and the project.",
    ),
    standard(
        "runtime_instructions",
        "Runtime instructions",
        "Instructions for this session alone.",
    ),
    standard("last_instructions", "Last instructions", "The last instructions."),
];

const fn standard(id: &'static str, label: &'static str, description: &'static str) -> StandardSection {
    StandardSection {
        id,
        label,
        description,
        restricted: false,
    }
}

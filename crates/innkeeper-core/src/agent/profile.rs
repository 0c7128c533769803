//! The description of an agent.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Section;

/// An agent, as the core knows it: how clients see it, and what it can do.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentProfile {
    /// The agent as clients see it, with its capabilities.
    pub info: ahp_types::state::AgentInfo,
    /// Whether it can be opened with a history, which is what forks and truncation need
    /// (TRC-05).
    pub restores_history: bool,
    /// Whether it can go on with a turn that ended with the host, from the history alone
    /// (TURN-12).
    pub resumes_turns: bool,
    /// Whether it has a model that writes for apps of MCP servers (MCP-15).
    pub writes_for_apps: bool,
    /// The settings that its sessions have.
    pub settings: Vec<Setting>,
    /// Its slash commands.
    pub commands: Vec<CommandInfo>,
    /// The names of its own tools; a client's tool of the same name is renamed for the model
    /// (ACT-04).
    pub tools: Vec<ToolInfo>,
    /// The sections of its system prompt, in their order (SMT-11).
    pub sections: Vec<Section>,
    /// Sign-in hint, a clause.
    pub sign_in_hint: Option<String>,
}

impl From<ahp_types::state::AgentInfo> for AgentProfile {
    fn from(info: ahp_types::state::AgentInfo) -> Self {
        Self {
            info,
            restores_history: false,
            resumes_turns: false,
            writes_for_apps: false,
            settings: Vec::new(),
            commands: Vec::new(),
            tools: Vec::new(),
            sections: Vec::new(),
            sign_in_hint: None,
        }
    }
}

/// A tool of an agent, for `SessionState.serverTools`.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolInfo {
    /// Its name.
    pub name: String,
    /// A title for users.
    pub title: Option<String>,
    /// Description.
    pub description: Option<String>,
    /// The JSON Schema of its input.
    pub input_schema: Option<Value>,
}

/// A slash command of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandInfo {
    /// Its name, without the slash.
    pub name: String,
    /// Usage, as in `<count> [<delay>]`.
    pub usage: String,
    /// Description.
    pub description: String,
}

/// One thing a session or the host can be set up with (CMP-07).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Its id.
    pub id: String,
    /// A title for users.
    pub title: String,
    /// A sentence about it.
    pub description: Option<String>,
    /// Kind of value.
    pub kind: SettingKind,
    /// The value when the user chose none.
    pub default: Option<Value>,
    /// Whether it can be changed after the session was created (SES-23).
    pub mutable: bool,
    /// Whether users see it without being able to change it.
    pub read_only: bool,
    /// Whether a session cannot be created without it.
    pub required: bool,
}

impl Setting {
    /// Settings as a schema, from which clients make a form (CMP-07).
    pub fn schema(settings: &[Self]) -> ahp_types::state::ConfigSchema {
        crate::session::settings::host_schema(settings)
    }
}

/// Kind of value that a setting takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum SettingKind {
    /// A string.
    Text,
    /// A number.
    Number,
    /// A whole number.
    Integer,
    /// Yes or no.
    Boolean,
    /// One of these.
    Choice(Vec<Choice>),
    /// One of too many to list; `sessionConfigCompletions` finds them (CMP-06). These are shown before the user has
    /// typed.
    Search(Vec<Choice>),
    /// Several strings.
    TextList {
        /// Minimum items.
        min: Option<u32>,
        /// Maximum items.
        max: Option<u32>,
    },
}

/// A value to choose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The value.
    pub id: String,
    /// A label for users.
    pub label: String,
    /// A sentence about it.
    pub description: Option<String>,
    /// Whether the agent would choose it.
    pub recommended: bool,
}

impl Choice {
    /// A choice.
    pub fn new(id: impl Into<String>, label: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            label: label.into(),
            description: None,
            recommended: false,
        }
    }
}

/// A value that `sessionConfigCompletions` found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingValue {
    /// The value.
    pub value: String,
    /// A label for users.
    pub label: String,
    /// A sentence about it.
    pub description: Option<String>,
}

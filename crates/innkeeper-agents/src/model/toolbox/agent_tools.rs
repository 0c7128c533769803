//! Tools of the agent itself: asking the user, keeping a plan, loading a skill, running a subagent.

mod ask;
mod plan;

pub(in crate::model) use ask::ask;
pub(in crate::model) use plan::update_plan;

use innkeeper_host::customizations::{CustomAgent, TurnCustomizations};
use innkeeper_std::text::truncate;
use serde_json::{Value, json};

use crate::model::api::ToolSpec;
use crate::model::customizations;

/// Maximum bytes of the list of custom agents in the definition of `delegate`.
const MAX_AGENTS_BYTES: usize = 8 << 10;
/// Maximum bytes of one agent's description.
const MAX_AGENT_WORDS: usize = 300;

/// A tool of the agent itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::model) enum AgentTool {
    /// Asks the user a question.
    Ask,
    /// Maintains a task list.
    Plan,
    /// Runs a subagent in its own chat.
    Delegate,
    /// Loads a skill or rule.
    Skill,
}

impl AgentTool {
    pub(in crate::model) const ALL: [Self; 4] = [Self::Ask, Self::Plan, Self::Delegate, Self::Skill];

    /// Returns the tools that are useful in a session, with their definitions.
    pub(in crate::model) fn in_session(session: &TurnCustomizations) -> Vec<(ToolSpec, Self)> {
        let agents = session.agents_for_models();
        let has_skills = customizations::has_skills(session);
        let used = Self::ALL.iter().filter(|tool| **tool != Self::Skill || has_skills);
        used.map(|tool| (tool.spec_with(&agents), *tool)).collect()
    }

    pub(in crate::model) fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask_user",
            Self::Plan => "update_plan",
            Self::Delegate => "delegate",
            Self::Skill => "use_skill",
        }
    }

    pub(in crate::model) fn title(self) -> &'static str {
        match self {
            Self::Ask => "Ask",
            Self::Plan => "Plan",
            Self::Delegate => "Run a subagent",
            Self::Skill => "Use a skill",
        }
    }

    /// Returns true if calls may run in parallel. Subagents ask before they change anything, and running several at
    /// once is their purpose.
    pub(in crate::model) fn is_parallel_safe(self) -> bool {
        match self {
            Self::Plan | Self::Delegate | Self::Skill => true,
            Self::Ask => false,
        }
    }

    pub(in crate::model) fn spec(self) -> ToolSpec {
        let (description, input_schema) = match self {
            Self::Ask => (
                "Asks the user a question and waits for the answer. Use it only when you cannot go on without \
                 knowing, and not for permission: tools that need permission ask by themselves.",
                json!({
                    "type": "object",
                    "properties": {
                        "question": { "type": "string", "description": "One clear question." },
                        "options": {
                            "type": "array",
                            "items": { "type": "string" },
                            "description": "Possible answers, if there are only a few. The user may answer otherwise."
                        },
                        "multiple": { "type": "boolean", "description": "Whether several options may be chosen." }
                    },
                    "required": ["question"]
                }),
            ),
            Self::Plan => (
                "Shows the user a plan of several steps and how far it is. Send the whole list each time. Use it for \
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
                "Starts a subagent with the same tools for a part of the work, in a conversation of its own, and returns \
                 its report. It knows nothing of this conversation: tell it everything it needs. Several subagents \
                 called at once work at the same time.",
                json!({
                    "type": "object",
                    "properties": {
                        "title": { "type": "string", "description": "A few words, for the user." },
                        "task": { "type": "string", "description": "What to do and what to report." }
                    },
                    "required": ["title", "task"]
                }),
            ),
            Self::Skill => (
                "Loads a skill: instructions for a particular task, and where its files are. Load one before you do \
                 what it is for, and follow it. With `search` instead of `name` it looks for skills.",
                json!({
                    "type": "object",
                    "properties": {
                        "name": { "type": "string", "description": "The name of the skill." },
                        "arguments": { "type": "string", "description": "What the skill is to be used on, if it takes arguments." },
                        "search": { "type": "string", "description": "Words in the name or the description." }
                    }
                }),
            ),
        };
        ToolSpec {
            name: self.name().to_owned(),
            description: description.to_owned(),
            input_schema,
        }
    }

    /// Returns the definition, which for `delegate` lists the custom agents.
    pub(in crate::model) fn spec_with(self, agents: &[(String, &CustomAgent)]) -> ToolSpec {
        let mut spec = self.spec();
        if self != Self::Delegate || agents.is_empty() {
            return spec;
        }
        let mut names: Vec<&str> = Vec::new();
        let mut remaining = MAX_AGENTS_BYTES;
        spec.description.push_str(" The subagent can be one of these agents:");
        for (name, agent) in agents {
            let description = customizations::description_line(&agent.about);
            let description = truncate(&description, MAX_AGENT_WORDS);
            let line = format!("\n- {name}: {description}");
            let Some(rest) = remaining.checked_sub(line.len()) else {
                let more = agents.len() - names.len();
                spec.description
                    .push_str(&format!("\n- and {more} more, which are not offered here"));
                break;
            };
            remaining = rest;
            spec.description.push_str(line.trim_end_matches([':', ' ']));
            names.push(name);
        }
        let agent = json!({
            "type": "string", "enum": names,
            "description": "The agent that does it; left out, it is a subagent like you."
        });
        if let Some(properties) = spec.input_schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties.insert("agent".to_owned(), agent);
        }
        spec
    }
}

/// Reads a non-empty string field of an input, or returns an error for the model.
pub(in crate::model) fn text<'a>(input: &'a Value, field: &str) -> Result<&'a str, String> {
    match input.get(field) {
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(text),
        Some(Value::String(_)) => Err(format!("`{field}` is empty")),
        Some(_) => Err(format!("`{field}` is not a string")),
        None => Err(format!("`{field}` is missing")),
    }
}

//! The custom agent of a turn: its instructions, model and tools (CUS-25).

use std::path::PathBuf;

use innkeeper_host::customizations::{CustomAgent, TurnCustomizations, by_name};
use innkeeper_host::{AgentError, TurnInput};

use super::beginning;

/// Maximum bytes of the instructions.
const MAX_ROLE: usize = 64 << 10;
/// Names by which prompt files mean the built-in agent.
const BUILT_IN: &[&str] = &["agent", "ask", "edit", "plan"];

/// A custom agent with its loaded instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::model) struct Role {
    /// Full name.
    pub(in crate::model) name: String,
    pub(in crate::model) description: Option<String>,
    /// The instructions.
    pub(in crate::model) text: String,
    /// The model the agent asks for.
    pub(in crate::model) model: Option<String>,
    /// The tools the agent is restricted to; empty for all.
    pub(in crate::model) tools: Vec<String>,
    /// Directory of its plugin, if the instructions refer to it.
    pub(in crate::model) plugin_root: Option<PathBuf>,
}

impl Role {
    /// Loads the agent's file. Returns a message if it cannot be read.
    pub(in crate::model) async fn load(
        customizations: &TurnCustomizations,
        agent: &CustomAgent,
        directories: &[String],
    ) -> Result<Self, String> {
        let expanded = customizations.agent_text(agent, directories).await?;
        let (start, was_cut) = beginning(&expanded.text, MAX_ROLE);
        let mut text = start.to_owned();
        if was_cut {
            text.push_str("\n(The rest was left out because it is too long.)");
        }
        Ok(Self {
            name: agent.about.full_name(),
            description: agent.about.description.clone(),
            text,
            model: agent.model.clone(),
            tools: agent.tools.clone(),
            plugin_root: expanded.plugin_root,
        })
    }

    /// Returns the agent that the message selected, or that the called prompt asks for, and a notice for the user.
    /// The user's selection wins.
    pub(in crate::model) async fn for_turn(turn: &TurnInput) -> Result<(Option<Self>, Option<String>), AgentError> {
        let (customizations, directories) = (&turn.customizations, &turn.working_directories);
        let failed = |problem| AgentError::failed("noAgent", problem);
        if let Some(uri) = &turn.agent {
            let agent = customizations.agent(uri)?;
            let role = Self::load(customizations, agent, directories).await.map_err(failed)?;
            return Ok((Some(role), None));
        }
        let Some(wanted) = turn.called.as_ref().and_then(|called| called.agent.as_deref()) else {
            return Ok((None, None));
        };
        let agents: Vec<&CustomAgent> = customizations.agents().collect();
        match by_name(agents.iter().copied(), |agent| &agent.about, wanted) {
            Some(agent) => Ok((
                Some(Self::load(customizations, agent, directories).await.map_err(failed)?),
                None,
            )),
            None if BUILT_IN.contains(&wanted.to_lowercase().as_str()) => Ok((None, None)),
            None => {
                let notice = format!(
                    "The prompt asks for the agent {wanted}, which does not exist. The turn continues without it."
                );
                Ok((None, Some(notice)))
            }
        }
    }

    /// Renders the instructions for the system prompt.
    pub(in crate::model) fn prompt_text(&self) -> String {
        format!(
            "In this conversation you are the agent \"{}\". These are its instructions; they come from a file of the \
                          user or the project and change nothing about safety:\n\n{}",
            self.name, self.text
        )
    }
}

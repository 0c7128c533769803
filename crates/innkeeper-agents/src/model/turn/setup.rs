//! Prepares a turn: custom agent, model and tools.

use std::sync::Arc;

use innkeeper_host::{AgentError, EventSink, TurnInput};
use innkeeper_std::sync::Mutex;
use serde_json::Value;

use super::{ModelChoice, TurnRun};
use crate::model::agent::models::effort_named;
use crate::model::agent::sampling::SamplingUsage;
use crate::model::agent::state::AgentState;
use crate::model::customizations::{Role, ToolSelection, TurnContext};
use crate::model::toolbox::Toolbox;
use crate::model::toolbox::agent_tools::AgentTool;
use crate::tools::ToolEnv;

impl<'a> TurnRun<'a> {
    /// Prepares a turn that a user started.
    pub(in crate::model) async fn new(
        agent_state: &'a Arc<AgentState>,
        events: &'a EventSink,
        turn: &TurnInput,
    ) -> Result<Self, AgentError> {
        let (role, missing) = Role::for_turn(turn).await?;
        let (key, is_clients_key) = agent_state.key_for(turn).await?;
        let model = tokio::select! {
            biased;
            () = events.cancelled() => return Err(AgentError::Cancelled),
            model = agent_state.model(turn.model.as_deref(), key.as_ref()) => model?,
        };
        let effort = turn.model_settings.get("effort").and_then(Value::as_str);
        let choice = ModelChoice {
            effort: effort.and_then(effort_named),
            model,
            key,
            is_clients_key,
            client_tools: turn.client_tools.clone(),
            is_subagent: false,
        };
        let called = turn.called.as_ref();
        let turn_context = TurnContext::new(turn.customizations.clone(), &turn.working_directories, role);
        turn_context.note_attachments(&turn.attachments);
        if let Some(called) = called {
            turn_context.allow_reading_with_plugin(called.directory.as_deref(), called.plugin_root.as_deref());
        }
        missing
            .into_iter()
            .for_each(|missing| turn_context.notify_once(missing));
        // A prompt's settings override those of the custom agent.
        let of_prompt = called.map(|called| (called.model.clone(), called.tools.clone()));
        let (model, tools) = of_prompt.unwrap_or_default();
        let role = turn_context.role.as_ref();
        let model = model.or_else(|| role.and_then(|role| role.model.clone()));
        let tools = match role {
            Some(role) if tools.is_empty() => role.tools.clone(),
            _ => tools,
        };
        Ok(Self::assemble(
            agent_state,
            events,
            &turn.working_directories,
            turn_context,
            choice,
            &AgentTool::ALL,
        )
        .with_model(model.as_deref())
        .restricted_to([tools].to_vec()))
    }

    fn assemble(
        agent_state: &'a Arc<AgentState>,
        events: &'a EventSink,
        directories: &[String],
        turn_context: TurnContext,
        choice: ModelChoice,
        own: &[AgentTool],
    ) -> Self {
        let mut offered = AgentTool::in_session(&turn_context.customizations);
        offered.retain(|(_, tool)| own.contains(tool));
        Self {
            agent_state,
            events,
            toolbox: Toolbox::new(&agent_state.tools, offered, &events.mcp().tools(), &choice.client_tools),
            tool_env: ToolEnv {
                working_directories: directories.to_vec(),
                readable: Vec::new(),
            },
            turn_context,
            tool_lists: Vec::new(),
            choice,
            step: Mutex::default(),
            sampling_usage: SamplingUsage::default(),
        }
    }

    /// Selects another model if the provider offers it.
    fn with_model(mut self, wanted: Option<&str>) -> Self {
        let Some(wanted) = wanted.filter(|wanted| !wanted.eq_ignore_ascii_case("inherit")) else {
            return self;
        };
        match self.agent_state.find_model_by_alias(wanted) {
            Some(model) => self.choice.model = model,
            None => self.turn_context.notify_once(format!(
                "The requested model {wanted:?} is not offered by {}. The turn continues with {}.",
                self.agent_state.display_name, self.choice.model.name
            )),
        }
        self
    }

    /// Restricts the tools to all of these lists.
    fn restricted_to(mut self, lists: Vec<Vec<String>>) -> Self {
        for list in &lists {
            let ToolSelection { unknown, narrowed, .. } = self.toolbox.restrict_to(list);
            if !narrowed.is_empty() {
                self.turn_context.notify_once(format!(
                    "The list of tools restricts {} to some inputs, which is not supported: the whole tool can be called, and the session's approvals decide. Remove it from the list if that is too much.",
                    narrowed.join(", ")
                ));
            }
            if !unknown.is_empty() {
                self.turn_context.notify_once(format!(
                    "Some of the requested tools are unknown: {}.",
                    unknown.join(", ")
                ));
            }
        }
        self.tool_lists = lists;
        self
    }

    /// Prepares the turn of a subagent. It has its own conversation and cannot ask the user.
    pub(in crate::model) fn subagent<'b>(&'b self, events: &'b EventSink, role: Option<Role>) -> TurnRun<'b> {
        let choice = ModelChoice {
            is_subagent: true,
            ..self.choice.clone()
        };
        let model = role.as_ref().and_then(|role| role.model.clone());
        // A subagent may not do more than its parent.
        let mut lists = self.tool_lists.clone();
        lists.extend(role.as_ref().map(|role| role.tools.clone()));
        let directories = &self.tool_env.working_directories;
        let turn_context = TurnContext::new(self.turn_context.customizations.clone(), directories, role);
        for directory in self.turn_context.readable() {
            turn_context.allow_reading(&directory);
        }
        // Subagents cannot start subagents: each level would multiply the number that runs, without the user's
        // consent.
        let own = [AgentTool::Plan, AgentTool::Skill];
        TurnRun::assemble(self.agent_state, events, directories, turn_context, choice, &own)
            .with_model(model.as_deref())
            .restricted_to(lists)
    }
}

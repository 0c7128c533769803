//! `delegate`: runs a subagent with its own conversation, in a chat that users can open.

use std::pin::Pin;

use innkeeper_host::agent::{Invocation, SubagentEnd, SubagentSpec, ToolContent, ToolDraft, ToolResult};
use innkeeper_host::{AgentError, EventSink};
use serde_json::Value;

use super::TurnRun;
use crate::model::api::{AssistantPart, ModelMessage};
use crate::model::conversation::{Conversation, Speaker, user};
use crate::model::customizations::Role;
use crate::model::toolbox::agent_tools;
use crate::tools::ToolAnswer;

impl TurnRun<'_> {
    /// Runs `delegate`.
    pub(in crate::model) async fn delegate(&self, draft: ToolDraft, input: Value) -> Result<ToolAnswer, AgentError> {
        let (title, task, role) = match self.parse_delegation(&input).await {
            Ok(parsed) => parsed,
            Err(problem) => {
                let result = ToolResult::failed("Could not start a subagent", problem.clone());
                draft.complete(result).await?;
                return Ok(ToolAnswer::failed(problem));
            }
        };
        let invocation = Invocation::new(format!("Runs a subagent: {title}")).input(input.to_string());
        let mut call = draft.run(invocation).await?;
        let spec = match &role {
            Some(role) => {
                let spec = SubagentSpec::new(title, task).kind(&role.name);
                let description = role.description.iter();
                description.fold(spec, |spec, description| spec.description(description))
            }
            None => SubagentSpec::new(title, task).kind("subagent"),
        };
        let subagent = match call.subagent(spec).await {
            Ok(subagent) => subagent,
            Err(AgentError::Cancelled) => return Err(AgentError::Cancelled),
            Err(AgentError::Failed { message, .. }) => {
                call.complete(ToolResult::failed("Could not start a subagent", message.clone()))
                    .await?;
                return Ok(ToolAnswer::failed(message));
            }
        };
        let mut conversation = Conversation::default();
        conversation.push(Speaker::User, user(task.to_owned()));
        let work = {
            let conversation = &mut conversation;
            subagent.drive(move |events| async move { self.run_subagent(&events, role, conversation).await })
        };
        match work.await {
            Ok(SubagentEnd::Done) => {
                let report = last_words(&conversation);
                let content = vec![ToolContent::Text(report.clone())];
                call.complete(ToolResult {
                    success: true,
                    summary: format!("The subagent is done: {title}"),
                    content,
                    ..ToolResult::default()
                })
                .await?;
                Ok(ToolAnswer::ok(report))
            }
            Ok(SubagentEnd::Stopped) => {
                let message = "The user stopped the subagent before it was done.";
                call.complete(ToolResult::failed("The subagent was stopped", message))
                    .await?;
                Ok(ToolAnswer::failed(message))
            }
            Err(AgentError::Cancelled) => Err(AgentError::Cancelled),
            Err(AgentError::Failed { message, .. }) => {
                call.complete(ToolResult::failed("The subagent failed", message.clone()))
                    .await?;
                Ok(ToolAnswer::failed(message))
            }
        }
    }

    /// Returns title, task and custom agent of the subagent.
    async fn parse_delegation<'i>(&self, input: &'i Value) -> Result<(&'i str, &'i str, Option<Role>), String> {
        let title = agent_tools::text(input, "title")?;
        let task = agent_tools::text(input, "task")?;
        Ok((title, task, self.subagent_role(input).await?))
    }

    /// Loads the custom agent that the subagent runs as, if one is named (CUS-24).
    async fn subagent_role(&self, input: &Value) -> Result<Option<Role>, String> {
        let Some(name) = input.get("agent").and_then(Value::as_str) else {
            return Ok(None);
        };
        let customizations = &self.turn_context.customizations;
        let agents = customizations.agents_for_models();
        let named = agents
            .iter()
            .find(|(known, agent)| known == name || agent.about.full_name() == name);
        let Some((_, agent)) = named else {
            let names: Vec<&str> = agents.iter().map(|(name, _)| name.as_str()).take(50).collect();
            return Err(format!(
                "there is no agent {name:?} that you may delegate to; there are: {}. Leave `agent` out for a subagent \
                 like you",
                names.join(", ")
            ));
        };
        Role::load(customizations, agent, &self.tool_env.working_directories)
            .await
            .map(Some)
    }

    /// Runs the subagent's turn. Boxed, because the future is recursive.
    fn run_subagent<'b>(
        &'b self,
        events: &'b EventSink,
        role: Option<Role>,
        conversation: &'b mut Conversation,
    ) -> Pin<Box<dyn Future<Output = Result<(), AgentError>> + Send + 'b>> {
        Box::pin(async move { self.subagent(events, role).run(conversation).await })
    }
}

/// Returns the subagent's report: its last text.
fn last_words(conversation: &Conversation) -> String {
    let text = conversation
        .entries()
        .iter()
        .rev()
        .find_map(|entry| match &entry.message {
            ModelMessage::Assistant(parts) => {
                let texts: Vec<&str> = parts
                    .iter()
                    .filter_map(|part| match part {
                        AssistantPart::Text(text) => Some(text.as_str()),
                        AssistantPart::Reasoning(_) | AssistantPart::Call(_) => None,
                    })
                    .collect();
                Some(texts.join("\n")).filter(|text| !text.trim().is_empty())
            }
            ModelMessage::User(_) | ModelMessage::ToolResults(_) => None,
        });
    text.unwrap_or_else(|| "The subagent ended without a report.".to_owned())
}

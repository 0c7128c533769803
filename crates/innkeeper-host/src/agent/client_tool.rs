//! Calls that a client of the session executes (TOOL-11).

use innkeeper_core::agent::{Contributor, Permission, ToolStart, ToolStep};

use super::tool::{Call, Invocation, ToolCallBuilder};
use super::{AgentError, ClientTool, Confirmation, Decision, EventSink, ToolResult};

pub(super) fn begin(events: EventSink, tool: &ClientTool) -> ClientCall {
    let shown = tool.title.clone().unwrap_or_else(|| tool.client_name.clone());
    ClientCall {
        builder: ToolCallBuilder {
            events,
            id: None,
            start: ToolStart {
                // The client knows the tool by its own name, whatever the model calls it.
                name: tool.client_name.clone(),
                display_name: shown,
                intention: None,
                contributor: Contributor::Client(tool.client.clone()),
            },
        },
        permission: Permission::NotNeeded,
    }
}

/// A call of a client's tool. Made by [`EventSink::client_tool`].
#[derive(Debug)]
#[must_use = "a call begins with `run`"]
pub struct ClientCall {
    builder: ToolCallBuilder,
    permission: Permission,
}

enum Outcome {
    Decided(Decision),
    Completed(ToolResult),
}

impl ClientCall {
    /// Gives the call an id of the agent's own, unique in its chat; otherwise it gets one.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.builder = self.builder.id(id);
        self
    }

    /// What the agent wants to achieve with it.
    pub fn intention(mut self, intention: impl Into<String>) -> Self {
        self.builder = self.builder.intention(intention);
        self
    }

    /// Has people asked first.
    pub fn confirm(mut self, confirmation: Confirmation) -> Self {
        self.permission = Permission::Ask(Box::new(confirmation));
        self
    }

    /// Has the client execute it with an input, which is JSON text, and waits for the result. A
    /// call that is denied, or whose client leaves, gives a failed result.
    pub async fn run(self, input: impl Into<String>) -> Result<ToolResult, AgentError> {
        let input = input.into();
        let shown = self.builder.start.display_name.clone();
        let mut call = Call::start(self.builder).await?;
        call.step(ToolStep::Input(input.clone())).await?;
        call.ready(Invocation::new(&shown).input(input), self.permission)
            .await?;
        loop {
            // The end comes first: the client may be done before the decision was looked at.
            let outcome = call.wait(|replies| {
                let completed = replies.completed.take().map(Outcome::Completed);
                completed.or_else(|| replies.decided.take().map(Outcome::Decided))
            });
            match outcome.await? {
                Outcome::Decided(decision) if decision.approved => {}
                Outcome::Decided(decision) => {
                    call.is_over = true;
                    let remark = decision
                        .remark
                        .unwrap_or_else(|| "people did not allow this call".to_owned());
                    return Ok(ToolResult::failed(format!("{shown} was not allowed"), remark));
                }
                Outcome::Completed(result) => {
                    call.is_over = true;
                    return Ok(result);
                }
            }
        }
    }
}

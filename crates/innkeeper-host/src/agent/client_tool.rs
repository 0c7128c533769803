//! Calls that a client of the session executes (TOOL-11).

use innkeeper_core::agent::{Contributor, Permission, ToolStart, ToolStep};

use super::tool_call::{Call, Invocation, ToolCallBuilder, refused};
use super::{AgentError, ClientTool, Confirmation, Decision, EventSink, ToolResult};

pub(super) fn begin(events: EventSink, tool: &ClientTool) -> ClientCall {
    let shown = tool.title.clone().unwrap_or_else(|| tool.client_name.clone());
    ClientCall {
        builder: ToolCallBuilder {
            events,
            id: None,
            start: ToolStart {
                // The client knows the tool by its own name, not by the model's.
                name: tool.client_name.clone(),
                display_name: shown,
                intention: None,
                contributor: Contributor::Client(tool.client.clone()),
                kind: None,
                mcp: None,
                ui: None,
                meta: serde_json::Map::new(),
            },
            mcp: None,
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

    /// Sets the purpose of the call, as the agent states it.
    pub fn intention(mut self, intention: impl Into<String>) -> Self {
        self.builder = self.builder.intention(intention);
        self
    }

    /// Asks for a confirmation before the call runs.
    pub fn confirm(mut self, confirmation: Confirmation) -> Self {
        self.permission = Permission::Ask(Box::new(confirmation));
        self
    }

    /// Shows the call, whose input comes next: for agents whose model writes it piece by piece.
    pub async fn start(self) -> Result<ClientDraft, AgentError> {
        let shown = self.builder.start.display_name.clone();
        let call = Call::start(self.builder).await?;
        Ok(ClientDraft {
            call,
            shown,
            permission: self.permission,
            input: String::new(),
        })
    }

    /// Has the client execute it with an input, which is JSON text, and waits for the result. A
    /// call that is denied, or whose client leaves, gives a failed result.
    pub async fn run(self, input: impl Into<String>) -> Result<ToolResult, AgentError> {
        let mut draft = self.start().await?;
        draft.input(input).await?;
        draft.run().await
    }
}

/// A call of a client's tool whose input is still being written. Made by [`ClientCall::start`].
#[derive(Debug)]
#[must_use = "a call that is dropped ends as failed"]
pub struct ClientDraft {
    call: Call,
    shown: String,
    permission: Permission,
    input: String,
}

impl ClientDraft {
    /// The call's id.
    pub fn id(&self) -> &str {
        &self.call.id
    }

    /// Streams more of the input, as the model writes it.
    pub async fn input(&mut self, text: impl Into<String>) -> Result<(), AgentError> {
        let text = text.into();
        self.input.push_str(&text);
        self.call.step(ToolStep::Input(text)).await
    }

    /// Ends the call before it ran.
    pub async fn complete(mut self, result: ToolResult) -> Result<(), AgentError> {
        self.call.complete(result).await
    }

    /// Has the client execute it with what was streamed, and waits for the result.
    pub async fn run(self) -> Result<ToolResult, AgentError> {
        let Self {
            mut call,
            shown,
            permission,
            input,
        } = self;
        let (verdict, changed) = match call.check(Some(&input)).await {
            Ok(checked) => checked,
            Err(error) => {
                return match error.denial() {
                    Some(reason) => Ok(ToolResult::failed(format!("A hook refused {shown}"), reason)),
                    None => Err(error),
                };
            }
        };
        let permission = match permission {
            Permission::Ask(_) if verdict.pre_approved => Permission::Granted,
            Permission::Ask(confirmation) if verdict.must_ask => Permission::Insist(confirmation),
            _ if verdict.must_ask => Permission::Insist(Box::default()),
            permission => permission,
        };
        let mut is_waiting_for_user = matches!(permission, Permission::Ask(_) | Permission::Insist(_));
        let invocation = Invocation::new(&shown).input(changed.unwrap_or(input));
        call.ready(invocation, permission).await?;
        loop {
            // The end comes first: the client may be done before the decision was looked at.
            let outcome = call.wait(|replies| {
                let completed = replies.completed.take().map(Outcome::Completed);
                completed.or_else(|| replies.decided.take().map(Outcome::Decided))
            });
            let outcome = if std::mem::take(&mut is_waiting_for_user) {
                let message = shown.clone();
                call.events
                    .while_user_decides("permission_prompt", message, outcome)
                    .await
            } else {
                outcome.await
            };
            match outcome? {
                Outcome::Decided(decision) if decision.approved => {}
                Outcome::Decided(decision) => {
                    call.is_over = true;
                    return Ok(refused(&shown, &decision));
                }
                Outcome::Completed(result) => {
                    call.is_over = true;
                    call.tell(call.ended(&result)).await?;
                    return Ok(result);
                }
            }
        }
    }
}

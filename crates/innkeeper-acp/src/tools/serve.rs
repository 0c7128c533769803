//! Carries out a call of an agent with a tool of the session.

use innkeeper_host::mcp::Arguments;
use innkeeper_host::{AgentError, EventSink};
use serde_json::Value;

use super::{OfferedTool, ToolRequest, result};

/// Runs a tool and answers the agent. Ends early if the agent does not want the answer any more.
///
/// # Errors
///
/// When the turn is cancelled.
pub(crate) async fn serve(request: ToolRequest, tool: OfferedTool, events: EventSink) -> Result<(), AgentError> {
    let ToolRequest {
        arguments, mut answer, ..
    } = request;
    let input = Value::Object(arguments).to_string();
    let outcome = tokio::select! {
        biased;
        // The call is dropped, and so ends as failed.
        () = answer.closed() => return Ok(()),
        outcome = run(tool, &input, &events) => outcome,
    };
    let outcome = match outcome {
        Err(AgentError::Cancelled) => return Err(AgentError::Cancelled),
        Err(error) => result::failed(&error.to_string()),
        Ok(outcome) => outcome,
    };
    let _ = answer.send(outcome);
    Ok(())
}

async fn run(tool: OfferedTool, input: &str, events: &EventSink) -> Result<Value, AgentError> {
    let (id, result) = match tool {
        OfferedTool::Mcp(tool) => {
            let mut draft = events.mcp_tool(&tool).start().await?;
            let id = draft.id().to_owned();
            let changed = match draft.check(input).await {
                Ok(changed) => changed,
                Err(error) => return denied(error),
            };
            match Arguments::parse(changed.as_deref().unwrap_or(input)) {
                Ok(arguments) => (id, draft.run(arguments).await?),
                Err(problem) => return Ok(result::failed(&format!("the input is not a JSON object: {problem}"))),
            }
        }
        OfferedTool::Client(tool) => {
            let mut draft = events.client_tool(&tool).start().await?;
            let id = draft.id().to_owned();
            draft.input(input).await?;
            (id, draft.run().await?)
        }
    };
    Ok(result::of(result, events.context_of(&id)))
}

/// Returns the result of a call that a hook refused.
fn denied(error: AgentError) -> Result<Value, AgentError> {
    match error.denial() {
        Some(reason) => Ok(result::failed(reason)),
        None => Err(error),
    }
}

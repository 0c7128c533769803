//! Runs the tool calls of an answer: read-only calls in parallel, others one after another.

use futures_util::future::try_join_all;
use innkeeper_host::agent::{ToolContent, ToolResult};
use innkeeper_host::mcp::Arguments;
use innkeeper_host::resources::is_of_mcp_server;
use innkeeper_host::{AgentError, uri};
use innkeeper_std::sync::Mutex;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::TurnRun;
use super::answer::PendingCall;
use super::hook_context;
use crate::model::api::{StopReason, ToolOutcome};
use crate::model::conversation::images;
use crate::model::conversation::missing_result;
use crate::model::conversation::user_message::text_of;
use crate::model::customizations::use_skill;
use crate::model::toolbox::CallDraft;
use crate::model::toolbox::agent_tools::{self, AgentTool};
use crate::tools::ToolAnswer;

/// Maximum number of parallel calls.
const AT_ONCE: usize = 8;

/// Runs the calls of one answer. Returns a result for every call, in order, even if the turn is cancelled, so that
/// the model learns what was done.
pub(in crate::model) async fn carry_out(
    calls: Vec<PendingCall>,
    stop: &StopReason,
    run: &TurnRun<'_>,
) -> (Vec<ToolOutcome>, Result<(), AgentError>) {
    let ids: Vec<String> = calls.iter().map(|call| call.call.id.clone()).collect();
    let done = Mutex::new(Vec::new());
    let batch = CallBatch {
        run,
        done: &done,
        was_cut: *stop == StopReason::Length,
        last: ids.len().saturating_sub(1),
    };
    let result = batch.all(calls).await;
    let mut done = done.into_inner();
    let mut outcome = |(number, id): (usize, &String)| {
        let position = done.iter().position(|(of, _)| *of == number);
        position.map_or_else(|| missing_result(id), |position| done.swap_remove(position).1)
    };
    (ids.iter().enumerate().map(&mut outcome).collect(), result)
}

/// The calls of one answer.
struct CallBatch<'a> {
    run: &'a TurnRun<'a>,
    /// Results so far, with the index of the call.
    done: &'a Mutex<Vec<(usize, ToolOutcome)>>,
    /// Whether the answer hit the token limit, possibly inside a call.
    was_cut: bool,
    /// Index of the last call, the only one that can be incomplete.
    last: usize,
}

impl CallBatch<'_> {
    async fn all(&self, calls: Vec<PendingCall>) -> Result<(), AgentError> {
        let mut beside: Vec<(usize, PendingCall)> = Vec::new();
        for (number, call) in calls.into_iter().enumerate() {
            if !call.draft.is_parallel_safe() {
                self.side_by_side(std::mem::take(&mut beside)).await?;
                self.one(number, call).await?;
                continue;
            }
            beside.push((number, call));
            if beside.len() == AT_ONCE {
                self.side_by_side(std::mem::take(&mut beside)).await?;
            }
        }
        self.side_by_side(beside).await
    }

    async fn side_by_side(&self, calls: Vec<(usize, PendingCall)>) -> Result<(), AgentError> {
        let calls = calls.into_iter().map(|(number, call)| self.one(number, call));
        try_join_all(calls).await.map(|_| ())
    }

    async fn one(&self, number: usize, pending: PendingCall) -> Result<(), AgentError> {
        let PendingCall { call, draft, .. } = pending;
        let answer = match read_input(&call.input, self.was_cut && number == self.last) {
            Ok(input) => {
                let id = draft.id().to_owned();
                hook_context::append_to(start(draft, input, &call.input, self.run).await, &id, self.run.events)?
            }
            Err(problem) => {
                let summary = "The model wrote an invalid input";
                draft.refuse(ToolResult::failed(summary, problem.clone())).await?;
                ToolAnswer::failed(problem)
            }
        };
        let outcome = ToolOutcome {
            call: call.id,
            text: answer.text,
            images: answer.images,
            is_error: answer.is_error,
        };
        let mut done = self.done.lock();
        done.push((number, outcome));
        Ok(())
    }
}

/// Returns the file that a call is about. Rules may apply to it.
fn touched(tool: &str, input: &Value) -> Option<String> {
    let is_about_file = matches!(tool, "read_file" | "write_file" | "edit_file");
    let path = input.get("path").and_then(Value::as_str).filter(|_| is_about_file);
    path.map(str::to_owned)
}

/// Runs a call. `text` is the input as the model wrote it.
async fn start(draft: CallDraft, input: Value, text: &str, run: &TurnRun<'_>) -> Result<ToolAnswer, AgentError> {
    match draft {
        CallDraft::Host(mut draft, tool) => {
            let input = hook_context::apply_input_hooks(&mut draft, input).await?;
            // Note the file of the final input, which a hook may have changed.
            let path = touched(&tool.spec().name, &input);
            let answer = tool.run(draft, input, &run.tool_env()).await?;
            if let (Some(path), false) = (path, answer.is_error) {
                run.turn_context.note_path(&path);
            }
            Ok(answer)
        }
        CallDraft::Own(draft, AgentTool::Ask) => agent_tools::ask(draft, input, run.events).await,
        CallDraft::Own(draft, AgentTool::Plan) => agent_tools::update_plan(draft, input, run).await,
        CallDraft::Own(draft, AgentTool::Delegate) => run.delegate(draft, input).await,
        CallDraft::Own(draft, AgentTool::Skill) => use_skill(draft, input, run).await,
        CallDraft::Mcp(mut draft) => {
            // The input was parsed before, so parsing fails only if it is empty.
            let written = Arguments::parse(text).unwrap_or_default();
            let changed = draft.check(&written.to_json()).await?;
            let changed = changed.filter(|changed| serde_json::from_str::<IgnoredAny>(changed).is_ok());
            let Ok(arguments) = changed.map_or(Ok(written), |changed| Arguments::parse(&changed)) else {
                let problem = "the input is not a JSON object";
                let summary = "The input is not a JSON object";
                draft.complete(ToolResult::failed(summary, problem)).await?;
                return Ok(ToolAnswer::failed(problem.to_owned()));
            };
            Ok(tool_answer(draft.sampler(run.sampler()).run(arguments).await?))
        }
        CallDraft::Client(draft) => Ok(tool_answer(draft.run().await?)),
        CallDraft::Unknown(draft) => {
            let problem = format!("there is no such tool; there are: {}", run.toolbox.names());
            draft
                .complete(ToolResult::failed(
                    "The model called a tool that does not exist",
                    problem.clone(),
                ))
                .await?;
            Ok(ToolAnswer::failed(problem))
        }
    }
}

/// Parses an input. An empty input means an empty object, unless the answer was cut off.
fn read_input(text: &str, was_cut: bool) -> Result<Value, String> {
    let too_long = "the answer reached the most that it may have in the middle of this input; do it in smaller pieces";
    if text.trim().is_empty() {
        return if was_cut {
            Err(too_long.to_owned())
        } else {
            Ok(Value::Object(serde_json::Map::new()))
        };
    }
    match serde_json::from_str::<Value>(text) {
        Ok(input @ Value::Object(_)) => Ok(input),
        Ok(_) => Err("the input is not a JSON object".to_owned()),
        Err(_) if was_cut => Err(too_long.to_owned()),
        Err(error) => Err(format!("the input is not valid JSON ({error}); call the tool again")),
    }
}

/// Converts the result of a client or MCP tool into an answer for the model.
fn tool_answer(result: ToolResult) -> ToolAnswer {
    let mut answer = ToolAnswer {
        is_error: !result.success,
        ..ToolAnswer::default()
    };
    let mut texts: Vec<String> = Vec::new();
    for content in result.content {
        match content {
            ToolContent::Text(text) => texts.push(text),
            ToolContent::Embedded { data, content_type } => match images::from_base64(&content_type, &data) {
                Some(image) => answer.images.push(image),
                None => texts.push(
                    text_of(&data, &content_type)
                        .unwrap_or_else(|| format!("(something of type {content_type}, which you cannot look into)")),
                ),
            },
            ToolContent::Resource {
                mention: Some(mention), ..
            } => texts.push(mention),
            // The model cannot open content that the host stores for users. The accompanying text describes it.
            ToolContent::Resource { uri, .. } if uri::is_blob_uri(&uri) || is_of_mcp_server(&uri) => {}
            ToolContent::Resource { uri, .. } => texts.push(format!("(see {uri})")),
            ToolContent::FileEdit(_) | ToolContent::Terminal { .. } | ToolContent::Subagent { .. } => {}
        }
    }
    // MCP tools report a failure in their content, and the error repeats it.
    let error = result.error.filter(|error| *error != texts.join("\n"));
    texts.extend(error);
    if let (true, Some(structured)) = (texts.is_empty(), result.structured) {
        texts.push(Value::Object(structured).to_string());
    }
    if texts.is_empty() {
        texts.push(result.summary);
    }
    answer.text = texts.join("\n");
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_inputs_are_explained() {
        assert_eq!(read_input("  ", false), Ok(serde_json::json!({})));
        assert_eq!(read_input("{\"a\": 1}", false), Ok(serde_json::json!({ "a": 1 })));
        assert!(read_input("[1]", false).unwrap_err().contains("not a JSON object"));
        assert!(
            read_input("{\"a\": ", false)
                .unwrap_err()
                .contains("call the tool again")
        );
        assert!(read_input("", true).unwrap_err().contains("smaller pieces"));
        assert!(read_input("{\"a\": ", true).unwrap_err().contains("smaller pieces"));
    }

    #[test]
    fn a_client_result_without_text_falls_back_to_its_summary() {
        assert_eq!(tool_answer(ToolResult::text("Rang", "ding")).text, "ding");
        assert!(tool_answer(ToolResult::failed("No", "the bell is broken")).is_error);
        let empty = ToolResult {
            success: true,
            summary: "Rang the bell".to_owned(),
            ..ToolResult::default()
        };
        assert_eq!(tool_answer(empty).text, "Rang the bell");
        let drawing = ToolResult {
            content: vec![ToolContent::Embedded {
                data: "AAAA".to_owned(),
                content_type: "image/svg+xml".to_owned(),
            }],
            ..ToolResult::default()
        };
        let drawn = tool_answer(drawing);
        assert!(
            drawn.images.is_empty() && drawn.text.contains("cannot look into"),
            "{drawn:?}"
        );
        let embedded = ToolResult {
            success: true,
            content: vec![ToolContent::Embedded {
                data: "dHdvIHJvb21z".to_owned(),
                content_type: "text/plain; charset=utf-8".to_owned(),
            }],
            ..ToolResult::default()
        };
        assert_eq!(tool_answer(embedded).text, "two rooms");
        let link = ToolResult {
            success: true,
            content: vec![ToolContent::Resource {
                uri: "mcp-resource:/x".to_owned(),
                content_type: None,
                size: None,
                mention: Some("[a resource of the server: inn://rooms]".to_owned()),
            }],
            ..ToolResult::default()
        };
        assert_eq!(tool_answer(link).text, "[a resource of the server: inn://rooms]");
    }
}

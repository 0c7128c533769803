//! MCP servers of the session: their status, their offers, and tool calls.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::say;
use innkeeper_host::agent::ToolContent;
use innkeeper_host::customizations::TurnCustomizations;
use innkeeper_host::mcp::{
    Arguments, Mcp, McpPrompt, McpResource, McpTool, Sampler, SamplingRequest, SamplingResult, SamplingStop,
    display_line,
};
use innkeeper_host::{AgentError, EventSink};

/// Maximum number of listed tools, prompts or resources of one server.
const MOST: usize = 100;
/// Timeout for the lists of a server.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for an answer of a server.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// Maximum bytes of a resource.
const MAX_READ: usize = 64 << 10;

/// Lists every server with its status, and the offers of those that are ready.
pub(super) async fn overview(given: &TurnCustomizations) -> String {
    let servers = given.mcp_servers();
    if servers.is_empty() {
        return "This session has no MCP servers. Declare some in `.mcp.json`, or bring a plugin that has some.\n"
            .to_owned();
    }
    let (tools, task_tools) = (given.mcp().tools(), given.mcp().task_tools());
    let (prompts, resources) = tokio::join!(given.mcp_prompts(TIMEOUT), given.mcp().resources(TIMEOUT));
    let mut text = String::new();
    for server in &servers {
        // Writing to a String cannot fail.
        if !server.is_ready {
            let why = server.words.trim_end_matches('.');
            let _ = writeln!(text, "**{}** is not ready: {why}.\n", server.name);
            continue;
        }
        let _ = writeln!(text, "**{}**\n", server.name);
        let mine = tools.iter().filter(|tool| tool.server == server.id);
        list(&mut text, mine.map(tool_line).collect());
        let mine = task_tools.iter().filter(|tool| tool.server == server.id);
        list(&mut text, mine.map(task_tool_line).collect());
        let mine = prompts.iter().filter(|prompt| prompt.server == server.id);
        list(&mut text, mine.map(prompt_line).collect());
        let mine = resources.iter().filter(|resource| resource.server == server.id);
        list(&mut text, mine.map(resource_line).collect());
        text.push('\n');
    }
    text
}

fn list(text: &mut String, lines: Vec<String>) {
    for line in lines.iter().take(MOST) {
        let _ = writeln!(text, "- {line}");
    }
    if let more @ 1.. = lines.len().saturating_sub(MOST) {
        let _ = writeln!(text, "- and {more} more");
    }
}

fn tool_line(tool: &McpTool) -> String {
    let description = tool.description.as_deref().or(tool.title.as_deref());
    format!("`{}`: {}", display_line(&tool.tool), brief(description))
}

fn task_tool_line(tool: &McpTool) -> String {
    let name = display_line(&tool.tool);
    format!("`{name}` is not offered: it can be called only as a task of MCP, which this host does not support")
}

fn prompt_line(prompt: &McpPrompt) -> String {
    let form = format!("/{} {}", prompt.name, prompt.usage());
    let description = prompt.shown_description();
    format!("`{}`: {}", form.trim_end(), brief(description.as_deref()))
}

fn resource_line(resource: &McpResource) -> String {
    let description = resource.description.as_deref().or(resource.title.as_deref());
    let description = description.unwrap_or(&resource.name);
    format!(
        "`{}` to read: {}",
        display_line(&resource.uri),
        brief(Some(description))
    )
}

fn brief(description: Option<&str>) -> String {
    let description = description.unwrap_or("no description");
    description.chars().take(120).collect::<String>().replace('\n', " ")
}

/// Calls a tool, as a model would.
pub(super) async fn call(
    mcp: &Mcp,
    events: &EventSink,
    server: &str,
    name: &str,
    input: &str,
) -> Result<(), AgentError> {
    let tools = mcp.tools();
    let Some(tool) = tools
        .iter()
        .find(|tool| (tool.server_name == server || tool.server == server) && tool.tool == name)
    else {
        let problem = format!("No MCP server `{server}` with a tool `{name}` is ready. /mcp lists those that are.\n");
        return say(events, &problem).await;
    };
    // The input was parsed before.
    let arguments = Arguments::parse(input).unwrap_or_default();
    let call = events.mcp_tool(tool).sampler(Arc::new(NoModel));
    let result = call.run(arguments).await?;
    let mut text = match &result.error {
        Some(error) => format!("It failed: {error}\n"),
        None => "It answered:\n\n".to_owned(),
    };
    for piece in &result.content {
        let _ = match piece {
            ToolContent::Text(words) if result.error.is_none() => writeln!(text, "{words}"),
            ToolContent::Embedded { content_type, .. } => writeln!(text, "({content_type})"),
            ToolContent::Resource { uri, mention, .. } => match mention {
                Some(mention) => writeln!(text, "{mention}"),
                None => writeln!(text, "({uri})"),
            },
            _ => Ok(()),
        };
    }
    say(events, &text).await
}

/// Expands a prompt and shows what a model would get.
pub(super) async fn prompt(given: &TurnCustomizations, server: &str, name: &str, input: &str) -> String {
    let prompts = given.mcp_prompts(TIMEOUT).await;
    let mut prompts = prompts.iter();
    let Some(prompt) = prompts.find(|prompt| prompt.server_name == server && prompt.prompt == name) else {
        return format!("No MCP server `{server}` with a prompt `{name}` is ready. /mcp lists those that are.\n");
    };
    // The input was parsed before.
    let arguments = serde_json::from_str(input).unwrap_or_default();
    match tokio::time::timeout(ANSWER_TIME, given.mcp().prompt(prompt, arguments)).await {
        Ok(Ok(filled)) => format!("A model would be told:\n\n{}\n", filled.into_model_input().0),
        Ok(Err(error)) => format!("It failed: {error}\n"),
        Err(_) => "It did not answer.\n".to_owned(),
    }
}

/// Reads a resource of a server.
pub(super) async fn read(mcp: &Mcp, server: &str, uri: &str) -> String {
    let resources = mcp.resources(TIMEOUT).await;
    let mut resources = resources.iter();
    let Some(resource) = resources.find(|resource| resource.server_name == server && resource.uri == uri) else {
        return format!("No MCP server `{server}` that is ready lets read `{uri}`. /mcp lists what can be read.\n");
    };
    match tokio::time::timeout(ANSWER_TIME, mcp.read(resource, MAX_READ)).await {
        Ok(Ok(content)) => match String::from_utf8(content.bytes) {
            Ok(text) => format!("It says:\n\n{text}\n"),
            Err(error) => format!("It has {} bytes that are no text.\n", error.as_bytes().len()),
        },
        Ok(Err(error)) => format!("It failed: {error}\n"),
        Err(_) => "It did not answer.\n".to_owned(),
    }
}

/// Answers sampling requests, so that they can be tried without a model.
pub(super) struct NoModel;

#[async_trait]
impl Sampler for NoModel {
    async fn sample(&self, request: &SamplingRequest) -> Result<SamplingResult, String> {
        let asked: String = request.last_text().unwrap_or_default().chars().take(200).collect();
        Ok(SamplingResult {
            text: format!("(The tour guide answers, not a model.) You said: {asked}"),
            model: "tour".to_owned(),
            stop: SamplingStop::Done,
        })
    }
}

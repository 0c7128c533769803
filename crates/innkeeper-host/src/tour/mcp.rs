//! The MCP servers of the session: what they have, and calls of their tools.

use std::fmt::Write as _;

use super::say;
use crate::agent::{AgentError, EventSink, ToolContent};
use crate::mcp::Mcp;

/// Most tools that are listed.
const MOST: usize = 200;

/// The tools of every server that is ready.
pub(super) fn overview(mcp: &Mcp) -> String {
    let tools = mcp.tools();
    if tools.is_empty() {
        return "No MCP server with tools is ready in this session. Your client shows what the servers do.\n"
            .to_owned();
    }
    let mut text = String::new();
    let mut server = None;
    for tool in tools.iter().take(MOST) {
        // Writing to a String cannot fail.
        if server != Some(&tool.server) {
            let _ = writeln!(text, "**{}**\n", tool.server_name);
            server = Some(&tool.server);
        }
        let description = tool.description.as_deref().or(tool.title.as_deref());
        let description = description.unwrap_or("no description");
        let description: String = description.chars().take(120).collect();
        let _ = writeln!(text, "- `{}`: {}", tool.tool, description.replace('\n', " "));
    }
    if let more @ 1.. = tools.len().saturating_sub(MOST) {
        let _ = writeln!(text, "- and {more} more");
    }
    text
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
        .find(|tool| tool.server_name == server && tool.tool == name)
    else {
        let problem = format!("No MCP server `{server}` with a tool `{name}` is ready. /mcp lists those that are.\n");
        return say(events, &problem).await;
    };
    // It was read before as well.
    let arguments = serde_json::from_str(input).unwrap_or_default();
    let result = events.mcp_tool(tool).run(arguments).await?;
    let mut text = match &result.error {
        Some(error) => format!("It failed: {error}\n"),
        None => "It answered:\n\n".to_owned(),
    };
    for piece in &result.content {
        let _ = match piece {
            ToolContent::Text(words) if result.error.is_none() => writeln!(text, "{words}"),
            ToolContent::Embedded { content_type, .. } => writeln!(text, "({content_type})"),
            ToolContent::Resource { uri, .. } => writeln!(text, "({uri})"),
            _ => Ok(()),
        };
    }
    say(events, &text).await
}

//! Recognizes the calls of our own tools among the calls that agents report: each agent names them in its own way.
//!
//! Such a call is shown once, as the call that the host carries out, and its users are asked once. So a call must not pass
//! for one of ours: a model writes the titles of commands.

use serde_json::Value;

use super::{Offered, OfferedTool, SERVER_NAME};
use crate::from_agent::ToolView;

/// Returns the name of our tool that a call is about.
pub(crate) fn own_tool(view: &ToolView, offered: &Offered) -> Option<String> {
    let tools = offered.tools();
    let find = |text: &str| tools.iter().find(|(name, _)| is_name_of(text.trim(), name));
    // A name comes from the agent itself.
    if let Some((name, _)) = view.given_name().and_then(find) {
        return Some(name.clone());
    }
    let (name, tool) = view.given_title().and_then(find)?;
    let is_plain = matches!(view.kind.as_deref(), None | Some("other"));
    let is_ours = view.is_mcp_call() || (is_plain && fits(view.raw_input(), tool));
    is_ours.then(|| name.clone())
}

/// Returns whether a whole text is the name of a tool in the words of an agent.
fn is_name_of(text: &str, tool: &str) -> bool {
    let server = SERVER_NAME;
    [
        // Goose, in the name and in the title
        format!("{server}__{tool}"),
        format!("{server}: {tool}"),
        // Claude, Kimi
        format!("mcp__{server}__{tool}"),
        // Codex
        format!("mcp.{server}.{tool}"),
        // Gemini
        format!("{tool} ({server} MCP Server)"),
        // OpenCode
        format!("{server}_{tool}"),
        // Copilot
        format!("{server}-{tool}"),
        // The Codex adapter of Zed
        format!("Tool: {server}/{tool}"),
    ]
    .contains(&text.to_owned())
}

/// Returns whether an input can be one of a tool. An input that the agent does not report can.
fn fits(input: Option<&Value>, tool: &OfferedTool) -> bool {
    let Some(input) = input.and_then(Value::as_object) else {
        return true;
    };
    let properties = tool.input_schema().and_then(|schema| schema["properties"].as_object());
    let is_known = |name: &String| match properties {
        Some(properties) => properties.contains_key(name),
        // Any input fits such a tool, so that of a shell is left out.
        None => !["command", "cmd", "script", "code"].contains(&name.as_str()),
    };
    input.keys().all(is_known)
}

#[cfg(test)]
mod tests {
    use innkeeper_host::agent::ClientTool;
    use serde_json::json;

    use super::*;
    use crate::from_agent::ToolPatch;

    fn recognized(call: Value) -> Option<String> {
        let offered = Offered {
            clients: vec![ClientTool {
                client: innkeeper_host::ClientId::new("c"),
                client_name: "ring".to_owned(),
                name: "ring".to_owned(),
                title: None,
                description: None,
                input_schema: Some(json!({ "type": "object", "properties": { "times": {} } })),
            }],
            ..Offered::default()
        };
        let mut call = call;
        call["toolCallId"] = json!("c");
        let mut view = ToolView::default();
        view.apply(ToolPatch::read(&call).expect("a patch"));
        own_tool(&view, &offered)
    }

    fn is_ours(call: Value) -> bool {
        recognized(call).as_deref() == Some("ring")
    }

    #[test]
    fn goose_has_the_name_in_meta() {
        let meta = json!({ "goose": { "toolCall": { "toolName": "innkeeper__ring", "extensionName": "innkeeper" } } });
        assert!(is_ours(
            json!({ "title": "innkeeper: ring", "rawInput": { "times": 2 }, "_meta": meta })
        ));
        assert!(is_ours(json!({ "title": "innkeeper: ring", "kind": "other" })));
    }

    #[test]
    fn claude_and_kimi_prefix_mcp() {
        assert!(is_ours(
            json!({ "title": "mcp__innkeeper__ring", "kind": "other", "rawInput": {} })
        ));
        let meta = json!({ "claudeCode": { "toolName": "mcp__innkeeper__ring" } });
        assert!(is_ours(
            json!({ "title": "Ring the bell", "kind": "execute", "_meta": meta })
        ));
    }

    #[test]
    fn codex_marks_mcp_calls() {
        let invocation = json!({ "server": "innkeeper", "tool": "ring", "arguments": {} });
        assert!(is_ours(
            json!({ "title": "mcp.innkeeper.ring", "kind": "execute", "rawInput": invocation,
                                "_meta": { "is_mcp_tool_call": true } })
        ));
        assert!(is_ours(json!({ "title": "Tool: innkeeper/ring" })));
    }

    #[test]
    fn gemini_names_the_server_behind_the_tool() {
        assert!(is_ours(
            json!({ "title": "ring (innkeeper MCP Server)", "kind": "other" })
        ));
    }

    #[test]
    fn opencode_and_copilot_join_with_one_character() {
        assert!(is_ours(
            json!({ "title": "innkeeper_ring", "kind": "other", "rawInput": { "times": 1 } })
        ));
        assert!(is_ours(json!({ "title": "innkeeper-ring" })));
    }

    #[test]
    fn a_call_that_only_looks_like_our_tool_is_not() {
        for kind in ["execute", "edit", "delete", "move", "read", "fetch"] {
            assert_eq!(
                recognized(json!({ "title": "mcp__innkeeper__ring", "kind": kind })),
                None,
                "{kind}"
            );
        }
        let command = json!({ "title": "mcp__innkeeper__ring", "rawInput": { "command": "rm -r /" } });
        assert_eq!(recognized(command), None);
        assert_eq!(recognized(json!({ "title": "run mcp__innkeeper__ring" })), None);
        assert_eq!(recognized(json!({ "title": "mcp__innkeeper__other" })), None);
        assert_eq!(recognized(json!({ "title": "mcp__elsewhere__ring" })), None);
    }
}

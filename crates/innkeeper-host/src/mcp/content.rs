//! What a tool gave back, within the bounds of a turn.

use serde_json::Value;

use super::{CallOutcome, McpTool, bounds};
use crate::agent::{ToolContent, ToolResult};

/// Most bytes that one call adds to its turn. A turn has room for many of them.
const MAX_BYTES: usize = 1 << 20;
/// Most pieces of content.
const MAX_PIECES: usize = 256;

/// The result as people and the model get it.
pub(super) fn result_of(tool: &McpTool, outcome: CallOutcome) -> ToolResult {
    let CallOutcome {
        is_error,
        content,
        structured,
    } = outcome;
    let shown = tool.shown_name();
    let content = bounded(content);
    let texts = content.iter().filter_map(|piece| match piece {
        ToolContent::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let error = is_error.then(|| match texts.collect::<Vec<_>>().join("\n") {
        words if words.is_empty() => format!("{shown} failed and did not say why"),
        words => bounds::message(words),
    });
    let structured = structured.filter(|object| Value::Object(object.clone()).to_string().len() <= MAX_BYTES);
    ToolResult {
        success: !is_error,
        summary: match is_error {
            false => format!("Called {shown} of {}", tool.server_name),
            true => format!("{shown} of {} failed", tool.server_name),
        },
        content,
        structured,
        error,
    }
}

fn bounded(content: Vec<ToolContent>) -> Vec<ToolContent> {
    let mut left = MAX_BYTES;
    let mut omitted = 0;
    let mut kept = Vec::new();
    for piece in content {
        let size = size_of(&piece);
        match piece {
            piece if size <= left && kept.len() < MAX_PIECES => {
                left -= size;
                kept.push(piece);
            }
            ToolContent::Text(mut text) if left > 0 && kept.len() < MAX_PIECES => {
                let total = text.len();
                text.truncate(text.floor_char_boundary(left));
                let missing = total - text.len();
                text.push_str(&format!("\n[{missing} more bytes were left out: ask for less]"));
                left = 0;
                kept.push(ToolContent::Text(text));
            }
            _ => omitted += 1,
        }
    }
    if omitted > 0 {
        let note = format!("[{omitted} more pieces of the result were left out: ask for less]");
        kept.push(ToolContent::Text(note));
    }
    kept
}

fn size_of(piece: &ToolContent) -> usize {
    match piece {
        ToolContent::Text(text) => text.len(),
        ToolContent::Embedded { data, .. } => data.len(),
        ToolContent::Resource { uri, .. } => uri.len(),
        ToolContent::FileEdit(_) | ToolContent::Terminal { .. } | ToolContent::Subagent { .. } => 1024,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool() -> McpTool {
        McpTool {
            tool: "read".to_owned(),
            server_name: "files".to_owned(),
            ..McpTool::default()
        }
    }

    #[test]
    fn mcp12_an_error_of_the_tool_is_told_in_its_words() {
        let outcome = CallOutcome {
            is_error: true,
            content: vec![ToolContent::Text("no such file".to_owned())],
            structured: None,
        };
        let result = result_of(&tool(), outcome);
        assert!(!result.success);
        assert_eq!(result.error.as_deref(), Some("no such file"));
        let silent = CallOutcome {
            is_error: true,
            ..CallOutcome::default()
        };
        let error = result_of(&tool(), silent).error.expect("an error");
        assert_eq!(error, "read failed and did not say why");
    }

    #[test]
    fn f17_what_is_too_long_is_cut_and_says_so() {
        let long = "ä".repeat(MAX_BYTES);
        let outcome = CallOutcome {
            content: vec![
                ToolContent::Text(long),
                ToolContent::Text("more".to_owned()),
                ToolContent::Embedded {
                    data: "AAAA".to_owned(),
                    content_type: "image/png".to_owned(),
                },
            ],
            ..CallOutcome::default()
        };
        let content = result_of(&tool(), outcome).content;
        let sizes: usize = content.iter().map(size_of).sum();
        assert!(sizes < MAX_BYTES + 1024);
        let ToolContent::Text(note) = content.last().expect("a note") else {
            panic!("not a text");
        };
        assert!(note.contains("2 more pieces"), "{note}");
    }
}

//! The result of a tool, within the limits of a turn. The rest is stored beside the session, where users can open it
//! (RES-03); the model reads the part that is shown.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;

use shortened::Shortened;

use super::{CallOutcome, McpTool, bounds};
use crate::agent::{ToolContent, ToolResult};
use crate::services::contents::SessionContents;

mod shortened;
#[cfg(test)]
mod tests;

/// The destination of a result.
pub(super) struct ResultTarget<'a> {
    /// Where what does not fit is kept.
    pub(super) contents: Option<&'a SessionContents>,
    /// The resources that the server lists, by its own URIs, with the host's names for them.
    pub(super) listed: HashMap<String, Listed>,
    /// Bytes of images and other binary content that the turn has already.
    pub(super) embedded: &'a AtomicUsize,
}

/// Something that a server lists, as this host serves it.
#[derive(Debug, Clone)]
pub(super) struct Listed {
    pub(super) uri: String,
    pub(super) content_type: Option<String>,
    pub(super) size: Option<u64>,
}

/// Returns the result as users and the model get it.
pub(super) async fn result_of(tool: &McpTool, outcome: CallOutcome, place: ResultTarget<'_>) -> ToolResult {
    let CallOutcome {
        is_error,
        mut content,
        structured,
        exact_structured,
    } = outcome;
    let shown = tool.shown_name();
    let mut shortened = Shortened::new(place);
    // Servers repeat a structured result as text. Where one does not, the digits that the object loses would be lost.
    let has_text = content.iter().any(|piece| matches!(piece, ToolContent::Text(_)));
    content.extend(exact_structured.filter(|_| !has_text).map(ToolContent::Text));
    for piece in content {
        shortened.add(piece).await;
    }
    let structured = shortened.structured(structured).await;
    let content = shortened.finish().await;
    let texts = content.iter().filter_map(|piece| match piece {
        ToolContent::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let error = is_error.then(|| match texts.collect::<Vec<_>>().join("\n") {
        words if words.is_empty() => format!("{shown} failed and did not say why"),
        words => bounds::message(words),
    });
    ToolResult {
        success: !is_error,
        summary: match is_error {
            false => format!("Called {shown} of {}", tool.server_name),
            true => format!("{shown} of {} failed", tool.server_name),
        },
        summary_markdown: None,
        content,
        structured,
        error,
    }
}

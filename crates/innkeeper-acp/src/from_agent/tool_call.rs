//! Tool calls: agents send them as a whole or in patches, and the patches add up to one view.

use innkeeper_host::agent::{FileChange, ToolContent, ToolKind, ToolResult};
use innkeeper_std::text::truncate_chars;
use serde_json::{Map, Value};

use super::{file_change, tool_content};

/// Longest name of a tool.
const MAX_NAME: usize = 100;
/// Longest title of a call.
const MAX_TITLE: usize = 400;
/// Characters of raw output that are shown as text.
const MAX_RAW: usize = 20_000;

/// The fields of a call that an update has.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolPatch {
    pub(crate) id: String,
    fields: Map<String, Value>,
}

/// The progress of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Status {
    #[default]
    Pending,
    Running,
    Completed,
    Failed,
}

/// A call as its patches add up.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ToolView {
    title: Option<String>,
    name: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) status: Status,
    content: Vec<Value>,
    locations: Option<Value>,
    input: Option<Value>,
    output: Option<Value>,
    /// Whether the agent marks it as a call of an MCP server's tool.
    is_mcp: bool,
}

impl ToolPatch {
    /// Reads the fields of a call; `None` without an id.
    pub(crate) fn read(call: &Value) -> Option<Self> {
        Some(Self {
            id: call["toolCallId"].as_str()?.to_owned(),
            fields: call.as_object()?.clone(),
        })
    }
}

impl ToolView {
    /// Applies a patch. A call never goes back: Kilo announces a call as pending after it was approved.
    pub(crate) fn apply(&mut self, patch: ToolPatch) {
        let mut fields = patch.fields;
        let mut take = |name: &str| fields.remove(name).filter(|value| !value.is_null());
        let text = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned));
        let title = text(take("title")).filter(|title| !title.trim().is_empty());
        self.title = title.or_else(|| self.title.take());
        self.kind = text(take("kind")).or_else(|| self.kind.take());
        let meta = take("_meta");
        self.is_mcp |= meta.as_ref().is_some_and(|meta| meta["is_mcp_tool_call"] == true);
        let name = text(take("name")).or_else(|| name_in(meta.as_ref()?));
        self.name = name.or_else(|| self.name.take());
        let status = match take("status").as_ref().and_then(Value::as_str) {
            Some("in_progress") => Status::Running,
            Some("completed") => Status::Completed,
            Some("failed") => Status::Failed,
            _ => Status::Pending,
        };
        if self.status < Status::Completed {
            self.status = self.status.max(status);
        }
        if let Some(Value::Array(content)) = take("content") {
            self.content = content;
        }
        self.locations = take("locations").or_else(|| self.locations.take());
        // An empty object says that the input is still being written.
        let input = take("rawInput").filter(|input| !input.as_object().is_some_and(Map::is_empty));
        self.input = input.or_else(|| self.input.take());
        self.output = take("rawOutput").or_else(|| self.output.take());
    }

    /// The tool's name for rules and hooks.
    pub(crate) fn name(&self) -> String {
        let name = self.name.as_deref().or(self.kind.as_deref()).unwrap_or("tool");
        truncate_chars(name, MAX_NAME).into_owned()
    }

    /// The name that the agent itself gives the tool.
    pub(crate) fn given_name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The title that the agent, or its model, gives the call.
    pub(crate) fn given_title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// The input as the agent reports it.
    pub(crate) fn raw_input(&self) -> Option<&Value> {
        self.input.as_ref()
    }

    /// Returns whether the agent marks the call as one of an MCP server's tool.
    pub(crate) fn is_mcp_call(&self) -> bool {
        self.is_mcp
    }

    /// The title for users.
    pub(crate) fn title(&self) -> String {
        match &self.title {
            Some(title) => truncate_chars(title.trim(), MAX_TITLE).into_owned(),
            None => self.name(),
        }
    }

    /// The presentation of the call.
    pub(crate) fn presentation(&self) -> Option<ToolKind> {
        match self.kind.as_deref()? {
            "read" => Some(ToolKind::Read),
            "search" => Some(ToolKind::Search),
            "execute" => Some(ToolKind::Terminal),
            _ => None,
        }
    }

    /// The fields that have no place in AHP.
    pub(crate) fn meta(&self) -> Map<String, Value> {
        let mut meta = Map::new();
        if let Some(kind) = &self.kind {
            meta.insert("kind".to_owned(), kind.as_str().into());
        }
        if let Some(locations) = &self.locations {
            meta.insert("locations".to_owned(), locations.clone());
        }
        super::named(meta)
    }

    /// The input as JSON text.
    pub(crate) fn input(&self) -> Option<String> {
        self.input.as_ref().map(|input| match input {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    }

    /// The ids of the terminals that the call shows.
    pub(crate) fn terminals(&self) -> impl Iterator<Item = &str> {
        let terminals = self.content.iter().filter(|entry| entry["type"] == "terminal");
        terminals.filter_map(|entry| entry["terminalId"].as_str())
    }

    /// The changes of files that the call shows.
    pub(crate) fn edits(&self) -> Vec<FileChange> {
        self.content.iter().filter_map(file_change).collect()
    }

    /// The content, without terminals.
    pub(crate) fn content(&self) -> Vec<ToolContent> {
        self.content.iter().filter_map(tool_content).collect()
    }

    /// The result of a call that has ended.
    pub(crate) fn result(&self, terminals: Vec<ToolContent>) -> ToolResult {
        let mut content = self.content();
        let raw = self.output.as_ref().and_then(shown);
        if let Some(raw) = raw.clone().filter(|_| content.is_empty() && terminals.is_empty()) {
            content.push(ToolContent::Text(raw));
        }
        content.extend(terminals);
        let success = self.status != Status::Failed;
        let said = content.iter().find_map(|content| match content {
            ToolContent::Text(text) => Some(text.clone()),
            _ => None,
        });
        ToolResult {
            success,
            summary: self.title(),
            error: (!success).then(|| said.or(raw).unwrap_or_else(|| "the tool failed".to_owned())),
            structured: self.output.as_ref().and_then(Value::as_object).cloned(),
            content,
            ..ToolResult::default()
        }
    }
}

/// Returns the raw output of a tool as text.
fn shown(output: &Value) -> Option<String> {
    let text = match output {
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let said = ["output", "stdout", "text", "error", "message"]
                .iter()
                .find_map(|name| fields.get(*name)?.as_str());
            said.map_or_else(
                || serde_json::to_string_pretty(output).unwrap_or_default(),
                str::to_owned,
            )
        }
        other => other.to_string(),
    };
    (!text.trim().is_empty()).then(|| truncate_chars(&text, MAX_RAW).into_owned())
}

/// Returns the tool's name in the fields of an agent's own, such as `_meta.claudeCode.toolName` and
/// `_meta.goose.toolCall.toolName`.
fn name_in(meta: &Value) -> Option<String> {
    let of_call = |fields: &Value| fields["toolName"].as_str().map(str::to_owned);
    let of_agent = |fields: &Value| of_call(fields).or_else(|| of_call(&fields["toolCall"]));
    of_agent(meta).or_else(|| meta.as_object()?.values().find_map(of_agent))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn view(patches: &[Value]) -> ToolView {
        let mut view = ToolView::default();
        for patch in patches {
            view.apply(ToolPatch::read(patch).expect("a patch"));
        }
        view
    }

    #[test]
    fn patches_add_up() {
        let view = view(&[
            json!({ "toolCallId": "c", "title": "Read", "kind": "read", "status": "pending", "rawInput": {} }),
            json!({ "toolCallId": "c", "status": "in_progress", "rawInput": { "path": "a" }, "locations": [{ "path": "/a" }],
                    "_meta": { "claudeCode": { "toolName": "Read" } } }),
            json!({ "toolCallId": "c", "status": "completed", "title": null,
                    "content": [{ "type": "content", "content": { "type": "text", "text": "hello" } }] }),
        ]);
        assert_eq!((view.name().as_str(), view.title().as_str()), ("Read", "Read"));
        assert_eq!(view.status, Status::Completed);
        assert_eq!(view.input().as_deref(), Some(r#"{"path":"a"}"#));
        assert_eq!(view.meta()["innkeeper.acp"]["locations"], json!([{ "path": "/a" }]));
        assert_eq!(view.result(Vec::new()).content, [ToolContent::Text("hello".to_owned())]);
    }

    #[test]
    fn kilo_a_call_that_runs_does_not_become_pending_again() {
        let view = view(&[
            json!({ "toolCallId": "c", "title": "bash", "status": "in_progress", "rawInput": { "command": "ls" } }),
            json!({ "toolCallId": "c", "title": "bash", "status": "pending", "rawInput": {} }),
        ]);
        assert_eq!(view.status, Status::Running);
        assert_eq!(view.input().as_deref(), Some(r#"{"command":"ls"}"#));
    }

    #[test]
    fn a_failed_call_says_why_even_in_its_raw_output() {
        let view = view(&[
            json!({ "toolCallId": "c", "title": "t", "status": "failed", "rawOutput": { "error": "no disk" } }),
        ]);
        let result = view.result(Vec::new());
        assert!(!result.success);
        assert_eq!(result.error.as_deref(), Some("no disk"));
    }
}

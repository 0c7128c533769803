//! The tools of a server.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::engine::config::Limits;
use crate::engine::error::Error;
use crate::engine::paging::{Pages, text};
use crate::engine::server::{AttemptFailure, Connection, Request};

/// A tool, as its server describes it. Everything in it is as trustworthy as the server.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// The name of the server for it. For models see [`crate::unique_names`].
    pub name: String,
    /// The title for users.
    pub title: Option<String>,
    /// The description for models.
    pub description: Option<String>,
    /// The input schema, always an object.
    pub input_schema: Value,
    /// The output schema, if it has one.
    pub output_schema: Option<Value>,
    /// The effects that the server claims. They are hints, and no reason to trust it.
    pub annotations: Annotations,
    /// `_meta`, as the server wrote it.
    pub meta: Option<Map<String, Value>>,
    /// `icons`, as the server wrote them.
    pub icons: Option<Value>,
    /// True if it can be called only as a task of MCP (`execution.taskSupport` is `required`). The host does not support tasks,
    /// so it cannot be called.
    pub needs_task: bool,
}

/// The effects of a tool, as its server claims. `None` is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    /// It changes nothing.
    pub read_only: Option<bool>,
    /// It may destroy something.
    pub destructive: Option<bool>,
    /// Calling it twice has the same effect as once.
    pub idempotent: Option<bool>,
    /// It interacts with the outside world.
    pub open_world: Option<bool>,
}

impl Tool {
    pub(crate) fn read(mut entry: Value) -> Option<Self> {
        let name = text(&entry, "name").filter(|name| !name.is_empty())?;
        let hints = entry.get("annotations").cloned().unwrap_or_default();
        let hint = |name: &str| hints.get(name).and_then(Value::as_bool);
        let mut take = |field: &str| entry.get_mut(field).map(Value::take).filter(|value| !value.is_null());
        let meta = match take("_meta") {
            Some(Value::Object(meta)) => Some(meta),
            _ => None,
        };
        let input_schema = take("inputSchema").filter(Value::is_object);
        let (output_schema, icons) = (take("outputSchema"), take("icons"));
        let execution = take("execution").unwrap_or_default();
        Some(Self {
            title: text(&entry, "title").or_else(|| text(&hints, "title")),
            description: text(&entry, "description"),
            // Model providers refuse a tool without one, and with it the whole request.
            input_schema: input_schema.unwrap_or_else(|| json!({ "type": "object" })),
            output_schema,
            annotations: Annotations {
                read_only: hint("readOnlyHint"),
                destructive: hint("destructiveHint"),
                idempotent: hint("idempotentHint"),
                open_world: hint("openWorldHint"),
            },
            meta,
            icons,
            needs_task: text(&execution, "taskSupport").as_deref() == Some("required"),
            name,
        })
    }

    /// Returns `_meta.ui` of an MCP App, as the server wrote it (MCP-20).
    pub fn ui(&self) -> Option<&Value> {
        self.meta.as_ref()?.get("ui")
    }

    /// Returns the `ui://` resource that shows its calls, also by its older name.
    pub fn ui_resource(&self) -> Option<&str> {
        let meta = self.meta.as_ref()?;
        let new = meta.get("ui").and_then(|ui| ui.get("resourceUri"));
        new.or_else(|| meta.get("ui/resourceUri"))?.as_str()
    }

    /// Returns true if models may call it. A tool that is only for its App is hidden from them.
    pub fn is_for_model(&self) -> bool {
        self.is_visible_to("model") && !self.needs_task
    }

    /// Returns true if the App of its server may call it.
    pub fn is_for_app(&self) -> bool {
        self.is_visible_to("app") && !self.needs_task
    }

    fn is_visible_to(&self, who: &str) -> bool {
        let visibility = self.ui().and_then(|ui| ui.get("visibility")).and_then(Value::as_array);
        visibility.is_none_or(|visibility| visibility.iter().any(|entry| entry.as_str() == Some(who)))
    }
}

/// Lists the tools of a server, however many pages they fill, within a time.
pub(crate) async fn list(
    connection: &Connection,
    limits: &Limits,
    time: Duration,
) -> Result<Vec<Tool>, AttemptFailure> {
    if !connection.info.can("tools") {
        return Ok(Vec::new());
    }
    let end = Instant::now() + time;
    let mut pages = Pages::new("tools", limits.list_entries, limits.list_bytes);
    let mut params = Some(Map::new());
    while let Some(page) = params {
        let request = Request {
            method: "tools/list".to_owned(),
            params: page,
            exact_arguments: None,
            time: end.saturating_duration_since(Instant::now()),
            time_max: time,
            cancel: CancellationToken::new(),
            call: None,
            is_of_app: false,
        };
        let text = connection.request(&request).await?;
        params = pages.take(&text).map_err(|error| Error::NotUnderstood {
            server: connection.server.clone(),
            why: error.to_string(),
        })?;
    }
    if pages.is_cut {
        tracing::warn!(server = %connection.server, "an MCP server has more tools than are taken; the rest is left out");
    }
    let tools = pages.into_entries().into_iter().filter_map(Tool::read);
    let mut tools: Vec<Tool> = tools.collect();
    // Of two tools with one name only the first can be called.
    let mut names = std::collections::HashSet::new();
    tools.retain(|tool| names.insert(tool.name.clone()));
    connection.peer.note_tools(&mut tools);
    Ok(tools)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mcp20_a_tool_with_an_app_is_read() {
        let tool = Tool::read(json!({
            "name": "show", "title": "Show",
            "inputSchema": { "type": "object", "properties": {} },
            "annotations": { "readOnlyHint": true, "title": "Old" },
            "_meta": { "ui": { "resourceUri": "ui://a/b", "visibility": ["app"] }, "other": 1 },
        }));
        let tool = tool.unwrap();
        assert_eq!(tool.ui_resource(), Some("ui://a/b"));
        assert!(!tool.is_for_model());
        assert!(tool.is_for_app());
        assert_eq!(tool.title.as_deref(), Some("Show"));
        assert_eq!(tool.annotations.read_only, Some(true));
        assert_eq!(tool.annotations.destructive, None);
        assert_eq!(tool.meta.unwrap()["other"], 1);
    }

    #[test]
    fn incomplete_tools_are_read() {
        assert!(Tool::read(json!({ "name": "" })).is_none());
        assert!(Tool::read(json!(7)).is_none());
        let tool = Tool::read(json!({ "name": "a", "inputSchema": "no", "_meta": 3, "annotations": [] })).unwrap();
        assert_eq!(tool.input_schema, json!({ "type": "object" }));
        assert!(tool.is_for_model() && tool.is_for_app());
        let old = Tool::read(json!({ "name": "a", "_meta": { "ui/resourceUri": "ui://x" } })).unwrap();
        assert_eq!(old.ui_resource(), Some("ui://x"));
    }

    #[test]
    fn a_tool_that_needs_a_task_cannot_be_called() {
        let read = |support: &str| {
            let execution = json!({ "taskSupport": support });
            Tool::read(json!({ "name": "a", "execution": execution })).unwrap()
        };
        let needs = read("required");
        assert!(needs.needs_task && !needs.is_for_model() && !needs.is_for_app());
        assert!(read("optional").is_for_model() && read("forbidden").is_for_app());
    }
}

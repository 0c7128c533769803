//! Tool calls: the fields that an editor shows, whatever state a call is in.

use ahp_types::common::{JsonObject, StringOrMarkdown};
use ahp_types::state::{
    FileEdit, FileEditCollection, ToolCallConfirmationState, ToolCallState, ToolInput, ToolResultContent,
};
use serde_json::{Map, Value, json};

use super::Sources;
use super::content::{call_content, diff, path_of, plain, text_content};

/// The key of ACP's own fields in `_meta` of calls that come from an ACP agent.
const ACP: &str = "innkeeper.acp";
/// The presentation of a call in `_meta`.
const TOOL_KIND: &str = "toolKind";
/// The kinds that ACP has.
const KINDS: [&str; 9] = [
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
];

/// The fields of a call that all its states have, or some.
pub(super) struct Call<'a> {
    pub(super) id: &'a str,
    pub(super) tool: &'a str,
    name: &'a str,
    meta: Option<&'a JsonObject>,
    message: Option<&'a StringOrMarkdown>,
    input: Option<&'a ToolInput>,
    edits: Option<&'a FileEditCollection>,
    pub(super) content: &'a [ToolResultContent],
    output: Option<&'a JsonObject>,
    /// The reason of a failure, or the request that the call waits for.
    remark: Option<String>,
    status: &'static str,
    pub(super) is_over: bool,
}

macro_rules! call {
    ($call:expr, $status:expr) => {
        Call {
            id: &$call.tool_call_id,
            tool: &$call.tool_name,
            name: &$call.display_name,
            meta: $call.meta.as_ref(),
            message: Some(&$call.invocation_message),
            input: $call.tool_input.as_ref(),
            edits: None,
            content: &[],
            output: None,
            remark: None,
            status: $status,
            is_over: false,
        }
    };
}

impl<'a> Call<'a> {
    /// Reads a call; `None` for a state of a later version.
    pub(super) fn read(state: &'a ToolCallState) -> Option<Self> {
        Some(match state {
            ToolCallState::Streaming(call) => Self {
                id: &call.tool_call_id,
                tool: &call.tool_name,
                name: &call.display_name,
                meta: call.meta.as_ref(),
                message: call.invocation_message.as_ref(),
                input: None,
                edits: None,
                content: &[],
                output: None,
                remark: None,
                status: "pending",
                is_over: false,
            },
            ToolCallState::PendingConfirmation(call) => Self {
                edits: call.edits.as_ref(),
                ..call!(call, "pending")
            },
            ToolCallState::Running(call) => Self {
                content: call.content.as_deref().unwrap_or_default(),
                ..call!(call, "in_progress")
            },
            ToolCallState::AuthRequired(call) => Self {
                content: call.content.as_deref().unwrap_or_default(),
                remark: Some("This call waits for a sign-in: run `innkeeper pending` to see it.".to_owned()),
                ..call!(call, "in_progress")
            },
            ToolCallState::PendingResultConfirmation(call) => Self {
                content: call.content.as_deref().unwrap_or_default(),
                output: call.structured_content.as_ref(),
                ..call!(call, "in_progress")
            },
            ToolCallState::Completed(call) => Self {
                content: call.content.as_deref().unwrap_or_default(),
                output: call.structured_content.as_ref(),
                remark: call.error.as_ref().and_then(error_text),
                is_over: true,
                ..call!(call, if call.success { "completed" } else { "failed" })
            },
            ToolCallState::Cancelled(call) => Self {
                remark: call.reason_message.as_ref().map(plain),
                is_over: true,
                ..call!(call, "failed")
            },
            ToolCallState::Unknown(_) => return None,
        })
    }

    /// Reads a call that waits for a decision.
    fn waiting(state: &'a ToolCallConfirmationState) -> Option<Self> {
        Some(match state {
            ToolCallConfirmationState::PendingConfirmation(call) => Self {
                edits: call.edits.as_ref(),
                ..call!(call, "pending")
            },
            ToolCallConfirmationState::PendingResultConfirmation(call) => Self {
                content: call.content.as_deref().unwrap_or_default(),
                output: call.structured_content.as_ref(),
                ..call!(call, "in_progress")
            },
            ToolCallConfirmationState::Unknown(_) => return None,
        })
    }

    /// Returns the input, as JSON if it is an object.
    pub(super) fn input(&self) -> Option<Value> {
        match self.input? {
            ToolInput::Inline(text) => {
                let object = serde_json::from_str::<Value>(text).ok().filter(Value::is_object);
                Some(object.unwrap_or_else(|| Value::String(text.clone())))
            }
            ToolInput::ContentRef(content) => Some(json!({ "uri": content.uri })),
        }
    }

    fn title(&self) -> String {
        let message = self.message.map(plain).filter(|message| !message.trim().is_empty());
        message.unwrap_or_else(|| self.name.to_owned())
    }

    fn has_edits(&self) -> bool {
        let in_content = self
            .content
            .iter()
            .any(|part| matches!(part, ToolResultContent::FileEdit(_)));
        in_content || self.edits.is_some_and(|edits| !edits.items.is_empty())
    }

    fn kind(&self) -> &str {
        let field = |fields: Option<&'a Value>| fields.and_then(Value::as_str);
        let acp = self.meta.and_then(|meta| field(meta.get(ACP)?.get("kind")));
        if let Some(kind) = acp.filter(|kind| KINDS.contains(kind)) {
            return kind;
        }
        match self.meta.and_then(|meta| field(meta.get(TOOL_KIND))) {
            Some("terminal") => "execute",
            Some("read") => "read",
            Some("search") => "search",
            Some("subagent") => "think",
            _ if self.has_edits() => "edit",
            _ => "other",
        }
    }

    fn locations(&self) -> Value {
        if let Some(locations) = self.meta.and_then(|meta| meta.get(ACP)?.get("locations")) {
            return locations.clone();
        }
        let preview = self.edits.into_iter().flat_map(|edits| &edits.items);
        let preview = preview.filter_map(|edit| edit.after.as_ref().or(edit.before.as_ref()));
        let made = self.content.iter().filter_map(|part| match part {
            ToolResultContent::FileEdit(edit) => edit.after.as_ref().or(edit.before.as_ref()),
            _ => None,
        });
        let location = |uri: &str| json!({ "path": path_of(uri) });
        preview.chain(made).map(|side| location(&side.uri)).collect()
    }

    /// Returns the fields of the call for the editor. The second value is false if contents of it are on their way.
    pub(super) fn fields(&self, sources: &mut Sources<'_>) -> (Map<String, Value>, bool) {
        let edits = self.edits.into_iter().flat_map(|edits| &edits.items);
        let preview = |FileEdit { before, after, .. }: &FileEdit, sources: &mut Sources<'_>| {
            diff(before.as_ref(), after.as_ref(), sources)
        };
        let mut content: Vec<Option<Value>> = edits.map(|edit| preview(edit, sources)).collect();
        content.extend(self.content.iter().map(|part| call_content(part, sources)));
        content.extend(self.remark.as_deref().map(|remark| Some(text_content(remark))));
        let is_whole = content.iter().all(Option::is_some);
        let content: Vec<Value> = content.into_iter().flatten().collect();
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        put("title", self.title().into());
        put("name", self.tool.into());
        put("kind", self.kind().into());
        put("status", self.status.into());
        put("content", content.into());
        put("locations", self.locations());
        if let Some(input) = self.input() {
            put("rawInput", input);
        }
        if let Some(output) = self.output {
            put("rawOutput", Value::Object(output.clone()));
        }
        (fields, is_whole)
    }
}

/// Returns a call that waits for a decision, with its id; `None` if contents of it are on their way.
pub(crate) fn pending_call(state: &ToolCallConfirmationState, sources: &mut Sources<'_>) -> Option<Value> {
    let call = Call::waiting(state)?;
    let (mut fields, is_whole) = call.fields(sources);
    fields.insert("toolCallId".to_owned(), call.id.into());
    is_whole.then_some(Value::Object(fields))
}

fn error_text(error: &Value) -> Option<String> {
    let message = error
        .as_str()
        .or_else(|| error.get("message").and_then(Value::as_str))?;
    (!message.is_empty()).then(|| message.to_owned())
}

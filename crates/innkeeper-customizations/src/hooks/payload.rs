//! The standard input of a hook: the event, in the format that the hook was written for.

use std::path::Path;

use innkeeper_host::customizations::{HookCall, HookEvent};
use innkeeper_plugins::{Hook, HookEvent as Spelt, HookOrigin};
use serde_json::{Map, Value, json};

use super::{Directories, tool_names};

/// Returns the input of a hook as one JSON object.
pub(super) fn payload(call: &HookCall, hook: &Hook, origin: HookOrigin, directories: Directories<'_>) -> Value {
    let mut payload = call.input.clone();
    let name = match origin {
        // These formats have several names for an event, and a hook expects the one that it is declared under.
        HookOrigin::Cursor | HookOrigin::Copilot => &hook.spelling,
        HookOrigin::OpenPlugin | HookOrigin::Claude | HookOrigin::Codex => hook.event.as_str(),
    };
    put(&mut payload, "session_id", json!(*call.session));
    put(&mut payload, "hook_event_name", json!(name));
    put(&mut payload, "cwd", json!(directories.at.to_string_lossy()));
    put(&mut payload, "permission_mode", json!("default"));
    if matches!(
        call.event,
        HookEvent::PreToolUse | HookEvent::PostToolUse | HookEvent::PostToolUseFailure
    ) {
        about_tool(&mut payload, call, hook, origin, directories.chat);
    }
    match origin {
        HookOrigin::OpenPlugin | HookOrigin::Claude | HookOrigin::Codex => {}
        HookOrigin::Cursor => {
            put(&mut payload, "conversation_id", json!(*call.session));
            put(&mut payload, "generation_id", json!(*call.turn));
            let roots = call.working_directories.iter().filter_map(|uri| super::path(uri));
            let roots: Vec<String> = roots.map(|path| path.to_string_lossy().into_owned()).collect();
            put(&mut payload, "workspace_roots", json!(roots));
        }
        HookOrigin::Copilot => in_camel_case(&mut payload),
    }
    Value::Object(payload)
}

/// The command of a call that runs one.
pub(super) fn command(call: &HookCall) -> Option<&str> {
    call.input.get("tool_input")?.get("command")?.as_str()
}

fn about_tool(payload: &mut Map<String, Value>, call: &HookCall, hook: &Hook, origin: HookOrigin, chat: &Path) {
    let input = call.input.get("tool_input").cloned().unwrap_or_default();
    let mut input = tool_names::hook_input(&call.subject, &input, chat);
    let names = tool_names::names(origin, call);
    let name = names.first().map_or(call.subject.as_str(), |name| name);
    payload.insert("tool_name".to_owned(), json!(name));
    // Events of Cursor for one tool have its input at the top level.
    match hook.event {
        Spelt::BeforeShellExecution | Spelt::AfterShellExecution => {
            put(payload, "command", input.get("command").cloned().unwrap_or_default());
            let output = call
                .input
                .get("tool_response")
                .and_then(|response| response.get("text"));
            if let Some(output) = output {
                put(payload, "output", output.clone());
            }
        }
        Spelt::BeforeReadFile | Spelt::AfterFileEdit => {
            put(
                payload,
                "file_path",
                input.get("file_path").cloned().unwrap_or_default(),
            );
            if let (Some(old), Some(new)) = (input.get("old_string"), input.get("new_string")) {
                put(payload, "edits", json!([{ "old_string": old, "new_string": new }]));
            }
        }
        // There it has the server's own tool name, and JSON in strings.
        Spelt::BeforeMcpExecution | Spelt::AfterMcpExecution => {
            if let Some(of_server) = &call.mcp {
                put(payload, "tool_name", json!(of_server.tool));
            }
            if let Some(response) = payload.get("tool_response").map(Value::to_string) {
                put(payload, "result_json", Value::String(response));
            }
            input = Value::String(input.to_string());
        }
        _ => {}
    }
    payload.insert("tool_input".to_owned(), input);
}

/// Copilot's command line and editor spell names differently: hooks get both.
fn in_camel_case(payload: &mut Map<String, Value>) {
    let both = [
        ("session_id", "sessionId"),
        ("hook_event_name", "hookEventName"),
        ("tool_name", "toolName"),
        ("tool_use_id", "toolUseId"),
        ("tool_response", "toolResult"),
        ("stop_hook_active", "stopHookActive"),
    ];
    for (snake, camel) in both {
        if let Some(value) = payload.get(snake).cloned() {
            payload.insert(camel.to_owned(), value);
        }
    }
    // A string, as documented.
    if let Some(input) = payload.get("tool_input") {
        let text = Value::String(input.to_string());
        payload.insert("toolArgs".to_owned(), text);
    }
}

fn put(payload: &mut Map<String, Value>, name: &str, value: Value) {
    payload.insert(name.to_owned(), value);
}

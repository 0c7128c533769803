//! The names and inputs of tools in the formats of other agents.
//!
//! A hook was written for the agent of its format: it matches `Bash` and reads `tool_input.file_path`. So a hook gets
//! the tool name of its format and the input that it expects, besides our own.

use std::borrow::Cow;
use std::path::Path;

use innkeeper_host::customizations::HookCall;
use innkeeper_plugins::HookOrigin;
use serde_json::{Map, Value};

/// Our name; that of Claude, which Open Plugins and Codex follow; of Cursor; of Copilot.
type Row = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static str],
);

const TOOLS: &[Row] = &[
    ("run_command", &["Bash"], &["Shell"], &["bash", "runInTerminal"]),
    ("read_file", &["Read"], &["Read"], &["view", "readFile"]),
    ("write_file", &["Write"], &["Write"], &["create", "createFile"]),
    ("edit_file", &["Edit"], &["Write"], &["edit", "editFiles"]),
    ("list_directory", &["LS"], &["LS"], &["view", "listDirectory"]),
    ("glob", &["Glob"], &["Glob"], &["glob", "fileSearch"]),
    ("search", &["Grep"], &["Grep"], &["grep", "textSearch"]),
    ("fetch_url", &["WebFetch"], &["WebFetch"], &["web_fetch", "fetch"]),
    ("delegate", &["Task", "Agent"], &["Task"], &["task", "runSubagent"]),
    ("update_plan", &["TodoWrite"], &["TodoWrite"], &["update_todo", "todos"]),
    ("ask_user", &["AskUserQuestion"], &[], &["ask_user"]),
];

/// The names of a tool in a format, the usual one first.
pub(super) fn names(origin: HookOrigin, call: &HookCall) -> Vec<Cow<'static, str>> {
    if let Some(of_server) = &call.mcp {
        let names = match origin {
            HookOrigin::Claude | HookOrigin::OpenPlugin | HookOrigin::Codex => of_server.for_claude(),
            HookOrigin::Cursor => of_server.for_cursor(),
            HookOrigin::Copilot => of_server.for_copilot(),
        };
        return names.into_iter().map(Cow::Owned).collect();
    }
    let row = TOOLS.iter().find(|(ours, ..)| *ours == call.subject);
    let names: &[&str] = match (row, origin) {
        (None, _) => &[],
        (Some((_, claude, _, _)), HookOrigin::Claude | HookOrigin::OpenPlugin | HookOrigin::Codex) => claude,
        (Some((_, _, cursor, _)), HookOrigin::Cursor) => cursor,
        (Some((_, _, _, copilot)), HookOrigin::Copilot) => copilot,
    };
    names.iter().copied().map(Cow::Borrowed).collect()
}

/// Whether the input of a tool names a file.
fn is_about_a_file(tool: &str) -> bool {
    matches!(tool, "read_file" | "write_file" | "edit_file")
}

/// The input of a tool as hooks expect it: complete, and a file also as `file_path`.
pub(super) fn hook_input(tool: &str, input: &Value, cwd: &Path) -> Value {
    let Value::Object(input) = input else {
        return input.clone();
    };
    let mut complete = input.clone();
    if let (true, Some(Value::String(path))) = (is_about_a_file(tool), input.get("path")) {
        let path = cwd.join(path).to_string_lossy().into_owned();
        complete.entry("file_path").or_insert(Value::String(path));
    }
    Value::Object(complete)
}

/// The changed input of a hook, as the tool expects it. Fields that the hook left out keep their values: some hooks
/// return only the changed fields.
pub(super) fn tool_input(tool: &str, before: &Value, cwd: &Path, wanted: Map<String, Value>) -> Value {
    let mut input = before.as_object().cloned().unwrap_or_default();
    let sent = hook_input(tool, before, cwd);
    for (name, value) in wanted {
        if name == "file_path" && is_about_a_file(tool) {
            // An unchanged path stays as it was, which may be relative.
            if sent.get("file_path") != Some(&value) {
                input.insert("path".to_owned(), value);
            }
        } else {
            input.insert(name, value);
        }
    }
    Value::Object(input)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hooks_get_whole_paths_and_tools_get_theirs_back() {
        let cwd = Path::new("/project");
        let input = json!({ "path": "a.txt", "content": "x" });
        let sent = hook_input("write_file", &input, cwd);
        assert_eq!(
            sent,
            json!({ "path": "a.txt", "content": "x", "file_path": "/project/a.txt" })
        );
        let Value::Object(mut wanted) = sent else { panic!() };
        wanted.insert("content".to_owned(), json!("y"));
        let back = tool_input("write_file", &input, cwd, wanted);
        assert_eq!(back, json!({ "path": "a.txt", "content": "y" }));
        let wanted = json!({ "file_path": "/project/b.txt" });
        let back = tool_input("write_file", &input, cwd, wanted.as_object().unwrap().clone());
        assert_eq!(back, json!({ "path": "/project/b.txt", "content": "x" }));
    }
}

//! Maps the tool lists of custom agents and prompts to our tools (CUS-25).
//!
//! Files are written for several products with different tool names. Unknown names are ignored and reported. A list
//! of unknown names only leaves no tools that act.

use std::collections::HashSet;

use innkeeper_host::mcp::ServerTool;

/// Tools without side effects, which no list removes.
const ALWAYS: &[&str] = &["ask_user", "update_plan", "use_skill"];

/// The tools that a list selects.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::model) struct ToolSelection {
    /// Names of the selected tools.
    pub(in crate::model) names: HashSet<String>,
    /// Entries that match no tool.
    pub(in crate::model) unknown: Vec<String>,
    /// Entries that restrict a tool to some inputs. The restriction is not supported, so the whole tool is selected.
    pub(in crate::model) narrowed: Vec<String>,
}

/// A tool's name for the model, and the MCP tool it stands for, if any.
pub(in crate::model) type OfferedName = (String, Option<ServerTool>);

impl ToolSelection {
    /// Applies a list.
    pub(in crate::model) fn select(offered: &[OfferedName], wanted: &[String]) -> Self {
        let mut selection = Self::default();
        selection.names.extend(ALWAYS.iter().map(|name| (*name).to_owned()));
        for name in wanted {
            // `Bash(git:*)` restricts a tool. Here the approval decides about inputs, and the user is told that the
            // list does not.
            let bare = name.split('(').next().unwrap_or_default().trim();
            let found = offered.iter().filter(|(tool, of_server)| {
                names_tool(bare, tool) || of_server.as_ref().is_some_and(|tool| names_server_tool(bare, tool))
            });
            let found: Vec<String> = found.map(|(tool, _)| tool.clone()).collect();
            let is_known = !found.is_empty() || ALWAYS.iter().any(|tool| names_tool(bare, tool));
            let is_narrowed = name.trim() != bare && !found.is_empty();
            selection.names.extend(found);
            if is_narrowed {
                selection.narrowed.push(name.trim().to_owned());
            }
            if !is_known && !bare.is_empty() {
                selection.unknown.push(bare.to_owned());
            }
        }
        selection
    }
}

/// Returns true if a name in a list means this tool.
fn names_tool(name: &str, tool: &str) -> bool {
    if name == "*" || name == tool {
        return true;
    }
    // `server/tool` and `server/*`: client tools have the server's name as a prefix.
    if let Some((server, one)) = name.split_once('/') {
        let rest = [format!("mcp__{server}__"), format!("{server}__"), format!("{server}_")];
        let rest = rest.iter().find_map(|prefix| tool.strip_prefix(prefix.as_str()));
        if rest.is_some_and(|rest| one == "*" || one == rest) {
            return true;
        }
    }
    let lower = name.to_lowercase();
    // `search/codebase` and `codebase` are the same.
    let last = lower.rsplit('/').next().unwrap_or_default();
    tools_for_alias(&lower)
        .or_else(|| tools_for_alias(last))
        .is_some_and(|tools_for_alias| tools_for_alias.contains(&tool))
}

/// Returns true if a name means an MCP tool or its whole server: `mcp__server__tool` and `mcp__server` in Claude's
/// files, `server/tool` and `server/*` in Copilot's.
fn names_server_tool(name: &str, tool: &ServerTool) -> bool {
    let is_named = tool
        .for_claude()
        .iter()
        .chain(&tool.for_copilot())
        .any(|known| known == name);
    let whole = name.strip_suffix("__*").unwrap_or(name);
    let is_whole = tool.servers_for_claude().iter().any(|server| server == whole);
    let in_copilots_words = name
        .strip_prefix(&tool.server)
        .and_then(|rest| rest.strip_prefix('/'))
        .is_some_and(|one| one == "*" || one == tool.tool);
    is_named || is_whole || in_copilots_words
}

/// Our tools that correspond to a tool of another product.
fn tools_for_alias(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "read" => &["read_file", "list_directory"],
        "readfile" | "view" | "notebookread" | "read_many_files" | "cat" => &["read_file"],
        "ls" | "list" | "list_dir" | "listdir" | "listdirectory" => &["list_directory"],
        "glob" | "file_search" | "filesearch" | "find" => &["glob"],
        "grep" | "grep_search" | "textsearch" | "rg" => &["search"],
        "search" | "codebase" | "codebase_search" | "semantic_search" | "usages" => {
            &["search", "glob", "list_directory"]
        }
        "write" | "create" | "createfile" | "create_file" | "new" => &["write_file"],
        "edit"
        | "multiedit"
        | "editfiles"
        | "edit_files"
        | "str_replace"
        | "replace_string_in_file"
        | "insert_edit_into_file"
        | "apply_patch"
        | "search_replace"
        | "notebookedit" => &["edit_file", "write_file"],
        "bash" | "shell" | "execute" | "terminal" | "runcommands" | "runcommand" | "run_in_terminal"
        | "runinterminal" | "run_terminal_cmd" | "runtasks" | "runtests" | "powershell" => {
            &["run_command", "check_command"]
        }
        "bashoutput" | "killshell" | "getterminaloutput" | "get_terminal_output" => &["check_command"],
        "webfetch" | "fetch" | "web" | "fetch_webpage" | "web_fetch" => &["fetch_url"],
        "task" | "agent" | "runsubagent" | "subagent" | "custom-agent" => &["delegate"],
        "todowrite" | "todoread" | "todo" | "todos" | "manage_todo_list" => &["update_plan"],
        "askuserquestion" | "askquestions" | "ask_questions" => &["ask_user"],
        "skill" => &["use_skill"],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    fn plain(list: &[&str]) -> Vec<OfferedName> {
        list.iter().map(|name| ((*name).to_owned(), None)).collect()
    }

    #[test]
    fn cus25_mcp_tools_are_selected_by_names_of_other_products() {
        let of = |plugin: Option<&str>, server: &str, tool: &str| {
            let of_server = ServerTool {
                server: server.to_owned(),
                plugin: plugin.map(str::to_owned),
                tool: tool.to_owned(),
            };
            (format!("{server}__{tool}"), Some(of_server))
        };
        let mut offered = plain(&["read_file"]);
        offered.extend([
            of(None, "srv", "ping"),
            of(None, "srv", "pong"),
            of(Some("desk"), "a/files", "list"),
        ]);
        for (wanted, expected) in [
            ("mcp__srv__ping", &["srv__ping"][..]),
            ("mcp__srv", &["srv__ping", "srv__pong"]),
            ("mcp__srv__*", &["srv__ping", "srv__pong"]),
            ("srv/ping", &["srv__ping"]),
            ("srv/*", &["srv__ping", "srv__pong"]),
            ("srv-pong", &["srv__pong"]),
            ("srv__ping", &["srv__ping"]),
            ("mcp__plugin_desk_a_files__list", &["a/files__list"]),
            ("mcp__a_files", &["a/files__list"]),
            ("a/files/*", &["a/files__list"]),
            ("mcp__other__ping", &[]),
            ("mcp__sr", &[]),
        ] {
            let selection = ToolSelection::select(&offered, &names(&[wanted]));
            let mut all: HashSet<String> = names(ALWAYS).into_iter().collect();
            all.extend(names(expected));
            assert_eq!(selection.names, all, "{wanted}");
            assert_eq!(selection.unknown.is_empty(), !expected.is_empty(), "{wanted}");
        }
    }

    #[test]
    fn cus25_foreign_tool_names_are_mapped_and_unknown_ones_reported() {
        let offered = plain(&[
            "read_file",
            "list_directory",
            "glob",
            "search",
            "write_file",
            "edit_file",
            "run_command",
            "delegate",
            "ask_user",
            "github_list_issues",
        ]);
        for (wanted, expected, unknown) in [
            (
                &["Read", "Grep"][..],
                &["read_file", "list_directory", "search"][..],
                &[][..],
            ),
            (&["Bash(git:*)"], &["run_command"], &[]),
            (&["search/codebase"], &["search", "glob", "list_directory"], &[]),
            (&["edit/editFiles"], &["edit_file", "write_file"], &[]),
            (&["github/*"], &["github_list_issues"], &[]),
            (&["github/list_issues"], &["github_list_issues"], &[]),
            (&["WebFetch", "glob"], &["glob"], &["WebFetch"]),
            (&["Teleport"], &[], &["Teleport"]),
            (&["Task", "TodoWrite"], &["delegate"], &[]),
        ] {
            let selection = ToolSelection::select(&offered, &names(wanted));
            let mut all: HashSet<String> = names(ALWAYS).into_iter().collect();
            all.extend(names(expected));
            assert_eq!(selection.names, all, "{wanted:?}");
            assert_eq!(selection.unknown, names(unknown), "{wanted:?}");
            let has_brackets = wanted.iter().any(|name| name.contains('('));
            assert_eq!(selection.narrowed.is_empty(), !has_brackets, "{wanted:?}");
        }
        // An unknown tool is not reported as restricted.
        assert!(
            ToolSelection::select(&offered, &names(&["Teleport(home)"]))
                .narrowed
                .is_empty()
        );
        assert!(
            ToolSelection::select(&offered, &names(&["*"]))
                .names
                .is_superset(&offered.iter().map(|(name, _)| name.clone()).collect())
        );
    }
}

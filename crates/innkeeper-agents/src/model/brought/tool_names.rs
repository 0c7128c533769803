//! The tools that a custom agent or a prompt keeps to, in the words of whoever wrote it (CUS-25).
//!
//! Files are written for several products, each of which calls its tools otherwise. What nobody
//! here knows is left out and said; a list of nothing but unknown tools leaves none that act.

use std::collections::HashSet;

/// Tools that act on nothing, and that no list takes away.
const ALWAYS: &[&str] = &["ask_user", "update_plan", "use_skill"];

/// What is left of the tools of a turn.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::model) struct Kept {
    /// The names of the tools that stay.
    pub(in crate::model) names: HashSet<String>,
    /// What the list names and there is not.
    pub(in crate::model) unknown: Vec<String>,
    /// What the list narrows down to some inputs, which is not done here: the whole tool stays.
    pub(in crate::model) narrowed: Vec<String>,
}

impl Kept {
    /// Keeps to a list.
    pub(in crate::model) fn of(offered: &[String], wanted: &[String]) -> Self {
        let mut kept = Self::default();
        kept.names.extend(ALWAYS.iter().map(|name| (*name).to_owned()));
        for name in wanted {
            // `Bash(git:*)` narrows a tool down, which people do here when they are asked. They have
            // to know that the list does not.
            let bare = name.split('(').next().unwrap_or_default().trim();
            let found: Vec<String> = offered.iter().filter(|tool| means(bare, tool)).cloned().collect();
            let is_known = !found.is_empty() || ALWAYS.iter().any(|tool| means(bare, tool));
            let is_narrowed = name.trim() != bare && !found.is_empty();
            kept.names.extend(found);
            if is_narrowed {
                kept.narrowed.push(name.trim().to_owned());
            }
            if !is_known && !bare.is_empty() {
                kept.unknown.push(bare.to_owned());
            }
        }
        kept
    }
}

/// Whether a name in a file means one of the tools here.
fn means(name: &str, tool: &str) -> bool {
    if name == "*" || name == tool {
        return true;
    }
    // All tools of a server, or one of them: a client's tools carry its name in front.
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
    ours(&lower)
        .or_else(|| ours(last))
        .is_some_and(|ours| ours.contains(&tool))
}

/// The tools here that do what a name of another product stands for.
fn ours(name: &str) -> Option<&'static [&'static str]> {
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
        | "runinterminal" | "run_terminal_cmd" | "runtasks" | "runtests" | "powershell" | "bashoutput"
        | "killshell" => &["run_command"],
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

    #[test]
    fn cus25_the_names_of_other_products_mean_our_tools_and_unknown_ones_are_said() {
        let offered = names(&[
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
            let kept = Kept::of(&offered, &names(wanted));
            let mut all: HashSet<String> = names(ALWAYS).into_iter().collect();
            all.extend(names(expected));
            assert_eq!(kept.names, all, "{wanted:?}");
            assert_eq!(kept.unknown, names(unknown), "{wanted:?}");
            let has_brackets = wanted.iter().any(|name| name.contains('('));
            assert_eq!(kept.narrowed.is_empty(), !has_brackets, "{wanted:?}");
        }
        // What there is not cannot be narrowed down.
        assert!(Kept::of(&offered, &names(&["Teleport(home)"])).narrowed.is_empty());
        assert!(
            Kept::of(&offered, &names(&["*"]))
                .names
                .is_superset(&offered.iter().cloned().collect())
        );
    }
}

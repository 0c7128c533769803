//! Titles of commits that are not pushed yet: one change each, in a line that every tool shows whole.
//!
//! Commits of the upstream branch cannot be changed any more, so they are not judged. Without an upstream branch the last
//! commit is.

use super::Finding;
use crate::workspace::Workspace;

const RULE: &str = "commit-title";

/// The most characters of a title.
const MAX_TITLE: usize = 72;

/// Checks the titles of the commits that this branch adds.
pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let log = |range: &[&str]| {
        let mut git = workspace.command("git");
        git.args(["log", "--no-merges", "--format=%h %s"]).args(range);
        let output = git.output().ok().filter(|output| output.status.success());
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    // An archive without history has no titles.
    let titles = log(&["@{upstream}..HEAD"]).or_else(|| log(&["-1"])).unwrap_or_default();
    titles.lines().filter_map(check_title).collect()
}

/// Checks one line of the log: the commit's id and its title.
fn check_title(line: &str) -> Option<Finding> {
    let (id, title) = line.split_once(' ').unwrap_or((line, ""));
    let length = title.chars().count();
    let fault = if length > MAX_TITLE {
        format!("has {length} characters; {MAX_TITLE} are the most")
    } else if title.contains(';') {
        "names several changes".to_owned()
    } else if !title.contains(' ') {
        "names no change".to_owned()
    } else if title.ends_with('.') || title.starts_with(char::is_lowercase) {
        "is no title: it begins with a capital letter and ends without a period".to_owned()
    } else {
        return None;
    };
    Some(Finding {
        path: format!("commit {id}"),
        line: 1,
        rule: RULE,
        what: format!("the title \"{title}\" {fault}"),
        remedy: "reword it (`git commit --amend`, or `git rebase` for an earlier one): imperative, one change"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_name_one_change_in_a_line() {
        let fits = |title: &str| check_title(&format!("0123abc {title}")).is_none();
        assert!(fits("Replay after a restart instead of starting over"));
        assert!(fits(&format!("Add {}", "ü".repeat(MAX_TITLE - 4))));
        assert!(!fits(&format!("Add {}", "ü".repeat(MAX_TITLE - 3))));
        for title in [
            "Fix the replay; add a test",
            "Format",
            "fix the replay",
            "Fix the replay.",
            "",
        ] {
            assert!(!fits(title), "{title}");
        }
    }
}

//! Work trees for sessions that are isolated from others. A file in Git's directory for the work tree says that the host
//! made it.

use std::path::Path;

use super::root::Root;
use crate::git::{Git, GitCall};
use crate::uri;

/// The file that marks a work tree, with the URI of the session that it was made for.
const MARK: &str = "innkeeper-session";
/// Longest name of a branch that is made of a title.
const MAX_NAME: usize = 48;

/// Adds a work tree for a session to the repository around a directory, and returns the directory in it that
/// corresponds to that directory.
pub(crate) async fn isolate(git: &Git, session: &str, directory: &str) -> Result<String, String> {
    let path = uri::to_path(directory).ok_or("the directory is not one of this host")?;
    let path = std::fs::canonicalize(&path).map_err(|error| format!("{} cannot be read ({error})", path.display()))?;
    let Some(root) = Root::find(git, &path).await? else {
        return Err(format!(
            "{} is in no Git repository, so the session cannot have a work tree of its own; choose isolation folder",
            path.display()
        ));
    };
    if root
        .ask(git, &["rev-parse", "--verify", "--quiet", "HEAD"])
        .await
        .is_err()
    {
        return Err("the repository has no commit yet, so there is nothing to make a work tree of".to_owned());
    }
    let project = match root.common.file_name().is_some_and(|name| name == ".git") {
        true => root.common.parent().unwrap_or(&root.path).to_owned(),
        false => root.path.clone(),
    };
    let inside = path
        .strip_prefix(&root.path)
        .unwrap_or_else(|_| Path::new(""))
        .to_owned();
    let id: String = session.chars().rev().take_while(|c| *c != '/' && *c != ':').collect();
    let id: String = id.chars().rev().collect();
    let slug = slug(&id);
    let mut name = project.file_name().unwrap_or_default().to_owned();
    name.push(".worktrees");
    let parent = project.with_file_name(name);
    for number in 1..100 {
        let suffix = if number == 1 {
            String::new()
        } else {
            format!("-{number}")
        };
        let branch = format!("innkeeper/{slug}{suffix}");
        let target = parent.join(format!("{slug}{suffix}"));
        let reference = format!("refs/heads/{branch}");
        if target.exists()
            || root
                .ask(git, &["rev-parse", "--verify", "--quiet", &reference])
                .await
                .is_ok()
        {
            continue;
        }
        add(git, &root, &branch, &target).await?;
        mark(git, &target, session).await;
        let directory = uri::from_path(&target.join(inside)).ok_or("the path of the work tree cannot be a URI")?;
        return Ok(directory);
    }
    Err(format!(
        "there are too many work trees called {slug}; remove some with git worktree remove"
    ))
}

async fn add(git: &Git, root: &Root, branch: &str, target: &Path) -> Result<(), String> {
    let target = target.as_os_str();
    let arguments = ["worktree", "add", "--quiet", "-b", branch].map(std::ffi::OsStr::new);
    let arguments: Vec<&std::ffi::OsStr> = arguments
        .into_iter()
        .chain([target, std::ffi::OsStr::new("HEAD")])
        .collect();
    let call = GitCall::new(&root.path, &root.settings);
    let added = git.run(call, &arguments).await;
    added.map_err(|error| format!("git cannot make a work tree: {error}"))?;
    Ok(())
}

/// Notes that the host made a work tree. Without the note, the host does not offer to remove it.
async fn mark(git: &Git, target: &Path, session: &str) {
    let marked = match Root::find(git, target).await {
        Ok(Some(root)) => std::fs::write(root.git_directory.join(MARK), session).map_err(|error| error.to_string()),
        Ok(None) => Err("it is no work tree".to_owned()),
        Err(problem) => Err(problem),
    };
    if let Err(problem) = marked {
        tracing::warn!(problem, "a new work tree could not be marked as one of the host");
    }
}

/// Whether the host made a work tree.
pub(crate) fn is_own(root: &Root) -> bool {
    root.is_linked() && root.git_directory.join(MARK).is_file()
}

/// The name of a branch for a session: its title, or the end of its URI.
pub(crate) fn branch_name(title: &str, session: &str) -> String {
    let end = session.rsplit(['/', ':']).next().unwrap_or_default();
    let name = match slug(title) {
        name if name == "session" => slug(end),
        name => name,
    };
    format!("innkeeper/{name}")
}

/// A text as part of the name of a branch and a directory.
fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in text.chars() {
        match c.is_ascii_alphanumeric() {
            true => slug.push(c.to_ascii_lowercase()),
            false if !slug.ends_with('-') && !slug.is_empty() => slug.push('-'),
            false => {}
        }
        if slug.len() >= MAX_NAME {
            break;
        }
    }
    match slug.trim_matches('-') {
        "" => "session".to_owned(),
        slug => slug.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_is_named_after_its_session() {
        assert_eq!(
            branch_name("Fix the login: it's slow!", "ahp-session:/x"),
            "innkeeper/fix-the-login-it-s-slow"
        );
        assert_eq!(branch_name("", "ahp-session:/4f-A1"), "innkeeper/4f-a1");
        assert_eq!(branch_name("日本", "tour:/日本"), "innkeeper/session");
        assert!(branch_name(&"long ".repeat(50), "x").len() < 64);
    }
}

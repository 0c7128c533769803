//! Scans a repository.

use std::io;
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use innkeeper_host::repositories::{RepositoryChanges, RepositoryState};
use innkeeper_std::{Opened, open_regular, read_whole};

use super::parsed::{Config, Status, count_lines, numstat};
use crate::git::{Git, GitFailure, GitOutput};
use crate::uri;

/// Maximum new files whose lines are counted.
const MAX_NEW_FILES: usize = 256;
/// Largest new file whose lines are counted.
const MAX_NEW_BYTES: u64 = 1 << 20;
/// Where the default branch of the main remote is named.
const REMOTE_HEAD: &str = "refs/remotes/origin/HEAD";
/// The prefix of the names of its branches.
const REMOTE_BRANCHES: &str = "refs/remotes/origin/";

/// The result of one scan of a repository.
#[derive(Debug)]
pub(super) struct RepositoryScan {
    pub(super) state: RepositoryState,
    /// Where Git keeps what tells of changes.
    pub(super) git_directory: PathBuf,
}

/// Scans the repository around a directory. `None` without a repository, without Git, or if Git refuses to read it,
/// as in a directory of another user.
pub(super) async fn scan(git: &Git, directory: &Path) -> Option<RepositoryScan> {
    let paths = RepositoryPaths::find(git, directory).await?;
    let config = git
        .ask(&paths.root, &[], &["config", "--null", "--show-scope", "--list"])
        .await;
    let config = Config::parse(&whole(config)?);
    let mut state = RepositoryState {
        project_uri: uri::from_path(&paths.project)?,
        project_name: name_of(&paths.project),
        has_github_remote: config.has_github_remote(),
        github: config.github(),
        ..RepositoryState::default()
    };
    state.base_branch = base_branch(git, &paths.root).await;
    // Without settings that make them harmless, the filters of the repository would run.
    if let Some(harmless) = config.without_own_filters() {
        work_tree(git, &paths, &harmless, &mut state).await;
    }
    let upstream_remote = state
        .upstream
        .as_deref()
        .and_then(|upstream| upstream.split('/').next());
    let head = upstream_remote.and_then(|remote| config.github_of(remote));
    state.github_head_owner = head.map(|head| head.owner);
    if state.outgoing.is_none() {
        state.outgoing = ahead_of_base(git, &paths.root, &state).await;
    }
    Some(RepositoryScan {
        state,
        git_directory: paths.git_directory,
    })
}

/// Where a repository is.
struct RepositoryPaths {
    root: PathBuf,
    git_directory: PathBuf,
    /// The main work tree: one project has all the work trees that were added to it.
    project: PathBuf,
}

impl RepositoryPaths {
    async fn find(git: &Git, directory: &Path) -> Option<Self> {
        let arguments = ["rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-common-dir"];
        let answer = whole(git.ask(directory, &[], &arguments).await)?;
        let text = String::from_utf8(answer).ok()?;
        let lines: Vec<&str> = text.lines().collect();
        // A name with a line break in it cannot be told from two names.
        let [root, git_directory, common] = lines.as_slice() else {
            return None;
        };
        let root = PathBuf::from(root);
        let common = directory.join(common);
        let common = std::fs::canonicalize(&common).unwrap_or(common);
        let is_main = common.file_name().is_some_and(|name| name == ".git");
        let project = common.parent().filter(|_| is_main).map(Path::to_owned);
        Some(Self {
            project: project.unwrap_or_else(|| root.clone()),
            root,
            git_directory: PathBuf::from(git_directory),
        })
    }
}

fn name_of(project: &Path) -> String {
    let name = project.file_name().unwrap_or(project.as_os_str());
    name.to_string_lossy().into_owned()
}

/// An answer that is there to its end.
fn whole(answer: Result<GitOutput, GitFailure>) -> Option<Vec<u8>> {
    answer.ok().filter(|answer| !answer.is_cut).map(|answer| answer.bytes)
}

/// Reads the branch, and what is changed and not committed.
async fn work_tree(git: &Git, paths: &RepositoryPaths, settings: &[String], state: &mut RepositoryState) {
    let arguments = [
        "status",
        "--porcelain=v2",
        "--branch",
        "-z",
        "--untracked-files=all",
        "--ignore-submodules=all",
        "--no-renames",
    ];
    let Ok(answer) = git.ask(&paths.root, settings, &arguments).await else {
        return;
    };
    let status = Status::parse(&answer.bytes);
    state.branch.clone_from(&status.branch);
    state.upstream.clone_from(&status.upstream);
    state.incoming = status.behind;
    state.outgoing = status.ahead;
    state.uncommitted = Some(status.changed);
    let base = if status.has_commits { "HEAD" } else { "--cached" };
    let arguments = [
        "diff",
        "--numstat",
        "-z",
        "--no-ext-diff",
        "--no-textconv",
        "--no-renames",
        "--ignore-submodules=all",
        base,
        "--",
    ];
    let Ok(answer) = git.ask(&paths.root, settings, &arguments).await else {
        return;
    };
    let mut changes = numstat(&answer.bytes);
    changes.files = changes.files.saturating_add(status.untracked);
    let root = paths.root.clone();
    let counting = tokio::task::spawn_blocking(move || new_lines(&root, &status.new_files));
    changes.additions = changes.additions.saturating_add(counting.await.unwrap_or_default());
    state.changes = Some(RepositoryChanges {
        additions: changes.additions,
        deletions: changes.deletions,
        files: changes.files,
    });
}

/// How many lines the files have that Git does not know yet.
fn new_lines(root: &Path, files: &[PathBuf]) -> u64 {
    let Ok(root) = Dir::open_ambient_dir(root, ambient_authority()) else {
        return 0;
    };
    let lines = files
        .iter()
        .take(MAX_NEW_FILES)
        .map(|file| lines_in(&root, file).unwrap_or_default());
    lines.fold(0, u64::saturating_add)
}

fn lines_in(root: &Dir, file: &Path) -> io::Result<u64> {
    if !file.components().all(|step| matches!(step, Component::Normal(_))) {
        return Ok(0);
    }
    match open_regular(root, file)? {
        Opened::File(file) => Ok(read_whole(file, MAX_NEW_BYTES)?.map_or(0, |bytes| count_lines(&bytes))),
        Opened::Directory | Opened::Special => Ok(0),
    }
}

/// The branch that others are merged into, as the main remote names it.
async fn base_branch(git: &Git, root: &Path) -> Option<String> {
    let answer = whole(git.ask(root, &[], &["symbolic-ref", "--quiet", REMOTE_HEAD]).await)?;
    let name = String::from_utf8(answer).ok()?;
    name.trim_end().strip_prefix(REMOTE_BRANCHES).map(str::to_owned)
}

/// How many commits a branch without an upstream has that its base does not have: all of them would be pushed.
async fn ahead_of_base(git: &Git, root: &Path, state: &RepositoryState) -> Option<u64> {
    let base = state.base_branch.as_ref()?;
    if state.branch.as_ref()? == base {
        return None;
    }
    let range = format!("{REMOTE_BRANCHES}{base}..HEAD");
    let answer = whole(git.ask(root, &[], &["rev-list", "--count", &range, "--"]).await)?;
    String::from_utf8(answer).ok()?.trim().parse().ok()
}

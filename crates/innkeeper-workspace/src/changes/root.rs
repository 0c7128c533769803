//! The repositories around the directories of a session, and those inside of these.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::git::{Git, GitCall, GitError};
use crate::repository::parsed::Config;

/// Most repositories of one view: a directory with very many submodules is shown without the rest.
pub(crate) const MAX_ROOTS: usize = 64;

/// A work tree of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Root {
    /// The top of the work tree.
    pub(crate) path: PathBuf,
    /// The directory of Git for this work tree.
    pub(crate) git_directory: PathBuf,
    /// The directory of Git that all work trees of the repository share.
    pub(crate) common: PathBuf,
    /// Settings under which no filter of the repository runs.
    pub(crate) settings: Vec<String>,
}

impl Root {
    /// Finds the repository around a directory; `None` where there is none.
    pub(crate) async fn find(git: &Git, directory: &Path) -> Result<Option<Self>, String> {
        // Most directories outside of repositories are told without starting Git.
        if !directory.ancestors().any(|above| above.join(".git").exists()) {
            return match directory.is_dir() {
                true => Ok(None),
                false => Err(format!("the directory {} does not exist", directory.display())),
            };
        }
        let arguments = ["rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-common-dir"];
        let settings = ["config", "--null", "--show-scope", "--list"];
        // Both at once, because most of the time goes into starting them.
        let (answer, config) = tokio::join!(
            git.run(GitCall::new(directory, &[]), &arguments),
            git.run(GitCall::new(directory, &[]), &settings)
        );
        let answer = match answer {
            Ok(answer) => answer,
            Err(GitError::Failed(message)) => {
                return Err(format!("git cannot read the repository: {message}"));
            }
            // Without Git there is still what the tools recorded.
            Err(GitError::NotStarted) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let lines: Vec<&[u8]> = answer
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .collect();
        // A name with a line break in it cannot be told from two names.
        let [path, git_directory, common] = lines.as_slice() else {
            return Err("the path of the repository cannot be read".to_owned());
        };
        let path_of = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        let common = directory.join(path_of(common));
        let path = path_of(path);
        let config = Config::parse(&config.map_err(|error| error.to_string())?);
        let Some(settings) = config.without_own_filters() else {
            return Err("the repository declares filters with names that cannot be switched off".to_owned());
        };
        Ok(Some(Self {
            path,
            git_directory: path_of(git_directory),
            common: std::fs::canonicalize(&common).unwrap_or(common),
            settings,
        }))
    }

    /// Finds the repositories around some directories, and those of their submodules.
    pub(crate) async fn all(git: &Git, directories: &[PathBuf]) -> Result<Vec<Self>, String> {
        let mut roots: Vec<Self> = Vec::new();
        for directory in directories {
            if let Some(root) = Self::find(git, directory).await? {
                Self::add(git, &mut roots, root).await;
            }
        }
        Ok(roots)
    }

    /// Adds the repositories in some directories, and those of their submodules.
    pub(crate) async fn add_nested(git: &Git, roots: &mut Vec<Self>, directories: &[PathBuf]) {
        for directory in directories {
            let is_known = roots.len() >= MAX_ROOTS || roots.iter().any(|root| root.path == *directory);
            if !is_known
                && let Ok(Some(root)) = Self::find(git, directory).await
                // A directory whose repository is gone is one of the work tree around it.
                && root.path == *directory
            {
                Self::add(git, roots, root).await;
            }
        }
    }

    async fn add(git: &Git, roots: &mut Vec<Self>, root: Self) {
        let mut waiting = vec![root];
        while let Some(root) = waiting.pop() {
            if roots.len() >= MAX_ROOTS || roots.iter().any(|known| known.path == root.path) {
                continue;
            }
            for submodule in root.submodules(git).await {
                if let Ok(Some(submodule)) = Self::find(git, &submodule).await {
                    waiting.push(submodule);
                }
            }
            roots.push(root);
        }
    }

    /// The submodules that are checked out.
    async fn submodules(&self, git: &Git) -> Vec<PathBuf> {
        if !self.path.join(".gitmodules").is_file() {
            return Vec::new();
        }
        let arguments = [
            "config",
            "-z",
            "--file",
            ".gitmodules",
            "--get-regexp",
            r"^submodule\..*\.path$",
        ];
        let answer = git.run(GitCall::new(&self.path, &self.settings), &arguments).await;
        let answer = answer.unwrap_or_default();
        let entries = answer.split(|byte| *byte == 0);
        let paths = entries.filter_map(|entry| entry.splitn(2, |byte| *byte == b'\n').nth(1));
        let paths = paths.map(|path| Path::new(OsStr::from_bytes(path)));
        // A name in a file of the repository must not lead out of it.
        let is_inside = |path: &&Path| {
            let mut steps = path.components();
            steps.all(|step| matches!(step, std::path::Component::Normal(_)))
        };
        let paths = paths.filter(is_inside).map(|path| self.path.join(path));
        paths.filter(|path| path.join(".git").exists()).collect()
    }

    /// Whether this is a work tree that was added to a repository.
    pub(crate) fn is_linked(&self) -> bool {
        self.git_directory != self.common && self.git_directory.starts_with(self.common.join("worktrees"))
    }

    /// The id of the tree of a commit; that of the empty tree where there is no commit yet.
    pub(crate) async fn head_tree(&self, git: &Git) -> Result<String, GitError> {
        match self
            .ask(git, &["rev-parse", "--verify", "--quiet", "HEAD^{tree}"])
            .await
        {
            Ok(tree) => Ok(tree),
            // Before the first commit.
            Err(GitError::Failed(_)) => self.empty_tree(git).await,
            Err(error) => Err(error),
        }
    }

    /// The id of the tree that a work tree had before the first of its changes was recorded: a work tree that was
    /// added to a repository began as the commit at which its branch left its base, and a repository began empty.
    pub(crate) async fn first_tree(&self, git: &Git) -> Result<String, GitError> {
        match self.is_linked() {
            true => self.base_tree(git).await,
            false => self.empty_tree(git).await,
        }
    }

    /// The id of the tree of the commit at which the current branch left its base; that of the last commit if all
    /// other branches leave this one.
    pub(crate) async fn base_tree(&self, git: &Git) -> Result<String, GitError> {
        match self.merge_base(git).await {
            Some((commit, _)) => self.ask(git, &["rev-parse", &format!("{commit}^{{tree}}")]).await,
            None => self.head_tree(git).await,
        }
    }

    pub(crate) async fn empty_tree(&self, git: &Git) -> Result<String, GitError> {
        self.ask(git, &["hash-object", "-t", "tree", "--stdin"]).await
    }

    /// The commit at which the current branch left its base, and the name of the base.
    pub(crate) async fn merge_base(&self, git: &Git) -> Option<(String, String)> {
        let head = self
            .ask(git, &["symbolic-ref", "--quiet", "--short", "HEAD"])
            .await
            .ok();
        let remote = self
            .ask(git, &["symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD"])
            .await
            .ok();
        let upstream = || async {
            let arguments = ["rev-parse", "--abbrev-ref", "--symbolic-full-name", "@{upstream}"];
            self.ask(git, &arguments).await.ok()
        };
        let mut candidates: Vec<String> = remote.into_iter().collect();
        candidates.extend(["main", "master"].map(str::to_owned));
        candidates.retain(|candidate| Some(candidate) != head.as_ref());
        candidates.extend(upstream().await);
        for candidate in candidates {
            let found = self.ask(git, &["merge-base", "HEAD", &candidate]).await;
            if let Ok(commit) = found {
                return Some((commit, candidate));
            }
        }
        None
    }

    /// Asks a short question and returns the answer without the line break at its end.
    pub(crate) async fn ask(&self, git: &Git, arguments: &[&str]) -> Result<String, GitError> {
        let answer = git.run(GitCall::new(&self.path, &self.settings), arguments).await?;
        Ok(String::from_utf8_lossy(&answer).trim_end_matches('\n').to_owned())
    }
}

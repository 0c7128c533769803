//! Operations that change the repository: stage, commit, create a branch, apply elsewhere, remove a work tree.
//!
//! Each is a sequence of commands of Git that replace one file atomically, in an order in which every state in between
//! is a valid one: a process that is killed in the middle of a commit leaves the changes staged, or the commit made.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use innkeeper_host::changes::{ChangesetView, OperationError, OperationOutcome, OperationRequest};
use serde_json::Value;

use super::revert::{OperationFile, Side};
use crate::changes::compute::Compared;
use crate::changes::root::Root;
use crate::changes::snapshot::update_index;
use crate::changes::{Inner, worktree};
use crate::git::{GitCall, GitError};

/// Maximum bytes of a commit message.
const MAX_MESSAGE: usize = 64 << 10;
/// Most files that are left out of a patch by their names.
const MAX_OMITTED: usize = 200;

/// The names of changed files in a work tree.
struct ChangedNames {
    /// Those where no file is any more, sorted.
    gone: Vec<Vec<u8>>,
    /// Those of files that can be stored, sorted.
    present: Vec<Vec<u8>>,
    /// The number of files that cannot be stored.
    omitted: usize,
}

impl ChangedNames {
    fn len(&self) -> usize {
        self.gone.len() + self.present.len()
    }

    fn contains(&self, name: &[u8]) -> bool {
        let is_in = |names: &[Vec<u8>]| names.binary_search_by(|known| known.as_slice().cmp(name)).is_ok();
        is_in(&self.gone) || is_in(&self.present)
    }
}

/// An operation in the repositories of a view.
pub(super) struct InRepository<'a> {
    pub(super) inner: &'a Inner,
    pub(super) view: &'a ChangesetView,
    pub(super) compared: &'a [Compared],
    pub(super) files: &'a [OperationFile],
    pub(super) directories: &'a [PathBuf],
}

impl InRepository<'_> {
    pub(super) async fn carry_out(&self, request: &OperationRequest) -> Result<OperationOutcome, OperationError> {
        let value = |name: &str| request.values.get(name).and_then(Value::as_str);
        match request.id.as_str() {
            "stage" => self.stage().await,
            "commit" => self.commit(value("message")).await,
            "create-branch" => self.create_branch(value("name")).await,
            "apply" => self.apply().await,
            _ => self.remove_worktree().await,
        }
    }

    /// The repository that the operation is about: that of the session's first directory.
    fn main_pair(&self) -> Result<(usize, &Compared), OperationError> {
        let pair = self.compared.iter().enumerate().next();
        pair.ok_or_else(|| OperationError::Conflict("there is no repository".to_owned()))
    }

    /// The names of the changed files in a work tree.
    fn names(&self, pair: usize) -> ChangedNames {
        let files = self.files.iter().filter(|file| file.pair == Some(pair));
        let (omitted, files): (Vec<_>, Vec<_>) = files.partition(|file| file.is_omitted);
        let names = |side: fn(&OperationFile) -> Option<&Side>| -> BTreeSet<Vec<u8>> {
            files.iter().filter_map(|file| Some(side(file)?.name.clone())).collect()
        };
        let present = names(|file| file.after.as_ref());
        let former = names(|file| file.before.as_ref());
        ChangedNames {
            gone: former.difference(&present).cloned().collect(),
            present: present.into_iter().collect(),
            omitted: omitted.len(),
        }
    }

    async fn stage(&self) -> Result<OperationOutcome, OperationError> {
        let mut staged = 0;
        let mut left_out = 0;
        for (index, pair) in self.compared.iter().enumerate() {
            let names = self.names(index);
            staged += names.len();
            left_out += names.omitted;
            self.add(&pair.root, &names).await?;
        }
        Ok(OperationOutcome {
            message: format!("{staged} files are staged{}.", left_out_note(left_out)),
        })
    }

    /// Brings files into the index of the repository.
    async fn add(&self, root: &Root, names: &ChangedNames) -> Result<(), OperationError> {
        let call = || GitCall::new(&root.path, &root.settings);
        let added = update_index(&self.inner.git, call, &names.gone, &names.present).await;
        added.map_err(failed)
    }

    /// Commits everything in the view: the index first, then the commit from it, then the branch, which moves only if
    /// it is still where it was.
    async fn commit(&self, message: Option<&str>) -> Result<OperationOutcome, OperationError> {
        let (index, pair) = self.main_pair()?;
        let (root, git) = (&pair.root, &self.inner.git);
        for state in ["MERGE_HEAD", "REBASE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"] {
            if root.git_directory.join(state).exists() {
                let problem = "a merge or rebase is in progress in this repository; finish it with git";
                return Err(OperationError::Conflict(problem.to_owned()));
            }
        }
        let message = match message.map(str::trim) {
            Some("") => {
                let problem = "must not be empty".to_owned();
                return Err(OperationError::Invalid {
                    field: "_meta.message",
                    problem,
                });
            }
            Some(message) if message.len() > MAX_MESSAGE => {
                let problem = format!("has at most {MAX_MESSAGE} bytes");
                return Err(OperationError::Invalid {
                    field: "_meta.message",
                    problem,
                });
            }
            Some(message) => message.to_owned(),
            None => suggested_message(&self.view.title),
        };
        let names = self.names(index);
        if names.len() == 0 {
            let problem = "nothing has changed since the last commit".to_owned();
            return Err(OperationError::Conflict(problem));
        }
        self.check_staged(root, &names).await?;
        // Before anything changes: without a name there is no commit.
        root.ask(git, &["var", "GIT_COMMITTER_IDENT"]).await.map_err(failed)?;
        let parent = root.ask(git, &["rev-parse", "--verify", "--quiet", "HEAD"]).await.ok();
        self.add(root, &names).await?;
        let tree = root.ask(git, &["write-tree"]).await.map_err(failed)?;
        let mut arguments = vec!["commit-tree", tree.as_str(), "-F", "-"];
        if let Some(parent) = &parent {
            arguments.extend(["-p", parent.as_str()]);
        }
        let call = GitCall::new(&root.path, &root.settings).input(message.clone().into_bytes());
        let commit = git.run(call, &arguments).await.map_err(failed)?;
        let commit = String::from_utf8_lossy(&commit).trim_end().to_owned();
        let title = message.lines().next().unwrap_or_default();
        let reason = format!("commit: {title}");
        let expected = parent.unwrap_or_default();
        let arguments = ["update-ref", "-m", &reason, "HEAD", &commit, &expected];
        root.ask(git, &arguments).await.map_err(failed)?;
        let short: String = commit.chars().take(10).collect();
        let is_elsewhere = |file: &&OperationFile| file.pair != Some(index);
        let elsewhere = self.files.iter().filter(is_elsewhere).count();
        Ok(OperationOutcome {
            message: format!(
                "Committed {short}: {title}{}{}.",
                left_out_note(names.omitted),
                elsewhere_note(elsewhere)
            ),
        })
    }

    /// A commit has what the view shows and nothing else: refuses while other files are staged.
    async fn check_staged(&self, root: &Root, names: &ChangedNames) -> Result<(), OperationError> {
        let git = &self.inner.git;
        let head = root.head_tree(git).await.map_err(failed)?;
        let arguments = ["diff-index", "--cached", "--name-only", "-z", head.as_str()];
        let call = GitCall::new(&root.path, &root.settings);
        let staged = git.run(call, &arguments).await.map_err(failed)?;
        let mut staged = staged.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        match staged.find(|name| !names.contains(name)) {
            None => Ok(()),
            Some(other) => Err(OperationError::Conflict(format!(
                "{} is staged and is not among these changes; commit or unstage it with git first",
                String::from_utf8_lossy(other)
            ))),
        }
    }

    /// Creates a branch at the current commit and switches to it. No file changes.
    async fn create_branch(&self, name: Option<&str>) -> Result<OperationOutcome, OperationError> {
        let (_, pair) = self.main_pair()?;
        let (root, git) = (&pair.root, &self.inner.git);
        let name = match name {
            Some(name) => name.to_owned(),
            None => worktree::branch_name(&self.view.title, &self.view.session),
        };
        let reference = format!("refs/heads/{name}");
        if root.ask(git, &["check-ref-format", &reference]).await.is_err() || name.starts_with('-') {
            return Err(OperationError::Invalid {
                field: "_meta.name",
                problem: format!("{name:?} is no name of a branch"),
            });
        }
        let head = root.ask(git, &["rev-parse", "--verify", "--quiet", "HEAD"]).await;
        if let Ok(commit) = &head {
            // Only if there is no such branch.
            let none = "0".repeat(commit.len());
            let arguments = [
                "update-ref",
                "-m",
                "branch: Created by innkeeper",
                &reference,
                commit,
                &none,
            ];
            root.ask(git, &arguments).await.map_err(failed)?;
        }
        let arguments = [
            "symbolic-ref",
            "-m",
            "checkout: moving to new branch",
            "HEAD",
            &reference,
        ];
        root.ask(git, &arguments).await.map_err(failed)?;
        Ok(OperationOutcome {
            message: format!("Created the branch {name} and switched to it."),
        })
    }

    /// Makes the changes of a linked work tree in the main one, if they fit there as a whole.
    async fn apply(&self) -> Result<OperationOutcome, OperationError> {
        let (index, pair) = self.main_pair()?;
        let (root, git) = (&pair.root, &self.inner.git);
        let main = main_work_tree(root)
            .ok_or_else(|| OperationError::Conflict("the repository has no main work tree".to_owned()))?;
        let (mut files, mut left_out, mut elsewhere) = (0, 0, 0);
        for file in self.files {
            match file.pair == Some(index) {
                true if file.is_omitted => left_out += 1,
                true => files += 1,
                false => elsewhere += 1,
            }
        }
        let patch = self.patch(pair).await?;
        let call = |patch: Vec<u8>| GitCall::new(&main, &root.settings).input(patch);
        let conflict = |error: GitError| {
            OperationError::Conflict(format!(
                "the changes do not fit the main work tree, so nothing changed: {error}"
            ))
        };
        git.run(call(patch.clone()), &["apply", "--check", "--whitespace=nowarn"])
            .await
            .map_err(conflict)?;
        git.run(call(patch), &["apply", "--whitespace=nowarn"])
            .await
            .map_err(failed)?;
        let counted = if files == 1 { "changed file" } else { "changed files" };
        Ok(OperationOutcome {
            message: format!(
                "Applied {files} {counted} to {}{}{}.",
                main.display(),
                left_out_note(left_out),
                elsewhere_note(elsewhere)
            ),
        })
    }

    /// The changes of a work tree in the directories of the view as a patch, but for files that are not stored.
    async fn patch(&self, pair: &Compared) -> Result<Vec<u8>, OperationError> {
        let root = &pair.root;
        if pair.omitted.len() > MAX_OMITTED {
            let problem = format!(
                "{} files are too large to be applied; add them to .gitignore",
                pair.omitted.len()
            );
            return Err(OperationError::Conflict(problem));
        }
        let mut arguments: Vec<OsString> = ["diff-tree", "-r", "-p", "--binary", "--full-index", "--no-ext-diff"]
            .into_iter()
            .chain(["--no-textconv", pair.before.as_str(), pair.after.as_str(), "--"])
            .map(OsString::from)
            .collect();
        let mut path_argument = |kind: &str, path: &OsStr| {
            let mut argument = OsString::from(kind);
            argument.push(path);
            arguments.push(argument);
        };
        let is_whole = self
            .directories
            .iter()
            .any(|directory| root.path.starts_with(directory));
        let inside = self
            .directories
            .iter()
            .filter_map(|it| it.strip_prefix(&root.path).ok());
        for directory in inside.filter(|_| !is_whole) {
            path_argument(":(top,literal)", directory.as_os_str());
        }
        for path in &pair.omitted {
            path_argument(":(top,literal,exclude)", OsStr::from_bytes(path));
        }
        let work_tree = self.inner.work_tree(root);
        let state = work_tree.state.lock().await;
        let call = GitCall::new(&root.path, &root.settings).with("GIT_OBJECT_DIRECTORY", state.store().objects());
        self.inner.git.run(call, &arguments).await.map_err(failed)
    }

    /// Removes the work tree of the session. Git refuses while there are changes in it.
    async fn remove_worktree(&self) -> Result<OperationOutcome, OperationError> {
        let (_, pair) = self.main_pair()?;
        let root = &pair.root;
        let main = main_work_tree(root)
            .filter(|_| worktree::is_own(root))
            .ok_or_else(|| OperationError::Conflict("the host did not make this work tree, so it stays".to_owned()))?;
        let path = root.path.display().to_string();
        let arguments = ["worktree", "remove", &path];
        let call = GitCall::new(&main, &root.settings);
        self.inner
            .git
            .run(call, &arguments)
            .await
            .map_err(|error| OperationError::Conflict(format!("the work tree was not removed: {error}")))?;
        Ok(OperationOutcome {
            message: format!("Removed the work tree {path}; its branch is still there."),
        })
    }
}

/// The main work tree of a repository.
fn main_work_tree(root: &Root) -> Option<PathBuf> {
    let is_main = root.common.file_name().is_some_and(|name| name == ".git");
    root.common.parent().filter(|_| is_main).map(Into::into)
}

/// A message for a commit without one: the title of the session.
fn suggested_message(title: &str) -> String {
    let title: String = title
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(72)
        .collect();
    match title.trim() {
        "" => "Changes of an agent".to_owned(),
        title => title.to_owned(),
    }
}

fn left_out_note(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => "; 1 file cannot be stored and was left out".to_owned(),
        count => format!("; {count} files cannot be stored and were left out"),
    }
}

fn elsewhere_note(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => "; 1 file in another repository was left out".to_owned(),
        count => format!("; {count} files in other repositories were left out"),
    }
}

fn failed(error: GitError) -> OperationError {
    match error {
        GitError::Failed(message) => OperationError::Conflict(format!("git refused: {message}")),
        other => OperationError::Failed(other.to_string()),
    }
}

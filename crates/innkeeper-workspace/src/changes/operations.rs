//! Operations on changesets: which are offered, and how they are carried out.
//!
//! `replace.rs` changes files all at once and can undo it, with the files of `stored.rs`; `file.rs` reads and writes one
//! file. `revert.rs` computes what files become, and `commit.rs` changes the repository.

mod commit;
mod file;
mod replace;
mod revert;
mod stored;

use std::path::PathBuf;
use std::sync::Arc;

use innkeeper_host::changes::{
    ChangesetSource, ChangesetView, ComputedChangeset, OfferedOperation, OperationError, OperationOutcome,
    OperationRequest, OperationScope,
};

use self::commit::InRepository;
pub(crate) use self::stored::{Direction, StoredFiles};
use super::compute::{self, Compared};
use super::root::Root;
use super::{Inner, WorkTree, worktree};
use crate::uri;

const ALL: &[OperationScope] = &[
    OperationScope::Changeset,
    OperationScope::Resource,
    OperationScope::Range,
];
const FILES: &[OperationScope] = &[OperationScope::Changeset, OperationScope::Resource];
const WHOLE: &[OperationScope] = &[OperationScope::Changeset];
/// The operation that undoes the latest `discard` or `revert`, and the one that reverses that. They are not called
/// "undo", which VS Code takes for a command of its own and shows with the keys of that.
const UNDO: &str = "undo-discard";
const REDO: &str = "redo-discard";

/// The operations that are possible on a view. Clients show the first one most prominently.
pub(crate) fn offered(
    view: &ChangesetView,
    compared: &[Compared],
    computed: &ComputedChangeset,
    is_committed: bool,
    stored: &StoredFiles,
) -> Vec<OfferedOperation> {
    let mut offered = Vec::new();
    let is_empty = computed.files.is_empty();
    let nothing = || is_empty.then(|| "nothing has changed".to_owned());
    match view.source {
        ChangesetSource::Uncommitted => {
            offered.push(commit(is_committed));
            offered.push(OfferedOperation {
                id: "stage",
                label: "Stage".to_owned(),
                description: "Adds the changes to the index of Git".to_owned(),
                scopes: FILES,
                confirmation: None,
                icon: "add",
                group: "git",
                disabled: nothing(),
            });
            offered.push(OfferedOperation {
                id: "create-branch",
                label: "Create branch".to_owned(),
                description: "Creates a branch that is named after the session, and switches to it".to_owned(),
                scopes: WHOLE,
                confirmation: None,
                icon: "git-branch",
                group: "git",
                disabled: None,
            });
            offered.push(discard("Discard", "to the last commit", is_empty));
        }
        ChangesetSource::Session => offered.push(discard("Revert", "to the beginning of the session", is_empty)),
        ChangesetSource::Branch => {
            offered.push(commit(is_committed));
            offered.push(discard("Revert", "to the base of the branch", is_empty));
        }
        ChangesetSource::Turn { .. } => offered.push(OfferedOperation {
            id: "revert",
            label: "Revert turn".to_owned(),
            description: "Undoes the changes of this turn, and leaves later changes to the same files in place"
                .to_owned(),
            scopes: FILES,
            confirmation: Some(
                "This undoes the changes of this turn in your files. The host stores the files as they are now, and \
                 “Undo” brings them back."
                    .to_owned(),
            ),
            icon: "discard",
            group: "revert",
            disabled: nothing(),
        }),
        ChangesetSource::Turns { .. } => {}
    }
    let is_linked = compared.first().is_some_and(|pair| pair.root.is_linked());
    let is_whole = matches!(view.source, ChangesetSource::Session | ChangesetSource::Branch);
    if is_linked && is_whole {
        offered.push(OfferedOperation {
            id: "apply",
            label: "Apply to main work tree".to_owned(),
            description: "Makes these changes in the main work tree of the repository, without a commit".to_owned(),
            scopes: WHOLE,
            confirmation: None,
            icon: "git-merge",
            group: "worktree",
            disabled: nothing(),
        });
    }
    let is_own = compared.first().is_some_and(|pair| worktree::is_own(&pair.root));
    if is_own && view.source == ChangesetSource::Session {
        offered.push(OfferedOperation {
            id: "remove-worktree",
            label: "Remove work tree".to_owned(),
            description: "Removes the work tree of this session; its branch stays".to_owned(),
            scopes: WHOLE,
            confirmation: Some(
                "This removes the directory of the work tree, with the files in it that Git ignores, such as builds \
                 and local settings: they cannot be brought back. Commits stay on its branch. It is refused while \
                 there are changes that are not committed."
                    .to_owned(),
            ),
            icon: "trash",
            group: "worktree",
            disabled: None,
        });
    }
    if let Some(notice) = &computed.notice {
        for operation in &mut offered {
            operation.description = format!("{}. {notice}; this is about all of them", operation.description);
        }
    }
    if stored.has(Direction::Undo) {
        let description = "Brings back the files of the latest discard or revert that is not undone";
        offered.push(bring_back(UNDO, "Undo", description, "history"));
    }
    if stored.has(Direction::Redo) {
        let description = "Sets the files of the latest undo back again";
        offered.push(bring_back(REDO, "Redo", description, "redo"));
    }
    offered
}

fn commit(is_committed: bool) -> OfferedOperation {
    OfferedOperation {
        id: "commit",
        label: "Commit all".to_owned(),
        description:
            "Commits all uncommitted changes, with a message that the agent suggests if the client gives none; \
                      hooks of the repository do not run"
                .to_owned(),
        scopes: WHOLE,
        confirmation: None,
        icon: "git-commit",
        group: "git",
        disabled: is_committed.then(|| "nothing has changed since the last commit".to_owned()),
    }
}

fn bring_back(id: &'static str, label: &str, description: &str, icon: &'static str) -> OfferedOperation {
    OfferedOperation {
        id,
        label: label.to_owned(),
        description: description.to_owned(),
        scopes: WHOLE,
        confirmation: None,
        icon,
        group: "revert",
        disabled: None,
    }
}

fn discard(label: &str, target: &str, is_empty: bool) -> OfferedOperation {
    OfferedOperation {
        id: "discard",
        label: label.to_owned(),
        description: format!("Sets files back {target}"),
        scopes: ALL,
        confirmation: Some(format!(
            "This sets your files back {target}. New files are removed. The host stores the files as they are now, \
             and “Undo” brings them back."
        )),
        icon: "discard",
        group: "revert",
        disabled: is_empty.then(|| "nothing has changed".to_owned()),
    }
}

/// Carries out an operation.
pub(crate) async fn invoke(
    inner: &Inner,
    view: ChangesetView,
    request: OperationRequest,
) -> Result<OperationOutcome, OperationError> {
    let _in_use = inner.in_use.read().await;
    let session = inner.operating(&view.session);
    // Operations of one session come one after the other, and so do those on one work tree.
    let _guard = session.lock().await;
    let stored = inner.stored_files(&view.session);
    let view = match request.id == "commit" {
        // A branch also has changes that are committed already.
        true => ChangesetView {
            source: ChangesetSource::Uncommitted,
            ..view
        },
        false => view,
    };
    let directories = compute::directories(&view).map_err(OperationError::Conflict)?;
    let work_trees = work_trees(inner, &directories).await?;
    let mut guards = Vec::new();
    for work_tree in &work_trees {
        guards.push(work_tree.operating.lock().await);
    }
    match request.id.as_str() {
        UNDO => return replace::bring_back(stored, Direction::Undo).await,
        REDO => return replace::bring_back(stored, Direction::Redo).await,
        _ => {}
    }
    let compared = inner
        .compared(&view, &directories)
        .await
        .map_err(OperationError::Conflict)?;
    let files = revert::files(inner, &view, &compared, &directories, request.target.as_ref()).await?;
    match request.id.as_str() {
        "discard" | "revert" => {
            let mut roots = directories;
            roots.extend(view.directories.iter().filter_map(|directory| uri::to_path(directory)));
            roots.extend(compared.iter().map(|pair| pair.root.path.clone()));
            let replacements =
                revert::replacements(inner, &view, &compared, files, &roots, request.target.as_ref()).await?;
            replace::replace(stored, replacements).await
        }
        "stage" | "commit" | "create-branch" | "apply" | "remove-worktree" => {
            let work = InRepository {
                inner,
                view: &view,
                compared: &compared,
                files: &files,
                directories: &directories,
            };
            work.carry_out(&request).await
        }
        other => Err(OperationError::Invalid {
            field: "operationId",
            problem: format!("there is no operation {other:?}"),
        }),
    }
}

/// The work trees of a view, in the order in which their locks are taken.
async fn work_trees(inner: &Inner, directories: &[PathBuf]) -> Result<Vec<Arc<WorkTree>>, OperationError> {
    let mut roots = Root::all(&inner.git, directories)
        .await
        .map_err(OperationError::Conflict)?;
    roots.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(roots.into_iter().map(|root| inner.work_tree(&Arc::new(root))).collect())
}

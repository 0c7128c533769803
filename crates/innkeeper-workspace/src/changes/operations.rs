//! Operations on changesets: which are offered, and how they are carried out.
//!
//! `replace.rs` changes files all at once and can undo it, `revert.rs` computes what files become, and `commit.rs`
//! changes the repository.

mod commit;
mod replace;
mod revert;

use std::path::{Path, PathBuf};

use innkeeper_host::changes::{
    ChangesetSource, ChangesetView, ComputedChangeset, OfferedOperation, OperationError, OperationOutcome,
    OperationRequest, OperationScope,
};

use self::commit::InRepository;
use super::Inner;
use super::compute::{self, Compared};

const ALL: &[OperationScope] = &[
    OperationScope::Changeset,
    OperationScope::Resource,
    OperationScope::Range,
];
const FILES: &[OperationScope] = &[OperationScope::Changeset, OperationScope::Resource];
const WHOLE: &[OperationScope] = &[OperationScope::Changeset];
/// The operation that undoes the last `discard` or `revert`.
const UNDO: &str = "undo-discard";

/// The file that says what the last discarded files were.
pub(crate) fn discarded_file(session_directory: &Path) -> PathBuf {
    session_directory.join("discarded").join("manifest")
}

/// The operations that are possible on a view. Clients show the first one most prominently.
pub(crate) fn offered(
    view: &ChangesetView,
    compared: &[Compared],
    computed: &ComputedChangeset,
    is_committed: bool,
    has_discarded: bool,
) -> Vec<OfferedOperation> {
    let mut offered = Vec::new();
    let is_empty = computed.files.is_empty();
    let nothing = || is_empty.then(|| "nothing has changed".to_owned());
    let has_git = !compared.is_empty();
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
    let is_linked = compared.iter().any(|pair| pair.root.is_linked());
    let is_whole = matches!(view.source, ChangesetSource::Session | ChangesetSource::Branch);
    if has_git && is_linked && is_whole {
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
    if has_git && is_linked && view.source == ChangesetSource::Session {
        offered.push(OfferedOperation {
            id: "remove-worktree",
            label: "Remove work tree".to_owned(),
            description: "Removes the work tree of this session; its branch stays".to_owned(),
            scopes: WHOLE,
            confirmation: Some(
                "This removes the directory of the work tree. Commits stay on its branch. It is refused while there \
                 are changes that are not committed."
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
    if has_discarded {
        offered.push(OfferedOperation {
            // Not "undo", which VS Code takes for a command of its own and shows with the keys of that.
            id: UNDO,
            label: "Undo".to_owned(),
            description: "Brings the files back that were discarded or reverted last".to_owned(),
            scopes: WHOLE,
            confirmation: None,
            icon: "history",
            group: "revert",
            disabled: None,
        });
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
    let session_directory = inner.session_directory(&view.session);
    if request.id == UNDO {
        return replace::undo(&session_directory).await;
    }
    let view = match request.id == "commit" {
        // A branch also has changes that are committed already.
        true => ChangesetView {
            source: ChangesetSource::Uncommitted,
            ..view
        },
        false => view,
    };
    let directories = compute::directories(&view).map_err(OperationError::Conflict)?;
    let compared = inner
        .compared(&view, &directories)
        .await
        .map_err(OperationError::Conflict)?;
    // Operations on one work tree come one after the other.
    let work_trees: Vec<_> = compared.iter().map(|pair| inner.work_tree(&pair.root)).collect();
    let mut guards = Vec::new();
    for work_tree in &work_trees {
        guards.push(work_tree.operating.lock().await);
    }
    let files = revert::files(inner, &view, &compared, &directories, request.target.as_ref()).await?;
    match request.id.as_str() {
        "discard" | "revert" => {
            let replacements = revert::replacements(inner, &view, files, request.target.as_ref()).await?;
            replace::replace(&session_directory, replacements).await
        }
        "stage" | "commit" | "create-branch" | "apply" | "remove-worktree" => {
            let work = InRepository {
                inner,
                view: &view,
                compared: &compared,
                files: &files,
            };
            work.carry_out(&request).await
        }
        other => Err(OperationError::Invalid {
            field: "operationId",
            problem: format!("there is no operation {other:?}"),
        }),
    }
}

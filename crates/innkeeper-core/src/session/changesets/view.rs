//! The vocabulary between the core and the service that computes changesets. It contains no type of AHP.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The changes that a channel shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangesetView {
    /// The URI of the session.
    pub session: Arc<str>,
    /// The directories that the changes are in, as URIs. Changes elsewhere are not shown.
    pub directories: Vec<String>,
    /// The two states that are compared.
    pub source: ChangesetSource,
    /// The files that tools of the session changed, oldest first: all that is known of files outside of repositories.
    pub edits: Arc<[RecordedEdit]>,
    /// A name for the work: the title of the session.
    pub title: String,
}

/// The two states that a changeset compares.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ChangesetSource {
    /// The last commit, and the files now.
    Uncommitted,
    /// The files when the session began, and now.
    Session,
    /// The commit at which the branch left its base, and the files now.
    Branch,
    /// The files before and after a turn.
    Turn {
        /// The turn's id.
        turn: String,
    },
    /// The files after one turn and after another one.
    Turns {
        /// The id of the first turn.
        original: String,
        /// The id of the second turn.
        modified: String,
    },
}

/// A change of a file by a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedEdit {
    /// The id of the turn.
    pub turn: String,
    /// The URI of the file.
    pub file: String,
    /// The URI of its content before the turn; `None` if it did not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

/// A computed changeset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ComputedChangeset {
    /// The changed files, in the order in which clients show them.
    pub files: Vec<ChangedFile>,
    /// The operations that are possible.
    pub operations: Vec<OfferedOperation>,
    /// A remark for users about what is missing.
    pub notice: Option<String>,
}

/// The number of changed files and lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CountedChanges {
    /// Changed files.
    pub files: u64,
    /// Added lines.
    pub additions: u64,
    /// Removed lines.
    pub deletions: u64,
}

/// A changed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    /// The file before; `None` if it did not exist.
    pub before: Option<ChangedSide>,
    /// The file after; `None` if it was deleted.
    pub after: Option<ChangedSide>,
    /// Added lines; `None` if the file is not text.
    pub added: Option<u64>,
    /// Removed lines; `None` if the file is not text.
    pub removed: Option<u64>,
    /// The kind of change besides the content.
    pub note: FileNote,
}

impl ChangedFile {
    /// Returns the id of the file in its changeset (CHG-08).
    pub fn id(&self) -> &str {
        let side = self.after.as_ref().or(self.before.as_ref());
        side.map_or("", |side| &side.uri)
    }

    /// Identifies both contents and modes: as long as it is the same, a review of the file holds (CHG-13).
    pub fn fingerprint(&self) -> String {
        let side = |side: &Option<ChangedSide>| match side {
            Some(side) => format!("{}@{}", side.version, side.mode.as_deref().unwrap_or_default()),
            None => String::new(),
        };
        format!("{}>{}", side(&self.before), side(&self.after))
    }
}

/// One side of a changed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedSide {
    /// The URI of the file.
    pub uri: String,
    /// The URI of its content on this side.
    pub content: String,
    /// Its size in bytes.
    pub size: Option<u64>,
    /// Identifies the content.
    pub version: String,
    /// The mode of the file, as Git writes it.
    pub mode: Option<String>,
}

/// Properties of a changed file that are no content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileNote {
    /// The content is not text.
    pub is_binary: bool,
    /// The file is a symlink; its content is the target.
    pub is_symlink: bool,
    /// The content is too large to be stored: a line about it takes its place.
    pub is_omitted: bool,
    /// The entry is a submodule; its content is the id of the commit.
    pub is_submodule: bool,
}

/// An operation that is possible on a changeset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedOperation {
    /// Its id.
    pub id: &'static str,
    /// Its label.
    pub label: String,
    /// A sentence about it.
    pub description: String,
    /// The scopes that it can be invoked in.
    pub scopes: &'static [OperationScope],
    /// The question to ask first. An operation with one is destructive.
    pub confirmation: Option<String>,
    /// The name of an icon.
    pub icon: &'static str,
    /// The group that it is shown in.
    pub group: &'static str,
    /// Why it is not possible now.
    pub disabled: Option<String>,
}

/// The extent of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationScope {
    /// The whole changeset.
    Changeset,
    /// One file.
    Resource,
    /// A part of one file.
    Range,
}

/// An operation to carry out.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationRequest {
    /// Its id.
    pub id: String,
    /// The file or part of a file; the whole changeset without one.
    pub target: Option<OperationTarget>,
    /// Values that the client gave in addition, such as the message of a commit.
    pub values: Map<String, Value>,
}

/// The file or part of a file that an operation is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationTarget {
    /// The URI of the file.
    pub resource: String,
    /// Whether the lines are those of the file before.
    pub is_before: bool,
    /// The lines, counted from 0: the first, and the one after the last.
    pub lines: Option<(u64, u64)>,
}

/// The result of an operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperationOutcome {
    /// A sentence for users.
    pub message: String,
}

/// Why an operation was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperationError {
    /// It does not fit the state of the files: a conflict, a lock, another operation.
    Conflict(String),
    /// The target or a value is wrong.
    Invalid {
        /// The field.
        field: &'static str,
        /// The problem.
        problem: String,
    },
    /// It failed.
    Failed(String),
}

impl OperationError {
    /// Returns the sentence for users.
    pub fn message(&self) -> String {
        match self {
            Self::Conflict(problem) | Self::Failed(problem) => problem.clone(),
            Self::Invalid { field, problem } => format!("{field}: {problem}"),
        }
    }
}

//! Turns the report of a computed view into as few actions as possible (CHG-04 to CHG-08).

use std::collections::{HashMap, HashSet};

use ahp_types::actions::{
    ChangesetContentChangedAction, ChangesetFileRemovedAction, ChangesetFileSetAction,
    ChangesetOperationsChangedAction, ChangesetStatusChangedAction, StateAction,
};
use ahp_types::common::StringOrMarkdown;
use ahp_types::state::{
    ChangesetFile, ChangesetOperation, ChangesetOperationScope, ChangesetOperationStatus, ChangesetStatus, ContentRef,
    ErrorInfo, FileEdit, FileEditDiffStats, FileEditSide,
};
use serde_json::{Map, Value};

use super::{ChangedFile, ChangedSide, ComputedChangeset, OfferedOperation, OperationScope};
use crate::core::{Cx, Host};
use crate::ids::ChannelId;

/// With more changed files than this, the whole list is published at once.
const MAX_SINGLE: usize = 32;

/// In `_meta` of the first file: what users should know about the whole list.
const NOTICE: &str = "innkeeper.notice";

impl Host {
    /// A view is computed again, which takes a while: its files stay.
    pub(super) fn changeset_computing(&mut self, cx: &mut Cx<'_>, channel: ChannelId) {
        let open = self.parts.changesets.get(channel);
        let status = open.map(|open| open.state().status.clone());
        if matches!(status, Some(ChangesetStatus::Ready | ChangesetStatus::Error)) {
            self.set_changeset_status(cx, channel, ChangesetStatus::Recomputing, None);
        }
    }

    /// Publishes the difference between a report and what is shown.
    pub(super) fn changeset_computed(
        &mut self,
        cx: &mut Cx<'_>,
        channel: ChannelId,
        outcome: Result<Box<ComputedChangeset>, String>,
    ) {
        // The last subscriber has left while it was computed.
        let Some(open) = self.parts.changesets.get(channel) else {
            return;
        };
        let computed = match outcome {
            Ok(computed) => computed,
            Err(message) => {
                let error = ErrorInfo {
                    error_type: "changesUnavailable".to_owned(),
                    message,
                    stack: None,
                    meta: None,
                };
                if open.state().error.as_ref() != Some(&error) || open.state().status != ChangesetStatus::Error {
                    self.set_changeset_status(cx, channel, ChangesetStatus::Error, Some(error));
                }
                return;
            }
        };
        let ComputedChangeset {
            files,
            operations,
            notice,
        } = *computed;
        let fingerprints: HashMap<String, String> = files
            .iter()
            .map(|file| (file.id().to_owned(), file.fingerprint()))
            .collect();
        let reviews = self.sessions.get(&open.session()).map(|session| &session.reviews);
        let source = open.source().clone();
        let is_reviewed =
            |file: &ChangedFile| reviews.is_some_and(|reviews| reviews.holds(&source, file.id(), &file.fingerprint()));
        let mut next: Vec<ChangesetFile> = files.iter().map(|file| shown(file, is_reviewed(file))).collect();
        if let (Some(notice), Some(first)) = (notice, next.first_mut()) {
            // The state of a changeset has no place for a remark.
            let meta = first.meta.get_or_insert_default();
            meta.insert(NOTICE.to_owned(), Value::String(notice));
        }
        let operations = shown_operations(&operations, open.state().operations.as_deref().unwrap_or_default());
        let is_first = open.state().status == ChangesetStatus::Computing;
        let actions = difference(&open.state().files, &next);
        let operations_differ = open.state().operations.as_deref() != operations.as_deref();
        if is_first || actions.len() > MAX_SINGLE {
            let content = ChangesetContentChangedAction {
                files: next,
                operations: operations.clone(),
            };
            self.commit(
                cx,
                channel,
                StateAction::ChangesetContentChanged(Box::new(content)),
                None,
            );
        } else {
            for action in actions {
                self.commit(cx, channel, action, None);
            }
        }
        if operations_differ && !(is_first && operations.is_some()) {
            let action = ChangesetOperationsChangedAction { operations };
            self.commit(cx, channel, StateAction::ChangesetOperationsChanged(action), None);
        }
        if let Some(open) = self.parts.changesets.get_mut(channel) {
            open.set_fingerprints(fingerprints);
        }
        self.set_changeset_status(cx, channel, ChangesetStatus::Ready, None);
    }

    fn set_changeset_status(
        &mut self,
        cx: &mut Cx<'_>,
        channel: ChannelId,
        status: ChangesetStatus,
        error: Option<ErrorInfo>,
    ) {
        let open = self.parts.changesets.get(channel);
        if open.is_some_and(|open| open.state().status != status || open.state().error != error) {
            let action = ChangesetStatusChangedAction { status, error };
            self.commit(cx, channel, StateAction::ChangesetStatusChanged(action), None);
        }
    }
}

/// The actions that lead from one list of files to another. The order of files that stay does not change.
fn difference(known: &[ChangesetFile], next: &[ChangesetFile]) -> Vec<StateAction> {
    let by_id: HashMap<&str, &ChangesetFile> = known.iter().map(|file| (file.id.as_str(), file)).collect();
    let ids: HashSet<&str> = next.iter().map(|file| file.id.as_str()).collect();
    let removed = known.iter().filter(|file| !ids.contains(file.id.as_str())).map(|file| {
        StateAction::ChangesetFileRemoved(ChangesetFileRemovedAction {
            file_id: file.id.clone(),
        })
    });
    let changed = next.iter().filter(|file| {
        let is_same = |known: &&ChangesetFile| {
            let reviewed = |file: &ChangesetFile| file.reviewed.unwrap_or_default();
            known.edit == file.edit && known.meta == file.meta && reviewed(known) == reviewed(file)
        };
        by_id.get(file.id.as_str()).is_none_or(|known| !is_same(known))
    });
    let changed = changed.map(|file| StateAction::ChangesetFileSet(ChangesetFileSetAction { file: file.clone() }));
    removed.chain(changed).collect()
}

/// A changed file as clients see it.
fn shown(file: &ChangedFile, is_reviewed: bool) -> ChangesetFile {
    let number = |count: Option<u64>| count.and_then(|count| i64::try_from(count).ok());
    let side = |side: &ChangedSide| FileEditSide {
        uri: side.uri.clone(),
        content: ContentRef {
            uri: side.content.clone(),
            size_hint: number(side.size),
            content_type: None,
            nonce: Some(side.version.clone()),
        },
    };
    let diff = FileEditDiffStats {
        added: number(file.added),
        removed: number(file.removed),
    };
    ChangesetFile {
        id: file.id().to_owned(),
        edit: FileEdit {
            before: file.before.as_ref().map(side),
            after: file.after.as_ref().map(side),
            diff: (diff.added.is_some() || diff.removed.is_some()).then_some(diff),
        },
        reviewed: is_reviewed.then_some(true),
        meta: meta(file),
    }
}

/// In `_meta`: everything that the protocol has no field for.
fn meta(file: &ChangedFile) -> Option<Map<String, Value>> {
    let mut meta = Map::new();
    let mut add = |key: &str, value: Value| drop(meta.insert(format!("innkeeper.{key}"), value));
    for (key, holds) in [
        ("binary", file.note.is_binary),
        ("symlink", file.note.is_symlink),
        ("omitted", file.note.is_omitted),
        ("submodule", file.note.is_submodule),
    ] {
        if holds {
            add(key, Value::Bool(true));
        }
    }
    let mode = |side: &Option<ChangedSide>| side.as_ref().and_then(|side| side.mode.clone());
    let (before, after) = (mode(&file.before), mode(&file.after));
    if file.before.is_some() && file.after.is_some() && before != after {
        add(
            "modes",
            Value::from(vec![before.unwrap_or_default(), after.unwrap_or_default()]),
        );
    }
    (!meta.is_empty()).then_some(meta)
}

/// The offered operations as clients see them. Those that run or failed keep their status (CHG-09).
fn shown_operations(offered: &[OfferedOperation], known: &[ChangesetOperation]) -> Option<Vec<ChangesetOperation>> {
    let shown = offered.iter().map(|offer| {
        let known = known.iter().find(|known| known.id == offer.id);
        let kept = known.filter(|known| {
            let status = &known.status;
            matches!(
                status,
                ChangesetOperationStatus::Running | ChangesetOperationStatus::Error
            )
        });
        let mut description = offer.description.clone();
        let (status, error) = match (kept, &offer.disabled) {
            (Some(known), _) => (known.status.clone(), known.error.clone()),
            (None, Some(reason)) => {
                description = format!("{description}. Not now: {reason}");
                (ChangesetOperationStatus::Disabled, None)
            }
            (None, None) => (ChangesetOperationStatus::Idle, None),
        };
        ChangesetOperation {
            id: offer.id.to_owned(),
            label: offer.label.clone(),
            description: Some(description),
            scopes: offer.scopes.iter().map(scope).collect(),
            confirmation: offer.confirmation.clone().map(StringOrMarkdown::Plain),
            icon: Some(offer.icon.to_owned()),
            group: Some(offer.group.to_owned()),
            status,
            error,
        }
    });
    let shown: Vec<ChangesetOperation> = shown.collect();
    (!shown.is_empty()).then_some(shown)
}

fn scope(scope: &OperationScope) -> ChangesetOperationScope {
    match scope {
        OperationScope::Changeset => ChangesetOperationScope::Changeset,
        OperationScope::Resource => ChangesetOperationScope::Resource,
        OperationScope::Range => ChangesetOperationScope::Range,
    }
}

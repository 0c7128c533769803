//! The window of changed files, and the operations on them.

use ahp_types::common::StringOrMarkdown;
use ahp_types::state::{ChangesetFile, ChangesetOperation, ChangesetOperationScope, ChangesetOperationStatus};
use serde_json::{Value, json};

use super::dialog::{Changes, Confirmed, Dialog, Input, InputPurpose, Item, Picked};
use super::editor::Editor;
use super::pickers::item;
use super::{App, Purpose};
use crate::text::path_of;

/// An operation that the user has chosen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChosenOperation {
    changeset: String,
    id: String,
    label: String,
    /// The only file that it concerns, or none for all of them.
    file: Option<String>,
    /// The question that the host wants answered before.
    question: Option<String>,
}

impl ChosenOperation {
    fn new(changes: &Changes, operation: &ChangesetOperation, file: Option<&ChangesetFile>) -> Self {
        let question = operation.confirmation.as_ref().map(|text| match text {
            StringOrMarkdown::Plain(text) => text.clone(),
            StringOrMarkdown::Markdown { markdown } => markdown.clone(),
        });
        Self {
            changeset: changes.uri.clone(),
            id: operation.id.clone(),
            label: operation.label.clone(),
            file: file.and_then(uri_of),
            question,
        }
    }

    fn name(&self) -> String {
        match &self.file {
            Some(file) => format!("{}: {}", self.label, file_name(file)),
            None => self.label.clone(),
        }
    }
}

/// The file after the change, or before it if the change deletes it.
fn uri_of(file: &ChangesetFile) -> Option<String> {
    let side = file.edit.after.as_ref().or(file.edit.before.as_ref());
    side.map(|side| side.uri.clone())
}

fn file_name(uri: &str) -> String {
    let path = path_of(uri, None);
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

impl App {
    /// Shows the changed files.
    pub(crate) fn open_changes(&mut self) {
        let Some(session) = self.session() else {
            return self.tell("A new session has changed nothing yet.");
        };
        let uri = self.session_uri().unwrap_or_default();
        let mut views: Vec<(String, String)> = session
            .changesets
            .iter()
            .flatten()
            .filter(|changeset| !changeset.uri_template.contains('{'))
            .map(|changeset| (changeset.uri_template.clone(), changeset.label.clone()))
            .collect();
        if views.is_empty() {
            views.push((format!("{uri}/changeset/session"), "Session".to_owned()));
        }
        let uri = views.first().map(|(uri, _)| uri.clone()).unwrap_or_default();
        self.dialog = Some(Dialog::Changes(Changes {
            uri,
            views,
            cursor: 0,
            scroll: 0,
        }));
    }

    /// Opens the list of operations: those on the selected file first, then those on all files.
    pub(super) fn open_operations(&mut self, changes: &Changes) {
        let state = self.mirror.changesets.get(&changes.uri);
        let operations = state.into_iter().flat_map(|state| state.operations.iter().flatten());
        let offered: Vec<&ChangesetOperation> = operations
            .filter(|operation| operation.status != ChangesetOperationStatus::Disabled)
            .collect();
        let selected = state.and_then(|state| state.files.get(changes.cursor));
        let mut items: Vec<Item> = Vec::new();
        for (scope, file) in [
            (ChangesetOperationScope::Resource, selected),
            (ChangesetOperationScope::Changeset, None),
        ] {
            if scope == ChangesetOperationScope::Resource && file.is_none() {
                continue;
            }
            for operation in offered.iter().filter(|operation| operation.scopes.contains(&scope)) {
                let chosen = ChosenOperation::new(changes, operation, file);
                let about = operation.description.clone().unwrap_or_default();
                items.push(item(chosen.name(), about, Picked::Operation(chosen)));
            }
        }
        if items.is_empty() {
            return self.tell("Nothing can be done with these changes.");
        }
        self.pick("Actions on these changes", items, "");
    }

    /// Asks what the operation needs, or runs it if that is nothing.
    pub(super) fn ask_about_operation(&mut self, operation: ChosenOperation) {
        if operation.id == "commit" {
            self.dialog = Some(Dialog::Input(Input {
                title: "Message of the commit".to_owned(),
                editor: Editor::default(),
                purpose: InputPurpose::CommitMessage(operation),
            }));
            return;
        }
        match &operation.question {
            Some(question) => {
                self.dialog = Some(Dialog::Confirm {
                    question: format!("{}. {question}", operation.name()),
                    then: Confirmed::Operation(operation),
                });
            }
            None => self.invoke_operation(operation, None),
        }
    }

    pub(super) fn invoke_operation(&mut self, operation: ChosenOperation, message: Option<String>) {
        let mut params = json!({ "channel": operation.changeset, "operationId": operation.id });
        if let Some(file) = &operation.file {
            params["target"] = json!({ "kind": "resource", "resource": file });
        }
        if let Some(message) = message {
            params["_meta"] = json!({ "message": message });
        }
        self.request(Purpose::Operation(operation.label), "invokeChangesetOperation", params);
    }

    pub(super) fn operation_done(&mut self, label: &str, result: &Value) {
        let message = result["message"]
            .as_str()
            .or_else(|| result["message"]["markdown"].as_str());
        self.tell(message.map_or_else(|| format!("{label}: done."), str::to_owned));
        self.open_changes();
    }

    /// Subscribes to the changes that a window shows or asks about, and to no others.
    pub(super) fn follow_changes(&mut self) {
        let wanted = match &self.dialog {
            Some(Dialog::Changes(changes)) => Some(changes.uri.clone()),
            Some(Dialog::Picker(picker)) => picker.items.iter().find_map(|item| match &item.value {
                Picked::Operation(operation) => Some(operation.changeset.clone()),
                _ => None,
            }),
            Some(Dialog::Input(input)) => match &input.purpose {
                InputPurpose::CommitMessage(operation) => Some(operation.changeset.clone()),
                _ => None,
            },
            Some(Dialog::Confirm {
                then: Confirmed::Operation(operation),
                ..
            }) => Some(operation.changeset.clone()),
            _ => None,
        };
        if wanted == self.followed_changes {
            return;
        }
        if let Some(previous) = std::mem::replace(&mut self.followed_changes, wanted.clone()) {
            self.unsubscribe(&previous);
        }
        if let Some(uri) = wanted {
            self.subscribe(&uri);
        }
    }
}

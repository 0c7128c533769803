//! Changesets and annotations in a run: clients look at views, review files, invoke operations and annotate, and the
//! simulator computes the views. Their channels are mirrored and compared like all others.

use std::collections::{BTreeMap, BTreeSet};

use ahp_types::state::{ChangesetFile, FileEditSide};
use innkeeper_core::changesets::{
    ChangedFile, ChangedSide, ChangesetCommand, ChangesetInput, ComputedChangeset, FileNote, InvokeOperation,
    OfferedOperation, OperationError, OperationOutcome, OperationScope,
};
use innkeeper_core::snapshot::State;
use innkeeper_core::{ChangesCommand, ChannelId, ConnId, PartState, RequestId, uri};
use serde_json::{Map, Value, json};

use crate::sim::client::requests::PendingRequest;
use crate::sim::operations::SESSIONS;
use crate::sim::operations::chats::CHATS;
use crate::sim::operations::dispatches::Draft;
use crate::sim::{Choices, Sim, Violation};

/// How long a host may go on with a view after its last subscriber has left: the time for a client that returns.
const LINGER_MS: u64 = 10_000;
/// The files of all views.
pub(super) const FILES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// The simulator's knowledge of views.
#[derive(Debug, Default)]
pub struct KnownViews {
    /// The views that the host wants to have computed.
    followed: BTreeSet<ChannelId>,
    /// Views of which reports may still be on their way.
    ended: Vec<ChannelId>,
    /// The operations that were not answered.
    invoked: Vec<(ConnId, RequestId, ChannelId, String)>,
    /// The contents that users marked as reviewed, by name of the view and file: the views of a session and of its chats
    /// share their marks.
    reviewed: BTreeMap<(String, String), BTreeSet<String>>,
}

impl KnownViews {
    /// Forgets everything that ended with the host.
    pub fn restart(&mut self) {
        self.followed.clear();
        self.ended.clear();
        self.invoked.clear();
    }

    /// Follows what the core asks for.
    pub fn perform(&mut self, command: ChangesCommand) -> Result<(), Violation> {
        match command {
            ChangesCommand::Follow { channel, .. } => drop(self.followed.insert(channel)),
            ChangesCommand::Unfollow { channel } => {
                self.ended.push(channel);
                // A view of a turn that has not started is not followed.
                self.followed.remove(&channel);
            }
            ChangesCommand::Invoke {
                conn,
                id,
                channel,
                request,
                ..
            } => self.invoked.push((conn, id, channel, request.id)),
            ChangesCommand::Isolate { .. } => {
                return Err(Violation::new("a work tree is wanted, which no client asked for"));
            }
        }
        Ok(())
    }
}

/// Whether a channel is one of views or annotations.
pub fn is_part(channel: &str) -> bool {
    channel.contains("/changeset/") || channel.ends_with("/annotations")
}

impl Sim {
    /// Lets one thing happen that has to do with changes.
    pub(super) fn operate_changes(&mut self, choices: &mut Choices<'_>) -> Result<(), Violation> {
        match choices.below(12) {
            0..=2 => self.with_conn(choices, |sim, conn, choices| {
                let channel = sim.some_part(choices);
                sim.subscribe(conn, channel, choices)
            }),
            3..=5 => self.view_is_computed(choices),
            6 => self.with_conn(choices, Self::invoke_operation),
            7 => self.operation_ends(choices),
            8 => self.with_conn(choices, Self::review),
            _ => self.with_conn(choices, Self::annotate),
        }
    }

    /// A view or the annotations of a session or chat that may or may not exist.
    fn some_part(&self, choices: &mut Choices<'_>) -> String {
        let session = SESSIONS[choices.below(SESSIONS.len())];
        if choices.one_in(3) {
            return format!("{session}/annotations");
        }
        let owner = match choices.below(4) {
            0 => uri::default_chat(session),
            1 => CHATS[choices.below(CHATS.len())].to_owned(),
            _ => session.to_owned(),
        };
        let turn = 1 + choices.below(4);
        let view = match choices.below(6) {
            0 => "session".to_owned(),
            1 => "branch".to_owned(),
            // Some of these turns start later, and some never.
            2 => format!("turn/t{turn}"),
            3 => format!("turns/t1/t{turn}"),
            4 => "no such view".to_owned(),
            _ => "uncommitted".to_owned(),
        };
        format!("{owner}/changeset/{view}")
    }

    /// The views of one connection, or its annotations.
    fn parts_of(&self, conn: ConnId, is_wanted: fn(&str) -> bool) -> Vec<String> {
        let subscribed = self.conns.get(&conn).map(|connection| &connection.host_subscriptions);
        let subscribed = subscribed.into_iter().flatten();
        subscribed.filter(|channel| is_wanted(channel)).cloned().collect()
    }

    /// A view that is followed, or was a moment ago, is computed: it takes a while, fails, or has a result.
    fn view_is_computed(&mut self, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let mut views: Vec<ChannelId> = self.views.followed.iter().copied().collect();
        if choices.one_in(8) {
            views.clone_from(&self.views.ended);
        }
        let Some(channel) = choices.pick(&views).copied() else {
            return Ok(());
        };
        let outcome = match choices.below(8) {
            0 => {
                self.note(|| format!("{channel:?} is computed again"));
                return self.handle(ChangesetInput::Computing { channel }.into());
            }
            1 => Err("git cannot read it".to_owned()),
            _ => Ok(Box::new(computed(choices))),
        };
        self.note(|| format!("{channel:?} is computed: {outcome:?}"));
        self.count("views computed");
        let report = outcome.as_ref().ok().map(|computed| computed.files.clone());
        self.handle(ChangesetInput::Computed { channel, outcome }.into())?;
        match report {
            Some(files) if self.views.followed.contains(&channel) => self.check_report(channel, &files),
            _ => Ok(()),
        }
    }

    /// The state of a view is that of its last report, and a review holds for the reviewed content only (CHG-08, CHG-13).
    fn check_report(&self, channel: ChannelId, reported: &[ChangedFile]) -> Result<(), Violation> {
        let Some(view) = self.core.channel_uri(channel).map(str::to_owned) else {
            return Err(Violation::new(format!("{channel:?} is followed and has no channel")));
        };
        let Some(State::Part(PartState::Changeset(state))) = self.core.snapshot(&view).map(|found| found.state) else {
            return Err(Violation::new(format!("{view} is followed and has no state")));
        };
        let wanted: BTreeMap<&str, String> = reported.iter().map(|file| (file.id(), version_of(file))).collect();
        let shown: BTreeMap<&str, String> = state
            .files
            .iter()
            .map(|file| (file.id.as_str(), shown_version(file)))
            .collect();
        if wanted != shown {
            return Err(Violation::new(format!(
                "{view} differs from its report\n  reported: {wanted:?}\n  shown:    {shown:?}"
            )));
        }
        for file in state.files.iter().filter(|file| file.reviewed == Some(true)) {
            let known = self.views.reviewed.get(&(name_of(&view), file.id.clone()));
            let version = &shown[file.id.as_str()];
            if !known.is_some_and(|known| known.contains(version)) {
                let problem = format!(
                    "{} of {view} shows as reviewed with a content that no user saw (CHG-13)",
                    file.id
                );
                return Err(Violation::new(problem));
            }
        }
        Ok(())
    }

    /// Invokes an operation that the view may or may not have.
    fn invoke_operation(&mut self, conn: ConnId, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let views = self.parts_of(conn, |channel| channel.contains("/changeset/"));
        let Some(channel) = choices.pick(&views).cloned() else {
            return Ok(());
        };
        let offered: Vec<String> = match self.core.snapshot(&channel).map(|found| found.state) {
            Some(State::Part(PartState::Changeset(state))) => {
                let all = state.operations.iter().flatten();
                all.map(|operation| operation.id.clone()).collect()
            }
            _ => Vec::new(),
        };
        let operation = match choices.pick(&offered) {
            Some(offered) if choices.below(4) > 0 => offered.clone(),
            _ => "explode".to_owned(),
        };
        self.note(|| format!("{conn} invokes {operation} on {channel}"));
        self.count("operations invoked");
        let target = choices.one_in(3).then(|| {
            let file = file_uri(FILES[choices.below(FILES.len())]);
            serde_json::from_value(json!({ "kind": "resource", "resource": file })).expect("invariant: a valid target")
        });
        let invoke = InvokeOperation {
            channel,
            operation,
            target,
            values: Map::new(),
        };
        let command = ChangesetCommand::Invoke(Box::new(invoke)).into();
        self.request(conn, PendingRequest::Operation, command)
    }

    /// One operation ends, well or badly. Its client may be gone by then.
    fn operation_ends(&mut self, choices: &mut Choices<'_>) -> Result<(), Violation> {
        if self.views.invoked.is_empty() {
            return Ok(());
        }
        let (conn, id, channel, operation) = self.views.invoked.remove(choices.below(self.views.invoked.len()));
        let outcome = match choices.below(3) {
            0 => Err(OperationError::Conflict("it changed in the meantime".to_owned())),
            _ => Ok(OperationOutcome {
                message: "done".to_owned(),
            }),
        };
        self.note(|| format!("{operation} of {conn} ends: {outcome:?}"));
        let done = ChangesetInput::OperationDone {
            conn,
            id,
            channel,
            operation,
            outcome,
        };
        self.handle(done.into())
    }

    /// Every operation comes to its end before clients are compared with the host.
    pub(super) fn operations_end(&mut self) -> Result<(), Violation> {
        while !self.views.invoked.is_empty() {
            self.operation_ends(&mut Choices::new(&[]))?;
        }
        Ok(())
    }

    /// Marks files of a view as reviewed, or takes that back. Some are not there.
    fn review(&mut self, conn: ConnId, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let views = self.parts_of(conn, |channel| channel.contains("/changeset/"));
        let Some(view) = choices.pick(&views).cloned() else {
            return Ok(());
        };
        let files = [FILES[choices.below(FILES.len())], FILES[choices.below(FILES.len())]].map(file_uri);
        let reviewed = choices.below(3) > 0;
        if reviewed {
            self.note_review(&view, &files);
        }
        self.count("reviews");
        let action = json!({ "type": "changeset/filesReviewChanged", "files": files, "reviewed": reviewed });
        self.send_dispatch(conn, Draft::fair(view, action))
    }

    /// A client is about to mark these files as reviewed, with the content that they have now.
    pub(super) fn note_review(&mut self, view: &str, files: &[String]) {
        let Some(State::Part(PartState::Changeset(state))) = self.core.snapshot(view).map(|found| found.state) else {
            return;
        };
        let seen = state.files.iter().filter(|file| files.contains(&file.id));
        for file in seen {
            let known = self.views.reviewed.entry((name_of(view), file.id.clone()));
            known.or_default().insert(shown_version(file));
        }
    }

    /// Writes, changes or removes an annotation; some of it breaks a rule.
    fn annotate(&mut self, conn: ConnId, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let channels = self.parts_of(conn, |channel| channel.ends_with("/annotations"));
        let Some(channel) = choices.pick(&channels).cloned() else {
            return Ok(());
        };
        let session = channel.trim_end_matches("/annotations");
        let (id, entry) = (format!("a{}", choices.below(3)), format!("e{}", choices.below(3)));
        self.count("annotations");
        let text = |choices: &mut Choices<'_>| format!("remark {}", choices.below(3));
        let draft = match choices.below(9) {
            0..=2 => Draft::fair(&channel, set(session, &id, &entry, &text(choices))),
            3 => {
                let resolved = choices.below(2) == 0;
                Draft::fair(
                    &channel,
                    json!({ "type": "annotations/updated", "annotationId": id, "resolved": resolved }),
                )
            }
            4 | 5 => {
                let entry = json!({ "id": entry, "text": text(choices) });
                Draft::fair(
                    &channel,
                    json!({ "type": "annotations/entrySet", "annotationId": id, "entry": entry }),
                )
            }
            6 => Draft::fair(
                &channel,
                json!({ "type": "annotations/entryRemoved", "annotationId": id, "entryId": entry }),
            ),
            7 => Draft::fair(&channel, json!({ "type": "annotations/removed", "annotationId": id })),
            _ => {
                let mut action = set(session, &id, &entry, "broken");
                match choices.below(3) {
                    0 => action["annotation"]["entries"] = json!([]),
                    1 => action["annotation"]["origin"]["session"] = json!("ahp-session:/never-created"),
                    _ => {
                        action["annotation"]["range"] =
                            json!({ "start": { "line": 2, "character": 0 }, "end": { "line": 1, "character": 0 } })
                    }
                }
                Draft::hopeless(&channel, action)
            }
        };
        self.send_dispatch(conn, draft)
    }

    /// The counts in a session's state are those of its annotations, and no annotation is empty (ANN-02, ANN-07).
    pub(super) fn check_annotations(&self, session: &str) -> Result<(), Violation> {
        let channel = format!("{session}/annotations");
        let Some(State::Part(PartState::Annotations(state))) = self.core.snapshot(&channel).map(|found| found.state)
        else {
            return Ok(());
        };
        let entries: usize = state
            .annotations
            .iter()
            .map(|annotation| annotation.entries.len())
            .sum();
        if state.annotations.iter().any(|annotation| annotation.entries.is_empty()) {
            return Err(Violation::new(format!(
                "{channel} has an annotation without entries (ANN-02)"
            )));
        }
        let counts = self.host_session(session).and_then(|state| state.annotations.clone());
        let counted = counts.map(|counts| (counts.annotation_count, counts.entry_count));
        let expected = i64::try_from(state.annotations.len())
            .ok()
            .zip(i64::try_from(entries).ok());
        match counted == expected {
            true => Ok(()),
            false => Err(Violation::new(format!(
                "{session} counts {counted:?} annotations and entries, not {expected:?} (ANN-07)"
            ))),
        }
    }

    /// Nothing is computed after all clients have left for good.
    pub(super) fn check_nothing_followed(&mut self) -> Result<(), Violation> {
        self.operations_end()?;
        self.advance(LINGER_MS.max(self.grace_ms) + 1)?;
        match self.views.followed.first() {
            None => Ok(()),
            Some(view) => Err(Violation::new(format!("{view:?} is computed for no client"))),
        }
    }
}

pub(super) fn file_uri(name: &str) -> String {
    format!("{}/{name}", super::operations::DIRECTORY)
}

/// The name of a view without its session or chat.
fn name_of(view: &str) -> String {
    let name = view.split_once("/changeset/").map(|(_, name)| name);
    name.unwrap_or_default().to_owned()
}

fn shown_version(file: &ChangesetFile) -> String {
    let version = |side: &Option<FileEditSide>| side.as_ref().and_then(|side| side.content.nonce.clone());
    let [before, after] = [&file.edit.before, &file.edit.after].map(|side| version(side).unwrap_or_default());
    format!("{before}>{after}")
}

fn version_of(file: &ChangedFile) -> String {
    let version = |side: &Option<ChangedSide>| side.as_ref().map(|side| side.version.clone()).unwrap_or_default();
    format!("{}>{}", version(&file.before), version(&file.after))
}

/// A changeset of some of the files, with few versions, so that some repeat.
fn computed(choices: &mut Choices<'_>) -> ComputedChangeset {
    let mut files = Vec::new();
    for name in FILES {
        let side = |version: usize| ChangedSide {
            uri: file_uri(name),
            content: format!("innkeeper-content://v{version}/{name}"),
            size: None,
            version: format!("v{version}"),
            mode: None,
        };
        let (before, after) = match choices.below(5) {
            0 | 1 => continue,
            2 => (None, Some(side(choices.below(3)))),
            3 => (Some(side(0)), None),
            _ => (Some(side(0)), Some(side(1 + choices.below(3)))),
        };
        files.push(ChangedFile {
            before,
            after,
            added: Some(1),
            removed: None,
            note: FileNote::default(),
        });
    }
    let operation = |id, disabled: bool| OfferedOperation {
        id,
        label: id.to_owned(),
        description: id.to_owned(),
        scopes: &[OperationScope::Changeset, OperationScope::Resource],
        confirmation: None,
        icon: "discard",
        group: "revert",
        disabled: disabled.then(|| "nothing has changed".to_owned()),
    };
    let operations = match choices.below(4) {
        0 => Vec::new(),
        1 => vec![operation("discard", true)],
        2 => vec![operation("discard", false), operation("commit", false)],
        _ => vec![operation("discard", false)],
    };
    ComputedChangeset {
        files,
        operations,
        notice: None,
    }
}

fn set(session: &str, id: &str, entry: &str, text: &str) -> Value {
    let annotation = json!({
        "id": id,
        "origin": { "session": session },
        "resource": file_uri("a"),
        "resolved": false,
        "entries": [{ "id": entry, "text": text }],
    });
    json!({ "type": "annotations/set", "annotation": annotation })
}

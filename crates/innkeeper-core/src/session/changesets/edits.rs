//! The files that tools of a session changed, and where their former contents are. Outside of repositories, this is
//! all that is known about changes. In repositories, changes are counted on disk after each turn and operation.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ahp_types::state::{ChangesSummary, FileEditDiffStats, ToolResultContent};
use serde::{Deserialize, Serialize};

use super::{CountedChanges, RecordedEdit};
use crate::core::{Cx, Host, never};
use crate::ids::ChannelId;

/// Most edits that are remembered. The oldest are forgotten.
const MAX_EDITS: usize = 5000;

/// The edits of a session, oldest first: one for each turn and file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SessionEdits {
    edits: Arc<Vec<RecordedEdit>>,
}

impl SessionEdits {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    pub(super) fn shared(&self) -> Arc<[RecordedEdit]> {
        self.edits.as_slice().into()
    }

    /// Adds an edit, unless the turn has changed the file before: the first content counts.
    fn add(&mut self, edit: RecordedEdit) -> bool {
        let is_same = |known: &RecordedEdit| known.turn == edit.turn && known.file == edit.file;
        if self.edits.iter().any(is_same) {
            return false;
        }
        let edits = Arc::make_mut(&mut self.edits);
        edits.push(edit);
        if edits.len() > MAX_EDITS {
            edits.remove(0);
        }
        true
    }
}

impl Host {
    /// Records the files that a tool call changed, before its completion is published: the entry of the chat in the
    /// session's catalogue, which follows the completion, counts them.
    pub(crate) fn record_edits(
        &mut self,
        cx: &mut Cx<'_>,
        chat_id: ChannelId,
        turn_id: &str,
        content: &[ToolResultContent],
    ) {
        if !self.config.serves_changes {
            return;
        }
        self.add_edits(cx, chat_id, turn_id, content);
        // The files at the start of the turn are recorded by now.
        self.follow_awaited_turns(cx, chat_id);
    }

    fn add_edits(&mut self, cx: &mut Cx<'_>, chat_id: ChannelId, turn_id: &str, content: &[ToolResultContent]) {
        let edits = content.iter().filter_map(|content| match content {
            ToolResultContent::FileEdit(edit) => Some(edit),
            _ => None,
        });
        let lines = |count: fn(&FileEditDiffStats) -> Option<i64>| -> i64 {
            let counts = edits.clone().filter_map(|edit| count(edit.diff.as_ref()?));
            counts.fold(0, i64::saturating_add)
        };
        let (added, removed) = (lines(|diff| diff.added), lines(|diff| diff.removed));
        let edits = edits.flat_map(|edit| {
            let (before, after) = (edit.before.as_ref(), edit.after.as_ref());
            let record = |file: &str, before: Option<&str>| RecordedEdit {
                turn: turn_id.to_owned(),
                file: file.to_owned(),
                before: before.map(str::to_owned),
            };
            let left = before.map(|side| record(&side.uri, Some(&side.content.uri)));
            // A new file, or a file that was moved there.
            let is_new = before.is_none_or(|before| after.is_some_and(|after| after.uri != before.uri));
            let came = after.filter(|_| is_new).map(|side| record(&side.uri, None));
            left.into_iter().chain(came)
        });
        let edits: Vec<RecordedEdit> = edits.collect();
        let session_id = self.chats.get(&chat_id).map(|chat| chat.session);
        let Some(session_id) = session_id.filter(|_| !edits.is_empty()) else {
            // Most calls change no files.
            return;
        };
        if let Some(session) = self.sessions.get_mut(&session_id) {
            let mut is_changed = false;
            for edit in edits {
                is_changed |= session.edits.add(edit);
            }
            if is_changed {
                self.mark_dirty(session_id);
            }
            self.count_changes(session_id, chat_id, added, removed);
            self.refresh_changesets(cx, session_id);
        }
    }

    /// Adds the lines that a tool call changed to the summary of a chat. The entry in the session's catalogue follows; no
    /// action carries the field of the chat's own state (E-08).
    fn count_changes(&mut self, session_id: ChannelId, chat_id: ChannelId, added: i64, removed: i64) {
        let (Some(session), Some(chat)) = (self.sessions.get(&session_id), self.chats.get_mut(&chat_id)) else {
            return never!("the session and its chat are in memory");
        };
        let mut turns: HashMap<&str, bool> = HashMap::new();
        let mut files: HashSet<&str> = HashSet::new();
        for edit in session.edits.edits.iter() {
            let model = &chat.model;
            if *turns.entry(&edit.turn).or_insert_with(|| model.knows_turn(&edit.turn)) {
                files.insert(&edit.file);
            }
        }
        let known = chat.model.head().changes.clone().unwrap_or_default();
        let sum = |known: Option<i64>, more: i64| Some(known.unwrap_or_default().saturating_add(more));
        let changes = ChangesSummary {
            additions: sum(known.additions, added),
            deletions: sum(known.deletions, removed),
            files: i64::try_from(files.len()).ok(),
        };
        chat.model.edit(|head| head.changes = Some(changes));
        self.mark_dirty(chat_id);
        // Until they are counted at the end of the turn.
        if let Some(session) = self.sessions.get_mut(&session_id)
            && let Some(counted) = &mut session.counted
        {
            counted.additions = sum(counted.additions, added);
            counted.deletions = sum(counted.deletions, removed);
        }
    }

    /// The changes of a session were counted on disk. They take the place of the sums of what tools reported. A chat
    /// that shares its session with others keeps its own sums, because files do not tell which chat changed them.
    pub(super) fn changes_counted(&mut self, cx: &mut Cx<'_>, session: &str, counted: CountedChanges) {
        let number = |count: u64| i64::try_from(count).ok();
        let changes = ChangesSummary {
            files: number(counted.files),
            additions: number(counted.additions),
            deletions: number(counted.deletions),
        };
        let found = self.channels.find(session);
        let found = found.and_then(|id| Some((id, self.sessions.get_mut(&id)?)));
        let Some((session_id, session)) = found else {
            // It was deleted while its files were counted.
            return;
        };
        let only = match session.chats.as_slice() {
            [only] => Some(*only),
            _ => None,
        };
        session.counted = Some(changes.clone());
        self.mark_dirty(session_id);
        self.touched.note_session(session_id);
        if let Some((chat_id, chat)) = only.and_then(|id| Some((id, self.chats.get_mut(&id)?))) {
            chat.model.edit(|head| head.changes = Some(changes));
            self.mark_dirty(chat_id);
            self.sync_catalogue_entry(cx, chat_id);
        }
    }
}

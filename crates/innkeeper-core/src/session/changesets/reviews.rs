//! Review marks: which files a user has looked at, and at which content (CHG-12, CHG-13).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ahp::reducers::ReduceOutcome;
use ahp_types::actions::StateAction;
use serde::{Deserialize, Serialize};

use super::ChangesetSource;
use crate::core::{Cx, Host, never};
use crate::dispatch::{Dispatched, Verdict};
use crate::ids::ChannelId;

/// Most marks of a session. The oldest views lose theirs first.
const MAX_MARKS: usize = 20_000;

/// The marks of a session, by view and file: the content that was looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Reviews {
    views: Arc<BTreeMap<String, BTreeMap<String, String>>>,
}

impl Reviews {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    /// Whether a file was reviewed with this content.
    pub(super) fn holds(&self, source: &ChangesetSource, file: &str, fingerprint: &str) -> bool {
        let marks = self.views.get(&key(source));
        marks
            .and_then(|marks| marks.get(file))
            .is_some_and(|known| known == fingerprint)
    }

    fn set(&mut self, source: &ChangesetSource, file: &str, fingerprint: Option<&str>) {
        let views = Arc::make_mut(&mut self.views);
        let marks = views.entry(key(source)).or_default();
        match fingerprint {
            Some(fingerprint) => drop(marks.insert(file.to_owned(), fingerprint.to_owned())),
            None => drop(marks.remove(file)),
        }
        views.retain(|_, marks| !marks.is_empty());
        while views.values().map(BTreeMap::len).sum::<usize>() > MAX_MARKS {
            views.pop_first();
        }
    }
}

fn key(source: &ChangesetSource) -> String {
    match source {
        ChangesetSource::Uncommitted => "uncommitted".to_owned(),
        ChangesetSource::Session => "session".to_owned(),
        ChangesetSource::Branch => "branch".to_owned(),
        ChangesetSource::Turn { turn } => format!("turn/{turn}"),
        ChangesetSource::Turns { original, modified } => format!("turns/{original}/{modified}"),
    }
}

impl Host {
    /// Checks a review: every view takes them. Ids of files that are not there are ignored by the reducer.
    pub(super) fn check_review(&self, channel: ChannelId, action: StateAction) -> Verdict {
        let is_open = self.parts.changesets.get(channel).is_some();
        match (&action, is_open) {
            (StateAction::ChangesetFilesReviewChanged(_), true) => Verdict::Accept(action),
            _ => Verdict::Reject("clients may not send this to a changeset".to_owned()),
        }
    }

    /// Publishes a review and remembers the content that it is about.
    pub(super) fn apply_review(&mut self, cx: &mut Cx<'_>, by: &Dispatched, action: StateAction) {
        let StateAction::ChangesetFilesReviewChanged(changed) = action.clone() else {
            return never!("other actions are rejected");
        };
        if self.commit_dispatched(cx, by, action) != ReduceOutcome::Applied {
            // Nothing changed.
            return;
        }
        let Some(open) = self.parts.changesets.get(by.channel) else {
            return never!("the view is open");
        };
        let ids: BTreeSet<&String> = changed.files.iter().collect();
        let shown = ids
            .into_iter()
            .filter_map(|id| Some((id.clone(), open.fingerprint(id)?)));
        let marked: Vec<(String, Option<String>)> = shown
            .map(|(id, fingerprint)| (id, changed.reviewed.then(|| fingerprint.to_owned())))
            .collect();
        let (session_id, source) = (open.session(), open.source().clone());
        if let Some(session) = self.sessions.get_mut(&session_id) {
            for (id, fingerprint) in marked {
                session.reviews.set(&source, &id, fingerprint.as_deref());
            }
            self.mark_dirty(session_id);
        }
    }
}

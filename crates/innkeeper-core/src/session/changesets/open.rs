//! The open views: one per channel of a changeset.

use std::collections::HashMap;
use std::sync::Arc;

use ahp::reducers::{ReduceOutcome, apply_action_to_changeset};
use ahp_types::actions::StateAction;
use ahp_types::state::{ChangesetState, ChangesetStatus};

use super::ChangesetSource;
use crate::ids::{ChannelId, IdMap};

/// All open views.
#[derive(Debug, Default)]
pub(crate) struct Changesets {
    open: IdMap<ChannelId, OpenChangeset>,
    /// Whether directories of a session or chat may have changed.
    in_doubt: bool,
}

/// One open view.
#[derive(Debug)]
pub(super) struct OpenChangeset {
    session: ChannelId,
    /// The chat whose directories are shown, if it is not the whole session.
    chat: Option<ChannelId>,
    source: ChangesetSource,
    /// The directories of the last follow.
    directories: Vec<String>,
    state: Arc<ChangesetState>,
    /// Whether it shows a turn that has not started.
    awaits_turn: bool,
    /// Identifies the content of each file, by id: a review holds while it is the same.
    fingerprints: HashMap<String, String>,
}

impl Changesets {
    pub(super) fn get(&self, channel: ChannelId) -> Option<&OpenChangeset> {
        self.open.get(&channel)
    }

    pub(super) fn get_mut(&mut self, channel: ChannelId) -> Option<&mut OpenChangeset> {
        self.open.get_mut(&channel)
    }

    pub(super) fn insert(&mut self, channel: ChannelId, view: OpenChangeset) {
        self.open.insert(channel, view);
    }

    /// Removes a view. Returns true if it was open.
    pub(super) fn remove(&mut self, channel: ChannelId) -> bool {
        self.open.remove(&channel).is_some()
    }

    /// Returns the channels of all views that a condition allows, the oldest first.
    pub(super) fn sorted(&self, filter: impl Fn(&OpenChangeset) -> bool) -> Vec<ChannelId> {
        let found = self.open.iter().filter(|(_, open)| filter(open)).map(|(id, _)| *id);
        let mut found: Vec<ChannelId> = found.collect();
        found.sort_unstable();
        found
    }

    /// Notes that directories of a session or chat may have changed: views are compared at the end of the input.
    pub(crate) fn recheck(&mut self) {
        self.in_doubt = true;
    }

    /// Returns true if directories may have changed since the last call.
    pub(super) fn take_doubt(&mut self) -> bool {
        std::mem::take(&mut self.in_doubt)
    }

    /// Applies an action to the state of a view.
    pub(super) fn apply_action(&mut self, channel: ChannelId, action: &StateAction) -> ReduceOutcome {
        match self.open.get_mut(&channel) {
            Some(open) => apply_action_to_changeset(Arc::make_mut(&mut open.state), action),
            None => ReduceOutcome::NoOp,
        }
    }
}

impl OpenChangeset {
    /// A view without files. One that awaits its turn is ready, because there is nothing to compute.
    pub(super) fn new(session: ChannelId, chat: Option<ChannelId>, source: ChangesetSource, awaits_turn: bool) -> Self {
        let status = match awaits_turn {
            true => ChangesetStatus::Ready,
            false => ChangesetStatus::Computing,
        };
        let state = ChangesetState {
            status,
            error: None,
            files: Vec::new(),
            operations: None,
        };
        Self {
            session,
            chat,
            source,
            directories: Vec::new(),
            state: Arc::new(state),
            awaits_turn,
            fingerprints: HashMap::new(),
        }
    }

    pub(super) fn session(&self) -> ChannelId {
        self.session
    }

    pub(super) fn chat(&self) -> Option<ChannelId> {
        self.chat
    }

    pub(super) fn source(&self) -> &ChangesetSource {
        &self.source
    }

    pub(super) fn state(&self) -> &Arc<ChangesetState> {
        &self.state
    }

    pub(super) fn awaits_turn(&self) -> bool {
        self.awaits_turn
    }

    /// Returns true if it is computed for these directories.
    pub(super) fn shows(&self, directories: &[String]) -> bool {
        self.directories == directories
    }

    /// Notes that it is computed from now on, for these directories.
    pub(super) fn follow(&mut self, directories: &[String]) {
        self.directories = directories.to_vec();
        self.awaits_turn = false;
    }

    /// Moves it to another session, with its chat.
    pub(super) fn move_to(&mut self, session: ChannelId) {
        self.session = session;
    }

    /// Stores the fingerprints of the shown files.
    pub(super) fn set_fingerprints(&mut self, fingerprints: HashMap<String, String>) {
        self.fingerprints = fingerprints;
    }

    /// Returns the fingerprint of a shown file.
    pub(super) fn fingerprint(&self, file: &str) -> Option<&str> {
        self.fingerprints.get(file).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: ChannelId = ChannelId(1);
    const CHAT: ChannelId = ChannelId(2);

    fn view(awaits_turn: bool) -> OpenChangeset {
        OpenChangeset::new(SESSION, Some(CHAT), ChangesetSource::Session, awaits_turn)
    }

    #[test]
    fn a_view_of_a_turn_that_has_not_started_is_ready_until_it_is_followed() {
        let mut view = view(true);
        assert!(view.awaits_turn() && view.state().status == ChangesetStatus::Ready);
        let directories = ["file:///a".to_owned()];
        assert!(!view.shows(&directories));
        view.follow(&directories);
        assert!(!view.awaits_turn() && view.shows(&directories));
        assert!(!view.shows(&[]));
    }

    #[test]
    fn views_are_found_by_their_session_and_move_with_their_chat() {
        let mut views = Changesets::default();
        for channel in [9, 4] {
            views.insert(ChannelId(channel), view(false));
        }
        let of = |views: &Changesets, session| views.sorted(|open| open.session() == session);
        assert_eq!(of(&views, SESSION), [ChannelId(4), ChannelId(9)]);
        let target = ChannelId(3);
        views.get_mut(ChannelId(9)).expect("open").move_to(target);
        assert_eq!(
            (of(&views, SESSION), of(&views, target)),
            (vec![ChannelId(4)], vec![ChannelId(9)])
        );
        assert!(views.remove(ChannelId(9)) && !views.remove(ChannelId(9)));
        assert_eq!(of(&views, target), []);
    }

    #[test]
    fn directories_are_in_doubt_once_per_change() {
        let mut views = Changesets::default();
        assert!(!views.take_doubt());
        views.recheck();
        views.recheck();
        assert!(views.take_doubt());
        assert!(!views.take_doubt());
    }

    #[test]
    fn a_fingerprint_is_that_of_the_latest_report() {
        let mut view = view(false);
        view.set_fingerprints(HashMap::from([("a".to_owned(), "1".to_owned())]));
        assert_eq!(view.fingerprint("a"), Some("1"));
        view.set_fingerprints(HashMap::from([("b".to_owned(), "2".to_owned())]));
        assert_eq!((view.fingerprint("a"), view.fingerprint("b")), (None, Some("2")));
    }
}

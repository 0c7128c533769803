//! Sessions in memory, which of them are drafts, and how many the host has.

use std::collections::BTreeSet;

use crate::ids::{ChannelId, IdMap};
use crate::session::Session;

/// All sessions in memory.
///
/// Invariant: exactly the sessions with `is_draft` are in the set of drafts, and they are not counted as listed.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    by_id: IdMap<ChannelId, Session>,
    /// Sessions in which no user has written yet. They are always in memory.
    drafts: BTreeSet<ChannelId>,
    /// Number of sessions that lists show, in memory or not.
    listed: usize,
    /// Drafts that the present input turned into listed sessions.
    newly_listed: Vec<ChannelId>,
    /// Whether a draft may have lost its last subscriber.
    has_released_drafts: bool,
}

impl Sessions {
    pub(crate) fn get(&self, session: &ChannelId) -> Option<&Session> {
        self.by_id.get(session)
    }

    pub(crate) fn get_mut(&mut self, session: &ChannelId) -> Option<&mut Session> {
        self.by_id.get_mut(session)
    }

    pub(crate) fn contains_key(&self, session: &ChannelId) -> bool {
        self.by_id.contains_key(session)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ChannelId, &Session)> {
        self.by_id.iter()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &ChannelId> {
        self.by_id.keys()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Session> {
        self.by_id.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Takes a session into memory. It is not counted as listed: a new one is a draft, and a stored one is counted
    /// already.
    pub(crate) fn insert(&mut self, id: ChannelId, session: Session) {
        if session.is_draft {
            self.drafts.insert(id);
            self.has_released_drafts = true;
        }
        self.by_id.insert(id, session);
    }

    /// Takes a session out of memory that stays in the store.
    pub(crate) fn evict(&mut self, session: &ChannelId) -> Option<Session> {
        self.drafts.remove(session);
        self.by_id.remove(session)
    }

    /// Removes a session from memory.
    pub(crate) fn remove(&mut self, session: &ChannelId) -> Option<Session> {
        let removed = self.by_id.remove(session)?;
        if !self.drafts.remove(session) {
            self.remove_listed();
        }
        Some(removed)
    }

    /// Number of sessions that lists show, in memory or not.
    pub(crate) fn listed(&self) -> usize {
        self.listed
    }

    /// Number of sessions of the host, drafts included.
    pub(crate) fn total(&self) -> usize {
        self.listed + self.drafts.len()
    }

    /// Starts with so many stored sessions.
    pub(crate) fn set_listed(&mut self, listed: usize) {
        self.listed = listed;
    }

    /// Counts a session that never was a draft.
    pub(crate) fn add_listed(&mut self) {
        self.listed += 1;
    }

    /// Counts one listed session less: it was removed, and was not in memory.
    pub(crate) fn remove_listed(&mut self) {
        self.listed = self.listed.saturating_sub(1);
    }

    pub(crate) fn is_draft(&self, session: &ChannelId) -> bool {
        self.drafts.contains(session)
    }

    pub(crate) fn has_drafts(&self) -> bool {
        !self.drafts.is_empty()
    }

    pub(crate) fn drafts(&self) -> impl Iterator<Item = ChannelId> {
        self.drafts.iter().copied()
    }

    /// Makes a listed session of a draft. Returns whether it was one.
    pub(crate) fn end_draft(&mut self, id: ChannelId) -> bool {
        if !self.drafts.remove(&id) {
            return false;
        }
        let Some(session) = self.by_id.get_mut(&id) else {
            return false;
        };
        session.is_draft = false;
        session.draft_ends_ms = None;
        self.listed += 1;
        self.newly_listed.push(id);
        true
    }

    /// The drafts that became listed sessions since the last call.
    pub(crate) fn take_newly_listed(&mut self) -> Vec<ChannelId> {
        std::mem::take(&mut self.newly_listed)
    }

    /// Notes that a draft may have lost its last subscriber.
    pub(crate) fn note_released_drafts(&mut self) {
        self.has_released_drafts = true;
    }

    /// Whether a draft may have lost its last subscriber since the last call.
    pub(crate) fn take_released_drafts(&mut self) -> bool {
        std::mem::take(&mut self.has_released_drafts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::create::new_session;
    use crate::time::Now;

    fn session(is_draft: bool) -> Session {
        let now = Now {
            mono_ms: 0,
            wall: jiff::Timestamp::UNIX_EPOCH,
        };
        let state = new_session("agent", "ahp-session:/s");
        let mut session = Session::new("ahp-session:/s", state, [].into(), now);
        session.is_draft = is_draft;
        session
    }

    #[test]
    fn ses34_a_draft_is_counted_when_it_ends_and_once() {
        let mut sessions = Sessions::default();
        let id = ChannelId(1);
        sessions.insert(id, session(true));
        assert_eq!((sessions.listed(), sessions.total()), (0, 1));
        assert!(sessions.is_draft(&id) && sessions.take_released_drafts());
        assert!(sessions.end_draft(id));
        assert!(!sessions.end_draft(id), "it is none any more");
        assert_eq!((sessions.listed(), sessions.total()), (1, 1));
        assert_eq!(sessions.take_newly_listed(), [id]);
        assert!(sessions.remove(&id).is_some());
        assert_eq!(sessions.total(), 0);
    }

    #[test]
    fn a_session_that_leaves_memory_is_still_counted() {
        let mut sessions = Sessions::default();
        sessions.set_listed(2);
        sessions.insert(ChannelId(1), session(false));
        assert!(sessions.evict(&ChannelId(1)).is_some());
        assert_eq!(sessions.listed(), 2);
        assert!(sessions.remove(&ChannelId(1)).is_none());
        assert_eq!(sessions.listed(), 2, "it was not in memory");
    }
}

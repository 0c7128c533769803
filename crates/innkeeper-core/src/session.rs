//! Sessions: their state, the catalogue of their chats, and the values derived from both.

use std::collections::BTreeMap;
use std::sync::Arc;

use ahp::reducers::{ReduceOutcome, apply_action_to_session};
use ahp_types::actions::{
    PartialChatSummary, SessionActivityChangedAction, SessionChatAddedAction, SessionChatUpdatedAction, StateAction,
};
use ahp_types::state::{
    ChangesSummary, ChatOrigin, ChatState, ChatSummary, SessionChatSummary, SessionLifecycle, SessionState,
    SessionStatus, SessionSummary,
};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::agent::Setting;
use crate::customization::CustomizationState;
use crate::ids::{ChannelId, ClientId, ConnId, Seq};
use crate::mcp::SessionServers;
use crate::protocol::dialect::extension::OptIns;
use crate::session::choice::WaitingChoice;
use crate::storage::records::document::SessionDocument;
use crate::time::Now;
use changesets::{Reviews, SessionEdits};

pub(crate) mod annotations;
pub mod changesets;
pub(crate) mod choice;
pub(crate) mod configure;
pub(crate) mod create;
mod dispose;
pub(crate) mod drafts;
mod fork;
pub(crate) mod input_needed;
pub(crate) mod isolation;
pub mod repository;
pub(crate) mod root;
pub(crate) mod sessions;
pub(crate) mod settings;
mod summary;
pub(crate) mod working_directories;

/// Bits 0 to 4 of a status are one activity value, never a combination (E-26).
const ACTIVITY_BITS: u32 = 0b1_1111;
/// The title of a session without a name.
pub const UNTITLED: &str = "New session";

/// One session.
///
/// Fields that an invariant names are private to this folder: whether it is a draft, when it changed, and what was
/// announced.
#[derive(Debug)]
pub(crate) struct Session {
    /// Its URI.
    pub uri: Arc<str>,
    /// Its state.
    pub state: Arc<SessionState>,
    /// The sections that its active clients offer to rewrite, which the state cannot hold (SMT-17).
    pub opt_ins: Arc<OptIns>,
    /// The state of its customizations in addition to the list in its state.
    pub customization: CustomizationState,
    /// Its settings, in the order clients show them: as they were when the session was created, even if its agent
    /// offers others now.
    pub settings: Arc<[Setting]>,
    /// When it was created, RFC 3339.
    created_at: String,
    /// Its chats, in catalogue order.
    pub chats: Vec<ChannelId>,
    /// The summary that root subscribers know; changes are announced against it.
    announced: Option<SessionSummary>,
    /// Source of its title.
    pub titled_by: TitleSource,
    /// Whether an announcement of changes is already due.
    summary_due: bool,
    /// Whether its agent is about to be asked which tools it offers.
    tools_due: bool,
    /// The clients whose unchanged announcement was acknowledged, and the sequence number at that time. A later
    /// action of the session voids the entry. See [`crate::dispatch`] for the reason.
    acknowledged: BTreeMap<ClientId, Seq>,
    /// [`Self::modified_at`] as a number.
    modified_ms: i64,
    /// The same, for ordering. While the session is in memory it rises with every change, although the clock may go
    /// back (F8): otherwise a client that reads a list page by page would get the session twice.
    order_ms: i64,
    /// The connection that gets reports about its creation.
    progress: Option<Progress>,
    /// When it last had a subscriber or a change, on the monotonic clock.
    used_ms: u64,
    /// The client that created it, while the session is in memory: its tokens serve clients without tokens of their
    /// own (AUTH-07).
    creator: Option<ClientId>,
    /// Its MCP servers.
    pub mcp: SessionServers,
    /// Whether no user has written in it yet; see [`crate::session::drafts`].
    is_draft: bool,
    /// Whether it or one of its chats has had a subscriber in this run of the host.
    was_heard: bool,
    /// When it is deleted unless it gets a subscriber, if it is a draft that nothing holds.
    draft_ends_ms: Option<u64>,
    /// The directory whose repository is followed.
    repository: Option<String>,
    /// Choices of older clients that wait for the end of a turn.
    waiting_choices: Vec<WaitingChoice>,
    /// The files that its tools changed.
    pub(crate) edits: SessionEdits,
    /// The files that users have reviewed.
    pub(crate) reviews: Reviews,
    /// Its changes on disk, if they were counted.
    pub(crate) counted: Option<ChangesSummary>,
}

/// The request for reports about a session's creation, and the last report (ROOT-17).
#[derive(Debug)]
pub struct Progress {
    /// The connection that created the session.
    pub conn: ConnId,
    /// The token it chose.
    pub token: String,
    /// The progress that was last reported.
    pub done: u64,
    /// Whether anything was reported.
    pub reported: bool,
}

/// The source of a title; each may replace the ones before it in this list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TitleSource {
    /// It has none. Stored as `Nobody`.
    #[serde(rename = "Nobody")]
    None,
    /// The first message.
    Message,
    /// Its agent.
    Agent,
    /// A user. Stored as `Person`.
    #[serde(rename = "Person")]
    User,
}

impl Session {
    /// A session that has not been announced yet.
    pub fn new(uri: &str, mut state: SessionState, settings: Arc<[Setting]>, now: Now) -> Self {
        // Every session has a channel for annotations (ANN-07).
        state.annotations = Some(annotations::summary_of(uri, &[]));
        Self {
            uri: uri.into(),
            state: Arc::new(state),
            opt_ins: Arc::default(),
            customization: CustomizationState::default(),
            settings,
            created_at: now.rfc3339(),
            chats: Vec::new(),
            announced: None,
            titled_by: TitleSource::None,
            summary_due: false,
            tools_due: false,
            acknowledged: BTreeMap::new(),
            modified_ms: now.wall.as_millisecond(),
            order_ms: now.wall.as_millisecond(),
            progress: None,
            used_ms: now.mono_ms,
            creator: None,
            mcp: SessionServers::default(),
            is_draft: false,
            was_heard: false,
            draft_ends_ms: None,
            repository: None,
            waiting_choices: Vec::new(),
            edits: SessionEdits::default(),
            reviews: Reviews::default(),
            counted: None,
        }
    }

    /// A session that comes back from the store.
    pub(crate) fn restored(uri: &str, mut document: SessionDocument, now: Now) -> Self {
        if document.state.annotations.is_none() {
            let state = Arc::make_mut(&mut document.state);
            state.annotations = Some(annotations::summary_of(uri, &[]));
        }
        Self {
            uri: uri.into(),
            state: document.state,
            opt_ins: document.opt_ins,
            customization: CustomizationState::with(document.decisions),
            settings: document.settings,
            created_at: document.created_at,
            chats: Vec::new(),
            announced: None,
            titled_by: document.titled_by,
            summary_due: false,
            tools_due: false,
            acknowledged: BTreeMap::new(),
            modified_ms: i64::MIN,
            order_ms: i64::MIN,
            progress: None,
            used_ms: now.mono_ms,
            creator: None,
            mcp: SessionServers::default(),
            is_draft: document.is_draft,
            was_heard: false,
            draft_ends_ms: None,
            repository: None,
            waiting_choices: Vec::new(),
            edits: document.edits,
            reviews: document.reviews,
            counted: document.counted,
        }
    }

    /// Returns true if no user has written in it yet.
    pub fn is_draft(&self) -> bool {
        self.is_draft
    }

    /// Returns when it was created, RFC 3339.
    pub fn created_at(&self) -> &str {
        &self.created_at
    }

    /// Returns the number that lists are ordered by.
    pub fn order_ms(&self) -> i64 {
        self.order_ms
    }

    /// Returns the client that created it, while the session is in memory.
    pub fn creator(&self) -> Option<&ClientId> {
        self.creator.as_ref()
    }

    /// Notes that a client created it.
    pub fn set_creator(&mut self, creator: Option<ClientId>) {
        self.creator = creator;
    }

    /// Notes that root subscribers know its summary as it is now, unless it is a draft, which they do not know.
    pub fn set_announced(&mut self) {
        self.announced = (!self.is_draft).then(|| self.summary());
    }

    /// Returns true if a change of its summary is about to be announced.
    pub fn is_summary_due(&self) -> bool {
        self.summary_due
    }

    /// Returns for how long it has not been used, after noting whether it is used now.
    pub fn idle_ms(&mut self, is_used: bool, now_ms: u64) -> u64 {
        if is_used {
            self.used_ms = now_ms;
        }
        now_ms.saturating_sub(self.used_ms)
    }

    /// Notes that its agent is about to be asked for its tools. Returns true if that was not known yet.
    pub fn schedule_tools(&mut self) -> bool {
        !std::mem::replace(&mut self.tools_due, true)
    }

    /// Notes that its agent is asked for its tools now.
    pub fn take_scheduled_tools(&mut self) {
        self.tools_due = false;
    }

    /// Returns the sequence number at which the unchanged announcement of a client was acknowledged.
    pub fn acknowledged(&self, client: &ClientId) -> Option<Seq> {
        self.acknowledged.get(client).copied()
    }

    /// Notes that the unchanged announcement of a client was acknowledged. Entries from before the latest change are
    /// void.
    pub fn acknowledge(&mut self, client: ClientId, at: Seq, changed: Seq) {
        self.acknowledged.retain(|_, acknowledged| *acknowledged >= changed);
        self.acknowledged.insert(client, at);
    }

    /// Forgets that an announcement of a client was acknowledged.
    pub fn forget_acknowledged(&mut self, client: &ClientId) {
        self.acknowledged.remove(client);
    }

    /// Whether this is the default chat. It need not be the first of the catalogue.
    pub fn is_default(&self, chat: &str) -> bool {
        self.state.default_chat.as_deref() == Some(chat)
    }

    /// The summary that `listSessions` and the root channel show (ROOT-15, ROOT-16).
    pub fn summary(&self) -> SessionSummary {
        let state = &self.state;
        let meta = state.meta.as_ref();
        SessionSummary {
            provider: state.provider.clone(),
            title: state.title.clone(),
            status: state.status,
            activity: state.activity.clone(),
            origin: state.origin.clone(),
            project: state.project.clone().or_else(|| repository::project(meta)),
            working_directories: state.working_directories.clone(),
            annotations: state.annotations.clone(),
            resource: self.uri.to_string(),
            created_at: self.created_at.clone(),
            modified_at: self.modified_at().to_owned(),
            changes: self.changes(),
            meta: repository::summary_meta(meta),
            chats: Some(state.chats.iter().map(compact).collect()),
            default_chat: state.default_chat.clone(),
        }
    }

    /// Its changes as they were counted on disk; else as its tools reported them, and without tools those that are not
    /// committed (SES-17).
    fn changes(&self) -> Option<ChangesSummary> {
        let reported = || all_changes(&self.state.chats);
        let uncommitted = || repository::changes(self.state.meta.as_ref());
        self.counted.clone().or_else(reported).or_else(uncommitted)
    }

    /// Whether a user archived it.
    pub fn is_archived(&self) -> bool {
        self.state.status & SessionStatus::IsArchived.bits() != 0
    }

    /// The latest change of any chat, or the creation (SES-17).
    pub fn modified_at(&self) -> &str {
        let latest = self
            .state
            .chats
            .iter()
            .map(|chat| chat.modified_at.as_str())
            .chain([self.created_at.as_str()])
            .max_by_key(|at| millis(at));
        latest.unwrap_or(&self.created_at)
    }

    /// The start time of a turn that starts now. If the clock was set back since the session was created, that is
    /// just after its latest change: no session changed before it was created, and every change has a new time.
    pub(crate) fn next_start(&self, now: Now) -> String {
        if now.wall.as_millisecond() >= millis(&self.created_at) {
            return now.rfc3339();
        }
        let latest = self.modified_at().parse::<Timestamp>().ok();
        let next = latest.and_then(|latest| latest.checked_add(SignedDuration::from_millis(1)).ok());
        match next {
            Some(wall) => Now { wall, ..now }.rfc3339(),
            None => self.created_at.clone(),
        }
    }

    /// Puts the session where it belongs in lists, before it leaves memory.
    pub(crate) fn settle_order(&mut self) {
        self.order_ms = self.modified_ms;
    }

    /// Why this session takes no turns, if it does not (TURN-22).
    pub fn not_ready(&self) -> Option<&'static str> {
        match self.state.lifecycle {
            SessionLifecycle::Ready => None,
            SessionLifecycle::Creating => Some("the session is still starting; wait for session/ready"),
            SessionLifecycle::Failed => Some("the session failed to start; create a new one"),
            SessionLifecycle::Unknown(_) => Some("the session is not ready"),
        }
    }

    /// The action that updates a chat's catalogue entry, if it differs (SES-14).
    pub fn catalogue_change(&self, chat: &ChatState) -> Option<StateAction> {
        let next = summary_of(chat);
        let known = self.state.chats.iter().find(|known| known.resource == next.resource)?;
        if *known == next {
            return None;
        }
        // The published reducer of chatUpdated cannot clear a field and ignores two of them
        // (E-34), so those changes travel as an upsert.
        let needs_upsert = (known.activity.is_some() && next.activity.is_none())
            || known.movable != next.movable
            || known.interactivity != next.interactivity
            || (known.changes.is_some() && next.changes.is_none())
            || known.working_directories.is_some() && next.working_directories.is_none();
        if needs_upsert {
            return Some(StateAction::SessionChatAdded(SessionChatAddedAction { summary: next }));
        }
        let changes = PartialChatSummary {
            resource: None,
            title: (known.title != next.title).then(|| next.title.clone()),
            status: (known.status != next.status).then_some(next.status),
            activity: next
                .activity
                .filter(|activity| known.activity.as_ref() != Some(activity)),
            modified_at: (known.modified_at != next.modified_at).then(|| next.modified_at.clone()),
            changes: next.changes.filter(|changes| known.changes.as_ref() != Some(changes)),
            origin: None,
            movable: None,
            interactivity: None,
            working_directories: next
                .working_directories
                .filter(|dirs| known.working_directories.as_ref() != Some(dirs)),
        };
        Some(StateAction::SessionChatUpdated(SessionChatUpdatedAction {
            chat: next.resource,
            changes,
        }))
    }

    /// Applies an action with the published reducer, and drops the values that were computed from the state before.
    pub fn apply(&mut self, action: &StateAction) -> ReduceOutcome {
        let outcome = apply_action_to_session(Arc::make_mut(&mut self.state), action);
        if outcome == ReduceOutcome::Applied {
            self.customization.follow(action);
        }
        outcome
    }

    /// Recomputes what no action carries: the activity bits of the session's status (SES-15, SES-16). Returns the
    /// activity to show, if that is another one (SES-17): an action carries it.
    #[must_use]
    pub fn refresh_aggregate(&mut self) -> Option<SessionActivityChangedAction> {
        let modified_ms = millis(self.modified_at());
        if self.modified_ms != modified_ms {
            self.modified_ms = modified_ms;
            self.order_ms = modified_ms.max(self.order_ms.saturating_add(1));
        }
        let chats = &self.state.chats;
        // A subagent that failed has reported to the call that started it, and no client can make its chat run again:
        // it would show the session as failed forever.
        let counts = |chat: &ChatSummary, bits: SessionStatus| {
            bits != SessionStatus::Error || !matches!(chat.origin, Some(ChatOrigin::Tool { .. }))
        };
        let has = |bits: SessionStatus| {
            let mut chats = chats.iter().filter(|chat| counts(chat, bits));
            chats.any(|chat| activity(chat.status) == bits.bits())
        };
        let lead = self
            .state
            .default_chat
            .as_ref()
            .and_then(|uri| chats.iter().find(|chat| chat.resource == *uri))
            .or_else(|| chats.iter().max_by_key(|chat| millis(&chat.modified_at)));
        let own = lead.map_or(SessionStatus::Idle.bits(), |chat| activity(chat.status));
        let promoted = [
            SessionStatus::InputNeeded,
            SessionStatus::Error,
            SessionStatus::InProgress,
        ];
        let bits = promoted
            .into_iter()
            .find(|bits| has(*bits))
            .map_or(own, SessionStatus::bits);
        let status = (self.state.status & !ACTIVITY_BITS) | bits;
        // SES-17: what is shown is what the chat does that the status comes from.
        let driver = lead.filter(|_| own == bits).or_else(|| {
            let drivers = chats.iter().filter(|chat| activity(chat.status) == bits);
            drivers.max_by_key(|chat| millis(&chat.modified_at))
        });
        let shown = driver.and_then(|chat| chat.activity.clone());
        if status != self.state.status {
            Arc::make_mut(&mut self.state).status = status;
        }
        (shown != self.state.activity).then_some(SessionActivityChangedAction { activity: shown })
    }
}

/// A chat's entry in its session's catalogue.
pub fn summary_of(chat: &ChatState) -> ChatSummary {
    ChatSummary {
        resource: chat.resource.clone(),
        title: chat.title.clone(),
        status: chat.status,
        activity: chat.activity.clone(),
        modified_at: chat.modified_at.clone(),
        changes: chat.changes.clone(),
        origin: chat.origin.clone(),
        movable: chat.movable,
        interactivity: chat.interactivity,
        working_directories: chat.working_directories.clone(),
    }
}

/// A chat's entry in its session's summary (SES-22).
fn compact(chat: &ChatSummary) -> SessionChatSummary {
    SessionChatSummary {
        resource: chat.resource.clone(),
        title: chat.title.clone(),
        origin: chat.origin.clone(),
        interactivity: chat.interactivity,
        status: Some(chat.status),
        changes: chat.changes.clone(),
    }
}

/// The sum of the changes of all chats (SES-17); a chat without changes adds nothing.
fn all_changes(chats: &[ChatSummary]) -> Option<ChangesSummary> {
    let sum = |field: fn(&ChangesSummary) -> Option<i64>| {
        let parts = chats.iter().filter_map(|chat| field(chat.changes.as_ref()?));
        parts.reduce(i64::saturating_add)
    };
    let all = ChangesSummary {
        additions: sum(|changes| changes.additions),
        deletions: sum(|changes| changes.deletions),
        files: sum(|changes| changes.files),
    };
    chats.iter().any(|chat| chat.changes.is_some()).then_some(all)
}

fn activity(status: u32) -> u32 {
    status & ACTIVITY_BITS
}

pub(crate) fn millis(rfc3339: &str) -> i64 {
    rfc3339.parse::<Timestamp>().map_or(0, Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ses17_the_changes_of_a_session_are_those_of_its_chats_together() {
        let chat = |changes| {
            let state = create::new_chat("ahp-chat:/c", "c", "2026-01-31T12:00:00Z", ChatOrigin::User);
            ChatSummary {
                changes,
                ..summary_of(&state)
            }
        };
        let changes = |additions, deletions, files| ChangesSummary {
            additions,
            deletions,
            files,
        };
        assert_eq!(all_changes(&[chat(None), chat(None)]), None);
        let chats = [
            chat(Some(changes(Some(3), None, Some(1)))),
            chat(None),
            chat(Some(changes(Some(4), Some(2), Some(1)))),
        ];
        assert_eq!(all_changes(&chats), Some(changes(Some(7), Some(2), Some(2))));
    }
}

//! Changesets: which files differ between two states, one channel per view (`<session>/changeset/…`).
//!
//! The channel of a view is opened by its first subscriber and removed some time after its last: a service outside
//! computes a view only while its channel exists ([`ChangesCommand`]). Each report replaces the state with as few
//! actions as possible. Nothing of a view is persisted except the reviews of users, which are part of the session's
//! document, and hold as long as a file does not change.
//!
//! `catalogue.rs` advertises the views, `uri.rs` reads their URIs, `report.rs` turns a report into actions,
//! `operation.rs` has `invokeChangesetOperation`, `reviews.rs` the review marks, and `edits.rs` collects the files that
//! tools changed. `view.rs` is the vocabulary of the service.

mod catalogue;
mod edits;
mod open;
mod operation;
mod report;
mod reviews;
mod uri;
mod view;

use std::sync::Arc;

use ahp::reducers::ReduceOutcome;
use ahp_types::actions::{ChangesetClearedAction, ChangesetStatusChangedAction, StateAction};
use ahp_types::state::{ChangesetState, ChangesetStatus};

pub(crate) use edits::SessionEdits;
pub(crate) use open::Changesets;
pub use operation::{ChangesetCommand, InvokeOperation};
pub(crate) use reviews::Reviews;
pub use view::{
    ChangedFile, ChangedSide, ChangesetSource, ChangesetView, ComputedChangeset, CountedChanges, FileNote,
    OfferedOperation, OperationError, OperationOutcome, OperationRequest, OperationScope, OperationTarget,
    RecordedEdit,
};

use crate::core::{ChannelPart, Cx, Departure, Host, SessionRemoval, Timer, never};
use crate::dispatch::{Dispatched, Verdict};
use crate::effect::ChangesCommand;
use crate::ids::{ChannelId, ConnId};
use crate::protocol::action_table::ChannelKind;
use crate::protocol::request::RequestId;
use crate::session::create::directories_of;
use open::OpenChangeset;

/// How long a view without subscribers is kept: a client that switches between views comes back soon.
const LINGER_MS: u64 = 10_000;

/// Inputs about changesets.
#[derive(Debug)]
pub enum ChangesetInput {
    /// A view is computed again, and that takes a while.
    Computing {
        /// The channel of the view.
        channel: ChannelId,
    },
    /// A view was computed, or cannot be.
    Computed {
        /// The channel of the view.
        channel: ChannelId,
        /// The changes, or a sentence for users.
        outcome: Result<Box<ComputedChangeset>, String>,
    },
    /// The changes of a session on disk were counted.
    Counted {
        /// The URI of the session.
        session: Arc<str>,
        /// The changes since it began.
        changes: CountedChanges,
    },
    /// A worktree for a new session was made, or cannot be.
    Isolated {
        /// The session.
        session: ChannelId,
        /// The URI of the directory in it, or a sentence for users.
        outcome: Result<String, String>,
    },
    /// An operation ended.
    OperationDone {
        /// The connection that asked.
        conn: ConnId,
        /// The request to answer.
        id: RequestId,
        /// The channel of the view.
        channel: ChannelId,
        /// The operation.
        operation: String,
        /// The outcome.
        outcome: Result<OperationOutcome, OperationError>,
    },
}

impl From<ChangesetInput> for crate::input::Input {
    fn from(input: ChangesetInput) -> Self {
        Self::Part(crate::core::PartInput::Changeset(input))
    }
}

impl ChannelPart for Changesets {
    type Command = ChangesetCommand;
    type Input = ChangesetInput;
    type State = ChangesetState;

    fn state(&self, channel: ChannelId) -> Option<Arc<ChangesetState>> {
        self.get(channel).map(|open| Arc::clone(open.state()))
    }

    fn reduce(&mut self, channel: ChannelId, action: &StateAction) -> ReduceOutcome {
        self.apply_action(channel, action)
    }

    fn handle_command(host: &mut Host, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, command: ChangesetCommand) {
        match command {
            ChangesetCommand::Invoke(invoke) => host.invoke_operation(cx, conn, id, *invoke),
        }
    }

    fn handle_input(host: &mut Host, cx: &mut Cx<'_>, input: ChangesetInput) {
        match input {
            ChangesetInput::Computing { channel } => host.changeset_computing(cx, channel),
            ChangesetInput::Computed { channel, outcome } => host.changeset_computed(cx, channel, outcome),
            ChangesetInput::Counted { session, changes } => host.changes_counted(cx, &session, changes),
            ChangesetInput::Isolated { session, outcome } => host.isolated(cx, session, outcome),
            ChangesetInput::OperationDone {
                conn,
                id,
                channel,
                operation,
                outcome,
            } => host.operation_done(cx, conn, &id, channel, &operation, outcome),
        }
    }

    fn check(host: &Host, _: &Cx<'_>, by: &Dispatched, action: StateAction) -> Verdict {
        host.check_review(by.channel, action)
    }

    fn apply(host: &mut Host, cx: &mut Cx<'_>, by: &Dispatched, action: StateAction) {
        host.apply_review(cx, by, action);
    }

    fn open(host: &mut Host, cx: &mut Cx<'_>, uri: &str) -> Option<ChannelId> {
        host.open_changeset(cx, uri)
    }

    fn subscriber_left(host: &mut Host, cx: &mut Cx<'_>, channel: ChannelId, departure: Departure) {
        let is_heard = host.channels.get(channel).is_some_and(|entry| entry.has_subscribers());
        if !is_heard {
            let wait_ms = match departure {
                Departure::Unsubscribed => LINGER_MS,
                Departure::Disconnected => host.config.grace_ms.max(LINGER_MS),
            };
            host.timers
                .set(cx.now.mono_ms.saturating_add(wait_ms), Timer::Channel(channel));
        }
    }

    fn deadline(host: &mut Host, cx: &mut Cx<'_>, channel: ChannelId) {
        let is_heard = host.channels.get(channel).is_some_and(|entry| entry.has_subscribers());
        if !is_heard {
            host.close_changeset(cx, channel);
        }
    }

    fn settle(host: &mut Host, cx: &mut Cx<'_>) {
        if host.parts.changesets.take_doubt() {
            host.recheck_changesets(cx);
        }
    }

    fn session_of(uri: &str) -> Option<&str> {
        uri::owner(uri)
    }

    fn channels_in(&self, session: ChannelId) -> Vec<ChannelId> {
        self.sorted(|open| open.session() == session)
    }

    /// Every view of the session is cleared and ends (CHG-14).
    fn session_removed(host: &mut Host, cx: &mut Cx<'_>, session: ChannelId, removal: SessionRemoval) {
        for channel in host.parts.changesets.channels_in(session) {
            match removal {
                SessionRemoval::Deleted => host.end_changeset(cx, channel),
                SessionRemoval::Evicted => host.close_changeset(cx, channel),
            }
        }
    }
}

impl Host {
    /// Opens the view that a URI names, if the session or chat advertises it.
    fn open_changeset(&mut self, cx: &mut Cx<'_>, uri: &str) -> Option<ChannelId> {
        if !self.config.serves_changes {
            return None;
        }
        let (owner, source) = uri::parse(uri)?;
        let owner = self.channels.find(owner)?;
        let (session, chat) = match self.chats.get(&owner) {
            Some(chat) => (chat.session, Some(owner)),
            None => (owner, None),
        };
        if !self.sessions.contains_key(&session) {
            return None;
        }
        let is_known = self.knows_turns_of(session, chat, &source);
        // VS Code subscribes to the changes of a turn before it dispatches `chat/turnStarted`.
        let awaits_turn = !is_known && matches!(source, ChangesetSource::Turn { .. });
        if !is_known && !awaits_turn {
            return None;
        }
        let channel = self.add_channel(uri, ChannelKind::Changeset);
        let open = OpenChangeset::new(session, chat, source, awaits_turn);
        self.parts.changesets.insert(channel, open);
        self.follow_changeset(cx, channel);
        let at = cx.now.mono_ms.saturating_add(LINGER_MS);
        self.timers.set(at, Timer::Channel(channel));
        Some(channel)
    }

    /// Returns true if the turns of a view exist in its session or chat.
    fn knows_turns_of(&self, session: ChannelId, chat: Option<ChannelId>, source: &ChangesetSource) -> bool {
        let turns: Vec<&String> = match source {
            ChangesetSource::Turn { turn } => vec![turn],
            ChangesetSource::Turns { original, modified } => vec![original, modified],
            ChangesetSource::Uncommitted | ChangesetSource::Session | ChangesetSource::Branch => return true,
        };
        let chats = match chat {
            Some(chat) => vec![chat],
            None => self
                .sessions
                .get(&session)
                .map(|session| session.chats.clone())
                .unwrap_or_default(),
        };
        let mut chats = chats.iter().filter_map(|chat| self.chats.get(chat));
        let has = |turn: &String| {
            let mut chats = chats.clone();
            chats.any(|chat| chat.model.knows_turn(turn))
        };
        let known = turns.into_iter().all(has);
        known && chats.next().is_some()
    }

    /// The view of a channel as it is now.
    fn view_of(&self, channel: ChannelId) -> Option<ChangesetView> {
        let open = self.parts.changesets.get(channel)?;
        let session = self.sessions.get(&open.session())?;
        let chat = open.chat().and_then(|chat| self.chats.get(&chat));
        let directories = match chat {
            Some(chat) => directories_of(session, chat),
            None => session.state.working_directories.clone().unwrap_or_default(),
        };
        Some(ChangesetView {
            session: Arc::clone(&session.uri),
            directories,
            source: open.source().clone(),
            edits: session.edits.shared(),
            title: session.state.title.clone(),
        })
    }

    /// Has a view computed, from now on. A view of a turn that has not started stays empty.
    fn follow_changeset(&mut self, cx: &mut Cx<'_>, channel: ChannelId) {
        let awaiting = self.parts.changesets.get(channel).filter(|open| open.awaits_turn());
        if awaiting.is_some_and(|open| !self.knows_turns_of(open.session(), open.chat(), open.source())) {
            return;
        }
        let Some(view) = self.view_of(channel) else {
            return never!("the view is open, and its session is in memory");
        };
        if let Some(open) = self.parts.changesets.get_mut(channel) {
            open.follow(&view.directories);
        }
        cx.emit(ChangesCommand::Follow {
            channel,
            view: Box::new(view),
        });
    }

    /// Computes the views of a session again whose edits or turns changed.
    pub(crate) fn refresh_changesets(&mut self, cx: &mut Cx<'_>, session: ChannelId) {
        for channel in self.parts.changesets.channels_in(session) {
            self.follow_changeset(cx, channel);
        }
    }

    /// Has the views computed that were opened before their turn began.
    fn follow_awaited_turns(&mut self, cx: &mut Cx<'_>, chat: ChannelId) {
        let session = self.chats.get(&chat).map(|chat| chat.session);
        let awaiting = |open: &OpenChangeset| open.awaits_turn() && Some(open.session()) == session;
        for view in self.parts.changesets.sorted(awaiting) {
            self.follow_changeset(cx, view);
        }
    }

    /// Starts the views over whose directories are other ones now (CHG-14, CHG-15).
    fn recheck_changesets(&mut self, cx: &mut Cx<'_>) {
        for channel in self.parts.changesets.sorted(|_| true) {
            let view = self.view_of(channel);
            let open = self.parts.changesets.get(channel);
            if view
                .zip(open)
                .is_some_and(|(view, open)| !open.shows(&view.directories))
            {
                self.restart_changeset(cx, channel);
            }
        }
    }

    /// The views of a chat that left its session go with it, and end with it if it is disposed (CHG-14).
    pub(crate) fn changesets_leave(&mut self, cx: &mut Cx<'_>, session: ChannelId, chat: ChannelId) {
        let target = self.chats.get(&chat).map(|chat| chat.session);
        for channel in self.parts.changesets.sorted(|open| open.chat() == Some(chat)) {
            match (target, self.parts.changesets.get_mut(channel)) {
                (Some(target), Some(open)) if target != session => {
                    open.move_to(target);
                    self.restart_changeset(cx, channel);
                }
                _ => self.end_changeset(cx, channel),
            }
        }
    }

    /// Starts a view over, because it shows other files now (CHG-14, CHG-15).
    fn restart_changeset(&mut self, cx: &mut Cx<'_>, channel: ChannelId) {
        let cleared = StateAction::ChangesetCleared(ChangesetClearedAction {});
        self.commit(cx, channel, cleared, None);
        let status = ChangesetStatus::Computing;
        let action = ChangesetStatusChangedAction { status, error: None };
        self.commit(cx, channel, StateAction::ChangesetStatusChanged(action), None);
        self.follow_changeset(cx, channel);
    }

    /// Clears a view and removes its channel for good.
    fn end_changeset(&mut self, cx: &mut Cx<'_>, channel: ChannelId) {
        let cleared = StateAction::ChangesetCleared(ChangesetClearedAction {});
        self.commit(cx, channel, cleared, None);
        if let Some(uri) = self.channels.get(channel).map(|entry| Arc::clone(&entry.uri)) {
            self.forget_for_good(&uri);
        }
        self.close_changeset(cx, channel);
    }

    fn close_changeset(&mut self, cx: &mut Cx<'_>, channel: ChannelId) {
        if self.parts.changesets.remove(channel) {
            cx.emit(ChangesCommand::Unfollow { channel });
            self.remove_channel(channel);
        }
    }
}

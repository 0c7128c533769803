//! Channel kinds other than root, session and chat. One part of the host owns all channels of a kind.
//!
//! A kind consists of its own folder, which implements [`ChannelPart`], and one row in the table at the end of this
//! file. The table generates the match of every step that depends on the kind, so no other file of the core lists
//! kinds. Streamed output of chats never reaches these matches.

use std::fmt::Debug;
use std::sync::Arc;

use ahp::reducers::ReduceOutcome;
use ahp_types::actions::StateAction;
use ahp_types::state::{AnnotationsState, ChangesetState, ResourceWatchState, RootState, TerminalState};
use serde::{Serialize, Serializer};

use crate::config::CoreConfig;
use crate::core::{Cx, Host, json_bytes, never};
use crate::dispatch::{Dispatched, Verdict};
use crate::ids::{ChannelId, ConnId};
use crate::protocol::action_table::ChannelKind;
use crate::protocol::error::RpcError;
use crate::protocol::request::RequestId;
use crate::resources::{WatchCommand, WatchInput, Watches};
use crate::session::annotations::Annotations;
use crate::session::changesets::{ChangesetCommand, ChangesetInput, Changesets};
use crate::terminal::{TerminalCommand, TerminalInput, Terminals};

/// The owner of all channels of one kind.
///
/// Functions that take a `Host` find their own part in [`Host::parts`]. A part creates a channel with
/// [`Host::add_channel`] and removes it with [`Host::remove_channel`].
pub(crate) trait ChannelPart: Debug + Default {
    /// The requests of this kind; [`NoCommand`] if it has none.
    type Command: ChannelCommand;
    /// The inputs from outside that only this kind has; [`NoInput`] if it has none.
    type Input;
    /// The state of one channel, as the protocol publishes it.
    type State: Serialize;

    /// Returns the state of a channel for a snapshot. The state is shared, so a capture takes constant time.
    fn state(&self, channel: ChannelId) -> Option<Arc<Self::State>>;

    /// Estimates the size of a state in a snapshot, for the bound of the queue that it waits in.
    fn estimated_bytes(state: &Self::State) -> usize {
        json_bytes(state)
    }

    /// Applies an action to the state of a channel, usually with the published reducer.
    fn reduce(&mut self, channel: ChannelId, action: &StateAction) -> ReduceOutcome;

    /// Carries out a request of a connection that is ready and has the scope of the method.
    fn handle_command(host: &mut Host, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, command: Self::Command);

    /// Handles an input from outside.
    fn handle_input(host: &mut Host, cx: &mut Cx<'_>, input: Self::Input);

    /// Checks a dispatched action that passed the actions table.
    fn check(_host: &Host, _cx: &Cx<'_>, _by: &Dispatched, _action: StateAction) -> Verdict {
        Verdict::Reject("clients may not send this to this kind of channel".to_owned())
    }

    /// Applies a dispatched action that was accepted.
    fn apply(host: &mut Host, cx: &mut Cx<'_>, by: &Dispatched, action: StateAction) {
        host.commit_dispatched(cx, by, action);
    }

    /// Checks whether a connection may subscribe to a channel.
    fn check_subscriber(_host: &Host, _cx: &Cx<'_>, _conn: ConnId, _channel: ChannelId) -> Result<(), RpcError> {
        Ok(())
    }

    /// Handles the end of a subscription to a channel.
    fn subscriber_left(_host: &mut Host, _cx: &mut Cx<'_>, _channel: ChannelId, _departure: Departure) {}

    /// Handles [`Timer::Channel`](crate::core::Timer::Channel) of a channel that still exists.
    fn deadline(_host: &mut Host, _cx: &mut Cx<'_>, _channel: ChannelId) {}

    /// Updates everything that follows from an input as a whole.
    fn settle(_host: &mut Host, _cx: &mut Cx<'_>) {}

    /// Opens the channel of a URI that no client has named since its session came into memory. `None` if the URI is not
    /// of this kind, or names nothing.
    fn open(_host: &mut Host, _cx: &mut Cx<'_>, _uri: &str) -> Option<ChannelId> {
        None
    }

    /// Returns the session that must be in memory before a URI of this kind can be found.
    fn session_of(_uri: &str) -> Option<&str> {
        None
    }

    /// Returns true if a URI is of this kind, and a service may know its channel from an earlier run of the host.
    fn is_recallable(_config: &CoreConfig, _uri: &str) -> bool {
        false
    }

    /// Asks the service for a channel that is not in memory. The handler of its answer ends with
    /// [`Host::resume_after_recall`].
    fn recall(_cx: &mut Cx<'_>, _uri: Arc<str>) {}

    /// Restores what an earlier run of the host published about this kind on the root.
    fn root_restored(_host: &mut Host, _cx: &mut Cx<'_>, _root: &RootState) {}

    /// Has its service persist everything, because the host is going down.
    fn shut_down(_host: &mut Host, _cx: &mut Cx<'_>) {}

    /// Returns true if a session must stay in memory because of its channels of this kind.
    fn is_busy_in(&self, _session: ChannelId) -> bool {
        false
    }

    /// Returns the channels of this kind that belong to a session. Their subscribers keep the session in memory.
    fn channels_in(&self, _session: ChannelId) -> Vec<ChannelId> {
        Vec::new()
    }

    /// Handles the removal of a session from memory.
    fn session_removed(_host: &mut Host, _cx: &mut Cx<'_>, _session: ChannelId, _removal: SessionRemoval) {}
}

/// A request that belongs to one channel kind.
pub trait ChannelCommand {
    /// Returns the name of the method on the wire.
    fn method(&self) -> &'static str;

    /// Returns true if the request changes persisted state, so that a host that cannot write refuses it.
    fn changes_state(&self) -> bool;

    /// Returns the URIs of the sessions and chats that must be in memory first.
    fn sessions(&self) -> Vec<&str> {
        Vec::new()
    }
}

/// The requests of a kind that has none.
#[derive(Debug, Clone)]
pub enum NoCommand {}

impl ChannelCommand for NoCommand {
    fn method(&self) -> &'static str {
        match *self {}
    }

    fn changes_state(&self) -> bool {
        match *self {}
    }
}

/// The inputs of a kind that has none.
#[derive(Debug)]
pub enum NoInput {}

/// The way a subscription ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Departure {
    /// The client unsubscribed.
    Unsubscribed,
    /// The connection was lost, and the client may reconnect within its grace period.
    Disconnected,
}

/// The reason why a session leaves memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionRemoval {
    /// The session is deleted.
    Deleted,
    /// The session is idle and stays in the store.
    Evicted,
}

/// Generates the parts, their enums and the matches over channel kinds from one row per kind.
macro_rules! channel_parts {
    ($($(#[$doc:meta])* $kind:ident: $field:ident, $part:ty, $command:ty, $input:ty, $state:ty;)+) => {
        /// The parts that own channels of one kind each.
        #[derive(Debug, Default)]
        pub(crate) struct ChannelParts {
            $($(#[$doc])* pub(crate) $field: $part,)+
        }

        /// A request that belongs to one channel kind.
        #[derive(Debug, Clone)]
        pub enum PartCommand {
            $($(#[$doc])* $kind($command),)+
        }

        /// An input from outside that belongs to one channel kind.
        #[derive(Debug)]
        pub enum PartInput {
            $($(#[$doc])* $kind($input),)+
        }

        /// The state of a channel that a part owns.
        #[derive(Debug, Clone)]
        pub enum PartState {
            $($(#[$doc])* $kind(Arc<$state>),)+
        }

        impl Serialize for PartState {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$kind(state) => state.serialize(serializer),)+
                }
            }
        }

        impl PartState {
            /// The kind of its channel.
            pub(crate) fn kind(&self) -> ChannelKind {
                match self {
                    $(Self::$kind(_) => ChannelKind::$kind,)+
                }
            }

            /// Estimates the size of the state in a snapshot.
            pub(crate) fn estimated_bytes(&self) -> usize {
                match self {
                    $(Self::$kind(state) => <$part>::estimated_bytes(state),)+
                }
            }
        }

        impl ChannelCommand for PartCommand {
            fn method(&self) -> &'static str {
                match self {
                    $(Self::$kind(command) => command.method(),)+
                }
            }

            fn changes_state(&self) -> bool {
                match self {
                    $(Self::$kind(command) => command.changes_state(),)+
                }
            }

            fn sessions(&self) -> Vec<&str> {
                match self {
                    $(Self::$kind(command) => command.sessions(),)+
                }
            }
        }

        impl ChannelParts {
            /// Returns the state of a channel.
            pub(crate) fn state(&self, kind: ChannelKind, channel: ChannelId) -> Option<PartState> {
                match kind {
                    $(ChannelKind::$kind => self.$field.state(channel).map(PartState::$kind),)+
                    _ => None,
                }
            }

            /// Applies an action to the state of a channel.
            pub(crate) fn reduce(
                &mut self,
                kind: ChannelKind,
                channel: ChannelId,
                action: &StateAction,
            ) -> ReduceOutcome {
                match kind {
                    $(ChannelKind::$kind => self.$field.reduce(channel, action),)+
                    _ => ReduceOutcome::NoOp,
                }
            }

            /// Returns the session that must be in memory before a URI can be found.
            pub(crate) fn session_of(uri: &str) -> Option<&str> {
                None$(.or_else(|| <$part>::session_of(uri)))+
            }

            /// Returns true if a session must stay in memory because of one of its channels.
            pub(crate) fn are_busy_in(&self, session: ChannelId) -> bool {
                false$(|| self.$field.is_busy_in(session))+
            }

            /// Returns the channels of all kinds that belong to a session.
            pub(crate) fn channels_in(&self, session: ChannelId) -> Vec<ChannelId> {
                let mut channels = Vec::new();
                $(channels.extend(self.$field.channels_in(session));)+
                channels
            }
        }

        impl Host {
            pub(super) fn part_command(
                &mut self,
                cx: &mut Cx<'_>,
                conn: ConnId,
                id: &RequestId,
                command: PartCommand,
            ) {
                match command {
                    $(PartCommand::$kind(command) => <$part>::handle_command(self, cx, conn, id, command),)+
                }
            }

            pub(super) fn part_input(&mut self, cx: &mut Cx<'_>, input: PartInput) {
                match input {
                    $(PartInput::$kind(input) => <$part>::handle_input(self, cx, input),)+
                }
            }

            pub(crate) fn check_on_part(
                &self,
                cx: &Cx<'_>,
                by: &Dispatched,
                kind: ChannelKind,
                action: StateAction,
            ) -> Verdict {
                match kind {
                    $(ChannelKind::$kind => <$part>::check(self, cx, by, action),)+
                    _ => Verdict::Reject("this host has no such channels".to_owned()),
                }
            }

            pub(crate) fn apply_on_part(
                &mut self,
                cx: &mut Cx<'_>,
                by: &Dispatched,
                kind: ChannelKind,
                action: StateAction,
            ) {
                match kind {
                    $(ChannelKind::$kind => <$part>::apply(self, cx, by, action),)+
                    _ => never!("a channel of a kind without a part"),
                }
            }

            /// Finds a channel by its URI, and opens it if a part has it.
            pub(crate) fn find_or_open(&mut self, cx: &mut Cx<'_>, uri: &str) -> Option<ChannelId> {
                self.channels.find(uri)$(.or_else(|| <$part>::open(self, cx, uri)))+
            }

            /// Checks whether a connection may subscribe to a channel.
            pub(crate) fn check_subscriber(
                &self,
                cx: &Cx<'_>,
                conn: ConnId,
                channel: ChannelId,
            ) -> Result<(), RpcError> {
                match self.channels.kind(channel) {
                    $(Some(ChannelKind::$kind) => <$part>::check_subscriber(self, cx, conn, channel),)+
                    _ => Ok(()),
                }
            }

            /// Handles the end of a subscription.
            pub(crate) fn subscriber_left(&mut self, cx: &mut Cx<'_>, channel: ChannelId, departure: Departure) {
                match self.channels.kind(channel) {
                    $(Some(ChannelKind::$kind) => <$part>::subscriber_left(self, cx, channel, departure),)+
                    _ => {}
                }
            }

            pub(super) fn channel_deadline(&mut self, cx: &mut Cx<'_>, channel: ChannelId) {
                match self.channels.kind(channel) {
                    $(Some(ChannelKind::$kind) => <$part>::deadline(self, cx, channel),)+
                    // Timers are not cancelled when their channel is removed.
                    _ => {}
                }
            }

            /// Returns true if a service may know a channel that is not in memory.
            pub(crate) fn is_recallable(&self, uri: &str) -> bool {
                false$(|| <$part>::is_recallable(&self.config, uri))+
            }

            /// Asks a service for a channel that is not in memory. Returns false if no service can know it.
            pub(crate) fn recall(&self, cx: &mut Cx<'_>, uri: &Arc<str>) -> bool {
                $(if <$part>::is_recallable(&self.config, uri) {
                    <$part>::recall(cx, Arc::clone(uri));
                    return true;
                })+
                false
            }

            /// Restores what an earlier run of the host published on the root.
            pub(crate) fn restore_parts(&mut self, cx: &mut Cx<'_>, root: &RootState) {
                $(<$part>::root_restored(self, cx, root);)+
            }

            /// Has the services of all parts persist everything, because the host is going down.
            pub(crate) fn shut_down_parts(&mut self, cx: &mut Cx<'_>) {
                $(<$part>::shut_down(self, cx);)+
            }

            pub(super) fn settle_parts(&mut self, cx: &mut Cx<'_>) {
                $(<$part>::settle(self, cx);)+
            }

            /// Handles the removal of a session from memory.
            pub(crate) fn session_removed(&mut self, cx: &mut Cx<'_>, session: ChannelId, removal: SessionRemoval) {
                $(<$part>::session_removed(self, cx, session, removal);)+
            }
        }
    };
}

// One row per kind: its field in `ChannelParts`, its part, its requests, its inputs and its state.
channel_parts! {
    /// Annotations of sessions.
    Annotations: annotations, Annotations, NoCommand, NoInput, AnnotationsState;
    /// Open views of changed files.
    Changeset: changesets, Changesets, ChangesetCommand, ChangesetInput, ChangesetState;
    /// Watches on resources.
    ResourceWatch: watches, Watches, WatchCommand, WatchInput, ResourceWatchState;
    /// Terminals.
    Terminal: terminals, Terminals, TerminalCommand, TerminalInput, TerminalState;
}

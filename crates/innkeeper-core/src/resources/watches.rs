//! Watches as channels (WCH): created on request, removed with their last subscriber.
//!
//! A watch without a subscriber is released in time (E-56), and one whose subscribers all lost their connections is
//! retained for their grace period (WCH-07). A subscriber needs access to the root that admitted the watch, as long
//! as it subscribes (SEC-03): the events name files.

use std::sync::Arc;

use ahp::reducers::ReduceOutcome;
use ahp_types::actions::{ResourceWatchChangedAction, StateAction};
use ahp_types::state::ResourceWatchState;
use serde_json::{Value, json};

use crate::clients::client::Presence;
use crate::core::{
    ChannelCommand, ChannelPart, Cx, Departure, Host, PartCommand, PartInput, SessionRemoval, Timer, never,
};
use crate::effect::ResourceCommand;
use crate::ids::{ChannelId, ClientId, ConnId, IdMap};
use crate::input::Input;
use crate::protocol::action_table::ChannelKind;
use crate::protocol::error::{RpcError, code};
use crate::protocol::request::{Command, RequestId};

/// How many clients of one principal may have all the watches that a client may have.
const CLIENTS_WATCHING: usize = 4;

/// The parameters of `createResourceWatch`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchSpec {
    /// The watched resource.
    pub uri: String,
    /// Whether everything below it is, too (WCH-02).
    pub recursive: bool,
    /// The patterns of reported resources; absent means all.
    pub includes: Option<Vec<String>>,
    /// The patterns of resources that are not reported.
    pub excludes: Option<Vec<String>>,
}

/// One change of what is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceChange {
    /// Where.
    pub uri: String,
    /// The kind of the change.
    pub kind: ChangeKind,
}

/// The kind of a change of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was created.
    Added,
    /// It changed.
    Updated,
    /// It was deleted.
    Deleted,
}

impl ChangeKind {
    fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
        }
    }
}

/// The requests about watches.
#[derive(Debug, Clone)]
pub enum WatchCommand {
    /// `createResourceWatch`.
    Create(Box<WatchSpec>),
}

/// The reports about watches from outside.
#[derive(Debug)]
pub enum WatchInput {
    /// A watch that [`crate::ResourceCommand::OpenWatch`] asked for was set up, or could not be.
    Opened {
        /// The connection that asked.
        conn: ConnId,
        /// The request to answer.
        id: RequestId,
        /// The watch's number.
        watch: u64,
        /// The watched resource.
        spec: Box<WatchSpec>,
        /// The root that contains the watched resource and that the client may browse, or the error.
        outcome: Result<String, RpcError>,
    },
    /// Watched resources changed.
    Changed {
        /// The watch's number.
        watch: u64,
        /// The changes.
        changes: Vec<ResourceChange>,
    },
}

impl From<WatchCommand> for Command {
    fn from(command: WatchCommand) -> Self {
        Self::Part(PartCommand::ResourceWatch(command))
    }
}

impl From<WatchInput> for Input {
    fn from(input: WatchInput) -> Self {
        Self::Part(PartInput::ResourceWatch(input))
    }
}

impl ChannelCommand for WatchCommand {
    fn method(&self) -> &'static str {
        match self {
            Self::Create(_) => "createResourceWatch",
        }
    }

    fn changes_state(&self) -> bool {
        match self {
            // A watch ends with the process.
            Self::Create(_) => false,
        }
    }
}

/// A watch that clients may subscribe to.
#[derive(Debug)]
pub(crate) struct Watch {
    number: u64,
    state: Arc<ResourceWatchState>,
    /// The allowed root of the owner that contains the watched resource.
    admitted_by: String,
    owner: ClientId,
    /// When it is released without a subscriber.
    lease_ms: u64,
}

/// All watches.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    by_channel: IdMap<ChannelId, Watch>,
    next: u64,
    /// Those that are being set up, and for whom.
    opening: Vec<(u64, ConnId)>,
    /// Whether a client may have lost access since a watch was created.
    in_doubt: bool,
}

impl ChannelPart for Watches {
    type Command = WatchCommand;
    type Input = WatchInput;
    type State = ResourceWatchState;

    fn state(&self, channel: ChannelId) -> Option<Arc<ResourceWatchState>> {
        self.by_channel.get(&channel).map(|watch| Arc::clone(&watch.state))
    }

    /// The state never changes (WCH-04). Changes of the watched resources are published without becoming part of it.
    fn reduce(&mut self, _: ChannelId, action: &StateAction) -> ReduceOutcome {
        match action {
            StateAction::ResourceWatchChanged(_) => ReduceOutcome::Applied,
            _ => ReduceOutcome::OutOfScope,
        }
    }

    fn handle_command(host: &mut Host, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, command: WatchCommand) {
        match command {
            WatchCommand::Create(spec) => host.open_watch(cx, conn, id, spec),
        }
    }

    fn handle_input(host: &mut Host, cx: &mut Cx<'_>, input: WatchInput) {
        match input {
            WatchInput::Opened {
                conn,
                id,
                watch,
                spec,
                outcome,
            } => host.watch_opened(cx, conn, &id, watch, *spec, outcome),
            WatchInput::Changed { watch, changes } => host.watch_changed(cx, watch, &changes),
        }
    }

    fn check_subscriber(host: &Host, cx: &Cx<'_>, conn: ConnId, channel: ChannelId) -> Result<(), RpcError> {
        host.check_watch(cx, conn, channel)
    }

    fn subscriber_left(host: &mut Host, cx: &mut Cx<'_>, channel: ChannelId, departure: Departure) {
        host.left_watch(cx, channel, departure);
    }

    fn deadline(host: &mut Host, cx: &mut Cx<'_>, channel: ChannelId) {
        host.end_lease(cx, channel);
    }

    fn settle(host: &mut Host, cx: &mut Cx<'_>) {
        host.settle_watches(cx);
    }

    /// A deleted session no longer gives its clients access to its directories.
    fn session_removed(host: &mut Host, _: &mut Cx<'_>, _: ChannelId, removal: SessionRemoval) {
        match removal {
            SessionRemoval::Deleted => host.parts.watches.recheck(),
            // Its clients had left it before.
            SessionRemoval::Evicted => {}
        }
    }
}

impl Watches {
    /// A client may have lost access: its watches are checked at the end of the input.
    pub(crate) fn recheck(&mut self) {
        self.in_doubt = true;
    }

    fn channel_of(&self, number: u64) -> Option<ChannelId> {
        let mut all = self.by_channel.iter();
        all.find(|(_, watch)| watch.number == number).map(|(id, _)| *id)
    }
}

impl Host {
    /// `createResourceWatch`: set up outside; [`Self::watch_opened`] answers.
    fn open_watch(&mut self, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, spec: Box<WatchSpec>) {
        if !self.config.serves_resources {
            return cx.answer(conn, id, Err(RpcError::method_not_found("createResourceWatch")));
        }
        if let Err(problem) = self.check_watch_count(conn) {
            return cx.answer(conn, id, Err(RpcError::invalid_params("uri", problem)));
        }
        let watch = self.parts.watches.next;
        self.parts.watches.next += 1;
        self.parts.watches.opening.push((watch, conn));
        cx.emit(ResourceCommand::OpenWatch {
            conn,
            id: id.clone(),
            watch,
            spec,
            reaches: self.browsable_roots(cx, conn),
        });
    }

    /// Whether the client on a connection may have one more. Counted by client, so that a new connection does not
    /// give more, and by principal, because a client chooses its id.
    fn check_watch_count(&self, conn: ConnId) -> Result<(), String> {
        let Some((client, principal, _)) = self.identity(conn) else {
            return Ok(());
        };
        let openers = self.parts.watches.opening.iter();
        let openers = openers.filter_map(|(_, by)| self.identity(*by).map(|(client, _, _)| client));
        let owners = self.parts.watches.by_channel.values().map(|watch| watch.owner.clone());
        let (mut of_client, mut of_principal) = (0, 0);
        for owner in openers.chain(owners) {
            of_client += usize::from(owner == client);
            let known = self.clients.get(&owner);
            of_principal += usize::from(known.is_some_and(|known| **known.principal() == *principal));
        }
        let most = self.config.max_watches;
        if of_client >= most {
            return Err(format!("a client has at most {most} watches; unsubscribe from some"));
        }
        let most = most.saturating_mul(CLIENTS_WATCHING);
        if of_principal >= most {
            return Err(format!(
                "all clients with your credential together have at most {most} watches; unsubscribe from some"
            ));
        }
        Ok(())
    }

    /// A watch was set up, or could not be.
    fn watch_opened(
        &mut self,
        cx: &mut Cx<'_>,
        conn: ConnId,
        id: &RequestId,
        number: u64,
        spec: WatchSpec,
        outcome: Result<String, RpcError>,
    ) {
        self.parts.watches.opening.retain(|(watch, _)| *watch != number);
        let admitted_by = match outcome {
            Ok(admitted_by) => admitted_by,
            Err(error) => return cx.answer(conn, id, Err(error)),
        };
        let Some((owner, _, _)) = self.identity(conn) else {
            // The client that could subscribe has disconnected.
            return cx.emit(ResourceCommand::CloseWatch { watch: number });
        };
        // Numbers never repeat, also not after a restart of the host.
        let uri = format!("ahp-resource-watch:/{}-{number}", self.log.seq().0);
        let channel = self.add_channel(&uri, ChannelKind::ResourceWatch);
        let items = |list: Option<Vec<String>>| list.map(|items| json!({ "items": items }));
        let lease_ms = cx.now.mono_ms.saturating_add(self.config.watch_lease_ms);
        let watch = Watch {
            number,
            state: Arc::new(ResourceWatchState {
                root: spec.uri,
                recursive: spec.recursive,
                excludes: items(spec.excludes),
                includes: items(spec.includes),
            }),
            admitted_by,
            owner,
            lease_ms,
        };
        self.parts.watches.by_channel.insert(channel, watch);
        self.timers.set(lease_ms, Timer::Channel(channel));
        cx.answer(conn, id, Ok(json!({ "channel": uri })));
    }

    /// Publishes changes of watched resources (WCH-05).
    fn watch_changed(&mut self, cx: &mut Cx<'_>, number: u64, changes: &[ResourceChange]) {
        // The watch may have been released while the change was on its way.
        let Some(channel) = self.parts.watches.channel_of(number) else {
            return;
        };
        // Grants expire without an input.
        self.settle_watch(cx, channel);
        if self.parts.watches.state(channel).is_none() {
            return;
        }
        // A client in its grace period gets it when it reconnects; without subscribers no client does.
        if changes.is_empty() {
            return;
        }
        let items: Vec<Value> = changes
            .iter()
            .map(|change| json!({ "uri": change.uri, "type": change.kind.name() }))
            .collect();
        let action = ResourceWatchChangedAction {
            changes: json!({ "items": items }),
        };
        self.commit(cx, channel, StateAction::ResourceWatchChanged(action), None);
    }

    /// Whether a connection may subscribe to a watch (SEC-03).
    fn check_watch(&self, now: &Cx<'_>, conn: ConnId, channel: ChannelId) -> Result<(), RpcError> {
        let Some(watch) = self.parts.watches.by_channel.get(&channel) else {
            return Ok(());
        };
        let reaches = self.browsable_roots(now, conn);
        let is_owner = self.identity(conn).is_some_and(|(client, _, _)| client == watch.owner);
        if is_owner || reaches.iter().any(|reach| reach.uri == watch.admitted_by) {
            return Ok(());
        }
        Err(RpcError::new(
            code::PERMISSION_DENIED,
            "this watch is about files that this client has no access to; create another watch",
        ))
    }

    /// A connection no longer subscribes to a channel. A watch ends with its last subscriber: at once after an
    /// unsubscribe, and otherwise when the client has not reconnected in time.
    fn left_watch(&mut self, cx: &mut Cx<'_>, channel: ChannelId, departure: Departure) {
        let is_heard = self.channels.get(channel).is_some_and(|entry| entry.has_subscribers());
        // Most channels are no watches.
        let Some(watch) = self.parts.watches.by_channel.get_mut(&channel) else {
            return;
        };
        if is_heard {
            return;
        }
        match departure {
            Departure::Disconnected => {
                watch.lease_ms = cx.now.mono_ms.saturating_add(self.config.grace_ms);
                self.timers.set(watch.lease_ms, Timer::Channel(channel));
            }
            Departure::Unsubscribed => {
                if watch.lease_ms <= cx.now.mono_ms || !self.is_awaited(channel) {
                    self.release_watch(cx, channel);
                }
            }
        }
    }

    /// The lease of a watch ends, unless it was renewed or the watch has a subscriber.
    fn end_lease(&mut self, cx: &mut Cx<'_>, channel: ChannelId) {
        let is_heard = self.channels.get(channel).is_some_and(|entry| entry.has_subscribers());
        let is_over = self
            .parts
            .watches
            .by_channel
            .get(&channel)
            .is_some_and(|watch| watch.lease_ms <= cx.now.mono_ms);
        if is_over && !is_heard {
            self.release_watch(cx, channel);
        }
    }

    /// Ends subscriptions of clients that have lost access, after an input that may have caused that: they left a
    /// session, it was disposed, or a grant was revoked (RES-15).
    fn settle_watches(&mut self, cx: &mut Cx<'_>) {
        if !std::mem::take(&mut self.parts.watches.in_doubt) {
            return;
        }
        let mut all: Vec<ChannelId> = self.parts.watches.by_channel.keys().copied().collect();
        all.sort_unstable();
        for channel in all {
            self.settle_watch(cx, channel);
        }
    }

    /// Ends the subscriptions to one watch of clients that have lost access. The watch ends with the last client that
    /// has access.
    fn settle_watch(&mut self, cx: &mut Cx<'_>, channel: ChannelId) {
        let Some(watch) = self.parts.watches.by_channel.get(&channel) else {
            return never!("the channel is a watch");
        };
        let (owner, uri) = (watch.owner.clone(), watch.admitted_by.clone());
        let listening = self.channels.get(channel).map(|entry| entry.listeners());
        let mut heirs = Vec::new();
        for conn in listening.unwrap_or_default() {
            match self.identity(conn) {
                Some((client, _, _)) if self.has_access(cx, &client, &uri) => heirs.push(client),
                Some((client, _, _)) => {
                    if let Some(connection) = self.conns.get_mut(&conn) {
                        connection.subscriptions.remove(&channel);
                    }
                    if let Some(entry) = self.channels.get_mut(channel) {
                        entry.unsubscribe(conn);
                    }
                    self.mark_client_dirty(&client);
                }
                None => {}
            }
        }
        if self.has_access(cx, &owner, &uri) {
            return;
        }
        match heirs.into_iter().next() {
            // Another subscriber has access: it owns the watch from now on.
            Some(heir) => {
                if let Some(watch) = self.parts.watches.by_channel.get_mut(&channel) {
                    watch.owner = heir;
                }
            }
            None if self.is_awaited(channel) => {}
            None => self.release_watch(cx, channel),
        }
    }

    /// Whether a client has access to a root on one of its connections. A client in its grace period keeps its
    /// access.
    fn has_access(&self, cx: &Cx<'_>, client: &ClientId, uri: &str) -> bool {
        match self.clients.get(client).map(|client| &client.presence) {
            Some(Presence::Active(transports)) => {
                let mut transports = transports.iter();
                transports.any(|conn| {
                    let reaches = self.allowed_roots(cx, conn);
                    self.may_browse(conn) || reaches.iter().any(|reach| reach.uri == uri)
                })
            }
            Some(Presence::Grace(_)) => true,
            Some(Presence::Absent(_)) | None => false,
        }
    }

    /// Whether a client that lost its connection may come back for a channel.
    fn is_awaited(&self, channel: ChannelId) -> bool {
        let Some(uri) = self.channels.get(channel).map(|entry| &entry.uri) else {
            return false;
        };
        self.clients.values().any(|client| match &client.presence {
            Presence::Grace(kept) => kept.subscriptions.contains_key(uri),
            Presence::Active(_) | Presence::Absent(_) => false,
        })
    }

    fn release_watch(&mut self, cx: &mut Cx<'_>, channel: ChannelId) {
        if let Some(watch) = self.parts.watches.by_channel.remove(&channel) {
            self.remove_channel(channel);
            cx.emit(ResourceCommand::CloseWatch { watch: watch.number });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_is_found_by_its_channel_and_by_its_number() {
        let mut watches = Watches::default();
        let watch = Watch {
            number: 7,
            state: Arc::new(ResourceWatchState {
                root: "file:///x/y".to_owned(),
                recursive: false,
                excludes: None,
                includes: None,
            }),
            admitted_by: "file:///x".to_owned(),
            owner: ClientId::new("c"),
            lease_ms: 0,
        };
        watches.by_channel.insert(ChannelId(3), watch);
        assert_eq!(watches.channel_of(7), Some(ChannelId(3)));
        assert_eq!(watches.channel_of(8), None);
        assert!(watches.state(ChannelId(3)).is_some() && watches.state(ChannelId(7)).is_none());
    }

    #[test]
    fn a_recheck_is_due_once() {
        let mut watches = Watches::default();
        watches.recheck();
        watches.recheck();
        assert!(std::mem::take(&mut watches.in_doubt));
        assert!(!watches.in_doubt);
    }
}

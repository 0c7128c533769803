//! Watches as channels (WCH): made on request, gone with their last subscriber.
//!
//! A watch that nobody subscribes to in time is released (E-56), and one whose subscribers are all
//! gone is kept as long as a client that lost its connection keeps its place (WCH-07). Who subscribes
//! must reach what admitted the watch, and as long as it listens (SEC-03): its events name files.

use std::sync::Arc;

use ahp::reducers::ReduceOutcome;
use ahp_types::actions::{ResourceWatchChangedAction, StateAction};
use ahp_types::state::ResourceWatchState;
use serde_json::{Value, json};

use crate::clients::client::Presence;
use crate::core::{ChannelCommand, ChannelPart, Cx, Departure, Host, PartCommand, PartInput, SessionRemoval, Timer};
use crate::effect::Effect;
use crate::ids::{ChannelId, ClientId, ConnId, IdMap};
use crate::input::Input;
use crate::protocol::action_table::ChannelKind;
use crate::protocol::error::{RpcError, code};
use crate::protocol::request::{Command, RequestId};

/// How many clients of one principal may have all the watches that a client may have.
const CLIENTS_WATCHING: usize = 4;

/// What `createResourceWatch` carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchSpec {
    /// The watched resource.
    pub uri: String,
    /// Whether everything below it is, too (WCH-02).
    pub recursive: bool,
    /// What of it is reported; absent means all.
    pub includes: Option<Vec<String>>,
    /// What of it is not.
    pub excludes: Option<Vec<String>>,
}

/// One change of what is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceChange {
    /// Where.
    pub uri: String,
    /// What.
    pub kind: ChangeKind,
}

/// What happened to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It came into being.
    Added,
    /// It changed.
    Updated,
    /// It is gone.
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
    /// A watch that [`crate::Effect::OpenWatch`] asked for was set up, or could not be.
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
    /// The place of whoever made it that the watched one lies in.
    admitted_by: String,
    owner: ClientId,
    /// When it is released if nobody subscribes by then.
    lease_ms: u64,
}

/// All watches.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    by_channel: IdMap<ChannelId, Watch>,
    next: u64,
    /// Those that are being set up, and for whom.
    opening: Vec<(u64, ConnId)>,
    /// Whether somebody may reach less than when a watch was made.
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
    /// Somebody may reach less than before: what they listen to is looked through.
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
        cx.effects.push(Effect::OpenWatch {
            conn,
            id: id.clone(),
            watch,
            spec,
            reaches: self.reaches_to_browse(cx, conn),
        });
    }

    /// Whether the client on a connection may have one more. By client, so that nobody gets more by connecting
    /// again, and by principal, because a client chooses its id.
    fn check_watch_count(&self, conn: ConnId) -> Result<(), String> {
        let Some((client, principal, _)) = self.who(conn) else {
            return Ok(());
        };
        let openers = self.parts.watches.opening.iter();
        let openers = openers.filter_map(|(_, by)| self.who(*by).map(|(client, _, _)| client));
        let owners = self.parts.watches.by_channel.values().map(|watch| watch.owner.clone());
        let (mut of_client, mut of_principal) = (0, 0);
        for owner in openers.chain(owners) {
            of_client += usize::from(owner == client);
            let known = self.clients.get(&owner);
            of_principal += usize::from(known.is_some_and(|known| *known.principal == *principal));
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
        let Some((owner, _, _)) = self.who(conn) else {
            // Nobody is left who could subscribe.
            return cx.effects.push(Effect::CloseWatch { watch: number });
        };
        // Numbers never come back, also not in another life of the host.
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
        let Some(channel) = self.parts.watches.channel_of(number) else {
            return;
        };
        // Grants end by themselves, without anything that happens.
        self.settle_watch(cx, channel);
        if self.parts.watches.state(channel).is_none() {
            return;
        }
        // A client in its grace gets it when it is back; before anybody has subscribed, nobody does.
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

    /// Whether a connection may hear a watch (SEC-03).
    fn check_watch(&self, now: &Cx<'_>, conn: ConnId, channel: ChannelId) -> Result<(), RpcError> {
        let Some(watch) = self.parts.watches.by_channel.get(&channel) else {
            return Ok(());
        };
        let reaches = self.reaches_to_browse(now, conn);
        let is_owner = self.who(conn).is_some_and(|(client, _, _)| client == watch.owner);
        if is_owner || reaches.iter().any(|reach| reach.uri == watch.admitted_by) {
            return Ok(());
        }
        Err(RpcError::new(
            code::PERMISSION_DENIED,
            "this watch is about files that you may not reach; make one of your own",
        ))
    }

    /// A connection no longer listens to a channel. The last one takes a watch with it, at once when
    /// it said so, and otherwise when it has not come back in time.
    fn left_watch(&mut self, cx: &mut Cx<'_>, channel: ChannelId, departure: Departure) {
        let is_heard = self.channels.get(channel).is_some_and(|entry| entry.has_subscribers());
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

    /// The lease of a watch ends, unless it was renewed or somebody listens.
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

    /// Takes watches from those who no longer reach what is watched, after an input that may have
    /// taken that from them: they left a session, it is gone, or a grant was taken back (RES-15).
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

    /// Takes one watch from those who no longer reach what is watched. It ends with the last who does.
    fn settle_watch(&mut self, cx: &mut Cx<'_>, channel: ChannelId) {
        let Some(watch) = self.parts.watches.by_channel.get(&channel) else {
            return;
        };
        let (owner, uri) = (watch.owner.clone(), watch.admitted_by.clone());
        let listening = self.channels.get(channel).map(|entry| entry.listeners());
        let mut heirs = Vec::new();
        for conn in listening.unwrap_or_default() {
            match self.who(conn) {
                Some((client, _, _)) if self.keeps_reach(cx, &client, &uri) => heirs.push(client),
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
        if self.keeps_reach(cx, &owner, &uri) {
            return;
        }
        match heirs.into_iter().next() {
            // Somebody else listens and may: it is theirs from now on.
            Some(heir) => {
                if let Some(watch) = self.parts.watches.by_channel.get_mut(&channel) {
                    watch.owner = heir;
                }
            }
            None if self.is_awaited(channel) => {}
            None => self.release_watch(cx, channel),
        }
    }

    /// Whether a client reaches a place with one of its connections. Who lost its connection keeps its
    /// place, and with it what it reached.
    fn keeps_reach(&self, cx: &Cx<'_>, client: &ClientId, uri: &str) -> bool {
        match self.clients.get(client).map(|client| &client.presence) {
            Some(Presence::Active(transports)) => {
                let mut reaches = transports.iter().flat_map(|conn| self.reaches_to_browse(cx, conn));
                reaches.any(|reach| reach.uri == uri)
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
            cx.effects.push(Effect::CloseWatch { watch: watch.number });
        }
    }
}

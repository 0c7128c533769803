//! One transport of a simulated client: it decodes everything with the published types, keeps a
//! mirror, and complains about whatever no correct host would send.

use std::collections::BTreeMap;

use ahp::reducers::ReduceOutcome;
use ahp_types::actions::{ActionEnvelope, StateAction};
use ahp_types::state::{Snapshot, TerminalClaim};
use bytes::Bytes;
use innkeeper_core::ConnId;
use serde_json::Value;

use crate::sim::Violation;
use crate::sim::client::decoding::{Decoder, decode};
use crate::sim::client::history::narrowed;
use crate::sim::client::mirror::{Mirror, Mirrored, as_0_9, comparable};
use crate::sim::client::optimism::PendingActions;
use crate::sim::client::queue::{Marker, Queue, Read};
use crate::sim::client::requests::{Dispatched, FollowUp, PendingRequest};

/// One transport.
#[derive(Debug)]
pub struct Connection {
    /// The host's name for it.
    pub id: ConnId,
    /// The client that owns it.
    pub client: usize,
    /// Whether the host has admitted it.
    pub admitted: bool,
    /// Whether the handshake's answer was read.
    pub ready: bool,
    /// Whether the client merges what it may.
    pub coalesce: bool,
    /// Whether it speaks 0.9.
    pub is_0_9: bool,
    /// Whether the host can change nothing.
    pub read_only: bool,
    /// Messages that the host sent.
    pub queue: Queue,
    /// Its mirror.
    pub mirror: Mirror,
    /// The channels it subscribes to as far as the host is concerned.
    pub host_subscriptions: std::collections::BTreeSet<String>,
    /// Unanswered requests.
    pub asked: BTreeMap<u64, PendingRequest>,
    /// Actions by `clientSeq`.
    pub dispatched: BTreeMap<i64, Dispatched>,
    /// The client's own name.
    pub client_id: String,
    /// Optimistic actions that the host has not settled.
    pub unsettled: PendingActions,
}

impl Connection {
    /// A transport on which nothing was said yet.
    pub fn new(id: ConnId, client: usize, client_id: &str, mirror: Mirror) -> Self {
        Self {
            id,
            client,
            admitted: false,
            ready: false,
            coalesce: false,
            is_0_9: false,
            read_only: false,
            queue: Queue::default(),
            mirror,
            host_subscriptions: Default::default(),
            asked: BTreeMap::new(),
            dispatched: BTreeMap::new(),
            client_id: client_id.to_owned(),
            unsettled: PendingActions::default(),
        }
    }

    /// A channel as the user of this client sees it.
    pub fn view(&self, channel: &str) -> Option<Mirrored> {
        self.unsettled.view(&self.mirror, channel)
    }

    /// The claim of a terminal, as far as it is known here.
    pub fn claim(&self, terminal: &str) -> Option<&TerminalClaim> {
        match self.mirror.channels.get(terminal)? {
            Mirrored::Terminal(state) => Some(&state.claim),
            Mirrored::Root(_)
            | Mirrored::Session(_)
            | Mirrored::Chat(_)
            | Mirrored::Changeset(_)
            | Mirrored::Annotations(_) => None,
        }
    }

    /// Reads up to `frames` messages.
    pub fn read(&mut self, frames: usize, decoder: &mut Decoder) -> Result<Vec<FollowUp>, Violation> {
        let mut follow_ups = Vec::new();
        for read in self.queue.read(frames, self.coalesce) {
            let outcome = match read {
                Read::Message(bytes) => self.message(&bytes, decoder),
                Read::Marker(marker) => self.marker(marker).map(|()| None),
                Read::Unwritable => Ok(Some(FollowUp::ComeBack)),
            };
            match outcome {
                Ok(follow_up) => follow_ups.extend(follow_up),
                Err(violation) => return Err(violation.on(&self.client_id, self.id)),
            }
        }
        Ok(follow_ups)
    }

    /// The parameters of an unanswered `reconnect`.
    pub fn reconnecting(&self) -> Option<(u64, Vec<String>)> {
        self.asked.values().find_map(|asked| match asked {
            PendingRequest::Reconnect { last_seen, channels } => Some((*last_seen, channels.clone())),
            _ => None,
        })
    }

    /// Gives up the transport and keeps what a client would know after losing it.
    pub fn into_mirror(self) -> Mirror {
        let mut mirror = self.mirror;
        for marker in self.queue.into_markers() {
            if let Marker::Unsubscribed(channel) = marker {
                mirror.channels.remove(&channel);
            }
        }
        mirror.catalogue = None;
        mirror
    }

    fn marker(&mut self, marker: Marker) -> Result<(), Violation> {
        match marker {
            Marker::Unsubscribed(channel) => {
                self.mirror.channels.remove(&channel);
                if channel == innkeeper_core::uri::ROOT {
                    self.mirror.catalogue = None;
                }
            }
            Marker::Gone(channels) => {
                for channel in channels {
                    self.mirror.channels.remove(&channel);
                }
            }
            Marker::Resumable { present, absent } => {
                let has = |uri: &String| self.mirror.channels.contains_key(uri);
                if let Some(lost) = present.iter().find(|uri| !has(uri)) {
                    return Err(Violation::new(format!("reconnect did not resume {lost} (REC-08)")));
                }
                if let Some(ghost) = absent.iter().find(|uri| has(uri)) {
                    return Err(Violation::new(format!(
                        "reconnect did not report {ghost} as missing (REC-02)"
                    )));
                }
            }
            Marker::Expect(snapshots) => {
                for snapshot in snapshots {
                    let Some(mirrored) = self.mirror.channels.get_mut(&*snapshot.resource) else {
                        let problem = format!("the subscription to {} was never answered", snapshot.resource);
                        return Err(Violation::new(problem));
                    };
                    let snapshot = match self.is_0_9 {
                        true => as_0_9(snapshot, mirrored),
                        false => snapshot,
                    };
                    if mirrored.equals(&snapshot.state) {
                        continue;
                    }
                    let (host, mine) = (comparable(&narrowed(&snapshot, mirrored)), mirrored.comparable());
                    // Its turns were in the store and are gone by now.
                    if host != mine && !host.is_null() {
                        return Err(Violation::new(format!(
                            "{} differs from the host's state\n  host: {host}\n  mine: {mine}",
                            snapshot.resource
                        )));
                    }
                }
            }
        }
        Ok(())
    }

    fn message(&mut self, bytes: &Bytes, decoder: &mut Decoder) -> Result<Option<FollowUp>, Violation> {
        if let Some(envelope) = decoder.action(bytes)? {
            return self.action(&envelope, Arrival::Live).map(|()| None);
        }
        let mut message: Value = serde_json::from_slice(bytes)
            .map_err(|error| Violation::new(format!("not JSON: {error}: {}", String::from_utf8_lossy(bytes))))?;
        match (message.get("method").and_then(Value::as_str), message.get("id")) {
            (Some("action"), None) => {
                let envelope: ActionEnvelope = decode(message["params"].take())?;
                self.action(&envelope, Arrival::Live)?;
                Ok(None)
            }
            (Some(method), None) => {
                crate::sim::client::session_list::notification(&mut self.mirror, method, &message["params"])?;
                Ok(None)
            }
            (None, Some(_)) => self.response(message),
            _ => Err(Violation::new(format!(
                "neither a response nor a notification: {message}"
            ))),
        }
    }

    fn response(&mut self, mut message: Value) -> Result<Option<FollowUp>, Violation> {
        let asked = message["id"].as_u64().and_then(|id| self.asked.remove(&id));
        let Some(asked) = asked else {
            return Err(Violation::new(format!("an answer to nothing: {message}")));
        };
        if let Some(error) = message.get("error") {
            let code = error["code"].as_i64();
            return match asked {
                // The host has forgotten the client: the published client starts over.
                PendingRequest::Reconnect { .. } if code == Some(-32008) => Ok(Some(FollowUp::Initialize)),
                PendingRequest::Subscribe { exists: false, .. }
                | PendingRequest::Lifecycle
                | PendingRequest::Initialize
                | PendingRequest::Operation
                | PendingRequest::Move => Ok(None),
                // A read-only host refuses every change (P14).
                PendingRequest::Authenticate { .. } if self.read_only && code == Some(-32603) => Ok(None),
                PendingRequest::Authenticate { wanted: false } if code == Some(-32602) => Ok(None),
                PendingRequest::Turns { sound: false } if code == Some(-32602) || code == Some(-32001) => Ok(None),
                PendingRequest::Authenticate { .. }
                | PendingRequest::Turns { .. }
                | PendingRequest::Ping
                | PendingRequest::List
                | PendingRequest::Reconnect { .. }
                | PendingRequest::Subscribe { .. } => Err(Violation::new(format!("an unexpected error: {message}"))),
            };
        }
        let mut result = message["result"].take();
        match asked {
            PendingRequest::Ping | PendingRequest::Lifecycle => match result {
                Value::Null => Ok(None),
                other => Err(Violation::new(format!("the result is null, not {other}"))),
            },
            PendingRequest::Move => match result["session"].as_str() {
                Some(_) => Ok(None),
                None => Err(Violation::new(format!("moveChat answers {result} (CHT-16)"))),
            },
            PendingRequest::Operation => match result["message"].as_str() {
                Some(_) => Ok(None),
                None => Err(Violation::new(format!("an operation answers {result} (CHG-11)"))),
            },
            // The turns came before (PAGE-01).
            PendingRequest::Turns { .. } => match &result {
                Value::Object(fields) if fields.is_empty() => Ok(None),
                other => Err(Violation::new(format!(
                    "fetchTurns answers {other}, not {{}} (PAGE-01)"
                ))),
            },
            PendingRequest::Authenticate { wanted } => match (&result, wanted) {
                (Value::Object(fields), true) if fields.is_empty() => Ok(None),
                (other, _) => Err(Violation::new(format!("unexpected answer to a token: {other}"))),
            },
            PendingRequest::Initialize => {
                let result: ahp_types::commands::InitializeResult = decode(result.take())?;
                self.mirror = Mirror::default();
                self.advance(u64::try_from(result.server_seq).unwrap_or_default())?;
                self.is_0_9 = result.protocol_version.starts_with("0.");
                for snapshot in result.snapshots {
                    self.snapshot(snapshot)?;
                }
                self.ready = true;
                Ok(self.wants_list())
            }
            PendingRequest::Reconnect { last_seen, channels } => {
                self.reconnected(decode(result.take())?, last_seen, &channels)?;
                self.ready = true;
                Ok(self.wants_list())
            }
            PendingRequest::Subscribe { channel, turns, .. } => {
                let result: ahp_types::commands::SubscribeResult = decode(result.take())?;
                match result.snapshot {
                    Some(snapshot) if snapshot.resource == channel => {
                        self.snapshot(snapshot)?;
                        self.check_window(&channel, turns)?;
                    }
                    other => return Err(Violation::new(format!("{channel} was answered with {other:?}"))),
                }
                Ok((channel == innkeeper_core::uri::ROOT).then_some(FollowUp::List))
            }
            PendingRequest::List => {
                let result: ahp_types::commands::ListSessionsResult = decode(result.take())?;
                if self.mirror.channels.contains_key(innkeeper_core::uri::ROOT) {
                    self.mirror.catalogue = Some(crate::sim::client::session_list::from_list(&result));
                }
                Ok(None)
            }
        }
    }

    fn reconnected(
        &mut self,
        result: ahp_types::commands::ReconnectResult,
        last_seen: u64,
        channels: &[String],
    ) -> Result<(), Violation> {
        match result {
            ahp_types::commands::ReconnectResult::Replay(replay) => {
                for envelope in replay.actions {
                    if envelope.server_seq <= last_seen || !channels.contains(&envelope.channel) {
                        return Err(Violation::new(format!("replayed without being missed: {envelope:?}")));
                    }
                    self.action(&envelope, Arrival::Replayed)?;
                }
                for missing in replay.missing {
                    self.mirror.channels.remove(&missing);
                }
            }
            ahp_types::commands::ReconnectResult::Snapshot(resync) => {
                self.mirror.channels.clear();
                for snapshot in resync.snapshots {
                    self.snapshot(snapshot)?;
                }
                self.mirror.counted = self.mirror.last_seen;
            }
        }
        Ok(())
    }

    fn snapshot(&mut self, snapshot: Snapshot) -> Result<(), Violation> {
        let from_seq = u64::try_from(snapshot.from_seq).unwrap_or_default();
        if from_seq < self.mirror.last_seen {
            return Err(Violation::new(format!(
                "the snapshot of {} is of {from_seq}, and {} was read before (SUB-02)",
                snapshot.resource, self.mirror.last_seen
            )));
        }
        self.mirror.last_seen = from_seq;
        let mirrored = Mirrored::from_snapshot(snapshot.state)?;
        self.mirror.channels.insert(snapshot.resource, mirrored);
        Ok(())
    }

    fn action(&mut self, envelope: &ActionEnvelope, arrived: Arrival) -> Result<(), Violation> {
        // One action may become several of an older version, which share its number.
        let goes_on = match self.is_0_9 {
            true => envelope.server_seq >= self.mirror.last_seen,
            false => envelope.server_seq > self.mirror.last_seen,
        };
        if !goes_on {
            return Err(Violation::new(format!(
                "serverSeq {} after {}: {envelope:?}",
                envelope.server_seq, self.mirror.last_seen
            )));
        }
        self.mirror.last_seen = envelope.server_seq;
        self.mirror.counted = envelope.server_seq;
        let own = envelope
            .origin
            .as_ref()
            .filter(|origin| origin.client_id == self.client_id)
            .map(|origin| origin.client_seq);
        if let Some(client_seq) = own {
            self.unsettled.settle(client_seq);
        }
        if let Some(reason) = &envelope.rejection_reason {
            let dispatched = own.and_then(|client_seq| self.dispatched.get_mut(&client_seq));
            return match (dispatched, arrived, reason.is_empty()) {
                (Some(dispatched), Arrival::Live, false) => {
                    dispatched.rejections += 1;
                    Ok(())
                }
                _ => Err(Violation::new(format!(
                    "a refusal that is not ours to read: {envelope:?}"
                ))),
            };
        }
        if let Some(dispatched) = own.and_then(|client_seq| self.dispatched.get_mut(&client_seq)) {
            dispatched.echoes += 1;
        }
        let Some(mirrored) = self.mirror.channels.get_mut(&envelope.channel) else {
            return Err(Violation::new(format!(
                "an action on a channel that is not subscribed to: {envelope:?}"
            )));
        };
        if matches!(envelope.action, StateAction::ChatTurnStarted(_)) && mirrored.active_turn().is_some() {
            return Err(Violation::new(format!("a second turn starts (TURN-01): {envelope:?}")));
        }
        // An echo of our own may be about a call that is decided already (DSP-15).
        let is_own_decision = own.is_some() && matches!(envelope.action, StateAction::ChatToolCallConfirmed(_));
        if let Some(objection) = mirrored.objection(&envelope.action).filter(|_| !is_own_decision) {
            return Err(Violation::new(format!("{objection}: {envelope:?}")));
        }
        match (mirrored.apply(&envelope.action), own) {
            (ReduceOutcome::Applied, _) => Ok(()),
            // Input changes nothing (TRM-06).
            (ReduceOutcome::NoOp, None) if matches!(envelope.action, StateAction::TerminalInput(_)) => Ok(()),
            // An echo of our own may change nothing (DSP-15), or rename a chat (DSP-07).
            (ReduceOutcome::NoOp | ReduceOutcome::OutOfScope, Some(_)) => Ok(()),
            // Snapshots of 0.9 do not show background work, and clients of 0.9 ignore its end.
            (ReduceOutcome::NoOp, None)
                if self.is_0_9 && matches!(envelope.action, StateAction::ChatBackgroundWorkRemoved(_)) =>
            {
                Ok(())
            }
            (outcome, _) => Err(Violation::new(format!(
                "an action that cannot be applied ({outcome:?}): {envelope:?}"
            ))),
        }
    }

    fn advance(&mut self, seq: u64) -> Result<(), Violation> {
        if seq == 0 || seq < self.mirror.last_seen {
            return Err(Violation::new(format!("initialize names serverSeq {seq}")));
        }
        self.mirror.last_seen = seq;
        self.mirror.counted = seq;
        Ok(())
    }

    fn wants_list(&self) -> Option<FollowUp> {
        let on_root = self.mirror.channels.contains_key(innkeeper_core::uri::ROOT);
        on_root.then_some(FollowUp::List)
    }
}

/// How an action came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrival {
    Live,
    Replayed,
}

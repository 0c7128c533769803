//! `initialize` and `reconnect`.

use std::sync::Arc;

use innkeeper_dialects::{Chosen, negotiate};
use serde_json::{Value, json};

use crate::clients::channels::Subscription;
use crate::clients::client::{ActiveTransports, Client, Negotiated, Phase, Presence, Subscriptions};
use crate::core::{Cx, Host, ROOT, Timer};
use crate::effect::{CloseReason, Delivery};
use crate::ids::{ChannelId, ClientId, ConnId, Seq};
use crate::protocol::dialect::Dialect;
use crate::protocol::error::{RpcError, code};
use crate::protocol::frame::{ActionFrame, Outgoing};
use crate::protocol::request::{Initialize, Reconnect, RequestId};
use crate::protocol::snapshot::{AnswerBody, RpcAnswer, Snapshot, Window};
use crate::protocol::uri;

/// The subscriptions that a connection took over from earlier ones of its client.
#[derive(Default)]
struct Resumed {
    /// The channels, each once.
    windows: Vec<(ChannelId, Window)>,
    /// The URIs of those that it cannot have any more.
    missing: Vec<String>,
    /// The client's state of every channel can be continued.
    can_continue: bool,
}

impl Resumed {
    fn channels(&self) -> impl Iterator<Item = ChannelId> {
        self.windows.iter().map(|(channel, _)| *channel)
    }
}

impl Host {
    pub(crate) fn initialize(&mut self, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, initialize: Initialize) {
        let Chosen { version, shown } = match negotiate(&initialize.offer) {
            Ok(Some(chosen)) => chosen,
            Ok(None) => {
                cx.answer(conn, id, Err(RpcError::unsupported_version(&initialize.offer)));
                cx.emit(Delivery::Close {
                    conn,
                    reason: CloseReason::UnsupportedVersion,
                });
                return;
            }
            // NEG-04: a malformed entry is an error of the whole call, not skipped.
            Err(problem) => return cx.answer(conn, id, Err(RpcError::invalid_params("protocolVersions", problem))),
        };
        let negotiated = Negotiated {
            dialect: Dialect {
                version,
                mcp_apps: initialize.mcp_apps,
            },
            version: match &shown {
                Value::String(shown) => shown.as_str().into(),
                number => number.to_string().into(),
            },
            locale: initialize.locale.as_deref().map(Into::into),
        };
        if let Err(error) = self.attach_client(conn, &initialize.client_id, Some(negotiated)) {
            return cx.answer(conn, id, Err(error));
        }
        // NEG-11: there is no per-item error, so what is unknown is left out.
        let mut channels: Vec<(ChannelId, Window)> = Vec::new();
        for uri in watches_last(&initialize.initial_subscriptions) {
            if uri::is_telemetry(uri) {
                // It has no snapshot, and goes live.
                let _ = self.subscribe_to_logs(conn, uri);
                continue;
            }
            match self.register(cx, conn, uri, None, None) {
                Ok((channel, window)) if !channels.iter().any(|(known, _)| *known == channel) => {
                    channels.push((channel, window));
                }
                Ok(_) | Err(_) => {}
            }
        }
        if !version.has_channels() {
            // Its notifications belong to no channel: every client gets them.
            let _ = self.register_channel(cx, conn, ROOT, None, None);
        }
        let (snapshots, estimated_bytes) = self.capture_all(conn, channels);
        let mut server_info = json!({ "name": self.config.server_name, "title": "Innkeeper" });
        if let Some(version) = &self.config.server_version {
            server_info["version"] = json!(version);
        }
        let mut head = json!({
            "protocolVersion": shown,
            "serverSeq": self.log.seq().0,
            "serverInfo": server_info,
            // The characters after which a client requests `completions` (CMP-01).
            "completionTriggerCharacters": ["@", "/"],
        });
        if let Some(telemetry) = self.offered_telemetry(conn) {
            head["telemetry"] = telemetry;
        }
        if let Some(directory) = self.offered_directory(conn) {
            head["defaultDirectory"] = json!(directory);
        }
        let mut head = head.to_string().into_bytes();
        head.pop();
        let answer = RpcAnswer {
            id: id.clone(),
            body: AnswerBody::Initialized { head, snapshots },
            estimated_bytes,
        };
        self.persist_client_now(cx, &initialize.client_id);
        cx.send(conn, Outgoing::Answer(Arc::new(answer)));
    }

    /// `reconnect`: replays the missed actions, or sends snapshots if the client's state cannot be continued.
    pub(crate) fn reconnect(&mut self, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, reconnect: Reconnect) {
        let client = &reconnect.client_id;
        let earlier = self.earlier_subscriptions(client);
        if let Err(error) = self.attach_client(conn, client, None) {
            return cx.answer(conn, id, Err(error));
        }
        let last_seen = Seq(reconnect.last_seen);
        // A number between two runs of the host belongs to actions that were seen and lost (P5).
        let is_known = self.log.can_continue_from(last_seen);
        self.leave_unnamed(cx, client, &reconnect.subscriptions);
        // The cut and the registration are one step, so nothing is lost or sent twice between the replay and the
        // first live action (REC-09).
        let resumed = self.resume_subscriptions(cx, conn, &reconnect.subscriptions, &earlier, last_seen);
        let has_root = resumed.channels().any(|channel| channel == ROOT);
        let actions = match is_known && resumed.can_continue {
            true => self.missed_actions(conn, client, &resumed, last_seen),
            false => None,
        };
        let (body, estimated_bytes) = match actions {
            Some(actions) => {
                self.resume_bases(conn, &earlier);
                let bytes = actions.iter().map(|frame| frame.bytes.len()).sum::<usize>();
                let missing = resumed.missing;
                (AnswerBody::Replayed { actions, missing }, 512 + bytes)
            }
            None => {
                let (snapshots, bytes) = self.capture_all(conn, resumed.windows);
                (AnswerBody::Resynced { snapshots }, bytes)
            }
        };
        let answer = RpcAnswer {
            id: id.clone(),
            body,
            estimated_bytes,
        };
        cx.send(conn, Outgoing::Answer(Arc::new(answer)));
        if has_root {
            self.repeat_summaries(cx, conn, if is_known { last_seen } else { Seq(0) });
        }
    }

    /// Subscribes a connection to the channels that its client names.
    fn resume_subscriptions(
        &mut self,
        cx: &mut Cx<'_>,
        conn: ConnId,
        named: &[String],
        earlier: &Subscriptions,
        last_seen: Seq,
    ) -> Resumed {
        let mut resumed = Resumed {
            can_continue: true,
            ..Resumed::default()
        };
        for uri in watches_last(named) {
            if uri::is_telemetry(uri) {
                // There is nothing to continue: it just goes live again (REC-07, OTL-05).
                if self.subscribe_to_logs(conn, uri).is_err() {
                    resumed.missing.push(uri.clone());
                }
                continue;
            }
            let known = earlier.get(uri.as_str());
            match self.register(cx, conn, uri, known.map(|known| known.max_latency_ms), None) {
                Ok((channel, _)) if resumed.channels().any(|known| known == channel) => {}
                Ok((channel, window)) => {
                    resumed.can_continue &= known.is_some_and(|known| self.continues(conn, channel, known, last_seen));
                    resumed.windows.push((channel, window));
                }
                Err(_) => resumed.missing.push(uri.clone()),
            }
        }
        if !self.conns.dialect(conn).version.has_channels() {
            // Its notifications belong to no channel.
            let _ = self.register_channel(cx, conn, ROOT, None, None);
        }
        resumed
    }

    /// Returns true if a replay from `last_seen` continues the state that a client has of a channel. It does not for a
    /// new session under the URI of an old one, nor from before the snapshot of the subscription or a page of turns
    /// sent to the client alone: the published client does not count a snapshot as seen, and the host does not know
    /// whether either ever arrived.
    fn continues(&self, conn: ConnId, channel: ChannelId, known: &Subscription, last_seen: Seq) -> bool {
        let started = known.base.started;
        let created = self.channels.get(channel).map(|entry| entry.created);
        known.dialect.has_state_of(self.conns.dialect(conn))
            && started <= last_seen
            && created.is_some_and(|created| created <= started)
    }

    /// Returns the actions that a client missed. `None` if they are not all there, as with a number of the future or of
    /// an earlier run of the host (REC-11), or if its version needs the states between to understand one of them.
    fn missed_actions(
        &self,
        conn: ConnId,
        client: &ClientId,
        resumed: &Resumed,
        last_seen: Seq,
    ) -> Option<Vec<Arc<ActionFrame>>> {
        let dialect = self.conns.dialect(conn);
        if !dialect.version.replays() {
            return None;
        }
        let channels: Vec<ChannelId> = resumed.channels().collect();
        dialect.replay(client, self.log.replay_since(&channels, last_seen)?)
    }

    /// Captures what a connection has just subscribed to, for one answer, and says roughly how many
    /// bytes that is.
    fn capture_all(&mut self, conn: ConnId, mut windows: Vec<(ChannelId, Window)>) -> (Vec<Snapshot>, usize) {
        self.fit_together(conn, &mut windows);
        let snapshots = windows.iter();
        let snapshots = snapshots.filter_map(|(channel, window)| self.capture_for(conn, *channel, *window));
        let bytes = windows.iter();
        let bytes = bytes.map(|(channel, window)| self.estimated_bytes_for(conn, *channel, *window));
        (snapshots.collect(), 512 + bytes.sum::<usize>())
    }

    /// A client that reconnects without some of its sessions has left them (REC-14). It leaves before it subscribes
    /// to anything: the consequences, such as failed calls in a chat that it resumes, are part of the answer and not
    /// sent in addition (REC-09).
    fn leave_unnamed(&mut self, cx: &mut Cx<'_>, id: &ClientId, named: &[String]) {
        let mut kept: Vec<ChannelId> = Vec::new();
        for channel in named.iter().filter_map(|uri| self.channels.find(uri)) {
            // A client gets at most this many subscriptions, however many it names.
            if kept.len() < self.config.max_subscriptions && !kept.contains(&channel) {
                kept.push(channel);
            }
        }
        self.leave_unsubscribed(cx, id, &kept);
    }

    /// The subscriptions of a client's open and ended connections. Where several overlap, the latest start counts: in
    /// doubt, as when they have different turns, the client gets snapshots.
    pub(crate) fn earlier_subscriptions(&self, id: &ClientId) -> Subscriptions {
        let mut earlier = Subscriptions::default();
        match self.clients.get(id).map(|client| &client.presence) {
            Some(Presence::Grace(kept)) => earlier.clone_from(&kept.subscriptions),
            Some(Presence::Absent(subscriptions)) => earlier.clone_from(subscriptions),
            Some(Presence::Active(transports)) => {
                for conn in transports.iter() {
                    for channel in self.conns.get(&conn).into_iter().flat_map(|conn| &conn.subscriptions) {
                        let entry = self.channels.get(*channel);
                        if let Some((entry, found)) = entry.and_then(|entry| Some((entry, entry.subscription(conn)?))) {
                            let known = earlier.entry(Arc::clone(&entry.uri)).or_insert_with(|| found.clone());
                            known.base.started = known.latest_start(&found);
                        }
                    }
                }
            }
            None => {}
        }
        earlier
    }

    /// After a replay a subscription continues from its original base.
    fn resume_bases(&mut self, conn: ConnId, earlier: &Subscriptions) {
        for (uri, subscription) in earlier {
            let channel = self.channels.find(uri);
            if let Some(entry) = channel.and_then(|channel| self.channels.get_mut(channel)) {
                entry.set_base(conn, subscription.base.clone());
            }
        }
    }

    /// Binds a connection to a client. Without `negotiated` the client must be known, and its
    /// last negotiation holds (REC-12, REC-13).
    fn attach_client(&mut self, conn: ConnId, id: &ClientId, negotiated: Option<Negotiated>) -> Result<(), RpcError> {
        let Some(connection) = self.conns.get_mut(&conn) else {
            return Err(RpcError::invalid_request("the connection is closed"));
        };
        let principal = &connection.principal.name;
        // `reconnect` does not carry versions, so a later run has to know the latest.
        let mut replaces = false;
        let mut was_absent = false;
        match self.clients.get_mut(id) {
            Some(client) if client.principal() != principal => {
                return Err(match negotiated {
                    Some(_) => RpcError::new(
                        code::PERMISSION_DENIED,
                        format!(
                            "the client id {:?} belongs to another credential; choose another id",
                            id.as_str()
                        ),
                    ),
                    // To a reconnecting stranger the other one's client does not exist.
                    None => unknown_client(id),
                });
            }
            Some(client) => {
                let is_fresh = negotiated.is_some();
                if let Some(negotiated) = negotiated {
                    let before = std::mem::replace(&mut client.negotiated, negotiated);
                    replaces =
                        before.version != client.negotiated.version || before.dialect != client.negotiated.dialect;
                }
                match &mut client.presence {
                    Presence::Active(transports) => transports.add(conn),
                    Presence::Grace(kept) => {
                        // A client that starts anew does not name the sessions that it still takes part in: it has
                        // the rest of its grace period to subscribe to them (ACT-10).
                        if !is_fresh {
                            self.timers.cancel(kept.until_ms, Timer::EndGrace(id.clone()));
                        }
                        client.presence = Presence::Active(ActiveTransports::one(conn));
                    }
                    Presence::Absent(_) => {
                        was_absent = true;
                        client.presence = Presence::Active(ActiveTransports::one(conn));
                    }
                }
                connection.phase = Phase::Ready {
                    client: id.clone(),
                    dialect: client.negotiated.dialect,
                };
            }
            None => {
                let Some(negotiated) = negotiated else {
                    return Err(unknown_client(id));
                };
                connection.phase = Phase::Ready {
                    client: id.clone(),
                    dialect: negotiated.dialect,
                };
                let presence = Presence::Active(ActiveTransports::one(conn));
                let client = Client::new(Arc::clone(principal), negotiated, presence);
                self.clients.insert(id.clone(), client);
            }
        }
        if was_absent {
            self.clients.remove_absent(id);
        }
        match replaces {
            true => self.mark_client_replaced(id),
            false => self.mark_client_dirty(id),
        }
        Ok(())
    }
}

/// The channels in the order in which they can be subscribed to: access to a watch depends on the sessions that the
/// client subscribes to (SEC-03), at any position in the list.
fn watches_last(channels: &[String]) -> Vec<&String> {
    let mut channels: Vec<&String> = channels.iter().collect();
    channels.sort_by_key(|uri| uri::is_watch(uri));
    channels
}

fn unknown_client(id: &ClientId) -> RpcError {
    RpcError::new(
        code::NOT_FOUND,
        format!(
            "this host does not know the client {:?}, perhaps because it was restarted; send initialize",
            id.as_str()
        ),
    )
}

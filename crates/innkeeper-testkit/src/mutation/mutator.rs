//! The layer between the core and the simulated clients. Without a mutation it only delivers.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use innkeeper_core::{ActionFrame, ConnId, HostCore, Outgoing};
use serde_json::Value;

use super::Mutation;
use super::agents::AgentMemory;
use super::answers::{Memory, ReconnectRequest};
use super::changes::ReportedFiles;
use super::servers::ServerStarts;
use super::terminals::TerminalClears;
use crate::sim::{Connections, Item};

/// A bug strikes at its first chance and every third after it: neither constant nor rare.
const STRIKES_EVERY: u64 = 3;
/// For how many inputs a late response is held back at most.
const HELD_FOR: u32 = 6;

/// Delivers what the core sends, bent by at most one bug.
#[derive(Debug)]
pub struct Mutator {
    pub(super) mutation: Option<Mutation>,
    chances: u64,
    /// Its knowledge of agents.
    pub(super) dealings: AgentMemory,
    /// Its knowledge of MCP servers.
    pub(super) starts: ServerStarts,
    /// Its knowledge of terminals.
    pub(super) clears: TerminalClears,
    /// Its knowledge of views.
    pub(super) reported: ReportedFiles,
    memory: Memory,
    /// Connections that unsubscribed and still listen.
    strays: Vec<(ConnId, String)>,
    /// Responses that are late, and for how many more inputs.
    held: BTreeMap<ConnId, (u32, Outgoing)>,
    last_delivered: BTreeMap<ConnId, u64>,
}

impl Mutator {
    /// A layer with this bug, or none.
    pub fn new(mutation: Option<Mutation>) -> Self {
        Self {
            mutation,
            chances: 0,
            dealings: AgentMemory::default(),
            starts: ServerStarts::default(),
            clears: TerminalClears::default(),
            reported: ReportedFiles::default(),
            memory: Memory::default(),
            strays: Vec::new(),
            held: BTreeMap::new(),
            last_delivered: BTreeMap::new(),
        }
    }

    /// Looks at the host before it handles an input.
    pub fn before(&mut self, core: &HostCore, conns: &mut Connections) {
        if self.mutation == Some(Mutation::StaleSnapshot) {
            self.memory.watch(core, &crate::sim::all_channels());
        }
        let due: Vec<ConnId> = self
            .held
            .iter_mut()
            .filter_map(|(conn, (left, _))| {
                *left = left.saturating_sub(1);
                (*left == 0).then_some(*conn)
            })
            .collect();
        for conn in due {
            self.release(conns, conn);
        }
    }

    /// Notes an action that was kept.
    pub fn appended(&mut self, frame: &Arc<ActionFrame>) {
        if self.mutation == Some(Mutation::ReplayRepeatsSeen) {
            self.memory.frames.push(Arc::clone(frame));
        }
    }

    /// Notes an `unsubscribe`.
    pub fn unsubscribed(&mut self, conn: ConnId, channel: &str) {
        if self.mutation == Some(Mutation::DeliverAfterUnsubscribe) {
            self.strays.push((conn, channel.to_owned()));
        }
    }

    /// Notes the end of a connection.
    pub fn cut(&mut self, conn: ConnId) {
        self.strays.retain(|(stray, _)| *stray != conn);
        self.held.remove(&conn);
    }

    /// Delivers an action; each connection comes with whether it allows merging.
    pub fn publish(&mut self, conns: &mut Connections, audience: &[(ConnId, bool)], frame: &Arc<ActionFrame>) {
        if self.mutation == Some(Mutation::LeaveInputNeeded)
            && envelope(frame)["action"]["type"] == "session/inputNeededRemoved"
            && self.strikes(Mutation::LeaveInputNeeded)
        {
            return;
        }
        if self.hides(frame) || self.hides_part(frame) {
            return;
        }
        let skipped = self.strikes(Mutation::DropPublish) && !audience.is_empty();
        let skip = (self.chances as usize) % audience.len().max(1);
        for (index, (conn, merges)) in audience.iter().enumerate() {
            if skipped && index == skip {
                continue;
            }
            let item = if *merges {
                Item::Mergeable(Arc::clone(frame))
            } else {
                Item::Message(Outgoing::Action(Arc::clone(frame)))
            };
            self.deliver_action(conns, *conn, frame, item);
            self.release(conns, *conn);
        }
        if !self.strays.is_empty() {
            let envelope = envelope(frame);
            for (conn, channel) in &self.strays {
                let subscribes = audience.iter().any(|(subscriber, _)| subscriber == conn);
                if !subscribes && envelope["channel"].as_str() == Some(channel.as_str()) {
                    push(conns, *conn, Item::Message(Outgoing::Action(Arc::clone(frame))));
                }
            }
        }
    }

    /// Delivers a notification that is not an action.
    pub fn notify(&mut self, conns: &mut Connections, audience: &[ConnId], message: &Bytes) {
        let has = |method: &str| message.windows(method.len()).any(|window| window == method.as_bytes());
        let lost = has("root/sessionSummaryChanged") && self.strikes(Mutation::LoseSummaryChange)
            || has("root/sessionRemoved") && self.strikes(Mutation::LoseSessionRemoved);
        if lost {
            return;
        }
        let all: Vec<ConnId> = match self.strikes(Mutation::NotifyEverybody) {
            true => conns.keys().copied().collect(),
            false => audience.to_vec(),
        };
        for conn in all {
            push(conns, conn, Item::Message(Outgoing::Text(message.clone())));
        }
    }

    /// Delivers a message to one connection.
    pub fn send(&mut self, conns: &mut Connections, to: ConnId, message: Outgoing) {
        match &message {
            Outgoing::Action(frame) => {
                if self.strikes(Mutation::LoseNoOpEcho) {
                    return;
                }
                let frame = Arc::clone(frame);
                self.deliver_action(conns, to, &frame, Item::Message(message));
            }
            Outgoing::Text(text) => match rejection(text) {
                Some(rejection) => self.reject(conns, to, message, rejection),
                None if self.strikes(Mutation::LoseResponse) => {}
                None => push(conns, to, Item::Message(message)),
            },
            Outgoing::Answer(answer) => {
                if self.strikes(Mutation::PublishBeforeResponse) {
                    self.held.insert(to, (HELD_FOR, message));
                    return;
                }
                let item = match self.mutation {
                    Some(mutation) => {
                        let asked = reconnect_request(conns, to);
                        let mut bent: Value =
                            serde_json::from_slice(&answer.encode().unwrap_or_default()).unwrap_or_default();
                        let possible = self.memory.bend(mutation, &answer.body, asked.as_ref(), &mut bent);
                        match possible && self.strikes(mutation) {
                            true => Outgoing::Text(bent.to_string().into()),
                            false => message,
                        }
                    }
                    None => message,
                };
                push(conns, to, Item::Message(item));
            }
        }
    }

    fn reject(&mut self, conns: &mut Connections, to: ConnId, message: Outgoing, mut rejection: Value) {
        if self.mutation == Some(Mutation::ReplayContainsRejections) {
            self.memory.rejections.push(rejection.clone());
        }
        if self.strikes(Mutation::BroadcastRejection) {
            let channel = rejection["params"]["channel"].as_str().unwrap_or_default().to_owned();
            for connection in conns.values_mut() {
                if connection.id != to && connection.host_subscriptions.contains(&channel) {
                    connection.queue.push(Item::Message(message.clone()));
                }
            }
        }
        let message = match self.strikes(Mutation::ForgetReason) {
            true => {
                if let Some(params) = rejection["params"].as_object_mut() {
                    params.remove("rejectionReason");
                }
                Outgoing::Text(rejection.to_string().into())
            }
            false => message,
        };
        let seq = rejection["params"]["serverSeq"].as_u64();
        self.last_delivered.extend(seq.map(|seq| (to, seq)));
        push(conns, to, Item::Message(message));
    }

    fn deliver_action(&mut self, conns: &mut Connections, to: ConnId, frame: &Arc<ActionFrame>, item: Item) {
        let before = self.last_delivered.insert(to, frame.seq.0).unwrap_or_default();
        let mut bent = match self.mutation {
            Some(
                Mutation::ReuseSeq
                | Mutation::ForgetOrigin
                | Mutation::EndTurnTwice
                | Mutation::RepeatDecision
                | Mutation::InputNeededWithoutId
                | Mutation::UnsortDecisions
                | Mutation::UpdateWithoutChildren,
            ) => envelope(frame),
            _ => Value::Null,
        };
        if self.bend_customizations(&mut bent) {
            return push(conns, to, Item::Message(action(&bent)));
        }
        let kind = bent["action"]["type"].as_str().unwrap_or_default();
        let ends_turn = ["chat/turnComplete", "chat/turnCancelled", "chat/error"].contains(&kind);
        let decides = kind == "chat/toolCallConfirmed";
        let asks = kind == "session/inputNeededSet";
        if asks && self.strikes(Mutation::InputNeededWithoutId) {
            bent["action"]["request"]["id"] = Value::from("");
            return push(conns, to, Item::Message(action(&bent)));
        }
        if before > 0 && self.strikes(Mutation::ReuseSeq) {
            bent["serverSeq"] = Value::from(before);
            return push(conns, to, Item::Message(action(&bent)));
        }
        if !bent["origin"].is_null() && self.strikes(Mutation::ForgetOrigin) {
            if let Some(fields) = bent.as_object_mut() {
                fields.remove("origin");
            }
            return push(conns, to, Item::Message(action(&bent)));
        }
        // A number that is unique on this connection, so that only the repetition shows.
        let has_room = before > 0 && before + 1 < frame.seq.0;
        let repeats = ends_turn && has_room && self.strikes(Mutation::EndTurnTwice)
            || decides && has_room && self.strikes(Mutation::RepeatDecision);
        if repeats {
            bent["serverSeq"] = Value::from(frame.seq.0 - 1);
            push(conns, to, Item::Message(action(&bent)));
        }
        push(conns, to, item);
        if self.strikes(Mutation::SwapMessages) {
            swap_last_two(conns, to);
        }
        if self.mutation == Some(Mutation::MergeAcrossChannel) || self.mutation == Some(Mutation::MergeAcrossEcho) {
            self.merge_across(conns, to);
        }
    }

    /// Merges `append, other, append` into `other, append append`, or without the other.
    fn merge_across(&mut self, conns: &mut Connections, to: ConnId) {
        let Some(connection) = conns.get_mut(&to) else {
            return;
        };
        let items = connection.queue.items_mut();
        let len = items.len();
        if len < 3 {
            return;
        }
        let (Item::Mergeable(first), between, Item::Mergeable(last)) =
            (&items[len - 3], &items[len - 2], &items[len - 1])
        else {
            return;
        };
        let between = match between {
            Item::Message(Outgoing::Action(frame)) | Item::Mergeable(frame) => envelope(frame),
            Item::Message(_) | Item::Marker(_) => return,
        };
        let is_own = between["origin"]["clientId"].as_str() == Some(connection.client_id.as_str());
        let wanted = if is_own {
            Mutation::MergeAcrossEcho
        } else {
            Mutation::MergeAcrossChannel
        };
        if self.mutation == Some(wanted) && first.merges_with(last) {
            let merged = Bytes::from(ActionFrame::merged(&[Arc::clone(first), Arc::clone(last)]).bytes);
            items.pop_back();
            if is_own {
                items.pop_back();
            }
            items.remove(len - 3);
            items.push_back(Item::Message(Outgoing::Text(merged)));
        }
    }

    fn release(&mut self, conns: &mut Connections, conn: ConnId) {
        if let Some((_, message)) = self.held.remove(&conn) {
            push(conns, conn, Item::Message(message));
        }
    }

    pub(super) fn strikes(&mut self, mutation: Mutation) -> bool {
        if self.mutation != Some(mutation) {
            return false;
        }
        self.chances += 1;
        self.chances % STRIKES_EVERY == 1
    }
}

fn push(conns: &mut Connections, conn: ConnId, item: Item) {
    if let Some(connection) = conns.get_mut(&conn) {
        connection.queue.push(item);
    }
}

fn swap_last_two(conns: &mut Connections, conn: ConnId) {
    if let Some(connection) = conns.get_mut(&conn) {
        let items = connection.queue.items_mut();
        let len = items.len();
        if len >= 2 && !matches!(items[len - 2], Item::Marker(_)) {
            items.swap(len - 2, len - 1);
        }
    }
}

pub(super) fn envelope(frame: &ActionFrame) -> Value {
    serde_json::from_slice(frame.envelope()).unwrap_or_default()
}

fn action(envelope: &Value) -> Outgoing {
    let message = serde_json::json!({ "jsonrpc": "2.0", "method": "action", "params": envelope });
    Outgoing::Text(message.to_string().into())
}

fn rejection(text: &Bytes) -> Option<Value> {
    let message: Value = serde_json::from_slice(text).ok()?;
    message["params"].get("rejectionReason").is_some().then_some(message)
}

fn reconnect_request(conns: &Connections, conn: ConnId) -> Option<ReconnectRequest> {
    let (last_seen, channels) = conns.get(&conn)?.reconnecting()?;
    Some(ReconnectRequest { last_seen, channels })
}

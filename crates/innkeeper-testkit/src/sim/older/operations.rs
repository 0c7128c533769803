//! The operations of older clients, and the comparison of their mirrors with fresh snapshots.

use std::sync::Arc;

use ahp_types::state::{ResponsePart, ToolCallState};
use innkeeper_core::{ActionFrame, ConnId, Input, Outgoing, Principal, Subscriber, uri};

use super::client::{OlderClient, Reaction};
use super::{Intent, NewOlderMirror, TranslationBug};
use crate::sim::client::queue::{Item, Marker};
use crate::sim::operations::chats::is_subagent;
use crate::sim::{Choices, Sim, Violation};

/// A client, and another one of its version that subscribes to a channel only to compare.
#[derive(Debug)]
pub(in crate::sim) struct OlderPair {
    pub(super) client: OlderClient,
    observer: OlderClient,
}

/// One of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Client,
    Observer,
}

pub(super) type At = (usize, Role);

impl Sim {
    /// Adds a client of an older version, without a transport.
    pub(in crate::sim) fn add_older(&mut self, new_mirror: NewOlderMirror, bug: Option<TranslationBug>) {
        let number = self.older.len();
        self.older.push(OlderPair {
            client: OlderClient::new(format!("older-{number}"), new_mirror, bug),
            // A bug in both would hide in the comparison.
            observer: OlderClient::new(format!("older-observer-{number}"), new_mirror, None),
        });
        self.older[number].client.coalesces = number.is_multiple_of(2);
    }

    /// Connects all older clients, which subscribe to everything.
    pub(in crate::sim) fn connect_older(&mut self) -> Result<(), Violation> {
        for index in 0..self.older.len() {
            let at = (index, Role::Client);
            self.open_older(at)?;
            for channel in self.channels_for_older(index) {
                self.subscribe_older(at, &channel, None)?;
            }
        }
        Ok(())
    }

    /// Lets an older client do one thing.
    pub(in crate::sim) fn operate_older(&mut self, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let index = choices.below(self.older.len());
        let at = (index, Role::Client);
        if self.older[index].client.conn.is_none() {
            return self.open_older(at);
        }
        let changes = if self.config.serves_changes { 6 } else { 0 };
        match choices.below(20 + changes) {
            20.. => self.change_older(at, choices),
            0 => {
                self.note(|| format!("older-{index} is cut"));
                self.count("cuts of older clients");
                self.cut_older(at)
            }
            1..=5 => self.read_older(at, 1 + choices.below(6)),
            6 | 7 => self.compare_older(index),
            8 | 9 => {
                let channels = self.channels_for_older(index);
                let turns = [None, None, Some(1), Some(2)][choices.below(4)];
                match choices.pick(&channels) {
                    Some(channel) => self.subscribe_older(at, &channel.clone(), turns),
                    None => Ok(()),
                }
            }
            10 => self.unsubscribe_older(index, choices),
            11 => self.fetch_turns_older(at),
            _ => self.dispatch_older(index, choices),
        }
    }

    /// Compares all older clients with fresh snapshots; those without a transport come back first.
    pub(in crate::sim) fn check_older(&mut self) -> Result<(), Violation> {
        for index in 0..self.older.len() {
            if self.older[index].client.conn.is_none() {
                self.open_older((index, Role::Client))?;
            }
            self.compare_older(index)?;
        }
        Ok(())
    }

    /// Queues an action for the older clients among its subscribers.
    pub(in crate::sim) fn publish_to_older(&mut self, to: &[Subscriber], frame: &Arc<ActionFrame>) {
        for subscriber in to {
            let shown = Arc::clone(frame.shown_to(subscriber));
            let item = match subscriber.max_latency_ms > 0 {
                true => Item::Mergeable(shown),
                false => Item::Message(Outgoing::Action(shown)),
            };
            self.push_older(subscriber.conn, item);
        }
    }

    /// Queues something for an older client, if the connection belongs to one.
    pub(in crate::sim) fn push_older(&mut self, conn: ConnId, item: Item) {
        if let Some(at) = self.older_with(conn) {
            self.older_at(at).queue.push(item);
        }
    }

    /// Whether a connection belongs to an older client.
    pub(in crate::sim) fn older_owns(&self, conn: ConnId) -> bool {
        self.older_with(conn).is_some()
    }

    /// The host closes a connection: returns whether it belongs to an older client.
    pub(in crate::sim) fn close_older(&mut self, conn: ConnId) -> Result<bool, Violation> {
        let Some(at) = self.older_with(conn) else {
            return Ok(false);
        };
        self.read_older(at, usize::MAX)?;
        self.cut_older(at)?;
        Ok(true)
    }

    /// These channels are gone.
    pub(in crate::sim) fn gone_for_older(&mut self, gone: &[String]) {
        for pair in &mut self.older {
            for client in [&mut pair.client, &mut pair.observer] {
                client.queue.push(Item::Marker(Marker::Gone(gone.to_vec())));
            }
        }
    }

    /// The host ends: all connections do.
    pub(in crate::sim) fn lose_older(&mut self) {
        for pair in &mut self.older {
            pair.client.lose();
            pair.observer.lose();
        }
    }

    /// All older clients leave for good.
    pub(in crate::sim) fn dismiss_older(&mut self) -> Result<(), Violation> {
        for mut pair in std::mem::take(&mut self.older) {
            for conn in [pair.client.lose(), pair.observer.lose()].into_iter().flatten() {
                self.handle(Input::Disconnected { conn })?;
            }
        }
        Ok(())
    }

    pub(super) fn older_at(&mut self, (index, role): At) -> &mut OlderClient {
        let pair = &mut self.older[index];
        match role {
            Role::Client => &mut pair.client,
            Role::Observer => &mut pair.observer,
        }
    }

    fn older_with(&self, conn: ConnId) -> Option<At> {
        self.older.iter().enumerate().find_map(|(index, pair)| {
            if pair.client.conn == Some(conn) {
                Some((index, Role::Client))
            } else {
                (pair.observer.conn == Some(conn)).then_some((index, Role::Observer))
            }
        })
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.now.wall.as_millisecond()
    }

    pub(super) fn next_id(&mut self) -> u64 {
        self.next_request += 1;
        self.next_request
    }

    /// Opens a transport: a client that was here before reconnects.
    fn open_older(&mut self, at: At) -> Result<(), Violation> {
        let conn = ConnId {
            slot: self.next_slot,
            generation: 0,
        };
        self.next_slot += 1;
        let id = self.next_id();
        let client = self.older_at(at);
        client.open(conn);
        let comes_back = !client.channels.is_empty();
        let version = client.version();
        self.note(|| format!("{at:?} of {version} connects on {conn}, as known: {comes_back}"));
        self.handle(Input::Connected {
            conn,
            principal: Principal::stdio(),
        })?;
        let client = self.older_at(at);
        let handshake = match comes_back {
            true => client.reconnect(id)?,
            false => client.initialize(id)?,
        };
        self.handle(handshake)?;
        self.count("connections of older clients");
        self.read_older(at, usize::MAX)
    }

    fn read_older(&mut self, at: At, frames: usize) -> Result<(), Violation> {
        for reaction in self.older_at(at).read(frames)? {
            match reaction {
                Reaction::Initialize => {
                    let id = self.next_id();
                    let handshake = self.older_at(at).initialize(id)?;
                    self.handle(handshake)?;
                    self.read_older(at, usize::MAX)?;
                }
                Reaction::ComeBack => {
                    self.cut_older(at)?;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn cut_older(&mut self, at: At) -> Result<(), Violation> {
        match self.older_at(at).lose() {
            Some(conn) => self.handle(Input::Disconnected { conn }),
            None => Ok(()),
        }
    }

    /// The channels that a client can subscribe to: where a session is its chat, subagents are opened by their URI.
    fn channels_for_older(&self, index: usize) -> Vec<String> {
        let client = &self.older[index].client;
        let mut channels = self.channels();
        if client.version().session_is_chat() {
            let sessions: Vec<&str> = self.sessions().collect();
            channels.retain(|uri| sessions.contains(&uri.as_str()) || is_subagent(uri));
        }
        channels.extend(self.parts_for_older(index));
        channels.push(client.mirror.root().to_owned());
        channels
    }

    pub(super) fn subscribe_older(&mut self, at: At, channel: &str, turns: Option<usize>) -> Result<(), Violation> {
        if !self.older_at(at).is_ready {
            return Ok(());
        }
        let id = self.next_id();
        let request = self.older_at(at).subscribe(id, channel, turns)?;
        self.note(|| format!("{at:?} subscribes to {channel} with {turns:?} turns"));
        self.handle(request)
    }

    fn unsubscribe_older(&mut self, index: usize, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let at = (index, Role::Client);
        // An answer on its way would bring the channel back.
        self.read_older(at, usize::MAX)?;
        let channels: Vec<String> = self.older_at(at).channels.iter().cloned().collect();
        let Some(channel) = choices.pick(&channels).cloned() else {
            return Ok(());
        };
        self.leave_older(at, &channel)
    }

    fn leave_older(&mut self, at: At, channel: &str) -> Result<(), Violation> {
        if !self.older_at(at).is_ready {
            return Ok(());
        }
        let now = self.now_ms();
        self.note(|| format!("{at:?} unsubscribes from {channel}"));
        let inputs = self.older_at(at).unsubscribe(channel, now)?;
        inputs.into_iter().try_for_each(|input| self.handle(input))
    }

    fn fetch_turns_older(&mut self, at: At) -> Result<(), Violation> {
        self.read_older(at, usize::MAX)?;
        if !self.older_at(at).is_ready {
            return Ok(());
        }
        let id = self.next_id();
        match self.older_at(at).fetch_turns(id) {
            Some(request) => {
                self.count("pages of turns for older clients");
                self.handle(request?)
            }
            None => Ok(()),
        }
    }

    /// Reads everything, and compares every state with the one that another client of the version gets.
    fn compare_older(&mut self, index: usize) -> Result<(), Violation> {
        let (client, observer) = ((index, Role::Client), (index, Role::Observer));
        self.read_older(client, usize::MAX)?;
        if self.older_at(observer).conn.is_none() {
            self.open_older(observer)?;
        }
        self.read_older(observer, usize::MAX)?;
        // The requests of the observer may have caused something.
        self.read_older(client, usize::MAX)?;
        if !self.older_at(client).is_ready || !self.older_at(observer).is_ready {
            return Ok(());
        }
        let channels: Vec<String> = self.older_at(client).channels.iter().cloned().collect();
        for channel in channels {
            self.subscribe_older(observer, &channel, None)?;
            self.read_older(observer, usize::MAX)?;
            self.read_older(client, usize::MAX)?;
            let mine = self.older_at(client).mirror.state(&channel);
            let fresh = self.older_at(observer).mirror.state(&channel);
            match (mine, fresh) {
                (Some(mine), Some(fresh)) => {
                    let client = self.older_at(client);
                    if let Some(difference) = client.mirror.difference(mine, fresh) {
                        return Err(client.violation(format!("{channel}{difference}")));
                    }
                    self.count("states of older clients compared");
                }
                // The host cut the connection because an answer could not be finished.
                (None, _) => {}
                (Some(_), None) if self.snapshot(&channel).is_none() => self.older_at(client).forget(&channel),
                (Some(_), None) => {}
            }
            if channel != self.older_at(observer).mirror.root() {
                self.leave_older(observer, &channel)?;
            }
        }
        Ok(())
    }

    fn dispatch_older(&mut self, index: usize, choices: &mut Choices<'_>) -> Result<(), Violation> {
        let at = (index, Role::Client);
        if !self.older_at(at).is_ready {
            return Ok(());
        }
        if choices.below(3) > 0 {
            self.read_older(at, usize::MAX)?;
        }
        let followed = self.older_at(at).channels.clone();
        let sessions: Vec<String> = self
            .sessions()
            .filter(|uri| followed.contains(*uri))
            .map(str::to_owned)
            .collect();
        let Some(session) = choices.pick(&sessions).cloned() else {
            return Ok(());
        };
        let chat = uri::default_chat(&session);
        let is_chat = self.older_at(at).version().session_is_chat();
        if !is_chat && !followed.contains(&chat) {
            return Ok(());
        }
        let chat_channel = if is_chat { &session } else { &chat };
        let (channel, intent) = match choices.below(9) {
            0 | 1 => {
                self.next_turn += 1;
                let turn = format!("t{}", self.next_turn);
                (
                    chat_channel,
                    Intent::StartTurn {
                        turn,
                        text: self.words(),
                    },
                )
            }
            2 => {
                let turn = self.active_turn(&chat).unwrap_or_else(|| "none".to_owned());
                (chat_channel, Intent::CancelTurn { turn })
            }
            3 => {
                let id = format!("older-{}", choices.below(3));
                (chat_channel, Intent::Queue { id, text: self.words() })
            }
            4 => (&session, Intent::Rename { title: self.words() }),
            5 => {
                let is_read = choices.below(2) == 0;
                (&session, Intent::MarkRead { is_read })
            }
            6 | 7 => match self.waiting_call(&chat) {
                Some((turn, call)) => {
                    let is_approved = choices.below(2) == 0;
                    (
                        chat_channel,
                        Intent::Decide {
                            turn,
                            call,
                            is_approved,
                        },
                    )
                }
                None => return Ok(()),
            },
            _ => match self.open_question(&chat) {
                Some(request) => (chat_channel, Intent::Decline { request }),
                None => return Ok(()),
            },
        };
        self.act_older(at, channel, &intent)
    }

    /// Dispatches an action, if the client's version has one for this.
    pub(super) fn act_older(&mut self, at: At, channel: &str, intent: &Intent) -> Result<(), Violation> {
        let now = self.now_ms();
        let client = self.older_at(at);
        let Some(action) = client.mirror.action(intent) else {
            return Ok(());
        };
        let inputs = client.dispatch(channel, action, now)?;
        self.note(|| format!("{at:?} dispatches to {channel}: {intent:?}"));
        self.count("dispatches of older clients");
        inputs.into_iter().try_for_each(|input| self.handle(input))
    }

    pub(super) fn words(&mut self) -> String {
        self.next_words += 1;
        format!("words {}", self.next_words)
    }

    /// A call of the running turn that waits for a decision.
    fn waiting_call(&self, chat: &str) -> Option<(String, String)> {
        let (head, _) = self.host_chat(chat)?;
        let turn = head.active_turn.as_ref()?;
        turn.response_parts.iter().find_map(|part| match part {
            ResponsePart::ToolCall(part) => match &part.tool_call {
                ToolCallState::PendingConfirmation(call) => Some((turn.id.clone(), call.tool_call_id.clone())),
                _ => None,
            },
            _ => None,
        })
    }

    /// A question of the running turn without an answer.
    fn open_question(&self, chat: &str) -> Option<String> {
        let (head, _) = self.host_chat(chat)?;
        let turn = head.active_turn.as_ref()?;
        turn.response_parts.iter().find_map(|part| match part {
            ResponsePart::InputRequest(part) if part.response.is_none() => Some(part.request.id.clone()),
            _ => None,
        })
    }
}

//! The table of channels: what exists, under which exact spelling, and who listens.

use std::collections::HashMap;
use std::sync::Arc;

use crate::action::{ChannelKind, Since};
use crate::effect::Subscriber;
use crate::ids::{ChannelId, ConnId, IdMap, Seq};

/// One state channel.
#[derive(Debug)]
pub struct Channel {
    /// The URI as it was created.
    pub uri: Arc<str>,
    /// The URI as JSON text, encoded once for all frames.
    pub uri_json: Box<str>,
    /// What it carries.
    pub kind: ChannelKind,
    subscribers: Vec<Subscriber>,
    /// The state each subscriber started from, in the same order as the subscribers.
    started: Vec<Seq>,
    /// The same list as the fan-out takes it; rebuilt after a change, shared between changes.
    shared: Option<Arc<[Subscriber]>>,
}

/// What is remembered of a subscription when its connection is gone.
#[derive(Debug, Clone, Copy)]
pub struct Subscription {
    /// The delivery bound; `reconnect` names channels, not bounds.
    pub max_latency_ms: u32,
    /// The `fromSeq` it started from.
    pub started: Seq,
}

/// All channels.
#[derive(Debug, Default)]
pub struct Channels {
    by_uri: HashMap<Arc<str>, ChannelId>,
    by_id: IdMap<ChannelId, Channel>,
    next: u64,
}

impl Channels {
    /// Creates a channel. The caller checked that the URI is free.
    pub fn create(&mut self, uri: &str, kind: ChannelKind) -> ChannelId {
        let id = ChannelId(self.next);
        self.next += 1;
        let uri: Arc<str> = uri.into();
        let uri_json = serde_json::Value::from(&*uri).to_string().into();
        self.by_uri.insert(Arc::clone(&uri), id);
        self.by_id.insert(
            id,
            Channel {
                uri,
                uri_json,
                kind,
                subscribers: Vec::new(),
                started: Vec::new(),
                shared: None,
            },
        );
        id
    }

    /// Removes a channel and returns who listened to it.
    pub fn remove(&mut self, id: ChannelId) -> Vec<Subscriber> {
        let Some(channel) = self.by_id.remove(&id) else {
            return Vec::new();
        };
        self.by_uri.remove(&channel.uri);
        channel.subscribers
    }

    /// Finds a channel by its exact URI (SUB-17).
    pub fn find(&self, uri: &str) -> Option<ChannelId> {
        self.by_uri.get(uri).copied()
    }

    /// A channel by id.
    pub fn get(&self, id: ChannelId) -> Option<&Channel> {
        self.by_id.get(&id)
    }

    /// A channel by id, to change its subscribers.
    pub fn get_mut(&mut self, id: ChannelId) -> Option<&mut Channel> {
        self.by_id.get_mut(&id)
    }
}

impl Channel {
    /// Adds a subscription or replaces the connection's earlier one: they are a set (SUB-07). The
    /// earlier one's start stands, because it never stopped receiving.
    pub fn subscribe(&mut self, subscriber: Subscriber, started: Seq) {
        self.shared = None;
        match self.position(subscriber.conn) {
            Some(index) => self.subscribers[index] = subscriber,
            None => {
                self.subscribers.push(subscriber);
                self.started.push(started);
            }
        }
    }

    /// Ends a subscription.
    pub fn unsubscribe(&mut self, conn: ConnId) {
        if let Some(index) = self.position(conn) {
            self.subscribers.swap_remove(index);
            self.started.swap_remove(index);
            self.shared = None;
        }
    }

    /// How this connection subscribes.
    pub fn subscription(&self, conn: ConnId) -> Option<Subscription> {
        let index = self.position(conn)?;
        Some(Subscription {
            max_latency_ms: self.subscribers[index].max_latency_ms,
            started: self.started[index],
        })
    }

    /// Moves the start of a resumed subscription back to where it once was.
    pub fn set_started(&mut self, conn: ConnId, started: Seq) {
        if let Some(index) = self.position(conn) {
            self.started[index] = started;
        }
    }

    fn position(&self, conn: ConnId) -> Option<usize> {
        self.subscribers.iter().position(|subscriber| subscriber.conn == conn)
    }

    /// The audience of an action, limited to those whose version knows it (NEG-07).
    pub fn audience(&mut self, since: Since) -> Arc<[Subscriber]> {
        if self.subscribers.iter().any(|subscriber| subscriber.knows < since) {
            return self
                .subscribers
                .iter()
                .filter(|subscriber| subscriber.knows >= since)
                .copied()
                .collect();
        }
        let subscribers = &self.subscribers;
        Arc::clone(self.shared.get_or_insert_with(|| subscribers.as_slice().into()))
    }

    /// The audience that speaks exactly this line of the protocol.
    pub fn audience_of(&self, line: Since) -> Arc<[Subscriber]> {
        self.subscribers
            .iter()
            .filter(|subscriber| subscriber.knows == line)
            .copied()
            .collect()
    }
}

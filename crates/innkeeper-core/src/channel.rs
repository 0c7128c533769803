//! The table of channels: what exists, under which exact spelling, and who listens.

use std::collections::HashMap;
use std::sync::Arc;

use crate::action::{ChannelKind, Since};
use crate::effect::Subscriber;
use crate::ids::{ChannelId, ConnId, IdMap};

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
    /// The same list as the fan-out takes it; rebuilt after a change, shared between changes.
    shared: Option<Arc<[Subscriber]>>,
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
    /// Adds a subscription or replaces the connection's earlier one: they are a set (SUB-07).
    pub fn subscribe(&mut self, subscriber: Subscriber) {
        self.shared = None;
        match self
            .subscribers
            .iter_mut()
            .find(|existing| existing.conn == subscriber.conn)
        {
            Some(existing) => *existing = subscriber,
            None => self.subscribers.push(subscriber),
        }
    }

    /// Ends a subscription.
    pub fn unsubscribe(&mut self, conn: ConnId) {
        if let Some(index) = self.subscribers.iter().position(|subscriber| subscriber.conn == conn) {
            self.subscribers.swap_remove(index);
            self.shared = None;
        }
    }

    /// This connection's subscription.
    pub fn subscription(&self, conn: ConnId) -> Option<&Subscriber> {
        self.subscribers.iter().find(|subscriber| subscriber.conn == conn)
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

    /// Whether anybody listens.
    pub fn has_subscribers(&self) -> bool {
        !self.subscribers.is_empty()
    }
}

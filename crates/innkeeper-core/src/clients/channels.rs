//! The table of channels: their URIs in exact spelling, and their subscribers.

use std::collections::HashMap;
use std::sync::Arc;

use crate::effect::Subscriber;
use crate::ids::{ChannelId, ConnId, IdMap, Seq};
use crate::protocol::action_table::ChannelKind;
use crate::protocol::dialect::{Dialect, Version};

/// One state channel.
#[derive(Debug)]
pub struct Channel {
    /// The URI as it was created.
    pub uri: Arc<str>,
    /// The URI as JSON text, encoded once for all frames.
    pub uri_json: Box<str>,
    /// Its kind.
    pub kind: ChannelKind,
    /// The last number given out when it was created: who subscribed before that had another
    /// channel of the same name.
    pub created: Seq,
    /// The number of its last action, or [`Self::created`].
    pub last: Seq,
    /// Bytes of its actions since its document was last persisted.
    pub tail: usize,
    subscribers: Vec<Subscriber>,
    /// The base of each subscriber, in the same order as the subscribers.
    bases: Vec<Base>,
    /// The same list as the fan-out takes it; rebuilt after a change, shared between changes.
    shared: Option<Arc<[Subscriber]>>,
}

/// A subscription that is remembered after its connection ended.
#[derive(Debug, Clone)]
pub struct Subscription {
    /// The delivery bound; `reconnect` names channels, not bounds.
    pub max_latency_ms: u32,
    /// The state that the subscriber has.
    pub base: Base,
    /// Its reader's dialect.
    pub dialect: Dialect,
}

impl Subscription {
    /// First sequence number from which either subscription can be replayed; `MAX` if their states differ.
    pub fn latest_start(&self, other: &Self) -> Seq {
        if self.dialect.has_state_of(other.dialect) {
            self.base.latest_start(&other.base)
        } else {
            Seq::MAX
        }
    }
}

/// The state that later actions build on at one subscriber.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// The last message that only this subscriber was sent: its snapshot, or a page of turns. A client that has not
    /// seen it cannot be given a replay.
    pub started: Seq,
    /// The newest completed turn of a chat that this subscriber has not been sent; `None` when it
    /// has all of them (SUB-12).
    pub unloaded: Option<Arc<str>>,
}

impl Base {
    /// First sequence number from which either state can be replayed; `MAX` if their turns differ.
    pub fn latest_start(&self, other: &Self) -> Seq {
        if self.unloaded == other.unloaded {
            self.started.max(other.started)
        } else {
            Seq::MAX
        }
    }
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
    pub fn create(&mut self, uri: &str, kind: ChannelKind, created: Seq) -> ChannelId {
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
                created,
                last: created,
                tail: 0,
                subscribers: Vec::new(),
                bases: Vec::new(),
                shared: None,
            },
        );
        id
    }

    /// The id that the next channel gets.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Gives new channels ids from this one on.
    pub fn start_at(&mut self, id: u64) {
        self.next = self.next.max(id);
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

    /// The channels with actions since their documents were last persisted.
    pub fn changed(&self) -> Vec<ChannelId> {
        let changed = self.by_id.iter().filter(|(_, channel)| channel.tail > 0);
        changed.map(|(id, _)| *id).collect()
    }

    /// A channel by id.
    pub fn get(&self, id: ChannelId) -> Option<&Channel> {
        self.by_id.get(&id)
    }

    /// Returns the kind of a channel.
    pub fn kind(&self, id: ChannelId) -> Option<ChannelKind> {
        self.by_id.get(&id).map(|channel| channel.kind)
    }

    /// A channel by id, to change its subscribers.
    pub fn get_mut(&mut self, id: ChannelId) -> Option<&mut Channel> {
        self.by_id.get_mut(&id)
    }
}

impl Channel {
    /// Adds a subscription or replaces the connection's earlier one: they are a set (SUB-07). The earlier one's start
    /// stays, because it never stopped receiving, unless it lacked turns that the new snapshot contains.
    pub fn subscribe(&mut self, subscriber: Subscriber, started: Seq, unloaded: Option<Arc<str>>) {
        self.shared = None;
        match self.position(subscriber.conn) {
            Some(index) => {
                self.subscribers[index] = subscriber;
                if self.bases[index].unloaded != unloaded {
                    // Only a client that has seen a later action has surely seen the snapshot.
                    let started = started.next();
                    self.bases[index] = Base { started, unloaded };
                }
            }
            None => {
                self.subscribers.push(subscriber);
                self.bases.push(Base { started, unloaded });
            }
        }
    }

    /// Ends a subscription.
    pub fn unsubscribe(&mut self, conn: ConnId) {
        if let Some(index) = self.position(conn) {
            self.subscribers.swap_remove(index);
            self.bases.swap_remove(index);
            self.shared = None;
        }
    }

    /// How this connection subscribes.
    pub fn subscription(&self, conn: ConnId) -> Option<Subscription> {
        let index = self.position(conn)?;
        Some(Subscription {
            max_latency_ms: self.subscribers[index].max_latency_ms,
            base: self.bases[index].clone(),
            dialect: self.subscribers[index].dialect,
        })
    }

    /// Notes what a subscriber has: what it had before a replay, or with one more page of turns.
    pub fn set_base(&mut self, conn: ConnId, base: Base) {
        if let Some(index) = self.position(conn) {
            self.bases[index] = base;
        }
    }

    /// Takes into account that another subscriber of the same client has a state of its own.
    pub fn limit_replay_to(&mut self, conn: ConnId, other: &Subscription) {
        if let (Some(index), Some(mine)) = (self.position(conn), self.subscription(conn)) {
            self.bases[index].started = mine.latest_start(other);
        }
    }

    /// The subscribers that lack some of a chat's turns, and the newest turn each of them lacks.
    pub fn partial_readers(&self) -> Vec<(ConnId, Arc<str>)> {
        let readers = self.subscribers.iter().zip(&self.bases);
        readers
            .filter_map(|(subscriber, base)| Some((subscriber.conn, Arc::clone(base.unloaded.as_ref()?))))
            .collect()
    }

    /// Clears the missing turns of all subscribers, for a chat that has no turns.
    pub fn all_loaded(&mut self) {
        for base in &mut self.bases {
            base.unloaded = None;
        }
    }

    /// All subscribers.
    pub fn subscribers(&self) -> impl Iterator<Item = &Subscriber> {
        self.subscribers.iter()
    }

    /// Whether the channel has subscribers.
    pub fn has_subscribers(&self) -> bool {
        !self.subscribers.is_empty()
    }

    /// The connections that listen.
    pub fn listeners(&self) -> Vec<ConnId> {
        self.subscribers.iter().map(|subscriber| subscriber.conn).collect()
    }

    fn position(&self, conn: ConnId) -> Option<usize> {
        self.subscribers.iter().position(|subscriber| subscriber.conn == conn)
    }

    /// The audience of an action. The writers of connections translate it for older versions, or withhold it there
    /// (NEG-07).
    pub fn audience(&mut self) -> Arc<[Subscriber]> {
        let subscribers = &self.subscribers;
        Arc::clone(self.shared.get_or_insert_with(|| subscribers.as_slice().into()))
    }

    /// The part of the audience whose version has a property.
    pub fn audience_with(&self, has: impl Fn(Version) -> bool) -> Arc<[Subscriber]> {
        self.subscribers
            .iter()
            .filter(|subscriber| has(subscriber.dialect.version))
            .copied()
            .collect()
    }

    /// Whether a subscriber speaks a version older than this one.
    pub fn has_older_than(&self, version: Version) -> bool {
        self.subscribers
            .iter()
            .any(|subscriber| subscriber.dialect.version < version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscriber(slot: u32) -> Subscriber {
        Subscriber {
            conn: ConnId { slot, generation: 0 },
            max_latency_ms: 0,
            dialect: Dialect::default(),
        }
    }

    fn one_channel(channels: &mut Channels) -> &mut Channel {
        let id = channels.create("ahp-chat:/c", ChannelKind::Chat, Seq(1));
        channels.get_mut(id).expect("it was created")
    }

    #[test]
    fn ids_never_come_back_and_a_removed_uri_is_free() {
        let mut channels = Channels::default();
        let first = channels.create("ahp-chat:/c", ChannelKind::Chat, Seq(1));
        channels.remove(first);
        assert_eq!(channels.find("ahp-chat:/c"), None);
        let second = channels.create("ahp-chat:/c", ChannelKind::Chat, Seq(2));
        assert_ne!(first, second);
        assert!(channels.get(first).is_none());
        channels.start_at(0);
        assert_eq!(channels.next(), second.0 + 1, "ids only rise");
    }

    #[test]
    fn sub07_subscribing_again_keeps_one_subscription_and_its_start() {
        let mut channels = Channels::default();
        let channel = one_channel(&mut channels);
        channel.subscribe(subscriber(1), Seq(1), None);
        channel.subscribe(subscriber(1), Seq(5), None);
        assert_eq!(channel.listeners().len(), 1);
        let base = |channel: &Channel| channel.subscription(subscriber(1).conn).expect("subscribed").base;
        assert_eq!(base(channel).started, Seq(1));
        channel.subscribe(subscriber(1), Seq(5), Some("t1".into()));
        assert_eq!(base(channel).started, Seq(6), "it got another set of turns");
    }

    #[test]
    fn each_subscriber_has_its_own_base_also_after_others_leave() {
        let mut channels = Channels::default();
        let channel = one_channel(&mut channels);
        for slot in 1..=3 {
            channel.subscribe(subscriber(slot), Seq(u64::from(slot)), None);
        }
        channel.unsubscribe(subscriber(1).conn);
        let started = |slot| {
            channel
                .subscription(subscriber(slot).conn)
                .map(|known| known.base.started)
        };
        assert_eq!([started(1), started(2), started(3)], [None, Some(Seq(2)), Some(Seq(3))]);
    }

    #[test]
    fn the_shared_audience_follows_the_subscribers() {
        let mut channels = Channels::default();
        let channel = one_channel(&mut channels);
        channel.subscribe(subscriber(1), Seq(1), None);
        assert_eq!(channel.audience().len(), 1);
        channel.subscribe(subscriber(2), Seq(1), None);
        assert_eq!(channel.audience().len(), 2);
        channel.unsubscribe(subscriber(1).conn);
        assert_eq!(channel.audience().len(), 1);
    }
}

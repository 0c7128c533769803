//! Clients and connections. A client outlives its connections.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::clients::access::Principal;
use crate::clients::channels::Subscription;
use crate::ids::{ChannelId, ClientId, ConnId};
use crate::protocol::dialect::Dialect;
use crate::storage::load::DeferredInputs;

/// The result of a client's handshake; `reconnect` carries none of it (NEG-20).
#[derive(Debug, Clone)]
pub struct Negotiated {
    /// The chosen version, exactly as offered (NEG-03).
    pub version: Arc<str>,
    /// The client's dialect.
    pub dialect: Dialect,
    /// The client's locale.
    pub locale: Option<Arc<str>>,
}

/// The connection state of a client.
///
/// A timer can only run for a client without a connection, and a client with a connection has at
/// least one: neither mistake can be written down.
#[derive(Debug)]
pub enum Presence {
    /// At least one transport is up; the newest is last and is the primary one (NEG-21).
    Active(ActiveTransports),
    /// The last connection ended; the client may come back until the deadline.
    Grace(GracePeriod),
    /// The grace period is over; only what `reconnect` needs is remembered.
    Absent(Subscriptions),
}

/// A non-empty list of connections.
#[derive(Debug)]
pub struct ActiveTransports {
    older: Vec<ConnId>,
    newest: ConnId,
}

/// The subscriptions of ended connections, by URI: a channel may leave memory meanwhile.
pub type Subscriptions = HashMap<Arc<str>, Subscription>;

/// The state of a client in its grace period.
#[derive(Debug)]
pub struct GracePeriod {
    /// When the grace period ends, on the monotonic clock.
    pub until_ms: u64,
    /// The subscriptions of its ended connections.
    pub subscriptions: Subscriptions,
}

/// One client.
#[derive(Debug)]
pub struct Client {
    /// The principal that used the id first; it belongs to that one.
    principal: Arc<str>,
    /// The result of the latest handshake.
    pub negotiated: Negotiated,
    /// Connection state: connected, in its grace period, or absent.
    pub presence: Presence,
    /// The sessions it is an active client of.
    pub memberships: BTreeSet<ChannelId>,
    /// The channels that its persisted document may name.
    persisted: HashSet<Arc<str>>,
}

impl Client {
    /// A client that takes part in no session.
    pub fn new(principal: Arc<str>, negotiated: Negotiated, presence: Presence) -> Self {
        Self {
            principal,
            negotiated,
            presence,
            memberships: BTreeSet::new(),
            persisted: HashSet::new(),
        }
    }

    /// Returns the principal that the id belongs to.
    pub fn principal(&self) -> &Arc<str> {
        &self.principal
    }

    /// Returns true if the persisted document may name a channel.
    pub fn may_be_persisted_with(&self, channel: &str) -> bool {
        self.persisted.contains(channel)
    }

    /// Notes the channels that the next persisted document names; one that replaces the others forgets their channels.
    /// Returns true if it must replace them, because they name more than `most` channels besides.
    pub fn persist_with(&mut self, channels: HashSet<Arc<str>>, replaces: bool, most: usize) -> bool {
        let replaces = replaces || self.persisted.len() > channels.len() + most;
        if replaces {
            self.persisted.clear();
        }
        self.persisted.extend(channels);
        replaces
    }
}

impl ActiveTransports {
    /// One transport.
    pub fn one(conn: ConnId) -> Self {
        Self {
            older: Vec::new(),
            newest: conn,
        }
    }

    /// Adds a transport, which becomes the primary one.
    pub fn add(&mut self, conn: ConnId) {
        self.older.push(std::mem::replace(&mut self.newest, conn));
    }

    /// Removes a transport; `None` when it was the last.
    pub fn without(mut self, conn: ConnId) -> Option<Self> {
        if self.newest == conn {
            self.newest = self.older.pop()?;
        } else {
            self.older.retain(|older| *older != conn);
        }
        Some(self)
    }

    /// The transport that reverse requests go to.
    pub fn primary(&self) -> ConnId {
        self.newest
    }

    /// All transports, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = ConnId> + '_ {
        self.older.iter().copied().chain([self.newest])
    }
}

/// One connection.
#[derive(Debug)]
pub struct Conn {
    /// The authenticated peer.
    pub principal: Principal,
    /// How far the handshake got.
    pub phase: Phase,
    /// The channels it is subscribed to.
    pub subscriptions: HashSet<ChannelId>,
    /// The name under which it subscribed to the root channel, if that is an older one.
    pub root_name: Option<Arc<str>>,
    /// The chat that each of its sessions shows, for a client to which a session and its chat are one channel.
    pub shown_chats: HashMap<ChannelId, ChannelId>,
    /// Inputs that wait for the store.
    pub(crate) deferred: DeferredInputs,
}

/// How far a connection's handshake got.
#[derive(Debug, Clone)]
pub enum Phase {
    /// Nothing but `ping`, `initialize` and `reconnect` is accepted (NEG-01).
    Fresh,
    /// Belongs to a client and speaks its version for the whole connection (NEG-07).
    Ready {
        /// The client.
        client: ClientId,
        /// The client's dialect.
        dialect: Dialect,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conn(slot: u32) -> ConnId {
        ConnId { slot, generation: 0 }
    }

    #[test]
    fn a_document_that_replaces_the_others_forgets_their_channels() {
        let negotiated = Negotiated {
            version: "1.0.0".into(),
            dialect: Dialect::default(),
            locale: None,
        };
        let mut client = Client::new("p".into(), negotiated, Presence::Absent(Subscriptions::default()));
        let channels = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect();
        assert!(!client.persist_with(channels(&["a"]), false, 1));
        assert!(!client.persist_with(channels(&["b"]), false, 1));
        assert!(client.may_be_persisted_with("a") && client.may_be_persisted_with("b"));
        assert!(
            !client.persist_with(channels(&["c"]), false, 1),
            "there are two, and one more is allowed"
        );
        assert!(client.persist_with(channels(&["d"]), false, 1), "there are three");
        assert!(client.may_be_persisted_with("d") && !client.may_be_persisted_with("a"));
        assert!(client.persist_with(channels(&["e"]), true, 1));
        assert!(!client.may_be_persisted_with("d"));
    }

    #[test]
    fn neg21_the_newest_transport_is_primary_and_an_older_one_takes_over() {
        let mut transports = ActiveTransports::one(conn(1));
        transports.add(conn(2));
        transports.add(conn(3));
        assert_eq!(transports.primary(), conn(3));
        let transports = transports
            .without(conn(2))
            .expect("two left")
            .without(conn(3))
            .expect("one left");
        assert_eq!(transports.primary(), conn(1));
        assert!(transports.without(conn(1)).is_none());
    }
}

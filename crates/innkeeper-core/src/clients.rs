//! Clients: their connections, what they subscribe to, what they may do, and how they sign in.

pub mod access;
pub(crate) mod agent_tokens;
mod authenticate;
pub(crate) mod channels;
pub(crate) mod client;
pub(crate) mod credentials;
pub(crate) mod handshake;
pub(crate) mod permissions;
mod subscriptions;

use std::collections::{HashMap, VecDeque};

use access::Principal;
use client::{Client, Conn, Phase, Presence};

use crate::ids::{ChannelId, ClientId, ConnId, IdMap};
use crate::protocol::dialect::Dialect;

/// The connections that are open.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    by_id: IdMap<ConnId, Conn>,
}

impl Connections {
    /// Adds a connection that has sent nothing yet.
    pub(crate) fn open(&mut self, conn: ConnId, principal: Principal) {
        let connection = Conn {
            principal,
            phase: Phase::Fresh,
            subscriptions: Default::default(),
            root_name: None,
            shown_chats: Default::default(),
            deferred: Default::default(),
        };
        self.by_id.insert(conn, connection);
    }

    pub(crate) fn get(&self, conn: &ConnId) -> Option<&Conn> {
        self.by_id.get(conn)
    }

    pub(crate) fn get_mut(&mut self, conn: &ConnId) -> Option<&mut Conn> {
        self.by_id.get_mut(conn)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Conn> {
        self.by_id.values_mut()
    }

    /// The client on a connection, once the handshake is done.
    pub(crate) fn client(&self, conn: ConnId) -> Option<&ClientId> {
        match &self.by_id.get(&conn)?.phase {
            Phase::Ready { client, .. } => Some(client),
            Phase::Fresh => None,
        }
    }

    /// The dialect of a connection.
    pub(crate) fn dialect(&self, conn: ConnId) -> Dialect {
        match self.by_id.get(&conn).map(|connection| &connection.phase) {
            Some(Phase::Ready { dialect, .. }) => *dialect,
            Some(Phase::Fresh) | None => Dialect::default(),
        }
    }

    /// The chat that a session shows to a connection, or the channel itself if it has its turns itself.
    pub(crate) fn shown_chat(&self, conn: ConnId, channel: ChannelId) -> ChannelId {
        let shown = self.by_id.get(&conn).and_then(|conn| conn.shown_chats.get(&channel));
        shown.copied().unwrap_or(channel)
    }

    fn close(&mut self, conn: ConnId) -> Option<Conn> {
        self.by_id.remove(&conn)
    }
}

/// The clients that are connected or remembered.
///
/// Invariants: a client id belongs to the principal that used it first, and the number of absent clients is bounded.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    by_id: HashMap<ClientId, Client>,
    /// Clients without a connection whose grace period is over, oldest first.
    absent: VecDeque<ClientId>,
}

impl Clients {
    pub(crate) fn get(&self, client: &ClientId) -> Option<&Client> {
        self.by_id.get(client)
    }

    pub(crate) fn get_mut(&mut self, client: &ClientId) -> Option<&mut Client> {
        self.by_id.get_mut(client)
    }

    pub(crate) fn contains_key(&self, client: &ClientId) -> bool {
        self.by_id.contains_key(client)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &ClientId> {
        self.by_id.keys()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Client> {
        self.by_id.values()
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Client> {
        self.by_id.values_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ClientId, &Client)> {
        self.by_id.iter()
    }

    pub(crate) fn insert(&mut self, id: ClientId, client: Client) {
        self.by_id.insert(id, client);
    }

    /// The connection that reverse requests to a client go to (NEG-21).
    pub(crate) fn primary_conn(&self, client: &ClientId) -> Option<ConnId> {
        match &self.by_id.get(client)?.presence {
            Presence::Active(transports) => Some(transports.primary()),
            Presence::Grace(_) | Presence::Absent(_) => None,
        }
    }

    /// Whether a client has a connection.
    pub(crate) fn is_connected(&self, client: &ClientId) -> bool {
        self.primary_conn(client).is_some()
    }

    /// Drops what clients without a connection subscribed to under this URI. Returns those clients.
    pub(crate) fn forget_subscriptions(&mut self, uri: &str) -> Vec<ClientId> {
        let mut changed = Vec::new();
        for (id, client) in &mut self.by_id {
            let subscriptions = match &mut client.presence {
                Presence::Grace(grace) => &mut grace.subscriptions,
                Presence::Absent(subscriptions) => subscriptions,
                Presence::Active(_) => continue,
            };
            if subscriptions.remove(uri).is_some() {
                changed.push(id.clone());
            }
        }
        changed
    }

    /// Notes that the grace period of a client is over. Beyond `most` absent clients the oldest are forgotten;
    /// returns those.
    fn add_absent(&mut self, client: &ClientId, most: usize) -> Vec<ClientId> {
        self.absent.push_back(client.clone());
        let mut forgotten = Vec::new();
        while self.absent.len() > most {
            let Some(oldest) = self.absent.pop_front() else {
                break;
            };
            let is_absent = |client: &Client| matches!(client.presence, Presence::Absent(_));
            if self.by_id.get(&oldest).is_some_and(is_absent) {
                self.by_id.remove(&oldest);
                forgotten.push(oldest);
            }
        }
        forgotten
    }

    /// Notes that an absent client is back.
    fn remove_absent(&mut self, client: &ClientId) {
        self.absent.retain(|absent| absent != client);
    }
}

#[cfg(test)]
mod tests {
    use super::client::{Negotiated, Subscriptions};
    use super::*;

    fn absent() -> Client {
        let negotiated = Negotiated {
            version: "1.0.0".into(),
            dialect: Dialect::default(),
            locale: None,
        };
        Client::new("p".into(), negotiated, Presence::Absent(Subscriptions::default()))
    }

    #[test]
    fn only_so_many_absent_clients_are_remembered_and_the_oldest_go_first() {
        let mut clients = Clients::default();
        let [a, b, c] = ["a", "b", "c"].map(ClientId::new);
        for id in [&a, &b, &c] {
            clients.insert(id.clone(), absent());
        }
        assert_eq!(clients.add_absent(&a, 2), []);
        assert_eq!(clients.add_absent(&b, 2), []);
        clients.remove_absent(&a);
        assert_eq!(clients.add_absent(&c, 2), [], "one of them is back");
        assert_eq!(clients.add_absent(&a, 2), std::slice::from_ref(&b));
        assert!(clients.get(&b).is_none());
        assert!(!clients.is_connected(&a));
    }

    #[test]
    fn neg01_a_connection_belongs_to_no_client_before_its_handshake() {
        let mut connections = Connections::default();
        let conn = ConnId { slot: 1, generation: 0 };
        connections.open(conn, Principal::stdio());
        assert_eq!(connections.client(conn), None);
        assert!(connections.close(conn).is_some());
        assert!(connections.get(&conn).is_none());
    }
}

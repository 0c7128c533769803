//! Transports: they come, are read from, and go.

use innkeeper_core::request::{Initialize, Reconnect};
use innkeeper_core::snapshot::Snapshot;
use innkeeper_core::{ClientId, Command, ConnId, Input, Principal, RequestId, Version};

use crate::sim::client::connection::Connection;
use crate::sim::client::mirror::Mirror;
use crate::sim::client::queue::Marker;
use crate::sim::client::requests::{FollowUp, PendingRequest};
use crate::sim::{Coalescing, Item, Sim, Violation};

impl Sim {
    /// Sends a request on a connection.
    pub(in crate::sim) fn request(
        &mut self,
        conn: ConnId,
        asked: PendingRequest,
        command: Command,
    ) -> Result<(), Violation> {
        let id = self.next_request;
        self.next_request += 1;
        if let Some(connection) = self.conns.get_mut(&conn) {
            connection.asked.insert(id, asked);
        }
        self.handle(Input::Request {
            conn,
            id: RequestId::number(id),
            command,
        })
    }

    /// Opens a transport for a client and returns it.
    pub(in crate::sim) fn open(&mut self, client: usize, mirror: Mirror) -> Result<ConnId, Violation> {
        let id = ConnId {
            slot: self.next_slot,
            generation: 0,
        };
        self.next_slot += 1;
        let mut connection = Connection::new(id, client, &self.clients[client].id, mirror);
        connection.read_only = self.store.as_ref().is_some_and(|store| store.read_only);
        connection.coalesce = match self.coalescing {
            Coalescing::Always => true,
            Coalescing::Never => false,
            Coalescing::EverySecond => id.slot.is_multiple_of(2),
        };
        self.conns.insert(id, connection);
        self.handle(Input::Connected {
            conn: id,
            principal: Principal::stdio(),
        })?;
        Ok(id)
    }

    pub(in crate::sim) fn initialize(
        &mut self,
        conn: ConnId,
        client: usize,
        channels: Vec<String>,
    ) -> Result<(), Violation> {
        self.speak(conn, client);
        let command = initialize(&self.clients[client].id, self.clients[client].version, channels);
        self.request(conn, PendingRequest::Initialize, command)?;
        if self.conns.get(&conn).is_some_and(|connection| connection.admitted) {
            self.clients[client].left_at = None;
        }
        Ok(())
    }

    /// A connection speaks the version of its client.
    fn speak(&mut self, conn: ConnId, client: usize) {
        let version = match self.clients[client].version {
            "0.9.0" => Version::V0_9,
            _ => Version::NEWEST,
        };
        let id = &self.clients[client].id;
        if let Some(connection) = self.conns.get_mut(&conn) {
            connection.is_0_9 = version.is_translated();
            connection.queue.speak(version, id);
        }
    }

    pub(in crate::sim) fn reconnect(&mut self, conn: ConnId, client: usize) -> Result<(), Violation> {
        self.speak(conn, client);
        let Some(connection) = self.conns.get(&conn) else {
            return Ok(());
        };
        // Every other client counts as the published one does.
        let last_seen = match client % 2 {
            0 => connection.mirror.last_seen,
            _ => connection.mirror.counted,
        };
        let channels: Vec<String> = connection.mirror.channels.keys().cloned().collect();
        let command = Command::Reconnect(Box::new(Reconnect {
            client_id: ClientId::new(&self.clients[client].id),
            last_seen,
            subscriptions: channels.clone(),
        }));
        let asked = PendingRequest::Reconnect {
            last_seen,
            channels: channels.clone(),
        };
        self.request(conn, asked, command)?;
        let admitted = self.conns.get(&conn).is_some_and(|connection| connection.admitted);
        if admitted {
            self.clients[client].left_at = None;
            let (present, absent) = channels.into_iter().partition(|uri| self.core.snapshot(uri).is_some());
            self.mark(conn, Marker::Resumable { present, absent });
            self.expect(conn);
        }
        Ok(())
    }

    /// Puts the host's present states of a connection's channels into its queue, to be compared
    /// when the client has read that far.
    pub(in crate::sim) fn expect(&mut self, conn: ConnId) {
        let Some(connection) = self.conns.get(&conn) else {
            return;
        };
        let snapshots = connection
            .host_subscriptions
            .iter()
            .filter_map(|uri| self.core.snapshot(uri))
            .map(|snapshot| seen_by(&connection.client_id, snapshot))
            .collect();
        self.mark(conn, Marker::Expect(snapshots));
    }

    pub(in crate::sim) fn mark(&mut self, conn: ConnId, marker: Marker) {
        if let Some(connection) = self.conns.get_mut(&conn) {
            connection.queue.push(Item::Marker(marker));
        }
    }

    /// Lets a client read, and do what it does because of what it read.
    pub(in crate::sim) fn read(&mut self, conn: ConnId, frames: usize) -> Result<(), Violation> {
        let Some(connection) = self.conns.get_mut(&conn) else {
            return Ok(());
        };
        let client = connection.client;
        for follow_up in connection.read(frames, &mut self.decoder)? {
            match follow_up {
                FollowUp::ComeBack => {
                    self.count("answers that could not be finished");
                    self.cut(conn)?;
                }
                FollowUp::List => {
                    self.request(conn, PendingRequest::List, Command::ListSessions(Default::default()))?
                }
                FollowUp::Initialize => {
                    self.count("fresh starts after a refused reconnect");
                    let channels = self
                        .conns
                        .get(&conn)
                        .map(|connection| connection.mirror.channels.keys().cloned().collect())
                        .unwrap_or_default();
                    self.initialize(conn, client, channels)?;
                }
            }
        }
        Ok(())
    }

    /// Ends a transport; whatever its client had not read is lost.
    pub(in crate::sim) fn cut(&mut self, conn: ConnId) -> Result<(), Violation> {
        if !self.conns.contains_key(&conn) {
            return Ok(());
        }
        self.lose(conn);
        self.handle(Input::Disconnected { conn })
    }

    /// A client loses a transport, and what it had not read.
    pub(in crate::sim) fn lose(&mut self, conn: ConnId) {
        let Some(connection) = self.conns.remove(&conn) else {
            return;
        };
        self.note(|| format!("{conn} is cut"));
        self.mutator.cut(conn);
        self.count("cuts");
        let client = connection.client;
        self.count_dispatches(&connection);
        let was_ready = connection.ready;
        let was_admitted = connection.admitted;
        let mirror = connection.into_mirror();
        if was_ready || self.clients[client].saved.is_none() && !mirror.channels.is_empty() {
            self.clients[client].saved = Some(mirror);
        }
        let others = self
            .conns
            .values()
            .any(|other| other.client == client && other.admitted);
        if was_admitted && !others {
            self.clients[client].left_at = Some(self.now.mono_ms);
        }
    }

    fn count_dispatches(&mut self, connection: &Connection) {
        for dispatched in connection.dispatched.values() {
            self.count("dispatches");
            match (dispatched.echoes, dispatched.rejections) {
                (0, 0) => {}
                (_, 0) => self.count("echoes"),
                (_, _) => self.count("refusals"),
            }
        }
        *self.tally.entry("merged actions").or_default() += connection.queue.merged();
    }
}

/// The command that opens a conversation.
pub(in crate::sim) fn initialize(client_id: &str, version: &str, channels: Vec<String>) -> Command {
    Command::Initialize(Box::new(Initialize {
        offer: innkeeper_core::request::Offer::List(vec![version.to_owned()]),
        client_id: ClientId::new(client_id),
        initial_subscriptions: channels,
        client_name: None,
        mcp_apps: shows_apps(client_id),
        locale: None,
    }))
}

/// The host's state as a client is shown it (MCP-14).
pub(in crate::sim) fn seen_by(client_id: &str, snapshot: Snapshot) -> Snapshot {
    match shows_apps(client_id) {
        true => snapshot,
        false => snapshot.without_apps(),
    }
}

/// Every second client shows MCP Apps.
pub(in crate::sim) fn shows_apps(client_id: &str) -> bool {
    let number = client_id
        .rsplit('-')
        .next()
        .and_then(|number| number.parse::<usize>().ok());
    number.is_some_and(|number| number % 2 == 1)
}

//! The connections of a host, and the requests that it sends through them.

use std::sync::Arc;

use innkeeper_core::{ConnId, Delivery, Outgoing, error};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use crate::limits::Limits;
use crate::net::close::Close;
use crate::net::dialect::Edge;
use crate::net::outbox::{Outbox, QueueLimits};
use crate::net::reverse_requests::{ClientRequestError, PendingRequests, ReverseMethod};
use crate::services::prompt_transform;
use crate::services::resources::effects::OperationOrder;

/// Receives the answer of a client.
type Reply = oneshot::Sender<Result<Value, ClientRequestError>>;

/// The connections, by slot.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct Slot {
    /// Counts the connections that used the slot.
    generation: u32,
    connection: Option<Connection>,
}

#[derive(Debug)]
struct Connection {
    outbox: Arc<Outbox>,
    /// Its version.
    edge: Arc<Edge>,
    /// The requests of the host that the client has not answered yet.
    reverse_requests: PendingRequests,
    /// The order of its operations on resources.
    order: OperationOrder,
}

impl Connections {
    pub(crate) fn add(&mut self, limits: &Limits) -> (ConnId, Arc<Outbox>, Arc<Edge>) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let outbox = Arc::new(Outbox::new(QueueLimits::from(limits)));
        let edge = Arc::new(Edge::new(limits.core.max_subscriptions));
        let first_id = getrandom::u32().map_or(1, u64::from);
        let entry = &mut self.slots[slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.connection = Some(Connection {
            outbox: Arc::clone(&outbox),
            edge: Arc::clone(&edge),
            reverse_requests: PendingRequests::new(limits.reverse_requests, first_id),
            order: OperationOrder::default(),
        });
        let conn = ConnId {
            slot,
            generation: entry.generation,
        };
        (conn, outbox, edge)
    }

    pub(crate) fn remove(&mut self, conn: ConnId) {
        if let Some(slot) = self.slots.get_mut(conn.slot as usize)
            && slot.generation == conn.generation
            && let Some(connection) = slot.connection.take()
        {
            connection.outbox.close(Close::Gone);
            self.free.push(conn.slot);
        }
    }

    pub(crate) fn deliver(&self, delivery: Delivery) {
        match delivery {
            Delivery::Notify { to, message } => {
                for subscriber in &*to {
                    self.push(subscriber.conn, Outgoing::Text(message.clone()));
                }
            }
            Delivery::ExportLogs { to, message } => {
                for outbox in to.iter().filter_map(|conn| self.outbox(*conn)) {
                    outbox.push_if_room(Outgoing::Text(message.clone()));
                }
            }
            Delivery::Send { to, message } => self.push(to, message),
            Delivery::Close { conn, reason } => self.close(conn, reason.into()),
        }
    }

    /// Puts a message into the queue of a connection.
    pub(crate) fn push(&self, to: ConnId, message: Outgoing) {
        if let Some(outbox) = self.outbox(to) {
            outbox.push(message);
        }
    }

    pub(crate) fn outbox(&self, conn: ConnId) -> Option<&Outbox> {
        self.get(conn).map(|connection| &*connection.outbox)
    }

    /// Returns the order of the operations on resources of a connection.
    pub(crate) fn order(&self, conn: ConnId) -> Option<&OperationOrder> {
        self.get(conn).map(|connection| &connection.order)
    }

    /// Closes a connection after its queue is written.
    pub(crate) fn close(&self, conn: ConnId, close: Close) {
        if let Some(outbox) = self.outbox(conn) {
            outbox.close(close);
        }
    }

    pub(crate) fn close_all(&self, close: Close) {
        for slot in &self.slots {
            if let Some(connection) = &slot.connection {
                connection.outbox.close(close);
            }
        }
    }

    /// Sends a request to the client of a connection. The root channel is added to `params`.
    pub(crate) fn request(&mut self, conn: ConnId, method: ReverseMethod, params: Map<String, Value>, reply: Reply) {
        let mut params = params;
        params.insert("channel".to_owned(), json!(innkeeper_core::uri::ROOT));
        self.send_request(conn, reply, |id| {
            json!({ "jsonrpc": "2.0", "id": id, "method": method.name(), "params": params }).to_string()
        });
    }

    /// Whether the client of a connection is likely to answer requests.
    pub(crate) fn is_likely_to_answer(&self, conn: ConnId) -> bool {
        self.get(conn)
            .is_none_or(|connection| connection.edge.version().answers_reverse_requests())
    }

    /// Asks the client of a connection to rewrite sections of a system prompt (SMT-01). No other connection takes its
    /// place (SMT-10).
    pub(crate) fn request_transform(&mut self, conn: ConnId, params: &str, reply: Reply) {
        let method = prompt_transform::METHOD;
        self.send_request(conn, reply, |id| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
        });
    }

    fn send_request(&mut self, conn: ConnId, reply: Reply, encode: impl FnOnce(u64) -> String) {
        let Some(connection) = self.get_mut(conn) else {
            let _ = reply.send(Err(ClientRequestError::Disconnected));
            return;
        };
        let version = connection.edge.version();
        if !version.has_reverse_requests() {
            let message = format!("clients of AHP {version} take no requests");
            let code = i64::from(error::code::METHOD_NOT_FOUND);
            let _ = reply.send(Err(ClientRequestError::Refused { code, message }));
            return;
        }
        if let Some(id) = connection.reverse_requests.add(reply) {
            connection.outbox.push(Outgoing::Text(encode(id).into()));
        }
    }

    /// Delivers the answer of a client.
    pub(crate) fn answered(&mut self, conn: ConnId, id: u64, outcome: Result<Value, ClientRequestError>) {
        if let Some(connection) = self.get_mut(conn) {
            connection.reverse_requests.answer(id, outcome);
        }
    }

    fn get(&self, conn: ConnId) -> Option<&Connection> {
        let slot = self.slots.get(conn.slot as usize)?;
        let is_current = slot.generation == conn.generation;
        slot.connection.as_ref().filter(|_| is_current)
    }

    fn get_mut(&mut self, conn: ConnId) -> Option<&mut Connection> {
        let slot = self.slots.get_mut(conn.slot as usize)?;
        let is_current = slot.generation == conn.generation;
        slot.connection.as_mut().filter(|_| is_current)
    }
}

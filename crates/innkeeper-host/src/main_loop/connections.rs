//! The connections of a host, and the questions it asks through them.

use std::sync::Arc;

use innkeeper_core::{ClientId, ConnId, Outgoing};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use crate::main_loop::task::HostTask;
use crate::net::close::Close;
use crate::net::outbox::{Outbox, QueueLimits};
use crate::net::reverse_requests::{ClientRequestError, PendingRequests, ReverseMethod};
use crate::services::prompt_transform;
use crate::services::resources::effects::OperationOrder;

#[derive(Debug, Default)]
pub(crate) struct Slot {
    generation: u32,
    connection: Option<Connection>,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) outbox: Arc<Outbox>,
    /// The requests of the host that the client has not answered yet.
    pub(crate) reverse_requests: PendingRequests,
    /// The order of what it wants done with resources.
    pub(crate) order: OperationOrder,
}
impl HostTask {
    pub(crate) fn push(&mut self, to: ConnId, message: Outgoing) {
        if let Some(connection) = self.connection(to) {
            connection.outbox.push(message);
        }
    }

    pub(crate) fn request_client(
        &mut self,
        client: ClientId,
        method: ReverseMethod,
        params: Map<String, Value>,
        reply: oneshot::Sender<Result<Value, ClientRequestError>>,
    ) {
        let Some(conn) = self.core.primary_conn(&client) else {
            let _ = reply.send(Err(ClientRequestError::NotConnected(client)));
            return;
        };
        let Some(connection) = self.connection(conn) else {
            let _ = reply.send(Err(ClientRequestError::NotConnected(client)));
            return;
        };
        let Some(id) = connection.reverse_requests.add(reply) else {
            return;
        };
        let mut params = params;
        params.insert("channel".to_owned(), json!(innkeeper_core::uri::ROOT));
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method.name(), "params": params });
        connection.outbox.push(Outgoing::Text(request.to_string().into()));
    }

    /// Asks the client on a connection to rewrite sections of a system prompt (SMT-01). No other
    /// connection takes its place (SMT-10).
    pub(crate) fn ask_to_transform(
        &mut self,
        conn: ConnId,
        params: &str,
        reply: oneshot::Sender<Result<Value, ClientRequestError>>,
    ) {
        let Some(connection) = self.connection(conn) else {
            let _ = reply.send(Err(ClientRequestError::Disconnected));
            return;
        };
        if let Some(id) = connection.reverse_requests.add(reply) {
            let method = prompt_transform::METHOD;
            let request = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
            connection.outbox.push(Outgoing::Text(request.into()));
        }
    }

    pub(crate) fn add_connection(&mut self) -> (ConnId, Arc<Outbox>) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.connections.push(Slot::default());
            u32::try_from(self.connections.len() - 1).unwrap_or(u32::MAX)
        });
        let outbox = Arc::new(Outbox::new(QueueLimits::from(&*self.limits)));
        let first_id = getrandom::u32().map_or(1, u64::from);
        let reverse_requests = PendingRequests::new(self.limits.reverse_requests, first_id);
        let entry = &mut self.connections[slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.connection = Some(Connection {
            outbox: Arc::clone(&outbox),
            reverse_requests,
            order: OperationOrder::default(),
        });
        (
            ConnId {
                slot,
                generation: entry.generation,
            },
            outbox,
        )
    }

    pub(crate) fn remove_connection(&mut self, conn: ConnId) {
        if let Some(slot) = self.connections.get_mut(conn.slot as usize)
            && slot.generation == conn.generation
            && let Some(connection) = slot.connection.take()
        {
            connection.outbox.close(Close::Gone);
            self.free.push(conn.slot);
        }
    }

    pub(crate) fn connection(&mut self, conn: ConnId) -> Option<&mut Connection> {
        let slot = self.connections.get_mut(conn.slot as usize)?;
        if slot.generation == conn.generation {
            slot.connection.as_mut()
        } else {
            None
        }
    }

    pub(crate) fn outbox(&self, conn: ConnId) -> Option<&Outbox> {
        let slot = self.connections.get(conn.slot as usize)?;
        let connection = slot
            .connection
            .as_ref()
            .filter(|_| slot.generation == conn.generation)?;
        Some(&connection.outbox)
    }

    pub(crate) fn close_all(&mut self, close: Close) {
        for slot in &self.connections {
            if let Some(connection) = &slot.connection {
                connection.outbox.close(close);
            }
        }
    }
}

//! Messages about connections and their clients.

use innkeeper_core::frame::{encode_error, encode_result};
use innkeeper_core::{ClientId, Effect, Input, Now, Outgoing};
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::message::ConnectionMessage;
use super::task::HostTask;
use crate::net::reverse_requests::{ClientRequestError, ReverseMethod};
use crate::services::resources::effects::found;

impl HostTask {
    pub(super) fn handle_connection(&mut self, now: Now, message: ConnectionMessage, effects: &mut Vec<Effect>) {
        match message {
            ConnectionMessage::Attach { principal, reply } => {
                let (conn, outbox, edge) = self.net.add(self.handles.limits());
                self.handle_input(now, Input::Connected { conn, principal }, effects);
                if reply.send((conn, outbox, edge)).is_err() {
                    self.handle_input(now, Input::Disconnected { conn }, effects);
                    self.net.remove(conn);
                }
            }
            ConnectionMessage::VersionOf { client, reply } => {
                let negotiated = self.core.negotiated(&client);
                let _ = reply.send(negotiated.map(|negotiated| negotiated.dialect.version));
            }
            ConnectionMessage::Detached { conn } => self.detach(conn),
            ConnectionMessage::RequestClient {
                client,
                method,
                params,
                reply,
            } => self.request_client(client, method, params, reply),
            ConnectionMessage::Transform { conn, params, reply } => self.net.request_transform(conn, &params, reply),
            ConnectionMessage::ClientAnswered { conn, id, outcome } => self.net.answered(conn, id, outcome),
            ConnectionMessage::Found { conn, id, object } => self.net.push(conn, found(id, object)),
            ConnectionMessage::Respond { conn, id, outcome } => {
                let message = match outcome {
                    Ok(value) => encode_result(&id, &value),
                    Err(error) => encode_error(Some(&id), &error),
                };
                self.net.push(conn, Outgoing::Text(message));
            }
        }
    }

    /// Sends a request to a client, through its newest connection.
    fn request_client(
        &mut self,
        client: ClientId,
        method: ReverseMethod,
        params: Map<String, Value>,
        reply: oneshot::Sender<Result<Value, ClientRequestError>>,
    ) {
        let primary = self.core.primary_conn(&client);
        match primary.filter(|conn| self.net.outbox(*conn).is_some()) {
            Some(conn) => {
                let reply = match self.net.is_likely_to_answer(conn) {
                    true => reply,
                    false => self.answered_soon(reply),
                };
                self.net.request(conn, method, params, reply);
            }
            None => {
                let _ = reply.send(Err(ClientRequestError::NotConnected(client)));
            }
        }
    }

    /// A reply that is given up after a short time.
    fn answered_soon(
        &self,
        reply: oneshot::Sender<Result<Value, ClientRequestError>>,
    ) -> oneshot::Sender<Result<Value, ClientRequestError>> {
        let (soon, answer) = oneshot::channel();
        let time = self.handles.limits().unlikely_answer_time;
        self.handles.tasks().spawn(async move {
            let answer = match tokio::time::timeout(time, answer).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => Err(ClientRequestError::Disconnected),
                Err(_) => Err(ClientRequestError::TimedOut),
            };
            let _ = reply.send(answer);
        });
        soon
    }
}

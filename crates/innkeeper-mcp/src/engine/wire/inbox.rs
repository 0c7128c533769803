//! Where transports deliver the messages that they read.

use std::borrow::Cow;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::inbound_requests::InboundRequests;
use super::message::{Message, RequestId, RpcError, decode};
use crate::engine::auth::Credentials;

/// Messages on their way to their readers. When they are full, no more is read: a server that floods waits (P7).
const QUEUE: usize = 64;

/// A message, and the request of ours on whose HTTP stream it came.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) message: Message,
    pub(crate) origin: Option<i64>,
}

/// Takes the text of messages. Cloning gives another handle to the same one.
#[derive(Clone, Debug)]
pub(crate) struct Inbox {
    sender: mpsc::Sender<Received>,
    requests: Arc<InboundRequests>,
    /// The credentials whose token is removed from every message, whatever the server writes.
    credentials: Option<Arc<Credentials>>,
}

/// Why text was not delivered.
#[derive(Debug)]
pub(crate) enum NotDelivered {
    /// It is no message.
    NoMessage(serde_json::Error),
    /// The connection has ended.
    Closed,
}

impl Inbox {
    pub(crate) fn new(
        requests: Arc<InboundRequests>,
        credentials: Option<Arc<Credentials>>,
    ) -> (Self, mpsc::Receiver<Received>) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let inbox = Self {
            sender,
            requests,
            credentials,
        };
        (inbox, receiver)
    }

    /// Delivers the messages in a text, and returns the ids of the requests that they answer. Waits while the server's
    /// own requests have no room.
    pub(crate) async fn deliver(&self, text: &str, origin: Option<i64>) -> Result<Vec<i64>, NotDelivered> {
        // The text of a server goes into state and onto disks (AUTH-12).
        let text = match &self.credentials {
            Some(credentials) => credentials.hide(text),
            None => Cow::Borrowed(text),
        };
        let messages = decode(&text).map_err(NotDelivered::NoMessage)?;
        let mut answered = Vec::new();
        for message in messages {
            match &message {
                Message::Request { id, .. } if !self.requests.admit(id, text.len()).await => continue,
                Message::Answer { id: Some(id), .. } => match id.number() {
                    Some(number) => answered.push(number),
                    // Our requests have numbers, so this answers none of them.
                    None => continue,
                },
                _ => {}
            }
            self.send(message, origin).await?;
        }
        Ok(answered)
    }

    /// Fails a request whose answer is too large to be read.
    pub(crate) async fn too_large(&self, request: Option<i64>) -> Result<(), NotDelivered> {
        let Some(request) = request else {
            tracing::warn!("a message of an MCP server is too large and was left out");
            return Ok(());
        };
        let message = Message::Answer {
            id: Some(RequestId::Number(request)),
            answer: Err(RpcError::too_large()),
        };
        self.send(message, None).await
    }

    async fn send(&self, message: Message, origin: Option<i64>) -> Result<(), NotDelivered> {
        let received = Received { message, origin };
        self.sender.send(received).await.map_err(|_| NotDelivered::Closed)
    }
}

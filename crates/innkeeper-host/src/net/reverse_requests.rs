//! Requests from the host to a client: the ten symmetrical methods, with a time limit.

use std::collections::HashMap;

use innkeeper_core::ClientId;
use serde_json::Value;
use tokio::sync::oneshot;

/// The requests that the host sends to a client (TRN-18).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the methods of the protocol")]
pub enum ReverseMethod {
    ResourceRead,
    ResourceWrite,
    ResourceList,
    ResourceCopy,
    ResourceDelete,
    ResourceMove,
    ResourceResolve,
    ResourceMkdir,
    ResourceRequest,
    CreateResourceWatch,
}

impl ReverseMethod {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::ResourceRead => "resourceRead",
            Self::ResourceWrite => "resourceWrite",
            Self::ResourceList => "resourceList",
            Self::ResourceCopy => "resourceCopy",
            Self::ResourceDelete => "resourceDelete",
            Self::ResourceMove => "resourceMove",
            Self::ResourceResolve => "resourceResolve",
            Self::ResourceMkdir => "resourceMkdir",
            Self::ResourceRequest => "resourceRequest",
            Self::CreateResourceWatch => "createResourceWatch",
        }
    }
}

/// Why a client did not answer with a result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClientRequestError {
    /// No connection of this client is up.
    #[error("the client {0} is not connected")]
    NotConnected(ClientId),
    /// Its connection ended before it answered.
    #[error("the client disconnected before it answered")]
    Disconnected,
    /// It did not answer in time.
    #[error("the client did not answer in time")]
    TimedOut,
    /// Too many requests are waiting for it.
    #[error("too many requests are already waiting for the client")]
    Busy,
    /// It answered with something else than what was asked for.
    #[error("the client's answer cannot be used: {0}")]
    Unusable(String),
    /// It answered with an error; `-32601` is a normal one (TRN-19).
    #[error("the client answered with error {code}: {message}")]
    Refused {
        /// The JSON-RPC code.
        code: i64,
        /// The client's words.
        message: String,
    },
}

/// The requests that one connection has not answered yet.
#[derive(Debug)]
pub(crate) struct PendingRequests {
    next_id: u64,
    most: usize,
    waiting: HashMap<u64, oneshot::Sender<Result<Value, ClientRequestError>>>,
}

impl PendingRequests {
    /// Ids start at a number the client cannot guess, so that it cannot answer for a question it
    /// was not asked, and stay non-negative integers, which is all the published client reads (TRN-11).
    pub(crate) fn new(most: usize, first_id: u64) -> Self {
        Self {
            next_id: first_id,
            most,
            waiting: HashMap::new(),
        }
    }

    /// Registers a request and returns its id; a reply that cannot be awaited any more is dropped.
    pub(crate) fn add(&mut self, reply: oneshot::Sender<Result<Value, ClientRequestError>>) -> Option<u64> {
        self.waiting.retain(|_, reply| !reply.is_closed());
        if self.waiting.len() >= self.most {
            let _ = reply.send(Err(ClientRequestError::Busy));
            return None;
        }
        let id = self.next_id;
        self.next_id += 1;
        self.waiting.insert(id, reply);
        Some(id)
    }

    /// Delivers an answer; an answer without a waiting request is ignored.
    pub(crate) fn answer(&mut self, id: u64, outcome: Result<Value, ClientRequestError>) {
        if let Some(reply) = self.waiting.remove(&id) {
            let _ = reply.send(outcome);
        }
    }
}

impl Drop for PendingRequests {
    fn drop(&mut self) {
        for (_, reply) in self.waiting.drain() {
            let _ = reply.send(Err(ClientRequestError::Disconnected));
        }
    }
}

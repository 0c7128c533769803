//! Everything that can happen to a host.

use std::sync::Arc;

use innkeeper_core::{ClientId, ConnId, Input, Principal, RequestId, RpcError};
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::events::EventQueue;
use crate::outbox::Outbox;
use crate::peer::{PeerError, ReverseMethod};

/// Everything that can happen to a host.
#[derive(Debug)]
pub(crate) enum Message {
    /// Something for the core.
    Core(Input),
    /// An agent produced something.
    Events(Arc<EventQueue>),
    /// A request for the core, and its place among those of its connection.
    Request {
        conn: ConnId,
        input: Input,
        in_flight: OwnedSemaphorePermit,
    },
    /// A transport was accepted.
    Attach {
        principal: Principal,
        reply: oneshot::Sender<(ConnId, Arc<Outbox>)>,
    },
    /// A connection's tasks are done with its slot.
    Detached { conn: ConnId },
    /// The host wants something of a client.
    Ask {
        client: ClientId,
        method: ReverseMethod,
        params: Map<String, Value>,
        reply: oneshot::Sender<Result<Value, PeerError>>,
    },
    /// A client answered.
    Answered {
        conn: ConnId,
        id: u64,
        outcome: Result<Value, PeerError>,
    },
    /// What a request asked for was found outside the core.
    Respond {
        conn: ConnId,
        id: RequestId,
        outcome: Result<Value, RpcError>,
    },
    /// Stop in order.
    ShutDown { done: oneshot::Sender<()> },
}

//! Effects on the connections of clients.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::ids::{ChannelId, ConnId};
use crate::protocol::dialect::Dialect;
use crate::protocol::frame::{ActionFrame, Outgoing};

/// An accepted action, to persist and then to put into the queue of every subscriber.
#[derive(Debug)]
pub struct Publication {
    /// The channel the action belongs to.
    pub channel: ChannelId,
    /// Its URI.
    pub uri: Arc<str>,
    /// The subscribers, if any, whose protocol version knows the action.
    pub to: Arc<[Subscriber]>,
    /// The action.
    pub frame: Arc<ActionFrame>,
    /// The connection that dispatched it, which gets a rejection if it cannot be persisted.
    pub author: Option<ConnId>,
}

/// A message to clients that is no action, or the end of a connection.
#[derive(Debug)]
pub enum Delivery {
    /// Put a notification that is not an action into the queue of every subscriber.
    Notify {
        /// The subscribers.
        to: Arc<[Subscriber]>,
        /// The whole message.
        message: Bytes,
    },
    /// Put log records into the queues of these connections, except those that are behind: no client loses its
    /// connection because of the log.
    ExportLogs {
        /// The connections.
        to: Arc<[ConnId]>,
        /// The whole notification.
        message: Bytes,
    },
    /// Put a message into one connection's queue.
    Send {
        /// The connection.
        to: ConnId,
        /// The message.
        message: Outgoing,
    },
    /// Close a connection once its queue is written.
    Close {
        /// The connection.
        conn: ConnId,
        /// Why.
        reason: CloseReason,
    },
}

/// One subscription, as the fan-out sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subscriber {
    /// Where to deliver.
    pub conn: ConnId,
    /// How long streamed output may be held back for merging (SUB-10).
    pub max_latency_ms: u32,
    /// The connection's dialect.
    pub dialect: Dialect,
}

/// Why the host closes a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// Too much of what it sent waits to be handled.
    TooMuchWaits,
    /// The host cannot write, and has refused so much that it has no numbers left for refusals.
    NoNumbers,
    /// No common protocol version (NEG-06).
    UnsupportedVersion,
    /// The host is going down.
    ShuttingDown,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoNumbers => "the host cannot write, and can refuse nothing more; try again when it can",
            Self::TooMuchWaits => "too much waits to be handled; send less at a time",
            Self::UnsupportedVersion => "no common protocol version",
            Self::ShuttingDown => "the host is shutting down; reconnect when it is back",
        })
    }
}

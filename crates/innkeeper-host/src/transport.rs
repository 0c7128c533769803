//! What a connection needs from a transport: whole messages in, whole messages out.

use std::future::Future;
use std::io;

use bytes::Bytes;

use crate::close::Close;

pub mod lines;
pub mod websocket;

/// One inbound message or the reason why there is none.
#[derive(Debug)]
pub enum Received {
    /// A message. Not yet known to be UTF-8: binary frames and lines may hold anything.
    Message(Bytes),
    /// Something that shows the peer is alive.
    Alive,
    /// The peer closed.
    Closed,
    /// The peer broke a rule that ends the connection.
    Violation(Close),
}

/// The reading half.
pub trait Source: Send + 'static {
    /// Waits for the next message.
    fn next(&mut self) -> impl Future<Output = Received> + Send;
}

/// The writing half.
pub trait Sink: Send + 'static {
    /// Writes all messages and flushes once: flushing each one singly costs ten times as much.
    fn write(&mut self, messages: Vec<Bytes>) -> impl Future<Output = io::Result<()>> + Send;

    /// Asks the peer for a sign of life; does nothing where the transport has none.
    fn ping(&mut self) -> impl Future<Output = io::Result<()>> + Send;

    /// Says goodbye.
    fn close(&mut self, close: Close) -> impl Future<Output = io::Result<()>> + Send;
}

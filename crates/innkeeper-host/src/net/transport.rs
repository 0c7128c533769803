//! The traits of a transport: whole messages in, whole messages out.

use std::future::Future;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use innkeeper_core::Wire;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::net::close::Close;

mod chunks;
mod fragment_limit;
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

    /// Whether a peer that is there answers pings, so that its silence means it is gone.
    fn answers_pings(&self) -> bool;

    /// Reads and forgets until the peer stops. Closing a socket with unread input makes the
    /// system discard what was just written, and with it the reason for closing.
    fn drain(&mut self) -> impl Future<Output = ()> + Send;
}

/// The writing half.
pub trait Sink: Send + 'static {
    /// Writes all messages and flushes once: flushing each one singly costs ten times as much.
    ///
    /// However long that takes, a peer that takes part of it now and then is waited for; one that
    /// takes not a byte for the host's `write_time` makes it fail with [`io::ErrorKind::TimedOut`].
    /// A message that cannot be encoded, because part of it cannot be read, makes it fail with
    /// [`io::ErrorKind::InvalidData`], possibly in the middle of it.
    fn write(&mut self, messages: Vec<Wire>) -> impl Future<Output = io::Result<()>> + Send;

    /// Completes when the transport itself has something to write, such as the answer to a ping;
    /// an empty [`write`](Self::write) then writes it.
    fn urgent(&mut self) -> impl Future<Output = ()> + Send;

    /// Asks the peer for a sign of life; does nothing where the transport has none.
    fn ping(&mut self) -> impl Future<Output = io::Result<()>> + Send;

    /// Says goodbye.
    fn close(&mut self, close: Close) -> impl Future<Output = io::Result<()>> + Send;
}

/// Writes everything, as long as the peer takes at least a byte within `timeout` every time.
async fn write_steadily(writer: &mut (impl AsyncWrite + Unpin), mut bytes: &[u8], timeout: Duration) -> io::Result<()> {
    while !bytes.is_empty() {
        match tokio::time::timeout(timeout, writer.write(bytes)).await {
            Ok(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(Ok(taken)) => bytes = &bytes[taken..],
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
    Ok(())
}

/// Flushes what was written, with the same timeout.
async fn flush_steadily(writer: &mut (impl AsyncWrite + Unpin), timeout: Duration) -> io::Result<()> {
    match tokio::time::timeout(timeout, writer.flush()).await {
        Ok(flushed) => flushed,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

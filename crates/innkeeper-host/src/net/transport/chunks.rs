//! Answers that are encoded while they are written.
//!
//! A thread that may block encodes and reads, and hands over one chunk after the other. It is never
//! more than a chunk ahead of the peer, so however much an answer holds, it takes little memory; and
//! it ends when its connection does.

use std::io::{self, Write};
use std::sync::Arc;

use innkeeper_core::snapshot::RpcAnswer;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// How much is handed over at a time.
pub(super) const CHUNK_BYTES: usize = 256 << 10;

/// An answer in pieces.
#[derive(Debug)]
pub(super) struct Chunks {
    chunks: mpsc::Receiver<Vec<u8>>,
    encoding: JoinHandle<io::Result<()>>,
}

impl Chunks {
    /// Starts to encode an answer.
    pub(super) fn of(answer: Arc<RpcAnswer>) -> Self {
        // One waits while the next is filled and the one before is written.
        let (sender, chunks) = mpsc::channel(1);
        let encoding = tokio::task::spawn_blocking(move || {
            let mut out = Chunked {
                filled: Vec::with_capacity(CHUNK_BYTES),
                sender,
            };
            answer.write_to(&mut out)?;
            out.flush()
        });
        Self { chunks, encoding }
    }

    /// The next piece; `None` after the last.
    pub(super) async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        if let Some(chunk) = self.chunks.recv().await {
            return Ok(Some(chunk));
        }
        match (&mut self.encoding).await {
            Ok(encoded) => encoded.map(|()| None),
            Err(_) => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "encoding the answer failed; this is a bug",
            )),
        }
    }
}

/// The encoder's end: gathers what is written and waits for the peer.
struct Chunked {
    filled: Vec<u8>,
    sender: mpsc::Sender<Vec<u8>>,
}

impl Write for Chunked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(CHUNK_BYTES - self.filled.len());
        self.filled.extend_from_slice(&bytes[..taken]);
        if self.filled.len() == CHUNK_BYTES {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.filled.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::replace(&mut self.filled, Vec::with_capacity(CHUNK_BYTES));
        let sent = self.sender.blocking_send(chunk);
        sent.map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the connection is gone"))
    }
}

#[cfg(test)]
mod tests;

//! A server behind pipes: one message per line.

use std::future::Future;
use std::sync::Arc;

use innkeeper_std::sync::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::inbox::{Inbox, NotDelivered};
use super::line::{Line, read_line};
use super::message::Outgoing;
use super::peer::RequestFailure;
use super::process::Pipes;
use super::tail::Tail;

/// Messages on their way out.
const QUEUE: usize = 64;
/// The longest part that is kept of a line that is no message.
const STRAY_BYTES: usize = 300;

/// The input of the server.
#[derive(Debug)]
pub(crate) struct StdioTransport {
    outgoing: mpsc::Sender<Arc<str>>,
}

impl StdioTransport {
    /// Reads and writes until the pipes end or `closed` is cancelled. Cancels `closed` when the output of the server
    /// ends.
    pub(crate) fn new(
        pipes: Pipes,
        tail: Arc<Mutex<Tail>>,
        most: usize,
        inbox: Inbox,
        closed: CancellationToken,
    ) -> Self {
        let (outgoing, out_receiver) = mpsc::channel(QUEUE);
        tokio::spawn({
            let closed = closed.clone();
            async move {
                // A server ends when its input does.
                tokio::select! {
                    () = write(pipes.stdin, out_receiver) => {}
                    () = closed.cancelled() => {}
                }
            }
        });
        tokio::spawn(async move {
            tokio::select! {
                () = read(pipes.stdout, &inbox, &tail, most) => {}
                () = closed.cancelled() => {}
            }
            closed.cancel();
        });
        Self { outgoing }
    }

    /// Queues a message at once where there is room, so that a cancellation does not overtake its request.
    pub(crate) fn send(&self, message: Outgoing) -> impl Future<Output = Result<(), RequestFailure>> + Send + use<> {
        let waiting = match self.outgoing.try_send(message.body) {
            Ok(()) => Ok(None),
            Err(mpsc::error::TrySendError::Full(line)) => Ok(Some((self.outgoing.clone(), line))),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(RequestFailure::Closed),
        };
        async move {
            match waiting? {
                Some((outgoing, line)) => outgoing.send(line).await.map_err(|_| RequestFailure::Closed),
                None => Ok(()),
            }
        }
    }
}

async fn read(stdout: impl AsyncRead + Unpin, inbox: &Inbox, tail: &Mutex<Tail>, most: usize) {
    let mut reader = BufReader::with_capacity(64 << 10, stdout);
    while let Ok(Some(line)) = read_line(&mut reader, most).await {
        let delivered = match line {
            Line::Text(line) => match inbox.deliver(&String::from_utf8_lossy(&line), None).await {
                Err(NotDelivered::NoMessage(_)) => {
                    // Servers that print to their output by mistake: it may say why they fail.
                    let stray = line.get(..line.len().min(STRAY_BYTES)).unwrap_or_default();
                    let mut tail = tail.lock();
                    tail.push(stray);
                    tail.push(b"\n");
                    Ok(())
                }
                delivered => delivered.map(drop),
            },
            Line::TooLong(request) => inbox.too_large(request).await,
        };
        if delivered.is_err() {
            return;
        }
    }
}

async fn write(mut stdin: impl AsyncWrite + Unpin, mut outgoing: mpsc::Receiver<Arc<str>>) {
    while let Some(line) = outgoing.recv().await {
        let line = format!("{line}\n");
        if stdin.write_all(line.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

//! A server behind pipes: one message per line.

use std::future::Future;
use std::io;
use std::sync::Arc;

use innkeeper_std::sync::Mutex;
use rmcp::model::{ClientJsonRpcMessage, ErrorCode, ErrorData, ServerJsonRpcMessage};
use rmcp::service::RoleClient;
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::line::{Line, read_line};
use super::process::Pipes;
use super::tail::Tail;
use super::{Messages, TOO_LARGE, encode};

/// Messages on their way in and out. When they are full, the pipes are not read: a server that
/// floods waits (P7).
const QUEUE: usize = 64;
/// How much is kept of a line that is no message.
const STRAY_BYTES: usize = 300;

/// The two ends of the pipes.
pub(crate) struct StdioTransport {
    incoming: mpsc::Receiver<ServerJsonRpcMessage>,
    outgoing: Option<mpsc::Sender<String>>,
    messages: Messages,
}

impl StdioTransport {
    /// Reads and writes until the pipes end or `closed` is cancelled, and cancels it at the end.
    pub(crate) fn new(
        pipes: Pipes,
        tail: Arc<Mutex<Tail>>,
        most: usize,
        messages: Messages,
        closed: CancellationToken,
    ) -> Self {
        let (in_sender, incoming) = mpsc::channel(QUEUE);
        let (outgoing, out_receiver) = mpsc::channel(QUEUE);
        tokio::spawn({
            let (messages, closed) = (messages.clone(), closed.clone());
            async move {
                tokio::select! {
                    () = read(pipes.stdout, &in_sender, &messages, &tail, most) => {}
                    () = closed.cancelled() => {}
                }
                closed.cancel();
            }
        });
        tokio::spawn(write(pipes.stdin, out_receiver));
        Self {
            incoming,
            outgoing: Some(outgoing),
            messages,
        }
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(&mut self, item: ClientJsonRpcMessage) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        self.messages.own.note(&item);
        let line = encode(&item).map_err(io::Error::other);
        // Put into the queue here and now, where there is room: a cancellation must not overtake
        // its request.
        let waiting = match (line, &self.outgoing) {
            (Ok(line), Some(outgoing)) => match outgoing.try_send(line) {
                Ok(()) => Ok(None),
                Err(mpsc::error::TrySendError::Full(line)) => Ok(Some((outgoing.clone(), line))),
                Err(mpsc::error::TrySendError::Closed(_)) => Err(closed()),
            },
            (Ok(_), None) => Err(closed()),
            (Err(error), _) => Err(error),
        };
        async move {
            match waiting? {
                Some((outgoing, line)) => outgoing.send(line).await.map_err(|_| closed()),
                None => Ok(()),
            }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.incoming.recv().await
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.outgoing = None;
        self.incoming.close();
        Ok(())
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the server takes no more input")
}

async fn read(
    stdout: impl AsyncRead + Unpin,
    incoming: &mpsc::Sender<ServerJsonRpcMessage>,
    messages: &Messages,
    tail: &Mutex<Tail>,
    most: usize,
) {
    let mut reader = BufReader::with_capacity(64 << 10, stdout);
    while let Ok(Some(line)) = read_line(&mut reader, most).await {
        let (found, bytes) = match line {
            Line::Text(line) => match messages.decode(&String::from_utf8_lossy(&line)) {
                Ok(found) => (found, line.len()),
                Err(_) => {
                    // Servers that print to their output by mistake: it may say why they fail.
                    let stray = line.get(..line.len().min(STRAY_BYTES)).unwrap_or_default();
                    let mut tail = tail.lock();
                    tail.push(stray);
                    tail.push(b"\n");
                    continue;
                }
            },
            Line::TooLong(Some(id)) => {
                let error = ErrorData::new(ErrorCode(TOO_LARGE), "too large", None);
                (vec![ServerJsonRpcMessage::error(error, Some(id))], 0)
            }
            Line::TooLong(None) => {
                tracing::warn!("a message of an MCP server is too large and was left out");
                continue;
            }
        };
        for message in found {
            if messages.admit(&message, bytes).await && incoming.send(message).await.is_err() {
                return;
            }
        }
    }
}

async fn write(mut stdin: impl AsyncWrite + Unpin, mut outgoing: mpsc::Receiver<String>) {
    while let Some(mut line) = outgoing.recv().await {
        line.push('\n');
        if stdin.write_all(line.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

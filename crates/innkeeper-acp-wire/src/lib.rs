//! JSON-RPC over two pipes: one message per line, in both directions, without trust in the other end.

#![warn(missing_docs)]

mod line;
mod message;

use std::io;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

pub use message::{Incoming, RpcError, code};

/// Longest message. A whole file can be in one.
const MAX_LINE_BYTES: usize = 64 << 20;
/// Messages that wait between the pipe and their reader. When it is full, the other end waits.
const INCOMING: usize = 256;
/// Messages that wait for an end that does not read. Beyond them, the sender waits as well.
const OUTGOING: usize = 64;

/// Our end of the pipes.
#[derive(Debug)]
pub struct Wire {
    outgoing: mpsc::Sender<String>,
    incoming: mpsc::Receiver<Incoming>,
    writer: JoinHandle<()>,
    next_id: i64,
}

/// The other end closed its pipe, or broke the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Closed(
    /// The reason, as the end of a sentence.
    pub String,
);

impl Wire {
    /// Reads and writes the pipes until either end closes.
    pub fn start(
        input: impl AsyncWrite + Send + Unpin + 'static,
        output: impl AsyncRead + Send + Unpin + 'static,
    ) -> Self {
        let (outgoing, to_write) = mpsc::channel(OUTGOING);
        let (read, incoming) = mpsc::channel(INCOMING);
        let writer = tokio::spawn(write(input, to_write));
        tokio::spawn(read_all(output, read));
        Self {
            outgoing,
            incoming,
            writer,
            next_id: 0,
        }
    }

    /// Sends a request. The answer comes with [`Self::next`], behind everything that the other end sent before it.
    pub async fn request(&mut self, method: &str, params: Value) -> Result<i64, Closed> {
        self.next_id += 1;
        let id = self.next_id;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(&message).await?;
        Ok(id)
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: Value) -> Result<(), Closed> {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
            .await
    }

    /// Answers a request of the other end.
    pub async fn answer(&self, id: &Value, outcome: Result<Value, RpcError>) -> Result<(), Closed> {
        let message = match outcome {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error.to_json() }),
        };
        self.send(&message).await
    }

    /// Returns the next message of the other end.
    pub async fn next(&mut self) -> Result<Incoming, Closed> {
        match self.incoming.recv().await {
            Some(Incoming::Broken(problem)) => Err(Closed(problem)),
            Some(incoming) => Ok(incoming),
            None => Err(Closed("it closed its output".to_owned())),
        }
    }

    /// Waits until everything is written, and closes our end.
    pub async fn finish(self) {
        drop(self.outgoing);
        // A writer that panicked has nothing more to write.
        let _ = self.writer.await;
    }

    async fn send(&self, message: &Value) -> Result<(), Closed> {
        let sent = self.outgoing.send(message.to_string()).await;
        sent.map_err(|_| Closed("it closed its input".to_owned()))
    }
}

async fn write(mut input: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<String>) {
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        let written = async {
            input.write_all(line.as_bytes()).await?;
            input.flush().await
        };
        if written.await.is_err() {
            // The reader notices the end of the process.
            return;
        }
    }
}

async fn read_all(output: impl AsyncRead + Unpin, incoming: mpsc::Sender<Incoming>) {
    let mut reader = BufReader::new(output);
    loop {
        let line = match line::read(&mut reader, MAX_LINE_BYTES).await {
            Ok(Some(line)) => line,
            Ok(None) => return,
            Err(error) => {
                let problem = match error.kind() {
                    io::ErrorKind::InvalidData => format!("it sent a message of more than {MAX_LINE_BYTES} bytes"),
                    _ => format!("its output cannot be read ({error})"),
                };
                let _ = incoming.send(Incoming::Broken(problem)).await;
                return;
            }
        };
        for message in message::parse(&line) {
            if incoming.send(message).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_comes_behind_the_messages_before_it() {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (read, write) = tokio::io::split(ours);
        let mut wire = Wire::start(write, read);
        let id = wire.request("session/prompt", json!({})).await.expect("sent");
        let (mut their_input, mut their_output) = tokio::io::split(theirs);
        let asked = line::read(&mut BufReader::new(&mut their_input), 1000)
            .await
            .expect("readable");
        let asked: Value = serde_json::from_slice(&asked.expect("a line")).expect("JSON");
        assert_eq!(asked["method"], "session/prompt");
        let said = format!(
            "debug: starting\n[{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":1}}]\n\
             {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":null}}\n"
        );
        their_output.write_all(said.as_bytes()).await.expect("written");
        let update = wire.next().await.expect("open");
        assert!(matches!(update, Incoming::Notification { ref method, .. } if method == "session/update"));
        let answer = wire.next().await.expect("open");
        assert_eq!(
            answer,
            Incoming::Answer {
                id,
                outcome: Ok(Value::Null)
            }
        );
        drop((their_input, their_output));
        assert!(wire.next().await.is_err());
    }
}

//! The limit that `fanout` compares the host with: a program that only broadcasts.
//!
//! It sends frames of the host's size and shape that were encoded beforehand, over the same WebSocket
//! library with the same buffers and the same batching. It keeps no state, no order across channels
//! and no history, and it validates nothing. One JSON line per turn on stdin says what to send.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use futures_util::SinkExt;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_tungstenite::{
    WebSocketStream, accept_async_with_config,
    tungstenite::{Message, Utf8Bytes, protocol::WebSocketConfig},
};

use crate::{
    client::delivery::{STAMP_DIGITS, Stamping, StreamPlan},
    client::delta_scan::DeltaFrame,
    client::websocket::unix_nanos,
};

/// Frames between two flushes at full speed, as in the host.
const FRAMES_PER_BATCH: usize = 256;
/// Batches that wait for one connection before the producer waits for it.
const QUEUED_BATCHES: usize = 4;

/// Frames that every connection writes in one go; shared, never copied.
type Batch = Arc<[Utf8Bytes]>;

/// One turn to broadcast, as read from stdin.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Broadcast {
    clients: usize,
    turn_id: String,
    deltas: usize,
    bytes: usize,
    delay_ms: u64,
    stamped: bool,
    prefix: String,
    suffix: String,
}

impl Broadcast {
    /// Describes the turn of `plan` for `clients` connections in frames that look like `frame`.
    pub(crate) fn new(plan: &StreamPlan, clients: usize, frame: &DeltaFrame) -> Self {
        Self {
            clients,
            turn_id: plan.turn_id.clone(),
            deltas: plan.deltas,
            bytes: plan.bytes,
            delay_ms: plan.delay_ms,
            stamped: plan.stamping == Stamping::Stamped,
            prefix: frame.prefix.clone(),
            suffix: frame.suffix.clone(),
        }
    }

    fn encode_delta(&self) -> Utf8Bytes {
        let stamp = if self.stamped {
            format!("{:0STAMP_DIGITS$x}", unix_nanos())
        } else {
            String::new()
        };
        let filler = "x".repeat(self.bytes.saturating_sub(stamp.len()));
        format!("{}{stamp}{filler}{}", self.prefix, self.suffix).into()
    }

    fn encode_completion(&self) -> Utf8Bytes {
        let action = json!({"type": "chat/turnComplete", "turnId": self.turn_id});
        json!({"jsonrpc": "2.0", "method": "action", "params": {"action": action}})
            .to_string()
            .into()
    }
}

/// Returns the shape of a delta frame for runs that have no host to take it from.
pub(crate) fn typical_delta_frame() -> DeltaFrame {
    let prefix = r#"{"jsonrpc":"2.0","method":"action","params":{"channel":"ahp-chat:/bench/default","action":{"type":"chat/delta","turnId":"turn-2","partId":"part-1","content":""#;
    DeltaFrame {
        prefix: prefix.to_owned(),
        suffix: r#""},"serverSeq":100000}}"#.to_owned(),
    }
}

/// Serves until stdin ends.
pub(crate) fn run() -> Result<()> {
    tokio::runtime::Runtime::new()?.block_on(serve())
}

async fn serve() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .context("cannot listen on loopback")?;
    let url = format!("ws://{}", listener.local_addr()?);
    println!(
        "{}",
        json!({"ready": true, "url": url, "tokenFile": null, "pid": std::process::id()})
    );

    let (joined_sender, mut joined) = mpsc::channel(1);
    tokio::spawn(accept_connections(listener, joined_sender));

    let mut queues = Vec::new();
    let mut turns = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = turns.next_line().await? {
        let broadcast: Broadcast = serde_json::from_str(&line).context("stdin carries no broadcast")?;
        while queues.len() < broadcast.clients {
            queues.push(joined.recv().await.context("the listener ended")?);
        }
        send_turn(&queues, &broadcast).await;
    }
    Ok(())
}

async fn accept_connections(listener: TcpListener, joined: mpsc::Sender<mpsc::Sender<Batch>>) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let joined = joined.clone();
        tokio::spawn(async move {
            let socket = accept_async_with_config(stream, Some(websocket_config())).await?;
            let (sender, queue) = mpsc::channel(QUEUED_BATCHES);
            joined.send(sender).await?;
            write_batches(socket, queue).await
        });
    }
}

/// Sets the buffers that the host sets.
fn websocket_config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(4_096)
        .write_buffer_size(65_536)
        .max_write_buffer_size(262_144)
}

/// Writes to one connection, with one flush per full batch or when nothing more waits.
async fn write_batches(mut socket: WebSocketStream<TcpStream>, mut queue: mpsc::Receiver<Batch>) -> Result<()> {
    let mut unflushed = 0;
    while let Some(batch) = queue.recv().await {
        for frame in batch.iter() {
            socket.feed(Message::Text(frame.clone())).await?;
        }
        unflushed += batch.len();
        if unflushed >= FRAMES_PER_BATCH || queue.is_empty() {
            socket.flush().await?;
            unflushed = 0;
        }
    }
    Ok(())
}

async fn send_turn(queues: &[mpsc::Sender<Batch>], broadcast: &Broadcast) {
    if broadcast.delay_ms == 0 && !broadcast.stamped {
        send_full_speed(queues, broadcast).await;
    } else {
        send_paced(queues, broadcast).await;
    }
    send_batch(queues, &Arc::from([broadcast.encode_completion()])).await;
}

async fn send_full_speed(queues: &[mpsc::Sender<Batch>], broadcast: &Broadcast) {
    let full: Batch = (0..FRAMES_PER_BATCH).map(|_| broadcast.encode_delta()).collect();
    for _ in 0..broadcast.deltas / FRAMES_PER_BATCH {
        send_batch(queues, &full).await;
    }
    let rest = broadcast.deltas % FRAMES_PER_BATCH;
    send_batch(queues, &Arc::from(&full[..rest])).await;
}

async fn send_paced(queues: &[mpsc::Sender<Batch>], broadcast: &Broadcast) {
    for _ in 0..broadcast.deltas {
        send_batch(queues, &Arc::from([broadcast.encode_delta()])).await;
        if broadcast.delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(broadcast.delay_ms)).await;
        }
    }
}

/// Queues a batch for every connection and waits for the ones that are behind. A connection that is
/// gone is passed over: its client sees the missing bytes and says so.
async fn send_batch(queues: &[mpsc::Sender<Batch>], batch: &Batch) {
    for queue in queues {
        let _ = queue.send(Arc::clone(batch)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{client::delivery::receive_turn, client::websocket::Connection};

    fn plan(stamping: Stamping) -> StreamPlan {
        StreamPlan {
            turn_id: "turn-1".to_owned(),
            client_seq: 1,
            deltas: 1_000,
            bytes: 40,
            delay_ms: 0,
            stamping,
        }
    }

    #[test]
    fn deltas_have_exactly_the_planned_content() {
        let frame = typical_delta_frame();
        for stamping in [Stamping::Plain, Stamping::Stamped] {
            let encoded = Broadcast::new(&plan(stamping), 1, &frame).encode_delta();
            assert_eq!(encoded.len(), frame.prefix.len() + 40 + frame.suffix.len());
            serde_json::from_str::<serde_json::Value>(&encoded).unwrap();
        }
    }

    #[tokio::test]
    async fn every_client_receives_every_delta_in_its_own_frame() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let (joined_sender, mut joined) = mpsc::channel(1);
        tokio::spawn(accept_connections(listener, joined_sender));

        let mut clients = Vec::new();
        let mut queues = Vec::new();
        for _ in 0..3 {
            clients.push(Connection::open(&url).await.unwrap());
            queues.push(joined.recv().await.unwrap());
        }
        for stamping in [Stamping::Plain, Stamping::Stamped] {
            let plan = plan(stamping);
            let broadcast = Broadcast::new(&plan, clients.len(), &typical_delta_frame());
            let sending = {
                let queues = queues.clone();
                tokio::spawn(async move { send_turn(&queues, &broadcast).await })
            };
            for client in &mut clients {
                let delivered = receive_turn(client, &plan).await.unwrap();
                assert_eq!(delivered.frames, 1_000);
                assert_eq!(delivered.frame, Some(typical_delta_frame()));
                let timed = if stamping == Stamping::Stamped { 1_000 } else { 0 };
                assert_eq!(delivered.latencies.len(), timed);
            }
            sending.await.unwrap();
        }
    }
}

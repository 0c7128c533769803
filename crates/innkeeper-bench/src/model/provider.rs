//! A model provider that stamps every piece of its answer, and a reader of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use innkeeper_std::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::client::websocket::unix_nanos;

/// Digits of a stamp: nanoseconds since the Unix epoch.
const DIGITS: usize = 19;
/// The marker before a stamp. It occurs nowhere else.
const MARK: u8 = b'@';

/// The provider.
pub(super) struct Provider {
    pub(super) base_url: String,
    address: std::net::SocketAddr,
    next: Arc<Mutex<(u64, Duration)>>,
    task: JoinHandle<()>,
}

/// The stamps and times that a reader saw.
pub(super) struct Read {
    pub(super) latencies: Vec<u64>,
    pub(super) time: Duration,
}

impl Provider {
    /// Starts one on loopback.
    pub(super) async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let next = Arc::new(Mutex::new((0, Duration::ZERO)));
        let shared = Arc::clone(&next);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (count, pace) = *shared.lock();
                tokio::spawn(async move {
                    // A reader that leaves is no concern of the provider's.
                    let _ = answer(stream, count, pace).await;
                });
            }
        });
        Ok(Self {
            base_url: format!("http://{address}/v1"),
            address,
            next,
            task,
        })
    }

    /// Says how many pieces the next answer has, and how far apart they are.
    pub(super) fn next_answer(&self, count: u64, pace: Duration) {
        *self.next.lock() = (count, pace);
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(mut stream: TcpStream, count: u64, pace: Duration) -> Result<()> {
    stream.set_nodelay(true)?;
    let request = read_request(&mut stream).await?;
    if request.starts_with(b"GET ") {
        let list = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{\"data\":[]}";
        stream.write_all(list).await?;
        return Ok(());
    }
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    stream.write_all(head).await?;
    let mut ticks = (!pace.is_zero()).then(|| interval(pace));
    if let Some(ticks) = &mut ticks {
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    let mut batch = Vec::new();
    for number in 0..count {
        let piece = format!(
            "data: {{\"id\":\"a\",\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{}\"}},\"finish_reason\":null}}]}}\n\n",
            stamp()
        );
        batch.extend_from_slice(piece.as_bytes());
        match &mut ticks {
            Some(ticks) => {
                stream.write_all(&batch).await?;
                batch.clear();
                ticks.tick().await;
            }
            // As fast as it can, in writes as large as a busy server's.
            None if batch.len() > 16 << 10 || number + 1 == count => {
                stream.write_all(&batch).await?;
                batch.clear();
            }
            None => {}
        }
    }
    let end =
        "data: {\"id\":\"a\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    stream.write_all(end.as_bytes()).await?;
    stream.shutdown().await?;
    Ok(())
}

async fn read_request(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        let read = stream.read(&mut buffer).await?;
        anyhow::ensure!(read > 0, "the request broke off");
        bytes.extend_from_slice(&buffer[..read]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.map_or(Ok(0), |length| length.trim().parse())?;
        if bytes.len() >= end + 4 + length {
            return Ok(bytes);
        }
    }
}

/// Reads an answer without a host.
pub(super) async fn read_directly(provider: &Provider) -> Result<Read> {
    let mut stream = TcpStream::connect(provider.address).await?;
    stream.set_nodelay(true)?;
    let started = Instant::now();
    let request = b"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-length: 2\r\n\r\n{}";
    stream
        .write_all(request)
        .await
        .context("the provider does not listen")?;
    let mut latencies = Vec::new();
    let mut kept: Vec<u8> = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            break;
        }
        kept.extend_from_slice(&buffer[..read]);
        let now = unix_nanos();
        // Whole lines only: a stamp may be cut in two.
        if let Some(end) = kept.iter().rposition(|byte| *byte == b'\n') {
            latencies.extend(stamps_in(&kept[..end]).map(|stamp| now.saturating_sub(stamp)));
            kept.drain(..=end);
        }
    }
    Ok(Read {
        latencies,
        time: started.elapsed(),
    })
}

/// Returns a piece of text with the current time.
pub(crate) fn stamp() -> String {
    format!("@{:019} ", unix_nanos())
}

/// The stamps in a text.
pub(crate) fn stamps_in(text: &[u8]) -> impl Iterator<Item = u64> {
    let starts = text.iter().enumerate().filter(|(_, byte)| **byte == MARK);
    starts.filter_map(|(at, _)| {
        let digits = text.get(at + 1..at + 1 + DIGITS)?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_found_and_nothing_else() {
        let text = format!("{{\"a@b\":\"@{:019} @{:019} @12\"}}", 7, 8);
        assert_eq!(stamps_in(text.as_bytes()).collect::<Vec<_>>(), [7, 8]);
    }

    #[tokio::test]
    async fn every_piece_of_an_answer_is_read() {
        let provider = Provider::start().await.unwrap();
        provider.next_answer(1000, Duration::ZERO);
        let read = read_directly(&provider).await.unwrap();
        assert_eq!(read.latencies.len(), 1000);
    }
}

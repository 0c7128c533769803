//! A light WebSocket client that speaks JSON-RPC.

use std::{
    collections::VecDeque,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::client::frames::{FrameBuffer, FrameKind, encode_close, encode_pong, encode_text};

/// How long a server may stay silent while something is expected of it.
const LONGEST_SILENCE: Duration = Duration::from_secs(20);

/// When bytes arrived, on the clock for durations and on the clock that servers stamp with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    /// For durations within this process.
    pub(crate) instant: Instant,
    /// For comparison with stamps of other processes on this machine.
    pub(crate) unix_nanos: u64,
}

impl Arrival {
    /// Takes the time.
    pub(crate) fn now() -> Self {
        Self {
            instant: Instant::now(),
            unix_nanos: unix_nanos(),
        }
    }
}

/// Returns the nanoseconds since the Unix epoch.
pub(crate) fn unix_nanos() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
}

/// One client connection.
pub(crate) struct Connection {
    stream: TcpStream,
    incoming: FrameBuffer,
    /// The fragments so far of a message that is not complete.
    partial: Vec<u8>,
    unread: VecDeque<Value>,
    last_request_id: u64,
}

impl Connection {
    /// Connects to a `ws://` address and upgrades.
    pub(crate) async fn open(url: &str) -> Result<Self> {
        let address = url
            .strip_prefix("ws://")
            .with_context(|| format!("{url} is not a ws:// address"))?;
        let (authority, path) = address.split_once('/').unwrap_or((address, ""));
        let stream = TcpStream::connect(authority)
            .await
            .with_context(|| format!("cannot connect to {authority}"))?;
        stream.set_nodelay(true)?;
        let mut connection = Self {
            stream,
            incoming: FrameBuffer::new(),
            partial: Vec::new(),
            unread: VecDeque::new(),
            last_request_id: 0,
        };
        connection.upgrade(authority, path).await?;
        Ok(connection)
    }

    /// Sends one text message.
    pub(crate) async fn send_text(&mut self, text: &str) -> Result<()> {
        self.stream
            .write_all(&encode_text(text))
            .await
            .context("the server no longer reads")
    }

    /// Sends a JSON-RPC notification.
    pub(crate) async fn notify(&mut self, method: &str, params: Value) -> Result<()> {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.send_text(&message.to_string()).await
    }

    /// Sends a JSON-RPC request and returns its result; what else arrives meanwhile stays unread.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Result<Value> {
        let id = self.send_request(method, params).await?;
        let mut scanned = 0;
        loop {
            let found = (scanned..self.unread.len())
                .find(|&index| self.unread[index].get("id").and_then(Value::as_u64) == Some(id));
            if let Some(response) = found.and_then(|index| self.unread.remove(index)) {
                return result_of(method, response);
            }
            scanned = self.unread.len();
            self.read_messages()
                .await
                .with_context(|| format!("no answer to {method}"))?;
        }
    }

    /// Sends a JSON-RPC request and returns its id, under which the answer comes some time later.
    pub(crate) async fn send_request(&mut self, method: &str, params: Value) -> Result<u64> {
        self.last_request_id += 1;
        let id = self.last_request_id;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send_text(&message.to_string()).await?;
        Ok(id)
    }

    /// Reads and discards one message that comes in fragments, and returns its size in bytes.
    pub(crate) async fn skip_long_message(&mut self) -> Result<u64> {
        let mut bytes = 0;
        loop {
            self.fill().await?;
            while let Some(frame) = self.incoming.next_frame()? {
                bytes += frame.payload.len() as u64;
                match frame.kind {
                    FrameKind::LastFragment => return Ok(bytes),
                    FrameKind::Fragment => {}
                    other => bail!("a message in fragments was expected, and a frame came that is {other:?}"),
                }
            }
        }
    }

    /// Returns the oldest unread message, and waits for one if there is none.
    pub(crate) async fn next_message(&mut self) -> Result<Value> {
        loop {
            if let Some(message) = self.unread.pop_front() {
                return Ok(message);
            }
            self.read_messages().await?;
        }
    }

    /// Discards messages that arrived beside a response.
    pub(crate) fn forget_unread(&mut self) {
        self.unread.clear();
    }

    /// Waits for bytes and hands each text message that is complete to `on_text`.
    pub(crate) async fn read_batch(&mut self, mut on_text: impl FnMut(&[u8], Arrival) -> Result<()>) -> Result<()> {
        self.fill().await?;
        let arrival = Arrival::now();
        let mut pongs = Vec::new();
        while let Some(frame) = self.incoming.next_frame()? {
            match frame.kind {
                FrameKind::Text => on_text(frame.payload, arrival)?,
                FrameKind::Fragment => self.partial.extend_from_slice(frame.payload),
                FrameKind::LastFragment => {
                    self.partial.extend_from_slice(frame.payload);
                    on_text(&std::mem::take(&mut self.partial), arrival)?;
                }
                FrameKind::Ping => pongs.extend(encode_pong(frame.payload)),
                FrameKind::Pong => {}
                FrameKind::Close => bail!("the server closed the connection: {}", close_reason(frame.payload)),
            }
        }
        if !pongs.is_empty() {
            self.stream.write_all(&pongs).await?;
        }
        Ok(())
    }

    /// Says goodbye and drops the connection.
    pub(crate) async fn close(mut self) -> Result<()> {
        self.stream.write_all(&encode_close()).await?;
        Ok(())
    }

    /// Keeps only the socket: a connection that is merely held needs no buffer.
    pub(crate) fn into_socket(self) -> TcpStream {
        self.stream
    }

    /// Upgrades to WebSocket. The accept key is not verified: the server is one this program started.
    async fn upgrade(&mut self, authority: &str, path: &str) -> Result<()> {
        let request = format!(
            "GET /{path} HTTP/1.1\r\nHost: {authority}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        );
        self.stream.write_all(request.as_bytes()).await?;
        let head = loop {
            self.fill().await.context("no answer to the upgrade request")?;
            if let Some(head) = self.incoming.next_http_head() {
                break head;
            }
        };
        let status = head.lines().next().unwrap_or_default();
        if !status.starts_with("HTTP/1.1 101") {
            bail!("the server refused the WebSocket upgrade: {status}");
        }
        Ok(())
    }

    async fn fill(&mut self) -> Result<()> {
        let count = timeout(LONGEST_SILENCE, self.stream.read(self.incoming.space()))
            .await
            .with_context(|| format!("nothing arrived for {} s", LONGEST_SILENCE.as_secs()))?
            .context("the connection broke")?;
        if count == 0 {
            bail!("the server dropped the connection without a close frame");
        }
        self.incoming.received(count);
        Ok(())
    }

    async fn read_messages(&mut self) -> Result<()> {
        let mut messages = Vec::new();
        self.read_batch(|text, _| {
            messages.push(serde_json::from_slice(text).context("the server sent text that is not JSON")?);
            Ok(())
        })
        .await?;
        self.unread.extend(messages);
        Ok(())
    }
}

fn result_of(method: &str, mut response: Value) -> Result<Value> {
    if let Some(error) = response.get("error") {
        bail!("the server answered {method} with an error: {error}");
    }
    match response.get_mut("result") {
        Some(result) => Ok(result.take()),
        None => {
            bail!("the server's answer to {method} has neither a result nor an error: {response}")
        }
    }
}

fn close_reason(payload: &[u8]) -> String {
    match payload.split_first_chunk::<2>() {
        Some((code, reason)) => {
            format!(
                "code {}, reason {:?}",
                u16::from_be_bytes(*code),
                String::from_utf8_lossy(reason)
            )
        }
        None => "without a code".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_null_result_is_a_result() {
        let response = json!({"jsonrpc": "2.0", "id": 1, "result": null});
        assert_eq!(result_of("ping", response).unwrap(), Value::Null);
    }

    #[test]
    fn errors_and_empty_answers_name_the_method() {
        for response in [json!({"id": 1, "error": {"code": -32601}}), json!({"id": 1})] {
            let error = result_of("subscribe", response).unwrap_err();
            assert!(error.to_string().contains("subscribe"), "{error}");
        }
    }

    #[test]
    fn close_reasons_are_readable() {
        assert_eq!(close_reason(b"\x0f\xa1too slow"), "code 4001, reason \"too slow\"");
        assert_eq!(close_reason(b""), "without a code");
    }
}

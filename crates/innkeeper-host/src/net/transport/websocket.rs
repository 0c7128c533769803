//! AHP over WebSocket: one JSON-RPC message per text frame (TRN-02), and binary frames that hold
//! UTF-8 accepted as well (TRN-03).
//!
//! Reading is tungstenite's: masks, fragments, UTF-8 and every rule of RFC 6455 that a peer can
//! break. Writing is ours: frames of a server are a short header before bytes that are already
//! encoded and shared, so they are copied once, straight into the buffer of one write.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt;
use innkeeper_core::Wire;
use innkeeper_core::snapshot::RpcAnswer;
use innkeeper_std::sync::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, ReadHalf, WriteHalf};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::CapacityError;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::chunks::Chunks;
use super::fragment_limit::{FragmentCounter, TooManyFragments};
use super::{Received, Sink, Source, flush_steadily, write_steadily};
use crate::limits::Limits;
use crate::net::close::Close;

/// Longest frame the host sends; longer messages go out in fragments, because the published
/// client refuses frames beyond 16 MiB (trap 11).
const FRAGMENT_BYTES: usize = 1 << 20;
/// How much is gathered for one write.
const WRITE_BYTES: usize = 64 << 10;

const CONTINUATION: u8 = 0x0;
const TEXT: u8 = 0x1;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const FINAL: u8 = 0x80;

/// Splits an upgraded stream. `unread` is what arrived together with the upgrade request.
pub async fn accept<S>(stream: S, unread: Vec<u8>, limits: &Limits) -> (WebSocketSource<S>, WebSocketSink<S>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (read, write) = tokio::io::split(stream);
    let replies = Arc::new(Replies::default());
    let mut fragments = FragmentCounter::new(limits.message_fragments);
    // Only a few bytes can arrive together with the upgrade request, hence never too many fragments.
    let _ = fragments.feed(&unread);
    let reading = Reading {
        read,
        replies: Arc::clone(&replies),
        fragments,
    };
    let socket = WebSocketStream::from_partially_read(reading, unread, Role::Server, Some(config(limits))).await;
    let sink = WebSocketSink {
        write,
        replies,
        timeout: limits.write_time,
        ping_interval: limits.ping_interval,
    };
    (WebSocketSource { socket }, sink)
}

/// The sizes are set on purpose: the library's defaults keep 128 KiB per idle connection (trap 10).
/// Its write side only ever holds a pong or the answer to a close.
fn config(limits: &Limits) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(4 << 10)
        .write_buffer_size(0)
        .max_write_buffer_size(4 << 10)
        .max_message_size(Some(limits.message_bytes))
        .max_frame_size(Some(limits.message_bytes))
}

/// The frames that the reader has for the peer: pongs, and the answer to a close.
#[derive(Debug, Default)]
struct Replies {
    bytes: Mutex<Vec<u8>>,
    added: Notify,
}

/// Replies waiting at most; a peer that floods us with pings and reads no pongs gets no more.
const MAX_REPLY_BYTES: usize = 16 << 10;

impl Replies {
    fn add(&self, bytes: &[u8]) {
        let mut waiting = self.bytes.lock();
        if waiting.len() + bytes.len() <= MAX_REPLY_BYTES {
            waiting.extend_from_slice(bytes);
            self.added.notify_one();
        }
    }

    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.bytes.lock())
    }
}

/// A stream that reads from the socket and leaves what it writes to the writer task.
#[derive(Debug)]
struct Reading<S> {
    read: ReadHalf<S>,
    replies: Arc<Replies>,
    fragments: FragmentCounter,
}

impl<S: AsyncRead + Unpin> AsyncRead for Reading<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.read).poll_read(cx, buf);
        match self.fragments.feed(&buf.filled()[before..]) {
            Ok(()) => polled,
            Err(TooManyFragments) => Poll::Ready(Err(io::ErrorKind::FileTooLarge.into())),
        }
    }
}

impl<S: Unpin> AsyncWrite for Reading<S> {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.replies.add(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The reading half.
#[derive(Debug)]
pub struct WebSocketSource<S> {
    socket: WebSocketStream<Reading<S>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Source for WebSocketSource<S> {
    async fn next(&mut self) -> Received {
        match self.socket.next().await {
            Some(Ok(Message::Text(text))) => Received::Message(text.into()),
            Some(Ok(Message::Binary(bytes))) => Received::Message(bytes),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Received::Alive,
            Some(Ok(Message::Close(_))) | None => Received::Closed,
            Some(Err(Error::Capacity(CapacityError::MessageTooLong { .. }))) => Received::Violation(Close::TooLarge),
            Some(Err(Error::Io(error))) if error.kind() == io::ErrorKind::FileTooLarge => {
                Received::Violation(Close::TooLarge)
            }
            Some(Err(Error::Utf8(_))) => Received::Violation(Close::NotUtf8),
            Some(Err(Error::Protocol(_))) => Received::Violation(Close::BadFrame),
            Some(Err(_)) => Received::Closed,
        }
    }

    fn answers_pings(&self) -> bool {
        true
    }

    async fn drain(&mut self) {
        let mut unwanted = [0; 1024];
        while matches!(self.socket.get_mut().read.read(&mut unwanted).await, Ok(1..)) {}
    }
}

/// The writing half.
#[derive(Debug)]
pub struct WebSocketSink<S> {
    write: WriteHalf<S>,
    replies: Arc<Replies>,
    timeout: Duration,
    ping_interval: Duration,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Sink for WebSocketSink<S> {
    async fn write(&mut self, messages: Vec<Wire>) -> io::Result<()> {
        let mut buffer = self.replies.take();
        let encoded = messages.iter().filter_map(Wire::encoded_len);
        let wanted: usize = encoded.map(|bytes| bytes + 10).sum();
        buffer.reserve(wanted.min(WRITE_BYTES));
        for message in messages {
            match &message {
                Wire::Action(frame) => self.write_whole(&mut buffer, &frame.bytes).await?,
                Wire::Reheaded(frame) => self.write_parts(&mut buffer, frame.parts()).await?,
                Wire::Text(text) | Wire::Answer(text, _) => self.write_whole(&mut buffer, text).await?,
                Wire::Stream(answer) => self.write_stream(&mut buffer, Arc::clone(answer)).await?,
            }
        }
        write_steadily(&mut self.write, &buffer, self.timeout).await?;
        flush_steadily(&mut self.write, self.timeout).await
    }

    async fn urgent(&mut self) {
        self.replies.added.notified().await;
    }

    async fn ping(&mut self) -> io::Result<()> {
        self.write.write_all(&[FINAL | PING, 0]).await?;
        self.write.flush().await
    }

    async fn close(&mut self, close: Close) -> io::Result<()> {
        let mut frame = Vec::new();
        push_header(&mut frame, FINAL | CLOSE, 2 + close.reason().len());
        frame.extend_from_slice(&close.code().to_be_bytes());
        frame.extend_from_slice(close.reason().as_bytes());
        self.write.write_all(&frame).await?;
        self.write.shutdown().await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> WebSocketSink<S> {
    /// Writes a message that is encoded already; what is little waits in `buffer` for more.
    async fn write_whole(&mut self, buffer: &mut Vec<u8>, message: &[u8]) -> io::Result<()> {
        for (opcode, fragment) in fragments(message) {
            if !buffer.is_empty() && buffer.len() + fragment.len() > WRITE_BYTES {
                write_steadily(&mut self.write, buffer, self.timeout).await?;
                buffer.clear();
            }
            push_header(buffer, opcode, fragment.len());
            if fragment.len() < WRITE_BYTES {
                buffer.extend_from_slice(fragment);
            } else {
                write_steadily(&mut self.write, buffer, self.timeout).await?;
                buffer.clear();
                write_steadily(&mut self.write, fragment, self.timeout).await?;
            }
        }
        Ok(())
    }

    /// Writes a message in two parts like [`Self::write_whole`].
    async fn write_parts(&mut self, buffer: &mut Vec<u8>, parts: [&[u8]; 2]) -> io::Result<()> {
        let len = parts[0].len() + parts[1].len();
        if buffer.len() + len > WRITE_BYTES {
            return self.write_whole(buffer, &parts.concat()).await;
        }
        push_header(buffer, FINAL | TEXT, len);
        parts.iter().for_each(|part| buffer.extend_from_slice(part));
        Ok(())
    }

    /// Writes a message while it is encoded, a fragment for each chunk. It may take minutes, so
    /// between fragments the peer's pings are answered and it is asked for a sign of life itself.
    async fn write_stream(&mut self, buffer: &mut Vec<u8>, answer: Arc<RpcAnswer>) -> io::Result<()> {
        let mut chunks = Chunks::of(answer);
        let mut opcode = TEXT;
        let mut next_ping = Instant::now() + self.ping_interval;
        while let Some(chunk) = chunks.next().await? {
            push_header(buffer, opcode, chunk.len());
            write_steadily(&mut self.write, buffer, self.timeout).await?;
            write_steadily(&mut self.write, &chunk, self.timeout).await?;
            opcode = CONTINUATION;
            *buffer = self.replies.take();
            if Instant::now() >= next_ping {
                next_ping = Instant::now() + self.ping_interval;
                push_header(buffer, FINAL | PING, 0);
            }
        }
        push_header(buffer, FINAL | opcode, 0);
        Ok(())
    }
}

/// A message as frames: one, or several of a size that every client accepts.
fn fragments(message: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let last = message.len().saturating_sub(1) / FRAGMENT_BYTES;
    let whole = message.is_empty().then_some((FINAL | TEXT, message));
    let chunks = message.chunks(FRAGMENT_BYTES).enumerate().map(move |(index, chunk)| {
        let opcode = if index == 0 { TEXT } else { CONTINUATION };
        let fin = if index == last { FINAL } else { 0 };
        (fin | opcode, chunk)
    });
    whole.into_iter().chain(chunks)
}

/// The head of an unmasked frame (RFC 6455, section 5.2).
fn push_header(out: &mut Vec<u8>, opcode: u8, len: usize) {
    out.push(opcode);
    match u16::try_from(len) {
        Ok(len @ 0..=125) => out.push(len as u8),
        Ok(len) => {
            out.push(126);
            out.extend_from_slice(&len.to_be_bytes());
        }
        Err(_) => {
            out.push(127);
            out.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use innkeeper_core::{ActionFrame, ReheadedFrame, Seq};
    use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

    use super::*;

    /// Writes with ours and reads with the library, as a client does.
    async fn round_trip(messages: Vec<Wire>) -> Vec<Message> {
        let (server, client) = tokio::io::duplex(1 << 16);
        let (_source, mut sink) = accept(server, Vec::new(), &Limits::default()).await;
        let writing = tokio::spawn(async move {
            sink.write(messages).await.expect("written");
            sink.ping().await.expect("written");
            sink.close(Close::TooSlow).await.expect("written");
        });
        let client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
        let seen = client
            .map(|message| message.expect("a well-formed frame"))
            .collect()
            .await;
        writing.await.expect("no panic");
        seen
    }

    #[tokio::test]
    async fn every_size_of_message_arrives_whole_at_a_client_we_did_not_write() {
        let sizes = [
            0,
            1,
            125,
            126,
            127,
            65_535,
            65_536,
            70_000,
            FRAGMENT_BYTES,
            FRAGMENT_BYTES + 1,
            3 * FRAGMENT_BYTES + 5,
        ];
        let texts: Vec<String> = sizes
            .iter()
            .map(|size| "é".repeat(size / 2) + &"x".repeat(size % 2))
            .collect();
        let seen = round_trip(texts.iter().map(|text| Wire::Text(Bytes::from(text.clone()))).collect()).await;
        for (text, message) in texts.iter().zip(&seen) {
            assert!(
                matches!(message, Message::Text(got) if got.as_str() == text),
                "{} bytes",
                text.len()
            );
        }
        assert!(matches!(&seen[texts.len()], Message::Ping(_)));
        assert!(matches!(&seen[texts.len() + 1], Message::Close(Some(frame)) if frame.code == CloseCode::Again));
    }

    #[tokio::test]
    async fn messages_with_another_head_arrive_whole() {
        let frames = [1, 125, 40_000, 40_000, WRITE_BYTES, FRAGMENT_BYTES + 1].map(|size| {
            let renamed = ahp_types::actions::SessionTitleChangedAction {
                title: "x".repeat(size),
            };
            let action = ahp_types::actions::StateAction::SessionTitleChanged(renamed);
            Arc::new(ActionFrame::from_action("ahp-session:/s", &action, Seq(1)))
        });
        let reheaded = |frame: &Arc<ActionFrame>| ReheadedFrame::new(b"<head>"[..].into(), Arc::clone(frame), 10);
        let seen = round_trip(frames.iter().map(|frame| Wire::Reheaded(reheaded(frame))).collect()).await;
        for (frame, message) in frames.iter().zip(&seen) {
            let whole = reheaded(frame).parts().concat();
            assert!(matches!(message, Message::Text(got) if got.as_bytes() == whole));
        }
    }

    #[tokio::test]
    async fn a_message_in_too_many_pieces_ends_the_connection() {
        let (server, mut client) = tokio::io::duplex(1 << 16);
        let limits = Limits {
            message_fragments: 3,
            ..Limits::default()
        };
        let (mut source, _sink) = accept(server, Vec::new(), &limits).await;
        // Empty fragments, masked as a client's are.
        client.write_all(&[0x01, 0x80, 0, 0, 0, 0]).await.expect("sent");
        for _ in 0..3 {
            client.write_all(&[0x00, 0x80, 0, 0, 0, 0]).await.expect("sent");
        }
        assert!(matches!(source.next().await, Received::Violation(Close::TooLarge)));
    }

    #[tokio::test]
    async fn a_ping_is_answered_between_messages() {
        let (server, client) = tokio::io::duplex(1 << 16);
        let (mut source, mut sink) = accept(server, Vec::new(), &Limits::default()).await;
        let reading = tokio::spawn(async move { while !matches!(source.next().await, Received::Closed) {} });
        let writing = tokio::spawn(async move {
            sink.urgent().await;
            sink.write(Vec::new()).await.expect("written");
        });
        let mut client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
        futures_util::SinkExt::send(&mut client, Message::Ping(Bytes::from_static(b"are you there")))
            .await
            .expect("sent");
        let answer = client.next().await.expect("an answer").expect("a well-formed frame");
        assert!(matches!(answer, Message::Pong(payload) if payload == "are you there"));
        drop(client);
        reading.await.expect("no panic");
        writing.await.expect("no panic");
    }
}

//! AHP over WebSocket: one JSON-RPC message per text frame (TRN-02), and binary frames that hold
//! UTF-8 accepted as well (TRN-03).

use std::io;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{CloseFrame, Frame};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::{Received, Sink, Source};
use crate::close::Close;
use crate::limits::Limits;

/// Longest frame the host sends; longer messages go out in fragments, because the published
/// client refuses frames beyond 16 MiB (trap 11).
const FRAGMENT_BYTES: usize = 1 << 20;

/// Splits an upgraded stream. `unread` is what arrived together with the upgrade request.
pub async fn accept<S>(stream: S, unread: Vec<u8>, limits: &Limits) -> (WebSocketSource<S>, WebSocketSink<S>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let socket = WebSocketStream::from_partially_read(stream, unread, Role::Server, Some(config(limits))).await;
    let (sink, source) = socket.split();
    (WebSocketSource { source }, WebSocketSink { sink })
}

/// All four numbers are set on purpose: the library's defaults keep 128 KiB per idle connection
/// for reading and never bound the write side (trap 10).
fn config(limits: &Limits) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(4 << 10)
        .write_buffer_size(64 << 10)
        .max_write_buffer_size(2 * FRAGMENT_BYTES)
        .max_message_size(Some(limits.message_bytes))
        .max_frame_size(Some(limits.message_bytes))
}

/// The reading half.
#[derive(Debug)]
pub struct WebSocketSource<S> {
    source: SplitStream<WebSocketStream<S>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Source for WebSocketSource<S> {
    async fn next(&mut self) -> Received {
        match self.source.next().await {
            Some(Ok(Message::Text(text))) => Received::Message(text.into()),
            Some(Ok(Message::Binary(bytes))) => Received::Message(bytes),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Received::Alive,
            Some(Ok(Message::Close(_))) | None => Received::Closed,
            Some(Err(Error::Capacity(CapacityError::MessageTooLong { .. }))) => Received::Violation(Close::TooLarge),
            Some(Err(Error::Utf8(_))) => Received::Violation(Close::NotUtf8),
            Some(Err(Error::Protocol(ProtocolError::ResetWithoutClosingHandshake))) => Received::Closed,
            Some(Err(_)) => Received::Closed,
        }
    }
}

/// The writing half.
#[derive(Debug)]
pub struct WebSocketSink<S> {
    sink: SplitSink<WebSocketStream<S>, Message>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Sink for WebSocketSink<S> {
    async fn write(&mut self, messages: Vec<Bytes>) -> io::Result<()> {
        for message in messages {
            if message.len() > FRAGMENT_BYTES {
                self.write_fragments(message).await?;
            } else {
                let text = Utf8Bytes::try_from(message).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
                self.sink.feed(Message::Text(text)).await.map_err(into_io)?;
            }
        }
        self.sink.flush().await.map_err(into_io)
    }

    async fn ping(&mut self) -> io::Result<()> {
        self.sink.send(Message::Ping(Bytes::new())).await.map_err(into_io)
    }

    async fn close(&mut self, close: Close) -> io::Result<()> {
        let frame = CloseFrame {
            code: close.code().into(),
            reason: Utf8Bytes::from_static(close.reason()),
        };
        self.sink.send(Message::Close(Some(frame))).await.map_err(into_io)?;
        self.sink.close().await.map_err(into_io)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> WebSocketSink<S> {
    async fn write_fragments(&mut self, mut message: Bytes) -> io::Result<()> {
        let mut opcode = OpCode::Data(Data::Text);
        while !message.is_empty() {
            let fragment = message.split_to(message.len().min(FRAGMENT_BYTES));
            let frame = Frame::message(fragment, opcode, message.is_empty());
            self.sink.send(Message::Frame(frame)).await.map_err(into_io)?;
            opcode = OpCode::Data(Data::Continue);
        }
        Ok(())
    }
}

fn into_io(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        other => io::Error::other(other),
    }
}

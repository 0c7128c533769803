//! Transports that the published crates do not bring along.

use std::fmt;

use ahp::{Transport, TransportError, TransportMessage};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader, Lines};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// A WebSocket over any stream, for instance a Unix socket.
#[derive(Debug)]
pub struct SocketTransport<S>(pub WebSocketStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Transport for SocketTransport<S> {
    async fn send(&mut self, message: TransportMessage) -> Result<(), TransportError> {
        let text = text_of(message)?;
        self.0.send(Message::text(text)).await.map_err(io)
    }

    async fn recv(&mut self) -> Result<Option<TransportMessage>, TransportError> {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => return Ok(Some(TransportMessage::Text(text.to_string()))),
                Some(Ok(Message::Close(_))) | None => return Ok(None),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(io(error)),
            }
        }
    }
}

/// One message per line, as on standard input and output.
#[derive(Debug)]
pub struct LineTransport<R, W> {
    lines: Lines<BufReader<R>>,
    writer: W,
}

impl<R: AsyncRead + Unpin, W> LineTransport<R, W> {
    /// Reads from one stream and writes to another.
    pub fn new(reader: R, writer: W) -> Self {
        Self {
            lines: BufReader::new(reader).lines(),
            writer,
        }
    }
}

impl<R, W> Transport for LineTransport<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    async fn send(&mut self, message: TransportMessage) -> Result<(), TransportError> {
        let mut line = text_of(message)?;
        line.push('\n');
        self.writer.write_all(line.as_bytes()).await.map_err(io)?;
        self.writer.flush().await.map_err(io)
    }

    async fn recv(&mut self) -> Result<Option<TransportMessage>, TransportError> {
        let line = self.lines.next_line().await.map_err(io)?;
        Ok(line.map(TransportMessage::Text))
    }

    async fn close(&mut self) -> Result<(), TransportError> {
        self.writer.shutdown().await.map_err(io)
    }
}

fn text_of(message: TransportMessage) -> Result<String, TransportError> {
    match message {
        TransportMessage::Text(text) => Ok(text),
        TransportMessage::Parsed(message) => serde_json::to_string(&message).map_err(protocol),
        TransportMessage::Binary(bytes) => String::from_utf8(bytes).map_err(protocol),
    }
}

fn io(error: impl fmt::Display) -> TransportError {
    TransportError::Io(error.to_string())
}

fn protocol(error: impl fmt::Display) -> TransportError {
    TransportError::Protocol(error.to_string())
}

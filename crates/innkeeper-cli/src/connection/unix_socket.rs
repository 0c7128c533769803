//! The official client's transport over a Unix socket, which its WebSocket crate does not offer.

use ahp::{Transport, TransportError, TransportMessage};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::net::UnixStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// WebSocket messages over a Unix socket.
#[derive(Debug)]
pub(crate) struct UnixTransport {
    stream: WebSocketStream<UnixStream>,
}

impl UnixTransport {
    /// Wraps a stream whose handshake is done.
    pub(crate) fn new(stream: WebSocketStream<UnixStream>) -> Self {
        Self { stream }
    }
}

impl Transport for UnixTransport {
    async fn send(&mut self, message: TransportMessage) -> Result<(), TransportError> {
        let frame = match message {
            TransportMessage::Parsed(parsed) => {
                let text =
                    serde_json::to_string(&parsed).map_err(|error| TransportError::Protocol(error.to_string()))?;
                Message::Text(text.into())
            }
            TransportMessage::Text(text) => Message::Text(text.into()),
            TransportMessage::Binary(bytes) => Message::Binary(bytes.into()),
        };
        self.stream
            .send(frame)
            .await
            .map_err(|error| TransportError::Io(error.to_string()))
    }

    async fn recv(&mut self) -> Result<Option<TransportMessage>, TransportError> {
        loop {
            match self.stream.next().await {
                None | Some(Ok(Message::Close(_))) => return Ok(None),
                Some(Err(error)) => return Err(TransportError::Io(error.to_string())),
                Some(Ok(Message::Text(text))) => {
                    return Ok(Some(TransportMessage::Text(text.to_string())));
                }
                Some(Ok(Message::Binary(bytes))) => {
                    return Ok(Some(TransportMessage::Binary(bytes.into())));
                }
                // The library answers pings by itself.
                Some(Ok(_)) => {}
            }
        }
    }

    async fn close(&mut self) -> Result<(), TransportError> {
        self.stream
            .close(None)
            .await
            .map_err(|error| TransportError::Io(error.to_string()))
    }
}

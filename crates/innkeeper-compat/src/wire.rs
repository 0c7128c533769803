//! The WebSocket below a published client, which records every frame in both directions.

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedSender;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// A frame that passed, or the end of the connection.
#[derive(Debug, Clone)]
pub enum Frame {
    /// A text frame from the client.
    Sent(String),
    /// A text frame from the host.
    Received(String),
    /// The end, with the close code and reason if the host sent them.
    Closed(Option<(u16, String)>),
}

/// A recorded WebSocket. The published client of any version runs over it.
pub struct Wire {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    record: UnboundedSender<Frame>,
    is_over: bool,
}

impl Wire {
    /// Opens a connection; every frame is also sent to `record`.
    pub async fn open(url: &str, record: UnboundedSender<Frame>) -> Result<Self, String> {
        let opened = tokio_tungstenite::connect_async(url).await;
        let (socket, _) = opened.map_err(|error| error.to_string())?;
        Ok(Self {
            socket,
            record,
            is_over: false,
        })
    }

    /// Sends one text frame.
    pub async fn send(&mut self, text: String) -> Result<(), String> {
        self.record(Frame::Sent(text.clone()));
        let sent = self.socket.send(Message::text(text)).await;
        sent.map_err(|error| error.to_string())
    }

    /// Returns the next text frame, or `None` at the end.
    pub async fn receive(&mut self) -> Result<Option<String>, String> {
        loop {
            let end = match self.socket.next().await {
                Some(Ok(Message::Text(text))) => {
                    let text = text.to_string();
                    self.record(Frame::Received(text.clone()));
                    return Ok(Some(text));
                }
                Some(Ok(Message::Close(frame))) => frame.map(|frame| (u16::from(frame.code), frame.reason.to_string())),
                Some(Ok(_)) => continue,
                Some(Err(_)) | None => None,
            };
            self.end(end);
            return Ok(None);
        }
    }

    fn record(&self, frame: Frame) {
        // The receiver is gone when the test has ended.
        let _ = self.record.send(frame);
    }

    fn end(&mut self, reason: Option<(u16, String)>) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.record(Frame::Closed(reason));
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.end(None);
    }
}

//! The official client's transport over a pipe to a host of this process.

use ahp::{Transport, TransportError, TransportMessage};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};

/// The official client's transport over a pipe, one message per line.
pub(super) struct Pipe {
    input: Lines<BufReader<ReadHalf<DuplexStream>>>,
    output: WriteHalf<DuplexStream>,
}

impl Pipe {
    pub(super) fn new(stream: DuplexStream) -> Self {
        let (input, output) = tokio::io::split(stream);
        Self {
            input: BufReader::new(input).lines(),
            output,
        }
    }
}

impl Transport for Pipe {
    async fn send(&mut self, message: TransportMessage) -> Result<(), TransportError> {
        let mut text = match message {
            TransportMessage::Parsed(parsed) => {
                serde_json::to_string(&parsed).map_err(|error| TransportError::Protocol(error.to_string()))?
            }
            TransportMessage::Text(text) => text,
            TransportMessage::Binary(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        };
        text.push('\n');
        self.output
            .write_all(text.as_bytes())
            .await
            .map_err(|error| TransportError::Io(error.to_string()))
    }

    async fn recv(&mut self) -> Result<Option<TransportMessage>, TransportError> {
        let line = self.input.next_line().await;
        let line = line.map_err(|error| TransportError::Io(error.to_string()))?;
        Ok(line.map(TransportMessage::Text))
    }

    async fn close(&mut self) -> Result<(), TransportError> {
        self.output
            .shutdown()
            .await
            .map_err(|error| TransportError::Io(error.to_string()))
    }
}

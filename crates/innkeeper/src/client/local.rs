//! A host inside this process, and the official client on a pipe to it.

use ahp::{Client, ClientConfig, Transport, TransportError, TransportMessage};
use innkeeper_host::{Host, HostHandle, Principal, TourAgent, stdio};
use innkeeper_store::ReadOnlyJournal;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};

use crate::data_dir::DataDir;
use crate::failure::{Failure, Kind};

use super::connect::request_failure;

/// How much of a message waits in the pipe.
const PIPE_BYTES: usize = 64 << 10;

/// Starts a host that shows what is kept in a data directory, and changes nothing. Where no process has the directory,
/// what a host left behind in the middle of something is shown as the next one will find it.
pub(super) async fn look(dir: &DataDir) -> Result<Host, Failure> {
    let journal = ReadOnlyJournal::new(&dir.file(innkeeper_store::FILE_NAME))
        .map_err(|error| Failure::new(Kind::DataDirectory, error.message))?;
    let builder = Host::builder()
        .agent(TourAgent::new())
        .journal(journal)
        .read_only("no host runs on this data directory");
    let builder = match dir.is_owned() {
        true => builder,
        false => builder.nobody_owns_it(),
    };
    builder.start().await.map_err(|error| {
        Failure::new(Kind::DataDirectory, error.to_string()).hint("`innkeeper doctor` looks at it and says what to do")
    })
}

/// Connects the official client to a host of this process.
pub(super) async fn connect(host: &HostHandle, config: ClientConfig) -> Result<Client, Failure> {
    let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
    let (input, output) = tokio::io::split(theirs);
    // It ends with the pipe.
    tokio::spawn(stdio::serve(host.clone(), input, output, Principal::stdio()));
    Client::connect(Pipe::new(ours), config)
        .await
        .map_err(|error| request_failure("connect", error))
}

/// The official client's transport over a pipe, one message per line.
struct Pipe {
    input: Lines<BufReader<ReadHalf<DuplexStream>>>,
    output: WriteHalf<DuplexStream>,
}

impl Pipe {
    fn new(stream: DuplexStream) -> Self {
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

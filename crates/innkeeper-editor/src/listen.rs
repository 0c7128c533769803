//! Editors over WebSocket: one connection for each, one message in each text frame.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{SinkExt as _, StreamExt as _};
use innkeeper_cli::discovery::{Endpoint, TOKEN_FILE_NAME, TokenFile};
use innkeeper_cli::failure::{Failure, Kind};
use innkeeper_cli::terminal::note;
use subtle::ConstantTimeEq as _;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::{StatusCode, header};

use crate::run::Service;

/// The path of the endpoint.
const PATH: &str = "/acp";
/// The longest handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Bytes between the frames and the reader of lines.
const PIPE: usize = 64 << 10;

/// Listens until the program ends.
pub(crate) async fn listen(service: &Service, address: SocketAddr) -> Result<(), Failure> {
    if !address.ip().is_loopback() {
        let problem = format!("{address} is not a loopback address");
        return Err(
            Failure::new(Kind::Usage, problem).hint("editors on other machines can run `innkeeper acp` over SSH")
        );
    }
    let token = token(service)?;
    let unusable = |error: io::Error| {
        let kind = match error.kind() {
            io::ErrorKind::AddrInUse => Kind::InUse,
            _ => Kind::Unexpected,
        };
        Failure::new(kind, format!("editors cannot be served at {address} ({error})"))
    };
    let listener = TcpListener::bind(address).await.map_err(unusable)?;
    let address = listener.local_addr().map_err(unusable)?;
    note(&format!(
        "[serving editors at ws://{address}{PATH}, with the token in {}]",
        token.path().display()
    ));
    let mut editors = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => editors.push(serve(service, stream, &token)),
                // Such as too many open files: later there may be fewer.
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(()) = editors.next() => {}
        }
    }
}

/// Returns the token that editors have to send: that of the host.
fn token(service: &Service) -> Result<TokenFile, Failure> {
    if let Some(path) = &service.args.connect.token_file {
        return TokenFile::read_named(path);
    }
    match Endpoint::find(&service.dir).and_then(|host| host.token_file) {
        Some(path) => TokenFile::read(&path),
        None => TokenFile::read_or_create(&service.dir.path().join(TOKEN_FILE_NAME)),
    }
}

async fn serve(service: &Service, stream: TcpStream, token: &TokenFile) {
    #[expect(clippy::result_large_err, reason = "the type of the callback is the library's")]
    let check = |request: &Request, response: Response| match refusal(request, token) {
        None => Ok(response),
        Some(status) => {
            let mut refused = ErrorResponse::new(None);
            *refused.status_mut() = status;
            Err(refused)
        }
    };
    let accepted = tokio::time::timeout(HANDSHAKE, tokio_tungstenite::accept_hdr_async(stream, check)).await;
    let Ok(Ok(socket)) = accepted else {
        return;
    };
    let (ours, theirs) = tokio::io::duplex(PIPE);
    let (read, write) = tokio::io::split(ours);
    tokio::select! {
        () = service.serve(write, read) => {}
        () = carry(socket, theirs) => {}
    }
}

fn refusal(request: &Request, token: &TokenFile) -> Option<StatusCode> {
    if request.uri().path() != PATH {
        return Some(StatusCode::NOT_FOUND);
    }
    // Editors are no web pages.
    if request.headers().contains_key(header::ORIGIN) {
        return Some(StatusCode::FORBIDDEN);
    }
    let sent = request.headers().get(header::AUTHORIZATION);
    let sent = sent.and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    let is_right = sent.is_some_and(|sent| bool::from(sent.ct_eq(token.secret().as_bytes())));
    (!is_right).then_some(StatusCode::UNAUTHORIZED)
}

/// Carries messages between frames and lines until either end closes.
async fn carry(socket: WebSocketStream<TcpStream>, pipe: DuplexStream) {
    let (mut frames_out, mut frames_in) = socket.split();
    let (lines_in, mut lines_out) = tokio::io::split(pipe);
    let to_editor = async {
        let mut lines = BufReader::new(lines_in).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if frames_out.send(Message::text(line)).await.is_err() {
                return;
            }
        }
    };
    let from_editor = async {
        while let Some(Ok(frame)) = frames_in.next().await {
            let Message::Text(text) = frame else {
                continue;
            };
            // Line breaks between the members of a message; those in its strings are escaped.
            let mut line = text.replace(['\n', '\r'], " ");
            line.push('\n');
            if lines_out.write_all(line.as_bytes()).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = to_editor => {}
        () = from_editor => {}
    }
}

//! Clients for malformed input: raw WebSocket frames, raw JSON, raw HTTP.

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};

use futures_util::{SinkExt as _, StreamExt as _};

use crate::process::TIMEOUT;

/// Where a host listens, and what it wants to see.
#[derive(Debug, Clone)]
pub struct Address {
    /// As in `ws://127.0.0.1:4747`.
    pub url: String,
    /// The token to show, if the host wants one.
    pub token: Option<String>,
}

impl Address {
    /// Host and port.
    pub fn authority(&self) -> &str {
        self.url.trim_start_matches("ws://").trim_end_matches('/')
    }

    /// The URL that a client without headers uses.
    pub fn url_with_token(&self) -> String {
        match &self.token {
            Some(token) => format!("ws://{}/?tkn={token}", self.authority()),
            None => format!("ws://{}/", self.authority()),
        }
    }

    /// The request that upgrades to a WebSocket.
    pub fn request(&self) -> Request {
        self.url_with_token()
            .into_client_request()
            .expect("the address makes a request")
    }
}

/// Any stream that a WebSocket can run over.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// The error half of a response.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// The code.
    pub code: i64,
    /// The sentence.
    pub message: String,
    /// The detail, or null.
    pub data: Value,
}

/// A message that a connection received.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    /// A message.
    Message(Value),
    /// A close frame with its code and reason.
    Closed(u16, String),
    /// The end, without a word.
    Broken(String),
}

/// One WebSocket, driven by hand.
pub struct RawClient {
    socket: WebSocketStream<Box<dyn Stream>>,
    next_id: u64,
    /// Notifications that came while an answer was awaited.
    pub notifications: Vec<Value>,
}

impl RawClient {
    /// Opens a connection and sends nothing.
    pub async fn connect(address: &Address) -> Self {
        Self::connect_with(address, address.request())
            .await
            .expect("the host accepts the connection")
    }

    /// Opens a connection with a request of the test's own.
    pub async fn connect_with(address: &Address, request: Request) -> Result<Self, Error> {
        let stream = TcpStream::connect(address.authority()).await?;
        Self::over(stream, request).await
    }

    /// Opens a connection with small kernel buffers.
    pub async fn connect_with_small_buffer(address: &Address) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4096).expect("a small buffer");
        let target = address.authority().parse().expect("an address");
        let stream = socket.connect(target).await.expect("the host accepts the connection");
        Self::over(stream, address.request())
            .await
            .expect("the host accepts the upgrade")
    }

    /// Opens a connection over a stream that exists.
    pub async fn over(stream: impl Stream + 'static, request: Request) -> Result<Self, Error> {
        let stream: Box<dyn Stream> = Box::new(stream);
        let config = WebSocketConfig::default()
            .max_message_size(None)
            .max_frame_size(None)
            .read_buffer_size(4096);
        let upgrade = tokio_tungstenite::client_async_with_config(request, stream, Some(config));
        let (socket, _) = tokio::time::timeout(TIMEOUT, upgrade)
            .await
            .expect("the upgrade is answered in time")?;
        Ok(Self {
            socket,
            next_id: 1,
            notifications: Vec::new(),
        })
    }

    /// Opens a connection and introduces itself with protocol 1.0.0.
    pub async fn initialized(address: &Address, client_id: &str) -> Self {
        let mut client = Self::connect(address).await;
        client
            .initialize(client_id, &["1.0.0"])
            .await
            .expect("initialize succeeds");
        client
    }

    /// Sends `initialize`.
    pub async fn initialize(&mut self, client_id: &str, versions: &[&str]) -> Result<Value, Refusal> {
        let params = json!({ "channel": "ahp-root://", "clientId": client_id, "protocolVersions": versions });
        self.call("initialize", params).await
    }

    /// Sends a text frame.
    pub async fn send(&mut self, text: impl Into<String>) {
        self.send_frame(Message::text(text.into())).await;
    }

    /// Sends any frame.
    pub async fn send_frame(&mut self, message: Message) {
        let sending = tokio::time::timeout(TIMEOUT, self.socket.send(message));
        sending
            .await
            .expect("the host takes the message in time")
            .expect("the host takes the message");
    }

    /// Sends any frame to a host that may have hung up already.
    pub async fn try_send_frame(&mut self, message: Message) -> Result<(), Error> {
        tokio::time::timeout(TIMEOUT, self.socket.send(message))
            .await
            .expect("the host takes the message in time or hangs up")
    }

    /// Sends a notification.
    pub async fn notify(&mut self, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.send(message.to_string()).await;
    }

    /// Sends `dispatchAction`.
    pub async fn dispatch(&mut self, channel: &str, client_seq: i64, action: Value) {
        let params = json!({ "channel": channel, "clientSeq": client_seq, "action": action });
        self.notify("dispatchAction", params).await;
    }

    /// Sends a request and returns its number.
    pub async fn ask(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(message.to_string()).await;
        id
    }

    /// Sends a request and waits for its answer; notifications before it are kept.
    pub async fn call(&mut self, method: &str, params: Value) -> Result<Value, Refusal> {
        let id = self.ask(method, params).await;
        self.answer(&json!(id)).await
    }

    /// Waits for the answer to a request.
    pub async fn answer(&mut self, id: &Value) -> Result<Value, Refusal> {
        loop {
            match self.receive().await {
                Incoming::Message(message) if message.get("method").is_some() => self.notifications.push(message),
                Incoming::Message(message) => {
                    assert_eq!(message.get("id"), Some(id), "the answer to {id} was awaited: {message}");
                    return outcome(message);
                }
                end => panic!("the answer to {id} was awaited, and the connection ended: {end:?}"),
            }
        }
    }

    /// Waits for a notification that fits; the others are kept.
    pub async fn notification(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(index) = self.notifications.iter().position(&fits) {
            return self.notifications.remove(index);
        }
        loop {
            match self.receive().await {
                Incoming::Message(message) if fits(&message) => return message,
                Incoming::Message(message) => self.notifications.push(message),
                end => panic!("{what} was awaited, and the connection ended: {end:?}"),
            }
        }
    }

    /// Sends a request and returns the answer as it came, for what parsing does not keep, such as an order.
    pub async fn call_for_text(&mut self, method: &str, params: Value) -> String {
        let id = self.ask(method, params).await;
        loop {
            let text = self.receive_text().await;
            let text = text.unwrap_or_else(|end| panic!("the answer to {id} was awaited: {end:?}"));
            let message: Value = serde_json::from_str(&text).expect("the host sends JSON");
            if message.get("id") == Some(&json!(id)) {
                return text;
            }
            self.notifications.push(message);
        }
    }

    /// Whether such a notification came while something else was awaited.
    pub fn has_notification(&self, fits: impl Fn(&Value) -> bool) -> bool {
        self.notifications.iter().any(fits)
    }

    /// The next message, or the end.
    pub async fn receive(&mut self) -> Incoming {
        match self.receive_text().await {
            Ok(text) => Incoming::Message(serde_json::from_str(&text).expect("the host sends JSON")),
            Err(end) => end,
        }
    }

    async fn receive_text(&mut self) -> Result<String, Incoming> {
        let deadline = tokio::time::Instant::now() + TIMEOUT;
        loop {
            let received = tokio::time::timeout_at(deadline, self.socket.next()).await;
            match received.expect("something arrives in time") {
                Some(Ok(Message::Text(text))) => {
                    return Ok(text.to_string());
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(Some(frame)))) => {
                    return Err(Incoming::Closed(frame.code.into(), frame.reason.to_string()));
                }
                Some(Ok(other)) => panic!("the host sends text frames only: {other:?}"),
                Some(Err(error)) => return Err(Incoming::Broken(error.to_string())),
                None => return Err(Incoming::Broken("the stream ended".to_owned())),
            }
        }
    }

    /// Waits for the end, passing over messages.
    pub async fn end(&mut self) -> Incoming {
        loop {
            match self.receive().await {
                Incoming::Message(message) => self.notifications.push(message),
                end => return end,
            }
        }
    }

    /// Whether the connection still answers.
    pub async fn still_works(&mut self) {
        let pong = self.call("ping", json!({ "channel": "ahp-root://" })).await;
        assert_eq!(pong, Ok(Value::Null), "ping is answered with null");
    }
}

fn outcome(mut message: Value) -> Result<Value, Refusal> {
    assert_eq!(message["jsonrpc"], "2.0", "{message}");
    match message.get_mut("error").map(Value::take) {
        None => Ok(message.get_mut("result").expect("a result or an error").take()),
        Some(error) => {
            assert!(message.get("result").is_none(), "a result and an error: {message}");
            Err(Refusal {
                code: error["code"].as_i64().expect("an integer code"),
                message: error["message"].as_str().expect("a message").to_owned(),
                data: error["data"].clone(),
            })
        }
    }
}

/// The answer to a raw HTTP request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The status code; zero when the host hung up without one.
    pub status: u16,
    /// The lines of the head after the first, in lower case.
    pub headers: Vec<String>,
    /// The body.
    pub body: String,
}

/// Sends the text as it is and reads until the host hangs up.
pub async fn http(address: &Address, request: &str) -> HttpAnswer {
    let mut stream = TcpStream::connect(address.authority())
        .await
        .expect("the host accepts the connection");
    // A host that refuses early may close before it has read everything.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut bytes = Vec::new();
    let reading = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut bytes));
    let _ = reading.await.expect("the host hangs up in time");
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let mut lines = head.lines();
    let status = lines
        .next()
        .and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    HttpAnswer {
        status: status.unwrap_or_default(),
        headers: lines.map(str::to_lowercase).collect(),
        body: body.to_owned(),
    }
}

/// Sends `GET` for a path with the host's own name and the given extra headers.
pub async fn get(address: &Address, path: &str, headers: &[&str]) -> HttpAnswer {
    let mut request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n", address.authority());
    for header in headers {
        request.push_str(header);
        request.push_str("\r\n");
    }
    request.push_str("\r\n");
    http(address, &request).await
}

/// The headers of a WebSocket upgrade.
pub const UPGRADE: [&str; 4] = [
    "connection: Upgrade",
    "upgrade: websocket",
    "sec-websocket-version: 13",
    "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
];

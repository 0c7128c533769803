//! A bridge from standard input and output to the endpoint of a session, for agents without MCP over HTTP.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// The variable with the token of the endpoint.
pub(super) const TOKEN_VARIABLE: &str = "INNKEEPER_MCP_TOKEN";
/// Messages that wait for the agent to read them.
const OUTGOING: usize = 64;

/// The address and the secret of an endpoint.
#[derive(Debug)]
struct Target {
    /// Host and port.
    authority: String,
    path: String,
    token: String,
}

/// Passes the messages of an agent on to the endpoint of its session, until standard input ends.
///
/// # Errors
///
/// With a sentence that says what is wrong with the address, or if standard input fails.
pub async fn run_bridge(url: &str, token: String) -> io::Result<()> {
    let problem = || {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{url:?} is not the address of an endpoint"),
        )
    };
    let (authority, path) = url
        .strip_prefix("http://")
        .and_then(|rest| rest.split_once('/'))
        .ok_or_else(problem)?;
    let target = Arc::new(Target {
        authority: authority.to_owned(),
        path: format!("/{path}"),
        token,
    });
    let (outgoing, to_write) = mpsc::channel(OUTGOING);
    let writing = tokio::spawn(write(tokio::io::stdout(), to_write));
    let mut running = JoinSet::new();
    running.spawn(follow_changes(Arc::clone(&target), outgoing.clone()));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        if line.trim().is_empty() {
            continue;
        }
        while running.try_join_next().is_some() {}
        // A call takes as long as it takes; other messages pass it.
        running.spawn(pass_on(Arc::clone(&target), line, outgoing.clone()));
    }
    // Calls whose agent is gone are cancelled.
    running.shutdown().await;
    drop(outgoing);
    let _ = writing.await;
    Ok(())
}

async fn write(mut output: impl AsyncWrite + Unpin, mut messages: mpsc::Receiver<String>) {
    while let Some(mut message) = messages.recv().await {
        message.push('\n');
        let written = async {
            output.write_all(message.as_bytes()).await?;
            output.flush().await
        };
        if written.await.is_err() {
            return;
        }
    }
}

async fn pass_on(target: Arc<Target>, line: String, outgoing: mpsc::Sender<String>) {
    if let Err(error) = exchange(&target, Method::POST, line, &outgoing).await {
        tracing::debug!(%error, "a message did not reach the session");
    }
}

async fn follow_changes(target: Arc<Target>, outgoing: mpsc::Sender<String>) {
    if let Err(error) = exchange(&target, Method::GET, String::new(), &outgoing).await {
        tracing::debug!(%error, "changes of the tools are not followed");
    }
}

/// Sends a request and passes every message of its response on.
async fn exchange(
    target: &Target,
    method: Method,
    body: String,
    outgoing: &mpsc::Sender<String>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let stream = TcpStream::connect(&target.authority).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::builder()
        .method(method)
        .uri(&target.path)
        .header(HOST, &target.authority)
        .header(AUTHORIZATION, format!("Bearer {}", target.token))
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, text/event-stream")
        .body(Full::new(Bytes::from(body)))?;
    let exchange = async {
        let response = sender.send_request(request).await?;
        read(response, outgoing).await
    };
    // The connection ends with this future, so that a dropped request is a cancelled one.
    tokio::select! {
        done = exchange => done,
        ended = connection => Ok(ended?),
    }
}

async fn read(
    response: Response<Incoming>,
    outgoing: &mpsc::Sender<String>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    if !response.status().is_success() {
        return Err(format!("the session answered with {}", response.status()).into());
    }
    let content_type = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let is_stream = content_type.is_some_and(|value| value.starts_with("text/event-stream"));
    let mut body = response.into_body();
    let mut received = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            received.extend_from_slice(&data);
        }
        // The endpoint writes each message as one line of data.
        while is_stream && let Some(end) = received.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = received.drain(..=end).collect();
            if let Some(message) = String::from_utf8_lossy(&line).trim_end().strip_prefix("data: ") {
                outgoing.send(message.to_owned()).await?;
            }
        }
    }
    if !is_stream && !received.is_empty() {
        outgoing.send(String::from_utf8_lossy(&received).into_owned()).await?;
    }
    Ok(())
}

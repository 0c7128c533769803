//! MCP over streamable HTTP: the requests of agents to the endpoints of their sessions.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderMap, ORIGIN};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use subtle::ConstantTimeEq as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};

use super::listener::{EndpointState, Endpoints};
use super::protocol::{self, Call, Reaction};
use super::{ToolRequest, result};

/// Largest message of an agent.
const MAX_BODY: usize = 16 << 20;
/// Most connections at once.
const MAX_CONNECTIONS: usize = 512;
/// How often an agent hears that a call is at work: it must not give up while a user decides.
const ALIVE_PACE: Duration = Duration::from_secs(10);

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Accepts connections until the task is aborted.
pub(super) async fn accept(listener: TcpListener, port: u16, endpoints: Arc<Endpoints>) {
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let accepted = listener.accept().await;
        let (Ok((stream, _)), Ok(permit)) = (accepted, Arc::clone(&connections).acquire_owned().await) else {
            // Running out of descriptors must not end the listener.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let endpoints = Arc::clone(&endpoints);
        tokio::spawn(async move {
            serve(stream, port, endpoints).await;
            drop(permit);
        });
    }
}

async fn serve(stream: TcpStream, port: u16, endpoints: Arc<Endpoints>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let endpoints = Arc::clone(&endpoints);
        async move { Ok::<_, Infallible>(respond(request, port, &endpoints).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection of an agent to its tools ended");
    }
}

async fn respond(request: Request<Incoming>, port: u16, endpoints: &Endpoints) -> Response<Body> {
    if !is_local(request.headers(), port) {
        return plain(StatusCode::FORBIDDEN, "only agents of this machine are served");
    }
    let endpoint = endpoints.find(request.uri().path());
    let Some(endpoint) = endpoint.filter(|endpoint| has_token(request.headers(), &endpoint.token)) else {
        return plain(StatusCode::UNAUTHORIZED, "no session has this address and token");
    };
    match *request.method() {
        Method::POST => post(request, endpoint).await,
        Method::GET => events(changes(&endpoint)),
        Method::DELETE => plain(StatusCode::OK, ""),
        _ => plain(StatusCode::METHOD_NOT_ALLOWED, "POST, GET or DELETE"),
    }
}

/// Refuses browsers, also those that were led here by a name of another machine.
fn is_local(headers: &HeaderMap, port: u16) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let names = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    !headers.contains_key(ORIGIN) && host.is_some_and(|host| names.iter().any(|name| name == host))
}

fn has_token(headers: &HeaderMap, token: &str) -> bool {
    let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let shown = shown
        .and_then(|value| value.strip_prefix("Bearer "))
        .unwrap_or_default();
    shown.as_bytes().ct_eq(token.as_bytes()).into()
}

async fn post(request: Request<Incoming>, endpoint: Arc<EndpointState>) -> Response<Body> {
    let Ok(body) = Limited::new(request.into_body(), MAX_BODY).collect().await else {
        return plain(StatusCode::PAYLOAD_TOO_LARGE, "the message is too long");
    };
    let Ok(message) = serde_json::from_slice::<Value>(&body.to_bytes()) else {
        return plain(StatusCode::BAD_REQUEST, "the message is not JSON");
    };
    let offered = endpoint.offered.lock().clone();
    match protocol::react(&message, &offered).await {
        Reaction::Accepted => plain(StatusCode::ACCEPTED, ""),
        Reaction::Cancel(id) => {
            // Without its sender, the call ends.
            drop(endpoint.calls.lock().remove(&id));
            plain(StatusCode::ACCEPTED, "")
        }
        Reaction::Answer(answer) => json(&answer),
        Reaction::Listed(answer) => {
            endpoint.fetched.send_replace(Some(offered.fingerprint()));
            json(&answer)
        }
        Reaction::Call(call) => events(answers(call, &endpoint).await),
    }
}

/// A call whose answer is awaited. Dropped with its connection, the call is cancelled.
struct AwaitedAnswer {
    id: Value,
    progress: Option<Value>,
    answer: oneshot::Receiver<Value>,
    cancelled: oneshot::Receiver<()>,
    steps: u64,
}

/// Returns the messages of a call: reports that it is at work, then its answer.
async fn answers(call: Call, endpoint: &EndpointState) -> impl Stream<Item = String> + Send + use<> {
    let (answer, answered) = oneshot::channel();
    let (running, cancelled) = oneshot::channel();
    endpoint.calls.lock().insert(call.id.to_string(), running);
    let request = ToolRequest {
        name: call.name,
        arguments: call.arguments,
        answer,
    };
    // Without its session, the answer never comes, which is noticed below.
    let _ = endpoint.requests.send(request).await;
    let waiting = AwaitedAnswer {
        id: call.id,
        progress: call.progress,
        answer: answered,
        cancelled,
        steps: 0,
    };
    stream::unfold(Some(waiting), |waiting| async {
        let mut waiting = waiting?;
        tokio::select! {
            biased;
            answer = &mut waiting.answer => {
                let answer = answer.unwrap_or_else(|_| result::failed("the turn is over"));
                Some((event(&protocol::result(&waiting.id, answer)), None))
            }
            _ = &mut waiting.cancelled => None,
            () = tokio::time::sleep(ALIVE_PACE) => {
                waiting.steps += 1;
                let alive = match &waiting.progress {
                    Some(token) => event(&protocol::progress(token, waiting.steps)),
                    None => ": at work\n\n".to_owned(),
                };
                Some((alive, Some(waiting)))
            }
        }
    })
}

/// Returns the reports about changed tools, until the session is gone.
fn changes(endpoint: &EndpointState) -> impl Stream<Item = String> + Send + use<> {
    let changes = endpoint.changes.subscribe();
    stream::unfold(changes, |mut changes| async move {
        tokio::select! {
            changed = changes.changed() => {
                changed.ok()?;
                let reports: String = protocol::list_changed().iter().map(event).collect();
                Some((reports, changes))
            }
            () = tokio::time::sleep(ALIVE_PACE) => Some((": open\n\n".to_owned(), changes)),
        }
    })
}

fn event(message: &Value) -> String {
    format!("event: message\ndata: {message}\n\n")
}

fn events(messages: impl Stream<Item = String> + Send + 'static) -> Response<Body> {
    let frames = messages.map(|message| Ok(Frame::data(Bytes::from(message))));
    response(
        StatusCode::OK,
        "text/event-stream",
        StreamBody::new(frames).boxed_unsync(),
    )
}

fn json(message: &Value) -> Response<Body> {
    let body = Full::new(Bytes::from(message.to_string())).boxed_unsync();
    response(StatusCode::OK, "application/json", body)
}

fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    response(
        status,
        "text/plain",
        Full::new(Bytes::from_static(text.as_bytes())).boxed_unsync(),
    )
}

fn response(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, hyper::header::HeaderValue::from_static("no-store"));
    response
}

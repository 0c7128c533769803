//! A scripted model server on loopback, over every API that Innkeeper speaks.
//!
//! The same [`Script`] gives the same conversation through Chat Completions, Responses and
//! Messages. How it is sent is part of the script: in what pieces, how slowly, where it stalls,
//! breaks off or fails. A request that real APIs refuse is refused here as well. Requests and closed
//! connections can be inspected afterwards.
//!
//! ```no_run
//! # async fn example() {
//! use innkeeper_testkit::model_server::{ModelServer, Reply};
//! let server = ModelServer::start([Reply::new().text("Hello.")]).await;
//! let base_url = server.url();
//! # }
//! ```

mod request;
mod rules;
mod script;
mod sending;
mod wire;

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use innkeeper_std::sync::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

pub use self::request::{Api, ConversationPart, ReceivedRequest};
use self::script::RefusalBody;
pub use self::script::{Chunking, Ending, Reply, Script, Usage};
use self::sending::{OpenReply, Send as Sending};

/// The models that the server lists, unless told otherwise.
const MODELS: [&str; 2] = ["scripted", "scripted-2"];

/// A server at work. Dropping it ends it and all its connections.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<ServerState>,
    task: tokio::task::JoinHandle<()>,
}

/// State that the server and its connections share.
#[derive(Debug)]
struct ServerState {
    script: Script,
    models: Mutex<Option<Vec<Value>>>,
    seen: watch::Sender<Recorded>,
    /// One permit for every stall that may end.
    going_on: Semaphore,
}

/// Requests and connections so far.
#[derive(Debug, Default, Clone)]
struct Recorded {
    asked: Vec<ReceivedRequest>,
    hung_up: Vec<usize>,
    connections: usize,
}

type Body = UnsyncBoxBody<Bytes, std::io::Error>;

impl ModelServer {
    /// Starts a server with a script.
    pub async fn start(script: impl Into<Script>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a port on loopback");
        let address = listener.local_addr().expect("a bound listener has an address");
        let shared = Arc::new(ServerState {
            script: script.into(),
            models: Mutex::new(Some(
                MODELS.iter().map(|id| json!({"id": id, "display_name": id})).collect(),
            )),
            seen: watch::Sender::new(Recorded::default()),
            going_on: Semaphore::new(0),
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, task }
    }

    /// The base URL for clients of Chat Completions and Responses, version included. Messages
    /// takes it as well.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the requests so far.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.shared.seen.borrow().asked.clone()
    }

    /// The requests, by number, whose answer the client did not wait for.
    pub fn hung_up(&self) -> Vec<usize> {
        self.shared.seen.borrow().hung_up.clone()
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        self.shared.seen.borrow().connections
    }

    /// Waits until so many requests have come.
    pub async fn until_asked(&self, requests: usize) {
        self.until(|seen| seen.asked.len() >= requests).await;
    }

    /// Waits until a client hangs up on the request with this number.
    pub async fn until_hung_up(&self, request: usize) {
        self.until(|seen| seen.hung_up.contains(&request)).await;
    }

    /// Lets one stall end: the one under way, or the next.
    pub fn go_on(&self) {
        self.shared.going_on.add_permits(1);
    }

    /// Lists these models, as objects of the list, or has no list at all.
    pub fn list_models(&self, models: Option<Vec<Value>>) {
        *self.shared.models.lock() = models;
    }

    async fn until(&self, come_true: impl FnMut(&Recorded) -> bool) {
        let mut seen = self.shared.seen.subscribe();
        tokio::time::timeout(crate::process::TIMEOUT, seen.wait_for(come_true))
            .await
            .expect("it never happened")
            .expect("the server holds the sender");
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The bytes of a reply's stream as one API has them, without a server: for decoders. Stalls are
/// left out.
pub fn transcript(api: Api, reply: &Reply) -> Vec<u8> {
    let frames = wire::frames(api, reply, 0).into_iter();
    let events = frames.filter_map(|frame| match frame {
        wire::Frame::Event(lines) => Some(lines.into_bytes()),
        wire::Frame::Stall => None,
    });
    events.flatten().collect()
}

async fn accept(listener: TcpListener, shared: Arc<ServerState>) {
    // Connections end with the task that holds them.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        shared.seen.send_modify(|seen| seen.connections += 1);
        while connections.try_join_next().is_some() {}
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(move |request| answer(Arc::clone(&shared), request));
            // A client that hangs up is an error here and nothing unusual.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(shared: Arc<ServerState>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    if request.method() == Method::GET && path.ends_with("/models") {
        let models = shared.models.lock().clone();
        return Ok(match models {
            Some(models) => json_response(200, &json!({"object": "list", "data": models, "has_more": false})),
            None => json_response(404, &json!({"error": {"message": "no such page"}})),
        });
    }
    let Some(api) = Api::of_path(&path).filter(|_| request.method() == Method::POST) else {
        return Ok(json_response(
            404,
            &json!({"error": {"message": format!("no such page: {path}")}}),
        ));
    };
    let headers = request.headers().iter();
    let headers =
        headers.map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
    let headers = headers.collect();
    let body = request
        .into_body()
        .collect()
        .await
        .map(|body| body.to_bytes())
        .unwrap_or_default();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let asked = shared.record(ReceivedRequest {
        number: 0,
        api,
        path,
        headers,
        body,
    });
    if let Some(rule) = rules::broken_by(&asked) {
        let refusal = Reply::new().refuse(400, "invalid_request_error", rule);
        return Ok(reply_to(shared, &asked, &refusal).await);
    }
    let reply = match &shared.script {
        Script::InOrder(replies) => replies.get(asked.number).cloned(),
        Script::By(answer) => Some(answer(&asked)),
    };
    let reply = reply.unwrap_or_else(|| Reply::new().refuse(400, "script_over", "the script has no more replies"));
    Ok(reply_to(shared, &asked, &reply).await)
}

async fn reply_to(shared: Arc<ServerState>, asked: &ReceivedRequest, reply: &Reply) -> Response<Body> {
    let mut answering = OpenReply::new(Arc::clone(&shared), asked.number);
    if reply.delivery.silent_first {
        shared.stall().await;
    }
    let mut response = if let Some(refusal) = &reply.refusal {
        answering.is_done();
        let body = match &refusal.body {
            RefusalBody::Raw(body) => body.clone(),
            RefusalBody::Shaped { code, message } => wire::error(asked.api, code, message).to_string(),
        };
        text_response(refusal.status, body)
    } else if reply.delivery.plain {
        answering.is_done();
        json_response(200, &wire::whole(asked.api, reply, asked.number))
    } else {
        let sends = Sending::plan(reply, &wire::frames(asked.api, reply, asked.number));
        let stream = sending::stream(answering, sends);
        let body = StreamBody::new(stream.map(|bytes| bytes.map(hyper::body::Frame::data)));
        let mut response = Response::new(body.boxed_unsync());
        set_header(&mut response, "content-type", "text/event-stream; charset=utf-8");
        response
    };
    for (name, value) in &reply.headers {
        set_header(&mut response, name, value);
    }
    response
}

impl ServerState {
    /// Writes a request down and gives it its number.
    fn record(&self, mut asked: ReceivedRequest) -> ReceivedRequest {
        self.seen.send_modify(|seen| {
            asked.number = seen.asked.len();
            seen.asked.push(asked.clone());
        });
        asked
    }

    async fn stall(&self) {
        if let Ok(permit) = self.going_on.acquire().await {
            permit.forget();
        }
    }
}

fn json_response(status: u16, body: &Value) -> Response<Body> {
    let mut response = text_response(status, body.to_string());
    set_header(&mut response, "content-type", "application/json");
    response
}

fn text_response(status: u16, body: String) -> Response<Body> {
    let body = Full::new(Bytes::from(body)).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = status.try_into().expect("scripts have proper statuses");
    response
}

fn set_header(response: &mut Response<Body>, name: &str, value: &str) {
    let name: hyper::header::HeaderName = name.parse().expect("scripts have proper header names");
    response
        .headers_mut()
        .insert(name, value.parse().expect("scripts have proper header values"));
}

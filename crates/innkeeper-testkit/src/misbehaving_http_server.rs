//! An MCP server on loopback with streamable HTTP and the older transport, that demands a sign-in on request. It includes
//! the authorization server that it trusts.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test with a line number")]

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

type Body = BoxBody<Bytes, Infallible>;

/// A status that is never sent: the connection ends instead.
const HANGS_UP: u16 = 444;

/// The behaviour of the server. Scenarios change it while it runs.
#[derive(Default)]
pub struct HttpBehaviour {
    /// The issued tokens, with their scopes. They count only with `wants_token`.
    pub tokens: HashMap<String, Vec<String>>,
    /// Requests need a token.
    pub wants_token: bool,
    /// An unknown token gets an error instead of a challenge.
    pub fails_on_unknown: bool,
    /// The refresh tokens, with their scopes.
    pub refresh_tokens: HashMap<String, Vec<String>>,
    /// The announced lifetime of a refreshed token.
    pub expires_in: Option<u64>,
    /// The authorization server answers with this status only.
    pub as_answers: Option<StatusCode>,
    /// The requests to the authorization server: the path and the form.
    pub asked: Vec<(String, HashMap<String, String>)>,
    /// The resource of the metadata, if it is not the server itself.
    pub resource: Option<String>,
    /// The metadata is unavailable.
    pub hides_metadata: bool,
    /// Requests for the metadata are not answered.
    pub hangs_metadata: bool,
    /// The number of these requests.
    pub hanging: usize,
    /// A stream of events can be opened.
    pub streams: bool,
    /// The number of opened streams.
    pub opened: usize,
    /// The number of refused streams.
    pub refused_streams: usize,
    /// The open stream.
    pub stream: Option<mpsc::UnboundedSender<String>>,
    /// Answers come as events.
    pub as_events: bool,
    /// `initialize` is answered with this status.
    pub fails_start: Option<StatusCode>,
    /// `server/discover` is not answered.
    pub hangs_discovery: bool,
    /// The number of questions in the call `asks`. Their answers are never taken.
    pub asks: usize,
    /// Answers come in batches.
    pub in_batches: bool,
    /// Calls are answered with this status.
    pub fails_calls: Option<StatusCode>,
    /// Additional tools.
    pub more_tools: Vec<String>,
    /// The number of pings.
    pub pings: usize,
    /// The next ping is not answered.
    pub misses_ping: bool,
    /// All requests are redirected to this address.
    pub redirect: Option<String>,
    /// The open sessions.
    pub sessions: HashSet<String>,
    /// The headers of every request to the server itself.
    pub seen: Vec<hyper::HeaderMap>,
    /// Questions of the server that wait for their answer.
    questions: HashMap<String, oneshot::Sender<Value>>,
    /// Calls that are never answered.
    pub waiting: Vec<mpsc::UnboundedSender<String>>,
    /// The open stream of the older transport.
    old: Option<mpsc::UnboundedSender<String>>,
}

/// A server that runs until it is dropped.
pub struct MisbehavingHttpServer {
    /// The address that it listens on.
    pub address: SocketAddr,
    /// Its behaviour.
    pub behaviour: Arc<Mutex<HttpBehaviour>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for MisbehavingHttpServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl MisbehavingHttpServer {
    /// Starts a server on a free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let behaviour = Arc::new(Mutex::new(HttpBehaviour::default()));
        let task = tokio::spawn(accept(listener, behaviour.clone(), address));
        Self {
            address,
            behaviour,
            task,
        }
    }

    /// Ends with all connections and sessions.
    pub async fn leave(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
        self.set(|behaviour| {
            behaviour.sessions.clear();
            behaviour.stream = None;
        });
    }

    /// Listens on the same address again.
    pub async fn come_back(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.task = tokio::spawn(accept(listener, self.behaviour.clone(), self.address));
    }

    /// The address of streamable HTTP.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// The address of the older transport.
    pub fn old_url(&self) -> String {
        format!("http://{}/sse", self.address)
    }

    /// Changes the behaviour.
    pub fn set(&self, change: impl FnOnce(&mut HttpBehaviour)) {
        change(&mut self.behaviour.lock().unwrap());
    }

    /// Issues a token, as the authorization server that the metadata names would.
    pub async fn token(&self, authorization_server: &str, scopes: &[String]) -> String {
        assert_eq!(authorization_server, format!("http://{}/as", self.address));
        let token = format!(
            "token-{}-{}",
            self.behaviour.lock().unwrap().tokens.len(),
            scopes.join("+")
        );
        self.set(|behaviour| {
            behaviour.tokens.insert(token.clone(), scopes.to_vec());
        });
        token
    }
}

async fn accept(listener: TcpListener, behaviour: Arc<Mutex<HttpBehaviour>>, address: SocketAddr) {
    // They end with this.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let behaviour = behaviour.clone();
        let serve = service_fn(move |request| {
            let behaviour = behaviour.clone();
            async move {
                let response = answer(request, behaviour, address).await;
                match response.status().as_u16() {
                    HANGS_UP => Err("hung up"),
                    _ => Ok(response),
                }
            }
        });
        let io = hyper_util::rt::TokioIo::new(stream);
        connections.spawn(hyper::server::conn::http1::Builder::new().serve_connection(io, serve));
    }
}

async fn answer(
    request: Request<Incoming>,
    behaviour: Arc<Mutex<HttpBehaviour>>,
    address: SocketAddr,
) -> Response<Body> {
    let path = request.uri().path().to_owned();
    // The metadata of a larger resource is at the place of that resource (RFC 9728, 3.1).
    let about = match behaviour.lock().unwrap().resource {
        Some(_) => "/.well-known/oauth-protected-resource",
        None => "/.well-known/oauth-protected-resource/mcp",
    };
    if path == about && behaviour.lock().unwrap().hangs_metadata {
        behaviour.lock().unwrap().hanging += 1;
        std::future::pending::<()>().await;
    }
    if path == about {
        let behaviour = behaviour.lock().unwrap();
        if behaviour.hides_metadata {
            return empty(StatusCode::SERVICE_UNAVAILABLE);
        }
        let resource = behaviour.resource.clone();
        return json_body(
            StatusCode::OK,
            &json!({
                "resource": resource.unwrap_or_else(|| format!("http://{address}/mcp")),
                "authorization_servers": [format!("http://{address}/as")],
                "scopes_supported": ["everything"], "resource_name": "Odd",
            }),
        );
    }
    if let Some(what) = path.strip_prefix("/as/") {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let form = url::form_urlencoded::parse(&body).into_owned().collect();
        return authorize(what, form, &mut behaviour.lock().unwrap());
    }
    if path == "/sse" && request.method() == Method::GET {
        let (sender, receiver) = mpsc::unbounded_channel();
        sender
            .send("event: endpoint\ndata: /old?session=1\n\n".to_owned())
            .unwrap();
        behaviour.lock().unwrap().old = Some(sender);
        return events_body(receiver);
    }
    if path != "/mcp" && path != "/old" {
        return empty(StatusCode::NOT_FOUND);
    }
    let headers = request.headers().clone();
    let method = request.method().clone();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    {
        let mut behaviour = behaviour.lock().unwrap();
        behaviour.seen.push(headers.clone());
        if let Some(elsewhere) = &behaviour.redirect {
            let mut moved = empty(StatusCode::TEMPORARY_REDIRECT);
            moved.headers_mut().insert("location", elsewhere.parse().unwrap());
            return moved;
        }
        if let Some(refusal) = refuse(&behaviour, &headers, &message, address) {
            behaviour.refused_streams += usize::from(method == Method::GET);
            return refusal;
        }
        // The answer to a question.
        if message.get("method").is_none() && path == "/mcp" {
            let id = message["id"].as_str().unwrap_or_default();
            if let Some(question) = behaviour.questions.remove(id) {
                let _ = question.send(message["result"].clone());
                return empty(StatusCode::ACCEPTED);
            }
        }
    }
    if path == "/old" {
        let result = result(&message);
        let behaviour = behaviour.lock().unwrap();
        if let Some(result) = result {
            let reply = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
            let old = behaviour.old.as_ref().unwrap();
            let _ = old.send(format!("event: message\ndata: {reply}\n\n"));
        }
        return empty(StatusCode::ACCEPTED);
    }
    let hangs = message["method"] == "server/discover" && behaviour.lock().unwrap().hangs_discovery;
    if hangs || message["id"].as_str().is_some_and(|id| id.starts_with("asks")) {
        std::future::pending::<()>().await;
    }
    match method {
        Method::POST => post(&headers, &message, &behaviour),
        Method::DELETE => empty(StatusCode::OK),
        Method::GET if behaviour.lock().unwrap().streams => {
            let (sender, receiver) = mpsc::unbounded_channel();
            let mut behaviour = behaviour.lock().unwrap();
            behaviour.opened += 1;
            behaviour.stream = Some(sender);
            events_body(receiver)
        }
        _ => empty(StatusCode::METHOD_NOT_ALLOWED),
    }
}

/// The authorization server: the next token for a refresh token, which is good once, and the end of one.
fn authorize(what: &str, form: HashMap<String, String>, behaviour: &mut HttpBehaviour) -> Response<Body> {
    behaviour.asked.push((what.to_owned(), form.clone()));
    if let Some(status) = behaviour.as_answers {
        let mut response = json_body(status, &json!({ "error": "temporarily_unavailable" }));
        response
            .headers_mut()
            .insert("location", "/as/elsewhere".parse().unwrap());
        return response;
    }
    let field = |name: &str| form.get(name).cloned().unwrap_or_default();
    match what {
        "revoke" => {
            behaviour.refresh_tokens.remove(&field("token"));
            empty(StatusCode::OK)
        }
        "token" if field("grant_type") == "refresh_token" => {
            let Some(scopes) = behaviour.refresh_tokens.remove(&field("refresh_token")) else {
                return json_body(StatusCode::BAD_REQUEST, &json!({ "error": "invalid_grant" }));
            };
            let count = behaviour.asked.len();
            let (token, refresh) = (format!("refreshed-token-{count}"), format!("next-refresh-{count}"));
            behaviour.tokens.insert(token.clone(), scopes.clone());
            behaviour.refresh_tokens.insert(refresh.clone(), scopes.clone());
            let mut granted = json!({
                "access_token": token, "token_type": "Bearer", "refresh_token": refresh, "scope": scopes.join(" "),
            });
            if let Some(seconds) = behaviour.expires_in {
                granted["expires_in"] = seconds.into();
            }
            json_body(StatusCode::OK, &granted)
        }
        _ => empty(StatusCode::NOT_FOUND),
    }
}

fn refuse(
    behaviour: &HttpBehaviour,
    headers: &hyper::HeaderMap,
    message: &Value,
    address: SocketAddr,
) -> Option<Response<Body>> {
    if !behaviour.wants_token {
        return None;
    }
    let token = headers.get("authorization").and_then(|value| value.to_str().ok());
    let token = token.and_then(|value| value.strip_prefix("Bearer "));
    let place = if behaviour.resource.is_some() { "" } else { "/mcp" };
    let metadata = format!("resource_metadata=\"http://{address}/.well-known/oauth-protected-resource{place}\"");
    let (status, challenge) = match token.map(|token| (token, behaviour.tokens.get(token))) {
        None => (401, format!("Bearer {metadata}, scope=\"read\"")),
        Some((_, None)) if behaviour.fails_on_unknown => (500, String::new()),
        Some((token, None)) => {
            // A careless server says the token again.
            let described = format!("error_description=\"{token} has expired\"");
            (401, format!("Bearer error=\"invalid_token\", {described}, {metadata}"))
        }
        Some((_, Some(scopes))) => {
            let is_admin = message["params"]["name"] == "admin";
            if !is_admin || scopes.iter().any(|scope| scope == "admin") {
                return None;
            }
            (
                403,
                // Servers say what is missing, and not what is there already.
                format!("Bearer error=\"insufficient_scope\", scope=\"admin\", {metadata}"),
            )
        }
    };
    let mut refusal = empty(StatusCode::from_u16(status).unwrap());
    refusal
        .headers_mut()
        .insert("www-authenticate", challenge.parse().unwrap());
    Some(refusal)
}

fn post(headers: &hyper::HeaderMap, message: &Value, behaviour: &Arc<Mutex<HttpBehaviour>>) -> Response<Body> {
    let method = message["method"].as_str().unwrap_or_default();
    let mut guard = behaviour.lock().unwrap();
    guard.pings += usize::from(method == "ping");
    if method == "ping" && std::mem::take(&mut guard.misses_ping) {
        return empty(StatusCode::from_u16(HANGS_UP).unwrap());
    }
    if method == "tools/call"
        && let Some(status) = guard.fails_calls
    {
        return empty(status);
    }
    if method == "server/discover" {
        return empty(StatusCode::BAD_REQUEST);
    }
    if method == "initialize"
        && let Some(status) = guard.fails_start
    {
        return empty(status);
    }
    if method == "initialize" {
        let session = format!("session-{}", guard.sessions.len());
        guard.sessions.insert(session.clone());
        let mut response = reply(&guard, message, &result(message).unwrap());
        response
            .headers_mut()
            .insert("mcp-session-id", session.parse().unwrap());
        return response;
    }
    let session = headers.get("mcp-session-id").and_then(|value| value.to_str().ok());
    if !session.is_some_and(|session| guard.sessions.contains(session)) {
        return empty(StatusCode::NOT_FOUND);
    }
    if message["id"].is_null() {
        return empty(StatusCode::ACCEPTED);
    }
    match message["params"]["name"].as_str().unwrap_or_default() {
        "flood" => return flood(),
        // A careless server says what it was sent.
        "repeat" => {
            let sent = headers.get("authorization").and_then(|value| value.to_str().ok());
            let content = json!([{ "type": "text", "text": sent }]);
            return reply(
                &guard,
                message,
                &json!({ "content": content, "structuredContent": { "sent": sent } }),
            );
        }
        "asks" => return asks(behaviour.clone()),
        "break" => return events_body(mpsc::unbounded_channel().1),
        "wait" => {
            let (sender, receiver) = mpsc::unbounded_channel();
            // An id, as servers that let answers be fetched later give: the client then asks for the rest.
            sender.send("id: 1\ndata:\n\n".to_owned()).unwrap();
            guard.waiting.push(sender);
            return events_body(receiver);
        }
        "ask" => {
            let (sender, receiver) = mpsc::unbounded_channel();
            let (question, answered) = oneshot::channel();
            guard.questions.insert("q1".to_owned(), question);
            let params = json!({ "messages": [], "maxTokens": 5 });
            let asked = json!({ "jsonrpc": "2.0", "id": "q1", "method": "sampling/createMessage", "params": params });
            sender.send(format!("data: {asked}\n\n")).unwrap();
            let id = message["id"].clone();
            tokio::spawn(async move {
                let answer = answered.await.unwrap();
                let content = json!([{ "type": "text", "text": answer.to_string() }]);
                let reply = json!({ "jsonrpc": "2.0", "id": id, "result": { "content": content } });
                let _ = sender.send(format!("data: {reply}\n\n"));
            });
            return events_body(receiver);
        }
        _ => {}
    }
    match result(message) {
        Some(mut result) => {
            let more = guard.more_tools.iter().map(|name| tool(name));
            if let Some(tools) = result.get_mut("tools").and_then(Value::as_array_mut) {
                tools.extend(more);
            }
            reply(&guard, message, &result)
        }
        None => {
            let error = json!({ "code": -32601, "message": "unknown" });
            json_body(
                StatusCode::OK,
                &json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }),
            )
        }
    }
}

fn tool(name: &str) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object" } })
}

fn result(message: &Value) -> Option<Value> {
    Some(match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
            "serverInfo": { "name": "far", "version": "1" },
        }),
        "tools/list" => {
            let names = ["echo", "admin", "flood", "ask", "break", "big"];
            json!({ "tools": names.map(tool) })
        }
        "tools/call" => match message["params"]["name"].as_str().unwrap_or_default() {
            "big" => json!({ "content": [{ "type": "text", "text": "y".repeat(20 << 20) }] }),
            name => json!({ "content": [{ "type": "text", "text": format!("{name} done") }], "unknown": "kept" }),
        },
        _ => return None,
    })
}

fn reply(behaviour: &HttpBehaviour, message: &Value, result: &Value) -> Response<Body> {
    let mut reply = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    if behaviour.in_batches && message["method"] == "tools/call" {
        let noise = json!({ "jsonrpc": "2.0", "id": "unknown", "result": {} });
        let ping = json!({ "jsonrpc": "2.0", "id": "p1", "method": "ping" });
        reply = json!([noise, ping, reply]);
    }
    if !behaviour.as_events {
        return json_body(StatusCode::OK, &reply);
    }
    let (sender, receiver) = mpsc::unbounded_channel();
    sender.send(format!("event: message\ndata: {reply}\n\n")).unwrap();
    events_body(receiver)
}

/// Questions without an end, as fast as they are taken.
fn asks(behaviour: Arc<Mutex<HttpBehaviour>>) -> Response<Body> {
    let questions = futures_util::stream::unfold(0, move |count| {
        behaviour.lock().unwrap().asks = count;
        let id = format!("asks{count}{}", "i".repeat(500));
        let params = json!({ "_meta": { "long": "x".repeat(10_000) } });
        let ping = json!({ "jsonrpc": "2.0", "id": id, "method": "ping", "params": params });
        let event = Bytes::from(format!("data: {ping}\n\n"));
        async move { Some((event, count + 1)) }
    });
    stream_body(questions.boxed())
}

/// One event without an end.
fn flood() -> Response<Body> {
    let begin = futures_util::stream::once(async { Bytes::from_static(b"data: {\"a\":\"") });
    let rest = futures_util::stream::repeat(Bytes::from(vec![b'x'; 64 << 10])).take(1600);
    stream_body(begin.chain(rest).boxed())
}

fn events_body(receiver: mpsc::UnboundedReceiver<String>) -> Response<Body> {
    let events = futures_util::stream::unfold(receiver, |mut receiver| async move {
        let event = receiver.recv().await?;
        Some((Bytes::from(event), receiver))
    });
    stream_body(events.boxed())
}

fn stream_body(stream: BoxStream<'static, Bytes>) -> Response<Body> {
    let frames = stream.map(|bytes| Ok::<_, Infallible>(Frame::data(bytes)));
    let mut response = Response::new(BoxBody::new(StreamBody::new(SyncStream(Mutex::new(frames.boxed())))));
    response
        .headers_mut()
        .insert("content-type", "text/event-stream".parse().unwrap());
    response
}

/// A stream that can be looked at from anywhere, because it never is.
struct SyncStream(Mutex<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>);

impl futures_util::Stream for SyncStream {
    type Item = Result<Frame<Bytes>, Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.get_mut().unwrap().as_mut().poll_next(cx)
    }
}

fn json_body(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(value.to_string())).boxed());
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert("content-type", "application/json".parse().unwrap());
    response
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::new()).boxed());
    *response.status_mut() = status;
    response
}

//! HTTP as far as signing in needs it: a listener that answers, and one request at a time.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use url::Url;

/// Something that listens on loopback until it is dropped.
#[derive(Debug)]
pub(super) struct HttpListener {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl HttpListener {
    pub(super) async fn start<F>(answer: impl Fn(HttpRequest) -> F + Clone + Send + Sync + 'static) -> Self
    where
        F: Future<Output = OAuthResponse> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a port on loopback");
        let address = listener.local_addr().expect("a bound listener has an address");
        let task = tokio::spawn(accept(listener, answer));
        Self { address, task }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpListener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept<F>(listener: TcpListener, answer: impl Fn(HttpRequest) -> F + Clone + Send + Sync + 'static)
where
    F: Future<Output = OAuthResponse> + Send + 'static,
{
    // Connections end with the task that holds them.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let answer = answer.clone();
        connections.spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = answer.clone();
                async move { Ok::<_, Infallible>(answer(HttpRequest::read(request).await).await.0) }
            });
            // A client that hangs up is an error here and nothing unusual.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// One request.
#[derive(Debug)]
pub(super) struct HttpRequest {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: HashMap<String, String>,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl HttpRequest {
    async fn read(request: Request<Incoming>) -> Self {
        let (parts, body) = request.into_parts();
        Self {
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            query: fields(parts.uri.query().unwrap_or_default().as_bytes()),
            headers: parts.headers,
            body: body.collect().await.map(|body| body.to_bytes()).unwrap_or_default(),
        }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(super) fn form(&self) -> HashMap<String, String> {
        fields(&self.body)
    }
}

/// The fields of a form or a query. A repeated field is ignored: it must not be sent (RFC 6749, 3.1).
pub(super) fn fields(encoded: &[u8]) -> HashMap<String, String> {
    let mut fields = HashMap::new();
    let mut doubled = Vec::new();
    for (name, value) in url::form_urlencoded::parse(encoded) {
        if fields.insert(name.to_string(), value.into_owned()).is_some() {
            doubled.push(name.to_string());
        }
    }
    for name in doubled {
        fields.remove(&name);
    }
    fields
}

/// One answer.
pub(super) struct OAuthResponse(Response<Full<Bytes>>);

impl OAuthResponse {
    pub(super) fn text(status: u16, text: impl Into<Bytes>) -> Self {
        let mut response = Response::new(Full::new(text.into()));
        *response.status_mut() = status.try_into().expect("a proper status");
        Self(response)
    }

    pub(super) fn empty(status: u16) -> Self {
        Self::text(status, Bytes::new())
    }

    pub(super) fn json(status: u16, value: &Value) -> Self {
        Self::text(status, value.to_string())
            .header("content-type", "application/json")
            .header("cache-control", "no-store")
    }

    pub(super) fn header(mut self, name: &str, value: &str) -> Self {
        let name: HeaderName = name.parse().expect("a proper name");
        let value: HeaderValue = value.parse().expect("a proper value");
        self.0.headers_mut().insert(name, value);
        self
    }
}

/// Asks something of a server on loopback, and follows no redirect.
pub(super) async fn ask(
    method: &str,
    address: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> (u16, HeaderMap, Bytes) {
    let url = Url::parse(address).unwrap_or_else(|error| panic!("{address} is no address: {error}"));
    assert!(
        url.scheme() == "http" && url.host_str() == Some("127.0.0.1"),
        "tests stay on loopback: {address}"
    );
    let port = url.port().expect("a port");
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await;
    let stream = stream.unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"));
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .expect("a connection");
    let connection = tokio::spawn(connection);
    let target = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let mut request = Request::builder()
        .method(method)
        .uri(target)
        .header("host", format!("127.0.0.1:{port}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(body.into())).expect("a request");
    let response = sender.send_request(request).await.expect("an answer");
    let (parts, body) = response.into_parts();
    let body = body.collect().await.expect("a whole answer").to_bytes();
    connection.abort();
    (parts.status.as_u16(), parts.headers, body)
}

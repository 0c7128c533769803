//! The HTTP side: health, version, and the WebSocket upgrade, behind the access checks.
//!
//! Built on hyper directly rather than on a framework: the limits on the request head, its time,
//! and the number of sockets that have not shown a credential are ours to keep.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use innkeeper_core::{Principal, Scope};
use innkeeper_std::sync::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_util::sync::CancellationToken;

use crate::host::HostHandle;
use crate::net::access::{Access, Denied};
use crate::net::connection;
use crate::net::transport::websocket;

/// A listener at work.
#[derive(Debug)]
pub struct Server {
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    /// Stops accepting. Connections that are up stay up.
    pub async fn stop(self) {
        self.stop.cancel();
        let _ = self.task.await;
    }
}

/// Serves a TCP listener.
pub fn serve_tcp(host: HostHandle, listener: TcpListener, access: Access) -> Server {
    let state = Arc::new(ListenerContext::new(host, access));
    spawn(async move |stop| {
        while let Some((stream, peer)) = accept_or_stop(&stop, || listener.accept()).await {
            let _ = stream.set_nodelay(true);
            let peer: SocketAddr = peer;
            Arc::clone(&state).admit(stream, Peer::Address(peer.ip()));
        }
    })
}

/// Serves a Unix socket. Only processes of our own user, and of root, may connect: the file's mode restricts it, and
/// the peer's credentials prove it.
pub fn serve_unix(host: HostHandle, listener: UnixListener, access: Access) -> Server {
    let state = Arc::new(ListenerContext::new(host, access));
    spawn(async move |stop| {
        let own = rustix::process::geteuid().as_raw();
        while let Some((stream, _)) = accept_or_stop(&stop, || listener.accept()).await {
            let uid = match stream.peer_cred() {
                Ok(cred) if cred.uid() == 0 || cred.uid() == own => cred.uid(),
                Ok(_) | Err(_) => {
                    tracing::warn!("refused a connection of another user on the Unix socket");
                    continue;
                }
            };
            Arc::clone(&state).admit(stream, Peer::User(uid));
        }
    })
}

/// The peer of a connection before it shows a credential.
#[derive(Debug, Clone, Copy)]
enum Peer {
    Address(IpAddr),
    User(u32),
}

fn spawn<F>(run: impl FnOnce(CancellationToken) -> F) -> Server
where
    F: Future<Output = ()> + Send + 'static,
{
    let stop = CancellationToken::new();
    let task = tokio::spawn(run(stop.clone()));
    Server { stop, task }
}

/// The next connection; `None` when told to stop. Running out of descriptors must not end the
/// listener, so it waits a moment and tries again.
async fn accept_or_stop<S, A, F>(stop: &CancellationToken, accept: impl Fn() -> F) -> Option<(S, A)>
where
    F: Future<Output = io::Result<(S, A)>>,
{
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return None,
            accepted = accept() => accepted,
        };
        match accepted {
            Ok(accepted) => return Some(accepted),
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// The state that all connections of a listener share.
struct ListenerContext {
    host: HostHandle,
    access: Access,
    connections: Arc<Semaphore>,
    unauthenticated: Arc<Semaphore>,
    per_principal: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
}

/// How long a new socket waits for its turn when many others have not shown a credential.
const ADMISSION_TIME: Duration = Duration::from_secs(1);
/// A wrong token costs its sender this long.
const WRONG_TOKEN_DELAY: Duration = Duration::from_millis(250);

impl ListenerContext {
    fn new(host: HostHandle, access: Access) -> Self {
        let limits = host.limits();
        Self {
            access,
            connections: Arc::new(Semaphore::new(limits.connections)),
            unauthenticated: Arc::new(Semaphore::new(limits.unauthenticated_connections)),
            per_principal: Mutex::default(),
            host,
        }
    }

    /// Takes a new socket off the accept loop, which must never wait for a client.
    fn admit<S>(self: Arc<Self>, stream: S, peer: Peer)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let tasks = self.host.tasks().clone();
        let connection = Arc::clone(&self.connections).try_acquire_owned().ok();
        // First come, first served; only who finds no place waits for one.
        let at_once = Arc::clone(&self.unauthenticated).try_acquire_owned().ok();
        tasks.spawn(async move {
            let unauthenticated = match at_once {
                Some(permit) => Some(permit),
                None => {
                    let waiting = Arc::clone(&self.unauthenticated).acquire_owned();
                    tokio::time::timeout(ADMISSION_TIME, waiting)
                        .await
                        .ok()
                        .and_then(Result::ok)
                }
            };
            match (connection, unauthenticated) {
                (Some(connection), Some(unauthenticated)) => {
                    let permits = Arc::new(Mutex::new(Some((connection, unauthenticated))));
                    self.serve(stream, peer, permits).await;
                }
                (None, _) | (_, None) => {
                    let _ = tokio::time::timeout(ADMISSION_TIME, turn_away(stream)).await;
                }
            }
        });
    }

    async fn serve<S>(self: Arc<Self>, stream: S, peer: Peer, permits: Arc<Mutex<Option<Permits>>>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let limits = self.host.limits();
        let stopping = self.host.stopping().clone();
        let service = service_fn(move |request| {
            let state = Arc::clone(&self);
            let permits = Arc::clone(&permits);
            async move { Ok::<_, Infallible>(state.answer::<S>(request, peer, &permits).await) }
        });
        let serving = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.handshake_time)
            .max_buf_size(limits.http_head_bytes.max(8192))
            .max_headers(limits.http_headers)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        // An upgraded connection has a task of its own by then.
        tokio::select! {
            _ = tokio::time::timeout(limits.handshake_time + ADMISSION_TIME, serving) => {}
            () = stopping.cancelled() => {}
        }
    }

    async fn answer<S>(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: Peer,
        permits: &Mutex<Option<Permits>>,
    ) -> Response<Full<Bytes>>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        match self.route::<S>(request, peer, permits).await {
            Ok(response) => response,
            Err(refused) => {
                if refused == Refused::Denied(Denied::Token) {
                    tokio::time::sleep(WRONG_TOKEN_DELAY).await;
                }
                refused.response()
            }
        }
    }

    async fn route<S>(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: Peer,
        permits: &Mutex<Option<Permits>>,
    ) -> Result<Response<Full<Bytes>>, Refused>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let headers = request.headers();
        self.access.check_host(text(headers, &HOST))?;
        self.access.check_origin(text(headers, &ORIGIN))?;
        if request.method() != Method::GET {
            return Err(Refused::Method);
        }
        match request.uri().path() {
            "/healthz" => Ok(plain(StatusCode::OK, "ok\n")),
            "/readyz" if self.host.is_ready() => Ok(plain(StatusCode::OK, "ready\n")),
            "/readyz" => {
                let problem = self.host.problem().map(|reason| format!("read-only: {reason}\n"));
                let text = problem.unwrap_or_else(|| "not ready\n".to_owned());
                Ok(plain(StatusCode::SERVICE_UNAVAILABLE, text))
            }
            "/version" => {
                let body = serde_json::json!({ "name": "innkeeper", "version": self.host.version(), "protocol": innkeeper_dialects::supported() });
                Ok(json(body.to_string()))
            }
            "/" => self.upgrade::<S>(request, peer, permits),
            _ => Err(Refused::Path),
        }
    }

    fn upgrade<S>(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        peer: Peer,
        permits: &Mutex<Option<Permits>>,
    ) -> Result<Response<Full<Bytes>>, Refused>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let principal = self.principal(&request, peer)?;
        let headers = request.headers();
        let wants_upgrade = lists(headers, &CONNECTION, "upgrade") && lists(headers, &UPGRADE, "websocket");
        if !wants_upgrade {
            return Err(Refused::NotAnUpgrade);
        }
        if text(headers, &SEC_WEBSOCKET_VERSION) != Some("13") {
            return Err(Refused::WebSocketVersion);
        }
        let Some(key) = headers.get(SEC_WEBSOCKET_KEY) else {
            return Err(Refused::NotAnUpgrade);
        };
        let accept = derive_accept_key(key.as_bytes());
        let share = self.share_of(&principal)?;
        let permits = permits.lock().take();
        let Some((connection, unauthenticated)) = permits else {
            return Err(Refused::NotAnUpgrade);
        };
        drop(unauthenticated);
        let host = self.host.clone();
        let upgrading = hyper::upgrade::on(&mut request);
        self.host.tasks().spawn(async move {
            // Held for as long as the connection lives.
            let _permits = (connection, share);
            let Ok(upgraded) = upgrading.await else {
                return;
            };
            // The plain stream again: no boxed indirection, no leftover HTTP buffers per idle client.
            let Ok(parts) = upgraded.downcast::<TokioIo<S>>() else {
                return;
            };
            let limits = host.limits();
            let (source, sink) = websocket::accept(parts.io.into_inner(), parts.read_buf.to_vec(), &limits).await;
            connection::serve(host, source, sink, principal).await;
        });
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        if let Ok(accept) = HeaderValue::from_str(&accept) {
            headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        }
        Ok(response)
    }

    fn principal(&self, request: &Request<Incoming>, peer: Peer) -> Result<Principal, Refused> {
        let ip = match peer {
            Peer::User(uid) if !self.access.needs_token() => {
                return Ok(Principal::new(&format!("uid:{uid}"), Scope::Admin));
            }
            Peer::User(_) => None,
            Peer::Address(ip) => Some(ip),
        };
        let authorization = text(request.headers(), &AUTHORIZATION);
        let most = self.host.limits().failed_tokens_per_minute;
        Ok(self
            .access
            .authenticate(ip, authorization, request.uri().query(), most)?)
    }

    fn share_of(&self, principal: &Principal) -> Result<OwnedSemaphorePermit, Refused> {
        let most = self.host.limits().connections_per_principal;
        let mut shares = self.per_principal.lock();
        let share = shares
            .entry(Arc::clone(&principal.name))
            .or_insert_with(|| Arc::new(Semaphore::new(most)));
        Arc::clone(share).try_acquire_owned().map_err(|_| Refused::Busy)
    }
}

/// A connection's place among all, and among those without a credential.
type Permits = (OwnedSemaphorePermit, OwnedSemaphorePermit);

const BUSY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\nretry-after: 1\r\n\r\n";

/// Says that the host is busy, and reads what the peer sends until it has read that: closing a
/// socket with unread input makes the system discard what was just written.
async fn turn_away(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    stream.write_all(BUSY).await?;
    stream.shutdown().await?;
    let mut unwanted = [0; 1024];
    while stream.read(&mut unwanted).await? > 0 {}
    Ok(())
}

/// Why a request is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refused {
    Denied(Denied),
    Method,
    Path,
    NotAnUpgrade,
    WebSocketVersion,
    Busy,
}

impl From<Denied> for Refused {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied)
    }
}

impl Refused {
    fn response(self) -> Response<Full<Bytes>> {
        match self {
            Self::Denied(Denied::NoHost) => plain(StatusCode::BAD_REQUEST, "the Host header is missing\n"),
            Self::Denied(Denied::WrongHost) => plain(
                StatusCode::MISDIRECTED_REQUEST,
                "this host does not answer to that name\n",
            ),
            Self::Denied(Denied::Origin) => plain(
                StatusCode::FORBIDDEN,
                "requests of web pages are not accepted from this origin\n",
            ),
            Self::Denied(Denied::Token) => plain(StatusCode::UNAUTHORIZED, ""),
            Self::Denied(Denied::TooMany) => plain(StatusCode::TOO_MANY_REQUESTS, ""),
            Self::Method => plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is accepted\n"),
            Self::Path => plain(StatusCode::NOT_FOUND, "not found\n"),
            Self::NotAnUpgrade => {
                let mut response = plain(
                    StatusCode::UPGRADE_REQUIRED,
                    "this is an AHP host: connect with a WebSocket\n",
                );
                response
                    .headers_mut()
                    .insert(UPGRADE, HeaderValue::from_static("websocket"));
                response
            }
            Self::WebSocketVersion => {
                let mut response = plain(
                    StatusCode::BAD_REQUEST,
                    "only version 13 of the WebSocket protocol is spoken\n",
                );
                response
                    .headers_mut()
                    .insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
                response
            }
            Self::Busy => plain(StatusCode::SERVICE_UNAVAILABLE, "too many connections\n"),
        }
    }
}

fn plain(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert("content-type", HeaderValue::from_static("text/plain; charset=utf-8"));
    // One request per connection: a socket without a credential is not kept open.
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    headers.insert("cache-control", HeaderValue::from_static("no-store"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

fn json(body: String) -> Response<Full<Bytes>> {
    let mut response = plain(StatusCode::OK, "");
    *response.body_mut() = Full::new(body.into());
    response
        .headers_mut()
        .insert("content-type", HeaderValue::from_static("application/json"));
    response
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    // An unreadable header is as good as a wrong one, never as good as none.
    headers.get(name).map(|value| value.to_str().unwrap_or("\u{fffd}"))
}

fn lists(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    let values = headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .any(|item| item.trim().eq_ignore_ascii_case(wanted))
}

//! The HTTP side: health, version, and the WebSocket upgrade, behind the access checks.
//!
//! Built on hyper directly rather than on a framework: the limits on the request head, its time,
//! and the number of sockets that have not shown a credential are ours to keep.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
use crate::net::access::{Access, Denied, RequestOrigin};
use crate::net::connection;
use crate::net::transport::websocket;
use crate::net::web::{self, Device, WebApp};

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

impl Peer {
    fn address(self) -> Option<IpAddr> {
        match self {
            Self::Address(ip) => Some(ip),
            Self::User(_) => None,
        }
    }
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
/// How long a slow network may take to read a file of the web app.
const FILE_TIME: Duration = Duration::from_secs(60);
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
                    let socket = SocketState {
                        permits: Mutex::new(Some((connection, unauthenticated))),
                        sends_file: AtomicBool::new(false),
                    };
                    self.serve(stream, peer, Arc::new(socket)).await;
                }
                (None, _) | (_, None) => {
                    let _ = tokio::time::timeout(ADMISSION_TIME, turn_away(stream)).await;
                }
            }
        });
    }

    async fn serve<S>(self: Arc<Self>, stream: S, peer: Peer, socket: Arc<SocketState>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let limits = self.host.limits();
        let stopping = self.host.stopping().clone();
        let answered = Arc::clone(&socket);
        let service = service_fn(move |request| {
            let state = Arc::clone(&self);
            let socket = Arc::clone(&answered);
            async move { Ok::<_, Infallible>(state.answer::<S>(request, peer, &socket).await) }
        });
        let serving = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.handshake_time)
            .max_buf_size(limits.http_head_bytes.max(8192))
            .max_headers(limits.http_headers)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let mut serving = std::pin::pin!(serving);
        let in_time = async {
            // An upgraded connection has a task of its own by then.
            let handshake = tokio::time::timeout(limits.handshake_time + ADMISSION_TIME, &mut serving);
            if handshake.await.is_err() && socket.sends_file.load(Ordering::Relaxed) {
                let _ = tokio::time::timeout(FILE_TIME, &mut serving).await;
            }
        };
        tokio::select! {
            () = in_time => {}
            () = stopping.cancelled() => {}
        }
    }

    async fn answer<S>(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: Peer,
        socket: &SocketState,
    ) -> Response<Full<Bytes>>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        match self.route::<S>(request, peer, socket).await {
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
        socket: &SocketState,
    ) -> Result<Response<Full<Bytes>>, Refused>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let headers = request.headers();
        let host = text(headers, &HOST);
        self.access.check_host(host)?;
        let origin = self.access.check_origin(text(headers, &ORIGIN), host)?;
        let path = request.uri().path();
        match (request.method(), path, self.access.web()) {
            (&Method::POST, "/web/sign-in" | "/web/session" | "/web/sign-out", Some(web)) => {
                let web = web.clone();
                return self.sign_in(request, &web, origin, peer).await;
            }
            (&Method::GET, _, _) => {}
            _ => return Err(Refused::Method),
        }
        match path {
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
            "/" if self.access.web().is_none() || wants_upgrade(headers) => {
                let device = self.device(headers, origin).await;
                self.upgrade::<S>(request, peer, device, socket)
            }
            path => match self.access.web().and_then(|web| web.file(path)) {
                Some(mut file) => {
                    socket.sends_file.store(true, Ordering::Relaxed);
                    file.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                    Ok(file)
                }
                None => Err(Refused::Path),
            },
        }
    }

    /// Signs a browser in or out, or tells it whether it is signed in.
    async fn sign_in(
        &self,
        request: Request<Incoming>,
        web: &WebApp,
        origin: RequestOrigin,
        peer: Peer,
    ) -> Result<Response<Full<Bytes>>, Refused> {
        // A page of another origin cannot read the answer, and must not sign a user in or out either.
        if origin != RequestOrigin::Own {
            return Err(Denied::Origin.into());
        }
        let devices = web.devices();
        let known = self.device(request.headers(), origin).await;
        match (request.uri().path(), known) {
            ("/web/session", Some(device)) => Ok(web.signed_in(device.scope, None)),
            ("/web/session", None) if !self.access.needs_token() => Ok(web.signed_in(Scope::Admin, None)),
            // Not a wrong credential: the page finds out that it has to be opened with a link.
            ("/web/session", None) => Ok(web::answer(StatusCode::UNAUTHORIZED, &serde_json::json!({}))),
            ("/web/sign-out", known) => {
                if let Some(device) = known {
                    blocking(move || devices.sign_out(&device.id)).await;
                }
                Ok(web.signed_out())
            }
            _ => {
                let new = match web::read_code(request).await {
                    Some((code, agent)) => blocking(move || devices.redeem(&code, &agent)).await.flatten(),
                    None => None,
                };
                match new {
                    Some(new) => Ok(web.signed_in(new.device.scope, Some(&new))),
                    None => Err(self
                        .access
                        .failed(peer.address(), self.host.limits().failed_tokens_per_minute)
                        .into()),
                }
            }
        }
    }

    /// Returns the device whose cookie a request of the web app has.
    async fn device(&self, headers: &HeaderMap, origin: RequestOrigin) -> Option<Device> {
        let web = self.access.web().filter(|_| origin == RequestOrigin::Own)?;
        let (secret, devices) = (web.secret(headers)?, web.devices());
        blocking(move || devices.find(&secret)).await.flatten()
    }

    fn upgrade<S>(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        peer: Peer,
        device: Option<Device>,
        socket: &SocketState,
    ) -> Result<Response<Full<Bytes>>, Refused>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let principal = match &device {
            Some(device) => Principal::new(&format!("device:{}", device.id), device.scope),
            None => self.principal(&request, peer)?,
        };
        let headers = request.headers();
        if !wants_upgrade(headers) {
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
        let permits = socket.permits.lock().take();
        let Some((connection, unauthenticated)) = permits else {
            return Err(Refused::NotAnUpgrade);
        };
        drop(unauthenticated);
        let host = self.host.clone();
        let devices = self.access.web().map(WebApp::devices);
        let upgrading = hyper::upgrade::on(&mut request);
        self.host.tasks().spawn(async move {
            // Held for as long as the connection lives.
            let _permits = (connection, share);
            let Ok(upgraded) = upgrading.await else {
                // The client left before the upgrade.
                return;
            };
            // The plain stream again: no boxed indirection, no leftover HTTP buffers per idle client.
            let Ok(parts) = upgraded.downcast::<TokioIo<S>>() else {
                return;
            };
            let limits = host.limits();
            let (source, sink) = websocket::accept(parts.io.into_inner(), parts.read_buf.to_vec(), &limits).await;
            let revoked = async {
                match (device, devices) {
                    (Some(device), Some(devices)) => revoked(device.id, devices).await,
                    _ => std::future::pending().await,
                }
            };
            connection::serve_until(host, source, sink, principal, revoked).await;
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
        if let Peer::User(uid) = peer
            && !self.access.needs_token()
        {
            return Ok(Principal::new(&format!("uid:{uid}"), Scope::Admin));
        }
        let ip = peer.address();
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

/// The state of one socket before it is upgraded.
struct SocketState {
    permits: Mutex<Option<Permits>>,
    /// Whether it reads a file of the web app, for which a slow network may take its time.
    sends_file: AtomicBool,
}

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

/// How often the host looks whether a connected device may still be connected.
const REVOCATION_INTERVAL: Duration = Duration::from_secs(1);

/// Returns once a device was revoked or has expired.
async fn revoked(id: String, devices: Arc<dyn web::Devices>) {
    loop {
        tokio::time::sleep(REVOCATION_INTERVAL).await;
        let (id, devices) = (id.clone(), Arc::clone(&devices));
        if blocking(move || devices.is_valid(&id)).await != Some(true) {
            return;
        }
    }
}

/// Runs a call that may read or write files. Returns none if it panics, which would be a bug.
async fn blocking<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(call).await.ok()
}

fn wants_upgrade(headers: &HeaderMap) -> bool {
    lists(headers, &CONNECTION, "upgrade") && lists(headers, &UPGRADE, "websocket")
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
            Self::Method => plain(StatusCode::METHOD_NOT_ALLOWED, "this method is not accepted here\n"),
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

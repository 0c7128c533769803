//! The client side of JSON-RPC: ids, the requests that wait for their answer, and cancellation.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use innkeeper_std::sync::{Mutex, MutexGuard};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::failure::HttpFailure;
use super::http::StreamableHttp;
use super::message::{Outgoing, RequestId, RpcError};
use super::sse::SseTransport;
use super::stdio::StdioTransport;
use crate::engine::tools::Tool;

/// The first protocol revision without the `initialize` handshake. Each of its requests describes the client itself, and
/// over HTTP a request is cancelled by closing its stream.
pub(crate) const STATELESS_REVISION: &str = "2026-07-28";

type RawOutcome = Result<String, RpcError>;

/// Why a request failed.
#[derive(Clone, Debug)]
pub(crate) enum RequestFailure {
    /// The server answered with an error.
    Refused(RpcError),
    /// It could not be sent over HTTP.
    Http(HttpFailure),
    /// The HTTP stream with its answer ended before the answer came.
    BrokenOff,
    /// The connection has ended.
    Closed,
}

/// One of the transports.
#[derive(Debug)]
pub(crate) enum Transport {
    Stdio(StdioTransport),
    Sse(Box<SseTransport>),
    // Boxed: a transport over HTTP is much larger than pipes.
    Http(Box<StreamableHttp>),
}

impl Transport {
    /// Sends a message. Pipes take it in the order of the calls of this function; over HTTP the future also reads the
    /// answer, and dropping it closes the HTTP request.
    fn send(&self, message: Outgoing) -> BoxFuture<'static, Result<(), RequestFailure>> {
        match self {
            Self::Stdio(stdio) => Box::pin(stdio.send(message)),
            Self::Sse(sse) => Box::pin(sse.send(message)),
            Self::Http(http) => Box::pin(StreamableHttp::clone(http).send(message)),
        }
    }
}

/// Our end of a connection, as far as JSON-RPC goes.
#[derive(Debug)]
pub(crate) struct Peer {
    transport: Transport,
    next_id: AtomicI64,
    waiting: Mutex<HashMap<i64, oneshot::Sender<RawOutcome>>>,
    is_closed: AtomicBool,
    /// The protocol revision, once the server has introduced itself.
    version: OnceLock<Arc<str>>,
    /// The members of `_meta` that describe the client in every request of newer revisions.
    context: OnceLock<Map<String, Value>>,
}

impl Peer {
    pub(crate) fn new(transport: Transport) -> Arc<Self> {
        Arc::new(Self {
            transport,
            next_id: AtomicI64::new(0),
            waiting: Mutex::default(),
            is_closed: AtomicBool::new(false),
            version: OnceLock::new(),
            context: OnceLock::new(),
        })
    }

    /// Sets the protocol revision that the handshake found, and what newer revisions are told with every request.
    pub(crate) fn introduced(&self, version: &str, context: Option<Map<String, Value>>) {
        // There is one handshake per connection.
        let _ = self.version.set(version.into());
        if let Some(context) = context {
            let _ = self.context.set(context);
        }
    }

    /// Opens the stream of messages that belong to no request, where the transport has one.
    pub(crate) fn listen(&self) {
        if let Transport::Http(http) = &self.transport {
            http.listen(self.version.get().cloned());
        }
    }

    /// Remembers the tools whose arguments are sent as HTTP headers as well.
    pub(crate) fn note_tools(&self, tools: &mut Vec<Tool>) {
        if let Transport::Http(http) = &self.transport
            && !self.has_handshake()
        {
            http.note_tools(tools);
        }
    }

    /// Begins a request. It is sent, and its answer received, while [`InFlight::answer`] is awaited.
    pub(crate) fn request(
        self: &Arc<Self>,
        method: &str,
        mut params: Map<String, Value>,
        exact_arguments: Option<&RawValue>,
    ) -> InFlight {
        let id = self.next_id();
        let mut meta = match params.shift_remove("_meta") {
            Some(Value::Object(meta)) => meta,
            _ => Map::new(),
        };
        meta.extend(
            self.context
                .get()
                .into_iter()
                .flatten()
                .map(|(name, value)| (name.clone(), value.clone())),
        );
        meta.insert("progressToken".to_owned(), id.into());
        params.insert("_meta".to_owned(), Value::Object(meta));
        let message = Outgoing::request(id, method, params, exact_arguments, self.version.get().cloned());
        self.begin(id, message, CancelMode::Notify)
    }

    /// Begins a request of the handshake, which is never cancelled.
    pub(crate) fn handshake_request(
        self: &Arc<Self>,
        method: &str,
        params: Map<String, Value>,
        version: Option<&str>,
    ) -> InFlight {
        let id = self.next_id();
        let message = Outgoing::request(id, method, params, None, version.map(Arc::from));
        self.begin(id, message, CancelMode::Never)
    }

    fn begin(self: &Arc<Self>, id: i64, message: Outgoing, cancel: CancelMode) -> InFlight {
        let (sender, answer) = oneshot::channel();
        if !self.is_closed.load(Ordering::Acquire) {
            self.lock().insert(id, sender);
        }
        InFlight {
            id,
            sending: Some(self.transport.send(message)),
            answer: Some(answer),
            cancel,
            peer: Arc::clone(self),
        }
    }

    fn next_id(&self) -> i64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn notify(
        &self,
        method: &str,
        params: Option<&Map<String, Value>>,
    ) -> impl Future<Output = Result<(), RequestFailure>> + use<> {
        let message = Outgoing::notification(method, params, self.version.get().cloned());
        self.transport.send(message)
    }

    /// Answers a request of the server.
    pub(crate) async fn respond(&self, id: &RequestId, answer: &Result<Value, RpcError>) {
        let message = Outgoing::answer(id, answer, self.version.get().cloned());
        // A server that cannot be reached is noticed elsewhere.
        let _ = self.transport.send(message).await;
    }

    /// Hands an answer to the request that waits for it. An error without an id belongs to the only request that waits.
    pub(crate) fn answered(&self, id: Option<i64>, answer: RawOutcome) {
        let mut waiting = self.lock();
        let id = match id {
            Some(id) => Some(id),
            None if waiting.len() == 1 => waiting.keys().next().copied(),
            None => None,
        };
        if let Some(sender) = id.and_then(|id| waiting.remove(&id)) {
            drop(waiting);
            let _ = sender.send(answer);
        }
    }

    /// Returns true if a request waits for its answer.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.lock().is_empty()
    }

    /// Returns true if the server speaks a revision with the `initialize` handshake.
    pub(crate) fn has_handshake(&self) -> bool {
        self.version.get().is_none_or(|version| &**version < STATELESS_REVISION)
    }

    /// Fails all requests that wait: nothing is received any more.
    pub(crate) fn closed(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.lock().clear();
    }

    /// Ends the session of the server, if it has one.
    pub(crate) async fn end_session(&self) {
        if let Transport::Http(http) = &self.transport {
            http.end_session().await;
        }
    }

    fn cancels_by_closing(&self) -> bool {
        matches!(self.transport, Transport::Http(_)) && !self.has_handshake()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, oneshot::Sender<RawOutcome>>> {
        self.waiting.lock()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CancelMode {
    /// The server is told with a notification.
    Notify,
    Never,
}

/// A request that has not been answered. Dropped before its answer, the server is told to stop.
pub(crate) struct InFlight {
    id: i64,
    sending: Option<BoxFuture<'static, Result<(), RequestFailure>>>,
    answer: Option<oneshot::Receiver<RawOutcome>>,
    cancel: CancelMode,
    peer: Arc<Peer>,
}

impl InFlight {
    pub(crate) fn id(&self) -> i64 {
        self.id
    }

    /// Waits for the text of the result. It may be dropped and called again before it returns; after that, the request
    /// is over.
    pub(crate) async fn answer(&mut self) -> Result<String, RequestFailure> {
        loop {
            let Some(answer) = &mut self.answer else {
                return Err(RequestFailure::Closed);
            };
            let sent = match &mut self.sending {
                Some(sending) => tokio::select! {
                    biased;
                    answered = answer => return self.finish(answered),
                    sent = sending => sent,
                },
                None => {
                    let answered = answer.await;
                    return self.finish(answered);
                }
            };
            self.sending = None;
            if let Err(failure) = sent {
                self.answer = None;
                return Err(failure);
            }
        }
    }

    fn finish(&mut self, answered: Result<RawOutcome, oneshot::error::RecvError>) -> Result<String, RequestFailure> {
        self.answer = None;
        match answered {
            Ok(answer) => answer.map_err(RequestFailure::Refused),
            Err(_) => Err(RequestFailure::Closed),
        }
    }

    /// Gives the request up, and tells the server why.
    pub(crate) fn cancel(&mut self, reason: &str) {
        if self.answer.take().is_none() {
            return;
        }
        self.peer.lock().remove(&self.id);
        self.sending = None;
        if self.cancel == CancelMode::Never || self.peer.cancels_by_closing() {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let params = json!({ "requestId": self.id, "reason": reason });
            let telling = self.peer.notify("notifications/cancelled", params.as_object());
            runtime.spawn(async move {
                let _ = telling.await;
            });
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.cancel("the request was dropped");
        self.peer.lock().remove(&self.id);
    }
}

impl fmt::Debug for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlight").field("id", &self.id).finish_non_exhaustive()
    }
}

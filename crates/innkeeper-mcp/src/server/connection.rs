//! A connection to a server that has introduced itself, and one request over it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rmcp::model::{
    ClientNotification, ClientRequest, CustomNotification, CustomRequest, MetaObject, RequestMetaObject,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, RoleClient, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::calls::{CallContext, CallGuard, Calls};
use crate::error::Error;
use crate::secret::Scrubber;
use crate::state::ServerInfo;
use crate::wire::{self, Challenged, ExactArguments, HttpFailure, NOT_UNDERSTOOD, Process, TOO_LARGE};

/// How long an answer that was under way is awaited after the connection has ended.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// How much of what a process wrote stands in an error.
const SHOWN_STDERR: usize = 2 << 10;

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) server: String,
    pub(crate) info: ServerInfo,
    pub(crate) peer: Peer<RoleClient>,
    /// Cancelled when it has ended, and to end it.
    pub(crate) closed: CancellationToken,
    pub(crate) calls: Calls,
    pub(crate) process: Option<Arc<Process>>,
    pub(crate) scrubber: Arc<Scrubber>,
    /// Told when the server may be gone. Of a process that is known without.
    pub(crate) doubts: Arc<Notify>,
    /// Why the server is taken for gone.
    pub(crate) gone: OnceLock<String>,
}

/// A request to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) params: Map<String, Value>,
    /// The `arguments` among them as they were written, if they may have lost digits.
    pub(crate) exact_arguments: Option<Arc<RawValue>>,
    /// Without a sign of life.
    pub(crate) time: Duration,
    /// In all.
    pub(crate) time_max: Duration,
    pub(crate) cancel: CancellationToken,
    pub(crate) call: Option<CallContext>,
    /// Whether an App in a client wants it. No turn waits with it, so that it waits for nobody.
    pub(crate) is_of_app: bool,
}

/// Why one attempt failed.
#[derive(Debug)]
pub(crate) enum Failed {
    /// Somebody has to sign in; then it can be tried again.
    Challenged(Box<Challenged>),
    /// Anything else.
    Final(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

impl Connection {
    /// Sends a request and waits for the text of its result.
    pub(crate) async fn request(&self, request: &Request) -> Result<String, Failed> {
        let mut params = request.params.clone();
        let mut options = PeerRequestOptions::no_options();
        if let Some(Value::Object(meta)) = params.shift_remove("_meta") {
            options = options.with_meta(RequestMetaObject(MetaObject(meta)));
        }
        let mut custom = CustomRequest::new(request.method.clone(), Some(Value::Object(params)));
        if let Some(exact) = &request.exact_arguments {
            custom.extensions.insert(ExactArguments(Arc::clone(exact)));
        }
        let sending = self
            .peer
            .send_request_with_option(ClientRequest::CustomRequest(custom), options);
        let handle = tokio::select! {
            biased;
            () = request.cancel.cancelled() => return Err(Error::Cancelled.into()),
            handle = sending => handle,
            () = self.closed.cancelled() => return Err(self.ended().await.into()),
        };
        let handle = match handle {
            Ok(handle) => handle,
            Err(error) => return Err(self.explain(error).await),
        };
        self.wait(Sent(Some(handle)), request).await
    }

    async fn wait(&self, mut sent: Sent, request: &Request) -> Result<String, Failed> {
        let Some(handle) = &mut sent.0 else {
            return Err(Error::Cancelled.into());
        };
        let call = request.call.as_ref();
        let guard = call.map(|call| self.calls.add(&handle.id, &handle.progress_token, call));
        let alive = guard.as_ref().map(|guard| guard.alive.clone()).unwrap_or_default();
        let end = Instant::now() + request.time_max;
        let mut idle_end = Instant::now() + request.time;
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut handle.rx => break answer.ok(),
                () = request.cancel.cancelled() => {
                    sent.cancel("cancelled");
                    return Err(Error::Cancelled.into());
                }
                () = alive.notified() => idle_end = Instant::now() + request.time,
                () = tokio::time::sleep_until(idle_end.min(end)) => {
                    if guard.as_ref().is_some_and(CallGuard::is_asked) && Instant::now() < end {
                        idle_end = Instant::now() + request.time;
                        continue;
                    }
                    sent.cancel("time over");
                    // Behind an address, one that is gone may look like one that takes its time.
                    self.doubts.notify_one();
                    let time = if idle_end < end { request.time } else { request.time_max };
                    return Err(Error::TimeOver { server: self.server.clone(), time }.into());
                }
                () = self.closed.cancelled() => {
                    // An answer may have come just before the end.
                    let last = tokio::time::timeout(LAST_WORDS, &mut handle.rx).await;
                    break last.ok().and_then(Result::ok);
                }
            }
        };
        sent.0 = None;
        match answer {
            Some(Ok(result)) => wire::unwrap(result).map_err(|error| {
                Failed::Final(Error::NotUnderstood {
                    server: self.server.clone(),
                    why: error.to_string(),
                })
            }),
            Some(Err(error)) => Err(self.explain(error).await),
            None => Err(self.ended().await.into()),
        }
    }

    /// Sends a notification; nobody waits for it to arrive.
    pub(crate) async fn notify(&self, method: &str, params: Option<Value>) -> Result<(), Error> {
        let notification = CustomNotification::new(method, params);
        let sending = self
            .peer
            .send_notification(ClientNotification::CustomNotification(notification));
        match sending.await {
            Ok(()) => Ok(()),
            Err(error) => match self.explain(error).await {
                Failed::Final(error) => Err(error),
                Failed::Challenged(_) => Err(self.unreachable("signing in is needed")),
            },
        }
    }

    /// What is known about its end.
    pub(crate) async fn why(&self) -> String {
        match (&self.process, self.gone.get()) {
            (Some(process), _) => why_ended(process, &self.scrubber).await,
            (None, Some(gone)) => gone.clone(),
            (None, None) => "the connection to it broke".to_owned(),
        }
    }

    async fn ended(&self) -> Error {
        Error::Ended {
            server: self.server.clone(),
            why: self.why().await,
        }
    }

    fn unreachable(&self, why: &str) -> Error {
        Error::Unreachable {
            server: self.server.clone(),
            why: self.scrubber.scrub(why),
        }
    }

    async fn explain(&self, error: ServiceError) -> Failed {
        match error {
            ServiceError::McpError(error) if error.code.0 == TOO_LARGE => Failed::Final(self.too_large()),
            ServiceError::McpError(error) if error.code.0 == NOT_UNDERSTOOD => Failed::Final(Error::NotUnderstood {
                server: self.server.clone(),
                why: self.scrubber.scrub(&error.message),
            }),
            ServiceError::McpError(error) => Failed::Final(Error::Refused {
                server: self.server.clone(),
                code: error.code.0.into(),
                message: self.scrubber.scrub(&error.message),
                data: error.data,
            }),
            ServiceError::TransportSend(error) => match http_failure(&error) {
                Some(HttpFailure::Challenged(challenged)) => Failed::Challenged(challenged.clone()),
                Some(HttpFailure::TooLarge) => Failed::Final(self.too_large()),
                Some(failure) => {
                    if matches!(failure, HttpFailure::Connection(_)) {
                        self.doubts.notify_one();
                    }
                    Failed::Final(self.unreachable(&failure.to_string()))
                }
                None if self.process.is_some() => Failed::Final(self.ended().await),
                None => Failed::Final(self.unreachable(&error.error.to_string())),
            },
            ServiceError::Cancelled { .. } => Failed::Final(Error::Cancelled),
            ServiceError::TransportClosed if !self.closed.is_cancelled() && self.process.is_none() => {
                self.doubts.notify_one();
                Failed::Final(self.unreachable("its answer broke off"))
            }
            ServiceError::TransportClosed => Failed::Final(self.ended().await),
            other => Failed::Final(Error::NotUnderstood {
                server: self.server.clone(),
                why: self.scrubber.scrub(&other.to_string()),
            }),
        }
    }

    fn too_large(&self) -> Error {
        Error::TooLarge {
            server: self.server.clone(),
        }
    }
}

/// A request that was sent. Dropped before its answer, the server is told to stop.
struct Sent(Option<RequestHandle<RoleClient>>);

impl Sent {
    fn cancel(&mut self, why: &str) {
        if let Some(handle) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let why = why.to_owned();
            runtime.spawn(async move { handle.cancel(Some(why)).await });
        }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.cancel("nobody waits for it");
    }
}

/// The failure of HTTP in an error of a transport, if there is one.
pub(crate) fn http_failure(error: &DynamicTransportError) -> Option<&HttpFailure> {
    let error = error.error.as_ref();
    match error.downcast_ref::<StreamableHttpError<HttpFailure>>() {
        Some(StreamableHttpError::Client(failure)) => Some(failure),
        Some(_) => None,
        None => error.downcast_ref::<HttpFailure>(),
    }
}

/// How a process ended, and what it wrote last.
pub(crate) async fn why_ended(process: &Process, scrubber: &Scrubber) -> String {
    let how = tokio::time::timeout(Duration::from_secs(1), process.ended()).await;
    let how = how.unwrap_or_else(|_| "it closed its output".to_owned());
    let last = scrubber.scrub(&process.last_lines());
    let start = last.ceil_char_boundary(last.len().saturating_sub(SHOWN_STDERR));
    match last.get(start..).map(str::trim).filter(|last| !last.is_empty()) {
        Some(last) => format!("{how}. It last wrote:\n{last}"),
        None => how,
    }
}

//! A connection to a server that has introduced itself, and one request over it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::calls::{CallContext, CallGuard, Calls};
use crate::engine::error::Error;
use crate::engine::secret::Scrubber;
use crate::engine::state::ServerInfo;
use crate::engine::wire::{
    Challenged, HttpFailure, InFlight, NOT_UNDERSTOOD, Peer, Process, RequestFailure, TOO_LARGE,
};

/// The time that an answer is awaited after the connection has ended.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// The longest part of the standard error in an error message.
const SHOWN_STDERR: usize = 2 << 10;

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) server: String,
    pub(crate) info: ServerInfo,
    pub(crate) peer: Arc<Peer>,
    /// Cancelled when the connection has ended, and to end it.
    pub(crate) closed: CancellationToken,
    pub(crate) calls: Calls,
    pub(crate) process: Option<Arc<Process>>,
    pub(crate) scrubber: Arc<Scrubber>,
    /// Notified when the server may be gone. Processes do not need it.
    pub(crate) presence_doubts: Arc<Notify>,
    /// Why the server is considered gone.
    pub(crate) gone: OnceLock<String>,
}

/// A request to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) params: Map<String, Value>,
    /// The `arguments` as the caller wrote them, if the parameters may have lost digits.
    pub(crate) exact_arguments: Option<Arc<RawValue>>,
    /// The timeout without progress.
    pub(crate) time: Duration,
    /// The timeout for the whole request.
    pub(crate) time_max: Duration,
    pub(crate) cancel: CancellationToken,
    pub(crate) call: Option<CallContext>,
    /// True for requests of Apps. No turn waits with them, so they do not wait for users.
    pub(crate) is_of_app: bool,
}

/// Why one attempt failed.
#[derive(Debug)]
pub(crate) enum AttemptFailure {
    /// A sign-in is needed; then the request can be sent again.
    Challenged(Box<Challenged>),
    /// Any other failure.
    Final(Error),
}

impl From<Error> for AttemptFailure {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

impl Connection {
    /// Sends a request and waits for the text of its result.
    pub(crate) async fn request(&self, request: &Request) -> Result<String, AttemptFailure> {
        let exact_arguments = request.exact_arguments.as_deref();
        let sent = self
            .peer
            .request(&request.method, request.params.clone(), exact_arguments);
        self.wait(sent, request).await
    }

    async fn wait(&self, mut sent: InFlight, request: &Request) -> Result<String, AttemptFailure> {
        let call = request.call.as_ref();
        let guard = call.map(|call| self.calls.add(sent.id(), call));
        let alive = guard.as_ref().map(|guard| guard.alive.clone()).unwrap_or_default();
        let end = Instant::now() + request.time_max;
        let mut idle_end = Instant::now() + request.time;
        let answer = loop {
            tokio::select! {
                biased;
                answer = sent.answer() => break answer,
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
                    // Behind an address, a server that is gone may look like a slow one.
                    self.presence_doubts.notify_one();
                    let time = if idle_end < end { request.time } else { request.time_max };
                    return Err(Error::TimeOver { server: self.server.clone(), time }.into());
                }
                () = self.closed.cancelled() => {
                    // An answer may have come just before the end.
                    let last = tokio::time::timeout(LAST_WORDS, sent.answer()).await;
                    break last.unwrap_or(Err(RequestFailure::Closed));
                }
            }
        };
        match answer {
            Ok(result) => Ok(result),
            Err(failure) => Err(self.explain(failure).await),
        }
    }

    /// Sends a notification.
    pub(crate) async fn notify(&self, method: &str, params: Option<Map<String, Value>>) -> Result<(), Error> {
        let Err(failure) = self.peer.notify(method, params.as_ref()).await else {
            return Ok(());
        };
        match self.explain(failure).await {
            AttemptFailure::Final(error) => Err(error),
            AttemptFailure::Challenged(_) => Err(self.unreachable("signing in is needed")),
        }
    }

    /// Describes the end of the connection.
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

    async fn explain(&self, failure: RequestFailure) -> AttemptFailure {
        match failure {
            RequestFailure::Refused(error) if error.code == TOO_LARGE => AttemptFailure::Final(self.too_large()),
            RequestFailure::Refused(error) if error.code == NOT_UNDERSTOOD => {
                AttemptFailure::Final(Error::NotUnderstood {
                    server: self.server.clone(),
                    why: self.scrubber.scrub(&error.message),
                })
            }
            RequestFailure::Refused(error) => AttemptFailure::Final(Error::Refused {
                server: self.server.clone(),
                code: error.code,
                message: self.scrubber.scrub(&error.message),
                data: error.data,
            }),
            RequestFailure::Http(HttpFailure::Challenged(challenged)) => AttemptFailure::Challenged(challenged),
            RequestFailure::Http(HttpFailure::TooLarge) => AttemptFailure::Final(self.too_large()),
            RequestFailure::Http(failure) => {
                if matches!(failure, HttpFailure::Connection(_)) {
                    self.presence_doubts.notify_one();
                }
                AttemptFailure::Final(self.unreachable(&failure.to_string()))
            }
            RequestFailure::BrokenOff => {
                self.presence_doubts.notify_one();
                AttemptFailure::Final(self.unreachable("its answer broke off"))
            }
            RequestFailure::Closed => AttemptFailure::Final(self.ended().await),
        }
    }

    fn too_large(&self) -> Error {
        Error::TooLarge {
            server: self.server.clone(),
        }
    }
}

/// Describes how a process ended, with its last output.
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

//! A host as embedders see it: built, reached through handles, shut down.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use innkeeper_core::{ClientId, ConnId, Principal};
use innkeeper_std::sync::Mutex;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::limits::Limits;
use crate::main_loop::Message;
use crate::main_loop::message::ConnectionMessage;
use crate::net::dialect::Edge;
use crate::net::outbox::Outbox;
use crate::net::reverse_requests::{ClientRequestError, ReverseMethod};
use crate::services::completions::Files;
use crate::services::journal::JournalError;
use crate::services::resources::{Content, client_files};

mod builder;
mod catalogue;

pub use builder::HostBuilder;
use catalogue::Catalogue;

/// A running host. [`Host::shutdown`] stops it; merely dropping it leaves it running for as long as
/// a handle, a listener or a chat is alive.
#[derive(Debug)]
pub struct Host {
    handle: HostHandle,
}

/// A cheap way to reach a running host.
#[derive(Clone)]
pub struct HostHandle {
    inbox: mpsc::Sender<Message>,
    limits: Arc<Limits>,
    tasks: TaskTracker,
    ready: Arc<AtomicBool>,
    /// Why it does not take work although it runs.
    problem: Arc<Mutex<Option<String>>>,
    /// Ends what is not a connection yet when the host goes down.
    stopping: CancellationToken,
    version: Arc<str>,
    catalogue: Arc<Catalogue>,
    files: Arc<dyn Files>,
}

impl fmt::Debug for HostHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostHandle").finish_non_exhaustive()
    }
}

/// Why a host could not start.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Nothing could ever be created.
    #[error("the host has no agents; add at least one")]
    NoAgents,
    /// Clients could not tell them apart.
    #[error("two agents have the provider id {0:?}; every agent needs its own")]
    DuplicateAgent(String),
    /// The journal could not be opened.
    #[error("the journal cannot be opened: {0}")]
    Journal(#[from] JournalError),
}
impl Host {
    /// Starts to describe a host.
    pub fn builder() -> HostBuilder {
        HostBuilder::new()
    }

    /// A handle for transports and embedders.
    pub fn handle(&self) -> HostHandle {
        self.handle.clone()
    }

    /// Cancels turns, flushes the journal, closes every connection with 1001 and waits for it all,
    /// but not longer than `deadline`.
    pub async fn shutdown(self, deadline: Duration) {
        self.handle.ready.store(false, Ordering::Release);
        self.handle.stopping.cancel();
        let (done, finished) = oneshot::channel();
        let stop = async {
            if self.handle.inbox.send(Message::ShutDown { done }).await.is_ok() {
                let _ = finished.await;
            }
            self.handle.tasks.close();
            self.handle.tasks.wait().await;
        };
        if tokio::time::timeout(deadline, stop).await.is_err() {
            tracing::warn!("some tasks did not end in time");
        }
    }
}
impl HostHandle {
    /// Asks a client something, through its newest connection (TRN-18, TRN-19).
    ///
    /// The root channel is added to `params`.
    pub async fn request_client(
        &self,
        client: &ClientId,
        method: ReverseMethod,
        params: Map<String, Value>,
    ) -> Result<Value, ClientRequestError> {
        let (reply, answer) = oneshot::channel();
        let ask = ConnectionMessage::RequestClient {
            client: client.clone(),
            method,
            params,
            reply,
        };
        if self.inbox.send(ask.into()).await.is_err() {
            return Err(ClientRequestError::Disconnected);
        }
        match tokio::time::timeout(self.limits.reverse_request_time, answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(ClientRequestError::Disconnected),
            Err(_) => Err(ClientRequestError::TimedOut),
        }
    }

    /// Reads a URI that only a client can, such as one that it published itself (RES-19).
    pub async fn read_from_client(&self, client: &ClientId, uri: &str) -> Result<Content, ClientRequestError> {
        let reading = client_files::read(&self.inbox, client, uri, self.limits.resource_bytes);
        match tokio::time::timeout(self.limits.reverse_request_time, reading).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ClientRequestError::TimedOut),
        }
    }

    /// Completes when the host has ended, by [`Host::shutdown`] or because it failed.
    pub async fn ended(&self) {
        self.inbox.closed().await;
    }

    /// Whether the host takes work.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire) && !self.inbox.is_closed()
    }

    /// Returns the reason why a running host accepts no work, as a sentence for users.
    pub fn problem(&self) -> Option<String> {
        self.problem.lock().clone()
    }

    /// The version the host introduces itself with.
    pub fn version(&self) -> &str {
        &self.version
    }

    pub(crate) async fn attach(&self, principal: Principal) -> Option<(ConnId, Arc<Outbox>, Arc<Edge>)> {
        let (reply, attached) = oneshot::channel();
        let attach = ConnectionMessage::Attach { principal, reply };
        self.inbox.send(attach.into()).await.ok()?;
        attached.await.ok()
    }

    pub(crate) fn inbox(&self) -> mpsc::Sender<Message> {
        self.inbox.clone()
    }

    pub(crate) fn limits(&self) -> Arc<Limits> {
        Arc::clone(&self.limits)
    }

    pub(crate) fn files(&self) -> Arc<dyn Files> {
        Arc::clone(&self.files)
    }

    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }
}

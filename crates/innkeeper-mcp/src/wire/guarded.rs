//! Between rmcp and any of the transports: requests of the server give their room back when they are answered, and
//! a server that does not answer a question it does not know is not waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::service::RoleClient;
use rmcp::transport::Transport;
use tokio::time::{Instant, sleep_until};

use super::asked::Asked;

/// How long a server has to say whether it can be discovered, which those from before 2026-07-28 cannot. Most of them
/// refuse; some say nothing.
#[derive(Debug)]
pub(crate) struct Discovery {
    time: Duration,
    was_given_up: AtomicBool,
}

impl Discovery {
    pub(crate) fn within(time: Duration) -> Arc<Self> {
        Arc::new(Self {
            time,
            was_given_up: AtomicBool::new(false),
        })
    }

    /// Whether the time was over: the server may be a newer one that was only slow.
    pub(crate) fn was_given_up(&self) -> bool {
        self.was_given_up.load(Ordering::Relaxed)
    }

    pub(super) fn time(&self) -> Duration {
        self.time
    }

    /// What the server is taken to have answered.
    pub(super) fn give_up(&self, request: RequestId) -> ServerJsonRpcMessage {
        self.was_given_up.store(true, Ordering::Relaxed);
        let error = ErrorData::invalid_request("discovery was not answered", None);
        ServerJsonRpcMessage::error(error, Some(request))
    }
}

/// A transport with both.
pub(crate) struct Guarded<T> {
    transport: T,
    asked: Arc<Asked>,
    discovery: Arc<Discovery>,
    /// The discovery that waits for its answer, and until when.
    discovering: Option<(RequestId, Instant)>,
    /// The one that was given up.
    given_up: Option<RequestId>,
    /// The older handshake that waits for its answer.
    initializing: Option<RequestId>,
}

impl<T> Guarded<T> {
    pub(crate) fn new(transport: T, asked: Arc<Asked>, discovery: Arc<Discovery>) -> Self {
        Self {
            transport,
            asked,
            discovery,
            discovering: None,
            given_up: None,
            initializing: None,
        }
    }

    /// What rmcp is to see of a message.
    fn sort(&mut self, message: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        let id = match &message {
            JsonRpcMessage::Response(response) => &response.id,
            JsonRpcMessage::Error(error) => match &error.id {
                Some(id) => id,
                None => return Some(message),
            },
            _ => return Some(message),
        };
        if self.given_up.as_ref() == Some(id) {
            // In the middle of the older handshake rmcp would take it for an answer to that. That it could be
            // discovered says that the older one is of no use.
            let is_newer = matches!(message, JsonRpcMessage::Response(_));
            let initializing = self.initializing.take_if(|_| is_newer)?;
            let error = ErrorData::invalid_request("it can be discovered, and was only slow", None);
            return Some(ServerJsonRpcMessage::error(error, Some(initializing)));
        }
        self.discovering.take_if(|(discovering, _)| discovering == id);
        self.initializing.take_if(|initializing| initializing == id);
        Some(message)
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Guarded<T> {
    type Error = T::Error;

    fn send(&mut self, item: ClientJsonRpcMessage) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        let answered = match &item {
            JsonRpcMessage::Request(request) => {
                match &request.request {
                    ClientRequest::DiscoverRequest(_) => {
                        let until = Instant::now() + self.discovery.time();
                        self.discovering = Some((request.id.clone(), until));
                    }
                    ClientRequest::InitializeRequest(_) => self.initializing = Some(request.id.clone()),
                    _ => {}
                }
                None
            }
            JsonRpcMessage::Response(response) => self.asked.answered(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref().and_then(|id| self.asked.answered(id)),
            JsonRpcMessage::Notification(_) => None,
        };
        // What the server has cancelled is not answered.
        let is_wanted = !answered.as_ref().is_some_and(|open| open.is_cancelled());
        let sending = is_wanted.then(|| self.transport.send(item));
        async move {
            let sent = match sending {
                Some(sending) => sending.await,
                None => Ok(()),
            };
            drop(answered);
            sent
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let message = match &self.discovering {
                None => self.transport.receive().await?,
                Some((id, until)) => tokio::select! {
                    biased;
                    message = self.transport.receive() => message?,
                    () = sleep_until(*until) => {
                        let id = id.clone();
                        self.discovering = None;
                        self.given_up = Some(id.clone());
                        return Some(self.discovery.give_up(id));
                    }
                },
            };
            if let Some(message) = self.sort(message) {
                return Some(message);
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), T::Error>> + Send {
        self.transport.close()
    }
}

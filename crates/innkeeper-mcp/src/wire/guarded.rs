//! Between rmcp and any of the transports: requests of the server give their room back when they are answered, and
//! a server that does not answer a question it does not know is not waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorData, Implementation, InitializeResult,
    JsonRpcMessage, ProtocolVersion, RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::service::RoleClient;
use rmcp::transport::Transport;
use tokio::time::{Instant, sleep_until};

use super::asked::Asked;

/// How long a server has to say whether it can be discovered, which those from before 2026-07-28 cannot. Most of them
/// refuse; some say nothing.
#[derive(Debug)]
pub(crate) struct Discovery {
    time: Duration,
    /// How long its answer still counts, if the server refuses the older handshake meanwhile.
    late: Duration,
    was_given_up: AtomicBool,
}

impl Discovery {
    pub(crate) fn within(time: Duration, late: Duration) -> Arc<Self> {
        Arc::new(Self {
            time,
            late,
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
///
/// When discovery is given up, rmcp begins the older handshake. A server that was only slow answers discovery then: it
/// is taken for the answer to the older handshake, which rmcp takes also from a server of a revision without one. So
/// nothing has to be started again.
pub(crate) struct Guarded<T> {
    transport: T,
    asked: Arc<Asked>,
    discovery: Arc<Discovery>,
    /// The discovery that waits for its answer, and until when.
    discovering: Option<(RequestId, Instant)>,
    /// The one that was given up and has not been answered since.
    given_up: Option<RequestId>,
    /// The older handshake that waits for its answer.
    initializing: Option<RequestId>,
    /// The refusal of the older handshake, held back while discovery may still be answered, and until when.
    refusal: Option<(ServerJsonRpcMessage, Instant)>,
    /// The older handshake whose answer does not count any more.
    superseded: Option<RequestId>,
    /// The server is of a revision that knows no end of a handshake.
    is_discovered_late: bool,
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
            refusal: None,
            superseded: None,
            is_discovered_late: false,
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
        if self.superseded.take_if(|superseded| superseded == id).is_some() {
            return None;
        }
        if self.given_up.take_if(|given_up| given_up == id).is_some() {
            return self.late_answer(message);
        }
        self.discovering.take_if(|(discovering, _)| discovering == id);
        if self.initializing.as_ref() == Some(id) {
            if self.given_up.is_some() && matches!(message, JsonRpcMessage::Error(_)) {
                self.refusal = Some((message, Instant::now() + self.discovery.late));
                return None;
            }
            self.initializing = None;
        }
        Some(message)
    }

    /// Discovery is answered after it was given up. In the middle of the older handshake rmcp would take that for an
    /// answer to the handshake.
    fn late_answer(&mut self, message: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        let refusal = self.refusal.take();
        let JsonRpcMessage::Response(response) = message else {
            // It cannot be discovered: then its word about the older handshake counts.
            self.initializing.take_if(|_| refusal.is_some());
            return refusal.map(|(refusal, _)| refusal);
        };
        let initializing = self.initializing.take()?;
        let Some(introduced) = introduced(response.result) else {
            let error = ErrorData::invalid_request("it can be discovered, and was only slow", None);
            return Some(ServerJsonRpcMessage::error(error, Some(initializing)));
        };
        self.is_discovered_late = true;
        if refusal.is_none() {
            self.superseded = Some(initializing.clone());
        }
        Some(ServerJsonRpcMessage::response(introduced, initializing))
    }

    /// When waiting for something ends.
    fn deadline(&self) -> Option<Instant> {
        let discovering = self.discovering.as_ref().map(|(_, until)| *until);
        let refusal = self.refusal.as_ref().map(|(_, until)| *until);
        discovering.into_iter().chain(refusal).min()
    }

    /// What rmcp sees when the time is over.
    fn time_over(&mut self) -> Option<ServerJsonRpcMessage> {
        if let Some((refusal, _)) = self.refusal.take() {
            self.initializing = None;
            return Some(refusal);
        }
        let (id, _) = self.discovering.take()?;
        self.given_up = Some(id.clone());
        Some(self.discovery.give_up(id))
    }
}

/// The answer to discovery in the words of the older handshake; nothing for a server of a revision that is not known
/// here.
fn introduced(result: ServerResult) -> Option<ServerResult> {
    let ServerResult::DiscoverResult(found) = result else {
        return None;
    };
    let version = ProtocolVersion::V_2026_07_28;
    let is_known = found.supported_versions.contains(&version);
    is_known.then(|| {
        let mut introduced = InitializeResult::new(found.capabilities.clone());
        introduced.server_info = found.server_info().unwrap_or_else(|| Implementation::new("", ""));
        introduced.protocol_version = version;
        introduced.instructions = found.instructions;
        introduced.meta = found.meta;
        ServerResult::InitializeResult(introduced)
    })
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
        // What the server has cancelled is not answered, and one that was discovered knows no end of a handshake.
        let is_end_of_handshake = matches!(&item, JsonRpcMessage::Notification(said)
            if matches!(said.notification, ClientNotification::InitializedNotification(_)));
        let is_cancelled = answered.as_ref().is_some_and(|open| open.is_cancelled());
        let is_unknown = is_end_of_handshake && self.is_discovered_late;
        let is_wanted = !is_cancelled && !is_unknown;
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
            let received = match self.deadline() {
                None => self.transport.receive().await,
                Some(deadline) => tokio::select! {
                    biased;
                    received = self.transport.receive() => received,
                    () = sleep_until(deadline) => match self.time_over() {
                        Some(message) => return Some(message),
                        None => continue,
                    },
                },
            };
            let Some(message) = received else {
                // It is gone, and what it said last counts.
                return self.refusal.take().map(|(refusal, _)| refusal);
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

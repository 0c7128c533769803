//! The client's side of a connection: its capabilities, its answers to requests of the server, and the routing of
//! notifications.

use std::sync::Arc;

use innkeeper_std::text::truncate;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::calls::{AmbiguousCaller, Calls, Progress};
use super::log::HostLog;
use crate::engine::ask::{NoAnswer, QuestionHandler};
use crate::engine::paging::text;
use crate::engine::state::{Event, EventSender, List, LogMessage};
use crate::engine::wire::{InboundRequests, Message, Peer, Received, RequestId, RpcError};

/// The longest log message that is passed on.
const MAX_LOG_BYTES: usize = 16 << 10;
/// The longest method name in an error.
const MAX_METHOD_BYTES: usize = 100;
/// The code for declined requests. MCP has no better one.
const DECLINED: i64 = -1;
const INVALID_PARAMS: i64 = -32602;
const METHOD_NOT_FOUND: i64 = -32601;
const INTERNAL_ERROR: i64 = -32603;

/// The error for a question that could belong to several sessions.
const AMBIGUOUS_CALLER: &str = "the request was declined: calls of several sessions are under way, and it does not say \
                          for which it is; ask again while there is one, or have the server not shared";

/// The capabilities that a server is told of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// `sampling/createMessage`.
    pub sampling: bool,
    /// `elicitation/create`, as forms and as addresses.
    pub elicitation: bool,
    /// MCP Apps.
    pub apps: bool,
}

/// Handles the messages of one connection.
#[derive(Clone, Debug)]
pub(crate) struct ClientHandler {
    pub(crate) offer: Offer,
    pub(crate) asker: Arc<QuestionHandler>,
    pub(crate) calls: Calls,
    pub(crate) events: Arc<EventSender>,
    /// Changed lists, for the task that fetches them.
    pub(crate) changes: mpsc::Sender<List>,
    pub(crate) log: HostLog,
    /// The open requests of the server.
    pub(crate) requests: Arc<InboundRequests>,
    /// The subscription that the server acknowledged last.
    pub(crate) acknowledged: watch::Sender<Option<i64>>,
    /// Cancelled when the connection has ended.
    pub(crate) closed: CancellationToken,
}

impl ClientHandler {
    /// Routes the messages of a server until the connection ends.
    pub(crate) async fn serve(self, peer: Arc<Peer>, mut inbox: mpsc::Receiver<Received>) {
        loop {
            tokio::select! {
                biased;
                received = inbox.recv() => match received {
                    Some(received) => self.route(&peer, received),
                    None => break,
                },
                () = self.closed.cancelled() => break,
            }
        }
        // An answer may have come just before the end.
        inbox.close();
        while let Ok(received) = inbox.try_recv() {
            self.route(&peer, received);
        }
        peer.closed();
    }

    fn route(&self, peer: &Arc<Peer>, received: Received) {
        match received.message {
            Message::Answer { id, answer } => peer.answered(id.and_then(|id| id.number()), answer),
            Message::Notification { method, params } => self.notice(&method, params),
            Message::Request { id, method, params } => {
                let (handler, peer) = (self.clone(), Arc::clone(peer));
                // Bounded by the room for open requests.
                tokio::spawn(async move {
                    let answer = handler.answer(&peer, &id, &method, &params, received.origin).await;
                    // Of several requests with one id, one is answered; a cancelled one is not.
                    let open = handler.requests.answered(&id);
                    if open.as_ref().is_some_and(|open| !open.is_cancelled()) {
                        peer.respond(&id, &answer).await;
                    }
                });
            }
        }
    }

    fn notice(&self, method: &str, params: Value) {
        match method {
            "notifications/progress" => {
                let number = |field: &str| params.get(field).and_then(Value::as_f64);
                let token = id(&params, "progressToken").and_then(|token| token.number());
                if let Some((token, progress)) = token.zip(number("progress")) {
                    let report = Progress {
                        progress,
                        total: number("total"),
                        message: text(&params, "message"),
                    };
                    self.calls.progress(token, report);
                }
            }
            "notifications/message" => self.log(params),
            "notifications/tools/list_changed" => self.changed(List::Tools),
            "notifications/resources/list_changed" => self.changed(List::Resources),
            "notifications/prompts/list_changed" => self.changed(List::Prompts),
            "notifications/resources/updated" => {
                if let Some(uri) = text(&params, "uri") {
                    self.events.send(Event::ResourceUpdated { uri });
                }
            }
            "notifications/elicitation/complete" => {
                if let Some(id) = text(&params, "elicitationId") {
                    self.events.send(Event::VisitEnded { id });
                }
            }
            "notifications/cancelled" => {
                if let Some(id) = id(&params, "requestId") {
                    self.requests.cancel(&id);
                }
            }
            "notifications/subscriptions/acknowledged" => {
                let subscription = params
                    .get("_meta")
                    .and_then(|meta| id(meta, "io.modelcontextprotocol/subscriptionId"));
                self.acknowledged.send_replace(subscription.and_then(|id| id.number()));
            }
            _ => {}
        }
    }

    /// Without room, the change is already queued.
    pub(crate) fn changed(&self, list: List) {
        let _ = self.changes.try_send(list);
    }

    /// Reports all lists as changed, after a time without notifications.
    pub(crate) fn all_changed(&self) {
        for list in [List::Tools, List::Resources, List::Prompts] {
            self.changed(list);
        }
    }

    fn log(&self, mut message: Value) {
        let level = text(&message, "level").unwrap_or_else(|| "info".to_owned());
        let logger = text(&message, "logger");
        let text = message.get_mut("data").map(Value::take).unwrap_or_default().to_string();
        // A secret that was cut is not recognised: secrets are removed before anything is cut.
        let mut clean = self.log.scrub(&text);
        let data = if clean.len() > MAX_LOG_BYTES {
            clean.truncate(clean.floor_char_boundary(MAX_LOG_BYTES));
            Value::String(clean)
        } else {
            serde_json::from_str(&clean).unwrap_or(Value::String(clean))
        };
        let message = LogMessage {
            level,
            logger: logger.map(|logger| self.log.scrub(&logger)),
            data,
        };
        self.log.message(&message);
        self.events.send(Event::Log(Arc::new(message)));
    }

    /// Returns the capabilities of the client.
    pub(crate) fn capabilities(&self) -> Value {
        let mut capabilities = json!({ "roots": { "listChanged": true } });
        if self.offer.sampling {
            capabilities["sampling"] = json!({});
        }
        if self.offer.elicitation {
            capabilities["elicitation"] = json!({ "form": {}, "url": {} });
        }
        if self.offer.apps {
            let ui = json!({ "mimeTypes": ["text/html;profile=mcp-app"] });
            capabilities["extensions"] = json!({ "io.modelcontextprotocol/ui": ui });
        }
        capabilities
    }

    /// Answers a request of the server.
    async fn answer(
        &self,
        peer: &Peer,
        id: &RequestId,
        method: &str,
        params: &Value,
        origin: Option<i64>,
    ) -> Result<Value, RpcError> {
        if method == "ping" {
            return Ok(json!({}));
        }
        // Since 2026-07-28 the requests of servers must belong to a request of the client.
        if !peer.has_handshake() && !peer.is_waiting() {
            let why = "the request belongs to no request of the client, as it must since 2026-07-28";
            return Err(RpcError::new(INVALID_PARAMS, why));
        }
        let owner = match self.calls.owner(origin) {
            Ok(owner) => owner,
            // The roots are the same for all sessions.
            Err(AmbiguousCaller) if method == "roots/list" => None,
            Err(AmbiguousCaller) => {
                self.log.refused(method, AMBIGUOUS_CALLER);
                return Err(RpcError::new(DECLINED, AMBIGUOUS_CALLER));
            }
        };
        let asked = owner.as_ref().map(|owner| (owner.call, owner.asks.clone()));
        let cancelled = self.requests.cancelled(id);
        let answer = tokio::select! {
            answer = self.asker.answer(method, params, asked) => answer,
            // The server cancelled the request, or is gone.
            () = cancelled.cancelled() => Err(NoAnswer::Declined),
            () = self.closed.cancelled() => Err(NoAnswer::Declined),
        };
        answer.map_err(|no_answer| {
            let error = explain(&no_answer, method);
            self.log.refused(method, &error.message);
            error
        })
    }
}

/// Reads an id, or a progress token.
fn id(params: &Value, field: &str) -> Option<RequestId> {
    serde_json::from_value(params.get(field)?.clone()).ok()
}

fn explain(no_answer: &NoAnswer, method: &str) -> RpcError {
    match no_answer {
        NoAnswer::UnknownMethod => {
            let method = truncate(method, MAX_METHOD_BYTES);
            RpcError::new(METHOD_NOT_FOUND, format!("`{method}` is not answered here"))
        }
        NoAnswer::TooMany => {
            let why = "too many questions are open: wait for their answers first";
            RpcError::new(INTERNAL_ERROR, why)
        }
        // The wording of MCP.
        NoAnswer::Declined if method == "sampling/createMessage" => {
            RpcError::new(DECLINED, "User rejected sampling request")
        }
        NoAnswer::Declined => RpcError::new(DECLINED, "the request was declined"),
        NoAnswer::Refused { code, message } => RpcError::new(i64::from(*code), message.clone()),
    }
}

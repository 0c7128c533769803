//! This side of a connection, as the server sees it: what it is told about us, what it may ask, and
//! where its notifications go.

use std::sync::Arc;

use innkeeper_std::text::truncate;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientResult, CustomRequest, CustomResult, ErrorCode, ErrorData, Implementation,
    ProtocolVersion, ServerNotification, ServerRequest,
};
use rmcp::service::{InboundStreamOrigin, NotificationContext, RequestContext, RoleClient, Service};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::calls::{Calls, OfSeveral, Progress};
use super::log::HostLog;
use crate::ask::{Asker, NoAnswer};
use crate::paging::text;
use crate::state::{Event, EventSender, List, LogMessage};
use crate::wire::{Asked, QUESTION};

/// The longest log message that is handed on.
const MOST_LOG_BYTES: usize = 16 << 10;
/// The most that is said of the name of a method.
const MOST_METHOD_BYTES: usize = 100;
/// What people, or the host, declined; there is no better code for it.
const DECLINED: i32 = -1;

/// What a server is told when it cannot be known whom it asks.
const OF_SEVERAL: &str = "the request was declined: calls of several sessions are under way, and it does not say \
                          for which it is; ask again while there is one, or have the server not shared";

/// What a server is told that it may ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// `sampling/createMessage`.
    pub sampling: bool,
    /// `elicitation/create`, as forms and as addresses.
    pub elicitation: bool,
    /// That tools may come with an MCP App.
    pub apps: bool,
}

/// Our end of one connection.
#[derive(Clone, Debug)]
pub(crate) struct OurEnd {
    pub(crate) offer: Offer,
    pub(crate) asker: Arc<Asker>,
    pub(crate) calls: Calls,
    pub(crate) events: Arc<EventSender>,
    /// Lists that changed, for whoever fetches them.
    pub(crate) changes: mpsc::Sender<List>,
    pub(crate) log: HostLog,
    /// What the server asks.
    pub(crate) asked: Arc<Asked>,
    /// Cancelled when the connection has ended.
    pub(crate) closed: CancellationToken,
}

impl OurEnd {
    /// Hands a notification to whom it belongs.
    pub(crate) fn notice(&self, notification: ServerNotification) {
        match notification {
            ServerNotification::ProgressNotification(progress) => {
                let params = progress.params;
                let report = Progress {
                    progress: params.progress,
                    total: params.total,
                    message: params.message,
                };
                self.calls.progress(&params.progress_token, report);
            }
            ServerNotification::LoggingMessageNotification(log) => {
                self.log(serde_json::to_value(&log.params).unwrap_or_default());
            }
            ServerNotification::ToolListChangedNotification(_) => self.changed(List::Tools),
            ServerNotification::ResourceListChangedNotification(_) => self.changed(List::Resources),
            ServerNotification::PromptListChangedNotification(_) => self.changed(List::Prompts),
            ServerNotification::ResourceUpdatedNotification(updated) => {
                let uri = updated.params.uri;
                self.events.send(Event::ResourceUpdated { uri });
            }
            ServerNotification::CustomNotification(custom) if custom.method == "notifications/elicitation/complete" => {
                let id = custom.params.as_ref().and_then(|params| text(params, "elicitationId"));
                if let Some(id) = id {
                    self.events.send(Event::VisitEnded { id });
                }
            }
            // Cancellations are rmcp's, and what is not known is nobody's.
            _ => {}
        }
    }

    /// A change that finds no room is told already.
    pub(crate) fn changed(&self, list: List) {
        let _ = self.changes.try_send(list);
    }

    /// Nobody listened for a while: whatever it offers may have changed.
    pub(crate) fn all_changed(&self) {
        for list in [List::Tools, List::Resources, List::Prompts] {
            self.changed(list);
        }
    }

    fn log(&self, mut message: Value) {
        let level = text(&message, "level").unwrap_or_else(|| "info".to_owned());
        let logger = text(&message, "logger");
        let text = message.get_mut("data").map(Value::take).unwrap_or_default().to_string();
        // Half a secret is not recognised as one: it is looked for before anything is cut.
        let mut clean = self.log.scrub(&text);
        let data = if clean.len() > MOST_LOG_BYTES {
            clean.truncate(clean.floor_char_boundary(MOST_LOG_BYTES));
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

    fn capabilities(&self) -> Value {
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
}

impl Service<RoleClient> for OurEnd {
    async fn handle_request(
        &self,
        request: ServerRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        if matches!(request, ServerRequest::PingRequest(_)) {
            return Ok(ClientResult::empty(()));
        }
        let origin = match context.extensions.get::<InboundStreamOrigin>() {
            Some(InboundStreamOrigin::OutboundRequest(id)) => Some(id),
            Some(InboundStreamOrigin::Unassociated) | None => None,
        };
        let request = match &request {
            ServerRequest::CustomRequest(question) if question.method == QUESTION => as_written(question),
            request => serde_json::to_value(request).unwrap_or_default(),
        };
        let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
        let params = request.get("params").unwrap_or(&Value::Null);
        let owner = match self.calls.owner(origin) {
            Ok(owner) => owner,
            // These are the same for all.
            Err(OfSeveral) if method == "roots/list" => None,
            Err(OfSeveral) => {
                self.log.refused(method, OF_SEVERAL);
                return Err(ErrorData::new(ErrorCode(DECLINED), OF_SEVERAL, None));
            }
        };
        let asked = owner.as_ref().map(|owner| (owner.call, owner.asks.clone()));
        let cancelled = self.asked.cancelled(&context.id);
        let answer = tokio::select! {
            answer = self.asker.answer(method, params, asked) => answer,
            // The server does not want to know any more, or is gone.
            () = cancelled.cancelled() => Err(NoAnswer::Declined),
            () = context.ct.cancelled() => Err(NoAnswer::Declined),
            () = self.closed.cancelled() => Err(NoAnswer::Declined),
        };
        match answer {
            Ok(answer) => Ok(ClientResult::CustomResult(CustomResult::new(answer))),
            Err(no_answer) => {
                let error = explain(&no_answer, method);
                self.log.refused(method, &error.message);
                Err(error)
            }
        }
    }

    async fn handle_notification(
        &self,
        _notification: ServerNotification,
        _context: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        // What is left of them is rmcp's own.
        Ok(())
    }

    fn get_info(&self) -> ClientConfig {
        // A closed set of names that is written above; what could not be read is not offered.
        let capabilities: ClientCapabilities = serde_json::from_value(self.capabilities()).unwrap_or_default();
        let implementation = Implementation::new("innkeeper", env!("CARGO_PKG_VERSION")).with_title("Innkeeper");
        ClientConfig::new(capabilities, implementation).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

/// A question as the server wrote it.
fn as_written(question: &CustomRequest) -> Value {
    let text = question.params.as_ref().and_then(|params| text(params, "text"));
    serde_json::from_str(&text.unwrap_or_default()).unwrap_or_default()
}

fn explain(no_answer: &NoAnswer, method: &str) -> ErrorData {
    match no_answer {
        NoAnswer::UnknownMethod => ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            format!("`{}` is not answered here", truncate(method, MOST_METHOD_BYTES)),
            None,
        ),
        NoAnswer::TooMany => ErrorData::new(
            ErrorCode::INTERNAL_ERROR,
            "too many questions are open: wait for their answers first",
            None,
        ),
        // In the words of MCP.
        NoAnswer::Declined if method == "sampling/createMessage" => {
            ErrorData::new(ErrorCode(DECLINED), "User rejected sampling request", None)
        }
        NoAnswer::Declined => ErrorData::new(ErrorCode(DECLINED), "the request was declined", None),
        NoAnswer::Refused { code, message } => ErrorData::new(ErrorCode(*code), message.clone(), None),
    }
}

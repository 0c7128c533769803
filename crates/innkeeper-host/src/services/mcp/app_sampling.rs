//! Has the model of a session write for an app of an MCP server (`sampling/createMessage`, MCP-15).
//!
//! An app has no turn of its own, but users have to allow that the model writes for it, and a question to them is part
//! of a turn. So a request waits here until the core has found or started a turn for it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use innkeeper_core::ChannelId;
use innkeeper_std::sync::{Mutex, MutexGuard};
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::sampling::{Samples, SamplingConsent};
use super::{McpError, SamplingRequest, bounds};
use crate::agent::{Agent, AgentError, EventSink, TurnInput};

/// The method.
pub(crate) const CREATE_MESSAGE: &str = "sampling/createMessage";

/// Maximum requests of apps that wait, of the whole host and of one session.
const MAX_PENDING: usize = 32;
const MAX_PENDING_PER_SESSION: usize = 4;
/// After a user declined, the apps of that server are refused for so long without a question: a page could ask for
/// ever.
const DECLINED_TIME: Duration = Duration::from_secs(60);
/// How often a turn reports that it is at work while a model writes.
const ALIVE_PACE: Duration = Duration::from_secs(20);

/// The code of MCP for a request that a user did not allow.
const REJECTED_BY_USER: i64 = -1;
/// The codes of JSON-RPC for a method that does not exist, and for what went wrong.
const METHOD_NOT_FOUND: i64 = -32601;
const INTERNAL_ERROR: i64 = -32603;
const INVALID_PARAMS: i64 = -32602;

type SamplingOutcome = Result<Value, McpError>;

/// The requests that wait for a turn. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct AppRequests(Arc<Mutex<HashMap<String, AppRequest>>>);

/// A request of an app to the model.
pub(crate) struct AppRequest {
    asked: RequestDetails,
    answer: oneshot::Sender<SamplingOutcome>,
}

struct RequestDetails {
    session: ChannelId,
    /// The id of the customization of the app's server.
    server: String,
    /// The name of the server.
    server_name: String,
    request: SamplingRequest,
}

impl AppRequests {
    /// Takes a request in. Returns its answer, which comes when users have decided and the model has written.
    ///
    /// # Errors
    ///
    /// When the request makes no sense, or when too many wait.
    pub(crate) fn add(
        &self,
        id: &str,
        session: ChannelId,
        server: String,
        server_name: String,
        params: &Map<String, Value>,
    ) -> Result<oneshot::Receiver<SamplingOutcome>, McpError> {
        let request = SamplingRequest::read(params).map_err(|problem| failed(INVALID_PARAMS, problem))?;
        let (answer, answered) = oneshot::channel();
        let mut waiting = self.lock();
        // The client that asked may be gone by now.
        waiting.retain(|_, request| !request.answer.is_closed());
        let of_session = waiting.values().filter(|request| request.asked.session == session);
        if waiting.len() >= MAX_PENDING || of_session.count() >= MAX_PENDING_PER_SESSION {
            let problem = "too many apps wait for the model; ask again later";
            return Err(failed(INTERNAL_ERROR, problem));
        }
        let asked = RequestDetails {
            session,
            server,
            server_name,
            request,
        };
        waiting.insert(id.to_owned(), AppRequest { asked, answer });
        Ok(answered)
    }

    /// The request with an id, if it still waits.
    pub(crate) fn take(&self, id: &str) -> Option<AppRequest> {
        self.lock().remove(id).filter(|request| !request.answer.is_closed())
    }

    /// There is no turn for a request.
    pub(crate) fn refuse(&self, id: &str, why: &str) {
        if let Some(request) = self.take(id) {
            request.refuse(why);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, AppRequest>> {
        self.0.lock()
    }
}

impl fmt::Debug for AppRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppRequests")
            .field("waiting", &self.lock().len())
            .finish()
    }
}

/// Whether users are shown what the model wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// In a turn of the request's own.
    Shown,
    /// In a turn of an agent, whose words it would interrupt.
    NotShown,
}

impl AppRequest {
    pub(crate) fn refuse(self, why: &str) {
        let _ = self.answer.send(Err(failed(INTERNAL_ERROR, why)));
    }

    /// Asks users in a turn, has the model write, and answers the app.
    ///
    /// # Errors
    ///
    /// When the turn is cancelled; the app gets an error.
    pub(crate) async fn serve(
        self,
        events: &EventSink,
        agent: &dyn Agent,
        turn: &TurnInput,
        written: Written,
    ) -> Result<(), AgentError> {
        let Self { asked, mut answer } = self;
        let served = tokio::select! {
            biased;
            () = events.cancelled() => Err(AgentError::Cancelled),
            // The client that showed the app is gone, so the answer has no recipient.
            () = answer.closed() => return Ok(()),
            served = asked.write(events, agent, turn, written) => served,
        };
        let (outcome, result) = match served {
            Ok(outcome) => (outcome, Ok(())),
            Err(error) => {
                let why = "the turn in which users were asked is over; ask again";
                (Err(failed(INTERNAL_ERROR, why)), Err(error))
            }
        };
        let _ = answer.send(outcome);
        result
    }
}

impl RequestDetails {
    async fn write(
        &self,
        events: &EventSink,
        agent: &dyn Agent,
        turn: &TurnInput,
        written: Written,
    ) -> Result<SamplingOutcome, AgentError> {
        let sampler = match agent.sampler(turn).await {
            Ok(Some(sampler)) => sampler,
            Ok(None) => {
                let why = "the agent of this session has no model that apps can use";
                return Ok(Err(failed(METHOD_NOT_FOUND, why)));
            }
            Err(AgentError::Cancelled) => return Err(AgentError::Cancelled),
            Err(error) => return Ok(Err(failed(INTERNAL_ERROR, bounds::message(error.to_string())))),
        };
        let mcp = events.mcp();
        if mcp.was_declined(&self.server, DECLINED_TIME) {
            let why = "a user did not allow a request of this app a moment ago; ask again later";
            return Ok(Err(failed(REJECTED_BY_USER, why)));
        }
        if !mcp.may_sample(&self.server, Samples::App) {
            let form = self.request.form(&self.server_name, Samples::App);
            match SamplingConsent::of(&events.ask(form).await?) {
                SamplingConsent::No => {
                    mcp.decline(&self.server);
                    return Ok(Err(failed(REJECTED_BY_USER, "a user did not allow the request")));
                }
                SamplingConsent::Once => {}
                SamplingConsent::ForSession => mcp.let_sample(&self.server, Samples::App),
            }
        }
        let sampling = sampler.sample(&self.request);
        tokio::pin!(sampling);
        let sampled = loop {
            tokio::select! {
                sampled = &mut sampling => break sampled,
                () = tokio::time::sleep(ALIVE_PACE) => events.alive().await?,
            }
        };
        Ok(match sampled {
            Ok(sampled) => {
                if written == Written::Shown {
                    events.text(sampled.text.clone()).await?;
                    if let Some(usage) = sampler.usage() {
                        events.usage(usage).await?;
                    }
                }
                Ok(Value::Object(sampled.into_result()))
            }
            Err(problem) => Err(failed(INTERNAL_ERROR, bounds::message(problem))),
        })
    }
}

fn failed(code: i64, message: impl Into<String>) -> McpError {
    McpError {
        code: Some(code),
        message: message.into(),
        data: None,
    }
}

//! Calls of MCP tools: ordinary tool calls that a server carries out (MCP-12).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use innkeeper_core::agent::AuthRequirement;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;

use super::content::{ResultTarget, result_of};
use super::sampling::{self, Samples, SamplingConsent};
use super::{
    Arguments, CallHandler, CallOutcome, McpError, McpTool, Question, QuestionAnswer, Sampler, SamplingRequest,
};
use super::{bounds, elicit};
use crate::agent::{
    AgentError, ApprovalSubject, Confirmation, EventSink, Invocation, Response, ToolCall, ToolContent, ToolDraft,
    ToolResult, Verdict, refused,
};

/// How often a server that says nothing is said to be at work.
const ALIVE_EVERY: Duration = Duration::from_secs(20);
/// Longest report of progress that is shown.
const MAX_PROGRESS_CHARS: usize = 4000;

/// JSON-RPC error codes for an unknown method, invalid parameters, and an internal error.
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const INTERNAL_ERROR: i64 = -32603;

/// A call of an MCP tool. Made by [`EventSink::mcp_tool`].
#[must_use = "a call begins with `run`"]
pub struct McpCall {
    events: EventSink,
    tool: McpTool,
    id: Option<String>,
    intention: Option<String>,
    sampler: Option<Arc<dyn Sampler>>,
}

impl McpCall {
    pub(crate) fn new(events: EventSink, tool: &McpTool) -> Self {
        Self {
            events,
            tool: tool.clone(),
            id: None,
            intention: None,
            sampler: None,
        }
    }

    /// Gives the call an id of the agent's own, unique in its chat; otherwise it gets one.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the purpose of the call, as the agent states it.
    pub fn intention(mut self, intention: impl Into<String>) -> Self {
        self.intention = Some(intention.into());
        self
    }

    /// Sets the sampler that answers the server's sampling requests once a user allows them. Without one, they are
    /// refused.
    pub fn sampler(mut self, sampler: Arc<dyn Sampler>) -> Self {
        self.sampler = Some(sampler);
        self
    }

    /// Shows the call, whose input comes next: for agents whose model writes it piece by piece.
    pub async fn start(self) -> Result<McpDraft, AgentError> {
        let Self {
            events,
            tool,
            id,
            intention,
            sampler,
        } = self;
        let mut builder = events
            .tool(&tool.name)
            .display_name(tool.shown_name())
            .mcp(&tool.server)
            .of_server(tool.of_server());
        if let Some(id) = id {
            builder = builder.id(id);
        }
        if let Some(intention) = intention {
            builder = builder.intention(intention);
        }
        if let Some(ui) = &tool.ui {
            builder = builder.ui(ui.clone());
        }
        let draft = builder.start().await?;
        Ok(McpDraft {
            events,
            tool,
            sampler,
            draft,
        })
    }

    /// Calls the tool on the server, once a user or the session's policy allows it, and waits for the result. A call
    /// that is denied, or that the server does not answer, gives a failed result.
    ///
    /// # Errors
    ///
    /// When the turn is cancelled.
    pub async fn run(self, arguments: impl Into<Arguments> + Send) -> Result<ToolResult, AgentError> {
        self.start().await?.run(arguments).await
    }
}

/// A call of an MCP tool whose input is still being written. Made by [`McpCall::start`].
#[must_use = "a call that is dropped ends as failed"]
pub struct McpDraft {
    events: EventSink,
    tool: McpTool,
    sampler: Option<Arc<dyn Sampler>>,
    draft: ToolDraft,
}

impl McpDraft {
    /// The call's id.
    pub fn id(&self) -> &str {
        self.draft.id()
    }

    /// Streams more of the input, as the model writes it.
    pub async fn input(&mut self, text: impl Into<String>) -> Result<(), AgentError> {
        self.draft.input(text).await
    }

    /// Sets the sampler that answers the server's sampling requests. See [`McpCall::sampler`].
    pub fn sampler(mut self, sampler: Arc<dyn Sampler>) -> Self {
        self.sampler = Some(sampler);
        self
    }

    /// Has the session's hooks look at the call; if they want another input, it is returned. See
    /// [`ToolDraft::check`].
    ///
    /// # Errors
    ///
    /// [A denial](AgentError::denial) when a hook refuses the call, which is over then.
    pub async fn check(&mut self, input: &str) -> Result<Option<String>, AgentError> {
        self.draft.check(input).await
    }

    /// Ends the call before it ran.
    pub async fn complete(self, result: ToolResult) -> Result<(), AgentError> {
        self.draft.complete(result).await
    }

    /// Has the server carry it out with these arguments, which are the complete input.
    ///
    /// # Errors
    ///
    /// When the turn is cancelled.
    pub async fn run(self, arguments: impl Into<Arguments> + Send) -> Result<ToolResult, AgentError> {
        let arguments = arguments.into();
        let Self {
            events,
            tool,
            sampler,
            draft,
        } = self;
        let shown = tool.shown_name().to_owned();
        let words = format!("Calls {shown} of {}", tool.server_name);
        let invocation = Invocation::new(words).input(arguments.to_json());
        let (call, arguments) = if tool.runs_unasked() {
            match draft.run(invocation).await {
                Ok(call) => (call, arguments),
                Err(error) => match error.denial() {
                    Some(reason) => return Ok(ToolResult::failed(format!("{shown} was not allowed"), reason)),
                    None => return Err(error),
                },
            }
        } else {
            let confirmation = Confirmation {
                title: Some(format!("Let {} run {shown}?", tool.server_name)),
                editable: true,
                subject: ApprovalSubject::McpTool {
                    server: tool.server_name.clone(),
                    tool: tool.tool.clone(),
                },
                ..Confirmation::default()
            };
            match draft.confirm(invocation, confirmation).await? {
                Verdict::Approved(call, decision) => match edited(decision.edited_input) {
                    Ok(edited) => (call, edited.unwrap_or(arguments)),
                    Err(problem) => {
                        let result = ToolResult::failed(format!("{shown} was not called"), problem);
                        call.complete(result.clone()).await?;
                        return Ok(result);
                    }
                },
                Verdict::Denied(decision) => return Ok(refused(&shown, &decision)),
            }
        };
        let carried_out = CarriedOut {
            events,
            tool,
            sampler,
            asked: AtomicUsize::new(0),
            sampled: AtomicUsize::new(0),
        };
        carried_out.carry_out(call, arguments).await
    }
}

/// Parses the input that a user edited.
fn edited(input: Option<String>) -> Result<Option<Arguments>, String> {
    match input.as_deref().map(Arguments::parse) {
        None => Ok(None),
        Some(Ok(arguments)) => Ok(Some(arguments)),
        Some(Err(error)) => Err(format!(
            "the edited input is not a JSON object ({error}); call the tool again"
        )),
    }
}

/// A call that the server has.
struct CarriedOut {
    events: EventSink,
    tool: McpTool,
    sampler: Option<Arc<dyn Sampler>>,
    /// The number of questions that the server has asked users.
    asked: AtomicUsize,
    /// The number of sampling requests so far.
    sampled: AtomicUsize,
}

type Outcome = Result<CallOutcome, McpError>;

impl CarriedOut {
    async fn carry_out(self, mut call: ToolCall, arguments: Arguments) -> Result<ToolResult, AgentError> {
        let mcp = self.events.mcp().clone();
        let (wishes, mut wished) = mpsc::channel(8);
        let relay = Relay(wishes);
        let calling = mcp.call(&self.tool, arguments, &relay);
        tokio::pin!(calling);
        let mut alive = tokio::time::interval(ALIVE_EVERY);
        alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let outcome: Outcome = loop {
            let wish = tokio::select! {
                biased;
                // Dropped, the call is cancelled at its server.
                () = call.cancelled() => return Err(AgentError::Cancelled),
                outcome = &mut calling => break outcome,
                Some(wish) = wished.recv() => wish,
                _ = alive.tick() => {
                    call.alive().await?;
                    continue;
                }
            };
            // The server may give up before a user answers.
            let answered = tokio::select! {
                biased;
                outcome = &mut calling => break outcome,
                answered = self.answer(&mut call, wish) => answered?,
            };
            if answered == Answered::Over {
                let error = "no user signed in, so the call was cancelled";
                return Ok(ToolResult::failed(
                    format!("{} was cancelled", self.tool.shown_name()),
                    error,
                ));
            }
        };
        let result = match outcome {
            Ok(outcome) => {
                let listed = tokio::select! {
                    biased;
                    () = call.cancelled() => return Err(AgentError::Cancelled),
                    listed = mcp.listed(&self.tool.server, &outcome) => listed,
                };
                let place = ResultTarget {
                    contents: mcp.contents(),
                    listed,
                    embedded: &self.events.overflow.embedded,
                };
                result_of(&self.tool, outcome, place).await
            }
            Err(error) => ToolResult::failed(
                format!("{} of {} failed", self.tool.shown_name(), self.tool.server_name),
                bounds::message(error.message),
            ),
        };
        call.complete(result.clone()).await?;
        Ok(result)
    }

    /// Does what the server wants.
    async fn answer(&self, call: &mut ToolCall, wish: Wish) -> Result<Answered, AgentError> {
        match wish {
            Wish::Progress(message) => {
                let message = message.chars().take(MAX_PROGRESS_CHARS).collect();
                call.content(vec![ToolContent::Text(message)]).await?;
            }
            Wish::SignIn(requirement, mut done) => {
                let signed_in = tokio::select! {
                    biased;
                    // The token came from elsewhere: the question is withdrawn, and the call continues (AUTH-10).
                    () = done.closed() => None,
                    signed_in = call.await_sign_in(*requirement) => Some(signed_in?),
                };
                let Some(signed_in) = signed_in else {
                    call.auth_resolved().await?;
                    return Ok(Answered::GoesOn);
                };
                let has_signed_in = signed_in.is_some();
                let _ = done.send(has_signed_in);
                if !has_signed_in {
                    return Ok(Answered::Over);
                }
            }
            Wish::Ask(question, mut done) => {
                let answer = tokio::select! {
                    answer = self.ask(call, question) => answer?,
                    // The server has given up: the question and the sampling end.
                    () = done.closed() => return Ok(Answered::GoesOn),
                };
                let _ = done.send(answer);
            }
        }
        Ok(Answered::GoesOn)
    }

    async fn ask(&self, call: &mut ToolCall, question: Question) -> Result<QuestionAnswer, AgentError> {
        let server = &self.tool.server_name;
        let no = |response| match response {
            Response::Cancel => QuestionAnswer::Cancelled,
            Response::Accept | Response::Decline => QuestionAnswer::Declined,
        };
        let asks_user = matches!(question, Question::Form { .. } | Question::Url { .. });
        if asks_user && self.asked.fetch_add(1, Ordering::Relaxed) >= elicit::MAX_QUESTIONS {
            return Ok(QuestionAnswer::Declined);
        }
        match question {
            Question::Form { message, schema } => {
                let answer = self
                    .events
                    .ask(elicit::form(server, &message, &schema).elicited())
                    .await?;
                Ok(match answer.response {
                    Response::Accept => QuestionAnswer::Accepted(elicit::content(&schema, answer)),
                    response => no(response),
                })
            }
            Question::Url { url, .. } if !elicit::may_be_visited(&url) => Ok(QuestionAnswer::Declined),
            Question::Url { message, url } => {
                let message = elicit::printable(&message);
                let message = format!("The MCP server {server:?} asks you to visit a page: {message}");
                Ok(match self.events.ask_url(message, url).await? {
                    Response::Accept => QuestionAnswer::Accepted(Map::new()),
                    response => no(response),
                })
            }
            Question::Sampling(params) => self.sample(call, &params).await,
        }
    }

    /// Asks a model for the server, if a user allows it.
    async fn sample(&self, call: &mut ToolCall, params: &Map<String, Value>) -> Result<QuestionAnswer, AgentError> {
        let refused = |code, message: String| Ok(QuestionAnswer::Refused { code, message });
        let Some(sampler) = &self.sampler else {
            let message = "the agent of this session has no model that servers can use".to_owned();
            return refused(METHOD_NOT_FOUND, message);
        };
        if self.sampled.fetch_add(1, Ordering::Relaxed) >= sampling::MAX_SAMPLES {
            let most = sampling::MAX_SAMPLES;
            return refused(INTERNAL_ERROR, format!("a call may ask the model {most} times"));
        }
        let request = match SamplingRequest::read(params) {
            Ok(request) => request,
            Err(problem) => return refused(INVALID_PARAMS, problem),
        };
        let mcp = self.events.mcp();
        if !mcp.may_sample(&self.tool.server, Samples::Server) {
            let answer = self
                .events
                .ask(request.form(&self.tool.server_name, Samples::Server))
                .await?;
            match SamplingConsent::of(&answer) {
                SamplingConsent::No => return Ok(QuestionAnswer::Declined),
                SamplingConsent::Once => {}
                SamplingConsent::ForSession => mcp.let_sample(&self.tool.server, Samples::Server),
            }
        }
        let sampling = sampler.sample(&request);
        tokio::pin!(sampling);
        let mut alive = tokio::time::interval(ALIVE_EVERY);
        loop {
            tokio::select! {
                biased;
                () = call.cancelled() => return Err(AgentError::Cancelled),
                sampled = &mut sampling => return match sampled {
                    Ok(sampled) => Ok(QuestionAnswer::Sampled(sampled.into_result())),
                    Err(problem) => refused(INTERNAL_ERROR, bounds::message(problem)),
                },
                _ = alive.tick() => call.alive().await?,
            }
        }
    }
}

#[derive(PartialEq, Eq)]
enum Answered {
    GoesOn,
    /// The call is over.
    Over,
}

/// A request of the server during a call.
enum Wish {
    Progress(String),
    SignIn(Box<AuthRequirement>, oneshot::Sender<bool>),
    Ask(Question, oneshot::Sender<QuestionAnswer>),
}

/// Passes wishes on to the call that they are about.
struct Relay(mpsc::Sender<Wish>);

#[async_trait]
impl CallHandler for Relay {
    async fn progress(&self, message: String) {
        // Progress that comes faster than it can be shown is dropped.
        let _ = self.0.try_send(Wish::Progress(message));
    }

    async fn sign_in(&self, requirement: AuthRequirement) -> bool {
        let (done, signed_in) = oneshot::channel();
        let _ = self.0.send(Wish::SignIn(Box::new(requirement), done)).await;
        signed_in.await.unwrap_or(false)
    }

    async fn ask(&self, question: Question) -> QuestionAnswer {
        let (done, answer) = oneshot::channel();
        let _ = self.0.send(Wish::Ask(question, done)).await;
        answer.await.unwrap_or(QuestionAnswer::Declined)
    }
}

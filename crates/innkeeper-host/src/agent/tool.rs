//! Tool calls: from the first word of their input to their result.
//!
//! A call changes hands as it goes on: a [`ToolDraft`] becomes a [`ToolCall`] when it may run, and
//! is gone once it is over. One that is dropped before ends as failed, so that nobody watches a
//! call that nobody works on.

use std::sync::Arc;

use innkeeper_core::AgentEvent;
use innkeeper_core::agent::{Contributor, Permission, Spawn, ToolReady, ToolStart, ToolStep};

use super::mailbox::{MAX_CALL_ID, Mailbox, Slot};
use super::{
    AgentError, AuthRequirement, Confirmation, Decision, EventSink, Risk, Secret, ToolContent, ToolResult, Worker,
    WorkerSpec,
};

pub(super) fn begin(events: EventSink, name: String) -> ToolCallBuilder {
    ToolCallBuilder {
        events,
        id: None,
        start: ToolStart {
            display_name: name.clone(),
            name,
            intention: None,
            contributor: Contributor::Host,
        },
    }
}

/// A call that is about to begin. Made by [`EventSink::tool`].
#[derive(Debug)]
#[must_use = "a call begins with `start`"]
pub struct ToolCallBuilder {
    pub(super) events: EventSink,
    pub(super) id: Option<String>,
    pub(super) start: ToolStart,
}

impl ToolCallBuilder {
    /// Gives the call an id of the agent's own, unique in its chat; otherwise it gets one (TOOL-21).
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// A name for people; otherwise they see the tool's name.
    pub fn display_name(mut self, name: impl Into<String>) -> Self {
        self.start.display_name = name.into();
        self
    }

    /// What the agent wants to achieve with it.
    pub fn intention(mut self, intention: impl Into<String>) -> Self {
        self.start.intention = Some(intention.into());
        self
    }

    /// Says that an MCP server executes it, by the id of its customization. Only such a call can
    /// ask people to sign in.
    pub fn mcp(mut self, customization: impl Into<String>) -> Self {
        self.start.contributor = Contributor::Mcp(customization.into());
        self
    }

    /// Shows the call. Its input comes next.
    pub async fn start(self) -> Result<ToolDraft, AgentError> {
        let call = Call::start(self).await?;
        Ok(ToolDraft { call })
    }
}

/// What is about to happen, for people, and the input it happens with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    message: String,
    input: Option<String>,
}

impl Invocation {
    /// A call described as in "Reads `notes.txt`".
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            input: None,
        }
    }

    /// The complete input, usually JSON text. Otherwise it is what was streamed, or what the call
    /// ran with before.
    #[must_use]
    pub fn input(mut self, input: impl Into<String>) -> Self {
        self.input = Some(input.into());
        self
    }
}

impl From<&str> for Invocation {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

impl From<String> for Invocation {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

/// What came of asking people.
#[derive(Debug)]
#[must_use = "a denied call must not run"]
pub enum Verdict {
    /// The call may run, with the edited input if there is one.
    Approved(ToolCall, Decision),
    /// It may not, and is over.
    Denied(Decision),
}

/// A call whose input is still being written.
#[derive(Debug)]
#[must_use = "a call that is dropped ends as failed"]
pub struct ToolDraft {
    call: Call,
}

impl ToolDraft {
    /// The call's id.
    pub fn id(&self) -> &str {
        &self.call.id
    }

    /// Streams more of the input, as the model writes it.
    pub async fn input(&mut self, text: impl Into<String>) -> Result<(), AgentError> {
        let text = text.into();
        self.call.input.get_or_insert_default().push_str(&text);
        self.call.step(ToolStep::Input(text)).await
    }

    /// Runs a harmless call without asking. Its work begins when this returns: the host has kept by
    /// then that the call runs, so that no crash hides what it may have done (P4).
    pub async fn run(mut self, invocation: impl Into<Invocation>) -> Result<ToolCall, AgentError> {
        self.call.ready(invocation.into(), Permission::NotNeeded).await?;
        self.call.wait(|replies| replies.started.take()).await?;
        Ok(ToolCall {
            call: self.call,
            is_signing_in: false,
        })
    }

    /// Asks before the call runs. The session's policy may answer for people.
    pub async fn confirm(
        self,
        invocation: impl Into<Invocation>,
        confirmation: Confirmation,
    ) -> Result<Verdict, AgentError> {
        confirm(self.call, invocation.into(), confirmation).await
    }

    /// A handle for a judge that looks at the call while people are asked.
    pub fn risk_reporter(&self) -> RiskReporter {
        self.call.risk_reporter()
    }

    /// Completes when the turn is cancelled or over, for tools that wait for something else.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + use<> {
        self.call.events.cancelled.clone().cancelled_owned()
    }

    /// Ends the call before it ran.
    pub async fn complete(self, result: ToolResult) -> Result<(), AgentError> {
        self.call.complete(result).await
    }
}

/// A call that runs.
#[derive(Debug)]
#[must_use = "a call that is dropped ends as failed"]
pub struct ToolCall {
    call: Call,
    /// Whether people were asked to sign in, and the host was not told yet that it helped.
    is_signing_in: bool,
}

/// What came of asking people to sign in.
#[derive(Debug)]
#[must_use]
pub enum SignIn {
    /// Somebody did; the token is for the resource that was named.
    Granted(ToolCall, Secret),
    /// Somebody gave up, and the call is over.
    Refused,
}

impl ToolCall {
    /// The call's id.
    pub fn id(&self) -> &str {
        &self.call.id
    }

    /// Shows what the call has produced so far, in place of what it had shown before.
    pub async fn content(&mut self, content: Vec<ToolContent>) -> Result<(), AgentError> {
        self.auth_resolved().await?;
        self.call.step(ToolStep::Content(content)).await
    }

    /// Nothing to show, but the call is at work: keeps the host from calling the agent silent.
    pub async fn alive(&mut self) -> Result<(), AgentError> {
        self.call.events.alive().await
    }

    /// Asks again in the middle of the run, because it came to something new.
    pub async fn confirm(
        mut self,
        invocation: impl Into<Invocation>,
        confirmation: Confirmation,
    ) -> Result<Verdict, AgentError> {
        self.auth_resolved().await?;
        confirm(self.call, invocation.into(), confirmation).await
    }

    /// A handle for a judge that looks at the call while people are asked.
    pub fn risk_reporter(&self) -> RiskReporter {
        self.call.risk_reporter()
    }

    /// Asks people to sign in to something that the call needs. Only a call of an MCP server can
    /// (TOOL-15). When the token turns out to be no good, this can be called again to wait for
    /// another.
    pub async fn require_auth(mut self, requirement: AuthRequirement) -> Result<SignIn, AgentError> {
        if !self.call.is_mcp {
            return Err(AgentError::failed(
                "notMcp",
                "only a tool call of an MCP server can ask people to sign in; begin it with `mcp`",
            ));
        }
        self.is_signing_in = true;
        self.call.step(ToolStep::AuthRequired(requirement)).await?;
        let signed_in = self.call.wait(|replies| replies.signed_in.take()).await?;
        match signed_in {
            Some(token) => Ok(SignIn::Granted(self, token)),
            None => {
                self.call.is_over = true;
                Ok(SignIn::Refused)
            }
        }
    }

    /// Says that the token was good and the call goes on. Whatever the call does next says so too.
    pub async fn auth_resolved(&mut self) -> Result<(), AgentError> {
        if std::mem::take(&mut self.is_signing_in) {
            self.call.step(ToolStep::AuthResolved).await?;
        }
        Ok(())
    }

    /// Completes when the turn is cancelled or over, for tools that wait for something else.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + use<> {
        self.call.events.cancelled.clone().cancelled_owned()
    }

    /// Starts a worker in a chat of its own (CHT-12). Fails with the kind `workerRefused` when
    /// there are too many, or too many below one another (CHT-13).
    pub async fn worker(&mut self, spec: WorkerSpec) -> Result<Worker, AgentError> {
        self.auth_resolved().await?;
        let events = &self.call.events;
        let spawn: Spawn = spec.into_spawn(self.call.id.to_string());
        let (number, mut started) = events.mailbox.add_worker(&self.call.id);
        let mut waiting = InLine {
            mailbox: &events.mailbox,
            call: &self.call.id,
            number,
            asked: false,
        };
        let event = AgentEvent::Spawn(Box::new(spawn));
        events.send_noting(event, &mut waiting.asked).await?;
        let answer = events.wait_for(&mut started).await?;
        answer.map_err(|reason| AgentError::failed("workerRefused", reason))
    }

    /// Ends the call.
    pub async fn complete(mut self, result: ToolResult) -> Result<(), AgentError> {
        if result.success {
            self.auth_resolved().await?;
        }
        self.call.complete(result).await
    }

    /// Ends the call, and lets people look at the result before the model does. Returns whether the
    /// model may have it.
    pub async fn complete_reviewed(mut self, result: ToolResult) -> Result<bool, AgentError> {
        self.auth_resolved().await?;
        self.call.step(ToolStep::Done { result, review: true }).await?;
        self.call.is_over = true;
        self.call.wait(|replies| replies.reviewed.take()).await
    }
}

/// Reports what a judge thinks of a call (TOOL-18). What comes too late is ignored.
#[derive(Debug, Clone)]
pub struct RiskReporter {
    events: EventSink,
    id: Arc<str>,
}

impl RiskReporter {
    /// Shows a verdict, or that there will be one.
    pub async fn report(&self, risk: Risk) -> Result<(), AgentError> {
        self.events.send(step(&self.id, ToolStep::Risk(risk))).await
    }
}

async fn confirm(mut call: Call, invocation: Invocation, confirmation: Confirmation) -> Result<Verdict, AgentError> {
    let permission = Permission::Ask(Box::new(confirmation));
    call.ready(invocation, permission).await?;
    let decision = call.wait(|replies| replies.decided.take()).await?;
    if decision.approved {
        if let Some(edited) = &decision.edited_input {
            call.input = Some(edited.clone());
        }
        let call = ToolCall {
            call,
            is_signing_in: false,
        };
        return Ok(Verdict::Approved(call, decision));
    }
    call.is_over = true;
    Ok(Verdict::Denied(decision))
}

fn step(call: &str, step: ToolStep) -> AgentEvent {
    AgentEvent::Tool {
        call: call.to_owned(),
        step: Box::new(step),
    }
}

/// What all stages of a call have in common.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) events: EventSink,
    pub(super) id: Arc<str>,
    slot: Arc<Slot>,
    is_mcp: bool,
    /// The input so far.
    input: Option<String>,
    /// Whether nothing is left to be said about it.
    pub(super) is_over: bool,
}

impl Call {
    pub(super) async fn start(builder: ToolCallBuilder) -> Result<Self, AgentError> {
        let ToolCallBuilder { events, id, start } = builder;
        if start.name.is_empty() || start.name.len() > MAX_CALL_ID {
            return Err(AgentError::failed(
                "badToolName",
                format!(
                    "the agent called a tool with a name of {} bytes; 1 to {MAX_CALL_ID} are possible",
                    start.name.len()
                ),
            ));
        }
        let id = id.unwrap_or_else(|| events.mailbox.fresh_id("call"));
        let slot = events.mailbox.add_call(&id)?;
        let call = Self {
            events,
            id: id.into(),
            slot,
            is_mcp: matches!(start.contributor, Contributor::Mcp(_)),
            input: None,
            is_over: false,
        };
        call.step(ToolStep::Start(start)).await?;
        Ok(call)
    }

    pub(super) async fn step(&self, what: ToolStep) -> Result<(), AgentError> {
        self.events.send(step(&self.id, what)).await
    }

    /// The input is complete.
    pub(super) async fn ready(&mut self, invocation: Invocation, permission: Permission) -> Result<(), AgentError> {
        let input = invocation.input.or_else(|| self.input.take());
        self.input.clone_from(&input);
        self.step(ToolStep::Ready(ToolReady {
            invocation: invocation.message,
            input,
            permission,
        }))
        .await
    }

    pub(super) async fn wait<T>(
        &self,
        take: impl Fn(&mut super::mailbox::Replies) -> Option<T>,
    ) -> Result<T, AgentError> {
        self.slot.wait(&self.events.cancelled, take).await
    }

    async fn complete(mut self, result: ToolResult) -> Result<(), AgentError> {
        self.step(ToolStep::Done { result, review: false }).await?;
        self.is_over = true;
        Ok(())
    }

    fn risk_reporter(&self) -> RiskReporter {
        RiskReporter {
            events: self.events.clone(),
            id: Arc::clone(&self.id),
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.events.mailbox.remove_call(&self.id);
        if !self.is_over {
            let result = ToolResult::failed("Not finished", "the agent gave up on this call before it was done");
            let done = ToolStep::Done { result, review: false };
            self.events.send_now(step(&self.id, done));
        }
    }
}

/// A place in the line for a worker.
struct InLine<'a> {
    mailbox: &'a Mailbox,
    call: &'a str,
    number: u64,
    asked: bool,
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        if !self.asked {
            self.mailbox.remove_worker(self.call, self.number);
        }
    }
}

//! Tool calls: from the first word of their input to their result.
//!
//! A call changes its type as it proceeds: a [`ToolDraft`] becomes a [`ToolCall`] when it may run, and is consumed when
//! it is complete. A handle that is dropped before ends the call as failed, so that no client waits for an abandoned
//! call.

mod call;

use std::sync::Arc;

use innkeeper_core::AgentEvent;
use innkeeper_core::agent::{Contributor, McpName, Permission, Spawn, ToolStart, ToolStep};

use super::runtime::mailbox::Mailbox;
use super::{
    AgentError, Attachment, AuthRequirement, Background, Confirmation, Decision, Description, EventSink, Offer, Risk,
    Secret, Subagent, SubagentSpec, TextSpan, ToolContent, ToolKind, ToolResult,
};

use crate::services::mcp::ServerTool;
use crate::services::terminals::{AgentTerminal, TerminalCommandLine};

pub(super) use call::Call;
use call::step;

pub(super) fn begin(events: EventSink, name: String) -> ToolCallBuilder {
    ToolCallBuilder {
        events,
        id: None,
        start: ToolStart {
            display_name: name.clone(),
            name,
            intention: None,
            contributor: Contributor::Host,
            kind: None,
            mcp: None,
            ui: None,
            meta: serde_json::Map::new(),
        },
        mcp: None,
    }
}

/// A call that is about to begin. Made by [`EventSink::tool`].
#[derive(Debug)]
#[must_use = "a call begins with `start`"]
pub struct ToolCallBuilder {
    pub(super) events: EventSink,
    pub(super) id: Option<String>,
    pub(super) start: ToolStart,
    pub(super) mcp: Option<ServerTool>,
}

impl ToolCallBuilder {
    /// Gives the call an id of the agent's own, unique in its chat; otherwise it gets one (TOOL-21).
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the name that users see instead of the tool's name.
    pub fn display_name(mut self, name: impl Into<String>) -> Self {
        self.start.display_name = name.into();
        self
    }

    /// Sets the purpose of the call, as the agent states it.
    pub fn intention(mut self, intention: impl Into<String>) -> Self {
        self.start.intention = Some(intention.into());
        self
    }

    /// How clients present it, where they have a presentation of their own for such calls: a command with its
    /// output, a search. Without it, they show what is said of the call. A call that starts a subagent needs none.
    pub fn kind(mut self, kind: ToolKind) -> Self {
        self.start.kind = Some(kind);
        self
    }

    /// Marks the call as executed by an MCP server, given by the id of its customization. Only such a call can ask
    /// users to sign in.
    pub fn mcp(mut self, customization: impl Into<String>) -> Self {
        self.start.contributor = Contributor::Mcp(customization.into());
        self
    }

    /// Says which tool of its server it is, for hooks that know it by another name.
    pub(crate) fn of_server(mut self, tool: ServerTool) -> Self {
        self.start.mcp = Some(McpName {
            server: tool.server.clone(),
            tool: tool.tool.clone(),
        });
        self.mcp = Some(tool);
        self
    }

    /// Shows a view of the call where clients can: `_meta.ui`, as its server wrote it (MCP-20).
    pub fn ui(mut self, ui: serde_json::Map<String, serde_json::Value>) -> Self {
        self.start.ui = Some(ui);
        self
    }

    /// Adds fields of the agent's own to `_meta`, each with a name that begins with `innkeeper.`; others are left out.
    pub fn meta(mut self, fields: serde_json::Map<String, serde_json::Value>) -> Self {
        self.start.meta = fields;
        self
    }

    /// Shows the call. Its input comes next.
    pub async fn start(self) -> Result<ToolDraft, AgentError> {
        let call = Call::start(self).await?;
        Ok(ToolDraft { call })
    }
}

/// The description of a call for users, and its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    message: Description,
    input: Option<String>,
}

impl Invocation {
    /// A call described as in "Reads `notes.txt`".
    pub fn new(message: impl Into<Description>) -> Self {
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

impl From<Description> for Invocation {
    fn from(message: Description) -> Self {
        Self::new(message)
    }
}

impl From<String> for Invocation {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

/// The outcome of a confirmation.
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

    /// Describes the call while its input still streams, as in "Editing `notes.txt`". The description given when it
    /// [runs](Self::run) or [asks](Self::confirm) replaces this one.
    pub async fn announce(&mut self, description: impl Into<Description>) -> Result<(), AgentError> {
        self.call.step(ToolStep::Announce(description.into())).await
    }

    /// Runs the session's hooks before the agent uses the input of the call, for agents that can take a changed input:
    /// if a hook changed it, it is returned. Without this, hooks run when the call [runs](Self::run) or
    /// [asks](Self::confirm), and a hook that changes the input then refuses the call.
    ///
    /// # Errors
    ///
    /// [A denial](AgentError::denial) when a hook refuses the call, which is over then.
    pub async fn check(&mut self, input: &str) -> Result<Option<String>, AgentError> {
        let (verdict, changed) = self.call.check(Some(input)).await?;
        self.call.verdict = Some(verdict);
        Ok(changed)
    }

    /// Runs a harmless call without a confirmation. Its work begins when this returns: by then the host has persisted
    /// that the call runs, so that no crash hides its effects (P4).
    ///
    /// # Errors
    ///
    /// [A denial](AgentError::denial) when a hook refuses the call, or demands a confirmation that a user refuses. The
    /// call is over then.
    pub async fn run(mut self, invocation: impl Into<Invocation>) -> Result<ToolCall, AgentError> {
        let invocation = invocation.into();
        let verdict = self.call.hook_verdict(&invocation).await?;
        if verdict.must_ask {
            let permission = Permission::Insist(Box::default());
            return match confirm(self.call, invocation, permission).await? {
                Verdict::Approved(call, _) => Ok(call),
                Verdict::Denied(decision) => Err(AgentError::denied(decision.refusal())),
            };
        }
        self.show(invocation).await
    }

    /// Shows the call as running without a question to hooks or users, for what is no tool and does nothing, such as a
    /// plan.
    pub async fn show(mut self, invocation: impl Into<Invocation>) -> Result<ToolCall, AgentError> {
        self.call.ready(invocation.into(), Permission::NotNeeded).await?;
        self.call.wait(|replies| replies.started.take()).await?;
        Ok(self.call.running())
    }

    /// Asks for a confirmation before the call runs. The session's policy may approve it, and so may a hook of the
    /// user; any hook can refuse it, or demand a confirmation whatever the policy is.
    pub async fn confirm(
        mut self,
        invocation: impl Into<Invocation>,
        confirmation: Confirmation,
    ) -> Result<Verdict, AgentError> {
        let invocation = invocation.into();
        let verdict = match self.call.hook_verdict(&invocation).await {
            Ok(verdict) => verdict,
            Err(error) => match error.denial() {
                Some(reason) => return Ok(Verdict::Denied(decision_of_hook(None, Some(reason.to_owned())))),
                None => return Err(error),
            },
        };
        if verdict.pre_approved {
            let choice = chosen(&confirmation.offer);
            self.call.ready(invocation, Permission::Granted).await?;
            self.call.wait(|replies| replies.started.take()).await?;
            return Ok(Verdict::Approved(self.call.running(), decision_of_hook(choice, None)));
        }
        let confirmation = Box::new(confirmation);
        let permission = if verdict.must_ask {
            Permission::Insist(confirmation)
        } else {
            Permission::Ask(confirmation)
        };
        confirm(self.call, invocation, permission).await
    }

    /// Returns a handle for a judge that assesses the call during the confirmation.
    pub fn risk_reporter(&self) -> RiskReporter {
        self.call.risk_reporter()
    }

    /// Completes when the turn is cancelled or over, for tools that wait for something else.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + use<> {
        self.call.events.cancelled.clone().cancelled_owned()
    }

    /// Ends the call before it ran.
    pub async fn complete(mut self, result: ToolResult) -> Result<(), AgentError> {
        self.call.complete(result).await
    }
}

/// A call that runs.
#[derive(Debug)]
#[must_use = "a call that is dropped ends as failed"]
pub struct ToolCall {
    call: Call,
    /// Whether a sign-in was requested and the agent has not yet reported that the token works.
    is_signing_in: bool,
}

/// The outcome of a sign-in request.
#[derive(Debug)]
#[must_use]
#[expect(clippy::large_enum_variant, reason = "returned once per sign-in and never stored")]
pub enum SignIn {
    /// A user signed in; the token is for the named resource.
    Granted(ToolCall, Secret),
    /// A user cancelled the sign-in, and the call is over.
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

    /// Stores content that is too long for the result, such as the whole output of a command, and returns the content
    /// that refers to it; `None` if it could not be stored. Users see the name, as in `output.txt`.
    pub async fn keep(&self, name: &str, bytes: impl Into<Vec<u8>>, content_type: &str) -> Option<ToolContent> {
        let bytes = bytes.into();
        self.call.events.keep_result(name, bytes, content_type).await
    }

    /// Nothing to show, but the call is at work: keeps the host from calling the agent silent.
    pub async fn alive(&mut self) -> Result<(), AgentError> {
        self.call.events.alive().await
    }

    /// Requests another confirmation while the call runs.
    pub async fn confirm(
        mut self,
        invocation: impl Into<Invocation>,
        confirmation: Confirmation,
    ) -> Result<Verdict, AgentError> {
        self.auth_resolved().await?;
        let permission = Permission::Ask(Box::new(confirmation));
        confirm(self.call, invocation.into(), permission).await
    }

    /// Returns a handle for a judge that assesses the call during the confirmation.
    pub fn risk_reporter(&self) -> RiskReporter {
        self.call.risk_reporter()
    }

    /// Asks users to sign in to a resource that the call needs. Only a call of an MCP server can (TOOL-15). If the
    /// token does not work, call this again to wait for another.
    pub async fn require_auth(mut self, requirement: AuthRequirement) -> Result<SignIn, AgentError> {
        match self.await_sign_in(requirement).await? {
            Some(token) => Ok(SignIn::Granted(self, token)),
            None => Ok(SignIn::Refused),
        }
    }

    /// Like [`Self::require_auth`], for a caller that does something else meanwhile. Without a token the call is over.
    pub(crate) async fn await_sign_in(&mut self, requirement: AuthRequirement) -> Result<Option<Secret>, AgentError> {
        if !self.call.is_mcp {
            return Err(AgentError::failed(
                "notMcp",
                "only a tool call of an MCP server can ask users to sign in; begin it with `mcp`",
            ));
        }
        if !std::mem::replace(&mut self.is_signing_in, true) {
            // The answer to an earlier question, which was no longer needed when it came.
            self.call.forget_sign_in();
        }
        self.call.step(ToolStep::AuthRequired(requirement)).await?;
        let signed_in = self.call.wait(|replies| replies.signed_in.take()).await?;
        self.call.is_over = signed_in.is_none();
        Ok(signed_in)
    }

    /// Reports that the token works and the call continues. The next step of the call implies it.
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

    /// Runs a command in a terminal, which users can watch, type into and stop. Show it with
    /// [`ToolContent::Terminal`].
    ///
    /// # Errors
    ///
    /// With the kind `noTerminal` when the host runs no terminals, or when the command cannot be started.
    pub async fn terminal(&mut self, command: TerminalCommandLine) -> Result<AgentTerminal, AgentError> {
        self.auth_resolved().await?;
        self.call.events.run_in_terminal(&self.call.id, command).await
    }

    /// Shows work that outlives the call and its turn (CHT-24).
    pub async fn background(
        &self,
        label: impl Into<String>,
        command: impl Into<String>,
    ) -> Result<Background, AgentError> {
        self.call.events.background(label, command).await
    }

    /// Comments on a file of the session, as [`EventSink::annotate`] does.
    pub async fn annotate(
        &self,
        file: impl Into<String>,
        span: Option<TextSpan>,
        text: impl Into<String>,
    ) -> Result<(), AgentError> {
        self.call.events.annotate(file, span, text).await
    }

    /// Starts a subagent in a chat of its own (CHT-12). Fails with the kind `subagentRefused` when
    /// there are too many, or too many below one another (CHT-13).
    pub async fn subagent(&mut self, spec: SubagentSpec) -> Result<Subagent, AgentError> {
        self.auth_resolved().await?;
        let events = &self.call.events;
        let kind = spec.kind_name().map(str::to_owned);
        let spawn: Spawn = spec.into_spawn(self.call.id.to_string());
        let (number, mut started) = events.mailbox.add_subagent(&self.call.id);
        let mut waiting = InLine {
            mailbox: &events.mailbox,
            call: &self.call.id,
            number,
            asked: false,
        };
        let event = AgentEvent::Spawn(Box::new(spawn));
        events.send_noting(event, &mut waiting.asked).await?;
        let answer = events.wait_for(&mut started).await?;
        let subagent = answer.map_err(|reason| AgentError::failed("subagentRefused", reason))?;
        subagent.events().subagent_starts(kind.as_deref()).await?;
        Ok(subagent)
    }

    /// Ends the call.
    pub async fn complete(mut self, result: ToolResult) -> Result<(), AgentError> {
        if result.success {
            self.auth_resolved().await?;
        }
        let ended = self.call.ended(&result);
        self.call.complete(result).await?;
        self.call.tell(ended).await
    }

    /// Ends the call, and lets users review the result before the model gets it. Returns whether the model may have it.
    pub async fn complete_reviewed(mut self, result: ToolResult) -> Result<bool, AgentError> {
        self.auth_resolved().await?;
        let ended = self.call.ended(&result);
        self.call.step(ToolStep::Done { result, review: true }).await?;
        self.call.is_over = true;
        let is_allowed = self.call.wait(|replies| replies.reviewed.take()).await?;
        self.call.tell(ended).await?;
        Ok(is_allowed)
    }
}

/// Reports a judge's assessment of a call (TOOL-18). A late report is ignored.
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

/// Asks for a confirmation. If a user edits the input and a hook demands a confirmation of the edited input, asks again
/// until a user approves the input that is shown.
async fn confirm(
    mut call: Call,
    mut invocation: Invocation,
    mut permission: Permission,
) -> Result<Verdict, AgentError> {
    let mut edited = None;
    loop {
        let message = invocation.message.text.clone();
        call.ready(invocation.clone(), permission.clone()).await?;
        let deciding = call.wait(|replies| replies.decided.take());
        let mut decision = call
            .events
            .while_user_decides("permission_prompt", message, deciding)
            .await?;
        if !decision.approved {
            call.is_over = true;
            return Ok(Verdict::Denied(decision));
        }
        let Some(written) = decision.edited_input.take() else {
            decision.edited_input = edited;
            return Ok(Verdict::Approved(call.running(), decision));
        };
        match call.take_edited(written.clone()).await {
            Ok(verdict) if verdict.must_ask => {}
            Ok(_) => {
                decision.edited_input = Some(written);
                return Ok(Verdict::Approved(call.running(), decision));
            }
            Err(error) => {
                return match error.denial() {
                    Some(reason) => Ok(Verdict::Denied(decision_of_hook(None, Some(reason.to_owned())))),
                    None => Err(error),
                };
            }
        }
        permission = Permission::Insist(Box::new(again(&permission)));
        invocation = Invocation::new("Goes on with the edited input").input(written.clone());
        edited = Some(written);
    }
}

/// Returns the confirmation for an edited input: the display of the former input is gone.
fn again(permission: &Permission) -> Confirmation {
    let before = match permission {
        Permission::Ask(confirmation) | Permission::Insist(confirmation) => (**confirmation).clone(),
        Permission::NotNeeded | Permission::Granted => Confirmation::default(),
    };
    Confirmation {
        title: Some("A hook asks about the input that you wrote. Go on with it?".to_owned()),
        edits: Vec::new(),
        risk: None,
        ..before
    }
}

/// Returns the decision that a hook made for the user.
fn decision_of_hook(choice: Option<String>, refusal: Option<String>) -> Decision {
    Decision {
        choice,
        remark: refusal.clone(),
        ..Decision::by_host(refusal.is_none())
    }
}

/// Returns the result of a call that a user refused, with the attachments of the refusal.
pub(crate) fn refused(shown: &str, decision: &Decision) -> ToolResult {
    let did = if decision.is_skipped { "skipped" } else { "not allowed" };
    let content = decision.attachments.iter().map(|attachment| match attachment {
        Attachment::Text { label, text } => ToolContent::Text(format!("Attached: {label}\n{text}")),
        Attachment::Embedded { data, content_type, .. } => ToolContent::Embedded {
            data: data.clone(),
            content_type: content_type.clone(),
        },
        Attachment::Resource {
            label, uri, selection, ..
        } => {
            let selected = selection.map(|selection| format!(", {}", selection.in_words()));
            ToolContent::Text(format!("Attached: {label} ({uri}){}", selected.unwrap_or_default()))
        }
        Attachment::Reference { label, .. }
        | Attachment::Annotations { label, .. }
        | Attachment::Chat { label, .. } => ToolContent::Text(format!("Attached: {label}")),
    });
    ToolResult {
        content: content.collect(),
        ..ToolResult::failed(format!("{shown} was {did}"), decision.refusal())
    }
}

/// The choice that stands for a yes: one of the agent's own, or none in particular.
fn chosen(offer: &Offer) -> Option<String> {
    match offer {
        Offer::Standard => None,
        Offer::Own(options) => {
            let yes = options.iter().find(|option| option.approves);
            yes.map(|option| option.id.clone())
        }
    }
}

/// A place in the line for a subagent.
struct InLine<'a> {
    mailbox: &'a Mailbox,
    call: &'a str,
    number: u64,
    asked: bool,
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        if !self.asked {
            self.mailbox.remove_subagent(self.call, self.number);
        }
    }
}

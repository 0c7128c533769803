//! Where an agent's output goes.

use std::fmt;
use std::sync::Arc;

use innkeeper_core::agent::{NewAnnotation, TextSpan};
use innkeeper_core::{AgentEvent, ELICITATION, TurnKey, Usage};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::overflow::TurnOverflow;
use super::runtime::hooks::HookContext;
use super::runtime::mailbox::Mailbox;
use super::{
    AgentError, Answer, Background, ClientCall, ClientTool, Form, PromptSection, RenderedPrompt, Response, Secret,
    ToolCallBuilder, ToolResult, background, client_tool, prompt, tool_call,
};
use crate::agent::runtime::driver::ChatLink;
use crate::agent::runtime::event_queue::Offer;
use crate::main_loop::message::TerminalMessage;
use crate::services::customizations::TurnCustomizations;
use crate::services::mcp::{Mcp, McpCall, McpTool};
use crate::services::terminals::{AgentTerminal, TerminalCommandLine};

/// Most that is remembered about a chat for its agent.
const MAX_MEMORY_BYTES: usize = 64 << 10;

/// Takes what an agent produces during one turn.
///
/// Sending waits while the host is behind, so an agent can never outrun its readers' host. Clones
/// go to the same turn.
#[derive(Clone)]
pub struct EventSink {
    pub(crate) link: Arc<ChatLink>,
    pub(crate) turn: TurnKey,
    pub(crate) cancelled: CancellationToken,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) customizations: TurnCustomizations,
    /// The context that every hook gets, and the context that hooks added.
    pub(crate) hook_context: Arc<HookContext>,
    /// The space for long content in the turn.
    pub(crate) overflow: Arc<TurnOverflow>,
}

impl fmt::Debug for EventSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventSink")
            .field("chat", &self.link.queue.chat())
            .field("turn", &self.turn)
            .finish_non_exhaustive()
    }
}

impl EventSink {
    /// Markdown for the reader.
    pub async fn text(&self, text: impl Into<String>) -> Result<(), AgentError> {
        self.send(AgentEvent::Text(text.into())).await
    }

    /// The model's thinking.
    pub async fn reasoning(&self, text: impl Into<String>) -> Result<(), AgentError> {
        self.send(AgentEvent::Reasoning(text.into())).await
    }

    /// Ends the present part, so that the next text starts a new one.
    pub async fn end_part(&self) -> Result<(), AgentError> {
        self.send(AgentEvent::EndPart).await
    }

    /// Reports the token usage of the turn so far.
    pub async fn usage(&self, usage: Usage) -> Result<(), AgentError> {
        self.send(AgentEvent::Usage(Box::new(usage))).await
    }

    /// Reports the agent's present activity, for a status line.
    pub async fn activity(&self, activity: impl Into<String>) -> Result<(), AgentError> {
        self.send(AgentEvent::Activity(Some(activity.into()))).await
    }

    /// Clears the agent's activity.
    pub async fn no_activity(&self) -> Result<(), AgentError> {
        self.send(AgentEvent::Activity(None)).await
    }

    /// A remark of the system in the transcript.
    pub async fn notice(&self, text: impl Into<String>) -> Result<(), AgentError> {
        self.send(AgentEvent::Notice(text.into())).await
    }

    /// A better title for the session, unless a user chose one.
    pub async fn title(&self, title: impl Into<String>) -> Result<(), AgentError> {
        self.send(AgentEvent::Title(title.into())).await
    }

    /// Says that the agent changed one of its own [settings](super::AgentInfo::with_setting) of the session, such as its
    /// mode. Settings of the host, and values that do not fit, are ignored.
    pub async fn setting(&self, id: impl Into<String>, value: serde_json::Value) -> Result<(), AgentError> {
        let (id, value) = (id.into(), Box::new(value));
        self.send(AgentEvent::Setting { id, value }).await
    }

    /// Something to look at that is not text, by its URI and, if it is known, its media type. [`Self::attach`] shows what
    /// has no URI yet.
    pub async fn resource(
        &self,
        uri: impl Into<String>,
        content_type: impl Into<Option<String>>,
    ) -> Result<(), AgentError> {
        let (uri, content_type) = (uri.into(), content_type.into());
        let size = None;
        self.send(AgentEvent::Resource {
            uri,
            content_type,
            size,
        })
        .await
    }

    /// Persists a value with the chat for the next time it is opened: after a restart of the host, or after a long idle
    /// time. Agents with sessions of their own store the ids here. The value replaces the former one; `null` deletes
    /// it. At most 64 KiB of JSON.
    pub async fn remember(&self, memory: serde_json::Value) -> Result<(), AgentError> {
        if memory.to_string().len() > MAX_MEMORY_BYTES {
            let message =
                "the agent's memory of a chat is larger than 64 KiB; store it elsewhere and remember its location";
            return Err(AgentError::failed("memoryTooLarge", message));
        }
        self.send(AgentEvent::Remember(Box::new(memory))).await
    }

    /// Reports that the resource did not accept a token. That token is not used again, and the subscribers of the
    /// session are asked for another one (AUTH-09). The turn continues until the agent ends it, usually with
    /// [`AgentError::resumable`].
    pub async fn token_refused(&self, resource: impl Into<String>, token: &Secret) -> Result<(), AgentError> {
        let (resource, token) = (resource.into(), token.clone());
        self.send(AgentEvent::TokenRefused { resource, token }).await
    }

    /// Comments on a file of the session, for a review. Users answer, resolve and remove it like an annotation of
    /// their own. Lines and characters of the span count from 0; without a span the comment is about the whole file.
    pub async fn annotate(
        &self,
        file: impl Into<String>,
        span: Option<TextSpan>,
        text: impl Into<String>,
    ) -> Result<(), AgentError> {
        let (file, text) = (file.into(), text.into());
        self.send(AgentEvent::Annotate(Box::new(NewAnnotation { file, span, text })))
            .await
    }

    /// Nothing to show, but the agent is at work: keeps the host from calling it silent.
    pub async fn alive(&self) -> Result<(), AgentError> {
        self.send(AgentEvent::Alive).await
    }

    /// Runs a command of a tool call in a terminal.
    pub(crate) async fn run_in_terminal(
        &self,
        call: &str,
        command: TerminalCommandLine,
    ) -> Result<AgentTerminal, AgentError> {
        let (reply, answer) = oneshot::channel();
        let start = TerminalMessage::AgentCommand {
            chat: self.link.queue.chat(),
            call: call.to_owned(),
            command: Box::new(command),
            reply,
        };
        if self.link.inbox().send(start.into()).await.is_err() {
            return Err(AgentError::Cancelled);
        }
        let failed = |reason: String| AgentError::failed("noTerminal", reason);
        tokio::select! {
            () = self.cancelled.cancelled() => Err(AgentError::Cancelled),
            answer = answer => match answer {
                Ok(terminal) => terminal.map_err(failed),
                Err(_) => Err(failed("the host is going down".to_owned())),
            },
        }
    }

    /// Begins a call of one of the agent's own tools.
    pub fn tool(&self, name: impl Into<String>) -> ToolCallBuilder {
        tool_call::begin(self.clone(), name.into())
    }

    /// Begins a call of a tool that a client of the session executes.
    pub fn client_tool(&self, tool: &ClientTool) -> ClientCall {
        client_tool::begin(self.clone(), tool)
    }

    /// Has a client execute one of its tools. The input is JSON text. A call that is denied, or
    /// whose client leaves, gives a failed result.
    pub async fn call_client_tool(
        &self,
        tool: &ClientTool,
        input: impl Into<String>,
    ) -> Result<ToolResult, AgentError> {
        self.client_tool(tool).run(input).await
    }

    /// Asks the session's users a question. They see the same form in every client and fill it in together; the first
    /// one to send it answers for all.
    ///
    /// Dropping the future withdraws the question.
    pub async fn ask(&self, form: Form) -> Result<Answer, AgentError> {
        let kind = match form.is_elicited() {
            true => ELICITATION.trim_end_matches('-'),
            false => "question",
        };
        let questions = form.into_questions(self.mailbox.fresh_id(kind));
        let why = questions.message.clone().unwrap_or_default();
        let mut asked = OpenQuestion {
            events: self,
            id: questions.id.clone(),
            is_open: false,
        };
        let answer = self.mailbox.add_question(&asked.id);
        let ask = AgentEvent::Ask(Box::new(questions));
        self.send_noting(ask, &mut asked.is_open).await?;
        let waiting = self.wait_for(answer);
        let answer = self.while_user_decides("elicitation_dialog", why, waiting).await?;
        asked.is_open = false;
        Ok(answer)
    }

    /// Asks users to visit a page, for instance to sign in there, and to confirm when they are done.
    pub async fn ask_url(&self, message: impl Into<String>, url: impl Into<String>) -> Result<Response, AgentError> {
        let answer = self.ask(Form::visit(message, url)).await?;
        Ok(answer.response)
    }

    /// Takes the steering message of the running turn, if there is one; it counts as delivered from now on (PEND-04).
    /// Call it where the agent can change direction, such as between two tool calls.
    ///
    /// Hooks see it first, as any message. One that they refuse is not given to the agent, and users see a notice.
    ///
    /// Dropping this future loses no message: it is retained for the next call.
    pub async fn steering(&self) -> Result<Option<String>, AgentError> {
        let Some(words) = self.next_steering().await? else {
            return Ok(None);
        };
        let mut unchecked = UncheckedSteering {
            mailbox: &self.mailbox,
            text: Some(words),
        };
        let words = unchecked.text.clone().unwrap_or_default();
        let outcome = self.steering_comes(&words).await;
        // The users have answered, so the question need not be withdrawn.
        unchecked.text = None;
        Ok(outcome?.then_some(words))
    }

    async fn next_steering(&self) -> Result<Option<String>, AgentError> {
        let (number, receiver) = match self.mailbox.add_steering() {
            Ok(text) => return Ok(Some(text)),
            Err(waiting) => waiting,
        };
        let mut waiting = Steering {
            mailbox: &self.mailbox,
            number,
            asked: false,
            receiver,
        };
        self.send_noting(AgentEvent::TakeSteering, &mut waiting.asked).await?;
        match self.wait_for(&mut waiting.receiver).await {
            // The message came before the end did, and counts as delivered: an agent that continues in another turn has
            // to know it.
            Err(AgentError::Cancelled) => match waiting.receiver.try_recv() {
                Ok(Some(words)) => Ok(Some(words)),
                _ => Err(AgentError::Cancelled),
            },
            heard => heard,
        }
    }

    /// Renders the system prompt of this turn: the client that started it, or another one of the session, may rewrite
    /// the sections it asked for (SMT-06). A subagent's prompt is rewritten by the client that started its parent's
    /// turn. Call it whenever the prompt is built; without such a client it returns at once. If the client fails, the
    /// sections stay as they are.
    ///
    /// # Errors
    ///
    /// When the turn is cancelled, or two sections have the same id.
    pub async fn render_prompt(&self, sections: Vec<PromptSection>) -> Result<RenderedPrompt, AgentError> {
        prompt::check(&sections)?;
        tokio::select! {
            biased;
            () = self.cancelled.cancelled() => Err(AgentError::Cancelled),
            rendered = self.link.renderer.render(Some(self.turn), sections) => Ok(rendered),
        }
    }

    /// Shows background work, such as a command that was left running: a short label, and the command. It is shown
    /// until the guard is finished or dropped (CHT-24).
    pub async fn background(
        &self,
        label: impl Into<String>,
        command: impl Into<String>,
    ) -> Result<Background, AgentError> {
        background::begin(self, label.into(), command.into()).await
    }

    /// Returns the customizations of the turn; a subagent has those of its parent.
    pub fn customizations(&self) -> &TurnCustomizations {
        &self.customizations
    }

    /// The MCP servers of the session.
    pub fn mcp(&self) -> &Mcp {
        self.customizations.mcp()
    }

    /// Begins a call of a tool of one of them.
    pub fn mcp_tool(&self, tool: &McpTool) -> McpCall {
        McpCall::new(self.clone(), tool)
    }

    /// Completes when the turn is cancelled or over, for agents that wait for something else.
    pub async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    pub(super) async fn wait_for<T>(
        &self,
        receiver: impl Future<Output = Result<T, oneshot::error::RecvError>>,
    ) -> Result<T, AgentError> {
        tokio::select! {
            biased;
            () = self.cancelled.cancelled() => Err(AgentError::Cancelled),
            answer = receiver => answer.map_err(|_| AgentError::Cancelled),
        }
    }

    pub(super) async fn send(&self, event: AgentEvent) -> Result<(), AgentError> {
        self.send_noting(event, &mut false).await
    }

    /// Sends an event and sets the flag as soon as a reply may come, even if the caller drops this future.
    pub(super) async fn send_noting(&self, mut event: AgentEvent, sent: &mut bool) -> Result<(), AgentError> {
        loop {
            let offer = self.link.queue.offer(self.turn, event);
            *sent = matches!(offer, Offer::Taken | Offer::Wake);
            match offer {
                Offer::Taken => return Ok(()),
                Offer::Wake => return self.link.wake().await,
                Offer::Over => return Err(AgentError::Cancelled),
                Offer::Full(back) => event = back,
            }
            self.link.queue.room(self.turn).await;
        }
    }

    /// Sends without waiting, for a `drop`.
    pub(super) fn send_now(&self, event: AgentEvent) {
        if self.link.queue.push(self.turn, event) {
            self.link.wake_now();
        }
    }
}

/// A question that waits for its answer. Dropped while it is open, it is withdrawn.
struct OpenQuestion<'a> {
    events: &'a EventSink,
    id: String,
    is_open: bool,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.events.mailbox.remove_question(&self.id);
        if self.is_open {
            self.events.send_now(AgentEvent::Withdraw(std::mem::take(&mut self.id)));
        }
    }
}

/// A steering message that hooks are checking. Dropped before their verdict, it returns to the mailbox.
struct UncheckedSteering<'a> {
    mailbox: &'a Mailbox,
    text: Option<String>,
}

impl Drop for UncheckedSteering<'_> {
    fn drop(&mut self) {
        if let Some(text) = self.text.take() {
            self.mailbox.return_steering(text);
        }
    }
}

/// A wait for a steering message. A message that arrives while it is dropped returns to the mailbox.
struct Steering<'a> {
    mailbox: &'a Mailbox,
    number: u64,
    asked: bool,
    receiver: oneshot::Receiver<Option<String>>,
}

impl Drop for Steering<'_> {
    fn drop(&mut self) {
        if !self.asked {
            // No reply will come, so no waiter may stay registered.
            self.mailbox.remove_steering(self.number);
        }
        // Closed first, so that the mailbox itself retains a later reply.
        self.receiver.close();
        if let Ok(Some(text)) = self.receiver.try_recv() {
            self.mailbox.keep_steering(text);
        }
    }
}

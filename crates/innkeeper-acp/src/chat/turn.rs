//! One turn: a prompt, everything that the agent sends until it answers, and the requests that it makes meanwhile.

mod ending;

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use innkeeper_host::agent::{Decision, ToolCall, ToolContent};
use innkeeper_host::{AgentError, EventSink, TurnInput};
use innkeeper_std::needed_variables;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::calls::{Calls, Consequence, Move, Moved};
use crate::agent::AgentContext;
use crate::client::files::Files;
use crate::client::terminals::{Terminals, command_line};
use crate::from_agent::{self, Block, PlanStep, StepStatus, Tokens, ToolPatch, Update, checklist, elicitation};
use crate::session::{ChangedOption, Session};
use crate::to_agent;
use crate::tools::{self, ToolRequest};
use crate::wire::{Closed, Incoming, RpcError, code};

/// Updates without a place in AHP that are kept per turn, and the bytes of one.
const MAX_UNMAPPED: usize = 20;
const MAX_UNMAPPED_BYTES: usize = 2 << 10;
/// How often a busy agent that says nothing is reported as alive.
const ALIVE_PACE: Duration = Duration::from_secs(10);

/// The end of a turn.
#[derive(Debug)]
pub(super) enum TurnOutcome {
    /// The agent answered, or was told to stop: the session can be used again.
    Ended(Result<(), AgentError>),
    /// The agent is gone.
    Died,
}

/// A terminal that waits for its call.
struct WaitingTerminal {
    /// The id of the request.
    request: Value,
    params: Value,
    /// The call that exists only because this terminal needs one.
    call: Option<String>,
}

/// A request of the agent that takes time, and its outcome; nothing if it was withdrawn.
type Served = BoxFuture<'static, Option<(Value, Result<Value, RpcError>)>>;

/// A turn that runs.
pub(super) struct TurnRun<'a> {
    shared: &'a AgentContext,
    session: &'a mut Session,
    events: &'a EventSink,
    calls: Calls,
    moves: FuturesUnordered<Move>,
    serving: FuturesUnordered<Served>,
    /// The ways to withdraw these requests.
    withdrawals: Vec<(Value, oneshot::Sender<()>)>,
    /// The agent's calls of our tools.
    tools: FuturesUnordered<BoxFuture<'static, Result<(), AgentError>>>,
    terminals: Terminals,
    /// The agent's requests that have no answer yet, and their methods.
    open: Vec<(Value, String)>,
    /// Terminals that wait for their call to begin.
    waiting: Vec<WaitingTerminal>,
    /// Permission requests about calls that are being decided about.
    questions: Vec<(Value, Value)>,
    plan: Option<ToolCall>,
    /// The text of the answer.
    reply: String,
    /// Whether the answer has anything.
    has_shown: bool,
    /// The message that the last text belonged to.
    message: Option<String>,
    /// The tokens that the turn cost so far.
    spent: Tokens,
    /// The context that hooks added about calls.
    hook_context: Vec<String>,
    /// Whether a user refused a call.
    is_denied: bool,
    /// Why the agent was told to stop.
    stopped: Option<String>,
    steps: Vec<PlanStep>,
}

/// Why the turn is interrupted.
enum Interruption {
    /// An event was refused: the turn was cancelled, or something failed.
    Agent(AgentError),
    /// The agent is gone.
    Closed,
}

impl From<AgentError> for Interruption {
    fn from(error: AgentError) -> Self {
        Self::Agent(error)
    }
}

impl From<Closed> for Interruption {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

impl<'a> TurnRun<'a> {
    pub(super) fn new(shared: &'a AgentContext, session: &'a mut Session, events: &'a EventSink) -> Self {
        Self {
            shared,
            session,
            events,
            calls: Calls::default(),
            moves: FuturesUnordered::new(),
            serving: FuturesUnordered::new(),
            withdrawals: Vec::new(),
            tools: FuturesUnordered::new(),
            terminals: Terminals::default(),
            open: Vec::new(),
            waiting: Vec::new(),
            questions: Vec::new(),
            plan: None,
            reply: String::new(),
            has_shown: false,
            message: None,
            spent: Tokens::default(),
            hook_context: Vec::new(),
            is_denied: false,
            stopped: None,
            steps: Vec::new(),
        }
    }

    /// Sends the prompt, with texts that come before the user's message.
    pub(super) async fn send(&mut self, turn: &TurnInput, before: Vec<String>) -> Result<i64, Closed> {
        let blocks = to_agent::prompt(turn, &before, self.session.learned.abilities);
        let params = json!({ "sessionId": self.session.id, "prompt": blocks });
        self.session.is_used = true;
        self.session.wire.request("session/prompt", params).await
    }

    /// Follows the agent to its answer to the prompt. The memory names the session for the next time that the chat is
    /// opened.
    pub(super) async fn perform(&mut self, prompt: i64, memory: Value) -> TurnOutcome {
        let mut prompt = prompt;
        let mut remembered = self.events.remember(memory).await;
        loop {
            let followed = match remembered {
                Ok(()) => self.follow(prompt).await,
                Err(error) => Err(error.into()),
            };
            let outcome = match followed {
                Ok(outcome) => outcome,
                Err(Interruption::Closed) => return TurnOutcome::Died,
                Err(Interruption::Agent(error)) => {
                    self.session.unanswered = Some(prompt);
                    return match self.cancel().await {
                        Ok(()) => TurnOutcome::Ended(Err(error)),
                        Err(_) => TurnOutcome::Died,
                    };
                }
            };
            let reason = match self.conclude(&outcome).await {
                Ok(true) => self.events.may_stop().await,
                Ok(false) => Ok(None),
                Err(error) => Err(error),
            };
            match reason {
                Ok(None) => return TurnOutcome::Ended(self.end(outcome).await),
                Ok(Some(reason)) => match self.go_on(&reason).await {
                    Ok(next) => prompt = next,
                    Err(_) => return TurnOutcome::Died,
                },
                Err(error) => return TurnOutcome::Ended(Err(error)),
            }
            remembered = Ok(());
        }
    }

    /// Returns the text of the answer, and the context that hooks added about calls. Commands of the turn that still run
    /// end now.
    pub(super) fn finish(self) -> (String, Vec<String>) {
        (self.reply, self.hook_context)
    }

    async fn follow(&mut self, prompt: i64) -> Result<Result<Value, RpcError>, Interruption> {
        let mut alive = tokio::time::interval(ALIVE_PACE);
        alive.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = self.events.cancelled() => return Err(AgentError::Cancelled.into()),
                Some(moved) = self.moves.next(), if !self.moves.is_empty() => self.moved(moved).await?,
                Some(served) = self.serving.next(), if !self.serving.is_empty() => {
                    if let Some((request, outcome)) = served {
                        self.answer(&request, outcome).await?;
                    }
                }
                Some(done) = self.tools.next(), if !self.tools.is_empty() => done?,
                call = Session::next_call(&mut self.session.tools) => self.call_tool(call),
                incoming = self.session.wire.next() => match incoming? {
                    Incoming::Notification { method, params } => {
                        self.notified(method, params).await?;
                    }
                    Incoming::Request { id, method, params } => {
                        self.open.push((id.clone(), method.clone()));
                        self.request(id, &method, params).await?;
                    }
                    Incoming::Answer { id, outcome } if id == prompt => return Ok(outcome),
                    Incoming::Answer { .. } | Incoming::Broken(_) => {}
                },
                _ = alive.tick() => {
                    // A silent command must not trip the watchdog; a silent agent may.
                    if self.calls.is_busy() || self.terminals.is_busy() || !self.tools.is_empty() {
                        self.events.alive().await?;
                    }
                }
            }
        }
    }

    async fn notified(&mut self, method: String, params: Value) -> Result<(), Interruption> {
        match method.as_str() {
            "session/update" => {
                if params["sessionId"].as_str().is_none_or(|id| id == self.session.id) {
                    self.update(from_agent::update(&params)).await?;
                }
            }
            "$/cancel_request" => self.withdraw(&params["requestId"]).await?,
            _ => self.note_unmapped(json!({ "method": method, "params": params })),
        }
        Ok(())
    }

    /// Ends a request that the agent does not want answered any more.
    async fn withdraw(&mut self, request: &Value) -> Result<(), Interruption> {
        let position = self.withdrawals.iter().position(|(known, _)| known == request);
        let is_served = position
            .map(|position| self.withdrawals.swap_remove(position))
            .is_some();
        if self.calls.withdraw(request) || is_served {
            let error = RpcError::new(code::CANCELLED, "the request was cancelled");
            self.answer(request, Err(error)).await?;
        }
        Ok(())
    }

    /// Keeps something that has no place in AHP.
    fn note_unmapped(&mut self, unmapped: Value) {
        let kept = &mut self.session.unmapped;
        if kept.len() < MAX_UNMAPPED && unmapped.to_string().len() <= MAX_UNMAPPED_BYTES {
            kept.push(unmapped);
        }
    }

    /// Serves a request that takes time. The agent can withdraw it.
    fn serve(&mut self, id: Value, serving: impl Future<Output = Result<Value, RpcError>> + Send + 'static) {
        let (withdraw, withdrawn) = oneshot::channel::<()>();
        self.withdrawals.retain(|(_, withdraw)| !withdraw.is_closed());
        self.withdrawals.push((id.clone(), withdraw));
        self.serving.push(Box::pin(async move {
            tokio::select! {
                outcome = serving => Some((id, outcome)),
                _ = withdrawn => None,
            }
        }));
    }

    async fn update(&mut self, update: Update) -> Result<(), Interruption> {
        match update {
            Update::Text { text, message } => {
                if message.is_some() && message != self.message && !self.reply.is_empty() {
                    self.events.end_part().await?;
                }
                self.message = message;
                self.say(text).await?;
            }
            Update::Thought(text) => self.events.reasoning(text).await?,
            Update::Block(block) => self.show(block).await?,
            Update::Echo | Update::Unknown(_) => {}
            Update::Unmapped(update) => self.note_unmapped(update),
            Update::Tool(patch) => self.patch(*patch).await?,
            Update::Plan(steps) => self.show_plan(steps).await?,
            Update::Commands(commands) => {
                self.session.learned.commands = commands;
                self.shared.learn(&self.session.learned, &self.session.options);
            }
            Update::Mode(mode) => {
                let changed = self.session.note_mode(&mode);
                self.note_changes(changed).await?;
            }
            Update::Options(options) => {
                let changed = self.session.replace_options(options);
                self.note_changes(changed).await?;
            }
            Update::Title(title) => self.events.title(title).await?,
            Update::Context(context) => self.session.context = context,
            Update::Notice(text) => self.events.notice(text).await?,
        }
        Ok(())
    }

    /// Shows values that the agent chose for its options.
    async fn note_changes(&mut self, changed: impl IntoIterator<Item = ChangedOption>) -> Result<(), Interruption> {
        for changed in changed {
            self.events.setting(&changed.id, changed.new.clone()).await?;
            self.session.changed.push(changed);
        }
        Ok(())
    }

    async fn say(&mut self, text: String) -> Result<(), Interruption> {
        self.has_shown = true;
        self.reply.push_str(&text);
        self.events.text(text).await?;
        Ok(())
    }

    async fn show(&mut self, block: Block) -> Result<(), Interruption> {
        match block {
            Block::Text(text) => self.say(text).await?,
            Block::Link { uri, content_type } => {
                self.has_shown = true;
                self.events.resource(uri, content_type).await?;
            }
            Block::Bytes {
                data,
                content_type,
                name,
            } => {
                use base64::Engine as _;
                let bytes = base64::engine::general_purpose::STANDARD
                    .decode(data)
                    .unwrap_or_default();
                let extension = content_type.rsplit('/').next().unwrap_or("bin");
                let name = format!("{name}.{extension}");
                self.has_shown = true;
                self.events.attach(&name, bytes, &content_type).await?;
            }
        }
        Ok(())
    }

    async fn patch(&mut self, patch: ToolPatch) -> Result<(), Interruption> {
        let id = patch.id.clone();
        self.message = None;
        self.patch_call(patch, false).await?;
        self.follow_call(&id).await
    }

    async fn patch_call(&mut self, patch: ToolPatch, is_asked: bool) -> Result<(), Interruption> {
        if self.calls.wants_offered(&patch.id) {
            self.calls.offered = self.session.offered();
        }
        self.has_shown = true;
        self.calls.patch(self.events, patch, is_asked).await?;
        Ok(())
    }

    /// Carries out a call of one of our tools.
    fn call_tool(&mut self, request: ToolRequest) {
        let Some(tool) = self.session.offered().tool(&request.name) else {
            let problem = format!("there is no tool {:?} any more", request.name);
            return request.refuse(&problem);
        };
        self.message = None;
        self.has_shown = true;
        self.calls.note_own(&request.name);
        self.tools
            .push(Box::pin(tools::serve(request, tool, self.events.clone())));
    }

    async fn follow_call(&mut self, id: &str) -> Result<(), Interruption> {
        let moving = self.calls.follow(id, &self.terminals).await?;
        self.moves.extend(moving);
        Ok(())
    }

    async fn moved(&mut self, moved: Moved) -> Result<(), Interruption> {
        let id = moved.call.clone();
        match self.calls.moved(moved)? {
            Consequence::Answer {
                request,
                outcome,
                is_denied,
            } => {
                self.is_denied |= is_denied;
                self.answer(&request, Ok(outcome)).await?;
            }
            Consequence::Stop(reason) => {
                self.stopped.get_or_insert(reason);
                let params = json!({ "sessionId": self.session.id });
                self.session.wire.notify("session/cancel", params).await?;
            }
            Consequence::Nothing => {}
        }
        self.follow_call(&id).await?;
        for (request, params) in std::mem::take(&mut self.questions) {
            self.ask_permission(request, params).await?;
        }
        for waiting in std::mem::take(&mut self.waiting) {
            self.create_terminal(waiting).await?;
        }
        Ok(())
    }

    async fn request(&mut self, id: Value, method: &str, params: Value) -> Result<(), Interruption> {
        let files = || Files::new(self.session.directories.clone(), self.shared.command.umask);
        match method {
            "session/request_permission" => return self.ask_permission(id, params).await,
            "terminal/create" if self.shared.serves_terminals => {
                let waiting = WaitingTerminal {
                    request: id,
                    params,
                    call: None,
                };
                return self.create_terminal(waiting).await;
            }
            "fs/read_text_file" if self.shared.serves_files => {
                let reading = files().read(params);
                self.serve(id, reading);
                return Ok(());
            }
            "fs/write_text_file" if self.shared.serves_files => {
                let writing = files().write(params);
                self.serve(id, writing);
                return Ok(());
            }
            "elicitation/create" => {
                if let Some(question) = elicitation::question(&params) {
                    let events = self.events.clone();
                    self.serve(id, async move {
                        match events.elicit(question).await {
                            Ok(answer) => elicitation::answer(answer),
                            Err(error) => Err(RpcError::new(code::CANCELLED, error.to_string())),
                        }
                    });
                    return Ok(());
                }
            }
            "terminal/wait_for_exit" => {
                if let Ok(terminal) = self.terminals.find(&params) {
                    self.serve(id, async move { Ok(terminal.wait().await) });
                    return Ok(());
                }
            }
            _ => {}
        }
        let found = self.terminals.find(&params);
        let outcome = match method {
            "terminal/output" => found.map(|terminal| terminal.output()),
            "terminal/kill" => found.map(|terminal| {
                terminal.kill();
                json!({})
            }),
            // The terminal stays readable for users until the turn is over.
            "terminal/release" => found.map(|terminal| {
                terminal.kill();
                json!({})
            }),
            "terminal/wait_for_exit" => found.map(|_| json!({})),
            _ => Err(RpcError::new(code::METHOD_NOT_FOUND, format!("{method} is unknown"))),
        };
        self.answer(&id, outcome).await?;
        Ok(())
    }

    async fn ask_permission(&mut self, request: Value, params: Value) -> Result<(), Interruption> {
        let Some(patch) = ToolPatch::read(&params["toolCall"]) else {
            let error = RpcError::new(code::INVALID_PARAMS, "params.toolCall.toolCallId: must be a text");
            self.answer(&request, Err(error)).await?;
            return Ok(());
        };
        let id = patch.id.clone();
        // Gemini and Hermes ask about calls that they have not announced.
        self.patch_call(patch, true).await?;
        if self.calls.is_own(&id) {
            // The users are asked when the agent calls the tool.
            let outcome = to_agent::outcome(&params["options"], &Decision::by_host(true));
            self.answer(&request, Ok(outcome)).await?;
            return Ok(());
        }
        if self.calls.is_deciding(&id) {
            self.questions.push((request, params));
            return Ok(());
        }
        let title = params["description"].as_str().map(str::to_owned);
        match self.calls.ask(&id, request.clone(), params["options"].clone(), title) {
            Some(moving) => self.moves.push(moving),
            None => self.answer(&request, Ok(to_agent::cancelled())).await?,
        }
        Ok(())
    }

    async fn create_terminal(&mut self, waiting: WaitingTerminal) -> Result<(), Interruption> {
        let WaitingTerminal { request, params, call } = &waiting;
        let environment = needed_variables(self.shared.command.host_environment.iter().cloned());
        let environment = environment.map(|(name, value)| (name.into(), value)).collect();
        let directory = self.session.directories.first().cloned().unwrap_or_default();
        let command = match command_line(params, directory, environment) {
            Ok(command) => command,
            Err(error) => {
                self.answer(request, Err(error)).await?;
                return Ok(());
            }
        };
        let shown = command.shown.clone();
        let running = match call {
            Some(id) => self.calls.running(id),
            None => self.calls.for_terminal(),
        };
        let Some(running) = running else {
            return self.wait_for_call(waiting, &shown).await;
        };
        let outcome = match running.terminal(command).await {
            Ok(terminal) => {
                let id = self.terminals.add(terminal, shown, params);
                if let Some(call) = call {
                    self.calls.show_terminal(call, &id);
                    self.follow_call(call).await?;
                }
                Ok(json!({ "terminalId": id }))
            }
            Err(AgentError::Cancelled) => return Err(AgentError::Cancelled.into()),
            Err(error) => Err(RpcError::new(code::INTERNAL, error.to_string())),
        };
        self.answer(request, outcome).await?;
        Ok(())
    }

    /// Has a terminal wait for a call that it can belong to. Without any, it gets a call of its own.
    async fn wait_for_call(&mut self, mut waiting: WaitingTerminal, shown: &str) -> Result<(), Interruption> {
        if let Some(reason) = waiting.call.as_ref().and_then(|call| self.calls.refusal(call)) {
            let error = RpcError::new(code::INTERNAL, format!("the command may not run: {reason}"));
            self.answer(&waiting.request, Err(error)).await?;
            return Ok(());
        }
        if waiting.call.is_none() {
            // Agents do not say that a call begins before they start its command.
            if let Some(draft) = self.calls.last_draft() {
                self.calls.begin(&draft);
                self.follow_call(&draft).await?;
            }
            if !self.calls.is_moving() {
                let call = self.calls.add_command(self.events, shown).await?;
                self.follow_call(&call).await?;
                waiting.call = Some(call);
            }
        }
        self.waiting.push(waiting);
        Ok(())
    }

    /// Shows the plan as a call of its own, which each update changes.
    async fn show_plan(&mut self, steps: Vec<PlanStep>) -> Result<(), Interruption> {
        let mut call = match self.plan.take() {
            Some(call) => call,
            None => {
                let draft = self.events.tool("update_plan").display_name("Plan").start().await?;
                // A plan is no tool: hooks have nothing to refuse.
                draft.show("Works by a plan").await?
            }
        };
        call.content(vec![ToolContent::Text(checklist(&steps))]).await?;
        self.plan = Some(call);
        match steps.iter().find(|step| step.status == StepStatus::Active) {
            Some(step) => self.events.activity(step.text.clone()).await?,
            None => self.events.no_activity().await?,
        }
        self.steps = steps;
        Ok(())
    }

    async fn answer(&mut self, request: &Value, outcome: Result<Value, RpcError>) -> Result<(), Closed> {
        self.open.retain(|(open, _)| open != request);
        self.session.wire.answer(request, outcome).await
    }

    /// Answers the requests that the turn leaves open: an agent may wait for them for ever.
    async fn answer_open(&mut self) -> Result<(), Closed> {
        self.moves.clear();
        self.serving.clear();
        self.withdrawals.clear();
        self.tools.clear();
        for (request, method) in std::mem::take(&mut self.open) {
            let outcome = match method.as_str() {
                "session/request_permission" => Ok(to_agent::cancelled()),
                _ => Err(RpcError::new(code::CANCELLED, "the turn is over")),
            };
            self.session.wire.answer(&request, outcome).await?;
        }
        Ok(())
    }

    /// Tells the agent to stop. Its answer is awaited between the turns.
    async fn cancel(&mut self) -> Result<(), Closed> {
        self.answer_open().await?;
        let params = json!({ "sessionId": self.session.id });
        self.session.wire.notify("session/cancel", params).await
    }
}

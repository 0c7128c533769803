//! One task per open chat: it owns the agent's side of the conversation. A subagent's chat has a
//! driver too, but no task: its parent's agent drives it.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use innkeeper_core::agent::{Attachment, PastTurns};
use innkeeper_core::changesets::ChangesetInput;
use innkeeper_core::{ChannelId, ClientId, Input, OpenChat, Reply, TurnEnd, TurnKey, TurnStart};
use innkeeper_std::sync::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::agent::overflow::TurnOverflow;
use crate::agent::runtime::event_queue::{EventQueue, LoopWaker};
use crate::agent::runtime::hooks::HookContext;
use crate::agent::runtime::mailbox::Mailbox;
use crate::agent::{Agent, AgentChat, AgentError, ChatContext, Credential, EventSink, Subagent, TurnInput};
use crate::main_loop::Message;
use crate::services::changes::{Changes, TurnMoment, TurnPhase};
use crate::services::contents::SessionContents;
use crate::services::customizations::{CustomizationsWatch, TurnCustomizations};
use crate::services::mcp::{AppRequest, AppRequests, AppWritten, TrustTimeouts};
use crate::services::prompt_transform::{Renderer, TransformLimits};
use crate::services::resources::client_files::{self, ReadLimits};
use crate::services::resources::mcp_attachments;

mod history;

pub(crate) use history::TurnHistory;

/// The parts of its host that a driver uses.
#[derive(Debug)]
pub(crate) struct DriverDeps {
    pub(crate) waker: LoopWaker,
    pub(crate) open_time: Duration,
    pub(crate) cancel_time: Duration,
    pub(crate) tasks: TaskTracker,
    pub(crate) history: TurnHistory,
    pub(crate) transform: TransformLimits,
    pub(crate) client_reads: ReadLimits,
    /// How what MCP servers offer is read.
    pub(crate) mcp_reads: ReadLimits,
    /// The requests of apps to the model.
    pub(crate) app_requests: AppRequests,
    /// How long turns wait for decisions about MCP servers.
    pub(crate) trust: TrustTimeouts,
    /// Records the files around turns.
    pub(crate) changes: RecordedTurns,
}

/// How long a turn waits until the files before or after it are recorded.
const RECORD_TIME: Duration = Duration::from_secs(20);

/// Records the files before and after turns.
#[derive(Clone)]
pub(crate) struct RecordedTurns(pub(crate) Arc<dyn Changes>);

impl fmt::Debug for RecordedTurns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedTurns").finish_non_exhaustive()
    }
}

impl RecordedTurns {
    /// Records the files of a turn, and returns the changes of its session if they were counted. A repository that does
    /// not answer costs the record, and not the turn.
    async fn record(&self, moment: Option<TurnMoment>, phase: TurnPhase) -> Option<ChangesetInput> {
        let moment = moment?;
        let session = Arc::clone(&moment.session);
        let recording = self.0.record(TurnMoment { phase, ..moment });
        let Ok(counted) = tokio::time::timeout(RECORD_TIME, recording).await else {
            tracing::warn!(?phase, "the files of a turn could not be recorded in time");
            return None;
        };
        let changes = counted?;
        Some(ChangesetInput::Counted { session, changes })
    }

    /// The moment before a turn, if its files are recorded: a turn without directories changes none.
    fn moment(&self, start: &TurnStart) -> Option<TurnMoment> {
        let is_recorded = self.0.serves() && start.app_request.is_none() && !start.info.working_directories.is_empty();
        is_recorded.then(|| TurnMoment {
            session: Arc::clone(&start.info.session),
            directories: start.info.working_directories.clone(),
            turn: start.info.turn_id.clone(),
            phase: TurnPhase::Before,
        })
    }
}

/// The parts that everything of one chat's agent shares.
#[derive(Debug)]
pub(crate) struct ChatLink {
    pub(crate) queue: Arc<EventQueue>,
    /// The chat is gone, or its history changed and another agent's chat takes over.
    pub(crate) closed: CancellationToken,
    /// Has its prompts rewritten.
    pub(crate) renderer: Renderer,
    /// Context for the model from hooks of the session's start, until a turn begins.
    opening_context: Mutex<Vec<String>>,
    deps: DriverDeps,
}

impl ChatLink {
    fn new(chat: ChannelId, deps: DriverDeps) -> Arc<Self> {
        Arc::new(Self {
            queue: Arc::new(EventQueue::new(chat)),
            closed: CancellationToken::new(),
            renderer: Renderer::new(chat, deps.waker.inbox().clone(), deps.transform),
            opening_context: Mutex::default(),
            deps,
        })
    }

    pub(crate) async fn wake(&self) -> Result<(), AgentError> {
        let woken = self.deps.waker.wake(&self.queue).await;
        woken.map_err(|()| AgentError::Cancelled)
    }

    /// Returns the inbox of the main loop.
    pub(crate) fn inbox(&self) -> &mpsc::Sender<Message> {
        self.deps.waker.inbox()
    }

    pub(crate) fn wake_now(&self) {
        self.deps.waker.wake_now(&self.queue);
    }

    pub(crate) fn add_opening_context(&self, context: Vec<String>) {
        let mut kept = self.opening_context.lock();
        kept.extend(context);
    }

    pub(crate) fn take_opening_context(&self) -> Vec<String> {
        let mut kept = self.opening_context.lock();
        std::mem::take(&mut kept)
    }

    /// The longest time that cancelled work may continue.
    pub(crate) fn cancel_time(&self) -> Duration {
        self.deps.cancel_time
    }

    /// Runs something beside turns, until it is done or the chat is closed. Shutdown waits for it.
    pub(crate) fn run_apart(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let closed = self.closed.clone();
        self.deps.tasks.spawn(async move {
            tokio::select! {
                () = closed.cancelled() => {}
                () = work => {}
            }
        });
    }
}

/// The main loop's end of a chat's agent.
#[derive(Debug)]
pub(crate) struct Driver {
    link: Arc<ChatLink>,
    /// Where turns go; a subagent's chat takes none.
    turns: Option<mpsc::UnboundedSender<Turn>>,
    /// Completes when the task has dropped everything.
    finished: Option<oneshot::Receiver<()>>,
    running: Option<Running>,
}

/// The run in progress, or the last one.
#[derive(Debug, Clone)]
struct Running {
    key: TurnKey,
    cancelled: CancellationToken,
    mailbox: Arc<Mailbox>,
    /// The customizations of the turn, once it runs; a subagent has those of its parent.
    customizations: Arc<OnceLock<TurnCustomizations>>,
    /// The context that every hook of the turn gets.
    hook_context: Arc<HookContext>,
    /// The space for long content in the turn.
    overflow: Arc<TurnOverflow>,
    /// The turn as the model would be asked with it for an app, once the agent runs it.
    for_apps: Arc<OnceLock<ForApps>>,
}

/// An agent and a turn of it, for requests of apps.
#[derive(Clone)]
struct ForApps {
    agent: Arc<dyn Agent>,
    turn: TurnInput,
}

impl fmt::Debug for ForApps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForApps").finish_non_exhaustive()
    }
}

/// A running turn in which users are asked for an app.
pub(crate) struct ServesApp {
    events: EventSink,
    with: ForApps,
}

impl ServesApp {
    /// Serves a request beside what the agent does.
    pub(crate) async fn serve(self, request: AppRequest) {
        let Self { events, with } = self;
        // The turn does not end with it.
        let _ = request
            .serve(&events, &*with.agent, &with.turn, AppWritten::NotShown)
            .await;
    }
}

/// How long a turn waits for the customizations of its session, once it has said that it does.
const CUSTOMIZATION_TIME: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Turn {
    running: Running,
    start: Box<TurnStart>,
    customizations_watch: CustomizationsWatch,
}

impl Driver {
    /// Starts a chat's task. It waits for the driver before it, opens the agent's chat, reports how
    /// that went, and waits for turns.
    pub(crate) fn start(
        agent: Arc<dyn Agent>,
        open: OpenChat,
        deps: DriverDeps,
        customizations_watch: CustomizationsWatch,
        previous: Option<oneshot::Receiver<()>>,
    ) -> Self {
        // Unbounded is bounded here: the core starts one turn at a time.
        let (turns, receiver) = mpsc::unbounded_channel();
        let (done, finished) = oneshot::channel();
        let tasks = deps.tasks.clone();
        let chat = open.chat;
        let link = ChatLink::new(chat, deps);
        let mut open = open;
        let history = std::mem::take(&mut open.history);
        let mut context = ChatContext::new(open, &link.deps.waker, link.renderer.clone());
        // Not stored: a client that opens the chat again later has tokens of its own.
        let credentials = std::mem::take(&mut context.credentials);
        let task = Task {
            agent,
            context,
            history,
            customizations_watch,
            link: Arc::clone(&link),
        };
        let closed = link.closed.clone();
        tasks.spawn(async move {
            // Dropped last, after everything the task held.
            let _done = done;
            if let Some(previous) = previous {
                let _ = tokio::time::timeout(task.link.cancel_time(), previous).await;
            }
            tokio::select! {
                () = closed.cancelled() => {}
                () = task.run(chat, credentials, receiver) => {}
            }
        });
        Self {
            link,
            turns: Some(turns),
            finished: Some(finished),
            running: None,
        }
    }

    /// Prepares a subagent's chat: what the main loop keeps, and what the parent's agent gets.
    pub(crate) fn subagent(
        subagent: &innkeeper_core::Subagent,
        parent: Option<&Self>,
        deps: DriverDeps,
    ) -> (Self, Subagent) {
        let link = ChatLink::new(subagent.chat, deps);
        let parent = parent.and_then(|parent| parent.running(subagent.parent.1));
        let customizations = parent
            .map(|parent| Arc::clone(&parent.customizations))
            .unwrap_or_default();
        let hook_context = parent
            .map(|parent| HookContext::of_subagent(&parent.hook_context))
            .unwrap_or_default();
        let contents = parent.and_then(|parent| parent.overflow.contents.clone());
        let parent = match parent {
            Some(parent) if !subagent.detached => parent.cancelled.clone(),
            _ => CancellationToken::new(),
        };
        // A subagent's wait ends with the turn of its parent, at the same moment.
        let cancelled = parent.child_token();
        let running = Running {
            key: subagent.turn,
            cancelled,
            mailbox: Arc::new(Mailbox::new(subagent.turn)),
            customizations,
            hook_context,
            overflow: TurnOverflow::new(contents),
            for_apps: Arc::default(),
        };
        link.queue.begin(subagent.turn);
        let handle = Subagent::new(sink(&link, &running), Arc::clone(&subagent.chat_uri), parent);
        let driver = Self {
            link,
            turns: None,
            finished: None,
            running: Some(running),
        };
        (driver, handle)
    }

    /// Returns the queue of the agent's events, which also applies back-pressure.
    pub(crate) fn queue(&self) -> &EventQueue {
        &self.link.queue
    }

    /// Hands a turn to the agent.
    pub(crate) fn run(
        &mut self,
        key: TurnKey,
        start: Box<TurnStart>,
        customizations_watch: CustomizationsWatch,
        contents: Option<SessionContents>,
    ) {
        let Some(turns) = &self.turns else {
            // The chat is closed, and its turns end with it.
            return;
        };
        let running = Running {
            key,
            cancelled: CancellationToken::new(),
            mailbox: Arc::new(Mailbox::resuming(key, &start.calls_before)),
            customizations: Arc::default(),
            hook_context: HookContext::of_turn(&start),
            overflow: TurnOverflow::new(contents),
            for_apps: Arc::default(),
        };
        self.link.queue.begin(key);
        let _ = turns.send(Turn {
            running: running.clone(),
            start,
            customizations_watch,
        });
        self.running = Some(running);
    }

    /// Stops a turn whose end is already published.
    pub(crate) fn cancel(&mut self, key: TurnKey) {
        if let Some(running) = self.running.take_if(|running| running.key == key) {
            // Refused first, so that nothing an agent does on its way out is taken.
            self.link.queue.cancel(key);
            running.cancelled.cancel();
        }
    }

    /// Tells a run what it waits for; a run that is over does not wait.
    pub(crate) fn reply(&self, key: TurnKey, reply: Reply) {
        if let Some(running) = self.running(key) {
            running.mailbox.deliver(reply);
        }
    }

    /// Everything that it takes to ask users in a run for an app, if its agent has begun.
    pub(crate) fn serve_app(&self, key: TurnKey) -> Option<ServesApp> {
        let running = self.running(key).filter(|running| !running.cancelled.is_cancelled())?;
        Some(ServesApp {
            events: sink(&self.link, running),
            with: running.for_apps.get()?.clone(),
        })
    }

    /// Gives a run the subagent that one of its calls asked for.
    pub(crate) fn hand_over(&self, key: TurnKey, call: &str, subagent: Subagent) {
        if let Some(running) = self.running(key) {
            running.mailbox.deliver_subagent(call, subagent);
        }
    }

    /// Ends everything. The receiver completes when the task has dropped everything.
    pub(crate) fn close(mut self) -> Option<oneshot::Receiver<()>> {
        self.finished.take()
    }

    fn running(&self, key: TurnKey) -> Option<&Running> {
        self.running.as_ref().filter(|running| running.key == key)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.link.queue.close();
        if let Some(running) = self.running.take() {
            running.cancelled.cancel();
        }
        self.link.closed.cancel();
    }
}

fn sink(link: &Arc<ChatLink>, running: &Running) -> EventSink {
    EventSink {
        link: Arc::clone(link),
        turn: running.key,
        cancelled: running.cancelled.clone(),
        mailbox: Arc::clone(&running.mailbox),
        customizations: running.customizations.get().cloned().unwrap_or_default(),
        hook_context: Arc::clone(&running.hook_context),
        overflow: Arc::clone(&running.overflow),
    }
}

/// Returns the name of a turn's end for the log; the agent's message is only for the users of the session (OTL-07).
fn name_of(end: &TurnEnd) -> &str {
    match end {
        TurnEnd::Complete => "complete",
        TurnEnd::Cancelled => "cancelled",
        TurnEnd::Failed { failure, .. } => &failure.kind,
    }
}

struct Task {
    agent: Arc<dyn Agent>,
    /// The description of the chat for the agent, without its history.
    context: ChatContext,
    /// Its history, as far as it is in memory, and where the rest is.
    history: PastTurns,
    /// The watch on the customizations of the session.
    customizations_watch: CustomizationsWatch,
    link: Arc<ChatLink>,
}

impl Task {
    async fn run(self, chat_id: ChannelId, credentials: Vec<Credential>, mut turns: mpsc::UnboundedReceiver<Turn>) {
        let (mut chat, outcome) = match self.open(credentials).await {
            Ok(chat) => (Some(chat), Ok(())),
            Err(error) => (None, Err(error.into_failure())),
        };
        let opened = Message::Core(Input::ChatOpened { chat: chat_id, outcome });
        let _ = self.link.deps.waker.inbox().send(opened).await;
        let mut is_first = true;
        while let Some(Turn {
            running,
            start,
            customizations_watch,
        }) = turns.recv().await
        {
            // Every log record of the turn names its session and turn (OTL-06).
            let span = tracing::info_span!("turn", session = &*start.info.session, turn = start.info.turn_id);
            tracing::debug!(parent: &span, "a turn begins");
            let app_request = start.app_request.clone();
            let recorded = &self.link.deps.changes;
            let moment = recorded.moment(&start);
            let turn = async {
                recorded.record(moment.clone(), TurnPhase::Before).await;
                match self.customizations(&running, &customizations_watch).await {
                    Ok(customizations) => {
                        let _ = running.customizations.set(customizations);
                        // A turn for an app does not count as the first turn for hooks and agents.
                        let is_first = start.app_request.is_none() && std::mem::take(&mut is_first);
                        self.run_turn(&mut chat, &running, start, is_first).await
                    }
                    Err(error) => turn_end(Err(error)),
                }
            };
            let end = turn.instrument(span.clone()).await;
            if let Some(counted) = recorded.record(moment, TurnPhase::After).await {
                let counted = Message::Core(Input::from(counted));
                let _ = self.link.deps.waker.inbox().send(counted).await;
            }
            tracing::debug!(parent: &span, outcome = name_of(&end), "a turn ended");
            if let Some(request) = app_request {
                // A request of a turn that ended before it was served.
                let why = "the turn in which users were to be asked has ended; ask again";
                self.link.deps.app_requests.refuse(&request, why);
            }
            // Tasks that the agent left behind stop waiting.
            running.cancelled.cancel();
            if self.link.queue.end(running.key, end) {
                let _ = self.link.wake().await;
            }
            if chat.is_none() {
                // The next agent has to know what was said to this one.
                let lost = Message::Core(Input::ChatLost { chat: chat_id });
                let _ = self.link.deps.waker.inbox().send(lost).await;
            }
        }
    }

    /// Returns the customizations of a turn. Waits for them, and fails without them: a silently absent guard hook is
    /// worse than a turn that the user has to send again.
    async fn customizations(
        &self,
        running: &Running,
        customizations_watch: &CustomizationsWatch,
    ) -> Result<TurnCustomizations, AgentError> {
        let waits = async {
            let notice = "This turn waits until the customizations of its session are read: its rules and hooks \
                          would be missing otherwise.";
            // A failed send means that the turn is over.
            let _ = sink(&self.link, running).notice(notice).await;
        };
        let known = tokio::select! {
            biased;
            () = running.cancelled.cancelled() => Err(AgentError::Cancelled),
            known = customizations_watch.for_turn(CUSTOMIZATION_TIME, waits) => known.ok_or_else(|| {
                AgentError::failed(
                    "customizationsUnknown",
                    "the customizations of this session could not be read in time, so its rules and hooks are not \
                     known and nothing was done. Send the message again; if that does not help, look for a directory \
                     that does not answer with `innkeeper customizations`, or switch customizations off with \
                     `enabled = false` in [customizations].",
                )
            }),
        }?;
        if let awaited @ [_, ..] = known.awaited() {
            let notice = format!(
                "This turn continues without plugins that its client has not sent yet: {}. Their rules and hooks do \
                 not apply to it.",
                awaited.join(", ")
            );
            let _ = sink(&self.link, running).notice(notice).await;
        }
        Ok(known)
    }

    async fn open(&self, credentials: Vec<Credential>) -> Result<Box<dyn AgentChat>, AgentError> {
        let open_time = self.link.deps.open_time;
        let opening = AssertUnwindSafe(async {
            let mut context = self.context.clone();
            context.customizations = self.customizations_watch.first().await;
            context.credentials = credentials;
            let told = self.link.deps.history.tell(self.history.clone()).await;
            let told = told.map_err(|problem| AgentError::failed("historyUnreadable", problem))?;
            (context.history, context.omitted_turns) = (told.turns, told.omitted);
            self.agent.open_chat(context).await
        })
        .catch_unwind();
        match tokio::time::timeout(open_time, opening).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(AgentError::failed(
                "agentDied",
                "the agent failed while opening the chat; see the host's log",
            )),
            Err(_) => {
                let message = format!(
                    "the agent did not start within {} s; see the host's log",
                    open_time.as_secs()
                );
                Err(AgentError::failed("agentTimeout", message))
            }
        }
    }

    async fn run_turn(
        &self,
        chat: &mut Option<Box<dyn AgentChat>>,
        running: &Running,
        start: Box<TurnStart>,
        is_first: bool,
    ) -> TurnEnd {
        // An agent that died in an earlier turn gets a fresh start with the next one.
        let agent_chat = match chat {
            Some(chat) => chat,
            None => match self.open(start.credentials.clone()).await {
                Ok(opened) => chat.insert(opened),
                Err(error) => {
                    return TurnEnd::Failed {
                        failure: error.into_failure(),
                        resumable: false,
                    };
                }
            },
        };
        let events = sink(&self.link, running);
        let run = AssertUnwindSafe(async {
            let mut start = *start;
            if let Some(request) = start.app_request.take() {
                return self.serve_app(&events, &request, start).await;
            }
            events.turn_begins(&start, is_first).await?;
            events.ask_about_servers(self.link.deps.trust).await?;
            let unread = std::mem::take(&mut start.unread_chats);
            self.link.deps.history.fill(&mut start.info.attachments, unread).await;
            let attachments = std::mem::take(&mut start.info.attachments);
            let _ = running.for_apps.set(ForApps {
                agent: Arc::clone(&self.agent),
                turn: TurnInput::new(start.clone(), events.customizations().clone()),
            });
            start.info.attachments = attachments;
            let deps = &self.link.deps;
            // The agent may take its time; a cancel does not wait for it.
            tokio::select! {
                biased;
                () = events.cancelled() => return Err(AgentError::Cancelled),
                () = self.read_attached(&events, start.asked_by.as_ref(), &mut start.info.attachments) => {}
            }
            let mut turn = TurnInput::new(start, events.customizations().clone());
            turn.find_called(&*self.agent, &events, deps.mcp_reads.time).await?;
            agent_chat.run_turn(turn, events.clone()).await?;
            events.turn_ends().await
        })
        .catch_unwind();
        let result = tokio::select! {
            result = run => result,
            () = cancel_timed_out(&running.cancelled, self.link.cancel_time()) => {
                // The future was dropped in an unknown state, so the chat is not used again.
                *chat = None;
                return TurnEnd::Cancelled;
            }
        };
        match result {
            Ok(result) => turn_end(result),
            Err(_) => {
                *chat = None;
                died("the agent failed in the middle of the turn; the next message starts it afresh")
            }
        }
    }
}

impl Task {
    /// Runs a turn that is for a request of an app, and not for the agent's chat.
    async fn serve_app(&self, events: &EventSink, request: &str, start: TurnStart) -> Result<(), AgentError> {
        let Some(request) = self.link.deps.app_requests.take(request) else {
            return events.notice("The app does not wait for this any more.").await;
        };
        let turn = TurnInput::new(start, events.customizations().clone());
        request.serve(events, &*self.agent, &turn, AppWritten::Shown).await
    }

    /// Reads what came with a message and only clients or MCP servers have.
    async fn read_attached(&self, events: &EventSink, author: Option<&ClientId>, attached: &mut [Attachment]) {
        let deps = &self.link.deps;
        client_files::fill(deps.waker.inbox(), deps.client_reads, author, attached).await;
        mcp_attachments::fill(events.mcp(), deps.mcp_reads, attached).await;
    }
}

/// Completes some time after a cancellation, for what has not stopped by itself.
pub(crate) async fn cancel_timed_out(cancelled: &CancellationToken, timeout: Duration) {
    cancelled.cancelled().await;
    tokio::time::sleep(timeout).await;
}

/// How a run ends with what its agent returned.
pub(crate) fn turn_end(result: Result<(), AgentError>) -> TurnEnd {
    match result {
        Ok(()) => TurnEnd::Complete,
        Err(AgentError::Cancelled) => TurnEnd::Cancelled,
        Err(AgentError::Failed {
            kind,
            message,
            resumable,
        }) => TurnEnd::Failed {
            failure: innkeeper_core::Failure::new(kind, message),
            resumable,
        },
    }
}

/// How a run ends whose agent panicked.
pub(crate) fn died(message: &str) -> TurnEnd {
    TurnEnd::Failed {
        failure: innkeeper_core::Failure::new("agentDied", message),
        resumable: false,
    }
}

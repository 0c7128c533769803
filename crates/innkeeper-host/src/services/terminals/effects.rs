//! The terminals that run, and the effects of the core on them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use innkeeper_core::terminal::{
    AgentCommandStart, PtyCommand, PtyId, PtyProgram, PtySpec, StartedTerminal, TerminalEvent, TerminalInput,
    TerminalRecord,
};
use innkeeper_core::{ChannelId, HostCore, RpcError, Subscriber, error::code};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::agent_command::CommandRequest;
use super::{AgentTerminal, Launch, Opened, Program, Terminal, TerminalCommandLine, TerminalSink, Terminals};
use crate::main_loop::Message;
use crate::main_loop::connections::Connections;
use crate::main_loop::handles::LoopHandles;
use crate::main_loop::message::TerminalMessage;
use crate::main_loop::requests::RequestTickets;

/// The longest time that a terminal waits for its fastest reader.
const MAX_HOLD: Duration = Duration::from_secs(1);
/// Events that wait for an agent that runs a command.
const AGENT_EVENTS: usize = 64;

/// The terminals that run.
pub(crate) struct RunningTerminals {
    service: Arc<dyn Terminals>,
    running: HashMap<PtyId, Box<dyn Terminal>>,
    /// Commands of agents that the core has not answered yet.
    commands: HashMap<u64, AgentCommand>,
    next_command: u64,
    /// Reports whose terminals wait until a reader has caught up.
    reported: Vec<Reported>,
    /// Channels whose readers are all behind.
    held: HashMap<ChannelId, Arc<[Subscriber]>>,
    /// Unbounded: a terminal is persisted every few seconds at most, and a client's request is in flight until its
    /// terminal is found.
    records: mpsc::UnboundedSender<RecordCommand>,
    waiting_records: Option<mpsc::UnboundedReceiver<RecordCommand>>,
}

/// A command of an agent on its way into a terminal.
struct AgentCommand {
    line: Option<TerminalCommandLine>,
    reply: oneshot::Sender<Result<AgentTerminal, String>>,
    /// The handle for the agent, once the terminal is being opened.
    handle: Option<AgentHandle>,
}

struct AgentHandle {
    events: mpsc::Receiver<TerminalEvent>,
    requests: mpsc::UnboundedSender<CommandRequest>,
}

/// A report that was handled.
struct Reported {
    pty: PtyId,
    published: oneshot::Sender<()>,
    since: Instant,
}

/// A command about persisted terminals. They are performed one after the other.
enum RecordCommand {
    Retain(TerminalRecord),
    Forget(Arc<str>),
    ForgetSession(Arc<str>),
    Recall(Arc<str>),
}

/// A program that was started, or the reason why it was not.
pub(crate) struct TerminalOpened {
    pty: PtyId,
    outcome: Result<StartedTerminal, RpcError>,
    terminal: Option<Box<dyn Terminal>>,
    /// Lets the terminal report.
    is_known: watch::Sender<bool>,
    /// The command of an agent that it runs.
    command: Option<u64>,
}

/// The rest of a message, for the time after its input was handled by the core.
pub(crate) enum AfterInput {
    Nothing,
    /// The core knows the terminal, so it may report.
    LetReport(watch::Sender<bool>),
    /// A report was published. If its process has ended, its handle is not needed any more.
    Published {
        pty: PtyId,
        published: oneshot::Sender<()>,
        has_ended: bool,
    },
}

impl std::fmt::Debug for TerminalOpened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TerminalOpened")
            .field("pty", &self.pty)
            .finish_non_exhaustive()
    }
}

impl RunningTerminals {
    pub(crate) fn new(service: Arc<dyn Terminals>) -> Self {
        let (records, waiting_records) = mpsc::unbounded_channel();
        Self {
            service,
            running: HashMap::new(),
            commands: HashMap::new(),
            next_command: 0,
            reported: Vec::new(),
            held: HashMap::new(),
            records,
            waiting_records: Some(waiting_records),
        }
    }

    /// Ends every terminal, because the core is replaced or the host ends.
    pub(crate) fn clear(&mut self) {
        self.running.clear();
        self.commands.clear();
        self.reported.clear();
        self.held.clear();
    }

    pub(crate) fn perform(&mut self, handles: &LoopHandles, requests: &mut RequestTickets, command: PtyCommand) {
        match command {
            PtyCommand::Open { pty, spec, request } => {
                let ticket = request.and_then(|(conn, id)| requests.take(conn, &id));
                self.open(handles, pty, *spec, ticket);
            }
            PtyCommand::Input { pty, data } => {
                if let Some(terminal) = self.running.get(&pty)
                    && !terminal.input(data)
                {
                    tracing::debug!("input for a terminal was dropped, because its program does not read");
                }
            }
            PtyCommand::Resize { pty, size } => {
                if let Some(terminal) = self.running.get(&pty) {
                    terminal.resize(size);
                }
            }
            PtyCommand::Clear { pty } => {
                if let Some(terminal) = self.running.get(&pty) {
                    terminal.clear();
                }
            }
            PtyCommand::Kill { pty } => self.kill(pty),
            PtyCommand::Close { pty } => {
                self.running.remove(&pty);
            }
            PtyCommand::Show { number, uri, is_pty } => {
                if let Some(command) = self.commands.remove(&number)
                    && let Some(handle) = command.handle
                {
                    let terminal = AgentTerminal::new(uri, is_pty, handle.events, handle.requests);
                    let _ = command.reply.send(Ok(terminal));
                }
            }
            PtyCommand::Refuse { number } => {
                if let Some(command) = self.commands.remove(&number) {
                    let _ = command
                        .reply
                        .send(Err("this host runs no further terminals".to_owned()));
                }
            }
            PtyCommand::Retain(record) => self.record(handles, RecordCommand::Retain(record)),
            PtyCommand::Forget { uri } => self.record(handles, RecordCommand::Forget(uri)),
            PtyCommand::Recall { uri } => self.record(handles, RecordCommand::Recall(uri)),
        }
    }

    /// Removes the persisted terminals of a session that is gone for good.
    pub(crate) fn forget_session(&mut self, handles: &LoopHandles, uri: Arc<str>) {
        self.record(handles, RecordCommand::ForgetSession(uri));
    }

    fn kill(&self, pty: PtyId) {
        if let Some(terminal) = self.running.get(&pty) {
            terminal.kill();
        }
    }

    /// Takes a command of an agent and returns its number for the core.
    fn add_command(&mut self, line: TerminalCommandLine, reply: oneshot::Sender<Result<AgentTerminal, String>>) -> u64 {
        self.next_command += 1;
        let command = AgentCommand {
            line: Some(line),
            reply,
            handle: None,
        };
        self.commands.insert(self.next_command, command);
        self.next_command
    }

    /// Starts a program in a task; [`Self::opened`] takes it.
    fn open(
        &mut self,
        handles: &LoopHandles,
        pty: PtyId,
        spec: PtySpec,
        ticket: Option<crate::main_loop::requests::RequestTicket>,
    ) {
        let Some(inbox) = handles.inbox() else { return };
        let PtySpec {
            program,
            directory,
            size,
        } = spec;
        let mut observer = None;
        let mut agent_command = None;
        let program = match program {
            PtyProgram::Shell => Program::Shell,
            PtyProgram::AgentCommand(number) => {
                // The agent may have given up meanwhile.
                let Some(command) = self.commands.get_mut(&number) else {
                    return;
                };
                let Some(line) = command.line.take() else { return };
                let (events, received) = mpsc::channel(AGENT_EVENTS);
                let (requests, asked) = mpsc::unbounded_channel();
                observer = Some(events);
                agent_command = Some(number);
                command.handle = Some(AgentHandle {
                    events: received,
                    requests,
                });
                handles
                    .tasks()
                    .spawn(serve_agent(number, pty, asked, handles.weak_inbox()));
                Program::Command {
                    line: line.line,
                    directory: line.directory,
                    environment: line.environment,
                    shown: line.shown,
                }
            }
        };
        let launch = Launch {
            program,
            directory,
            size,
        };
        let (is_known, known) = watch::channel(false);
        let sink = TerminalSink::new(pty, handles.weak_inbox(), known, observer);
        let service = Arc::clone(&self.service);
        handles.tasks().spawn(async move {
            let (outcome, terminal) = match service.open(launch, sink).await {
                Ok(Opened { started, terminal }) => (Ok(started), Some(terminal)),
                Err(error) => (Err(RpcError::new(code::INTERNAL_ERROR, error.to_string())), None),
            };
            let opened = TerminalOpened {
                pty,
                outcome,
                terminal,
                is_known,
                command: agent_command,
            };
            let _ = inbox.send(TerminalMessage::Opened(Box::new(opened)).into()).await;
            drop(ticket);
        });
    }

    /// Handles a message. Returns the input for the core, and what to do when the core has handled it.
    pub(crate) fn receive(&mut self, message: TerminalMessage) -> (Option<TerminalInput>, AfterInput) {
        match message {
            TerminalMessage::Opened(opened) => {
                let (input, is_known) = self.opened(*opened);
                (Some(input), AfterInput::LetReport(is_known))
            }
            TerminalMessage::Reported { pty, events, published } => {
                let has_ended = events.iter().any(|event| matches!(event, TerminalEvent::Exited { .. }));
                let after = AfterInput::Published {
                    pty,
                    published,
                    has_ended,
                };
                (Some(TerminalInput::Output { pty, events }), after)
            }
            TerminalMessage::AgentCommand {
                chat,
                call,
                command,
                reply,
            } => {
                let (line, size) = (command.shown.clone(), command.size);
                let number = self.add_command(*command, reply);
                let start = AgentCommandStart {
                    number,
                    chat,
                    call,
                    line,
                    size,
                };
                (Some(TerminalInput::AgentCommand(start)), AfterInput::Nothing)
            }
            TerminalMessage::Kill { pty } => {
                self.kill(pty);
                (None, AfterInput::Nothing)
            }
        }
    }

    /// Does what follows when the core has handled the input of a message.
    pub(crate) fn handled(&mut self, after: AfterInput) {
        match after {
            AfterInput::Nothing => {}
            AfterInput::LetReport(is_known) => {
                let _ = is_known.send(true);
            }
            AfterInput::Published {
                pty,
                published,
                has_ended,
            } => {
                if has_ended {
                    self.running.remove(&pty);
                }
                self.reported(pty, published);
            }
        }
    }

    /// Takes a program that was started, and returns the input for the core and the permission to report.
    fn opened(&mut self, opened: TerminalOpened) -> (TerminalInput, watch::Sender<bool>) {
        let TerminalOpened {
            pty,
            outcome,
            terminal,
            is_known,
            command,
        } = opened;
        if let Some(terminal) = terminal {
            self.running.insert(pty, terminal);
        }
        if let Err(error) = &outcome
            && let Some(command) = command.and_then(|number| self.commands.remove(&number))
        {
            let _ = command.reply.send(Err(error.message.clone()));
        }
        (TerminalInput::Opened { pty, outcome }, is_known)
    }

    /// Notes that a report was handled. Its terminal continues when a reader has caught up.
    fn reported(&mut self, pty: PtyId, published: oneshot::Sender<()>) {
        self.reported.push(Reported {
            pty,
            published,
            since: Instant::now(),
        });
    }

    /// Holds a terminal back until one of its readers has caught up.
    pub(crate) fn hold(&mut self, channel: ChannelId, readers: &Arc<[Subscriber]>) {
        if !self.reported.is_empty() {
            self.held.insert(channel, Arc::clone(readers));
        }
    }

    /// Returns true if a terminal is held back.
    pub(crate) fn has_held(&self) -> bool {
        !self.reported.is_empty()
    }

    /// Releases the terminals whose fastest reader has caught up.
    pub(crate) fn release(&mut self, core: &HostCore, connections: &Connections, hold_bytes: usize) {
        for report in std::mem::take(&mut self.reported) {
            let channel = core.terminal_channel(report.pty);
            let readers = channel.and_then(|channel| self.held.get(&channel));
            let is_behind = readers.is_some_and(|readers| {
                let backlogs = readers
                    .iter()
                    .filter_map(|reader| connections.outbox(reader.conn)?.backlog());
                backlogs.min().is_some_and(|bytes| bytes > hold_bytes / 4)
            });
            if is_behind && report.since.elapsed() < MAX_HOLD {
                self.reported.push(report);
                continue;
            }
            if let Some(channel) = channel {
                self.held.remove(&channel);
            }
            let _ = report.published.send(());
        }
        if self.reported.is_empty() {
            self.held.clear();
        }
    }

    fn record(&mut self, handles: &LoopHandles, command: RecordCommand) {
        if let Some(waiting) = self.waiting_records.take() {
            let (service, inbox) = (Arc::clone(&self.service), handles.weak_inbox());
            handles.tasks().spawn(perform_records(service, inbox, waiting));
        }
        let _ = self.records.send(command);
    }
}

/// Performs the commands about persisted terminals in order, until the host has ended.
async fn perform_records(
    service: Arc<dyn Terminals>,
    inbox: mpsc::WeakSender<Message>,
    mut commands: mpsc::UnboundedReceiver<RecordCommand>,
) {
    while let Some(command) = commands.recv().await {
        match command {
            RecordCommand::Retain(record) => {
                if let Err(error) = service.retain(record).await {
                    tracing::warn!(%error, "the state of a terminal is lost when the host ends");
                }
            }
            RecordCommand::Forget(uri) => service.forget(&uri).await,
            RecordCommand::ForgetSession(uri) => service.forget_session(&uri).await,
            RecordCommand::Recall(uri) => {
                let found = service.recall(&uri).await;
                let state = found.and_then(|bytes| serde_json::from_slice(&bytes).ok());
                let recalled = TerminalInput::Recalled { uri, state };
                if let Some(inbox) = inbox.upgrade() {
                    let _ = inbox.send(Message::Core(recalled.into())).await;
                }
            }
        }
    }
}

/// Passes on what an agent wants of its command, until the agent drops it.
async fn serve_agent(
    number: u64,
    pty: PtyId,
    mut requests: mpsc::UnboundedReceiver<CommandRequest>,
    inbox: mpsc::WeakSender<Message>,
) {
    loop {
        let request = requests.recv().await;
        let Some(inbox) = inbox.upgrade() else { return };
        if request != Some(CommandRequest::EndCall) {
            let _ = inbox.send(TerminalMessage::Kill { pty }.into()).await;
        }
        if request != Some(CommandRequest::Kill) {
            let ended = TerminalInput::CallEnded { number };
            let _ = inbox.send(Message::Core(ended.into())).await;
        }
        if request.is_none() {
            return;
        }
    }
}

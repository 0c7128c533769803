//! Pseudo-terminals: the trait that runs them, and the records of those that have ended (TRM).
//!
//! The core owns the state of every terminal, its claim and its clients. The implementation of [`Terminals`] starts
//! programs, reports their output as events, and persists the last state of a terminal for the time after a restart.

pub(crate) mod agent_command;
pub(crate) mod effects;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use async_trait::async_trait;
use innkeeper_core::terminal::PtyId;
pub use innkeeper_core::terminal::{StartedTerminal, TerminalEvent, TerminalRecord, TerminalSize};
use tokio::sync::{mpsc, oneshot, watch};

use crate::main_loop::Message;
use crate::main_loop::message::TerminalMessage;

pub use agent_command::{AgentTerminal, CommandEnd, CommandStep, TerminalCommandLine};

/// Runs terminals.
#[async_trait]
pub trait Terminals: Send + Sync + 'static {
    /// Returns true if it runs terminals at all.
    fn serves(&self) -> bool {
        true
    }

    /// Starts a program in a terminal and reports everything that follows to the sink. The program ends, with all that
    /// it started, when the returned terminal is dropped.
    async fn open(&self, launch: Launch, sink: TerminalSink) -> Result<Opened, TerminalError>;

    /// Persists the state of a terminal; a later state replaces it.
    async fn retain(&self, record: TerminalRecord) -> Result<(), TerminalError>;

    /// Reads the persisted state of a terminal, as JSON.
    async fn recall(&self, uri: &str) -> Option<Vec<u8>>;

    /// Removes the persisted state of a terminal.
    async fn forget(&self, uri: &str);

    /// Removes the persisted states of all terminals of a session.
    async fn forget_session(&self, session: &str);
}

/// A program to start in a terminal.
#[derive(Debug)]
pub struct Launch {
    /// The program.
    pub program: Program,
    /// The directory to start in, as a URI.
    pub directory: Option<String>,
    /// The size of the terminal.
    pub size: TerminalSize,
}

/// The program of a terminal.
#[derive(Debug)]
pub enum Program {
    /// The user's shell, with the environment of the service.
    Shell,
    /// A command of an agent. The service adds nothing to its environment but the type of the terminal.
    Command {
        /// The program and its arguments.
        line: Vec<OsString>,
        /// The directory to start in.
        directory: PathBuf,
        /// The complete environment.
        environment: Vec<(OsString, OsString)>,
        /// The command line, as users read it.
        shown: String,
    },
}

/// A started program.
pub struct Opened {
    /// Its title and directory.
    pub started: StartedTerminal,
    /// The terminal.
    pub terminal: Box<dyn Terminal>,
}

/// A running terminal. Dropping it ends its program with all that it started.
pub trait Terminal: Send {
    /// Writes to the program's input. Returns false if the program reads too slowly to accept more.
    fn input(&self, data: String) -> bool;

    /// Changes the size.
    fn resize(&self, size: TerminalSize);

    /// Forgets the output so far: the next [`TerminalEvent::Compacted`] counts from here.
    fn clear(&self);

    /// Ends the program with all that it started. The end is reported.
    fn kill(&self);
}

/// The reason why a terminal cannot be used, as text for users.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TerminalError {
    /// The program or its directory does not exist or cannot be used.
    #[error("{0}")]
    CannotStart(String),
    /// Something failed.
    #[error("{0}")]
    Failed(String),
}

/// The receiver of a terminal's events.
///
/// A report resolves when the host has published the events and at least one subscriber keeps up, so that a terminal
/// that waits for it before the next report costs a bounded amount of memory.
#[derive(Clone)]
pub struct TerminalSink {
    pty: PtyId,
    /// Weak, because the host keeps the terminal: it must end when every handle of the host is gone.
    inbox: mpsc::WeakSender<Message>,
    /// True once the host knows the terminal.
    is_known: watch::Receiver<bool>,
    /// The agent that runs the command, if it is one of an agent.
    observer: Option<mpsc::Sender<TerminalEvent>>,
}

impl TerminalSink {
    pub(crate) fn new(
        pty: PtyId,
        inbox: mpsc::WeakSender<Message>,
        is_known: watch::Receiver<bool>,
        observer: Option<mpsc::Sender<TerminalEvent>>,
    ) -> Self {
        Self {
            pty,
            inbox,
            is_known,
            observer,
        }
    }

    /// Reports events in order. Returns false if the host no longer wants them.
    pub async fn report(&mut self, events: Vec<TerminalEvent>) -> bool {
        if self.is_known.wait_for(|is_known| *is_known).await.is_err() {
            return false;
        }
        if let Some(observer) = &self.observer {
            for event in &events {
                let is_for_agents = matches!(event, TerminalEvent::Data(_) | TerminalEvent::Exited { .. });
                // An agent that no longer listens has left the command to itself.
                if is_for_agents && observer.send(event.clone()).await.is_err() {
                    self.observer = None;
                    break;
                }
            }
        }
        let (published, is_published) = oneshot::channel();
        let report = TerminalMessage::Reported {
            pty: self.pty,
            events,
            published,
        };
        let Some(inbox) = self.inbox.upgrade() else {
            return false;
        };
        inbox.send(report.into()).await.is_ok() && is_published.await.is_ok()
    }
}

impl fmt::Debug for TerminalSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TerminalSink")
            .field("pty", &self.pty)
            .finish_non_exhaustive()
    }
}

/// A host that runs no terminals.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTerminals;

#[async_trait]
impl Terminals for NoTerminals {
    fn serves(&self) -> bool {
        false
    }

    async fn open(&self, _: Launch, _: TerminalSink) -> Result<Opened, TerminalError> {
        Err(TerminalError::CannotStart("this host runs no terminals".to_owned()))
    }

    async fn retain(&self, _: TerminalRecord) -> Result<(), TerminalError> {
        Ok(())
    }

    async fn recall(&self, _: &str) -> Option<Vec<u8>> {
        None
    }

    async fn forget(&self, _: &str) {}

    async fn forget_session(&self, _: &str) {}
}

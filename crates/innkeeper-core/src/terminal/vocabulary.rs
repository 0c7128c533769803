//! The words between the core and the service that runs terminals.

use std::sync::Arc;

use ahp_types::state::{TerminalClaim, TerminalState};

use crate::core::{ChannelCommand, PartCommand, PartInput};
use crate::ids::{ChannelId, ConnId};
use crate::input::Input;
use crate::protocol::error::RpcError;
use crate::protocol::request::{Command, RequestId};

/// The number of a terminal's process, unique as long as the host runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PtyId(pub u64);

/// The size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Its width.
    pub cols: u16,
    /// Its height.
    pub rows: u16,
}

impl Default for TerminalSize {
    fn default() -> Self {
        Self { cols: 80, rows: 24 }
    }
}

/// The parameters of `createTerminal`.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateTerminal {
    /// The URI that the client chose.
    pub channel: String,
    /// The first claim.
    pub claim: TerminalClaim,
    /// The title, until the process sets another one.
    pub name: Option<String>,
    /// The directory to start in, as a URI; otherwise the first directory of the claiming chat, or the host's default.
    pub cwd: Option<String>,
    /// The initial size.
    pub size: Option<TerminalSize>,
}

/// The requests about terminals.
#[derive(Debug, Clone)]
pub enum TerminalCommand {
    /// `createTerminal`.
    Create(Box<CreateTerminal>),
    /// `disposeTerminal`.
    Dispose {
        /// The terminal's URI.
        channel: String,
    },
}

impl ChannelCommand for TerminalCommand {
    fn method(&self) -> &'static str {
        match self {
            Self::Create(_) => "createTerminal",
            Self::Dispose { .. } => "disposeTerminal",
        }
    }

    fn changes_state(&self) -> bool {
        true
    }

    fn sessions(&self) -> Vec<&str> {
        match self {
            Self::Create(create) => match &create.claim {
                TerminalClaim::Session(claim) => vec![&claim.session, &create.channel],
                TerminalClaim::Client(_) => vec![&create.channel],
            },
            Self::Dispose { channel } => vec![channel],
        }
    }
}

/// A program for the service to start in a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PtySpec {
    /// The program.
    pub program: PtyProgram,
    /// The directory to start in, as a URI; `None` is the service's default.
    pub directory: Option<String>,
    /// The initial size.
    pub size: TerminalSize,
}

/// The program of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PtyProgram {
    /// The user's shell.
    Shell,
    /// The command that an agent left with the host under this number.
    AgentCommand(u64),
}

/// A command of the core to the service that runs terminals.
#[derive(Debug)]
pub enum PtyCommand {
    /// Start a program; answer with [`TerminalInput::Opened`].
    Open {
        /// The number of its reports.
        pty: PtyId,
        /// The program.
        spec: Box<PtySpec>,
        /// The request that the answer concerns, if a client asked for the terminal.
        request: Option<(ConnId, RequestId)>,
    },
    /// Write to its input.
    Input {
        /// The terminal.
        pty: PtyId,
        /// The text.
        data: String,
    },
    /// Change its size.
    Resize {
        /// The terminal.
        pty: PtyId,
        /// The new size.
        size: TerminalSize,
    },
    /// Forget the retained output, because a client cleared it.
    Clear {
        /// The terminal.
        pty: PtyId,
    },
    /// End the program with all that it started. Its end is still reported.
    Kill {
        /// The terminal.
        pty: PtyId,
    },
    /// End the program, and report nothing more about it.
    Close {
        /// The terminal.
        pty: PtyId,
    },
    /// Tell an agent the URI of the terminal that runs its command.
    Show {
        /// The number of the command.
        number: u64,
        /// The terminal's URI.
        uri: Arc<str>,
        /// The command has a pseudo-terminal.
        is_pty: bool,
    },
    /// Tell an agent that its command cannot run in a terminal.
    Refuse {
        /// The number of the command.
        number: u64,
    },
    /// Persist the state of a terminal, for [`Self::Recall`].
    Retain(TerminalRecord),
    /// Remove a persisted terminal.
    Forget {
        /// Its URI.
        uri: Arc<str>,
    },
    /// Read a persisted terminal; answer with [`TerminalInput::Recalled`].
    Recall {
        /// Its URI.
        uri: Arc<str>,
    },
}

impl PtyCommand {
    /// Returns the request that this command answers, if any.
    pub fn request(&self) -> Option<(ConnId, &RequestId)> {
        match self {
            Self::Open { request, .. } => request.as_ref().map(|(conn, id)| (*conn, id)),
            Self::Input { .. }
            | Self::Resize { .. }
            | Self::Clear { .. }
            | Self::Kill { .. }
            | Self::Close { .. }
            | Self::Show { .. }
            | Self::Refuse { .. }
            | Self::Retain(_)
            | Self::Forget { .. }
            | Self::Recall { .. } => None,
        }
    }
}

/// A terminal as it is persisted. After a restart of the host, its process has ended.
#[derive(Debug, Clone)]
pub struct TerminalRecord {
    /// The terminal's URI.
    pub uri: Arc<str>,
    /// The URI of the session that claims it, if any: the record is removed with the session.
    pub session: Option<Arc<str>>,
    /// The state.
    pub state: Arc<TerminalState>,
}

/// The reports about terminals from outside.
#[derive(Debug)]
pub enum TerminalInput {
    /// A program that [`PtyCommand::Open`] asked for was started, or could not be.
    Opened {
        /// The terminal.
        pty: PtyId,
        /// The title and directory to begin with, or the error.
        outcome: Result<StartedTerminal, RpcError>,
    },
    /// Output, in order.
    Output {
        /// The terminal.
        pty: PtyId,
        /// The output.
        events: Vec<TerminalEvent>,
    },
    /// A persisted terminal that [`PtyCommand::Recall`] asked for, or none.
    Recalled {
        /// Its URI.
        uri: Arc<str>,
        /// The terminal's last state.
        state: Option<Box<TerminalState>>,
    },
    /// An agent runs a command for one of its tool calls.
    AgentCommand(AgentCommandStart),
    /// The tool call that ran a command in a terminal has ended, or goes on without it (TRM-15).
    CallEnded {
        /// The number of the command.
        number: u64,
    },
}

/// A command that an agent wants to run in a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentCommandStart {
    /// The number under which the host finds the program, its arguments and its environment.
    pub number: u64,
    /// The agent's chat.
    pub chat: ChannelId,
    /// The tool call.
    pub call: String,
    /// The command line, as users read it.
    pub line: String,
    /// The size of the terminal.
    pub size: TerminalSize,
}

/// A program that was started in a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedTerminal {
    /// The title, such as the name of the shell.
    pub title: String,
    /// The directory, as a URI.
    pub directory: Option<String>,
    /// It has a pseudo-terminal. Without one its output is plain text, and it reads no input (TRM-16).
    pub is_pty: bool,
}

/// One event of a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalEvent {
    /// Output with escape sequences; never part of one.
    Data(String),
    /// All retained output but its last bytes has the same effect on a screen as this text.
    Compacted {
        /// How many bytes at the end of the retained output stay as they are.
        kept: usize,
        /// The text, with escape sequences.
        screen: String,
        /// How many [`PtyCommand::Clear`] the text takes into account.
        clears: u64,
    },
    /// The program set the title.
    Title(String),
    /// The program changed its directory, given as a URI.
    Directory(String),
    /// The shell reports its commands.
    CommandsDetected,
    /// A command starts. Output belongs to it until it ends.
    CommandStarted {
        /// Identifies it in its terminal.
        id: String,
        /// The command line; empty if the shell did not report it.
        line: String,
    },
    /// A command has ended.
    CommandEnded {
        /// The command.
        id: String,
        /// Its exit code, if the shell reported one.
        exit_code: Option<i64>,
    },
    /// The program has ended, and all of its output was reported.
    Exited {
        /// Its exit code; `None` if a signal ended it.
        exit_code: Option<i64>,
    },
}

impl TerminalEvent {
    /// Returns how many bytes the event takes.
    pub fn weight(&self) -> usize {
        match self {
            Self::Data(text) | Self::Title(text) | Self::Directory(text) => text.len(),
            Self::Compacted { screen, .. } => screen.len(),
            Self::CommandStarted { id, line } => id.len() + line.len(),
            Self::CommandEnded { id, .. } => id.len(),
            Self::CommandsDetected | Self::Exited { .. } => 0,
        }
    }
}

impl From<TerminalCommand> for Command {
    fn from(command: TerminalCommand) -> Self {
        Self::Part(PartCommand::Terminal(command))
    }
}

impl From<TerminalInput> for Input {
    fn from(input: TerminalInput) -> Self {
        Self::Part(PartInput::Terminal(input))
    }
}

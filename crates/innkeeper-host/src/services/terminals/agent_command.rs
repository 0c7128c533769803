//! Commands that agents run in terminals, so that users can watch, type into and stop them.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use innkeeper_core::terminal::{TerminalEvent, TerminalSize};
use tokio::sync::mpsc;

/// A command for a terminal.
#[derive(Debug, Clone)]
pub struct TerminalCommandLine {
    /// The program and its arguments.
    pub line: Vec<OsString>,
    /// The directory to start in.
    pub directory: PathBuf,
    /// The complete environment, but for the type of the terminal.
    pub environment: Vec<(OsString, OsString)>,
    /// The command line, as users read it.
    pub shown: String,
    /// The size of the terminal.
    pub size: TerminalSize,
}

/// The end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandEnd {
    /// The exit code; `None` if a signal ended the command.
    pub exit_code: Option<i64>,
}

/// A step of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandStep {
    /// Output with escape sequences, never cut inside one.
    Output(String),
    /// The command has ended.
    Ended(CommandEnd),
}

/// A request of an agent about its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandRequest {
    /// End it.
    Kill,
    /// The tool call goes on without it.
    EndCall,
}

/// A command that runs in a terminal. Dropped, the command ends with all that it started.
#[must_use = "a command that is dropped ends"]
pub struct AgentTerminal {
    uri: Arc<str>,
    is_pty: bool,
    events: mpsc::Receiver<TerminalEvent>,
    requests: mpsc::UnboundedSender<CommandRequest>,
}

impl AgentTerminal {
    pub(crate) fn new(
        uri: Arc<str>,
        is_pty: bool,
        events: mpsc::Receiver<TerminalEvent>,
        requests: mpsc::UnboundedSender<CommandRequest>,
    ) -> Self {
        Self {
            uri,
            is_pty,
            events,
            requests,
        }
    }

    /// Returns the terminal's URI, for [`ToolContent::Terminal`](crate::agent::ToolContent::Terminal).
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Returns true if the command has a pseudo-terminal; otherwise its output is plain text (TRM-16).
    pub fn is_pty(&self) -> bool {
        self.is_pty
    }

    /// Returns the next output of the command, or its end. `None` if the terminal was disposed of, or after the end.
    pub async fn next(&mut self) -> Option<CommandStep> {
        match self.events.recv().await? {
            TerminalEvent::Data(data) => Some(CommandStep::Output(data)),
            TerminalEvent::Exited { exit_code } => Some(CommandStep::Ended(CommandEnd { exit_code })),
            // Agents get no other events.
            _ => None,
        }
    }

    /// Ends the command with all that it started. Its end is still reported.
    pub fn kill(&self) {
        let _ = self.requests.send(CommandRequest::Kill);
    }

    /// Says that the tool call has ended and the command goes on: the claim of the terminal narrows to the chat (TRM-15).
    pub fn end_call(&self) {
        let _ = self.requests.send(CommandRequest::EndCall);
    }
}

impl fmt::Debug for AgentTerminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentTerminal")
            .field("uri", &self.uri)
            .finish_non_exhaustive()
    }
}

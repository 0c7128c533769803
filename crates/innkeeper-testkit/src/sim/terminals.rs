//! Terminals in runs that have them: a service without processes, and the rules for claims (TRM).
//!
//! The service reports output as the real one does: events wait for the report under way, and old output is replaced by
//! a text with the same effect, which is here the text itself. So host and clients have the same text at any time.

mod checks;
mod operations;

use std::collections::BTreeMap;
use std::sync::Arc;

use ahp_types::state::{TerminalClaim, TerminalContentPart, TerminalLifecycleState, TerminalState};
use innkeeper_core::snapshot::State;
use innkeeper_core::terminal::{PtyCommand, PtyId, TerminalEvent, TerminalInput};
use innkeeper_core::{Input, PartState};

use crate::sim::{Sim, Violation};

/// The terminals of a run.
pub(super) const TERMINALS: [&str; 3] = ["ahp-terminal:/t0", "ahp-terminal:/t1", "ahp-terminal:/t2"];

/// The service that runs terminals.
#[derive(Debug, Default)]
pub struct SimTerminals {
    processes: BTreeMap<PtyId, Process>,
    /// The persisted states.
    records: BTreeMap<String, TerminalState>,
    /// Persisted states that the core asked for.
    recalls: Vec<Arc<str>>,
    /// Input that processes got since it was last looked at.
    typed: Vec<(PtyId, String)>,
    /// Makes every text unique.
    words: u64,
}

/// A process of the service.
#[derive(Debug, Default)]
struct Process {
    uri: String,
    /// The core knows that it runs.
    is_open: bool,
    /// Everything that was printed since clients cleared it last.
    text: String,
    /// The positions at which commands begin and end.
    boundaries: Vec<usize>,
    clears: u64,
    /// Events that wait for the report under way.
    waiting: Vec<TerminalEvent>,
    running: Option<u64>,
    commands: u64,
}

impl SimTerminals {
    /// All processes end with the host.
    pub(super) fn restart(&mut self) {
        self.processes.clear();
        self.recalls.clear();
        self.typed.clear();
    }

    /// Follows a command of the core.
    pub(super) fn perform(&mut self, command: PtyCommand) -> Result<(), Violation> {
        match command {
            PtyCommand::Open { pty, .. } => {
                self.processes.insert(pty, Process::default());
            }
            PtyCommand::Input { pty, data } => {
                self.process(pty)?;
                self.typed.push((pty, data));
            }
            PtyCommand::Resize { pty, .. } => {
                self.process(pty)?;
            }
            PtyCommand::Clear { pty } => self.process(pty)?.clear(),
            PtyCommand::Close { pty } => {
                self.process(pty)?;
                self.processes.remove(&pty);
            }
            PtyCommand::Retain(record) => {
                self.records.insert(record.uri.to_string(), (*record.state).clone());
            }
            PtyCommand::Forget { uri } => {
                self.records.remove(&*uri);
            }
            PtyCommand::Recall { uri } => self.recalls.push(uri),
            // No agent of a run has commands in terminals.
            PtyCommand::Kill { .. } | PtyCommand::Show { .. } | PtyCommand::Refuse { .. } => {}
        }
        Ok(())
    }

    /// Returns the answer to the oldest question for a persisted state.
    pub(super) fn next_recall(&mut self) -> Option<Input> {
        let uri = (!self.recalls.is_empty()).then(|| self.recalls.remove(0))?;
        let state = self.records.get(&*uri).cloned().map(Box::new);
        Some(TerminalInput::Recalled { uri, state }.into())
    }

    fn process(&mut self, pty: PtyId) -> Result<&mut Process, Violation> {
        let found = self.processes.get_mut(&pty);
        found.ok_or_else(|| Violation::new(format!("a command for {pty:?}, which does not run")))
    }

    /// Returns the processes that the core knows, or those that it waits for.
    fn having(&self, is_open: bool) -> Vec<PtyId> {
        let found = self.processes.iter().filter(|(_, process)| process.is_open == is_open);
        found.map(|(pty, _)| *pty).collect()
    }
}

impl Process {
    fn print(&mut self, event: TerminalEvent) {
        match &event {
            TerminalEvent::Data(data) => self.text.push_str(data),
            TerminalEvent::CommandStarted { .. } | TerminalEvent::CommandEnded { .. } => {
                self.boundaries.push(self.text.len());
            }
            _ => {}
        }
        self.waiting.push(event);
    }

    /// Forgets the output that the core had when a client cleared it.
    fn clear(&mut self) {
        self.clears += 1;
        self.text.clear();
        self.boundaries.clear();
        for event in std::mem::take(&mut self.waiting) {
            self.print(event);
        }
    }

    /// Replaces the output before a boundary.
    fn compact(&mut self, boundary: usize) {
        let replaced = self.boundaries.get(boundary).copied().unwrap_or(self.text.len());
        self.boundaries.retain(|boundary| *boundary >= replaced);
        let compacted = TerminalEvent::Compacted {
            kept: self.text.len() - replaced,
            screen: self.text[..replaced].to_owned(),
            clears: self.clears,
        };
        self.waiting.push(compacted);
    }
}

impl Sim {
    /// Lets the run have terminals.
    pub(super) fn serve_terminals(&mut self) {
        self.terminals = Some(SimTerminals::default());
    }

    /// Returns a terminal as the host has it in memory.
    fn host_terminal(&self, uri: &str) -> Option<Arc<TerminalState>> {
        match self.core.snapshot(uri)?.state {
            State::Part(PartState::Terminal(state)) => Some(state),
            _ => None,
        }
    }

    /// Returns true if a client may type into a terminal, by the rules (TRM-05, TRM-18).
    fn may_drive(&self, client: usize, state: &TerminalState) -> bool {
        match &state.claim {
            TerminalClaim::Session(_) => true,
            TerminalClaim::Client(claim) if claim.client_id == self.clients[client].id => true,
            TerminalClaim::Client(claim) => !self.is_present(&claim.client_id),
        }
    }

    /// Returns true if a client is connected, or its grace period is not over.
    fn is_present(&self, id: &str) -> bool {
        let Some(client) = self.clients.iter().position(|client| client.id == id) else {
            return false;
        };
        let mut connections = self.conns.values();
        let is_here = connections.any(|connection| connection.client == client && connection.admitted);
        let left_at = self.clients[client].left_at;
        is_here || left_at.is_some_and(|left| self.now.mono_ms < left + self.grace_ms)
    }
}

/// Returns all output of a terminal.
pub(super) fn text_of(state: &TerminalState) -> String {
    let parts = state.content.iter().map(|part| match part {
        TerminalContentPart::Unclassified(part) => part.value.as_str(),
        TerminalContentPart::Command(part) => part.output.as_str(),
        TerminalContentPart::Unknown(_) => "",
    });
    parts.collect()
}

/// Returns true if a client that followed a terminal has what the host has: the same text, and the commands that the
/// host still tells apart.
pub(super) fn is_same(mine: &TerminalState, host: &TerminalState) -> bool {
    let without_content = |state: &TerminalState| TerminalState {
        content: Vec::new(),
        ..state.clone()
    };
    let commands = |state: &TerminalState| -> Vec<(String, Option<i64>, bool)> {
        let commands = state.content.iter().filter_map(|part| match part {
            TerminalContentPart::Command(part) => Some((part.command_id.clone(), part.exit_code, part.is_complete)),
            TerminalContentPart::Unclassified(_) | TerminalContentPart::Unknown(_) => None,
        });
        commands.collect()
    };
    without_content(mine) == without_content(host)
        && text_of(mine) == text_of(host)
        && commands(mine).ends_with(&commands(host))
}

/// Returns true if the process of a terminal has not ended.
fn runs(state: &TerminalState) -> bool {
    matches!(state.lifecycle, TerminalLifecycleState::Running(_))
}

//! Terminals as channels (TRM).
//!
//! The core owns the state of every terminal: its claim, its size, and its output as far as it is retained. A service
//! runs the process and reports its output. A terminal is listed on the root until it is disposed of, or until it has
//! ended and makes room for another one. One that ran a command of an agent leaves the list when the command has ended;
//! its URI still leads to its last state (TRM-17).

mod claim;
mod lifetime;
mod output;
mod records;
mod vocabulary;

pub use vocabulary::{
    AgentCommandStart, CreateTerminal, PtyCommand, PtyId, PtyProgram, PtySpec, StartedTerminal, TerminalCommand,
    TerminalEvent, TerminalInput, TerminalRecord, TerminalSize,
};

use std::collections::HashMap;
use std::sync::Arc;

use ahp::reducers::{ReduceOutcome, apply_action_to_terminal};
use ahp_types::actions::{RootTerminalsChangedAction, StateAction};
use ahp_types::state::{TerminalClaim, TerminalContentPart, TerminalInfo, TerminalLifecycleState, TerminalState};

use crate::core::{ChannelPart, Cx, Departure, Host, ROOT, SessionRemoval};
use crate::dispatch::{Dispatched, Verdict};
use crate::ids::{ChannelId, ConnId, IdMap};
use crate::protocol::request::RequestId;

/// Most terminals that are listed at a time.
const MAX_TERMINALS: usize = 256;
/// The smallest and the largest width and height.
const SIZES: std::ops::RangeInclusive<i64> = 1..=4096;

/// All terminals.
#[derive(Debug, Default)]
pub(crate) struct Terminals {
    by_channel: IdMap<ChannelId, Terminal>,
    by_pty: HashMap<PtyId, ChannelId>,
    /// Terminals whose program is being started.
    opening: HashMap<PtyId, Opening>,
    next: u64,
    /// Terminals of an earlier run of the host that were listed and are not in memory.
    earlier: Vec<TerminalInfo>,
    /// The list on the root may have changed.
    is_list_dirty: bool,
}

/// One terminal.
#[derive(Debug)]
struct Terminal {
    uri: Arc<str>,
    state: Arc<TerminalState>,
    /// The running process.
    pty: Option<PtyId>,
    /// The session that claims it, if any.
    session: Option<ChannelId>,
    /// How often clients have cleared it.
    clears: u64,
    /// When the running command began.
    command_ms: u64,
    /// The number of the agent's command that it runs, while the tool call lasts.
    call: Option<u64>,
    /// It ran a command of an agent, so it is listed only while that runs.
    is_for_agent: bool,
    /// It changed since it was last persisted.
    is_dirty: bool,
    /// A timer will persist it.
    is_scheduled: bool,
}

/// A terminal whose program is being started.
#[derive(Debug)]
struct Opening {
    uri: String,
    claim: TerminalClaim,
    name: Option<String>,
    size: TerminalSize,
    /// The request to answer, or the agent's command.
    asked_by: AskedBy,
}

/// The originator of a terminal.
#[derive(Debug, Clone)]
enum AskedBy {
    Client(ConnId, RequestId),
    Agent(u64),
}

impl ChannelPart for Terminals {
    type Command = TerminalCommand;
    type Input = TerminalInput;
    type State = TerminalState;

    fn state(&self, channel: ChannelId) -> Option<Arc<TerminalState>> {
        self.by_channel
            .get(&channel)
            .map(|terminal| Arc::clone(&terminal.state))
    }

    fn estimated_bytes(state: &TerminalState) -> usize {
        state
            .content
            .iter()
            .map(|part| text_of(part).len() + 128)
            .sum::<usize>()
            + 512
    }

    fn reduce(&mut self, channel: ChannelId, action: &StateAction) -> ReduceOutcome {
        let Some(terminal) = self.by_channel.get_mut(&channel) else {
            return ReduceOutcome::NoOp;
        };
        // Input changes nothing (TRM-06), so the state is not copied for it.
        if let StateAction::TerminalInput(_) = action {
            return ReduceOutcome::NoOp;
        }
        terminal.is_dirty = true;
        apply_action_to_terminal(Arc::make_mut(&mut terminal.state), action)
    }

    fn handle_command(host: &mut Host, cx: &mut Cx<'_>, conn: ConnId, id: &RequestId, command: TerminalCommand) {
        match command {
            TerminalCommand::Create(create) => host.create_terminal(cx, conn, id, *create),
            TerminalCommand::Dispose { channel } => host.dispose_terminal(cx, conn, id, &channel),
        }
    }

    fn handle_input(host: &mut Host, cx: &mut Cx<'_>, input: TerminalInput) {
        match input {
            TerminalInput::Opened { pty, outcome } => host.terminal_opened(cx, pty, outcome),
            TerminalInput::Output { pty, events } => host.terminal_output(cx, pty, events),
            TerminalInput::Recalled { uri, state } => host.terminal_recalled(cx, &uri, state),
            TerminalInput::AgentCommand(start) => host.open_agent_terminal(cx, start),
            TerminalInput::CallEnded { number } => host.terminal_call_ended(cx, number),
        }
    }

    fn check(host: &Host, _: &Cx<'_>, by: &Dispatched, action: StateAction) -> Verdict {
        host.check_on_terminal(by, action)
    }

    fn apply(host: &mut Host, cx: &mut Cx<'_>, by: &Dispatched, action: StateAction) {
        host.apply_on_terminal(cx, by, action);
    }

    fn subscriber_left(host: &mut Host, cx: &mut Cx<'_>, channel: ChannelId, _: Departure) {
        host.release_terminal(cx, channel);
    }

    fn deadline(host: &mut Host, cx: &mut Cx<'_>, channel: ChannelId) {
        host.retain_terminal(cx, channel);
    }

    fn settle(host: &mut Host, cx: &mut Cx<'_>) {
        host.publish_terminals(cx);
    }

    fn is_busy_in(&self, session: ChannelId) -> bool {
        self.by_channel
            .values()
            .any(|terminal| terminal.pty.is_some() && terminal.session == Some(session))
    }

    fn session_removed(host: &mut Host, cx: &mut Cx<'_>, session: ChannelId, removal: SessionRemoval) {
        match removal {
            SessionRemoval::Deleted => host.close_terminals_of(cx, session),
            // Its terminals do not run, and stay in memory.
            SessionRemoval::Evicted => {}
        }
    }
}

impl Terminals {
    /// Returns the channel of a process.
    pub(crate) fn channel_of(&self, pty: PtyId) -> Option<ChannelId> {
        self.by_pty.get(&pty).copied()
    }

    /// Returns the next number of a process.
    fn next_pty(&mut self) -> PtyId {
        self.next += 1;
        PtyId(self.next)
    }

    /// Returns the terminals that clients see on the root, the oldest first.
    fn listed(&self) -> Vec<TerminalInfo> {
        let mut listed: Vec<(&ChannelId, &Terminal)> = self
            .by_channel
            .iter()
            .filter(|(_, terminal)| terminal.is_listed())
            .collect();
        listed.sort_unstable_by_key(|(channel, _)| **channel);
        let present = listed.into_iter().map(|(_, terminal)| terminal.info());
        self.earlier.iter().cloned().chain(present).collect()
    }

    fn count(&self) -> usize {
        let listed = self.by_channel.values().filter(|terminal| terminal.is_listed());
        listed.count() + self.opening.len() + self.earlier.len()
    }

    /// Returns the oldest listed terminal in memory that has ended, of those that the condition allows.
    fn oldest_ended(&self, is_allowed: impl Fn(ChannelId) -> bool) -> Option<ChannelId> {
        let terminals = self.by_channel.iter();
        let ended = terminals.filter(|(channel, terminal)| {
            terminal.is_listed() && terminal.pty.is_none() && is_allowed(**channel)
        });
        ended.map(|(channel, _)| *channel).min()
    }

    /// Removes a terminal of an earlier run from the list.
    fn forget_earlier(&mut self, uri: &str) {
        let before = self.earlier.len();
        self.earlier.retain(|info| info.resource != uri);
        self.is_list_dirty |= self.earlier.len() < before;
    }
}

impl Terminal {
    fn is_listed(&self) -> bool {
        !self.is_for_agent || self.pty.is_some()
    }

    fn info(&self) -> TerminalInfo {
        TerminalInfo {
            resource: self.uri.to_string(),
            title: self.state.title.clone(),
            claim: self.state.claim.clone(),
            lifecycle: self.state.lifecycle.clone(),
        }
    }

    fn is_running(&self) -> bool {
        matches!(self.state.lifecycle, TerminalLifecycleState::Running(_))
    }
}

impl Host {
    /// Publishes the list of terminals if it changed.
    fn publish_terminals(&mut self, cx: &mut Cx<'_>) {
        if !std::mem::take(&mut self.parts.terminals.is_list_dirty) {
            return;
        }
        let terminals = self.parts.terminals.listed();
        if self.root.state().terminals.as_deref().unwrap_or_default() != terminals {
            let action = RootTerminalsChangedAction { terminals };
            self.commit(cx, ROOT, StateAction::RootTerminalsChanged(action), None);
        }
    }
}

/// Returns the text of a part of a terminal's output.
fn text_of(part: &TerminalContentPart) -> &str {
    match part {
        TerminalContentPart::Unclassified(part) => &part.value,
        TerminalContentPart::Command(part) => &part.output,
        TerminalContentPart::Unknown(_) => "",
    }
}

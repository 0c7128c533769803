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
mod terminals;
mod uri;
mod vocabulary;

pub use vocabulary::{
    AgentCommandStart, CreateTerminal, PtyCommand, PtyId, PtyProgram, PtySpec, StartedTerminal, TerminalCommand,
    TerminalEvent, TerminalInput, TerminalRecord, TerminalSize,
};

pub(crate) use terminals::Terminals;

use std::sync::Arc;

use ahp::reducers::ReduceOutcome;
use ahp_types::actions::{RootTerminalsChangedAction, StateAction};
use ahp_types::state::{RootState, TerminalContentPart, TerminalState};

use crate::config::CoreConfig;
use crate::core::{ChannelPart, Cx, Departure, Host, ROOT, SessionRemoval};
use crate::dispatch::{Dispatched, Verdict};
use crate::ids::{ChannelId, ConnId};
use crate::protocol::request::RequestId;

/// Most terminals that are listed at a time.
const MAX_TERMINALS: usize = 256;
/// The smallest and the largest width and height.
const SIZES: std::ops::RangeInclusive<i64> = 1..=4096;

impl ChannelPart for Terminals {
    type Command = TerminalCommand;
    type Input = TerminalInput;
    type State = TerminalState;

    fn state(&self, channel: ChannelId) -> Option<Arc<TerminalState>> {
        self.get(channel).map(|terminal| Arc::clone(terminal.state()))
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
        self.apply_action(channel, action)
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

    fn is_recallable(config: &CoreConfig, uri: &str) -> bool {
        config.serves_terminals && uri::is_terminal(uri)
    }

    fn recall(cx: &mut Cx<'_>, uri: Arc<str>) {
        cx.emit(PtyCommand::Recall { uri });
    }

    fn root_restored(host: &mut Host, cx: &mut Cx<'_>, root: &RootState) {
        if let Some(listed) = &root.terminals {
            host.restore_terminals(cx, listed);
        }
    }

    fn shut_down(host: &mut Host, cx: &mut Cx<'_>) {
        host.retain_terminals(cx);
    }

    fn is_busy_in(&self, session: ChannelId) -> bool {
        self.runs_in(session)
    }

    fn session_removed(host: &mut Host, cx: &mut Cx<'_>, session: ChannelId, removal: SessionRemoval) {
        match removal {
            SessionRemoval::Deleted => host.close_terminals_of(cx, session),
            // Its terminals do not run, and stay in memory.
            SessionRemoval::Evicted => {}
        }
    }
}

impl Host {
    /// Publishes the list of terminals if it changed.
    fn publish_terminals(&mut self, cx: &mut Cx<'_>) {
        let Some(terminals) = self.parts.terminals.take_changed_list() else {
            // Most inputs change no terminal.
            return;
        };
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

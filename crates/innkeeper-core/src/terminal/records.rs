//! The last states of terminals: persisted while they change, and found again after a restart (TRM-17).

use std::sync::Arc;

use ahp_types::actions::{RootTerminalsChangedAction, StateAction};
use ahp_types::state::{
    TerminalClaim, TerminalContentPart, TerminalExitedLifecycleState, TerminalInfo, TerminalLifecycleState,
    TerminalState, TerminalUnclassifiedPart,
};

use super::terminals::Terminal;
use super::vocabulary::PtyCommand;
use crate::core::{Cx, Host, ROOT, Timer};
use crate::ids::ChannelId;
use crate::protocol::action_table::ChannelKind;

/// How long changes of a terminal are gathered before it is persisted.
const RETAIN_MS: u64 = 3_000;

/// The text at the end of a terminal whose process ended with the host.
const HOST_ENDED: &str = "\r\n\x1b[0m[The host was restarted. The process of this terminal has ended.]\r\n";

impl Host {
    /// Persists a terminal in a while.
    pub(super) fn schedule_retention(&mut self, cx: &Cx<'_>, channel: ChannelId) {
        if self.storage.mode().persists()
            && let Some(terminal) = self.parts.terminals.get_mut(channel)
            && terminal.schedule()
        {
            let at_ms = cx.now.mono_ms.saturating_add(RETAIN_MS);
            self.timers.set(at_ms, Timer::Channel(channel));
        }
    }

    /// Persists a terminal if it changed.
    pub(super) fn retain_terminal(&mut self, cx: &mut Cx<'_>, channel: ChannelId) {
        if !self.storage.mode().persists() {
            return;
        }
        // It may have been disposed of before its timer.
        let Some(terminal) = self.parts.terminals.get_mut(channel) else {
            return;
        };
        if let Some(record) = terminal.take_record() {
            cx.emit(PtyCommand::Retain(record));
        }
    }

    /// Persists all terminals, because the host is going down.
    pub(super) fn retain_terminals(&mut self, cx: &mut Cx<'_>) {
        for channel in self.parts.terminals.channels() {
            self.retain_terminal(cx, channel);
        }
    }

    /// A terminal that is not in memory was looked up.
    pub(super) fn terminal_recalled(&mut self, cx: &mut Cx<'_>, uri: &Arc<str>, state: Option<Box<TerminalState>>) {
        if let Some(mut state) = state
            && self.channels.find(uri).is_none()
        {
            end_with_host(&mut state);
            let channel = self.add_channel(uri, ChannelKind::Terminal);
            let was_listed = self.parts.terminals.forget_earlier(uri);
            let mut terminal = Terminal::recalled(Arc::clone(uri), *state, was_listed);
            terminal.set_session(self.claiming_session(terminal.claim()));
            self.parts.terminals.insert(channel, terminal);
        }
        self.resume_after_recall(cx, uri);
        match self.channels.find(uri) {
            // An input that only asked for it may have gone.
            Some(channel) => self.release_terminal(cx, channel),
            // Its record is lost, so nothing could ever show or dispose of it.
            None => {
                self.parts.terminals.forget_earlier(uri);
            }
        }
    }

    /// Restores the list of terminals of an earlier run: all of their processes have ended.
    pub(super) fn restore_terminals(&mut self, cx: &mut Cx<'_>, listed: &[TerminalInfo]) {
        // Clients may continue the root's state from before, with this list in it.
        self.root.state_mut().terminals = Some(listed.to_vec());
        let earlier = listed.iter().filter(|info| self.outlives_host(info));
        let earlier: Vec<TerminalInfo> = earlier
            .map(|info| TerminalInfo {
                lifecycle: exited(&info.lifecycle),
                ..info.clone()
            })
            .collect();
        self.parts.terminals.restore_earlier(earlier.clone());
        if self.root.state().terminals.as_ref() != Some(&earlier) {
            let action = RootTerminalsChangedAction { terminals: earlier };
            self.commit(cx, ROOT, StateAction::RootTerminalsChanged(action), None);
        }
    }

    /// Returns true if a terminal stays in the list after a restart. Commands of agents do not.
    fn outlives_host(&self, info: &TerminalInfo) -> bool {
        self.config.serves_terminals
            && match &info.claim {
                TerminalClaim::Client(_) => true,
                TerminalClaim::Session(claim) => claim.tool_call_id.is_none(),
            }
    }
}

/// Returns the lifecycle of a process after the host was restarted.
fn exited(before: &TerminalLifecycleState) -> TerminalLifecycleState {
    match before {
        TerminalLifecycleState::Exited(_) => before.clone(),
        TerminalLifecycleState::Running(_) => {
            TerminalLifecycleState::Exited(TerminalExitedLifecycleState { exit_code: None })
        }
    }
}

/// Turns the persisted state of a running terminal into that of one that ended with the host, and says so.
fn end_with_host(state: &mut TerminalState) {
    if !matches!(state.lifecycle, TerminalLifecycleState::Running(_)) {
        return;
    }
    state.lifecycle = exited(&state.lifecycle);
    for part in &mut state.content {
        if let TerminalContentPart::Command(command) = part {
            command.is_complete = true;
        }
    }
    let note = TerminalUnclassifiedPart {
        value: HOST_ENDED.to_owned(),
    };
    match state.content.last_mut() {
        Some(TerminalContentPart::Unclassified(last)) => last.value.push_str(HOST_ENDED),
        _ => state.content.push(TerminalContentPart::Unclassified(note)),
    }
}

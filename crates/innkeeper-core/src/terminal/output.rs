//! Output of terminals: published as actions, retained within bounds.

use ahp_types::actions::{
    StateAction, TerminalCommandDetectionAvailableAction, TerminalCommandExecutedAction, TerminalCommandFinishedAction,
    TerminalCwdChangedAction, TerminalDataAction, TerminalExitedAction, TerminalTitleChangedAction,
};
use ahp_types::state::{TerminalContentPart, TerminalState, TerminalUnclassifiedPart};

use super::text_of;
use super::vocabulary::{PtyId, TerminalEvent};
use crate::core::{Cx, Host};
use crate::dispatch::elapsed;
use crate::ids::ChannelId;

impl Host {
    /// Publishes the events of a terminal, in order.
    pub(super) fn terminal_output(&mut self, cx: &mut Cx<'_>, pty: PtyId, events: Vec<TerminalEvent>) {
        for event in events {
            // The terminal may have been disposed of while the output was on its way.
            let Some(channel) = self.parts.terminals.channel_of(pty) else {
                return;
            };
            self.terminal_event(cx, channel, event);
        }
    }

    fn terminal_event(&mut self, cx: &mut Cx<'_>, channel: ChannelId, event: TerminalEvent) {
        let action = match event {
            TerminalEvent::Data(data) => StateAction::TerminalData(TerminalDataAction { data }),
            TerminalEvent::Compacted { kept, screen, clears } => {
                if let Some(terminal) = self.parts.terminals.get_mut(channel) {
                    terminal.compact(kept, screen, clears);
                }
                return;
            }
            TerminalEvent::Title(title) => StateAction::TerminalTitleChanged(TerminalTitleChangedAction { title }),
            TerminalEvent::Directory(cwd) => StateAction::TerminalCwdChanged(TerminalCwdChangedAction { cwd }),
            TerminalEvent::CommandsDetected => {
                StateAction::TerminalCommandDetectionAvailable(TerminalCommandDetectionAvailableAction {})
            }
            TerminalEvent::CommandStarted { id, line } => {
                if let Some(terminal) = self.parts.terminals.get_mut(channel) {
                    terminal.begin_command(cx.now.mono_ms);
                }
                StateAction::TerminalCommandExecuted(TerminalCommandExecutedAction {
                    command_id: id,
                    command_line: line,
                    timestamp: cx.now.wall.as_millisecond(),
                })
            }
            TerminalEvent::CommandEnded { id, exit_code } => {
                let terminal = self.parts.terminals.get(channel);
                let duration_ms = terminal.map(|terminal| elapsed(cx.now.mono_ms, terminal.command_ms()));
                StateAction::TerminalCommandFinished(TerminalCommandFinishedAction {
                    command_id: id,
                    exit_code,
                    duration_ms,
                })
            }
            TerminalEvent::Exited { exit_code } => return self.terminal_exited(cx, channel, exit_code),
        };
        self.commit(cx, channel, action, None);
        self.schedule_retention(cx, channel);
    }

    /// The process of a terminal has ended, and all of its output is published (TRM-11).
    fn terminal_exited(&mut self, cx: &mut Cx<'_>, channel: ChannelId, exit_code: Option<i64>) {
        self.parts.terminals.end_process(channel);
        let exited = TerminalExitedAction { exit_code };
        self.commit(cx, channel, StateAction::TerminalExited(exited), None);
        self.retain_terminal(cx, channel);
        self.release_terminal(cx, channel);
    }
}

/// Replaces all output but its last `kept` bytes by a text that draws the same screen (TRM-14).
pub(super) fn compact(state: &mut TerminalState, kept: usize, screen: String) {
    let total: usize = state.content.iter().map(|part| text_of(part).len()).sum();
    if kept > total {
        // A client cleared the terminal, and the service does not know yet.
        return;
    }
    let mut left = kept;
    let mut tail = Vec::new();
    while left > 0
        && let Some(part) = state.content.pop_if(|part| text_of(part).len() <= left)
    {
        left -= text_of(&part).len();
        tail.push(part);
    }
    let last = state.content.pop();
    state.content.clear();
    match last {
        // The output of a long command is still its own.
        Some(TerminalContentPart::Command(mut command)) if !command.is_complete && tail.is_empty() => {
            if command.output.is_empty() {
                state.content.push(unclassified(screen));
            } else {
                command.output = screen;
            }
            tail.push(TerminalContentPart::Command(command));
        }
        _ => state.content.push(unclassified(screen)),
    }
    state.content.extend(tail.into_iter().rev());
}

fn unclassified(value: String) -> TerminalContentPart {
    TerminalContentPart::Unclassified(TerminalUnclassifiedPart { value })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(content: serde_json::Value) -> TerminalState {
        let state = json!({
            "title": "t", "content": content, "lifecycle": { "status": "running" },
            "claim": { "kind": "client", "clientId": "c" },
        });
        serde_json::from_value(state).expect("a state")
    }

    fn text(text: &str) -> serde_json::Value {
        json!({ "type": "unclassified", "value": text })
    }

    fn command(output: &str, is_complete: bool) -> serde_json::Value {
        json!({
            "type": "command", "commandId": "1", "commandLine": "ls", "output": output, "timestamp": 0,
            "isComplete": is_complete,
        })
    }

    fn compacted(content: serde_json::Value, kept: usize) -> serde_json::Value {
        let mut state = state(content);
        compact(&mut state, kept, "SCREEN".to_owned());
        serde_json::to_value(state.content).expect("JSON")
    }

    #[test]
    fn trm14_old_output_is_replaced_and_recent_commands_stay() {
        let content = json!([text("old"), command("out", true), text("$ "), command("more", false)]);
        assert_eq!(
            compacted(content.clone(), 9),
            json!([text("SCREEN"), command("out", true), text("$ "), command("more", false)])
        );
        assert_eq!(
            compacted(content.clone(), 4),
            json!([text("SCREEN"), command("more", false)])
        );
        assert_eq!(compacted(content.clone(), 0), json!([command("SCREEN", false)]));
        assert_eq!(compacted(content.clone(), 99), content, "it was cleared meanwhile");
    }

    #[test]
    fn a_command_that_has_just_started_has_no_output() {
        let content = json!([text("old"), command("", false)]);
        assert_eq!(compacted(content, 0), json!([text("SCREEN"), command("", false)]));
        assert_eq!(compacted(json!([text("old")]), 0), json!([text("SCREEN")]));
        assert_eq!(compacted(json!([command("x", true)]), 0), json!([text("SCREEN")]));
    }
}

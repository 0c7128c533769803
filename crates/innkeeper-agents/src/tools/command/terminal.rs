//! Commands in terminals of the host: users watch them, type into them and stop them.

use std::time::Duration;

use innkeeper_host::AgentError;
use innkeeper_host::agent::{ToolCall, ToolContent, ToolResult};
use innkeeper_host::terminals::{AgentTerminal, CommandStep};
use tokio::time::Instant;

use super::background::BackgroundCommands;
use super::output::CommandOutput;
use super::{Ending, Request, complete, quoted, with_note};
use crate::tools::{ToolAnswer, ToolLimits};

/// How long a command of the background is watched, because most of those that fail do so at once.
const BACKGROUND_WATCH: Duration = Duration::from_secs(2);
/// How long the end of a killed command is awaited.
pub(super) const KILL_TIME: Duration = Duration::from_secs(5);
/// Bytes of the output's end in the preview of a terminal.
const PREVIEW_BYTES: usize = 2 << 10;
/// Maximum lines in the preview of a terminal.
const PREVIEW_LINES: usize = 12;

/// A command in a terminal.
struct Command<'a> {
    terminal: AgentTerminal,
    request: &'a Request,
    output: CommandOutput,
}

/// The reason why a command is no longer watched.
enum Watched {
    Ended(Ending),
    /// It still runs after the time it has.
    TimeOver,
}

/// Watches a command to its end, or until it is time to leave it to the background.
pub(super) async fn run(
    mut call: ToolCall,
    terminal: AgentTerminal,
    request: &Request,
    limits: &ToolLimits,
    commands: &BackgroundCommands,
) -> Result<ToolAnswer, AgentError> {
    let mut command = Command {
        terminal,
        request,
        output: CommandOutput::new(limits),
    };
    call.content(vec![command.content(None)]).await?;
    let time = match request.background {
        true => BACKGROUND_WATCH.min(request.time),
        false => request.time,
    };
    let cancelled = call.cancelled();
    let watched = tokio::select! {
        biased;
        () = cancelled => return Err(AgentError::Cancelled),
        watched = command.watch(&mut call, time, limits) => watched?,
    };
    match watched {
        Watched::Ended(ending) => {
            let shown = command.content(Some(&ending));
            complete(call, request, &ending, command.output.flushed(), Some(shown)).await
        }
        Watched::TimeOver => command.leave(call, limits, commands).await,
    }
}

impl Command<'_> {
    async fn watch(&mut self, call: &mut ToolCall, time: Duration, limits: &ToolLimits) -> Result<Watched, AgentError> {
        let over_at = Instant::now() + time;
        let mut alive_at = Instant::now() + limits.alive_pace;
        loop {
            tokio::select! {
                step = self.terminal.next() => match step {
                    Some(CommandStep::Output(text)) => self.output.push(&text),
                    Some(CommandStep::Ended(end)) => return Ok(Watched::Ended(Ending::of(end.exit_code))),
                    None => return Ok(Watched::Ended(Ending::Closed)),
                },
                () = tokio::time::sleep_until(over_at) => return Ok(Watched::TimeOver),
                // A silent command must not trip the watchdog.
                () = tokio::time::sleep_until(alive_at) => {
                    call.alive().await?;
                    alive_at = Instant::now() + limits.alive_pace;
                }
            }
        }
    }

    /// Leaves the command to the background: the turn goes on without it, and users see it beside the chat.
    async fn leave(
        mut self,
        call: ToolCall,
        limits: &ToolLimits,
        commands: &BackgroundCommands,
    ) -> Result<ToolAnswer, AgentError> {
        let line = &self.request.command;
        let name = quoted(line);
        let mut background = call.background(line.clone(), line.clone()).await?;
        background.in_terminal(self.terminal.uri()).await?;
        let text = self.output.flushed().excerpt();
        let seconds = self.request.time.as_secs();
        let (summary, reason) = match self.request.background {
            true => (format!("Started {name} in the background"), "it goes on".to_owned()),
            false => (
                format!("Left {name} in the background after {seconds} seconds"),
                format!("it still runs after {seconds} seconds and goes on"),
            ),
        };
        let result = ToolResult {
            content: vec![ToolContent::Text(text.clone()), self.content(None)],
            ..ToolResult::text(summary, "")
        };
        call.complete(result).await?;
        self.terminal.end_call();
        let id = commands.follow(line, self.terminal, background, limits);
        let output = if text.is_empty() { "no output yet" } else { &text };
        let note = format!(
            "{reason} in the background, until it ends or the user stops it; `check_command` with the id {id} shows \
             more, waits or stops it"
        );
        Ok(ToolAnswer::ok(with_note(output, &note)))
    }

    /// Returns the terminal as clients find it in the call, with the result once the command has ended (TOOL-17).
    fn content(&mut self, ending: Option<&Ending>) -> ToolContent {
        let preview = ending.map(|_| {
            let text = self.output.flushed().tail_text(PREVIEW_BYTES);
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(PREVIEW_LINES)..].join("\n")
        });
        ToolContent::Terminal {
            uri: self.terminal.uri().to_owned(),
            title: self.request.command.clone(),
            is_pty: self.terminal.is_pty(),
            exit_code: ending.and_then(Ending::exit_code),
            preview,
        }
    }
}

//! Commands in terminals of the host: users watch them, type into them and stop them.

use std::time::Duration;

use innkeeper_host::AgentError;
use innkeeper_host::agent::{ToolCall, ToolContent, ToolResult};
use innkeeper_host::terminals::{AgentTerminal, CommandStep};
use innkeeper_std::PlainText;
use tokio::time::Instant;

use super::output::Output;
use super::{Ending, Request, complete, quoted};
use crate::tools::{ToolAnswer, ToolLimits};

/// How long a command of the background is watched, because most of those that fail do so at once.
const BACKGROUND_WATCH: Duration = Duration::from_secs(2);
/// How long the last output of a killed command is awaited.
const KILL_TIME: Duration = Duration::from_secs(5);
/// Bytes of the output's end in the preview of a terminal.
const PREVIEW_BYTES: usize = 2 << 10;
/// Maximum lines in the preview of a terminal.
const PREVIEW_LINES: usize = 12;

/// A command in a terminal.
struct Command<'a> {
    terminal: AgentTerminal,
    request: &'a Request,
    output: Output,
    text: PlainText,
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
) -> Result<ToolAnswer, AgentError> {
    let mut command = Command {
        terminal,
        request,
        output: Output::new(limits.output_head, limits.output_tail, limits.output_kept),
        text: PlainText::default(),
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
    let ending = match watched {
        Watched::Ended(ending) => ending,
        Watched::TimeOver if request.background => return command.leave(call).await,
        Watched::TimeOver => {
            command.kill().await;
            Ending::TimedOut
        }
    };
    command.text.flush(&mut |line| command.output.push(line.as_bytes()));
    let shown = command.content(Some(&ending));
    complete(call, request, &ending, &command.output, Some(shown)).await
}

impl Command<'_> {
    async fn watch(&mut self, call: &mut ToolCall, time: Duration, limits: &ToolLimits) -> Result<Watched, AgentError> {
        let over_at = Instant::now() + time;
        let mut alive_at = Instant::now() + limits.alive_pace;
        loop {
            tokio::select! {
                step = self.terminal.next() => match step {
                    Some(CommandStep::Output(text)) => self.text.push(&text, &mut |line| self.output.push(line.as_bytes())),
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

    /// Ends the command with all that it started, and takes its last output.
    async fn kill(&mut self) {
        self.terminal.kill();
        let draining = async {
            while let Some(CommandStep::Output(text)) = self.terminal.next().await {
                self.text.push(&text, &mut |line| self.output.push(line.as_bytes()));
            }
        };
        let _ = tokio::time::timeout(KILL_TIME, draining).await;
    }

    /// Leaves the command to the background: the turn goes on without it, and users see it beside the chat.
    async fn leave(mut self, call: ToolCall) -> Result<ToolAnswer, AgentError> {
        let line = &self.request.command;
        let name = quoted(line);
        let mut background = call.background(line.clone(), line.clone()).await?;
        background.in_terminal(self.terminal.uri()).await?;
        self.text.flush(&mut |line| self.output.push(line.as_bytes()));
        let text = self.output.excerpt();
        let result = ToolResult {
            content: vec![ToolContent::Text(text.clone()), self.content(None)],
            ..ToolResult::text(format!("Started {name} in the background"), "")
        };
        call.complete(result).await?;
        let mut terminal = self.terminal;
        terminal.end_call();
        background.during(async move { while let Some(CommandStep::Output(_)) = terminal.next().await {} });
        let output = if text.is_empty() { "no output yet\n" } else { &text };
        let newline = if output.ends_with('\n') { "" } else { "\n" };
        Ok(ToolAnswer {
            text: format!("{output}{newline}[it goes on in the background, until it ends or the user stops it]"),
            images: Vec::new(),
            is_error: false,
        })
    }

    /// Returns the terminal as clients find it in the call, with the result once the command has ended (TOOL-17).
    fn content(&self, ending: Option<&Ending>) -> ToolContent {
        let preview = ending.map(|_| {
            let text = self.output.tail_text(PREVIEW_BYTES);
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

//! Commands in terminals, without a model.

use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::json;

use super::{say, tools};
use innkeeper_host::agent::{Confirmation, Invocation, ToolCall, ToolContent, ToolResult, Verdict};
use innkeeper_host::terminals::{AgentTerminal, CommandEnd, CommandStep, TerminalCommandLine, TerminalSize};
use innkeeper_host::{AgentError, EventSink, TurnInput};

/// The command of `/terminal` alone: colours, a title, progress and an exit code.
const SHOW: &str = "printf '\\033]2;The lobby\\007'; printf '\\033[1;32mWelcome\\033[0m to a terminal.\\n'; \
                    for room in 1 2 3; do printf 'Room %s is ready.\\n' $room; done; exit 3";
/// The programs that a command finds.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Bytes of output in the preview.
const PREVIEW_BYTES: usize = 1024;

/// `/terminal`: runs a command in a terminal, which users watch, type into and stop (TOOL-16).
pub(super) async fn terminal(
    turn: &TurnInput,
    events: &EventSink,
    command: Option<&str>,
    background: bool,
) -> Result<(), AgentError> {
    let line = command.unwrap_or(SHOW);
    let mut draft = tools::call(events, "run_in_terminal").start().await?;
    draft.input(json!({ "command": line }).to_string()).await?;
    let invocation = Invocation::new("Runs a command in a terminal");
    let mut call = match command {
        // It is always the same, and harmless.
        None => draft.run(invocation).await?,
        Some(_) => {
            let confirmation = Confirmation {
                title: Some(format!("Run `{line}` in a terminal?")),
                ..Confirmation::default()
            };
            match draft.confirm(invocation, confirmation).await? {
                Verdict::Approved(call, _) => call,
                Verdict::Denied(_) => return say(events, "Then the terminal stays dark.").await,
            }
        }
    };
    let command = TerminalCommandLine {
        line: ["/bin/sh", "-c", line].map(OsString::from).to_vec(),
        directory: directory(turn),
        environment: vec![("PATH".into(), PATH.into())],
        shown: line.to_owned(),
        size: TerminalSize::default(),
    };
    let terminal = match call.terminal(command).await {
        Ok(terminal) => terminal,
        Err(AgentError::Failed { message, .. }) => {
            call.complete(ToolResult::failed("Opened no terminal", message.clone()))
                .await?;
            return say(events, &format!("There is no terminal: {message}.")).await;
        }
        Err(AgentError::Cancelled) => return Err(AgentError::Cancelled),
    };
    call.content(vec![content(&terminal, line, None, None)]).await?;
    match background {
        true => leave(events, call, terminal, line).await,
        false => watch(events, call, terminal, line).await,
    }
}

/// The first directory of the session.
fn directory(turn: &TurnInput) -> PathBuf {
    let first = turn.working_directories.first();
    let first = first.and_then(|uri| url::Url::parse(uri).ok()?.to_file_path().ok());
    first.unwrap_or_else(|| PathBuf::from("/"))
}

fn content(terminal: &AgentTerminal, line: &str, end: Option<CommandEnd>, preview: Option<String>) -> ToolContent {
    ToolContent::Terminal {
        uri: terminal.uri().to_owned(),
        title: line.to_owned(),
        is_pty: terminal.is_pty(),
        exit_code: end.and_then(|end| end.exit_code),
        preview,
    }
}

/// Waits for the end of the command.
async fn watch(events: &EventSink, call: ToolCall, mut terminal: AgentTerminal, line: &str) -> Result<(), AgentError> {
    let mut output = String::new();
    let end = loop {
        let step = tokio::select! {
            step = terminal.next() => step,
            () = events.cancelled() => return Err(AgentError::Cancelled),
        };
        match step {
            Some(CommandStep::Output(text)) => {
                output.push_str(&text);
                let surplus = output.ceil_char_boundary(output.len().saturating_sub(PREVIEW_BYTES));
                output.drain(..surplus);
            }
            Some(CommandStep::Ended(end)) => break Some(end),
            None => break None,
        }
    };
    let how = match end {
        Some(CommandEnd { exit_code: Some(code) }) => format!("It ended with {code}."),
        Some(CommandEnd { exit_code: None }) => "A signal ended it.".to_owned(),
        None => "You closed its terminal.".to_owned(),
    };
    call.complete(ToolResult {
        content: vec![content(&terminal, line, end, Some(output))],
        ..ToolResult::text("Ran a command in a terminal", "")
    })
    .await?;
    say(events, &format!("{how} Its terminal can still be read.")).await
}

/// Leaves the command running beside the chat (CHT-24, CHT-25).
async fn leave(events: &EventSink, call: ToolCall, mut terminal: AgentTerminal, line: &str) -> Result<(), AgentError> {
    let mut background = call.background("A command in a terminal", line).await?;
    background.in_terminal(terminal.uri()).await?;
    call.complete(ToolResult {
        content: vec![content(&terminal, line, None, None)],
        ..ToolResult::text("Started a command in the background", "")
    })
    .await?;
    terminal.end_call();
    background.during(async move { while let Some(CommandStep::Output(_)) = terminal.next().await {} });
    say(events, "It goes on in the background, until it ends or you stop it.").await
}

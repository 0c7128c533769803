//! `terminal/*`: commands of the agent in terminals of the host, which users watch, type into and stop.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use innkeeper_host::agent::ToolContent;
use innkeeper_host::terminals::{AgentTerminal, CommandEnd, CommandStep, TerminalCommandLine, TerminalSize};
use innkeeper_std::PlainText;
use innkeeper_std::sync::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::wire::{RpcError, code};

/// Bytes of output that an agent gets unless it wants fewer.
const MAX_OUTPUT: usize = 1 << 20;
/// Bytes of the output's end in the preview of a terminal.
const PREVIEW_BYTES: usize = 2 << 10;

/// The terminals that an agent has open in a turn. Dropped, their commands end.
#[derive(Debug, Default)]
pub(crate) struct Terminals {
    created: u64,
    open: HashMap<String, Arc<Terminal>>,
}

/// A terminal of an agent.
#[derive(Debug)]
pub(crate) struct Terminal {
    uri: String,
    title: String,
    output: Arc<Mutex<Output>>,
    ended: watch::Receiver<bool>,
    kill: Arc<Notify>,
    task: JoinHandle<()>,
}

/// The output of a command in plain text.
#[derive(Debug)]
struct Output {
    text: String,
    limit: usize,
    is_truncated: bool,
    end: Option<CommandEnd>,
}

impl Terminals {
    /// Watches a command that runs in a terminal, and returns the id for the agent.
    pub(crate) fn add(&mut self, terminal: AgentTerminal, title: String, params: &Value) -> String {
        self.created += 1;
        let id = format!("terminal-{}", self.created);
        let limit = params["outputByteLimit"]
            .as_u64()
            .and_then(|limit| usize::try_from(limit).ok());
        let output = Arc::new(Mutex::new(Output {
            text: String::new(),
            limit: limit.unwrap_or(MAX_OUTPUT).min(MAX_OUTPUT),
            is_truncated: false,
            end: None,
        }));
        let (has_ended, ended) = watch::channel(false);
        let kill = Arc::new(Notify::new());
        let uri = terminal.uri().to_owned();
        let task = tokio::spawn(watch_command(
            terminal,
            Arc::clone(&output),
            Arc::clone(&kill),
            has_ended,
        ));
        let terminal = Terminal {
            uri,
            title,
            output,
            ended,
            kill,
            task,
        };
        self.open.insert(id.clone(), Arc::new(terminal));
        id
    }

    /// Finds the terminal that a request names.
    pub(crate) fn find(&self, params: &Value) -> Result<Arc<Terminal>, RpcError> {
        let id = params["terminalId"].as_str().unwrap_or_default();
        let found = self.open.get(id).map(Arc::clone);
        found.ok_or_else(|| RpcError::new(code::NOT_FOUND, format!("there is no terminal {id:?}")))
    }

    /// Returns terminals as the content of a call.
    pub(crate) fn content<'a>(&self, ids: impl Iterator<Item = &'a str>) -> Vec<ToolContent> {
        ids.filter_map(|id| Some(self.open.get(id)?.content())).collect()
    }

    /// Returns whether a command still runs.
    pub(crate) fn is_busy(&self) -> bool {
        self.open.values().any(|terminal| !*terminal.ended.borrow())
    }
}

impl Terminal {
    /// Serves `terminal/output`.
    pub(crate) fn output(&self) -> Value {
        let output = self.output.lock();
        let mut answer = json!({ "output": output.text, "truncated": output.is_truncated });
        if let Some(end) = output.end {
            answer["exitStatus"] = exit_status(end);
        }
        answer
    }

    /// Serves `terminal/wait_for_exit`.
    pub(crate) async fn wait(&self) -> Value {
        let mut ended = self.ended.clone();
        // The task ends no earlier than the command does.
        let _ = ended.wait_for(|ended| *ended).await;
        let end = self.output.lock().end;
        exit_status(end.unwrap_or(CommandEnd { exit_code: None }))
    }

    /// Serves `terminal/kill`: the terminal stays, with its output.
    pub(crate) fn kill(&self) {
        self.kill.notify_one();
    }

    fn content(&self) -> ToolContent {
        let output = self.output.lock();
        let start = output
            .text
            .ceil_char_boundary(output.text.len().saturating_sub(PREVIEW_BYTES));
        ToolContent::Terminal {
            uri: self.uri.clone(),
            title: self.title.clone(),
            is_pty: true,
            exit_code: output.end.and_then(|end| end.exit_code),
            preview: output
                .end
                .map(|_| output.text.get(start..).unwrap_or_default().to_owned()),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The command ends with the handle that the task has.
        self.task.abort();
    }
}

impl Output {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        let surplus = self.text.len().saturating_sub(self.limit);
        if surplus > 0 {
            self.is_truncated = true;
            let start = self.text.ceil_char_boundary(surplus);
            self.text.drain(..start);
        }
    }
}

async fn watch_command(
    mut terminal: AgentTerminal,
    output: Arc<Mutex<Output>>,
    kill: Arc<Notify>,
    ended: watch::Sender<bool>,
) {
    let mut plain = PlainText::default();
    loop {
        let step = tokio::select! {
            step = terminal.next() => step,
            () = kill.notified() => {
                terminal.kill();
                continue;
            }
        };
        let mut output = output.lock();
        match step {
            Some(CommandStep::Output(text)) => plain.push(&text, &mut |line| output.push(line)),
            // A user may also have closed the terminal.
            Some(CommandStep::Ended(_)) | None => {
                plain.flush(&mut |line| output.push(line));
                output.end = Some(match step {
                    Some(CommandStep::Ended(end)) => end,
                    _ => CommandEnd { exit_code: None },
                });
                drop(output);
                let _ = ended.send(true);
                return;
            }
        }
    }
}

fn exit_status(end: CommandEnd) -> Value {
    match end.exit_code {
        Some(code) => json!({ "exitCode": code, "signal": null }),
        None => json!({ "exitCode": null, "signal": "SIGKILL" }),
    }
}

/// Reads the command of `terminal/create`, and the text by which users know it.
///
/// Goose, Kimi and Grok send a whole line for a shell as the program, without arguments.
pub(crate) fn command_line(
    params: &Value,
    directory: PathBuf,
    environment: Vec<(OsString, OsString)>,
) -> Result<TerminalCommandLine, RpcError> {
    let command = params["command"].as_str().filter(|command| !command.trim().is_empty());
    let command = command.ok_or_else(|| RpcError::new(code::INVALID_PARAMS, "params.command: must be a command"))?;
    let arguments: Vec<&str> = params["args"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let (line, shown) = match arguments.as_slice() {
        [] => (vec!["/bin/sh", "-c", command], command.to_owned()),
        arguments => {
            let words: Vec<&str> = std::iter::once(command).chain(arguments.iter().copied()).collect();
            let shown = words.join(" ");
            (words, shown)
        }
    };
    let mut environment = environment;
    for variable in params["env"].as_array().into_iter().flatten() {
        if let (Some(name), Some(value)) = (variable["name"].as_str(), variable["value"].as_str()) {
            environment.retain(|(known, _)| known != name);
            environment.push((name.into(), value.into()));
        }
    }
    let asked = params["cwd"]
        .as_str()
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    Ok(TerminalCommandLine {
        line: line.into_iter().map(OsString::from).collect(),
        directory: asked.unwrap_or(directory),
        environment,
        shown,
        size: TerminalSize::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goose_sends_a_whole_line_for_a_shell() {
        let line = |params: Value| command_line(&params, "/w".into(), vec![("A".into(), "1".into())]).expect("a line");
        let goose = line(json!({ "command": "ls -la | wc", "env": [{ "name": "A", "value": "2" }] }));
        assert_eq!(goose.line, ["/bin/sh", "-c", "ls -la | wc"]);
        assert_eq!(goose.environment, [("A".into(), "2".into())]);
        let other = line(json!({ "command": "git", "args": ["status", "-s"], "cwd": "/r" }));
        assert_eq!(
            (other.shown.as_str(), other.directory),
            ("git status -s", PathBuf::from("/r"))
        );
        assert_eq!(other.line, ["git", "status", "-s"]);
    }

    #[test]
    fn the_end_of_long_output_is_kept() {
        let mut output = Output {
            text: String::new(),
            limit: 5,
            is_truncated: false,
            end: None,
        };
        output.push("grüße");
        output.push("!");
        assert_eq!((output.text.as_str(), output.is_truncated), ("ße!", true));
    }
}

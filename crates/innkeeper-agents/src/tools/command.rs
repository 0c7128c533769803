//! `run_command`: runs a shell command.
//!
//! A command can do whatever the host's user can; working directories do not confine it. So the user confirms it,
//! unless an approval covers exactly this command, and sees where it runs. It runs in a terminal of the host, where
//! users watch it, type into it and stop it; on a host without terminals it has pipes. A command that takes long goes on
//! in the background of its chat; with pipes it is killed. Either way everything that it started is killed when the turn
//! is cancelled, when the future is dropped, and when the shell exits but leaves processes behind. Processes that start
//! their own session (`setsid`) escape.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use innkeeper_host::AgentError;
use innkeeper_host::agent::{
    ApprovalSubject, Confirmation, Invocation, ToolCall, ToolContent, ToolDraft, ToolKind, ToolResult, Verdict,
};
use innkeeper_host::terminals::{TerminalCommandLine, TerminalSize};
use innkeeper_std::{DRAIN_TIME, Group, with_umask};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::Instant;

use self::output::Output;
use super::blocking;
use super::input::Input;
use super::outcome::{self, quoted};
use super::paths::{ToolPath, WorkingDirectories};
use super::{Announcement, EnvironmentRules, HostTool, ToolAnswer, ToolEnv, ToolLimits, secret};
use crate::model::api::ToolSpec;

mod background;
mod output;
mod terminal;

pub(super) use background::{BackgroundCommands, CheckCommand};

/// Maximum factor by which updates of the output slow down.
const MAX_PACE_FACTOR: u32 = 8;
/// Bytes of the output's end that clients see while the command runs.
const SHOWN_BYTES: usize = 8 << 10;

/// The size of terminals in which commands run.
const TERMINAL_SIZE: TerminalSize = TerminalSize { cols: 120, rows: 30 };

/// Runs commands.
#[derive(Debug)]
pub(super) struct RunCommand {
    limits: ToolLimits,
    environment: EnvironmentRules,
    /// Commands that go on when their call has ended.
    commands: BackgroundCommands,
    shell: &'static str,
    /// Permissions that its files lack; `None` uses the process's umask.
    umask: Option<u32>,
}

impl RunCommand {
    pub(super) fn new(
        limits: ToolLimits,
        environment: EnvironmentRules,
        umask: Option<u32>,
        commands: BackgroundCommands,
    ) -> Self {
        // Models write for `bash`; every Unix has at least `sh`.
        let has_bash = std::path::Path::new("/bin/bash").exists();
        Self {
            limits,
            environment,
            commands,
            shell: if has_bash { "/bin/bash" } else { "sh" },
            umask,
        }
    }
}

/// A parsed input, written by the model or edited by the user.
#[derive(Debug)]
struct Request {
    command: String,
    directory: Option<String>,
    time: Duration,
    /// It goes on when the call has ended.
    background: bool,
}

impl Request {
    fn parse(input: &Value, limits: &ToolLimits) -> Result<Self, String> {
        let input = Input::of(input)?;
        let command = input.non_empty_text("command", "the command to run")?;
        if command.contains('\0') {
            return Err("`command` cannot have a NUL character".to_owned());
        }
        let limit = limits.command_time_max.as_secs();
        Ok(Self {
            command: command.to_owned(),
            directory: input.optional_text("directory")?.map(str::to_owned),
            time: input
                .number("timeout_seconds", 1, limit)?
                .map_or(limits.command_time, Duration::from_secs),
            background: input.flag("background")?,
        })
    }

    async fn find_directory(
        &self,
        cancelled: impl Future<Output = ()>,
        env: &ToolEnv,
    ) -> Result<Result<ToolPath, String>, AgentError> {
        let (directory, env) = (self.directory.clone(), env.for_changes());
        blocking::run(cancelled, move |_| {
            let place = WorkingDirectories::open(&env)?.existing_or_first(directory.as_deref())?;
            place.open_dir().map(|_| place)
        })
        .await
    }
}

#[async_trait]
impl HostTool for RunCommand {
    fn spec(&self) -> ToolSpec {
        let (default, limit) = (
            self.limits.command_time.as_secs(),
            self.limits.command_time_max.as_secs(),
        );
        ToolSpec {
            name: "run_command".to_owned(),
            description: format!(
                "Runs a command with `{} -c` and gives its output and exit code. The user is asked first, and may \
                 watch it in a terminal and type into it; do not count on that, and avoid commands that ask. If it \
                 still runs after {default} seconds, or `timeout_seconds`, it goes on in the background, and \
                 `check_command` waits for it or stops it; whatever a command leaves running is ended with it. Start \
                 a server or a watcher with `background`. Of long output, the beginning and the end are kept. Use \
                 `read_file`, `glob` and `search` rather than `cat`, `find` and `grep`: they do not ask.",
                self.shell
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "command": { "type": "string", "description": "The command." },
                    "directory": { "type": "string", "description": "Where to run it; left out, it is the first working directory." },
                    "timeout_seconds": { "type": "integer", "minimum": 1, "maximum": limit, "description": "How long to wait for its end." },
                    "background": { "type": "boolean", "description": "Leave it running in the background after its first output; for commands that do not end by themselves." },
                },
                "required": ["command"],
            }),
        }
    }

    fn title(&self) -> &str {
        "Run a command"
    }

    fn is_parallel_safe(&self) -> bool {
        false
    }

    fn kind(&self) -> Option<ToolKind> {
        Some(ToolKind::Terminal)
    }

    fn announcement(&self) -> Option<Announcement> {
        Some(Announcement {
            verb: "Running",
            field: "command",
        })
    }

    async fn run(&self, draft: ToolDraft, input: Value, env: &ToolEnv) -> Result<ToolAnswer, AgentError> {
        let mut request = match Request::parse(&input, &self.limits) {
            Ok(request) => request,
            Err(problem) => return outcome::reject(draft, "Did not run a command", problem).await,
        };
        let attempt = format!("Did not run {}", quoted(&request.command));
        let mut place = match request.find_directory(draft.cancelled(), env).await? {
            Ok(place) => place,
            Err(problem) => return outcome::reject(draft, &attempt, problem).await,
        };
        let directory = quoted(&place.path().to_string_lossy());
        let way = if request.background { " in the background" } else { "" };
        let message = format!("Runs {}{way} in {directory}", quoted(&request.command));
        let confirmation = Confirmation {
            title: Some(format!("Run this command{way} in {directory}?")),
            editable: true,
            subject: subject(&request, &place),
            ..Confirmation::default()
        };
        let invocation = Invocation::new(message).input(input.to_string());
        let (call, decision) = match draft.confirm(invocation, confirmation).await? {
            Verdict::Approved(call, decision) => (call, decision),
            Verdict::Denied(decision) => return Ok(outcome::denied(&decision)),
        };
        let edited = decision.edited_input;
        if let Some(edited) = &edited {
            let parsed = serde_json::from_str(edited).map_err(|error| error.to_string());
            let parsed = parsed.and_then(|input| Request::parse(&input, &self.limits));
            let found = match parsed {
                Ok(again) => {
                    request = again;
                    request.find_directory(call.cancelled(), env).await?
                }
                Err(problem) => Err(problem),
            };
            match found {
                Ok(found) => place = found,
                Err(problem) => {
                    let problem = format!("the user edited the input, and it cannot be run: {problem}");
                    return outcome::finish(call, &attempt, Err(problem)).await;
                }
            }
        }
        let answer = self.run_approved(call, &request, place.path()).await?;
        Ok(outcome::after_edit(answer, edited.as_deref()))
    }
}

/// Returns the subject for approvals.
fn subject(request: &Request, place: &ToolPath) -> ApprovalSubject {
    let directory = place.rule_path();
    ApprovalSubject::Command {
        line: request.command.clone(),
        directory: (!directory.is_empty()).then_some(directory),
    }
}

impl RunCommand {
    /// Runs a command in a terminal, or with pipes on a host that has no terminal for it.
    async fn run_approved(
        &self,
        mut call: ToolCall,
        request: &Request,
        directory: PathBuf,
    ) -> Result<ToolAnswer, AgentError> {
        let line = TerminalCommandLine {
            line: self.line(&request.command),
            directory: directory.clone(),
            environment: self.variables(),
            shown: request.command.clone(),
            size: TERMINAL_SIZE,
        };
        match call.terminal(line).await {
            Ok(terminal) => terminal::run(call, terminal, request, &self.limits, &self.commands).await,
            Err(AgentError::Cancelled) => Err(AgentError::Cancelled),
            Err(AgentError::Failed { .. }) if request.background => {
                let problem = "this host has no terminal for a command in the background; run it without `background`";
                let attempt = format!("Did not run {}", quoted(&request.command));
                outcome::finish(call, &attempt, Err(problem.to_owned())).await
            }
            Err(AgentError::Failed { .. }) => {
                let started = self.start(&request.command, directory);
                run(call, started, request, &self.limits).await
            }
        }
    }

    /// Returns the program and its arguments.
    fn line(&self, command: &str) -> Vec<OsString> {
        let line = [self.shell, "-c", command].map(OsString::from);
        match self.umask {
            // `with_umask` may drop a variable whose name no shell can write. Nothing relies on such a variable.
            Some(umask) => with_umask(umask, line),
            None => line.into(),
        }
    }

    /// Returns the variables of a command: those that it needs or that the settings pass on, and no pager, which would
    /// wait for a key.
    fn variables(&self) -> Vec<(OsString, OsString)> {
        let inherited = secret::command_variables(&self.environment, std::env::vars_os());
        let is_about_terminal = |name: &OsString| name == "TERM" || name == "PAGER" || name == "GIT_PAGER";
        let inherited = inherited.into_iter().filter(|(name, _)| !is_about_terminal(name));
        let pagers = ["PAGER", "GIT_PAGER"].map(|name| (OsString::from(name), OsString::from("cat")));
        inherited.chain(pagers).collect()
    }

    fn start(&self, command: &str, directory: PathBuf) -> io::Result<Group> {
        let mut line = self.line(command).into_iter();
        Group::start(line.next().unwrap_or_default(), |shell| {
            shell.args(line).current_dir(directory);
            shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            shell.env_clear().envs(self.variables());
            // The command has no terminal: no colours, no prompts.
            shell.env("TERM", "dumb").env("NO_COLOR", "1");
            shell.env("GIT_TERMINAL_PROMPT", "0");
        })
    }
}

/// How a command ended.
#[derive(Debug, Clone)]
enum Ending {
    Exited {
        code: Option<i64>,
        /// The description of an end without a code.
        how: String,
        left_running: bool,
    },
    TimedOut(Duration),
    /// The user disposed of its terminal.
    Closed,
    Lost(String),
}

impl Ending {
    /// The end of a command in a terminal.
    fn of(code: Option<i64>) -> Self {
        Self::Exited {
            code,
            how: "ended by a signal".to_owned(),
            left_running: false,
        }
    }

    fn of_status(status: ExitStatus, left_running: bool) -> Self {
        Self::Exited {
            code: status.code().map(i64::from),
            how: signal(status),
            left_running,
        }
    }

    fn exit_code(&self) -> Option<i64> {
        match self {
            Self::Exited { code, .. } => *code,
            Self::TimedOut(_) | Self::Closed | Self::Lost(_) => None,
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Exited {
                code,
                how,
                left_running,
            } => {
                let how = match code {
                    Some(code) => format!("exit code {code}"),
                    None => how.clone(),
                };
                match left_running {
                    true => format!("{how}; processes that it left in the background were killed"),
                    false => how,
                }
            }
            Self::TimedOut(time) => format!(
                "ended after {} seconds because it took too long; everything it started was ended with it",
                time.as_secs()
            ),
            Self::Closed => "the user closed its terminal".to_owned(),
            Self::Lost(error) => format!("the host lost sight of it: {error}"),
        }
    }
}

async fn run(
    mut call: ToolCall,
    started: io::Result<Group>,
    request: &Request,
    limits: &ToolLimits,
) -> Result<ToolAnswer, AgentError> {
    let name = quoted(&request.command);
    let mut group = match started {
        Ok(group) => group,
        Err(error) => {
            let problem = format!("the command could not be started: {error}");
            return outcome::finish(call, &format!("Did not run {name}"), Err(problem)).await;
        }
    };
    let mut output = Output::new(limits.output_head, limits.output_tail, limits.output_kept);
    let cancelled = call.cancelled();
    let end = tokio::select! {
        biased;
        () = cancelled => return Err(AgentError::Cancelled),
        () = tokio::time::sleep(request.time) => Ending::TimedOut(request.time),
        end = watch(&mut group, &mut output, &mut call, limits) => end?,
    };
    match end {
        Ending::TimedOut(_) => group.kill_and_wait().await,
        Ending::Exited { .. } | Ending::Closed | Ending::Lost(_) => group.kill(),
    }
    complete(call, request, &end, &output, None).await
}

/// Collects and periodically shows output until the command ends.
async fn watch(
    group: &mut Group,
    output: &mut Output,
    call: &mut ToolCall,
    limits: &ToolLimits,
) -> Result<Ending, AgentError> {
    let mut stdout = group.take_stdout();
    let mut stderr = group.take_stderr();
    let (mut out, mut err) = (vec![0; 32 << 10], vec![0; 32 << 10]);
    let mut ended: Option<(ExitStatus, Instant)> = None;
    // Every update is persisted, so updates of long commands become less frequent.
    let mut pace = limits.output_pace;
    let slowest = pace * MAX_PACE_FACTOR;
    let mut show_at = Instant::now() + pace;
    let mut shown = 0;
    let mut alive_at = Instant::now() + limits.alive_pace;
    loop {
        if let Some((status, _)) = ended
            && stdout.is_none()
            && stderr.is_none()
        {
            return Ok(Ending::of_status(status, false));
        }
        let drained_at = ended.map_or_else(Instant::now, |(_, at)| at);
        tokio::select! {
            read = read_some(&mut stdout, &mut out), if stdout.is_some() => take(&mut stdout, output, &out, read),
            read = read_some(&mut stderr, &mut err), if stderr.is_some() => take(&mut stderr, output, &err, read),
            status = group.wait(), if ended.is_none() => match status {
                Ok(status) => ended = Some((status, Instant::now() + DRAIN_TIME)),
                Err(error) => return Ok(Ending::Lost(error.to_string())),
            },
            () = tokio::time::sleep_until(drained_at), if ended.is_some() => {
                if let Some((status, _)) = ended {
                    return Ok(Ending::of_status(status, true));
                }
            }
            () = tokio::time::sleep_until(show_at), if output.total() > shown => {
                shown = output.total();
                call.content(vec![ToolContent::Text(output.tail_text(SHOWN_BYTES))]).await?;
                show_at = Instant::now() + pace;
                pace = (pace * 2).min(slowest);
                alive_at = Instant::now() + limits.alive_pace;
            }
            // A silent command must not trip the watchdog.
            () = tokio::time::sleep_until(alive_at) => {
                call.alive().await?;
                alive_at = Instant::now() + limits.alive_pace;
            }
        }
    }
}

async fn read_some(pipe: &mut Option<impl AsyncRead + Unpin>, buffer: &mut [u8]) -> usize {
    match pipe {
        // Treat a pipe that cannot be read as closed.
        Some(pipe) => pipe.read(buffer).await.unwrap_or(0),
        None => 0,
    }
}

fn take<T>(pipe: &mut Option<T>, output: &mut Output, buffer: &[u8], read: usize) {
    if read == 0 {
        *pipe = None;
    }
    output.push(buffer.get(..read).unwrap_or_default());
}

/// Completes the call with what the command printed, in the terminal that shows it if there is one.
async fn complete(
    call: ToolCall,
    request: &Request,
    end: &Ending,
    output: &Output,
    terminal: Option<ToolContent>,
) -> Result<ToolAnswer, AgentError> {
    let name = quoted(&request.command);
    let is_success = end.exit_code() == Some(0);
    let how = end.describe();
    let text = output.excerpt();
    let summary = match end {
        Ending::Exited { .. } if is_success => format!("Ran {name}"),
        _ => format!("Ran {name}: {how}"),
    };
    let mut content = vec![ToolContent::Text(text.clone())];
    content.extend(terminal);
    if let Some(all) = output.full_output() {
        content.extend(call.keep("output.txt", all, "text/plain").await);
    }
    call.complete(ToolResult {
        success: is_success,
        summary,
        content,
        error: (!is_success).then(|| how.clone()),
        ..ToolResult::default()
    })
    .await?;
    let shown = if text.is_empty() { "[no output]" } else { &text };
    let text = with_note(shown, &how);
    Ok(ToolAnswer {
        text,
        images: Vec::new(),
        is_error: !is_success,
    })
}

/// Adds a line about the command to its output.
fn with_note(output: &str, note: &str) -> String {
    let newline = if output.ends_with('\n') { "" } else { "\n" };
    format!("{output}{newline}[{note}]")
}

#[cfg(unix)]
fn signal(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match status.signal() {
        Some(signal) => format!("ended by signal {signal}"),
        None => "ended without an exit code".to_owned(),
    }
}

#[cfg(not(unix))]
fn signal(_: ExitStatus) -> String {
    "ended without an exit code".to_owned()
}

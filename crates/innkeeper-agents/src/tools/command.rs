//! `run_command`: runs a shell command.
//!
//! A command can do whatever the host's user can; working directories do not confine it. So the user confirms it,
//! unless an approval covers exactly this command, and sees where it runs. It has its own process group. The group is
//! killed on timeout, when the turn is cancelled, when the future is dropped, and when the shell exits but leaves
//! processes behind. Processes that start their own session (`setsid`) escape.

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

mod output;

/// Maximum factor by which updates of the output slow down.
const MAX_PACE_FACTOR: u32 = 8;
/// Bytes of the output's end that clients see while the command runs.
const SHOWN_BYTES: usize = 8 << 10;

/// Runs commands.
#[derive(Debug)]
pub(super) struct RunCommand {
    limits: ToolLimits,
    environment: EnvironmentRules,
    shell: &'static str,
    /// Permissions that its files lack; `None` uses the process's umask.
    umask: Option<u32>,
}

impl RunCommand {
    pub(super) fn new(limits: ToolLimits, environment: EnvironmentRules, umask: Option<u32>) -> Self {
        // Models write for `bash`; every Unix has at least `sh`.
        let has_bash = std::path::Path::new("/bin/bash").exists();
        Self {
            limits,
            environment,
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
                "Runs a command with `{} -c` and gives its output and exit code. The person is asked first. It has no \
                 input and no terminal, and is ended after {default} seconds unless `timeout_seconds` says otherwise; \
                 whatever it leaves running is ended with it. Of long output, the beginning and the end are kept. Use \
                 `read_file`, `glob` and `search` rather than `cat`, `find` and `grep`: they do not ask.",
                self.shell
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "command": { "type": "string", "description": "The command." },
                    "directory": { "type": "string", "description": "Where to run it; left out, it is the first working directory." },
                    "timeout_seconds": { "type": "integer", "minimum": 1, "maximum": limit, "description": "How long it may take." },
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
        let message = format!("Runs {} in {directory}", quoted(&request.command));
        let confirmation = Confirmation {
            title: Some(format!("Run this command in {directory}?")),
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
        let started = self.start(&request.command, place.path());
        let answer = run(call, started, &request, &self.limits).await?;
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
    fn start(&self, command: &str, directory: PathBuf) -> io::Result<Group> {
        let line = [self.shell, "-c", command].map(OsString::from);
        let line = match self.umask {
            // `with_umask` may drop a variable whose name no shell can write. Nothing relies on such a variable.
            Some(umask) => with_umask(umask, line),
            None => line.into(),
        };
        let mut line = line.into_iter();
        Group::start(line.next().unwrap_or_default(), |shell| {
            shell.args(line).current_dir(directory);
            shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            for (name, value) in std::env::vars_os() {
                if secret::is_hidden_variable(&self.environment, &name, &value) {
                    shell.env_remove(name);
                }
            }
            // The command has no terminal: no pager, no colours, no prompts.
            shell.env("TERM", "dumb").env("NO_COLOR", "1");
            shell
                .env("PAGER", "cat")
                .env("GIT_PAGER", "cat")
                .env("GIT_TERMINAL_PROMPT", "0");
        })
    }
}

/// How a command ended.
#[derive(Debug)]
enum CommandEnd {
    Exited { status: ExitStatus, left_running: bool },
    TimedOut,
    Lost(String),
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
        () = tokio::time::sleep(request.time) => CommandEnd::TimedOut,
        end = watch(&mut group, &mut output, &mut call, limits) => end?,
    };
    match end {
        CommandEnd::TimedOut => group.kill_and_wait().await,
        CommandEnd::Exited { .. } | CommandEnd::Lost(_) => group.kill(),
    }
    complete(call, &name, request, &end, &output).await
}

/// Collects and periodically shows output until the command ends.
async fn watch(
    group: &mut Group,
    output: &mut Output,
    call: &mut ToolCall,
    limits: &ToolLimits,
) -> Result<CommandEnd, AgentError> {
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
            return Ok(CommandEnd::Exited {
                status,
                left_running: false,
            });
        }
        let drained_at = ended.map_or_else(Instant::now, |(_, at)| at);
        tokio::select! {
            read = read_some(&mut stdout, &mut out), if stdout.is_some() => take(&mut stdout, output, &out, read),
            read = read_some(&mut stderr, &mut err), if stderr.is_some() => take(&mut stderr, output, &err, read),
            status = group.wait(), if ended.is_none() => match status {
                Ok(status) => ended = Some((status, Instant::now() + DRAIN_TIME)),
                Err(error) => return Ok(CommandEnd::Lost(error.to_string())),
            },
            () = tokio::time::sleep_until(drained_at), if ended.is_some() => {
                if let Some((status, _)) = ended {
                    return Ok(CommandEnd::Exited { status, left_running: true });
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

async fn complete(
    call: ToolCall,
    name: &str,
    request: &Request,
    end: &CommandEnd,
    output: &Output,
) -> Result<ToolAnswer, AgentError> {
    let (is_success, how) = match end {
        CommandEnd::Exited { status, left_running } => {
            let mut how = match status.code() {
                Some(code) => format!("exit code {code}"),
                None => signal(*status),
            };
            if *left_running {
                how.push_str("; processes that it left in the background were killed");
            }
            (status.success(), how)
        }
        CommandEnd::TimedOut => (
            false,
            format!(
                "ended after {} seconds because it took too long; everything it started was ended with it",
                request.time.as_secs()
            ),
        ),
        CommandEnd::Lost(error) => (false, format!("the host lost sight of it: {error}")),
    };
    let text = output.excerpt();
    let summary = match end {
        CommandEnd::Exited { .. } if is_success => format!("Ran {name}"),
        _ => format!("Ran {name}: {how}"),
    };
    let mut content = vec![ToolContent::Text(text.clone())];
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
    let text = if text.is_empty() {
        format!("[no output]\n[{how}]")
    } else {
        let newline = if text.ends_with('\n') { "" } else { "\n" };
        format!("{text}{newline}[{how}]")
    };
    Ok(ToolAnswer {
        text,
        images: Vec::new(),
        is_error: !is_success,
    })
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

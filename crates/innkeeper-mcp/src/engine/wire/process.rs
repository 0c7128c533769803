//! The process of a server: started with a minimal environment, ended with everything that it started.

use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use innkeeper_std::Group;
use innkeeper_std::sync::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::program;
use super::tail::Tail;
use crate::engine::config::{BaseEnvironment, Limits, Stdio};
use crate::engine::server::{HostLog, StandardError};

/// The time that the last output of an ended process is awaited.
const LAST_WORDS_TIME: Duration = Duration::from_millis(500);
/// The time that a process has after its input has ended, before it gets a signal.
const GRACE: Duration = Duration::from_millis(500);

/// Why a process could not be started. Another try would fail as well.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct StartError(String);

/// A running process. Dropping it kills it with everything that it started, except for processes in sessions of their own
/// (`setsid`).
#[derive(Debug)]
pub(crate) struct Process {
    tail: Arc<Mutex<Tail>>,
    stop: CancellationToken,
    ended: watch::Receiver<Option<String>>,
}

/// The pipes of a process.
pub(crate) struct Pipes {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
}

impl Process {
    pub(crate) fn start(
        stdio: &Stdio,
        base: &BaseEnvironment,
        limits: &Limits,
        log: HostLog,
    ) -> Result<(Self, Pipes), StartError> {
        let (program, before) = program::line(stdio, base);
        let group = Group::start(program, |command| {
            command
                .args(before)
                .args(&stdio.args)
                .env_clear()
                .envs(base.with(stdio));
            if let Some(cwd) = &stdio.cwd {
                command.current_dir(cwd);
            }
            let piped = std::process::Stdio::piped;
            command.stdin(piped()).stdout(piped()).stderr(piped());
        });
        let mut group = group.map_err(|error| could_not_start(stdio, &error))?;
        let pipes = group.take_stdin().zip(group.take_stdout());
        let Some((stdin, stdout)) = pipes else {
            return Err(StartError("its pipes could not be opened".to_owned()));
        };
        let tail = Arc::new(Mutex::new(Tail::new(limits.stderr_bytes)));
        let stderr = group.take_stderr();
        let tailing = stderr.map(|stderr| tokio::spawn(keep_tail(stderr, tail.clone(), StandardError::new(log))));
        let stop = CancellationToken::new();
        let (sender, ended) = watch::channel(None);
        tokio::spawn(supervise(group, stop.clone(), limits.stop_time, tailing, sender));
        Ok((Self { tail, stop, ended }, Pipes { stdin, stdout }))
    }

    /// Waits until it has ended, and describes how.
    pub(crate) async fn ended(&self) -> String {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(how) => how.clone().unwrap_or_default(),
            Err(_) => "it was ended with the host".to_owned(),
        }
    }

    /// Ends it with everything that it started: by a request first, then by force.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.ended().await;
    }

    /// Returns the last lines of its standard error.
    pub(crate) fn last_lines(&self) -> String {
        self.tail.lock().lines()
    }

    /// Returns the buffer of its last lines.
    pub(crate) fn tail(&self) -> Arc<Mutex<Tail>> {
        self.tail.clone()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn supervise(
    mut group: Group,
    stop: CancellationToken,
    stop_time: Duration,
    tailing: Option<JoinHandle<()>>,
    ended: watch::Sender<Option<String>>,
) {
    let by_itself = tokio::select! {
        status = group.wait() => Some(status),
        () = stop.cancelled() => None,
    };
    let status = match by_itself {
        Some(status) => Some(status),
        None => end(&mut group, stop_time).await,
    };
    // Processes that it left running.
    group.kill();
    let how = match status {
        Some(Ok(status)) => describe(status),
        Some(Err(error)) => format!("its process was lost ({error})"),
        None => "it was killed".to_owned(),
    };
    if let Some(tailing) = tailing {
        // The last output is often the reason. It may still be in the pipe, which a process that it left running elsewhere can
        // keep open for ever.
        let _ = tokio::time::timeout(LAST_WORDS_TIME, tailing).await;
    }
    let _ = ended.send(Some(how));
}

async fn end(group: &mut Group, stop_time: Duration) -> Option<std::io::Result<ExitStatus>> {
    // Its input has ended by now, which tells a server to exit.
    if let Ok(status) = tokio::time::timeout(GRACE.min(stop_time), group.wait()).await {
        return Some(status);
    }
    group.ask_to_end();
    if let Ok(status) = tokio::time::timeout(stop_time, group.wait()).await {
        return Some(status);
    }
    group.kill_and_wait().await;
    None
}

async fn keep_tail(mut stderr: impl AsyncRead + Unpin, tail: Arc<Mutex<Tail>>, mut log: StandardError) {
    let mut buffer = vec![0; 8 << 10];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        let bytes = buffer.get(..read).unwrap_or_default();
        tail.lock().push(bytes);
        log.push(bytes);
    }
}

fn describe(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("it was ended by signal {signal}");
    }
    match status.code() {
        Some(code) => format!("it exited with code {code}"),
        None => "it exited".to_owned(),
    }
}

fn could_not_start(stdio: &Stdio, error: &std::io::Error) -> StartError {
    // Every subscriber reads this: a path or arguments may say too much.
    let command = crate::engine::secret::program_name(&stdio.command);
    let has_directory = stdio.cwd.as_ref().is_none_or(|cwd| cwd.is_dir());
    StartError(match error.kind() {
        _ if !has_directory => "its directory does not exist: correct `cwd`".to_owned(),
        std::io::ErrorKind::NotFound => {
            format!("the program `{command}` was not found: install it, or correct `command`")
        }
        std::io::ErrorKind::PermissionDenied => {
            format!("the program `{command}` may not be run: make it executable, or correct `command`")
        }
        _ => format!("the program `{command}` could not be started: {error}"),
    })
}

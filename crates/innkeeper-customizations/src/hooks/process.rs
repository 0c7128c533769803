//! Runs the command of a hook.
//!
//! The command has its own process group, which is killed at its timeout, when it is cancelled, and when the command
//! has ended but left processes behind. It gets only those variables of the host's environment that every program needs
//! (T15): no key and no token.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use innkeeper_std::{DRAIN_TIME, Group, is_kept_by_shells, needed_variables, with_umask};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};

/// Maximum bytes of its output.
const MAX_STDOUT: usize = 1 << 20;
const MAX_STDERR: usize = 64 << 10;

/// The environment of hook processes.
#[derive(Debug, Clone)]
pub struct HookSettings {
    /// The variables of the host's environment that they see.
    pub environment: Vec<(OsString, OsString)>,
    /// Maximum timeout, whatever the hook declares.
    pub longest: Duration,
    /// The umask of their processes; `None` inherits it.
    pub umask: Option<u32>,
}

impl Default for HookSettings {
    fn default() -> Self {
        let seen = needed_variables(std::env::vars_os());
        Self {
            environment: seen.map(|(name, value)| (name.into(), value)).collect(),
            longest: Duration::from_secs(600),
            umask: None,
        }
    }
}

/// A command to run.
#[derive(Debug)]
pub(super) struct Job {
    /// A line for a shell, or a program if there are arguments.
    pub(super) command: String,
    pub(super) args: Option<Vec<String>>,
    pub(super) wants_bash: bool,
    pub(super) cwd: PathBuf,
    pub(super) environment: BTreeMap<String, OsString>,
    pub(super) stdin: Vec<u8>,
    pub(super) time: Duration,
}

/// How it ended.
#[derive(Debug)]
pub(super) enum End {
    Exited {
        code: Option<i32>,
        stdout: String,
        stderr: String,
    },
    TimeOver {
        after: Duration,
    },
    NotStarted(String),
}

/// Runs a command to its end.
pub(super) async fn run(job: Job, settings: &HookSettings) -> End {
    let time = job.time.min(settings.longest);
    let mut group = match start(&job, settings) {
        Ok(group) => group,
        Err(error) => return End::NotStarted(format!("{error} (in {})", job.cwd.display())),
    };
    match tokio::time::timeout(time, watch(&mut group, &job.stdin)).await {
        Ok(end) => {
            group.kill();
            end
        }
        Err(_) => {
            group.kill_and_wait().await;
            End::TimeOver { after: time }
        }
    }
}

fn start(job: &Job, settings: &HookSettings) -> io::Result<Group> {
    let mut line = line(job, settings).into_iter();
    Group::start(line.next().unwrap_or_default(), |command| {
        command.args(line).current_dir(&job.cwd).env_clear();
        command.envs(settings.environment.iter().map(|(name, value)| (name, value)));
        command.envs(&job.environment);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    })
}

/// The program and its arguments.
fn line(job: &Job, settings: &HookSettings) -> Vec<OsString> {
    let own: Vec<OsString> = match &job.args {
        Some(args) => std::iter::once(&job.command).chain(args).map(Into::into).collect(),
        None if cfg!(windows) => vec!["cmd".into(), "/C".into(), job.command.clone().into()],
        None => {
            let has_bash = job.wants_bash && Path::new("/bin/bash").exists();
            let shell = if has_bash { "/bin/bash" } else { "/bin/sh" };
            vec![shell.into(), "-c".into(), job.command.clone().into()]
        }
    };
    match settings.umask {
        // A shell may drop variables with unusual names, and they matter more than the umask.
        Some(umask) if job.environment.keys().all(|name| is_kept_by_shells(name)) => with_umask(umask, own),
        Some(_) | None => own,
    }
}

/// Writes the input and reads the output.
async fn watch(group: &mut Group, input: &[u8]) -> End {
    let stdin = group.take_stdin();
    let stdout = group.take_stdout();
    let stderr = group.take_stderr();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = {
        let telling = async move {
            if let Some(mut stdin) = stdin {
                // A command that does not read its input is fine.
                let _ = stdin.write_all(input).await;
            }
        };
        let hearing = async {
            tokio::join!(
                telling,
                keep(stdout, &mut out, MAX_STDOUT),
                keep(stderr, &mut err, MAX_STDERR)
            );
        };
        tokio::pin!(hearing);
        let mut is_heard = false;
        let status = loop {
            tokio::select! {
                status = group.wait() => break status,
                () = &mut hearing, if !is_heard => is_heard = true,
            }
        };
        if !is_heard {
            let _ = tokio::time::timeout(DRAIN_TIME, &mut hearing).await;
        }
        status
    };
    match status {
        Ok(status) => End::Exited {
            code: status.code(),
            stdout: String::from_utf8_lossy(&out).into_owned(),
            stderr: String::from_utf8_lossy(&err).into_owned(),
        },
        Err(error) => End::NotStarted(format!("the host lost sight of it: {error}")),
    }
}

/// Reads the beginning of the output, and discards the rest.
async fn keep(pipe: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>, most: usize) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = vec![0; 16 << 10];
    loop {
        match pipe.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(read) => {
                let room = most.saturating_sub(kept.len()).min(read);
                kept.extend_from_slice(buffer.get(..room).unwrap_or_default());
            }
        }
    }
}

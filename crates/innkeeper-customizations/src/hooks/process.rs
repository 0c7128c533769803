//! Running the command of a hook.
//!
//! It has a process group of its own, which is killed when its time is over, when nobody waits for it
//! any more, and when it has ended but left something running. Of the host's environment it sees only
//! what every program needs (T15): no key and no token.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};

/// Variables of the host's that hooks see.
const SEEN: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "TEMP",
    "TMP",
    "SystemRoot",
    "ComSpec",
    "PATHEXT",
    "USERPROFILE",
    "APPDATA",
    "LOCALAPPDATA",
];
/// How long output is awaited after the command has ended: what it left running keeps the pipes open.
const DRAIN_TIME: Duration = Duration::from_millis(300);
/// How long a killed command is awaited.
const BURIAL_TIME: Duration = Duration::from_secs(1);
/// Most that is kept of what a command says.
const MAX_STDOUT: usize = 1 << 20;
const MAX_STDERR: usize = 64 << 10;
/// Sets the permissions that new files go without, and becomes the command.
#[cfg(unix)]
const WITH_UMASK: &str = r#"umask "$0" && exec "$@""#;

/// What hooks run with.
#[derive(Debug, Clone)]
pub struct HookSettings {
    /// What they see of the host's environment.
    pub environment: Vec<(OsString, OsString)>,
    /// How long one may take at most, whatever it says itself.
    pub longest: Duration,
    /// The permissions that their files go without; `None` leaves it to the process.
    pub umask: Option<u32>,
}

impl Default for HookSettings {
    fn default() -> Self {
        let is_seen = |name: &OsString| {
            name.to_str()
                .is_some_and(|name| SEEN.contains(&name) || name.starts_with("LC_"))
        };
        Self {
            environment: std::env::vars_os().filter(|(name, _)| is_seen(name)).collect(),
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
    let child = match wrap(&job, settings).spawn() {
        Ok(child) => child,
        Err(error) => return End::NotStarted(format!("{error} (in {})", job.cwd.display())),
    };
    let mut running = Running {
        child,
        is_killed: false,
    };
    let end = tokio::time::timeout(time, watch(&mut running, &job.stdin)).await;
    running.kill();
    match end {
        Ok(end) => end,
        Err(_) => {
            // So that it is gone when people read that it is.
            let _ = tokio::time::timeout(BURIAL_TIME, running.child.wait()).await;
            End::TimeOver { after: time }
        }
    }
}

fn wrap(job: &Job, settings: &HookSettings) -> CommandWrap {
    let (program, args) = line(job, settings);
    let mut wrap = CommandWrap::with_new(program, |command| {
        command.args(args).current_dir(&job.cwd).env_clear();
        command.envs(settings.environment.iter().map(|(name, value)| (name, value)));
        command.envs(&job.environment);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    });
    #[cfg(unix)]
    wrap.wrap(process_wrap::tokio::ProcessGroup::leader());
    wrap.wrap(process_wrap::tokio::KillOnDrop);
    wrap
}

/// The program and its arguments.
fn line(job: &Job, settings: &HookSettings) -> (String, Vec<String>) {
    let own: Vec<String> = match &job.args {
        Some(args) => std::iter::once(&job.command).chain(args).cloned().collect(),
        None if cfg!(windows) => vec!["cmd".into(), "/C".into(), job.command.clone()],
        None => {
            let has_bash = job.wants_bash && std::path::Path::new("/bin/bash").exists();
            let shell = if has_bash { "/bin/bash" } else { "/bin/sh" };
            vec![shell.into(), "-c".into(), job.command.clone()]
        }
    };
    #[cfg(unix)]
    let own: Vec<String> = match settings.umask {
        // Only the process itself can set it, and only a shell does so safely.
        Some(umask) => ["/bin/sh", "-c", WITH_UMASK]
            .into_iter()
            .map(str::to_owned)
            .chain(std::iter::once(format!("{umask:04o}")))
            .chain(own)
            .collect(),
        None => own,
    };
    #[cfg(not(unix))]
    let _ = settings;
    let mut own = own.into_iter();
    (own.next().unwrap_or_default(), own.collect())
}

/// A command that runs. Dropped, it is killed with all that it started.
struct Running {
    child: Box<dyn ChildWrapper>,
    is_killed: bool,
}

impl Running {
    /// Kills the group, once: later on its number may be another's.
    fn kill(&mut self) {
        if !std::mem::replace(&mut self.is_killed, true) {
            let _ = self.child.start_kill();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Tells it what happens, and hears it out.
async fn watch(running: &mut Running, input: &[u8]) -> End {
    let stdin = running.child.stdin().take();
    let stdout = running.child.stdout().take();
    let stderr = running.child.stderr().take();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = {
        let telling = async move {
            if let Some(mut stdin) = stdin {
                // One that does not listen is no worse for it.
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
                status = running.child.wait() => break status,
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

/// Keeps the beginning of what comes, and lets the rest pass.
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

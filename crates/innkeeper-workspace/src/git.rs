//! Runs Git in directories that no user vouched for.
//!
//! The configuration inside a repository can name programs: hooks, a file system monitor, filters, pagers, external
//! diffs, transports for missing objects. None of them may run because a session was opened. So everything that
//! starts one is switched off on the command line or in the environment, which win over the repository's own files.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use innkeeper_std::{DRAIN_TIME, Group};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::ChildStdout;

/// How long one command of Git may take.
const MAX_TIME: Duration = Duration::from_secs(10);
/// Maximum bytes of its output. The rest is not awaited.
const MAX_OUTPUT: usize = 8 << 20;
/// Maximum bytes of its messages.
const MAX_MESSAGE: usize = 64 << 10;

/// Settings that hold whatever the repository says.
const OVERRIDES: &[&str] = &[
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.quotePath=false",
    "core.alternateRefsCommand=true",
    "diff.external=",
    "status.showStash=false",
    "submodule.recurse=false",
];

/// Variables that hold whatever the repository says.
const VARIABLES: &[(&str, &str)] = &[
    // No lock and no write: reading must not disturb other programs in the repository.
    ("GIT_OPTIONAL_LOCKS", "0"),
    // Objects that are missing in a partial clone stay missing, and no transport is started for them.
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_SSH_COMMAND", "false"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "false"),
    ("GIT_PAGER", "cat"),
    // Messages in one language; only answers for programs are read.
    ("LC_ALL", "C"),
];

/// A command of Git that gave no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GitFailure {
    /// There is no Git, or it could not be started.
    NotStarted,
    /// It took too long, and was ended.
    TimedOut,
    /// It ended with an error; often this says that the directory is in no repository.
    Failed,
}

/// An answer of Git.
#[derive(Debug)]
pub(crate) struct GitOutput {
    pub(crate) bytes: Vec<u8>,
    /// Whether there was more than is kept.
    pub(crate) is_cut: bool,
}

/// A command of Git with everything that differs from a short question.
#[derive(Debug)]
pub(crate) struct GitCall<'a> {
    /// The directory to run it in.
    pub(crate) directory: &'a Path,
    /// Settings besides the usual ones.
    pub(crate) settings: &'a [String],
    /// Variables besides the usual ones.
    pub(crate) variables: Vec<(&'static str, OsString)>,
    /// The text for its standard input.
    pub(crate) input: Vec<u8>,
    /// Maximum bytes of its output. With more it fails.
    pub(crate) max_output: usize,
    /// How long it may take.
    pub(crate) time: Duration,
}

impl<'a> GitCall<'a> {
    /// A command in a directory, with bounds for work on a large repository.
    pub(crate) fn new(directory: &'a Path, settings: &'a [String]) -> Self {
        Self {
            directory,
            settings,
            variables: Vec::new(),
            input: Vec::new(),
            max_output: 256 << 20,
            time: Duration::from_secs(120),
        }
    }

    /// Sets a variable.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// Sets the text for its standard input.
    pub(crate) fn input(mut self, input: Vec<u8>) -> Self {
        self.input = input;
        self
    }
}

/// Why a command of Git failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GitError {
    /// There is no Git, or it could not be started.
    NotStarted,
    /// It took too long, and was ended.
    TimedOut,
    /// It had too much to say.
    TooMuch,
    /// It ended with an error, and this message.
    Failed(String),
}

impl std::fmt::Display for GitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotStarted => f.write_str("git cannot be started; is it installed?"),
            Self::TimedOut => f.write_str("git did not answer in time"),
            Self::TooMuch => f.write_str("the answer of git is too long"),
            Self::Failed(message) => f.write_str(message),
        }
    }
}

/// How Git is run.
#[derive(Debug)]
pub(crate) struct Git {
    environment: Vec<(OsString, OsString)>,
}

impl Git {
    pub(crate) fn new(environment: Vec<(OsString, OsString)>) -> Self {
        Self { environment }
    }

    /// Runs a command that only reads, in a directory, with further settings.
    pub(crate) async fn ask(
        &self,
        directory: &Path,
        settings: &[String],
        arguments: &[&str],
    ) -> Result<GitOutput, GitFailure> {
        let mut group = self
            .start(directory, settings, arguments, Purpose::Ask)
            .map_err(|_| GitFailure::NotStarted)?;
        let Some(stdout) = group.take_stdout() else {
            return Err(GitFailure::NotStarted);
        };
        let hearing = async {
            let answer = read(stdout).await;
            if answer.is_cut {
                group.kill();
                return Ok(answer);
            }
            match group.wait().await {
                Ok(status) if status.success() => Ok(answer),
                _ => Err(GitFailure::Failed),
            }
        };
        match tokio::time::timeout(MAX_TIME, hearing).await {
            Ok(answer) => answer,
            Err(_) => {
                group.kill();
                let _ = tokio::time::timeout(DRAIN_TIME, group.wait()).await;
                Err(GitFailure::TimedOut)
            }
        }
    }

    /// Runs a command that may take long, write, read a long input or give a long answer. It fails with the message
    /// of Git.
    pub(crate) async fn run<A: AsRef<OsStr>>(&self, call: GitCall<'_>, arguments: &[A]) -> Result<Vec<u8>, GitError> {
        let GitCall {
            directory,
            settings,
            variables,
            input,
            max_output,
            time,
        } = call;
        let mut group = self.start(directory, settings, arguments, Purpose::Run(variables))?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (group.take_stdin(), group.take_stdout(), group.take_stderr())
        else {
            return Err(GitError::NotStarted);
        };
        let working = async {
            let writing = async move {
                let mut stdin = stdin;
                // A command that ends early does not read all of it.
                let _ = stdin.write_all(&input).await;
            };
            let ((), out, problem) =
                tokio::join!(writing, read_up_to(stdout, max_output), read_up_to(stderr, MAX_MESSAGE));
            let Some(out) = out else {
                return Err(GitError::TooMuch);
            };
            match group.wait().await {
                Ok(status) if status.success() => Ok(out),
                _ => Err(GitError::Failed(message_of(&problem.unwrap_or_default()))),
            }
        };
        let outcome = tokio::time::timeout(time, working).await;
        match outcome {
            Ok(Err(GitError::TooMuch)) | Err(_) => {
                // Git removes its lock files when it is asked to end, and leaves them when it is killed.
                group.ask_to_end();
                let _ = tokio::time::timeout(DRAIN_TIME, group.wait()).await;
                group.kill();
                outcome.unwrap_or(Err(GitError::TimedOut))
            }
            Ok(outcome) => outcome,
        }
    }

    fn start<A: AsRef<OsStr>>(
        &self,
        directory: &Path,
        settings: &[String],
        arguments: &[A],
        purpose: Purpose,
    ) -> Result<Group, GitError> {
        let started = Group::start(OsStr::new("git"), |command| {
            command.env_clear();
            command.envs(self.environment.iter().map(|(name, value)| (name, value)));
            command.envs(VARIABLES.iter().copied());
            command.arg("--no-pager");
            let own = settings.iter().map(String::as_str);
            for setting in OVERRIDES.iter().copied().chain(own) {
                command.args(["-c", setting]);
            }
            command.args(arguments).current_dir(directory).stdout(Stdio::piped());
            match purpose {
                Purpose::Ask => command.stdin(Stdio::null()).stderr(Stdio::null()),
                Purpose::Run(variables) => command.envs(variables).stdin(Stdio::piped()).stderr(Stdio::piped()),
            };
        });
        started.map_err(|error| {
            tracing::debug!(%error, "git cannot be started");
            GitError::NotStarted
        })
    }
}

/// The pipes that a command gets.
enum Purpose {
    /// Only its answer counts.
    Ask,
    /// It gets these variables and an input, and its message counts.
    Run(Vec<(&'static str, OsString)>),
}

/// Reads to the end; `None` if there is more.
async fn read_up_to(pipe: impl AsyncRead + Unpin, max_bytes: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = u64::try_from(max_bytes).unwrap_or(u64::MAX);
    let _ = pipe.take(most.saturating_add(1)).read_to_end(&mut bytes).await;
    (bytes.len() <= max_bytes).then_some(bytes)
}

/// The message of Git without its marks, on one line.
fn message_of(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("hint:"));
    let lines = lines.map(|line| line.trim_start_matches("fatal: ").trim_start_matches("error: "));
    let message = lines.take(4).collect::<Vec<_>>().join("; ");
    match message.is_empty() {
        true => "git failed without a message".to_owned(),
        false => message,
    }
}

async fn read(stdout: ChildStdout) -> GitOutput {
    let mut bytes = Vec::new();
    let most = u64::try_from(MAX_OUTPUT).unwrap_or(u64::MAX);
    let _ = stdout.take(most.saturating_add(1)).read_to_end(&mut bytes).await;
    let is_cut = bytes.len() > MAX_OUTPUT;
    bytes.truncate(MAX_OUTPUT);
    GitOutput { bytes, is_cut }
}

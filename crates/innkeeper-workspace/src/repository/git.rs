//! Runs Git in directories that nobody vouches for.
//!
//! The configuration inside a repository can name programs: hooks, a file system monitor, filters, pagers, external
//! diffs, transports for missing objects. None of them may run because a session was opened. So everything that
//! starts one is switched off on the command line or in the environment, which win over the repository's own files.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use innkeeper_std::{DRAIN_TIME, Group};
use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStdout;

/// How long one command of Git may take.
const MAX_TIME: Duration = Duration::from_secs(10);
/// Most bytes of its output. The rest is not awaited.
const MAX_OUTPUT: usize = 8 << 20;

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
pub(super) enum GitFailure {
    /// There is no Git, or it could not be started.
    NotStarted,
    /// It took too long, and was ended.
    TimedOut,
    /// It ended with an error; often this says that the directory is in no repository.
    Failed,
}

/// An answer of Git.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) bytes: Vec<u8>,
    /// Whether there was more than is kept.
    pub(super) is_cut: bool,
}

/// How Git is run.
#[derive(Debug)]
pub(super) struct Git {
    environment: Vec<(OsString, OsString)>,
}

impl Git {
    pub(super) fn new(environment: Vec<(OsString, OsString)>) -> Self {
        Self { environment }
    }

    /// Runs a command that only reads, in a directory, with further settings.
    pub(super) async fn ask(
        &self,
        directory: &Path,
        settings: &[String],
        arguments: &[&str],
    ) -> Result<Answer, GitFailure> {
        let mut group = self.start(directory, settings, arguments)?;
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

    fn start(&self, directory: &Path, settings: &[String], arguments: &[&str]) -> Result<Group, GitFailure> {
        let started = Group::start(OsStr::new("git"), |command| {
            command.env_clear();
            command.envs(self.environment.iter().map(|(name, value)| (name, value)));
            command.envs(VARIABLES.iter().copied());
            command.arg("--no-pager");
            let own = settings.iter().map(String::as_str);
            for setting in OVERRIDES.iter().copied().chain(own) {
                command.args(["-c", setting]);
            }
            command.args(arguments).current_dir(directory);
            command
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null());
        });
        started.map_err(|error| {
            tracing::debug!(%error, "git cannot be started");
            GitFailure::NotStarted
        })
    }
}

async fn read(stdout: ChildStdout) -> Answer {
    let mut bytes = Vec::new();
    let most = u64::try_from(MAX_OUTPUT).unwrap_or(u64::MAX);
    let _ = stdout.take(most.saturating_add(1)).read_to_end(&mut bytes).await;
    let is_cut = bytes.len() > MAX_OUTPUT;
    bytes.truncate(MAX_OUTPUT);
    Answer { bytes, is_cut }
}

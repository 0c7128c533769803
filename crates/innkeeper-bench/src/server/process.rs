//! Servers under test, as child processes.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

/// How long a server may take to listen; far above the goal, so that a slow start is measured.
const LONGEST_START: Duration = Duration::from_secs(20);
/// How long a server may take to end after SIGTERM; the host promises ten seconds.
const LONGEST_STOP: Duration = Duration::from_secs(12);
/// How much of a failed server's stderr is worth showing.
const STDERR_TAIL: usize = 2_000;

/// A running server that listens.
pub(crate) struct ServerProcess {
    /// The WebSocket address.
    pub(crate) url: String,
    /// The time from starting the process to its word that it listens.
    pub(crate) start_time: Duration,
    pid: u32,
    child: Child,
    stdin: ChildStdin,
    directory: TempDir,
    // Held open, so that a server that prints more does not die of it.
    _stdout: Lines<BufReader<ChildStdout>>,
}

#[derive(Deserialize)]
struct ReadyLine {
    ready: bool,
    url: String,
}

impl ServerProcess {
    /// Starts the host with an empty data directory of its own.
    pub(crate) async fn start_host(binary: &Path, environment: &[(&str, &str)]) -> Result<Self> {
        Self::start_host_with(binary, environment, None, "").await
    }

    /// Starts the host with a data directory that outlives it, and further limits, one per line.
    pub(crate) async fn start_host_with(
        binary: &Path,
        environment: &[(&str, &str)],
        data: Option<&Path>,
        limits: &str,
    ) -> Result<Self> {
        Self::start_host_of(binary, environment, data, limits, "").await
    }

    /// Starts the host with a configuration file.
    pub(crate) async fn start_configured_host(binary: &Path, config: &str) -> Result<Self> {
        Self::start_host_of(binary, &[], None, "", config).await
    }

    async fn start_host_of(
        binary: &Path,
        environment: &[(&str, &str)],
        data: Option<&Path>,
        limits: &str,
        configured: &str,
    ) -> Result<Self> {
        let directory = TempDir::new().context("cannot create a temporary directory")?;
        let data = data.map_or_else(|| directory.path().join("data"), Path::to_owned);
        // The default limits are for few clients; thousands of clients on one machine need more, and so does a turn of
        // millions of deltas.
        let limits =
            format!("connections = 10000\nconnections_per_principal = 10000\nturn_bytes = 4294967296\n{limits}");
        // Also an empty file: the one of the user who runs the benchmark does not apply.
        let config = directory.path().join("innkeeper.toml");
        fs::write(&config, configured)?;
        let mut command = Command::new(binary);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--no-auth", "--json", "--data"])
            .arg(data)
            .arg("--config")
            .arg(config)
            .env("INNKEEPER_TEST_LIMITS", limits)
            .envs(environment.iter().copied());
        Self::start(command, directory).await
    }

    /// Starts this program as the raw broadcaster.
    pub(crate) async fn start_raw_broadcaster() -> Result<Self> {
        let directory = TempDir::new().context("cannot create a temporary directory")?;
        let mut command = Command::new(this_program()?);
        command.arg("raw-broadcaster");
        Self::start(command, directory).await
    }

    /// Returns the process id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Writes a line to the server's stdin.
    pub(crate) async fn write_line(&mut self, line: &str) -> Result<()> {
        self.stdin.write_all(format!("{line}\n").as_bytes()).await?;
        self.stdin.flush().await?;
        Ok(())
    }

    /// Returns everything that the server wrote to stderr so far.
    pub(crate) fn stderr(&self) -> Result<String> {
        let text = fs::read(stderr_path(self.directory.path())).context("cannot read the server's stderr")?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Adds what the server wrote to stderr to an error, if it wrote anything.
    pub(crate) fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        with_stderr(error, self.directory.path())
    }

    /// Ends the server and waits until it is gone.
    pub(crate) async fn stop(mut self) -> Result<()> {
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            kill_process(pid, Signal::TERM).context("cannot signal the server")?;
        }
        match timeout(LONGEST_STOP, self.child.wait()).await {
            Ok(status) => status.map(drop).context("cannot wait for the server"),
            Err(_) => {
                self.child.kill().await?;
                bail!("the server did not end within {} s of SIGTERM", LONGEST_STOP.as_secs());
            }
        }
    }

    async fn start(mut command: Command, directory: TempDir) -> Result<Self> {
        let program = command.as_std().get_program().to_owned();
        let stderr = fs::File::create(stderr_path(directory.path()))?;
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .kill_on_drop(true);
        let started = Instant::now();
        let mut child = command.spawn().with_context(|| start_advice(&program))?;
        let stdout = child.stdout.take().context("the server has no stdout")?;
        let stdin = child.stdin.take().context("the server has no stdin")?;
        let pid = child.id().context("the server ended at once")?;
        let mut stdout = BufReader::new(stdout).lines();
        let url = match ready_url(&mut stdout).await {
            Ok(url) => url,
            Err(error) => {
                let error = error.context(format!("{} did not start", program.display()));
                return Err(with_stderr(error, directory.path()));
            }
        };
        let start_time = started.elapsed();
        Ok(Self {
            url,
            start_time,
            pid,
            child,
            stdin,
            directory,
            _stdout: stdout,
        })
    }
}

/// Returns the host binary that was built together with this program.
pub(crate) fn default_host_binary() -> Result<PathBuf> {
    Ok(this_program()?.with_file_name("innkeeper"))
}

fn this_program() -> Result<PathBuf> {
    std::env::current_exe().context("cannot find this program's own file")
}

async fn ready_url(stdout: &mut Lines<BufReader<ChildStdout>>) -> Result<String> {
    let line = timeout(LONGEST_START, stdout.next_line())
        .await
        .with_context(|| format!("no ready line within {} s", LONGEST_START.as_secs()))??
        .context("the server ended before it listened")?;
    parse_ready_line(&line)
}

fn parse_ready_line(line: &str) -> Result<String> {
    let ready: ReadyLine =
        serde_json::from_str(line).with_context(|| format!("expected a ready line on stdout, got {line:?}"))?;
    if !ready.ready {
        bail!("the server says that it is not ready: {line}");
    }
    Ok(ready.url)
}

fn start_advice(program: &OsStr) -> String {
    format!(
        "cannot start {}; build it with `cargo build --release -p innkeeper` or name another with --host-binary",
        program.display()
    )
}

fn stderr_path(directory: &Path) -> PathBuf {
    directory.join("stderr.log")
}

fn with_stderr(error: anyhow::Error, directory: &Path) -> anyhow::Error {
    match stderr_tail(directory) {
        Some(tail) => anyhow!("{error:#}\nthe server's stderr ends with:\n{tail}"),
        None => error,
    }
}

fn stderr_tail(directory: &Path) -> Option<String> {
    let text = fs::read(stderr_path(directory)).ok()?;
    let tail = &text[text.len().saturating_sub(STDERR_TAIL)..];
    (!tail.is_empty()).then(|| String::from_utf8_lossy(tail).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_names_the_address() {
        let line = r#"{"ready":true,"url":"ws://127.0.0.1:4747","tokenFile":null,"pid":7}"#;
        assert_eq!(parse_ready_line(line).unwrap(), "ws://127.0.0.1:4747");
        assert!(parse_ready_line(r#"{"ready":false,"url":""}"#).is_err());
        assert!(parse_ready_line("listening").is_err());
    }

    #[tokio::test]
    async fn a_missing_binary_is_explained() {
        let error = ServerProcess::start_host(Path::new("no-such-binary"), &[])
            .await
            .err()
            .unwrap();
        assert!(format!("{error:#}").contains("--host-binary"), "{error:#}");
    }

    #[tokio::test]
    async fn a_server_that_ends_at_once_is_reported() {
        let error = ServerProcess::start_host(Path::new("false"), &[]).await.err().unwrap();
        assert!(format!("{error:#}").contains("before it listened"), "{error:#}");
    }
}

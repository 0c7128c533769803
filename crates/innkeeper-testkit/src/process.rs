//! The real program as a child process, with a home directory of its own.
//!
//! Everything here serves tests, so whatever goes wrong panics with what was expected. A process never outlives its
//! [`HostProcess`]: dropping that kills it, and it alone.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use crate::raw::Address;

/// Longer than anything here should take. It only keeps a failed test from hanging; nothing is measured by it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How a host is started.
#[derive(Debug, Clone)]
pub struct HostOptions {
    binary: PathBuf,
    flags: Vec<String>,
    settings: Vec<String>,
    limits: Vec<(String, u64)>,
    home: Option<Arc<TempDir>>,
}

impl HostOptions {
    /// Starts this binary with its defaults, on a free port.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        Self {
            binary: binary.into(),
            flags: Vec::new(),
            settings: Vec::new(),
            limits: Vec::new(),
            home: None,
        }
    }

    /// Adds flags of `innkeeper serve`.
    #[must_use]
    pub fn flags(mut self, flags: &[&str]) -> Self {
        self.flags.extend(flags.iter().map(|flag| (*flag).to_owned()));
        self
    }

    /// Adds one line to the configuration file, before its sections.
    #[must_use]
    pub fn setting(mut self, line: &str) -> Self {
        self.settings.push(line.to_owned());
        self
    }

    /// Sets one key of the `[limits]` section.
    #[must_use]
    pub fn limit(mut self, key: &str, value: u64) -> Self {
        self.limits.push((key.to_owned(), value));
        self
    }

    fn command(&self, home: &Path) -> Command {
        let mut config = self.settings.join("\n");
        config.push_str("\n[limits]\n");
        for (key, value) in &self.limits {
            config.push_str(&format!("{key} = {value}\n"));
        }
        let config_file = home.join("innkeeper.toml");
        std::fs::write(&config_file, config).expect("the home directory can be written to");
        let mut command = Command::new(&self.binary);
        command
            .arg("serve")
            .arg("--data")
            .arg(home.join("data"))
            .arg("--config")
            .arg(config_file)
            .args(&self.flags)
            .env_clear()
            .env("HOME", home)
            .current_dir(home)
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }
}

/// A host that runs.
#[derive(Debug)]
pub struct HostProcess {
    child: Child,
    options: HostOptions,
    home: Arc<TempDir>,
    address: Address,
    pid: u32,
    log: Arc<Mutex<String>>,
    log_reader: JoinHandle<()>,
}

impl HostProcess {
    /// Starts a host and waits until it listens.
    pub async fn start(options: HostOptions) -> Self {
        let home = home_of(&options);
        let mut command = options.command(home.path());
        command.args(["--listen", "127.0.0.1:0", "--json"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let (log, log_reader) = read_log(&mut child);
        let mut lines = BufReader::new(child.stdout.take().expect("standard output is a pipe")).lines();
        let line = tokio::time::timeout(PATIENCE, lines.next_line())
            .await
            .expect("the host is ready in time")
            .expect("standard output can be read");
        let Some(line) = line else {
            let _ = log_reader.await;
            let log = log.lock().unwrap_or_else(PoisonError::into_inner);
            panic!("the host did not start: {log}");
        };
        let ready: Value = serde_json::from_str(&line).expect("the ready line is JSON");
        assert_eq!(ready["ready"], true, "{line}");
        let url = ready["url"].as_str().expect("the ready line names the URL").to_owned();
        let token = ready["tokenFile"].as_str().map(|file| {
            let text = std::fs::read_to_string(file).expect("the token file can be read");
            text.trim().to_owned()
        });
        let pid = child.id().expect("the process runs");
        assert_eq!(ready["pid"], pid, "{line}");
        Self {
            child,
            options,
            home,
            address: Address { url, token },
            pid,
            log,
            log_reader,
        }
    }

    /// Starts a host whose client is the returned pair of pipes.
    pub async fn start_on_stdio(options: HostOptions) -> (Self, ChildStdin, ChildStdout) {
        let home = home_of(&options);
        let mut command = options.command(home.path());
        command.arg("--stdio").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let (log, log_reader) = read_log(&mut child);
        let stdin = child.stdin.take().expect("standard input is a pipe");
        let stdout = child.stdout.take().expect("standard output is a pipe");
        let address = Address {
            url: String::new(),
            token: None,
        };
        let pid = child.id().expect("the process runs");
        let host = Self {
            child,
            options,
            home,
            address,
            pid,
            log,
            log_reader,
        };
        (host, stdin, stdout)
    }

    /// Where it listens, and the token to show.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// A path in the host's home directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Kills it without warning, and starts another one on the same data directory.
    pub async fn kill_and_restart(mut self) -> Self {
        self.child.kill().await.expect("the process can be killed");
        let mut options = self.options.clone();
        options.home = Some(Arc::clone(&self.home));
        Self::start(options).await
    }

    /// Asks it to stop, as a service manager does.
    pub fn terminate(&self) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process id"), Signal::TERM).expect("the process can be signalled");
    }

    /// Waits for its end and returns how it ended, with everything it logged.
    pub async fn ended(mut self) -> (ExitStatus, String) {
        let status = tokio::time::timeout(PATIENCE, self.child.wait())
            .await
            .expect("the host ends in time")
            .expect("the process can be waited for");
        let _ = self.log_reader.await;
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner).clone();
        assert_eq!(status.signal(), None, "the host was ended by a signal: {log}");
        (status, log)
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The most memory it ever had resident, in bytes.
    pub fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).expect("the process runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.expect("the kernel reports peak memory") * 1024
    }

    /// How many file descriptors it holds.
    pub fn open_files(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.pid);
        std::fs::read_dir(folder).expect("the process runs").count()
    }
}

fn home_of(options: &HostOptions) -> Arc<TempDir> {
    match &options.home {
        Some(home) => Arc::clone(home),
        None => Arc::new(tempfile::tempdir().expect("a temporary directory")),
    }
}

fn read_log(child: &mut Child) -> (Arc<Mutex<String>>, JoinHandle<()>) {
    let mut stderr = child.stderr.take().expect("standard error is a pipe");
    let log = Arc::new(Mutex::new(String::new()));
    let shared = Arc::clone(&log);
    let reader = tokio::spawn(async move {
        let mut chunk = vec![0; 8192];
        while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
            let text = String::from_utf8_lossy(&chunk[..count]);
            shared.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
        }
    });
    (log, reader)
}

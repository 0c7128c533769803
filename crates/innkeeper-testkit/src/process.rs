//! The real program as a child process, with a home directory of its own.
//!
//! Everything here serves tests, so whatever goes wrong panics with what was expected. A process never outlives its
//! [`HostProcess`]: dropping that kills it, and it alone.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use innkeeper_std::sync::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::raw::Address;

/// Longer than anything here should take. It only keeps a failed test from hanging; nothing is measured by it.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// How a host is started.
#[derive(Debug, Clone)]
pub struct HostOptions {
    binary: PathBuf,
    flags: Vec<String>,
    settings: Vec<String>,
    limits: Vec<(String, u64)>,
    data: Option<PathBuf>,
    memory_kib: Option<u64>,
    environment: Vec<(String, OsString)>,
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
            data: None,
            memory_kib: None,
            environment: Vec::new(),
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

    /// Sets one limit, also one that is no setting of users.
    #[must_use]
    pub fn limit(mut self, key: &str, value: u64) -> Self {
        self.limits.push((key.to_owned(), value));
        self
    }

    /// Keeps its data in this directory, not in the home directory.
    #[must_use]
    pub fn data(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data = Some(directory.into());
        self
    }

    /// Creates its home directory in this one, not in the directory for temporary files.
    #[must_use]
    pub fn home_in(mut self, parent: &str) -> Self {
        let home = tempfile::tempdir_in(parent).expect("a temporary directory");
        self.home = Some(Arc::new(home));
        self
    }

    /// Gives it so many KiB of address space and no more.
    #[must_use]
    pub fn memory_limit(mut self, kib: u64) -> Self {
        self.memory_kib = Some(kib);
        self
    }

    /// Sets a variable of its environment, which has none but `HOME` otherwise.
    #[must_use]
    pub fn environment(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    fn command(&self, home: &Path) -> Command {
        let config = self.settings.join("\n");
        let limits: String = self
            .limits
            .iter()
            .map(|(key, value)| format!("{key} = {value}\n"))
            .collect();
        let config_file = home.join("innkeeper.toml");
        std::fs::write(&config_file, config).expect("the home directory can be written to");
        let mut command = match self.memory_kib {
            None => Command::new(&self.binary),
            Some(kib) => {
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", &format!("ulimit -v {kib}; exec \"$0\" \"$@\"")]);
                shell.arg(&self.binary);
                shell
            }
        };
        command
            .arg("serve")
            .arg("--data")
            .arg(self.data_dir(home))
            .arg("--config")
            .arg(config_file)
            .args(&self.flags)
            .env_clear()
            .env("HOME", home)
            .env("INNKEEPER_TEST_LIMITS", limits)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(home)
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    fn data_dir(&self, home: &Path) -> PathBuf {
        self.data.clone().unwrap_or_else(|| home.join("data"))
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
    log: Log,
    log_reader: JoinHandle<()>,
}

/// A host that has ended, and left its data directory.
#[derive(Debug)]
pub struct StoppedHost {
    options: HostOptions,
    home: Arc<TempDir>,
    /// How it ended.
    pub status: ExitStatus,
    /// Everything it logged.
    pub log: String,
}

impl StoppedHost {
    /// Starts another one on the same data directory.
    pub async fn start(&self) -> HostProcess {
        HostProcess::start(self.options.clone()).await
    }

    /// The same for a start that may be refused: what is left of such a host.
    pub async fn try_start(&self) -> Result<HostProcess, Self> {
        HostProcess::try_start(self.options.clone()).await
    }

    /// A path in the data directory.
    pub fn data_path(&self, name: &str) -> PathBuf {
        self.options.data_dir(self.home.path()).join(name)
    }
}

impl HostProcess {
    /// Starts a host and waits until it listens.
    pub async fn start(options: HostOptions) -> Self {
        match Self::try_start(options).await {
            Ok(host) => host,
            Err(refused) => panic!("the host did not start: {}", refused.log),
        }
    }

    /// Starts a host and waits until it listens, or has ended.
    pub async fn try_start(mut options: HostOptions) -> Result<Self, StoppedHost> {
        let home = home_of(&options);
        options.home = Some(Arc::clone(&home));
        let mut command = options.command(home.path());
        command.args(["--listen", "127.0.0.1:0", "--json"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let (log, log_reader) = read_log(&mut child);
        let mut lines = BufReader::new(child.stdout.take().expect("standard output is a pipe")).lines();
        let line = tokio::time::timeout(TIMEOUT, lines.next_line())
            .await
            .expect("the host is ready in time")
            .expect("standard output can be read");
        let Some(line) = line else {
            let status = child.wait().await.expect("the process can be waited for");
            let _ = log_reader.await;
            let log = log.text();
            return Err(StoppedHost {
                options,
                home,
                status,
                log,
            });
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
        Ok(Self {
            child,
            options,
            home,
            address: Address { url, token },
            pid,
            log,
            log_reader,
        })
    }

    /// Starts a second host on the same data directory, while this one runs.
    pub async fn start_second(&self) -> Result<Self, StoppedHost> {
        Self::try_start(self.options.clone()).await
    }

    /// Starts a host whose client is the returned pair of pipes.
    pub async fn start_on_stdio(mut options: HostOptions) -> (Self, ChildStdin, ChildStdout) {
        let home = home_of(&options);
        options.home = Some(Arc::clone(&home));
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

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Where it listens, and the token to show.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// A path in the host's home directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// A path in the host's data directory.
    pub fn data_path(&self, name: &str) -> PathBuf {
        self.options.data_dir(self.home.path()).join(name)
    }

    /// Kills it without warning, and starts another one on the same data directory.
    pub async fn kill_and_restart(self) -> Self {
        self.kill().await.start().await
    }

    /// Kills it without warning.
    pub async fn kill(mut self) -> StoppedHost {
        self.child.start_kill().expect("the process can be killed");
        self.wait().await
    }

    /// Asks it to stop, and waits until it has, with success.
    pub async fn stop(self) -> StoppedHost {
        self.terminate();
        let stopped = self.wait().await;
        assert_eq!(stopped.status.code(), Some(0), "{}", stopped.log);
        stopped
    }

    /// Waits for its end, whatever ends it.
    pub async fn wait(mut self) -> StoppedHost {
        let status = tokio::time::timeout(TIMEOUT, self.child.wait())
            .await
            .expect("the host ends in time")
            .expect("the process can be waited for");
        let _ = self.log_reader.await;
        StoppedHost {
            options: self.options,
            home: self.home,
            status,
            log: self.log.text(),
        }
    }

    /// Waits for its end for as long as it takes, for hosts that may never end.
    pub async fn wait_for_ever(mut self) -> StoppedHost {
        let _ = self.child.wait().await;
        self.wait().await
    }

    /// Asks it to stop, as a service manager does.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Stops it in its tracks until [`Self::thaw`], as a closed laptop does.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process id"), signal).expect("the process can be signalled");
    }

    /// Waits for its end and returns how it ended, with everything it logged.
    pub async fn ended(self) -> (ExitStatus, String) {
        let StoppedHost { status, log, .. } = self.wait().await;
        assert_eq!(status.signal(), None, "the host was ended by a signal: {log}");
        (status, log)
    }

    /// Returns its log so far.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// Waits until what it has logged is as awaited.
    pub async fn logged(&self, what: &str, holds: impl Fn(&str) -> bool) {
        let waiting = async {
            loop {
                let more = self.log.more.notified();
                tokio::pin!(more);
                more.as_mut().enable();
                if holds(&self.log.text()) {
                    return;
                }
                more.await;
            }
        };
        let waited = tokio::time::timeout(TIMEOUT, waiting).await;
        assert!(waited.is_ok(), "{what} was not logged: {}", self.log());
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

    /// How many of them are sockets.
    pub fn open_sockets(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.pid);
        let files = std::fs::read_dir(folder).expect("the process runs");
        let targets = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
        targets
            .filter(|target| target.to_string_lossy().starts_with("socket:"))
            .count()
    }
}

/// Whether a process lives; one that was ended and waits to be buried does not.
pub fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

/// Waits until a process is gone. It polls, because the process is not a child.
pub async fn gone(pid: u32) {
    let waiting = async {
        while lives(pid) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(TIMEOUT, waiting).await;
    assert!(waited.is_ok(), "the process {pid} still lives");
}

fn home_of(options: &HostOptions) -> Arc<TempDir> {
    match &options.home {
        Some(home) => Arc::clone(home),
        None => Arc::new(tempfile::tempdir().expect("a temporary directory")),
    }
}

/// The standard error of a host.
#[derive(Debug, Clone, Default)]
struct Log {
    text: Arc<Mutex<String>>,
    more: Arc<Notify>,
}

impl Log {
    fn text(&self) -> String {
        self.text.lock().clone()
    }
}

fn read_log(child: &mut Child) -> (Log, JoinHandle<()>) {
    let mut stderr = child.stderr.take().expect("standard error is a pipe");
    let log = Log::default();
    let shared = log.clone();
    let reader = tokio::spawn(async move {
        let mut chunk = vec![0; 8192];
        while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
            let text = String::from_utf8_lossy(&chunk[..count]);
            shared.text.lock().push_str(&text);
            shared.more.notify_waiters();
        }
    });
    (log, reader)
}

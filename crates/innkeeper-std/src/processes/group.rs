//! A process and all that it starts.

use std::ffi::OsStr;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

/// How long output is awaited after a process has ended: what it left running keeps the pipes open.
pub const DRAIN_TIME: Duration = Duration::from_millis(300);
/// How long a killed process is awaited: one that waits for a disk or a server inside the system
/// cannot be killed just then.
const BURIAL_TIME: Duration = Duration::from_secs(1);

/// A process that runs in a process group of its own. Dropped, it is killed with all that it started;
/// what began a session of its own (`setsid`) is out of reach.
#[derive(Debug)]
pub struct Group {
    child: Box<dyn ChildWrapper>,
    is_killed: bool,
}

impl Group {
    /// Starts a program, set up with arguments, environment and pipes.
    ///
    /// # Errors
    ///
    /// When the operating system does not start it.
    pub fn start(program: impl AsRef<OsStr>, set_up: impl FnOnce(&mut Command)) -> io::Result<Self> {
        let mut wrap = CommandWrap::with_new(program, set_up);
        #[cfg(unix)]
        wrap.wrap(process_wrap::tokio::ProcessGroup::leader());
        wrap.wrap(process_wrap::tokio::KillOnDrop);
        Ok(Self {
            child: wrap.spawn()?,
            is_killed: false,
        })
    }

    /// The pipe to its standard input, once, if it was set up with one.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin().take()
    }

    /// The pipe from its standard output, once, if it was set up with one.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout().take()
    }

    /// The pipe from its standard error, once, if it was set up with one.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr().take()
    }

    /// Waits until the process itself has ended. Processes that it started may go on until the group is
    /// killed. Nothing is lost if the caller stops waiting.
    ///
    /// # Errors
    ///
    /// When the operating system lost sight of it.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Asks the whole group to end, which it may do in its own time. If the system has no such signal, it is
    /// killed.
    pub fn ask_to_end(&mut self) {
        #[cfg(unix)]
        if !self.is_killed {
            let _ = self.child.signal(rustix::process::Signal::TERM.as_raw());
        }
        #[cfg(not(unix))]
        self.kill();
    }

    /// Kills the group, once: later on its number may be another's. It does nothing to a group that has ended.
    pub fn kill(&mut self) {
        if !std::mem::replace(&mut self.is_killed, true) {
            let _ = self.child.start_kill();
        }
    }

    /// Kills the group and waits a moment, so that it is gone when this is reported.
    pub async fn kill_and_wait(&mut self) {
        self.kill();
        let _ = tokio::time::timeout(BURIAL_TIME, self.child.wait()).await;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::Stdio;

    use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

    use super::*;

    fn shell(script: &str) -> Group {
        let started = Group::start("/bin/sh", |command| {
            command.args(["-c", script]);
            command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null());
        });
        started.expect("a shell")
    }

    /// Reads a pipe to its end, which comes when every process that had the other end is gone.
    async fn reads_to_the_end(mut pipe: impl tokio::io::AsyncRead + Unpin) -> String {
        let mut text = String::new();
        pipe.read_to_string(&mut text).await.expect("an end");
        text
    }

    #[tokio::test]
    async fn a_group_that_is_dropped_ends_with_all_that_it_started() {
        let mut group = shell("sleep 1000 & echo started; sleep 1000");
        let mut stdout = BufReader::new(group.take_stdout().expect("a pipe"));
        let mut line = String::new();
        stdout.read_line(&mut line).await.expect("a line");
        assert_eq!(line, "started\n");
        assert!(group.take_stdout().is_none(), "a pipe is given once");
        drop(group);
        assert_eq!(reads_to_the_end(stdout).await, "");
    }

    #[tokio::test]
    async fn children_of_an_ended_process_are_killed() {
        let mut group = shell("sleep 1000 & exit 3");
        let stdout = group.take_stdout().expect("a pipe");
        assert_eq!(group.wait().await.expect("known").code(), Some(3));
        group.kill();
        assert_eq!(reads_to_the_end(stdout).await, "");
        // Once more is no harm, and reaches no process.
        group.kill();
    }

    #[tokio::test]
    async fn a_process_may_exit_on_the_signal() {
        let mut group = shell("trap 'echo bye; exit 0' TERM; sleep 1000 & echo started; wait");
        let mut stdout = BufReader::new(group.take_stdout().expect("a pipe"));
        let mut line = String::new();
        stdout.read_line(&mut line).await.expect("a line");
        group.ask_to_end();
        assert!(group.wait().await.expect("known").success());
        // The other one may have been told before it could listen.
        group.kill();
        assert_eq!(reads_to_the_end(stdout).await, "bye\n");
    }

    #[tokio::test]
    async fn a_process_that_ignores_the_signal_is_killed() {
        use std::os::unix::process::ExitStatusExt as _;
        let mut group = shell("trap '' TERM; echo started; while :; do sleep 1000; done");
        let mut stdout = BufReader::new(group.take_stdout().expect("a pipe"));
        let mut line = String::new();
        stdout.read_line(&mut line).await.expect("a line");
        group.kill_and_wait().await;
        let status = group.wait().await.expect("known");
        assert_eq!(status.signal(), Some(9));
        assert_eq!(reads_to_the_end(stdout).await, "");
    }

    #[tokio::test]
    async fn a_missing_program_is_not_started() {
        let missing = Group::start("/no/such/program", |_| {}).expect_err("not there");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}

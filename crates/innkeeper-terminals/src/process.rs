//! A program on a pseudo-terminal, and everything that it starts.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::Stdio;

use innkeeper_host::terminals::TerminalSize;
use pty_process::{OwnedReadPty, OwnedWritePty, Size};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::process::Child;

use crate::input::Control;

/// A program to start.
#[derive(Debug)]
pub(crate) struct CommandLine {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    /// The complete environment.
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) directory: PathBuf,
}

/// A started program with its output and its input.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) process: Process,
    pub(crate) output: Output,
    /// The input side of its terminal; `None` without one.
    pub(crate) input: Option<(OwnedWritePty, Control)>,
}

/// The output of a program.
#[derive(Debug)]
pub(crate) enum Output {
    Pty(OwnedReadPty),
    Pipe(pipe::Receiver),
}

impl Output {
    /// Reads some output. The end of a pseudo-terminal is an error on Linux.
    pub(crate) async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Pty(pty) => pty.read(buffer).await,
            Self::Pipe(pipe) => pipe.read(buffer).await,
        }
    }
}

/// Starts a program as the leader of a new session with a new terminal.
pub(crate) fn start(line: CommandLine, size: TerminalSize) -> io::Result<Started> {
    let (pty, pts) = pty_process::open().map_err(io::Error::other)?;
    pty.resize(Size::new(size.rows, size.cols)).map_err(io::Error::other)?;
    let command = pty_process::Command::new(&line.program)
        .args(&line.arguments)
        .env_clear()
        .envs(line.environment)
        .current_dir(&line.directory)
        .kill_on_drop(true);
    let child = command.spawn(pts).map_err(|error| match error {
        pty_process::Error::Io(error) => error,
        other => io::Error::other(other),
    })?;
    let control = Control::new(pty.as_fd().try_clone_to_owned()?);
    let (output, input) = pty.into_split();
    Ok(Started {
        process: Process::of(child),
        output: Output::Pty(output),
        input: Some((input, control)),
    })
}

/// Starts a program without a terminal, as the leader of a new process group. Its output and its errors share a pipe, so
/// that they stay in order, and its input is empty.
pub(crate) fn start_with_pipe(line: CommandLine) -> io::Result<Started> {
    let (output, for_output) = io::pipe()?;
    let for_errors = for_output.try_clone()?;
    let child = tokio::process::Command::new(&line.program)
        .args(&line.arguments)
        .env_clear()
        .envs(line.environment)
        .current_dir(&line.directory)
        .stdin(Stdio::null())
        .stdout(for_output)
        .stderr(for_errors)
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    Ok(Started {
        process: Process::of(child),
        output: Output::Pipe(pipe::Receiver::from_owned_fd(output.into())?),
        input: None,
    })
}

/// The leader of a session or of a group of processes. Dropped, all of them are killed.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    leader: Option<Pid>,
}

impl Process {
    fn of(child: Child) -> Self {
        let leader = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Self { child, leader }
    }

    /// Waits for the end of the leader and returns its exit code; none if a signal ended it.
    pub(crate) async fn wait(&mut self) -> Option<i64> {
        let status = self.child.wait().await.ok()?;
        status.code().map(i64::from)
    }

    /// Tells all processes of the session that their terminal is gone, as closing a window does.
    pub(crate) fn hang_up(&self) {
        self.signal(Signal::HUP);
        // Stopped processes get the signal when they continue.
        self.signal(Signal::CONT);
    }

    /// Kills all processes of the session. Those that began a session of their own are out of reach.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        let Some(leader) = self.leader else { return };
        for group in groups_of_session(leader) {
            // It may have ended meanwhile.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the process groups of a session: a shell gives every job a group of its own. The leader of a group that is in
/// another session leads this group alone. The group of a leader that has
/// ended is not among them unless one of its members is left, so no signal goes to a new process with the same number.
#[cfg(target_os = "linux")]
fn groups_of_session(leader: Pid) -> Vec<Pid> {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return vec![leader];
    };
    let mut groups = Vec::new();
    for process in processes.flatten() {
        let is_process = process
            .file_name()
            .to_str()
            .is_some_and(|name| name.parse::<u32>().is_ok());
        if !is_process {
            continue;
        }
        let Ok(stat) = std::fs::read_to_string(process.path().join("stat")) else {
            continue;
        };
        let number = leader.as_raw_nonzero().get();
        if let Some((group, session)) = group_and_session(&stat)
            && (session == number || group == number)
            && let Some(group) = Pid::from_raw(group)
            && !groups.contains(&group)
        {
            groups.push(group);
        }
    }
    groups
}

/// Reads the group and the session of a process from its `stat` file. The name before them may contain anything.
#[cfg(target_os = "linux")]
fn group_and_session(stat: &str) -> Option<(i32, i32)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(not(target_os = "linux"))]
fn groups_of_session(leader: Pid) -> Vec<Pid> {
    vec![leader]
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_session_of_a_process_is_read_for_any_process_name() {
        assert_eq!(group_and_session("12 (a) b) S 1 34 56 0 -1 4194560"), Some((34, 56)));
        assert_eq!(group_and_session("12 (sh) S 1"), None);
    }
}

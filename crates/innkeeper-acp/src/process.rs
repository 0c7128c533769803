//! The process of an agent: its environment, its pipes, its standard error, and its end.

use std::collections::VecDeque;
use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use innkeeper_std::Group;
use innkeeper_std::sync::Mutex;
use innkeeper_std::text::truncate_chars;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::command::AgentCommand;
use crate::wire::Wire;

/// Bytes of standard error that are kept for messages.
const STDERR_BYTES: usize = 16 << 10;
/// Lines of standard error in a message.
const STDERR_LINES: usize = 6;
/// Characters of such a line.
const STDERR_CHARS: usize = 300;
/// How long the last output is awaited after the process has ended.
const LAST_WORDS_TIME: Duration = Duration::from_millis(200);
/// How long an agent may take to exit after its input has ended, and again after it was asked to.
const EXIT_TIME: Duration = Duration::from_secs(1);

/// A running agent. Dropped, it ends with everything that it started.
#[derive(Debug)]
pub(crate) struct Process {
    group: Group,
    stderr: Arc<Mutex<Tail>>,
}

impl Process {
    /// Starts an agent in a directory.
    ///
    /// # Errors
    ///
    /// Fails with a message for users that says what to do.
    pub(crate) fn start(command: &AgentCommand, directory: &std::path::Path) -> Result<(Self, Wire), String> {
        let (program, arguments) = command.line();
        let started = Group::start(&program, |process| {
            process
                .args(arguments)
                .env_clear()
                .envs(command.environment())
                .current_dir(directory)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
        });
        let mut group = started.map_err(|error| could_not_start(command, directory, &error))?;
        let (Some(input), Some(output), Some(errors)) = (group.take_stdin(), group.take_stdout(), group.take_stderr())
        else {
            return Err("the agent has no pipes".to_owned());
        };
        let stderr = Arc::new(Mutex::new(Tail::default()));
        tokio::spawn(keep_tail(errors, Arc::clone(&stderr)));
        Ok((Self { group, stderr }, Wire::start(input, output)))
    }

    /// Describes the end of the process whose pipe has closed, with its last lines on standard error.
    pub(crate) async fn describe_end(&mut self) -> String {
        let how = match tokio::time::timeout(EXIT_TIME, self.group.wait()).await {
            Ok(Ok(status)) => describe(status),
            Ok(Err(error)) => format!("its process was lost ({error})"),
            Err(_) => "its process still runs".to_owned(),
        };
        // A process that it left running keeps the pipe open, so its end is not awaited.
        tokio::time::sleep(LAST_WORDS_TIME).await;
        self.group.kill();
        format!("{how}{}", self.last_words())
    }

    /// Returns the last lines of standard error, as the continuation of a sentence; empty if there are none.
    pub(crate) fn last_words(&self) -> String {
        let text = self.stderr.lock().text();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines
            .get(lines.len().saturating_sub(STDERR_LINES)..)
            .unwrap_or_default();
        if last.is_empty() {
            return String::new();
        }
        let last: Vec<_> = last.iter().map(|line| truncate_chars(line, STDERR_CHARS)).collect();
        format!("; its last output on standard error:\n{}", last.join("\n"))
    }

    /// Ends the process after its input has ended: first it may exit by itself, then it is told to, then it is killed.
    pub(crate) async fn end(mut self) {
        if tokio::time::timeout(EXIT_TIME, self.group.wait()).await.is_err() {
            self.group.ask_to_end();
            let _ = tokio::time::timeout(EXIT_TIME, self.group.wait()).await;
        }
        self.group.kill_and_wait().await;
    }
}

fn could_not_start(command: &AgentCommand, directory: &std::path::Path, error: &io::Error) -> String {
    let program = command.program.display();
    if !directory.is_dir() {
        return format!("its working directory {} does not exist", directory.display());
    }
    match error.kind() {
        io::ErrorKind::NotFound => format!(
            "the program `{program}` was not found: install it, or correct `command`; `innkeeper agents list` says how"
        ),
        io::ErrorKind::PermissionDenied => format!("the program `{program}` may not be run: make it executable"),
        _ => format!("the program `{program}` could not be started ({error})"),
    }
}

fn describe(status: std::process::ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("its process was ended by signal {signal}");
    }
    match status.code() {
        Some(code) => format!("its process exited with code {code}"),
        None => "its process exited".to_owned(),
    }
}

async fn keep_tail(mut stderr: impl AsyncRead + Unpin, tail: Arc<Mutex<Tail>>) {
    let mut buffer = vec![0; 4 << 10];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        let bytes = buffer.get(..read).unwrap_or_default();
        tail.lock().push(bytes);
    }
}

/// The last bytes of a stream.
#[derive(Debug, Default)]
struct Tail {
    bytes: VecDeque<u8>,
    is_cut: bool,
}

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let over = self.bytes.len().saturating_sub(STDERR_BYTES);
        self.is_cut |= over > 0;
        self.bytes.drain(..over);
    }

    /// Returns the whole lines: a first line that was cut is left out.
    fn text(&self) -> String {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        match text.split_once('\n') {
            Some((_, whole)) if self.is_cut => whole.to_owned(),
            None if self.is_cut => String::new(),
            _ => text.into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_error_is_kept_within_a_bound() {
        let mut tail = Tail::default();
        for number in 0..100_000 {
            tail.push(format!("line {number}\n").as_bytes());
        }
        assert!(tail.bytes.len() <= STDERR_BYTES);
        let text = tail.text();
        assert!(text.ends_with("line 99999\n"));
        assert!(text.starts_with("line "), "the first line is whole");
    }
}

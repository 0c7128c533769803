//! A home directory of its own for each test, and processes that never outlive it.

use std::io::{BufRead as _, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Longer than any step should take, shorter than a developer waits.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// A fresh home directory, so that no test sees another's files or the user's own.
pub(crate) struct Home {
    root: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// The data directory used without `--data`.
    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.path("data/innkeeper").join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn spawn(&self, args: &[&str]) -> Program {
        self.spawn_with(".", args, Stdio::null())
    }

    /// Starts the program with a pipe as its standard input.
    pub(crate) fn spawn_piped(&self, args: &[&str]) -> Program {
        self.spawn_with(".", args, Stdio::piped())
    }

    /// Starts the program in a directory of the home.
    pub(crate) fn spawn_with(&self, directory: &str, args: &[&str], stdin: Stdio) -> Program {
        let mut child = Command::new(env!("CARGO_BIN_EXE_innkeeper"))
            .args(args)
            .env_clear()
            .env("HOME", self.root.path())
            .env("XDG_DATA_HOME", self.path("data"))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .current_dir(self.path(directory))
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // The receiver is gone once the test is over.
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut stderr = child.stderr.take().unwrap();
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).unwrap();
            text
        });
        Program {
            stdin: child.stdin.take(),
            child,
            lines,
            errors: Some(errors),
        }
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        self.run_in(".", args)
    }

    /// Runs the program in a directory of the home, to its end.
    pub(crate) fn run_in(&self, directory: &str, args: &[&str]) -> Ended {
        self.spawn_with(directory, args, Stdio::null()).wait()
    }

    /// Starts a host on a free port and waits until it listens.
    pub(crate) fn host(&self, flags: &[&str]) -> Host {
        let mut args = vec!["serve", "--json"];
        if !flags.contains(&"--listen") && !flags.contains(&"--config") {
            args.extend(["--listen", "127.0.0.1:0"]);
        }
        args.extend(flags);
        let program = self.spawn(&args);
        let ready: Value = match program.lines.recv_timeout(TIMEOUT) {
            Ok(line) => serde_json::from_str(&line).unwrap(),
            Err(_) => panic!("the host did not start: {:?}", program.wait()),
        };
        Host { program, ready }
    }
}

/// A running program. It is killed when the test is done with it.
pub(crate) struct Program {
    child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
}

impl Program {
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// The next line on standard output.
    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(TIMEOUT).unwrap()
    }

    pub(crate) fn wait(mut self) -> Ended {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < TIMEOUT, "the program does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut stdout = String::new();
        loop {
            match self.lines.recv_timeout(TIMEOUT) {
                Ok(line) => {
                    stdout.push_str(&line);
                    stdout.push('\n');
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("standard output stays open"),
            }
        }
        let stderr = self.errors.take().unwrap().join().unwrap();
        Ended {
            status,
            stdout,
            stderr,
            took: begun.elapsed(),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already, which is just as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The outcome of a program.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

impl Ended {
    /// Checks the exit code, and shows everything if it is another one.
    #[track_caller]
    pub(crate) fn code(self, expected: i32) -> Self {
        assert_eq!(self.status.code(), Some(expected), "{self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn says(self, expected: &str) -> Self {
        assert!(self.stderr.contains(expected), "{expected:?} is missing in {self:#?}");
        self
    }

    /// The lines of standard output as JSON.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap();
        self.stdout.lines().map(parse).collect()
    }
}

/// A running host.
pub(crate) struct Host {
    pub(crate) program: Program,
    pub(crate) ready: Value,
}

impl Host {
    pub(crate) fn url(&self) -> &str {
        self.ready["url"].as_str().unwrap()
    }

    pub(crate) fn stop(self) -> Ended {
        self.program.signal(Signal::TERM);
        self.program.wait()
    }
}

/// Returns the name of the session that `send` suggests to continue.
pub(crate) fn named_session(stderr: &str) -> String {
    let (_, name) = stderr.split_once("--session ").unwrap_or_else(|| panic!("{stderr}"));
    name.split_whitespace().next().unwrap().to_owned()
}

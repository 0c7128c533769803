//! Mirrors in the process of a published client that cannot be linked beside another.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use innkeeper_compat::program;
use serde_json::{Value, json};

use super::Perform;

/// One process for all mirrors of a version in this program. It ends with the program.
pub(crate) struct MirrorProcess {
    folder: &'static str,
    lines: OnceLock<Mutex<Lines>>,
}

struct Lines {
    _child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// How many mirrors there have been.
    mirrors: u64,
}

impl MirrorProcess {
    /// The client in this folder of `clients/`. It is built and started with its first mirror.
    pub(crate) const fn new(folder: &'static str) -> Self {
        Self {
            folder,
            lines: OnceLock::new(),
        }
    }

    /// A new mirror.
    pub(crate) fn mirror(&'static self) -> Box<Perform> {
        let lines = self.lines.get_or_init(|| Mutex::new(Lines::start(self.folder)));
        let mut started = lines.lock().unwrap_or_else(PoisonError::into_inner);
        started.mirrors += 1;
        let mirror = RemoteMirror {
            lines,
            number: started.mirrors,
        };
        Box::new(move |command, argument| mirror.perform(command, argument))
    }
}

impl Lines {
    fn start(folder: &str) -> Self {
        let mut child = Command::new(program::published_client(folder))
            .arg("mirrors")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the published client starts");
        Self {
            input: child.stdin.take().expect("an input"),
            output: BufReader::new(child.stdout.take().expect("an output")),
            _child: child,
            mirrors: 0,
        }
    }
}

/// A mirror in the process, which forgets it when it is dropped.
struct RemoteMirror {
    lines: &'static Mutex<Lines>,
    number: u64,
}

impl RemoteMirror {
    fn perform(&self, command: &str, argument: &Value) -> Result<Value, String> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = json!({ "mirror": self.number, "do": command, "with": argument });
        writeln!(lines.input, "{line}").map_err(|error| error.to_string())?;
        let mut answer = String::new();
        lines.output.read_line(&mut answer).map_err(|error| error.to_string())?;
        let mut answer: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
        match answer["error"].take() {
            Value::String(error) => Err(error),
            _ => Ok(answer["ok"].take()),
        }
    }
}

impl Drop for RemoteMirror {
    fn drop(&mut self) {
        // A process that is gone has forgotten it.
        let _ = self.perform("drop", &Value::Null);
    }
}

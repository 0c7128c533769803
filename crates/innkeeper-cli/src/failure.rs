//! Failures of the program: one sentence for the user, one documented exit code for scripts.

use std::fmt;
use std::io::Write as _;
use std::process::ExitCode;

/// The kind of a failure. Each kind has its own exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An unexpected error.
    Unexpected,
    /// The command line is wrong.
    Usage,
    /// The turn ended with an error of the agent.
    TurnFailed,
    /// The turn was cancelled.
    TurnCancelled,
    /// The host rejected the request, or the named object does not exist.
    Rejected,
    /// A check of the doctor failed.
    Unhealthy,
    /// No host responds, or the connection to it was lost.
    Unreachable,
    /// The host cannot listen on the address or the socket.
    CannotListen,
    /// The data directory, or a file in it, cannot be used.
    DataDirectory,
    /// Another process holds the port, the socket or the data directory.
    InUse,
    /// The token was rejected, or the host would have been accessible without one.
    AccessRefused,
    /// The configuration file is broken.
    Config,
    /// The reader of the output closed it.
    OutputClosed,
}

impl Kind {
    const ALL: [Self; 13] = [
        Self::Unexpected,
        Self::Usage,
        Self::TurnFailed,
        Self::TurnCancelled,
        Self::Rejected,
        Self::Unhealthy,
        Self::Unreachable,
        Self::CannotListen,
        Self::DataDirectory,
        Self::InUse,
        Self::AccessRefused,
        Self::Config,
        Self::OutputClosed,
    ];

    /// Returns the exit code; the numbers from 64 on follow the BSD `sysexits` convention.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Unexpected => 1,
            Self::Usage => 2,
            Self::TurnFailed => 3,
            Self::TurnCancelled => 4,
            Self::Rejected => 5,
            Self::Unhealthy => 6,
            Self::Unreachable => 69,
            Self::CannotListen => 71,
            Self::DataDirectory => 73,
            Self::InUse => 75,
            Self::AccessRefused => 77,
            Self::Config => 78,
            Self::OutputClosed => 141,
        }
    }

    fn meaning(self) -> &'static str {
        match self {
            Self::Unexpected => "unexpected error; mcp: the server does not run, or its tool failed",
            Self::Usage => "the command line is wrong",
            Self::TurnFailed => "send: the turn ended with an error",
            Self::TurnCancelled => "send: the turn was cancelled; mcp: stopped before it was done",
            Self::Rejected => "the host rejected the message or the request, or there is no such session",
            Self::Unhealthy => "doctor: a check failed",
            Self::Unreachable => "no host responds, or the connection to it was lost",
            Self::CannotListen => "serve: the host cannot listen on the address or socket",
            Self::DataDirectory => "the data directory or a file in it cannot be used",
            Self::InUse => "another process holds the port, the socket or the data directory",
            Self::AccessRefused => "the token was rejected, or serving would have been unsafe",
            Self::Config => "the configuration file is broken",
            Self::OutputClosed => "the reader of the output closed it",
        }
    }
}

/// Returns the table of exit codes that `--help` shows.
pub fn exit_code_table() -> String {
    use fmt::Write as _;
    let mut table = String::from("Exit codes:\n    0  done; for send: the turn is complete\n");
    for kind in Kind::ALL {
        // Writing to a String cannot fail.
        let _ = writeln!(table, "  {:>3}  {}", kind.exit_code(), kind.meaning());
    }
    table.push_str("  130  ended at once by a second Ctrl-C\n");
    table.push_str("  143  ended at once by a second termination signal");
    table
}

/// A failure for the user: the problem, and what to do about it.
#[derive(Debug)]
pub struct Failure {
    kind: Kind,
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// Creates a failure. The message is a lower-case clause without a period.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    /// Adds what the user can do about it, as a clause.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the hint, or an empty text.
    pub fn advice(&self) -> &str {
        self.hint.as_deref().unwrap_or_default()
    }

    /// Returns the kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the process's exit code for this failure.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.kind.exit_code())
    }

    /// Prints the failure as one line on standard error.
    pub fn report(&self) {
        if self.kind == Kind::OutputClosed {
            // Like any filter whose reader went away, end silently.
            return;
        }
        // If standard error is closed too, only the exit code is left.
        let _ = writeln!(
            std::io::stderr(),
            "innkeeper: {self} (exit code {})",
            self.kind.exit_code()
        );
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Quoted messages may end with a period, but the sentence continues here.
        let message = self.message.trim_end_matches('.');
        match &self.hint {
            Some(hint) => write!(f, "{message}; {hint}"),
            None => f.write_str(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_distinct_and_listed() {
        let table = exit_code_table();
        let mut seen = std::collections::BTreeSet::new();
        for kind in Kind::ALL {
            assert!(seen.insert(kind.exit_code()), "{kind:?} shares its code");
            assert!(table.contains(&format!("{:>5}  ", kind.exit_code())));
        }
    }

    #[test]
    fn failure_reads_as_one_sentence() {
        let failure =
            Failure::new(Kind::InUse, "127.0.0.1:4747 is taken").hint("choose another port with --listen 127.0.0.1:0");
        assert_eq!(
            failure.to_string(),
            "127.0.0.1:4747 is taken; choose another port with --listen 127.0.0.1:0"
        );
    }
}

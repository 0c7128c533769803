//! What to run: the configuration of a server, its limits, and how it is restarted.

mod environment;
mod expand;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub use self::environment::BaseEnvironment;
pub use self::expand::{Placeholders, Syntax, expand};

/// A server that can be run. Two equal configurations are the same server for the [`crate::Pool`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerConfig {
    /// What people call it. It stands in messages and in front of the names of its tools.
    pub name: String,
    /// How to reach it.
    pub transport: Transport,
    /// How long and how much.
    pub limits: Limits,
    /// What happens after a crash.
    pub restart: RestartPolicy,
}

impl ServerConfig {
    /// A server with limits and restarts as they usually are.
    pub fn new(name: impl Into<String>, transport: Transport) -> Self {
        Self {
            name: name.into(),
            transport,
            limits: Limits::default(),
            restart: RestartPolicy::default(),
        }
    }
}

/// How to reach a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A process, spoken to over its standard input and output.
    Stdio(Stdio),
    /// An address that speaks streamable HTTP.
    Http(Remote),
    /// An address that speaks the HTTP with server-sent events of 2024-11-05.
    Sse(Remote),
}

/// A process to run. `Debug` leaves out the values of its environment (T15).
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Stdio {
    /// The program: a path, or a name that is looked up in `PATH`. Never a line for a shell.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Where it runs; where the host runs, if it is not said.
    pub cwd: Option<PathBuf>,
    /// What its environment has besides the [`BaseEnvironment`]; `None` takes a variable away.
    pub env: BTreeMap<String, Option<String>>,
}

impl Stdio {
    /// A program with arguments.
    pub fn new(command: impl Into<String>, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            command: command.into(),
            args: args.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }
}

impl fmt::Debug for Stdio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stdio")
            .field("command", &self.command)
            .field("args", &self.args)
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .finish()
    }
}

/// An address. `Debug` leaves out the values of its headers.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Remote {
    /// The address: `https`, or `http` where the configuration says so.
    pub url: String,
    /// Headers for every request. They go to this address only.
    pub headers: BTreeMap<String, String>,
    /// The client that people have registered with the authorization server, for whoever signs in.
    pub oauth_client_id: Option<String>,
}

impl Remote {
    /// An address without headers.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            headers: BTreeMap::new(),
            oauth_client_id: None,
        }
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote")
            .field("url", &crate::engine::secret::without_secrets(&self.url))
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("oauth_client_id", &self.oauth_client_id)
            .finish()
    }
}

/// How long things may take, and how much may come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// From the start of a server until it has introduced itself, and as much again until it has told its tools.
    pub start_time: Duration,
    /// For a list, a resource or a prompt.
    pub request_time: Duration,
    /// For a call without any sign of life; each report of progress begins it anew.
    pub call_time: Duration,
    /// For a call in all, whatever it reports.
    pub call_time_max: Duration,
    /// How long a call waits for somebody to sign in.
    pub sign_in_time: Duration,
    /// How long a question of the server waits for its answer.
    pub answer_time: Duration,
    /// How long a process has to end by itself before it is killed.
    pub stop_time: Duration,
    /// Most bytes of one message; a longer answer fails its call (T26).
    pub message_bytes: usize,
    /// Most bytes of text that a call hands back; the whole is kept aside.
    pub shown_bytes: usize,
    /// Most bytes of one picture, sound or other blob that a call hands back.
    pub blob_bytes: usize,
    /// Most tools, resources, templates or prompts of one list.
    pub list_entries: usize,
    /// Most bytes of one list.
    pub list_bytes: usize,
    /// Most bytes kept of what a process writes to its standard error.
    pub stderr_bytes: usize,
    /// How often a server behind an address is asked whether it is there, when nobody asks it anything else.
    pub look_after: Duration,
    /// How long a changed list rests before it is fetched, so that many changes cost one request.
    pub change_rest: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            start_time: Duration::from_secs(30),
            request_time: Duration::from_secs(30),
            call_time: Duration::from_secs(120),
            call_time_max: Duration::from_secs(3600),
            sign_in_time: Duration::from_secs(600),
            answer_time: Duration::from_secs(600),
            stop_time: Duration::from_secs(5),
            message_bytes: 16 << 20,
            shown_bytes: 96 << 10,
            blob_bytes: 5 << 20,
            list_entries: 1000,
            list_bytes: 4 << 20,
            stderr_bytes: 64 << 10,
            look_after: Duration::from_secs(300),
            change_rest: Duration::from_millis(300),
        }
    }
}

/// What happens after a crash (F3).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RestartPolicy {
    /// How often in a row it is started again.
    pub attempts: u32,
    /// The least time between two starts; it doubles with every attempt.
    pub delay: Duration,
    /// The most that it grows to.
    pub delay_max: Duration,
    /// How often a server behind an address that was ready once is looked for after all these.
    pub away: Duration,
    /// How long a server must have been ready for its crashes to be forgotten.
    pub healthy_after: Duration,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            attempts: 5,
            delay: Duration::from_secs(5),
            delay_max: Duration::from_secs(60),
            away: Duration::from_secs(300),
            healthy_after: Duration::from_secs(60),
        }
    }
}

impl RestartPolicy {
    /// How long to wait before attempt number `attempt` (from 0), after a life of `lived`; nothing
    /// when it is given up.
    pub(crate) fn delay(&self, attempt: u32, lived: Duration) -> Option<Duration> {
        if attempt >= self.attempts {
            return None;
        }
        let factor = 2_u32.saturating_pow(attempt.min(16));
        let between = self.delay.saturating_mul(factor).min(self.delay_max);
        Some(between.saturating_sub(lived))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f3_restarts_are_spaced_and_end() {
        let policy = RestartPolicy::default();
        let delays: Vec<_> = (0..6)
            .map(|attempt| policy.delay(attempt, Duration::ZERO).map(|delay| delay.as_secs()))
            .collect();
        assert_eq!(delays, [Some(5), Some(10), Some(20), Some(40), Some(60), None]);
        assert_eq!(policy.delay(0, Duration::from_secs(30)), Some(Duration::ZERO));
    }

    #[test]
    fn t15_debug_shows_names_but_no_values() {
        let mut stdio = Stdio::new("server", ["--stdio"]);
        stdio.env.insert("API_KEY".into(), Some("s3cr3t-value".into()));
        let mut remote = Remote::new("https://user:s3cr3t-value@example.test/mcp?key=s3cr3t-value");
        remote.headers.insert("X-Key".into(), "s3cr3t-value".into());
        for transport in [Transport::Stdio(stdio), Transport::Http(remote)] {
            let shown = format!("{:?}", ServerConfig::new("a", transport));
            assert!(!shown.contains("s3cr3t"), "{shown}");
            assert!(shown.contains("API_KEY") || shown.contains("X-Key"), "{shown}");
        }
    }
}

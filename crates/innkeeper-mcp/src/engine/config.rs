//! The configuration of a server, its limits, and its restart policy.

mod environment;
mod expand;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub use self::environment::BaseEnvironment;
pub use self::expand::{Placeholders, Syntax, expand};

/// A server that can be run. Equal configurations are the same server for the [`crate::Pool`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerConfig {
    /// The name that users know. It is part of messages and of tool names.
    pub name: String,
    /// How to reach it.
    pub transport: Transport,
    /// Timeouts and bounds.
    pub limits: Limits,
    /// The restart policy.
    pub restart: RestartPolicy,
}

impl ServerConfig {
    /// Returns a configuration with the default limits and restart policy.
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
    /// A process, over its standard input and output.
    Stdio(Stdio),
    /// An address with streamable HTTP.
    Http(Remote),
    /// An address with the HTTP transport with server-sent events of 2024-11-05.
    Sse(Remote),
}

/// A process to run. `Debug` leaves out the values of its environment (T15).
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Stdio {
    /// The program: a path, or a name that is looked up in `PATH`. Never a shell command line.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its working directory; by default the one of the host.
    pub cwd: Option<PathBuf>,
    /// The variables besides the [`BaseEnvironment`]; `None` removes a variable.
    pub env: BTreeMap<String, Option<String>>,
}

impl Stdio {
    /// Returns a program with arguments.
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
    /// Headers for every request. They are sent to this address only.
    pub headers: BTreeMap<String, String>,
    /// The OAuth client that users have registered with the authorization server.
    pub oauth_client_id: Option<String>,
}

impl Remote {
    /// Returns an address without headers.
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

/// Timeouts and bounds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// From the start of a server until it has introduced itself, and again until it has listed its tools.
    pub start_time: Duration,
    /// For a list, a resource or a prompt.
    pub request_time: Duration,
    /// For a call without any progress. Each progress report restarts it.
    pub call_time: Duration,
    /// For a whole call, whatever it reports.
    pub call_time_max: Duration,
    /// For a call that waits for a sign-in.
    pub sign_in_time: Duration,
    /// For a question of the server.
    pub answer_time: Duration,
    /// For a process to end by itself before it is killed.
    pub stop_time: Duration,
    /// The largest message. A larger answer fails its call (T26).
    pub message_bytes: usize,
    /// The largest text that a call returns. The whole is kept aside.
    pub shown_bytes: usize,
    /// The largest image, sound or other blob that a call returns.
    pub blob_bytes: usize,
    /// The number of tools, resources, templates or prompts of one list.
    pub list_entries: usize,
    /// The size of one list.
    pub list_bytes: usize,
    /// The size of the standard error that is kept.
    pub stderr_bytes: usize,
    /// How often an idle server behind an address is checked.
    pub presence_interval: Duration,
    /// The pause between a change of a list and fetching it, so that many changes cost one request.
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
            presence_interval: Duration::from_secs(300),
            change_rest: Duration::from_millis(300),
        }
    }
}

/// The restart policy after crashes (F3).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RestartPolicy {
    /// The number of restarts in a row.
    pub attempts: u32,
    /// The shortest time between two starts. It doubles with every attempt.
    pub delay: Duration,
    /// The longest time between two starts.
    pub delay_max: Duration,
    /// The interval after all attempts, for a server behind an address that was ready once.
    pub away: Duration,
    /// The time that a server must have been ready for its crashes to be forgotten.
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
    /// Returns the delay before attempt number `attempt` (from 0), after a run of `lived`; nothing when the server is given up.
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
    fn f3_restart_delays_grow_and_restarts_end() {
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

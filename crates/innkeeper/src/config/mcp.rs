//! The `[mcp]` section: whether and how MCP servers run, and the servers that every session gets.

pub(super) mod servers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use innkeeper_mcp::{BaseEnvironment, Limits, RunnerSettings};
use innkeeper_plugins::Child;
use serde::Deserialize;
use toml::de::DeTable;

use servers::ServerSection;

/// The keys of `[mcp]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub(crate) struct McpSection {
    /// Whether MCP servers run.
    pub(crate) enabled: bool,
    /// Whether every session has its own processes; otherwise sessions in one workspace share them.
    pub(crate) isolate: bool,
    /// Whether tokens are persisted.
    pub(crate) keep_tokens: bool,
    /// The file of the encryption key, instead of the one beside the configuration.
    pub(crate) token_key_file: Option<PathBuf>,
    /// Timeout of the start of a server.
    pub(crate) start_seconds: Option<u64>,
    /// Timeout of a call without progress.
    pub(crate) call_seconds: Option<u64>,
    /// Servers that every session gets, by name.
    pub(crate) servers: BTreeMap<String, ServerSection>,
}

impl Default for McpSection {
    fn default() -> Self {
        Self {
            enabled: true,
            isolate: false,
            keep_tokens: true,
            token_key_file: None,
            start_seconds: None,
            call_seconds: None,
            servers: BTreeMap::new(),
        }
    }
}

impl McpSection {
    /// Checks the servers. The error has the name of a server and its problem.
    pub(super) fn check(&self) -> Result<(), (&str, String)> {
        let mut servers = self.servers.iter();
        servers.try_for_each(|(name, server)| server.check(name).map_err(|problem| (name.as_str(), problem)))
    }

    /// Remembers the positions of the servers in the file.
    pub(super) fn locate(&mut self, root: &DeTable<'_>, text: &str) {
        servers::locate(&mut self.servers, root, text);
    }

    /// Returns the servers that this file declares for every session.
    pub(super) fn declared(&self, file: &Path) -> Vec<Child> {
        let servers = self.servers.iter();
        servers
            .filter_map(|(name, server)| server.declared(file, name))
            .collect()
    }

    /// Returns the environment files of servers, as they are written.
    pub(super) fn env_files(&self) -> impl Iterator<Item = &str> {
        self.servers.values().filter_map(|server| server.env_file.as_deref())
    }

    /// Returns the settings of the runner, or nothing if no MCP servers run.
    pub(crate) fn settings(&self) -> Option<RunnerSettings> {
        let seconds = |seconds: Option<u64>, usual| seconds.map_or(usual, Duration::from_secs);
        let usual = Limits::default();
        self.enabled.then(|| RunnerSettings {
            environment: BaseEnvironment::of_process(),
            // Servers of the configuration may use variables of the host.
            variables: std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
            limits: Limits {
                start_time: seconds(self.start_seconds, usual.start_time),
                call_time: seconds(self.call_seconds, usual.call_time),
                ..usual
            },
            isolate: self.isolate,
            ..RunnerSettings::default()
        })
    }
}

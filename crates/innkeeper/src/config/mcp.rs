//! The `[mcp]` section: whether and how MCP servers run, and which every session gets.

pub(super) mod servers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use innkeeper_mcp::{BaseEnvironment, Limits, RunnerSettings};
use innkeeper_plugins::Child;
use serde::Deserialize;
use toml::de::DeTable;

use servers::ServerSection;

/// What `[mcp]` can say.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub(crate) struct McpSection {
    /// Whether any run.
    pub(crate) enabled: bool,
    /// Whether every session has servers of its own, where sessions in one workspace would share them.
    pub(crate) isolate: bool,
    /// Whether what people signed in with outlives them and the host.
    pub(crate) keep_tokens: bool,
    /// The key that they are sealed with, in place of the one beside the configuration.
    pub(crate) token_key_file: Option<PathBuf>,
    /// How long a server may take to start.
    pub(crate) start_seconds: Option<u64>,
    /// How long a call may take without a sign of life.
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
    /// Refuses servers that can only be a mistake; names the one and what is wrong with it.
    pub(super) fn check(&self) -> Result<(), (&str, String)> {
        let mut servers = self.servers.iter();
        servers.try_for_each(|(name, server)| server.check(name).map_err(|problem| (name.as_str(), problem)))
    }

    /// Notes where the servers stand in the file.
    pub(super) fn locate(&mut self, root: &DeTable<'_>, text: &str) {
        servers::locate(&mut self.servers, root, text);
    }

    /// Returns the servers that this file, which they stand in, gives every session.
    pub(super) fn declared(&self, file: &Path) -> Vec<Child> {
        let servers = self.servers.iter();
        servers
            .filter_map(|(name, server)| server.declared(file, name))
            .collect()
    }

    /// Returns the files with environments that servers name, as they are written.
    pub(super) fn env_files(&self) -> impl Iterator<Item = &str> {
        self.servers.values().filter_map(|server| server.env_file.as_deref())
    }

    /// Returns how servers run in the environment of this process, or nothing if none are to run.
    pub(crate) fn settings(&self) -> Option<RunnerSettings> {
        let seconds = |seconds: Option<u64>, usual| seconds.map_or(usual, Duration::from_secs);
        let usual = Limits::default();
        self.enabled.then(|| RunnerSettings {
            environment: BaseEnvironment::of_process(),
            // What people wrote themselves may name their own variables.
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

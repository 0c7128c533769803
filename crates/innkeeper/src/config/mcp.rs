//! The `[mcp]` section: whether and how MCP servers run.

use std::time::Duration;

use innkeeper_mcp::{BaseEnvironment, Limits, RunnerSettings};
use serde::Deserialize;

/// What `[mcp]` can say.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub(crate) struct McpSection {
    /// Whether any run.
    pub(crate) enabled: bool,
    /// Whether every session has servers of its own, where sessions in one workspace would share them.
    pub(crate) isolate: bool,
    /// How long a server may take to start.
    pub(crate) start_seconds: Option<u64>,
    /// How long a call may take without a sign of life.
    pub(crate) call_seconds: Option<u64>,
}

impl Default for McpSection {
    fn default() -> Self {
        Self {
            enabled: true,
            isolate: false,
            start_seconds: None,
            call_seconds: None,
        }
    }
}

impl McpSection {
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

//! The `[telemetry]` section: the log of the host for clients.

use serde::Deserialize;

/// The keys of `[telemetry]`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(crate) struct TelemetrySection {
    /// Whether clients with the scope admin may subscribe to the log.
    pub(crate) logs: bool,
}

impl Default for TelemetrySection {
    fn default() -> Self {
        Self { logs: true }
    }
}

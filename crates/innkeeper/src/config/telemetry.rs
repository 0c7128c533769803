//! The `[telemetry]` section: what clients are told of the host itself.

use serde::Deserialize;

/// What `[telemetry]` can say.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(crate) struct TelemetrySection {
    /// Whether clients with the scope `admin` may listen to the log.
    pub(crate) logs: bool,
}

impl Default for TelemetrySection {
    fn default() -> Self {
        Self { logs: true }
    }
}

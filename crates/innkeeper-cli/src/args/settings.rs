//! Flags of `innkeeper models` and `innkeeper settings`.

use clap::Args;

use super::ConnectArgs;

/// Flags of `innkeeper models`.
#[derive(Args, Clone, Debug)]
pub struct ModelsArgs {
    /// Print the agents of the host as JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `innkeeper settings`.
#[derive(Args, Clone, Debug)]
pub struct SettingsArgs {
    /// The session: its URI, or the beginning of it or of its last part [default: the latest of this directory].
    #[arg(short, long, value_name = "SESSION")]
    pub session: Option<String>,
    /// Print `{"schema":…,"values":…}` as JSON.
    #[arg(long, conflicts_with = "changes")]
    pub json: bool,
    /// Settings to change, such as `approvalMode=ask`; the value is JSON, or else a text.
    #[arg(value_name = "NAME=VALUE")]
    pub changes: Vec<String>,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

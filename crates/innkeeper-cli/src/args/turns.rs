//! Flags of the commands about turns: `attach`, `resume`, `cancel`, `queue` and `steer`.

use clap::Args;

use super::{ConnectArgs, FollowArgs, SessionArg};

/// Flags of `innkeeper attach`.
#[derive(Args, Clone, Debug)]
pub struct AttachArgs {
    /// Number of earlier turns to show.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub turns: usize,
    #[command(flatten)]
    pub session: SessionArg,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `innkeeper resume`.
#[derive(Args, Clone, Debug)]
pub struct ResumeArgs {
    #[command(flatten)]
    pub follow: FollowArgs,
    #[command(flatten)]
    pub session: SessionArg,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `innkeeper cancel`.
#[derive(Args, Clone, Debug)]
pub struct CancelArgs {
    #[command(flatten)]
    pub session: SessionArg,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `innkeeper queue` and `innkeeper steer`.
#[derive(Args, Clone, Debug)]
pub struct MessageArgs {
    /// The session: its URI, or the beginning of it or of its last part [default: the latest of this directory].
    #[arg(short, long, value_name = "SESSION")]
    pub session: Option<String>,
    /// The message; several words are joined by spaces.
    #[arg(value_name = "TEXT", required = true)]
    pub text: Vec<String>,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

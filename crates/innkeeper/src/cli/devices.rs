//! Flags of `innkeeper open`, `innkeeper pair` and `innkeeper devices`.

use clap::{Args, Subcommand};
use innkeeper_cli::args::CommonArgs;
use innkeeper_cli::failure::exit_code_table;
use url::Url;

use crate::devices::DEFAULT_DAYS;

/// Flags of `innkeeper open`.
#[derive(Args, Clone, Debug)]
pub(crate) struct OpenArgs {
    /// Print the link without opening a browser.
    #[arg(long)]
    pub(crate) no_browser: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// Flags of `innkeeper pair`.
#[derive(Args, Clone, Debug)]
pub(crate) struct PairArgs {
    /// The device may only look.
    #[arg(long, conflicts_with = "drive")]
    pub(crate) view: bool,
    /// The device may work in sessions, but not change the host itself.
    #[arg(long)]
    pub(crate) drive: bool,
    /// How many days the device stays signed in.
    #[arg(long, value_name = "DAYS", default_value_t = DEFAULT_DAYS, value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub(crate) days: u32,
    /// The address under which the device reaches the host, for instance https://inn.example.com [default: the address
    /// of the running host].
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<Url>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// Flags of `innkeeper devices`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct DevicesArgs {
    #[command(subcommand)]
    pub(crate) command: Option<DevicesCommand>,
    #[command(flatten)]
    pub(crate) list: DevicesListArgs,
}

/// The subcommands of `innkeeper devices`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum DevicesCommand {
    /// List the browsers that are signed in; this is the default.
    #[command(after_long_help = exit_code_table())]
    List(DevicesListArgs),
    /// Sign a browser out; a running host ends its connections within a second or two.
    #[command(after_long_help = exit_code_table())]
    Revoke(RevokeArgs),
}

/// Flags of `innkeeper devices list`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DevicesListArgs {
    /// Print one device as JSON per line.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// Flags of `innkeeper devices revoke`.
#[derive(Args, Clone, Debug)]
pub(crate) struct RevokeArgs {
    /// The id of the device, or the beginning of it.
    #[arg(value_name = "DEVICE", required_unless_present = "all")]
    pub(crate) device: Option<String>,
    /// Sign all devices out.
    #[arg(long, conflicts_with = "device")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

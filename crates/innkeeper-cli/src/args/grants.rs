//! Flags of `innkeeper grants`.

use clap::{Args, Subcommand};

use super::ConnectArgs;
use crate::failure::exit_code_table;

/// Flags of `innkeeper grants`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct GrantsArgs {
    #[command(subcommand)]
    pub command: Option<GrantsCommand>,
    #[command(flatten)]
    pub list: ListGrantsArgs,
}

impl GrantsArgs {
    /// Returns the flags that name the host.
    pub(crate) fn connect(&self) -> &ConnectArgs {
        match &self.command {
            None => &self.list.connect,
            Some(GrantsCommand::List(args)) => &args.connect,
            Some(GrantsCommand::Allow(args)) => &args.connect,
            Some(GrantsCommand::Revoke(args)) => &args.connect,
        }
    }
}

/// The subcommands of `innkeeper grants`.
#[derive(Clone, Debug, Subcommand)]
pub enum GrantsCommand {
    /// List grants and requests; this is the default.
    #[command(after_long_help = exit_code_table())]
    List(ListGrantsArgs),
    /// Grant a client a file or a directory, or its request.
    #[command(after_long_help = exit_code_table())]
    Allow(AllowArgs),
    /// Revoke the grants and requests of a client.
    #[command(after_long_help = exit_code_table())]
    Revoke(RevokeArgs),
}

/// Flags of `innkeeper grants list`.
#[derive(Args, Clone, Debug)]
pub struct ListGrantsArgs {
    /// Print the host's response as JSON instead of text.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `innkeeper grants allow`.
#[derive(Args, Clone, Debug)]
pub struct AllowArgs {
    /// The client, as `innkeeper grants` shows it [default: the only one with a request].
    #[arg(value_name = "CLIENT")]
    pub client: Option<String>,
    /// The file or directory, as a path or a file: URI [default: the only request of the client].
    #[arg(value_name = "PLACE", requires = "client")]
    pub place: Option<String>,
    /// Grant writing as well; without PLACE, the request decides.
    #[arg(long, requires = "place")]
    pub write: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `innkeeper grants revoke`.
#[derive(Args, Clone, Debug)]
pub struct RevokeArgs {
    /// The client, as `innkeeper grants` shows it.
    #[arg(value_name = "CLIENT")]
    pub client: String,
    /// The file or directory, as a path or a file: URI [default: all of them].
    #[arg(value_name = "PLACE")]
    pub place: Option<String>,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

//! The flags of `innkeeper grants`.

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
    /// List what clients were granted and what they ask for; this is what `innkeeper grants` alone does.
    #[command(after_long_help = exit_code_table())]
    List(ListGrantsArgs),
    /// Grant a client a file or a directory, or what it asks for.
    #[command(after_long_help = exit_code_table())]
    Allow(AllowArgs),
    /// Take back what a client was granted, and what it asks for.
    #[command(after_long_help = exit_code_table())]
    Revoke(RevokeArgs),
}

/// Flags of `innkeeper grants list`.
#[derive(Args, Clone, Debug)]
pub struct ListGrantsArgs {
    /// Print the host's answer as JSON instead of words.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `innkeeper grants allow`.
#[derive(Args, Clone, Debug)]
pub struct AllowArgs {
    /// The client, as `innkeeper grants` shows it [default: the only one that asks for something].
    #[arg(value_name = "CLIENT")]
    pub client: Option<String>,
    /// The file or directory, as a path or a file: URI [default: the only one that the client asks for].
    #[arg(value_name = "PLACE", requires = "client")]
    pub place: Option<String>,
    /// Let it write there as well; without PLACE, what was asked for counts.
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

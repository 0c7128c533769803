//! Flags of `innkeeper terminals`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::ConnectArgs;
use crate::failure::exit_code_table;

/// Flags of `innkeeper terminals`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct TerminalsArgs {
    #[command(subcommand)]
    pub command: Option<TerminalsCommand>,
    #[command(flatten)]
    pub list: ListTerminalsArgs,
}

impl TerminalsArgs {
    /// Returns the flags that name the host.
    pub(crate) fn connect(&self) -> &ConnectArgs {
        match &self.command {
            None => &self.list.connect,
            Some(TerminalsCommand::List(args)) => &args.connect,
            Some(TerminalsCommand::Attach(args) | TerminalsCommand::Kill(args)) => &args.connect,
            Some(TerminalsCommand::New(args)) => &args.connect,
        }
    }
}

/// The subcommands of `innkeeper terminals`.
#[derive(Clone, Debug, Subcommand)]
pub enum TerminalsCommand {
    /// List the terminals of the host; this is the default.
    #[command(after_long_help = exit_code_table())]
    List(ListTerminalsArgs),
    /// Show a terminal and type into it, until Ctrl-] detaches.
    #[command(after_long_help = exit_code_table())]
    Attach(TerminalArgs),
    /// Start a shell in a new terminal and attach to it.
    #[command(after_long_help = exit_code_table())]
    New(NewTerminalArgs),
    /// End the process of a terminal and remove the terminal.
    #[command(after_long_help = exit_code_table())]
    Kill(TerminalArgs),
}

/// Flags of `innkeeper terminals list`.
#[derive(Args, Clone, Debug)]
pub struct ListTerminalsArgs {
    /// Print the list as JSON instead of text.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of the commands about one terminal.
#[derive(Args, Clone, Debug)]
pub struct TerminalArgs {
    /// The terminal: its URI, the end of its URI, or its title [default: the only one].
    #[arg(value_name = "TERMINAL")]
    pub terminal: Option<String>,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `innkeeper terminals new`.
#[derive(Args, Clone, Debug)]
pub struct NewTerminalArgs {
    /// Title of the terminal [default: the name of the shell].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Directory to start in, on the host's machine [default: the host's default].
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Print the terminal's URI and leave the terminal running, instead of attaching to it.
    #[arg(long)]
    pub detached: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

//! Flags of `innkeeper approvals`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::ConnectArgs;
use crate::failure::exit_code_table;

/// Flags of `innkeeper approvals`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ApprovalsArgs {
    #[command(subcommand)]
    pub command: Option<ApprovalsCommand>,
    #[command(flatten)]
    pub list: ListApprovalsArgs,
}

impl ApprovalsArgs {
    /// Returns the flags that name the host.
    pub(crate) fn connect(&self) -> &ConnectArgs {
        match &self.command {
            None => &self.list.connect,
            Some(ApprovalsCommand::List(args)) => &args.connect,
            Some(ApprovalsCommand::Allow(args)) => &args.connect,
            Some(ApprovalsCommand::Revoke(args)) => &args.connect,
        }
    }
}

/// The subcommands of `innkeeper approvals`.
#[derive(Clone, Debug, Subcommand)]
pub enum ApprovalsCommand {
    /// List the rules; this is the default.
    #[command(after_long_help = exit_code_table())]
    List(ListApprovalsArgs),
    /// Add a rule: matching tool calls run without confirmation.
    #[command(after_long_help = exit_code_table())]
    Allow(AllowApprovalArgs),
    /// Remove a rule, so that matching calls need a confirmation again.
    #[command(after_long_help = exit_code_table())]
    Revoke(RevokeApprovalArgs),
}

/// Flags of `innkeeper approvals list`.
#[derive(Args, Clone, Debug)]
pub struct ListApprovalsArgs {
    /// Show this session, by its URI [default: the sessions that the host has in memory].
    #[arg(long, value_name = "URI")]
    pub session: Option<String>,
    /// Print the host's response as JSON instead of text.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// The sessions that an approval applies to.
#[derive(Args, Clone, Debug)]
pub struct ApprovalScopeArgs {
    /// In this session, by its URI.
    #[arg(long, value_name = "URI", conflicts_with_all = ["directory", "everywhere"])]
    pub session: Option<String>,
    /// In the sessions of this working directory, as a path or a file: URI [default: the current directory].
    #[arg(long, value_name = "DIR", conflicts_with = "everywhere")]
    pub directory: Option<PathBuf>,
    /// In all sessions of the host.
    #[arg(long)]
    pub everywhere: bool,
}

/// Flags of `innkeeper approvals allow`.
#[derive(Args, Clone, Debug)]
pub struct AllowApprovalArgs {
    /// The rule, for instance 'run_command(cargo test *)', 'edit(src/)' or 'fetch(docs.rs)'.
    #[arg(value_name = "RULE")]
    pub rule: String,
    #[command(flatten)]
    pub scope: ApprovalScopeArgs,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `innkeeper approvals revoke`.
#[derive(Args, Clone, Debug)]
pub struct RevokeApprovalArgs {
    /// The rule, as `innkeeper approvals` shows it.
    #[arg(value_name = "RULE", required_unless_present = "all")]
    pub rule: Option<String>,
    /// Remove all rules.
    #[arg(long, conflicts_with = "rule")]
    pub all: bool,
    #[command(flatten)]
    pub scope: ApprovalScopeArgs,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

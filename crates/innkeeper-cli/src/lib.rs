//! The client commands of `innkeeper`: ordinary AHP clients that talk to a running host through the official `ahp`
//! crate.
//!
//! This crate depends on none of the host's crates, so its commands cannot use anything that other clients do not have.
//! Work on persisted sessions without a running host is behind [`sessions::SessionBackend`], which the program implements
//! with the store.

pub mod args;
pub mod connection;
pub mod discovery;
pub mod enablement;
pub mod failure;
pub mod format;
pub mod sessions;
pub mod terminal;

mod approvals;
mod changes;
mod follow;
mod grants;
mod mcp;
mod pending;
mod send;
mod settings;
mod terminals;
mod turns;
mod watch;

use clap::Subcommand;

use ahp_types::state::PendingMessageKind;
use args::{
    AnswerArgs, ApprovalsArgs, ApproveArgs, AttachArgs, CancelArgs, ChangesArgs, CommonArgs, DenyArgs, GrantsArgs,
    McpArgs, MessageArgs, ModelsArgs, PendingArgs, ResumeArgs, SendArgs, SettingsArgs, TerminalsArgs, WatchArgs,
};
use discovery::DataDir;
use failure::{Failure, Kind, exit_code_table};

pub use send::PLUGIN_NAME;

/// The commands that need nothing but a running host.
#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// Send a message to a session and stream the response to standard output.
    #[command(after_long_help = exit_code_table())]
    Send(SendArgs),
    /// Show the latest turns of a session, then everything that happens there, until Ctrl-C.
    #[command(after_long_help = exit_code_table())]
    Attach(AttachArgs),
    /// Cancel the turn that runs in a session.
    #[command(after_long_help = exit_code_table())]
    Cancel(CancelArgs),
    /// Add a message that follows the running turn of a session.
    #[command(after_long_help = exit_code_table())]
    Queue(MessageArgs),
    /// Hand a message to the running turn of a session.
    #[command(after_long_help = exit_code_table())]
    Steer(MessageArgs),
    /// Resume the latest turn of a session, if it failed with an error that allows it.
    #[command(after_long_help = exit_code_table())]
    Resume(ResumeArgs),
    /// List the agents of the host and their models.
    #[command(after_long_help = exit_code_table())]
    Models(ModelsArgs),
    /// List or change the settings of a session.
    #[command(after_long_help = exit_code_table())]
    Settings(SettingsArgs),
    /// Print a channel's state, then its actions as they come, until Ctrl-C.
    #[command(after_long_help = exit_code_table())]
    Watch(WatchArgs),
    /// Print which files a session or one of its turns changed.
    #[command(after_long_help = exit_code_table())]
    Changes(ChangesArgs),
    /// List, start, stop and sign in to the MCP servers of a session, or call a tool of one; lists by default.
    #[command(after_long_help = exit_code_table())]
    Mcp(McpArgs),
    /// List the inputs that sessions wait for: approvals, questions, sign-ins.
    #[command(after_long_help = exit_code_table())]
    Pending(PendingArgs),
    /// Approve a pending tool call, or its result.
    #[command(after_long_help = exit_code_table())]
    Approve(ApproveArgs),
    /// Deny a pending tool call, or its result.
    #[command(after_long_help = exit_code_table())]
    Deny(DenyArgs),
    /// Answer the questions of an agent.
    #[command(after_long_help = exit_code_table())]
    Answer(AnswerArgs),
    /// List, allow and revoke access of clients to files besides those of their sessions; lists by default.
    #[command(after_long_help = exit_code_table())]
    Grants(GrantsArgs),
    /// List, allow and revoke tool calls without confirmation, in a session, in a workspace or everywhere; lists by
    /// default.
    #[command(after_long_help = exit_code_table())]
    Approvals(ApprovalsArgs),
    /// List, open, attach to and end the terminals of the host; lists by default.
    #[command(after_long_help = exit_code_table())]
    Terminals(TerminalsArgs),
}

impl ClientCommand {
    /// Returns the flags from which the program finds its configuration and the data directory.
    pub fn common(&self) -> &CommonArgs {
        let connect = match self {
            Self::Send(args) => &args.connect,
            Self::Attach(args) => &args.connect,
            Self::Cancel(args) => &args.connect,
            Self::Queue(args) | Self::Steer(args) => &args.connect,
            Self::Resume(args) => &args.connect,
            Self::Models(args) => &args.connect,
            Self::Settings(args) => &args.connect,
            Self::Watch(args) => &args.connect,
            Self::Changes(args) => &args.connect,
            Self::Mcp(args) => args.connect(),
            Self::Pending(args) => &args.connect,
            Self::Approve(args) => &args.connect,
            Self::Deny(args) => &args.connect,
            Self::Answer(args) => &args.connect,
            Self::Grants(args) => args.connect(),
            Self::Approvals(args) => args.connect(),
            Self::Terminals(args) => args.connect(),
        };
        &connect.common
    }

    /// Runs the command. Without `--url` it connects to the host that runs on `dir`.
    pub fn run(self, dir: &DataDir) -> Result<(), Failure> {
        block_on(async {
            match self {
                Self::Send(args) => send::run(dir, args).await,
                Self::Attach(args) => turns::attach(dir, args).await,
                Self::Cancel(args) => turns::cancel(dir, args).await,
                Self::Queue(args) => turns::add_message(dir, args, PendingMessageKind::Queued).await,
                Self::Steer(args) => turns::add_message(dir, args, PendingMessageKind::Steering).await,
                Self::Resume(args) => turns::resume(dir, args).await,
                Self::Models(args) => settings::models(dir, args).await,
                Self::Settings(args) => settings::run(dir, args).await,
                Self::Watch(args) => watch::run(dir, args).await,
                Self::Changes(args) => changes::run(dir, args).await,
                Self::Mcp(args) => mcp::run(dir, args).await,
                Self::Pending(args) => pending::list(dir, args).await,
                Self::Approve(args) => pending::approve(dir, args).await,
                Self::Deny(args) => pending::deny(dir, args).await,
                Self::Answer(args) => pending::answer(dir, args).await,
                Self::Grants(args) => grants::run(dir, args).await,
                Self::Approvals(args) => approvals::run(dir, args).await,
                Self::Terminals(args) => terminals::run(dir, args).await,
            }
        })
    }
}

/// Runs a client on one thread.
///
/// One thread also keeps the official client from dropping events: its reader yields after a bounded number of messages,
/// far below the size of its event buffer.
pub fn block_on(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            Failure::new(
                Kind::Unexpected,
                format!("the program cannot start its event loop ({error})"),
            )
        })?;
    runtime.block_on(command)
}

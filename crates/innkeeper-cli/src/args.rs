//! The command lines of client commands.

mod approvals;
mod grants;
mod mcp;
mod sessions;
mod settings;
mod terminals;
mod turns;

use std::path::PathBuf;

use clap::Args;

pub use approvals::{
    AllowApprovalArgs, ApprovalScopeArgs, ApprovalsArgs, ApprovalsCommand, ListApprovalsArgs, RevokeApprovalArgs,
};
pub use grants::{AllowArgs, GrantsArgs, GrantsCommand, ListGrantsArgs, RevokeArgs};
pub use mcp::{McpArgs, McpAuthArgs, McpCallArgs, McpCommand, McpListArgs, McpServerArgs, McpSessionArgs};
pub use sessions::{
    ArchiveArgs, DeleteArgs, ExportArgs, ImportArgs, ListArgs, PruneArgs, RenameArgs, RestoreArgs, SessionsArgs,
    SessionsCommand, ShowArgs,
};
pub use settings::{ModelsArgs, SettingsArgs};
pub use terminals::{ListTerminalsArgs, NewTerminalArgs, TerminalArgs, TerminalsArgs, TerminalsCommand};
pub use turns::{AttachArgs, CancelArgs, MessageArgs, ResumeArgs};

/// Flags that every command understands.
#[derive(Args, Clone, Debug, Default)]
pub struct CommonArgs {
    /// Directory for the host's token and state [default: the platform's data directory].
    #[arg(long, value_name = "DIR", env = "INNKEEPER_DATA")]
    pub data: Option<PathBuf>,
    /// Configuration file [default: innkeeper.toml in the platform's configuration directory, if there is one].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Log filter for standard error, for instance `debug` or `warn,innkeeper_host=trace`.
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
}

/// The flags that select the host of a client command.
#[derive(Args, Clone, Debug, Default)]
pub struct ConnectArgs {
    /// Address of the host, ws:// or wss:// [default: the host that runs on the data directory].
    // The address may have a token in its query.
    #[arg(long, value_name = "URL", env = "INNKEEPER_URL", hide_env_values = true)]
    pub url: Option<String>,
    /// File with the token to send [default: the one that the running host names; none for any other --url].
    #[arg(long, value_name = "FILE", env = "INNKEEPER_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    #[command(flatten)]
    pub common: CommonArgs,
}

/// The session of a command.
#[derive(Args, Clone, Debug, Default)]
pub struct SessionArg {
    /// The session: its URI, or the beginning of it or of its last part [default: the latest of this directory].
    #[arg(value_name = "SESSION")]
    pub session: Option<String>,
}

/// Flags of the commands that show a turn to its end.
#[derive(Args, Clone, Debug, Default)]
pub struct FollowArgs {
    /// Deny everything that the turn asks, instead of asking the user.
    #[arg(long)]
    pub deny: bool,
    /// Cancel the turn after this many seconds.
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<u64>,
    /// Print the action envelopes of the session and its chat as JSON, one per line, instead of the text; the last line
    /// is `{"summary":{"session","chat","turn","outcome","error","text","usage"}}`.
    #[arg(long)]
    pub json: bool,
}

/// Flags of `innkeeper send`.
#[derive(Args, Clone, Debug)]
pub struct SendArgs {
    /// Session to continue: its URI, or the beginning of it or of its last part [default: create one].
    #[arg(short, long, value_name = "SESSION", conflicts_with = "provider")]
    pub session: Option<String>,
    /// Continue the latest session of this directory.
    #[arg(short = 'c', long, conflicts_with_all = ["session", "provider", "directory"])]
    pub last: bool,
    /// Working directory of the new session [default: the current directory, unless --url names a host on another
    /// machine].
    #[arg(long, value_name = "DIR", conflicts_with = "session")]
    pub directory: Option<PathBuf>,
    /// Model for this message [default: the agent's choice].
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Custom agent of the session for this message, by its name, as plugin:name, or by its URI.
    #[arg(long = "as", value_name = "AGENT")]
    pub custom_agent: Option<String>,
    /// Agent for the new session [default: the host's choice].
    #[arg(long, value_name = "PROVIDER")]
    pub provider: Option<String>,
    /// Attach a file or an image; may be repeated.
    #[arg(short, long, value_name = "FILE")]
    pub attach: Vec<PathBuf>,
    /// Allow calls that match this rule in the session from now on, such as `run_command(cargo test *)`; may be repeated.
    ///
    /// `innkeeper approvals` lists and revokes such rules.
    #[arg(long, value_name = "RULE")]
    pub approve: Vec<String>,
    #[command(flatten)]
    pub follow: FollowArgs,
    /// The message; several words are joined by spaces. Piped standard input is added below it, or is the message.
    #[arg(value_name = "TEXT")]
    pub text: Vec<String>,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `innkeeper watch`.
#[derive(Args, Clone, Debug)]
pub struct WatchArgs {
    /// Print JSON, one value per line: first the snapshot (unless the channel has no state), then each action envelope;
    /// other notifications as `{"method":…,"params":…}`.
    #[arg(long)]
    pub json: bool,
    /// The channel, for instance ahp-root:// or a session's or a chat's URI; the beginning of a session's is enough.
    #[arg(value_name = "URI")]
    pub uri: String,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `innkeeper changes`.
#[derive(Args, Clone, Debug)]
pub struct ChangesArgs {
    /// Show the changes of one turn, by its id or its number, counted from 1.
    #[arg(long, value_name = "TURN", conflicts_with = "view")]
    pub turn: Option<String>,
    /// The changes to show.
    #[arg(long, value_enum, default_value = "session")]
    pub view: ChangesView,
    /// Print the changed lines.
    #[arg(long)]
    pub diff: bool,
    /// Print the state of the changeset as JSON.
    #[arg(long, conflicts_with = "diff")]
    pub json: bool,
    /// The session: its URI, or the beginning of it or of its last part. The latest one by default.
    #[arg(value_name = "SESSION")]
    pub session: Option<String>,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// The changes that `innkeeper changes` shows.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangesView {
    /// Everything since the session began.
    Session,
    /// Everything that differs from the last commit.
    Uncommitted,
    /// Everything since the branch left its base.
    Branch,
}

/// Flags of `innkeeper pending`.
#[derive(Args, Clone, Debug)]
pub struct PendingArgs {
    /// Print `{"session":…,"request":…}` as JSON, one per line, instead of text.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `innkeeper approve`.
#[derive(Args, Clone, Debug)]
pub struct ApproveArgs {
    /// Id of the approval, as `innkeeper pending` shows it, or a part of it [default: the only one].
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// Option to select, for instance allow-session [default: none, which approves this once].
    #[arg(long, value_name = "OPTION")]
    pub option: Option<String>,
    /// Rule to remember instead of the rule of the option, such as `run_command(cargo test *)`.
    #[arg(long, value_name = "RULE", requires = "option", conflicts_with = "input")]
    pub rule: Option<String>,
    /// Run the tool with this input instead, if the input is editable.
    #[arg(long, value_name = "TEXT")]
    pub input: Option<String>,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `innkeeper deny`.
#[derive(Args, Clone, Debug)]
pub struct DenyArgs {
    /// Id of the approval, as `innkeeper pending` shows it, or a part of it [default: the only one].
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// Reason for the agent.
    #[arg(long, value_name = "TEXT")]
    pub because: Option<String>,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

/// Flags of `innkeeper answer`.
#[derive(Args, Clone, Debug)]
pub struct AnswerArgs {
    /// The answers, as `question=answer`; questions may stay unanswered.
    #[arg(value_name = "QUESTION=ANSWER")]
    pub values: Vec<String>,
    /// Id of the request, as `innkeeper pending` shows it, or a part of it [default: the only one].
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// Decline to answer.
    #[arg(long, conflicts_with = "values")]
    pub decline: bool,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

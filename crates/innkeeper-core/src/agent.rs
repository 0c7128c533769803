//! Messages between the core and an agent, in types of their own: agents never see AHP's types or a sequence number.

use std::sync::Arc;

use crate::ids::{ChannelId, TurnKey};

mod credential;
mod profile;
mod prompt_transform;
mod question;
pub(crate) mod registry;
mod section;
mod tool;
mod transcript;

pub use credential::{Credential, Secret};
pub use profile::{AgentProfile, Choice, CommandInfo, Setting, SettingKind, SettingValue, ToolInfo};
pub use question::{Answer, AnswerValue, Question, QuestionKind, Questions, Response};
pub use section::{STANDARD_SECTIONS, Section, StandardSection};
pub use tool::{
    ApprovalSubject, AuthReason, AuthRequirement, ClientTool, ConfirmOption, Confirmation, Contributor, Decision,
    Description, FileAccess, FileChange, FileSide, McpName, Offer, Permission, Risk, ToolContent, ToolKind, ToolReady,
    ToolReply, ToolResult, ToolStart, ToolStep,
};
pub use transcript::{
    Attachment, NewAnnotation, PastOutcome, PastTool, PastTurn, PastTurns, Remark, SpanEnd, TextSpan, TurnSpan,
    UnreadChat,
};

/// Events that an agent can produce during a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// Markdown for the reader, appended to the open markdown part or starting one.
    Text(String),
    /// The model's thinking, likewise.
    Reasoning(String),
    /// Closes the open part, so that the next text starts a new one.
    EndPart,
    /// Token usage of the turn so far.
    Usage(Box<Usage>),
    /// The agent's activity, for a status line; `None` clears it.
    Activity(Option<String>),
    /// A remark of the system in the transcript (TURN-20).
    Notice(String),
    /// A better title for the session, unless a user chose one.
    Title(String),
    /// The agent changed one of its own settings of the session, such as its mode.
    Setting {
        /// The id of the setting.
        id: String,
        /// The new value.
        value: Box<serde_json::Value>,
    },
    /// Content that is not in the turn itself, because it is long or not text.
    Resource {
        /// Its URI.
        uri: String,
        /// Its media type.
        content_type: Option<String>,
        /// Size in bytes, if known.
        size: Option<u64>,
    },
    /// A tool call takes a step.
    Tool {
        /// The agent's own id of the call, unique in its chat (TOOL-21).
        call: String,
        /// The step.
        step: Box<ToolStep>,
    },
    /// The agent asks the user questions; answered with [`Reply::Answered`].
    Ask(Box<Questions>),
    /// The agent no longer wants to know what it asked, by the id of [`Questions`].
    Withdraw(String),
    /// The agent can take a steering message; answered with [`Reply::Steering`] (PEND-04).
    TakeSteering,
    /// A tool call starts a subagent in a chat of its own; answered with `AgentCommand::StartSubagent` or
    /// with [`Reply::NotSpawned`] (CHT-12).
    Spawn(Box<Spawn>),
    /// The agent comments on a file of its session.
    Annotate(Box<NewAnnotation>),
    /// Nothing to show, but the agent is alive; resets the watchdog.
    Alive,
    /// A value that the agent gets back when the chat is opened the next time, such as its own session id. `null`
    /// deletes it.
    Remember(Box<serde_json::Value>),
    /// The provider did not accept a token: no agent gets it again, and its client is asked for another one
    /// (AUTH-09).
    TokenRefused {
        /// The protected resource.
        resource: String,
        /// The token, so that one that was given since is not taken for it.
        token: Secret,
    },
}

/// A subagent to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawn {
    /// The tool call that starts it.
    pub call: String,
    /// A title for its chat.
    pub title: String,
    /// Its instructions.
    pub prompt: String,
    /// The name of the subagent's kind, such as `explorer`.
    pub agent_name: Option<String>,
    /// A sentence about it.
    pub description: Option<String>,
    /// Whether it outlives the turn that started it, as background work (CHT-24).
    pub detached: bool,
}

/// Messages from the core to an agent in the middle of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// Something happened to one of its tool calls.
    Tool {
        /// The call.
        call: String,
        /// The reply.
        reply: ToolReply,
    },
    /// A user answered.
    Answered {
        /// The id of [`Questions`].
        id: String,
        /// The answer.
        answer: Answer,
    },
    /// The steering message, if there was one.
    Steering(Option<String>),
    /// The subagent cannot be started, and why.
    NotSpawned {
        /// The call that wanted it.
        call: String,
        /// Why not.
        reason: String,
    },
}

/// Work that continues between turns (CHT-24).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackgroundChange {
    /// It started, or its description changed.
    Set {
        /// Its id, unique in the chat.
        id: String,
        /// A short label.
        label: String,
        /// The command that runs.
        command: String,
        /// The terminal that shows its output.
        terminal: Option<String>,
    },
    /// It ended.
    Remove {
        /// Its id.
        id: String,
    },
}

/// Token counts of a turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: Option<u32>,
    /// Tokens written.
    pub output_tokens: Option<u32>,
    /// Tokens read from a cache.
    pub cache_read_tokens: Option<u32>,
    /// The model that was used.
    pub model: Option<String>,
    /// The rules that were applied so far, shown in `_meta["innkeeper.rules"]`.
    pub rules: Vec<AppliedRule>,
    /// Further fields of the agent in `_meta`, each with a name that begins with `innkeeper.`.
    pub meta: serde_json::Map<String, serde_json::Value>,
}

/// A rule that an agent followed in a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedRule {
    /// The id of its customization.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its file.
    pub uri: String,
    /// Why it was applied: `always`, `glob`, `request` or `earlier`.
    pub reason: &'static str,
    /// The file that made it apply.
    pub file: Option<String>,
}

/// End of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEnd {
    /// The agent is done.
    Complete,
    /// The agent noticed the cancellation.
    Cancelled,
    /// The agent could not go on.
    Failed {
        /// The reason.
        failure: Failure,
        /// Whether the agent can really continue this very turn (TURN-13).
        resumable: bool,
    },
}

/// A failure to show to users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// A short name for programs, such as `agentDied`.
    pub kind: String,
    /// A sentence for users.
    pub message: String,
}

impl Failure {
    /// Names a failure.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            message: message.into(),
        }
    }
}

/// A subagent that was started, and the run that belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subagent {
    /// The chat and run of the tool call that started it.
    pub parent: (ChannelId, TurnKey),
    /// That tool call.
    pub call: String,
    /// The subagent's chat.
    pub chat: ChannelId,
    /// Its URI.
    pub chat_uri: Arc<str>,
    /// The subagent's run.
    pub turn: TurnKey,
    /// Whether it outlives its parent's turn.
    pub detached: bool,
}

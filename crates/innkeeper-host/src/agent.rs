//! The traits that an agent implements, and the handles that it gets.
//!
//! Agents never see AHP. An agent gets a user's message and a sink for its output; the host turns that output into
//! actions, in order, for every subscriber. An agent's handles are its permissions: a denied call is gone, a dropped
//! call ends as failed, and every wait ends with its turn.

use std::sync::Arc;

use async_trait::async_trait;
use innkeeper_core::Failure;

use crate::services::customizations::TurnCustomizations;
use crate::services::mcp::{McpTool, Sampler};

mod background;
mod client_tool;
mod context;
mod info;
mod model_info;
pub(crate) mod overflow;
mod prompt;
mod protected_resource;
mod question;
pub(crate) mod runtime;
mod sink;
mod subagent;
mod tool_call;

#[cfg(test)]
mod tests;

pub use background::Background;
pub use client_tool::{ClientCall, ClientDraft};
pub use context::{ChatContext, SettingQuery, TurnInput};
pub use info::{AgentInfo, Directories};
pub use innkeeper_core::agent::{
    Answer, AnswerValue, AppliedRule, ApprovalSubject, Attachment, AuthRequirement, Choice, ClientTool, ConfirmOption,
    Confirmation, Credential, Decision, Description, FileAccess, FileChange, FileSide, Offer, PastOutcome, PastTool,
    PastTurn, Question, QuestionKind, Remark, Response, Risk, STANDARD_SECTIONS, Secret, Section, Setting, SettingKind,
    SettingValue, StandardSection, TextSpan, ToolContent, ToolInfo, ToolKind, ToolResult, Usage,
};
pub use innkeeper_core::{ChatInfo, TurnInfo};
pub use model_info::ModelInfo;
pub use prompt::{PromptSection, RenderedPrompt, RenderedSection};
pub use protected_resource::ProtectedResource;
pub use question::Form;
pub use sink::EventSink;
pub use subagent::{Subagent, SubagentEnd, SubagentSpec};
pub(crate) use tool_call::refused;
pub use tool_call::{Invocation, RiskReporter, SignIn, ToolCall, ToolCallBuilder, ToolDraft, Verdict};

/// A back end that can hold conversations.
///
/// ```
/// use innkeeper_host::{Agent, AgentChat, AgentError, AgentInfo, ChatContext, EventSink, TurnInput, async_trait};
///
/// struct Echo;
///
/// #[async_trait]
/// impl Agent for Echo {
///     fn info(&self) -> AgentInfo {
///         AgentInfo::new("echo", "Echo", "Repeats what you say.")
///     }
///     async fn open_chat(&self, _: ChatContext) -> Result<Box<dyn AgentChat>, AgentError> {
///         Ok(Box::new(Echo))
///     }
/// }
///
/// #[async_trait]
/// impl AgentChat for Echo {
///     async fn run_turn(&mut self, turn: TurnInput, events: EventSink) -> Result<(), AgentError> {
///         events.text(format!("You said: {}", turn.text)).await?;
///         Ok(())
///     }
/// }
/// ```
#[async_trait]
pub trait Agent: Send + Sync + 'static {
    /// Returns the name, the description and the abilities of the agent, as clients show them.
    fn info(&self) -> AgentInfo;

    /// Brings up what one chat needs. Runs while the session is shown as being created; an error
    /// becomes the session's failure.
    async fn open_chat(&self, cx: ChatContext) -> Result<Box<dyn AgentChat>, AgentError>;

    /// The model that writes for apps of MCP servers, as a turn with these settings and credentials would use it.
    /// [`AgentInfo::with_app_sampling`] promises that there is one. Users have allowed each request that it gets.
    ///
    /// # Errors
    ///
    /// Fails with the reason, as a sentence for users.
    async fn sampler(&self, turn: &TurnInput) -> Result<Option<Arc<dyn Sampler>>, AgentError> {
        let _ = turn;
        Ok(None)
    }

    /// Suggests the message of a commit from the changes that it makes. The settings and credentials are those of a turn
    /// that the user of the commit would start. `None` leaves the message to the host, which takes the session's title.
    async fn commit_message(&self, turn: &TurnInput, changes: &str) -> Option<String> {
        let _ = (turn, changes);
        None
    }

    /// Returns the tools that the model may call in a session right now, those of ready MCP servers included. Clients
    /// show them with the session. The host calls this again when the customizations of the session change. It must
    /// return at once.
    ///
    /// By default, an agent offers every tool that its [description](Self::info) lists and every tool of an MCP server
    /// that is visible to models.
    fn session_tools(&self, session: &TurnCustomizations) -> Vec<ToolInfo> {
        let mut tools = self.info().into_tools();
        let of_servers = session.mcp().tools();
        tools.extend(of_servers.iter().map(McpTool::info));
        tools
    }

    /// Finds values of a setting of kind [`SettingKind::Search`](innkeeper_core::agent::SettingKind::Search)
    /// while a user types. Best first; the host gives up after its `look_up_time`.
    async fn setting_values(&self, query: SettingQuery) -> Vec<SettingValue> {
        let _ = query;
        Vec::new()
    }
}

/// One conversation. `&mut self` means one turn at a time.
#[async_trait]
pub trait AgentChat: Send {
    /// Runs one turn to its end.
    ///
    /// When the turn is cancelled, every method of `events`, and of everything that came from it,
    /// fails with [`AgentError::Cancelled`]; an agent that uses `?` on them stops by itself. One that does not return within the host's
    /// `cancel_time` has its future dropped.
    async fn run_turn(&mut self, turn: TurnInput, events: EventSink) -> Result<(), AgentError>;
}

/// The kind of an error that says that a tool call may not run.
const DENIED: &str = "toolDenied";

/// Why a turn or a chat did not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// The turn was cancelled; users see no error.
    #[error("the turn was cancelled")]
    Cancelled,
    /// Something failed, and the session's users see why.
    #[error("{message}")]
    Failed {
        /// A short name for programs.
        kind: String,
        /// A sentence for users: the problem and its remedy.
        message: String,
        /// Whether this turn can be resumed (TURN-13).
        resumable: bool,
    },
}

impl AgentError {
    /// A failure that ends the turn for good.
    pub fn failed(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Failed {
            kind: kind.into(),
            message: message.into(),
            resumable: false,
        }
    }

    /// A failure after which the turn can be resumed.
    pub fn resumable(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Failed {
            kind: kind.into(),
            message: message.into(),
            resumable: true,
        }
    }

    /// A denied tool call, which is over. The turn continues if the agent reports the denial to its model.
    pub(crate) fn denied(reason: impl Into<String>) -> Self {
        Self::failed(DENIED, reason)
    }

    /// Returns the reason if this error is a denied tool call: the call is over, the turn is not. A hook can also
    /// refuse a call that needs no confirmation ([`ToolDraft::run`]); an agent gives the reason to its model, or ends
    /// the turn with it.
    pub fn denial(&self) -> Option<&str> {
        match self {
            Self::Failed { kind, message, .. } if kind == DENIED => Some(message),
            Self::Failed { .. } | Self::Cancelled => None,
        }
    }

    pub(crate) fn into_failure(self) -> Failure {
        match self {
            Self::Cancelled => Failure::new("cancelled", "the session was closed while it was being opened"),
            Self::Failed { kind, message, .. } => Failure::new(kind, message),
        }
    }
}

//! Hooks: commands of plugins and workspaces that run at certain moments of a turn.
//!
//! The host reports the moment. An implementation of [`Hooks`] knows which commands run then, whether they are trusted,
//! and the output format of each. The outcome has one format.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::agent::EventSink;
use crate::services::mcp::ServerTool;

/// A moment at which hooks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HookEvent {
    /// A chat has its first turn since it was opened; the subject is `startup` or `resume`.
    SessionStart,
    /// A session ended, or leaves memory.
    SessionEnd,
    /// A user sent a message. Hooks can refuse it, and add context.
    UserPromptSubmit,
    /// A tool is about to be called. Hooks can refuse it.
    PreToolUse,
    /// A tool was called.
    PostToolUse,
    /// A tool was called and failed.
    PostToolUseFailure,
    /// The agent is done. Hooks can tell it to continue.
    Stop,
    /// A subagent starts.
    SubagentStart,
    /// A subagent is done.
    SubagentStop,
    /// The agent waits for a user.
    Notification,
}

/// One moment, with the input of its hooks.
#[derive(Debug, Clone)]
pub struct HookCall {
    /// The moment.
    pub event: HookEvent,
    /// The text that matchers are compared with: the name of the tool, the source of a start, the kind of a
    /// notification.
    pub subject: String,
    /// The tool of an MCP server that the moment is about. Hooks have other names for it.
    pub mcp: Option<ServerTool>,
    /// The session's URI.
    pub session: Arc<str>,
    /// The id of the turn, so that a user is asked at most once per turn; empty between turns.
    pub turn: Arc<str>,
    /// Where the chat works, as URIs.
    pub working_directories: Vec<String>,
    /// The input of this hook in addition to the input of every hook.
    pub input: Map<String, Value>,
}

/// The combined outcome of all hooks of a moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookOutcome {
    /// Refuses the message or tool call, with the reason.
    pub deny: Option<String>,
    /// The user has to confirm, even if the policy would allow it.
    pub ask: bool,
    /// The call with [this input](Self::input) needs no confirmation: the hook that allowed it has seen it.
    pub allow: bool,
    /// Another input for the tool.
    pub input: Option<Value>,
    /// Context for the model.
    pub context: Vec<String>,
    /// Notices for the user, such as failures of hooks.
    pub notices: Vec<String>,
    /// Ends the turn, with the reason.
    pub stop: Option<String>,
}

/// Runs hooks.
#[async_trait]
pub trait Hooks: Send + Sync + 'static {
    /// Whether any hook runs at an event.
    fn hear(&self, event: HookEvent, off: &BTreeSet<String>) -> bool;

    /// Runs the hooks of an event. A failed hook yields a notice and is never fatal. `events` asks the user about hooks
    /// without a trust decision; without it they do not run.
    async fn run(&self, call: HookCall, off: &BTreeSet<String>, events: Option<&EventSink>) -> HookOutcome;
}

impl fmt::Debug for dyn Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hooks")
    }
}

/// No hooks.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHooks;

#[async_trait]
impl Hooks for NoHooks {
    fn hear(&self, _: HookEvent, _: &BTreeSet<String>) -> bool {
        false
    }

    async fn run(&self, _: HookCall, _: &BTreeSet<String>, _: Option<&EventSink>) -> HookOutcome {
        HookOutcome::default()
    }
}

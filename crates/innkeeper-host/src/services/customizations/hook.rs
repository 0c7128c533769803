//! Hooks: commands that plugins and workspaces want run at certain moments.
//!
//! The host says what happens; whoever implements [`Hooks`] knows which commands want to hear of it,
//! whether they are trusted, and how each of them answers. What comes back is the same for all.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::agent::EventSink;
use crate::services::mcp::ServerTool;

/// A moment that hooks can hear of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HookEvent {
    /// A chat has its first turn since it was opened; the subject is `startup` or `resume`.
    SessionStart,
    /// A session is over, or leaves memory.
    SessionEnd,
    /// A person said something; can be refused, and something can be added.
    UserPromptSubmit,
    /// A tool is about to be called; can be refused.
    PreToolUse,
    /// A tool was called.
    PostToolUse,
    /// A tool was called and failed.
    PostToolUseFailure,
    /// The agent is done; it can be told to go on.
    Stop,
    /// A subagent starts.
    SubagentStart,
    /// A subagent is done.
    SubagentStop,
    /// The agent waits for people.
    Notification,
}

/// What happens.
#[derive(Debug, Clone)]
pub struct HookCall {
    /// The moment.
    pub event: HookEvent,
    /// What matchers are compared with: the name of the tool, the source of a start, the kind of a
    /// notification.
    pub subject: String,
    /// The tool that the moment is about, if an MCP server has it: hooks know it by other names.
    pub mcp: Option<ServerTool>,
    /// The session's URI.
    pub session: Arc<str>,
    /// The id of the turn, so that nobody is asked twice in one; empty between turns.
    pub turn: Arc<str>,
    /// Where the chat works, as URIs.
    pub working_directories: Vec<String>,
    /// What the hook is told, besides what every hook is.
    pub input: Map<String, Value>,
}

/// What hooks want, all of them together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookOutcome {
    /// Refuses what is about to happen, and why.
    pub deny: Option<String>,
    /// People are to be asked, whatever the policy says.
    pub ask: bool,
    /// Nobody needs to be asked about the call with [its input](Self::input): whoever allowed it saw that one.
    pub allow: bool,
    /// Another input for the tool.
    pub input: Option<Value>,
    /// What the model is to be told.
    pub context: Vec<String>,
    /// What people are to be told: failures of hooks among it.
    pub notices: Vec<String>,
    /// The turn ends here, and why.
    pub stop: Option<String>,
}

/// Runs hooks.
#[async_trait]
pub trait Hooks: Send + Sync + 'static {
    /// Whether any hook wants to hear of an event.
    fn hear(&self, event: HookEvent, off: &BTreeSet<String>) -> bool;

    /// Runs those that do. A hook that fails is told in a notice and is never fatal. `events` asks
    /// people whether they trust what they have not decided about yet; without it, that is not run.
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

//! Subagents: chats that a tool call starts, and that its agent drives.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use innkeeper_core::TurnEnd;
use innkeeper_core::agent::Spawn;
use tokio_util::sync::CancellationToken;

use super::{AgentError, EventSink};
use crate::agent::runtime::driver::{cancel_timed_out, died, turn_end};

/// The task of a subagent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubagentSpec {
    title: String,
    prompt: String,
    kind: Option<String>,
    description: Option<String>,
    detached: bool,
}

impl SubagentSpec {
    /// Creates a subagent with a title for its chat and a prompt. It ends with the turn that started it.
    pub fn new(title: impl Into<String>, prompt: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            prompt: prompt.into(),
            kind: None,
            description: None,
            detached: false,
        }
    }

    /// The name of the subagent's kind, such as `explorer`.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// A sentence about it.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Lets it outlive the turn that started it, as background work (CHT-24).
    #[must_use]
    pub fn detached(mut self) -> Self {
        self.detached = true;
        self
    }

    pub(super) fn kind_name(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    pub(super) fn into_spawn(self, call: String) -> Spawn {
        Spawn {
            call,
            title: self.title,
            prompt: self.prompt,
            agent_name: self.kind,
            description: self.description,
            detached: self.detached,
        }
    }
}

/// A started subagent: a chat with one turn, driven by the owner of this handle. Made by
/// [`ToolCall::subagent`](super::ToolCall::subagent). Dropping it ends the turn as cancelled.
///
/// When the turn that started it ends, its own is cancelled with it, unless it is detached. Users can also cancel its
/// turn; then everything that waits in it fails with [`AgentError::Cancelled`].
#[derive(Debug)]
#[must_use = "a subagent that is dropped ends as cancelled"]
pub struct Subagent {
    events: EventSink,
    uri: Arc<str>,
    /// The turn that waits for it; a detached subagent is not waited for.
    parent: CancellationToken,
    is_over: bool,
}

/// How a subagent that did not fail ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubagentEnd {
    /// It did its work.
    Done,
    /// A user stopped this subagent only.
    Stopped,
}

impl Subagent {
    pub(crate) fn new(events: EventSink, uri: Arc<str>, parent: CancellationToken) -> Self {
        Self {
            events,
            uri,
            parent,
            is_over: false,
        }
    }

    /// Where its output goes. It can do all that the agent itself can, start subagents included.
    pub fn events(&self) -> &EventSink {
        &self.events
    }

    /// The URI of its chat.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Ends its turn.
    pub fn finish(mut self, result: Result<(), AgentError>) {
        self.end(turn_end(result));
    }

    /// Runs the given work, and ends the subagent's turn with its outcome. If users stop only the subagent, its parent
    /// gets no error. Several subagents can be driven at once, for instance with `tokio::join!`. Work that panics ends
    /// the subagent's turn with an error, and no other.
    pub async fn drive<W, F>(self, work: W) -> Result<SubagentEnd, AgentError>
    where
        W: FnOnce(EventSink) -> F + Send,
        F: Future<Output = Result<(), AgentError>> + Send,
    {
        let mut subagent = self;
        let events = subagent.events.clone();
        let timeout = events.link.cancel_time();
        let cancelled = events.cancelled.clone();
        // Called inside, so that also a panic before the first await is caught.
        let driving = AssertUnwindSafe(async move {
            work(events.clone()).await?;
            events.turn_ends().await
        })
        .catch_unwind();
        let result = tokio::select! {
            result = driving => result,
            () = cancel_timed_out(&cancelled, timeout) => Ok(Err(AgentError::Cancelled)),
        };
        match result {
            Ok(result) => {
                subagent.end(turn_end(result.clone()));
                match result {
                    Ok(()) => Ok(SubagentEnd::Done),
                    Err(AgentError::Cancelled) if !subagent.parent.is_cancelled() => Ok(SubagentEnd::Stopped),
                    Err(error) => Err(error),
                }
            }
            Err(_) => {
                let message = "the subagent failed in the middle of its turn; see the host's log";
                subagent.end(died(message));
                Err(AgentError::failed("agentDied", message))
            }
        }
    }

    /// Drives it in a task of the host, without a waiter; for [`SubagentSpec::detached`] subagents. The task ends with
    /// the subagent's chat.
    pub fn drive_apart<W, F>(self, work: W)
    where
        W: FnOnce(EventSink) -> F + Send + 'static,
        F: Future<Output = Result<(), AgentError>> + Send + 'static,
    {
        let link = Arc::clone(&self.events.link);
        link.run_apart(async move {
            let _ = self.drive(work).await;
        });
    }

    fn end(&mut self, end: TurnEnd) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        if self.events.link.queue.end(self.events.turn, end) {
            self.events.link.wake_now();
        }
        // Everything that still waits in this turn stops waiting.
        self.events.cancelled.cancel();
    }
}

impl Drop for Subagent {
    fn drop(&mut self) {
        self.end(TurnEnd::Cancelled);
    }
}

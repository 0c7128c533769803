//! The seam to agents: what one implements, and what it is given.
//!
//! Agents never see AHP. They get a person's words and a sink for what they produce; the host
//! turns that into actions, in order, for everybody.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use innkeeper_core::{AgentEvent, Failure, TurnKey, Usage};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::events::{EventQueue, Offer};
use crate::host::Message;

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
    /// How the agent is shown to people.
    fn info(&self) -> AgentInfo;

    /// Brings up what one chat needs. Runs while the session is shown as being created; an error
    /// becomes the session's failure.
    async fn open_chat(&self, cx: ChatContext) -> Result<Box<dyn AgentChat>, AgentError>;
}

/// One conversation. `&mut self` means one turn at a time.
#[async_trait]
pub trait AgentChat: Send {
    /// Runs one turn to its end.
    ///
    /// When the turn is cancelled, every method of `events` fails with [`AgentError::Cancelled`];
    /// an agent that uses `?` on them stops by itself. One that does not return within the host's
    /// `cancel_time` has its future dropped.
    async fn run_turn(&mut self, turn: TurnInput, events: EventSink) -> Result<(), AgentError>;
}

/// How an agent is shown to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentInfo {
    /// The id that clients name in `createSession`.
    pub provider: String,
    /// A short name.
    pub display_name: String,
    /// A sentence.
    pub description: String,
    /// The models a message may choose from.
    pub models: Vec<ModelInfo>,
}

/// A model an agent offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// The id that messages name.
    pub id: String,
    /// A short name.
    pub name: String,
}

impl AgentInfo {
    /// An agent without a choice of models.
    pub fn new(provider: &str, display_name: &str, description: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            display_name: display_name.to_owned(),
            description: description.to_owned(),
            models: Vec::new(),
        }
    }

    /// Offers a model.
    #[must_use]
    pub fn with_model(mut self, id: &str, name: &str) -> Self {
        self.models.push(ModelInfo {
            id: id.to_owned(),
            name: name.to_owned(),
        });
        self
    }

    pub(crate) fn into_wire(self) -> ahp_types::state::AgentInfo {
        let models = self.models.into_iter().map(|model| ahp_types::state::SessionModelInfo {
            id: model.id,
            provider: self.provider.clone(),
            name: model.name,
            max_context_window: None,
            max_output_tokens: None,
            max_prompt_tokens: None,
            supports_vision: None,
            policy_state: None,
            config_schema: None,
            meta: None,
        });
        ahp_types::state::AgentInfo {
            models: models.collect(),
            provider: self.provider,
            display_name: self.display_name,
            description: self.description,
            protected_resources: None,
            customizations: None,
            capabilities: None,
        }
    }
}

/// What an agent knows about the chat it opens.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ChatContext {
    /// The session's URI.
    pub session: Arc<str>,
    /// The chat's URI.
    pub chat: Arc<str>,
    /// Where the session works, as URIs.
    pub working_directories: Vec<String>,
}

/// One turn to run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TurnInput {
    /// The turn's id.
    pub turn_id: String,
    /// What the person wrote.
    pub text: String,
    /// The model chosen for this message.
    pub model: Option<String>,
    /// Whether an interrupted turn goes on.
    pub resume: bool,
    /// How many turns this chat completed before.
    pub turns_before: usize,
    /// The session's URI.
    pub session: Arc<str>,
    /// The session's title.
    pub session_title: String,
}

/// Why a turn or a chat did not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// The turn was cancelled; nobody needs to hear more about it.
    #[error("the turn was cancelled")]
    Cancelled,
    /// Something failed, and people are told.
    #[error("{message}")]
    Failed {
        /// A short name for programs.
        kind: String,
        /// A sentence for people: what happened and what to do.
        message: String,
        /// Whether this very turn can go on from here (TURN-13).
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

    pub(crate) fn into_failure(self) -> Failure {
        match self {
            Self::Cancelled => Failure::new("cancelled", "the session was closed while it was being opened"),
            Self::Failed { kind, message, .. } => Failure::new(kind, message),
        }
    }
}

/// Takes what an agent produces during one turn.
///
/// Sending waits while the host is behind, so an agent can never outrun its readers' host.
#[derive(Clone)]
pub struct EventSink {
    pub(crate) inbox: mpsc::Sender<Message>,
    pub(crate) queue: Arc<EventQueue>,
    pub(crate) turn: TurnKey,
    pub(crate) cancelled: CancellationToken,
}

impl fmt::Debug for EventSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventSink")
            .field("chat", &self.queue.chat())
            .field("turn", &self.turn)
            .finish_non_exhaustive()
    }
}

impl EventSink {
    /// Markdown for the reader.
    pub async fn text(&self, text: impl Into<String>) -> Result<(), AgentError> {
        self.send(AgentEvent::Text(text.into())).await
    }

    /// The model's thinking.
    pub async fn reasoning(&self, text: impl Into<String>) -> Result<(), AgentError> {
        self.send(AgentEvent::Reasoning(text.into())).await
    }

    /// Ends the present part, so that the next text starts a new one.
    pub async fn end_part(&self) -> Result<(), AgentError> {
        self.send(AgentEvent::EndPart).await
    }

    /// What the turn has cost so far.
    pub async fn usage(&self, usage: Usage) -> Result<(), AgentError> {
        self.send(AgentEvent::Usage(Box::new(usage))).await
    }

    /// What the agent is doing, for a status line.
    pub async fn activity(&self, activity: impl Into<String>) -> Result<(), AgentError> {
        self.send(AgentEvent::Activity(Some(activity.into()))).await
    }

    /// A remark of the system in the transcript.
    pub async fn notice(&self, text: impl Into<String>) -> Result<(), AgentError> {
        self.send(AgentEvent::Notice(text.into())).await
    }

    /// A better title for the session, unless a person chose one.
    pub async fn title(&self, title: impl Into<String>) -> Result<(), AgentError> {
        self.send(AgentEvent::Title(title.into())).await
    }

    /// Completes when the turn is cancelled, for agents that wait for something else.
    pub async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    async fn send(&self, mut event: AgentEvent) -> Result<(), AgentError> {
        loop {
            match self.queue.offer(self.turn, event) {
                Offer::Taken => return Ok(()),
                Offer::Ring => return self.ring().await,
                Offer::Over => return Err(AgentError::Cancelled),
                Offer::Full(back) => event = back,
            }
            self.queue.room(self.turn).await;
        }
    }

    async fn ring(&self) -> Result<(), AgentError> {
        EventQueue::ring(&self.queue, &self.inbox)
            .await
            .map_err(|()| AgentError::Cancelled)
    }
}

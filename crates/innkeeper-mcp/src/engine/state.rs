//! The state of a server, and its events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::broadcast;

use crate::engine::auth::SignIn;
use crate::engine::icons::Icon;

/// The state of a server (MCP-01).
#[derive(Clone, Debug, PartialEq)]
pub enum ServerState {
    /// It was started, and has not introduced itself yet.
    Starting {
        /// True if messages wait for it (MCP-03).
        blocking: bool,
    },
    /// It runs, and its tools are known.
    Ready,
    /// It can be reached, but needs a sign-in first (MCP-07).
    AuthRequired(Box<SignIn>),
    /// It does not run because of a failure.
    Error {
        /// The failure, and what to do about it.
        message: String,
        /// The time until it is restarted; nothing if it was given up.
        restarts_in: Option<Duration>,
    },
    /// It does not run because it was stopped.
    Stopped,
}

/// How a server introduced itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerInfo {
    /// Its name.
    pub name: Option<String>,
    /// Its title for users.
    pub title: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Its instructions for models. As trustworthy as the server.
    pub instructions: Option<String>,
    /// The protocol revision of the connection.
    pub protocol_version: String,
    /// Its capabilities, as it wrote them.
    pub capabilities: Value,
    /// Its icons, bounded.
    pub icons: Vec<Icon>,
}

impl ServerInfo {
    /// Returns true if the server has a capability, like `tools` or `resources`.
    pub fn can(&self, capability: &str) -> bool {
        self.capabilities.get(capability).is_some_and(|value| !value.is_null())
    }

    /// Returns true if the server sends notifications when a list changes.
    pub fn tells_changes(&self, capability: &str) -> bool {
        let told = self
            .capabilities
            .get(capability)
            .and_then(|value| value.get("listChanged"));
        told.and_then(Value::as_bool).unwrap_or_default()
    }
}

/// Identifies one tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(u64);

impl CallId {
    /// Returns an id that no other call of this process has.
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Default for CallId {
    fn default() -> Self {
        Self::new()
    }
}

/// A list of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum List {
    /// `tools/list`.
    Tools,
    /// `resources/list` and the templates.
    Resources,
    /// `prompts/list`.
    Prompts,
}

/// An event of a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The state changed.
    State(ServerState),
    /// A list changed. Several changes in a row are one event.
    ListChanged(List),
    /// A resource with a subscription changed.
    ResourceUpdated {
        /// The resource.
        uri: String,
    },
    /// A user has finished the visit to an address ([`crate::Question::Url`]).
    VisitEnded {
        /// The id that the server gave the question.
        id: String,
    },
    /// The server wrote a log message.
    Log(Arc<LogMessage>),
    /// A call waits for a sign-in, and goes on by itself afterwards.
    SignInNeeded {
        /// The call.
        call: CallId,
        /// The sign-in.
        sign_in: Box<SignIn>,
    },
    /// A call that waited for a sign-in goes on.
    SignedIn {
        /// The call.
        call: CallId,
    },
}

/// A log message of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct LogMessage {
    /// The level, from `debug` to `emergency`.
    pub level: String,
    /// The logger.
    pub logger: Option<String>,
    /// The message. Secrets of the configuration are hidden.
    pub data: Value,
}

/// The number of events that are kept for slow receivers: rare ones, and those that servers send as often as they like.
const KEPT_EVENTS: usize = 256;

/// Sends the events of a server. Log messages and the like have a channel of their own, so that however many come, no
/// receiver misses a sign-in or a changed list (F17).
#[derive(Debug)]
pub(crate) struct EventSender {
    told: broadcast::Sender<Event>,
    chatter: broadcast::Sender<Event>,
}

impl EventSender {
    pub(crate) fn new() -> Self {
        Self {
            told: broadcast::Sender::new(KEPT_EVENTS),
            chatter: broadcast::Sender::new(KEPT_EVENTS),
        }
    }

    /// Sends an event to all receivers.
    pub(crate) fn send(&self, event: Event) {
        let way = match event {
            Event::Log(_) | Event::ResourceUpdated { .. } | Event::VisitEnded { .. } => &self.chatter,
            Event::State(_) | Event::ListChanged(_) | Event::SignInNeeded { .. } | Event::SignedIn { .. } => &self.told,
        };
        // There may be no receiver.
        let _ = way.send(event);
    }

    pub(crate) fn subscribe(&self) -> Events {
        Events {
            told: self.told.subscribe(),
            chatter: self.chatter.subscribe(),
        }
    }
}

/// The events of a server, from now on.
#[derive(Debug)]
pub struct Events {
    told: broadcast::Receiver<Event>,
    chatter: broadcast::Receiver<Event>,
}

impl Events {
    /// Returns the next event; nothing when the server is gone. Slow receivers miss the oldest events: the state and the lists
    /// can be read at any time. Log messages come last.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            let received = tokio::select! {
                biased;
                event = self.told.recv() => event,
                event = self.chatter.recv() => event,
            };
            match received {
                Ok(event) => return Some(event),
                Err(broadcast::error::RecvError::Lagged(missed)) => {
                    tracing::debug!(missed, "events of an MCP server were missed");
                }
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

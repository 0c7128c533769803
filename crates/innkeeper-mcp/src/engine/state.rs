//! What a server does, and what happens to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::broadcast;

use crate::engine::auth::SignIn;
use crate::engine::icons::Icon;

/// What a server does (MCP-01).
#[derive(Clone, Debug, PartialEq)]
pub enum ServerState {
    /// It was started, and has not introduced itself yet.
    Starting {
        /// Whether messages wait for it (MCP-03).
        blocking: bool,
    },
    /// It runs, and its tools are known.
    Ready,
    /// It can be reached, but somebody has to sign in first (MCP-07).
    AuthRequired(Box<SignIn>),
    /// It does not run, and nobody wanted that.
    Error {
        /// What happened, and what to do.
        message: String,
        /// When it is started again; never, if it was given up.
        restarts_in: Option<Duration>,
    },
    /// It does not run, because that is wanted.
    Stopped,
}

/// How a server introduced itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerInfo {
    /// What it calls itself.
    pub name: Option<String>,
    /// What people call it.
    pub title: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// What it tells models about itself. As trustworthy as the server.
    pub instructions: Option<String>,
    /// The version of the protocol that is spoken.
    pub protocol_version: String,
    /// What it can do, as it said it.
    pub capabilities: Value,
    /// The pictures that it shows itself with, within bounds.
    pub icons: Vec<Icon>,
}

impl ServerInfo {
    /// Whether it said that it can do something, like `tools` or `resources`.
    pub fn can(&self, capability: &str) -> bool {
        self.capabilities.get(capability).is_some_and(|value| !value.is_null())
    }

    /// Whether it said that it tells when a list changes.
    pub fn tells_changes(&self, capability: &str) -> bool {
        let told = self
            .capabilities
            .get(capability)
            .and_then(|value| value.get("listChanged"));
        told.and_then(Value::as_bool).unwrap_or_default()
    }
}

/// One call of a tool, to tell apart what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(u64);

impl CallId {
    /// One that no other call of this process has.
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

/// Which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum List {
    /// `tools/list`.
    Tools,
    /// `resources/list` and the templates.
    Resources,
    /// `prompts/list`.
    Prompts,
}

/// Something that happened to a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// It does something else now.
    State(ServerState),
    /// A list is different from before. Many changes in a row are told once.
    ListChanged(List),
    /// A resource that was subscribed to is different.
    ResourceUpdated {
        /// Which.
        uri: String,
    },
    /// Somebody has finished what an address was visited for ([`crate::Question::Url`]).
    VisitEnded {
        /// What the server calls it.
        id: String,
    },
    /// It wrote something for its log.
    Log(Arc<LogMessage>),
    /// A call waits for somebody to sign in, and goes on by itself afterwards.
    SignInNeeded {
        /// Which call.
        call: CallId,
        /// What for.
        sign_in: Box<SignIn>,
    },
    /// A call that waited for somebody to sign in goes on.
    SignedIn {
        /// Which call.
        call: CallId,
    },
}

/// A line of a server's log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogMessage {
    /// How important, from `debug` to `emergency`.
    pub level: String,
    /// Which part of it.
    pub logger: Option<String>,
    /// What it says. Secrets of its configuration are hidden.
    pub data: Value,
}

/// How many events are kept for whoever is slow, and how many of what servers write as often as they like.
const KEPT_EVENTS: usize = 256;

/// Where what happens to a server is told. What servers can say without end has a way of its own: however
/// much of it comes, nobody misses that they have to sign in, or that a list changed (F17).
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

    /// Tells everybody who listens.
    pub(crate) fn send(&self, event: Event) {
        let way = match event {
            Event::Log(_) | Event::ResourceUpdated { .. } | Event::VisitEnded { .. } => &self.chatter,
            Event::State(_) | Event::ListChanged(_) | Event::SignInNeeded { .. } | Event::SignedIn { .. } => &self.told,
        };
        // Nobody has to listen.
        let _ = way.send(event);
    }

    pub(crate) fn subscribe(&self) -> Events {
        Events {
            told: self.told.subscribe(),
            chatter: self.chatter.subscribe(),
        }
    }
}

/// What happens to a server, from now on.
#[derive(Debug)]
pub struct Events {
    told: broadcast::Receiver<Event>,
    chatter: broadcast::Receiver<Event>,
}

impl Events {
    /// The next event; nothing when the server is gone. Whoever is slow misses the oldest ones: the
    /// state and the lists themselves are always there to be looked at. What a server says in numbers that
    /// are up to it, such as lines of its log, comes last, and crowds nothing else out.
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

//! Clients of older versions in a run.
//!
//! They speak their version on the wire: their messages go through the edge of the host ([`innkeeper_host::dialect`]) in
//! both directions. This crate links the published reducers of the newest version only, so the caller of a run brings
//! those of the others as [`OlderMirror`]s. Whenever such a client has read everything, its states equal fresh snapshots
//! of its version.

mod changes;
mod client;
mod operations;

use std::fmt;

use innkeeper_core::{ActionFrame, Version, Wire};
use innkeeper_host::dialect::Edge;
use serde_json::Value;

pub(in crate::sim) use self::operations::OlderPair;

/// The states of a client of an older version, reduced with the published reducers of that version.
pub trait OlderMirror: fmt::Debug {
    /// The version.
    fn version(&self) -> Version;
    /// The name of the root channel.
    fn root(&self) -> &'static str;
    /// Takes a snapshot: `resource`, `state` and `fromSeq`.
    fn show(&mut self, snapshot: &Value) -> Result<(), String>;
    /// Reduces the action in the parameters of an `action` message.
    fn reduce(&mut self, params: &Value) -> Result<(), String>;
    /// Forgets a channel.
    fn forget(&mut self, channel: &str);
    /// The state of a channel, as the version encodes it.
    fn state(&self, channel: &str) -> Option<Value>;
    /// The first difference between the state of a channel and a fresh one, apart from members that no action of the
    /// version carries.
    fn difference(&self, mine: Value, fresh: Value) -> Option<String>;
    /// The action with which the version does this, if it can.
    fn action(&self, intent: &Intent) -> Option<Value>;
}

/// Makes the mirror of a new client.
pub type NewOlderMirror = fn() -> Box<dyn OlderMirror>;

/// The purpose of an action, apart from how a version says it.
#[derive(Debug, Clone)]
pub enum Intent {
    /// Starts a turn.
    StartTurn {
        /// Its id.
        turn: String,
        /// The message.
        text: String,
    },
    /// Cancels a turn.
    CancelTurn {
        /// Its id.
        turn: String,
    },
    /// Queues a message.
    Queue {
        /// Its id.
        id: String,
        /// The message.
        text: String,
    },
    /// Approves or denies a tool call.
    Decide {
        /// The turn of the call.
        turn: String,
        /// The call.
        call: String,
        /// Whether it may run.
        is_approved: bool,
    },
    /// Declines a question.
    Decline {
        /// The request.
        request: String,
    },
    /// Renames a session.
    Rename {
        /// The title.
        title: String,
    },
    /// Marks a session as read or unread.
    MarkRead {
        /// Whether it is read.
        is_read: bool,
    },
    /// Marks files of a view as reviewed, or takes that back.
    Review {
        /// The files.
        files: Vec<String>,
        /// Whether they are reviewed.
        reviewed: bool,
    },
    /// Sets an annotation with one entry.
    Annotate {
        /// The session whose annotation it is.
        session: String,
        /// Its id.
        id: String,
        /// The entry.
        entry: String,
        /// The file.
        resource: String,
        /// The text of the entry.
        text: String,
    },
    /// Resolves an annotation, or opens it again.
    Resolve {
        /// Its id.
        id: String,
        /// Whether it is resolved.
        is_resolved: bool,
    },
    /// Sets an entry of an annotation.
    WriteEntry {
        /// The annotation.
        id: String,
        /// The entry.
        entry: String,
        /// Its text.
        text: String,
    },
    /// Removes an entry of an annotation.
    RemoveEntry {
        /// The annotation.
        id: String,
        /// The entry.
        entry: String,
    },
    /// Removes an annotation.
    RemoveAnnotation {
        /// Its id.
        id: String,
    },
}

/// A bug of the translation, to prove that runs with older clients notice it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TranslationBug {
    /// The last step to the client's version is missing.
    MissingStep,
    /// Of several actions that take the place of one, the last is lost.
    LoseLastAction,
    /// Actions that mean something else in the client's version go out as they are.
    ShareBytes,
}

impl TranslationBug {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::MissingStep, Self::LoseLastAction, Self::ShareBytes];

    /// The version that an edge with this bug speaks.
    fn version(self, version: Version) -> Version {
        let above = Version::ALL.into_iter().take_while(|newer| *newer > version).last();
        match self {
            Self::MissingStep => above.unwrap_or(version),
            Self::LoseLastAction | Self::ShareBytes => version,
        }
    }
}

/// The edge of a connection in a run, perhaps with a bug.
#[derive(Debug)]
pub(in crate::sim) struct SimEdge {
    edge: Edge,
    bug: Option<TranslationBug>,
}

impl SimEdge {
    pub(in crate::sim) fn new(version: Version, client_id: &str, bug: Option<TranslationBug>) -> Self {
        let edge = Edge::default();
        edge.begin(bug.map_or(version, |bug| bug.version(version)), client_id);
        Self { edge, bug }
    }

    pub(in crate::sim) fn edge(&self) -> &Edge {
        &self.edge
    }

    /// Translates one message.
    pub(in crate::sim) fn down(&self, message: Wire) -> Vec<Wire> {
        let is_other = |frame: &ActionFrame| frame.same > self.edge.version();
        match (self.bug, message) {
            (Some(TranslationBug::ShareBytes), Wire::Action(frame)) if is_other(&frame) => vec![Wire::Action(frame)],
            (Some(TranslationBug::LoseLastAction), Wire::Action(frame)) => {
                let mut shown = self.edge.down(vec![Wire::Action(frame)]);
                if shown.len() > 1 {
                    shown.pop();
                }
                shown
            }
            (_, message) => self.edge.down(vec![message]),
        }
    }
}

//! The records that a journal persists, and their stored forms.
//!
//! A channel is persisted as a document, which is its state at some moment, and the log of the actions accepted
//! since. Completed turns are rows of their own, so that neither a document nor a start of the host ever touches a
//! long history. The core decides what is written and when; a journal preserves the order and returns what it was
//! given.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

pub(crate) mod document;
mod imported;
mod leftover;
mod restore;
mod upgrade;

pub use imported::{approvals_in_action, mark_imported, without_import_mark};
pub use leftover::leftover_as_draft;
pub(crate) use restore::{RestoredChat, restore_enablement, restore_root};
pub use restore::{RestoredSession, restore};
pub use upgrade::upgraded_turns;

use crate::ids::Seq;
use crate::protocol::action_table::Durability;
use crate::protocol::frame::ActionFrame;

/// One change to persist. Records are persisted in the order the core emits them.
#[derive(Debug, Clone)]
pub enum Record {
    /// An accepted action joins the log of its channel.
    Action(ActionRecord),
    /// The document of a session replaces the one before. Its log up to [`SessionRecord::seq`] is needed for replay
    /// only.
    Session(Box<SessionRecord>),
    /// The summary of a session that is already persisted.
    Summary(Box<SummaryRecord>),
    /// A session is removed, with its chats, their turns and their logs.
    SessionRemoved {
        /// Its URI.
        uri: Arc<str>,
    },
    /// A session was deleted, which can be undone for a while. Until then no client can open it, and its URI and
    /// those of its chats are taken.
    SessionDeleted {
        /// Its URI.
        uri: Arc<str>,
        /// When, in milliseconds since 1970.
        at_ms: i64,
    },
    /// The document of a chat replaces the one before; its turns stay.
    Chat(Box<ChatRecord>),
    /// A chat is removed, with its turns and its log.
    ChatRemoved {
        /// Its URI.
        uri: Arc<str>,
    },
    /// The turns of a chat from one on are replaced by these.
    Turns {
        /// The chat's URI.
        chat: Arc<str>,
        /// How many of the persisted turns stay.
        from: usize,
        /// The turns that follow them.
        turns: Vec<TurnRecord>,
    },
    /// A chat starts with turns of another one, which also has them.
    CopyTurns {
        /// The chat that has the turns.
        from: Arc<str>,
        /// The chat that has none yet.
        to: Arc<str>,
        /// How many of the oldest are copied.
        count: usize,
    },
    /// A client as it is now, for `reconnect` (NEG-20).
    Client {
        /// Its id.
        id: Arc<str>,
        /// The state of the client.
        document: Document,
        /// Whether the next message to the client contradicts its persisted state. The message waits until this
        /// record is durable: a later run would continue a state that the client no longer has.
        replaces: bool,
    },
    /// A client is no longer remembered.
    ClientForgotten {
        /// Its id.
        id: Arc<str>,
    },
    /// The host's own state: the root, grants and permanent approvals.
    Root {
        /// The last action that is part of the document.
        seq: Seq,
        /// The document.
        document: Document,
        /// Whether an answer to a client depends on something that only the document says, such as a grant.
        is_promised: bool,
    },
}

impl Record {
    /// Whether it has to be durable before any client sees it.
    pub fn is_durable(&self) -> bool {
        match self {
            Self::Action(action) => action.frame.durability == Durability::Durable,
            Self::Session(session) => session.is_new,
            Self::Chat(chat) => chat.is_new,
            Self::SessionRemoved { .. } | Self::SessionDeleted { .. } | Self::ChatRemoved { .. } => true,
            // A forgotten client that reconnects counts as new.
            Self::ClientForgotten { .. } => true,
            Self::Client { replaces, .. } => *replaces,
            // Other changes of the root are actions of their own, and so are the ends of turns.
            Self::Root { is_promised, .. } => *is_promised,
            Self::Summary(_) | Self::Turns { .. } | Self::CopyTurns { .. } => false,
        }
    }
}

/// Records that are persisted together or not at all: the consequences of some inputs.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// In order.
    pub records: Vec<Record>,
    /// The last sequence number that was given out, to a record or to anything else.
    pub seq: Seq,
}

impl Batch {
    /// Whether an effect waits until it is durable.
    pub fn is_durable(&self) -> bool {
        self.records.iter().any(Record::is_durable)
    }
}

/// An accepted action, with the very bytes that subscribers get.
#[derive(Debug, Clone)]
pub struct ActionRecord {
    /// The channel's URI.
    pub channel: Arc<str>,
    /// The action.
    pub frame: Arc<ActionFrame>,
}

/// A session to persist.
#[derive(Debug, Clone)]
pub struct SessionRecord {
    /// The last action that is part of the document.
    pub seq: Seq,
    /// Whether the session has just been created.
    pub is_new: bool,
    /// Whether no user has written in it yet: it is neither listed nor counted, and it is recovered when the host
    /// starts.
    pub is_draft: bool,
    /// Whether nothing runs in it. A session that is not at rest, or that has later actions, is recovered when the
    /// host starts.
    pub at_rest: bool,
    /// The summary for lists, unless it is a draft.
    pub summary: SummaryRecord,
    /// Everything else.
    pub document: Document,
}

/// The summary of a session.
#[derive(Debug, Clone)]
pub struct SummaryRecord {
    /// The session's URI.
    pub uri: Arc<str>,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it last changed, in milliseconds since 1970; lists show the latest first.
    pub modified_ms: i64,
    /// Whether a user archived it.
    pub is_archived: bool,
    /// The `SessionSummary`, as JSON.
    pub summary: Document,
}

/// A chat to persist.
#[derive(Debug, Clone)]
pub struct ChatRecord {
    /// Its URI.
    pub uri: Arc<str>,
    /// The URI of its session, which may have changed.
    pub session: Arc<str>,
    /// The last action that is part of the document.
    pub seq: Seq,
    /// Whether the chat has just been created.
    pub is_new: bool,
    /// Everything but its completed turns.
    pub document: Document,
}

/// A completed turn to persist.
#[derive(Debug, Clone)]
pub struct TurnRecord {
    /// Its id.
    pub id: Arc<str>,
    /// The `Turn`, as JSON.
    pub document: Document,
}

/// A document that its writer encodes, so that the core does not wait for it.
#[derive(Clone)]
pub struct Document(Arc<dyn Fn() -> Vec<u8> + Send + Sync>);

impl Document {
    /// A document that is encoded when it is asked for. PendingLoad twice, it gives the same bytes.
    pub fn new(encode: impl Fn() -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self(Arc::new(encode))
    }

    /// A document that is there already.
    pub fn ready(bytes: Vec<u8>) -> Self {
        Self::new(move || bytes.clone())
    }

    /// The document's bytes.
    pub fn encode(&self) -> Vec<u8> {
        (self.0)()
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Document")
    }
}

/// A persisted session.
#[derive(Debug, Clone, Default)]
pub struct StoredSession {
    /// Its URI.
    pub uri: String,
    /// The last action that is part of the document.
    pub seq: Seq,
    /// The document.
    pub document: Bytes,
    /// Its chats, in any order.
    pub chats: Vec<StoredChat>,
    /// The rest of the logs of the session and its chats, in order of their numbers: at least everything that is not
    /// part of a document, and more that `reconnect` may replay.
    pub log: Vec<StoredFrame>,
    /// Whether it was deleted and can still be restored; then only its URI is given.
    pub is_deleted: bool,
}

/// A session whose deletion can be undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedSession {
    /// Its URI.
    pub uri: String,
    /// When it was deleted, in milliseconds since 1970.
    pub deleted_ms: i64,
    /// The `SessionSummary` that it had, as JSON.
    pub summary: Bytes,
}

/// A persisted chat.
#[derive(Debug, Clone, Default)]
pub struct StoredChat {
    /// Its URI.
    pub uri: String,
    /// The last action that is part of the document.
    pub seq: Seq,
    /// The document.
    pub document: Bytes,
    /// All of its completed turns, oldest first.
    pub turns: Vec<StoredTurn>,
    /// The latest of them, oldest first; with any turns, at least the last one.
    pub recent: Vec<Bytes>,
}

/// The index entry of a turn, available without reading the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTurn {
    /// Its id.
    pub id: String,
    /// How many bytes it takes as JSON.
    pub bytes: usize,
}

/// An action of a log, or several that were merged.
#[derive(Debug, Clone)]
pub struct StoredFrame {
    /// The channel's URI.
    pub channel: Arc<str>,
    /// The number of the first action that is part of it: a client that has seen this one or a
    /// later one, but not the last, cannot be given the rest.
    pub first: Seq,
    /// The number it carries.
    pub seq: Seq,
    /// When it was accepted, in milliseconds since 1970.
    pub at_ms: i64,
    /// The whole notification, as subscribers get it.
    pub bytes: Bytes,
}

/// The persisted state of the host.
#[derive(Debug, Clone)]
pub struct StoredRoot {
    /// The last action that is part of the document.
    pub seq: Seq,
    /// The document.
    pub document: Bytes,
    /// The rest of the root channel's log, in order.
    pub log: Vec<StoredFrame>,
}

/// A persisted client.
#[derive(Debug, Clone)]
pub struct StoredClient {
    /// Its id.
    pub id: String,
    /// The document.
    pub document: Bytes,
}

/// One line of a list of sessions.
#[derive(Debug, Clone)]
pub struct StoredSummary {
    /// The session's URI.
    pub uri: String,
    /// When it last changed.
    pub modified_ms: i64,
    /// The `SessionSummary`, as JSON.
    pub summary: Bytes,
}

/// A session that a journal imported.
#[derive(Debug, Clone)]
pub struct ImportedSession {
    /// Its URI.
    pub uri: String,
    /// How many chats it has.
    pub chats: usize,
    /// How many completed turns they have together.
    pub turns: usize,
    /// Whether nothing ran in it when it was exported.
    pub at_rest: bool,
    /// The highest number in it. Every later action has a higher one.
    pub last_seq: Seq,
    /// The `SessionSummary`, as JSON.
    pub summary: Bytes,
    /// The approvals that it had before the import, which do not hold here.
    pub approvals: Vec<String>,
}

/// Why a session cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    /// Its rows are damaged: it cannot be opened, only deleted.
    Damaged(String),
    /// It could not be read this time.
    Failed(String),
    /// It was deleted and can still be restored.
    Deleted,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(problem) | Self::Failed(problem) => f.write_str(problem),
            Self::Deleted => f.write_str("it was deleted; `innkeeper sessions restore` restores it"),
        }
    }
}

/// Which sessions to list: the latest first, and of equally late ones the larger URI first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPage {
    /// Only those after this one: its [`StoredSummary::modified_ms`] and URI.
    pub after: Option<(i64, String)>,
    /// At most so many.
    pub limit: usize,
}

/// Where turns are read that are not in memory. Reading blocks, so only writers' own threads do.
pub trait TurnSource: fmt::Debug + Send + Sync {
    /// The turns of a chat in a range of positions, oldest first, as JSON. All of them, or the
    /// reason why not.
    fn read(&self, chat: &str, range: Range<usize>) -> Result<Vec<Bytes>, String>;

    /// The position of a turn, if the chat has it.
    fn position(&self, chat: &str, turn_id: &str) -> Result<Option<usize>, String>;
}

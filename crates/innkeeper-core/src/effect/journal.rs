//! Effects on the journal.

use std::ops::Range;
use std::sync::Arc;

use crate::ids::{ChannelId, ConnId};
use crate::protocol::request::RequestId;
use crate::storage::records::ListPage;

/// A command to the journal, besides those to persist something.
#[derive(Debug)]
pub enum JournalCommand {
    /// Load a session, by its URI or that of one of its chats; answer with `Input::Loaded`.
    Load {
        /// The URI.
        uri: Arc<str>,
    },
    /// Read turns of a chat that are not in memory; answer with `Input::TurnsLoaded`.
    LoadTurns {
        /// The chat.
        chat: ChannelId,
        /// Its URI.
        uri: Arc<str>,
        /// Their positions.
        range: Range<usize>,
    },
    /// List stored sessions for a request; answer with `Input::Listed` (ROOT-10).
    List {
        /// The connection that asked.
        conn: ConnId,
        /// The request to answer.
        id: RequestId,
        /// The page of the list.
        page: ListPage,
    },
    /// Persist a session that was exported by another host; answer with `Input::Imported`.
    Import {
        /// The connection that asked.
        conn: ConnId,
        /// The request to answer.
        id: RequestId,
        /// The export.
        text: String,
    },
    /// Answer a request with the sessions whose deletion can be undone.
    ListDeleted {
        /// The connection that asked.
        conn: ConnId,
        /// The request to answer.
        id: RequestId,
    },
    /// Undo the deletion of a session; answer with `Input::Imported`.
    UndoDeletion {
        /// The connection that asked.
        conn: ConnId,
        /// The request to answer.
        id: RequestId,
        /// The session's URI.
        uri: String,
    },
    /// Remove the sessions for good that were deleted before a moment, and the blobs beside them.
    PurgeDeleted {
        /// The moment, in milliseconds since 1970.
        before_ms: i64,
    },
}

impl JournalCommand {
    /// Returns the request that this command answers, if any.
    pub fn request(&self) -> Option<(ConnId, &RequestId)> {
        match self {
            Self::List { conn, id, .. }
            | Self::Import { conn, id, .. }
            | Self::ListDeleted { conn, id }
            | Self::UndoDeletion { conn, id, .. } => Some((*conn, id)),
            Self::Load { .. } | Self::LoadTurns { .. } | Self::PurgeDeleted { .. } => None,
        }
    }
}

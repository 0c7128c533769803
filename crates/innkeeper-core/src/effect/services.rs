//! Effects on the services of the host, one enum per service.

use std::collections::BTreeSet;
use std::sync::Arc;

use ahp_types::state::{ChatState, Turn};
use serde_json::{Map, Value};

use crate::agent::CommandInfo;
use crate::customization::CustomizationSources;
use crate::effect::TurnStart;
use crate::ids::{ChannelId, ConnId};
use crate::mcp::{ServersToRun, ToServer, TokenChange};
use crate::protocol::request::RequestId;
use crate::resources::{AllowedRoot, ResourceOp, VisibleSessions, WatchSpec};
use crate::session::changesets::{ChangesetView, OperationRequest};

/// A session that is gone for good: every service removes what it stored for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionErasure {
    /// The session's URI.
    pub uri: Arc<str>,
}

/// A command to the store of blobs.
#[derive(Debug)]
pub enum BlobCommand {
    /// Copy the blobs that chats refer to into the session that has the chats now.
    CopyForMovedChats(Box<ChatsMoved>),
}

/// Chats that belong to another session now.
#[derive(Debug)]
pub struct ChatsMoved {
    /// The URI of the session that they left.
    pub from: Arc<str>,
    /// The URI of the one that has them now.
    pub to: Arc<str>,
    /// The chats.
    pub chats: Vec<MovedChat>,
}

/// All that was said in a chat that moved.
#[derive(Debug)]
pub struct MovedChat {
    /// The chat's URI.
    pub uri: Arc<str>,
    /// Everything but its completed turns.
    pub head: Arc<ChatState>,
    /// How many of the oldest turns are in the store alone.
    pub stored: usize,
    /// Those that follow them.
    pub recent: Vec<Arc<Turn>>,
}

/// A request that is answered with completions.
#[derive(Debug)]
pub struct CompletionRequest {
    /// The connection that asked.
    pub conn: ConnId,
    /// The request to answer.
    pub id: RequestId,
    /// The text to complete.
    pub query: Box<CompletionQuery>,
}

/// A text to complete.
#[derive(Debug, Clone, PartialEq)]
pub enum CompletionQuery {
    /// A message (CMP-01).
    Message {
        /// The chat's agent.
        provider: String,
        /// The chat's URI.
        chat_uri: Arc<str>,
        /// The working directories of the chat.
        working_directories: Vec<String>,
        /// The message so far.
        text: String,
        /// The position of the cursor, in UTF-16 code units.
        offset: usize,
        /// The agent's slash commands.
        commands: Vec<CommandInfo>,
        /// The session.
        session: ChannelId,
        /// The ids of the customizations that are switched off.
        disabled_ids: Arc<BTreeSet<String>>,
    },
    /// The value of a setting (CMP-06).
    SettingValue {
        /// The agent.
        provider: String,
        /// The setting.
        property: String,
        /// The typed text; empty at first.
        query: String,
        /// The primary working directory of the session.
        working_directory: Option<String>,
        /// Values chosen so far.
        values: Map<String, Value>,
    },
}

/// A command to the service that discovers customizations.
#[derive(Debug)]
pub enum CustomizationCommand {
    /// Discover the customizations of a session, and report them whenever they change, with
    /// `Input::CustomizationsFound`. Sent again when the session wants others.
    Follow {
        /// The session.
        session: ChannelId,
        /// The customizations to discover.
        wanted: Box<CustomizationSources>,
    },
    /// Stop that, because the session has left memory.
    Unfollow {
        /// The session.
        session: ChannelId,
        /// The ids of the customizations that are switched off, for hooks that run at the end.
        disabled_ids: Arc<BTreeSet<String>>,
    },
}

/// A command to the service that runs MCP servers.
#[derive(Debug)]
pub enum McpCommand {
    /// Run these MCP servers of a session and no others, and report their status with `Input::McpServer`. Sent again
    /// when the session wants others.
    SetDesiredServers {
        /// The session.
        session: ChannelId,
        /// The servers.
        wanted: Box<ServersToRun>,
    },
    /// Release the MCP servers of a session that has left memory.
    ReleaseServers {
        /// The session.
        session: ChannelId,
    },
    /// Give the MCP servers of a resource another token, or take it away.
    SetToken {
        /// The resource.
        resource: String,
        /// The new token, or none.
        change: TokenChange,
        /// The request that is answered with an empty object once this is persisted: the answer must hold after a
        /// crash.
        answer: Option<(ConnId, RequestId)>,
    },
    /// Send a request of a client to an MCP server, and answer the client with the server's answer.
    Request {
        /// The connection that asked.
        conn: ConnId,
        /// The request to answer.
        id: RequestId,
        /// The session.
        session: ChannelId,
        /// The message to the server.
        message: Box<ToServer>,
    },
    /// Send a notification of a client to an MCP server.
    Notify {
        /// The session.
        session: ChannelId,
        /// The message to the server.
        message: Box<ToServer>,
    },
    /// Read or resolve a resource of an MCP server, and answer a request with it.
    ReadResource {
        /// The connection that asked.
        conn: ConnId,
        /// The request to answer.
        id: RequestId,
        /// The operation: read or resolve.
        op: Box<ResourceOp>,
        /// The sessions of the client; the resource belongs to one of them, or to none.
        sessions: Vec<ChannelId>,
    },
}

impl McpCommand {
    /// Returns the request that this command answers, if any.
    pub fn request(&self) -> Option<(ConnId, &RequestId)> {
        match self {
            Self::Request { conn, id, .. }
            | Self::ReadResource { conn, id, .. }
            | Self::SetToken {
                answer: Some((conn, id)),
                ..
            } => Some((*conn, id)),
            Self::SetDesiredServers { .. }
            | Self::ReleaseServers { .. }
            | Self::SetToken { answer: None, .. }
            | Self::Notify { .. } => None,
        }
    }
}

/// A command to the service that computes changes of files.
#[derive(Debug)]
pub enum ChangesCommand {
    /// Compute a view, and again whenever its files change, and report it with `ChangesetInput::Computed`. Sent again
    /// when the view is another one, or must be computed again.
    Follow {
        /// The channel of the view.
        channel: ChannelId,
        /// The view.
        view: Box<ChangesetView>,
    },
    /// Stop that.
    Unfollow {
        /// The channel of the view.
        channel: ChannelId,
    },
    /// Carry out an operation, and report it with `ChangesetInput::OperationDone`.
    Invoke {
        /// The connection that asked.
        conn: ConnId,
        /// The request to answer.
        id: RequestId,
        /// The channel of the view.
        channel: ChannelId,
        /// The view.
        view: Box<ChangesetView>,
        /// The operation.
        request: Box<OperationRequest>,
        /// The agent that suggests a message, if the operation is a commit and has none.
        writer: Option<Box<MessageWriter>>,
    },
    /// Make a Git worktree for a new session, and report it with `ChangesetInput::Isolated`.
    Isolate {
        /// The session.
        session: ChannelId,
        /// Its URI.
        uri: Arc<str>,
        /// Its directory, as a URI.
        directory: String,
    },
}

/// The agent of a session, with everything that it needs to write the message of a commit.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageWriter {
    /// The name of the agent.
    pub provider: String,
    /// The settings and tokens of a turn that the client of the commit would start. There is no such turn.
    pub start: TurnStart,
}

impl ChangesCommand {
    /// Returns the request that this command answers, if any.
    pub fn request(&self) -> Option<(ConnId, &RequestId)> {
        match self {
            Self::Invoke { conn, id, .. } => Some((*conn, id)),
            Self::Follow { .. } | Self::Unfollow { .. } | Self::Isolate { .. } => None,
        }
    }
}

/// A command to the service that observes Git repositories.
#[derive(Debug)]
pub enum RepositoryCommand {
    /// Observe the Git repository around a session's primary directory, and report its state whenever it changes, with
    /// `Input::RepositorySeen`. Sent again when the session works in another directory.
    Follow {
        /// The session.
        session: ChannelId,
        /// The directory, as a URI.
        directory: String,
    },
    /// Read the state again, because a turn is over and may have changed files.
    Refresh {
        /// The session.
        session: ChannelId,
    },
    /// Stop observing the repository of a session.
    Unfollow {
        /// The session.
        session: ChannelId,
    },
}

/// A command to the service that reads, writes and watches files.
#[derive(Debug)]
pub enum ResourceCommand {
    /// Perform an operation on resources, within these roots, and answer a request with the outcome.
    Perform {
        /// The connection that asked.
        conn: ConnId,
        /// The request to answer.
        id: RequestId,
        /// The operation.
        op: Box<ResourceOp>,
        /// The roots that the client may use.
        reaches: Vec<AllowedRoot>,
        /// The sessions whose customizations it may read besides.
        sight: VisibleSessions,
    },
    /// Open a watch within these roots; answer with `Input::WatchOpened`.
    OpenWatch {
        /// The connection that asked.
        conn: ConnId,
        /// The request to answer.
        id: RequestId,
        /// The watch's number.
        watch: u64,
        /// The resources to watch.
        spec: Box<WatchSpec>,
        /// The roots that the client may use.
        reaches: Vec<AllowedRoot>,
    },
    /// Close a watch.
    CloseWatch {
        /// Its number.
        watch: u64,
    },
}

impl ResourceCommand {
    /// Returns the request that this command answers, if any.
    pub fn request(&self) -> Option<(ConnId, &RequestId)> {
        match self {
            Self::Perform { conn, id, .. } | Self::OpenWatch { conn, id, .. } => Some((*conn, id)),
            Self::CloseWatch { .. } => None,
        }
    }
}
